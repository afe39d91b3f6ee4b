//! One rate, as one instant.
//!
//! The rate is N tokens per P ns, and instants are counted in units of 1/N ns, so one token is exactly P units and
//! nothing is ever rounded: a year at `0.333333/s` ends where it should. `tat` is the instant at which the bucket would be
//! full again; it is at most `b · P` units ahead of now, but for debts and holds.

use super::wide::mul_div_up;
use super::{Fill, Room};
use crate::policy::{Margin, Rate};
use crate::time::Instant;

#[derive(Debug, Clone)]
pub(super) struct RateMeter {
    /// Tokens, N: at most 10^15, so that any instant in units fits a u128 with room for the largest burst.
    n: u128,
    /// Nanoseconds, P; also the units that one token takes to refill.
    p: u128,
    /// Tokens when full.
    b: u64,
    tat: u128,
    /// What `tat` would be if there were no hold, while there is one: a hold that is ended early must not leave more behind
    /// than there would have been.
    unheld: Option<u128>,
    reserved: u64,
}

const N_MAX: u128 = 1_000_000_000_000_000;

/// The rate as it is kept to: N tokens per P ns, the margin taken off, and the tokens there are when full.
pub(crate) fn schedule(rate: &Rate, headroom: u32, margin: Margin) -> (u128, u128, u64) {
    let (n, p) = rate.fraction();
    let millionths = u128::from(1_000_000 - margin.millionths());
    let (mut n, mut p) = crate::policy::reduce(u128::from(n) * millionths, p * 1_000_000);
    while n > N_MAX {
        // Beyond 15 digits of a rate: round it down, never up.
        (n, p) = (n / 2, p.div_ceil(2));
    }
    let b = match rate.burst() {
        1 => 1,
        burst => burst.saturating_sub(headroom).max(1),
    };
    (n, p, b.into())
}

impl RateMeter {
    pub(super) fn new(rate: &Rate, headroom: u32, margin: Margin) -> Self {
        let (n, p, b) = schedule(rate, headroom, margin);
        Self { n, p, b, tat: 0, unheld: None, reserved: 0 }
    }

    pub(super) fn room(&self, cost: u32, now: Instant) -> Room {
        let cost = u64::from(cost);
        // A cost above the bucket goes when it is full and nothing is reserved, and leaves a debt.
        let wanted = self.reserved.saturating_add(cost);
        if wanted > self.b && self.reserved > 0 {
            let spent = self.tat.max(self.units(now)) + u128::from(self.reserved) * self.p;
            return Room::Reserved(self.instant(spent.saturating_sub(self.slack(cost))));
        }
        Room::From(self.instant(self.tat.saturating_sub(self.slack(wanted))))
    }

    /// How long before `tat`, in units, `wanted` tokens are there: `(b − wanted) · P`.
    fn slack(&self, wanted: u64) -> u128 {
        u128::from(self.b.saturating_sub(wanted)) * self.p
    }

    pub(super) fn reserve(&mut self, cost: u32) {
        self.reserved += u64::from(cost);
    }

    pub(super) fn charge(&mut self, cost: u32, at: Instant) {
        self.give_back(cost);
        let at = self.units(at);
        self.tat = self.spent(self.tat, cost, at);
        self.unheld = self.unheld.map(|tat| self.spent(tat, cost, at));
    }

    /// What becomes of `tat` when `cost` leaves at `at`.
    fn spent(&self, tat: u128, cost: u32, at: u128) -> u128 {
        // Within a nanosecond above `tat` is the rounding of an instant that was due, not lateness: counting it would make
        // every turn of a schedule a little later than the last.
        let start = if at < tat.saturating_add(self.n) { tat } else { at };
        start.saturating_add(u128::from(cost) * self.p)
    }

    pub(super) fn give_back(&mut self, cost: u32) {
        debug_assert!(self.reserved >= u64::from(cost), "what is given back was reserved");
        self.reserved = self.reserved.saturating_sub(u64::from(cost));
    }

    /// (tat + (reserved + ahead + cost − b) · P) / N
    pub(super) fn predict(&self, ahead: u64, cost: u32, now: Instant) -> Instant {
        let wanted = u128::from(self.reserved) + u128::from(ahead) + u128::from(u64::from(cost).min(self.b));
        let b = u128::from(self.b);
        let full = self.tat.max(self.units(now));
        let due = if wanted > b {
            full.saturating_add((wanted - b).saturating_mul(self.p))
        } else {
            self.tat.saturating_sub((b - wanted) * self.p)
        };
        self.instant(due)
    }

    /// The most tokens of which the last is predicted to leave by `at`.
    pub(super) fn count_until(&self, at: Instant, now: Instant) -> u64 {
        let (at, full) = (self.units(at), self.tat.max(self.units(now)));
        let more = match at.checked_sub(full) {
            Some(more) => u128::from(self.b) + more / self.p,
            None => u128::from(self.b).saturating_sub(self.tat.saturating_sub(at).div_ceil(self.p)),
        };
        u64::try_from(more.saturating_sub(u128::from(self.reserved))).unwrap_or(u64::MAX)
    }

    pub(super) fn hold_until(&mut self, end: Instant) {
        let one_token = self.units(end).saturating_add(self.slack(1));
        self.unheld.get_or_insert(self.tat);
        self.tat = self.tat.max(one_token);
    }

    /// The hold has come to its end.
    pub(super) fn hold_over(&mut self) {
        self.unheld = None;
    }

    /// The hold ends before its time, and leaves one token behind, or less where there would not be one without it.
    pub(super) fn release(&mut self, now: Instant) {
        if let Some(tat) = self.unheld.take() {
            self.tat = tat.max(self.units(now).saturating_add(self.slack(1)));
        }
    }

    pub(super) fn take_over(&mut self, old: &Self, now: Instant) {
        let carried = |tat: u128| {
            let missing = tat.saturating_sub(old.units(now));
            self.units(now).saturating_add(mul_div_up(missing, self.p, old.p))
        };
        (self.tat, self.unheld) = (carried(old.tat), old.unheld.map(carried));
    }

    pub(super) fn reserved(&self) -> u64 {
        self.reserved
    }

    pub(super) fn set_reserved(&mut self, reserved: u64) {
        self.reserved = reserved;
    }

    pub(super) fn fill(&self, now: Instant) -> Fill {
        let missing = self.tat.saturating_sub(self.units(now)) as f64 / self.p as f64 + self.reserved as f64;
        Fill { tokens: self.b as f64 - missing, capacity: self.b as f64 }
    }

    /// When all of it is there if nothing more leaves; what is reserved counts as gone.
    pub(super) fn full_at(&self) -> Instant {
        self.instant(self.tat.saturating_add(u128::from(self.reserved) * self.p))
    }

    fn units(&self, at: Instant) -> u128 {
        u128::from(at.as_nanos()) * self.n
    }

    /// The first whole nanosecond at or after that many units: never early.
    fn instant(&self, units: u128) -> Instant {
        Instant::from_nanos(u64::try_from(units.div_ceil(self.n)).unwrap_or(u64::MAX))
    }
}
