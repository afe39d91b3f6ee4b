//! What was counted while the breaker is closed, and whether it amounts to an outage.
//!
//! Failures in a row are one count and the instant of the first. The share is taken over a ring of fifty slots, which
//! together reach back as far as the window, less the part of the oldest slot that is over: nothing older than the window
//! ever counts, and at most a fiftieth of it is missing.

use std::time::Duration;

use crate::policy::BreakerPolicy;
use crate::time::{Instant, nanos};

pub(super) const SLOTS: usize = 50;

#[derive(Clone, Debug)]
pub(super) struct Tally {
    in_a_row: Failures,
    /// The length of a slot in nanoseconds.
    slot_length: u64,
    /// A ring; slot number n is at n modulo its length.
    slots: [Slot; SLOTS],
    /// The number of the newest slot.
    newest: u64,
    /// The sums over all slots.
    attempts: u64,
    failures: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    attempts: u64,
    failures: Failures,
}

/// So many failures, and when the first and the last of them were.
#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    count: u64,
    first: Instant,
    last: Instant,
}

impl Failures {
    fn add(&mut self, now: Instant) {
        if self.count == 0 {
            self.first = now;
        }
        self.count += 1;
        self.last = now;
    }

    fn span(&self) -> Duration {
        self.last.since(self.first)
    }
}

impl Tally {
    pub(super) fn new(window: Duration) -> Self {
        Self {
            in_a_row: Failures::default(),
            slot_length: (nanos(window) / SLOTS as u64).max(1),
            slots: [Slot::default(); SLOTS],
            newest: 0,
            attempts: 0,
            failures: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.in_a_row = Failures::default();
        self.slots = [Slot::default(); SLOTS];
        (self.attempts, self.failures) = (0, 0);
    }

    pub(super) fn success(&mut self, now: Instant) {
        self.in_a_row = Failures::default();
        self.slot(now).attempts += 1;
        self.attempts += 1;
    }

    pub(super) fn failure(&mut self, now: Instant) {
        self.in_a_row.add(now);
        let slot = self.slot(now);
        slot.attempts += 1;
        slot.failures.add(now);
        self.attempts += 1;
        self.failures += 1;
    }

    /// An attempt failed that was counted as a success, so there is a failure more and no attempt.
    pub(super) fn cut(&mut self, now: Instant) {
        self.in_a_row.add(now);
        self.slot(now).failures.add(now);
        self.failures += 1;
    }

    /// Whether what was counted is an outage by this policy: enough failures in a row or a large enough share, spanning
    /// long enough.
    pub(super) fn is_outage(&self, policy: &BreakerPolicy) -> bool {
        let in_a_row = self.in_a_row.count >= policy.failures.into() && self.in_a_row.span() >= policy.min_span;
        in_a_row || (self.is_large_share(policy) && self.failures_span() >= policy.min_span)
    }

    fn is_large_share(&self, policy: &BreakerPolicy) -> bool {
        self.attempts >= policy.attempts_min.into() && self.failures as f64 >= policy.share * self.attempts as f64
    }

    /// From the first to the last failure of the window.
    fn failures_span(&self) -> Duration {
        let oldest_first = (1..=SLOTS as u64).map(|step| self.slots[place(self.newest + step)].failures);
        let mut failing = oldest_first.filter(|failures| failures.count > 0);
        let Some(first) = failing.next() else { return Duration::ZERO };
        let last = failing.next_back().unwrap_or(first);
        last.last.since(first.first)
    }

    /// The slot of `now`, which becomes the newest; what falls out of the window is no longer counted. An instant before
    /// the newest slot counts in it.
    fn slot(&mut self, now: Instant) -> &mut Slot {
        let number = (now.as_nanos() / self.slot_length).max(self.newest);
        for step in 1..=(number - self.newest).min(SLOTS as u64) {
            let over = std::mem::take(&mut self.slots[place(self.newest + step)]);
            self.attempts -= over.attempts;
            self.failures -= over.failures.count;
        }
        self.newest = number;
        &mut self.slots[place(number)]
    }
}

fn place(number: u64) -> usize {
    (number % SLOTS as u64) as usize
}
