//! How much was sent of late?
//!
//! Counted in slots of half a second, of which the last ten seconds' are kept. It is told under the lane's lock with every head
//! that is written, so that costs a few instructions; what it means, and what will come of it, is the outlook's business.

use std::time::Duration;

use crate::time::{Instant, nanos};

const SLOT: u64 = nanos(Duration::from_millis(500));
/// Ten seconds, and the slot that is under way.
const SLOTS: usize = 21;

/// Tokens that were spent in the last ten seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Sent {
    /// A ring; slot number n is at n modulo its length.
    slots: [u64; SLOTS],
    /// The number of the newest slot.
    newest: u64,
}

impl Sent {
    /// So many were spent at `at`. Those of two workers may be told in another order than they were; one that comes late
    /// counts as the latest so far.
    pub(super) fn add(&mut self, cost: u32, at: Instant) {
        self.advance(at);
        self.slots[place(self.newest)] += u64::from(cost);
    }

    /// How many a second it was over the last ten. Of the oldest slot counts what is left of it.
    pub(super) fn per_second(&mut self, now: Instant) -> f64 {
        self.advance(now);
        let into = (now.as_nanos() % SLOT) as f64 / SLOT as f64;
        let oldest = self.slots[place(self.newest + 1)];
        let rest: u64 = self.slots.iter().sum::<u64>() - oldest;
        (rest as f64 + oldest as f64 * (1.0 - into)) / 10.0
    }

    fn advance(&mut self, now: Instant) {
        let number = (now.as_nanos() / SLOT).max(self.newest);
        for step in 1..=(number - self.newest).min(SLOTS as u64) {
            self.slots[place(self.newest + step)] = 0;
        }
        self.newest = number;
    }
}

fn place(number: u64) -> usize {
    (number % SLOTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ORIGIN.after(Duration::from_millis(millis))
    }

    #[test]
    fn it_is_a_mean_over_ten_seconds_and_nothing_is_remembered_longer() {
        let mut sent = Sent::default();
        for millis in (0..30_000).step_by(100) {
            sent.add(1, at(millis));
        }
        for (millis, expected) in [(29_999, 10.0), (32_500, 7.5), (35_250, 4.75), (39_750, 0.25), (40_500, 0.0)] {
            let per_second = sent.clone().per_second(at(millis));
            assert!((per_second - expected).abs() < 0.02, "{per_second} at {millis} ms");
        }
        sent.add(3, at(3_600_000));
        // Told late, it counts as the latest.
        sent.add(2, at(3_500_000));
        assert!((sent.per_second(at(3_600_100)) - 0.5).abs() < f64::EPSILON);
    }
}
