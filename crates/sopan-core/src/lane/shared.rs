//! A lane whose limits many instances share: what it asks the ledger, and what it is told. See [`crate::share`].
//!
//! After every [step](Lane::step) it is [asked](Lane::ask) whether it wants something of the ledger; the answer is told with
//! [`Lane::lease`], or with [`Lane::unanswered`] that there is none. A hold that begins or ends here is
//! [to be told](Lane::hold_to_tell) to the others, and what others tell is [heard](Lane::hear_hold).

use std::time::Duration;

use super::tokens::{Shared, Tokens};
use super::{HeldBy, Lane};
use crate::breaker::State;
use crate::queue::Entry;
use crate::share::{Ask, Demand, HORIZON, HoldNews, Leased, Members, Mode, TellHold};
use crate::time::Instant;

/// Two instances do not know the end of a hold to the microsecond; by less than this it is not another one.
const SAME_HOLD: Duration = Duration::from_millis(5);

impl Lane {
    /// From now on its limits are shared. Nothing may have happened to the lane yet, and it lets nothing go before it hears
    /// [of the ledger](Self::set_contact).
    pub fn share(&mut self, timeout: Duration, now: Instant) {
        let mut shared = Shared::new(&self.policy, now);
        shared.book.set_timeout(timeout);
        self.tokens = Tokens::Shared(Box::new(shared));
        self.calendar_due = self.own.calendar_due();
    }

    /// Whether its limits are shared; if so, what it goes by.
    pub fn sharing(&self) -> Option<Mode> {
        self.shared().map(Shared::mode)
    }

    /// What it goes by, and who shares. Clients' own limits are divided by all who count.
    pub fn set_contact(&mut self, mode: Mode, members: Members, now: Instant) {
        let members = members.sound();
        let hold = self.hold;
        let Tokens::Shared(shared) = &mut self.tokens else { return };
        let is_new = shared.set_mode(mode, hold, now);
        let parts = match mode {
            Mode::Shared | Mode::Silent => members.counted,
            Mode::Alone { share } | Mode::After { share, .. } => share,
        };
        shared.members = members;
        shared.book.set_members(members);
        if self.own.share(&self.policy.clients, parts, now) {
            self.queue.bring_back(Instant::NEVER);
        }
        if is_new {
            self.calendar_due = self.tokens.calendar_due().min(self.own.calendar_due());
            self.clear_since = self.clear_since.max(now);
            if mode == Mode::Shared && self.hold.is_some() {
                // It may have begun while nobody could be told.
                self.note_hold(self.held_by);
            }
        }
    }

    /// What the ledger takes for an answer is no wait in the line; without this who may not wait would never be let go.
    pub(super) fn with_time_to_ask(&self, entry: Entry) -> Entry {
        let Some(shared) = self.shared().filter(|shared| shared.mode() == Mode::Shared) else { return entry };
        let answered = entry.since.after(shared.book.timeout());
        Entry { deadline: entry.deadline.map(|deadline| deadline.max(answered)), ..entry }
    }

    /// What to ask the ledger for now, if anything. It must be followed by [`lease`](Self::lease) or
    /// [`unanswered`](Self::unanswered), and by a step.
    pub fn ask(&mut self, now: Instant) -> Option<Ask> {
        self.shared()?;
        let demand = self.demand(now);
        self.shared_mut()?.ask(demand, now)
    }

    /// By which it is found out whether the ledger can be asked, if there is one.
    pub fn probe(&self, now: Instant) -> Option<Ask> {
        Some(self.shared()?.book.probe(now))
    }

    /// Gives back what it was leased and has not used, for a process that ends in order; nothing where there is nothing.
    pub fn take_back(&mut self, now: Instant) -> Option<Ask> {
        self.shared_mut()?.book.take_back(now)
    }

    /// The ledger has answered; that came at `received`.
    pub fn lease(&mut self, leased: &Leased, received: Instant) {
        let Some(shared) = self.shared_mut() else { return };
        shared.grant(leased, received);
        if let Some((remaining, by)) = leased.hold {
            self.hear_hold(HoldNews::Held { remaining, by }, received);
        }
    }

    /// The ledger has not answered, and what it may still say is no matter.
    pub fn unanswered(&mut self, now: Instant) {
        if let Some(shared) = self.shared_mut() {
            shared.book.unanswered(now);
        }
    }

    /// Another instance, or the ledger, tells of a hold.
    pub fn hear_hold(&mut self, news: HoldNews, now: Instant) {
        let told = self.untold.take();
        match news {
            HoldNews::Held { remaining, by } => {
                let end = now.after(self.policy.hold_for(remaining));
                if self.hold.is_none_or(|until| until.after(SAME_HOLD) < end) {
                    self.hold_by(by, remaining, now);
                }
            }
            HoldNews::Released => _ = self.release(now),
        }
        self.untold = told;
    }

    /// What the others and the ledger must be told of a hold that began, was prolonged or ended here.
    pub fn hold_to_tell(&mut self, now: Instant) -> Option<TellHold> {
        let news = self.untold.take()?;
        let end = self.hold.filter(|end| *end > now);
        let shared = self.shared()?;
        let news = match (news, end) {
            (HoldNews::Held { by, .. }, Some(end)) => HoldNews::Held { remaining: end.until(now), by },
            (HoldNews::Held { .. }, None) => return None,
            (HoldNews::Released, _) => HoldNews::Released,
        };
        Some(shared.book.tell_hold(news, shared.members, now))
    }

    /// A hold of the lane's own making, for the others.
    pub(super) fn note_hold(&mut self, by: HeldBy) {
        if self.shared().is_some() {
            self.untold = Some(HoldNews::Held { remaining: Duration::ZERO, by });
        }
    }

    /// When the lane will want to ask, if nothing happens before.
    pub(super) fn asks_at(&self, now: Instant) -> Option<Instant> {
        self.shared()?.asks_at(self.demand(now), now)
    }

    /// What could be used of what is asked for now.
    fn demand(&self, now: Instant) -> Demand {
        let nothing = Demand { waiting: 0, cost: 1, room: Some(0) };
        let far = now.after(HORIZON);
        let is_far = |until: Instant| until > far;
        if self.hold.is_some_and(is_far) || matches!(self.breaker.state(now), State::Open { until } if is_far(until)) {
            return nothing;
        }
        let Some(first) = self.queue.first().and_then(|id| self.queue.entry(id)) else {
            return Demand { room: None, ..nothing };
        };
        let room = [self.places.room(), self.restart.as_ref().map(super::Restart::room)];
        Demand { waiting: self.queue.cost_in_line(), cost: first.cost, room: room.into_iter().flatten().min() }
    }

    fn shared(&self) -> Option<&Shared> {
        match &self.tokens {
            Tokens::Own(_) => None,
            Tokens::Shared(shared) => Some(shared),
        }
    }

    fn shared_mut(&mut self) -> Option<&mut Shared> {
        match &mut self.tokens {
            Tokens::Own(_) => None,
            Tokens::Shared(shared) => Some(shared),
        }
    }
}
