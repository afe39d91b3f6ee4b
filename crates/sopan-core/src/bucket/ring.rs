//! One quota, as a ring of what left.
//!
//! At most N leave in any sliding span, so what must be known is when each of the last N left. Up to N = 128 every one
//! is kept; beyond that ⌈N/128⌉ share a group that leaves one span after its last, so at most 0.8 % is held too long and
//! memory stays small for a quota of a million. The span is longer than the upstream's by `min(span/200, 100 ms)`, for
//! jitter on the way: that makes it safe against fixed windows, sliding windows and buckets alike.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Fill, Room};
use crate::policy::Quota;
use crate::time::Instant;

const GROUPS: u64 = 128;
const SPAN_MARGIN_MAX: Duration = Duration::from_millis(100);

#[derive(Debug, Clone)]
pub(super) struct QuotaRing {
    count: u64,
    span: Duration,
    group_size: u64,
    /// Oldest first; their sum is what left and may still be in the span.
    groups: VecDeque<Group>,
    used: u64,
    reserved: u64,
}

#[derive(Debug, Clone, Copy)]
struct Group {
    last: Instant,
    turns: u64,
}

impl QuotaRing {
    pub(super) fn new(quota: Quota) -> Self {
        let span = quota.span() + (quota.span() / 200).min(SPAN_MARGIN_MAX);
        let group_size = quota.count().div_ceil(GROUPS);
        Self { count: quota.count(), span, group_size, groups: VecDeque::new(), used: 0, reserved: 0 }
    }

    pub(super) fn room(&self, cost: u32, now: Instant) -> Room {
        // As with rates, a cost above the quota goes when nothing is used of it.
        let cost = u64::from(cost).min(self.count);
        if self.reserved + cost > self.count {
            return Room::Reserved(now.after(self.span));
        }
        match (self.used + self.reserved + cost).checked_sub(self.count) {
            None | Some(0) => Room::From(Instant::ORIGIN),
            Some(excess) => Room::From(self.oldest_leave(excess)),
        }
    }

    /// When the oldest `turns` have left the span; a group leaves as a whole.
    fn oldest_leave(&self, turns: u64) -> Instant {
        let mut left = turns;
        for group in &self.groups {
            if group.turns >= left {
                return group.last.after(self.span);
            }
            left -= group.turns;
        }
        self.groups.back().map_or(Instant::ORIGIN, |g| g.last.after(self.span))
    }

    pub(super) fn reserve(&mut self, cost: u32) {
        self.reserved += u64::from(cost);
    }

    pub(super) fn charge(&mut self, cost: u32, written: Instant) {
        self.give_back(cost);
        self.forget_before(written);
        let cost = u64::from(cost);
        self.used += cost;
        match self.groups.back_mut() {
            Some(group) if group.turns + cost <= self.group_size => {
                group.turns += cost;
                group.last = group.last.max(written);
            }
            last => {
                // Two workers may report out of order; the ring stays sorted, on the late side.
                let last = last.map_or(written, |g| g.last.max(written));
                self.groups.push_back(Group { last, turns: cost });
            }
        }
    }

    fn forget_before(&mut self, now: Instant) {
        while let Some(group) = self.groups.front().filter(|g| g.last.after(self.span) <= now) {
            self.used -= group.turns;
            self.groups.pop_front();
        }
    }

    pub(super) fn give_back(&mut self, cost: u32) {
        debug_assert!(self.reserved >= u64::from(cost), "what is given back was reserved");
        self.reserved = self.reserved.saturating_sub(u64::from(cost));
    }

    /// With n = ahead + cost − free: now if n ≤ 0, else when the oldest n have left, and a span more per further N.
    pub(super) fn predict(&self, ahead: u64, cost: u32, now: Instant) -> Instant {
        let wanted = ahead.saturating_add(u64::from(cost).min(self.count));
        let free = self.count.saturating_sub(self.used_at(now) + self.reserved);
        let Some(excess) = wanted.checked_sub(free).filter(|n| *n > 0) else { return now };
        let rounds = (excess - 1) / self.count;
        let oldest = excess - rounds * self.count;
        // Those that are only reserved will be written about now.
        let first =
            if oldest > self.used { now.after(self.span) } else { self.oldest_leave(oldest + self.expired(now)) };
        let more = u32::try_from(rounds).ok().and_then(|r| self.span.checked_mul(r)).unwrap_or(Duration::MAX);
        first.after(more)
    }

    fn used_at(&self, now: Instant) -> u64 {
        self.used - self.expired(now)
    }

    /// Turns that are still kept although they have left the span.
    fn expired(&self, now: Instant) -> u64 {
        self.groups.iter().take_while(|g| g.last.after(self.span) <= now).map(|g| g.turns).sum()
    }

    pub(super) fn take_over(&mut self, old: &Self) {
        for group in &old.groups {
            self.reserved += group.turns;
            for turns in pieces(group.turns, self.group_size) {
                self.charge(turns, group.last);
            }
        }
    }

    pub(super) fn reserved(&self) -> u64 {
        self.reserved
    }

    pub(super) fn set_reserved(&mut self, reserved: u64) {
        self.reserved = reserved;
    }

    #[cfg(test)]
    pub(super) fn groups_len(&self) -> usize {
        self.groups.len()
    }

    pub(super) fn fill(&self, now: Instant) -> Fill {
        let tokens = self.count as f64 - (self.used_at(now) + self.reserved) as f64;
        Fill { tokens, capacity: self.count as f64 }
    }
}

/// `turns` in pieces of at most `size`.
fn pieces(turns: u64, size: u64) -> impl Iterator<Item = u32> {
    let size = size.min(u64::from(u32::MAX));
    (0..turns.div_ceil(size)).map(move |i| (turns - i * size).min(size) as u32)
}
