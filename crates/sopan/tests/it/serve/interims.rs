//! Answers before the answer (1xx, RFC 9110 §15.2), and bodies that wait to be asked for (§10.1.1).

use std::time::Duration;

use sopan_fake::script::Answer;

use super::door::{Scripted, Serve, UNLIMITED};
use super::wire::request;

const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nConnection: x-hop\r\nX-Hop: 1\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn hints_come_before_the_answer_and_as_soon_as_they_are_there() {
    let upstream = Scripted::start(|request| match &*request.target {
        "/slow" => Answer::raw(HINTS).sleep(Duration::from_secs(2)).send(OK),
        "/many" => Answer::raw(HINTS.repeat(50) + OK),
        _ => Answer::raw(HINTS.replace("103 Early Hints", "100 Continue") + HINTS + HINTS + OK),
    });
    let proxy = Serve::start(&upstream.url(), UNLIMITED);
    let mut client = proxy.connect();
    client.send(request("GET", "/slow", ""));
    client.sees("HTTP/1.1 103 Early Hints\r\nlink: </a>; rel=preload\r\n\r\n");
    // Held back, it would have come together with the answer.
    assert!(client.is_silent(Duration::from_millis(100)));
    let reply = client.reply();
    assert_eq!((reply.status(), &*reply.interim, reply.text()), (200, &[][..], "ok"));
    for (target, expected) in [("/two", vec![100, 103, 103]), ("/many", vec![103; 50])] {
        client.send(request("GET", target, ""));
        let reply = client.reply();
        assert_eq!((reply.status(), reply.interim), (200, expected), "{target}");
    }
    // HTTP/1.0 knows of none.
    client.send(format!("GET /old HTTP/1.0\r\nHost: {}\r\n\r\n", proxy.address));
    let reply = client.reply();
    assert_eq!((reply.status(), reply.interim), (200, vec![]));
}

#[test]
fn a_client_that_reads_no_hints_holds_up_its_own_answer_only() {
    let hint = HINTS.replace("rel=preload", &"x".repeat(50_000));
    let upstream = Scripted::start(move |request| match &*request.target {
        "/flood" => Answer::raw(hint.repeat(99) + OK),
        _ => Answer::raw(OK),
    });
    let proxy = Serve::start(&upstream.url(), UNLIMITED);
    let mut slow = proxy.connect();
    slow.send(request("GET", "/flood", ""));
    proxy.await_in_flight(1);
    assert_eq!(proxy.get("/").text(), "ok");
    let reply = slow.reply();
    assert_eq!((reply.status(), reply.interim.len()), (200, 99));
}

// px-6
#[test]
fn a_body_is_asked_for_when_the_upstream_asks() {
    const EXPECTS: &str = "Content-Length: 5\r\nExpect: 100-continue\r\n";
    let go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    let upstream = Scripted::start(move |request| match &*request.target {
        "/refuses" => Answer::status(413).early().close(),
        "/asks" => Answer::raw("").early().sleep(Duration::from_millis(300)).send(go_on).read_body().send(OK),
        "/hasty" => Answer::raw(go_on.to_owned() + "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            .early()
            .read_body()
            .send("2\r\nok\r\n0\r\n\r\n"),
        "/late" => Answer::raw("").early().sleep(Duration::from_secs(2)).send(go_on).read_body().send(OK),
        _ => Answer::raw("").early().read_body().send(OK),
    });
    let proxy = Serve::start(&upstream.url(), UNLIMITED);
    for target in ["/asks", "/hasty", "/late", "/silent"] {
        let mut client = proxy.connect();
        client.send(request("PUT", target, EXPECTS));
        client.sees(go_on);
        client.send("hello");
        let reply = client.reply();
        // Never twice, also where the upstream asks after we had asked for it.
        assert_eq!((reply.status(), reply.interim), (200, vec![]), "{target}");
    }
    let mut client = proxy.connect();
    client.send(request("PUT", "/refuses", EXPECTS));
    let reply = client.reply();
    assert_eq!((reply.status(), &*reply.interim, reply.field("connection")), (413, &[][..], Some("close")));
    client.closed();
    // Who does not wait is not asked.
    let mut client = proxy.connect();
    client.send(request("PUT", "/silent", EXPECTS) + "hello");
    assert_eq!(client.reply().interim, [0_u16; 0]);
    assert_eq!(upstream.unclean(), [""; 0]);
    for number in 1..=6 {
        let got = upstream.request(number);
        let body = if got.target == "/refuses" { "" } else { "hello" };
        assert_eq!((got.field("expect"), &*got.body), (Some("100-continue"), body.as_bytes()), "{}", got.target);
    }
}
