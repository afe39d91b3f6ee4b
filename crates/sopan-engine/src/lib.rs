//! The engine of sopan: a polite HTTP client that paces, waits its turn, retries where that is safe, and explains.
//!
//! [`Upstream`] is one API with its limits; [`exchange::call`] is one request to it. [`ApiClient`] is the comfortable door
//! for a program: `get_json` and nothing else to think about. What it decides is in `sopan-core`; what it does is here.
//!
//! | module | what it does |
//! |---|---|
//! | [`exchange`] | the straight line from request to answer |
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
