//! Who waits, for how long, in which order, and who is turned away instead.

use std::time::Duration;

use sopan_core::lane::Refusal as Turned;
use sopan_core::retry::Why;
use sopan_engine::Settings;
use sopan_engine::refusal::Refusal;
use sopan_fake::script::{Answer, Request};
use tokio::time::sleep;

use crate::support::{Bench, Got, SECOND, get, is_just, is_within, ms, noise, s, settled};

fn fine(_: &Request) -> Answer {
    Answer::json(200, "{}")
}

fn limit(text: &str) -> impl FnOnce(&mut Settings) {
    let limit = text.parse().unwrap();
    move |settings| settings.lane.limits = vec![limit]
}

// qu-1
#[tokio::test(start_paused = true)]
async fn the_queue_is_bounded_and_who_does_not_fit_is_told_at_once() {
    let bench = Bench::new(fine, |settings| {
        limit("1/s")(settings);
        (settings.lane.waiting_max, settings.lane.wait_max) = (5, Some(s(30)));
    });
    let mut refused = Vec::new();
    let crowd = bench.crowd(20);
    settled().await;
    assert_eq!(bench.waiting(), 5);
    for got in crowd {
        let got = got.await.unwrap();
        if got.status() != 200 {
            refused.push(got);
        }
    }
    assert_eq!((refused.len(), bench.upstream.arrivals()), (14, 6));
    for got in refused {
        assert_eq!((got.status(), got.refused(), got.head_at), (503, "queue-full".to_owned(), Duration::ZERO));
        assert_eq!(got.detail(), "queue full: 5 requests wait already (waiting_max)");
        assert!((1..=7).contains(&got.retry_after()), "{}", got.retry_after());
    }
    bench.is_at_rest();
}

// qu-2
#[tokio::test(start_paused = true)]
async fn one_that_was_refused_is_never_sent() {
    let bench = Bench::new(fine, |settings| {
        limit("0.1/s")(settings);
        settings.lane.wait_max = Some(s(1));
    });
    let mut crowd = bench.crowd(2).into_iter();
    assert_eq!(crowd.next().unwrap().await.unwrap().status(), 200);
    let got = crowd.next().unwrap().await.unwrap();
    assert_eq!((got.status(), got.refused(), got.head_at), (503, "wait-too-long".to_owned(), Duration::ZERO));
    assert_eq!(
        got.detail(),
        "the request would wait 10.0 s for its turn within the upstream's limits, and may wait 1.0 s"
    );
    // 10.01 s, since a rate runs at 0.999 of itself.
    assert!((9..=10).contains(&got.retry_after()), "{}", got.retry_after());
    sleep(s(15)).await;
    assert_eq!(bench.upstream.arrivals(), 1);
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn a_refusal_says_truly_when_to_come_again() {
    for (text, wait_max, before) in [("0.1/s", 1, 1), ("6/min burst 2", 3, 2), ("3 per 20s", 4, 3), ("1/s", 2, 4)] {
        let bench = Bench::new(fine, |settings| {
            limit(text)(settings);
            settings.lane.wait_max = Some(s(wait_max));
        });
        let mut crowd = bench.crowd(before + 1);
        settled().await;
        let got = crowd.pop().unwrap().await.unwrap();
        let Refusal::Lane(Turned::WaitTooLong { predicted, allowed, .. }) = got.refusal() else { panic!("{got:?}") };
        assert_eq!((allowed, got.retry_after()), (s(wait_max), (predicted - allowed).as_secs_f64().ceil() as u64));
        sleep(s(got.retry_after())).await;
        let again = bench.get("/again").await;
        assert_eq!(again.status(), 200, "{text}");
        is_within(again.head_at, predicted - SECOND, predicted + SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_is_kept_also_where_the_wait_grew() {
    let script = |request: &Request| match request.number {
        1 => Answer::status(429).header("Retry-After", "20").after(ms(500)),
        _ => fine(request),
    };
    let bench = Bench::new(script, |settings| {
        limit("1/s")(settings);
        (settings.lane.wait_max, settings.retry.max_retries) = (Some(s(2)), 0);
    });
    let first = bench.spawn(get("/first"));
    sleep(ms(100)).await;
    let got = bench.get("/second").await;
    assert_eq!((got.status(), got.refused()), (503, "waited-too-long".to_owned()));
    assert_eq!(
        got.detail(),
        "the request has waited for the pause that the upstream asked for (hold) for as long as it may"
    );
    is_within(got.head_at, ms(2_100), ms(2_103));
    // The hold ends at 20.5 s, and one who comes 2 s before that may wait for it.
    assert_eq!(got.retry_after(), 17);
    assert_eq!(first.await.unwrap().status(), 429);
    sleep(s(60)).await;
    assert_eq!(bench.upstream.arrivals(), 1);
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn the_time_in_all_is_a_deadline_too() {
    let bench = Bench::new(fine, |settings| {
        limit("0.2/s")(settings);
        settings.retry.total_timeout = Some(s(3));
    });
    bench.get("/first").await;
    let got = bench.get("/second").await;
    assert_eq!((got.refused(), got.head_at), ("wait-too-long".to_owned(), Duration::ZERO));
    assert!(got.detail().ends_with("and may wait 3.0 s"), "{}", got.detail());
    assert_eq!(got.retry_after(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_client_is_served_in_the_order_of_its_requests() {
    let bench = Bench::new(fine, limit("20/s"));
    let expected: Vec<_> = (0..30).map(|i| format!("/{i}")).collect();
    for got in bench.crowd(30) {
        assert_eq!(got.await.unwrap().status(), 200);
    }
    assert_eq!(bench.targets(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_retry_takes_its_old_place_and_is_not_refused_for_want_of_room() {
    let script = |request: &Request| match request.number {
        1 => Answer::status(500).after(ms(100)),
        _ => fine(request),
    };
    let bench = Bench::new(script, |settings| {
        limit("1/s")(settings);
        settings.lane.waiting_max = 2;
    });
    let first = bench.spawn(get("/first"));
    sleep(ms(150)).await;
    let (second, third) = (bench.spawn(get("/second")), bench.spawn(get("/third")));
    sleep(ms(200)).await;
    // The retry came back at 300 ms into a queue that was full already, and now counts in it.
    assert_eq!(bench.waiting(), 3);
    assert_eq!(bench.get("/late").await.refused(), "queue-full");
    for got in [first, second, third] {
        assert_eq!(got.await.unwrap().status(), 200);
    }
    assert_eq!(bench.targets(), ["/first", "/first", "/second", "/third"]);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_retry_counts_with_the_body_that_is_kept_for_it() {
    let script = |request: &Request| if request.number == 1 { Answer::status(500) } else { fine(request) };
    let bench = Bench::new(script, |settings| {
        limit("1/s")(settings);
        settings.lane.queue_bytes_max = 5_000;
    });
    let mut client = bench.door();
    client.send("PUT /x HTTP/1.1\r\nHost: sopan\r\nContent-Length: 10000\r\n\r\n").await;
    client.send(noise(10_000)).await;
    sleep(ms(500)).await;
    // It is not turned away for it, but newcomers are.
    let bytes = bench.snapshot().waiting_bytes;
    assert!((10_000..10_200).contains(&bytes) && bench.waiting() == 1, "{bytes}");
    assert_eq!(bench.get("/late").await.refused(), "queue-full");
    assert_eq!(client.head().await.status(), 200);
    assert!(bench.upstream.request(2).body == noise(10_000));
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn a_retrys_stay_begins_after_its_own_wait() {
    let script = |request: &Request| match request.number {
        1 => Answer::status(429).header("Retry-After", "10"),
        _ => fine(request),
    };
    let bench = Bench::new(script, |settings| {
        limit("1/s")(settings);
        settings.lane.wait_max = Some(s(2));
    });
    assert_eq!(bench.get("/x").await.status(), 200);
    is_just(bench.upstream.gap(1), s(10));
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_gets_no_turn_leaves_the_failure_in_hand() {
    let script = |_: &Request| Answer::json(500, "oh").header("X-Trace", "7");
    let bench = Bench::new(script, |settings| {
        limit("0.1/s")(settings);
        settings.lane.wait_max = Some(s(2));
    });
    let got = bench.get("/x").await;
    assert_eq!((got.status(), got.text(), got.field("x-trace"), got.why()), (500, "oh", Some("7"), Why::NoTurn));
    is_just(got.head_at, ms(200));
    assert_eq!(bench.upstream.arrivals(), 1);
    // Without an answer in hand it is the failure itself.
    let bench = Bench::new(
        |_| Answer::nothing().close(),
        |settings| {
            limit("0.1/s")(settings);
            settings.lane.wait_max = Some(s(2));
        },
    );
    let got = bench.get("/x").await;
    assert_eq!((got.status(), got.why()), (502, Why::NoTurn));
    assert_eq!(got.detail(), "the upstream closed the connection before it answered");
}

fn at_most(places: u32) -> impl FnOnce(&mut Settings) {
    move |settings| settings.lane.max_in_flight = Some(places)
}

#[tokio::test(start_paused = true)]
async fn a_place_is_held_to_the_end_of_the_body() {
    let script = |_: &Request| Answer::chunked(200).sleep(ms(500)).chunk("half").sleep(ms(500)).chunk("whole").end();
    let bench = Bench::new(script, at_most(2));
    let crowd = bench.crowd(5);
    settled().await;
    assert_eq!((bench.in_flight(), bench.waiting(), bench.upstream.arrivals()), (2, 3, 2));
    for got in crowd {
        assert_eq!(got.await.unwrap().text(), "halfwhole");
    }
    let expected = [0, 0, 1_000, 1_000, 2_000].map(ms);
    bench.arrivals().into_iter().zip(expected).for_each(|(at, expected)| is_within(at, expected, expected + ms(3)));
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn a_waiting_retry_holds_no_place() {
    let script = |request: &Request| match request.number {
        1 => Answer::status(500),
        _ => fine(request),
    };
    let bench = Bench::new(script, |settings| {
        at_most(1)(settings);
        settings.retry.backoff_base = s(2);
    });
    let first = bench.spawn(get("/first"));
    sleep(SECOND).await;
    assert_eq!(bench.in_flight(), 0);
    let second = bench.get("/second").await;
    assert_eq!((second.status(), second.head_at), (200, SECOND));
    assert_eq!(first.await.unwrap().status(), 200);
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_place_is_predicted_from_how_long_places_are_held() {
    let bench = Bench::new(
        |_| Answer::status(200).after(s(4)),
        |settings| {
            at_most(1)(settings);
            settings.lane.wait_max = Some(s(5));
        },
    );
    bench.get("/measured").await;
    let _first = bench.spawn(get("/first"));
    let waits = bench.spawn(get("/waits"));
    settled().await;
    let got = bench.get("/too-many").await;
    assert_eq!(got.refused(), "wait-too-long");
    let detail =
        "the request would wait 8.0 s for a place among the requests under way (max_in_flight), and may wait 5.0 s";
    assert_eq!((got.detail().as_str(), got.retry_after()), (detail, 3));
    assert_eq!(waits.await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_does_not_overtake_those_who_wait() {
    let bench = Bench::new(fine, limit("1/s burst 2"));
    let first = bench.crowd(3);
    // Between the turn that is due and the one who gets it nobody slips in.
    sleep(ms(1_001)).await;
    let late = bench.spawn(get("/late"));
    for got in first {
        assert_eq!(got.await.unwrap().status(), 200);
    }
    assert_eq!(late.await.unwrap().status(), 200);
    assert_eq!(bench.targets(), ["/0", "/1", "/2", "/late"]);
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_shown_and_what_it_waited_is_told() {
    let bench = Bench::new(fine, limit("1/s"));
    let crowd = bench.crowd(3);
    settled().await;
    let snapshot = bench.snapshot();
    assert_eq!((snapshot.waiting, snapshot.in_flight, snapshot.hold), (2, 0, None));
    assert!(snapshot.waiting_bytes > 0 && snapshot.waiting_bytes < 200, "{}", snapshot.waiting_bytes);
    let mut waits = Vec::new();
    for got in crowd {
        let got: Got = got.await.unwrap();
        let told = got.field("server-timing").unwrap().split(", ").next().unwrap();
        waits.push(told.strip_prefix("wait;dur=").unwrap().parse::<f64>().unwrap());
    }
    assert_eq!(waits[0], 0.0);
    assert!((1_000.0..1_005.0).contains(&waits[1]) && (2_000.0..2_010.0).contains(&waits[2]), "{waits:?}");
}
