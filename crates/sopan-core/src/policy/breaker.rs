//! When an upstream counts as down, and how it is tried again.

use std::time::Duration;

use super::PolicyError;
use super::duration::show_duration;
use super::error::{Allowed, Checks};

/// More probes at once than this are traffic, not a question.
const PROBES: u32 = 100;

/// The settings of the breaker. The defaults leave the retries of a single request alone: their backoffs sum to 3.5 s,
/// and failures only count as an outage once they span 5 s.
///
/// [`BreakerPolicy::validate`] says what is wrong with settings from outside; the
/// [`Breaker`](crate::breaker::Breaker) trusts them.
#[derive(Clone, Debug, PartialEq)]
pub struct BreakerPolicy {
    /// Whether there is a breaker at all; default on.
    pub on: bool,
    /// It trips after that many failures in a row, 1 or more; default 10.
    pub failures: u32,
    /// It never trips before its failures, from the first to the last one that counts, span that much; default 5 s. With
    /// zero it trips on the spot.
    pub min_span: Duration,
    /// It also trips when that share of the attempts in `window` failed, above 0 and at most 1; default 0.5.
    pub share: f64,
    /// The fewest attempts in `window` of which a share is taken, 1 or more; default 20. Half of two says nothing.
    pub attempts_min: u32,
    /// How far back the share looks, longer than `min_span`; default 10 s. Never further, and up to a fiftieth less.
    pub window: Duration,
    /// How long it stays open before it lets probes out; default 10 s.
    pub open_for: Duration,
    /// Probes that are out at once while half-open, 1 to 100; default 1.
    pub probes: u32,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self {
            on: true,
            failures: 10,
            min_span: Duration::from_secs(5),
            share: 0.5,
            attempts_min: 20,
            window: Duration::from_secs(10),
            open_for: Duration::from_secs(10),
            probes: 1,
        }
    }
}

impl BreakerPolicy {
    /// Whether these settings can be kept to.
    ///
    /// # Errors
    /// Everything that is outside of what is allowed, each with its key, its value and what is allowed.
    pub fn validate(&self) -> Result<(), Vec<PolicyError>> {
        let mut checks = Checks::default();
        checks.require(self.failures >= 1, "failures", self.failures, "1 or more");
        // NaN is in no range, so it is refused here too.
        checks.require(self.share > 0.0 && self.share <= 1.0, "share", self.share, "above 0 and at most 1");
        checks.require(self.attempts_min >= 1, "attempts_min", self.attempts_min, "1 or more");
        // Failures that must span more than the window can never be a share of it.
        checks.require(
            self.window > self.min_span,
            "window",
            show_duration(self.window),
            Allowed::MoreThan("min_span", show_duration(self.min_span)),
        );
        checks.require(!self.open_for.is_zero(), "open_for", "0s", "more than zero");
        checks.require((1..=PROBES).contains(&self.probes), "probes", self.probes, format!("1 to {PROBES}"));
        checks.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(change: impl FnOnce(&mut BreakerPolicy), expected: &[&str]) {
        let mut policy = BreakerPolicy::default();
        change(&mut policy);
        let wrong = policy.validate().err().unwrap_or_default();
        assert_eq!(wrong.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_defaults_are_as_documented_and_allowed() {
        check(|_| {}, &[]);
        let expected = BreakerPolicy {
            on: true,
            failures: 10,
            min_span: Duration::from_secs(5),
            share: 0.5,
            attempts_min: 20,
            window: Duration::from_secs(10),
            open_for: Duration::from_secs(10),
            probes: 1,
        };
        assert_eq!(BreakerPolicy::default(), expected);
    }

    #[test]
    fn what_cannot_be_kept_to_is_refused() {
        check(|p| p.failures = 0, &["failures is 0; allowed is 1 or more"]);
        check(|p| p.share = 0.0, &["share is 0; allowed is above 0 and at most 1"]);
        check(|p| p.share = 1.0, &[]);
        check(|p| p.share = 1.01, &["share is 1.01; allowed is above 0 and at most 1"]);
        check(|p| p.share = f64::NAN, &["share is NaN; allowed is above 0 and at most 1"]);
        check(|p| p.attempts_min = 0, &["attempts_min is 0; allowed is 1 or more"]);
        check(|p| p.window = Duration::from_secs(5), &["window is 5s; allowed is more than min_span (5s)"]);
        check(|p| p.min_span = Duration::ZERO, &[]);
        check(|p| p.open_for = Duration::ZERO, &["open_for is 0s; allowed is more than zero"]);
        check(|p| p.probes = 0, &["probes is 0; allowed is 1 to 100"]);
        check(|p| p.probes = 101, &["probes is 101; allowed is 1 to 100"]);
    }
}
