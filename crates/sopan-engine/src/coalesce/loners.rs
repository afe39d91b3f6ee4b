//! Which answers were for nobody else lately, so that nobody waits for the next one?

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use sopan_core::time::Instant;

use crate::digest::ByDigest;

/// How long that is remembered.
pub(super) const ALONE_FOR: Duration = Duration::from_secs(60);
/// How many are remembered; the oldest are forgotten first, and whoever asks for one waits once in vain.
pub(super) const LONERS_MAX: usize = 10_000;

/// A share of those that are remembered, each known by a digest of its own.
pub(super) struct Loners<C> {
    until: HashMap<C, Instant, ByDigest>,
    /// All of them in the order of their end, which is that of their beginning.
    order: VecDeque<(Instant, C)>,
    max: usize,
}

impl<C: Eq + Hash + Clone> Loners<C> {
    /// One of so many shares.
    pub(super) fn new(shares: usize) -> Self {
        Self { until: HashMap::default(), order: VecDeque::new(), max: LONERS_MAX.div_ceil(shares) }
    }

    pub(super) fn contains(&self, course: &C, now: impl FnOnce() -> Instant) -> bool {
        self.until.get(course).is_some_and(|until| now() < *until)
    }

    pub(super) fn add(&mut self, course: C, now: Instant) {
        let until = now.after(ALONE_FOR);
        self.until.insert(course.clone(), until);
        self.order.push_back((until, course));
        while self.order.len() > self.max || self.order.front().is_some_and(|(until, _)| *until <= now) {
            let Some((until, course)) = self.order.pop_front() else { break };
            // It may have been added once more since.
            if self.until.get(&course) == Some(&until) {
                self.until.remove(&course);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.until.len()
    }
}
