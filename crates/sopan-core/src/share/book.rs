//! The turns that an instance was leased and has not used yet: what a lane asks where it would have asked its own bucket.
//!
//! A book knows when each of its turns is due by our clock and until when it may leave, what was used of late and so how much
//! to ask for, and what its ledger said last. It asks before it runs out, once at a time ([`Book::ask`]); what becomes of an
//! ask is told with [`Book::grant`] or [`Book::unanswered`].
//!
//! A turn that is taken stays in the book until it is written or given back. One that was given back in time is there for the
//! next one; otherwise it is returned to the ledger with the next ask, which gives its place in a quota back, and its due time
//! to somebody else if that has not passed yet.

mod beyond;
mod foresight;
mod used;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::server_clock::ServerClock;
use super::{
    AGAIN_MAX, Ask, BEAT, Granted, HORIZON, HoldNews, Leased, Members, Stamp, TIMEOUT, TellHold, Terms, WANT_MAX,
};
use crate::bucket::{Fill, Take};
use crate::time::Instant;
use beyond::Beyond;
use used::Used;

/// Turns to be returned that are remembered; of more the oldest are not given back.
const RETURNED_MAX: usize = 512;
/// What is to be returned is so after this, if nothing is asked for before.
const RETURN_AFTER: Duration = HORIZON;
/// A book that holds turns asks for more when the last of them is due within this part of how far they once reached. Half would be
/// safer where the ledger is slow, but takes half as many round trips again.
const KEPT: u32 = 4;
/// A turn that is used after this part of its time was not waited for when it was due.
const LATE_PART: u32 = 5;
/// Turns that nobody waits for yet are asked for up to as many as are ours in this span: twice what is leased at once, since it is
/// asked for again when half of what is wanted is left.
const BEYOND_MAX: Duration = Duration::from_millis(400);

/// What an instance holds of a lane's schedule.
#[derive(Debug)]
pub struct Book {
    terms: Arc<Terms>,
    timeout: Duration,
    clock: ServerClock,
    /// What can be used, by when it is due.
    leases: VecDeque<Lease>,
    /// What each of them costs, if they all cost the same: then they need not be counted one by one, under the lane's lock.
    alike: Option<u32>,
    /// What is used for turns that are not written yet.
    out: Vec<Lease>,
    returned: VecDeque<Granted>,
    return_at: Instant,
    used: Used,
    members: Members,
    asked: Option<Asked>,
    number: u64,
    heard: u64,
    /// When the last turn that it was ever leased was due.
    last: Option<Instant>,
    spent: Option<u64>,
    /// It is not worth to ask before this.
    again: Instant,
    /// From the last answer to the last turn in it.
    span: Duration,
    /// How far ahead the first turn of the last answer was.
    ahead: Duration,
    beyond: Beyond,
    /// How long the last answer took.
    took: Duration,
    /// Who gets the next turn that the ledger has, gets it then.
    next: Instant,
    among: u32,
    fills: Vec<Fill>,
    told: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lease {
    due: Instant,
    lapses: Instant,
    granted: Granted,
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    number: u64,
    cost: u32,
    at: Instant,
    /// How much was told of what was to be returned, and of what was spent alone.
    returned: usize,
    spent: Option<u64>,
}

/// What a lane could use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// Tokens that requests wait for.
    pub waiting: u64,
    /// What the next turn costs.
    pub cost: u32,
    /// So many turns could go at once; what has gone makes room for as many again. None where any number may.
    pub room: Option<u64>,
}

impl Book {
    /// An empty book.
    pub fn new(terms: Arc<Terms>, now: Instant) -> Self {
        Self {
            terms,
            timeout: TIMEOUT,
            clock: ServerClock::unknown(),
            leases: VecDeque::new(),
            alike: None,
            out: Vec::new(),
            returned: VecDeque::new(),
            return_at: Instant::NEVER,
            used: Used::default(),
            members: Members::ONE,
            asked: None,
            number: 0,
            heard: 0,
            last: None,
            spent: None,
            again: now,
            span: Duration::ZERO,
            ahead: Duration::ZERO,
            beyond: Beyond::new(now),
            took: Duration::ZERO,
            next: now,
            among: 1,
            fills: Vec::new(),
            told: now,
        }
    }

    /// How long an answer is waited for.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// How long that is.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Who shares.
    pub fn set_members(&mut self, members: Members) {
        self.members = members.sound();
    }

    /// The first turn for that cost.
    pub fn look(&self, cost: u32, now: Instant) -> Take {
        match self.usable(cost, now) {
            Some((_, lease)) if lease.due <= now => Take::Taken { due: lease.due },
            Some((_, lease)) => Take::At(lease.due),
            None => Take::At(Instant::NEVER),
        }
    }

    fn usable(&self, cost: u32, now: Instant) -> Option<(usize, &Lease)> {
        self.leases.iter().enumerate().find(|(_, lease)| lease.lapses > now && lease.granted.cost >= cost)
    }

    /// Takes what a [`look`](Self::look) at the same instant found; answers until when it may leave, by which it is known.
    pub fn reserve(&mut self, cost: u32, now: Instant) -> Instant {
        let Some(lease) = self.usable(cost, now).map(|(at, _)| at).and_then(|at| self.leases.remove(at)) else {
            return now;
        };
        self.used.add(lease.granted.cost, now);
        // Nobody was there when it was due.
        if now.since(lease.due) > self.terms.lapse() / LATE_PART {
            self.beyond.missed(now);
        }
        self.out.push(lease);
        lease.lapses
    }

    /// The turn was written.
    pub fn charge(&mut self, lapses: Instant) {
        if let Some(at) = self.out.iter().position(|lease| lease.lapses == lapses) {
            self.out.swap_remove(at);
        }
    }

    /// The turn was not written, and never will be.
    pub fn give_back(&mut self, lapses: Instant) {
        if let Some(at) = self.out.iter().position(|lease| lease.lapses == lapses) {
            let lease = self.out.swap_remove(at);
            self.insert(lease);
        }
    }

    fn insert(&mut self, lease: Lease) {
        let at = self.leases.partition_point(|other| other.due <= lease.due);
        self.leases.insert(at, lease);
    }

    /// Forgets what has lapsed; it is returned where that helps.
    pub fn forget_lapsed(&mut self, now: Instant) {
        while let Some(lease) = self.leases.front().filter(|lease| lease.lapses <= now) {
            if self.terms.has_quota() {
                give_up(&mut self.returned, &mut self.return_at, lease.granted, now);
            }
            self.leases.pop_front();
            self.beyond.missed(now);
        }
    }

    /// Nothing may leave before `end`: what is due before is returned.
    pub fn hold_until(&mut self, end: Instant, now: Instant) {
        while let Some(lease) = self.leases.front().filter(|lease| lease.due < end) {
            if self.terms.has_quota() {
                give_up(&mut self.returned, &mut self.return_at, lease.granted, now);
            }
            self.leases.pop_front();
        }
    }

    /// It may be worth to ask, whatever the last answer said of that: a hold was ended, or this instance is back.
    pub fn ask_anew(&mut self, now: Instant) {
        (self.again, self.next) = (self.again.min(now), self.next.min(now));
    }

    /// So much was spent without the ledger, which has not been told of it.
    pub fn spend(&mut self, tokens: u64) {
        self.spent = Some(self.spent.unwrap_or(0).saturating_add(tokens));
    }

    /// What to ask for now, if anything, given what the lane could use. It must be followed by [`grant`](Self::grant) or
    /// [`unanswered`](Self::unanswered).
    pub fn ask(&mut self, demand: Demand, now: Instant) -> Option<Ask> {
        if self.asks_at(demand, now)? > now {
            return None;
        }
        let mut want = self.wanted(demand, now).saturating_sub(self.held(demand.cost, now));
        if self.terms.has_days() && self.clock.at_least(now).is_none() {
            // What day it is there must be known first; the ledger does nothing else for who does not.
            want = 0;
        }
        Some(self.make(u32::try_from(want).unwrap_or(WANT_MAX).min(WANT_MAX), demand.cost, now))
    }

    /// Gives everything back that is not used, for an instance that ends in order; nothing if there is nothing.
    pub fn take_back(&mut self, now: Instant) -> Option<Ask> {
        let is_asked = self.asked.is_some();
        if is_asked {
            // What that ask gives back it gives back, and what it is leased is not heard of any more: the next one tells so.
            self.unanswered(now);
        }
        for lease in std::mem::take(&mut self.leases) {
            give_up(&mut self.returned, &mut self.return_at, lease.granted, now);
        }
        (is_asked || !self.returned.is_empty()).then(|| self.make(0, 1, now))
    }

    /// An ask that takes nothing and tells nothing, for one that is no instance.
    pub(crate) fn probe(&self, now: Instant) -> Ask {
        Ask {
            number: 1,
            heard: 0,
            want: 0,
            cost: 1,
            members: self.members,
            days: self.terms.days(self.clock.at_least(now)),
            terms: Arc::clone(&self.terms),
            lapse: self.terms.lapse(),
            returned: Vec::new(),
            spent: None,
            last: None,
            valid_until: None,
        }
    }

    fn make(&mut self, want: u32, cost: u32, now: Instant) -> Ask {
        self.number += 1;
        let cost = cost.max(1);
        let (returned, spent) = (self.returned.len(), self.spent);
        self.asked = Some(Asked { number: self.number, cost, at: now, returned, spent });
        self.return_at = Instant::NEVER;
        let lapse = self.terms.lapse();
        // As long as a lease can last by what is known of the ledger's clock.
        let doubt = self.clock.doubt(now).unwrap_or(self.timeout);
        let at = self.clock.at_least(now);
        Ask {
            number: self.number,
            heard: self.heard,
            want,
            cost,
            members: self.members,
            days: self.terms.days(at),
            terms: Arc::clone(&self.terms),
            lapse: lapse.max(doubt + lapse / 2),
            returned: self.returned.iter().copied().collect(),
            spent: self.spent,
            // By the clock as it is known now: it may have been set, or be another server's.
            last: self.last.and_then(|last| self.clock.at_least(last)),
            valid_until: at.map(|at| Stamp(at.0.saturating_add(super::terms::micros(self.timeout)))),
        }
    }

    /// How the ledger and the others are told of a hold.
    pub(crate) fn tell_hold(&self, news: HoldNews, members: Members, now: Instant) -> TellHold {
        let days = self.terms.days(self.clock.at_least(now));
        TellHold { news, terms: Arc::clone(&self.terms), days, members }
    }

    /// When to ask, if nothing happens before.
    pub fn asks_at(&self, demand: Demand, now: Instant) -> Option<Instant> {
        if self.asked.is_some() {
            return None;
        }
        let (held, wanted) = (self.held(demand.cost, now), self.wanted(demand, now));
        let runs_out = self.leases.back().map_or(now, |last| last.due.before((self.span / KEPT).max(self.took * 2)));
        let for_more = match held {
            _ if held >= wanted => None,
            0 => Some(self.again),
            // Where there is more than half of what is wanted, something else happens before more is needed.
            _ if held * 2 <= wanted => Some(self.again.max(runs_out)),
            _ => None,
        };
        let to_return = (!self.returned.is_empty()).then_some(self.return_at);
        let lapsing =
            self.leases.front().filter(|_| self.terms.has_quota()).map(|lease| lease.lapses.after(RETURN_AFTER));
        for_more.into_iter().chain(to_return).chain(lapsing).min()
    }

    /// Turns for that cost that can still be used.
    fn held(&self, cost: u32, now: Instant) -> u64 {
        if let Some(alike) = self.alike {
            return if alike >= cost { (self.leases.len() - self.lapsed(now)) as u64 } else { 0 };
        }
        self.leases.iter().filter(|lease| lease.lapses > now && lease.granted.cost >= cost).count() as u64
    }

    /// How many of the first turns have lapsed. Those behind lapse later, by a hair's breadth not all in order.
    fn lapsed(&self, now: Instant) -> usize {
        self.leases.partition_point(|lease| lease.lapses <= now)
    }

    /// How many turns the lane can use before it could be given more.
    fn wanted(&self, demand: Demand, now: Instant) -> u64 {
        let span = self.ahead + self.terms.lapse() / 2;
        let expected = self.used.within(span, now);
        // One at a time is asked for when it is there: a turn that is leased in vain is one that nobody has.
        let expected = if expected < 2 { 0 } else { expected };
        let expected = if demand.waiting > 0 { expected.max(self.beyond.turns()) } else { expected };
        let waiting = demand.waiting.div_ceil(u64::from(demand.cost.max(1)));
        let turns = waiting.saturating_add(expected);
        let room = demand.room.map_or(u64::MAX, |room| room.saturating_add(expected));
        turns.min(room).min(WANT_MAX.into())
    }

    /// The answer has come, at `received`.
    pub fn grant(&mut self, leased: &Leased, received: Instant) {
        let Some(asked) = self.asked.take_if(|asked| asked.number == leased.number) else { return };
        self.heard = leased.number;
        if leased.is_done {
            self.was_told(asked);
        } else if !self.returned.is_empty() {
            self.return_at = received.after(RETURN_AFTER);
        }
        self.took = received.since(asked.at);
        if self.clock.learn(asked.at, received, leased.at) {
            // What there was of tokens by the old clock is not known by the new one, nor what was leased; by then it is over.
            self.spend(0);
            self.last = self.last.max(Some(received.after(HORIZON)));
        }
        if !leased.due.is_empty() {
            let is_alike = self.leases.is_empty() && self.out.is_empty() || self.alike == Some(asked.cost);
            self.alike = is_alike.then_some(asked.cost);
        }
        let lapse = self.terms.lapse();
        for due in &leased.due {
            let at = self.clock.when_at_last(*due).unwrap_or(received);
            let first = self.clock.when_at_first(*due).unwrap_or(received);
            let lapses = first.after(lapse).max(at.after(lapse / 2));
            let granted = Granted { due: *due, cost: asked.cost };
            self.last = self.last.max(Some(at));
            self.insert(Lease { due: at, lapses, granted });
        }
        let last = self.leases.back().map_or(received, |lease| lease.due);
        self.span = last.since(received);
        self.ahead = leased.due.first().map_or(Duration::ZERO, |due| Duration::from_micros(due.0 - leased.at.0));
        // An ask takes a while, too; but one that comes too early is in vain.
        let again_in = leased.again_in.unwrap_or_default().min(AGAIN_MAX);
        self.again = received.after(again_in.saturating_sub(self.took / 2));
        self.next = received.after(leased.next_in);
        self.among = leased.among.max(1);
        if !self.ahead.is_zero() {
            self.beyond.grow((BEYOND_MAX.as_secs_f64() / self.seconds_a_turn()) as u64, received);
        }
        self.fills.clone_from(&leased.fills);
        self.told = received;
        self.forget_lapsed(received);
    }

    /// No answer will come.
    pub fn unanswered(&mut self, now: Instant) {
        if let Some(asked) = self.asked.take() {
            // It may have been heard all the same, and nothing may be given back twice. What was spent is told again: to count
            // it twice harms nobody else.
            self.was_told(Asked { spent: None, ..asked });
        }
        self.again = now.after(BEAT);
    }

    /// What that ask told need not be told again.
    fn was_told(&mut self, asked: Asked) {
        // What was added since stands behind it, unless so much was that the oldest were forgotten.
        self.returned.drain(..asked.returned.min(self.returned.len()));
        if let Some(spent) = asked.spent {
            self.spent = self.spent.map(|all| all.saturating_sub(spent)).filter(|rest| *rest > 0);
        }
    }
}

fn give_up(returned: &mut VecDeque<Granted>, return_at: &mut Instant, granted: Granted, now: Instant) {
    if returned.len() == RETURNED_MAX {
        returned.pop_front();
    }
    returned.push_back(granted);
    *return_at = (*return_at).min(now.after(RETURN_AFTER));
}
