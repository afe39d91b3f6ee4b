//! Who will go next, and when, as things stand: the queue's order with the lane's limits and those of its clients.
//!
//! Where no client has limits of its own this is the fair order, each ticket when the limits let it go behind those before it.
//! A client that its own limits keep back is passed over until they do not, and comes back as it would in earnest. It is an
//! estimate: a lane that has to wait for such a client refills meanwhile, and no prediction counts that.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::Peekable;

use super::{Cause, Lane};
use crate::queue::{Head, Order, TicketId};
use crate::time::Instant;

/// Clients that are passed over on one walk, which is made under the lane's lock; it ends there.
const PASSED_MAX: usize = 256;

/// A turn to come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coming {
    pub(super) id: TicketId,
    pub(super) due: Instant,
    pub(super) cause: Cause,
    /// Whether it comes by itself, where the lane's limits are shared; else an answer of the ledger brings it.
    pub(super) is_certain: bool,
}

/// A walk over the turns to come.
pub(super) struct Upcoming<'a, A: Iterator<Item = (Instant, Head)>> {
    lane: &'a Lane,
    now: Instant,
    order: Order<'a>,
    /// Who is set aside, and who was passed over on this walk, by when they come back.
    aside: Peekable<A>,
    passed: BinaryHeap<Reverse<(Instant, Head)>>,
    passes: usize,
    /// Tokens of those before: of all, and of each client with limits of its own by their number.
    ahead: u64,
    own: Vec<(u32, u64)>,
    /// The walk has come to this instant by waiting for clients to come back.
    at: Instant,
}

impl Lane {
    pub(super) fn upcoming(&self, now: Instant) -> Upcoming<'_, impl Iterator<Item = (Instant, Head)> + '_> {
        Upcoming {
            lane: self,
            now,
            order: self.queue.order(),
            // When a turn that holds what they need will be written, nobody knows; the lane is stepped then.
            aside: self.queue.aside().take_while(|(until, _)| *until < Instant::NEVER).peekable(),
            passed: BinaryHeap::new(),
            passes: 0,
            ahead: 0,
            own: Vec::new(),
            at: Instant::ORIGIN,
        }
    }
}

impl<A: Iterator<Item = (Instant, Head)>> Iterator for Upcoming<'_, A> {
    type Item = Coming;

    fn next(&mut self) -> Option<Coming> {
        loop {
            let Some(head) = self.order.peek() else {
                self.come_back(Instant::NEVER)?;
                continue;
            };
            let (entry, own) = self.order.entry(head)?;
            let (due, cause) = self.lane.predict_after(self.ahead, entry.cost, self.now);
            let (due, cause) = if due < self.at { (self.at, Cause::Own) } else { (due, cause) };
            if self.come_back(due).is_some() {
                continue;
            }
            if let Some(number) = own {
                let until = self.lane.own.bucket(number).predict(self.own_ahead(number), entry.cost, self.now);
                if until > due {
                    self.pass(until)?;
                    continue;
                }
                self.count_own(number, entry.cost);
            }
            let is_certain = cause != Cause::Limits || self.lane.tokens.is_certain(self.ahead, entry.cost, self.now);
            self.ahead += u64::from(entry.cost);
            return Some(Coming { id: self.order.take()?, due, cause, is_certain });
        }
    }
}

impl<A: Iterator<Item = (Instant, Head)>> Upcoming<'_, A> {
    /// Puts the next one back into the order who comes back by then, if anybody does: until then nobody else goes.
    fn come_back(&mut self, by: Instant) -> Option<()> {
        let passed = self.passed.peek().map(|Reverse((until, _))| *until);
        let aside = self.aside.peek().map(|(until, _)| *until);
        let until = passed.into_iter().chain(aside).min().filter(|until| *until <= by)?;
        let (_, head) = if passed == Some(until) { self.passed.pop()?.0 } else { self.aside.next()? };
        self.at = self.at.max(until);
        self.order.put_back(head);
        Some(())
    }

    /// Passes the next one over until then; nothing if that was done too often.
    fn pass(&mut self, until: Instant) -> Option<()> {
        self.passes += 1;
        let head = self.order.pass().filter(|_| self.passes <= PASSED_MAX)?;
        self.passed.push(Reverse((until, head)));
        Some(())
    }

    fn own_ahead(&self, number: u32) -> u64 {
        self.own.iter().find(|(other, _)| *other == number).map_or(0, |(_, ahead)| *ahead)
    }

    fn count_own(&mut self, number: u32, cost: u32) {
        match self.own.iter_mut().find(|(other, _)| *other == number) {
            Some((_, ahead)) => *ahead += u64::from(cost),
            None => self.own.push((number, cost.into())),
        }
    }
}
