//! Streams are passed on as they come.

use std::thread;
use std::time::Instant;

use sopan_fake::script::Answer;

use super::ms;
use crate::serve::door::{Scripted, Serve};
use crate::serve::wire::request;

const EVENTS: usize = 8;

// px-8
#[test]
fn events_are_passed_on_one_by_one_as_they_come() {
    let events = |head: Answer| {
        (0..EVENTS)
            .fold(head.sleep(ms(500)), |events, n| events.event(&format!("{n} {}", "x".repeat(30))).sleep(ms(250)))
    };
    let upstream = Scripted::start(move |request| match &*request.target {
        "/events" => events(Answer::events()).end(),
        _ => events(Answer::chunked(200).header("Content-Type", "application/json")).end(),
    });
    let proxy = Serve::start(&upstream.url(), &["--rate unlimited"]);
    thread::scope(|threads| {
        for target in ["/events", "/json"] {
            let (upstream, proxy) = (&upstream, &proxy);
            threads.spawn(move || {
                let mut client = proxy.connect();
                client.send(request("GET", target, ""));
                let mut seen = vec![client.sees("\r\n\r\n")];
                seen.extend((0..EVENTS).map(|n| client.sees(&format!("data: {n} "))));
                client.sees("\r\n0\r\n\r\n");
                let sent = upstream.await_target(target).sent;
                for (number, (sent, seen)) in sent.iter().zip(&seen).enumerate() {
                    let late = seen.saturating_duration_since(sent.at.into_std());
                    assert!(late < ms(200), "{target} {number}: {late:?}");
                }
                // The head did not wait for the first event, nor that for the next.
                assert!(seen.windows(2).all(|two| two[1] - two[0] >= ms(100)), "{seen:?}");
            });
        }
    });
}

/// The same the other way: what a client sends piece by piece is at the upstream piece by piece.
#[test]
fn pieces_of_an_upload_are_passed_on_as_they_come() {
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let proxy = Serve::start(&upstream.url(), &["--rate unlimited"]);
    let mut client = proxy.connect();
    client.send(request("POST", "/x", "Transfer-Encoding: chunked\r\n"));
    upstream.await_target("/x");
    for number in 1..=5 {
        client.send("5\r\npiece\r\n");
        let sent = Instant::now();
        crate::support::until(|| (upstream.request(1).body.len() == 5 * number).then_some(()));
        assert!(sent.elapsed() < ms(200), "{number}: {:?}", sent.elapsed());
        thread::sleep(ms(50));
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.reply().status(), 200);
}
