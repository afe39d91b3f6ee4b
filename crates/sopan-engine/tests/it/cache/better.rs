//! Who waits while nobody gets a turn is given what is stored, if it may be, as is who comes then.

use std::time::Duration;

use sopan_core::policy::{CachePolicy, JitterKind};
use sopan_engine::{CacheSettings, Settings};
use tokio::time::sleep_until;

use super::{Stage, caching};
use crate::support::{Got, TICK, is_within, ms, s, settled};

/// Retries of 4, 8, 16 s, and a breaker that opens for 20 s at the second failure. What is stored is stale after 10 s, and to be
/// given where sopan has no token or the settings say so.
fn stage(cache: fn(&mut CachePolicy), change: impl FnOnce(&mut Settings)) -> Stage {
    Stage::with(&CacheSettings::default(), |settings| {
        caching(cache)(settings);
        let retry = &mut settings.retry;
        (retry.max_retries, retry.backoff_base, retry.backoff_cap, retry.jitter) = (3, s(4), s(30), 0.0);
        (retry.jitter_kind, retry.total_timeout, retry.max_retry_after) = (JitterKind::Fraction, Some(s(120)), s(60));
        settings.breaker.on = true;
        (settings.breaker.failures, settings.breaker.min_span, settings.breaker.open_for) = (2, s(0), s(20));
        settings.lane.wait_max = Some(s(30));
        change(settings);
    })
}

async fn at(stage: &Stage, second: u64) {
    sleep_until(stage.bench.begun + s(second)).await;
}

/// What a client got, and when, to whole ticks.
#[track_caller]
fn check(got: &Got, status: u16, text: &str, detail: &str, when: Duration) {
    assert_eq!((got.status(), got.text()), (status, text), "{got:?}");
    assert!(got.field("cache-status").unwrap_or("").ends_with(detail), "{:?}", got.field("cache-status"));
    is_within(got.head_at, when, when + TICK * 5);
}

const FIRST: &str = "200 | max-age=10 | ETag: \"a\"";
const AWAY: &str = "detail=stale-disconnected";
const LATE: &str = "detail=stale-no-token";

fn unchanged(_: &mut CachePolicy) {}

fn lenient(policy: &mut CachePolicy) {
    policy.stale_if_error = s(600);
}

#[tokio::test(start_paused = true)]
async fn a_retry_does_not_wait_for_a_breaker_that_opens() {
    let stage = stage(unchanged, |_| {});
    stage.play(&[(0, "GET /a", FIRST, "200 v1 miss")]).await;
    at(&stage, 20).await;
    // It waits 4 s when another's failure opens the breaker;
    stage.will_answer("500");
    let retrying = stage.spawn("GET /a", 1);
    at(&stage, 21).await;
    stage.will_answer("500");
    let other = stage.spawn("GET /b", 2);
    check(&retrying.await.unwrap(), 200, "v1", AWAY, s(21));
    // and who has nothing waits for the probe.
    stage.will_answer("200");
    check(&other.await.unwrap(), 200, "v4", "", s(41));
    stage.bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn who_opens_the_breaker_by_a_failure_of_its_own_does_not_wait_for_it() {
    let fails = |stage: &Stage| {
        stage.will_answer("500 || 500");
        stage.spawn("GET /a", 1)
    };
    let stage = stage(unchanged, |settings| settings.breaker.failures = 2);
    stage.play(&[(0, "GET /a", FIRST, "200 v1 miss")]).await;
    at(&stage, 20).await;
    check(&fails(&stage).await.unwrap(), 200, "v1", AWAY, s(24));
    // So it is when the probe fails, also where it was the last attempt that was to be made.
    at(&stage, 50).await;
    assert_eq!(stage.line("GET /a", "500").await, "200 v1 stale age=50");
    let stage = self::stage(unchanged, |settings| (settings.retry.max_retries, settings.breaker.failures) = (0, 1));
    stage.play(&[(0, "GET /a", FIRST, "200 v1 miss"), (20, "GET /a", "500", "200 v1 stale age=20")]).await;
}

#[tokio::test(start_paused = true)]
async fn neither_does_who_waits_for_its_turn_or_for_another() {
    let stage = stage(unchanged, |settings| settings.lane.max_in_flight = Some(2));
    stage.play(&[(0, "GET /a", FIRST, "200 v1 miss")]).await;
    at(&stage, 20).await;
    stage.will_answer("500 | after 5 || 500 | after 5");
    let failing = [stage.spawn("GET /b", 1), stage.spawn("GET /c", 2)];
    settled().await;
    let waiting = [stage.spawn("GET /a", 3), stage.spawn("GET /a", 4)];
    for waiting in waiting {
        check(&waiting.await.unwrap(), 200, "v1", AWAY, s(25));
    }
    assert_eq!(stage.bench.waiting(), 0);
    failing.into_iter().for_each(|failing| failing.abort());

    // The one that leads is with the upstream, and may have its answer yet.
    let stage = self::stage(unchanged, |_| {});
    stage.play(&[(0, "GET /a", FIRST, "200 v1 miss")]).await;
    at(&stage, 20).await;
    stage.will_answer("200 | max-age=60 | after 15");
    let leads = stage.spawn("GET /a", 1);
    settled().await;
    let follows = stage.spawn("GET /a", 2);
    at(&stage, 21).await;
    stage.will_answer("500 || 500");
    let failing = [stage.spawn("GET /b", 3), stage.spawn("GET /c", 4)];
    check(&follows.await.unwrap(), 200, "v1", AWAY, s(21));
    at(&stage, 22).await;
    check(&stage.ask("GET /a").await, 200, "v1", AWAY, s(22));
    check(&leads.await.unwrap(), 200, "v2", "stored; ttl=45", s(35));
    failing.into_iter().for_each(|failing| failing.abort());
}

/// A pause that lasts longer than a newcomer may wait means that there is no token in time.
#[tokio::test(start_paused = true)]
async fn a_pause_of_the_lane_is_waited_for_only_as_long_as_a_newcomer_would() {
    for (retry_after, cache, is_given) in [
        (40, lenient as fn(&mut CachePolicy), true),
        (20, lenient, false),
        // Nobody has allowed it.
        (40, unchanged, false),
    ] {
        let stage = stage(cache, |settings| settings.lane.max_in_flight = Some(1));
        stage.play(&[(0, "GET /a", FIRST, "200 v1 miss")]).await;
        at(&stage, 20).await;
        let asked_to_wait = format!("429 | Retry-After: {retry_after} | after 5");
        stage.will_answer(&asked_to_wait);
        let meets_it = stage.spawn("GET /a", 1);
        settled().await;
        let follows = stage.spawn("GET /a", 2);
        let waits = stage.spawn("GET /a | Cache-Control: max-age=20", 3);
        if is_given {
            for waiting in [meets_it, follows] {
                check(&waiting.await.unwrap(), 200, "v1", LATE, s(25));
            }
        } else {
            stage.will_answer("200 | max-age=60 || 200 | max-age=60");
            for waiting in [meets_it, follows] {
                let got = waiting.await.unwrap();
                assert_eq!((got.status(), got.text()), (200, "v3"));
                is_within(got.head_at, s(25 + retry_after), s(25 + retry_after) + ms(100));
            }
        }
        waits.abort();
    }
}

/// One that was asked to wait for longer than is honoured would end with that; others who come then would not.
#[tokio::test(start_paused = true)]
async fn who_is_asked_to_wait_for_too_long_is_given_what_those_are_who_come_then() {
    for (cache, expected) in [
        (lenient as fn(&mut CachePolicy), ["200 v1 stale age=20", "200 v1 stale age=20"]),
        (unchanged, ["429 v2 miss", "503 wait-too-long"]),
    ] {
        let stage = stage(cache, |_| {});
        stage.play(&[(0, "GET /a", FIRST, "200 v1 miss")]).await;
        at(&stage, 20).await;
        let first = stage.line("GET /a", "429 | Retry-After: 90").await;
        assert_eq!([first, stage.line("GET /a", "-").await], expected);
        stage.bench.is_at_rest();
    }
    // What can be asked for again soon is the client's own affair.
    let stage = stage(lenient, |settings| settings.retry.max_retries = 0);
    stage.play(&[(0, "GET /a", FIRST, "200 v1 miss"), (20, "GET /a", "429 | Retry-After: 2", "429 v2 miss")]).await;
}

/// After a failure what may be given is given before it may not be any more.
#[tokio::test(start_paused = true)]
async fn a_retry_ends_before_what_is_stored_is_too_old_to_take_its_place() {
    let stage = stage(|policy| policy.stale_if_error = s(15), |settings| settings.breaker.on = false);
    stage.play(&[(0, "GET /a", FIRST, "200 v1 miss")]).await;
    at(&stage, 19).await;
    // It would be tried again at 23 and at 31.
    stage.will_answer("503 || 503");
    let got = stage.spawn("GET /a", 1).await.unwrap();
    check(&got, 200, "v1", "detail=stale-on-error", s(24));
}
