//! One quota of the calendar, as a count for each day.
//!
//! At most N leave in a day. The upstream counts arrivals by its own clock, so what is written within [`MARGIN`] of a
//! boundary, on either side, may fall on either day and is counted in both: there it needs room in both, and the new day's
//! whole allowance can be used from [`MARGIN`] after the boundary on.
//!
//! A day begins and ends by a clock on the wall, which can be set; all else here counts instants, which always go forward.
//! So the caller tells what the calendar shows, often enough to follow a clock that is set or runs unevenly
//! ([`DayCount::set_calendar`]), and counts are kept by date: a day that was over and comes again has what was counted.

use std::time::{Duration, SystemTime};

use super::{Fill, Room};
use crate::calendar::{Date, Day, Daybreak};
use crate::policy::CalendarQuota;
use crate::time::Instant;

/// Jitter on the way, and how far apart two clocks may be.
const MARGIN: Duration = Duration::from_millis(100);
/// Days whose counts are kept: those on both sides of a boundary, and the last two.
const KEPT: usize = 4;
/// The longest that goes by before the calendar is looked at again: a clock that was set is followed that soon.
const LOOK: Duration = Duration::from_secs(10);
/// Days further ahead are taken to be as long as they mostly are.
const DAY: Duration = Duration::from_secs(86_400);

#[derive(Debug, Clone)]
pub(super) struct DayCount {
    count: u64,
    daybreak: Daybreak,
    /// The present day once it is known, and the dates of it and of those before and after it.
    day: Option<Day>,
    before: Date,
    today: Date,
    after: Date,
    /// Until this the day before counts as well.
    open: Instant,
    /// From this on the day after counts as well.
    close: Instant,
    /// When the calendar wants to be looked at again.
    due: Instant,
    /// What was counted of the days that were used last, the last one first.
    days: Vec<(Date, u64)>,
    reserved: u64,
}

impl DayCount {
    /// Until it is told the calendar all time is one day, and then that day is today.
    pub(super) fn new(quota: &CalendarQuota) -> Self {
        Self {
            count: quota.count(),
            daybreak: quota.daybreak().clone(),
            day: None,
            before: Date::MIN,
            today: Date::MIN,
            after: Date::MIN,
            open: Instant::ORIGIN,
            close: Instant::NEVER,
            due: Instant::ORIGIN,
            days: Vec::with_capacity(KEPT + 1),
            reserved: 0,
        }
    }

    /// The clock on the wall shows `wall` at `now`.
    pub(super) fn set_calendar(&mut self, now: Instant, wall: SystemTime) {
        let day = match self.day.filter(|day| day.begin <= wall && wall < day.end) {
            Some(day) => day,
            None => self.another_day(wall),
        };
        let instant = |at: SystemTime| match at.duration_since(wall) {
            Ok(ahead) => now.after(ahead),
            Err(ago) => now.before(ago.duration()),
        };
        let end = instant(day.end);
        // A day shorter than its margins, on which the zone moved, is all margin.
        self.open = instant(later(day.begin, MARGIN)).min(end);
        self.close = instant(earlier(day.end, MARGIN)).max(self.open);
        let next = [self.open, end].into_iter().filter(|at| *at > now).min();
        self.due = now.after(LOOK).min(next.unwrap_or(Instant::NEVER)).max(now.after(Duration::from_nanos(1)));
    }

    /// Looks up which day it is at `wall`. What is near tells the neighbours, since a date may be missing.
    fn another_day(&mut self, wall: SystemTime) -> Day {
        let day = self.daybreak.day(wall);
        self.before = self.daybreak.day(earlier(day.begin, Duration::from_nanos(1))).date;
        self.after = self.daybreak.day(day.end).date;
        self.today = day.date;
        if self.day.is_none() {
            self.days.iter_mut().for_each(|(date, _)| *date = day.date);
        }
        self.day = Some(day);
        day
    }

    /// When to tell the calendar again.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    pub(super) fn room(&self, cost: u32, now: Instant) -> Room {
        // As with rates, a cost above the quota goes when nothing is used of it.
        let cost = u64::from(cost).min(self.count);
        let wanted = self.reserved + cost;
        let fits = |date, wanted: u64| self.used(date).saturating_add(wanted) <= self.count;
        if now >= self.close && !fits(self.after, wanted) {
            // The clock was put back: of tomorrow something is used already.
            return later_than(now, self.opens_after(2), fits(self.after, cost));
        }
        if !fits(self.today, wanted) {
            return later_than(now, self.opens_after(1), fits(self.today, cost));
        }
        if fits(self.before, wanted) {
            return Room::From(Instant::ORIGIN);
        }
        Room::From(self.open)
    }

    /// When the allowance of the day can be used that comes after so many.
    fn opens_after(&self, days: u64) -> Instant {
        let more = DAY.saturating_mul(u32::try_from(days - 1).unwrap_or(u32::MAX));
        self.close.after(MARGIN * 2).after(more)
    }

    pub(super) fn reserve(&mut self, cost: u32) {
        self.reserved += u64::from(cost);
    }

    pub(super) fn charge(&mut self, cost: u32, written: Instant) {
        self.give_back(cost);
        let cost = u64::from(cost);
        if written < self.open {
            self.count_in(self.before, cost);
        }
        if written >= self.close {
            self.count_in(self.after, cost);
        }
        self.count_in(self.today, cost);
    }

    fn count_in(&mut self, date: Date, cost: u64) {
        let place = self.days.iter().position(|(d, _)| *d == date);
        let used = place.map_or(0, |i| self.days.remove(i).1);
        self.days.insert(0, (date, used.saturating_add(cost)));
        self.days.truncate(KEPT);
    }

    pub(super) fn give_back(&mut self, cost: u32) {
        debug_assert!(self.reserved >= u64::from(cost), "what is given back was reserved");
        self.reserved = self.reserved.saturating_sub(u64::from(cost));
    }

    /// Now if the day has as many left; else when the next one opens, and a day more per further N.
    pub(super) fn predict(&self, ahead: u64, cost: u32, now: Instant) -> Instant {
        let mut wanted = ahead.saturating_add(u64::from(cost).min(self.count));
        let free = self.free(now);
        if wanted <= free {
            return now;
        }
        wanted -= free;
        if now < self.open {
            // What goes before the day opens is counted in it too.
            let rest = self.left(self.today).saturating_sub(free);
            if wanted <= rest {
                return self.open;
            }
            wanted -= rest;
        }
        let gone = if now < self.close { 0 } else { free };
        let tomorrow = self.count.saturating_sub(self.used(self.after)).saturating_sub(gone);
        match wanted.checked_sub(tomorrow).filter(|more| *more > 0) {
            None => self.opens_after(1).max(now),
            Some(more) => self.opens_after(1 + more.div_ceil(self.count)).max(now),
        }
    }

    /// The most turns of which the last is predicted to leave by `at`.
    pub(super) fn count_until(&self, at: Instant, now: Instant) -> u64 {
        let opens = self.opens_after(1);
        if at < opens {
            let is_open = at >= self.open;
            return if is_open { self.free(now).max(self.left(self.today)) } else { self.free(now) };
        }
        let days = at.since(opens).as_secs() / DAY.as_secs() + 1;
        self.left(self.today).saturating_add(self.count.saturating_mul(days))
    }

    /// What can be taken at `now`: what is left of the present day, and near a boundary of both.
    pub(super) fn free(&self, now: Instant) -> u64 {
        let mut free = self.left(self.today);
        if now < self.open {
            free = free.min(self.left(self.before));
        }
        if now >= self.close {
            free = free.min(self.left(self.after));
        }
        free
    }

    fn left(&self, date: Date) -> u64 {
        self.count.saturating_sub(self.used(date)).saturating_sub(self.reserved)
    }

    fn used(&self, date: Date) -> u64 {
        self.days.iter().find(|(d, _)| *d == date).map_or(0, |(_, used)| *used)
    }

    /// Takes over what was counted; under another daybreak the present day starts with what the old one's had.
    pub(super) fn take_over(&mut self, old: &Self) {
        if self.daybreak == old.daybreak {
            *self = Self { count: self.count, reserved: self.reserved, ..old.clone() };
        } else {
            self.days = vec![(self.today, old.used(old.today))];
        }
    }

    /// The present date, and what was counted of each that is kept.
    pub(super) fn counted(&self) -> (Date, Vec<(Date, u64)>) {
        (self.today, self.days.clone())
    }

    /// So many have left today, elsewhere.
    pub(super) fn spend(&mut self, turns: u64) {
        self.count_in(self.today, turns);
    }

    /// Counts what was counted before this was made, and `more` that may have left since that was said on `said`: nobody
    /// knows whether on that day or today. The calendar must have been told.
    pub(super) fn restore(&mut self, days: &[(Date, u64)], more: u64, said: Date) {
        // More than all of it is nothing that was ever written by us.
        let all = self.count.saturating_mul(2);
        for (date, used) in days.iter().rev() {
            self.count_in(*date, (*used).min(all));
        }
        if said != self.today {
            self.count_in(said, more.min(all));
        }
        self.count_in(self.today, more.min(all));
    }

    pub(super) fn reserved(&self) -> u64 {
        self.reserved
    }

    pub(super) fn set_reserved(&mut self, reserved: u64) {
        self.reserved = reserved;
    }

    /// When all of it is free if nothing more leaves.
    pub(super) fn full_at(&self, now: Instant) -> Instant {
        let is_full = self.free(now) == self.count;
        if is_full { now } else { self.opens_after(1).max(now) }
    }

    /// How long it lasts if so many leave in every second from now on; none if it lasts until the day is over.
    pub(super) fn lasts(&self, per_s: f64, now: Instant) -> Option<Duration> {
        let gone_in = Duration::try_from_secs_f64(self.free(now) as f64 / per_s).ok()?;
        (now.after(gone_in) < self.opens_after(1)).then_some(gone_in)
    }

    pub(super) fn fill(&self, now: Instant) -> Fill {
        Fill { tokens: self.free(now) as f64, capacity: self.count as f64 }
    }
}

/// There is no room before `at`, unless all that is in the way is reserved, and given back. Whoever was not told that the day
/// is over asks again a while later.
fn later_than(now: Instant, at: Instant, is_reserved: bool) -> Room {
    let at = if at > now { at } else { now.after(LOOK) };
    if is_reserved { Room::Reserved(at) } else { Room::From(at) }
}

fn earlier(at: SystemTime, span: Duration) -> SystemTime {
    at.checked_sub(span).unwrap_or(at)
}

fn later(at: SystemTime, span: Duration) -> SystemTime {
    at.checked_add(span).unwrap_or(at)
}

#[cfg(test)]
mod tests;
