//! Two of the program in front of one API, with one Redis between them: what one has stored, or made untrue, the other knows.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use sopan_fake::script::Answer;

use super::door::{Scripted, Serve};
use super::operating::change;
use super::wire::request;
use crate::support::redis::{self, Redis};
use crate::support::{get, until};

/// Each in step with the other.
fn two(upstream: &Scripted, redis: &Redis) -> [Serve; 2] {
    let flags = ["--rate unlimited", &*format!("--redis {}", redis.url())];
    let two = [(); 2].map(|()| Serve::start(&upstream.url(), &flags));
    two.iter().for_each(in_step);
    two
}

fn in_step(proxy: &Serve) {
    until(|| (proxy.metric("sopan_cache_shared_up") == 1.0).then_some(()));
}

fn is_stored(proxy: &Serve, target: &str) -> bool {
    let mut client = proxy.connect();
    client.send(request("GET", target, "Cache-Control: only-if-cached\r\n"));
    client.reply().status() == 200
}

/// Until the other knows what the first one has stored.
fn hit(proxy: &Serve, target: &str) {
    until(|| is_stored(proxy, target).then_some(()));
}

#[test]
fn what_one_has_stored_is_a_hit_on_the_other_and_what_it_purges_a_miss() {
    if !redis::is_there() {
        return;
    }
    let redis = Redis::start();
    let fresh = || Answer::json(200, "{\"id\": 17} ".repeat(10_000)).header("Cache-Control", "max-age=600");
    let upstream = Scripted::start(move |_| fresh());
    let [one, other] = two(&upstream, &redis);
    let all = ["/v1/a?page=1", "/v1/b", "/w"];
    let purge = |body: &Json| {
        let (status, told) = change(one.admin, "/cache/purge", body);
        assert_eq!((status, &told["others_told"]), (200, &json!(true)), "{told}");
    };
    let write = || {
        let mut client = one.connect();
        client.send(request("PUT", "/w", "Content-Length: 0\r\n"));
        assert_eq!(client.reply().status(), 200);
    };
    for (purged, left) in [
        (json!({"url": "/v1/a?page=1"}), [false, true, true]),
        (json!({"prefix": "/v1"}), [false, false, true]),
        (json!({"all": true}), [false, false, false]),
        (json!({"all": true, "upstream": "default"}), [false, false, false]),
        // Nothing is, but something is written.
        (json!(null), [true, true, false]),
    ] {
        let before = all.map(|target| upstream.deliveries(target));
        for target in all {
            assert_eq!(one.get(target).status(), 200);
            hit(&other, target);
            let reply = other.get(target);
            assert_eq!((reply.status(), reply.body.len()), (200, 110_000));
            assert!(reply.field("cache-status").unwrap().starts_with("sopan; hit"), "{reply:?}");
        }
        let after = all.map(|target| upstream.deliveries(target));
        assert!(before.iter().zip(after).all(|(before, after)| after - before <= 1), "{before:?} {after:?}");
        if purged.is_null() {
            write()
        } else {
            purge(&purged)
        }
        let begun = Instant::now();
        let there = |proxy: &Serve| all.map(|target| is_stored(proxy, target));
        until(|| (there(&other) == left).then_some(()));
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(1), "{purged}: after {took:?}");
        assert_eq!(there(&one), left, "{purged}");
    }
    let told: Json = serde_json::from_str(&get(other.admin, "/state").body).unwrap();
    let shared = &told["cache"]["shared"];
    assert!(shared["in_step"] == json!(true) && shared["found"].as_u64() > Some(3), "{shared}");
}

#[test]
fn of_two_who_ask_the_same_at_both_one_goes_to_the_api() {
    if !redis::is_there() {
        return;
    }
    let redis = Redis::start();
    let answer = |_: &sopan_fake::script::Request| Answer::status(200).header("Cache-Control", "max-age=600").body("x");
    let upstream = Scripted::start(move |request| answer(request).after(Duration::from_secs(1)));
    let two = two(&upstream, &redis);
    let crowd: Vec<_> = (0..20)
        .map(|client| {
            let address = two[client % 2].address;
            thread::spawn(move || super::wire::Client::connect(address).get("/cold").status())
        })
        .collect();
    assert!(crowd.into_iter().all(|client| client.join().unwrap() == 200));
    assert_eq!(upstream.deliveries("/cold"), 1);
    let waits = two.iter().map(|proxy| proxy.metric("sopan_cache_shared_waits_total"));
    assert_eq!(waits.sum::<f64>(), 1.0);
}

#[test]
fn without_redis_each_goes_on_with_its_own_and_with_it_again_they_share() {
    if !redis::is_there() {
        return;
    }
    let mut redis = Redis::start();
    let upstream = Scripted::start(|_| Answer::status(200).header("Cache-Control", "max-age=600").body("x"));
    let [one, other] = two(&upstream, &redis);
    assert_eq!(one.get("/a").status(), 200);
    hit(&other, "/a");
    redis.kill();
    until(|| (one.metric("sopan_cache_shared_up") == 0.0).then_some(()));
    until(|| (other.metric("sopan_cache_shared_up") == 0.0).then_some(()));
    for proxy in [&one, &other] {
        assert_eq!((proxy.get("/a").status(), proxy.get("/b").status()), (200, 200));
    }
    assert_eq!((upstream.deliveries("/a"), upstream.deliveries("/b")), (1, 2));
    let (_, told) = change(one.admin, "/cache/purge", &json!({"url": "/b"}));
    assert_eq!(told["others_told"], json!(false));
    redis.restart();
    in_step(&one);
    in_step(&other);
    // Redis has lost all, so that nobody can tell what is still true.
    assert!(!is_stored(&one, "/b") && !is_stored(&other, "/b"));
    assert_eq!(other.get("/c").status(), 200);
    hit(&one, "/c");
    for proxy in [&one, &other] {
        let said = |level| proxy.logged(level).iter().filter(|line| line.contains("stored answers are")).count();
        assert_eq!((said("WARN"), said("INFO")), (1, 1), "{:?}", proxy.lines());
    }
}
