//! How long the listener waits for clients, and for bodies that have come to a halt.

use std::thread;
use std::time::{Duration, Instant};

use sopan_fake::script::Answer;

use super::ms;
use crate::serve::door::{Scripted, Serve};
use crate::serve::wire::{Client, Closed, End, request};

/// The time-outs of these tests; what is bounded by them may be this much later.
const TIMEOUTS: [&str; 3] = ["--rate unlimited", "--header-timeout 1s", "--idle-timeout 2s"];
const HEADER: Duration = ms(1000);
const IDLE: Duration = ms(2000);
const LATE: Duration = ms(800);
/// The proxy began to count a little before the test does.
const EARLY: Duration = ms(100);

#[track_caller]
fn check_took(since: Instant, timeout: Duration, what: &str) {
    let took = since.elapsed();
    assert!((timeout - EARLY..timeout + LATE).contains(&took), "{what}: {took:?}");
}

/// What a client does from the moment when the time-out begins.
struct Slow {
    name: &'static str,
    act: fn(Client),
}

/// Sends a byte at a time, which must not help; until nobody takes it any more.
fn trickle(client: &mut Client, text: &str) {
    for byte in text.as_bytes() {
        if !client.try_send([*byte]) {
            return;
        }
        thread::sleep(ms(150));
    }
}

const SLOW: [Slow; 5] = [
    Slow {
        name: "a client that says nothing",
        act: |mut client| {
            let since = Instant::now();
            assert_eq!(client.closed(), Closed::Fin);
            check_took(since, HEADER, "nothing");
        },
    },
    Slow {
        name: "half a head",
        act: |mut client| {
            let since = Instant::now();
            client.send("GET /x HTTP/1.1\r\nHost: ");
            client.closed();
            check_took(since, HEADER, "half a head");
        },
    },
    Slow {
        name: "a head that trickles",
        act: |mut client| {
            let since = Instant::now();
            trickle(&mut client, "GET /trickled HTTP/1.1\r\n");
            client.closed();
            let took = since.elapsed();
            // It hears of it only when it sends again.
            assert!(took >= HEADER - EARLY, "{took:?}");
        },
    },
    Slow {
        name: "a second head that trickles",
        act: |mut client| {
            assert_eq!(client.get("/first").status(), 200);
            thread::sleep(ms(700));
            let since = Instant::now();
            client.send("GET ");
            client.closed();
            check_took(since, HEADER, "second head");
        },
    },
    Slow {
        name: "a connection that is kept without a request",
        act: |mut client| {
            assert_eq!(client.get("/first").status(), 200);
            let since = Instant::now();
            assert_eq!(client.closed(), Closed::Fin);
            check_took(since, IDLE, "kept");
        },
    },
];

#[test]
fn a_head_has_its_time_and_a_connection_without_one_too() {
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let proxy = Serve::start(&upstream.url(), &TIMEOUTS);
    thread::scope(|threads| {
        for slow in &SLOW {
            let client = proxy.connect();
            thread::Builder::new().name(slow.name.to_owned()).spawn_scoped(threads, || (slow.act)(client)).unwrap();
        }
    });
    assert!(upstream.requests().iter().all(|request| request.target == "/first"));
}

/// A client that stops in the middle of its body, wherever its request is, is told so.
#[test]
fn an_upload_that_halts_is_given_up() {
    let upstream = Scripted::start(|request| match &*request.target {
        "/first" => Answer::json(200, "{}").after(ms(4000)),
        _ => Answer::json(200, "{}"),
    });
    let at_once = Serve::start(&upstream.url(), &TIMEOUTS);
    let queued = Serve::start(&upstream.url(), &[&TIMEOUTS[..], &["--max-in-flight 1"]].concat());
    let mut first = queued.connect();
    first.send(request("GET", "/first", ""));
    queued.await_in_flight(1);
    thread::scope(|threads| {
        for proxy in [&at_once, &queued] {
            for (framing, half) in
                [("Content-Length: 10\r\n", "half"), ("Transfer-Encoding: chunked\r\n", "4\r\nhalf\r\n")]
            {
                threads.spawn(move || {
                    let mut client = proxy.connect();
                    client.send(request("POST", "/x", framing) + half);
                    let since = Instant::now();
                    let reply = client.reply();
                    check_took(since, IDLE, framing);
                    assert_eq!((reply.status(), reply.attempts() <= 1), (408, true));
                    let detail = "the client fell silent in the middle of its request body".to_owned();
                    assert_eq!(reply.problem(), ("urn:sopan:request-incomplete".to_owned(), detail));
                    // What it would send now would be taken for another request.
                    client.closed();
                });
            }
        }
    });
    // Nothing whole was ever delivered.
    let halves: Vec<_> = upstream.requests().into_iter().filter(|request| request.target == "/x").collect();
    assert_eq!(halves.len(), 2);
    assert!(halves.iter().all(|half| half.body_at.is_none()), "{halves:?}");
    assert_eq!(first.reply().status(), 200);
    assert!(at_once.await_rest() < ms(1000));
}

#[test]
fn an_answer_that_halts_is_cut_off() {
    let upstream = Scripted::start(|request| match &*request.target {
        "/chunks" => Answer::events().event("1").hang(),
        "/length" => Answer::status(200).header("Content-Length", "10").body("half").hang(),
        _ => Answer::raw("HTTP/1.1 200 OK\r\n\r\nhalf").hang(),
    });
    let proxy = Serve::start(&upstream.url(), &TIMEOUTS);
    thread::scope(|threads| {
        for target in ["/chunks", "/length", "/to-the-end"] {
            let proxy = &proxy;
            threads.spawn(move || {
                let mut client = proxy.connect();
                let since = Instant::now();
                let reply = client.get(target);
                check_took(since, IDLE, target);
                assert_eq!((reply.status(), reply.end), (200, End::Cut), "{target}: {reply:?}");
            });
        }
    });
    assert_eq!(proxy.metric("sopan_cut_off_total{upstream=\"default\"}"), 3.0);
    assert_eq!(upstream.arrivals(), 3);
}

#[test]
fn a_client_that_does_not_read_is_given_up_and_its_upstream_with_it() {
    let upstream = Scripted::start(|_| Answer::status(200).body(vec![b'x'; 64 * 1024 * 1024]));
    let proxy = Serve::start(&upstream.url(), &TIMEOUTS);
    let mut client = proxy.connect();
    client.send(request("GET", "/x", ""));
    client.sees("200 OK");
    let since = Instant::now();
    proxy.await_in_flight(1);
    proxy.await_in_flight(0);
    check_took(since, IDLE, "unread");
    assert_eq!(proxy.metric("sopan_cut_off_total{upstream=\"default\"}"), 1.0);
    // What the kernel has taken can still be read, and is not the whole.
    assert!(matches!(client.closed(), Closed::Fin | Closed::Reset));
}

/// Slow is not silent: bytes that move keep a body alive for longer than any of the time-outs.
#[test]
fn a_body_that_moves_slowly_is_not_cut_off() {
    let upstream = Scripted::start(|request| match &*request.target {
        "/down" => (0..10).fold(Answer::events(), |events, n| events.event(&n.to_string()).sleep(ms(400))).end(),
        _ => Answer::json(200, "{}"),
    });
    let flags = ["--rate unlimited", "--idle-timeout 1s", "--attempt-timeout 1s", "--total-timeout 1500ms"];
    let proxy = Serve::start(&upstream.url(), &flags);
    thread::scope(|threads| {
        // ls-2
        threads.spawn(|| {
            let reply = proxy.get("/down");
            assert_eq!((reply.end, reply.text().matches("data: ").count()), (End::Whole, 10), "{reply:?}");
        });
        threads.spawn(|| {
            let mut client = proxy.connect();
            client.send(request("PUT", "/up", "Content-Length: 10\r\n"));
            for _ in 0..10 {
                thread::sleep(ms(400));
                client.send("x");
            }
            assert_eq!(client.reply().whole(), Some((200, 2)));
        });
        threads.spawn(|| {
            let mut client = proxy.connect();
            client.send("PUT /chunks HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
            for _ in 0..10 {
                thread::sleep(ms(400));
                client.send("1\r\nx\r\n");
            }
            client.send("0\r\n\r\n");
            assert_eq!(client.reply().whole(), Some((200, 2)));
        });
    });
    assert_eq!(upstream.request(1).body.len() + upstream.request(2).body.len() + upstream.request(3).body.len(), 20);
}

#[test]
fn one_connection_too_many_waits_until_another_closes() {
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let proxy = Serve::start(&upstream.url(), &["--rate unlimited", "--max-connections 2"]);
    let (mut first, mut second) = (proxy.connect(), proxy.connect());
    assert_eq!((first.get("/1").status(), second.get("/2").status()), (200, 200));
    let mut third = proxy.connect();
    third.send(request("GET", "/3", ""));
    assert!(third.is_silent(ms(500)));
    assert_eq!(upstream.arrivals(), 2);
    // The others are served meanwhile.
    assert_eq!(first.get("/1").status(), 200);
    drop(second);
    let freed = Instant::now();
    assert_eq!(third.reply().status(), 200);
    assert!(freed.elapsed() < ms(1000), "{:?}", freed.elapsed());
}
