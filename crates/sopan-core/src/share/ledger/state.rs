//! All limits of one lane as a ledger keeps them: when all of them have a token, and what becomes of one that is dealt out.

use std::time::Duration;

use super::day::DayPage;
use super::rate::RatePage;
use super::ring::RingPage;
use crate::bucket::Fill;
use crate::lane::HeldBy;
use crate::share::terms::{HORIZON_MICROS, QuotaTerm};
use crate::share::{DayNow, Granted, Members, Terms};

/// Turns that came back and are dealt out first.
const BACK_MAX: usize = 128;

#[derive(Debug, Clone)]
pub(super) struct State {
    /// What the clock showed last.
    pub(super) at: u64,
    /// What the clock showed when this began.
    pub(super) born: u64,
    /// Until when nothing leaves, and who asked for that.
    pub(super) hold: u64,
    by: HeldBy,
    /// Turns that came back, earliest first.
    pub(super) back: Vec<Granted>,
    pub(super) limits: Vec<Page>,
}

#[derive(Debug, Clone)]
pub(super) enum Page {
    Rate(RatePage),
    Ring(RingPage),
    Day(DayPage),
}

/// What all that is calculated for one ask has in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now<'a> {
    pub(super) at: u64,
    pub(super) members: Members,
    pub(super) lapse: u64,
    pub(super) days: &'a [DayNow],
}

impl State {
    pub(super) fn new(terms: &Terms, born: u64) -> Self {
        let rates = terms.rates.iter().map(|rate| Page::Rate(RatePage::new(*rate)));
        let limits = rates.chain(terms.quotas.iter().map(Page::quota)).collect();
        Self { at: 0, born, hold: 0, by: HeldBy::Upstream, back: Vec::new(), limits }
    }

    pub(super) fn rates(&mut self) -> impl Iterator<Item = &mut RatePage> {
        self.limits.iter_mut().filter_map(|page| match page {
            Page::Rate(rate) => Some(rate),
            Page::Ring(_) | Page::Day(_) => None,
        })
    }

    /// Other limits than before: what is used of the old ones is used of the new ones of their kind, in order.
    pub(super) fn change(&mut self, terms: &Terms, now: &Now<'_>) {
        let mut new = Self::new(terms, 0).limits;
        if new.len() == self.limits.len() && new.iter().zip(&self.limits).all(|(new, old)| new.is_of(old)) {
            return;
        }
        let days = &mut now.days.iter();
        for i in 0..new.len() {
            let (earlier, rest) = new.split_at_mut(i);
            let nth = earlier.iter().filter(|page| page.is_like(&rest[0])).count();
            let mut like = self.limits.iter().filter(|page| page.is_like(&rest[0]));
            let old = like.nth(nth);
            match (&mut rest[0], old) {
                (Page::Rate(new), Some(Page::Rate(old))) => new.take_over(old, now.at),
                (Page::Ring(new), Some(Page::Ring(old))) => new.take_over(old),
                (Page::Day(new), old) => {
                    let day = days.next();
                    if let (Some(Page::Day(old)), Some(day)) = (old, day) {
                        new.take_over(old, day);
                    }
                }
                _ => {}
            }
        }
        self.limits = new;
    }

    /// All that is ahead of now is so much nearer.
    pub(super) fn shift(&mut self, back: u64) {
        for page in &mut self.limits {
            match page {
                Page::Rate(rate) => rate.shift(back),
                Page::Ring(ring) => ring.shift(back),
                Page::Day(_) => {}
            }
        }
        self.born = self.born.saturating_sub(back);
        self.hold = self.hold.saturating_sub(back);
        self.back.clear();
    }

    /// When every limit has `cost` tokens, nothing before now and no hold.
    pub(super) fn earliest(&self, cost: u32, now: &Now<'_>) -> u64 {
        let mut due = now.at.max(self.hold);
        let mut days = now.days.iter();
        for page in &self.limits {
            let at = match page {
                Page::Rate(rate) => rate.earliest(cost, now.members),
                Page::Ring(ring) => ring.earliest(cost, now.members),
                Page::Day(day) => days.next().map_or(0, |today| day.earliest(cost, now.members, today)),
            };
            due = due.max(at);
        }
        self.not_before_another_day(due, cost, now)
    }

    /// The same instant, or, if it is so near the end of a day that it counts for the next one, and that has no room, in that.
    pub(super) fn not_before_another_day(&self, due: u64, cost: u32, now: &Now<'_>) -> u64 {
        let days = self.days(now).map(|(page, day)| page.closes(cost, now.members, day, due, now.lapse));
        days.fold(due, u64::max)
    }

    /// Whether an instant is in a day whose name is not known yet.
    pub(super) fn is_another_day(&self, due: u64, now: &Now<'_>) -> bool {
        self.days(now).any(|(_, day)| due >= day.end.0)
    }

    pub(super) fn days<'a>(&'a self, now: &'a Now<'_>) -> impl Iterator<Item = (&'a DayPage, &'a DayNow)> {
        let days = self.limits.iter().filter_map(|page| match page {
            Page::Day(day) => Some(day),
            Page::Rate(_) | Page::Ring(_) => None,
        });
        days.zip(now.days)
    }

    pub(super) fn charge(&mut self, cost: u32, due: u64, now: &Now<'_>) {
        self.rates().for_each(|rate| rate.charge(cost, due, now.members));
        self.charge_quotas(cost.into(), due, now);
    }

    pub(super) fn charge_quotas(&mut self, cost: u64, due: u64, now: &Now<'_>) {
        let mut days = now.days.iter();
        for page in &mut self.limits {
            match page {
                Page::Rate(_) => {}
                Page::Ring(ring) => ring.charge(cost, due + now.lapse),
                Page::Day(day) => {
                    if let Some(today) = days.next() {
                        day.charge(cost, due, now.lapse, today);
                    }
                }
            }
        }
    }

    /// A turn that will not be used.
    pub(super) fn take_back(&mut self, granted: Granted, now: &Now<'_>) {
        let mut days = now.days.iter();
        for page in &mut self.limits {
            match page {
                Page::Rate(_) => {}
                Page::Ring(ring) => ring.give_back(granted, now.at),
                Page::Day(day) => {
                    if let Some(today) = days.next() {
                        day.give_back(granted, today);
                    }
                }
            }
        }
        let due = granted.due.0;
        let is_ahead = due >= now.at.max(self.hold) && due <= now.at + 2 * HORIZON_MICROS;
        if is_ahead && self.back.len() < BACK_MAX {
            let at = self.back.partition_point(|other| other.due <= granted.due);
            self.back.insert(at, granted);
        }
    }

    /// Deals the first turn out that came back at that cost, if the quotas, which it was given back to, have it still.
    pub(super) fn next_back(&mut self, cost: u32, now: &Now<'_>) -> Option<u64> {
        let at = self.back.iter().position(|back| back.cost == cost)?;
        let due = self.back[at].due.0;
        let mut days = now.days.iter();
        for page in &self.limits {
            let from = match page {
                Page::Rate(_) => 0,
                Page::Ring(ring) => ring.earliest(cost, now.members),
                Page::Day(day) => days.next().map_or(0, |today| day.earliest(cost, now.members, today)),
            };
            if from > due {
                return None;
            }
        }
        if self.not_before_another_day(due, cost, now) > due || self.is_another_day(due, now) {
            return None;
        }
        self.back.remove(at);
        self.charge_quotas(cost.into(), due, now);
        Some(due)
    }

    pub(super) fn hold(&mut self, end: u64, by: HeldBy, now: &Now<'_>) {
        if end <= self.hold {
            return;
        }
        (self.hold, self.by) = (end, by);
        self.rates().for_each(|rate| rate.hold_until(end, now.members));
        self.back.retain(|back| back.due.0 >= end);
    }

    pub(super) fn release(&mut self, now: &Now<'_>) {
        self.rates().for_each(|rate| rate.release(now.at, now.members));
        self.hold = 0;
    }

    pub(super) fn hold_over(&mut self) {
        self.rates().for_each(RatePage::hold_over);
        self.hold = 0;
    }

    pub(super) fn held(&self, now: u64) -> Option<(Duration, HeldBy)> {
        (self.hold > now).then(|| (Duration::from_micros(self.hold - now), self.by))
    }

    pub(super) fn fills(&self, now: &Now<'_>) -> Vec<Fill> {
        let mut days = now.days.iter();
        let fills = self.limits.iter().map(|page| match page {
            Page::Rate(rate) => rate.fill(now.at, now.members),
            Page::Ring(ring) => ring.fill(now.members),
            Page::Day(day) => day.fill(now.members, days.next()),
        });
        // In thousandths, as a script answers in whole numbers.
        fills.map(|(tokens, capacity)| Fill { tokens: tokens / 1000.0, capacity }).collect()
    }
}

impl Page {
    pub(super) fn quota(term: &QuotaTerm) -> Self {
        match term {
            QuotaTerm::Sliding { count, span } => Self::Ring(RingPage::new(*count, *span)),
            QuotaTerm::Calendar { count, name, .. } => Self::Day(DayPage::new(*count, name)),
        }
    }

    /// Whether both are of the same limit.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Rate(one), Self::Rate(other)) => one.term() == other.term(),
            (Self::Ring(one), Self::Ring(other)) => one.term() == other.term(),
            (Self::Day(one), Self::Day(other)) => one.term() == other.term(),
            _ => false,
        }
    }

    pub(super) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}
