//! What is known of a request, and of an answer in store, as far as the cache is concerned.
//!
//! These are facts only. Which answers are stored, and what of them, is for [`keep`](super::keep) to say; which are used, for
//! [`lookup`](super::lookup()).

use std::fmt;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, Method, StatusCode};

use super::directives::{RequestDirectives, ResponseDirectives};
use super::freshness::Freshness;
use super::keep::is_not_forbidden;
use super::marks::Marks;
use super::range::Part;
use super::standing::{Standing, asks_each_time, is_about_all};
use super::vary::Selecting;
use crate::headers::{Shown, redact_url};
use crate::policy::{CachePolicy, PathTreatment};

/// Whose an answer is alone: a digest of the secrets that the request for it had.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(pub [u8; 16]);

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner(…)")
    }
}

/// A request as the client made it, but for the fields of its hop.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Its path and query, byte for byte.
    pub target: &'a str,
    /// The host that it was for, in lower case.
    pub host: &'a [u8],
    /// Its fields.
    pub headers: &'a HeaderMap,
    /// Which of them matter here.
    pub marks: Marks,
    /// Whose it is, if it has a field that is a secret: `Authorization`, `Cookie`, an API key.
    pub owner: Option<Owner>,
    /// Whether it has a body.
    pub has_body: bool,
    /// What it says of caches.
    pub directives: RequestDirectives,
    /// What holds for its path.
    pub rule: Option<PathTreatment>,
}

impl<'a> Asked<'a> {
    /// A request without a body and without a secret of its own; what it says of caches, and what holds for its path, is
    /// looked up. `host` is in lower case.
    pub fn new(
        policy: &CachePolicy,
        method: &'a Method,
        target: &'a str,
        host: &'a [u8],
        headers: &'a HeaderMap,
    ) -> Self {
        let marks = Marks::of(headers);
        let directives =
            if marks.has(Marks::DIRECTIVES) { RequestDirectives::read(headers) } else { RequestDirectives::default() };
        let rule = policy.rule(target);
        Self { method, target, host, headers, marks, owner: None, has_body: false, directives, rule }
    }
}

/// Shows no secret.
impl fmt::Debug for Asked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, target, host, headers, marks, owner, has_body, directives, rule } = self;
        f.debug_struct("Asked")
            .field("method", method)
            .field("target", &redact_url(target))
            .field("host", &String::from_utf8_lossy(host))
            .field("headers", &Shown(headers))
            .field("marks", marks)
            .field("owner", owner)
            .field("has_body", has_body)
            .field("directives", directives)
            .field("rule", rule)
            .finish()
    }
}

/// When an answer was asked for and came, by the calendar, which a restart does not set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// When the request for it was sent.
    pub requested: SystemTime,
    /// When its head came.
    pub received: SystemTime,
}

/// How much of its body is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it, this many bytes; it is not known how many while it still comes, if the head does not say.
    Whole(Option<u64>),
    /// A part of it.
    Part(Part),
}

impl Extent {
    /// How many bytes are held, as far as that is known.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Self::Whole(length) => length,
            Self::Part(part) => Some(part.span.length()),
        }
    }
}

/// An answer in store, without its body.
#[derive(Clone, PartialEq)]
pub struct Stored {
    /// Its status; 200 where a part is held.
    pub status: StatusCode,
    /// Its fields as they came, in order and with all their lines, but for those of the hop and `Age`.
    pub headers: HeaderMap,
    /// The host that was asked for, in lower case.
    pub host: Box<[u8]>,
    /// Whose it is alone; none if it may be given to all.
    pub owner: Option<Owner>,
    /// By what it was chosen among the answers for its target.
    pub selecting: Selecting,
    /// When it was asked for and came.
    pub times: Times,
    /// What it says of caches.
    pub directives: ResponseDirectives,
    /// How long it may be used.
    pub freshness: Freshness,
    /// How much of its body is held.
    pub extent: Extent,
}

/// Shows no secret: an answer may set a cookie.
impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, headers, host, owner, selecting, times, directives, freshness, extent } = self;
        f.debug_struct("Stored")
            .field("status", status)
            .field("headers", &Shown(headers))
            .field("host", &String::from_utf8_lossy(host))
            .field("owner", owner)
            .field("selecting", selecting)
            .field("times", times)
            .field("directives", directives)
            .field("freshness", freshness)
            .field("extent", extent)
            .finish()
    }
}

/// Why an answer is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStored {
    /// Answers to requests of this method never are.
    Method,
    /// The cache has no part in requests for this path, or of this kind.
    Bypass,
    /// The client asked for that (`no-store`).
    RequestNoStore,
    /// The upstream did.
    NoStore,
    /// It is for one client alone (`private`), and that client has no credential by which it could be known again.
    Private,
    /// It sets a cookie, and `store_set_cookie` is off.
    SetCookie,
    /// It is chosen by what no field shows (`Vary: *`).
    VaryStar,
    /// Its status is never stored, or `must-understand` asks for one that is known.
    Status,
    /// Nothing says how long it may be used, and it cannot be asked about.
    NoLifetime,
    /// It is a part that cannot be told where it belongs.
    Part,
    /// It is too large.
    TooLarge,
}

impl Stored {
    /// For how long it is fresh still, in whole seconds; below 0 where it is not.
    pub fn ttl(&self, now: SystemTime) -> i64 {
        Standing::of(self, now).ttl()
    }

    /// Notes that its body has come whole, so many bytes; false if they cannot be the part that it says it is. One that comes
    /// in chunks tells its length nowhere else.
    #[must_use]
    pub fn has_come_with(&mut self, bytes: u64) -> bool {
        match &mut self.extent {
            Extent::Whole(length) => {
                *length = Some(bytes);
                true
            }
            Extent::Part(part) => part.span.length() == bytes,
        }
    }

    /// Whether it has been updated to one that may not be stored: it goes to the client who had asked about it, and to nobody
    /// else.
    pub fn is_given_once(&self) -> bool {
        let is_forbidden = is_not_forbidden(self.status, &self.headers, &self.directives).is_err();
        let is_of_nobody = is_about_all(&self.directives.private) && self.owner.is_none();
        is_forbidden || is_of_nobody
    }

    /// Whether it is ever given without asking the upstream about it first.
    pub fn is_used_unasked(&self) -> bool {
        !asks_each_time(&self.directives) && !self.freshness.lifetime.is_zero()
    }

    /// For how long it is worth keeping for others, from now on: while it is fresh, and as long after that as it may be used
    /// then by what it says itself or the settings have it; and, to be asked about, or to stand in while the upstream is out of
    /// reach, as long again as it was fresh, a minute at least and an hour at most. In all at most a day.
    pub fn useful_for(&self, policy: &CachePolicy, now: SystemTime) -> Duration {
        Standing::of(self, now).useful_for(policy, &self.directives)
    }

    /// Whether a request with a secret of another owner, or none, may be given it.
    pub fn is_for_owner(&self, asked: &Asked<'_>) -> bool {
        self.owner.is_none() || self.owner == asked.owner
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at, stored};
    use super::*;

    #[test]
    fn an_answer_is_kept_for_others_while_it_is_of_use() {
        let (minute, hour, day) = (60, 3600, 86_400);
        let policy = CachePolicy::default();
        let lenient = CachePolicy { stale_if_error: Duration::from_secs(2 * hour), ..CachePolicy::default() };
        for (policy, line, age, expected) in [
            (&policy, "200 | cache-control: max-age=300", 0, 600),
            (&policy, "200 | cache-control: max-age=300", 200, 400),
            (&policy, "200 | cache-control: max-age=300", 600, 0),
            (&policy, "200 | cache-control: max-age=300", 10_000, 0),
            (&policy, "200 | cache-control: max-age=5", 0, 5 + minute),
            (&policy, "200 | cache-control: no-cache | etag: \"a\"", 0, minute),
            (&policy, "200 | cache-control: max-age=7200", 0, 3 * hour),
            (&policy, "200 | cache-control: max-age=31536000", 0, day),
            (&policy, "200 | cache-control: max-age=300, stale-if-error=3600", 0, 300 + hour),
            (&policy, "200 | cache-control: max-age=300, stale-while-revalidate=9999999", 0, day),
            (&lenient, "200 | cache-control: max-age=300", 0, 300 + 2 * hour),
        ] {
            let stored = stored(policy, 0.0, "GET", line);
            assert_eq!(stored.useful_for(policy, at(age as f64)).as_secs(), expected, "{line} after {age}");
        }
    }
}
