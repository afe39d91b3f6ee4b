//! An API that is out of order for a while: what its clients are told, when it is left alone, and that all recovers by itself.
//! `bench/faults.py` plays more faults, with the times that are usual.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use sopan_fake::script::Answer;

use super::ms;
use crate::serve::door::{Scripted, Serve};
use crate::serve::wire::{End, Reply};
use crate::support::{Fake, get, until};

/// How an API fails, and what becomes of a request then: a status, and the `error` of `Proxy-Status` where sopan says it.
struct Outage {
    name: &'static str,
    answer: fn() -> Answer,
    becomes: (u16, End, Option<&'static str>),
}

const OUTAGES: [Outage; 5] = [
    Outage {
        name: "resets",
        answer: || Answer::nothing().reset(),
        becomes: (502, End::Whole, Some("connection_terminated")),
    },
    Outage {
        name: "garbage",
        answer: || Answer::raw("SSH-2.0-x\r\n\r\n").close(),
        becomes: (502, End::Whole, Some("http_protocol_error")),
    },
    Outage {
        name: "head without end",
        answer: || Answer::raw(format!("HTTP/1.1 200 OK\r\n{}", "x: y\r\n".repeat(20_000))).hang(),
        becomes: (502, End::Whole, Some("http_response_header_section_size")),
    },
    Outage { name: "503", answer: || Answer::json(503, "{}"), becomes: (503, End::Whole, None) },
    Outage {
        name: "bodies that break off",
        answer: || Answer::status(200).header("Content-Length", "9").body("half").close(),
        becomes: (200, End::Cut, None),
    },
];

/// The breaker opens after five failures in a row that span a second, or when half of ten have failed.
const FLAGS: [&str; 7] = [
    "--rate 1000/s burst 50",
    "--attempt-timeout 300ms",
    "--idle-timeout 1s",
    "--max-retries 1",
    "--backoff-base 20ms",
    "--jitter 0",
    "--breaker failures=5,attempts_min=10,min_span=1s,open_for=1s",
];

/// What is open now: descriptors, without timers, which are kept for the next who waits; and connections of clients.
fn open(proxy: &Serve) -> (usize, u64) {
    let entries = fs::read_dir(format!("/proc/{}/fd", proxy.program.0.id())).unwrap();
    let links = entries.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    let descriptors = links.filter(|link| link.as_os_str() != "anon_inode:[timerfd]").count();
    let state: serde_json::Value = serde_json::from_str(&get(proxy.admin, "/state").body).unwrap();
    (descriptors, state["connections"]["open"].as_u64().unwrap())
}

fn told(reply: &Reply) -> (u16, End, Option<&str>) {
    let error = reply.field("proxy-status").and_then(|status| status.strip_prefix("sopan; error="));
    (reply.status(), reply.end, error)
}

/// Plays an outage of the API there from its beginning to the end of what follows.
fn check(name: &str, url: &str, becomes: (u16, End, Option<&str>), fails: impl Fn(bool)) {
    let proxy = Serve::start(url, &FLAGS);
    let at_first = open(&proxy);
    assert_eq!(at_first.1, 0, "nobody has come yet");
    let ask = || proxy.get("/api/v1/health");
    assert_eq!(told(&ask()), (200, End::Whole, None), "{name}");
    fails(true);
    let begun = Instant::now();
    let refused = until(|| {
        thread::sleep(ms(20));
        let reply = ask();
        let is_refusal = reply.status() == 503 && reply.field("proxy-status").is_some();
        assert!(is_refusal || told(&reply) == becomes, "{name}: {reply:?}");
        is_refusal.then_some(reply)
    });
    assert!(begun.elapsed() >= ms(1000), "{name}: refused after {:?}", begun.elapsed());
    assert_eq!(refused.problem().0, "urn:sopan:breaker-open", "{name}");
    assert_eq!(refused.field("retry-after"), Some("1"), "{name}");
    fails(false);
    until(|| (told(&ask()) == (200, End::Whole, None)).then_some(()));
    assert_eq!(proxy.metric("sopan_breaker{upstream=\"default\",state=\"closed\"}"), 1.0, "{name}");
    proxy.await_rest();
    // When the connections to the API have been idle for long enough, nothing is left of it.
    until(|| (open(&proxy) == at_first).then_some(()));
}

#[test]
fn an_api_that_fails_is_left_alone_and_asked_again_when_it_is_well() {
    thread::scope(|threads| {
        for outage in &OUTAGES {
            threads.spawn(move || {
                let fails = Arc::new(AtomicBool::new(false));
                let (ill, answer) = (Arc::clone(&fails), outage.answer);
                let upstream =
                    Scripted::start(move |_| if ill.load(Relaxed) { answer() } else { Answer::json(200, "{}") });
                check(outage.name, &upstream.url(), outage.becomes, |now| fails.store(now, Relaxed));
            });
        }
        threads.spawn(|| {
            let fake = Fake::start(&[]);
            let becomes = (504, End::Whole, Some("http_response_timeout"));
            check("a process that stands still", &fake.url(""), becomes, |now| {
                fake.program.signal(if now { "STOP" } else { "CONT" });
            });
        });
    });
}
