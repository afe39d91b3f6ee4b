//! The tickets of one client, in the order in which their exchanges arrived.

use std::collections::BTreeMap;

use super::{TURN, TicketId};

#[derive(Debug, Default)]
pub(super) struct Line {
    tickets: BTreeMap<u64, (TicketId, u32)>,
    cost: u64,
}

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.tickets.len()
    }

    /// What all of them cost.
    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    pub(super) fn insert(&mut self, arrival: u64, id: TicketId, cost: u32) {
        let before = self.tickets.insert(arrival, (id, cost));
        assert!(before.is_none(), "an exchange waits once at a time, and no two have the same arrival");
        self.cost += u64::from(cost);
    }

    pub(super) fn remove(&mut self, arrival: u64, id: TicketId, cost: u32) {
        let ticket = self.tickets.remove(&arrival);
        debug_assert_eq!(ticket, Some((id, cost)));
        self.cost -= u64::from(cost);
    }

    pub(super) fn first(&self) -> Option<TicketId> {
        self.tickets.first_key_value().map(|(_, (id, _))| *id)
    }

    pub(super) fn first_arrival(&self) -> Option<u64> {
        self.tickets.first_key_value().map(|(arrival, _)| *arrival)
    }

    pub(super) fn at(&self, arrival: u64) -> Option<TicketId> {
        self.tickets.get(&arrival).map(|(id, _)| *id)
    }

    /// The arrival that comes after this one.
    pub(super) fn after(&self, arrival: u64) -> Option<u64> {
        self.tickets.range(arrival + 1..).next().map(|(next, _)| *next)
    }

    /// What the tickets cost that arrived before.
    pub(super) fn cost_before(&self, arrival: u64) -> u64 {
        match self.tickets.last_key_value() {
            Some((last, _)) if *last >= arrival => self.tickets.range(..arrival).map(|(_, (_, c))| u64::from(*c)).sum(),
            _ => self.cost,
        }
    }

    /// What those tickets cost whose start tags are at most `span` after the first one's, taking them as equally dear.
    pub(super) fn cost_until(&self, span: u128, weight: u32) -> u64 {
        let Some(mean) = self.cost.checked_div(self.tickets.len() as u64) else { return 0 };
        let step = (TURN * u128::from(mean) / u128::from(weight)).max(1);
        let tickets = (span / step + 1).min(self.tickets.len() as u128) as u64;
        (tickets * mean).min(self.cost)
    }
}
