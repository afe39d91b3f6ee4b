//! Who is next: fair by weight between clients, first come first served within one.
//!
//! Start-time fair queueing (Goyal, Vin, Cheng 1997): a client's first ticket carries a start tag, its next ones follow
//! `cost / weight` apart, and the smallest tag goes next; equal tags go by arrival. A client that was away starts at the
//! present virtual time, so nobody saves up turns by keeping quiet, and nobody is starved. Within a client the order is the
//! arrival of the exchange, so a retry that comes back takes its old place.
//!
//! It knows nothing of tokens and time but for deadlines, which it keeps in order; when a ticket may go is
//! [`crate::lane`]'s business.

mod line;
mod slots;

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::time::Instant;
use line::Line;
use slots::Slots;

/// Clients that are remembered at once; beyond that, newcomers share one.
pub const CLIENTS_MAX: usize = 10_000;
/// Clients that [`Queue::cost_ahead`] looks at one by one: every newcomer asks, under the lane's lock.
pub const LOOKED_AT_MAX: usize = 1_000;
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
}

/// Virtual time that a turn of cost 1 takes a client of weight 1: a multiple of all numbers to 16, so that usual weights
/// divide it exactly, and large, so that others round little.
const TURN: u128 = 720_720 << 20;

/// The tickets that wait for one upstream.
#[derive(Debug, Default)]
pub struct Queue {
    clients: Slots<Client>,
    by_id: BTreeMap<ClientId, u32>,
    /// Clients with tickets, by (tag, arrival of the first ticket, client).
    active: BTreeSet<(u128, u64, u32)>,
    /// Clients without tickets whose tag is still ahead of virtual time, by (tag, client).
    resting: BTreeSet<(u128, u32)>,
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

    /// The ticket that goes next.
    pub fn first(&self) -> Option<TicketId> {
        let &(_, _, slot) = self.active.first()?;
        self.clients.get(slot).line.first()
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

    /// The first tickets in the order in which they will go if nobody else comes.
    pub fn in_order(&self) -> impl Iterator<Item = TicketId> + '_ {
        // The clients' first tickets compete; the winner's client then competes with its next one.
        let mut heads = BinaryHeap::new();
        let mut unseen = self.active.iter();
        let mut next_unseen = unseen.next();
        std::iter::from_fn(move || {
            while let Some(&(tag, arrival, slot)) = next_unseen {
                let head = Head { tag, arrival, slot };
                if heads.peek().is_some_and(|best: &Head| *best > head) {
                    break;
                }
                heads.push(head);
                next_unseen = unseen.next();
            }
            let Head { tag, arrival, slot } = heads.pop()?;
            let client = self.clients.get(slot);
            let id = client.line.at(arrival)?;
            if let Some(next) = client.line.after(arrival) {
                let cost = self.tickets.find(id).map_or(1, |t| t.entry.cost);
                let tag = tag + TURN * u128::from(cost) / u128::from(client.weight);
                heads.push(Head { tag, arrival: next, slot });
            }
            Some(id)
        })
    }

    /// Tokens that would leave before a ticket entering now, by the fair order as it stands. Exact up to
    /// [`LOOKED_AT_MAX`] other clients; of more, the rest is taken to have as much ahead as the last one looked at, which
    /// is a turn off at most where weights are equal, since tags of clients that wait lie within one turn.
    pub fn cost_ahead(&self, id: ClientId, weight: u32, arrival: u64) -> u64 {
        let known = self.by_id.get(&id).map(|slot| self.clients.get(*slot));
        let (tag, own) = match known {
            Some(client) => (client.tag.max(self.virtual_time), client.line.cost_before(arrival)),
            None => (self.virtual_time, 0),
        };
        let weight = known.map_or(weight, |c| c.weight);
        let mine = tag + TURN * u128::from(own) / u128::from(weight);
        let others = self.active.iter().take_while(|(tag, first, _)| (*tag, *first) < (mine, arrival));
        let others = others.map(|&(tag, _, slot)| (tag, self.clients.get(slot))).filter(|(_, c)| c.id != id);
        let (mut ahead, mut last, mut looked_at) = (own, 0, 0);
        for (tag, client) in others {
            if looked_at == LOOKED_AT_MAX {
                let rest = (self.active.len() - LOOKED_AT_MAX) as u64;
                return ahead.saturating_add(last * rest).min(self.cost);
            }
            last = client.line.cost_until(mine - tag, client.weight);
            ahead += last;
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
        if self.clients.len() >= CLIENTS_MAX && id != ClientId::OTHER {
            match self.resting.first().copied() {
                Some((_, idle)) => self.forget(idle),
                None => return self.client(ClientId::OTHER, 1),
            }
        }
        let client = Client { id, weight, tag: self.virtual_time, line: Line::default() };
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

    /// Takes a client out of the order, so that its tag and its line may be changed.
    fn deactivate(&mut self, slot: u32) {
        let client = self.clients.get(slot);
        match client.line.first_arrival() {
            Some(arrival) => self.active.remove(&(client.tag, arrival, slot)),
            None => self.resting.remove(&(client.tag, slot)),
        };
    }

    fn activate(&mut self, slot: u32) {
        let client = self.clients.get(slot);
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

/// A ticket that competes in [`Queue::in_order`]; the greatest goes first, so the order is turned around.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    tag: u128,
    arrival: u64,
    slot: u32,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.tag, other.arrival, other.slot).cmp(&(self.tag, self.arrival, self.slot))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests;
