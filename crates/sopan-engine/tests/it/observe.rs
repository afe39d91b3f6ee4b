//! An upstream that is only observed: everything passes as it comes, and what would have been is told.

use sopan_core::breaker::State;
use sopan_core::retry::{Verdict, Why};
use sopan_engine::Settings;
use sopan_engine::event::Observed;
use sopan_fake::script::{Answer, Request};
use tokio::time::sleep;

use crate::support::lines::Line;
use crate::support::log::Log;
use crate::support::{Bench, TICK, get, is_just, is_within, ms, noise, request, s, settled};

fn fine() -> Answer {
    Answer::json(200, "{}")
}

/// Ten a second, one at once.
fn paced(settings: &mut Settings) {
    settings.observe = true;
    settings.lane.limits = vec!["10/s".parse().unwrap()];
    settings.lane.rate_margin = "0%".parse().unwrap();
}

/// What would have become of the exchanges that have ended, in their order.
fn observed(bench: &Bench) -> Vec<Observed> {
    bench.seen.ended().iter().map(|ended| ended.observed.unwrap()).collect()
}

/// After which wait the attempt would have been repeated.
fn would_retry(observed: &Observed) -> Option<std::time::Duration> {
    match observed.failed {
        Some(Verdict::Again(again)) => Some(again.wait),
        _ => None,
    }
}

/// What was logged with `start` in it. Each line says of which upstream it is.
#[track_caller]
fn messages(log: &Log, start: &str) -> Vec<String> {
    let nameless = log.entries().into_iter().find(|entry| !entry.fields.contains_key("upstream"));
    assert!(nameless.is_none(), "{nameless:?}");
    let entries = log.entries().into_iter().map(|entry| format!("{} {}", entry.level, entry.message));
    entries.filter(|line| line.contains(start)).collect()
}

#[tokio::test(start_paused = true)]
async fn what_exceeds_the_limits_goes_at_once_and_its_wait_is_told() {
    let log = Log::keep();
    let bench = Bench::new(
        |_| fine(),
        |settings| {
            paced(settings);
            settings.lane.wait_max = Some(ms(250));
        },
    );
    for got in bench.crowd(5) {
        let got = got.await.unwrap();
        assert_eq!((got.status(), got.head_at < ms(50)), (200, true), "{got:?}");
        assert!(got.field("server-timing").unwrap().starts_with("wait;dur=0.0, attempts;desc=\"1\","), "{got:?}");
    }
    let told = observed(&bench);
    let waits: Vec<_> = told.iter().map(|observed| observed.wait).collect();
    assert_eq!(waits, [0, 100, 200, 0, 0].map(ms));
    let reasons: Vec<_> = told.iter().map(|observed| observed.refused.map(|refusal| refusal.reason())).collect();
    assert_eq!(reasons, [None, None, None, Some("wait-too-long"), Some("wait-too-long")]);
    // As with real refusals, the second one is counted and not told.
    let why = "the request would wait 0.3 s for its turn within the upstream's limits, and may wait 0.2 s";
    assert_eq!(messages(&log, ""), [format!("WARN observe: GET /3 would be refused: {why}")]);
    assert_eq!(bench.snapshot().fills[0].tokens, 0.0);
    sleep(ms(1_000)).await;
    assert_eq!(bench.snapshot().fills[0].tokens, 1.0);
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn a_429_passes_as_it_came_with_the_hold_and_the_retry_that_would_follow() {
    let log = Log::keep();
    let limited = || Answer::json(429, "{\"slow\":\"down\"}").header("Retry-After", "5");
    let bench = Bench::new(move |request: &Request| if request.number == 1 { limited() } else { fine() }, paced);
    let got = bench.get("/first").await;
    assert_eq!((got.status(), got.field("retry-after"), got.text()), (429, Some("5"), "{\"slow\":\"down\"}"));
    assert!(got.head_at < ms(50), "{:?}", got.head_at);
    assert_eq!(got.why(), Why::OnlyObserved);
    let snapshot = bench.snapshot();
    assert_eq!((snapshot.hold, snapshot.holds), (Some(s(5)), 1));
    assert_eq!(bench.get("/second").await.status(), 200);
    assert_eq!(bench.targets(), ["/first", "/second"]);
    let told = observed(&bench);
    assert_eq!((would_retry(&told[0]), told[0].wait), (Some(s(5)), ms(0)));
    assert_eq!((told[1].failed, told[1].wait), (None, s(5)));
    assert_eq!(
        messages(&log, ""),
        [
            "INFO observe: the upstream asks for a pause: nothing would be sent for 5.00 s",
            "INFO observe: attempt 1 failed (HTTP 429); would wait 5.00 s before retrying",
        ]
    );
    sleep(s(6)).await;
    assert_eq!(bench.snapshot().hold, None);
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn what_would_not_be_repeated_is_told_as_it_always_is() {
    let log = Log::keep();
    let bench = Bench::new(
        |_| Answer::status(500),
        |settings| {
            settings.observe = true;
            settings.retry.max_retries = 0;
        },
    );
    assert_eq!(bench.get("/x").await.why(), Why::RetriesSpent { max: 0 });
    assert_eq!(bench.send(request("POST", "/x", "once")).await.why(), Why::NotSafeToRepeat);
    let failed: Vec<_> = observed(&bench).iter().map(|observed| observed.failed.unwrap()).collect();
    assert_eq!(failed, [Why::RetriesSpent { max: 0 }, Why::NotSafeToRepeat].map(Verdict::GiveUp));
    assert_eq!(messages(&log, "attempt 1 failed (HTTP 500); not retried: ").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn retries_that_would_be_made_spend_the_budget() {
    let bench = Bench::new(|_| Answer::status(500), |settings| settings.observe = true);
    for _ in 0..150 {
        bench.get("/x").await;
    }
    let told = observed(&bench);
    let would = told.iter().filter(|observed| would_retry(observed) == Some(ms(200))).count();
    let spent = told.iter().filter(|observed| observed.failed == Some(Verdict::GiveUp(Why::BudgetSpent))).count();
    assert_eq!(bench.upstream.arrivals(), 150);
    assert!((100..=130).contains(&would) && would + spent == 150, "{would} and {spent}");
}

#[tokio::test(start_paused = true)]
async fn the_breaker_would_trip_and_traffic_flows_on() {
    let log = Log::keep();
    let script = |request: &Request| if request.number <= 5 { Answer::status(500) } else { fine() };
    let bench = Bench::new(script, |settings| {
        settings.observe = true;
        settings.breaker.on = true;
        settings.breaker.failures = 3;
        settings.breaker.min_span = s(0);
        settings.breaker.open_for = s(2);
    });
    for (status, would_be_refused) in [(500, false), (500, false), (500, false), (500, true), (500, true), (200, true)]
    {
        assert_eq!(bench.get("/x").await.status(), status);
        let last = *observed(&bench).last().unwrap();
        assert_eq!(last.refused.is_some_and(|refusal| refusal.reason() == "breaker-open"), would_be_refused);
        // Where there would have been no attempt, there would have been none to repeat.
        assert_eq!(last.failed.is_none(), would_be_refused);
    }
    assert!(matches!(bench.snapshot().breaker, State::Open { .. }));
    sleep(s(2)).await;
    assert_eq!(bench.get("/x").await.status(), 200);
    assert_eq!(bench.snapshot().breaker, State::Closed);
    assert_eq!(
        messages(&log, "breaker would be"),
        [
            "WARN observe: the upstream fails too often: the breaker would be open, and nothing sent for 2.00 s",
            "INFO observe: the upstream answers again: the breaker would be closed",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_is_away_is_asked_once_and_the_breaker_would_trip() {
    let log = Log::keep();
    let bench = Bench::over(
        |_| Line::Refused,
        |_| fine(),
        |settings| {
            settings.observe = true;
            (settings.breaker.on, settings.breaker.failures, settings.breaker.min_span) = (true, 3, s(0));
        },
    );
    for _ in 0..3 {
        let got = bench.get("/x").await;
        assert_eq!((got.status(), got.head_at < ms(50)), (502, true), "{got:?}");
    }
    assert_eq!(bench.seen.outcomes().len(), 3);
    assert!(matches!(bench.snapshot().breaker, State::Open { .. }));
    // Its client gets an answer of sopan's own, and why is a warning as always.
    let warnings = log.warnings();
    assert!(warnings[0].ends_with("; not retried: retries are only observed"), "{warnings:?}");
    bench.is_at_rest();
}

/// With others beside it, nobody could tell whose hold, retry or breaker it would be.
#[tokio::test(start_paused = true)]
async fn every_line_of_what_would_be_says_which_upstream_it_is_about() {
    let log = Log::keep();
    let script = |request: &Request| match request.number {
        1 => Answer::status(429).header("Retry-After", "1"),
        2 => fine(),
        3 => Answer::status(500),
        _ => fine(),
    };
    let bench = Bench::new(script, |settings| {
        paced(settings);
        settings.name = "shop".to_owned();
        settings.lane.wait_max = Some(s(0));
        (settings.breaker.on, settings.breaker.failures) = (true, 1);
        (settings.breaker.min_span, settings.breaker.open_for) = (s(0), s(2));
    });
    for pause in [s(0), s(2), s(3), s(0)] {
        bench.get("/x").await;
        sleep(pause).await;
    }
    let entries = log.entries();
    for part in
        ["asks for a pause", "would wait", "would be refused", "breaker would be open", "breaker would be closed"]
    {
        assert!(entries.iter().any(|entry| entry.message.contains(part)), "{part} is missing in {entries:#?}");
    }
    for entry in entries {
        assert_eq!(entry.fields.get("upstream").map(String::as_str), Some("shop"), "{entry:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn places_act_in_earnest() {
    let bench = Bench::new(
        |_| fine().after(s(1)),
        |settings| {
            paced(settings);
            settings.lane.max_in_flight = Some(2);
            settings.lane.waiting_max = 3;
        },
    );
    let crowd = bench.crowd(6);
    settled().await;
    assert_eq!((bench.upstream.arrivals(), bench.in_flight(), bench.waiting()), (2, 2, 3));
    let mut statuses = Vec::new();
    for got in crowd {
        statuses.push(got.await.unwrap().status());
    }
    assert_eq!(statuses, [200, 200, 200, 200, 200, 503]);
    for (at, expected) in bench.arrivals().into_iter().zip([0, 0, 1_000, 1_000, 2_000]) {
        is_within(at, ms(expected), ms(expected) + TICK * 3);
    }
    let mut ended = bench.seen.ended();
    // Who is refused in earnest never came to where limits are.
    ended.retain(|ended| ended.refused.is_none());
    let told: Vec<_> = ended.iter().map(|ended| ended.observed.unwrap()).collect();
    let waits: Vec<_> = told.iter().map(|observed| observed.wait).collect();
    assert_eq!(waits, [0, 100, 200, 300, 0].map(ms));
    assert_eq!(told[4].refused.map(|refusal| refusal.reason()), Some("queue-full"));
    is_within(ended[4].wait, s(2), s(2) + TICK * 3);
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn bodies_pass_untouched_and_those_that_break_off_would_count() {
    let body = noise(3_000_000);
    let script = |request: &Request| match &*request.target {
        "/cut" => Answer::status(200).header("Content-Length", "10").body("half").close(),
        _ => Answer::status(429).header("Retry-After", "1"),
    };
    let bench = Bench::new(script, |settings| {
        paced(settings);
        (settings.breaker.on, settings.breaker.failures, settings.breaker.min_span) = (true, 1, s(0));
    });
    assert_eq!(bench.send(request("POST", "/orders", body.clone())).await.status(), 429);
    let sent = bench.upstream.requests();
    assert!(sent.len() == 1 && sent[0].body == body, "{} of them, with {} bytes", sent.len(), sent[0].body.len());
    assert_eq!(would_retry(&observed(&bench)[0]), Some(s(1)));
    assert!(bench.get("/cut").await.body.is_err());
    assert!(matches!(bench.snapshot().breaker, State::Open { .. }));
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn a_probe_whose_client_leaves_is_given_back() {
    let script = |request: &Request| match &*request.target {
        "/slow" => fine().after(s(10)),
        "/fine" => fine(),
        _ => Answer::status(500),
    };
    let bench = Bench::new(script, |settings| {
        settings.observe = true;
        (settings.breaker.on, settings.breaker.failures, settings.breaker.min_span) = (true, 1, s(0));
    });
    bench.get("/fails").await;
    sleep(s(10)).await;
    let probe = bench.spawn(get("/slow"));
    settled().await;
    assert_eq!(bench.snapshot().breaker, State::HalfOpen { free: 0 });
    probe.abort();
    settled().await;
    assert_eq!(bench.snapshot().breaker, State::HalfOpen { free: 1 });
    let got = bench.get("/fine").await;
    is_just(got.head_at, s(10));
    assert_eq!(bench.snapshot().breaker, State::Closed);
}
