//! What is done by hand, and what is told of what will be.

use super::*;
use crate::journal::Note;
use crate::queue::LineOf;

const MINUTE: Duration = Duration::from_secs(60);
/// One that nobody is refused for.
const SHORT: Duration = Duration::from_secs(20);

#[test]
fn a_hold_by_hand_is_a_hold_and_is_bounded_like_one() {
    let mut world = with(LanePolicy { max_hold: Duration::from_secs(10), ..exact() });
    assert_eq!(world.lane.hold_by_hand(Duration::from_secs(5), at(0)), at(5_000));
    assert_eq!(world.lane.hold_by_hand(MINUTE, at(1_000)), at(11_000));
    // An earlier end does not shorten it, and it stays whose it is.
    assert_eq!(world.lane.hold_by_hand(Duration::from_secs(1), at(2_000)), at(11_000));
    world.lane.hold(Duration::from_secs(1), at(2_000));
    assert_eq!(world.lane.outlook(0, at(2_000)).held_by, HeldBy::Operator);
    world.lane.hold(Duration::from_secs(10), at(2_000));
    assert_eq!(world.lane.outlook(0, at(2_000)).held_by, HeldBy::Upstream);
    world.come(3_000);
    world.come(3_000);
    world.told(&[]);
    assert_eq!(world.run(3_000, 13_000), [(1, 12_000), (2, 12_100)]);
}

#[test]
fn a_released_lane_lets_one_go_at_once_and_the_others_follow_evenly() {
    let mut world = world(&["10/s burst 20"]);
    assert!(!world.lane.release(at(0)));
    world.lane.hold(SHORT, at(0));
    (0..3).for_each(|_| _ = world.come(0));
    assert_eq!(world.run(0, 5_000), []);
    assert!(world.lane.release(at(5_050)));
    assert_eq!(world.run(5_050, 6_000), [(1, 5_050), (2, 5_150), (3, 5_250)]);
    // One that is over is none.
    world.lane.hold(Duration::from_secs(1), at(10_000));
    assert!(!world.lane.release(at(11_000)));
    // As long as they were, and not as long as they were to be.
    assert_eq!(world.lane.held(), Duration::from_millis(5_050 + 1_000));
    world.lane.hold(Duration::from_secs(1), at(12_000));
    world.lane.hold(Duration::from_secs(1), at(12_400));
    world.lane.prolong_hold(Duration::from_secs(1), at(12_500));
    assert_eq!(world.lane.held(), Duration::from_millis(6_050 + 1_500));
}

#[test]
fn holding_and_releasing_again_and_again_lets_no_more_leave_than_the_rate() {
    let mut world = world(&["10/s burst 5"]);
    (0..100).for_each(|_| _ = world.come(0));
    let mut went = world.run(0, 0);
    for now in (0..2_000).step_by(20) {
        world.lane.hold_by_hand(SHORT, at(now));
        world.lane.release(at(now));
        went.extend(world.run(now, now + 19));
    }
    let expected: Vec<_> = (1..=5).map(|name| (name, 0)).chain((6..=24).map(|name| (name, (name - 5) * 100))).collect();
    assert_eq!(went, expected);
}

#[test]
fn without_a_rate_a_released_lane_restarts_by_rounds() {
    let mut world = world(&[]);
    world.lane.hold_by_hand(SHORT, at(0));
    (0..4).for_each(|_| _ = world.come(0));
    assert!(world.lane.release(at(1_000)));
    world.step(1_000);
    world.told(&[Go(1)]);
    world.succeed(1, 1_100);
    world.told(&[Go(2), Go(3)]);
}

#[test]
fn a_hold_that_was_ended_early_does_not_come_back_with_the_process() {
    let mut world = world(&["10/s"]);
    let mut notes = Vec::new();
    let mut told = |world: &mut World, now| {
        world.step(now);
        world.lane.journal(at(now), &mut notes);
        std::mem::take(&mut notes)
    };
    world.lane.restore(&[], at(0));
    world.lane.hold_by_hand(MINUTE, at(0));
    assert_eq!(told(&mut world, 0), [Note::Hold { left: MINUTE }]);
    world.lane.release(at(1_000));
    assert_eq!(told(&mut world, 1_000), [Note::Hold { left: Duration::ZERO }]);
    assert_eq!(told(&mut world, 1_000), []);
    // One that ends by itself needs no note.
    world.lane.hold(Duration::from_secs(1), at(2_000));
    assert_eq!(told(&mut world, 2_000).len(), 1);
    assert_eq!(told(&mut world, 3_000), []);
}

#[test]
fn a_breaker_that_is_opened_by_hand_refuses_and_probes_like_any_other() {
    let mut world = world(&["10/s burst 20"]);
    assert_eq!(world.lane.open_breaker(None, at(0)), Ok(at(2_000)));
    assert_eq!(world.lane.open_breaker(Some(MINUTE), at(0)), Ok(at(60_000)));
    assert_eq!(world.lane.outlook(0, at(10_000)).half_open_in, Some(Duration::from_secs(50)));
    world.come(10_000);
    world.told(&[Refused(1, Refusal::BreakerOpen { retry_after: 50 })]);
    assert_eq!(world.lane.close_breaker(at(20_000)), Ok(()));
    world.come(20_000);
    world.told(&[Go(2)]);
    world.succeed(2, 20_000);
    // Left alone it is half-open at its end.
    world.lane.open_breaker(Some(Duration::from_secs(1)), at(30_000)).unwrap();
    world.come(31_000);
    world.come(31_000);
    world.told(&[Go(3), Refused(4, Refusal::BreakerOpen { retry_after: 1 })]);

    let off = Breaker::new(BreakerPolicy { on: false, ..BreakerPolicy::default() });
    let mut without = Lane::new(exact(), off, Budget::new(false));
    assert_eq!(without.open_breaker(None, at(0)), Err(NoBreaker));
    assert_eq!(without.close_breaker(at(0)), Err(NoBreaker));
    let outlook = without.outlook(0, at(0));
    assert_eq!((outlook.has_breaker, outlook.half_open_in), (false, None));
    assert_eq!(without.snapshot(at(0)).retries_left, None);
}

#[test]
fn a_breaker_that_was_opened_by_hand_stays_open_as_long_in_the_next_process() {
    let mut world = world(&["10/s"]);
    let mut notes = Vec::new();
    world.lane.restore(&[], at(0));
    world.lane.open_breaker(Some(MINUTE), at(0)).unwrap();
    world.step(0);
    world.lane.journal(at(0), &mut notes);
    assert_eq!(notes, [Note::Breaker { open_for: Some(MINUTE) }]);
    let half_open_in = |notes: &[Note]| {
        let mut next = self::world(&["10/s"]);
        next.lane.restore(notes, at(0));
        next.lane.outlook(0, at(0)).half_open_in
    };
    assert_eq!(half_open_in(&notes), Some(MINUTE));
    // But no longer than it can have been opened for.
    let longer = [Note::Breaker { open_for: Some(Duration::from_secs(86_400)) }];
    assert_eq!(half_open_in(&longer), Some(Duration::from_secs(3_600)));
}

#[test]
fn the_outlook_tells_who_waits_and_how_long_one_more_would() {
    let mut world = world(&["1/s", "1000 per 1h"]);
    let resting = world.lane.outlook(2, at(0));
    assert_eq!((resting.wait, resting.used_per_s, resting.lasts), (Duration::ZERO, 0.0, None));
    assert_eq!((resting.waiting_max, resting.waiting_bytes_max), (1000, 64 << 20));
    assert_eq!(world.lane.snapshot(at(0)).retries_left, Some(100));
    // One goes; of 7 others two are of client 2, and one of client 3.
    for client in [1, 1, 2, 1, 3, 1, 2, 1] {
        world.come_as(client, 0, None);
    }
    world.succeed(1, 0);
    let outlook = world.lane.outlook(2, at(0));
    let line = |client, waiting| LineOf { client: ClientId(client), weight: 1, waiting };
    assert_eq!(outlook.lines, [line(1, 4), line(2, 2)]);
    assert_eq!(outlook.clients_waiting, 3);
    // By the fair order, a newcomer goes behind the first tickets of the others, and client 1 behind all.
    let wait = |whose| world.lane.foresee(whose, at(0)).as_secs_f64().round();
    assert_eq!(wait(Whose::Newcomer), outlook.wait.as_secs_f64().round());
    assert!(wait(Whose::Newcomer) < wait(Whose::Client(ClientId(2), 1)));
    assert_eq!(wait(Whose::Client(ClientId(1), 1)), 8.0);
    // One was sent; at one in ten seconds 999 of a thousand an hour never end.
    assert!((outlook.used_per_s - 0.1).abs() < f64::EPSILON && outlook.lasts.is_none());
    assert_eq!(outlook.full_in[0], Duration::from_secs(1));
}
