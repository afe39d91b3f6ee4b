//! Pauses that the upstream asks for: whom they stop, for how long, and how the lane starts again.

use std::time::Duration;

use sopan_core::policy::OnLongRetryAfter;
use sopan_engine::Settings;
use sopan_fake::script::{Answer, Request};
use tokio::time::sleep;

use crate::support::lines::Line;
use crate::support::{Bench, SECOND, get, is_just, is_within, ms, request, s, settled};

fn limited(seconds: u64) -> Answer {
    Answer::status(429).header("Retry-After", seconds.to_string())
}

fn fine() -> Answer {
    Answer::json(200, "{}")
}

/// These answers one after the other, then 200.
fn in_turn<const N: usize>(answers: [Answer; N]) -> impl Fn(&Request) -> Answer + Send + Sync {
    move |request| answers.get(request.number - 1).cloned().unwrap_or_else(fine)
}

fn without_retries(settings: &mut Settings) {
    settings.retry.max_retries = 0;
}

/// How long another client's request is stopped by this first answer to somebody else, whose exchange ends with it.
async fn stop(first: Answer, method: &str, change: impl FnOnce(&mut Settings)) -> Duration {
    let bench = Bench::new(in_turn([first]), |settings| {
        without_retries(settings);
        change(settings);
    });
    bench.send(request(method, "/first", "")).await;
    let got = bench.calling(get("/other"), 2).await;
    assert_eq!(got.status(), 200, "{got:?}");
    bench.is_at_rest();
    bench.arrivals()[1]
}

#[tokio::test(start_paused = true)]
async fn what_asks_to_wait_stops_everybody_for_just_so_long() {
    let wait = |status: u16, value: &str| Answer::status(status).header("Retry-After", value);
    for (first, expected) in [
        (limited(5), s(5)),
        (wait(503, "5"), s(5)),
        (wait(429, "1.5"), ms(1_500)),
        // `min_wait` under zero, the backoff where nothing is said.
        (wait(429, "0"), s(1)),
        (wait(503, "0"), s(1)),
        (Answer::status(429), ms(200)),
        (wait(429, "soon"), ms(200)),
        // No answers of a limit.
        (Answer::status(503), s(0)),
        (wait(503, "soon"), s(0)),
        (wait(500, "5"), s(0)),
        (wait(408, "5"), s(0)),
        (wait(403, "5"), s(0)),
        (wait(200, "5"), s(0)),
    ] {
        for method in ["GET", "POST"] {
            is_just(stop(first.clone(), method, |_| {}).await, expected);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_pause_is_the_policys_wait_without_its_jitter() {
    is_just(stop(Answer::status(429), "GET", |settings| settings.retry.default_wait = Some(s(2))).await, s(2));
    is_just(stop(limited(5), "GET", |settings| settings.retry.retry_after_jitter = s(20)).await, s(5));
    is_just(
        stop(limited(500), "GET", |settings| {
            settings.retry.on_long_retry_after = OnLongRetryAfter::Cap;
            settings.retry.max_retry_after = s(7);
        })
        .await,
        s(7),
    );
}

#[tokio::test(start_paused = true)]
async fn a_pause_has_a_bound_that_does_not_bind_the_one_who_was_told() {
    let bench = Bench::new(in_turn([limited(25)]), |settings| settings.lane.max_hold = s(10));
    let told = bench.spawn(get("/told"));
    settled().await;
    assert_eq!(bench.get("/other").await.status(), 200);
    assert_eq!(told.await.unwrap().status(), 200);
    let arrivals = bench.arrivals();
    is_just(arrivals[1], s(10));
    is_just(arrivals[2], s(25));
    assert_eq!(bench.targets(), ["/told", "/other", "/told"]);
}

#[tokio::test(start_paused = true)]
async fn a_later_end_wins_and_an_earlier_one_never_shortens() {
    for (first, second, end) in [(5, 1, ms(5_100)), (1, 5, ms(5_200))] {
        let script = in_turn([limited(first).after(ms(100)), limited(second).after(ms(200))]);
        let bench = Bench::new(script, without_retries);
        for got in bench.crowd(2) {
            assert_eq!(got.await.unwrap().status(), 429);
        }
        assert_eq!(bench.snapshot().holds, 2);
        assert_eq!(bench.get("/other").await.status(), 200);
        is_just(bench.arrivals()[2], end);
        assert_eq!(bench.snapshot().hold, None);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_on_the_wire_may_finish() {
    let script = |request: &Request| match request.number {
        1 => limited(5).after(ms(100)),
        _ => Answer::chunked(200).sleep(ms(500)).chunk("whole").sleep(s(1)).end(),
    };
    let bench = Bench::new(script, without_retries);
    let crowd = bench.crowd(3);
    let mut statuses = Vec::new();
    for got in crowd {
        let got = got.await.unwrap();
        assert!(got.body_at < s(2), "{:?}", got.body_at);
        statuses.push(got.status());
    }
    assert_eq!(statuses, [429, 200, 200]);
}

#[tokio::test(start_paused = true)]
async fn at_its_end_one_leaves_and_the_others_follow_at_the_rate() {
    let bench = Bench::new(in_turn([limited(5)]), |settings| {
        settings.lane.limits = vec!["10/s burst 5".parse().unwrap(), "50/s burst 20".parse().unwrap()];
    });
    let told = bench.spawn(get("/told"));
    sleep(SECOND).await;
    let crowd = bench.crowd(10);
    for got in std::iter::once(told).chain(crowd) {
        assert_eq!(got.await.unwrap().status(), 200);
    }
    let arrivals = &bench.arrivals()[1..];
    is_just(arrivals[0], s(5));
    arrivals.windows(2).for_each(|pair| is_within(pair[1] - pair[0], ms(100), ms(102)));
    // Who was told to wait is first.
    assert_eq!(bench.targets()[1], "/told");
}

#[tokio::test(start_paused = true)]
async fn it_counts_from_the_end_of_the_answer_so_that_who_was_told_to_wait_is_first() {
    let script = |request: &Request| match request.number {
        1 => limited(5).header("Content-Length", "3").sleep(ms(300)).send("slo").sleep(ms(1)),
        _ => fine(),
    };
    let bench = Bench::new(script, |settings| settings.lane.limits = vec!["10/s".parse().unwrap()]);
    let told = bench.spawn(get("/told"));
    sleep(ms(100)).await;
    for got in std::iter::once(told).chain(bench.crowd(2)) {
        assert_eq!(got.await.unwrap().status(), 200);
    }
    assert_eq!(bench.targets()[..2], ["/told", "/told"]);
    is_just(bench.arrivals()[1], ms(5_300));
    assert_eq!(bench.snapshot().holds, 1);
}

#[tokio::test(start_paused = true)]
async fn no_turn_waits_for_anothers_answer_where_there_is_a_rate() {
    let script = |request: &Request| if request.number == 1 { limited(5) } else { fine().after(s(3)) };
    let bench = Bench::new(script, |settings| settings.lane.limits = vec!["10/s".parse().unwrap()]);
    for got in bench.crowd(5) {
        assert_eq!(got.await.unwrap().status(), 200);
    }
    let arrivals = &bench.arrivals()[1..];
    is_within(*arrivals.last().unwrap(), ms(5_400), ms(5_410));
}

#[tokio::test(start_paused = true)]
async fn without_a_rate_it_starts_by_rounds_of_one_two_four() {
    let script = |request: &Request| if request.number == 1 { limited(5) } else { fine().after(ms(100)) };
    let bench = Bench::new(script, |_| {});
    let told = bench.spawn(get("/told"));
    sleep(SECOND).await;
    let crowd = bench.crowd(11);
    for got in std::iter::once(told).chain(crowd) {
        assert_eq!(got.await.unwrap().status(), 200);
    }
    let expected = [0, 5_000, 5_100, 5_100, 5_200, 5_200, 5_200, 5_200, 5_300, 5_300, 5_300, 5_300, 5_300].map(ms);
    let arrivals = bench.arrivals();
    assert_eq!(arrivals.len(), expected.len());
    arrivals.into_iter().zip(expected).for_each(|(at, expected)| is_within(at, expected, expected + ms(4)));
    // When nobody waits any more, nobody is counted.
    let begun = bench.upstream.arrivals();
    let crowd = bench.crowd(5);
    settled().await;
    assert_eq!(bench.upstream.arrivals(), begun + 5);
    for got in crowd {
        got.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn one_who_leaves_in_a_round_does_not_stop_it() {
    let script = |request: &Request| if request.number == 1 { limited(1) } else { fine().after(s(5)) };
    let bench = Bench::new(script, without_retries);
    bench.get("/told").await;
    let first = bench.spawn(get("/first"));
    let others = bench.crowd(2);
    sleep(ms(1_500)).await;
    assert_eq!((bench.upstream.arrivals(), bench.waiting()), (2, 2));
    first.abort();
    settled().await;
    assert_eq!((bench.upstream.arrivals(), bench.waiting()), (4, 0));
    for got in others {
        assert_eq!(got.await.unwrap().status(), 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_429_holds_again() {
    let bench = Bench::new(in_turn([limited(1), limited(2), limited(3)]), |settings| {
        settings.retry.max_retries = 5;
        settings.lane.limits = vec!["10/s".parse().unwrap()];
    });
    for got in bench.crowd(4) {
        assert_eq!(got.await.unwrap().status(), 200);
    }
    let arrivals = bench.arrivals();
    let expected = [0, 1_000, 3_000, 6_000].map(ms);
    arrivals.iter().zip(expected).for_each(|(at, expected)| is_within(*at, expected, expected + ms(3)));
    assert_eq!(arrivals.len(), 7);
    is_within(arrivals[6], ms(6_300), ms(6_310));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_was_granted_before_a_hold_is_not_used_in_it() {
    // The second connection takes long, so that its turn comes before the hold and its request would be written in it.
    let plan = |number| if number == 2 { Line::Slow(s(2)) } else { Line::Open };
    let script = |request: &Request| if request.number == 1 { limited(5).after(s(1)) } else { fine() };
    for limits in [vec![], vec!["10/s burst 5".parse().unwrap()]] {
        let bench = Bench::over(plan, script, |settings| {
            without_retries(settings);
            settings.lane.limits = limits;
        });
        let told = bench.spawn(get("/told"));
        sleep(ms(500)).await;
        let other = bench.spawn(get("/other"));
        sleep(ms(100)).await;
        assert_eq!((bench.in_flight(), bench.waiting()), (2, 0));
        sleep(ms(2_400)).await;
        // Its connection is here, and it waits again.
        assert_eq!((bench.upstream.arrivals(), bench.waiting()), (1, 1));
        assert_eq!((told.await.unwrap().status(), other.await.unwrap().status()), (429, 200));
        is_just(bench.arrivals()[1], s(6));
        assert_eq!(bench.lines.dialled(), 2);
        bench.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn newcomers_wait_for_a_short_hold_and_are_turned_away_by_a_long_one() {
    for (asked, admitted) in [(30, true), (45, false)] {
        let bench = Bench::new(in_turn([limited(asked)]), |settings| {
            without_retries(settings);
            settings.retry.total_timeout = Some(s(120));
        });
        bench.get("/told").await;
        let got = bench.get("/other").await;
        if admitted {
            assert_eq!(got.status(), 200);
            is_just(got.head_at, s(asked));
        } else {
            assert_eq!((got.status(), got.refused(), got.head_at), (503, "wait-too-long".to_owned(), s(0)));
            let detail =
                "the request would wait 45.0 s for the pause that the upstream asked for (hold), and may wait 30.0 s";
            assert_eq!((got.detail().as_str(), got.retry_after()), (detail, 15));
            sleep(s(15)).await;
            assert_eq!(bench.get("/told-when").await.status(), 200);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_shown_while_it_lasts() {
    let bench = Bench::new(in_turn([limited(5)]), without_retries);
    bench.get("/told").await;
    sleep(s(2)).await;
    is_within(bench.snapshot().hold.unwrap(), ms(2_990), s(3));
    sleep(s(3)).await;
    assert_eq!(bench.snapshot().hold, None);
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_waits_through_a_hold_is_written_at_its_end_and_not_later() {
    // Its connection is gone meanwhile and takes long to make again: it is made before the end.
    let plan = |number| if number == 1 { Line::Open } else { Line::Slow(ms(800)) };
    let script = |request: &Request| match request.number {
        1 => limited(10).header("Connection", "close"),
        _ => fine(),
    };
    let bench = Bench::over(plan, script, |_| {});
    assert_eq!(bench.get("/x").await.status(), 200);
    is_just(bench.upstream.gap(1), s(10));
}
