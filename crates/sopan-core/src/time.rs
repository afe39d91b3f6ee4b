//! What time is to the core: a number that the caller brings.
//!
//! [`Instant`] counts nanoseconds from an origin of the caller's choice (the engine's is its own start), so that a year
//! can be simulated in a test without waiting. All arithmetic saturates: a wait of decades is long, never negative.
//! Calendar time is [`std::time::SystemTime`], also always an argument.

use std::fmt;
use std::time::Duration;

/// A monotonic instant, in nanoseconds since an origin that the caller chose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The origin itself.
    pub const ORIGIN: Self = Self(0);
    /// Later than every instant that will be reached (584 years).
    pub const NEVER: Self = Self(u64::MAX);

    /// The instant that many nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The instant `wait` later; [`Instant::NEVER`] where that is beyond what can be counted.
    pub const fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(nanos(wait)))
    }

    /// The instant `span` earlier, not before the origin.
    pub const fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }

    /// How long after `earlier` this is; zero if it is not.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// How long from `now` until this; zero if it has passed.
    pub const fn until(self, now: Self) -> Duration {
        self.since(now)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER {
            return f.write_str("never");
        }
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

/// A duration in nanoseconds, cut at what a `u64` holds (584 years).
pub const fn nanos(span: Duration) -> u64 {
    let n = span.as_nanos();
    if n > u64::MAX as u128 { u64::MAX } else { n as u64 }
}

/// Whole seconds in `span`, rounded up: what a `Retry-After` must say so that nobody comes too early.
pub const fn whole_seconds_up(span: Duration) -> u64 {
    let whole = span.as_secs();
    if span.subsec_nanos() > 0 { whole.saturating_add(1) } else { whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Instant::ORIGIN.after(Duration::MAX), Instant::NEVER);
        assert_eq!(Instant::NEVER.after(Duration::from_secs(1)), Instant::NEVER);
        assert_eq!(Instant::from_nanos(5).before(Duration::from_secs(1)), Instant::ORIGIN);
        assert_eq!(Instant::from_nanos(5).since(Instant::from_nanos(9)), Duration::ZERO);
    }

    #[test]
    fn seconds_are_rounded_up() {
        assert_eq!(whole_seconds_up(Duration::ZERO), 0);
        assert_eq!(whole_seconds_up(Duration::from_nanos(1)), 1);
        assert_eq!(whole_seconds_up(Duration::from_secs(3)), 3);
        assert_eq!(whole_seconds_up(Duration::MAX), u64::MAX);
    }
}
