//! A quota of the calendar: what was dealt out for each day.
//!
//! The same as a lane's own (see [`crate::bucket`]): what may leave near the boundary of two days is counted in both. Which
//! day it is the asker says, who knows the zones; of the ledger's clock, as it is known to it. A day that comes is dealt out
//! only when somebody says that it has come.

use crate::share::terms::shared_count;
use crate::share::{DayNow, Granted, Members};

/// Jitter on the way, and how far apart two clocks may be.
const MARGIN: u64 = 100_000;
/// Days that are kept.
const KEPT: usize = 4;

#[derive(Debug, Clone)]
pub(super) struct DayPage {
    count: u64,
    /// When a day begins, as it is written.
    name: String,
    /// The days that were used last, the last one first.
    days: Vec<(u64, u64)>,
}

impl DayPage {
    pub(super) fn new(count: u64, name: &str) -> Self {
        Self { count, name: name.to_owned(), days: Vec::new() }
    }

    pub(super) fn term(&self) -> (u64, &str) {
        (self.count, &self.name)
    }

    fn used(&self, date: u64) -> u64 {
        self.days.iter().find(|(other, _)| *other == date).map_or(0, |(_, used)| *used)
    }

    fn fits(&self, date: u64, cost: u32, members: Members) -> bool {
        let count = shared_count(self.count, members);
        self.used(date) + u64::from(cost).min(count) <= count
    }

    pub(super) fn earliest(&self, cost: u32, members: Members, day: &DayNow) -> u64 {
        if !self.fits(day.today, cost, members) {
            return day.end.0 + MARGIN;
        }
        if !self.fits(day.before, cost, members) {
            return day.begin.0 + MARGIN;
        }
        0
    }

    /// If what is due then may leave so late that it counts for the day after, and that has no room: in that day.
    pub(super) fn closes(&self, cost: u32, members: Members, day: &DayNow, due: u64, lapse: u64) -> u64 {
        let is_near = due + lapse + MARGIN >= day.end.0;
        if is_near && !self.fits(day.after, cost, members) { day.end.0 + MARGIN } else { 0 }
    }

    pub(super) fn charge(&mut self, cost: u64, due: u64, lapse: u64, day: &DayNow) {
        if due < day.begin.0 + MARGIN {
            self.count_in(day.before, cost);
        }
        if due + lapse + MARGIN >= day.end.0 {
            self.count_in(day.after, cost);
        }
        self.count_in(day.today, cost);
    }

    fn count_in(&mut self, date: u64, cost: u64) {
        let used = self.used(date) + cost;
        self.days.retain(|(other, _)| *other != date);
        self.days.insert(0, (date, used));
        self.days.truncate(KEPT);
    }

    /// What was near a boundary stays counted.
    pub(super) fn give_back(&mut self, granted: Granted, day: &DayNow) {
        let due = granted.due.0;
        if due < day.begin.0 + MARGIN || due + 2 * MARGIN >= day.end.0 {
            return;
        }
        if let Some((_, used)) = self.days.iter_mut().find(|(date, _)| *date == day.today) {
            *used = used.saturating_sub(granted.cost.into());
        }
    }

    /// Where days begin at another time, the present one starts with what the last one had. As long as nobody says which one that
    /// is, they begin as they did.
    pub(super) fn take_over(&mut self, old: &Self, day: &DayNow) {
        if self.name == old.name || day.is_unknown() {
            self.name.clone_from(&old.name);
            self.days.clone_from(&old.days);
        } else if let Some((_, used)) = old.days.first() {
            self.days = vec![(day.today, *used)];
        }
    }

    pub(super) fn fill(&self, members: Members, day: Option<&DayNow>) -> (f64, f64) {
        let count = shared_count(self.count, members) as f64;
        let used = day.map_or(0, |day| self.used(day.today));
        ((count - used as f64) * 1000.0, count)
    }
}
