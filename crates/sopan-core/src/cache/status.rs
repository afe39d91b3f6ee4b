//! What is a client told of what the cache did (`Cache-Status`, RFC 9211)?

use http::{HeaderValue, StatusCode};

use super::NotStored;

/// What the cache did with one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatus {
    /// Whether the answer came from the store without asking.
    pub hit: bool,
    /// Why the request went to the upstream.
    pub forward: Option<Forward>,
    /// What the upstream answered, where that is not what the client got.
    pub forward_status: Option<StatusCode>,
    /// For how long the answer is fresh still, in seconds, below 0 where it is stale.
    pub ttl: Option<i64>,
    /// Whether the answer is stored.
    pub stored: bool,
    /// Whether the request shared that of another.
    pub collapsed: bool,
    /// What else there is to say.
    pub detail: Option<Detail>,
}

/// Why a request went to the upstream (RFC 9211 §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// The cache has no part in it.
    Bypass,
    /// Its method is not one that is answered from store.
    Method,
    /// Nothing is stored for its target.
    UriMiss,
    /// What is stored is for other requests.
    VaryMiss,
    /// The request asked for it.
    Request,
    /// What is stored is not fresh.
    Stale,
    /// Of what is asked for, only a part is stored.
    Partial,
}

/// What else there is to say, as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Why the answer is not stored.
    NotStored(NotStored),
    /// It is given though it is stale, because the upstream failed.
    StaleOnError,
    /// Because the upstream cannot be reached, or is held to be down.
    StaleDisconnected,
    /// Because there is no token for the request in time.
    StaleNoToken,
    /// And it is asked about in the background.
    StaleWhileRevalidate,
    /// Because the client takes it (`max-stale`).
    StaleAccepted,
}

impl CacheStatus {
    /// A line of `Cache-Status`.
    pub fn value(&self) -> HeaderValue {
        HeaderValue::from_static("sopan")
    }
}
