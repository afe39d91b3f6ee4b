//! When the upstream counts as down: who is told so, who may wait, and who tries first.

use sopan_core::breaker::State;
use sopan_core::retry::Why;
use sopan_engine::Settings;
use sopan_fake::script::{Answer, Request};
use tokio::time::sleep;

use crate::support::lines::Line;
use crate::support::log::Log;
use crate::support::{Bench, SECOND, get, is_just, is_within, leave_after, ms, now, request, s, settled};

fn failing() -> Answer {
    Answer::json(503, "down")
}

fn fine() -> Answer {
    Answer::json(200, "{}")
}

/// These answers one after the other, then 200.
fn in_turn<const N: usize>(answers: [Answer; N]) -> impl Fn(&Request) -> Answer + Send + Sync {
    move |request| answers.get(request.number - 1).cloned().unwrap_or_else(fine)
}

/// Trips at three failures in a row, is open for 2 s, and has one probe; without retries.
fn three(settings: &mut Settings) {
    settings.breaker.on = true;
    settings.breaker.failures = 3;
    settings.breaker.min_span = s(0);
    settings.breaker.open_for = s(2);
    settings.retry.max_retries = 0;
}

fn is_open(bench: &Bench) -> bool {
    matches!(bench.snapshot().breaker, State::Open { .. })
}

/// Lets it trip.
async fn tripped(bench: &Bench) {
    for _ in 0..3 {
        assert!(!is_open(bench));
        bench.get("/x").await;
    }
    assert!(is_open(bench), "{:?}", bench.snapshot().breaker);
}

// cb-1
#[tokio::test(start_paused = true)]
async fn one_probe_goes_when_the_open_time_is_over_and_the_others_are_told_to_wait() {
    let script = in_turn([failing(), failing(), failing(), fine().after(s(1))]);
    let bench = Bench::new(script, |settings| {
        three(settings);
        // Seven are left after the three, and refusals cost none of them.
        settings.lane.limits = vec!["10 per 1h".parse().unwrap()];
    });
    tripped(&bench).await;
    let tokens = |bench: &Bench| bench.snapshot().fills[0].tokens;
    assert_eq!(tokens(&bench), 7.0);
    for _ in 0..20 {
        let got = bench.get("/x").await;
        assert_eq!((got.status(), got.refused(), got.retry_after()), (503, "breaker-open".to_owned(), 2));
        assert_eq!(got.field("proxy-status"), Some("sopan; error=destination_unavailable"));
        assert_eq!(got.detail(), "the upstream has failed too often; it is asked again in 2 s (breaker open)");
    }
    assert_eq!((tokens(&bench), bench.upstream.arrivals()), (7.0, 3));
    sleep(ms(2_100)).await;
    let mut statuses = Vec::new();
    for got in bench.crowd(40) {
        let got = got.await.unwrap();
        if got.status() == 503 {
            assert_eq!((got.refused(), got.retry_after()), ("breaker-open".to_owned(), 1));
            is_within(got.head_at, ms(2_100), ms(2_200));
        }
        statuses.push(got.status());
    }
    assert_eq!(statuses, [&[200][..], &[503; 39]].concat());
    assert_eq!(bench.upstream.arrivals(), 4);
    sleep(ms(100)).await;
    for got in bench.crowd(6) {
        assert_eq!(got.await.unwrap().status(), 200);
    }
    assert_eq!((bench.upstream.arrivals(), bench.snapshot().breaker), (10, State::Closed));
    bench.is_at_rest();
}

// cb-2
#[tokio::test(start_paused = true)]
async fn faults_of_the_client_do_not_trip_it() {
    let script = |request: &Request| match request.number {
        n if n <= 30 => Answer::status([400, 401, 404, 409, 422][n % 5]),
        _ => fine(),
    };
    let bench = Bench::new(script, three);
    for _ in 0..30 {
        assert!(bench.get("/x").await.status() < 500);
    }
    assert_eq!((bench.get("/x").await.status(), bench.upstream.arrivals()), (200, 31));
    assert_eq!(bench.snapshot().breaker, State::Closed);
}

// cb-3
#[tokio::test(start_paused = true)]
async fn clients_that_give_up_say_nothing_of_the_upstream() {
    let bench = Bench::new(|_| fine().after(s(1)), three);
    for _ in 0..30 {
        leave_after(ms(100), bench.get("/x")).await;
    }
    assert_eq!((bench.upstream.arrivals(), bench.snapshot().breaker), (30, State::Closed));
    assert_eq!(bench.get("/x").await.status(), 200);
    // Neither do those that leave in the queue, or are turned away there.
    let bench = Bench::new(
        |_| fine(),
        |settings| {
            three(settings);
            settings.lane.limits = vec!["1/s".parse().unwrap()];
            settings.lane.wait_max = Some(s(2));
        },
    );
    bench.get("/x").await;
    for _ in 0..10 {
        leave_after(ms(10), bench.get("/x")).await;
    }
    let crowd = bench.crowd(10);
    settled().await;
    let mut refused = 0;
    for got in crowd {
        refused += usize::from(got.await.unwrap().status() == 503);
    }
    assert_eq!(refused, 8);
    assert_eq!(bench.snapshot().breaker, State::Closed);
    bench.is_at_rest();
}

// cb-3, the caller's short budget
#[tokio::test(start_paused = true)]
async fn an_attempt_that_was_given_no_time_says_nothing_of_the_upstream() {
    // It waits for its turn for 800 ms of the second that it has, and the upstream needs 300 ms.
    let script = |_: &Request| fine().after(ms(300));
    let bench = Bench::new(script, |settings| {
        three(settings);
        settings.breaker.failures = 1;
        settings.lane.limits = vec!["1.25/s".parse().unwrap()];
        settings.retry.total_timeout = Some(s(1));
    });
    let mut statuses = Vec::new();
    for got in bench.crowd(2) {
        statuses.push(got.await.unwrap().status());
    }
    assert_eq!((statuses, bench.snapshot().breaker), (vec![200, 504], State::Closed));
}

#[tokio::test(start_paused = true)]
async fn it_trips_on_every_way_to_fail() {
    for (name, answer) in [
        ("a 500", Answer::status(500)),
        ("a 599", Answer::status(599)),
        ("no head", Answer::nothing().close()),
        ("garbage", Answer::raw("hello\r\n\r\n").close()),
        ("silence", Answer::nothing().hang()),
    ] {
        let bench = Bench::new(
            move |_| answer.clone(),
            |settings| {
                three(settings);
                settings.retry.attempt_timeout = s(1);
            },
        );
        for _ in 0..3 {
            assert!(!is_open(&bench), "{name}");
            bench.get("/x").await;
        }
        assert!(is_open(&bench), "{name}");
    }
    for plan in [(|_| Line::Refused) as fn(usize) -> Line, |_| Line::Hangs, |_| Line::Unresolvable, |_| Line::Dead] {
        let bench = Bench::over(plan, |_| fine(), three);
        tripped(&bench).await;
        assert_eq!(bench.get("/x").await.refused(), "breaker-open");
    }
}

#[tokio::test(start_paused = true)]
async fn what_asks_to_wait_counts_as_neither() {
    let wait = || Answer::status(503).header("Retry-After", "0");
    let bench = Bench::new(in_turn([failing(), failing(), wait(), wait(), failing()]), three);
    for expected in [false, false, false, false, true] {
        bench.get("/x").await;
        assert_eq!(is_open(&bench), expected);
    }
    // A 429 is an answer of an upstream that is well.
    let limited = || Answer::status(429).header("Retry-After", "0");
    let bench = Bench::new(in_turn([failing(), failing(), limited(), failing(), failing(), failing()]), three);
    for expected in [false, false, false, false, false, true] {
        bench.get("/x").await;
        assert_eq!(is_open(&bench), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_off_is_one_failure() {
    let cut = || Answer::status(200).header("Content-Length", "100").send("half").close();
    let bench = Bench::new(
        move |_| cut(),
        |settings| {
            three(settings);
            settings.breaker.failures = 1;
        },
    );
    assert_eq!(bench.get("/x").await.status(), 200);
    assert!(is_open(&bench));
    // Its client left: that is none.
    let bench = Bench::new(
        |_| Answer::chunked(200).chunk("half").hang(),
        |settings| {
            three(settings);
            settings.breaker.failures = 1;
        },
    );
    leave_after(SECOND, bench.get("/x")).await;
    assert_eq!(bench.snapshot().breaker, State::Closed);
}

#[tokio::test(start_paused = true)]
async fn the_default_leaves_the_retries_of_one_request_alone() {
    let defaults = sopan_core::policy::BreakerPolicy::default();
    let bench = Bench::new(
        |_| failing(),
        move |settings| {
            settings.breaker = defaults;
            settings.retry = sopan_core::policy::RetryPolicy { jitter: 0.0, ..Default::default() };
        },
    );
    for got in bench.crowd(5) {
        assert_eq!(got.await.unwrap().why(), Why::RetriesSpent { max: 3 });
    }
    assert_eq!((bench.upstream.arrivals(), bench.snapshot().breaker), (20, State::Closed));
    // An outage is longer.
    sleep(s(2)).await;
    bench.get("/x").await;
    assert!(is_open(&bench));
}

#[tokio::test(start_paused = true)]
async fn a_retry_stays_for_the_probe_if_it_may_wait_so_long() {
    let bench = Bench::new(in_turn([failing(), failing(), failing()]), |settings| {
        three(settings);
        settings.retry.max_retries = 3;
    });
    let got = bench.get("/x").await;
    assert_eq!((got.status(), bench.upstream.arrivals()), (200, 4));
    is_within(bench.upstream.gap(3), s(2), ms(2_002));
    // One that may not has the failure in hand.
    let bench = Bench::new(
        |_| failing(),
        |settings| {
            three(settings);
            settings.retry.max_retries = 3;
            settings.lane.wait_max = Some(s(1));
        },
    );
    let got = bench.get("/x").await;
    assert_eq!((got.status(), got.text(), got.why()), (503, "down", Why::NoTurn));
    assert_eq!(bench.upstream.arrivals(), 3);
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_stay_if_they_may_wait_so_long() {
    for (wait_max, stay) in [(10, true), (2, false)] {
        let script = in_turn([failing().after(ms(500)), failing().after(ms(500)), failing().after(ms(500))]);
        let bench = Bench::new(script, |settings| {
            three(settings);
            settings.lane.limits = vec!["1.25/s burst 4".parse().unwrap()];
            settings.lane.wait_max = Some(s(wait_max));
        });
        let crowd = bench.crowd(3);
        sleep(ms(100)).await;
        let waiting: Vec<_> = (0..2).map(|i| bench.spawn(get(&format!("/waits/{i}")))).collect();
        for got in crowd {
            assert_eq!(got.await.unwrap().status(), 503);
        }
        for got in waiting {
            let got = got.await.unwrap();
            if stay {
                assert_eq!(got.status(), 200);
                is_within(got.head_at, ms(2_500), ms(2_800));
            } else {
                assert_eq!((got.refused(), got.retry_after()), ("breaker-open".to_owned(), 2));
                is_within(got.head_at, ms(500), ms(502));
            }
        }
        bench.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_fails_opens_it_again() {
    let bench = Bench::new(in_turn([failing(), failing(), failing(), failing()]), three);
    tripped(&bench).await;
    sleep(s(2)).await;
    assert_eq!(bench.get("/probe").await.text(), "down");
    assert_eq!(bench.get("/x").await.retry_after(), 2);
    sleep(s(2)).await;
    assert_eq!((bench.get("/probe").await.status(), bench.snapshot().breaker), (200, State::Closed));
    // So does one that gets no connection.
    let plan = |number| if number <= 4 { Line::Refused } else { Line::Open };
    let bench = Bench::over(plan, |_| fine(), three);
    tripped(&bench).await;
    sleep(s(2)).await;
    assert_eq!(bench.get("/probe").await.status(), 502);
    assert!(is_open(&bench));
}

#[tokio::test(start_paused = true)]
async fn a_probe_whose_client_leaves_makes_room_for_another() {
    let script = |request: &Request| match request.number {
        1..=3 => failing(),
        4 => Answer::nothing().hang(),
        _ => fine(),
    };
    let bench = Bench::new(script, three);
    tripped(&bench).await;
    sleep(s(2)).await;
    let probe = bench.spawn(get("/probe"));
    settled().await;
    assert_eq!(bench.get("/x").await.refused(), "breaker-open");
    probe.abort();
    settled().await;
    assert_eq!((bench.get("/x").await.status(), bench.snapshot().breaker), (200, State::Closed));
    bench.is_at_rest();
    // Also where it leaves while its connection is made.
    let plan = |number| match number {
        1..=3 => Line::Refused,
        4 => Line::Hangs,
        _ => Line::Open,
    };
    let bench = Bench::over(plan, |_| fine(), three);
    tripped(&bench).await;
    sleep(s(2)).await;
    leave_after(SECOND, bench.get("/probe")).await;
    let got = bench.get("/x").await;
    assert_eq!(got.status(), 200);
    is_just(got.head_at, s(3));
}

#[tokio::test(start_paused = true)]
async fn retries_that_wait_for_it_lose_nothing_and_only_the_probe_connects() {
    let begun = now();
    let away = s(15);
    let plan = move |_| if now() - begun < away { Line::Refused } else { Line::Open };
    let bench = Bench::over(
        plan,
        |_| fine(),
        |settings| {
            settings.breaker.on = true;
            (settings.breaker.failures, settings.breaker.min_span, settings.breaker.open_for) = (20, s(0), s(10));
            (settings.retry.max_retries, settings.retry.total_timeout) = (3, Some(s(60)));
            (settings.lane.wait_max, settings.retry.backoff_cap) = (Some(s(60)), s(1));
        },
    );
    let crowd = bench.crowd(20);
    sleep(s(2)).await;
    // Twenty first attempts, all failed.
    assert!(is_open(&bench));
    let dialled = bench.lines.dialled();
    assert_eq!(dialled, 20);
    sleep(s(7)).await;
    assert_eq!(bench.lines.dialled(), dialled, "nobody knocks before its time");
    sleep(s(3)).await;
    assert_eq!(bench.lines.dialled(), dialled + 1, "the probe alone");
    for got in crowd {
        assert_eq!(got.await.unwrap().status(), 200);
    }
}

/// With others beside it, nobody could tell whose hold, retry or breaker it is.
#[tokio::test(start_paused = true)]
async fn every_line_of_the_log_says_which_upstream_it_is_about() {
    let log = Log::keep();
    let script = |request: &Request| match &*request.target {
        "/limited" if request.number == 1 => Answer::json(429, "{}").header("Retry-After", "1"),
        "/limited" => fine(),
        "/cut" => Answer::status(200).header("Content-Length", "10").body("half").close(),
        "/lost" => Answer::nothing().close(),
        "/x" => Answer::json(500, "down"),
        _ => fine(),
    };
    let bench = Bench::new(script, |settings| {
        three(settings);
        settings.name = "shop".to_owned();
        settings.retry.max_retries = 1;
        settings.lane.wait_max = Some(s(1));
    });
    for path in ["/limited", "/cut", "/lost", "/x", "/x"] {
        bench.send(request("POST", path, "x")).await;
    }
    sleep(s(3)).await;
    bench.get("/y").await;
    let entries = log.entries();
    for part in ["pause", "waiting 1.00 s", "cut off", "not retried", "breaker is open", "refused", "breaker is closed"]
    {
        assert!(entries.iter().any(|entry| entry.message.contains(part)), "{part} is missing in {entries:#?}");
    }
    for entry in entries {
        assert_eq!(entry.fields.get("upstream").map(String::as_str), Some("shop"), "{entry:?}");
    }
}
