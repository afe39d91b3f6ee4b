//! Who will go after whom, as things stand: the clients' first tickets compete, and the winner's client then competes with its
//! next one.
//!
//! It walks over the queue without changing it. A client can be passed over on the way and put back later, as
//! [`Queue::set_aside`] does in earnest; when that is so, is the caller's business.

use std::collections::{BinaryHeap, btree_set};

use super::{Entry, Queue, TURN, TicketId};

/// The order in which tickets will go if nobody else comes.
#[derive(Debug)]
pub(crate) struct Order<'a> {
    queue: &'a Queue,
    heads: BinaryHeap<Head>,
    unseen: btree_set::Iter<'a, (u128, u64, u32)>,
    next_unseen: Option<Head>,
    virtual_time: u128,
}

/// A ticket that competes. The greatest goes first, so the order is turned around.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(super) tag: u128,
    pub(super) arrival: u64,
    pub(super) slot: u32,
}

impl<'a> Order<'a> {
    pub(super) fn new(queue: &'a Queue) -> Self {
        let mut unseen = queue.active.iter();
        let next_unseen = unseen.next().map(Head::from);
        Self { queue, heads: BinaryHeap::new(), unseen, next_unseen, virtual_time: queue.virtual_time }
    }

    /// Who goes next.
    pub(crate) fn peek(&mut self) -> Option<Head> {
        while let Some(head) = self.next_unseen {
            if self.heads.peek().is_some_and(|best| *best > head) {
                break;
            }
            self.heads.push(head);
            self.next_unseen = self.unseen.next().map(Head::from);
        }
        self.heads.peek().copied()
    }

    /// Who goes next goes; its client's next ticket competes.
    pub(crate) fn take(&mut self) -> Option<TicketId> {
        let Head { tag, arrival, slot } = self.pass()?;
        let client = self.queue.clients.get(slot);
        let id = client.line.at(arrival)?;
        self.virtual_time = self.virtual_time.max(tag);
        if let Some(next) = client.line.after(arrival) {
            let cost = self.queue.entry(id).map_or(1, |entry| entry.cost);
            let tag = tag + TURN * u128::from(cost) / u128::from(client.weight);
            self.heads.push(Head { tag, arrival: next, slot });
        }
        Some(id)
    }

    /// Takes the next one out of the order, and its client with it.
    pub(crate) fn pass(&mut self) -> Option<Head> {
        self.peek()?;
        self.heads.pop()
    }

    /// Puts one back who was passed over, at the present virtual time.
    pub(crate) fn put_back(&mut self, head: Head) {
        self.heads.push(Head { tag: head.tag.max(self.virtual_time), ..head });
    }

    /// What a head's ticket entered with, and the number of its client's own limits.
    pub(crate) fn entry(&self, head: Head) -> Option<(&'a Entry, Option<u32>)> {
        let client = self.queue.clients.get(head.slot);
        Some((self.queue.entry(client.line.at(head.arrival)?)?, client.own))
    }
}

impl From<&(u128, u64, u32)> for Head {
    fn from(&(tag, arrival, slot): &(u128, u64, u32)) -> Self {
        Self { tag, arrival, slot }
    }
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
