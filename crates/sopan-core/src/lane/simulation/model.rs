//! Who goes next, slowly and obviously: the model that histories are held against.

use super::*;

const TURN: u128 = 10;

/// Who is next, by looking at everybody every time.
#[derive(Default)]
pub(super) struct Model {
    pub(super) waiting: BTreeMap<TicketId, Entry>,
    /// The virtual start of each client's next turn, in units that every weight here divides.
    tags: BTreeMap<ClientId, u128>,
    virtual_time: u128,
    /// Of the clients that have limits of their own.
    pub(super) own: BTreeMap<ClientId, Bucket>,
    /// Those whose turn it would be, but for these, and until when.
    passed: BTreeMap<ClientId, Instant>,
}

impl Model {
    pub(super) fn with_own(clients: &[ClientLimits]) -> Self {
        let bucket = |client: &ClientLimits| (client.client, Bucket::new(&client.limits, 0, Margin::NONE));
        Self { own: clients.iter().map(bucket).collect(), ..Self::default() }
    }

    pub(super) fn enter(&mut self, id: TicketId, entry: Entry) {
        self.come_back(entry.client);
        if !self.waiting.values().any(|e| e.client == entry.client) {
            let tag = self.tags.entry(entry.client).or_default();
            *tag = (*tag).max(self.virtual_time);
        }
        assert!(self.waiting.insert(id, entry).is_none());
    }

    pub(super) fn next(&mut self, now: Instant) -> Option<TicketId> {
        let back = self.passed.iter().filter(|(_, until)| **until <= now).map(|(client, _)| *client);
        back.collect::<Vec<_>>().into_iter().for_each(|client| self.come_back(client));
        loop {
            let mut firsts = BTreeMap::<ClientId, (u64, TicketId)>::new();
            for (id, entry) in self.waiting.iter().filter(|(_, e)| !self.passed.contains_key(&e.client)) {
                let first = firsts.entry(entry.client).or_insert((entry.arrival, *id));
                *first = (*first).min((entry.arrival, *id));
            }
            let (_, (_, id)) = firsts.iter().min_by_key(|(client, (arrival, _))| (self.tags[client], *arrival))?;
            let entry = &self.waiting[id];
            let until = match self.own.get(&entry.client).map(|own| own.look(entry.cost, now)) {
                None | Some(Take::Taken { .. }) => return Some(*id),
                Some(Take::At(until)) => until,
                Some(Take::Reserved(_)) => Instant::NEVER,
            };
            self.passed.insert(entry.client, until);
        }
    }

    /// A client that was passed over starts at the present virtual time.
    fn come_back(&mut self, client: ClientId) {
        if self.passed.remove(&client).is_some()
            && let Some(tag) = self.tags.get_mut(&client)
        {
            *tag = self.virtual_time.max(*tag);
        }
    }

    /// Does something to the client's own limits, if it has some.
    pub(super) fn change_own(&mut self, client: ClientId, act: impl FnOnce(&mut Bucket)) {
        if let Some(own) = self.own.get_mut(&client) {
            act(own);
            self.come_back(client);
        }
    }

    pub(super) fn grant(&mut self, id: TicketId, now: Instant) -> Entry {
        assert_eq!(self.next(now), Some(id), "who goes is whom the model names");
        let entry = self.take(id);
        if let Some(tag) = self.tags.get_mut(&entry.client) {
            self.virtual_time = self.virtual_time.max(*tag);
            *tag += TURN * u128::from(entry.cost) / u128::from(entry.weight);
        }
        self.forget_when_empty();
        entry
    }

    pub(super) fn refund(&mut self, client: ClientId, cost: u32, weight: u32) {
        if let Some(tag) = self.tags.get_mut(&client) {
            *tag = tag.saturating_sub(TURN * u128::from(cost) / u128::from(weight));
        }
    }

    pub(super) fn leave(&mut self, id: TicketId) -> Entry {
        let entry = self.take(id);
        self.come_back(entry.client);
        self.forget_when_empty();
        entry
    }

    fn take(&mut self, id: TicketId) -> Entry {
        self.waiting.remove(&id).expect("it waits")
    }

    fn forget_when_empty(&mut self) {
        if self.waiting.is_empty() {
            self.tags.clear();
            self.passed.clear();
            self.virtual_time = 0;
        }
    }
}
