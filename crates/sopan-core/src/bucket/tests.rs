use super::*;
use proptest::prelude::*;

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn bucket(limits: &[&str]) -> Bucket {
    exact(limits, 0)
}

fn exact(limits: &[&str], headroom: u32) -> Bucket {
    Bucket::new(&parse(limits), headroom, Margin::from_millionths(0).unwrap())
}

fn parse(limits: &[&str]) -> Vec<Limit> {
    limits.iter().map(|l| l.parse().unwrap()).collect()
}

/// Sends greedily, always at the very instant that the bucket names; tells when each left.
fn greedy(bucket: &mut Bucket, mut now: Instant, turns: usize) -> Vec<u64> {
    let mut left = Vec::new();
    while left.len() < turns {
        match bucket.take(1, now) {
            Take::Taken { .. } => {
                bucket.charge(1, Some(now), now);
                left.push(now.as_nanos());
            }
            Take::At(next) => {
                assert!(next > now, "the bucket names a time that helps");
                now = next;
            }
            Take::Reserved(_) => panic!("nothing is reserved"),
        }
    }
    left
}

#[track_caller]
fn check(limits: &[&str], turns: usize, expected: &[u64]) {
    assert_eq!(greedy(&mut bucket(limits), at(0), turns), expected, "{limits:?}");
}

#[test]
fn what_a_full_bucket_lets_go_and_when() {
    check(&["10/s"], 4, &[0, 100 * MS, 200 * MS, 300 * MS]);
    check(&["10/s burst 3"], 5, &[0, 0, 0, 100 * MS, 200 * MS]);
    check(&["0.5/s"], 3, &[0, 2 * S, 4 * S]);
    check(&["2 per 1s"], 5, &[0, 0, 1005 * MS, 1005 * MS, 2010 * MS]);
    check(&["1 per 1h"], 2, &[0, 3_600 * S + 100 * MS]);
    check(&["10/s burst 3", "2 per 1s"], 5, &[0, 0, 1005 * MS, 1005 * MS, 2010 * MS]);
    check(&["10/s", "3 per 1s"], 5, &[0, 100 * MS, 200 * MS, 1005 * MS, 1105 * MS]);
    check(&[], 3, &[0, 0, 0]);
}

#[test]
fn headroom_is_left_of_a_burst_but_one_token_always_remains() {
    for (limit, headroom, at_once) in
        [("10/s burst 20", 1, 19), ("10/s burst 2", 5, 1), ("10/s", 1, 1), ("10/s burst 20", 0, 20)]
    {
        let left = greedy(&mut exact(&[limit], headroom), at(0), 25);
        assert_eq!(left.iter().filter(|t| **t == 0).count(), at_once, "{limit} headroom {headroom}");
    }
}

#[test]
fn the_schedule_runs_slower_than_the_rate_by_the_margin() {
    let mut bucket = Bucket::new(&parse(&["1000/s"]), 1, Margin::default());
    let left = greedy(&mut bucket, at(0), 1000);
    assert_eq!(left.last().copied(), Some((999 * S * 1000).div_ceil(999_000)));
}

#[test]
fn the_rate_is_taken_as_written_and_does_not_drift_in_a_year() {
    for rate in ["0.5/s", "0.1/s", "0.0016667/s", "1.0/s", "2.5/s", "0.333333/s", "0.7/min", "999.999999999/s"] {
        let Limit::Rate(parsed) = rate.parse().unwrap() else { panic!() };
        let (tokens, period) = parsed.fraction();
        let mut bucket = bucket(&[rate]);
        // Jump near the end of a year of greedy sending instead of walking there.
        let year = 31_536_000u128 * u128::from(S);
        let turns = year * u128::from(tokens) / period;
        let due = |n: u128| ((n * period).div_ceil(u128::from(tokens))) as u64;
        charge_many(&mut bucket.rates[0], turns);
        let left = greedy(&mut bucket, at(0), 3);
        assert_eq!(left, [due(turns), due(turns + 1), due(turns + 2)], "{rate}");
    }
}

fn charge_many(meter: &mut RateMeter, turns: u128) {
    let (full, rest) = (turns / u128::from(u32::MAX), (turns % u128::from(u32::MAX)) as u32);
    for piece in std::iter::repeat_n(u32::MAX, full as usize).chain([rest]) {
        meter.reserve(piece);
        meter.charge(piece, Instant::ORIGIN);
    }
}

#[test]
fn extremes_do_not_overflow() {
    let far = at(u64::MAX - 1);
    for limit in [
        "1/d burst 1000000000",
        "1000000/s burst 1000000000",
        "999999.999999999/s burst 1000000000",
        "0.000011575/s burst 1000000000",
        "31622400000000 per 366d",
    ] {
        for now in [Instant::ORIGIN, far, Instant::NEVER] {
            let mut bucket = bucket(&[limit]);
            for _ in 0..3 {
                let taken = bucket.take(crate::policy::BURST_MAX, now);
                assert!(!matches!(taken, Take::Reserved(_)));
                if matches!(taken, Take::Taken { .. }) {
                    bucket.charge(crate::policy::BURST_MAX, None, now);
                }
            }
            bucket.hold_until(Instant::NEVER);
            bucket.predict(u64::MAX, u32::MAX, now);
            bucket.change(&parse(&["999999.999999999/s burst 1000000000", "1/d"]), 0, Margin::default(), now);
            bucket.fills(now).for_each(|f| assert!(f.tokens.is_finite()));
            bucket.take(1, now);
        }
    }
}

#[test]
fn idle_time_is_not_saved_up_beyond_the_burst() {
    let mut bucket = bucket(&["5/s burst 5"]);
    greedy(&mut bucket, at(0), 1);
    let left = greedy(&mut bucket, at(30 * S), 7);
    assert_eq!(left.iter().map(|t| t - 30 * S).collect::<Vec<_>>(), [0, 0, 0, 0, 0, 200 * MS, 400 * MS]);
}

#[test]
fn reserved_tokens_never_refill() {
    let mut bucket = bucket(&["10/s burst 2"]);
    assert!(matches!(bucket.take(1, at(0)), Take::Taken { .. }));
    assert!(matches!(bucket.take(1, at(0)), Take::Taken { .. }));
    // A long time later both are still out: nothing has been sent, so nothing can have been regained.
    assert_eq!(bucket.take(1, at(60 * S)), Take::Reserved(at(60 * S + 100 * MS)));
    bucket.charge(1, None, at(60 * S));
    assert_eq!(bucket.take(1, at(60 * S)), Take::At(at(60 * S + 100 * MS)), "only what was sent is regained");
    bucket.give_back(1);
    assert!(matches!(bucket.take(1, at(60 * S)), Take::Taken { .. }));
}

#[test]
fn a_reservation_given_back_costs_nothing() {
    for limit in ["1/s", "3/s burst 2", "2 per 1s"] {
        let mut bucket = bucket(&[limit]);
        for _ in 0..100 {
            assert!(matches!(bucket.take(1, at(0)), Take::Taken { .. }));
            bucket.give_back(1);
        }
        assert_eq!(greedy(&mut bucket, at(0), 1), [0], "{limit}");
    }
}

#[test]
fn all_limits_are_taken_or_none() {
    let mut bucket = bucket(&["10/s burst 10", "1 per 10s"]);
    greedy(&mut bucket, at(0), 1);
    for _ in 0..20 {
        assert_eq!(bucket.take(1, at(MS)), Take::At(at(10 * S + 50 * MS)));
    }
    let fill = bucket.fills(at(MS)).next().unwrap();
    assert!(fill.tokens > 8.9, "the refused turns took nothing of the rate: {fill:?}");
}

#[test]
fn a_late_turn_moves_the_schedule_only_by_what_exceeds_a_millisecond() {
    for (late, next) in [(0, 100 * MS), (400_000, 100 * MS), (MS, 100 * MS), (3 * MS, 102 * MS), (50 * MS, 149 * MS)] {
        let mut bucket = bucket(&["10/s"]);
        let Take::Taken { .. } = bucket.take(1, at(0)) else { panic!() };
        bucket.charge(1, Some(at(0)), at(late));
        assert_eq!(bucket.take(1, at(late)), Take::At(at(next)), "late by {late} ns");
    }
    // One that did not wait is not late.
    let mut bucket = bucket(&["10/s"]);
    let Take::Taken { .. } = bucket.take(1, at(0)) else { panic!() };
    bucket.charge(1, None, at(400_000));
    assert_eq!(bucket.take(1, at(MS)), Take::At(at(100 * MS + 400_000)));
}

#[test]
fn a_cost_above_the_bucket_goes_when_it_is_full_and_leaves_a_debt() {
    let mut bucket = bucket(&["10/s burst 5"]);
    greedy(&mut bucket, at(0), 1);
    assert_eq!(bucket.take(20, at(0)), Take::At(at(100 * MS)));
    assert!(matches!(bucket.take(20, at(100 * MS)), Take::Taken { .. }));
    assert!(matches!(bucket.take(1, at(100 * MS)), Take::Reserved(_)));
    bucket.charge(20, None, at(100 * MS));
    // 20 spent of 5: 15 in debt, so the next one goes when 16 have come back.
    assert_eq!(bucket.take(1, at(100 * MS)), Take::At(at(1700 * MS)));
}

#[test]
fn a_hold_leaves_exactly_one_token_at_its_end() {
    let mut bucket = bucket(&["10/s burst 20", "2/s burst 3"]);
    bucket.hold_until(at(3 * S));
    let left = greedy(&mut bucket, at(3 * S), 4);
    assert_eq!(left, [3 * S, 3 * S + 500 * MS, 4 * S, 4 * S + 500 * MS], "the slowest rate spaces what follows");
    // A hold does not forgive a debt.
    let mut bucket = exact(&["1/s"], 0);
    charge_many(&mut bucket.rates[0], 10);
    bucket.hold_until(at(3 * S));
    assert_eq!(bucket.take(1, at(3 * S)), Take::At(at(10 * S)));
}

#[test]
fn a_hold_that_is_ended_early_leaves_one_token_or_what_there_would_have_been_without_it() {
    for (spent, released, expected) in [
        // All were there: one is left.
        (0, 2_000, [2_000, 2_100]),
        // None was there, and none has come since.
        (20, 0, [100, 200]),
        (20, 50, [100, 200]),
        (20, 100, [100, 200]),
        // Many have come since: one is left.
        (20, 1_500, [1_500, 1_600]),
    ] {
        let mut bucket = bucket(&["10/s burst 20"]);
        greedy(&mut bucket, at(0), spent);
        bucket.hold_until(at(60 * S));
        bucket.hold_until(at(600 * S));
        bucket.release(at(released * MS));
        let left = greedy(&mut bucket, at(released * MS), 2);
        assert_eq!(left, expected.map(|ms| ms * MS), "{spent} spent, released at {released} ms");
    }
    // What was on its way when the hold came is spent all the same.
    let mut bucket = bucket(&["10/s"]);
    assert!(matches!(bucket.take(1, at(0)), Take::Taken { .. }));
    bucket.hold_until(at(60 * S));
    bucket.charge(1, None, at(0));
    bucket.release(at(20 * MS));
    assert_eq!(greedy(&mut bucket, at(20 * MS), 1), [100 * MS]);
    // One that is over is nothing to come back to.
    bucket.hold_until(at(S));
    bucket.hold_over();
    bucket.release(at(2 * S));
    assert_eq!(greedy(&mut bucket, at(2 * S), 2), [2 * S, 2 * S + 100 * MS]);
}

#[test]
fn how_long_until_a_limit_is_full_and_a_quota_used_up() {
    let mut limited = bucket(&["10/s burst 5", "10 per 100s"]);
    let full_in = |bucket: &Bucket, now| bucket.full_in(at(now)).map(|t| t.as_millis()).collect::<Vec<_>>();
    assert_eq!(full_in(&limited, 0), [0, 0]);
    greedy(&mut limited, at(0), 5);
    assert!(matches!(limited.take(1, at(S)), Take::Taken { .. }));
    // What is reserved counts as gone.
    assert_eq!(full_in(&limited, S), [0, 100_100]);
    limited.charge(1, None, at(S));
    assert_eq!(full_in(&limited, S), [100, 100_100]);
    // 6 of 10 are gone: 5 come back at 100.1 s, 1 at 101.1 s.
    for (per_s, now, expected) in [
        (0.0, 1, None),
        (4.0, 1, Some(1_000)),
        (0.1, 1, Some(40_000)),
        // Five are back before the four are gone; then all that leaves comes back after a span.
        (0.04, 1, None),
        (0.1, 70, None),
        (0.2, 90, Some(50_000)),
        (1_000.0, 200, Some(10)),
    ] {
        let lasts = limited.lasts(per_s, at(now * S)).map(|t| t.as_millis());
        assert_eq!(lasts, expected, "{per_s} a second from {now} s on");
    }
    // A day ends.
    let mut daily = bucket(&["1000 per day at 00:00 UTC"]);
    let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(43_200);
    daily.set_calendar(at(0), noon);
    assert_eq!(full_in(&daily, 0), [0]);
    greedy(&mut daily, at(0), 500);
    assert_eq!(full_in(&daily, 0), [43_200_100]);
    for (per_s, expected) in [(1.0, Some(500_000)), (0.0125, Some(40_000_000)), (0.01, None), (0.0, None)] {
        assert_eq!(daily.lasts(per_s, at(0)).map(|t| t.as_millis()), expected, "{per_s} a second");
    }
    assert_eq!(bucket(&["10/s"]).lasts(100.0, at(0)), None);
}

#[test]
fn a_changed_limit_keeps_what_is_used_of_it() {
    for (old, used, new, expected) in [
        ("10/s burst 10", 10, "100/s burst 10", [10 * MS, 20 * MS]),
        ("100/s burst 10", 10, "10/s burst 10", [100 * MS, 200 * MS]),
        ("10/s burst 10", 5, "10/s burst 5", [100 * MS, 200 * MS]),
        ("4 per 1s", 3, "4 per 2s", [0, 2010 * MS]),
        ("1000 per 1h", 999, "1000 per 1h", [0, 3_600 * S + 100 * MS]),
        ("10/s", 1, "3 per 1s", [0, 0]),
    ] {
        let mut bucket = bucket(&[old]);
        greedy(&mut bucket, at(0), used);
        bucket.change(&parse(&[new]), 0, Margin::from_millionths(0).unwrap(), at(0));
        assert_eq!(greedy(&mut bucket, at(0), 2), expected, "{old} with {used} used, then {new}");
    }
}

#[test]
fn what_was_reserved_before_a_change_can_be_settled_after_it() {
    let mut bucket = bucket(&["10/s burst 5"]);
    for _ in 0..3 {
        bucket.take(1, at(0));
    }
    bucket.change(&parse(&["10/s burst 5", "8 per 1s"]), 0, Margin::from_millionths(0).unwrap(), at(0));
    bucket.charge(1, None, at(0));
    bucket.give_back(1);
    bucket.charge(1, None, at(0));
    let tokens: Vec<_> = bucket.fills(at(0)).map(|f| f.tokens).collect();
    assert_eq!(tokens, [3.0, 6.0]);
}

#[test]
fn prediction_is_when_greedy_sending_would_get_there() {
    for limits in [&["10/s burst 3"][..], &["3 per 1s"], &["7/s", "5 per 1s"], &["200 per 1s"]] {
        for used in [0, 1, 2, 7] {
            let mut bucket = bucket(limits);
            let last = greedy(&mut bucket, at(0), used).last().copied().unwrap_or(0);
            for ahead in [0u64, 1, 2, 3, 10] {
                let now = at(last + 5 * MS);
                let mut real = Bucket { rates: bucket.rates.clone(), quotas: bucket.quotas.clone() };
                let left = *greedy(&mut real, now, ahead as usize + 1).last().unwrap();
                let predicted = bucket.predict(ahead, 1, now).as_nanos();
                assert!(
                    predicted <= left && left - predicted < S,
                    "{limits:?} used {used} ahead {ahead}: {predicted} vs {left}"
                );
                // Of several limits the latest counts, which is early where they take turns at being the tightest.
                if limits.len() == 1 {
                    assert_eq!(predicted, left, "{limits:?} used {used} ahead {ahead}");
                }
            }
        }
    }
}

#[test]
fn a_large_quota_needs_little_memory_and_holds_little_too_long() {
    let mut bucket = bucket(&["100000 per 1h", "1000/s burst 1000"]);
    greedy(&mut bucket, at(0), 100_000);
    assert!(bucket.quotas[0].ring().groups_len() <= 129);
    let Take::At(next) = bucket.take(1, at(100 * S)) else { panic!() };
    let exact = 3600 * S + 100 * MS;
    assert!((exact..exact + S).contains(&next.as_nanos()), "the first group leaves within 0.8 % of the quota's turns");
}

/// The slow and obvious judge: every span between two turns is looked at.
fn keeps(limit: &Limit, written: &[u64]) -> Result<(), String> {
    for (i, first) in written.iter().enumerate() {
        for (j, last) in written.iter().enumerate().skip(i) {
            let (turns, span) = ((j - i + 1) as u128, u128::from(last - first));
            let fits = match limit {
                Limit::Rate(rate) => {
                    let (n, p) = rate.fraction();
                    // turns ≤ burst + (span + 1 ms) · n / p, where instants are rounded to a nanosecond
                    turns * p <= u128::from(rate.burst()) * p + (span + LATE_MAX.as_nanos() + 1) * u128::from(n)
                }
                Limit::Quota(quota) => turns <= u128::from(quota.count()) || span >= quota.span().as_nanos(),
                Limit::Calendar(_) => true, // judged by its own tests
            };
            if !fits {
                return Err(format!("{limit}: {turns} in {span} ns"));
            }
        }
    }
    Ok(())
}

fn limits() -> impl Strategy<Value = Vec<Limit>> {
    let rate = (1u32..400, prop_oneof!["s", "min"], 1u32..30)
        .prop_map(|(n, unit, burst)| format!("{}.{}/{unit} burst {burst}", n / 10, n % 10));
    let quota = (1u32..300, 1u32..3000).prop_map(|(n, ms)| format!("{n} per {}ms", ms.max(n)));
    let limit = prop_oneof![rate, quota].prop_filter_map("zero rate", |text| text.parse().ok());
    prop::collection::vec(limit, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever comes when, is written late or not at all: no span ever holds more than the limits allow, and what the
    /// bucket names as the next instant is one at which something can go.
    #[test]
    fn no_limit_is_ever_exceeded(
        limits in limits(),
        headroom in 0u32..3,
        steps in prop::collection::vec((0u64..200 * MS, 0u64..4 * MS, 0u8..10), 1..150),
    ) {
        let mut bucket = Bucket::new(&limits, headroom, Margin::default());
        let (mut now, mut written) = (0u64, Vec::new());
        for (quiet, late, fate) in steps {
            now += if fate < 5 { 0 } else { quiet };
            let due = match bucket.take(1, at(now)) {
                Take::Taken { due } => due,
                Take::At(next) => {
                    now = next.as_nanos();
                    match bucket.take(1, next) {
                        Take::Taken { due } => due,
                        other => panic!("{other:?} at the very instant that was named"),
                    }
                }
                Take::Reserved(_) => panic!("nothing is reserved"),
            };
            if fate == 0 {
                bucket.give_back(1);
                continue;
            }
            now += late;
            bucket.charge(1, Some(due), at(now));
            written.push(now);
        }
        for limit in &limits {
            prop_assert_eq!(keeps(limit, &written), Ok(()));
        }
    }
}

#[derive(Debug, Clone)]
enum Event {
    Pass(u64),
    Take(u32),
    Write,
    GiveBack,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        (0..400 * MS).prop_map(Event::Pass),
        (1..4u32).prop_map(Event::Take),
        Just(Event::Write),
        Just(Event::GiveBack),
    ];
    prop::collection::vec(event, 0..60)
}

proptest! {
    #[test]
    fn what_leaves_until_an_instant_is_what_is_predicted_to(
        limit in prop::sample::select(vec!["10/s", "7/s burst 5", "0.3/s burst 2", "5 per 1s", "300 per 1s"]),
        events in events(),
        ahead in 0..20_000 * MS,
    ) {
        let (mut bucket, mut now, mut reserved) = (bucket(&[limit]), at(0), Vec::new());
        for event in events {
            match event {
                Event::Pass(nanos) => now = now.after(Duration::from_nanos(nanos)),
                Event::Take(cost) => if let Take::Taken { .. } = bucket.take(cost, now) { reserved.push(cost) },
                Event::Write => if let Some(cost) = reserved.pop() { bucket.charge(cost, None, now) },
                Event::GiveBack => if let Some(cost) = reserved.pop() { bucket.give_back(cost) },
            }
        }
        let until = now.after(Duration::from_nanos(ahead));
        let count = bucket.count_until(until, now);
        prop_assert!(count == 0 || bucket.predict(count - 1, 1, now) <= until, "the last of {count} leaves by then");
        prop_assert!(bucket.predict(count, 1, now) > until, "and the next one does not");
    }
}
