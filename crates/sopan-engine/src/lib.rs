//! The engine of sopan: a polite HTTP client that paces, waits its turn, retries where that is safe, and explains.
//!
//! [`ApiClient`] is the comfortable door for a program: [`get_json`](ApiClient::get_json) for one answer,
//! [`pages`](ApiClient::pages) for a whole collection, and a `tower_service::Service` for any request.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use sopan_engine::{ApiClient, PagesSettings};
//!
//! let api = ApiClient::builder("https://api.example.com")?.limit("10/s burst 20".parse()?).build()?;
//! let me: serde_json::Value = api.get_json("/v1/me").await?;
//!
//! // Where records and next pages are is told by the first page, or by settings.
//! let mut pages = api.pages("/v1/orders", PagesSettings::default());
//! while let Some(page) = pages.next().await {
//!     for record in page?.records() {
//!         let order: serde_json::Value = serde_json::from_slice(record)?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The whole program is `examples/polite.rs`. An [`Error`] says what can be done about it: run it again later, or mend something
//! first. What a program asks waits as long as it takes; it never asks faster than the limits allow, however many tasks ask.
//!
//! Below that, [`Upstream`] is one API with its limits, and [`exchange::call`] one request to it. What it decides is in
//! `sopan-core`; what it does is here.
//!
//! | module | what it does |
//! |---|---|
//! | [`exchange`] | the straight line from request to answer |
//! | [`pages`] | collections, page by page |
//! | `dispatcher` | the only loop that waits its turn |
//! | `transport` | connections, and HTTP over them |
//! | `coalesce` | equal requests that share one answer |
//! | `credential` | the key of the upstream, put in when a request is sent |
//! | [`body`] | request bodies that can be sent again |
//! | [`refusal`] | every answer that sopan gives by itself |
//! | [`event`] | what became of an exchange, for whoever counts or logs |
//! | `state` | what outlives the process, on file |
//! | `store` | answers that are kept to be given again |
//! | [`clock`], [`jitter`] | the only readers of time and of chance |

pub mod body;
mod budget;
mod client;
pub mod clock;
mod coalesce;
pub mod commons {
    //! What a server does for those who have stored answers in common: see [`CommonsServer`].

    pub use crate::store::{
        CaughtUp, CommonsError, CommonsServer, Fetched, Known, Lead, Led, Name, Notice, Purges, Put, Reply, Slot, Step,
        Tag, Target, Untrue, Whose,
    };
}
mod credential;
mod digest;
mod dispatcher;
mod error;
pub mod event;
pub mod exchange;
mod interim;
pub mod jitter;
pub mod pages;
pub mod refusal;
pub mod shared;
mod state;
mod store;
mod transport;
mod upstream;

pub use client::{ApiClient, Builder, Fetched};
pub use credential::{Credential, CredentialError, CredentialPlace};
pub use error::Error;
pub use interim::Interims;
pub use pages::{Page, PageError, Pages, PagesSettings};
pub use sopan_core::hints::parse_retry_after;
pub use sopan_core::policy::RetryPolicy;
pub use sopan_core::retry::backoff_delay;
pub use state::{StateError, StateFile, StateHandle};
pub use store::{
    Cache, CacheError, CacheSettings, CommonsSettings, CommonsUsage, DiskSettings, DiskState, DiskUsage, Purge, Purged,
    Usage,
};

pub use transport::{ClientCertificate, Dial, Io, Roots, Stream, Target, TargetError, TlsError, WireError};
pub use upstream::{CannotChange, Look, Settings, SetupError, Surroundings, Upstream};
