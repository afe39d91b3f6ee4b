//! What somebody who runs it does by hand, and what he is told.

use std::time::Duration;

use sopan_core::queue::ClientId;
use sopan_engine::{CannotChange, Settings};
use sopan_fake::script::Answer;
use tokio::time::sleep;

use crate::support::{Bench, SECOND, get, is_just, is_within, ms, s, settled};

fn ten_a_second(settings: &mut Settings) {
    settings.lane.limits = vec!["10/s burst 5".parse().unwrap()];
}

fn bench(change: impl FnOnce(&mut Settings)) -> Bench {
    Bench::new(|_| Answer::json(200, "{}"), change)
}

#[tokio::test(start_paused = true)]
async fn a_hold_by_hand_stops_everybody_until_it_ends_or_is_released() {
    for (released, expected) in [(None, s(10)), (Some(ms(2_500)), ms(2_500))] {
        let bench = bench(ten_a_second);
        assert_eq!(bench.engine.hold(s(10)), Ok(s(10)));
        let crowd = bench.crowd(3);
        settled().await;
        assert_eq!((bench.waiting(), bench.upstream.arrivals()), (3, 0));
        if let Some(released) = released {
            sleep(released).await;
            assert_eq!(bench.engine.release(), Ok(true));
        }
        for got in crowd {
            assert_eq!(got.await.unwrap().status(), 200);
        }
        let arrivals = bench.arrivals();
        is_just(arrivals[0], expected);
        arrivals.windows(2).for_each(|pair| is_within(pair[1] - pair[0], ms(100), ms(102)));
        assert_eq!(bench.engine.release(), Ok(false));
        bench.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn a_breaker_is_opened_for_a_while_and_closed_at_once() {
    let bench = bench(|settings| {
        ten_a_second(settings);
        settings.breaker.on = true;
    });
    assert_eq!(bench.engine.open_breaker(Some(s(20))), Ok(s(20)));
    let got = bench.get("/x").await;
    assert_eq!((got.status(), got.refused(), got.retry_after()), (503, "breaker-open".to_owned(), 20));
    assert_eq!(bench.engine.close_breaker(), Ok(()));
    assert_eq!(bench.get("/x").await.status(), 200);
    assert_eq!(bench.engine.open_breaker(None), Ok(s(10)));
    sleep(s(10)).await;
    assert_eq!(bench.get("/x").await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn what_has_no_breaker_or_is_only_observed_is_not_changed() {
    let without = bench(ten_a_second);
    assert_eq!(without.engine.open_breaker(None), Err(CannotChange::NoBreaker));
    assert_eq!(without.engine.close_breaker(), Err(CannotChange::NoBreaker));
    let observed = bench(|settings| settings.observe = true);
    assert_eq!(observed.engine.hold(SECOND), Err(CannotChange::OnlyObserved));
    assert_eq!(observed.engine.release(), Err(CannotChange::OnlyObserved));
    assert_eq!(observed.engine.open_breaker(None), Err(CannotChange::OnlyObserved));
    assert_eq!(observed.engine.close_breaker(), Err(CannotChange::OnlyObserved));
    assert_eq!(observed.get("/x").await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn who_looks_sees_who_waits_and_for_how_long() {
    for observe in [false, true] {
        let bench = bench(|settings| {
            settings.lane.limits = vec!["1/s".parse().unwrap(), "100 per 1h".parse().unwrap()];
            settings.observe = observe;
        });
        let mut asked: Vec<_> = bench.crowd(4);
        asked.extend((0..2).map(|_| tokio::spawn(bench.calling(get("/other"), 2))));
        settled().await;
        let look = bench.engine.look(1);
        let seconds = |wait: Duration| wait.as_secs_f64().round();
        // Observed, those who would be waiting have left already, and nothing is known of whose they were.
        let (lines, clients) = if observe { (vec![], 0) } else { (vec![(ClientId(1), 3, 6.0)], 2) };
        let seen = look.lines.iter().map(|(line, wait)| (line.client, line.waiting, seconds(*wait)));
        assert_eq!(seen.collect::<Vec<_>>(), lines);
        assert_eq!((look.outlook.clients_waiting, look.outlook.full_in.len()), (clients, 2));
        let wait = seconds(look.outlook.wait);
        assert!(if observe { wait == 6.0 } else { (2.0..=4.0).contains(&wait) }, "{wait}");
        // What was sent: one, or all that came.
        let used = if observe { 0.6 } else { 0.1 };
        assert!((look.outlook.used_per_s - used).abs() < 0.01, "{}", look.outlook.used_per_s);
        for got in asked {
            assert_eq!(got.await.unwrap().status(), 200);
        }
    }
}
