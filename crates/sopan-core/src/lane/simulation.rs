//! Random histories of a lane, played against a slow and obvious model.
//!
//! Clients come, wait, leave, write late or never, are answered well or badly, and holds come at any moment. After every
//! event: who goes is whom the model names, nobody goes while held, beyond the places or past a deadline, every ticket is
//! answered exactly once, every bound is kept, and nobody who could go is left waiting. At the end: no span of what was
//! written exceeds a limit of the lane or of a client, everybody who stayed was answered, and the lane is as good as new.

mod crowd;
mod model;

use std::collections::BTreeMap;

use super::*;
use crate::policy::{BreakerPolicy, ClientLimits, Limit, Margin};
use crate::queue::ClientId;
use model::Model;

/// splitmix64: the histories are the same on every machine and in every year.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { Some(&from[self.roll(from.len() as u64) as usize]) }
    }
}

struct Simulation {
    dice: Dice,
    lane: Lane,
    model: Model,
    now: u64,
    arrivals: u64,
    /// Tickets that were told to prepare and have no connection yet, and those that have one.
    called: Vec<TicketId>,
    ready: Vec<TicketId>,
    reserved: Vec<(Turn, Entry)>,
    written: Vec<Turn>,
    answered: Vec<Turn>,
    /// What left, when, and whose it was.
    sent: Vec<(u64, u32, ClientId)>,
    hold: u64,
    places: Option<u32>,
    entered: usize,
    gone: usize,
    refused: usize,
    left: usize,
}

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

const MS: u64 = 1_000_000;
const WEIGHTS: [u32; 3] = [1, 2, 5];
const LIMITS: [&[&str]; 7] = [
    &["100/s"],
    &["50/s burst 10"],
    &["20 per 1s"],
    &["200/s burst 5", "60 per 1s"],
    &["30/s burst 3", "1000/min burst 40", "500 per 1min"],
    &["300 per 1s"],
    &[],
];

/// What clients keep to themselves where they do.
const OWN: [&[&str]; 4] = [&["20/s burst 2"], &["5 per 1s"], &["10/s", "60 per 1min"], &["200/s"]];

fn parse(limits: &[&str]) -> Vec<Limit> {
    limits.iter().map(|l| l.parse().unwrap()).collect()
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let limits = parse(LIMITS[seed as usize % LIMITS.len()]);
        // Of the six clients none, one, … have limits of their own.
        let limited = (seed % 12).saturating_sub(5);
        let own = |client| ClientLimits {
            client: ClientId(client),
            name: String::new(),
            limits: parse(OWN[dice_of(seed, client)]),
        };
        let clients: Vec<_> = (0..limited.into()).map(own).collect();
        let places = dice.one_in(2).then(|| 1 + dice.roll(20) as u32);
        let model = Model::with_own(&clients);
        let policy = LanePolicy {
            limits,
            clients,
            waiting_max: 50,
            queue_bytes_max: 5_000,
            max_in_flight: places,
            ..Default::default()
        };
        let breaker = BreakerPolicy {
            failures: 5,
            min_span: Duration::ZERO,
            open_for: Duration::from_millis(300),
            ..Default::default()
        };
        Self {
            dice,
            lane: Lane::new(policy, Breaker::new(breaker), Budget::new(true)),
            model,
            now: 0,
            arrivals: 0,
            called: Vec::new(),
            ready: Vec::new(),
            reserved: Vec::new(),
            written: Vec::new(),
            answered: Vec::new(),
            sent: Vec::new(),
            hold: 0,
            places,
            entered: 0,
            gone: 0,
            refused: 0,
            left: 0,
        }
    }

    fn event(&mut self) {
        match self.dice.roll(16) {
            0..=4 => self.come(),
            5 => self.leave(),
            6..=8 => self.connect(),
            9..=11 => self.write(),
            12 | 13 => self.answer(),
            14 => self.finish(),
            _ => {
                let wait = self.dice.roll(40 * MS);
                self.pass(self.now + wait);
            }
        }
        self.step();
        self.check_next();
        self.check_places();
    }

    fn come(&mut self) {
        self.arrivals += 1;
        let client = self.dice.roll(6);
        let weight = WEIGHTS[client as usize % WEIGHTS.len()];
        let wait = (1 + self.dice.roll(30)) * 20 * MS;
        let entry = Entry {
            client: ClientId(client.into()),
            weight,
            arrival: self.arrivals,
            cost: 1 + u32::from(self.dice.one_in(10)),
            bytes: 100,
            since: at(self.now),
            deadline: (!self.dice.one_in(3)).then(|| at(self.now + wait)),
        };
        self.enter(entry, Visit::First);
    }

    fn enter(&mut self, entry: Entry, visit: Visit) {
        match self.lane.enter(entry, visit, at(self.now)) {
            Enter::Go(turn) => {
                self.entered += usize::from(visit == Visit::First);
                assert_eq!(self.model.next(at(self.now)), None, "nobody is overtaken");
                assert!(self.model.waiting.values().all(|e| e.client != entry.client), "nor by his own client's");
                self.goes(turn, entry);
            }
            Enter::Wait(id) => {
                self.entered += usize::from(visit == Visit::First);
                self.model.enter(id, entry);
            }
            Enter::Refused(refusal) => {
                self.check_refusal(&entry, visit, refusal);
                self.left += usize::from(visit == Visit::Again);
            }
        }
        let retries = self.gone; // retries are never refused for the number of those who wait
        assert!(
            self.model.waiting.len() <= 50 + retries
                && self.lane.snapshot(at(self.now)).waiting == self.model.waiting.len()
        );
    }

    fn check_refusal(&mut self, entry: &Entry, visit: Visit, refusal: Refusal) {
        match refusal {
            Refusal::QueueFull { waiting, retry_after } => {
                assert!(visit == Visit::First && waiting >= 50 && retry_after >= 1);
            }
            Refusal::BytesFull { bytes, retry_after } => {
                assert!(visit == Visit::First && bytes + entry.bytes > 5_000 && retry_after >= 1);
            }
            Refusal::WaitTooLong { predicted, allowed, retry_after, .. } => {
                assert!(predicted > allowed && retry_after >= 1);
                assert_eq!(entry.deadline, Some(at(self.now).after(allowed)));
            }
            Refusal::CutOff { .. } => panic!("its limits are its own"),
            Refusal::BreakerOpen { .. } => assert!(!matches!(self.lane.snapshot(at(self.now)).breaker, State::Closed)),
            Refusal::WaitedTooLong { .. } => {
                assert!(visit == Visit::Again && entry.deadline.is_some_and(|deadline| deadline <= at(self.now)));
            }
        }
    }

    fn goes(&mut self, turn: Turn, entry: Entry) {
        assert!(self.now >= self.hold, "nobody goes while held");
        assert!(
            entry.deadline.is_none_or(|deadline| at(self.now) <= deadline.after(DEADLINE_GRACE)),
            "nobody goes too late"
        );
        if let Some(own) = self.model.own.get_mut(&entry.client) {
            let taken = own.take(entry.cost, at(self.now));
            assert!(matches!(taken, Take::Taken { .. }), "its own limits let it");
        }
        self.reserved.push((turn, entry));
    }

    /// Who is next and ready waits for the lane, and for nothing else.
    fn check_next(&mut self) {
        if self.ready.is_empty() {
            return;
        }
        let Some(id) = self.model.next(at(self.now)).filter(|id| self.ready.contains(id)) else { return };
        let cost = self.model.waiting[&id].cost;
        let (lane, now) = (&mut self.lane, at(self.now));
        let has_tokens = lane.tokens.own().is_some_and(|bucket| matches!(bucket.look(cost, now), Take::Taken { .. }));
        let has_room = lane.places.has_room() && lane.restart.as_ref().is_none_or(Restart::has_room);
        let is_well = !matches!(lane.breaker.state(now), State::Open { .. } | State::HalfOpen { free: 0 });
        assert!(!has_tokens || !has_room || !is_well || lane.hold.is_some(), "who could go has gone");
    }

    fn check_places(&mut self) {
        let under_way = self.reserved.len() + self.written.len() + self.answered.len();
        assert!(self.places.is_none_or(|places| under_way <= places as usize), "places are kept");
        assert_eq!(self.lane.snapshot(at(self.now)).in_flight as usize, under_way);
    }

    fn leave(&mut self) {
        let waiting: Vec<_> = self.model.waiting.keys().copied().collect();
        if let Some(id) = self.dice.pick(&waiting).copied() {
            self.leave_as(id);
        }
    }

    fn leave_as(&mut self, id: TicketId) {
        self.lane.leave(id);
        self.model.leave(id);
        self.forget(id);
        self.left += 1;
    }

    fn forget(&mut self, id: TicketId) {
        self.called.retain(|other| *other != id);
        self.ready.retain(|other| *other != id);
    }

    fn connect(&mut self) {
        if let Some(id) = self.dice.pick(&self.called).copied() {
            if self.dice.one_in(15) {
                self.leave_as(id);
                return self.lane.unconnected(None, at(self.now));
            }
            self.forget(id);
            self.lane.ready(id, true);
            self.ready.push(id);
        }
        if self.dice.one_in(8)
            && let Some(id) = self.dice.pick(&self.ready).copied()
        {
            // The connection that it held ahead was closed; it is told when it needs another.
            self.forget(id);
            self.lane.ready(id, false);
        }
    }

    fn write(&mut self) {
        if self.reserved.is_empty() {
            return;
        }
        let index = self.dice.roll(self.reserved.len() as u64) as usize;
        let (turn, entry) = self.reserved.swap_remove(index);
        if turn.holds() != self.lane.holds() {
            // A hold overtook it: it must not be written, and asks again.
            self.give_back(turn, entry);
            return self.enter(entry, Visit::Again);
        }
        if self.dice.one_in(12) {
            self.left += 1;
            return self.give_back(turn, entry);
        }
        if self.dice.one_in(20) {
            self.left += 1;
            self.refund(&turn, entry);
            return self.lane.unconnected(Some(turn), at(self.now));
        }
        self.write_out(turn, entry);
    }

    fn write_out(&mut self, mut turn: Turn, entry: Entry) {
        let (now, due) = (at(self.now), turn.due);
        self.lane.written(&mut turn, now);
        self.model.change_own(entry.client, |own| own.charge(entry.cost, due, now));
        self.sent.push((self.now, entry.cost, entry.client));
        self.written.push(turn);
        self.gone += 1;
    }

    fn give_back(&mut self, turn: Turn, entry: Entry) {
        self.refund(&turn, entry);
        self.lane.finish(turn, at(self.now));
    }

    fn refund(&mut self, turn: &Turn, entry: Entry) {
        if turn.has_waited() {
            self.model.refund(entry.client, entry.cost, entry.weight);
        }
        self.model.change_own(entry.client, |own| own.give_back(entry.cost));
    }

    fn answer(&mut self) {
        if self.written.is_empty() {
            return;
        }
        let index = self.dice.roll(self.written.len() as u64) as usize;
        let mut turn = self.written.swap_remove(index);
        let health = match self.dice.roll(12) {
            0 => Health::Failure,
            1 => Health::Neither,
            _ => Health::Success,
        };
        let hold = self.dice.one_in(25).then(|| self.dice.roll(400 * MS));
        self.lane.settle(&mut turn, health, hold.map(Duration::from_nanos), at(self.now));
        self.hold = self.hold.max(self.now + hold.unwrap_or(0));
        if let Some(wait) = hold
            && self.dice.one_in(2)
        {
            // The answer's body is slow, and the hold counts from its end.
            self.now += self.dice.roll(5 * MS);
            if self.lane.held_until().is_some() {
                self.hold = self.hold.max(self.now + wait);
            }
            self.lane.prolong_hold(Duration::from_nanos(wait), at(self.now));
        }
        if self.dice.one_in(15) {
            self.lane.cut(&turn, at(self.now));
        }
        self.answered.push(turn);
    }

    fn finish(&mut self) {
        for turns in [&mut self.answered, &mut self.written] {
            if !turns.is_empty() {
                let index = self.dice.roll(turns.len() as u64) as usize;
                self.lane.finish(turns.swap_remove(index), at(self.now));
            }
        }
    }

    /// Lets time pass, looking at the lane whenever it asked to be looked at, sometimes late.
    fn pass(&mut self, until: u64) {
        let mut looks = 0;
        while let Some(next) = self.step().map(Instant::as_nanos).filter(|next| *next <= until) {
            assert!(next > self.now, "the lane asks to be looked at later, not now");
            looks += 1;
            assert!(looks < 400, "the lane does not ask to be looked at for nothing, over and over");
            self.now = if self.dice.one_in(4) { (next + self.dice.roll(3 * MS)).min(until) } else { next };
        }
        self.now = until;
    }

    fn step(&mut self) -> Option<Instant> {
        loop {
            let mut calls = Vec::new();
            let next = self.lane.step(at(self.now), &mut calls);
            if calls.is_empty() {
                return next.earliest();
            }
            for call in calls {
                match call {
                    Call::Prepare(id) => {
                        assert!(self.model.waiting.contains_key(&id) && !self.called.contains(&id));
                        let is_closed = self.lane.snapshot(at(self.now)).breaker == State::Closed;
                        let next = self.model.next(at(self.now));
                        let is_next = next.is_none_or(|next| next == id);
                        assert!(is_closed || is_next, "an ill upstream is not connected to");
                        self.called.push(id);
                    }
                    Call::Go(id, turn) => {
                        assert!(self.ready.contains(&id), "only who is ready goes");
                        let entry = self.model.grant(id, at(self.now));
                        self.forget(id);
                        self.goes(turn, entry);
                    }
                    Call::Refuse(id, _) => {
                        let entry = self.model.leave(id);
                        self.forget(id);
                        self.refused += 1;
                        assert!(entry.deadline.is_some(), "who may wait for ever is not refused");
                    }
                }
            }
        }
    }

    /// Everybody is served until nobody is left.
    fn drain(&mut self) {
        for _ in 0..10_000 {
            self.called.clone().iter().for_each(|id| {
                self.lane.ready(*id, true);
                self.forget(*id);
                self.ready.push(*id);
            });
            let next = self.step();
            while let Some((turn, entry)) = self.reserved.pop() {
                if turn.holds() != self.lane.holds() {
                    self.give_back(turn, entry);
                    self.enter(entry, Visit::Again);
                    continue;
                }
                self.write_out(turn, entry);
            }
            for mut turn in std::mem::take(&mut self.written) {
                self.lane.settle(&mut turn, Health::Success, None, at(self.now));
                self.answered.push(turn);
            }
            for turn in std::mem::take(&mut self.answered) {
                self.lane.finish(turn, at(self.now));
            }
            if self.model.waiting.is_empty() {
                break;
            }
            self.now = next.map_or(self.now + 1, |next| next.as_nanos().max(self.now + 1));
        }
        assert!(self.model.waiting.is_empty(), "nobody starves");
        let snapshot = self.lane.snapshot(at(self.now));
        assert_eq!((snapshot.waiting, snapshot.waiting_bytes, snapshot.in_flight), (0, 0, 0));
        assert_eq!(self.entered, self.gone + self.refused + self.left, "every ticket is answered once");
    }

    fn check_limits(&self) {
        check_spans(&self.sent, &self.lane.policy.limits);
        for ClientLimits { client, limits, .. } in &self.lane.policy.clients {
            let sent: Vec<_> = self.sent.iter().filter(|(_, _, of)| of == client).copied().collect();
            check_spans(&sent, limits);
        }
    }
}

fn check_spans(sent: &[(u64, u32, ClientId)], limits: &[Limit]) {
    for (i, (first, ..)) in sent.iter().enumerate() {
        let (mut tokens, mut dearest) = (0u128, 0);
        for (last, cost, _) in &sent[i..] {
            tokens += u128::from(*cost);
            dearest = dearest.max(*cost);
            for limit in limits {
                assert!(keeps(limit, tokens, dearest, last - first), "{limit}: {tokens} in {} ns", last - first);
            }
        }
    }
}

/// Which limits of its own a client has in a history.
fn dice_of(seed: u64, client: u128) -> usize {
    Dice(seed ^ client as u64).roll(OWN.len() as u64) as usize
}

fn keeps(limit: &Limit, tokens: u128, dearest: u32, span: u64) -> bool {
    match limit {
        Limit::Quota(quota) => tokens <= quota.count().into() || u128::from(span) >= quota.span().as_nanos(),
        Limit::Calendar(_) => true, // judged by its own simulation
        Limit::Rate(rate) => {
            let (n, p) = rate.fraction();
            let late = crate::bucket::LATE_MAX.as_nanos() + 1;
            // A cost above the bucket leaves when it is full, so it counts as the burst.
            tokens * p <= u128::from(rate.burst().max(dearest)) * p + (u128::from(span) + late) * u128::from(n)
        }
    }
}

#[test]
fn random_histories_keep_every_promise() {
    let (mut gone, mut refused) = (0, 0);
    for seed in 0..336 {
        let outcome = std::panic::catch_unwind(|| {
            let mut simulation = Simulation::new(seed);
            for _ in 0..700 {
                simulation.event();
            }
            simulation.drain();
            simulation.check_limits();
            (simulation.gone, simulation.refused)
        });
        let (sent, turned_away) = outcome.unwrap_or_else(|_| panic!("with seed {seed}"));
        gone += sent;
        refused += turned_away;
    }
    assert!(gone > 15_000 && refused > 1_000, "the histories are rich enough: {gone} sent, {refused} refused");
}
