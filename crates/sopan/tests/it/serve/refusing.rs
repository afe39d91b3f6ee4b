//! What cannot be read as a request, and how that is told.

use std::thread;
use std::time::Duration;

use sopan_fake::script::Answer;

use super::door::{Scripted, Serve, UNLIMITED};
use super::wire::End;

/// Its client takes what follows the head of an answer for the next one.
#[test]
fn a_head_that_cannot_be_read_is_answered_without_a_body() {
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let proxy = Serve::start(&upstream.url(), UNLIMITED);
    for head in
        ["HEAD / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent_Length: 5\r\n\r\n", "HEAD / HTTP/1.1\nHost: 127.0.0.1\n\n"]
    {
        let mut client = proxy.connect();
        client.send(head);
        // Read as if it had the body whose length it tells.
        let reply = client.reply();
        assert_eq!((reply.status(), reply.end, &*reply.body), (400, End::Cut, &b""[..]), "{head:?}");
    }
    assert_eq!(upstream.arrivals(), 0);
}

#[test]
fn a_line_end_in_two_pieces_hides_no_fault_behind_it() {
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let proxy = Serve::start(&upstream.url(), UNLIMITED);
    for pieces in [&["\r\n\nGET / HTTP/1.1\r\n"][..], &["\r", "\n\nGET / HTTP/1.1\r\n"], &["\r", "\n", "\nGET"]] {
        let mut client = proxy.connect();
        for piece in pieces {
            client.send(piece);
            thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(client.reply().status(), 400, "{pieces:?}");
        client.closed();
    }
}
