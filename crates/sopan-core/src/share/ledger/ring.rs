//! A quota of a sliding span: when what was dealt out leaves it, in groups.
//!
//! The same as a lane's own ring (see [`crate::bucket`]), but that turns come back: they are taken out of the group that they
//! were in, or of one that leaves before it, so that nothing is ever let too early.

use crate::share::terms::shared_count;
use crate::share::{Granted, Members};

/// A group closes when it has a 128th of the quota.
const GROUPS: u64 = 128;
/// More are there only where turns came back; then the oldest ones leave together.
const GROUPS_MAX: usize = 256;

#[derive(Debug, Clone)]
pub(super) struct RingPage {
    count: u64,
    span: u64,
    used: u64,
    /// Oldest first: when they leave, and how many.
    groups: Vec<(u64, u64)>,
}

impl RingPage {
    pub(super) fn new(count: u64, span: u64) -> Self {
        Self { count, span, used: 0, groups: Vec::new() }
    }

    pub(super) fn term(&self) -> (u64, u64) {
        (self.count, self.span)
    }

    pub(super) fn forget_before(&mut self, now: u64) {
        let gone = self.groups.partition_point(|(leaves, _)| *leaves <= now);
        let turns: u64 = self.groups.drain(..gone).map(|(_, turns)| turns).sum();
        self.used -= turns;
    }

    pub(super) fn earliest(&self, cost: u32, members: Members) -> u64 {
        let count = shared_count(self.count, members);
        let wanted = self.used + u64::from(cost).min(count);
        let mut excess = wanted.saturating_sub(count);
        let mut at = 0;
        for (leaves, turns) in &self.groups {
            if excess == 0 {
                break;
            }
            (at, excess) = (*leaves, excess.saturating_sub(*turns));
        }
        at
    }

    /// `at` is the last instant at which they may leave.
    pub(super) fn charge(&mut self, turns: u64, at: u64) {
        let mut leaves = at + self.span;
        self.used += turns;
        let size = self.count.div_ceil(GROUPS);
        if let Some(last) = self.groups.last_mut() {
            leaves = leaves.max(last.0);
            if last.1 + turns <= size {
                *last = (leaves, last.1 + turns);
                return;
            }
        }
        self.groups.push((leaves, turns));
        if self.groups.len() > GROUPS_MAX {
            let (_, turns) = self.groups.remove(0);
            self.groups[0].1 += turns;
        }
    }

    pub(super) fn give_back(&mut self, granted: Granted, now: u64) {
        let leaves = granted.due.0 + self.span;
        if leaves <= now {
            return;
        }
        let mut left = u64::from(granted.cost);
        let mut at = self.groups.partition_point(|(other, _)| *other < leaves);
        while left > 0 && at < self.groups.len() {
            let turns = left.min(self.groups[at].1);
            self.groups[at].1 -= turns;
            (self.used, left) = (self.used - turns, left - turns);
            if self.groups[at].1 == 0 {
                self.groups.remove(at);
            } else {
                at += 1;
            }
        }
    }

    pub(super) fn shift(&mut self, back: u64) {
        self.groups.iter_mut().for_each(|(leaves, _)| *leaves = leaves.saturating_sub(back));
    }

    pub(super) fn take_over(&mut self, old: &Self) {
        (self.used, self.groups) = (old.used, old.groups.clone());
        for (leaves, _) in &mut self.groups {
            *leaves = (*leaves + self.span).saturating_sub(old.span);
        }
    }

    pub(super) fn fill(&self, members: Members) -> (f64, f64) {
        let count = shared_count(self.count, members) as f64;
        ((count - self.used as f64) * 1000.0, count)
    }
}
