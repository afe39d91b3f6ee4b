//! How old is an answer, and how long may it be used (RFC 9111 §4.2)?
//!
//! Its age when it came is what `Date` or what `Age` and the time since its request show, whichever is more. Its lifetime is
//! the first that is said of: `s-maxage`, `max-age`, `Expires` less `Date`, the settings' `default_ttl`, a guess from
//! `Last-Modified`. Dates have whole seconds, so they are compared with the whole seconds of our clock: else an answer would
//! be up to a second old on arrival, and stale a second early.
//!
//! What the client wants of an age, and what is done with an answer that is stale, is for [`lookup`](super::lookup) to say.

#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime};

use http::header::{AGE, CONTENT_TYPE, DATE, EXPIRES, HeaderMap, HeaderName, LAST_MODIFIED};
use http::{HeaderValue, StatusCode};

use super::Times;
use super::directives::{ResponseDirectives, Scope, delta_seconds};
use super::list::members;
use crate::hints::{Reader, http_date};

/// What did not change for ten years may still change tomorrow, and a guess that is wrong is wrong for so long at most. RFC
/// 9111 §4.2.2 sets no end; the RFCs before it had a warning added from one day on.
const GUESS_MAX: Duration = Duration::from_secs(86_400);

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
    /// Reads it from an answer as it came, with its `Age`. `default_ttl` is what holds for a successful answer to a GET that
    /// does not say, and may be used without saying.
    pub fn of(
        status: StatusCode,
        headers: &HeaderMap,
        directives: &ResponseDirectives,
        times: Times,
        default_ttl: Option<Duration>,
    ) -> Self {
        let answer = Answer::of(status, headers, directives, times);
        let (lifetime, source) = answer
            .told()
            .or_else(|| answer.set(default_ttl))
            .or_else(|| answer.guessed())
            .unwrap_or((Duration::ZERO, Source::None));
        Self { lifetime, source, initial_age: answer.initial_age() }
    }

    /// How old the answer is at `now` (RFC 9111 §4.2.3).
    pub fn age(&self, times: Times, now: SystemTime) -> Duration {
        self.age_after(now.duration_since(times.received).unwrap_or_default())
    }

    /// How old it is so long after it was received.
    pub(super) fn age_after(&self, since: Duration) -> Duration {
        self.initial_age.saturating_add(since)
    }
}

/// What is looked at.
struct Answer<'a> {
    status: StatusCode,
    headers: &'a HeaderMap,
    directives: &'a ResponseDirectives,
    times: Times,
    /// Whole seconds since the Unix epoch.
    received: i64,
    /// Likewise; when it was received, where it does not say when it was made (RFC 9110 §6.6.1).
    made: i64,
}

impl<'a> Answer<'a> {
    fn of(status: StatusCode, headers: &'a HeaderMap, directives: &'a ResponseDirectives, times: Times) -> Self {
        let received = http_date::unix_seconds(times.received);
        let made = date(headers, &DATE, times.received).unwrap_or(received);
        Self { status, headers, directives, times, received, made }
    }

    /// By the upstream. An `Expires` that cannot be read is in the past (RFC 9111 §5.3).
    fn told(&self) -> Option<(Duration, Source)> {
        let directives = self.directives;
        if let Some(seconds) = directives.s_maxage.or(directives.max_age) {
            return Some((Duration::from_secs(seconds.into()), Source::Directive));
        }
        (!directives.is_targeted && self.headers.contains_key(EXPIRES)).then(|| {
            let expires = date(self.headers, &EXPIRES, self.times.received);
            (expires.map_or(Duration::ZERO, |expires| seconds_between(self.made, expires)), Source::Expires)
        })
    }

    /// By the settings, for want of a word of the upstream. Of a status that nobody may guess about, such as the 202 of a job
    /// that is not done yet, that word is needed (the last point of RFC 9111 §3). They speak of data, and not of what is told
    /// as it happens: whoever asks later would hear the past.
    fn set(&self, default_ttl: Option<Duration>) -> Option<(Duration, Source)> {
        let is_open = self.status.is_success() && self.may_be_guessed() && !is_stream_of_events(self.headers);
        default_ttl.filter(|_| is_open).map(|ttl| (ttl, Source::Default))
    }

    fn guessed(&self) -> Option<(Duration, Source)> {
        if !self.may_be_guessed() {
            return None;
        }
        let unchanged = seconds_between(date(self.headers, &LAST_MODIFIED, self.times.received)?, self.made);
        (!unchanged.is_zero()).then(|| ((unchanged / 10).min(GUESS_MAX), Source::Heuristic))
    }

    /// Not where it says that it must not be used unasked, so that it has no lifetime for a reason.
    fn may_be_guessed(&self) -> bool {
        let is_forbidden = self.directives.no_store || self.directives.no_cache == Scope::All;
        !is_forbidden && (is_guessable(self.status) || self.directives.public)
    }

    fn initial_age(&self) -> Duration {
        let apparent = seconds_between(self.made, self.received);
        let under_way = self.times.received.duration_since(self.times.requested).unwrap_or_default();
        apparent.max(age(self.headers).saturating_add(under_way))
    }
}

/// The statuses whose answers may be used for as long as a guess says (RFC 9110 §15.1).
pub(super) fn is_guessable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

fn is_stream_of_events(headers: &HeaderMap) -> bool {
    const TYPE: &[u8] = b"text/event-stream";
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.as_bytes().split(|&byte| byte == b';').next());
    kind.is_some_and(|kind| kind.trim_ascii().eq_ignore_ascii_case(TYPE))
}

/// The first value of `Age`, if it is a number (RFC 9111 §5.1); else it counts as 0.
fn age(headers: &HeaderMap) -> Duration {
    let first = headers.get_all(AGE).iter().find_map(|line| members(line.as_bytes(), b',').next());
    Duration::from_secs(first.and_then(delta_seconds).unwrap_or(0).into())
}

/// The date of a field that is there once, in seconds since the Unix epoch. Several equal lines are one, as RFC 9111 §4.2.1
/// allows the first to be taken; of several that differ nobody knows which is meant.
fn date(headers: &HeaderMap, name: &HeaderName, received: SystemTime) -> Option<i64> {
    let mut lines = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let first = lines.next()?;
    let is_one = lines.all(|line| line == first);
    http_date::parse(first.trim_ascii(), received, Reader::Strict).filter(|_| is_one)
}

/// From one instant to a later one, in seconds since the Unix epoch; zero if it is not later.
fn seconds_between(from: i64, to: i64) -> Duration {
    if to > from { Duration::from_secs(to.abs_diff(from)) } else { Duration::ZERO }
}
