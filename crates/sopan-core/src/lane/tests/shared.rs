//! A lane whose limits are shared: with a ledger that answers when the test lets it, and without one.

use super::*;
use crate::policy::ClientLimits;
use crate::share::{Contact, GRACE, HoldNews, Leased, Ledger, Members, Mode, OnStoreFailure, Stamp, TIMEOUT};

/// What the ledger's clock shows when ours shows zero, in microseconds.
const EPOCH: u64 = 1_780_000_000_000_000;

fn stamp(now: u64) -> Stamp {
    Stamp(EPOCH + now * 1000)
}

/// A world whose lane is in touch with a ledger.
fn shared(limits: &[&str]) -> (World, Ledger) {
    let mut world = world(limits);
    world.lane.share(TIMEOUT, at(0));
    world.lane.set_contact(Mode::Shared, Members::ONE, at(0));
    (world, Ledger::default())
}

impl World {
    /// Asks the ledger, if the lane wants to, and steps; answers what it leased.
    fn lease(&mut self, ledger: &mut Ledger, now: u64) -> Option<Leased> {
        let ask = self.lane.ask(at(now))?;
        let leased = ledger.ask("me", &ask, stamp(now));
        self.lane.lease(&leased, at(now));
        self.step(now);
        Some(leased)
    }

    /// As [`World::run`], with the ledger, which answers at once.
    fn run_with(&mut self, ledger: &mut Ledger, mut now: u64, until: u64) -> Vec<(u64, u64)> {
        let mut gone = Vec::new();
        while now <= until {
            let next = self.step(now);
            self.lease(ledger, now);
            for (name, mut turn) in std::mem::take(&mut self.turns) {
                self.lane.written(&mut turn, at(now));
                self.lane.finish(turn, at(now));
                gone.push((name, now));
            }
            let next = self.step(now).or(next).map_or(u64::MAX, ms);
            now = next.max(now + 1);
        }
        gone
    }
}

#[test]
fn turns_leave_when_they_are_due_and_the_lane_asks_for_what_it_needs() {
    let (mut world, mut ledger) = shared(&["100/s burst 3"]);
    assert!(world.lane.ask(at(0)).is_none(), "nobody wants anything");
    (0..8).for_each(|_| _ = world.come(0));
    let gone = world.run_with(&mut ledger, 0, 200);
    assert_eq!(gone, [(1, 0), (2, 0), (3, 0), (4, 10), (5, 20), (6, 30), (7, 40), (8, 50)]);
}

/// Nobody who is to wait for nothing would ever be let go, if the way to the ledger counted as a wait.
#[test]
fn who_may_not_wait_waits_for_the_ledger_all_the_same_but_for_no_turn() {
    let (mut world, mut ledger) = shared(&["1/s burst 2"]);
    let mut ask = |world: &mut World, now: u64| {
        let asked = world.lane.ask(at(now)).expect("somebody wants a turn");
        world.lane.lease(&ledger.ask("me", &asked, stamp(now + 1)), at(now + 3));
        world.step(now + 3);
    };
    for (name, now) in [(1, 0), (2, 20)] {
        world.come_as(1, now, Some(0));
        ask(&mut world, now);
        world.write(name, now + 3);
    }
    world.told.clear();
    // It knows by now that there is nothing left.
    world.come_as(1, 40, Some(0));
    assert!(matches!(world.told.as_slice(), [Told::Refused(3, _)]), "{:?}", world.told);
    world.told.clear();
    world.come_as(1, 1_100, Some(0));
    ask(&mut world, 1_100);
    world.write(4, 1_103);
}

#[test]
fn nothing_leaves_before_the_ledger_was_heard_of_and_one_ask_is_under_way_at_a_time() {
    let mut world = world(&["100/s burst 3"]);
    let mut ledger = Ledger::default();
    world.lane.share(TIMEOUT, at(0));
    world.come(0);
    assert!(world.lane.ask(at(0)).is_none());
    assert_eq!(world.run(0, 100), []);
    world.lane.set_contact(Mode::Shared, Members::ONE, at(100));
    let ask = world.lane.ask(at(100)).unwrap();
    world.come(100);
    assert!(world.lane.ask(at(100)).is_none(), "another one is under way");
    assert_eq!((ask.number, ask.want), (1, 1));
    world.lane.lease(&ledger.ask("me", &ask, stamp(100)), at(101));
    world.step(101);
    assert_eq!(world.lane.ask(at(101)).map(|ask| (ask.number, ask.heard, ask.want)), Some((2, 1, 1)));
}

#[test]
fn a_turn_given_back_in_time_is_there_for_the_next_and_one_that_lapsed_goes_back_to_a_quota() {
    let (mut world, mut ledger) = shared(&["10 per 1s"]);
    world.come(0);
    world.lease(&mut ledger, 0);
    let turn = world.turn(1);
    assert_eq!(turn.lapses(), at(50));
    world.lane.finish(turn, at(10));
    world.told.clear();
    world.come(20);
    world.told(&[Go(2)]);
    let turn = world.turn(2);
    world.lane.finish(turn, at(30));
    // Nobody comes until it has lapsed; after a while that is told although nothing is wanted.
    let next = world.step(30).unwrap();
    assert!(world.lane.ask(at(ms(next) - 1)).is_none());
    world.step(51);
    let next = world.step(51).map_or(0, ms);
    let ask = world.lane.ask(at(next)).unwrap();
    assert_eq!((ask.want, ask.returned.len()), (0, 1));
    let leased = ledger.ask("me", &ask, stamp(next));
    assert!((leased.fills[0].tokens - 10.0).abs() < f64::EPSILON);
}

#[test]
fn a_lane_that_waits_for_the_ledger_asks_when_that_is_worth_it_and_never_at_once_again() {
    let (mut world, mut ledger) = shared(&["1/s"]);
    (0..3).for_each(|_| _ = world.come(0));
    let (mut now, mut asks) = (0, 0);
    while now < 10_000 {
        asks += usize::from(world.lease(&mut ledger, now).is_some());
        let next = world.step(now).map_or(10_000, ms);
        assert!(next > now, "it is looked at later, not now");
        now = next;
        for (_, mut turn) in std::mem::take(&mut world.turns) {
            world.lane.written(&mut turn, at(now));
            world.lane.finish(turn, at(now));
        }
    }
    assert!(asks <= 4, "{asks} asks for three turns");
    assert_eq!(world.lane.snapshot(at(now)).waiting, 0);
}

#[test]
fn a_predicted_wait_is_what_is_in_hand_and_then_the_pace() {
    let (mut world, mut ledger) = shared(&["10/s"]);
    let foreseen = |world: &World, now| world.lane.foresee(Whose::Client(ClientId(1), 1), at(now)).as_millis();
    assert_eq!(foreseen(&world, 0), 0);
    (0..10).for_each(|_| _ = world.come_as(1, 0, None));
    world.lease(&mut ledger, 0);
    // One has gone; of the nine who wait two have turns in hand.
    let wait = foreseen(&world, 0);
    assert!((950..=1_060).contains(&wait), "{wait} ms behind nine others at ten a second");
    world.come_as(1, 0, Some(500));
    assert!(matches!(world.told.last(), Some(Refused(11, Refusal::WaitTooLong { cause: Cause::Limits, .. }))));
}

#[test]
fn a_quota_that_is_used_up_makes_newcomers_wait_until_it_is_not() {
    let (mut world, mut ledger) = shared(&["3 per 10s"]);
    (0..3).for_each(|_| _ = world.come(0));
    assert_eq!(world.run_with(&mut ledger, 0, 100).len(), 3);
    world.come_as(1, 1_000, Some(60_000));
    world.lease(&mut ledger, 1_000);
    let wait = world.lane.foresee(Whose::Newcomer, at(1_000)).as_millis();
    assert!((9_000..13_000).contains(&wait), "{wait} ms");
    let gone = world.run_with(&mut ledger, 1_000, 20_000);
    assert!(gone.len() == 1 && (10_000..10_300).contains(&gone[0].1), "{gone:?}");
}

#[test]
fn an_instance_that_is_cut_off_uses_what_it_has_then_its_share_and_tells_what_it_spent() {
    let (mut world, mut ledger) = shared(&["100/s burst 9", "500 per 1s"]);
    let four = Members { seen: 4, counted: 4 };
    let mut contact = Contact::new(OnStoreFailure::Share, GRACE, None, at(0));
    contact.answered(at(0), four, at(0));
    world.lane.set_contact(contact.mode(), four, at(0));
    (0..200).for_each(|_| _ = world.come_as(1, 0, None));
    let gone = world.run_with(&mut ledger, 0, 20);
    assert!((9..=11).contains(&gone.len()), "{gone:?}");
    contact.failed(at(20));
    world.lane.set_contact(contact.mode(), four, at(20));
    // What is in hand reaches to the horizon; then nothing leaves until the others know.
    let (mut in_hand, mut alone) = (0, 0);
    for now in 21..3_200 {
        contact.tick(at(now));
        world.lane.set_contact(contact.mode(), four, at(now));
        assert!(world.lane.ask(at(now)).is_none());
        let gone = world.run(now, now).len();
        assert!(gone == 0 || !(370..1_200).contains(&now), "{gone} at {now}");
        if now < 1_200 { in_hand += gone } else { alone += gone }
    }
    assert!((20..=30).contains(&in_hand) && (48..=52).contains(&alone), "{in_hand}, then {alone}");
    contact.answered(at(3_200), four, at(3_200));
    world.lane.set_contact(contact.mode(), four, at(3_200));
    let ask = world.lane.ask(at(3_200)).unwrap();
    assert_eq!(ask.spent, Some(alone as u64));
    // No second burst.
    let leased = ledger.ask("me", &ask, stamp(3_200));
    assert_eq!(leased.due.iter().filter(|due| **due == leased.at).count(), 1);
}

#[test]
fn one_that_is_to_refuse_without_a_ledger_refuses_newcomers_and_those_who_wait() {
    let (mut world, mut ledger) = shared(&["1/s"]);
    (0..2).for_each(|_| _ = world.come(0));
    world.lease(&mut ledger, 0);
    world.told.clear();
    let refuse = Mode::After { policy: OnStoreFailure::Refuse, share: 4 };
    world.lane.set_contact(refuse, Members::ONE, at(11_000));
    world.step(11_000);
    world.come(11_000);
    let cut_off = Refusal::CutOff { retry_after: 1 };
    world.told(&[Refused(2, cut_off), Refused(3, cut_off)]);
}

#[test]
fn a_hold_is_told_once_and_one_that_is_heard_is_not_told_again() {
    let (mut world, mut ledger) = shared(&["100/s"]);
    assert!(world.lane.hold_to_tell(at(0)).is_none());
    world.lane.hold(Duration::from_secs(2), at(0));
    let tell = world.lane.hold_to_tell(at(500)).unwrap();
    let by = HeldBy::Upstream;
    assert_eq!(tell.news, HoldNews::Held { remaining: Duration::from_millis(1_500), by });
    assert!(world.lane.hold_to_tell(at(500)).is_none());
    ledger.tell(&tell, stamp(500));
    // Who hears it late hears it with its first answer.
    let mut other = shared(&["100/s"]).0;
    other.come(1_000);
    other.lease(&mut ledger, 1_000);
    assert_eq!(other.lane.held_until().map(ms), Some(2_000));
    assert!(other.lane.hold_to_tell(at(1_000)).is_none());
    // The same once more is no other one: turns that are out stay as they are.
    let holds = other.lane.holds();
    other.lane.hear_hold(HoldNews::Held { remaining: Duration::from_millis(997), by }, at(1_002));
    assert_eq!(other.lane.holds(), holds);
    other.lane.hear_hold(HoldNews::Released, at(1_500));
    assert_eq!((other.lane.held_until(), other.lane.hold_to_tell(at(1_500)).is_none()), (None, true));
    world.lane.release(at(1_500));
    assert_eq!(world.lane.hold_to_tell(at(1_500)).map(|tell| tell.news), Some(HoldNews::Released));
}

#[test]
fn no_hold_that_others_tell_of_is_longer_than_max_hold() {
    let by = HeldBy::Upstream;
    for remaining in [Duration::from_micros(u64::MAX), Duration::MAX] {
        let mut world = shared(&["100/s"]).0;
        world.lane.hear_hold(HoldNews::Held { remaining, by }, at(1_000));
        assert_eq!(world.lane.held_until(), Some(at(3_601_000)));
    }
}

#[test]
fn limits_of_a_client_are_divided_by_all_who_count() {
    let limits = |limits: &[&str]| limits.iter().map(|limit| limit.parse().unwrap()).collect();
    let own = ClientLimits { client: ClientId(7), name: "seven".to_owned(), limits: limits(&["8 per 1min"]) };
    let mut world = with(LanePolicy { limits: limits(&["1000/s burst 100"]), clients: vec![own], ..exact() });
    let mut ledger = Ledger::default();
    world.lane.share(TIMEOUT, at(0));
    world.lane.set_contact(Mode::Shared, Members { seen: 3, counted: 4 }, at(0));
    (0..5).for_each(|_| _ = world.come_as(7, 0, None));
    assert_eq!(world.run_with(&mut ledger, 0, 1_000).len(), 2);
    world.lane.set_contact(Mode::Shared, Members { seen: 2, counted: 2 }, at(1_000));
    assert_eq!(world.run_with(&mut ledger, 1_000, 2_000).len(), 2);
}

#[test]
fn a_quota_of_a_day_is_asked_for_when_the_day_there_is_known() {
    let (mut world, mut ledger) = shared(&["5 per day at 00:00 UTC"]);
    (0..7).for_each(|_| _ = world.come_as(1, 0, None));
    let first = world.lane.ask(at(0)).unwrap();
    assert_eq!(first.want, 0);
    world.lane.lease(&ledger.ask("me", &first, stamp(0)), at(0));
    assert_eq!(world.run_with(&mut ledger, 0, 1_000).len(), 5);
    // 1,780,000,000 s after 1970 it is 20:26:40 UTC.
    let midnight = (3 * 3_600 + 33 * 60 + 20) * 1_000;
    let gone = world.run_with(&mut ledger, 1_000, midnight + 60_000);
    assert!(gone.len() == 2 && (midnight..midnight + 1_000).contains(&gone[0].1), "{gone:?}");
}

#[test]
fn a_lane_without_limits_lets_go_whatever_becomes_of_the_ledger_and_tells_of_holds() {
    let (mut world, _) = shared(&[]);
    let refuse = Mode::After { policy: OnStoreFailure::Refuse, share: 1 };
    for mode in [Mode::Shared, Mode::Silent, Mode::Alone { share: 3 }, Mode::Shared] {
        world.lane.set_contact(mode, Members::ONE, at(0));
        let name = world.come(0);
        assert_eq!(world.run(0, 0), [(name, 0)], "{mode:?}");
        assert!(world.lane.ask(at(0)).is_none());
    }
    world.lane.hold(Duration::from_secs(1), at(0));
    assert!(world.lane.hold_to_tell(at(0)).is_some());
    world.lane.set_contact(refuse, Members::ONE, at(2_000));
    world.told.clear();
    let name = world.come(2_000);
    world.told(&[Refused(name, Refusal::CutOff { retry_after: 1 })]);
}

#[test]
fn a_turn_that_is_under_way_while_the_ledger_is_lost_twice_holds_its_tokens_until_it_is_settled() {
    for is_written in [true, false] {
        let (mut world, _) = shared(&["10/s burst 6"]);
        let alone = Mode::Alone { share: 2 };
        world.lane.set_contact(alone, Members::ONE, at(0));
        world.come(0);
        world.step(0);
        let mut turn = world.turn(1);
        world.lane.set_contact(Mode::Shared, Members::ONE, at(1_000));
        world.lane.set_contact(alone, Members::ONE, at(3_000));
        // Of the three that it may hold one is there at first, and taken.
        world.come(3_000);
        world.told.clear();
        world.step(3_000);
        world.told(&[]);
        if is_written {
            world.lane.written(&mut turn, at(3_010));
        }
        world.lane.finish(turn, at(3_010));
        let gone = world.run(3_010, 4_000);
        assert_eq!(gone, [(2, if is_written { 3_200 } else { 3_010 })]);
    }
}

#[test]
fn what_is_given_back_at_the_end_is_given_back_once() {
    let (mut world, mut ledger) = shared(&["10 per 1h"]);
    (0..2).for_each(|_| _ = world.come(0));
    world.lease(&mut ledger, 0);
    world.write(1, 0);
    let turn = world.turn(2);
    world.lane.finish(turn, at(10));
    world.step(51);
    let next = world.step(51).map_or(0, ms);
    let under_way = world.lane.ask(at(next)).unwrap();
    assert_eq!(under_way.returned.len(), 1);
    // It ends before that is answered.
    let last = world.lane.take_back(at(next + 1)).unwrap();
    assert!(last.returned.is_empty(), "{:?} is told already", last.returned);
    let fills = [under_way, last].map(|ask| ledger.ask("me", &ask, stamp(next + 1)).fills);
    assert!(fills.iter().all(|fills| (fills[0].tokens - 9.0).abs() < f64::EPSILON), "{fills:?}");
}

#[test]
fn what_was_leased_and_never_heard_of_is_given_back_at_the_end() {
    let (mut world, mut ledger) = shared(&["10 per 1h"]);
    (0..3).for_each(|_| _ = world.come(0));
    let under_way = world.lane.ask(at(0)).unwrap();
    assert_eq!(under_way.want, 3);
    let last = world.lane.take_back(at(1)).expect("the ledger may have heard the one before");
    assert_eq!(ledger.ask("me", &under_way, stamp(1)).due.len(), 3);
    let fills = ledger.ask("me", &last, stamp(1)).fills;
    assert!((fills[0].tokens - 10.0).abs() < f64::EPSILON, "{fills:?}");
}

#[test]
fn what_was_spent_of_a_day_alone_is_told_when_the_day_there_is_known() {
    let mut world = world(&["5 per day at 00:00 UTC"]);
    let mut ledger = Ledger::default();
    world.lane.share(TIMEOUT, at(0));
    world.lane.set_contact(Mode::Alone { share: 1 }, Members::ONE, at(500));
    world.lane.set_calendar(at(500), SystemTime::UNIX_EPOCH + Duration::from_micros(EPOCH));
    (0..3).for_each(|_| _ = world.come_as(1, 500, None));
    assert_eq!(world.run(500, 600).len(), 3);
    // The ledger is heard of for the first time.
    world.lane.set_contact(Mode::Shared, Members::ONE, at(1_000));
    (0..7).for_each(|_| _ = world.come_as(1, 1_000, None));
    let gone = world.run_with(&mut ledger, 1_000, 5_000);
    assert_eq!(gone.len(), 2, "{gone:?}");
}
