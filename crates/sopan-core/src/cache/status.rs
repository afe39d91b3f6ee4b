//! What is a client told of what the cache did (`Cache-Status`, RFC 9211)?
//!
//! One member of the field's list, with words of the RFC and, as `detail`, of our own; metrics and the log use the same. That
//! it is added behind what caches before this one have said is for the caller to see to.

use http::{HeaderValue, StatusCode};

use super::NotStored;
use crate::decimal::Decimal;

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
    /// Whether the answer is stored, which is known for good only when its body has come: this is told before.
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
    const MISS_WITHOUT_LIFETIME: Self = Self {
        hit: false,
        forward: Some(Forward::UriMiss),
        forward_status: None,
        ttl: None,
        stored: false,
        collapsed: false,
        detail: Some(Detail::NotStored(NotStored::NoLifetime)),
    };

    /// A line of `Cache-Status`.
    ///
    /// ```
    /// use sopan_core::cache::status::CacheStatus;
    ///
    /// let status = CacheStatus { hit: true, ttl: Some(12), ..CacheStatus::default() };
    /// assert_eq!(status.value(), "sopan; hit; ttl=12");
    /// ```
    pub fn value(&self) -> HeaderValue {
        // Most answers of an API that does not think of caches say this.
        if *self == Self::MISS_WITHOUT_LIFETIME {
            return HeaderValue::from_static("sopan; fwd=uri-miss; detail=no-lifetime");
        }
        HeaderValue::from_bytes(self.line().bytes()).expect("words and numbers are of ASCII")
    }

    /// Appends the same to a text.
    pub fn write(&self, text: &mut Vec<u8>) {
        text.extend_from_slice(self.line().bytes());
    }

    fn line(&self) -> Line {
        let mut line = Line::default();
        line.text("sopan");
        match self.forward {
            // What had to be asked for is no hit (RFC 9211 §2.1), and only then is there more to say of it.
            Some(forward) => self.forwarded(&mut line, forward),
            None if self.hit => line.text("; hit"),
            None => {}
        }
        if let Some(ttl) = self.ttl {
            line.text("; ttl=");
            line.integer(ttl);
        }
        if let Some(detail) = self.detail {
            line.text("; detail=");
            line.text(detail.word());
        }
        line
    }

    fn forwarded(&self, line: &mut Line, forward: Forward) {
        line.text("; fwd=");
        line.text(forward.word());
        if let Some(status) = self.forward_status {
            line.text("; fwd-status=");
            line.text(status.as_str());
        }
        if self.stored {
            line.text("; stored");
        }
        if self.collapsed {
            line.text("; collapsed");
        }
    }
}

impl Forward {
    /// As RFC 9211 has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Request => "request",
            Self::Stale => "stale",
            Self::Partial => "partial",
        }
    }
}

impl Detail {
    /// All that say why an answer is given though it is stale.
    pub const STALE: [Self; 5] = [
        Self::StaleOnError,
        Self::StaleDisconnected,
        Self::StaleNoToken,
        Self::StaleWhileRevalidate,
        Self::StaleAccepted,
    ];

    /// The word, which is a token.
    pub fn word(self) -> &'static str {
        match self {
            Self::NotStored(why) => why.word(),
            Self::StaleOnError => "stale-on-error",
            Self::StaleDisconnected => "stale-disconnected",
            Self::StaleNoToken => "stale-no-token",
            Self::StaleWhileRevalidate => "stale-while-revalidate",
            Self::StaleAccepted => "stale-accepted",
        }
    }
}

impl NotStored {
    /// All of them, in their order.
    pub const ALL: [Self; 11] = [
        Self::Method,
        Self::Bypass,
        Self::RequestNoStore,
        Self::NoStore,
        Self::Private,
        Self::SetCookie,
        Self::VaryStar,
        Self::Status,
        Self::NoLifetime,
        Self::Part,
        Self::TooLarge,
    ];

    /// The word, which is a token.
    pub fn word(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::Bypass => "bypass",
            Self::RequestNoStore => "request-no-store",
            Self::NoStore => "no-store",
            Self::Private => "private",
            Self::SetCookie => "set-cookie",
            Self::VaryStar => "vary-star",
            Self::Status => "status",
            Self::NoLifetime => "no-lifetime",
            Self::Part => "part",
            Self::TooLarge => "too-large",
        }
    }
}

/// A number of structured fields has no more digits than this allows (RFC 9651 §3.3.1).
const INTEGER_MAX: i64 = 999_999_999_999_999;
/// The longest words there are, both flags and the longest number take 107 bytes.
const LINE_MAX: usize = 128;

/// A short line written by hand: every hit carries one, and formatting would cost as much as finding it.
struct Line {
    bytes: [u8; LINE_MAX],
    len: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { bytes: [0; LINE_MAX], len: 0 }
    }
}

impl Line {
    fn text(&mut self, text: &str) {
        self.push(text.as_bytes());
    }

    /// What does not fit is left out.
    fn push(&mut self, text: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.len..self.len + text.len()) {
            place.copy_from_slice(text);
            self.len += text.len();
        }
    }

    fn integer(&mut self, integer: i64) {
        let integer = integer.clamp(-INTEGER_MAX, INTEGER_MAX);
        if integer < 0 {
            self.text("-");
        }
        self.push(Decimal::of(integer.unsigned_abs()).as_bytes());
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_was_done() {
        let none = CacheStatus::default();
        let stale = Some(Forward::Stale);
        for (status, expected) in [
            (none, "sopan"),
            (CacheStatus { hit: true, ttl: Some(0), ..none }, "sopan; hit; ttl=0"),
            (
                CacheStatus { hit: true, ttl: Some(-7), detail: Some(Detail::StaleWhileRevalidate), ..none },
                "sopan; hit; ttl=-7; detail=stale-while-revalidate",
            ),
            (
                CacheStatus { forward: Some(Forward::UriMiss), stored: true, ttl: Some(60), ..none },
                "sopan; fwd=uri-miss; stored; ttl=60",
            ),
            (
                CacheStatus {
                    hit: true,
                    forward: stale,
                    forward_status: Some(StatusCode::NOT_MODIFIED),
                    stored: true,
                    ttl: Some(60),
                    ..none
                },
                "sopan; fwd=stale; fwd-status=304; stored; ttl=60",
            ),
            (CacheStatus::MISS_WITHOUT_LIFETIME, "sopan; fwd=uri-miss; detail=no-lifetime"),
            (
                CacheStatus { forward: Some(Forward::VaryMiss), collapsed: true, ..none },
                "sopan; fwd=vary-miss; collapsed",
            ),
            (
                CacheStatus {
                    forward: Some(Forward::Bypass),
                    detail: Some(Detail::NotStored(NotStored::NoStore)),
                    ..none
                },
                "sopan; fwd=bypass; detail=no-store",
            ),
        ] {
            assert_eq!(status.value(), expected);
            let mut text = b"x: ".to_vec();
            status.write(&mut text);
            assert_eq!(text, format!("x: {expected}").as_bytes());
        }
    }

    #[test]
    fn the_longest_line_fits_and_no_number_is_too_large() {
        let longest = CacheStatus {
            hit: true,
            forward: Some(Forward::VaryMiss),
            forward_status: Some(StatusCode::NOT_MODIFIED),
            ttl: Some(i64::MIN),
            stored: true,
            collapsed: true,
            detail: Some(Detail::StaleWhileRevalidate),
        };
        let told = longest.value();
        let end = "; stored; collapsed; ttl=-999999999999999; detail=stale-while-revalidate";
        assert!(told.to_str().unwrap().ends_with(end), "{told:?}");
        let most = CacheStatus { ttl: Some(i64::MAX), ..CacheStatus::default() };
        assert_eq!(most.value(), "sopan; ttl=999999999999999");
    }
}
