//! How old is an answer, and how long may it be used (RFC 9111 §4.2)?

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};

use super::Times;
use super::directives::ResponseDirectives;

/// How long an answer is fresh, and how old it was when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// For how long it is fresh, counted from its making; 0 where nothing allows it to be used unasked.
    pub lifetime: Duration,
    /// What says so.
    pub source: Source,
    /// How old it was when it came (`corrected_initial_age`, RFC 9111 §4.2.3).
    pub initial_age: Duration,
}

/// What tells a lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A directive, of `Cache-Control` or of a targeted field.
    Directive,
    /// `Expires`
    Expires,
    /// Nothing did, and the settings have a `default_ttl`.
    Default,
    /// Nothing did, and a tenth of the time since `Last-Modified` is a good guess (RFC 9111 §4.2.2).
    Heuristic,
    /// Nothing does.
    None,
}

impl Freshness {
    /// Reads it from an answer. `default_ttl` is what holds for a successful answer to a GET that does not say.
    pub fn of(
        _status: StatusCode,
        _headers: &HeaderMap,
        _directives: &ResponseDirectives,
        _times: Times,
        _default_ttl: Option<Duration>,
    ) -> Self {
        Self { lifetime: Duration::ZERO, source: Source::None, initial_age: Duration::ZERO }
    }

    /// How old the answer is at `now` (RFC 9111 §4.2.3).
    pub fn age(&self, times: Times, now: SystemTime) -> Duration {
        self.initial_age.saturating_add(now.duration_since(times.received).unwrap_or_default())
    }
}
