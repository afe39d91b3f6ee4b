//! Many instances, one ledger, and the way between them, all in one clock: lanes as in earnest, the ledger as the scripts have it.
//!
//! Every instance has a clock of its own, which began at another time and runs a little fast or slow; so has the server. What
//! is sent takes a while, each time another, and is lost where there is no way. Instances can be stopped for a while, killed
//! and drained, the server can be away and forget everything.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use sopan_core::breaker::{Breaker, Health};
use sopan_core::lane::{Call, Enter, Lane, Turn, Visit};
use sopan_core::policy::{BreakerPolicy, LanePolicy, Limit};
use sopan_core::queue::{ClientId, Entry, TicketId};
use sopan_core::retry::Budget;
use sopan_core::share::{
    Ask, Contact, GRACE, HoldNews, Leased, Ledger, Members, Mode, OnStoreFailure, Register, Stamp, TIMEOUT, TellHold,
};
use sopan_core::time::Instant;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000 * MS;
/// The server's clock at the beginning, in microseconds.
const EPOCH: u64 = 1_780_000_000_000_000;

/// splitmix64: a run is the same on every machine and in every year.
#[derive(Debug, Clone)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn unit(&mut self) -> f64 {
        self.roll(1 << 53) as f64 / (1u64 << 53) as f64
    }
}

/// Who asks an instance for what.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Load {
    /// So many clients that ask anew as soon as they have been served.
    Greedy(u32),
    /// So many clients that ask anew so long after they have been served, in nanoseconds.
    Slow(u32, u64),
    /// So many requests a second, each when it likes.
    Rate(f64),
}

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) limits: Vec<Limit>,
    pub(crate) loads: Vec<Load>,
    /// The least and the most time that a message takes, in nanoseconds.
    pub(crate) way: (u64, u64),
    /// One in so many messages is lost; none if zero.
    pub(crate) lost: u64,
    /// The most time from a turn to its writing.
    pub(crate) writing: u64,
    pub(crate) policy: OnStoreFailure,
    pub(crate) seed: u64,
}

impl Settings {
    pub(crate) fn new(limits: &[&str], loads: Vec<Load>) -> Self {
        let limits = limits.iter().map(|limit| limit.parse().expect("limits of tests can be read")).collect();
        let way = (50_000, 150_000);
        Self { limits, loads, way, lost: 0, writing: 200_000, policy: OnStoreFailure::Share, seed: 1 }
    }
}

/// What happens at an instant of the one clock.
#[derive(Debug)]
enum Event {
    /// An instance looks at its lane; the number tells whether that is still wanted.
    Wake(usize, u64),
    Arrives(usize, u64),
    Again(usize, u64),
    Write(usize, Box<Turn>, u64),
    Ask(usize, Box<Ask>),
    Answer(usize, Box<Leased>),
    AskTimeout(usize, u64),
    Beat(usize, u64, Instant, u32),
    BeatAnswer(usize, u64, Instant, Members),
    BeatTimeout(usize, u64),
    Tell(usize, Box<TellHold>),
    Hear(usize, HoldNews),
    Resume(usize),
}

struct Timed(u64, u64, Event);

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Timed {}
impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Timed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

pub(crate) struct Node {
    name: String,
    pub(crate) lane: Lane,
    pub(crate) contact: Contact,
    load: Load,
    load_number: u64,
    offset: u64,
    /// Millionths by which its clock is fast.
    drift: u64,
    pub(crate) is_cut_off: bool,
    is_dead: bool,
    stopped_until: u64,
    later: Vec<Event>,
    wake: u64,
    wake_at: u64,
    asked: Option<u64>,
    beat: u64,
    beat_under_way: Option<u64>,
    arrivals: u64,
    /// What left, and the sum of the waits of those who left.
    pub(crate) sent: u64,
    pub(crate) waited: u64,
    since: std::collections::BTreeMap<TicketId, u64>,
}

pub(crate) struct World {
    settings: Settings,
    dice: Dice,
    pub(crate) now: u64,
    events: BinaryHeap<Reverse<Timed>>,
    number: u64,
    ledger: Ledger,
    register: Register,
    /// What its clock shows beside what it would.
    pub(crate) server_ahead: i64,
    pub(crate) is_down: bool,
    pub(crate) nodes: Vec<Node>,
    /// What left, when, and from which instance.
    pub(crate) sent: Vec<(u64, usize)>,
    pub(crate) asks: u64,
    pub(crate) beats: u64,
    /// Turns that lapsed before they were written.
    pub(crate) lapsed: u64,
    /// Of messages that are on their way.
    pub(crate) way: (u64, u64),
}

impl World {
    pub(crate) fn new(settings: Settings) -> Self {
        let mut world = Self {
            dice: Dice(settings.seed),
            now: 0,
            events: BinaryHeap::new(),
            number: 0,
            ledger: Ledger::default(),
            register: Register::default(),
            server_ahead: 0,
            is_down: false,
            nodes: Vec::new(),
            sent: Vec::new(),
            asks: 0,
            beats: 0,
            lapsed: 0,
            way: settings.way,
            settings,
        };
        for at in 0..world.settings.loads.len() {
            world.join(world.settings.loads[at]);
        }
        world
    }

    /// Another instance comes.
    pub(crate) fn join(&mut self, load: Load) -> usize {
        let (at, offset, drift) = (self.nodes.len(), self.dice.roll(1_000 * SECOND), self.dice.roll(100));
        let policy = LanePolicy { limits: self.settings.limits.clone(), ..LanePolicy::default() };
        let lane = Lane::new(policy, Breaker::new(BreakerPolicy::default()), Budget::new(true));
        let mut node = Node {
            name: format!("{:016x}", self.dice.roll(u64::MAX)),
            lane,
            contact: Contact::new(self.settings.policy, GRACE, None, Instant::ORIGIN),
            load,
            load_number: 0,
            offset,
            drift,
            is_cut_off: false,
            is_dead: false,
            stopped_until: 0,
            later: Vec::new(),
            wake: 0,
            wake_at: 0,
            asked: None,
            beat: 0,
            beat_under_way: None,
            arrivals: 0,
            sent: 0,
            waited: 0,
            since: Default::default(),
        };
        let local = node.local(self.now);
        node.contact = Contact::new(self.settings.policy, GRACE, None, local);
        node.lane.share(TIMEOUT, local);
        self.nodes.push(node);
        self.set_load(at, load);
        at
    }

    pub(crate) fn set_load(&mut self, at: usize, load: Load) {
        let node = &mut self.nodes[at];
        (node.load, node.load_number) = (load, node.load_number + 1);
        match load {
            Load::Greedy(clients) | Load::Slow(clients, _) => (0..clients).for_each(|_| self.enter(at)),
            Load::Rate(_) => self.next_arrival(at),
        }
        self.wake(at);
    }

    pub(crate) fn run_for(&mut self, span: u64) {
        let end = self.now + span;
        while self.events.peek().is_some_and(|Reverse(timed)| timed.0 <= end) {
            let Some(Reverse(Timed(at, _, event))) = self.events.pop() else { break };
            self.now = at;
            self.happen(event);
        }
        self.now = end;
    }

    /// It is gone without a word.
    pub(crate) fn kill(&mut self, at: usize) {
        self.nodes[at].is_dead = true;
    }

    /// It takes no part in anything for so long.
    pub(crate) fn stop(&mut self, at: usize, span: u64) {
        self.nodes[at].stopped_until = self.now + span;
        self.after(span, Event::Resume(at));
    }

    /// It ends in order.
    pub(crate) fn drain(&mut self, at: usize) {
        let local = self.nodes[at].local(self.now);
        if let Some(ask) = self.nodes[at].lane.take_back(local) {
            self.send(Event::Ask(at, ask.into()), at);
        }
        self.register.leave(&self.nodes[at].name);
        self.nodes[at].is_dead = true;
    }

    /// The server is away for so long.
    pub(crate) fn down(&mut self, span: u64) {
        self.is_down = true;
        self.run_for(span);
        self.is_down = false;
    }

    /// There is no way between the server and that one for so long.
    pub(crate) fn cut_off(&mut self, at: usize, span: u64) {
        self.nodes[at].is_cut_off = true;
        self.run_for(span);
        self.nodes[at].is_cut_off = false;
    }

    pub(crate) fn cut_off_two(&mut self, span: u64) {
        self.nodes[1].is_cut_off = true;
        self.cut_off(0, span);
        self.nodes[1].is_cut_off = false;
        self.run_for(2 * span);
    }

    /// Messages take up to 40 ms.
    pub(crate) fn slow(&mut self) {
        self.way = (0, 40 * MS);
        self.run_for(15 * SECOND);
    }

    /// The server's clock is put on by so many microseconds.
    pub(crate) fn set_clock(&mut self, micros: i64) {
        self.server_ahead += micros;
    }

    /// The server forgets everything.
    pub(crate) fn flush(&mut self) {
        self.ledger = Ledger::default();
        self.register = Register::default();
    }

    pub(crate) fn hold(&mut self, at: usize, wait: Duration) {
        let local = self.nodes[at].local(self.now);
        self.nodes[at].lane.hold(wait, local);
        self.look(at);
    }

    fn stamp(&self) -> Stamp {
        // It runs 30 ppm slow.
        let micros = self.now / 1000 - self.now / 1000 * 30 / 1_000_000;
        Stamp((EPOCH + micros).saturating_add_signed(self.server_ahead))
    }

    fn after(&mut self, span: u64, event: Event) {
        self.number += 1;
        self.events.push(Reverse(Timed(self.now + span, self.number, event)));
    }

    /// A message to or from an instance; it may be lost.
    fn send(&mut self, event: Event, at: usize) {
        let takes = self.way.0 + self.dice.roll(self.way.1 - self.way.0 + 1);
        let is_lost = self.settings.lost > 0 && self.dice.roll(self.settings.lost) == 0;
        if !is_lost && !self.is_down && !self.nodes[at].is_cut_off {
            self.after(takes, event);
        }
    }

    fn happen(&mut self, event: Event) {
        let of = match &event {
            Event::Ask(..) | Event::Beat(..) | Event::Tell(..) => None,
            Event::Wake(at, _)
            | Event::Arrives(at, _)
            | Event::Again(at, _)
            | Event::Write(at, ..)
            | Event::Answer(at, _)
            | Event::AskTimeout(at, _)
            | Event::BeatAnswer(at, ..)
            | Event::BeatTimeout(at, _)
            | Event::Hear(at, _)
            | Event::Resume(at) => Some(*at),
        };
        if let Some(at) = of {
            let node = &mut self.nodes[at];
            if node.is_dead {
                return;
            }
            if node.stopped_until > self.now {
                return node.later.push(event);
            }
        }
        match event {
            Event::Wake(at, wake) if wake == self.nodes[at].wake => self.look(at),
            Event::Wake(..) => {}
            Event::Arrives(at, number) if number == self.nodes[at].load_number => {
                self.enter(at);
                self.next_arrival(at);
                self.look(at);
            }
            Event::Again(at, number) if number == self.nodes[at].load_number => {
                self.enter(at);
                self.look(at);
            }
            Event::Arrives(..) | Event::Again(..) => {}
            Event::Write(at, turn, since) => self.write(at, *turn, since),
            Event::Ask(at, ask) => {
                if self.is_down {
                    return;
                }
                let leased = self.ledger.ask(&self.nodes[at].name, &ask, self.stamp());
                self.send(Event::Answer(at, leased.into()), at);
            }
            Event::Answer(at, leased) => {
                let node = &mut self.nodes[at];
                if node.asked == Some(leased.number) {
                    node.asked = None;
                    let local = node.local(self.now);
                    node.lane.lease(&leased, local);
                    self.look(at);
                }
            }
            Event::AskTimeout(at, number) => {
                let node = &mut self.nodes[at];
                if node.asked == Some(number) {
                    node.asked = None;
                    let local = node.local(self.now);
                    node.lane.unanswered(local);
                    node.contact.failed(local);
                    self.look(at);
                }
            }
            Event::Beat(at, number, sent, known) => {
                if !self.is_down {
                    let name = self.nodes[at].name.clone();
                    let members = self.register.beat_knowing(known, &name, GRACE, self.stamp());
                    self.send(Event::BeatAnswer(at, number, sent, members), at);
                }
            }
            Event::BeatAnswer(at, number, sent, members) => {
                let node = &mut self.nodes[at];
                if node.beat_under_way == Some(number) {
                    node.beat_under_way = None;
                    let local = node.local(self.now);
                    node.contact.answered(sent, members, local);
                    self.look(at);
                }
            }
            Event::BeatTimeout(at, number) => {
                let node = &mut self.nodes[at];
                if node.beat_under_way == Some(number) {
                    node.beat_under_way = None;
                    let local = node.local(self.now);
                    node.contact.failed(local);
                    self.look(at);
                }
            }
            Event::Tell(at, tell) => {
                let stamp = self.stamp();
                self.ledger.tell(&tell, stamp);
                for other in (0..self.nodes.len()).filter(|other| *other != at) {
                    self.send(Event::Hear(other, tell.news), other);
                }
            }
            Event::Hear(at, news) => {
                let local = self.nodes[at].local(self.now);
                self.nodes[at].lane.hear_hold(news, local);
                self.look(at);
            }
            Event::Resume(at) => {
                for event in std::mem::take(&mut self.nodes[at].later) {
                    self.happen(event);
                }
                self.look(at);
            }
        }
    }

    fn next_arrival(&mut self, at: usize) {
        if let Load::Rate(rate) = self.nodes[at].load {
            let wait = -(1.0 - self.dice.unit()).ln() / rate * SECOND as f64;
            self.after(wait as u64 + 1, Event::Arrives(at, self.nodes[at].load_number));
        }
    }

    fn enter(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        node.arrivals += 1;
        let since = node.local(self.now);
        let entry =
            Entry { client: ClientId(1), weight: 1, arrival: node.arrivals, cost: 1, bytes: 0, since, deadline: None };
        match node.lane.enter(entry, Visit::Again, since) {
            Enter::Go(turn) => self.goes(at, turn, self.now),
            Enter::Wait(id) => _ = self.nodes[at].since.insert(id, self.now),
            Enter::Refused(_) => self.refused(at),
        }
    }

    /// Who was turned away comes again after a second.
    fn refused(&mut self, at: usize) {
        if let Load::Greedy(_) = self.nodes[at].load {
            self.after(SECOND, Event::Again(at, self.nodes[at].load_number));
        }
    }

    fn goes(&mut self, at: usize, turn: Turn, since: u64) {
        let takes = self.dice.roll(self.settings.writing + 1);
        self.after(takes, Event::Write(at, turn.into(), since));
    }

    fn write(&mut self, at: usize, mut turn: Turn, since: u64) {
        let node = &mut self.nodes[at];
        let local = node.local(self.now);
        let is_gone = turn.lapses() <= local || turn.holds() != node.lane.holds();
        if is_gone {
            self.lapsed += u64::from(turn.lapses() <= local);
            node.lane.finish(turn, local);
            self.enter(at);
            return self.look(at);
        }
        node.lane.written(&mut turn, local);
        node.lane.settle(&mut turn, Health::Success, None, local);
        node.lane.finish(turn, local);
        (node.sent, node.waited) = (node.sent + 1, node.waited + self.now - since);
        self.sent.push((self.now, at));
        match self.nodes[at].load {
            Load::Greedy(_) => self.enter(at),
            Load::Slow(_, pause) => self.after(pause, Event::Arrives(at, self.nodes[at].load_number)),
            Load::Rate(_) => {}
        }
        self.look(at);
    }

    fn wake(&mut self, at: usize) {
        self.nodes[at].wake += 1;
        self.nodes[at].wake_at = self.now;
        self.after(0, Event::Wake(at, self.nodes[at].wake));
    }

    /// What follows of itself from whatever happened to an instance.
    fn look(&mut self, at: usize) {
        let local = self.nodes[at].local(self.now);
        let node = &mut self.nodes[at];
        let mut next = node.contact.tick(local);
        node.lane.set_contact(node.contact.mode(), node.contact.members(), local);
        if node.contact.beats(local) {
            node.beat += 1;
            let number = node.beat;
            node.beat_under_way = Some(number);
            self.beats += 1;
            let known = node.contact.members().counted;
            self.send(Event::Beat(at, number, local, known), at);
            self.after(TIMEOUT.as_nanos() as u64, Event::BeatTimeout(at, number));
            next = self.nodes[at].contact.tick(local);
        }
        loop {
            let mut calls = Vec::new();
            let step = self.nodes[at].lane.step(local, &mut calls);
            let is_done = calls.is_empty();
            for call in calls {
                match call {
                    Call::Prepare(id) => self.nodes[at].lane.ready(id, true),
                    Call::Go(id, turn) => {
                        let since = self.nodes[at].since.remove(&id).unwrap_or(self.now);
                        self.goes(at, turn, since);
                    }
                    Call::Refuse(id, _) => {
                        self.nodes[at].since.remove(&id);
                        self.refused(at);
                    }
                }
            }
            if is_done {
                next = step.earliest().map_or(next, |earliest| earliest.min(next));
                break;
            }
        }
        if let Some(ask) = self.nodes[at].lane.ask(local) {
            self.nodes[at].asked = Some(ask.number);
            self.asks += 1;
            let number = ask.number;
            self.send(Event::Ask(at, ask.into()), at);
            self.after(TIMEOUT.as_nanos() as u64, Event::AskTimeout(at, number));
        }
        if let Some(tell) = self.nodes[at].lane.hold_to_tell(local) {
            self.send(Event::Tell(at, tell.into()), at);
        }
        let node = &mut self.nodes[at];
        node.wake += 1;
        if next < Instant::NEVER {
            assert!(next > local, "an instance asks to be looked at later, not now");
            let wait = node.global(next).saturating_sub(self.now).max(1);
            let wake = node.wake;
            self.after(wait, Event::Wake(at, wake));
        }
    }

    pub(crate) fn mode(&self, at: usize) -> Mode {
        self.nodes[at].contact.mode()
    }

    /// How many left from `from` on.
    pub(crate) fn sent_since(&self, from: u64) -> usize {
        self.sent.len() - self.sent.partition_point(|(at, _)| *at < from)
    }

    pub(crate) fn sent_by(&self, node: usize, from: u64, until: u64) -> usize {
        self.sent.iter().filter(|(at, by)| *by == node && (from..until).contains(at)).count()
    }
}

impl Node {
    pub(crate) fn is_alive(&self) -> bool {
        !self.is_dead
    }

    fn local(&self, global: u64) -> Instant {
        Instant::from_nanos(self.offset + global + global / 1_000_000 * self.drift)
    }

    /// When its clock shows that, at least.
    fn global(&self, local: Instant) -> u64 {
        let shown = local.as_nanos() - self.offset;
        // Every second it gains `drift` microseconds.
        shown - shown / (1_000_000 + self.drift) * self.drift
    }
}

/// The most by which any span of what left was over the rate: a bucket of that size lets all of it.
pub(crate) fn burst_of(sent: &[(u64, usize)], per_second: f64) -> f64 {
    let (mut least, mut most) = (f64::MAX, 0.0f64);
    for (n, (at, _)) in sent.iter().enumerate() {
        let paced = per_second * *at as f64 / SECOND as f64;
        least = least.min(n as f64 - paced);
        most = most.max(n as f64 + 1.0 - paced - least);
    }
    most
}

/// The most that left in any span.
pub(crate) fn most_within(sent: &[(u64, usize)], span: u64) -> usize {
    let ends = sent.iter().enumerate().map(|(n, (at, _))| n + 1 - sent.partition_point(|(from, _)| from + span <= *at));
    ends.max().unwrap_or(0)
}
