//! What do the directives of a message say (RFC 9111 §5.2, RFC 5861, RFC 8246, RFC 9213)?

use http::{HeaderMap, HeaderName};

/// The directives of a request, its `Pragma` included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// `no-store`
    pub no_store: bool,
    /// `no-cache`, or `Pragma: no-cache` where there is no `Cache-Control`.
    pub no_cache: bool,
    /// `only-if-cached`
    pub only_if_cached: bool,
    /// `max-age`, in seconds; one that cannot be read is 0.
    pub max_age: Option<u32>,
    /// `min-fresh`, in seconds; one that cannot be read is not there.
    pub min_fresh: Option<u32>,
    /// `max-stale`, in seconds; `u32::MAX` where it stands alone. One that cannot be read is not there.
    pub max_stale: Option<u32>,
    /// `stale-if-error` (RFC 5861), in seconds; one that cannot be read is not there.
    pub stale_if_error: Option<u32>,
}

impl RequestDirectives {
    /// Reads them.
    pub fn read(_headers: &HeaderMap) -> Self {
        Self::default()
    }
}

/// The directives of an answer: those of the field that speaks to this cache, or of `Cache-Control`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseDirectives {
    /// Whether they come from a targeted field (RFC 9213), beside which neither `Cache-Control` nor `Expires` nor `Pragma`
    /// is looked at.
    pub is_targeted: bool,
    /// `no-store`
    pub no_store: bool,
    /// `no-cache`: must be asked about before each use.
    pub no_cache: Scope,
    /// `private`
    pub private: Scope,
    /// `public`
    pub public: bool,
    /// `must-revalidate`
    pub must_revalidate: bool,
    /// `proxy-revalidate`
    pub proxy_revalidate: bool,
    /// `must-understand`
    pub must_understand: bool,
    /// `immutable` (RFC 8246)
    pub immutable: bool,
    /// `max-age`, in seconds. One that cannot be read, or is there twice with two values, is 0 (RFC 9111 §4.2.1).
    pub max_age: Option<u32>,
    /// `s-maxage`, likewise.
    pub s_maxage: Option<u32>,
    /// `stale-while-revalidate` (RFC 5861), in seconds; one that cannot be read is not there.
    pub stale_while_revalidate: Option<u32>,
    /// `stale-if-error` (RFC 5861), likewise.
    pub stale_if_error: Option<u32>,
}

/// How much of an answer a directive is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Nothing: it is not there.
    #[default]
    None,
    /// These fields only (`no-cache="set-cookie"`).
    Fields(Box<[HeaderName]>),
    /// All of it.
    All,
}

impl ResponseDirectives {
    /// Reads them; `targeted` names the fields that speak to this cache, the most important first.
    pub fn read(_headers: &HeaderMap, _targeted: &[HeaderName]) -> Self {
        Self::default()
    }
}
