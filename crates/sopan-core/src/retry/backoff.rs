//! How long is waited before the next retry where the upstream did not say: exponential, capped, and spread by chance.
//!
//! All arithmetic saturates, so that the hundredth retry waits as long as the cap and not, after an overflow, not at all.

use std::time::Duration;

use crate::policy::{JitterKind, RetryPolicy};

/// How far the backoff of one exchange has come. The default is its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    /// Retries made so far.
    pub retries: u32,
    /// The last wait that the backoff gave; only [`JitterKind::Decorrelated`] looks at it. Before the first one, and
    /// whenever it is shorter, `backoff_base` stands in for it.
    pub previous: Duration,
}

impl Backoff {
    /// After so many retries, with no wait of the backoff yet.
    pub const fn after(retries: u32) -> Self {
        Self { retries, previous: Duration::ZERO }
    }
}

/// The wait before the next retry, by the kind of jitter that the policy names.
///
/// `sample` is uniform in [0, 1). With [`JitterKind::Fraction`] the jitter comes after the cap, so the longest wait is
/// `backoff_cap` · (1 + `jitter`).
///
/// ```
/// use std::time::Duration;
/// use sopan_core::policy::RetryPolicy;
/// use sopan_core::retry::{Backoff, backoff_delay};
///
/// let policy = RetryPolicy { jitter: 0.5, ..RetryPolicy::default() };
/// assert_eq!(backoff_delay(&policy, Backoff::after(0), 0.0), Duration::from_millis(250));
/// assert_eq!(backoff_delay(&policy, Backoff::after(3), 0.5), Duration::from_secs(4));
/// ```
pub fn backoff_delay(policy: &RetryPolicy, backoff: Backoff, sample: f64) -> Duration {
    let exponential = doubled(policy.backoff_base, backoff.retries).min(policy.backoff_cap);
    match policy.jitter_kind {
        JitterKind::Fraction => scaled(exponential, 1.0 + policy.jitter * (2.0 * sample - 1.0)),
        JitterKind::Full => scaled(exponential, sample),
        JitterKind::Decorrelated => {
            let base = policy.backoff_base;
            let room = backoff.previous.max(base).saturating_mul(3).saturating_sub(base);
            base.saturating_add(scaled(room, sample)).min(policy.backoff_cap)
        }
    }
}

/// `span` · 2^`times`, or the longest duration there is.
fn doubled(span: Duration, times: u32) -> Duration {
    let factor = 1_u128.checked_shl(times).unwrap_or(u128::MAX);
    from_nanos(span.as_nanos().saturating_mul(factor))
}

/// `span` · `factor`, rounded to whole nanoseconds. The conversion saturates, so that a negative factor and one that is
/// not a number give zero, and an infinite one the longest duration: never a panic, whatever the settings.
pub(super) fn scaled(span: Duration, factor: f64) -> Duration {
    from_nanos((span.as_nanos() as f64 * factor).round() as u128)
}

fn from_nanos(nanos: u128) -> Duration {
    Duration::from_nanos_u128(nanos.min(Duration::MAX.as_nanos()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn policy(kind: JitterKind, jitter: f64) -> RetryPolicy {
        RetryPolicy { jitter_kind: kind, jitter, ..RetryPolicy::default() }
    }

    #[track_caller]
    fn check(policy: &RetryPolicy, backoff: Backoff, sample: f64, expected: f64) {
        let delay = backoff_delay(policy, backoff, sample);
        assert_eq!(delay, Duration::from_secs_f64(expected), "{backoff:?}, sample {sample}");
    }

    #[test]
    fn without_jitter_it_doubles_up_to_the_cap() {
        let policy = policy(JitterKind::Fraction, 0.0);
        for (retries, expected) in (0..).zip([0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]) {
            for sample in [0.0, 0.3, 0.999] {
                check(&policy, Backoff::after(retries), sample, expected);
            }
        }
    }

    #[test]
    fn no_attempt_overflows() {
        let tiny = RetryPolicy {
            backoff_base: Duration::from_nanos(1),
            backoff_cap: Duration::MAX,
            ..policy(JitterKind::Fraction, 0.0)
        };
        for retries in [31, 32, 63, 64, 65, 95, 96, 127, 128, 129, u32::MAX] {
            check(&policy(JitterKind::Fraction, 0.0), Backoff::after(retries), 0.5, 30.0);
            check(&policy(JitterKind::Fraction, 0.25), Backoff::after(retries), 0.0, 22.5);
            check(&policy(JitterKind::Full, 0.25), Backoff::after(retries), 0.5, 15.0);
            let longer = backoff_delay(&tiny, Backoff::after(retries), 0.5);
            assert!(longer >= Duration::from_secs(2), "{retries}: {longer:?}");
        }
        assert_eq!(backoff_delay(&tiny, Backoff::after(u32::MAX), 0.5), Duration::MAX);
        let none = RetryPolicy { backoff_base: Duration::ZERO, ..tiny };
        check(&none, Backoff::after(u32::MAX), 0.5, 0.0);
    }

    #[test]
    fn a_short_cap_holds_for_a_hundred_retries() {
        let policy = RetryPolicy {
            backoff_base: Duration::from_millis(1),
            backoff_cap: Duration::from_millis(40),
            ..policy(JitterKind::Fraction, 0.0)
        };
        for (retries, expected) in (0..).zip([1, 2, 4, 8, 16, 32, 40, 40, 40]) {
            check(&policy, Backoff::after(retries), 0.5, f64::from(expected) / 1000.0);
        }
        for retries in 6..120 {
            check(&policy, Backoff::after(retries), 0.5, 0.04);
        }
    }

    #[test]
    fn a_fraction_of_jitter_lies_around_the_wait_also_at_the_cap() {
        let policy = policy(JitterKind::Fraction, 0.5);
        check(&policy, Backoff::after(0), 0.0, 0.25);
        check(&policy, Backoff::after(0), 0.5, 0.5);
        check(&policy, Backoff::after(0), 1.0, 0.75);
        check(&policy, Backoff::after(9), 0.0, 15.0);
        check(&policy, Backoff::after(9), 1.0, 45.0);
    }

    #[test]
    fn full_jitter_is_anywhere_below_the_wait() {
        let policy = policy(JitterKind::Full, 0.25);
        check(&policy, Backoff::after(0), 0.0, 0.0);
        check(&policy, Backoff::after(0), 0.5, 0.25);
        check(&policy, Backoff::after(2), 0.25, 0.5);
        check(&policy, Backoff::after(9), 0.75, 22.5);
    }

    #[test]
    fn decorrelated_jitter_grows_from_the_previous_wait() {
        let policy = policy(JitterKind::Decorrelated, 0.25);
        let after = |previous| Backoff { retries: 1, previous: Duration::from_secs_f64(previous) };
        check(&policy, Backoff::default(), 0.0, 0.5);
        check(&policy, Backoff::default(), 0.5, 1.0);
        check(&policy, after(0.5), 1.0, 1.5);
        check(&policy, after(2.0), 0.0, 0.5);
        check(&policy, after(2.0), 0.5, 3.25);
        check(&policy, after(0.1), 0.5, 1.0);
        check(&policy, after(30.0), 0.9, 30.0);
        let longest = Backoff { retries: 9, previous: Duration::MAX };
        check(&policy, longest, 0.9, 30.0);
    }

    #[test]
    fn nonsense_gives_a_duration_all_the_same() {
        for kind in [JitterKind::Fraction, JitterKind::Full, JitterKind::Decorrelated] {
            for wild in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 1e300] {
                backoff_delay(&policy(kind, wild), Backoff::after(3), 0.5);
                backoff_delay(&policy(kind, 0.25), Backoff::after(3), wild);
            }
        }
    }

    proptest! {
        #[test]
        fn every_wait_is_within_its_bounds(
            (base, more) in (0..100_000_000_000_u64, 0..1_000_000_000_000_u64),
            (retries, previous) in (any::<u32>(), any::<u64>()),
            (jitter, sample) in (0.0..=1.0, 0.0..1.0),
        ) {
            let (backoff_base, backoff_cap) = (Duration::from_nanos(base), Duration::from_nanos(base + more));
            let backoff = Backoff { retries, previous: Duration::from_nanos(previous) };
            let delay = |kind| {
                let policy = RetryPolicy { backoff_base, backoff_cap, ..policy(kind, jitter) };
                backoff_delay(&policy, backoff, sample)
            };
            prop_assert!(delay(JitterKind::Full) <= backoff_cap);
            prop_assert!((backoff_base..=backoff_cap).contains(&delay(JitterKind::Decorrelated)));
            let least = doubled(backoff_base, retries).min(backoff_cap);
            let fraction = delay(JitterKind::Fraction);
            prop_assert!(scaled(least, 1.0 - jitter) <= fraction && fraction <= scaled(least, 1.0 + jitter));
        }
    }
}
