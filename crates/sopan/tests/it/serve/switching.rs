//! Other protocols: a tunnel once both sides have agreed, and not a byte before (RFC 9110 §7.8).

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::door::{Serve, UNLIMITED};
use super::wire::{Client, Closed, Leave, request};
use crate::support::PATIENCE;

const WEBSOCKET: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\n";

/// An upstream for one connection, with a socket in hand; what it does is up to the test.
struct Peer {
    proxy: Serve,
    accepted: mpsc::Receiver<TcpStream>,
}

impl Peer {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(flags: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let proxy = Serve::start(&url, &[UNLIMITED, flags].concat());
        let (sender, accepted) = mpsc::channel();
        thread::spawn(move || {
            while let Ok((socket, _)) = listener.accept() {
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                if sender.send(socket).is_err() {
                    return;
                }
            }
        });
        Self { proxy, accepted }
    }

    /// The upstream's next connection, and the head that it got on it.
    fn accept(&self) -> (TcpStream, String) {
        let mut socket = self.accepted.recv_timeout(PATIENCE).unwrap();
        let head = head(&mut socket);
        (socket, head)
    }
}

fn head(socket: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

fn read(socket: &mut TcpStream, length: usize) -> String {
    let mut bytes = vec![0; length];
    socket.read_exact(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

const SWITCHING: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Key: 1\r\n\r\n";

#[test]
fn after_101_bytes_flow_both_ways_and_each_side_ends_for_itself() {
    let peer = Peer::start();
    let mut client = peer.proxy.connect();
    // What a client sends before it has seen the 101 is for the other protocol, if it comes to that.
    client.send(request("GET", "/chat", WEBSOCKET) + "early");
    let (mut upstream, head) = peer.accept();
    assert!(head.starts_with("GET /chat HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("connection: upgrade\r\nupgrade: websocket\r\n"), "{head}");
    upstream.write_all(&[SWITCHING, b"hello"].concat()).unwrap();
    let reply = client.reply_without_body();
    assert_eq!(
        (reply.status(), reply.field("upgrade"), reply.field("connection")),
        (101, Some("websocket"), Some("upgrade"))
    );
    assert_eq!((reply.field("x-key"), reply.field("content-length")), (Some("1"), None));
    client.sees("hello");
    assert_eq!(read(&mut upstream, 5), "early");
    // A handshake is an exchange, and a tunnel holds no place.
    peer.proxy.await_rest();
    for number in 0..100 {
        let text = format!("{number:05}");
        client.send(&text);
        assert_eq!(read(&mut upstream, 5), text);
        upstream.write_all(text.as_bytes()).unwrap();
        client.sees(&text);
    }
    // The client has no more to say, and still listens.
    let socket = client.leave(Leave::HalfClose).unwrap();
    let mut rest = Vec::new();
    upstream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"");
    upstream.write_all(b"to the end").unwrap();
    upstream.shutdown(Shutdown::Write).unwrap();
    let mut client = Client::over(socket);
    client.sees("to the end");
    client.closed();
}

/// A tunnel that is open, and both its ends.
fn opened(peer: &Peer) -> (Client, TcpStream) {
    let mut client = peer.proxy.connect();
    client.send(request("GET", "/chat", WEBSOCKET));
    let (mut upstream, _) = peer.accept();
    upstream.write_all(SWITCHING).unwrap();
    assert_eq!(client.reply_without_body().status(), 101);
    (client, upstream)
}

#[test]
fn a_side_that_breaks_off_does_not_look_as_if_it_had_closed() {
    let peer = Peer::start();
    let (mut client, upstream) = opened(&peer);
    rustix::net::sockopt::set_socket_linger(&upstream, Some(std::time::Duration::ZERO)).unwrap();
    drop(upstream);
    assert_eq!(client.closed(), Closed::Reset);
    let (client, mut upstream) = opened(&peer);
    client.leave(Leave::Reset);
    assert_eq!(upstream.read(&mut [0; 9]).map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
}

#[test]
fn what_was_said_before_the_end_is_heard_also_by_one_who_keeps_talking() {
    // No more than the kernels hold on the way: what the upstream's has not sent when the next byte comes, it forgets.
    const LAST: usize = 50_000;
    let peer = Peer::start();
    let (mut client, mut upstream) = opened(&peer);
    upstream.write_all(&vec![b'z'; LAST]).unwrap();
    // It reads nothing any more, so what the client says from here on is refused.
    drop(upstream);
    let mut read = 0;
    while read < LAST {
        client.try_send("p");
        let length = client.some(4096).len();
        assert!(length > 0, "it ended after {read} bytes");
        read += length;
    }
}

#[test]
fn a_tunnel_whose_client_has_left_ends() {
    let peer = Peer::start();
    let (client, mut upstream) = opened(&peer);
    client.leave(Leave::Close);
    let begun = Instant::now();
    // The kernel takes a little before it hears that nobody reads.
    while upstream.write_all(b"tick").is_ok() {
        assert!(begun.elapsed() < PATIENCE, "it still listens");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_tunnel_that_the_drain_ends_is_reset_on_both_sides() {
    let peer = Peer::start_with(&["--drain 100ms"]);
    let (mut client, mut upstream) = opened(&peer);
    peer.proxy.program.signal("TERM");
    assert_eq!(client.closed(), Closed::Reset);
    assert_eq!(upstream.read(&mut [0; 9]).map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
}

#[test]
fn without_101_it_is_an_answer_like_any_other() {
    let peer = Peer::start();
    let mut client = peer.proxy.connect();
    client.send(request("GET", "/chat", WEBSOCKET));
    let (mut upstream, _) = peer.accept();
    upstream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno").unwrap();
    assert_eq!(client.reply().whole(), Some((200, 2)));
    client.send(request("GET", "/next", ""));
    assert!(head(&mut upstream).starts_with("GET /next "));
    upstream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext").unwrap();
    assert_eq!(client.reply().text(), "next");
}

#[test]
fn what_nobody_asked_for_opens_no_tunnel() {
    for (fields, offered) in [
        ("", None),
        ("Upgrade: websocket\r\n", None),
        ("Connection: upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n", None),
        ("Connection: upgrade\r\nUpgrade: h2c, other\r\n", Some("upgrade: other\r\n")),
        // A body would have to be sent whole first.
        ("Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n", None),
    ] {
        let peer = Peer::start();
        let mut client = peer.proxy.connect();
        client.send(request("POST", "/chat", fields) + if fields.contains("Length") { "x" } else { "" });
        let (mut upstream, head) = peer.accept();
        assert_eq!(head.contains("upgrade"), offered.is_some(), "{head}");
        assert!(offered.is_none_or(|line| head.contains(line)) && !head.contains("http2-settings"), "{head}");
        upstream.write_all(SWITCHING).unwrap();
        let reply = client.reply();
        let status = reply.field("proxy-status");
        assert_eq!((reply.status(), status), (502, Some("sopan; error=http_protocol_error")), "{fields}");
    }
}

#[test]
fn http_1_0_switches_nothing() {
    let peer = Peer::start();
    let mut client = peer.proxy.connect();
    client.send(format!("GET /chat HTTP/1.0\r\n{WEBSOCKET}\r\n"));
    let (mut upstream, head) = peer.accept();
    assert!(!head.contains("upgrade"), "{head}");
    upstream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    assert_eq!(client.reply().status(), 204);
}

#[test]
fn a_write_that_offers_another_protocol_is_a_write_all_the_same() {
    let peer = Peer::start();
    let mut client = peer.proxy.connect();
    let mut ask = |method: &str, fields: &str, answer: &str| {
        client.send(request(method, "/x", fields));
        let (mut upstream, _) = peer.accept();
        upstream.write_all(format!("HTTP/1.1 {answer}\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
        let reply = client.reply_without_body();
        (reply.status(), reply.field("cache-status").map(|told| told.contains("fwd=uri-miss")))
    };
    let stored = "204 No Content\r\nCache-Control: max-age=60";
    assert_eq!(ask("GET", "", stored), (204, Some(true)));
    assert_eq!(ask("DELETE", WEBSOCKET, "204 No Content"), (204, Some(false)));
    assert_eq!(ask("GET", "", stored), (204, Some(true)));
    // One that is taken up is no answer to be stored.
    client.send(request("DELETE", "/x", WEBSOCKET));
    let (mut upstream, _) = peer.accept();
    upstream.write_all(SWITCHING).unwrap();
    assert_eq!(client.reply_without_body().status(), 101);
    upstream.write_all(b"hello").unwrap();
    client.sees("hello");
}
