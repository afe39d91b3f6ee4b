//! Everything that waits for one upstream: who goes next, when, and who is refused instead.
//!
//! A lane joins the queue (who), the bucket (when), the hold (not before the upstream said), the places (how many at once)
//! and the breaker (whether at all). It is a state machine without clock or threads: every event comes in as a call with
//! `now`, and [`Lane::step`] answers what follows and when to ask again.
//!
//! ```text
//! enter ─ nobody waits, nothing in the way ───────────────▶ Go(turn) ─ written ─ settle ─ finish
//!   ├── would wait longer than it may ──▶ Refused                ▲
//!   └── Wait(ticket) ─ step: Prepare ─ ready ─ step: Go(turn) ───┘
//! ```
//!
//! The next ticket is chosen before tokens are looked at, and nothing smaller overtakes it. A [`Turn`] must come back
//! through [`Lane::finish`] whatever happens, or its place is lost; the caller keeps it in a guard. A client whose
//! [own limits](crate::policy::ClientLimits) do not let it go is not next: nobody waits for it.

mod journal;
mod operator;
mod outlook;
mod own;
mod places;
mod refusal;
mod restart;
mod sent;
pub mod shadow;
mod shared;
mod tokens;
mod turn;
mod upcoming;

use std::time::{Duration, SystemTime};

use crate::breaker::{Breaker, Change, Health, State};
use crate::bucket::{Bucket, Fill, Take};
use crate::policy::{LanePolicy, Limit};
use crate::queue::{Entry, Queue, TicketId};
use crate::retry::Budget;
use crate::share::HoldNews;
use crate::time::Instant;
pub use operator::NoBreaker;
pub use outlook::{HeldBy, Outlook, Whose};
use own::{Allowed, Own, OwnRoom};
use places::Places;
pub use refusal::{Cause, Refusal};
use restart::{Restart, Round};
use sent::Sent;
use tokens::Tokens;
use turn::Stage;
pub use turn::Turn;
use upcoming::Coming;

/// What [`Lane::enter`] answers.
#[derive(Debug)]
pub enum Enter {
    /// It may go at once.
    Go(Turn),
    /// It has a place in the queue; [`Lane::step`] tells the rest.
    Wait(TicketId),
    /// It is turned away.
    Refused(Refusal),
}

/// What [`Lane::step`] wants done.
#[derive(Debug)]
pub enum Call {
    /// The ticket's turn is near: get a connection, then say [`Lane::ready`].
    Prepare(TicketId),
    /// The ticket's turn has come; it has left the queue.
    Go(TicketId, Turn),
    /// The ticket will not go; it has left the queue.
    Refuse(TicketId, Refusal),
}

/// When a lane wants to be stepped if nothing happens before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Next {
    /// The first ticket's turn, which it can take at once: the instant that pacing hangs on.
    pub turn: Option<Instant>,
    /// Anything else: a deadline, a ticket to be called, the calendar to be looked at.
    pub other: Option<Instant>,
}

impl Next {
    /// The earlier of the two.
    pub fn earliest(self) -> Option<Instant> {
        self.turn.into_iter().chain(self.other).min()
    }
}

/// Whether an exchange comes for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visit {
    /// Its first attempt.
    First,
    /// It has had a turn before: it counts among those that wait, but is never refused for their number.
    Again,
}

/// What a lane looks like from outside, for metrics and people.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Requests that wait for a turn.
    pub waiting: usize,
    /// Bytes that they hold.
    pub waiting_bytes: u64,
    /// Turns between grant and finish.
    pub in_flight: u32,
    /// What is left of a hold.
    pub hold: Option<Duration>,
    /// Holds so far.
    pub holds: u64,
    /// The breaker's state.
    pub breaker: State,
    /// How often it has tripped.
    pub trips: u64,
    /// Retries that the traffic affords; none where any number can be.
    pub retries_left: Option<u64>,
    /// How full each limit is, rates before quotas.
    pub fills: Vec<Fill>,
}

/// All that waits for one upstream.
#[derive(Debug)]
pub struct Lane {
    policy: LanePolicy,
    tokens: Tokens,
    own: Own,
    queue: Queue,
    breaker: Breaker,
    budget: Budget,
    places: Places,
    hold: Option<Instant>,
    held_by: HeldBy,
    holds: u64,
    held: Duration,
    /// What was sent of late.
    sent: Sent,
    restart: Option<Restart>,
    rounds: u64,
    /// Since when nothing but tokens has been in the way of the first ticket.
    clear_since: Instant,
    granted: Instant,
    lead: Duration,
    /// How the breaker's state has changed, to be told.
    change: Option<Change>,
    /// From one turn to the next at the slowest rate, a second at most; nothing without a rate.
    pace: Duration,
    /// Nobody is called before this, and then one at a time; the origin of time if connections come about.
    call_from: Instant,
    /// What is on file beside the quotas, where a journal is kept.
    noted: Option<journal::Noted>,
    /// A hold of its own making of which the other instances have not been told, where limits are shared.
    untold: Option<HoldNews>,
    /// Before this comes the calendar must be told; never where no limit depends on it.
    calendar_due: Instant,
}

/// Tickets that may hold a connection ahead of their turn.
const CALLED_MAX: usize = 64;
/// The first ticket is called this long before its turn, so that a slow connection does not make it late.
const FIRST_LEAD: Duration = Duration::from_secs(1);
/// Getting an idle connection takes no time, but waking the one who gets it does.
const LEAD_MIN: Duration = Duration::from_millis(3);
/// A ticket is turned away only this long after its deadline, so that a timer which is late by a hair does not refuse a
/// turn that is due at the deadline itself.
const DEADLINE_GRACE: Duration = Duration::from_millis(1);
/// A turn that was granted is written within this time if its connection is ready.
const WRITING: Duration = Duration::from_micros(200);
/// A turn that was granted longer ago than this waits for its connection, and nobody knows for how long.
const WRITING_MAX: Duration = Duration::from_millis(1);

/// Something is in the way of a turn.
struct Blocked {
    /// Until when, if that is known; else some other event ends it, and the lane is stepped then.
    until: Option<Instant>,
}

impl Lane {
    /// A lane at rest, its limits full. The policy must be valid.
    pub fn new(policy: LanePolicy, breaker: Breaker, budget: Budget) -> Self {
        debug_assert_eq!(policy.validate(), Ok(()));
        let intervals = policy.limits.iter().filter_map(|limit| match limit {
            Limit::Rate(rate) => Some(rate.interval()),
            Limit::Quota(_) | Limit::Calendar(_) => None,
        });
        let pace = intervals.max().unwrap_or_default().min(FIRST_LEAD);
        let bucket = Bucket::new(&policy.limits, policy.headroom, policy.rate_margin);
        let own = Own::new(&policy.clients);
        Self {
            calendar_due: bucket.calendar_due().min(own.calendar_due()),
            queue: Queue::with_own(own.clients()),
            own,
            noted: None,
            tokens: Tokens::Own(bucket),
            untold: None,
            places: Places::new(policy.max_in_flight),
            policy,
            breaker,
            budget,
            hold: None,
            held_by: HeldBy::Upstream,
            holds: 0,
            held: Duration::ZERO,
            sent: Sent::default(),
            restart: None,
            rounds: 0,
            clear_since: Instant::ORIGIN,
            granted: Instant::ORIGIN,
            lead: LEAD_MIN,
            change: None,
            pace,
            call_from: Instant::ORIGIN,
        }
    }

    /// An exchange wants to send. It goes, waits, or is refused at once when its turn is predicted to come after its
    /// deadline.
    pub fn enter(&mut self, entry: Entry, visit: Visit, now: Instant) -> Enter {
        let entry = self.with_time_to_ask(entry);
        self.end_hold(now);
        self.queue.bring_back(now);
        let own = self.queue.is_clear_for(entry.client).then(|| self.own_room(&entry, now));
        let turn = match own {
            Some(OwnRoom::There(own)) => self.go(&entry, own, None, now).ok(),
            Some(OwnRoom::From(_)) | None => None,
        };
        if turn.is_none()
            && let Some(refusal) = self.refusal(&entry, visit, now)
        {
            return Enter::Refused(refusal);
        }
        if visit == Visit::First {
            self.budget.deposit(now);
        }
        match turn {
            Some(turn) => Enter::Go(turn),
            None => Enter::Wait(self.queue.insert(entry)),
        }
    }

    /// What it keeps to.
    pub fn limits(&self) -> &[Limit] {
        &self.policy.limits
    }

    /// When the calendar must be told, before anything else is asked: at first, at the boundaries of days, and every few
    /// seconds, since the clock on the wall may have been set. Never where no limit depends on it.
    pub fn calendar_due(&self) -> Instant {
        self.calendar_due
    }

    /// The clock on the wall shows `wall` at `now`.
    pub fn set_calendar(&mut self, now: Instant, wall: SystemTime) {
        self.tokens.set_calendar(now, wall);
        if self.own.calendar_due() < Instant::NEVER {
            self.own.set_calendar(now, wall);
            // A day may end sooner or later now than when they were set aside.
            self.queue.bring_back(Instant::NEVER);
        }
        self.calendar_due = self.tokens.calendar_due().min(self.own.calendar_due());
    }

    /// The ticket could go at once from now on, or no longer; then it is told again to prepare when its turn is near.
    pub fn ready(&mut self, ticket: TicketId, ready: bool) {
        self.queue.set_ready(ticket, ready);
        if ready {
            self.call_from = Instant::ORIGIN;
        }
    }

    /// The ticket's exchange has gone, or has failed to connect: it costs nothing and nobody waits for it.
    pub fn leave(&mut self, ticket: TicketId) {
        self.queue.remove(ticket);
    }

    /// Counts bytes that a waiting request has read ahead; answers whether more may be read.
    pub fn grow(&mut self, ticket: TicketId, bytes: u64) -> bool {
        self.queue.grow(ticket, bytes, self.policy.queue_bytes_max)
    }

    /// Does everything that is due, and answers when to ask again if nothing else happens before.
    pub fn step(&mut self, now: Instant, calls: &mut Vec<Call>) -> Next {
        self.end_hold(now);
        if let Tokens::Shared(shared) = &mut self.tokens {
            shared.book.forget_lapsed(now);
        }
        if self.queue.is_empty() {
            return Next { turn: None, other: self.asks_at(now).filter(|at| *at > now) };
        }
        self.expire(now, calls);
        let (turn, back) = self.grant(now, calls);
        // The lane is stepped at the next turn anyway; who can be called then in good time needs no look of his own.
        let later = turn.map(|turn| turn.before(self.lead / 3));
        let near = self.call_near(now, calls).filter(|near| later.is_none_or(|later| *near < later));
        let deadline = self.queue.first_deadline().map(|(at, _)| at.after(DEADLINE_GRACE));
        // Who waits for another day must hear of it when the clock on the wall is set.
        let calendar = Some(self.calendar_due).filter(|due| *due < Instant::NEVER);
        // What is wanted now is asked for now.
        let asks = self.asks_at(now).filter(|at| *at > now);
        Next { turn, other: near.into_iter().chain(back).chain(deadline).chain(calendar).chain(asks).min() }
    }

    /// The ticket that goes next.
    pub fn first(&self) -> Option<TicketId> {
        self.queue.first().or_else(|| self.queue.first_aside().map(|(_, id)| id))
    }

    /// When a ticket's turn will come as things stand, if time brings it: it is among those that hold a connection ahead,
    /// and no place is what it waits for. Else an event will bring it, and the lane is stepped then. The instant may move
    /// while somebody [holds tokens](Self::is_reserved).
    pub fn due(&self, ticket: TicketId, now: Instant) -> Option<Instant> {
        let coming = self.upcoming(now).take(CALLED_MAX).find(|coming| coming.id == ticket)?;
        (coming.is_certain && coming.cause != Cause::Places).then_some(coming.due)
    }

    /// Whether a turn was granted whose request is not written yet.
    pub fn is_reserved(&self) -> bool {
        self.tokens.is_reserved() || self.own.is_reserved()
    }

    /// The head of the turn's request was written at `at`: its tokens are spent.
    pub fn written(&mut self, turn: &mut Turn, at: Instant) {
        debug_assert_eq!(turn.stage, Stage::Reserved);
        turn.stage = Stage::Written;
        self.tokens.charge(turn.cost, turn.due, turn.lapses, at);
        self.sent.add(turn.cost, at);
        if let Some(number) = turn.own {
            self.own.charge(number, turn.cost, turn.due, at);
            self.own_changed(number);
        }
    }

    /// The turn's answer has come, or will not come: how the upstream is, and whether it asked for a pause.
    pub fn settle(&mut self, turn: &mut Turn, health: Health, hold: Option<Duration>, now: Instant) {
        let change = self.breaker.record(turn.permit, health, now);
        self.note(change);
        self.answered(turn, now);
        (turn.stage, turn.health) = (Stage::Answered, health);
        if let Some(wait) = hold {
            self.hold(wait, now);
        }
    }

    /// The body of an answer broke off. An answer that was a failure by its head is no second one.
    pub fn cut(&mut self, turn: &Turn, now: Instant) {
        if turn.health == Health::Success {
            let change = self.breaker.record_cut(turn.permit, now);
            self.note(change);
        }
    }

    /// The turn is over, whatever became of it: what was not written is given back, and its place is free.
    #[allow(clippy::needless_pass_by_value, reason = "a finished turn must not be used again")]
    pub fn finish(&mut self, turn: Turn, now: Instant) {
        match turn.stage {
            Stage::Answered => {}
            Stage::Written => {
                self.breaker.record(turn.permit, Health::Neither, now);
                self.answered(&turn, now);
            }
            Stage::Reserved => {
                self.breaker.give_back(turn.permit);
                self.undo(&turn);
            }
        }
        self.free(&turn, now);
    }

    fn free(&mut self, turn: &Turn, now: Instant) {
        if self.places.free(turn.since, now) {
            self.clear_since = self.clear_since.max(now);
        }
    }

    /// Undoes a turn that was never written: it costs nothing, neither tokens nor its client's place.
    fn undo(&mut self, turn: &Turn) {
        self.tokens.give_back(turn.cost, turn.lapses);
        if turn.has_waited() {
            self.queue.refund(turn.client, turn.cost);
        }
        if let Some(number) = turn.own {
            self.own.give_back(number, turn.cost);
            self.own_changed(number);
        }
        if let Some(restart) = self.restart.as_mut().filter(|r| turn.round == Some(r.id())) {
            restart.undo();
        }
    }

    /// No connection could be made, for a turn or ahead of one: that costs nothing, and is a failure. But those who wait do
    /// not all follow at once: until a connection comes about they are called at the pace of the lane.
    pub fn unconnected(&mut self, turn: Option<Turn>, now: Instant) {
        let permit = turn.as_ref().map_or_else(|| self.breaker.permit(now).ok(), |turn| Some(turn.permit));
        let change = permit.and_then(|permit| self.breaker.record(permit, Health::Failure, now));
        self.note(change);
        self.call_from = now.after(self.pace);
        if let Some(turn) = turn {
            debug_assert_eq!(turn.stage, Stage::Reserved);
            self.undo(&turn);
            self.free(&turn, now);
        }
    }

    fn note(&mut self, change: Option<Change>) {
        self.change = change.or(self.change);
    }

    /// How the breaker's state has changed since this was last asked.
    pub fn take_change(&mut self) -> Option<Change> {
        self.change.take()
    }

    /// Whether the traffic could afford a retry after a failure now.
    pub fn affords_retry(&mut self, now: Instant) -> bool {
        self.budget.affords(now)
    }

    /// Whether the traffic can afford a retry after a failure; if so, it is spent.
    pub fn withdraw(&mut self, now: Instant) -> bool {
        self.budget.withdraw(now)
    }

    /// The retry that was spent at `withdrawn` was never sent.
    pub fn refund_retry(&mut self, withdrawn: Instant) {
        self.budget.refund(withdrawn);
    }

    /// Pauses the lane for `wait`, at most `max_hold`. A later end wins, an earlier one never shortens.
    pub fn hold(&mut self, wait: Duration, now: Instant) {
        self.hold_by(HeldBy::Upstream, wait, now);
    }

    fn hold_by(&mut self, by: HeldBy, wait: Duration, now: Instant) {
        let end = now.after(self.policy.hold_for(wait));
        self.holds += 1;
        if self.hold.is_some_and(|until| until >= end) {
            return;
        }
        self.hold_to(end, by, now);
        self.restart = None;
        self.tokens.hold_until(end, now);
        self.note_hold(by);
    }

    fn hold_to(&mut self, end: Instant, by: HeldBy, now: Instant) {
        let known = self.hold.map_or(now, |until| until.max(now));
        self.held = self.held.saturating_add(end.since(known));
        (self.hold, self.held_by) = (Some(end), by);
    }

    /// Counts a pause that is under way from `now`, where that ends later: the answer that asked for it has only now come to
    /// its end. It is no new pause.
    pub fn prolong_hold(&mut self, wait: Duration, now: Instant) {
        let end = now.after(self.policy.hold_for(wait));
        if self.hold.is_some_and(|until| until < end) {
            self.hold_to(end, HeldBy::Upstream, now);
            self.tokens.hold_until(end, now);
            self.note_hold(HeldBy::Upstream);
        }
    }

    /// Until when the lane is held.
    pub fn held_until(&self) -> Option<Instant> {
        self.hold
    }

    /// Holds so far; see [`Turn::holds`].
    pub fn holds(&self) -> u64 {
        self.holds
    }

    /// How long all of them were, with what is still to come of the last.
    pub fn held(&self) -> Duration {
        self.held
    }

    /// How long connecting takes, as measured: tickets due within it, and half as much again, are told to prepare.
    pub fn set_connect_time(&mut self, measured: Duration) {
        self.lead = (measured * 3 / 2).clamp(LEAD_MIN, FIRST_LEAD);
    }

    /// What it looks like at `now`.
    pub fn snapshot(&mut self, now: Instant) -> Snapshot {
        Snapshot {
            waiting: self.queue.len(),
            waiting_bytes: self.queue.bytes(),
            in_flight: self.places.taken(),
            hold: self.hold.map(|end| end.until(now)).filter(|left| !left.is_zero()),
            holds: self.holds,
            breaker: self.breaker.state(now),
            trips: self.breaker.trips(),
            retries_left: self.budget.left(now),
            fills: self.tokens.fills(now),
        }
    }

    /// A hold that is over leaves one token behind; a lane without a rate restarts by rounds instead.
    fn end_hold(&mut self, now: Instant) {
        let Some(end) = self.hold.filter(|end| *end <= now) else { return };
        self.hold = None;
        self.tokens.hold_over();
        self.clear_since = self.clear_since.max(end);
        if !self.tokens.has_rate() {
            self.rounds += 1;
            self.restart = Some(Restart::new(self.rounds));
        }
    }

    /// Takes a turn if nothing is in the way, of what the entry's client has itself, `own`, and of the lane. `since`: since when
    /// it waits.
    fn go(
        &mut self,
        entry: &Entry,
        own: Option<Allowed>,
        since: Option<Instant>,
        now: Instant,
    ) -> Result<Turn, Blocked> {
        let cost = entry.cost;
        let blocked = |until| Err(Blocked { until });
        if let Some(end) = self.hold {
            return blocked(Some(end));
        }
        if self.restart.as_ref().is_some_and(|r| !r.has_room()) {
            return blocked(None);
        }
        if !self.places.has_room() {
            return blocked(None);
        }
        let (found, lapses) = self.tokens.take(cost, now);
        let due = match found {
            Take::Taken { due } => due,
            // What is to be leased first comes with an answer.
            Take::At(at) => return blocked((at < Instant::NEVER).then_some(at)),
            // The lane is stepped when who holds the tokens has written. If it writes in time the next turn is due at `at`,
            // and a timer that is set for that already need not be set again.
            Take::Reserved(at) => {
                let is_writing = now.since(self.granted) < WRITING_MAX;
                return blocked(is_writing.then(|| at.max(now.after(WRITING))));
            }
        };
        let permit = match self.breaker.permit(now) {
            Ok(permit) => permit,
            Err(refused) => {
                self.tokens.give_back(cost, lapses);
                self.clear_since = self.clear_since.max(refused.until.unwrap_or(now));
                return blocked(refused.until);
            }
        };
        self.places.take();
        self.granted = now;
        let round = self.restart.as_mut().map(Restart::grant);
        let due = own.map_or(due, |own| due.max(own.due));
        Ok(Turn {
            client: entry.client,
            cost,
            own: own.map(|own| self.own.reserve(own, cost)),
            due: since.map(|since| due.max(self.clear_since).max(since).min(now)),
            lapses,
            permit,
            holds: self.holds,
            round,
            since: now,
            stage: Stage::Reserved,
            health: Health::Neither,
        })
    }

    /// Lets go as many as can, in order; answers when the next one can, if that is known, and when the next one is back before
    /// that whom its own limits keep back.
    fn grant(&mut self, now: Instant, calls: &mut Vec<Call>) -> (Option<Instant>, Option<Instant>) {
        self.queue.bring_back(now);
        let turn = self.grant_in_order(now, calls);
        let back = self.queue.first_aside().map(|(until, _)| until).filter(|until| *until < Instant::NEVER);
        if self.queue.first().is_none() { (back, None) } else { (turn, back) }
    }

    fn grant_in_order(&mut self, now: Instant, calls: &mut Vec<Call>) -> Option<Instant> {
        while let Some(id) = self.queue.first() {
            let entry = *self.queue.entry(id)?;
            let own = match self.own_room(&entry, now) {
                OwnRoom::There(own) => own,
                OwnRoom::From(until) => {
                    self.queue.set_aside(until);
                    continue;
                }
            };
            if !self.queue.is_ready(id) {
                // Nobody overtakes it; it says so when it has its connection.
                return None;
            }
            match self.go(&entry, own, Some(entry.since), now) {
                Ok(turn) => {
                    self.queue.grant(id);
                    calls.push(Call::Go(id, turn));
                }
                Err(blocked) => return blocked.until,
            }
        }
        None
    }

    /// Tells the tickets whose turn is near; answers when the next one will be.
    fn call_near(&mut self, now: Instant, calls: &mut Vec<Call>) -> Option<Instant> {
        if self.call_from > now {
            return Some(self.call_from);
        }
        let (mut near, mut wake) = (Vec::new(), None);
        // A connection to an upstream that is ill is a burden on it, and one that fails is an attempt that was wasted. Not
        // even the probe's is made before its time: if it failed then, that would not say how the upstream is later.
        let callable = match self.breaker.state(now) {
            State::Closed if self.call_from > Instant::ORIGIN => 1,
            State::Closed => CALLED_MAX,
            State::Open { until } => return Some(until),
            State::HalfOpen { free } => CALLED_MAX.min(free as usize),
        };
        for Coming { id, due, cause, is_certain } in self.upcoming(now).take(callable) {
            let lead = if near.is_empty() { FIRST_LEAD } else { self.lead };
            if due > now.after(lead) {
                wake = (is_certain && self.comes_by_itself(cause)).then(|| due.before(lead).max(now.after(WRITING)));
                break;
            }
            near.push(id);
        }
        for id in near {
            if self.queue.call(id) {
                calls.push(Call::Prepare(id));
            }
        }
        wake
    }

    /// Whether a turn that waits for this comes without anything else happening, at an instant that does not move. What
    /// depends on other turns is only known when they move.
    fn comes_by_itself(&self, cause: Cause) -> bool {
        match cause {
            Cause::Limits | Cause::Own | Cause::Hold => !self.is_reserved(),
            Cause::Breaker => true,
            Cause::Places => false,
        }
    }

    fn answered(&mut self, turn: &Turn, now: Instant) {
        let Some(restart) = self.restart.as_mut().filter(|r| turn.round == Some(r.id())) else { return };
        match restart.answered(self.queue.len()) {
            Round::Goes => return,
            Round::Next => {}
            Round::NoneNeeded => self.restart = None,
        }
        self.clear_since = self.clear_since.max(now);
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
