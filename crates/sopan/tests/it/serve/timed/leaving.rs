//! Clients that leave take all that stands behind them along, however they leave and wherever their request is.

use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use sopan_fake::script::{Answer, Request};

use super::ms;
use crate::serve::door::{Scripted, Serve};
use crate::serve::wire::{Client, Leave, post, request};
use crate::support::until;

const WAYS: [Leave; 3] = [Leave::Close, Leave::Reset, Leave::HalfClose];

/// A client whose request is somewhere.
struct Stage {
    name: &'static str,
    send: fn(&mut Client, &str),
    /// Waits until the request is where it should be.
    reach: fn(&mut Client),
}

fn anything(_: &mut Client) {}

/// Where a request can be when it has reached the upstream.
const UPSTREAM: [Stage; 6] = [
    Stage { name: "head", send: |client, target| client.send(request("GET", target, "")), reach: anything },
    Stage { name: "head-after-upload", send: |client, target| client.send(post(target, "{}")), reach: anything },
    Stage {
        name: "head-pipelined",
        send: |client, target| client.send(request("GET", target, "") + &request("GET", "/behind", "")),
        reach: anything,
    },
    Stage {
        name: "stream",
        send: |client, target| client.send(request("GET", target, "")),
        reach: |client| _ = client.sees("data: 3\n"),
    },
    Stage {
        name: "upload",
        send: |client, target| client.send(request("POST", target, "Content-Length: 1000\r\n") + "half"),
        reach: anything,
    },
    Stage {
        name: "upload-in-chunks",
        send: |client, target| client.send(request("PUT", target, "Transfer-Encoding: chunked\r\n") + "4\r\nhalf\r\n"),
        reach: anything,
    },
];

fn slow(request: &Request) -> Answer {
    if request.target.starts_with("/stream") {
        return (1..500).fold(Answer::events(), |events, n| events.event(&n.to_string()).sleep(ms(20))).end();
    }
    Answer::json(200, "{}").after(ms(20_000))
}

// px-9, runs 1, 2 and 4
#[test]
fn the_upstream_sees_its_connection_closed_within_a_second_and_nothing_follows() {
    let upstream = Scripted::start(slow);
    let proxy = Serve::start(&upstream.url(), &["--rate unlimited", "--backoff-base 10ms"]);
    thread::scope(|threads| {
        for stage in &UPSTREAM {
            for way in WAYS {
                let (upstream, proxy) = (&upstream, &proxy);
                threads.spawn(move || {
                    let target = format!("/{}/{way:?}", stage.name);
                    let mut client = proxy.connect();
                    (stage.send)(&mut client, &target);
                    let connection = upstream.await_target(&target).connection;
                    (stage.reach)(&mut client);
                    let left = Instant::now();
                    let _half = client.leave(way);
                    let gone = upstream.run(upstream.peer_gone(connection)).at.into_std();
                    // The instant before may have seen it leave; the one after must.
                    let took = gone.saturating_duration_since(left);
                    assert!(took < ms(1000), "{target}: {took:?}");
                });
            }
        }
    });
    assert!(proxy.await_rest() < ms(1000));
    thread::sleep(ms(500));
    assert_eq!(upstream.arrivals(), UPSTREAM.len() * WAYS.len());
    assert_eq!(proxy.logged("WARN"), [""; 0]);
}

/// Of a body that is longer than what is kept nothing is read ahead. No more of it is sent than a socket takes, or the end of
/// the connection would stay with the client, behind what nobody takes.
fn send_unread(client: &mut Client, target: &str) {
    client.send(request("POST", target, "Content-Length: 100000000\r\n"));
    client.send([b'x'; 48 * 1024]);
}

/// A body that turns out to be longer than what is kept is read ahead up to that.
fn send_much(client: &mut Client, target: &str) {
    client.send(request("POST", target, "Transfer-Encoding: chunked\r\n") + "1000000\r\n");
    client.send([b'x'; 100 * 1024]);
}

/// Where a request can be while it waits for its turn.
const QUEUE: [Stage; 8] = [
    Stage { name: "get", send: |client, target| client.send(request("GET", target, "")), reach: anything },
    Stage { name: "post", send: |client, target| client.send(post(target, "{}")), reach: anything },
    Stage {
        name: "pipelined",
        send: |client, target| client.send(request("GET", target, "") + &request("GET", "/behind", "")),
        reach: anything,
    },
    Stage {
        name: "half-a-body",
        send: |client, target| client.send(request("POST", target, "Content-Length: 1000\r\n") + "half"),
        reach: anything,
    },
    Stage {
        name: "half-a-chunk",
        send: |client, target| client.send(request("PUT", target, "Transfer-Encoding: chunked\r\n") + "400\r\nhalf"),
        reach: anything,
    },
    Stage { name: "unread", send: send_unread, reach: anything },
    Stage { name: "much", send: send_much, reach: anything },
    Stage {
        name: "expecting",
        send: |client, target| {
            client.send(request("PUT", target, "Content-Length: 1000\r\nExpect: 100-continue\r\n"));
        },
        reach: anything,
    },
];

// px-9, run 3
#[test]
fn who_leaves_the_queue_never_arrives() {
    let upstream = Scripted::start(|request| match &*request.target {
        "/first" => Answer::json(200, "{}").after(ms(2500)),
        _ => Answer::json(200, "{}"),
    });
    let flags = ["--rate unlimited", "--max-in-flight 1", "--workers 2", "--replay-bytes-max 64KiB"];
    let proxy = Serve::start(&upstream.url(), &flags);
    let mut first = proxy.connect();
    first.send(request("GET", "/first", ""));
    upstream.await_target("/first");
    let clients: Vec<_> = thread::scope(|threads| {
        let sending: Vec<_> = QUEUE
            .iter()
            .flat_map(|stage| WAYS.map(|way| (stage, way)))
            .map(|(stage, way)| {
                let proxy = &proxy;
                threads.spawn(move || {
                    let mut client = proxy.connect();
                    (stage.send)(&mut client, &format!("/{}/{way:?}", stage.name));
                    (client, way)
                })
            })
            .collect();
        sending.into_iter().map(|sending| sending.join().unwrap()).collect()
    });
    proxy.await_waiting(clients.len());
    let left = Instant::now();
    let _halves: Vec<_> = clients.into_iter().map(|(client, way)| client.leave(way)).collect();
    proxy.await_waiting(0);
    assert!(left.elapsed() < ms(1000), "{:?}", left.elapsed());
    assert_eq!(proxy.metric("sopan_waiting_bytes{upstream=\"default\"}"), 0.0);
    assert_eq!(upstream.arrivals(), 1);
    // The place frees, and it is not for those who have left.
    assert_eq!(first.reply().status(), 200);
    assert_eq!(proxy.get("/last").status(), 200);
    thread::sleep(ms(300));
    let targets: Vec<_> = upstream.requests().into_iter().map(|request| request.target).collect();
    assert_eq!(targets, ["/first", "/last"]);
}

// rt-3
#[test]
fn nobody_asks_again_for_a_client_that_left_before_the_retry() {
    for (status, flags) in [(429, &["--rate unlimited"][..]), (500, &["--rate unlimited", "--backoff-base 1500ms"])] {
        let upstream = Scripted::start(move |request| match &*request.target {
            "/last" => Answer::json(200, "{}"),
            _ if status == 429 => Answer::json(429, "{}").header("Retry-After", "1"),
            _ => Answer::json(status, "{}"),
        });
        let proxy = Serve::start(&upstream.url(), flags);
        let mut clients: Vec<_> = WAYS.into_iter().map(|way| (proxy.connect(), way)).collect();
        for (client, way) in &mut clients {
            client.send(request("GET", &format!("/{way:?}"), ""));
        }
        // With a hold, whoever comes after the first answer waits for its end and has not been sent.
        proxy.await_logged("WARN", if status == 429 { 1 } else { clients.len() });
        thread::sleep(ms(100));
        let arrived = upstream.arrivals();
        let _halves: Vec<_> = clients.into_iter().map(|(client, way)| client.leave(way)).collect();
        assert!(proxy.await_rest() < ms(1000));
        thread::sleep(ms(2500));
        assert_eq!(upstream.arrivals(), arrived, "{status}");
        assert_eq!(proxy.get("/last").status(), 200);
    }
}

/// An upstream that takes a request's head and reads no further until it is told.
fn deaf() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

/// Whether the connection ends, after whatever was sent on it.
fn ends(mut socket: TcpStream) -> bool {
    socket.set_read_timeout(Some(ms(200))).unwrap();
    let mut piece = vec![0; 64 * 1024];
    loop {
        match socket.read(&mut piece) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

/// Every pipe is full, so that only a broken connection can be noticed: an ordinary end waits behind what is unread.
#[test]
fn an_upload_that_is_stuck_ends_when_its_client_breaks_off() {
    let (listener, url) = deaf();
    let proxy = Serve::start(&url, &["--rate unlimited"]);
    let mut client = proxy.connect();
    client.send(request("POST", "/x", "Content-Length: 1000000000\r\n"));
    assert!(client.fill(&[b'x'; 64 * 1024]) > 256 * 1024);
    let (socket, _) = listener.accept().unwrap();
    proxy.await_in_flight(1);
    let left = Instant::now();
    client.leave(Leave::Reset);
    proxy.await_in_flight(0);
    assert!(left.elapsed() < ms(1000), "{:?}", left.elapsed());
    assert!(ends(socket));
}

#[test]
fn a_download_that_its_client_does_not_read_ends_with_it() {
    let upstream = Scripted::start(|_| Answer::status(200).body(vec![b'x'; 64 * 1024 * 1024]));
    let proxy = Serve::start(&upstream.url(), &["--rate unlimited"]);
    for way in WAYS {
        let mut client = proxy.connect();
        client.send(request("GET", "/x", ""));
        client.sees("200 OK");
        proxy.await_in_flight(1);
        // Both ways are full by now.
        thread::sleep(ms(300));
        let left = Instant::now();
        let _half = client.leave(way);
        proxy.await_in_flight(0);
        assert!(left.elapsed() < ms(1000), "{way:?}: {:?}", left.elapsed());
    }
    // The upstream has noticed too: whoever only fills a pipe would stay.
    until(|| upstream.connections().iter().all(|connection| connection.ended_at.is_some()).then_some(()));
    assert_eq!(upstream.arrivals(), WAYS.len());
}
