//! May a request leave now, and if not, when? All limits of a lane together, taken all or not at all.
//!
//! A `RateMeter` keeps a rate as one instant (the theoretical arrival time of GCRA, ITU-T I.371), a
//! `QuotaRing` keeps a quota as a ring of instants, and a `DayCount` one of the calendar as a count a day. Taking *reserves* tokens, writing the request's head
//! *charges* them at that instant, and a turn that ends unwritten gives its reservation back: what counts upstream is the
//! arrival, and the instant of writing is the last that we control. Reserved tokens never refill.
//!
//! Who takes next, and what else must hold before a request leaves, is [`crate::lane`]'s business.

mod day;
mod meter;
mod quota;
mod ring;
mod wide;

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use crate::journal::{Note, is_kept, title};
use crate::policy::{Limit, Margin};
use crate::time::Instant;
use meter::RateMeter;
pub(crate) use meter::schedule;
use quota::QuotaCount;
pub(crate) use ring::spread;

/// How much a late turn may move its schedule back at most: in any span at most `burst + rate · (span + LATE_MAX)` leave.
pub const LATE_MAX: Duration = Duration::from_millis(1);

/// What [`Bucket::take`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// Reserved in every limit; `due` is the first instant at which it could have been.
    Taken {
        /// When the schedule first allowed it.
        due: Instant,
    },
    /// Nothing was taken; the limits allow it at this instant.
    At(Instant),
    /// Nothing was taken; a turn that holds the tokens must be written or given back first. If all were written now, the
    /// limits would allow it at this instant.
    Reserved(Instant),
}

/// How full one limit is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fill {
    /// Tokens that can be taken now; negative while a debt is paid off.
    pub tokens: f64,
    /// Tokens when full.
    pub capacity: f64,
}

/// All limits of a lane.
#[derive(Debug)]
pub struct Bucket {
    rates: Vec<RateMeter>,
    quotas: Vec<QuotaCount>,
}

impl Bucket {
    /// A bucket for these limits, full at every instant so far.
    ///
    /// `headroom` is what a rate with a burst of 2 or more leaves of it unused, to absorb the jitter of the way; `margin`
    /// the share of every rate that is left unused, since two clocks never run alike.
    pub fn new(limits: &[Limit], headroom: u32, margin: Margin) -> Self {
        let mut bucket = Self { rates: Vec::new(), quotas: Vec::new() };
        for limit in limits {
            match limit {
                Limit::Rate(rate) => bucket.rates.push(RateMeter::new(rate, headroom, margin)),
                Limit::Quota(quota) => bucket.quotas.push(QuotaCount::sliding(*quota)),
                Limit::Calendar(quota) => bucket.quotas.push(QuotaCount::calendar(quota)),
            }
        }
        bucket
    }

    /// Reserves `cost` tokens in every limit, or none in any.
    pub fn take(&mut self, cost: u32, now: Instant) -> Take {
        let found = self.look(cost, now);
        if let Take::Taken { .. } = found {
            self.reserve(cost);
        }
        found
    }

    /// What [`take`](Self::take) would find. Nothing is reserved.
    pub fn look(&self, cost: u32, now: Instant) -> Take {
        let mut due = Instant::ORIGIN;
        let mut reserved = None;
        for room in self.rates.iter().map(|r| r.room(cost, now)).chain(self.quotas.iter().map(|q| q.room(cost, now))) {
            match room {
                Room::From(at) => due = due.max(at),
                Room::Reserved(at) => reserved = reserved.max(Some(at)),
            }
        }
        if let Some(at) = reserved {
            return Take::Reserved(at.max(due));
        }
        if due > now {
            return Take::At(due);
        }
        Take::Taken { due }
    }

    /// Reserves what a [`look`](Self::look) at the same instant found to be there.
    pub fn reserve(&mut self, cost: u32) {
        self.rates.iter_mut().for_each(|r| r.reserve(cost));
        self.quotas.iter_mut().for_each(|q| q.reserve(cost));
    }

    /// Turns a reservation of `cost` into spent tokens: the head was written at `written`. `due` is when the turn could
    /// first have gone if it waited for it, none if it never waited; up to [`LATE_MAX`] of lateness does not move the
    /// schedule, so that lateness does not add up.
    pub fn charge(&mut self, cost: u32, due: Option<Instant>, written: Instant) {
        let late = due.map_or(Duration::ZERO, |due| written.since(due).min(LATE_MAX));
        self.rates.iter_mut().for_each(|r| r.charge(cost, written.before(late)));
        self.quotas.iter_mut().for_each(|q| q.charge(cost, written));
    }

    /// Gives back a reservation whose head was never written. This is the only refund.
    pub fn give_back(&mut self, cost: u32) {
        self.rates.iter_mut().for_each(|r| r.give_back(cost));
        self.quotas.iter_mut().for_each(|q| q.give_back(cost));
    }

    /// When `cost` could leave if `ahead` tokens left before it, as early as the limits let them: an estimate for
    /// admission, not earlier than `now`.
    pub fn predict(&self, ahead: u64, cost: u32, now: Instant) -> Instant {
        let rates = self.rates.iter().map(|r| r.predict(ahead, cost, now));
        let quotas = self.quotas.iter().map(|q| q.predict(ahead, cost, now));
        rates.chain(quotas).fold(now, Instant::max)
    }

    /// How many tokens could leave one by one from `now` up to `at`, as early as the limits let them: the inverse of
    /// [`predict`](Self::predict).
    pub fn count_until(&self, at: Instant, now: Instant) -> u64 {
        let rates = self.rates.iter().map(|r| r.count_until(at, now));
        let quotas = self.quotas.iter().map(|q| q.count_until(at, now));
        rates.chain(quotas).min().unwrap_or(u64::MAX)
    }

    /// At `end` every rate will hold exactly one token, or less if it owes more: one turn leaves at the end of a hold and
    /// the next ones follow evenly. Quotas count what left, whatever the upstream said, and stay as they are.
    pub fn hold_until(&mut self, end: Instant) {
        self.rates.iter_mut().for_each(|r| r.hold_until(end));
    }

    /// That hold has come to its end.
    pub fn hold_over(&mut self) {
        self.rates.iter_mut().for_each(RateMeter::hold_over);
    }

    /// That hold ends now, before its time: every rate holds one token, or less where it would not have one without the hold.
    pub fn release(&mut self, now: Instant) {
        self.rates.iter_mut().for_each(|r| r.release(now));
    }

    /// When the calendar must be told again by [`Bucket::set_calendar`]; never where no limit depends on it.
    pub fn calendar_due(&self) -> Instant {
        self.quotas.iter().map(QuotaCount::calendar_due).min().unwrap_or(Instant::NEVER)
    }

    /// The clock on the wall shows `wall` at `now`.
    pub fn set_calendar(&mut self, now: Instant, wall: SystemTime) {
        self.quotas.iter_mut().for_each(|q| q.set_calendar(now, wall));
    }

    /// From now on what may leave of the quotas among `limits`, which are this bucket's, is told before it leaves, where a quota
    /// is one [to be kept](crate::journal::is_kept); those of a client of its own under its [name](title).
    pub fn keep(&mut self, limits: &[Limit], client: Option<&str>) {
        let mut known = BTreeSet::new();
        let limits = limits.iter().filter(|limit| !matches!(limit, Limit::Rate(_)));
        for (quota, limit) in self.quotas.iter_mut().zip(limits) {
            // Of two that are the same one is enough.
            if let Some(count) = is_kept(limit).filter(|_| known.insert(limit.to_string())) {
                quota.keep(title(limit, client).into(), count);
            }
        }
    }

    /// What must be on file before the turns that are out are used.
    pub fn journal(&mut self, now: Instant, notes: &mut Vec<Note>) {
        notes.extend(self.quotas.iter_mut().filter_map(|quota| quota.journal(now)));
    }

    /// All that is not on file yet.
    pub fn whole_journal(&mut self, now: Instant, notes: &mut Vec<Note>) {
        notes.extend(self.quotas.iter_mut().filter_map(|quota| quota.whole_journal(now)));
    }

    /// Counts what the file knows of these limits, once, before anything is taken.
    pub fn restore(&mut self, notes: &[Note], now: Instant) {
        for quota in &mut self.quotas {
            notes.iter().for_each(|note| quota.restore(note, now));
        }
    }

    /// Begins where another count of these limits, as a whole, stood at `fills`: every rate with one token, every quota with
    /// one of `parts` of what was left. Nothing may have been taken yet.
    pub fn begin_with(&mut self, fills: &[Fill], parts: u32, now: Instant) {
        self.rates.iter_mut().for_each(|rate| rate.hold_until(now));
        self.hold_over();
        for (quota, fill) in self.quotas.iter_mut().zip(fills.iter().skip(self.rates.len())) {
            let left = fill.tokens.max(0.0) / f64::from(parts.max(1));
            quota.spend(quota.free(now).saturating_sub(left as u64), now);
        }
    }

    /// Whether tokens are reserved and not yet spent or given back, so that predictions move with time.
    pub fn is_reserved(&self) -> bool {
        self.reserved() > 0
    }

    /// How many tokens are reserved and not yet spent or given back.
    pub fn reserved(&self) -> u64 {
        let (rates, quotas) =
            (self.rates.iter().map(RateMeter::reserved), self.quotas.iter().map(QuotaCount::reserved));
        rates.chain(quotas).max().unwrap_or(0)
    }

    /// So many are reserved by turns that are out already, of a bucket that this one takes the place of.
    pub fn set_reserved(&mut self, reserved: u64) {
        self.rates.iter_mut().for_each(|r| r.set_reserved(reserved));
        self.quotas.iter_mut().for_each(|q| q.set_reserved(reserved));
    }

    /// Whether a rate spaces what leaves; without one the lane must restart by rounds after a hold.
    pub fn has_rate(&self) -> bool {
        !self.rates.is_empty()
    }

    /// Replaces the limits without losing what is used of them: the n-th rate takes over the tokens missing from the n-th
    /// rate so far, each quota what has left
    /// within its span or day of the quota of its kind. Limits without a predecessor start full. What
    /// is on file must be told anew.
    pub fn change(&mut self, limits: &[Limit], headroom: u32, margin: Margin, now: Instant) {
        let old = std::mem::replace(self, Self::new(limits, headroom, margin));
        for (new, old) in self.rates.iter_mut().zip(&old.rates) {
            new.take_over(old, now);
        }
        for i in 0..self.quotas.len() {
            let (earlier, rest) = self.quotas.split_at_mut(i);
            let new = &mut rest[0];
            let nth = earlier.iter().filter(|quota| quota.is_like(new)).count();
            if let Some(old) = new.predecessor(nth, &old.quotas) {
                new.take_over(old);
            }
        }
        // What was reserved under the old limits will be charged or given back under the new ones.
        self.set_reserved(old.reserved());
    }

    /// How long until each limit is full if nothing more leaves, in the order of [`fills`](Self::fills).
    pub fn full_in(&self, now: Instant) -> impl Iterator<Item = Duration> + '_ {
        let rates = self.rates.iter().map(RateMeter::full_at);
        rates.chain(self.quotas.iter().map(move |q| q.full_at(now))).map(move |at| at.until(now))
    }

    /// How long until a quota is used up if so many leave in every second from now on; none if none will be. An estimate, that
    /// knows nothing of the rates.
    pub fn lasts(&self, per_s: f64, now: Instant) -> Option<Duration> {
        self.quotas.iter().filter_map(|q| q.lasts(per_s, now)).min()
    }

    /// How full each limit is, rates first, each kind in the order it was given.
    pub fn fills(&self, now: Instant) -> impl Iterator<Item = Fill> + '_ {
        self.rates.iter().map(move |r| r.fill(now)).chain(self.quotas.iter().map(move |q| q.fill(now)))
    }
}

/// Whether one limit has room: from an instant on, or only after a reservation was settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    From(Instant),
    Reserved(Instant),
}

#[cfg(test)]
mod tests;
