//! Upstreams that fail, each in its own way: what is lost, what is sent again, and what the client is told.

use std::collections::HashMap;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use sopan_fake::script::{Answer, Request};

use super::door::{Port, Scripted, Serve};
use super::wire::{Client, End, Reply, chunked, post, request};
use crate::support::{Fake, until};

/// What an upstream does with a request that it has read.
struct Fault {
    name: &'static str,
    answer: fn() -> Answer,
    /// The `error` of `Proxy-Status` if the answer's head never comes; none if it breaks off after its head.
    error: Option<&'static str>,
}

const HALF: &str = "HTTP/1.1 200 OK\r\nContent-Le";

fn promised(answer: &'static str) -> Answer {
    Answer::status(200).header("Content-Length", "100").body(answer)
}

const FAULTS: [Fault; 12] = [
    Fault { name: "reset-before-head", answer: || Answer::nothing().reset(), error: Some("connection_terminated") },
    Fault { name: "close-before-head", answer: || Answer::nothing().close(), error: Some("connection_terminated") },
    Fault { name: "reset-in-head", answer: || Answer::raw(HALF).reset(), error: Some("connection_terminated") },
    Fault { name: "close-in-head", answer: || Answer::raw(HALF).close(), error: Some("connection_terminated") },
    Fault { name: "garbage", answer: || Answer::raw("SSH-2.0-x\r\n\r\n").hang(), error: Some("http_protocol_error") },
    Fault { name: "stall", answer: || Answer::nothing().hang(), error: Some("http_response_timeout") },
    Fault { name: "reset-after-head", answer: || promised("").reset(), error: None },
    Fault { name: "close-after-head", answer: || promised("").close(), error: None },
    Fault { name: "reset-in-body", answer: || promised("half").reset(), error: None },
    Fault { name: "close-in-body", answer: || promised("half").close(), error: None },
    Fault { name: "reset-in-chunks", answer: || Answer::chunked(200).chunk("half").reset(), error: None },
    Fault { name: "close-in-chunks", answer: || Answer::chunked(200).chunk("half").close(), error: None },
];

/// A kind of request.
struct Kind {
    name: &'static str,
    bytes: fn(&str) -> Vec<u8>,
    /// Whether it may be sent again when it may have been acted on.
    repeats: bool,
}

const BODY: &str = r#"{"client_id": "7"}"#;

const KINDS: [Kind; 5] = [
    Kind { name: "get", bytes: |target| request("GET", target, "").into(), repeats: true },
    Kind { name: "post", bytes: |target| post(target, BODY).into(), repeats: false },
    Kind { name: "chunked-post", bytes: |target| chunked("POST", target, BODY.as_bytes(), &[7]), repeats: false },
    Kind { name: "patch", bytes: |target| post(target, BODY).replacen("POST", "PATCH", 1).into(), repeats: false },
    Kind { name: "chunked-put", bytes: |target| chunked("PUT", target, BODY.as_bytes(), &[7]), repeats: true },
];

/// So that failures take no time, and every one is retried as often as it may be.
const QUICK: [&str; 5] =
    ["--backoff-base 10ms", "--jitter 0", "--attempt-timeout 500ms", "--breaker off", "--retry-budget off"];

/// An upstream that meets each target with the fault that it names, once or always, and then answers well.
fn faulty() -> Scripted {
    let seen = Mutex::new(HashMap::<String, usize>::new());
    Scripted::start(move |request: &Request| {
        let mut seen = seen.lock().unwrap();
        let count = seen.entry(request.target.clone()).or_default();
        *count += 1;
        let mut parts = request.target.split('/').skip(1);
        let (fault, how_often) = (parts.next().unwrap(), parts.next().unwrap());
        if *count > 1 && how_often == "once" {
            return Answer::json(200, "{}");
        }
        (FAULTS.iter().find(|known| known.name == fault).unwrap().answer)()
    })
}

/// Sends every kind of request into every fault, all at the same time, through a proxy with these flags.
fn check_matrix(flags: &[&str]) {
    let upstream = faulty();
    let proxy = Serve::start(&upstream.url(), &[flags, &QUICK].concat());
    thread::scope(|threads| {
        for fault in &FAULTS {
            for kind in &KINDS {
                for how_often in ["once", "always"] {
                    let (upstream, proxy) = (&upstream, &proxy);
                    threads.spawn(move || {
                        let target = format!("/{}/{how_often}/{}", fault.name, kind.name);
                        let mut client = proxy.connect();
                        client.send((kind.bytes)(&target));
                        let reply = client.try_reply();
                        check_cell(fault, kind, how_often, reply.as_ref(), upstream.deliveries(&target));
                    });
                }
            }
        }
    });
    assert_eq!(upstream.unclean(), [""; 0]);
    for got in upstream.requests().iter().filter(|got| got.method != "GET") {
        assert_eq!(got.body, BODY.as_bytes(), "{}", got.target);
    }
}

#[track_caller]
fn check_cell(fault: &Fault, kind: &Kind, how_often: &str, reply: Option<&Reply>, deliveries: usize) {
    let cell = format!("{} {how_often} {}: {reply:?}", kind.name, fault.name);
    let Some(error) = fault.error else {
        // Part of it may have been passed on, so nothing is repeated, and what there is never looks whole.
        assert!(reply.is_none_or(|reply| reply.end == End::Cut && reply.status() == 200), "{cell}");
        return assert_eq!(deliveries, 1, "{cell}");
    };
    let reply = reply.unwrap_or_else(|| panic!("{cell}"));
    if kind.repeats && how_often == "once" {
        return assert_eq!((reply.whole(), deliveries), (Some((200, 2)), 2), "{cell}");
    }
    let status = if error == "http_response_timeout" { 504 } else { 502 };
    assert_eq!((reply.status(), reply.end), (status, End::Whole), "{cell}");
    assert_eq!(reply.field("proxy-status"), Some(&*format!("sopan; error={error}")), "{cell}");
    // An idle connection that is broken just as it is used again makes for one delivery more, not for one attempt more.
    let (attempts, most) = if kind.repeats { (4, 8) } else { (1, 1) };
    assert_eq!(reply.attempts(), attempts, "{cell}");
    assert!((attempts as usize..=most).contains(&deliveries), "{deliveries} {cell}");
    let is_unknown = reply.problem().1.contains("whether it acted on the request is not known");
    assert_eq!(is_unknown, kind.name != "get", "{cell}");
}

// rt-1
#[test]
fn no_fault_doubles_a_post_or_loses_a_get_and_what_is_cut_never_looks_whole() {
    check_matrix(&["--rate unlimited"]);
}

#[test]
fn nor_does_one_after_waiting_in_the_queue() {
    check_matrix(&["--rate 200/s burst 1", "--workers 4"]);
}

#[test]
fn who_is_refused_goes_again_and_is_delivered_once() {
    for flags in [&["--rate unlimited"][..], &["--rate 200/s burst 1"]] {
        let port = Port::closed();
        let proxy = Serve::start(&port.url(), &[flags, &["--backoff-base 200ms", "--breaker off"]].concat());
        let targets: Vec<_> =
            (0..5).flat_map(|n| KINDS.map(|kind| (format!("/{}/{n}", kind.name), kind.bytes))).collect();
        thread::scope(|threads| {
            for (target, bytes) in &targets {
                let proxy = &proxy;
                threads.spawn(move || {
                    let mut client = proxy.connect();
                    client.send(bytes(target));
                    assert_eq!(client.reply().whole(), Some((200, 2)), "{target}");
                });
            }
            proxy.await_logged("WARN", targets.len());
            let upstream = Scripted::start_at(port, |_| Answer::json(200, "{}"));
            let delivered = || targets.iter().map(|(target, _)| upstream.deliveries(target)).collect::<Vec<_>>();
            until(|| (delivered().iter().sum::<usize>() >= targets.len()).then_some(()));
            assert_eq!(delivered(), vec![1; targets.len()]);
        });
        let reason = "connection failed: Connection refused (os error 111)";
        assert!(proxy.logged("WARN").iter().all(|line| line.contains(reason)), "{:?}", proxy.logged("WARN"));
    }
}

#[test]
fn nobody_there_is_told_after_the_last_attempt() {
    let port = Port::closed();
    let proxy = Serve::start(&port.url(), &[&["--rate unlimited"][..], &QUICK].concat());
    for kind in &KINDS {
        let mut client = proxy.connect();
        client.send((kind.bytes)("/x"));
        let reply = client.reply();
        assert_eq!((reply.status(), reply.attempts()), (502, 4), "{}", kind.name);
        assert_eq!(reply.field("proxy-status"), Some("sopan; error=connection_refused"));
        let problem = ("urn:sopan:upstream-failed".to_owned(), "the upstream refused the connection".to_owned());
        assert_eq!(reply.problem(), problem);
    }
    // Its own answers keep the connection.
    let mut client = proxy.connect();
    for _ in 0..3 {
        assert_eq!((client.get("/x").status(), client.post("/x", BODY).status()), (502, 502));
    }
}

#[test]
fn failures_are_retried_and_the_last_one_is_the_upstreams_own() {
    let fake = Fake::start(&["--fail-first", "2"]);
    let proxy = Serve::start(&fake.url(""), &["--backoff-base 10ms"]);
    let reply = proxy.get("/api/v1/health");
    assert_eq!((reply.status(), reply.text(), reply.attempts()), (200, r#"{"status": "ok"}"#, 3));
    assert_eq!((fake.statuses(), proxy.logged("WARN").len()), (vec![500, 500, 200], 2));

    let fake = Fake::start(&["--fail-first", "9"]);
    let proxy = Serve::start(&fake.url(""), &["--backoff-base 10ms", "--jitter 0"]);
    let reply = proxy.get("/api/v1/health");
    let own = r#"{"error": "server_error", "message": "Terjadi kesalahan pada server."}"#;
    assert_eq!((reply.status(), reply.text(), reply.attempts()), (500, own, 4));
    assert_eq!(reply.field("server"), Some("TokoKitaAPI/1.0"));
    assert_eq!(fake.statuses(), [500; 4]);
    let waits = [1, 2, 4]
        .into_iter()
        .zip(1..)
        .map(|(wait, attempt)| format!("attempt {attempt} failed (HTTP 500); waiting 0.0{wait} s before retrying"));
    assert_eq!(proxy.logged("WARN"), waits.collect::<Vec<_>>());
}

// ls-1
#[test]
fn a_stream_that_breaks_is_not_begun_again() {
    let three = || Answer::events().event("1").event("2").event("3").sleep(Duration::from_millis(50));
    let upstream = Scripted::start(move |request| match &*request.target {
        "/reset" => three().reset(),
        "/closed" => three().close(),
        "/error" => three().chunk("event: error\ndata: overloaded\n\n").end(),
        _ => three().end(),
    });
    let proxy = Serve::start(&upstream.url(), &["--rate unlimited", "--backoff-base 10ms"]);
    let events = "data: 1\n\ndata: 2\n\ndata: 3\n\n";
    let error = format!("{events}event: error\ndata: overloaded\n\n");
    for (target, end, body) in [
        ("/reset", End::Cut, events),
        ("/closed", End::Cut, events),
        ("/error", End::Whole, &error),
        ("/ended", End::Whole, events),
    ] {
        for (number, bytes) in [request("GET", target, ""), post(target, BODY)].into_iter().enumerate() {
            let mut client = proxy.connect();
            client.send(bytes);
            let reply = client.reply();
            assert_eq!((reply.status(), reply.end, reply.text()), (200, end, body), "{target}");
            assert_eq!(upstream.deliveries(target), number + 1, "{target}");
        }
    }
    let said: Vec<_> =
        proxy.logged("WARN").into_iter().map(|line| line.split_once(": ").unwrap().0.to_owned()).collect();
    let cut = |request: &str| format!("{request} was cut off after 27 bytes");
    assert_eq!(said, ["GET /reset", "POST /reset", "GET /closed", "POST /closed"].map(cut));
    assert_eq!(proxy.metric("sopan_cut_off_total{upstream=\"default\"}"), 4.0);
}

/// What an upstream does with its connections, asked with each request and whether its connection had one before.
struct Habit {
    name: &'static str,
    answer: fn(&Request, bool) -> Answer,
}

fn good() -> Answer {
    Answer::json(200, "{}")
}

const HABITS: [Habit; 4] = [
    Habit { name: "closes after every answer", answer: |_, _| good().close() },
    Habit {
        name: "closes at some moment after it",
        answer: |request, _| good().sleep(Duration::from_micros(request.number as u64 % 20 * 100)).close(),
    },
    Habit {
        name: "closes as it is used again",
        answer: |_, is_used| if is_used { Answer::nothing().close() } else { good() },
    },
    Habit {
        name: "resets as it is used again",
        answer: |_, is_used| if is_used { Answer::nothing().early().reset() } else { good() },
    },
];

fn with_habit(habit: &'static Habit) -> Scripted {
    let used = Mutex::new(std::collections::HashSet::new());
    Scripted::start(move |request| (habit.answer)(request, !used.lock().unwrap().insert(request.connection)))
}

/// Sends 2,000 requests over four connections; answers their targets and statuses.
fn two_thousand(proxy: &Serve, ask: impl Fn(&mut Client, &str) -> Reply + Sync) -> Vec<(String, u16)> {
    thread::scope(|threads| {
        let asking: Vec<_> = (0..4)
            .map(|client| {
                let ask = &ask;
                threads.spawn(move || {
                    let mut connection = proxy.connect();
                    let targets = (0..500).map(|n| format!("/{client}/{n}"));
                    targets.map(|target| (target.clone(), ask(&mut connection, &target).status())).collect::<Vec<_>>()
                })
            })
            .collect();
        asking.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn connections_that_the_upstream_has_closed_lose_no_get() {
    for habit in &HABITS {
        let upstream = with_habit(habit);
        // A connection that had gone is nobody's failed attempt, so it needs no retry.
        let proxy = Serve::start(&upstream.url(), &["--rate unlimited", "--max-retries 0", "--workers 2"]);
        for (target, status) in two_thousand(&proxy, |client, target| client.get(target)) {
            assert_eq!(status, 200, "{target}: it {}", habit.name);
        }
        assert_eq!(proxy.logged("WARN"), [""; 0], "it {}", habit.name);
    }
}

#[test]
fn nor_do_they_double_a_post() {
    for habit in &HABITS {
        let upstream = with_habit(habit);
        let proxy = Serve::start(&upstream.url(), &["--rate unlimited", "--backoff-base 1ms", "--breaker off"]);
        let answered = two_thousand(&proxy, |client, target| client.post(target, BODY));
        let mut deliveries = std::collections::HashMap::<_, usize>::new();
        upstream.requests().into_iter().for_each(|request| *deliveries.entry(request.target).or_default() += 1);
        for (target, status) in answered {
            match deliveries.get(&target).copied().unwrap_or_default() {
                1 => assert!(matches!(status, 200 | 502), "{target}: {status}: it {}", habit.name),
                // It was gone before the upstream read it, or was refused.
                0 => assert_eq!(status, 502, "{target}: it {}", habit.name),
                more => panic!("{target}: {more} deliveries: it {}", habit.name),
            }
        }
    }
}
