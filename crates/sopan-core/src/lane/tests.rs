use super::*;
use crate::breaker::Breaker;
use crate::policy::BreakerPolicy;
use crate::queue::ClientId;
use crate::retry::Budget;

mod operator;
mod own;
mod shared;

const MS: u64 = 1_000_000;

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * MS)
}

fn ms(instant: Instant) -> u64 {
    instant.as_nanos().div_ceil(MS)
}

/// A lane with a hand-driven clock, whose tickets have their connection as soon as they are asked.
struct World {
    lane: Lane,
    arrivals: u64,
    told: Vec<Told>,
    turns: Vec<(u64, Turn)>,
    names: std::collections::BTreeMap<TicketId, u64>,
    slow: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Told {
    Prepare(u64),
    Go(u64),
    Refused(u64, Refusal),
}
use Told::{Go, Prepare, Refused};

fn world(limits: &[&str]) -> World {
    with(LanePolicy { limits: limits.iter().map(|l| l.parse().unwrap()).collect(), ..exact() })
}

fn exact() -> LanePolicy {
    LanePolicy { headroom: 0, rate_margin: "0%".parse().unwrap(), ..LanePolicy::default() }
}

fn with(policy: LanePolicy) -> World {
    let breaker =
        BreakerPolicy { failures: 3, min_span: Duration::ZERO, open_for: Duration::from_secs(2), ..Default::default() };
    let lane = Lane::new(policy, Breaker::new(breaker), Budget::new(true));
    World { lane, arrivals: 0, told: Vec::new(), turns: Vec::new(), names: Default::default(), slow: false }
}

impl World {
    /// A newcomer of client 1 with the default deadline; answers its number.
    fn come(&mut self, now: u64) -> u64 {
        self.come_as(1, now, Some(30_000))
    }

    fn come_as(&mut self, client: u128, now: u64, wait_max: Option<u64>) -> u64 {
        self.arrivals += 1;
        self.enter(self.arrivals, client, now, wait_max, Visit::First);
        self.arrivals
    }

    fn enter(&mut self, arrival: u64, client: u128, now: u64, wait_max: Option<u64>, visit: Visit) {
        let entry = Entry {
            client: ClientId(client),
            weight: 1,
            arrival,
            cost: 1,
            bytes: 100,
            since: at(now),
            deadline: wait_max.map(|wait| at(now + wait)),
        };
        match self.lane.enter(entry, visit, at(now)) {
            Enter::Go(turn) => {
                self.told.push(Go(arrival));
                self.turns.push((arrival, turn));
            }
            Enter::Wait(id) => _ = self.names.insert(id, arrival),
            Enter::Refused(refusal) => self.told.push(Refused(arrival, refusal)),
        }
        self.step(now);
    }

    /// Steps until nothing more follows; answers when to look again.
    fn step(&mut self, now: u64) -> Option<Instant> {
        loop {
            let mut calls = Vec::new();
            let next = self.lane.step(at(now), &mut calls);
            if calls.is_empty() {
                return next.earliest();
            }
            for call in calls {
                match call {
                    Call::Prepare(id) => {
                        self.told.push(Prepare(self.names[&id]));
                        if !self.slow {
                            self.lane.ready(id, true);
                        }
                    }
                    Call::Go(id, turn) => {
                        let name = self.names.remove(&id).unwrap();
                        self.told.push(Go(name));
                        self.turns.push((name, turn));
                    }
                    Call::Refuse(id, refusal) => {
                        let name = self.names.remove(&id).unwrap();
                        self.told.push(Refused(name, refusal));
                    }
                }
            }
        }
    }

    fn ready(&mut self, name: u64, now: u64) {
        let id = self.id(name);
        self.lane.ready(id, true);
        self.step(now);
    }

    fn leave(&mut self, name: u64, now: u64) {
        let id = self.id(name);
        self.names.remove(&id);
        self.lane.leave(id);
        self.step(now);
    }

    fn id(&self, name: u64) -> TicketId {
        *self.names.iter().find(|(_, n)| **n == name).unwrap().0
    }

    fn turn(&mut self, name: u64) -> Turn {
        let index = self.turns.iter().position(|(n, _)| *n == name).unwrap();
        self.turns.remove(index).1
    }

    fn write(&mut self, name: u64, now: u64) {
        let (_, turn) = self.turns.iter_mut().find(|(n, _)| *n == name).unwrap();
        self.lane.written(turn, at(now));
        self.step(now);
    }

    /// Writes, answers and finishes at once.
    fn answer(&mut self, name: u64, now: u64, health: Health, hold: Option<u64>) {
        let mut turn = self.turn(name);
        if turn.stage == Stage::Reserved {
            self.lane.written(&mut turn, at(now));
        }
        self.lane.settle(&mut turn, health, hold.map(Duration::from_millis), at(now));
        self.lane.finish(turn, at(now));
        self.step(now);
    }

    fn succeed(&mut self, name: u64, now: u64) {
        self.answer(name, now, Health::Success, None);
    }

    /// Lets time pass up to `until`, every turn being written and answered the moment it goes; answers who went when.
    fn run(&mut self, mut now: u64, until: u64) -> Vec<(u64, u64)> {
        let mut went = Vec::new();
        loop {
            let next = self.step(now);
            let names: Vec<_> = self.turns.iter().map(|(name, _)| *name).collect();
            for name in &names {
                went.push((*name, now));
                self.succeed(*name, now);
            }
            if !names.is_empty() {
                continue;
            }
            match next {
                Some(next) if ms(next) <= until => now = ms(next).max(now + 1),
                _ => return went,
            }
        }
    }

    #[track_caller]
    fn told(&mut self, expected: &[Told]) {
        let told = std::mem::take(&mut self.told);
        let told: Vec<_> = told.into_iter().filter(|t| self.slow || !matches!(t, Prepare(_))).collect();
        assert_eq!(told, expected);
    }
}

#[test]
fn what_can_go_goes_and_the_rest_follows_in_order() {
    let mut world = world(&["10/s burst 2"]);
    for _ in 0..5 {
        world.come(0);
    }
    assert_eq!(world.run(0, 1000), [(1, 0), (2, 0), (3, 100), (4, 200), (5, 300)]);
}

#[test]
fn nobody_overtakes_a_ticket_whose_connection_is_not_ready() {
    let mut world = world(&["10/s"]);
    world.slow = true;
    world.come(0);
    world.succeed(1, 0);
    world.come(0);
    world.come(0);
    world.told(&[Go(1), Prepare(2)]);
    world.step(99);
    world.told(&[]);
    world.ready(3, 100);
    world.step(150);
    world.told(&[]);
    world.ready(2, 150);
    world.told(&[Go(2)]);
    world.succeed(2, 150);
    assert_eq!(world.run(150, 1000), [(3, 249)], "50 ms late moves the schedule by 49 ms");
}

#[test]
fn a_late_turn_does_not_make_the_next_ones_late() {
    let mut world = world(&["10/s"]);
    for _ in 0..5 {
        world.come(0);
    }
    world.succeed(1, 0);
    let mut due = Vec::new();
    for name in 2..=5u64 {
        let next = world.step((name - 1) * 100 - 50).unwrap();
        let late = next.after(Duration::from_micros(700));
        let mut calls = Vec::new();
        world.lane.step(late, &mut calls);
        for call in calls {
            match call {
                Call::Prepare(id) => world.lane.ready(id, true),
                Call::Go(_, mut turn) => {
                    due.push(next.as_nanos());
                    world.lane.written(&mut turn, late);
                    world.lane.finish(turn, late);
                }
                Call::Refuse(..) => panic!("{name} is in time"),
            }
        }
        world.step(name * 100 - 50);
    }
    assert_eq!(due, [100 * MS, 200 * MS, 300 * MS, 400 * MS]);
}

#[test]
fn tickets_are_called_when_their_turn_is_near() {
    let mut world = world(&["1000/s"]);
    world.slow = true;
    world.lane.set_connect_time(Duration::from_millis(10));
    for _ in 0..100 {
        world.come(0);
    }
    // The first goes at once and holds the token; those due within 10 ms and half as much again are told, and no more.
    let called = |told: &[Told]| told.iter().filter(|t| matches!(t, Prepare(_))).count();
    assert_eq!(called(&world.told), 15);
    world.lane.set_connect_time(Duration::from_secs(1));
    world.step(0);
    assert_eq!(called(&world.told), CALLED_MAX);
}

#[test]
fn the_first_ticket_is_called_well_before_a_distant_turn() {
    let mut world = world(&["6/min"]);
    world.slow = true;
    world.come(0);
    world.succeed(1, 0);
    world.come(0);
    world.told(&[Go(1)]);
    assert_eq!(world.step(0), Some(at(9_000)));
    world.step(9_000);
    world.told(&[Prepare(2)]);
}

#[test]
fn twenty_at_once_at_one_a_second_with_room_for_five() {
    let mut world = with(LanePolicy { limits: vec!["1/s".parse().unwrap()], waiting_max: 5, ..exact() });
    for _ in 0..20 {
        world.come(0);
    }
    let full = Refusal::QueueFull { waiting: 5, retry_after: 1 };
    let refused: Vec<_> = (7..=20).map(|name| Refused(name, full)).collect();
    world.told(&[&[Go(1)][..], &refused].concat());
    assert_eq!(world.run(0, 10_000).iter().map(|(name, _)| *name).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn with_no_room_to_wait_what_cannot_go_is_refused() {
    let mut world = with(LanePolicy { limits: vec!["1/s".parse().unwrap()], waiting_max: 0, ..exact() });
    world.come(0);
    world.come(0);
    world.told(&[Go(1), Refused(2, Refusal::QueueFull { waiting: 0, retry_after: 1 })]);
}

#[test]
fn the_bytes_of_those_who_wait_are_bounded() {
    let mut world = with(LanePolicy { limits: vec!["1/s".parse().unwrap()], queue_bytes_max: 250, ..exact() });
    for _ in 0..4 {
        world.come(0);
    }
    world.told(&[Go(1), Refused(4, Refusal::BytesFull { bytes: 200, retry_after: 1 })]);
    let id = world.id(2);
    assert!(world.lane.grow(id, 49) && !world.lane.grow(id, 1));
}

#[test]
fn a_wait_beyond_the_deadline_is_refused_at_once_with_a_true_retry_after() {
    // (limits, already sent, waiting, wait_max in ms, expected Retry-After in s)
    for (limits, sent, waiting, wait_max, retry_after) in [
        (&["6/h"][..], 1, 0, 2_000, 598),
        (&["1 per 10s"], 1, 0, 1_000, 10),
        (&["10/s"], 1, 50, 2_000, 4),
        (&["10/s burst 5", "20 per 1min"], 20, 3, 5_000, 54),
        (&["1/s"], 1, 4, 1_500, 4),
    ] {
        let mut world = world(limits);
        let mut now = 0;
        for _ in 0..sent {
            let name = world.come(now);
            if let Some((_, at)) = world.run(now, now + 60_000).last() {
                now = *at;
            }
            assert!(world.turns.is_empty() && name > 0);
        }
        for _ in 0..waiting {
            world.come_as(1, now, None);
        }
        world.told.clear();
        let name = world.come_as(1, now, Some(wait_max));
        let [Refused(_, Refusal::WaitTooLong { retry_after: told, .. })] = world.told[..] else {
            panic!("{limits:?}: {:?}", world.told)
        };
        assert_eq!(told, retry_after, "{limits:?} refused {name}");
        // It is true: after that time the same request is admitted if nobody else came, and a second before it is not.
        world.told.clear();
        for (later, admitted) in [(told - 1, false), (told, true)] {
            let then = now + later * 1000;
            world.run(now, then);
            world.told.clear();
            world.come_as(1, then, Some(wait_max));
            let refused = world.told.iter().any(|t| matches!(t, Refused(..)));
            assert_eq!(!refused, admitted, "{limits:?} after {later} s");
        }
    }
}

#[test]
fn a_deadline_is_enforced_when_the_prediction_was_too_kind() {
    let mut world = world(&["1/s"]);
    world.come(0);
    let patient = world.come_as(1, 0, Some(1_500));
    world.succeed(1, 0);
    world.lane.hold(Duration::from_secs(5), at(10));
    assert_eq!(world.step(10).map(ms), Some(1_501));
    world.step(1_501);
    world.told(&[Go(1), Refused(patient, Refusal::WaitedTooLong { cause: Cause::Hold, retry_after: 3 })]);
}

#[test]
fn a_turn_due_at_the_very_deadline_goes() {
    let mut world = world(&["1/s"]);
    world.come(0);
    world.succeed(1, 0);
    let name = world.come_as(1, 0, Some(1_000));
    assert_eq!(world.run(0, 2_000), [(name, 1_000)]);
}

#[test]
fn a_hold_stops_all_and_its_end_lets_one_go_and_the_others_follow() {
    let mut world = world(&["20/s burst 10"]);
    for _ in 0..3 {
        world.come(0);
    }
    world.succeed(1, 0);
    world.succeed(2, 5);
    world.answer(3, 10, Health::Success, Some(3_000));
    for _ in 0..5 {
        world.come(20);
    }
    let went = world.run(20, 10_000);
    assert_eq!(went, [(4, 3_010), (5, 3_060), (6, 3_110), (7, 3_160), (8, 3_210)]);
}

#[test]
fn a_later_end_wins_and_an_earlier_one_never_shortens() {
    let mut world = with(LanePolicy { limits: vec!["10/s".parse().unwrap()], ..exact() });
    world.lane.hold(Duration::from_secs(5), at(0));
    world.lane.hold(Duration::from_secs(1), at(100));
    assert_eq!(world.lane.held_until(), Some(at(5_000)));
    world.lane.hold(Duration::from_secs(8), at(100));
    assert_eq!(world.lane.held_until(), Some(at(8_100)));
    world.lane.hold(Duration::MAX, at(200));
    assert_eq!(world.lane.held_until(), Some(at(3_600_200)), "max_hold bounds it");
}

#[test]
fn a_hold_that_is_prolonged_is_the_same_one_and_ends_with_one_turn_all_the_same() {
    let mut world = with(LanePolicy { limits: vec!["10/s".parse().unwrap()], ..exact() });
    world.lane.prolong_hold(Duration::from_secs(5), at(0));
    assert_eq!(world.lane.held_until(), None, "there is none to be prolonged");
    world.lane.hold(Duration::from_secs(5), at(0));
    world.lane.prolong_hold(Duration::from_secs(4), at(500));
    assert_eq!(world.lane.held_until(), Some(at(5_000)), "it is never shortened");
    world.lane.prolong_hold(Duration::from_secs(5), at(500));
    assert_eq!((world.lane.held_until(), world.lane.holds()), (Some(at(5_500)), 1));
    for _ in 0..3 {
        world.come(600);
    }
    assert_eq!(world.run(600, 10_000), [(1, 5_500), (2, 5_600), (3, 5_700)]);
    world.lane.hold(Duration::from_secs(5), at(10_000));
    world.lane.prolong_hold(Duration::MAX, at(10_000));
    assert_eq!(world.lane.held_until(), Some(at(3_610_000)), "max_hold bounds it");
}

#[test]
fn a_turn_that_a_hold_overtook_is_given_back_and_takes_its_place_again() {
    let mut world = world(&["10/s burst 2"]);
    for _ in 0..4 {
        world.come(0);
    }
    world.answer(1, 0, Health::Success, Some(1_000));
    let turn = world.turn(2);
    assert!(turn.holds() < world.lane.holds(), "it can see that it must not be written");
    world.lane.finish(turn, at(1));
    world.enter(2, 1, 1, Some(30_000), Visit::Again);
    let went = world.run(1, 5_000);
    assert_eq!(went, [(2, 1_000), (3, 1_100), (4, 1_200)]);
}

#[test]
fn without_a_rate_a_lane_restarts_by_rounds() {
    for limits in [&[][..], &["100 per 1s"]] {
        let mut world = world(limits);
        world.come(0);
        world.answer(1, 0, Health::Success, Some(1_000));
        for _ in 0..20 {
            world.come(10);
        }
        let mut rounds = Vec::new();
        for now in [1_000, 1_010, 1_020, 1_030, 1_040] {
            world.step(now);
            let names: Vec<_> = world.turns.iter().map(|(name, _)| *name).collect();
            rounds.push(names.len());
            names.iter().for_each(|name| world.write(*name, now));
            assert_eq!(world.turns.len(), names.len(), "nobody goes before the round is answered");
            names.iter().for_each(|name| world.succeed(*name, now));
        }
        assert_eq!(rounds, [1, 2, 4, 8, 5], "{limits:?}");
        for _ in 0..5 {
            world.come(2_000);
        }
        assert_eq!(world.turns.len(), 5, "afterwards nothing is left of it");
    }
}

#[test]
fn a_new_429_in_a_restart_holds_again() {
    let mut world = world(&[]);
    world.lane.hold(Duration::from_secs(1), at(0));
    for _ in 0..4 {
        world.come(0);
    }
    world.step(1_000);
    world.answer(1, 1_000, Health::Success, Some(500));
    assert!(world.turns.is_empty());
    assert_eq!(world.run(1_000, 1_499), []);
    assert_eq!(world.run(1_500, 2_000), [(2, 1_500), (3, 1_500), (4, 1_500)]);
}

#[test]
fn places_bound_what_is_under_way() {
    let mut world = with(LanePolicy { limits: Vec::new(), max_in_flight: Some(2), ..exact() });
    for _ in 0..4 {
        world.come(0);
    }
    world.told(&[Go(1), Go(2)]);
    world.write(1, 0);
    world.write(2, 0);
    world.succeed(1, 100);
    world.told(&[Go(3)]);
    let turn = world.turn(2);
    world.lane.finish(turn, at(200));
    world.step(200);
    world.told(&[Go(4)]);
    assert_eq!(world.lane.snapshot(at(200)).in_flight, 2);
}

#[test]
fn a_wait_for_a_place_is_predicted_from_how_long_places_are_held() {
    let mut world = with(LanePolicy { limits: Vec::new(), max_in_flight: Some(2), ..exact() });
    for now in [0, 1_000, 2_000] {
        let name = world.come(now);
        world.write(name, now);
        world.succeed(name, now + 1_000);
    }
    for _ in 0..6 {
        world.come_as(1, 3_000, None);
    }
    world.told.clear();
    // Two are under way for a second each and four wait: the fifth would get a place after 2.5 s.
    world.come_as(1, 3_000, Some(2_000));
    let [Refused(_, Refusal::WaitTooLong { predicted, cause, .. })] = world.told[..] else {
        panic!("{:?}", world.told)
    };
    assert_eq!((predicted, cause), (Duration::from_millis(2_500), Cause::Places));
}

#[test]
fn an_open_breaker_refuses_newcomers_and_keeps_those_who_can_wait() {
    let mut world = world(&["1000/s burst 10"]);
    for _ in 0..3 {
        world.come(0);
    }
    world.lane.hold(Duration::from_millis(500), at(0));
    let impatient = world.come_as(1, 0, Some(1_000));
    let patient = world.come_as(1, 0, Some(30_000));
    for name in 1..=3 {
        world.answer(name, 100, Health::Failure, None);
    }
    let open = Refusal::BreakerOpen { retry_after: 2 };
    world.told(&[Go(1), Go(2), Go(3), Refused(impatient, open)]);
    let newcomer = world.come(200);
    world.told(&[Refused(newcomer, open)]);
    world.enter(1, 1, 300, Some(500), Visit::Again);
    world.told(&[Refused(1, open)]);
    world.enter(2, 1, 300, Some(30_000), Visit::Again);
    world.told(&[]);
    world.step(2_100);
    // Arrival orders a client's tickets: the retry is older.
    world.told(&[Go(2)]);
    let late = world.come(2_150);
    world.told(&[Refused(late, Refusal::BreakerOpen { retry_after: 1 })]);
    world.succeed(2, 2_200);
    world.told(&[Go(patient)]);
}

#[test]
fn who_comes_while_nobody_gets_a_turn_in_time_is_told_why() {
    let mut world = world(&["1000/s burst 10"]);
    let bar = |world: &World, deadline: Option<u64>, now| world.lane.bar(deadline.map(at), at(now));
    assert_eq!(bar(&world, Some(0), 0), None);
    world.lane.hold(Duration::from_millis(500), at(0));
    for (deadline, now, expected) in [
        (Some(499), 0, Some(Cause::Hold)),
        (Some(500), 0, None),
        (None, 0, None),
        (Some(499), 499, Some(Cause::Hold)),
        (Some(499), 500, None),
    ] {
        assert_eq!(bar(&world, deadline, now), expected, "{deadline:?} at {now}");
    }
    for _ in 0..3 {
        world.lane.unconnected(None, at(0));
    }
    for (deadline, now, expected) in [
        (None, 0, Some(Cause::Breaker)),
        (Some(30_000), 1_999, Some(Cause::Breaker)),
        // There is room for a probe.
        (Some(30_000), 2_000, None),
    ] {
        assert_eq!(bar(&world, deadline, now), expected, "{deadline:?} at {now}");
    }
    let probe = world.come(2_000);
    world.told(&[Go(probe)]);
    assert_eq!(bar(&world, None, 2_000), Some(Cause::Breaker));
    world.succeed(probe, 2_100);
    assert_eq!(bar(&world, None, 2_100), None);
}

#[test]
fn a_failed_probe_opens_the_breaker_again() {
    let mut world = world(&["1000/s burst 10"]);
    for _ in 0..3 {
        let name = world.come(0);
        world.answer(name, 0, Health::Failure, None);
    }
    world.told.clear();
    let probe = world.come(2_000);
    world.told(&[Go(probe)]);
    world.answer(probe, 2_100, Health::Failure, None);
    let refused = world.come(2_200);
    world.told(&[Refused(refused, Refusal::BreakerOpen { retry_after: 2 })]);
}

#[test]
fn a_probe_whose_client_leaves_makes_room_for_another() {
    for write in [false, true] {
        let mut world = world(&["1000/s burst 10"]);
        for _ in 0..3 {
            let name = world.come(0);
            world.answer(name, 0, Health::Failure, None);
        }
        let probe = world.come(2_000);
        if write {
            world.write(probe, 2_000);
        }
        let turn = world.turn(probe);
        world.lane.finish(turn, at(2_010));
        world.told.clear();
        let next = world.come(2_020);
        world.told(&[Go(next)]);
    }
}

#[test]
fn failed_connections_and_broken_bodies_count_as_failures() {
    let mut world = world(&["1000/s burst 10"]);
    world.lane.unconnected(None, at(0));
    world.lane.unconnected(None, at(1));
    let name = world.come(2);
    let mut turn = world.turn(name);
    world.lane.written(&mut turn, at(2));
    world.lane.settle(&mut turn, Health::Success, None, at(3));
    world.lane.cut(&turn, at(4));
    world.lane.finish(turn, at(4));
    assert_eq!(world.lane.snapshot(at(4)).breaker, State::Closed, "the success in between ended the row");
    world.lane.unconnected(None, at(5));
    world.lane.unconnected(None, at(6));
    assert!(matches!(world.lane.snapshot(at(6)).breaker, State::Open { .. }));
}

#[test]
fn while_connections_fail_those_who_wait_are_called_at_the_pace_of_the_lane() {
    for (limits, pace) in [(&["10/s burst 20"][..], 100), (&["1/min burst 20"], 1_000), (&["1000 per 1h"], 0)] {
        let mut world = world(limits);
        world.slow = true;
        world.lane.hold(Duration::from_millis(500), at(0));
        let names: Vec<_> = (0..4).map(|_| world.come_as(1, 0, None)).collect();
        // Its turn is near, and the upstream is away.
        let id = world.id(names[0]);
        world.told.clear();
        world.lane.leave(id);
        world.lane.unconnected(None, at(500));
        world.step(500 + pace - 1);
        assert!(pace == 0 || world.told.is_empty(), "{limits:?}: {:?}", world.told);
        world.step(500 + pace);
        world.told(&[Prepare(names[1])]);
        // It is back, and so is the lane.
        world.ready(names[1], 500 + pace);
        assert_eq!(world.told[0], Go(names[1]), "{limits:?}");
        assert_eq!(world.lane.call_from, Instant::ORIGIN);
    }
}

#[test]
fn an_answer_that_was_a_failure_by_its_head_is_no_second_one_when_its_body_breaks_off() {
    let mut world = world(&["1000/s burst 10"]);
    for now in 0..3 {
        assert_eq!(world.lane.snapshot(at(now)).breaker, State::Closed);
        let name = world.come(now);
        let mut turn = world.turn(name);
        world.lane.written(&mut turn, at(now));
        world.lane.settle(&mut turn, Health::Failure, None, at(now));
        world.lane.cut(&turn, at(now));
        world.lane.finish(turn, at(now));
    }
    assert!(matches!(world.lane.snapshot(at(3)).breaker, State::Open { .. }));
    assert!(matches!(world.lane.take_change(), Some(Change::Tripped { .. })));
    assert_eq!(world.lane.take_change(), None);
}

#[test]
fn an_ill_upstream_is_connected_to_by_its_probe_only_and_a_probe_that_cannot_connect_has_failed() {
    let mut world = world(&["1000/s burst 10"]);
    world.slow = true;
    for _ in 0..3 {
        world.lane.unconnected(None, at(0));
    }
    // Retries that can wait stay while it is open.
    let names: Vec<_> = (11..15).collect();
    names.iter().for_each(|name| world.enter(*name, 1, 100, Some(30_000), Visit::Again));
    world.step(1_999);
    world.told(&[]);
    world.step(2_000);
    world.told(&[Prepare(11)]);
    world.ready(11, 2_100);
    world.told(&[Go(11)]);
    let turn = world.turn(11);
    world.lane.unconnected(Some(turn), at(2_200));
    world.step(2_200);
    assert_eq!(world.lane.snapshot(at(2_200)).breaker, State::Open { until: at(4_200) });
    world.step(4_200);
    world.told(&[Prepare(12)]);
    // Before it had a turn.
    let id = world.id(12);
    world.lane.leave(id);
    world.lane.unconnected(None, at(4_300));
    world.step(4_300);
    world.told(&[]);
    assert_eq!(world.lane.snapshot(at(4_300)).breaker, State::Open { until: at(6_300) });
    world.step(6_300);
    world.ready(13, 6_300);
    world.succeed(13, 6_400);
    world.told(&[Prepare(13), Go(13), Prepare(14)]);
}

#[test]
fn a_ticket_knows_when_its_turn_comes_only_where_nothing_but_time_is_in_its_way() {
    let due = |world: &World, name, now| world.lane.due(world.id(name), at(now));
    let mut paced = world(&["10/s"]);
    paced.come(0);
    let (next, last) = (paced.come(0), paced.come(0));
    assert!(paced.lane.is_reserved(), "who has the token may not use it");
    paced.succeed(1, 0);
    assert!(!paced.lane.is_reserved());
    assert_eq!((due(&paced, next, 50), due(&paced, last, 50)), (Some(at(100)), Some(at(200))));
    paced.lane.hold(Duration::from_secs(1), at(50));
    assert_eq!((due(&paced, next, 60), due(&paced, last, 60)), (Some(at(1_050)), Some(at(1_150))));
    let mut full = with(LanePolicy { limits: Vec::new(), max_in_flight: Some(1), ..exact() });
    let name = full.come(0);
    full.succeed(name, 1_000);
    full.come(1_000);
    let waits = full.come(1_000);
    assert_eq!(due(&full, waits, 1_500), None, "what is only guessed moves");
}

#[test]
fn who_waits_for_another_day_is_woken_when_it_opens_and_to_look_at_the_calendar() {
    let mut world = world(&["1 per day at 00:00 UTC"]);
    let midnight = SystemTime::UNIX_EPOCH + Duration::from_secs(20_000 * 86_400);
    let before = |seconds| midnight - Duration::from_secs(seconds);
    assert_eq!(world.lane.calendar_due(), Instant::ORIGIN);
    world.lane.set_calendar(at(0), before(25));
    assert_eq!(world.step(0), None, "nobody waits");
    world.come(0);
    world.come(0);
    let (first, second) = world.turns.pop().map(|(_, turn)| (turn, world.step(0))).unwrap();
    world.turns.push((1, first));
    assert_eq!(second, Some(at(10_000)), "the clock on the wall may be set");
    world.succeed(1, 0);
    // It is set, fourteen seconds forward.
    world.lane.set_calendar(at(10_000), before(1));
    assert_eq!(world.lane.calendar_due(), at(11_000), "midnight");
    world.step(10_000);
    world.lane.set_calendar(at(11_000), midnight);
    assert_eq!(world.run(11_000, 12_000), [(2, 11_100)]);
}

#[test]
fn those_who_leave_cost_nothing() {
    let mut world = world(&["1/s"]);
    world.come(0);
    world.succeed(1, 0);
    for _ in 0..3 {
        world.come(100);
    }
    world.leave(2, 300);
    world.leave(3, 300);
    for round in 0..200 {
        let name = world.come(300 + round);
        world.leave(name, 300 + round);
    }
    assert_eq!(world.run(600, 2_000), [(4, 1_000)]);
    let last = world.come(1_500);
    assert_eq!(world.run(1_500, 3_000), [(last, 2_000)]);
}

#[test]
fn a_retry_keeps_its_place_and_is_not_refused_for_the_number_of_those_who_wait() {
    let mut world = with(LanePolicy { limits: vec!["1/s".parse().unwrap()], waiting_max: 2, ..exact() });
    for _ in 0..3 {
        world.come(0);
    }
    world.answer(1, 0, Health::Failure, None);
    world.enter(1, 1, 500, Some(30_000), Visit::Again);
    let went = world.run(500, 5_000);
    assert_eq!(went, [(1, 1_000), (2, 2_000), (3, 3_000)]);
}

#[test]
fn equal_clients_get_equal_shares_whatever_they_bring() {
    let mut world = with(LanePolicy { limits: vec!["100/s".parse().unwrap()], waiting_max: 10_000, ..exact() });
    let mut owner = std::collections::BTreeMap::new();
    for client in [1u128, 2] {
        for _ in 0..if client == 1 { 1_000 } else { 100 } {
            owner.insert(world.come_as(client, 0, None), client);
        }
    }
    let went = world.run(0, 1_990);
    let share = went.iter().filter(|(name, _)| owner[name] == 2).count();
    assert_eq!((went.len(), share), (200, 99), "the first turn went before the second client had come");
}

#[test]
fn a_refused_newcomer_costs_nothing_and_deposits_nothing() {
    let mut world = with(LanePolicy { limits: vec!["1/h".parse().unwrap()], waiting_max: 0, ..exact() });
    for _ in 0..100_000 {
        world.come(0);
    }
    let withdrawn = (0..200).filter(|_| world.lane.withdraw(at(0))).count();
    assert_eq!(withdrawn, 100, "only the floor of the budget");
}
