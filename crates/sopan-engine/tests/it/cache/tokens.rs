//! What comes from the store costs nothing of what the upstream allows, and waits for nothing.

use sopan_core::breaker::State;
use sopan_engine::event::Cached;
use sopan_engine::{CacheSettings, Settings};

use super::{Stage, caching};
use crate::support::{ms, s, settled};

/// A stage with an answer in store.
async fn stocked(change: impl FnOnce(&mut Settings)) -> Stage {
    let stage = Stage::with(&CacheSettings::default(), |settings| {
        caching(|_| {})(settings);
        change(settings);
    });
    assert_eq!(stage.line("GET /a", "200 | max-age=600").await, "200 v1 miss");
    stage
}

/// A hundred hits, at once.
async fn hits(stage: &Stage) {
    let (before, begun) = (stage.bench.upstream.arrivals(), crate::support::now());
    for _ in 0..100 {
        let got = stage.ask("GET /a").await;
        assert_eq!((got.status(), got.text()), (200, "v1"), "{got:?}");
        let timing = "wait;dur=0.0, attempts;desc=\"0\", upstream;dur=0.0";
        assert_eq!(got.field("server-timing"), Some(timing));
    }
    assert_eq!(stage.bench.upstream.arrivals(), before);
    assert!(begun.elapsed() < ms(50), "{:?}", begun.elapsed());
    let ended = stage.bench.seen.ended();
    let last = &ended[ended.len() - 100..];
    assert!(last.iter().all(|one| one.saved_a_token && one.cache == Some(Cached::Hit) && one.bytes == 2), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hit_takes_no_token() {
    let stage = stocked(|settings| {
        settings.lane.limits = vec!["1 per 1h".parse().unwrap()];
        settings.lane.wait_max = Some(s(0));
    })
    .await;
    hits(&stage).await;
    assert_eq!(stage.line("GET /b", "-").await, "503 wait-too-long");
    assert_eq!(stage.bench.snapshot().fills[0].tokens, 0.0);
    assert!(!stage.bench.seen.ended()[0].saved_a_token);
}

#[tokio::test(start_paused = true)]
async fn a_hit_goes_past_a_hold() {
    let stage = stocked(|_| {}).await;
    stage.line("GET /b", "429 | Retry-After: 30").await;
    assert!(stage.bench.snapshot().hold.is_some());
    hits(&stage).await;
    assert!(stage.bench.snapshot().hold.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_hit_goes_past_an_open_breaker() {
    let stage = stocked(|settings| {
        settings.breaker.on = true;
        (settings.breaker.failures, settings.breaker.min_span) = (1, s(0));
    })
    .await;
    stage.line("GET /b", "500").await;
    assert!(matches!(stage.bench.snapshot().breaker, State::Open { .. }));
    hits(&stage).await;
    assert_eq!(stage.line("GET /b", "-").await, "503 breaker-open");
}

#[tokio::test(start_paused = true)]
async fn a_hit_goes_past_a_full_queue_and_takes_no_place_in_it() {
    let stage = stocked(|settings| {
        (settings.lane.max_in_flight, settings.lane.waiting_max) = (Some(1), 1);
    })
    .await;
    stage.will_answer("200 | after 20 || 200");
    let busy = ["GET /b", "GET /c"].map(|asked| stage.spawn(asked, 1));
    settled().await;
    assert_eq!((stage.bench.in_flight(), stage.bench.waiting()), (1, 1));
    hits(&stage).await;
    assert_eq!((stage.bench.in_flight(), stage.bench.waiting()), (1, 1));
    let turned_away = stage.ask("GET /d").await;
    assert_eq!(stage.told(&turned_away), "503 queue-full");
    for asking in busy {
        assert_eq!(asking.await.unwrap().status(), 200);
    }
    stage.bench.is_at_rest();
}
