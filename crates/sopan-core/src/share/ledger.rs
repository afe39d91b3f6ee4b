//! What of one lane's schedule is dealt out, and to whom is the next turn?
//!
//! This is the arithmetic of the scripts that run in Redis, line by line: what is here a method is there a function of the same
//! name. All numbers are whole and below 2^53, or are calculated in doubles in the same order, so both come to the same. A test
//! plays random histories to both. The simulations in this crate have this one for a server.
//!
//! A turn is due at the earliest instant at which every limit has a token after all that was dealt out before; so all turns
//! together are one schedule, whoever has them. It is charged when it is dealt out, a rate at its due time, a quota at the last
//! instant at which it may leave. What comes back is charged to quotas no more, and its due time is dealt out once more if it
//! has not passed; that is all there is of it.
//!
//! Nothing is dealt out that is due later than [`HORIZON`](super::HORIZON). Who gets it among those who want more than they
//! get is the business of [`line`]. Everything here is bounded: a ring by its groups, what came back and who asked by their
//! number.

mod day;
mod line;
mod rate;
mod ring;

use std::time::Duration;

use super::terms::{HORIZON_MICROS, NEVER, QuotaTerm, micros};
use super::{AGAIN_MAX, Ask, DayNow, Granted, HoldNews, Leased, Members, Stamp, TellHold, Terms, WANT_MAX};
use crate::bucket::Fill;
use crate::lane::HeldBy;
use day::DayPage;
use line::Line;
use rate::RatePage;
use ring::RingPage;

/// Turns that came back and are dealt out first.
const BACK_MAX: usize = 128;
/// A ledger that nobody uses is kept for at least this, and who asked it is remembered; so if it does not know somebody who was
/// leased something since, it took the place of one that was lost.
const KEPT_MIN: u64 = 60_000_000;
/// How long whoever asked in vain waits until it asks again.
const STALE_AGAIN: Duration = Duration::from_millis(1);

/// The turns of one lane, as a server keeps them for all instances.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    state: Option<State>,
    line: Line,
}

#[derive(Debug, Clone)]
struct State {
    /// What the clock showed last.
    at: u64,
    /// What the clock showed when this began.
    born: u64,
    /// Until when nothing leaves, and who asked for that.
    hold: u64,
    by: HeldBy,
    /// Turns that came back, earliest first.
    back: Vec<Granted>,
    limits: Vec<Page>,
}

#[derive(Debug, Clone)]
enum Page {
    Rate(RatePage),
    Ring(RingPage),
    Day(DayPage),
}

/// Who asks, as far as it says how much this ledger has missed.
#[derive(Debug, Clone, Copy, Default)]
struct Asker {
    /// It went on by itself meanwhile.
    was_alone: bool,
    /// This ledger never heard of it; if it was leased something of late, that was by another one, which was lost.
    is_unknown: bool,
}

/// What all that is calculated for one ask has in common.
#[derive(Debug, Clone, Copy)]
struct Now<'a> {
    at: u64,
    members: Members,
    lapse: u64,
    days: &'a [DayNow],
}

impl Ledger {
    /// Deals out what can be, when the clock shows `now`.
    pub fn ask(&mut self, instance: &str, ask: &Ask, now: Stamp) -> Leased {
        let is_late = ask.valid_until.is_some_and(|until| now > until);
        if is_late || ask.number <= self.line.heard(instance) {
            return nothing(ask.number, now);
        }
        let now = Now { at: now.0, members: ask.members.sound(), lapse: micros(ask.lapse), days: &ask.days };
        let asker = Asker { was_alone: ask.spent.is_some(), is_unknown: self.line.heard(instance) == 0 };
        self.open(&ask.terms, ask.last, asker, &now);
        let Some(state) = &mut self.state else { return nothing(ask.number, Stamp(now.at)) };
        for granted in self.line.unheard(instance, ask.heard).into_iter().chain(ask.returned.iter().copied()) {
            state.take_back(granted, &now);
        }
        if let Some(spent) = ask.spent.filter(|spent| *spent > 0) {
            state.charge_quotas(spent.min(NEVER), now.at, &now);
        }
        self.line.forget_away(now.at);
        let want = ask.want.min(WANT_MAX);
        let place = self.line.place(instance, want, ask.terms.pace(now.members));
        let mut due = Vec::new();
        let mut horizon = 0;
        while (due.len() as u32) < want {
            if let Some(came_back) = state.next_back(ask.cost, &now) {
                due.push(came_back);
                continue;
            }
            let next = state.earliest(ask.cost, &now);
            let is_another_day = state.is_another_day(next, &now);
            let far = place.horizon(due.len() as u64 * u64::from(ask.cost)).filter(|_| !is_another_day);
            horizon = far.unwrap_or(0);
            if far.is_none_or(|far| next > now.at + far) {
                break;
            }
            state.charge(ask.cost, next, &now);
            due.push(next);
        }
        let next_in = state.earliest(ask.cost, &now).saturating_sub(now.at);
        let granted = due.len() as u64;
        let mut again = None;
        if granted < u64::from(want) {
            again =
                Some((next_in.saturating_sub(horizon) + place.wait(u64::from(want) - granted)).min(micros(AGAIN_MAX)));
        }
        due.sort_unstable();
        let due: Vec<_> = due.into_iter().map(Stamp).collect();
        self.line.served(instance, &place, ask, &due, again, now.at);
        Leased {
            number: ask.number,
            is_done: true,
            at: Stamp(now.at),
            due,
            next_in: Duration::from_micros(next_in),
            again_in: again.map(Duration::from_micros),
            among: place.among,
            hold: state.held(now.at),
            fills: state.fills(&now),
        }
    }

    /// A hold that began or ended when the clock showed `now`; answers how it stands.
    pub fn tell(&mut self, tell: &TellHold, now: Stamp) -> Option<(Duration, HeldBy)> {
        let now = Now { at: now.0, members: tell.members.sound(), lapse: 0, days: &tell.days };
        self.open(&tell.terms, None, Asker::default(), &now);
        let state = self.state.as_mut()?;
        match tell.news {
            HoldNews::Held { remaining, by } => state.hold((now.at + micros(remaining)).min(NEVER), by, &now),
            HoldNews::Released => state.release(&now),
        }
        state.held(now.at)
    }

    /// Brings the pages up to now: of these limits, by this clock.
    fn open(&mut self, terms: &Terms, last: Option<Stamp>, who: Asker, now: &Now<'_>) {
        let last = last.map_or(0, |last| last.0);
        match &mut self.state {
            None => self.state = Some(State::new(terms, now.at)),
            Some(state) => {
                if now.at < state.at {
                    // The clock was set back, or that of another server goes on: all moves with it.
                    state.shift(state.at - now.at);
                    self.line = Line::default();
                }
                state.change(terms, now);
            }
        }
        let Some(state) = &mut self.state else { return };
        state.at = now.at;
        if state.hold <= now.at {
            state.hold_over();
        }
        let last = if last <= now.at + 2 * HORIZON_MICROS { last } else { 0 };
        if who.is_unknown && now.at < last + KEPT_MIN {
            // What was leased by the one that was lost is still used; after that there is one token at most.
            let over = now.at.max(state.born + HORIZON_MICROS);
            state.rates().for_each(|rate| rate.leave_one(over, now.members));
        }
        if who.was_alone {
            state.rates().for_each(|rate| rate.leave_one(now.at.max(last), now.members));
        }
        // A server that takes over may not have heard of the last turns.
        if last > 0 {
            state.rates().for_each(|rate| rate.go_on_after(last));
        }
        state.limits.iter_mut().for_each(|page| {
            if let Page::Ring(ring) = page {
                ring.forget_before(now.at);
            }
        });
        let from = now.at.max(state.hold);
        state.back.retain(|back| back.due.0 >= from);
    }
}

/// The answer to an ask for which nobody waits any more.
fn nothing(number: u64, at: Stamp) -> Leased {
    Leased {
        number,
        is_done: false,
        at,
        due: Vec::new(),
        next_in: Duration::ZERO,
        again_in: Some(STALE_AGAIN),
        among: 1,
        hold: None,
        fills: Vec::new(),
    }
}

impl State {
    fn new(terms: &Terms, born: u64) -> Self {
        let rates = terms.rates.iter().map(|rate| Page::Rate(RatePage::new(*rate)));
        let limits = rates.chain(terms.quotas.iter().map(Page::quota)).collect();
        Self { at: 0, born, hold: 0, by: HeldBy::Upstream, back: Vec::new(), limits }
    }

    fn rates(&mut self) -> impl Iterator<Item = &mut RatePage> {
        self.limits.iter_mut().filter_map(|page| match page {
            Page::Rate(rate) => Some(rate),
            Page::Ring(_) | Page::Day(_) => None,
        })
    }

    /// Other limits than before: what is used of the old ones is used of the new ones of their kind, in order.
    fn change(&mut self, terms: &Terms, now: &Now<'_>) {
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
    fn shift(&mut self, back: u64) {
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
    fn earliest(&self, cost: u32, now: &Now<'_>) -> u64 {
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
    fn not_before_another_day(&self, due: u64, cost: u32, now: &Now<'_>) -> u64 {
        let days = self.days(now).map(|(page, day)| page.closes(cost, now.members, day, due, now.lapse));
        days.fold(due, u64::max)
    }

    /// Whether an instant is in a day whose name is not known yet.
    fn is_another_day(&self, due: u64, now: &Now<'_>) -> bool {
        self.days(now).any(|(_, day)| due >= day.end.0)
    }

    fn days<'a>(&'a self, now: &'a Now<'_>) -> impl Iterator<Item = (&'a DayPage, &'a DayNow)> {
        let days = self.limits.iter().filter_map(|page| match page {
            Page::Day(day) => Some(day),
            Page::Rate(_) | Page::Ring(_) => None,
        });
        days.zip(now.days)
    }

    fn charge(&mut self, cost: u32, due: u64, now: &Now<'_>) {
        self.rates().for_each(|rate| rate.charge(cost, due, now.members));
        self.charge_quotas(cost.into(), due, now);
    }

    fn charge_quotas(&mut self, cost: u64, due: u64, now: &Now<'_>) {
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
    fn take_back(&mut self, granted: Granted, now: &Now<'_>) {
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
    fn next_back(&mut self, cost: u32, now: &Now<'_>) -> Option<u64> {
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

    fn hold(&mut self, end: u64, by: HeldBy, now: &Now<'_>) {
        if end <= self.hold {
            return;
        }
        (self.hold, self.by) = (end, by);
        self.rates().for_each(|rate| rate.hold_until(end, now.members));
        self.back.retain(|back| back.due.0 >= end);
    }

    fn release(&mut self, now: &Now<'_>) {
        self.rates().for_each(|rate| rate.release(now.at, now.members));
        self.hold = 0;
    }

    fn hold_over(&mut self) {
        self.rates().for_each(RatePage::hold_over);
        self.hold = 0;
    }

    fn held(&self, now: u64) -> Option<(Duration, HeldBy)> {
        (self.hold > now).then(|| (Duration::from_micros(self.hold - now), self.by))
    }

    fn fills(&self, now: &Now<'_>) -> Vec<Fill> {
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
    fn quota(term: &QuotaTerm) -> Self {
        match term {
            QuotaTerm::Sliding { count, span } => Self::Ring(RingPage::new(*count, *span)),
            QuotaTerm::Calendar { count, name, .. } => Self::Day(DayPage::new(*count, name)),
        }
    }

    /// Whether both are of the same limit.
    fn is_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Rate(one), Self::Rate(other)) => one.term() == other.term(),
            (Self::Ring(one), Self::Ring(other)) => one.term() == other.term(),
            (Self::Day(one), Self::Day(other)) => one.term() == other.term(),
            _ => false,
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}
