//! Stale answers: when one is better than none, and when one is given while the upstream is asked.

use sopan_core::policy::CachePolicy;
use sopan_engine::{CacheSettings, Settings};
use tokio::time::{sleep, sleep_until};

use super::{Stage, caching};
use crate::support::log::Log;
use crate::support::{ms, s, settled};

/// What stands between a request and an answer of the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// Nobody listens.
    Down,
    /// It hangs up in the middle of its head.
    HangsUp,
    /// It says nothing for longer than an attempt may take.
    Silent,
    BreakerOpen,
    /// It answers that it failed.
    Fails,
    /// There is no token in time.
    NoToken,
    /// The queue is full.
    QueueFull,
}

use Trouble::{BreakerOpen, Down, Fails, HangsUp, NoToken, QueueFull, Silent};

/// Whether it needs no permission to give what is stale then (RFC 9111 §4.2.4).
const AWAY: [Trouble; 4] = [Down, HangsUp, Silent, BreakerOpen];
/// Where somebody must have allowed it (RFC 5861 §4).
const OTHERWISE: [Trouble; 3] = [Fails, NoToken, QueueFull];

/// What a client gets that asks for an answer with these fields so long after its lifetime of 10 s, in this trouble.
async fn given(fields: &str, asked: &str, past: u64, trouble: Trouble, change: fn(&mut CachePolicy)) -> String {
    let stage = Stage::with(&CacheSettings::default(), |settings: &mut Settings| {
        caching(change)(settings);
        settings.retry.attempt_timeout = s(2);
        settings.breaker.on = trouble == BreakerOpen;
        (settings.breaker.failures, settings.breaker.min_span, settings.breaker.open_for) = (1, s(0), s(60));
        settings.lane.wait_max = Some(s(1));
        if trouble == NoToken {
            settings.lane.limits = vec!["1 per 1d".parse().unwrap()];
        }
        if trouble == QueueFull {
            (settings.lane.max_in_flight, settings.lane.waiting_max) = (Some(1), 0);
        }
    });
    let first = format!("200 | {fields} | ETag: \"a\"");
    assert_eq!(stage.line("GET /a", &first).await, "200 v1 miss");
    sleep_until(stage.bench.begun + s(10 + past)).await;
    let _busy = match trouble {
        BreakerOpen => {
            stage.line("GET /b", "500").await;
            None
        }
        QueueFull => {
            stage.will_answer("200 | after 100");
            let busy = stage.spawn("GET /b", 1);
            settled().await;
            Some(busy)
        }
        _ => None,
    };
    let answers = match trouble {
        Down => "down",
        HangsUp => "0 | hangs up",
        Silent => "200 | after 100",
        Fails => "503",
        BreakerOpen | NoToken | QueueFull => "-",
    };
    stage.line(asked, answers).await
}

/// Whether the stale answer is given in all of these troubles, or in none.
async fn check(fields: &str, past: u64, is_given: [bool; 2], change: fn(&mut CachePolicy)) {
    check_asked(fields, "GET /a", past, is_given, change).await;
}

async fn check_asked(fields: &str, asked: &str, past: u64, is_given: [bool; 2], change: fn(&mut CachePolicy)) {
    for (troubles, is_given) in [(&AWAY[..], is_given[0]), (&OTHERWISE[..], is_given[1])] {
        for trouble in troubles {
            let told = given(fields, asked, past, *trouble, change).await;
            let expected = format!("200 v1 stale age={}", 10 + past);
            // A time-out takes its time.
            let expected = if *trouble == Silent { format!("200 v1 stale age={}", 12 + past) } else { expected };
            assert_eq!(told == expected, is_given, "{fields}, {past} s late, {trouble:?}: {told}");
            assert!(is_given || told.starts_with("50"), "{fields}, {past} s late, {trouble:?}: {told}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_is_away_needs_no_permission_and_one_that_fails_does() {
    let unchanged = |_: &mut CachePolicy| {};
    check("max-age=10", 5, [true, false], unchanged).await;
    check("max-age=10, stale-if-error=20", 5, [true, true], unchanged).await;
    check("max-age=10, stale-if-error=20", 21, [true, false], unchanged).await;
    check("max-age=10, stale-if-error=0", 5, [true, false], |policy| policy.stale_if_error = s(60)).await;
    check("max-age=10", 5, [true, true], |policy| policy.stale_if_error = s(6)).await;
    check("max-age=10", 7, [true, false], |policy| policy.stale_if_error = s(6)).await;
    check_asked("max-age=10", "GET /a | Cache-Control: stale-if-error=20", 5, [true, true], unchanged).await;
}

#[tokio::test(start_paused = true)]
async fn who_forbids_it_is_obeyed_and_no_answer_is_given_for_ever() {
    let willing = |policy: &mut CachePolicy| policy.stale_if_error = s(600);
    for forbidding in ["must-revalidate", "proxy-revalidate", "s-maxage=10", "no-cache"] {
        check(&format!("max-age=10, stale-if-error=600, {forbidding}"), 5, [false, false], willing).await;
    }
    check_asked("max-age=10", "GET /a | Cache-Control: no-cache", 5, [false, false], willing).await;
    let bounded = |policy: &mut CachePolicy| (policy.stale_max, policy.stale_if_error) = (s(4), s(4));
    check("max-age=10, stale-if-error=600", 3, [true, true], |policy| policy.stale_max = s(6)).await;
    check("max-age=10, stale-if-error=600", 5, [false, false], bounded).await;
    let never = |policy: &mut CachePolicy| policy.stale_max = s(0);
    check("max-age=10, stale-if-error=600", 1, [false, false], never).await;
}

/// It costs no more than the attempts that it may cost, and the store is as it was.
#[tokio::test(start_paused = true)]
async fn retries_come_before_a_stale_answer() {
    let stage = Stage::with(&CacheSettings::default(), |settings| {
        caching(|policy| policy.stale_if_error = s(60))(settings);
        settings.retry.max_retries = 2;
    });
    stage
        .play(&[
            (0, "GET /a", "200 | max-age=10 | ETag: \"a\"", "200 v1 miss"),
            (20, "GET /a", "503 || 503 || 503", "200 v1 stale age=20"),
            (30, "GET /a", "503 || 304 | max-age=10", "200 v1 revalidated age=0"),
            (35, "GET /a", "-", "200 v1 hit age=4"),
        ])
        .await;
}

/// Nobody waits for the end of an answer that nobody gets, but it is read where it is short, and the connection serves again.
#[tokio::test(start_paused = true)]
async fn a_failure_that_is_replaced_does_not_cost_a_connection() {
    for (failure, dialled) in [
        ("503", 1),
        ("503 | = ", 1),
        ("503 | Content-Length: 100000", 2),
        ("503 | Transfer-Encoding: chunked | = 2\r\nxx\r\n", 2),
    ] {
        let stage = Stage::new(|policy| policy.stale_if_error = s(60));
        stage
            .play(&[
                (0, "GET /a", "200 | max-age=10 | ETag: \"a\"", "200 v1 miss"),
                (20, "GET /a", failure, "200 v1 stale age=20"),
                (25, "GET /a", "304 | max-age=10", "200 v1 revalidated age=0"),
            ])
            .await;
        assert_eq!(stage.bench.lines.dialled(), dialled, "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_be_used_while_it_is_asked_about_is() {
    let fields = "200 | max-age=10, stale-while-revalidate=30 | ETag: \"a\"";
    let stage = Stage::new(|_| {});
    stage
        .play(&[
            (0, "GET /a", fields, "200 v1 miss"),
            (20, "GET /a", fields, "200 v1 stale age=20"),
            (21, "GET /a", "-", "200 v2 hit age=1"),
            // It is confirmed,
            (40, "GET /a", "304", "200 v2 stale age=20"),
            (41, "GET /a", "-", "200 v2 hit age=1"),
            // or could not be, and that is tried again,
            (60, "GET /a", "503", "200 v2 stale age=20"),
            (61, "GET /a", "down", "200 v2 stale age=21"),
            (62, "GET /a", "404", "200 v2 stale age=22"),
            // or is no more.
            (63, "GET /a", "200 | max-age=10, stale-while-revalidate=30", "200 v6 miss"),
            (103, "GET /a", "200", "200 v6 stale age=40"),
            (104, "GET /a", "200", "200 v8 miss"),
        ])
        .await;
    let stage = Stage::new(|_| {});
    stage.play(&[(0, "GET /a", fields, "200 v1 miss"), (41, "GET /a", fields, "200 v2 miss")]).await;
}

#[tokio::test(start_paused = true)]
async fn one_is_enough_to_ask_in_the_background_and_nobody_waits_for_it() {
    let stage = Stage::with(&CacheSettings::default(), |settings| {
        caching(|_| {})(settings);
        settings.lane.limits = vec!["1 per 10s".parse().unwrap()];
        settings.lane.wait_max = None;
    });
    let fields = "200 | max-age=10, stale-while-revalidate=300";
    stage.play(&[(0, "GET /a", fields, "200 v1 miss")]).await;
    // It waits for a token itself, behind another.
    sleep(s(15)).await;
    stage.will_answer("200 || 200 | max-age=60 | after 2");
    let other = stage.spawn("GET /b", 1);
    settled().await;
    let crowd: Vec<_> = (0..50).map(|client| stage.spawn("GET /a", client)).collect();
    for asking in crowd {
        let got = asking.await.unwrap();
        assert_eq!((stage.told(&got), got.head_at < s(16)), ("200 v1 stale age=15".to_owned(), true));
    }
    assert_eq!((other.await.unwrap().text(), stage.bench.upstream.arrivals()), ("v2", 2));
    assert_eq!(stage.bench.waiting(), 1);
    sleep(s(13)).await;
    settled().await;
    assert_eq!(stage.bench.upstream.arrivals(), 3);
    assert!(stage.line("GET /a", "-").await.starts_with("200 v3 hit"));
    // It has cost a token, and no client is told of it.
    assert_eq!(stage.bench.seen.ended().len(), 1 + 1 + 50 + 1);
    stage.bench.is_at_rest();
}

/// No client was refused, so nobody is told that one was.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_asked_in_the_background_is_no_refusal() {
    let log = Log::keep();
    let stage = Stage::with(&CacheSettings::default(), |settings| {
        caching(|_| {})(settings);
        settings.lane.limits = vec!["1 per 1h".parse().unwrap()];
    });
    stage.play(&[(0, "GET /a", "200 | max-age=10, stale-while-revalidate=300", "200 v1 miss")]).await;
    for _ in 0..3 {
        sleep(s(20)).await;
        assert!(stage.line("GET /a", "-").await.starts_with("200 v1 stale"));
    }
    assert_eq!(log.warnings(), [""; 0]);
    let unasked = log.entries().into_iter().filter(|entry| entry.level == tracing::Level::DEBUG);
    assert_eq!(unasked.filter(|entry| entry.message.contains("not asked about in the background")).count(), 3);
    // A client is told to be refused, and as the first one.
    stage.line("GET /b", "-").await;
    assert_eq!(log.warnings().len(), 1);
    assert!(!log.warnings()[0].contains("since the last such line"), "{:?}", log.warnings());
}

/// What is asked in the background is bounded: beyond that it stays stale for the next client.
#[tokio::test(start_paused = true)]
async fn not_all_of_a_large_site_is_asked_about_at_once() {
    let stage = Stage::new(|_| {});
    for number in 0..100 {
        stage.line(&format!("GET /{number}"), "200 | max-age=10, stale-while-revalidate=300").await;
    }
    sleep(s(20)).await;
    for _ in 0..100 {
        stage.will_answer("200 | max-age=60 | after 1");
    }
    let ask_all = async || {
        for number in 0..100 {
            let got = stage.ask(&format!("GET /{number}")).await;
            assert_eq!(got.text(), format!("v{}", number + 1));
        }
        settled().await;
    };
    ask_all().await;
    assert_eq!(stage.bench.upstream.arrivals(), 164);
    // All of them are under way still.
    ask_all().await;
    assert_eq!(stage.bench.upstream.arrivals(), 164);
    sleep(s(2)).await;
    settled().await;
    for number in 64..100 {
        stage.ask(&format!("GET /{number}")).await;
    }
    sleep(s(2)).await;
    assert_eq!(stage.bench.upstream.arrivals(), 200);
    stage.bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn a_client_may_take_what_is_stale_within_what_the_settings_allow() {
    let again = "200 | max-age=10";
    let stage = Stage::new(|policy| policy.stale_max = s(50));
    stage
        .play(&[
            (0, "GET /a", again, "200 v1 miss"),
            (20, "GET /a | Cache-Control: max-stale=10", "-", "200 v1 stale age=20"),
            (20, "GET /a | Cache-Control: max-stale", "-", "200 v1 stale age=20"),
            (60, "GET /a | Cache-Control: max-stale", "-", "200 v1 stale age=60"),
            (61, "GET /a | Cache-Control: max-stale", again, "200 v2 miss"),
            (82, "GET /a | Cache-Control: max-stale=10", again, "200 v3 miss"),
            (100, "GET /b", "200 | max-age=10, must-revalidate", "200 v4 miss"),
            (120, "GET /b | Cache-Control: max-stale", "200", "200 v5 miss"),
        ])
        .await;
}

/// Who followed another that asks about what is stale gets it when its own time is over.
#[tokio::test(start_paused = true)]
async fn one_who_waits_for_anothers_answer_is_given_what_is_stale_when_its_time_is_over() {
    let stage = Stage::with(&CacheSettings::default(), |settings| {
        caching(|policy| policy.stale_if_error = s(600))(settings);
        settings.retry.total_timeout = Some(s(10));
        settings.retry.attempt_timeout = s(60);
    });
    stage.play(&[(0, "GET /a", "200 | max-age=10 | ETag: \"a\"", "200 v1 miss")]).await;
    sleep(s(20)).await;
    stage.will_answer("304 | after 100 || 304 | after 100");
    let first = stage.spawn("GET /a", 1);
    sleep(ms(500)).await;
    let second = stage.spawn("GET /a", 2);
    for asking in [first, second] {
        let got = asking.await.unwrap();
        assert_eq!((got.status(), got.text()), (200, "v1"));
    }
    stage.bench.is_at_rest();
}
