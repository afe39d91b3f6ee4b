//! Who is next: fair by weight between clients, first come first served within one.
//!
//! Start-time fair queueing (Goyal, Vin, Cheng 1997): a client's first ticket carries a start tag, its next ones follow
//! `cost / weight` apart, and the smallest tag goes next; equal tags go by arrival. A client that was away starts at the
//! present virtual time, so nobody saves up turns by keeping quiet, and nobody is starved. Within a client the order is the
//! arrival of the exchange, so a retry that comes back takes its old place.
//!
//! A client with limits of its own is set aside while they do not let it go, so that nobody waits for it. When it comes back
//! it starts at the present virtual time, as one that was away: it does not catch up.
//!
//! It knows nothing of tokens, and of time only the instants at which clients come back and deadlines, which it keeps in
//! order; when a ticket may go is [`crate::lane`]'s business.

mod line;
mod order;
mod slots;

use std::collections::{BTreeMap, BTreeSet};

use crate::time::Instant;
use line::Line;
pub(crate) use order::{Head, Order};
use slots::Slots;

/// Clients that are remembered at once; beyond that, newcomers share one.
pub const CLIENTS_MAX: usize = 10_000;
/// Clients that [`Queue::cost_ahead`] looks at one by one: every newcomer asks, under the lane's lock.
pub const LOOKED_AT_MAX: usize = 1_000;
/// Clients set aside that [`Queue::cost_in_line`] looks at: a lane that is shared asks with every step.
const ASIDE_LOOKED_AT_MAX: usize = 100;
/// The largest weight of a client.
pub const WEIGHT_MAX: u32 = 1_000_000;

/// Who calls, as far as fairness is concerned: an address, a connection or a hash, as the door decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u128);

impl ClientId {
    /// The client that newcomers share when too many are known.
    pub const OTHER: Self = Self(u128::MAX);
    /// A client that nobody is, to ask what a newcomer would meet.
    pub const NOBODY: Self = Self(u128::MAX - 1);
}

/// A place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TicketId {
    index: u32,
    generation: u32,
}

impl TicketId {
    /// A small number that no other ticket has at the same time, to keep what belongs to a ticket in a list.
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// What enters the queue.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Whose ticket it is.
    pub client: ClientId,
    /// The client's share against others, 1 to [`WEIGHT_MAX`].
    pub weight: u32,
    /// The arrival of the exchange, counted by the door; orders a client's own tickets.
    pub arrival: u64,
    /// Tokens that its turn costs, at least 1.
    pub cost: u32,
    /// Bytes that it holds while it waits.
    pub bytes: u64,
    /// When its stay in the queue began.
    pub since: Instant,
    /// When it must have gone, if ever.
    pub deadline: Option<Instant>,
}

/// A client that has tickets waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineOf {
    /// Who it is.
    pub client: ClientId,
    /// Its share against others.
    pub weight: u32,
    /// Its tickets.
    pub waiting: usize,
}

#[derive(Debug)]
struct Ticket {
    entry: Entry,
    client: u32,
    called: bool,
    ready: bool,
}

/// A client with tickets in the queue, or one whose last turn still counts.
#[derive(Debug)]
struct Client {
    id: ClientId,
    weight: u32,
    /// The start tag of its first ticket; for a client without tickets, of the next that it would bring.
    tag: u128,
    line: Line,
    /// The number of its own limits, if it has some.
    own: Option<u32>,
    /// Until when it is set aside.
    aside: Option<Instant>,
}

/// Virtual time that a turn of cost 1 takes a client of weight 1: a multiple of all numbers to 16, so that usual weights
/// divide it exactly, and large, so that others round little.
const TURN: u128 = 720_720 << 20;

/// The tickets that wait for one upstream.
#[derive(Debug, Default)]
pub struct Queue {
    clients: Slots<Client>,
    by_id: BTreeMap<ClientId, u32>,
    /// The clients with limits of their own, by the numbers of those.
    own: BTreeMap<ClientId, u32>,
    /// Clients with tickets, by (tag, arrival of the first ticket, client).
    active: BTreeSet<(u128, u64, u32)>,
    /// Clients without tickets whose tag is still ahead of virtual time, by (tag, client).
    resting: BTreeSet<(u128, u32)>,
    /// Clients with tickets that are set aside, by (until when, client).
    aside: BTreeSet<(Instant, u32)>,
    tickets: Slots<Ticket>,
    deadlines: BTreeSet<(Instant, TicketId)>,
    virtual_time: u128,
    bytes: u64,
    /// Tokens that waiting tickets cost together.
    cost: u64,
}

impl Queue {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty queue in which these clients have limits of their own, numbered as they are given.
    pub(crate) fn with_own(clients: impl Iterator<Item = ClientId>) -> Self {
        let own = clients.enumerate().map(|(number, client)| (client, number as u32));
        Self { own: own.collect(), ..Self::default() }
    }

    /// Tickets that wait.
    pub fn len(&self) -> usize {
        self.tickets.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.tickets.len() == 0
    }

    /// Bytes that waiting tickets hold.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Clients that are remembered.
    #[cfg(test)]
    fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Puts a ticket into its place.
    pub fn insert(&mut self, entry: Entry) -> TicketId {
        debug_assert!(entry.cost > 0 && entry.weight > 0, "a turn costs something and every client counts");
        let slot = self.client(entry.client, entry.weight);
        self.deactivate(slot);
        let id = self.tickets.insert(Ticket { entry, client: slot, called: false, ready: false });
        self.clients.get_mut(slot).line.insert(entry.arrival, id, entry.cost);
        self.activate(slot);
        if let Some(deadline) = entry.deadline {
            self.deadlines.insert((deadline, id));
        }
        self.bytes += entry.bytes;
        self.cost += u64::from(entry.cost);
        id
    }

    /// The ticket that goes next, of those whose clients are not set aside.
    pub fn first(&self) -> Option<TicketId> {
        let &(_, _, slot) = self.active.first()?;
        self.clients.get(slot).line.first()
    }

    /// Whether nobody is before a newcomer of this client: all who wait are set aside, and it is not one of them.
    pub(crate) fn is_clear_for(&self, client: ClientId) -> bool {
        let is_aside = || self.by_id.get(&client).is_some_and(|slot| self.clients.get(*slot).aside.is_some());
        self.active.is_empty() && (self.aside.is_empty() || !is_aside())
    }

    /// Tokens that those cost who are not set aside; of many who are, most are taken not to be.
    pub(crate) fn cost_in_line(&self) -> u64 {
        let aside = self.aside.iter().take(ASIDE_LOOKED_AT_MAX);
        let aside: u64 = aside.map(|(_, slot)| self.clients.get(*slot).line.cost()).sum();
        self.cost - aside
    }

    /// The number of the client's own limits, if it has some.
    pub(crate) fn own(&self, client: ClientId) -> Option<u32> {
        self.own.get(&client).copied()
    }

    /// Sets the client aside whose ticket would go next, until `until`, since its own limits do not let it before; with
    /// [`Instant::NEVER`] until it is [brought back](Self::bring_back_client).
    pub(crate) fn set_aside(&mut self, until: Instant) {
        if let Some((_, _, slot)) = self.active.pop_first() {
            self.clients.get_mut(slot).aside = Some(until);
            self.aside.insert((until, slot));
        }
    }

    /// Brings those back who were set aside until now or before.
    pub(crate) fn bring_back(&mut self, now: Instant) {
        while let Some(&(_, slot)) = self.aside.first().filter(|(until, _)| *until <= now) {
            self.deactivate(slot);
            self.activate(slot);
        }
    }

    /// Brings a client back whose own limits have changed.
    pub(crate) fn bring_back_client(&mut self, client: ClientId) {
        let slot = self.by_id.get(&client).copied();
        if let Some(slot) = slot.filter(|slot| self.clients.get(*slot).aside.is_some()) {
            self.deactivate(slot);
            self.activate(slot);
        }
    }

    /// Those that are set aside, and until when, the first to come back first.
    pub(crate) fn aside(&self) -> impl Iterator<Item = (Instant, Head)> + '_ {
        self.aside.iter().filter_map(|&(until, slot)| {
            let client = self.clients.get(slot);
            Some((until, Head { tag: client.tag, arrival: client.line.first_arrival()?, slot }))
        })
    }

    /// The ticket of the first client to come back, and when that is.
    pub(crate) fn first_aside(&self) -> Option<(Instant, TicketId)> {
        let &(until, slot) = self.aside.first()?;
        Some((until, self.clients.get(slot).line.first()?))
    }

    /// Takes a ticket out because it goes: its client's next one moves back by what it cost.
    pub fn grant(&mut self, id: TicketId) -> Option<Entry> {
        let slot = self.tickets.find(id)?.client;
        self.virtual_time = self.virtual_time.max(self.clients.get(slot).tag);
        self.deactivate(slot);
        let entry = self.take_out(id, slot);
        let client = self.clients.get_mut(slot);
        client.tag += TURN * u128::from(entry.cost) / u128::from(client.weight);
        self.activate(slot);
        self.forget_rested();
        Some(entry)
    }

    /// Takes a ticket out because it will not go: its client's other tickets move up.
    pub fn remove(&mut self, id: TicketId) -> Option<Entry> {
        let slot = self.tickets.find(id)?.client;
        self.deactivate(slot);
        let entry = self.take_out(id, slot);
        self.activate(slot);
        self.forget_rested();
        Some(entry)
    }

    /// Undoes the cost of a grant whose turn never went.
    pub fn refund(&mut self, client: ClientId, cost: u32) {
        let Some(&slot) = self.by_id.get(&client) else { return };
        self.deactivate(slot);
        let client = self.clients.get_mut(slot);
        client.tag = client.tag.saturating_sub(TURN * u128::from(cost) / u128::from(client.weight));
        self.activate(slot);
        self.forget_rested();
    }

    /// What the ticket entered with.
    pub fn entry(&self, id: TicketId) -> Option<&Entry> {
        self.tickets.find(id).map(|t| &t.entry)
    }

    /// Counts `more` bytes to a ticket; answers whether the queue then holds less than `bytes_max`.
    pub fn grow(&mut self, id: TicketId, more: u64, bytes_max: u64) -> bool {
        if let Some(ticket) = self.tickets.find_mut(id) {
            ticket.entry.bytes += more;
            self.bytes += more;
        }
        self.bytes < bytes_max
    }

    /// Notes that a ticket has been told that its turn is near; answers whether that is new.
    pub fn call(&mut self, id: TicketId) -> bool {
        self.tickets.find_mut(id).is_some_and(|t| !std::mem::replace(&mut t.called, true))
    }

    /// Notes whether a ticket could go at once if its turn came. One that no longer could is to be called again.
    pub fn set_ready(&mut self, id: TicketId, ready: bool) {
        if let Some(ticket) = self.tickets.find_mut(id) {
            ticket.ready = ready;
            ticket.called = ready;
        }
    }

    /// Whether the ticket could go at once.
    pub fn is_ready(&self, id: TicketId) -> bool {
        self.tickets.find(id).is_some_and(|t| t.ready)
    }

    /// The ticket whose deadline comes first.
    pub fn first_deadline(&self) -> Option<(Instant, TicketId)> {
        self.deadlines.first().copied()
    }

    /// The order in which tickets will go if nobody else comes. Those set aside are not in it.
    pub(crate) fn order(&self) -> Order<'_> {
        Order::new(self)
    }

    /// The first tickets in that order.
    #[cfg(test)]
    fn in_order(&self) -> impl Iterator<Item = TicketId> + '_ {
        let mut order = self.order();
        std::iter::from_fn(move || order.take())
    }

    /// Tokens that would leave before a ticket entering now, by the fair order as it stands. Exact up to
    /// [`LOOKED_AT_MAX`] other clients; of more, the rest is taken to have as much ahead as the last one looked at, which
    /// is a turn off at most where weights are equal, since tags of clients that wait lie within one turn.
    pub fn cost_ahead(&self, id: ClientId, weight: u32, arrival: u64) -> u64 {
        let mut limited = 0;
        let ahead = self.ahead(id, weight, arrival, |_, cost| limited += cost);
        ahead + limited
    }

    /// What of the client's own tickets would leave before one entering now.
    pub(crate) fn own_ahead(&self, id: ClientId, arrival: u64) -> u64 {
        self.by_id.get(&id).map_or(0, |slot| self.clients.get(*slot).line.cost_before(arrival))
    }

    /// The same as [`Self::cost_ahead`], but for other clients with limits of their own: of each the number of its limits is
    /// told, and what fairness alone would let leave before.
    pub(crate) fn ahead(&self, id: ClientId, weight: u32, arrival: u64, mut limited: impl FnMut(u32, u64)) -> u64 {
        let known = self.by_id.get(&id).map(|slot| self.clients.get(*slot));
        let (tag, own) = match known {
            Some(client) => (client.tag.max(self.virtual_time), client.line.cost_before(arrival)),
            None => (self.virtual_time, 0),
        };
        let weight = known.map_or(weight, |c| c.weight);
        let mine = tag + TURN * u128::from(own) / u128::from(weight);
        for (_, head) in self.aside().take(LOOKED_AT_MAX) {
            let (tag, client) = (head.tag.max(self.virtual_time), self.clients.get(head.slot));
            if let Some(number) = client.own.filter(|_| client.id != id && (tag, head.arrival) < (mine, arrival)) {
                limited(number, client.line.cost_until(mine - tag, client.weight));
            }
        }
        let others = self.active.iter().take_while(|(tag, first, _)| (*tag, *first) < (mine, arrival));
        let others = others.map(|&(tag, _, slot)| (tag, self.clients.get(slot))).filter(|(_, c)| c.id != id);
        let (mut ahead, mut last, mut looked_at) = (own, 0, 0);
        for (tag, client) in others {
            if looked_at == LOOKED_AT_MAX {
                let rest = (self.active.len() - LOOKED_AT_MAX) as u64;
                return ahead.saturating_add(last * rest).min(self.cost);
            }
            last = client.line.cost_until(mine - tag, client.weight);
            match client.own {
                None => ahead += last,
                Some(number) => limited(number, last),
            }
            looked_at += 1;
        }
        ahead
    }

    /// Clients with tickets that wait.
    pub fn clients_waiting(&self) -> usize {
        self.active.len()
    }

    /// Those who have most tickets waiting, the greatest first, at most `max` of the [`LOOKED_AT_MAX`] whose turns are next.
    pub fn longest_lines(&self, max: usize) -> Vec<LineOf> {
        let next = self.active.iter().take(LOOKED_AT_MAX).map(|&(_, _, slot)| self.clients.get(slot));
        let mut lines: Vec<_> = next
            .map(|client| LineOf { client: client.id, weight: client.weight, waiting: client.line.len() })
            .collect();
        // Of equal ones, whoever goes first.
        lines.sort_by_key(|line| std::cmp::Reverse(line.waiting));
        lines.truncate(max);
        lines
    }

    /// The client's place in the tables; a newcomer starts at the present virtual time.
    fn client(&mut self, id: ClientId, weight: u32) -> u32 {
        if let Some(&slot) = self.by_id.get(&id) {
            let now = self.virtual_time;
            let client = self.clients.get_mut(slot);
            if client.line.is_empty() {
                self.resting.remove(&(client.tag, slot));
                client.tag = client.tag.max(now);
                client.weight = weight;
                self.resting.insert((client.tag, slot));
            }
            return slot;
        }
        let own = self.own(id);
        // Who has limits of its own must not share them, nor be slowed by those of others; and the settings bound their number.
        if self.clients.len() >= CLIENTS_MAX && id != ClientId::OTHER && own.is_none() {
            match self.resting.first().copied() {
                Some((_, idle)) => self.forget(idle),
                None => return self.client(ClientId::OTHER, 1),
            }
        }
        let client = Client { id, weight, tag: self.virtual_time, line: Line::default(), own, aside: None };
        let slot = self.clients.insert(client).index;
        self.by_id.insert(id, slot);
        self.resting.insert((self.virtual_time, slot));
        slot
    }

    fn take_out(&mut self, id: TicketId, slot: u32) -> Entry {
        let ticket = self.tickets.remove(id);
        let entry = ticket.entry;
        self.clients.get_mut(slot).line.remove(entry.arrival, id, entry.cost);
        if let Some(deadline) = entry.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        self.bytes -= entry.bytes;
        self.cost -= u64::from(entry.cost);
        entry
    }

    /// Takes a client out of the order, or from aside, so that its tag and its line may be changed.
    fn deactivate(&mut self, slot: u32) {
        let client = self.clients.get(slot);
        match (client.aside, client.line.first_arrival()) {
            (Some(until), _) => self.aside.remove(&(until, slot)),
            (None, Some(arrival)) => self.active.remove(&(client.tag, arrival, slot)),
            (None, None) => self.resting.remove(&(client.tag, slot)),
        };
    }

    /// Puts a client into its place in the order. One that was aside starts at the present virtual time.
    fn activate(&mut self, slot: u32) {
        let virtual_time = self.virtual_time;
        let client = self.clients.get_mut(slot);
        if client.aside.take().is_some() {
            client.tag = client.tag.max(virtual_time);
        }
        match client.line.first_arrival() {
            Some(arrival) => self.active.insert((client.tag, arrival, slot)),
            None => self.resting.insert((client.tag, slot)),
        };
    }

    /// Forgets clients that are as good as new: without tickets, and with a tag that virtual time has passed. When nobody
    /// waits there is nobody to be fair to, and all of them go.
    fn forget_rested(&mut self) {
        let all = self.tickets.len() == 0;
        while let Some(&(tag, slot)) = self.resting.first().filter(|(tag, _)| all || *tag <= self.virtual_time) {
            debug_assert!(all || tag <= self.virtual_time);
            self.forget(slot);
        }
        if all {
            self.virtual_time = 0;
        }
    }

    fn forget(&mut self, slot: u32) {
        let client = self.clients.take(slot);
        self.resting.remove(&(client.tag, slot));
        self.by_id.remove(&client.id);
    }
}

#[cfg(test)]
mod tests;
