//! The upstream double of sopan's demos and tests. It imports nothing of the product, so that it can judge it.
//!
//! Two upstreams that answer different questions:
//! - [`FakeApi`] is a small order API, and a language model's, with limits and faults on order; with a [`Profile`] also what
//!   a well-known vendor's API is to who reads its collections. It says whether a client keeps to a limit,
//!   counted as strictly as the strictest vendor would, and its log is the oracle of what arrived and when.
//! - [`script`] plays any upstream byte by byte and records every request raw. It says what exactly was sent, on which
//!   connection, and how the client takes a fault at a chosen byte.
//!
//! Both read tokio's clock only and both run over a socket or in process over [`tokio::io::duplex`]: in process the
//! clock can be paused, so that a wait of an hour takes no time. A paused clock and a real socket do not go together.

mod api;
mod chat;
mod clock;
mod collection;
pub mod conformance;
mod cursor;
mod dice;
mod etag;
pub mod http_date;
mod io;
mod json;
mod limits;
mod log;
pub mod open_metrics;
mod orders;
mod profile;
mod query;
mod reply;
pub mod script;
mod settings;

pub use api::FakeApi;
pub use etag::Etag;
pub use limits::{Limit, Window};
pub use log::Entry;
pub use orders::PAGE_SIZE_MAX;
pub use profile::{Defaults, Profile};
pub use settings::{Cut, RetryAfter, Settings};
