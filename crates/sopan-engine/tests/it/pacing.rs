//! When requests leave: never faster than the limits, as fast as they let, and on time.

use std::time::Duration;

use sopan_engine::Settings;
use sopan_fake::script::{Answer, Request};
use tokio::time::sleep;

use crate::support::lines::Line;
use crate::support::{Bench, TICK, get, is_just, is_within, keeps_to, leave_after, ms, s, settled};

fn fine(_: &Request) -> Answer {
    Answer::json(200, "{}")
}

/// These limits, and all the patience that it takes to wait for them.
fn limited(limits: &[&str]) -> impl FnOnce(&mut Settings) {
    let limits = limits.iter().map(|limit| limit.parse().unwrap()).collect();
    move |settings| {
        settings.lane.limits = limits;
        settings.lane.wait_max = None;
        settings.retry.total_timeout = None;
    }
}

async fn all_fine(bench: &Bench, count: usize) {
    for got in bench.crowd(count) {
        assert_eq!(got.await.unwrap().status(), 200);
    }
    bench.is_at_rest();
}

fn gaps(arrivals: &[Duration]) -> Vec<Duration> {
    arrivals.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

// pa-1
#[tokio::test(start_paused = true)]
async fn one_429_stops_all_of_them_and_they_come_back_one_by_one() {
    let script = |request: &Request| match request.number {
        3 => Answer::status(429).header("Retry-After", "3"),
        _ => Answer::json(200, "{}").after(ms(20)),
    };
    let bench = Bench::new(script, |settings| settings.lane.limits = vec!["20/s".parse().unwrap()]);
    let clients: Vec<_> =
        (0..40).map(|client| tokio::spawn(bench.calling(get(&format!("/{client}")), client))).collect();
    for client in clients {
        assert_eq!(client.await.unwrap().status(), 200);
    }
    let arrivals = bench.arrivals();
    assert_eq!(arrivals.len(), 41);
    let told = bench.upstream.request(3).finished_at().unwrap() - bench.begun;
    assert!(arrivals.iter().all(|at| *at <= told + ms(150) || *at >= told + ms(2_980)), "{arrivals:?}");
    let after: Vec<_> = arrivals.into_iter().filter(|at| *at > told).collect();
    keeps_to(&after, 1, 20.0);
    is_just(after[0], told + s(3));
    is_within(*after.last().unwrap(), told + s(3), told + s(3) + ms(38 * 51));
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn a_quota_of_the_calendar_goes_on_when_its_day_begins() {
    // It is noon in London, and seven in the morning in Chicago.
    let bench = Bench::new(fine, limited(&["3 per day at 07:02 America/Chicago", "100/s"]));
    all_fine(&bench, 8).await;
    let arrivals = bench.arrivals();
    let open = s(120) + ms(100);
    is_within(arrivals[2], ms(20), ms(25));
    is_within(arrivals[3], open, open + ms(5));
    is_within(arrivals[5], open + ms(20), open + ms(30));
    is_within(arrivals[6], open + s(86_400), open + s(86_400) + ms(5));
}

// pa-2
#[tokio::test(start_paused = true)]
async fn idle_time_is_not_saved_up_beyond_the_burst() {
    let bench = Bench::new(fine, limited(&["5/s burst 5"]));
    bench.get("/first").await;
    sleep(s(30)).await;
    all_fine(&bench, 60).await;
    let arrivals = bench.arrivals();
    keeps_to(&arrivals, 5, 5.0);
    let at_once = arrivals.iter().filter(|at| **at >= s(30) && **at < ms(30_100)).count();
    assert_eq!(at_once, 4, "the burst less its headroom");
    // Nearly all of what is allowed is used.
    is_within(*arrivals.last().unwrap() - s(30), ms(56 * 200), ms(56 * 201));
}

// pa-3 (a) and its rates
#[tokio::test(start_paused = true)]
async fn slow_rates_are_taken_as_written() {
    for (limit, per_second) in [
        ("0.5/s", 0.5),
        ("0.1/s", 0.1),
        ("0.0016667/s", 0.001_666_7),
        ("1.0/s", 1.0),
        ("2.5/s", 2.5),
        ("0.333333/s", 0.333_333),
        ("6/h", 6.0 / 3_600.0),
    ] {
        let bench = Bench::new(fine, limited(&[limit]));
        all_fine(&bench, 5).await;
        let gap = Duration::from_secs_f64(1.0 / per_second);
        // A rate runs at 0.999 of itself, since two clocks never run alike.
        gaps(&bench.arrivals()).iter().for_each(|actual| is_within(*actual, gap, gap.mul_f64(1.0011) + TICK));
    }
}

// pa-3 (b)
#[tokio::test(start_paused = true)]
async fn one_that_would_wait_for_minutes_is_told_when_to_come_instead() {
    let bench = Bench::new(fine, |settings| {
        settings.lane.limits = vec!["6/h".parse().unwrap()];
        settings.lane.wait_max = Some(s(2));
    });
    assert_eq!(bench.get("/first").await.status(), 200);
    let got = bench.get("/second").await;
    assert_eq!((got.status(), got.refused(), got.head_at), (503, "wait-too-long".to_owned(), Duration::ZERO));
    assert!((590..=601).contains(&got.retry_after()), "{}", got.retry_after());
    sleep(s(got.retry_after() - 1)).await;
    assert_eq!((bench.get("/early").await.status(), bench.upstream.arrivals()), (503, 1));
    sleep(s(1)).await;
    assert_eq!((bench.get("/told").await.status(), bench.upstream.arrivals()), (200, 2));
}

// pa-3 (c)
#[tokio::test(start_paused = true)]
async fn one_a_second_is_one_a_second_under_greed() {
    let bench = Bench::new(fine, limited(&["1/s"]));
    let _greedy = bench.crowd(100);
    sleep(s(10)).await;
    assert!((10..=11).contains(&bench.upstream.arrivals()), "{}", bench.upstream.arrivals());
}

// pa-4
#[tokio::test(start_paused = true)]
async fn limits_that_mean_nothing_are_refused_and_none_lets_all_through() {
    for limit in ["0/s", "-1/s", "NaN/s", "1e309/s", "1/s burst 0", "1/s burst -1", "5 per 0s", "2000000000/s"] {
        assert!(limit.parse::<sopan_core::policy::Limit>().is_err(), "{limit}");
    }
    // The fastest that there is still paces: a million a second are a thousand in each of our milliseconds.
    let bench = Bench::new(fine, limited(&["1000000/s"]));
    let _crowd = bench.crowd(3_000);
    settled().await;
    assert!(bench.upstream.arrivals() <= 1_000, "{}", bench.upstream.arrivals());
    // No queue at all has one meaning: what cannot leave at once is refused.
    let bench = Bench::new(fine, |settings| {
        settings.lane.limits = vec!["1/s".parse().unwrap()];
        settings.lane.waiting_max = 0;
    });
    let mut statuses = Vec::new();
    for got in bench.crowd(20) {
        let got = got.await.unwrap();
        assert_eq!(got.head_at, Duration::ZERO);
        statuses.push(got.status());
    }
    assert_eq!(statuses, [&[200][..], &[503; 19]].concat());
    assert_eq!(bench.upstream.arrivals(), 1);
}

// pa-5
#[tokio::test(start_paused = true)]
async fn one_that_leaves_the_queue_costs_nobody_anything() {
    let bench = Bench::new(fine, limited(&["1/s"]));
    assert_eq!(bench.get("/a").await.status(), 200);
    sleep(ms(100)).await;
    let (b, c, d) = (bench.spawn(get("/b")), bench.spawn(get("/c")), bench.spawn(get("/d")));
    sleep(ms(200)).await;
    b.abort();
    c.abort();
    assert_eq!(d.await.unwrap().status(), 200);
    is_within(bench.arrivals()[1], ms(950), ms(1_300));
    for _ in 0..200 {
        leave_after(ms(1), bench.get("/never")).await;
    }
    assert_eq!(bench.get("/e").await.status(), 200);
    assert_eq!(bench.targets(), ["/a", "/d", "/e"]);
    is_within(bench.arrivals()[2] - bench.arrivals()[1], s(1), ms(1_100));
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn a_quota_leaves_at_once_and_then_waits_for_its_span() {
    let bench = Bench::new(fine, limited(&["5 per 10s"]));
    all_fine(&bench, 11).await;
    let arrivals = bench.arrivals();
    assert!(arrivals[..5].iter().all(Duration::is_zero));
    // Its span is longer by what a fixed window of the upstream's may be ahead.
    arrivals[5..10].iter().for_each(|at| is_within(*at, s(10), ms(10_052)));
    is_within(arrivals[10], s(20), ms(20_104));
}

#[tokio::test(start_paused = true)]
async fn all_limits_are_kept_together() {
    let bench = Bench::new(fine, limited(&["10/s", "100/min burst 3", "4 per 5s"]));
    all_fine(&bench, 20).await;
    let arrivals = bench.arrivals();
    keeps_to(&arrivals, 1, 10.0);
    keeps_to(&arrivals, 3, 100.0 / 60.0);
    keeps_to(&arrivals, 4, 4.0 / 5.0);
    // And the first of every four comes when the quota of the four before it has come back.
    is_within(arrivals[16], s(20), ms(20_110));
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_there_before_the_turn_that_uses_it() {
    let script = |_: &Request| Answer::json(200, "{}").header("Connection", "close");
    for connecting in [20, 300, 900] {
        let bench = Bench::over(move |_| Line::Slow(ms(connecting)), script, limited(&["1/s"]));
        all_fine(&bench, 5).await;
        let arrivals = bench.arrivals();
        is_just(arrivals[0], ms(connecting));
        gaps(&arrivals).iter().for_each(|gap| is_within(*gap, s(1), ms(1_002)));
        assert_eq!(bench.lines.dialled(), 5);
    }
}

#[tokio::test(start_paused = true)]
async fn several_connections_are_made_ahead_where_one_takes_longer_than_a_turn() {
    let script = |_: &Request| Answer::json(200, "{}").header("Connection", "close");
    let bench = Bench::over(|_| Line::Slow(ms(400)), script, limited(&["20/s"]));
    all_fine(&bench, 40).await;
    // The first ones find out how long it takes; from then on the pace is kept.
    let gaps = gaps(&bench.arrivals());
    gaps[10..].iter().for_each(|gap| is_within(*gap, ms(50), ms(53)));
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_connection_is_late_is_late_and_nobody_overtakes() {
    let plan = |number| if number == 2 { Line::Slow(s(3)) } else { Line::Open };
    let script = |_: &Request| Answer::json(200, "{}").header("Connection", "close");
    let bench = Bench::over(plan, script, limited(&["1/s"]));
    let crowd = bench.crowd(4);
    for got in crowd {
        assert_eq!(got.await.unwrap().status(), 200);
    }
    assert_eq!(bench.targets(), ["/0", "/1", "/2", "/3"]);
    let arrivals = bench.arrivals();
    assert!(arrivals[1] >= s(3), "{arrivals:?}");
    // What it was late does not come back as a burst.
    keeps_to(&arrivals, 1, 1.0);
    is_within(arrivals[3] - arrivals[2], s(1), ms(1_002));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_comes_before_its_connection_goes_to_nobody_who_has_one() {
    // Both that wait are told to prepare; the second is ready long before the first.
    let plan = |number| if number == 2 { Line::Slow(s(4)) } else { Line::Open };
    let script = |request: &Request| match request.number {
        1 => fine(request).after(s(2)).header("Connection", "close"),
        _ => fine(request),
    };
    let bench = Bench::over(plan, script, |settings| settings.lane.max_in_flight = Some(1));
    let crowd = bench.crowd(3);
    sleep(ms(3_900)).await;
    assert_eq!((bench.upstream.arrivals(), bench.in_flight(), bench.lines.dialled()), (1, 0, 3));
    for got in crowd {
        assert_eq!(got.await.unwrap().status(), 200);
    }
    assert_eq!(bench.targets(), ["/0", "/1", "/2"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_connection_costs_no_token() {
    let plan = |number| if number == 1 { Line::Refused } else { Line::Open };
    let bench = Bench::over(plan, fine, |settings| {
        limited(&["1/min"])(settings);
        settings.retry.max_retries = 0;
    });
    assert_eq!(bench.get("/x").await.status(), 502);
    let got = bench.get("/x").await;
    assert_eq!((got.status(), got.head_at), (200, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn tokens_that_are_reserved_go_to_nobody_else() {
    let plan = |number| if number == 1 { Line::Slow(s(3)) } else { Line::Open };
    let bench = Bench::over(plan, fine, limited(&["1/s"]));
    let first = bench.spawn(get("/first"));
    settled().await;
    // The token is taken although nothing was written yet, and does not refill meanwhile.
    let second = bench.spawn(get("/second"));
    sleep(ms(2_900)).await;
    assert_eq!((bench.upstream.arrivals(), bench.waiting(), bench.in_flight()), (0, 1, 1));
    assert_eq!((first.await.unwrap().status(), second.await.unwrap().status()), (200, 200));
    let arrivals = bench.arrivals();
    assert_eq!(bench.targets(), ["/first", "/second"]);
    is_within(arrivals[1] - arrivals[0], s(1), ms(1_002));
}

#[tokio::test(start_paused = true)]
async fn every_attempt_takes_a_turn() {
    let script = |request: &Request| if request.number < 3 { Answer::status(500) } else { fine(request) };
    let bench = Bench::new(script, limited(&["1/s"]));
    assert_eq!(bench.get("/x").await.status(), 200);
    keeps_to(&bench.arrivals(), 1, 1.0);
    assert_eq!(bench.upstream.arrivals(), 3);
}

#[tokio::test(start_paused = true)]
async fn no_more_than_64_hold_a_connection_before_their_turn() {
    let script = |_: &Request| Answer::json(200, "{}").header("Connection", "close");
    let bench = Bench::over(|_| Line::Slow(s(1)), script, limited(&["100/s"]));
    let crowd = bench.crowd(400);
    let mut ahead = Vec::new();
    for _ in 0..500 {
        sleep(ms(10)).await;
        ahead.push(bench.lines.dialled() - bench.upstream.arrivals());
    }
    // All that are due within the second that connecting takes would be a hundred.
    assert_eq!(ahead.iter().max(), Some(&64));
    assert!(ahead[200..400].iter().all(|count| *count >= 63), "{ahead:?}");
    for got in crowd {
        assert_eq!(got.await.unwrap().status(), 200);
    }
}
