//! What does the ledger's clock show?
//!
//! Each answer tells what it showed at one instant between the one at which it was asked for and the one at which the answer
//! came; so how far it is ahead of ours lies between two bounds, and the quickest answers make them narrow. Two clocks do not
//! run alike, so the bounds widen again; and where an answer contradicts them the ledger's clock was set, and they start anew.

use std::time::Duration;

use super::Stamp;
use crate::time::{Instant, nanos};

/// How fast two clocks may drift apart: a millionth of a second a second, 500 times; what NTP lets.
const DRIFT_PER_MILLION: u64 = 500;

#[derive(Debug, Clone, Copy)]
pub(super) struct ServerClock {
    bounds: Option<Bounds>,
}

/// How far the ledger's clock is ahead of ours, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    least: i128,
    most: i128,
    known: Instant,
}

impl ServerClock {
    pub(super) fn unknown() -> Self {
        Self { bounds: None }
    }

    /// It showed `at` at some time from `sent` to `received`; answers whether it was set since the last time.
    pub(super) fn learn(&mut self, sent: Instant, received: Instant, at: Stamp) -> bool {
        let shown = i128::from(at.0) * 1000;
        let least = shown - i128::from(received.as_nanos());
        // It shows whole microseconds, rounded down.
        let most = shown + 999 - i128::from(sent.as_nanos());
        let old = self.bounds.map(|bounds| bounds.by(received));
        let agrees = |old: &Bounds| old.least <= most && least <= old.most;
        let bounds = match old.filter(agrees) {
            Some(old) => Bounds { least: old.least.max(least), most: old.most.min(most), known: received },
            None => Bounds { least, most, known: received },
        };
        self.bounds = Some(bounds);
        old.is_some_and(|old| !agrees(&old))
    }

    /// When it has certainly come to show `stamp`.
    pub(super) fn when_at_last(&self, stamp: Stamp) -> Option<Instant> {
        self.bounds.map(|bounds| instant(i128::from(stamp.0) * 1000 - bounds.least))
    }

    /// When it could first show `stamp`.
    pub(super) fn when_at_first(&self, stamp: Stamp) -> Option<Instant> {
        self.bounds.map(|bounds| instant(i128::from(stamp.0) * 1000 - bounds.most))
    }

    /// What it shows at least at `now`.
    pub(super) fn at_least(&self, now: Instant) -> Option<Stamp> {
        let bounds = self.bounds?.by(now);
        let shown = i128::from(now.as_nanos()) + bounds.least;
        Some(Stamp(u64::try_from(shown / 1000).unwrap_or(0)))
    }

    /// How much is not known of it at `now`; none if nothing is.
    pub(super) fn doubt(&self, now: Instant) -> Option<Duration> {
        let bounds = self.bounds?.by(now);
        Some(Duration::from_nanos(u64::try_from(bounds.most - bounds.least).unwrap_or(u64::MAX)))
    }
}

impl Bounds {
    /// As they are by `now`.
    fn by(self, now: Instant) -> Self {
        let drift = i128::from(nanos(now.since(self.known)) / 1_000_000 * DRIFT_PER_MILLION);
        Self { least: self.least - drift, most: self.most + drift, known: now.max(self.known) }
    }
}

fn instant(nanos: i128) -> Instant {
    Instant::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    #[test]
    fn quick_answers_make_it_certain_and_slow_ones_do_not_unmake_it() {
        let mut clock = ServerClock::unknown();
        assert_eq!((clock.at_least(at(5)), clock.doubt(at(5))), (None, None));
        // It is ahead by 1,000,000 µs. An answer that took 80 ms, 60 of them on the way there.
        clock.learn(at(0), at(80_000), Stamp(1_060_000));
        assert_eq!(clock.when_at_last(Stamp(1_200_000)), Some(at(220_000)));
        assert_eq!(clock.when_at_first(Stamp(1_200_000)), Some(Instant::from_nanos(139_999_001)));
        clock.learn(at(100_000), at(100_200), Stamp(1_100_100));
        assert_eq!(clock.when_at_last(Stamp(1_200_000)), Some(at(200_100)));
        clock.learn(at(110_000), at(190_000), Stamp(1_115_000));
        // 90 ms later the clocks may be 45 µs further apart.
        assert_eq!(clock.when_at_last(Stamp(1_200_000)), Some(Instant::from_nanos(200_144_500)));
        assert_eq!(clock.at_least(at(190_000)), Some(Stamp(1_189_855)));
    }

    #[test]
    fn a_clock_that_was_set_is_believed_at_once() {
        let mut clock = ServerClock::unknown();
        clock.learn(at(0), at(200), Stamp(5_000_100));
        assert!(!clock.learn(at(500), at(700), Stamp(5_000_600)));
        assert!(clock.learn(at(1_000), at(1_200), Stamp(2_000_000)));
        assert_eq!(clock.when_at_last(Stamp(2_000_000)), Some(at(1_200)));
    }
}
