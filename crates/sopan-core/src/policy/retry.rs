//! When and how often a failed attempt is repeated.

use std::time::Duration;

use http::StatusCode;

use super::PolicyError;
use super::duration::show_duration;
use super::error::{Allowed, Checks};
use crate::hints::Reader;

/// More retries than this are a loop, not a policy.
const MAX_RETRIES: u32 = 1000;

/// The settings of retrying. The defaults are those of a proxy in front of somebody else's API: patient where it was
/// told to wait, quick to hand on what it may not mend.
///
/// [`RetryPolicy::validate`] says what is wrong with settings from outside; [`decide`](crate::retry::decide) trusts them.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Retries after the first request, 0 to 1000; default 3. With 0 nothing is repeated but what was lost on an idle
    /// connection that was closed just as it was used again, and may safely be: that is no retry.
    pub max_retries: u32,
    /// The first wait of the backoff, doubled for every retry; default 0.5 s.
    pub backoff_base: Duration,
    /// The upper bound of a wait of the backoff before its jitter, at least `backoff_base`; default 30 s.
    pub backoff_cap: Duration,
    /// For [`JitterKind::Fraction`] the fraction of the wait that is added or taken off at most, 0 to 1; default 0.25,
    /// which is ±25 %. The other kinds do not look at it.
    pub jitter: f64,
    /// How chance enters the backoff, so that many clients do not come back at the same moment.
    pub jitter_kind: JitterKind,
    /// The longest `Retry-After` that is honoured; default 60 s.
    pub max_retry_after: Duration,
    /// What happens on a longer one.
    pub on_long_retry_after: OnLongRetryAfter,
    /// The floor under a `Retry-After` of exactly zero, so that "at once" is not a loop; default 1 s. It never raises a
    /// positive one, the backoff or `default_wait`.
    pub min_wait: Duration,
    /// The wait after a 429 or 503 without a usable `Retry-After`; `None`, the default, means the backoff.
    pub default_wait: Option<Duration>,
    /// The upper bound of a random addition to a `Retry-After` wait, never a subtraction; default 0. For fleets that do
    /// not share one store.
    pub retry_after_jitter: Duration,
    /// The time from the arrival of a request to the response head that is passed on, waits included; default 120 s,
    /// `None` means unlimited.
    pub total_timeout: Option<Duration>,
    /// The time from the start of one attempt to its response head; default 60 s.
    pub attempt_timeout: Duration,
    /// Whether the retries of a lane are kept in proportion to its requests ([`Budget`](crate::retry::Budget)); default
    /// on.
    pub retry_budget: bool,
    /// The longest request body that is kept for sending it again, in bytes; default 1 MiB. A longer one streams and is
    /// not sent again after its first byte.
    pub replay_bytes_max: u64,
    /// The sum of all bodies that are kept, in bytes, at least `replay_bytes_max`; default 256 MiB.
    pub replay_bytes_total: u64,
    /// Statuses that are retried in addition to 408, 429, 500, 502, 503 and 504; default none. Only what is a failure can
    /// be added: 400 to 599.
    pub retry_on: Vec<StatusCode>,
    /// How `Retry-After` is read; default lenient.
    pub reader: Reader,
}

/// How chance enters the backoff. `n` counts the retries made, `u` is uniform in [0, 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JitterKind {
    /// min(base · 2ⁿ, cap) · (1 + jitter · (2u − 1)): around the exponential wait, the default.
    #[default]
    Fraction,
    /// u · min(base · 2ⁿ, cap): anywhere below the exponential wait.
    Full,
    /// min(cap, base + u · (3 · previous − base)): grows from wait to wait, by chance.
    Decorrelated,
}

/// What happens on a `Retry-After` above `max_retry_after`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLongRetryAfter {
    /// The answer goes to the caller at once, the default: asking earlier than told is impolite.
    #[default]
    GiveUp,
    /// Wait `max_retry_after` and ask again while `max_retries` lasts.
    Cap,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_retries: 3,
            backoff_base: Duration::from_millis(500),
            backoff_cap: Duration::from_secs(30),
            jitter: 0.25,
            jitter_kind: JitterKind::default(),
            max_retry_after: Duration::from_secs(60),
            on_long_retry_after: OnLongRetryAfter::default(),
            min_wait: Duration::from_secs(1),
            default_wait: None,
            retry_after_jitter: Duration::ZERO,
            total_timeout: Some(Duration::from_secs(120)),
            attempt_timeout: Duration::from_secs(60),
            retry_budget: true,
            replay_bytes_max: 1024 * 1024,
            replay_bytes_total: 256 * 1024 * 1024,
            retry_on: Vec::new(),
            reader: Reader::default(),
        }
    }
}

impl RetryPolicy {
    /// The longest that a single attempt can take: one that was cut off sooner was given less than it could have had.
    pub fn time_for_one(&self) -> Duration {
        self.total_timeout.map_or(self.attempt_timeout, |total| total.min(self.attempt_timeout))
    }

    /// Whether these settings can be kept to.
    ///
    /// # Errors
    /// Everything that is outside of what is allowed, each with its key, its value and what is allowed.
    pub fn validate(&self) -> Result<(), Vec<PolicyError>> {
        let mut checks = Checks::default();
        checks.require(self.max_retries <= MAX_RETRIES, "max_retries", self.max_retries, format!("0 to {MAX_RETRIES}"));
        checks.require(
            self.backoff_cap >= self.backoff_base,
            "backoff_cap",
            show_duration(self.backoff_cap),
            Allowed::AtLeast("backoff_base", show_duration(self.backoff_base)),
        );
        // NaN is in no range, so it is refused here too.
        checks.require((0.0..=1.0).contains(&self.jitter), "jitter", self.jitter, "0 to 1");
        checks.require(
            self.on_long_retry_after == OnLongRetryAfter::GiveUp || !self.max_retry_after.is_zero(),
            "max_retry_after",
            show_duration(self.max_retry_after),
            "more than zero where a longer Retry-After is capped to it",
        );
        checks.require(self.total_timeout != Some(Duration::ZERO), "total_timeout", "0s", "more than zero");
        checks.require(!self.attempt_timeout.is_zero(), "attempt_timeout", "0s", "more than zero");
        checks.require(
            self.replay_bytes_total >= self.replay_bytes_max,
            "replay_bytes_total",
            self.replay_bytes_total,
            Allowed::AtLeast("replay_bytes_max", self.replay_bytes_max.to_string()),
        );
        for status in &self.retry_on {
            checks.require(
                (400..600).contains(&status.as_u16()),
                "retry_on",
                status.as_u16(),
                "the status of a failure, 400 to 599",
            );
        }
        checks.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(change: impl FnOnce(&mut RetryPolicy), expected: &[&str]) {
        let mut policy = RetryPolicy::default();
        change(&mut policy);
        let wrong = policy.validate().err().unwrap_or_default();
        assert_eq!(wrong.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_defaults_are_as_documented_and_allowed() {
        check(|_| {}, &[]);
        let policy = RetryPolicy::default();
        assert_eq!((policy.max_retries, policy.jitter), (3, 0.25));
        assert_eq!((policy.backoff_base.as_secs_f64(), policy.backoff_cap.as_secs()), (0.5, 30));
        assert_eq!((policy.max_retry_after.as_secs(), policy.min_wait.as_secs()), (60, 1));
        assert_eq!((policy.default_wait, policy.retry_after_jitter), (None, Duration::ZERO));
        assert_eq!((policy.total_timeout, policy.attempt_timeout.as_secs()), (Some(Duration::from_secs(120)), 60));
        assert_eq!((policy.replay_bytes_max, policy.replay_bytes_total), (1 << 20, 256 << 20));
        assert_eq!((policy.jitter_kind, policy.on_long_retry_after), (JitterKind::Fraction, OnLongRetryAfter::GiveUp));
        assert!(policy.retry_budget && policy.retry_on.is_empty() && policy.reader == Reader::Lenient);
    }

    #[test]
    fn a_number_outside_its_range_is_refused() {
        check(|p| p.max_retries = 0, &[]);
        check(|p| p.max_retries = 1000, &[]);
        check(|p| p.max_retries = 1001, &["max_retries is 1001; allowed is 0 to 1000"]);
        check(|p| p.jitter = 0.0, &[]);
        check(|p| p.jitter = 1.0, &[]);
        check(|p| p.jitter = 1.5, &["jitter is 1.5; allowed is 0 to 1"]);
        check(|p| p.jitter = -0.1, &["jitter is -0.1; allowed is 0 to 1"]);
        check(|p| p.jitter = f64::NAN, &["jitter is NaN; allowed is 0 to 1"]);
        check(|p| p.jitter = f64::INFINITY, &["jitter is inf; allowed is 0 to 1"]);
        check(|p| p.total_timeout = None, &[]);
        check(|p| p.total_timeout = Some(Duration::ZERO), &["total_timeout is 0s; allowed is more than zero"]);
        check(|p| p.attempt_timeout = Duration::ZERO, &["attempt_timeout is 0s; allowed is more than zero"]);
    }

    #[test]
    fn bounds_that_do_not_fit_each_other_are_refused() {
        let cap = "backoff_cap is 100ms; allowed is backoff_base (500ms) or more";
        check(|p| p.backoff_cap = Duration::from_millis(100), &[cap]);
        check(|p| p.backoff_cap = p.backoff_base, &[]);
        let total = "replay_bytes_total is 1024; allowed is replay_bytes_max (1048576) or more";
        check(|p| p.replay_bytes_total = 1024, &[total]);
        let zero = "max_retry_after is 0s; allowed is more than zero where a longer Retry-After is capped to it";
        check(|p| p.max_retry_after = Duration::ZERO, &[]);
        check(|p| (p.max_retry_after, p.on_long_retry_after) = (Duration::ZERO, OnLongRetryAfter::Cap), &[zero]);
    }

    #[test]
    fn only_failures_can_be_added() {
        check(|p| p.retry_on = vec![StatusCode::TOO_EARLY, StatusCode::from_u16(599).unwrap()], &[]);
        check(
            |p| p.retry_on = vec![StatusCode::OK, StatusCode::CONFLICT, StatusCode::from_u16(999).unwrap()],
            &[
                "retry_on is 200; allowed is the status of a failure, 400 to 599",
                "retry_on is 999; allowed is the status of a failure, 400 to 599",
            ],
        );
    }

    #[test]
    fn everything_wrong_is_named_at_once() {
        check(
            |p| (p.max_retries, p.jitter) = (5000, 2.0),
            &["max_retries is 5000; allowed is 0 to 1000", "jitter is 2; allowed is 0 to 1"],
        );
    }
}
