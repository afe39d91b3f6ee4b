//! Limits of a client's own, within the lane's: it takes its own and the lane's together, or neither.
//!
//! Each client has a bucket like the lane's; reserved, charged and given back with it. While that does not let a client go, the
//! queue has it aside and others go before it, so a client gets no more than its own limits whatever the lane has free, and
//! nobody waits for it. Holds, places and the breaker are the lane's alone.
//!
//! These limits are ours and not the upstream's, and are counted where they are kept to: nothing of a burst or a rate is left
//! unused for the way.

use std::fmt;
use std::time::SystemTime;

use super::{Cause, Lane};
use crate::bucket::{Bucket, Take};
use crate::journal::Note;
use crate::policy::{ClientLimits, Margin};
use crate::queue::{ClientId, Entry};
use crate::time::Instant;

/// Clients with limits of their own that a prediction for another one looks at; of more, what fairness alone would let leave.
const LOOKED_AT_MAX: usize = 100;
/// Rounds in which such a prediction is narrowed down: enough for 1 in 4,000 of all who wait.
const ROUNDS_MAX: u32 = 12;

/// The own limits of all clients that have some, by the numbers under which the queue knows them.
#[derive(Default)]
pub(super) struct Own {
    clients: Vec<(ClientId, Bucket)>,
    /// Turns that hold tokens and are not written yet.
    out: usize,
    calendar_due: Option<Instant>,
    /// Those of which something was taken since the last journal, where one is kept.
    taken: Option<Vec<u32>>,
    /// In how many parts they are divided, where other instances have the others; none where they are not.
    parts: Option<u32>,
}

/// Whether a client's own limits have room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnRoom {
    /// They have, if there are any.
    There(Option<Allowed>),
    /// They have none before this; never, where an event will say.
    From(Instant),
}

/// Which of them allow a turn, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Allowed {
    number: u32,
    pub(super) due: Instant,
}

impl Own {
    pub(super) fn new(clients: &[ClientLimits]) -> Self {
        let limited = limited(clients);
        let bucket = |client: &ClientLimits| (client.client, Bucket::new(&client.limits, 0, Margin::NONE));
        let mut own = Self { clients: limited.map(bucket).collect(), ..Self::default() };
        own.note_calendar();
        own
    }

    pub(super) fn clients(&self) -> impl Iterator<Item = ClientId> + '_ {
        self.clients.iter().map(|(client, _)| *client)
    }

    pub(super) fn client(&self, number: u32) -> ClientId {
        self.clients[number as usize].0
    }

    pub(super) fn bucket(&self, number: u32) -> &Bucket {
        &self.clients[number as usize].1
    }

    /// Whether a turn holds tokens of any of them that it has not spent yet.
    pub(super) fn is_reserved(&self) -> bool {
        self.out > 0
    }

    /// Reserves what was found to be there at the same instant; answers of which limits.
    pub(super) fn reserve(&mut self, allowed: Allowed, cost: u32) -> u32 {
        self.clients[allowed.number as usize].1.reserve(cost);
        self.out += 1;
        if let Some(taken) = &mut self.taken {
            taken.push(allowed.number);
        }
        allowed.number
    }

    pub(super) fn charge(&mut self, number: u32, cost: u32, due: Option<Instant>, at: Instant) {
        self.clients[number as usize].1.charge(cost, due, at);
        self.out -= 1;
    }

    pub(super) fn give_back(&mut self, number: u32, cost: u32) {
        self.clients[number as usize].1.give_back(cost);
        self.out -= 1;
    }

    pub(super) fn calendar_due(&self) -> Instant {
        self.calendar_due.unwrap_or(Instant::NEVER)
    }

    pub(super) fn set_calendar(&mut self, now: Instant, wall: SystemTime) {
        self.clients.iter_mut().for_each(|(_, bucket)| bucket.set_calendar(now, wall));
        self.note_calendar();
    }

    /// Goes on where the process before ended, and keeps a journal from now on.
    pub(super) fn restore(&mut self, clients: &[ClientLimits], notes: &[Note], now: Instant) {
        for ((_, bucket), client) in self.clients.iter_mut().zip(limited(clients)) {
            bucket.keep(&client.limits, Some(&client.name));
            bucket.restore(notes, now);
        }
        self.taken = Some(Vec::new());
    }

    /// Other instances have parts of them, too: there are so many. Answers whether that is new.
    pub(super) fn share(&mut self, clients: &[ClientLimits], parts: u32, now: Instant) -> bool {
        if self.parts.replace(parts).unwrap_or(1) == parts {
            return false;
        }
        for ((_, bucket), client) in self.clients.iter_mut().zip(limited(clients)) {
            let limits: Vec<_> = client.limits.iter().map(|limit| limit.share(parts)).collect();
            bucket.change(&limits, 0, Margin::NONE, now);
            if self.taken.is_some() {
                bucket.keep(&client.limits, Some(&client.name));
            }
        }
        self.note_calendar();
        true
    }

    /// What must be on file before the turns that are out are used.
    pub(super) fn journal(&mut self, now: Instant, notes: &mut Vec<Note>) {
        for number in self.taken.iter_mut().flat_map(|taken| taken.drain(..)) {
            self.clients[number as usize].1.journal(now, notes);
        }
    }

    /// All that is not on file yet.
    pub(super) fn whole_journal(&mut self, now: Instant, notes: &mut Vec<Note>) {
        self.clients.iter_mut().for_each(|(_, bucket)| bucket.whole_journal(now, notes));
    }

    fn note_calendar(&mut self) {
        let due = self.clients.iter().map(|(_, bucket)| bucket.calendar_due()).min();
        self.calendar_due = due.filter(|due| *due < Instant::NEVER);
    }
}

fn limited(clients: &[ClientLimits]) -> impl Iterator<Item = &ClientLimits> {
    clients.iter().filter(|client| !client.limits.is_empty())
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Own({} clients, {} turns out)", self.clients.len(), self.out)
    }
}

impl Lane {
    /// Whether the own limits of the entry's client let it go at `now`; those of a client that has none always do.
    pub(super) fn own_room(&self, entry: &Entry, now: Instant) -> OwnRoom {
        let Some(number) = self.queue.own(entry.client) else { return OwnRoom::There(None) };
        match self.own.bucket(number).look(entry.cost, now) {
            Take::Taken { due } => OwnRoom::There(Some(Allowed { number, due })),
            Take::At(at) => OwnRoom::From(at),
            // The turn that holds the tokens says so when it is written or given back.
            Take::Reserved(_) => OwnRoom::From(Instant::NEVER),
        }
    }

    /// The client's own limits have changed: when they let it go must be found out anew.
    pub(super) fn own_changed(&mut self, number: u32) {
        self.queue.bring_back_client(self.own.client(number));
    }

    /// When the own limits of the entry's client would let it go, behind those of its tickets that come before it.
    pub(super) fn predict_own(&self, entry: &Entry, now: Instant) -> Option<(Instant, Cause)> {
        let number = self.queue.own(entry.client)?;
        let ahead = self.queue.own_ahead(entry.client, entry.arrival);
        Some((self.own.bucket(number).predict(ahead, entry.cost, now), Cause::Own))
    }

    /// What would leave before an entry by the fair order as it stands, and as far as clients that have limits of their own
    /// are let by them until its turn.
    pub(super) fn ahead_of(&self, entry: &Entry, now: Instant) -> u64 {
        let (mut limited, mut more) = (Vec::new(), 0);
        let ahead = self.queue.ahead(entry.client, entry.weight, entry.arrival, |number, cost| {
            if limited.len() < LOOKED_AT_MAX {
                limited.push((number, cost));
            } else {
                more += cost;
            }
        });
        let ahead = ahead + more;
        if limited.is_empty() {
            return ahead;
        }
        // The later its turn, the more of them are let go before: looked for is how many make it so late that no more are.
        let let_go_before = |at: Instant| -> u64 {
            limited.iter().map(|(number, cost)| self.own.bucket(*number).count_until(at, now).min(*cost)).sum()
        };
        let (mut least, mut most) = (0, limited.iter().map(|(_, cost)| cost).sum());
        for _ in 0..ROUNDS_MAX {
            if least >= most {
                break;
            }
            let middle = least + (most - least) / 2;
            let (at, _) = self.predict_after(ahead + middle, entry.cost, now);
            if let_go_before(at) <= middle { most = middle } else { least = middle + 1 }
        }
        ahead + most
    }
}
