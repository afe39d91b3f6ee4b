//! Bodies on their way into the store: only what has come whole gets there, and all of it is bounded.

use std::time::Duration;

use sopan_engine::{CacheSettings, Purge, Purged};
use sopan_fake::script::Answer;
use tokio::time::sleep;

use super::{Stage, caching, inbound};
use crate::support::{Bench, leave_after, ms, noise, s, settled};

const MIB: usize = 1 << 20;

fn fresh() -> Answer {
    Answer::status(200).header("Cache-Control", "max-age=600")
}

fn fresh_chunks() -> Answer {
    Answer::chunked(200).header("Cache-Control", "max-age=600")
}

/// By its target, what becomes of a body of ten bytes.
fn script(request: &sopan_fake::script::Request) -> Answer {
    let long = |answer: Answer| answer.header("Content-Length", "10");
    match &*request.target {
        "/whole" => fresh().body("0123456789"),
        "/chunks" => fresh_chunks().chunk("01234").chunk("56789").end(),
        "/until-the-end" => Answer::raw("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n\r\n0123456789").close(),
        "/cut" => long(fresh()).send("01234").close(),
        "/cut-at-once" => long(fresh()).close(),
        "/cut-in-chunks" => fresh_chunks().chunk("0123456789").close(),
        "/garbage-in-chunks" => fresh_chunks().chunk("01234").send("zz\r\n"),
        "/silent" => long(fresh()).send("01234").hang(),
        "/reset" => long(fresh()).send("01234").reset(),
        target => panic!("{target}"),
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_body_that_has_come_whole_is_stored() {
    for (target, is_whole) in [
        ("/whole", true),
        ("/chunks", true),
        // By RFC 9112 §8 that is its whole body.
        ("/until-the-end", true),
        ("/cut", false),
        ("/cut-at-once", false),
        ("/cut-in-chunks", false),
        ("/garbage-in-chunks", false),
        ("/silent", false),
        ("/reset", false),
    ] {
        let bench = Bench::new(script, caching(|_| {}));
        let ask = || bench.handed(inbound(&format!("GET {target}"), 1));
        let first = ask().await;
        assert_eq!(first.body.is_ok(), is_whole, "{target}");
        let second = ask().await;
        let arrivals = bench.upstream.arrivals();
        assert_eq!(arrivals == 1, is_whole, "{target}: {arrivals}");
        if is_whole {
            assert_eq!(second.text(), "0123456789", "{target}");
        }
        bench.is_at_rest();
    }
}

/// A small rest is read for the store when the client has left, a large one is not worth it.
#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_early_leaves_the_store_a_whole_body_or_none() {
    for (length, is_stored) in [(600_000, true), (3 * MIB, false)] {
        let body = noise(length);
        let script = move |_: &sopan_fake::script::Request| {
            let head = fresh().header("Content-Length", body.len().to_string());
            head.send(body[..100].to_vec()).sleep(s(1)).send(body[100..].to_vec())
        };
        let bench = Bench::new(script, caching(|_| {}));
        leave_after(ms(500), bench.handed(inbound("GET /a", 1))).await;
        sleep(s(2)).await;
        settled().await;
        let got = bench.handed(inbound("GET /a", 2)).await;
        assert!(got.body.unwrap() == noise(length));
        assert_eq!(bench.upstream.arrivals(), if is_stored { 1 } else { 2 }, "{length}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_passes_and_is_not_stored() {
    let size = CacheSettings { memory_bytes: 64 << 20, ..CacheSettings::default() };
    for (length, is_chunked, is_stored) in
        [(1000, false, true), (1001, false, false), (1000, true, true), (1001, true, false), (2 * MIB, true, false)]
    {
        let script = move |_: &sopan_fake::script::Request| {
            let body = noise(length);
            if is_chunked { fresh_chunks().chunk(&body[..500]).chunk(&body[500..]).end() } else { fresh().body(body) }
        };
        let bench = Bench::storing(
            &size,
            |_| crate::support::lines::Line::Open,
            script,
            caching(|policy| policy.entry_bytes_max = 1000),
        );
        for _ in 0..2 {
            assert!(bench.handed(inbound("GET /a", 1)).await.body.unwrap() == noise(length), "{length}");
        }
        assert_eq!(bench.upstream.arrivals(), if is_stored { 1 } else { 2 }, "{length} {is_chunked}");
        bench.is_at_rest();
    }
}

/// What is asked for often stays, however much else comes by.
#[tokio::test(start_paused = true)]
async fn the_memory_is_bounded_and_keeps_what_is_asked_for() {
    let size = CacheSettings { memory_bytes: MIB as u64, ..CacheSettings::default() };
    let stage = Stage::with(&size, caching(|_| {}));
    let large = format!("200 | max-age=600 | = {}", "x".repeat(10_000));
    stage.line("GET /often", &large).await;
    for number in 0..500 {
        stage.line(&format!("GET /{number}"), &large).await;
        stage.line("GET /often", "-").await;
        let usage = stage.bench.cache.usage();
        assert!(usage.memory_bytes <= usage.memory_bytes_max, "{usage:?}");
    }
    let usage = stage.bench.cache.usage();
    assert!((60..=104).contains(&usage.memory_targets), "{usage:?}");
    assert!(stage.has("GET /499").await && stage.has("GET /often").await);
    // One that would take more than its share is not taken, and drives nobody out.
    let larger = format!("200 | max-age=600 | = {}", "x".repeat(MIB / 16 + 1));
    stage.line("GET /larger", &larger).await;
    assert!(!stage.has("GET /larger").await && stage.has("GET /often").await);
}

/// Whatever becomes of bodies, what they held while they came is free again: there is room for as many as need all of it.
#[tokio::test(start_paused = true)]
async fn what_bodies_hold_while_they_come_is_given_back() {
    // A quarter of it is for all that come at once, a sixteenth for each.
    let size = CacheSettings { memory_bytes: 4 * MIB as u64, ..CacheSettings::default() };
    let part = MIB / 6;
    let script = move |request: &sopan_fake::script::Request| {
        let most = || noise(part / 10 * 9);
        let whole = || fresh().header("Content-Length", part.to_string()).send(most());
        match request.target.split('-').next().unwrap() {
            "/whole" => whole().sleep(s(1)).send(noise(part - part / 10 * 9)),
            "/cut" => whole().sleep(s(1)).close(),
            "/silent" => whole().hang(),
            "/long" => fresh_chunks().chunk(noise(part)).sleep(s(1)).chunk(noise(part)).end(),
            target => panic!("{target}"),
        }
    };
    let bench = Bench::storing(
        &size,
        |_| crate::support::lines::Line::Open,
        script,
        |settings| {
            caching(|_| {})(settings);
            settings.idle_timeout = s(5);
        },
    );
    let get = |target: String| bench.handed(inbound(&format!("GET {target}"), 1));
    for round in 0..20 {
        let kinds = ["whole", "cut", "silent", "long"];
        let crowd: Vec<_> = kinds.iter().map(|kind| tokio::spawn(get(format!("/{kind}-{round}")))).collect();
        let left: Vec<_> = kinds.iter().map(|kind| tokio::spawn(get(format!("/{kind}-{round}-left")))).collect();
        sleep(ms(500)).await;
        left.into_iter().for_each(|asking| asking.abort());
        for asking in crowd {
            asking.await.unwrap();
        }
        sleep(s(40)).await;
    }
    // Six at once need nearly all of it, and are kept: else nobody could join them so late.
    let before = bench.upstream.arrivals();
    let crowd = || -> Vec<_> { (0..6).map(|number| tokio::spawn(get(format!("/whole-last-{number}")))).collect() };
    let leaders = crowd();
    sleep(ms(500)).await;
    for asking in leaders.into_iter().chain(crowd()) {
        assert_eq!(asking.await.unwrap().body.unwrap().len(), part);
    }
    assert_eq!(bench.upstream.arrivals(), before + 6);
    bench.is_at_rest();
}

/// Parts that are joined count as what they hold while they come, and those for which there is no room are asked for whole.
#[tokio::test(start_paused = true)]
async fn no_more_parts_are_joined_at_once_than_there_is_memory_for() {
    let size = CacheSettings { memory_bytes: 4 * MIB as u64, ..CacheSettings::default() };
    let (half, whole) = (120 * 1024, 240 * 1024);
    let script = move |request: &sopan_fake::script::Request| {
        let part = |first: usize, last: usize| {
            let range = format!("bytes {first}-{last}/{whole}");
            let head = Answer::status(206).header("Cache-Control", "max-age=600").header("ETag", "\"a\"");
            head.header("Content-Range", range).header("Content-Length", (last + 1 - first).to_string())
        };
        let body = noise(whole);
        match request.field("range") {
            None => fresh().header("ETag", "\"a\"").body(body),
            Some("bytes=0-122879") => part(0, half - 1).send(noise(half)),
            Some("bytes=122880-245759") => {
                let rest = part(half, whole - 1).send(body[half..whole - 1].to_vec());
                rest.sleep(s(1)).send(body[whole - 1..].to_vec())
            }
            Some(other) => panic!("{other}"),
        }
    };
    let bench = Bench::storing(&size, |_| crate::support::lines::Line::Open, script, caching(|_| {}));
    for round in 0..3 {
        let targets: Vec<_> = (0..8).map(|number| format!("GET /{round}-{number}")).collect();
        for target in &targets {
            bench.handed(inbound(&format!("{target} | Range: bytes=0-122879"), 1)).await;
        }
        let before = bench.upstream.arrivals();
        let all: Vec<_> = targets.iter().map(|target| tokio::spawn(bench.handed(inbound(target, 1)))).collect();
        for asking in all {
            assert!(asking.await.unwrap().body.unwrap() == noise(whole));
        }
        // A quarter of the memory is for all that comes.
        let (joined, whole) = (4, 4);
        assert_eq!(bench.upstream.arrivals() - before, joined + 2 * whole, "{round}");
        bench.cache.purge(Purge::All).await;
    }
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn a_purge_takes_what_is_stored_and_what_is_under_way() {
    let (all, upstream) = (["GET /v1/a", "GET /v1/a?x", "GET /v1", "GET /v10", "GET /v2"], "default");
    for (purge, left, count) in [
        (Purge::Url { upstream, target: "/v1/a" }, [false, true, true, true, true], 2),
        (Purge::Url { upstream, target: "/none" }, [true; 5], 0),
        (Purge::Url { upstream: "other", target: "/v1/a" }, [true; 5], 0),
        (Purge::Prefix { upstream, path: "/v1" }, [false, false, false, true, true], 4),
        (Purge::Prefix { upstream: "other", path: "/v1" }, [true; 5], 0),
        (Purge::All, [false; 5], 6),
    ] {
        let stage = Stage::new(|_| {});
        for asked in all {
            stage.line(asked, "200 | max-age=600").await;
        }
        stage.line("GET /v1/a | Host: other.test", "200 | max-age=600").await;
        assert_eq!(stage.bench.cache.purge(purge).await, Purged { memory: count, disk: 0, is_told: None }, "{purge:?}");
        let mut found = [true; 5];
        for (asked, found) in all.iter().zip(&mut found) {
            *found = stage.has(asked).await;
        }
        assert_eq!(found, left, "{purge:?}");
        assert_eq!(stage.bench.cache.usage().memory_targets, left.iter().filter(|is_left| **is_left).count() as u64);
    }
    // What was asked for before is what people wanted to be rid of.
    for purge in [Purge::Url { upstream, target: "/v1/a" }, Purge::Prefix { upstream, path: "/v1" }, Purge::All] {
        let stage = Stage::new(|_| {});
        stage.will_answer("200 | max-age=600 | after 5");
        let asking = stage.spawn("GET /v1/a", 1);
        settled().await;
        stage.bench.cache.purge(purge).await;
        stage.will_answer("200 | max-age=600");
        let got = stage.ask("GET /v1/a").await;
        assert_eq!((got.text(), got.head_at < Duration::from_secs(1)), ("v2", true), "{purge:?}");
        assert_eq!(asking.await.unwrap().text(), "v1");
        assert_eq!(stage.line("GET /v1/a", "-").await, "200 v2 hit age=5", "{purge:?}");
    }
}
