//! Is what a client, or this cache, has already still good (RFC 9110 §13, RFC 9111 §4.3)?

use http::{HeaderMap, HeaderValue};

use super::Stored;

/// Whether a request that says what it has already (`If-None-Match`, else `If-Modified-Since`) need not be sent this
/// answer again: the answer is 304 (RFC 9110 §13.2.2, RFC 9111 §4.3.2).
pub fn is_not_modified(_request: &HeaderMap, _stored: &HeaderMap) -> bool {
    false
}

/// Whether a request has conditions that only the upstream can judge: `If-Match`, `If-Unmodified-Since`.
pub fn is_for_upstream(_request: &HeaderMap) -> bool {
    false
}

/// What the upstream is asked with, whether answers in store are still good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The value of `If-None-Match`, if any of them has an entity tag.
    pub none_match: Option<HeaderValue>,
    /// That of `If-Modified-Since`, of the answer that would be used.
    pub modified_since: Option<HeaderValue>,
}

impl Conditions {
    /// Those for `used`, the answer that would be used, and the other variants of it that may be chosen instead.
    pub fn of(_used: &Stored, _others: &[&Stored]) -> Self {
        Self::default()
    }

    /// Whether there is anything to ask with.
    pub fn is_empty(&self) -> bool {
        self.none_match.is_none() && self.modified_since.is_none()
    }

    /// Puts them into a request, in place of the client's own: the two are never mixed.
    pub fn apply(&self, _request: &mut HeaderMap) {}
}

/// Whether a 304 with these fields is about this answer (RFC 9111 §4.3.4): it has the same validator, or none at all and
/// answers what was asked about this one alone.
pub fn is_about(_not_modified: &HeaderMap, _stored: &HeaderMap, _is_only_one: bool) -> bool {
    false
}

/// The fields of a stored answer after one that has updated it (RFC 9111 §3.2): those of the update replace all lines of
/// theirs, but what describes the stored body stays.
pub fn updated(stored: &HeaderMap, _update: &HeaderMap) -> HeaderMap {
    stored.clone()
}

/// Whether two answers have the same strong validator, so that parts of their bodies are parts of one (RFC 9110 §8.8.1).
pub fn is_same_body(_a: &HeaderMap, _b: &HeaderMap) -> bool {
    false
}
