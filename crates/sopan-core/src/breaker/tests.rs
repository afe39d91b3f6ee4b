use std::time::Duration;

use http::StatusCode;
use proptest::prelude::*;

use super::Health::{Failure, Neither, Success};
use super::*;

fn at(millis: u64) -> Instant {
    Instant::ORIGIN.after(Duration::from_millis(millis))
}

/// Three failures in a row trip it at once; open for two seconds.
fn quick() -> BreakerPolicy {
    BreakerPolicy {
        failures: 3,
        min_span: Duration::ZERO,
        open_for: Duration::from_secs(2),
        ..BreakerPolicy::default()
    }
}

/// One attempt from permit to outcome.
#[track_caller]
fn attempt(breaker: &mut Breaker, millis: u64, health: Health) -> Option<Change> {
    let permit = breaker.permit(at(millis)).expect("a permit");
    breaker.record(permit, health, at(millis))
}

/// A quick breaker that tripped at the instant 0, with so many probes.
fn tripped(probes: u32) -> Breaker {
    let mut breaker = Breaker::new(BreakerPolicy { probes, ..quick() });
    for _ in 0..3 {
        attempt(&mut breaker, 0, Failure);
    }
    assert_eq!(breaker.state(at(0)), State::Open { until: at(2000) });
    breaker
}

/// `outcomes` in turn, for ever, one every `gap` milliseconds: which attempt, from 1, trips the default breaker within a
/// minute.
#[track_caller]
fn check(outcomes: &[Health], gap: u64, expected: Option<u64>) {
    check_policy(BreakerPolicy::default(), outcomes, gap, expected);
}

#[track_caller]
fn check_policy(policy: BreakerPolicy, outcomes: &[Health], gap: u64, expected: Option<u64>) {
    let mut breaker = Breaker::new(policy);
    let mut turns = (1_u64..).zip(outcomes.iter().cycle()).take_while(|(number, _)| number * gap <= 60_000);
    let trip = turns.find(|(number, health)| attempt(&mut breaker, 1000 + number * gap, **health).is_some());
    assert_eq!(trip.map(|(number, _)| number), expected, "{outcomes:?} every {gap} ms");
}

#[test]
fn ten_failures_in_a_row_trip_it_once_they_span_five_seconds() {
    check(&[Failure], 556, Some(10));
    check(&[Failure], 1000, Some(10));
    check(&[Failure], 6000, Some(10));
    // Faster ones are only an outage when they have lasted.
    check(&[Failure], 500, Some(11));
    check(&[Failure], 100, Some(51));
    check(&[Failure], 10, Some(501));
}

#[test]
fn the_retries_of_one_request_do_not_trip_it() {
    // Twelve requests at once with three retries each, by the default backoff.
    let mut breaker = Breaker::new(BreakerPolicy::default());
    for millis in [0, 500, 1500, 3500] {
        for _ in 0..12 {
            assert_eq!(attempt(&mut breaker, millis, Failure), None, "{millis} ms");
        }
    }
}

#[test]
fn a_success_ends_the_row() {
    let nine_of_ten = [&[Failure; 9][..], &[Success]].concat();
    let policy = BreakerPolicy { share: 1.0, ..BreakerPolicy::default() };
    check_policy(policy, &nine_of_ten, 1000, None);
    let breaker = &mut Breaker::new(quick());
    for (millis, health) in (0..).zip([Failure, Failure, Success, Failure, Failure]) {
        assert_eq!(attempt(breaker, millis, health), None);
    }
    assert_eq!(attempt(breaker, 9, Failure), Some(Change::Tripped { until: at(2009) }));
}

#[test]
fn half_of_at_least_twenty_trips_it_once_the_failures_span_five_seconds() {
    check(&[Success, Failure], 400, Some(20));
    check(&[Failure, Success], 400, Some(20));
    // The failures are a second apart at most, so the first of them is five seconds before the last at number 52.
    check(&[Success, Failure], 100, Some(52));
    check(&[Success, Failure, Failure], 400, Some(20));
    check(&[Success, Success, Failure], 100, None);
}

#[test]
fn fewer_than_twenty_in_the_window_are_no_share() {
    check(&[Success, Failure], 600, None);
    check_policy(BreakerPolicy { attempts_min: 10, ..BreakerPolicy::default() }, &[Success, Failure], 600, Some(12));
}

#[test]
fn what_is_older_than_the_window_does_not_count() {
    let mut breaker = Breaker::new(BreakerPolicy::default());
    for number in 0..9 {
        attempt(&mut breaker, number * 600, Failure);
    }
    for number in 0..10 {
        assert_eq!(attempt(&mut breaker, 5000 + number, Success), None);
    }
    // With the nine from the first five seconds this would be 11 of 21.
    assert_eq!(attempt(&mut breaker, 15_100, Failure), None);
    assert_eq!(attempt(&mut breaker, 15_200, Failure), None);
}

#[test]
fn other_shares_and_windows_can_be_asked_for() {
    let policy = BreakerPolicy { share: 0.25, ..BreakerPolicy::default() };
    check_policy(policy.clone(), &[Success, Success, Success, Failure], 320, Some(20));
    check_policy(policy, &[Success, Success, Success, Success, Failure], 320, None);
    let minute = BreakerPolicy { window: Duration::from_secs(60), ..BreakerPolicy::default() };
    check_policy(minute, &[Success, Failure], 2500, Some(20));
}

#[test]
fn without_a_least_span_it_trips_at_the_very_failure() {
    let breaker = &mut Breaker::new(quick());
    assert_eq!(attempt(breaker, 7, Failure), None);
    assert_eq!(attempt(breaker, 7, Failure), None);
    assert_eq!(attempt(breaker, 7, Failure), Some(Change::Tripped { until: at(2007) }));
}

#[test]
fn client_errors_do_not_open_it_for_everybody() {
    let breaker = &mut Breaker::new(quick());
    for (number, status) in (0..30).zip([400, 401, 404, 409, 422, 429].into_iter().cycle()) {
        let outcome = Outcome::Answered { status: StatusCode::from_u16(status).unwrap(), retry_after: None };
        assert_eq!(attempt(breaker, number, Health::of(&outcome)), None);
    }
    assert_eq!(breaker.state(at(30)), State::Closed);
}

#[test]
fn clients_that_give_up_do_not_open_it() {
    let breaker = &mut Breaker::new(quick());
    (0..30).for_each(|number| assert_eq!(attempt(breaker, number, Neither), None));
    assert_eq!(breaker.state(at(30)), State::Closed);
    // Nor do they end a row of failures.
    for health in [Failure, Neither, Failure, Neither] {
        assert_eq!(attempt(breaker, 30, health), None);
    }
    assert!(attempt(breaker, 30, Failure).is_some());
}

#[test]
fn open_nobody_is_let_through_until_it_is_half_open() {
    let mut breaker = tripped(1);
    for millis in [0, 1, 1999] {
        assert_eq!(breaker.permit(at(millis)), Err(Refused { until: Some(at(2000)) }));
        assert_eq!(breaker.state(at(millis)), State::Open { until: at(2000) });
    }
    assert_eq!(breaker.state(at(2000)), State::HalfOpen { free: 1 });
    assert!(breaker.permit(at(2000)).expect("a probe").is_probe());
    assert_eq!(breaker.state(at(2000)), State::HalfOpen { free: 0 });
}

#[test]
fn of_forty_clients_that_come_when_it_is_half_open_one_is_let_through() {
    let mut breaker = tripped(1);
    let permits: Vec<_> = (0..40).map(|_| breaker.permit(at(2100))).collect();
    let probe = permits[0].expect("the probe");
    assert!(permits[1..].iter().all(|permit| *permit == Err(Refused { until: None })));
    assert_eq!(breaker.record(probe, Success, at(3100)), Some(Change::Reset));
    assert_eq!(breaker.state(at(3100)), State::Closed);
    assert!((0..40).all(|_| breaker.permit(at(3200)).is_ok_and(|permit| !permit.is_probe())));
}

#[test]
fn after_a_reset_counting_begins_anew() {
    let mut breaker = tripped(1);
    attempt(&mut breaker, 2000, Success);
    assert_eq!(attempt(&mut breaker, 2001, Failure), None);
    assert_eq!(attempt(&mut breaker, 2002, Failure), None);
    assert_eq!(breaker.trips(), 1);
    assert!(attempt(&mut breaker, 2003, Failure).is_some());
    assert_eq!(breaker.trips(), 2);
}

#[test]
fn a_probe_that_fails_opens_it_again() {
    let mut breaker = tripped(1);
    assert_eq!(attempt(&mut breaker, 2500, Failure), Some(Change::Reopened { until: at(4500) }));
    assert_eq!(breaker.permit(at(4499)), Err(Refused { until: Some(at(4500)) }));
    assert_eq!(attempt(&mut breaker, 4500, Success), Some(Change::Reset));
    assert_eq!(breaker.trips(), 1, "one outage, however long");
}

#[test]
fn a_probe_that_finds_out_nothing_makes_room_for_another() {
    let mut breaker = tripped(1);
    assert_eq!(attempt(&mut breaker, 2000, Neither), None);
    let probe = breaker.permit(at(2001)).expect("a probe");
    breaker.give_back(probe);
    assert_eq!(breaker.state(at(2001)), State::HalfOpen { free: 1 });
    assert_eq!(attempt(&mut breaker, 2002, Success), Some(Change::Reset));
}

#[test]
fn several_probes_can_be_out_and_the_first_outcome_decides() {
    let mut breaker = tripped(3);
    let probes = [(); 3].map(|()| breaker.permit(at(2000)).expect("a probe"));
    assert_eq!(breaker.permit(at(2000)), Err(Refused { until: None }));
    breaker.give_back(probes[1]);
    assert_eq!(breaker.record(probes[0], Failure, at(2100)), Some(Change::Reopened { until: at(4100) }));
    assert_eq!(breaker.record(probes[2], Success, at(2200)), None);
    assert_eq!(breaker.state(at(2200)), State::Open { until: at(4100) });
}

#[test]
fn what_was_sent_while_closed_moves_nothing_later() {
    let mut breaker = Breaker::new(quick());
    let early = breaker.permit(at(0)).expect("closed");
    for _ in 0..3 {
        attempt(&mut breaker, 0, Failure);
    }
    // Open: a late success does not close it, a late failure does not lengthen it.
    for health in [Success, Failure, Neither] {
        assert_eq!(breaker.record(early, health, at(100)), None);
    }
    // Half-open: it neither decides nor makes room.
    let probe = breaker.permit(at(2000)).expect("a probe");
    for health in [Success, Failure, Neither] {
        assert_eq!(breaker.record(early, health, at(2001)), None);
    }
    breaker.give_back(early);
    assert_eq!(breaker.state(at(2002)), State::HalfOpen { free: 0 });
    // Closed again: it is not counted.
    breaker.record(probe, Success, at(2003));
    for _ in 0..9 {
        assert_eq!(breaker.record(early, Failure, at(2004)), None);
        assert_eq!(breaker.record_cut(early, at(2004)), None);
    }
    assert_eq!(breaker.state(at(2005)), State::Closed);
}

#[test]
fn a_probe_of_an_earlier_period_neither_decides_nor_makes_room() {
    let mut breaker = tripped(2);
    let (decisive, slow) = (breaker.permit(at(2000)).unwrap(), breaker.permit(at(2000)).unwrap());
    breaker.record(decisive, Failure, at(2001));
    let present = [(); 2].map(|()| breaker.permit(at(4001)).expect("a probe"));
    for health in [Success, Failure, Neither] {
        assert_eq!(breaker.record(slow, health, at(4002)), None);
    }
    breaker.give_back(slow);
    breaker.record_cut(slow, at(4002));
    assert_eq!(breaker.state(at(4003)), State::HalfOpen { free: 0 });
    assert_eq!(breaker.record(present[1], Success, at(4004)), Some(Change::Reset));
}

#[test]
fn a_probe_brought_back_twice_makes_room_once() {
    let mut breaker = tripped(2);
    let (first, second) = (breaker.permit(at(2000)).unwrap(), breaker.permit(at(2000)).unwrap());
    breaker.record(first, Neither, at(2001));
    breaker.give_back(first);
    assert_eq!(breaker.record(first, Success, at(2001)), None);
    assert_eq!(breaker.state(at(2002)), State::HalfOpen { free: 1 });
    assert_eq!(breaker.record(second, Success, at(2003)), Some(Change::Reset));
}

#[test]
fn a_body_cut_after_its_head_is_one_failure() {
    let mut breaker = Breaker::new(quick());
    let permits = [(); 3].map(|()| breaker.permit(at(0)).expect("closed"));
    permits.iter().for_each(|permit| assert_eq!(breaker.record(*permit, Success, at(1)), None));
    assert_eq!(breaker.record_cut(permits[0], at(2)), None);
    assert_eq!(breaker.record_cut(permits[1], at(3)), None);
    assert_eq!(breaker.record_cut(permits[2], at(4)), Some(Change::Tripped { until: at(2004) }));
}

#[test]
fn a_body_that_is_cut_makes_a_failure_of_its_attempt() {
    let mut breaker = Breaker::new(BreakerPolicy::default());
    // One good answer for every five of them: the share of failures is five sixths, and not five elevenths.
    let tripped = (0..120).map(|n| n * 100).find(|&now| {
        let permit = breaker.permit(at(now)).expect("closed");
        assert_eq!(breaker.record(permit, Success, at(now)), None);
        now % 600 != 0 && breaker.record_cut(permit, at(now + 50)).is_some()
    });
    assert_eq!(tripped, Some(5100), "the first was cut at 150");
}

#[test]
fn the_body_of_a_probe_counts_in_the_closed_state_it_led_to() {
    let mut breaker = tripped(1);
    let probe = breaker.permit(at(2000)).expect("a probe");
    assert_eq!(breaker.record(probe, Success, at(2001)), Some(Change::Reset));
    assert_eq!(breaker.record_cut(probe, at(2500)), None);
    assert_eq!(breaker.state(at(2500)), State::Closed);
    attempt(&mut breaker, 2600, Failure);
    assert!(attempt(&mut breaker, 2700, Failure).is_some(), "the cut was the first of three");
    // Once that state is over, it counts nowhere.
    assert_eq!(breaker.record_cut(probe, at(2800)), None);
    assert_eq!(attempt(&mut breaker, 4700, Success), Some(Change::Reset));
    (0..9).for_each(|_| assert_eq!(breaker.record_cut(probe, at(4800)), None));
}

#[test]
fn off_it_never_trips() {
    check_policy(BreakerPolicy { on: false, ..quick() }, &[Failure], 10, None);
}

#[test]
fn a_clock_at_its_ends_is_no_reason_to_panic() {
    let breaker = &mut Breaker::new(quick());
    breaker.permit(Instant::NEVER).map(|permit| breaker.record(permit, Failure, Instant::NEVER)).expect("closed");
    attempt(breaker, 0, Failure);
    attempt(breaker, 0, Failure);
    assert_eq!(breaker.state(at(0)), State::Open { until: at(2000) });
}

#[test]
fn health_is_read_off_the_outcome() {
    let answered = |status, retry_after: Option<u64>| {
        let retry_after = retry_after.map(Duration::from_secs);
        Outcome::Answered { status: StatusCode::from_u16(status).unwrap(), retry_after }
    };
    for (outcome, expected) in [
        (answered(200, None), Success),
        (answered(101, None), Success),
        (answered(304, None), Success),
        (answered(404, None), Success),
        (answered(408, None), Success),
        (answered(429, None), Success),
        (answered(429, Some(5)), Success),
        (answered(500, None), Failure),
        (answered(500, Some(5)), Failure),
        (answered(502, None), Failure),
        (answered(503, None), Failure),
        (answered(503, Some(5)), Neither),
        (answered(503, Some(0)), Neither),
        (answered(504, None), Failure),
        (answered(999, None), Failure),
        (Outcome::NotSent, Failure),
        (Outcome::Broken, Failure),
        (Outcome::TimedOut, Failure),
    ] {
        assert_eq!(Health::of(&outcome), expected, "{outcome:?}");
    }
}

/// Whether these outcomes, the newest last, are an outage by the default policy, from the list itself.
fn is_outage(outcomes: &[(u64, Health)]) -> bool {
    let spans_enough = |failures: &[u64]| match failures {
        [first, .., last] => last - first >= 5000,
        _ => false,
    };
    let row = outcomes.iter().rev().take_while(|(_, health)| *health == Failure).map(|(millis, _)| *millis);
    let row: Vec<_> = row.collect::<Vec<_>>().into_iter().rev().collect();
    let now = outcomes.last().map_or(0, |(millis, _)| *millis);
    // The window begins with a whole slot of 200 ms.
    let begin = (now / 200 + 1).saturating_sub(tally::SLOTS as u64) * 200;
    let recent: Vec<_> = outcomes.iter().filter(|(millis, _)| *millis >= begin).collect();
    let failures: Vec<_> = recent.iter().filter(|(_, health)| *health == Failure).map(|(millis, _)| *millis).collect();
    (row.len() >= 10 && spans_enough(&row))
        || (recent.len() >= 20 && failures.len() * 2 >= recent.len() && spans_enough(&failures))
}

proptest! {
    #[test]
    fn it_trips_exactly_when_the_list_of_outcomes_says_so(
        outcomes in proptest::collection::vec((0..900_u64, proptest::bool::weighted(0.6)), 1..150),
    ) {
        let (mut breaker, mut now, mut seen) = (Breaker::new(BreakerPolicy::default()), 0, Vec::new());
        for (gap, failed) in outcomes {
            now += gap;
            let health = if failed { Failure } else { Success };
            seen.push((now, health));
            let has_tripped = attempt(&mut breaker, now, health).is_some();
            prop_assert_eq!(has_tripped, is_outage(&seen), "at {} ms", now);
            if has_tripped {
                break;
            }
        }
    }

    #[test]
    fn no_probe_is_ever_lost_or_made_up(
        probes in 1..4_u32,
        steps in proptest::collection::vec((0..700_u64, 0..6_u32, any::<proptest::sample::Index>()), 1..200),
    ) {
        let mut breaker = Breaker::new(BreakerPolicy { probes, ..quick() });
        let (mut now, mut permits) = (0, Vec::<Permit>::new());
        for (gap, step, which) in steps {
            now += gap;
            let now = at(now);
            let permit = (!permits.is_empty()).then(|| *which.get(&permits));
            match (step, permit) {
                (0 | 1, _) => permits.extend(breaker.permit(now)),
                (4, Some(permit)) => breaker.give_back(permit),
                (5, Some(permit)) => _ = breaker.record_cut(permit, now),
                (_, Some(permit)) => {
                    let health = if step == 2 { Success } else { Failure };
                    breaker.record(permit, health, now);
                }
                (_, None) => {}
            }
            if let Phase::HalfOpen { out } = &breaker.phase {
                prop_assert!(out.len() <= probes as usize);
                prop_assert!(out.iter().all(|number| permits.iter().any(|permit| permit.probe == Some(*number))));
            }
        }
        // With every permit back, a breaker that is half-open has all its probes to give.
        permits.iter().for_each(|permit| breaker.give_back(*permit));
        if let State::HalfOpen { free } = breaker.state(at(now)) {
            prop_assert_eq!(free, probes);
        }
    }
}
