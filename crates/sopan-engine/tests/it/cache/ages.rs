//! How old answers are, and until when they are given.

use sopan_core::policy::{PathRule, Revalidate};

use sopan_engine::CacheSettings;

use super::{Line, Stage, caching};
use crate::support::{is_within, now, s};

// ca-5
#[tokio::test(start_paused = true)]
async fn what_was_old_when_it_came_is_fresh_for_the_rest() {
    let answer = "200 | max-age=10 | Age: 6";
    let lines: [Line<'_>; 6] = [
        (0, "GET /a", answer, "200 v1 miss age=6"),
        (1, "GET /a", "-", "200 v1 hit age=7"),
        (2, "GET /a", "-", "200 v1 hit age=8"),
        (3, "GET /a", "-", "200 v1 hit age=9"),
        (4, "GET /a", answer, "200 v2 miss age=6"),
        (7, "GET /a", "-", "200 v2 hit age=9"),
    ];
    Stage::new(|_| {}).play(&lines).await;
    let lines: [Line<'_>; 5] = [
        (0, "GET /a", "200 | max-age=3", "200 v1 miss"),
        (1, "GET /a", "-", "200 v1 hit age=1"),
        (2, "GET /a", "-", "200 v1 hit age=2"),
        (3, "GET /a", "200 | max-age=3", "200 v2 miss"),
        (5, "GET /a", "-", "200 v2 hit age=2"),
    ];
    Stage::new(|_| {}).play(&lines).await;
}

/// From when the request was sent, since nobody knows when the answer was made meanwhile (RFC 9111 §4.2.3).
#[tokio::test(start_paused = true)]
async fn the_time_that_an_answer_was_under_way_counts_and_that_in_the_queue_does_not() {
    let lines: [Line<'_>; 3] = [
        (0, "GET /a", "200 | max-age=60 | after 5", "200 v1 miss"),
        (6, "GET /a", "-", "200 v1 hit age=6"),
        (59, "GET /a", "-", "200 v1 hit age=59"),
    ];
    Stage::new(|_| {}).play(&lines).await;
    let stage = Stage::with(&CacheSettings::default(), |settings| {
        caching(|_| {})(settings);
        settings.lane.limits = vec!["1 per 10s".parse().unwrap()];
    });
    stage.play(&[(0, "GET /a", "200", "200 v1 miss"), (1, "GET /b", "200 | max-age=60", "200 v2 miss")]).await;
    is_within(now() - stage.bench.begun, s(10), s(11));
    let told = stage.line("GET /b", "-").await;
    assert_eq!(told, "200 v2 hit age=0");
}

#[tokio::test(start_paused = true)]
async fn settings_say_how_long_what_says_nothing_is_fresh() {
    let stage = Stage::new(|policy| {
        policy.default_ttl = Some(s(300));
        policy.paths = ["/live bypass", "/list default-ttl 10s", "/feed revalidate always"]
            .map(|rule| rule.parse::<PathRule>().unwrap())
            .to_vec();
    });
    let lines: [Line<'_>; 15] = [
        (0, "GET /a", "200", "200 v1 miss"),
        (0, "GET /list/a?page=2", "200", "200 v2 miss"),
        (0, "GET /live", "200 | max-age=60", "200 v3 bypass"),
        (0, "GET /feed", "200 | ETag: \"f\"", "200 v4 miss"),
        (0, "GET /gone", "404", "404 v5 miss"),
        (0, "GET /short", "200 | max-age=1", "200 v6 miss"),
        (9, "GET /a", "-", "200 v1 hit age=9"),
        (9, "GET /list/a?page=2", "-", "200 v2 hit age=9"),
        (9, "GET /live", "200 | max-age=60", "200 v7 bypass"),
        (9, "GET /feed", "304", "200 v4 revalidated age=0"),
        (9, "GET /gone", "200", "200 v9 miss"),
        (9, "GET /short", "200 | max-age=1", "200 v10 miss"),
        (10, "GET /list/a?page=2", "200", "200 v11 miss"),
        (299, "GET /a", "-", "200 v1 hit age=299"),
        (300, "GET /a", "200", "200 v12 miss"),
    ];
    stage.play(&lines).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_says_how_old_is_too_old() {
    let again = "200 | max-age=100";
    let lines: [Line<'_>; 8] = [
        (0, "GET /a", again, "200 v1 miss"),
        (20, "GET /a | Cache-Control: max-age=30", "-", "200 v1 hit age=20"),
        (40, "GET /a | Cache-Control: max-age=30", again, "200 v2 miss"),
        (60, "GET /a | Cache-Control: min-fresh=80", "-", "200 v2 hit age=20"),
        (70, "GET /a | Cache-Control: min-fresh=80", again, "200 v3 miss"),
        (71, "GET /a | Pragma: no-cache", again, "200 v4 miss"),
        (72, "GET /a | Cache-Control: max-age=0", again, "200 v5 miss"),
        (73, "GET /a", "-", "200 v5 hit age=1"),
    ];
    Stage::new(|_| {}).play(&lines).await;
}

#[tokio::test(start_paused = true)]
async fn a_field_for_this_cache_takes_the_place_of_cache_control_and_is_passed_on() {
    let stage = Stage::new(|_| {});
    let answer = "200 | no-store | CDN-Cache-Control: max-age=10";
    stage.play(&[(0, "GET /a", answer, "200 v1 miss"), (9, "GET /a", "-", "200 v1 hit age=9")]).await;
    let got = stage.ask("GET /a").await;
    assert_eq!((got.field("cache-control"), got.field("cdn-cache-control")), (Some("no-store"), Some("max-age=10")));
}

/// For upstreams that do not count a 304.
#[tokio::test(start_paused = true)]
async fn where_that_is_set_it_is_asked_about_each_time() {
    let stage = Stage::new(|policy| policy.revalidate = Revalidate::Always);
    let lines: [Line<'_>; 6] = [
        (0, "GET /a", "200 | max-age=60 | ETag: \"1\"", "200 v1 miss"),
        (1, "GET /a", "304 | ETag: \"1\"", "200 v1 revalidated age=0"),
        (2, "GET /a", "200 | max-age=60 | ETag: \"2\"", "200 v3 miss"),
        (3, "GET /a", "304 | ETag: \"2\"", "200 v3 revalidated age=0"),
        // There is nothing to ask with.
        (4, "GET /b", "200 | max-age=60", "200 v5 miss"),
        (5, "GET /b", "-", "200 v5 hit age=1"),
    ];
    stage.play(&lines).await;
    assert_eq!(stage.last_asked_with("if-none-match"), None);
}
