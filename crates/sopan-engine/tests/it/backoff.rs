//! The waits between attempts when nobody says how long: they double, stay at the cap, and differ between clients.

use std::time::Duration;

use sopan_core::policy::JitterKind;
use sopan_engine::Settings;
use sopan_fake::script::Answer;

use crate::support::{Bench, get, is_just, is_within, ms, s};

/// The gaps between the attempts of one GET that never succeeds.
async fn gaps(retries: u32, change: impl FnOnce(&mut Settings)) -> Vec<Duration> {
    let bench = Bench::new(
        |_| Answer::status(503),
        |settings| {
            settings.retry.max_retries = retries;
            settings.retry.total_timeout = None;
            change(settings);
        },
    );
    assert_eq!(bench.get("/x").await.status(), 503);
    assert_eq!(bench.upstream.arrivals(), retries as usize + 1);
    (1..=retries as usize).map(|n| bench.upstream.gap(n)).collect()
}

fn short(settings: &mut Settings) {
    (settings.retry.backoff_base, settings.retry.backoff_cap) = (ms(1), ms(40));
    settings.retry.retry_budget = false;
}

// bo-1
#[tokio::test(start_paused = true)]
async fn it_doubles_to_its_cap_and_stays_there_however_often() {
    let gaps = gaps(119, short).await;
    let expected = [1, 2, 4, 8, 16, 32].into_iter().chain(std::iter::repeat(40));
    gaps.iter().zip(expected).for_each(|(gap, expected)| is_just(*gap, ms(expected)));
    assert_eq!(gaps.len(), 119);
}

// bo-1, with full jitter
#[tokio::test(start_paused = true)]
async fn full_jitter_is_spread_below_the_cap_however_often() {
    let gaps = gaps(119, |settings| {
        short(settings);
        settings.retry.jitter_kind = JitterKind::Full;
    })
    .await;
    let last = &gaps[59..];
    is_within(last.iter().sum::<Duration>() / 60, ms(10), ms(36));
    assert!(last.iter().filter(|gap| **gap < ms(1)).count() <= 6, "{last:?}");
    assert!(last.iter().all(|gap| *gap <= ms(41)), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn the_default_waits_are_as_documented() {
    let defaults = |settings: &mut Settings| {
        (settings.retry.backoff_base, settings.retry.backoff_cap) = (ms(500), s(30));
    };
    let gaps = gaps(8, defaults).await;
    let expected = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000];
    gaps.iter().zip(expected).for_each(|(gap, expected)| is_just(*gap, ms(expected)));
    assert_eq!(gaps.len(), 8);
}

/// When the second attempts of 60 requests arrive whose first ones all failed at the same instant.
async fn second_arrivals(change: impl FnOnce(&mut Settings)) -> Vec<Duration> {
    let bench = Bench::new(
        |request| if request.number <= 60 { Answer::status(503).after(ms(100)) } else { Answer::status(200) },
        |settings| {
            settings.retry.backoff_base = s(1);
            change(settings);
        },
    );
    for got in bench.crowd(60) {
        assert_eq!(got.await.unwrap().status(), 200);
    }
    bench.arrivals().into_iter().skip(60).map(|at| at - ms(100)).collect()
}

// bo-2
#[tokio::test(start_paused = true)]
async fn the_first_waits_of_many_differ_already() {
    let arrivals = second_arrivals(|settings| settings.retry.jitter = 0.25).await;
    assert_eq!(arrivals.len(), 60);
    assert!(arrivals[53] - arrivals[6] >= ms(300), "{arrivals:?}");
    for from in 0..1_300 {
        let bucket = arrivals.iter().filter(|at| (ms(from)..ms(from + 50)).contains(*at)).count();
        assert!(bucket <= 15, "{bucket} within 50 ms from {from} ms: {arrivals:?}");
    }
    arrivals.iter().for_each(|at| is_within(*at, ms(750), ms(1_251)));
}

#[tokio::test(start_paused = true)]
async fn decorrelated_waits_begin_above_the_base() {
    let arrivals = second_arrivals(|settings| settings.retry.jitter_kind = JitterKind::Decorrelated).await;
    arrivals.iter().for_each(|at| is_within(*at, s(1), ms(2_001)));
    assert!(arrivals[53] - arrivals[6] >= ms(300), "{arrivals:?}");
}

#[tokio::test(start_paused = true)]
async fn connections_that_fail_wait_as_answers_do() {
    let bench = Bench::over(
        |_| crate::support::lines::Line::Refused,
        |_| Answer::status(200),
        |settings| {
            settings.retry.max_retries = 3;
        },
    );
    let got = bench.spawn(get("/x")).await.unwrap();
    assert_eq!((got.status(), bench.lines.dialled()), (502, 4));
    is_within(got.head_at, ms(1_400), ms(1_403));
}
