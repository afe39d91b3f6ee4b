//! What clients can cost: bounds on heads, and on what is kept for those that are slow or do not read.

use std::time::Duration;

use sopan_fake::script::Answer;

use super::door::{Scripted, Serve, UNLIMITED};
use super::wire::{Client, request};

const SLOW: usize = 2_000;
const DEAF: usize = 200;
/// What all of them together may cost.
const COST_MAX: u64 = 64 * 1024 * 1024;

#[test]
fn slow_clients_and_clients_that_do_not_read_cost_little_and_hold_up_nobody() {
    let upstream = Scripted::start(|request| match &*request.target {
        "/long" => Answer::status(200).body(vec![b'x'; 8 * 1024 * 1024]),
        _ => Answer::json(200, "{}"),
    });
    let flags: Vec<_> = UNLIMITED.iter().copied().chain(["--header-timeout 120s"]).collect();
    let proxy = Serve::start(&upstream.url(), &flags);
    assert_eq!(proxy.get("/").status(), 200);
    let before = proxy.memory_peak();
    let ask = |client: &mut Client, text: String| client.send(text);
    let mut all: Vec<_> = (0..SLOW + DEAF).map(|_| proxy.connect()).collect();
    let (slow, deaf) = all.split_at_mut(SLOW);
    deaf.iter_mut().for_each(|client| ask(client, request("GET", "/long", "")));
    // A head that comes a little at a time.
    for piece in ["GET /slow HTTP/1.1\r\n", "Host: 127.0.0.1\r\nX-A: ", "1\r\nX-"] {
        slow.iter_mut().for_each(|client| client.send(piece));
    }
    proxy.await_in_flight(DEAF);
    // As far as it is let, the upstream runs ahead.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(proxy.get("/").status(), 200);
    let cost = proxy.memory_peak().saturating_sub(before);
    assert!(cost < COST_MAX, "{cost} bytes");
    for client in slow.iter_mut().step_by(100) {
        client.send("B: 2\r\n\r\n");
        assert_eq!(client.reply().status(), 200);
    }
}

#[test]
fn a_head_has_bounds_and_says_so() {
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let proxy = Serve::start(&upstream.url(), UNLIMITED);
    let fields = |count: usize| "A: 1\r\n".repeat(count);
    for (head, status) in [
        (request("GET", &format!("/{}", "x".repeat(60_000)), ""), 200),
        (request("GET", &format!("/{}", "x".repeat(70_000)), ""), 414),
        (request("GET", "/", &format!("X: {}\r\n", "x".repeat(60_000))), 200),
        (request("GET", "/", &format!("X: {}\r\n", "x".repeat(70_000))), 431),
        (request("GET", "/", &fields(99)), 200),
        (request("GET", "/", &fields(100)), 431),
    ] {
        let mut client = proxy.connect();
        client.try_send(&head);
        let reply = client.reply();
        assert_eq!(reply.status(), status, "{}…", &head[..20]);
        if status != 200 {
            assert_eq!(reply.field("connection"), Some("close"));
            assert_eq!(reply.field("proxy-status"), Some("sopan; error=http_request_error"));
            client.closed();
        }
    }
    assert_eq!(
        (upstream.requests().len(), proxy.metric("sopan_refusals_total{upstream=\"none\",reason=\"bad-request\"}")),
        (3, 3.0)
    );
}
