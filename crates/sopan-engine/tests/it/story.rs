//! The steps of an exchange, as its observer is told of them when it has ended.

use sopan_core::policy::CachePolicy;
use sopan_engine::Settings;
use sopan_fake::script::{Answer, Request};

use crate::support::lines::Line;
use crate::support::{Bench, get, leave_after, ms, s, settled};

/// These answers one after the other, then 200.
fn in_turn<const N: usize>(answers: [Answer; N]) -> impl Fn(&Request) -> Answer + Send + Sync {
    move |request| answers.get(request.number - 1).cloned().unwrap_or_else(fine)
}

fn fine() -> Answer {
    Answer::json(200, "{}")
}

fn limited(seconds: u64) -> Answer {
    Answer::status(429).header("Retry-After", seconds.to_string())
}

fn one_a_second(settings: &mut Settings) {
    settings.lane.limits = vec!["1/s".parse().unwrap()];
    settings.lane.rate_margin = "0%".parse().unwrap();
}

/// What was told of the exchange that ended at this place.
#[track_caller]
fn check(bench: &Bench, at: usize, expected: &[(u128, &str)]) {
    let ended = bench.seen.ended().remove(at);
    let told: Vec<_> = ended.steps.iter().map(|(at, what)| (*at, &**what)).collect();
    assert_eq!(told, expected, "{}", ended.what);
}

#[tokio::test(start_paused = true)]
async fn who_goes_and_comes_at_once_has_no_story_but_that() {
    let bench = Bench::new(|_| fine().after(ms(40)), |_| {});
    for _ in 0..2 {
        bench.get("/x").await;
    }
    check(&bench, 1, &[(0, "attempt 1"), (40, "200")]);
}

#[tokio::test(start_paused = true)]
async fn every_wait_and_every_attempt_is_a_step() {
    let answers = [fine(), Answer::status(500).after(ms(30)), limited(2), fine()];
    let bench = Bench::new(in_turn(answers), |settings| {
        one_a_second(settings);
        settings.cache = Some(CachePolicy { default_ttl: Some(s(60)), ..CachePolicy::default() });
    });
    bench.get("/first").await;
    bench.get("/x").await;
    check(
        &bench,
        1,
        &[
            (1000, "waited 1.0 s for a token"),
            (1000, "attempt 1"),
            (1030, "500"),
            (1230, "waited 200 ms before retrying"),
            (2000, "waited 770 ms for a token"),
            (2000, "attempt 2"),
            (2000, "429 with Retry-After 2"),
            (4000, "waited 2.0 s for the end of a hold"),
            (4000, "attempt 3"),
            (4000, "200"),
            (4000, "stored"),
        ],
    );
    bench.get("/x").await;
    check(&bench, 2, &[(0, "from store")]);
}

/// It has nothing to do with those who wait already, but they wait for it.
#[tokio::test(start_paused = true)]
async fn a_hold_that_comes_is_what_is_waited_for() {
    let bench = Bench::new(in_turn([limited(3).after(ms(500))]), |settings| {
        one_a_second(settings);
        settings.retry.max_retries = 0;
    });
    let first = bench.spawn(get("/first"));
    settled().await;
    bench.get("/second").await;
    first.await.unwrap();
    check(&bench, 0, &[(0, "connected in 0.0 ms"), (0, "attempt 1"), (500, "429 with Retry-After 3")]);
    check(&bench, 1, &[(3500, "waited 3.5 s for the end of a hold"), (3500, "attempt 1"), (3500, "200")]);
}

#[tokio::test(start_paused = true)]
async fn a_long_wait_is_not_blamed_on_a_short_hold() {
    let bench = Bench::new(in_turn([limited(1).after(ms(500))]), |settings| {
        one_a_second(settings);
        settings.retry.max_retries = 0;
    });
    let first = bench.spawn(get("/first"));
    settled().await;
    let asking = ["/second", "/third", "/fourth"].map(|path| bench.spawn(get(path)));
    first.await.unwrap();
    for asking in asking {
        asking.await.unwrap();
    }
    check(&bench, 1, &[(1500, "waited 1.5 s for the end of a hold"), (1500, "attempt 1"), (1500, "200")]);
    check(&bench, 2, &[(2500, "waited 2.5 s for a token"), (2500, "attempt 1"), (2500, "200")]);
    check(&bench, 3, &[(3500, "waited 3.5 s for a token"), (3500, "attempt 1"), (3500, "200")]);
}

#[tokio::test(start_paused = true)]
async fn places_and_equal_requests_are_waited_for() {
    let bench = Bench::new(
        |_| fine().header("Cache-Control", "max-age=60").after(ms(300)),
        |settings| {
            settings.lane.max_in_flight = Some(1);
            settings.cache = Some(CachePolicy::default());
        },
    );
    let asking = ["/x", "/y", "/x"].map(|path| bench.spawn(get(path)));
    for asking in asking {
        asking.await.unwrap();
    }
    check(&bench, 0, &[(0, "connected in 0.0 ms"), (0, "attempt 1"), (300, "200"), (300, "stored")]);
    let steps = [(300, "waited 300 ms for a place"), (300, "attempt 1"), (600, "200"), (600, "stored")];
    check(&bench, 1, &[(300, "waited 300 ms for an equal request"), (300, "the answer of an equal request")]);
    check(&bench, 2, &steps);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_in_the_words_of_the_log() {
    let plan = |number| if number == 1 { Line::Refused } else { Line::Open };
    let bench = Bench::over(plan, |_| Answer::raw("HTTP/1.1 2").close(), |settings| settings.retry.max_retries = 1);
    bench.get("/x").await;
    let steps = bench.seen.ended().remove(0).steps;
    let told: Vec<_> = steps.iter().map(|(at, what)| format!("{at} {what}")).collect();
    let [refused, waited, _connected, sent, broke, end] = &told[..] else { panic!("{told:#?}") };
    assert!(refused.starts_with("0 connection failed: "), "{refused}");
    assert_eq!((&**waited, &**sent), ("200 waited 200 ms before retrying", "200 attempt 2"));
    assert!(broke.starts_with("200 ") && !broke.contains("attempt"), "{broke}");
    assert!(end.starts_with("200 refused: "), "{end}");
}

#[tokio::test(start_paused = true)]
async fn who_is_turned_away_and_who_leaves_is_told() {
    let bench = Bench::new(
        |_| fine().after(s(5)),
        |settings| {
            one_a_second(settings);
            settings.lane.wait_max = Some(ms(500));
        },
    );
    leave_after(ms(100), bench.get("/left")).await;
    bench.get("/refused").await;
    check(&bench, 0, &[(0, "connected in 0.0 ms"), (0, "attempt 1"), (100, "the client left")]);
    check(&bench, 1, &[(0, "refused: wait-too-long")]);
}

#[tokio::test(start_paused = true)]
async fn what_breaks_off_is_told_at_its_end() {
    let script = |_: &Request| Answer::chunked(200).send("1\r\nx\r\n").after(ms(50)).close();
    let bench = Bench::new(script, |_| {});
    bench.get("/x").await;
    let steps = bench.seen.ended().remove(0).steps;
    assert_eq!(steps.last().map(|(_, what)| &**what), Some("cut off"), "{steps:?}");
}

/// It is told from its beginning.
#[tokio::test(start_paused = true)]
async fn a_story_has_an_end() {
    let bench = Bench::new(
        |_| limited(1),
        |settings| {
            settings.retry.max_retries = 40;
            settings.retry.total_timeout = None;
        },
    );
    bench.get("/x").await;
    let ended = bench.seen.ended().remove(0);
    assert_eq!(ended.steps.len(), 64);
    // It connects once; of 41 attempts each has two steps, and a wait lies before all but the first.
    assert_eq!(ended.steps_left_out, 1 + 41 * 2 + 40 - 64);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_that_was_closed_is_told() {
    let script = |request: &Request| if request.number == 2 { Answer::nothing().close() } else { fine() };
    let bench = Bench::new(script, |_| {});
    bench.get("/1").await;
    bench.get("/2").await;
    check(
        &bench,
        1,
        &[
            (0, "attempt 1"),
            (0, "the idle connection was closed already"),
            (0, "connected in 0.0 ms"),
            (0, "attempt 1"),
            (0, "200"),
        ],
    );
}
