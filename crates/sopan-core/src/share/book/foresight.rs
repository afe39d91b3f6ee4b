//! When would a turn come that is not leased yet, and how full are the limits?
//!
//! What is in hand is certain. Beyond that the last answer tells when the next turn would be due, how many tokens there were and
//! how many instances want them; all the rest is an estimate at an even pace.

use std::time::Duration;

use super::Book;
use crate::bucket::Fill;
use crate::time::Instant;

impl Book {
    /// When `cost` could leave if `ahead` tokens left before it, not earlier than `now`.
    pub fn predict(&self, ahead: u64, cost: u32, now: Instant) -> Instant {
        let wanted = ahead.saturating_add(cost.into());
        let more = match self.in_hand(wanted, now) {
            Ok(due) => return due.max(now),
            Err(more) => more,
        };
        let later = more.saturating_sub(self.there(now)).saturating_sub(1) as f64 * self.seconds_a_turn();
        self.base(now).after(Duration::try_from_secs_f64(later).unwrap_or(Duration::MAX))
    }

    /// Whether that is an instant that comes by itself, and does not move with the clock.
    pub fn is_certain(&self, ahead: u64, cost: u32, now: Instant) -> bool {
        self.in_hand(ahead.saturating_add(cost.into()), now).is_ok() || self.next > now.after(self.took)
    }

    /// How full each limit is, rates first.
    pub fn fills(&self, now: Instant) -> Vec<Fill> {
        let terms = &self.terms;
        if self.fills.len() != terms.rates.len() + terms.quotas.len() {
            let full = |count: u64| Fill { tokens: count as f64, capacity: count as f64 };
            let rates = terms.rates.iter().map(|rate| full(rate.burst));
            return rates.chain(terms.quotas.iter().map(|quota| full(quota.count()))).collect();
        }
        let micros = now.since(self.told).as_secs_f64() * 1e6;
        let refilled = terms.rates.iter().map(|rate| micros * rate.parts as f64 / rate.interval as f64);
        let refilled = refilled.chain(std::iter::repeat(0.0));
        self.fills
            .iter()
            .zip(refilled)
            .map(|(f, more)| Fill { tokens: (f.tokens + more).min(f.capacity), ..*f })
            .collect()
    }

    /// How long until each limit is full if nothing more leaves.
    pub fn full_in(&self, now: Instant) -> Vec<Duration> {
        let paces = self.terms.paces();
        let missing = self.fills(now).into_iter().map(|fill| (fill.capacity - fill.tokens).max(0.0));
        missing.zip(paces).map(|(missing, pace)| seconds(missing * pace)).collect()
    }

    /// How long until a quota is used up if this instance goes on to spend so much in a second, and the others as much each.
    pub fn lasts(&self, per_s: f64, now: Instant) -> Option<Duration> {
        let spent = per_s * f64::from(self.members.counted);
        let quotas = self.fills(now).into_iter().zip(self.terms.paces()).skip(self.terms.rates.len());
        // Whoever spends no more than comes back never uses it up.
        quotas.filter(|(_, pace)| spent * pace > 1.0).map(|(fill, _)| seconds(fill.tokens.max(0.0) / spent)).min()
    }

    /// When the last of so many tokens is due, if they are in hand; else how many are missing.
    fn in_hand(&self, tokens: u64, now: Instant) -> Result<Instant, u64> {
        if let Some(alike) = self.alike.map(u64::from) {
            let (from, turns) = (self.lapsed(now), tokens.div_ceil(alike).max(1));
            let last = usize::try_from(turns - 1).unwrap_or(usize::MAX);
            let lease = self.leases.get(from.saturating_add(last));
            let there = alike * (self.leases.len() - from) as u64;
            return lease.map(|lease| lease.due).ok_or(tokens.saturating_sub(there));
        }
        let mut left = tokens;
        for lease in self.leases.iter().filter(|lease| lease.lapses > now) {
            left = left.saturating_sub(lease.granted.cost.into());
            if left == 0 {
                return Ok(lease.due);
            }
        }
        Err(left)
    }

    /// When the first turn could come that is not in hand.
    fn base(&self, now: Instant) -> Instant {
        let last = self.leases.back().map_or(now, |lease| lease.due);
        self.next.max(now.after(self.took)).max(last)
    }

    /// From one turn of ours to the next when there is nothing in store, in seconds.
    pub(super) fn seconds_a_turn(&self) -> f64 {
        let aside = f64::from(self.members.counted) / f64::from(self.members.seen);
        (self.terms.seconds_a_turn() * aside * f64::from(self.among)).max(1e-9)
    }

    /// Our part of what the ledger has in store.
    fn there(&self, now: Instant) -> u64 {
        let there = self.fills(now).iter().map(|fill| fill.tokens).fold(f64::MAX, f64::min);
        (there / f64::from(self.among)) as u64
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
