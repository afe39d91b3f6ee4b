//! What is told of what the cache does: to clients, to the observer, in the log, and what is told to nobody.

use sopan_core::cache::status::Detail;
use sopan_engine::event::Cached;
use sopan_engine::exchange::{self};
use sopan_engine::{CacheSettings, Settings};

use super::{Stage, caching, inbound};
use crate::support::log::Log;
use crate::support::s;

/// The second, what is asked, what is answered, and what the client reads of it: `Cache-Status`, and what the observer hears.
type Told<'a> = (u64, &'a str, &'a str, &'a str, Option<Cached>);

async fn tell(stage: &Stage, lines: &[Told<'_>]) {
    for (at, asked, answers, status, cached) in lines {
        tokio::time::sleep_until(stage.bench.begun + s(*at)).await;
        stage.plan.lock().is_down = *answers == "down";
        stage.will_answer(answers);
        let got = stage.ask(asked).await;
        crate::support::settled().await;
        let lines: Vec<_> = got.response.headers().get_all("cache-status").iter().collect();
        assert_eq!(lines.last().map_or("", |line| line.to_str().unwrap()), *status, "at {at}: {asked}");
        let ended = stage.bench.seen.ended().pop().unwrap();
        assert_eq!(ended.cache, *cached, "at {at}: {asked}");
        let detail = status.split_once("; detail=").map(|(_, detail)| detail);
        assert_eq!(ended.cache_detail.map(Detail::word), detail, "at {at}: {asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_answer_says_what_the_cache_did_and_why() {
    use Cached::{Bypass, Hit, Miss, Revalidated, Stale};
    let stage = Stage::with(&CacheSettings::default(), |settings| {
        caching(|policy| policy.paths = vec!["/live bypass".parse().unwrap()])(settings);
    });
    let vary = "200 | max-age=60 | Vary: X-A";
    tell(
        &stage,
        &[
            (0, "GET /a", "200 | max-age=60", "sopan; fwd=uri-miss; stored; ttl=60", Some(Miss)),
            (10, "GET /a", "-", "sopan; hit; ttl=50", Some(Hit)),
            (10, "HEAD /a", "-", "sopan; hit; ttl=50", Some(Hit)),
            (10, "GET /a | Range: bytes=0-0", "-", "sopan; hit; ttl=50", Some(Hit)),
            (10, "GET /a | Cache-Control: no-cache", vary, "sopan; fwd=request; stored; ttl=60", Some(Miss)),
            (10, "GET /a | X-A: 1", vary, "sopan; fwd=vary-miss; stored; ttl=60", Some(Miss)),
            (11, "GET /b", "200 | no-store", "sopan; fwd=uri-miss; detail=no-store", Some(Miss)),
            (11, "GET /b", "200 | private", "sopan; fwd=uri-miss; detail=private", Some(Miss)),
            (11, "GET /b", "200", "sopan; fwd=uri-miss; detail=no-lifetime", Some(Miss)),
            (11, "GET /b", "200 | max-age=9 | Set-Cookie: a=b", "sopan; fwd=uri-miss; detail=set-cookie", Some(Miss)),
            (11, "GET /b", "200 | max-age=9 | Vary: *", "sopan; fwd=uri-miss; detail=vary-star", Some(Miss)),
            (11, "GET /b | Cache-Control: no-store", "200", "sopan; fwd=uri-miss; detail=request-no-store", Some(Miss)),
            (11, "GET /live", "200 | max-age=9", "sopan; fwd=bypass; detail=bypass", Some(Bypass)),
            (11, "PUT /b", "200", "sopan; fwd=method; detail=method", Some(Bypass)),
            (
                20,
                "GET /c",
                "200 | max-age=10, stale-while-revalidate=20, stale-if-error=99 | ETag: \"c\"",
                "sopan; fwd=uri-miss; stored; ttl=10",
                Some(Miss),
            ),
            (35, "GET /c", "304", "sopan; hit; ttl=-5; detail=stale-while-revalidate", Some(Stale)),
            (44, "GET /c", "-", "sopan; hit; ttl=1", Some(Hit)),
            (80, "GET /c", "503", "sopan; fwd=stale; fwd-status=503; ttl=-35; detail=stale-on-error", Some(Stale)),
            (80, "GET /c", "down", "sopan; fwd=stale; ttl=-35; detail=stale-disconnected", Some(Stale)),
            (
                80,
                "GET /c | Cache-Control: max-stale=50",
                "-",
                "sopan; hit; ttl=-35; detail=stale-accepted",
                Some(Stale),
            ),
            (80, "GET /c", "304", "sopan; fwd=stale; fwd-status=304; stored; ttl=10", Some(Revalidated)),
            (80, "GET /c | Cache-Control: only-if-cached", "-", "sopan; hit; ttl=10", Some(Hit)),
            // It is good once more, and not to be stored any longer.
            (120, "GET /c", "304 | no-store", "sopan; fwd=stale; fwd-status=304; ttl=-1", Some(Revalidated)),
            (120, "GET /c", "200 | no-store", "sopan; fwd=uri-miss; detail=no-store", Some(Miss)),
            (
                200,
                "GET /d | Range: bytes=0-1",
                "206 | max-age=60 | ETag: \"d\" | Content-Range: bytes 0-1/4 | = 01",
                "sopan; fwd=uri-miss; stored; ttl=60",
                Some(Miss),
            ),
            (
                200,
                "GET /d",
                "206 | ETag: \"d\" | Content-Range: bytes 2-3/4 | = 23",
                "sopan; fwd=partial; fwd-status=206; stored; ttl=60",
                Some(Miss),
            ),
            // What an upstream's own cache says stays in front.
            (
                300,
                "GET /e",
                "200 | max-age=60 | Cache-Status: CDN; hit",
                "sopan; fwd=uri-miss; stored; ttl=60",
                Some(Miss),
            ),
            (301, "GET /e", "-", "sopan; hit; ttl=59", Some(Hit)),
        ],
    )
    .await;
    let got = stage.ask("GET /e").await;
    let lines: Vec<_> = got.response.headers().get_all("cache-status").iter().collect();
    assert_eq!(lines, ["CDN; hit", "sopan; hit; ttl=59"]);
    stage.bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn followers_are_told_that_they_were() {
    let stage = Stage::new(|_| {});
    stage.will_answer("200 | max-age=60 | after 2");
    let crowd: Vec<_> = (0..3).map(|client| stage.spawn("GET /a", client)).collect();
    let mut told = Vec::new();
    for asking in crowd {
        let got = asking.await.unwrap();
        told.push(["cache-status", "age", "server-timing"].map(|name| got.field(name).unwrap_or("-").to_owned()));
    }
    let followed =
        ["sopan; fwd=uri-miss; collapsed; ttl=58", "2", "wait;dur=2000.0, attempts;desc=\"0\", upstream;dur=0.0"];
    assert_eq!(told[0][0], "sopan; fwd=uri-miss; stored; ttl=58");
    assert_eq!(told[1], followed);
    assert_eq!(told[2], followed);
}

/// Limits, retries, the breaker and the cache are reckoned, and everything goes as it came.
#[tokio::test(start_paused = true)]
async fn where_it_is_only_observed_everything_goes_to_the_upstream_and_would_be_hits_are_told() {
    let stage = Stage::with(&CacheSettings::default(), |settings: &mut Settings| {
        caching(|_| {})(settings);
        settings.observe = true;
        settings.lane.limits = vec!["1 per 1h".parse().unwrap()];
        settings.lane.wait_max = Some(s(0));
    });
    let fresh = "200 | max-age=10 | ETag: \"a\"";
    stage
        .play(&[
            (0, "GET /a", fresh, "200 v1 miss"),
            (1, "GET /a", "200 | max-age=10 | ETag: \"b\"", "200 v2 bypass"),
            // It goes as it came, and so does what is answered.
            (2, "GET /a | If-None-Match: \"c\"", "304 | ETag: \"c\"", "304 bypass"),
            (20, "GET /a", "503", "503 v4 miss"),
            (21, "GET /a", fresh, "200 v5 miss"),
            (22, "GET /a | Cache-Control: only-if-cached", "200", "200 v6 bypass"),
        ])
        .await;
    let asked: Vec<_> =
        stage.bench.upstream.requests().iter().map(|r| r.field("if-none-match").map(str::to_owned)).collect();
    assert_eq!(asked, [None, None, Some("\"c\"".to_owned()), None, None, None]);
    let observed: Vec<_> = stage.bench.seen.ended().iter().map(|ended| ended.observed.unwrap()).collect();
    let from_store: Vec<_> = observed.iter().map(|observed| observed.from_store).collect();
    assert_eq!(from_store, [false, true, true, false, false, true]);
    // They would have taken no token, so they would not have been refused for want of one.
    let refused: Vec<_> = observed.iter().map(|observed| observed.refused.is_some()).collect();
    assert_eq!(refused, [false, false, false, true, true, false]);
    // Nobody waits for another.
    stage.will_answer("200 | max-age=60 | after 1 || 200 | max-age=60 | after 1");
    let both = [1, 2].map(|client| stage.spawn("GET /b", client));
    for asking in both {
        assert!(asking.await.unwrap().body_at < s(24));
    }
    // A write would have made it untrue.
    stage.line("PUT /b", "200").await;
    stage.line("GET /b", "200").await;
    assert!(!stage.bench.seen.ended().last().unwrap().observed.unwrap().from_store);
}

#[tokio::test(start_paused = true)]
async fn no_secret_of_what_is_stored_is_shown_anywhere() {
    let log = Log::keep();
    let stage = Stage::new(|policy| policy.store_set_cookie = true);
    let asked = "GET /a?key=SECRET | Authorization: Bearer SECRET | Cookie: s=SECRET | X-Api-Key: SECRET";
    let fields = "max-age=5 | Vary: Authorization, Cookie, X-Api-Key | Set-Cookie: t=SECRET | ETag: \"a\" | = SECRET";
    let mut shown = Vec::new();
    for (at, answers) in [(0, &*format!("200 | {fields}")), (1, "-"), (10, "304"), (20, "503"), (21, "down")] {
        tokio::time::sleep_until(stage.bench.begun + s(at)).await;
        stage.plan.lock().is_down = answers == "down";
        stage.will_answer(answers);
        let answer = exchange::call(&stage.bench.engine, inbound(asked, 1)).await;
        shown.push(format!("{answer:#?}"));
        let body = http_body_util::BodyExt::collect(answer.response.into_body()).await.unwrap().to_bytes();
        assert_eq!(body.as_ref(), if answers == "503" { &b"v3"[..] } else { b"SECRET" });
    }
    let Stage { bench, plan } = &stage;
    plan.lock().is_down = false;
    shown.push(format!("{:#?} {:#?} {:#?}", bench.cache, bench.engine, bench.cache.usage()));
    shown.push(format!("{:#?}", log.entries()));
    for shown in shown {
        assert!(!shown.contains("SECRET"), "{shown}");
    }
}
