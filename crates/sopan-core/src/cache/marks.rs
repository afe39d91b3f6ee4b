//! Which fields that matter to a cache does a request have?
//!
//! Most have none of them, and to look for each in turn would cost more than to read the whole head. So each name is looked
//! at once, and what was seen is asked for from then on.
//!
//! What the fields say is for others to read.

use http::header::{
    AUTHORIZATION, CACHE_CONTROL, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, PRAGMA,
    RANGE, UPGRADE, VIA,
};
use http::{HeaderMap, HeaderName};

use crate::headers::is_credential;

/// The kinds of fields that a request has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(u16);

impl Marks {
    /// `Cache-Control` or `Pragma`.
    pub const DIRECTIVES: Self = Self(1);
    /// `If-Match` or `If-Unmodified-Since`, which only the upstream can judge.
    pub const FOR_UPSTREAM: Self = Self(1 << 1);
    /// `If-None-Match` or `If-Modified-Since`: what the client has already.
    pub const CONDITIONS: Self = Self(1 << 2);
    /// `Range`
    pub const RANGE: Self = Self(1 << 3);
    /// `If-Range`
    pub const IF_RANGE: Self = Self(1 << 4);
    /// `Authorization`
    pub const AUTHORIZATION: Self = Self(1 << 5);
    /// A credential of any other kind: a cookie, a key.
    pub const OTHER_CREDENTIAL: Self = Self(1 << 6);
    /// `Upgrade`
    pub const UPGRADE: Self = Self(1 << 7);
    /// `Via`
    pub const VIA: Self = Self(1 << 8);
    /// By which it is known whose a request is.
    pub const CREDENTIAL: Self = Self(Self::AUTHORIZATION.0 | Self::OTHER_CREDENTIAL.0);
    /// By which requests for the same differ, before any answer has said by what else.
    pub const DISTINCTIVE: Self = Self(Self::FOR_UPSTREAM.0 | Self::CONDITIONS.0 | Self::RANGE.0 | Self::IF_RANGE.0);

    /// Those of a request.
    ///
    /// ```
    /// use http::{HeaderMap, HeaderValue};
    /// use sopan_core::cache::Marks;
    ///
    /// let mut fields = HeaderMap::new();
    /// fields.insert("accept", HeaderValue::from_static("*/*"));
    /// fields.insert("x-api-key", HeaderValue::from_static("abc"));
    /// let marks = Marks::of(&fields);
    /// assert!(marks.has(Marks::CREDENTIAL) && !marks.has(Marks::RANGE));
    /// ```
    pub fn of(request: &HeaderMap) -> Self {
        Self(request.keys().fold(0, |marks, name| marks | Self::of_name(name).0))
    }

    /// Whether there is a field of this kind, or of one of these.
    pub fn has(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }

    fn of_name(name: &HeaderName) -> Self {
        match *name {
            CACHE_CONTROL | PRAGMA => Self::DIRECTIVES,
            IF_MATCH | IF_UNMODIFIED_SINCE => Self::FOR_UPSTREAM,
            IF_NONE_MATCH | IF_MODIFIED_SINCE => Self::CONDITIONS,
            RANGE => Self::RANGE,
            IF_RANGE => Self::IF_RANGE,
            AUTHORIZATION => Self::AUTHORIZATION,
            UPGRADE => Self::UPGRADE,
            VIA => Self::VIA,
            ref other if is_credential(other) => Self::OTHER_CREDENTIAL,
            _ => Self::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn each_field_is_of_one_kind_and_the_others_are_of_none() {
        for (name, expected) in [
            ("cache-control", Marks::DIRECTIVES),
            ("pragma", Marks::DIRECTIVES),
            ("if-match", Marks::FOR_UPSTREAM),
            ("if-unmodified-since", Marks::FOR_UPSTREAM),
            ("if-none-match", Marks::CONDITIONS),
            ("if-modified-since", Marks::CONDITIONS),
            ("range", Marks::RANGE),
            ("if-range", Marks::IF_RANGE),
            ("authorization", Marks::AUTHORIZATION),
            ("cookie", Marks::OTHER_CREDENTIAL),
            ("proxy-authorization", Marks::OTHER_CREDENTIAL),
            ("x-api-key", Marks::OTHER_CREDENTIAL),
            ("upgrade", Marks::UPGRADE),
            ("via", Marks::VIA),
            ("idempotency-key", Marks::default()),
            ("accept", Marks::default()),
            ("host", Marks::default()),
            ("x-request-id", Marks::default()),
        ] {
            let mut fields = HeaderMap::new();
            fields.insert("accept", HeaderValue::from_static("*/*"));
            fields.insert(name, HeaderValue::from_static("1"));
            assert_eq!(Marks::of(&fields), expected, "{name}");
        }
        assert_eq!(Marks::of(&HeaderMap::new()), Marks::default());
    }
}
