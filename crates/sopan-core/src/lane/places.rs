//! Places for requests that are under way at once, and how long one is held.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Instant;

/// Places remembered for the mean.
const REMEMBERED: usize = 100;

#[derive(Debug)]
pub(super) struct Places {
    max: Option<u32>,
    taken: u32,
    held: VecDeque<Duration>,
    sum: Duration,
}

impl Places {
    pub(super) fn new(max: Option<u32>) -> Self {
        Self { max, taken: 0, held: VecDeque::new(), sum: Duration::ZERO }
    }

    pub(super) fn taken(&self) -> u32 {
        self.taken
    }

    pub(super) fn has_room(&self) -> bool {
        self.max.is_none_or(|max| self.taken < max)
    }

    /// How many are free; none where any number may be taken.
    pub(super) fn room(&self) -> Option<u64> {
        self.max.map(|max| max.saturating_sub(self.taken).into())
    }

    pub(super) fn take(&mut self) {
        self.taken += 1;
    }

    /// Frees a place that was taken at `since`; answers whether all were taken.
    pub(super) fn free(&mut self, since: Instant, now: Instant) -> bool {
        debug_assert!(self.taken > 0, "a place that is freed was taken");
        let was_full = !self.has_room();
        self.taken = self.taken.saturating_sub(1);
        if self.max.is_some() {
            let held = now.since(since);
            self.sum = self.sum.saturating_add(held);
            self.held.push_back(held);
            if self.held.len() > REMEMBERED {
                let oldest = self.held.pop_front().unwrap_or_default();
                self.sum = self.sum.saturating_sub(oldest);
            }
        }
        was_full
    }

    /// When a place is free for one who comes after `ahead` others: m · (ahead + 1 − free) / max, with m the mean time
    /// for which a place was held of late.
    pub(super) fn predict(&self, ahead: u64, now: Instant) -> Instant {
        let Some(max) = self.max else { return now };
        let free = u64::from(max.saturating_sub(self.taken));
        let Some(mean) = self.sum.checked_div(self.held.len() as u32) else { return now };
        let needed = (ahead + 1).saturating_sub(free);
        now.after(mean.mul_f64(needed as f64 / f64::from(max)))
    }
}
