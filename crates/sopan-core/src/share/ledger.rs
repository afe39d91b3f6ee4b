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
mod state;

use std::time::Duration;

use super::terms::{HORIZON_MICROS, NEVER, micros};
use super::{AGAIN_MAX, Ask, DayNow, HoldNews, Leased, Stamp, TellHold, Terms, WANT_MAX};
use crate::lane::HeldBy;
use line::Line;
use state::{Now, Page, State};

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

/// Who asks, as far as it says how much this ledger has missed.
#[derive(Debug, Clone, Copy, Default)]
struct Asker {
    /// It went on by itself meanwhile.
    was_alone: bool,
    /// This ledger never heard of it; if it was leased something of late, that was by another one, which was lost.
    is_unknown: bool,
}

impl Ledger {
    /// Deals out what can be, when the clock shows `now`.
    pub fn ask(&mut self, instance: &str, ask: &Ask, now: Stamp) -> Leased {
        let is_late = ask.valid_until.is_some_and(|until| now > until);
        // What it spent or gives back could be counted in no day.
        let knows_no_day = ask.days.iter().any(DayNow::is_unknown);
        if is_late || knows_no_day || ask.number <= self.line.heard(instance) {
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

/// The answer to an ask for which nobody waits any more, or that only learns what the clock shows.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::policy::Margin;
    use crate::share::Members;

    fn asked(number: u64, limit: &str, at: Option<Stamp>, want: u32) -> Ask {
        let terms = Terms::new(&[limit.parse().unwrap()], 0, Margin::NONE);
        Ask {
            number,
            heard: number - 1,
            want,
            cost: 1,
            members: Members::ONE,
            days: terms.days(at),
            lapse: Duration::from_millis(50),
            terms: Arc::new(terms),
            returned: Vec::new(),
            spent: None,
            last: None,
            valid_until: None,
        }
    }

    /// An instance that was set up anew does not know at first what day it is there.
    #[test]
    fn a_day_that_begins_at_another_time_starts_with_what_was_used_whoever_asks_first() {
        let now = Stamp(1_780_000_000_000_000);
        let (before, after) = ("5 per day at 00:00 UTC", "5 per day at 00:00 Asia/Jakarta");
        let mut ledger = Ledger::default();
        assert_eq!(ledger.ask("old", &asked(1, before, Some(now), 3), now).due.len(), 3);
        let first = ledger.ask("new", &asked(1, after, None, 0), now);
        assert_eq!((first.at, first.due.len()), (now, 0));
        assert_eq!(ledger.ask("new", &asked(2, after, Some(now), 9), now).due.len(), 2);
    }

    #[test]
    fn a_hold_that_is_told_by_who_does_not_know_the_day_forgets_none() {
        let now = Stamp(1_780_000_000_000_000);
        let (before, after) = ("5 per day at 00:00 UTC", "5 per day at 00:00 Asia/Jakarta");
        let mut ledger = Ledger::default();
        assert_eq!(ledger.ask("old", &asked(1, before, Some(now), 3), now).due.len(), 3);
        let Ask { terms, days, members, .. } = asked(1, after, None, 0);
        ledger.tell(&TellHold { news: HoldNews::Released, terms, days, members }, now);
        assert_eq!(ledger.ask("new", &asked(1, after, Some(now), 9), now).due.len(), 2);
    }
}
