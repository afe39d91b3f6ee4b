//! One quota, as a ring of what left.
//!
//! At most N leave in any sliding span, so what must be known is when each of the last N left. Up to N = 128 every one
//! is kept; beyond that ⌈N/128⌉ share a group that leaves one span after its last, so at most 0.8 % is held too long and
//! memory stays small for a quota of a million. The span is longer than the upstream's by `min(span/200, 100 ms)`, for
//! jitter on the way: that makes it safe against fixed windows, sliding windows and buckets alike.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Fill, Room};
use crate::journal::Left;
use crate::policy::Quota;
use crate::time::Instant;

pub(super) const GROUPS: u64 = 128;
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
    /// One span after its last turn: unlike the turn itself, that never lies before the origin of instants.
    leaves: Instant,
    turns: u64,
}

/// The span of a quota as it is kept to, with a margin for jitter on the way.
pub(crate) fn spread(span: Duration) -> Duration {
    span + (span / 200).min(SPAN_MARGIN_MAX)
}

impl QuotaRing {
    pub(super) fn new(quota: Quota) -> Self {
        let span = spread(quota.span());
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
                return group.leaves;
            }
            left -= group.turns;
        }
        self.groups.back().map_or(Instant::ORIGIN, |g| g.leaves)
    }

    pub(super) fn reserve(&mut self, cost: u32) {
        self.reserved += u64::from(cost);
    }

    pub(super) fn charge(&mut self, cost: u32, written: Instant) {
        self.give_back(cost);
        self.forget_before(written);
        self.add(u64::from(cost), written.after(self.span));
    }

    fn add(&mut self, turns: u64, leaves: Instant) {
        self.used += turns;
        match self.groups.back_mut() {
            Some(group) if group.turns + turns <= self.group_size => {
                group.turns += turns;
                group.leaves = group.leaves.max(leaves);
            }
            last => {
                // Two workers may report out of order; the ring stays sorted, on the late side.
                let leaves = last.map_or(leaves, |g| g.leaves.max(leaves));
                self.groups.push_back(Group { leaves, turns });
            }
        }
    }

    fn forget_before(&mut self, now: Instant) {
        while let Some(group) = self.groups.front().filter(|g| g.leaves <= now) {
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
        let free = self.free(now);
        let Some(excess) = wanted.checked_sub(free).filter(|n| *n > 0) else { return now };
        let rounds = (excess - 1) / self.count;
        let oldest = excess - rounds * self.count;
        // Those that are only reserved will be written about now.
        let first = if oldest > self.used_at(now) {
            now.after(self.span)
        } else {
            self.oldest_leave(oldest + self.expired(now))
        };
        let more = u32::try_from(rounds).ok().and_then(|r| self.span.checked_mul(r)).unwrap_or(Duration::MAX);
        first.after(more)
    }

    /// The most turns of which the last is predicted to leave by `at`: those for which there is room then, and N more for
    /// every span that goes by before.
    pub(super) fn count_until(&self, at: Instant, now: Instant) -> u64 {
        let spans = u32::try_from(at.since(now).as_nanos() / self.span.as_nanos().max(1)).unwrap_or(u32::MAX);
        let rest = at.before(self.span.saturating_mul(spans));
        self.free(rest).saturating_add(self.count.saturating_mul(u64::from(spans)))
    }

    fn used_at(&self, now: Instant) -> u64 {
        self.used - self.expired(now)
    }

    /// Turns that are still kept although they have left the span.
    fn expired(&self, now: Instant) -> u64 {
        self.groups.iter().take_while(|g| g.leaves <= now).map(|g| g.turns).sum()
    }

    pub(super) fn take_over(&mut self, old: &Self) {
        for group in &old.groups {
            let leaves = group.leaves.before(old.span.saturating_sub(self.span));
            let leaves = leaves.after(self.span.saturating_sub(old.span));
            for turns in pieces(group.turns, self.group_size) {
                self.add(turns, leaves);
            }
        }
    }

    /// When the last `turns` left, the oldest first; those that have left the span are no matter any more.
    pub(super) fn latest(&self, turns: u64, now: Instant) -> Vec<Left> {
        let (mut wanted, mut latest) = (turns, Vec::new());
        for group in self.groups.iter().rev().filter(|group| group.leaves > now) {
            let turns = group.turns.min(wanted);
            if turns == 0 {
                break;
            }
            latest.push(Left { ago: self.span.saturating_sub(group.leaves.until(now)), turns });
            wanted -= turns;
        }
        latest.reverse();
        latest
    }

    /// Counts what left before this ring was made, the oldest first.
    pub(super) fn restore(&mut self, left: &[Left], now: Instant) {
        for Left { ago, turns } in left {
            let rest = self.span.saturating_sub(*ago);
            // More than all of it is nothing that was ever written by us.
            let turns = (*turns).min(self.count);
            if turns > 0 && !rest.is_zero() {
                self.add(turns, now.after(rest));
            }
        }
    }

    /// How many there are room for now.
    pub(super) fn free(&self, now: Instant) -> u64 {
        self.count.saturating_sub(self.used_at(now) + self.reserved)
    }

    pub(super) fn reserved(&self) -> u64 {
        self.reserved
    }

    pub(super) fn set_reserved(&mut self, reserved: u64) {
        self.reserved = reserved;
    }

    /// When all of it is free if nothing more leaves; what is reserved counts as gone now.
    pub(super) fn full_at(&self, now: Instant) -> Instant {
        if self.reserved > 0 {
            return now.after(self.span);
        }
        self.groups.back().map_or(now, |last| last.leaves.max(now))
    }

    /// How long it lasts if so many leave in every second from now on; none if it lasts for good.
    pub(super) fn lasts(&self, per_s: f64, now: Instant) -> Option<Duration> {
        // What leaves now is back after a span, so if it lasts that long it lasts; whoever uses just what there is has no need
        // to hear of the margin.
        let span = self.span.saturating_sub(SPAN_MARGIN_MAX);
        let until = |count: u64| Duration::try_from_secs_f64(count as f64 / per_s).ok().filter(|t| *t < span);
        let mut there = self.free(now);
        let mut still_used = self.groups.iter().filter(|group| group.leaves > now).peekable();
        loop {
            let gone_in = until(there)?;
            let before = there;
            while let Some(group) = still_used.next_if(|group| group.leaves <= now.after(gone_in)) {
                there += group.turns;
            }
            if there == before {
                return Some(gone_in);
            }
        }
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
fn pieces(turns: u64, size: u64) -> impl Iterator<Item = u64> {
    (0..turns.div_ceil(size)).map(move |i| (turns - i * size).min(size))
}
