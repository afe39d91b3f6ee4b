//! How it ends: in order when it is told to, and not for ever.

use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use sopan_fake::script::Answer;

use super::ms;
use crate::serve::door::{START_LINES, Scripted, Serve};
use crate::serve::wire::{Closed, End, request};
use crate::support::until;

/// Waits until no connection is accepted any more; answers how long that took.
fn refuses(proxy: &Serve) -> Duration {
    let begun = Instant::now();
    until(|| TcpStream::connect(proxy.address).err().map(drop));
    begun.elapsed()
}

#[test]
fn a_signal_lets_what_has_begun_finish_and_takes_no_more() {
    let upstream = Scripted::start(|request| match &*request.target {
        "/slow" => Answer::json(200, "{}").after(ms(2000)),
        "/stream" => Answer::events().event("1").sleep(ms(2200)).event("2").end(),
        _ => Answer::json(200, "{}"),
    });
    for (round, signal) in ["TERM", "INT"].into_iter().enumerate() {
        let mut proxy = Serve::start(&upstream.url(), &["--rate 1/s burst 4", "--drain 20s", "--workers 2"]);
        let (mut idle, mut fresh) = (proxy.connect(), proxy.connect());
        assert_eq!(idle.get("/idle").status(), 200);
        let mut running = [proxy.connect(), proxy.connect()];
        running[0].send(request("GET", "/slow", ""));
        running[1].send(request("GET", "/stream", ""));
        running[1].sees("data: 1\n");
        until(|| (upstream.deliveries("/slow") > round).then_some(()));
        let mut waiting: Vec<_> = (0..4).map(|_| proxy.connect()).collect();
        // Each for something else: equal ones would wait for the first of them.
        let numbered = waiting.iter_mut().zip(0..);
        numbered.for_each(|(client, n)| client.send(request("GET", &format!("/waiting/{n}"), "")));
        proxy.await_waiting(waiting.len());

        let told = Instant::now();
        proxy.program.signal(signal);
        assert!(refuses(&proxy) < ms(1500));
        // Who asks for nothing is let go at once.
        assert_eq!((idle.closed(), fresh.closed()), (Closed::Fin, Closed::Fin));
        assert!(told.elapsed() < ms(1500), "{signal}: {:?}", told.elapsed());
        for client in waiting.iter_mut().chain(&mut running[..1]) {
            let reply = client.reply();
            let expected = (Some((200, 2)), Some("close"));
            assert_eq!(
                (reply.whole(), reply.field("connection")),
                expected,
                "{signal} {:?}: {reply:?}",
                told.elapsed()
            );
            assert_eq!(client.closed(), Closed::Fin);
        }
        running[1].sees("data: 2\n\n\r\n0\r\n\r\n");
        let (status, _) = proxy.wait();
        assert!(status.code() == Some(0) && told.elapsed() < ms(9000), "{signal}: {status} {:?}", told.elapsed());
        assert_eq!(proxy.logged("WARN"), [""; 0]);
        let said = &proxy.logged("INFO")[START_LINES..];
        // Those of the question whether it still listens may be among them.
        let (first, rest) = said[0].strip_prefix("draining: ").unwrap().split_once(' ').unwrap();
        assert!(first.parse::<usize>().unwrap() >= 8, "{said:?}");
        assert_eq!((rest, &said[1..]), ("connections open; a second signal ends at once", &["drained".to_owned()][..]));
    }
}

/// The kernel takes connections and bytes for a proxy that has not come to look at them. What came before the signal has begun.
#[test]
fn requests_that_came_before_the_signal_and_were_not_looked_at_are_served() {
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    // Several times, since it is chance whether the signal or the connections are looked at first.
    for _ in 0..10 {
        let mut proxy = Serve::start(&upstream.url(), &["--rate unlimited", "--workers 2"]);
        let mut clients: Vec<_> = (0..5).map(|_| proxy.connect()).collect();
        clients.iter_mut().for_each(|client| assert_eq!(client.get("/kept").status(), 200));
        proxy.program.signal("STOP");
        clients.extend((0..20).map(|_| proxy.connect()));
        clients.iter_mut().for_each(|client| client.send(request("GET", "/last", "")));
        proxy.program.signal("TERM");
        proxy.program.signal("CONT");
        for (number, client) in clients.iter_mut().enumerate() {
            let reply = client.try_reply().unwrap_or_else(|| panic!("connection {number} was closed"));
            assert_eq!((reply.whole(), client.closed()), (Some((200, 2)), Closed::Fin), "{number}");
        }
        assert_eq!(proxy.wait().0.code(), Some(0));
    }
}

#[test]
fn without_anything_to_finish_it_ends_at_once() {
    for signal in ["TERM", "INT"] {
        let mut proxy = Serve::start("http://127.0.0.1:1", &[]);
        let told = Instant::now();
        proxy.program.signal(signal);
        let (status, _) = proxy.wait();
        assert!(status.code() == Some(0) && told.elapsed() < ms(1000), "{signal}: {status} {:?}", told.elapsed());
    }
}

/// A request that never ends, on a proxy with these flags.
fn endless(upstream: &Scripted, flags: &[&str]) -> (Serve, crate::serve::wire::Client) {
    let proxy = Serve::start(&upstream.url(), &[&["--rate unlimited"][..], flags].concat());
    let mut client = proxy.connect();
    client.send(request("GET", "/x", ""));
    client.sees("data: 1\n\n\r\n");
    (proxy, client)
}

fn one_event() -> Scripted {
    Scripted::start(|_| Answer::events().event("1").hang())
}

#[test]
fn what_does_not_finish_in_time_is_cut_off() {
    let upstream = one_event();
    let (mut proxy, mut client) = endless(&upstream, &["--drain 700ms"]);
    let told = Instant::now();
    proxy.program.signal("TERM");
    // Not whole: the last chunk never comes.
    assert!(matches!(client.closed(), Closed::Fin | Closed::Reset));
    let (status, lines) = proxy.wait();
    assert!((ms(700)..ms(1700)).contains(&told.elapsed()), "{:?}", told.elapsed());
    assert_eq!(status.code(), Some(0));
    let last = "WARN the time for draining (--drain) is over; cut off: 1 connection";
    assert!(lines.last().unwrap().ends_with(last), "{lines:?}");
}

/// Its end would be the answer's, so it must not be an orderly one.
#[test]
fn what_is_cut_off_for_http_1_0_is_reset() {
    let upstream = one_event();
    let proxy = Serve::start(&upstream.url(), &["--rate unlimited", "--drain 100ms"]);
    let mut client = proxy.connect();
    client.send("GET /x HTTP/1.0\r\n\r\n");
    client.sees("data: 1\n\n");
    proxy.program.signal("TERM");
    assert_eq!(client.closed(), Closed::Reset);
}

#[test]
fn a_second_signal_ends_at_once() {
    for (first, second) in [("TERM", "TERM"), ("INT", "INT"), ("TERM", "INT")] {
        let upstream = one_event();
        let (mut proxy, mut client) = endless(&upstream, &["--drain 30s"]);
        proxy.program.signal(first);
        refuses(&proxy);
        assert!(client.is_silent(ms(300)), "{first} {second}");
        let told = Instant::now();
        proxy.program.signal(second);
        let (status, lines) = proxy.wait();
        assert!(told.elapsed() < ms(1000), "{first} {second}: {:?}", told.elapsed());
        assert_eq!(status.code(), Some(0), "{first} {second}");
        assert!(lines.last().unwrap().ends_with("WARN second signal; cut off: 1 connection"), "{lines:?}");
        assert!(matches!(client.closed(), Closed::Fin | Closed::Reset));
    }
}

#[test]
fn every_request_that_is_cut_off_is_a_line_in_the_access_log() {
    let upstream = one_event();
    let flags = ["--drain 300ms", "--access-log on", "--max-in-flight 1", "--workers 1"];
    let (mut proxy, mut client) = endless(&upstream, &flags);
    let mut waiting = proxy.connect();
    waiting.send(request("GET", "/y", ""));
    proxy.await_waiting(1);
    proxy.program.signal("TERM");
    assert!(matches!((client.closed(), waiting.closed()), (Closed::Fin | Closed::Reset, Closed::Fin | Closed::Reset)));
    let (status, lines) = proxy.wait();
    assert_eq!(status.code(), Some(0));
    assert!(lines.iter().any(|line| line.ends_with("is over; cut off: 2 connections")), "{lines:?}");
    for (begin, end) in [
        (["INFO 200 ", " GET  /x "], "; cut off"),
        (["INFO --- ", " GET  /y ended before an answer"], " upstream 0.0 ms"),
    ] {
        let is_told = |line: &&String| begin.iter().all(|part| line.contains(part)) && line.ends_with(end);
        assert_eq!(lines.iter().filter(is_told).count(), 1, "{begin:?}: {lines:?}");
    }
}

/// The upstream here is a process: another proxy, in front of a stream.
#[test]
fn an_upstream_that_is_killed_in_the_middle_of_its_answer_leaves_a_broken_one() {
    let upstream = Scripted::start(|request| match &*request.target {
        "/chunks" => Answer::events().event("1").hang(),
        _ => Answer::status(200).header("Content-Length", "1000").body("data: 1\n\n").hang(),
    });
    for target in ["/chunks", "/length"] {
        let mut middle = Serve::start(&upstream.url(), &["--rate unlimited"]);
        let proxy = Serve::start(&format!("http://{}", middle.address), &["--rate unlimited", "--backoff-base 10ms"]);
        let mut client = proxy.connect();
        client.send(request("GET", target, ""));
        upstream.await_target(target);
        proxy.await_in_flight(1);
        thread::sleep(ms(50));
        let killed = Instant::now();
        middle.program.signal("KILL");
        middle.wait();
        let reply = client.reply();
        assert!(killed.elapsed() < ms(1000), "{target}: {:?}", killed.elapsed());
        assert_eq!((reply.status(), reply.end, reply.text()), (200, End::Cut, "data: 1\n\n"), "{target}");
        assert_eq!(upstream.deliveries(target), 1);
        assert_eq!(proxy.metric("sopan_cut_off_total{upstream=\"default\"}"), 1.0);
        assert!(proxy.await_rest() < ms(1000));
    }
}
