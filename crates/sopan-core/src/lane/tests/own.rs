//! Clients with limits of their own.

use super::*;
use crate::journal::Ledger;
use crate::policy::ClientLimits;
use crate::queue::LineOf;

/// A lane in which client 1 has limits of its own.
fn limited(limits: &[&str], own: &[&str]) -> World {
    let parse = |limits: &[&str]| limits.iter().map(|l| l.parse().unwrap()).collect();
    let clients = vec![ClientLimits { client: ClientId(1), name: "etl".to_owned(), limits: parse(own) }];
    with(LanePolicy { limits: parse(limits), clients, ..exact() })
}

impl World {
    fn come_all(&mut self, client: u128, count: usize, now: u64) {
        (0..count).for_each(|_| _ = self.come_as(client, now, None));
    }
}

/// When those of client 1 go that come all at once.
#[track_caller]
fn check(limits: &[&str], own: &[&str], expected: &[u64]) {
    let mut world = limited(limits, own);
    world.come_all(1, expected.len(), 0);
    let went: Vec<_> = world.run(0, 10_000).into_iter().map(|(_, at)| at).collect();
    assert_eq!(went, expected, "{own:?} within {limits:?}");
    assert!(!world.lane.is_reserved());
}

#[test]
fn a_client_takes_its_own_limits_and_the_lanes_together() {
    check(&["10/s"], &["2/s"], &[0, 500, 1000, 1500]);
    check(&["10/s"], &["2/s burst 3"], &[0, 100, 200, 500, 1000]);
    check(&["10/s burst 5"], &["3 per 1s"], &[0, 0, 0, 1005, 1005, 1005]);
    check(&[], &["4/s", "3 per 2s"], &[0, 250, 500, 2010, 2260]);
    check(&["2/s"], &["10/s"], &[0, 500, 1000]);
    check(&["3 per 1s"], &["1 per 500ms", "10/s"], &[0, 503, 1006, 1509]);
    check(&["10/s"], &[], &[0, 100, 200]);
}

#[test]
fn nobody_waits_for_a_client_at_its_own_limit_and_it_does_not_catch_up() {
    let mut world = limited(&["10/s"], &["2/s"]);
    world.come_all(1, 4, 0);
    world.come_all(2, 16, 0);
    let went = world.run(0, 3_000);
    let of_1: Vec<_> = went.iter().filter(|(name, _)| *name <= 4).copied().collect();
    assert_eq!(of_1, [(1, 0), (2, 500), (3, 1000), (4, 1500)]);
    let times: Vec<_> = went.iter().map(|(_, at)| *at).collect();
    assert_eq!(times, (0..20).map(|i| i * 100).collect::<Vec<_>>(), "the lane is used whole: {went:?}");

    // Waiting for its own limits makes no turn late for the lane.
    let mut world = limited(&["10/s"], &["2/s"]);
    world.come_all(1, 2, 0);
    assert_eq!(world.run(0, 500), [(1, 0), (2, 500)]);
    world.come_as(2, 500, None);
    assert_eq!(world.run(500, 1_000), [(3, 600)]);

    // One that was kept back for long has no more than its share afterwards.
    let mut world = limited(&["10/s"], &["10 per 2s"]);
    world.come_all(1, 30, 0);
    world.run(0, 1_990);
    world.come_all(2, 10, 1_990);
    let went = world.run(1_990, 3_050);
    let of_1 = went.iter().filter(|(name, _)| *name <= 30).count();
    assert!(of_1.abs_diff(went.len() - of_1) <= 1, "{went:?}");
}

#[test]
fn a_newcomer_goes_at_once_past_those_who_wait_for_their_own_limits_only() {
    let mut world = limited(&["10/s"], &["1/s"]);
    world.come_all(1, 3, 0);
    world.succeed(1, 0);
    world.slow = true;
    world.step(150);
    // It never stood in the line, where it would have been told to get a connection first.
    world.told(&[Go(1), Prepare(2)]);
    world.come_as(2, 150, None);
    world.told(&[Go(4)]);
    world.slow = false;
    world.ready(2, 150);
    world.succeed(4, 150);
    assert_eq!(world.run(150, 3_000), [(2, 1000), (3, 2000)]);
    // Its own client's never does, whatever it costs.
    world.come_all(1, 2, 3_000);
    world.succeed(5, 3_000);
    world.told(&[Go(2), Go(3), Go(5)]);
    world.leave(6, 3_000);
    world.come_all(1, 1, 4_500);
    world.told(&[Go(7)]);
}

#[test]
fn what_is_not_written_costs_neither() {
    let mut world = limited(&["100 per 1h"], &["2 per 1h"]);
    world.come_all(1, 4, 0);
    world.told(&[Go(1), Go(2)]);
    assert!(world.lane.is_reserved());
    assert_eq!(world.step(100), None, "nothing that time brings: two hold all there is");
    let turn = world.turn(1);
    world.lane.finish(turn, at(200));
    world.step(200);
    world.told(&[Go(3)]);
    let turn = world.turn(2);
    world.lane.unconnected(Some(turn), at(300));
    world.write(3, 400);
    // Whoever could not connect is in nobody's way for long.
    world.step(1_400);
    world.told(&[Go(4)]);
    world.write(4, 1_400);
    assert_eq!(world.lane.snapshot(at(1_400)).fills[0].tokens, 98.0);
    world.come_all(1, 1, 2_000);
    world.told(&[]);
    assert_eq!(world.run(2_000, 3_700_000)[2..], [(5, 3_600_500)]);
}

#[test]
fn a_newcomer_is_told_the_longer_of_its_own_wait_and_the_lanes() {
    let wait_too_long = |predicted, allowed, cause, retry_after| Refusal::WaitTooLong {
        predicted: Duration::from_millis(predicted),
        allowed: Duration::from_millis(allowed),
        cause,
        retry_after,
    };
    let mut world = limited(&["10/s"], &["1/s"]);
    world.come_all(1, 4, 0);
    world.succeed(1, 0);
    world.told(&[Go(1)]);
    // Behind three of its own: the fourth second is its turn.
    world.come_as(1, 0, Some(1_500));
    world.told(&[Refused(5, wait_too_long(4_000, 1_500, Cause::Own, 3))]);
    // Others wait for the lane only, of which the three take little.
    world.come_all(2, 30, 0);
    world.told(&[]);
    world.come_as(3, 0, Some(200));
    world.told(&[]);
    world.come_as(2, 0, Some(1_000));
    let Some(Refused(_, Refusal::WaitTooLong { predicted, cause: Cause::Limits, .. })) = world.told.pop() else {
        panic!("{:?}", world.told)
    };
    assert_eq!(
        predicted.as_millis(),
        3_500,
        "behind 31 others, and 3 of client 1 that its own limits let go until then"
    );
    // And where the lane is the slower one, its own limits change nothing.
    let mut world = limited(&["1/s"], &["10/s"]);
    world.come_all(1, 3, 0);
    world.come_as(1, 0, Some(1_500));
    world.told(&[Go(1), Refused(4, wait_too_long(3_000, 1_500, Cause::Limits, 2))]);
}

#[test]
fn a_long_line_of_a_limited_client_makes_nobody_refused() {
    let mut world = limited(&["10/s"], &["1 per 10s"]);
    world.come_all(1, 200, 0);
    world.succeed(1, 0);
    // The first of client 2 waits for a token and no more, the tenth for ten.
    for i in 1..=10 {
        world.come_as(2, 0, Some(i * 100 + 1));
    }
    world.told(&[Go(1)]);
    let went: Vec<_> = world.run(0, 1_000).into_iter().map(|(_, at)| at).collect();
    assert_eq!(went, (1..=10).map(|i| i * 100).collect::<Vec<_>>());
}

#[test]
fn holds_are_the_lanes_alone() {
    let mut world = limited(&["10/s"], &["1/s"]);
    world.come_all(1, 3, 0);
    world.come_all(2, 3, 0);
    world.answer(1, 0, Health::Neither, Some(2_000));
    // Its own limits let one go meanwhile, and count from when it went.
    assert_eq!(world.run(0, 5_000), [(2, 2000), (4, 2100), (5, 2200), (6, 2300), (3, 3000)]);
}

#[test]
fn tickets_of_a_limited_client_are_called_before_their_own_turn() {
    let mut world = limited(&["1000/s"], &["1 per 10s"]);
    world.slow = true;
    world.come_all(1, 3, 0);
    world.succeed(1, 0);
    world.told(&[Go(1)]);
    assert_eq!(world.run(0, 9_000), []);
    world.told(&[]);
    world.step(9_051);
    world.told(&[Prepare(2)]);
    world.ready(2, 9_100);
    let id = world.id(2);
    assert_eq!((world.lane.first(), world.lane.due(id, at(9_100)).map(ms)), (Some(id), Some(10_050)));
    assert_eq!(world.run(9_100, 15_000), [(2, 10_050)]);
    // Only the one whose turn was near, and not the next one, for which the lane alone would have had a token.
    world.told(&[Go(2)]);
}

#[test]
fn what_a_client_used_of_its_own_quotas_outlives_the_process() {
    let own = ["100/s burst 9", "5 per 1h", "9 per day at 00:00 UTC"];
    let noon = std::time::UNIX_EPOCH + Duration::from_secs(1_792_584_000);
    let start = |ledger: &Ledger| {
        let mut world = limited(&["60 per 1h"], &own);
        world.lane.set_calendar(at(0), noon);
        world.lane.restore(&ledger.notes(0), at(0));
        world
    };
    let mut ledger = Ledger::default();
    let mut world = start(&ledger);
    assert_eq!(
        world.lane.kept(),
        ["60 per 1h", "etl: 5 per 1h", "etl: 9 per day at 00:00 UTC"].map(str::to_owned).into()
    );
    world.come_all(1, 3, 0);
    world.come_all(2, 1, 0);
    let mut notes = Vec::new();
    world.lane.journal(at(0), &mut notes);
    notes.drain(..).for_each(|note| ledger.add(note, 0));
    // The process is killed, and what had a turn counts as gone.
    let mut world = start(&ledger);
    world.come_all(1, 3, 0);
    world.told(&[Go(1), Go(2)]);
    world.lane.whole_journal(at(0), &mut notes);
    notes.drain(..).for_each(|note| ledger.add(note, 0));
    assert_eq!(ledger.keep_only(&["60 per 1h".to_owned()].into()).len(), 2, "those of clients that are gone");
}

#[test]
fn a_client_that_waits_for_another_day_of_its_own_is_woken_when_that_opens() {
    let noon = std::time::UNIX_EPOCH + Duration::from_secs(1_792_584_000);
    let mut world = limited(&["10/s"], &["1 per day at 12:01 UTC"]);
    assert_eq!(world.lane.calendar_due(), Instant::ORIGIN);
    world.lane.set_calendar(at(0), noon);
    world.come_all(1, 2, 0);
    world.succeed(1, 0);
    world.told(&[Go(1)]);
    // Half a minute in, the clock on the wall is set to a few seconds before the boundary.
    let asked = world.step(30_000).unwrap();
    assert!(asked <= world.lane.calendar_due(), "it asks to be told the calendar: {asked:?}");
    world.lane.set_calendar(at(30_000), noon + Duration::from_secs(55));
    assert_eq!(world.step(30_000).map(ms), Some(34_100), "a second before the day opens it is called");
    world.lane.set_calendar(at(35_000), noon + Duration::from_secs(60));
    assert_eq!(world.run(35_000, 36_000), [(2, 35_100)]);
}

#[test]
fn who_is_kept_back_by_its_own_limits_is_told_of_like_all_who_wait() {
    let mut world = limited(&["10/s"], &["1/s"]);
    world.come_all(1, 4, 0);
    world.come_all(2, 3, 0);
    // Client 1 is set aside once its first has gone.
    assert_eq!(world.run(0, 100), [(1, 0), (5, 100)]);
    let outlook = world.lane.outlook(2, at(100));
    let line = |client, waiting| LineOf { client: ClientId(client), weight: 1, waiting };
    assert_eq!((outlook.lines, outlook.clients_waiting), (vec![line(1, 3), line(2, 2)], 2));
    // And when nobody else waits.
    assert_eq!(world.run(100, 300), [(6, 200), (7, 300)]);
    let outlook = world.lane.outlook(2, at(300));
    assert_eq!((outlook.lines, outlook.clients_waiting), (vec![line(1, 3)], 1));
    assert_eq!(world.lane.snapshot(at(300)).waiting, 3);
}
