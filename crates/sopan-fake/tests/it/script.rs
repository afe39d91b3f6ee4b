//! Scripted upstreams in process, with the clock paused.

use std::time::Duration;

use sopan_fake::script::{Answer, Farewell, Gone, Upstream};
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep, timeout};

use crate::client::Client;

const SECOND: Duration = Duration::from_secs(1);
const GET: &str = "GET /a HTTP/1.1\r\nHost: u\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn answers_follow_the_script_and_gaps_are_measured() {
    let upstream = Upstream::in_process(|request| match request.number {
        1 => Answer::status(429).header("Retry-After", "3").after(SECOND),
        _ => Answer::json(200, "{}"),
    });
    let mut client = Client::new(upstream.connect());
    assert_eq!(client.ask(GET).await.status, 429);
    sleep(3 * SECOND).await;
    let mut other = Client::new(upstream.connect());
    assert_eq!(other.ask(GET).await.body, "{}");
    assert_eq!(client.ask(GET).await.status, 200);
    assert_eq!((upstream.arrivals(), upstream.gap(1), upstream.gap(2)), (3, 3 * SECOND, Duration::ZERO));
    let connections: Vec<_> = upstream.requests().iter().map(|request| request.connection).collect();
    assert_eq!(connections, [1, 2, 1]);
    assert_eq!(upstream.unclean(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn head_and_body_are_recorded_raw_and_decoded() {
    let upstream = Upstream::in_process(|_| Answer::json(200, "{}"));
    let mut client = Client::new(upstream.connect());
    let head = "PUT /x?y HTTP/1.1\r\nhOst: u\r\nA: 1\r\na: 2\r\nTransfer-Encoding: chunked\r\n\r\n";
    let body = "3\r\nabc\r\n2;x=1\r\nde\r\n0\r\nSum: 9\r\n\r\n";
    let start = Instant::now();
    client.send(&head[..9]).await;
    sleep(SECOND).await;
    client.send(&head[9..]).await;
    sleep(SECOND).await;
    client.send(&body[..4]).await;
    sleep(SECOND).await;
    assert_eq!(client.ask(&body[4..]).await.status, 200);
    let request = upstream.request(1);
    assert_eq!(
        (request.method.as_str(), request.target.as_str(), request.version.as_str()),
        ("PUT", "/x?y", "HTTP/1.1")
    );
    assert_eq!((request.head.as_ref(), request.raw_body.as_slice()), (head.as_bytes(), body.as_bytes()));
    assert_eq!(
        (request.body.as_slice(), request.trailers.as_slice()),
        (&b"abcde"[..], &[("Sum".into(), "9".into())][..])
    );
    assert_eq!((request.field("host"), request.fields_named("a")), (Some("u"), vec!["1", "2"]));
    let times = [request.first_byte_at, request.head_at, request.body_at.unwrap(), request.answered_at.unwrap()];
    assert_eq!(times.map(|at| at - start), [Duration::ZERO, SECOND, 3 * SECOND, 3 * SECOND]);
    assert_eq!(upstream.unclean(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn bytes_and_pauses_come_as_written_and_every_write_is_stamped() {
    let upstream = Upstream::in_process(|_| Answer::events().sleep(SECOND).event("1").sleep(SECOND).end().close());
    let mut client = Client::new(upstream.connect());
    let start = Instant::now();
    client.send(GET).await;
    let (text, end) = client.rest().await;
    end.unwrap();
    assert!(text.ends_with("\r\n\r\n9\r\ndata: 1\n\n\r\n0\r\n\r\n"), "{text}");
    let sent: Vec<_> = upstream.request(1).sent.iter().map(|sent| (sent.at - start, sent.bytes)).collect();
    assert_eq!(sent[1..], [(SECOND, 14), (2 * SECOND, 5)]);
    assert_eq!((sent[0].0, upstream.request(1).finished_at()), (Duration::ZERO, Some(start + 2 * SECOND)));
}

#[tokio::test(start_paused = true)]
async fn what_is_malformed_is_recorded_and_answered_all_the_same() {
    for (sent, reason) in [
        ("GET / HTTP/1.1\nHost: u\r\n\r\n", "request 1: a line that ends in a bare LF"),
        ("GET / HTTP/1.1\r\nHost: u\r\nA: b\r\n c\r\n\r\n", "request 1: a folded field line: \" c\""),
        (
            "POST / HTTP/1.1\r\nHost: u\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "request 1: both Content-Length and Transfer-Encoding",
        ),
        (
            "POST / HTTP/1.1\r\nHost: u\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "request 1: a bad chunk size: \"zz\"",
        ),
    ] {
        let upstream = Upstream::in_process(|_| Answer::json(200, "{}"));
        assert_eq!(Client::new(upstream.connect()).ask(sent).await.status, 200, "{sent:?}");
        assert_eq!(upstream.unclean(), [reason]);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_follows_a_body_whose_end_nobody_knows() {
    let upstream = Upstream::in_process(|_| Answer::json(200, "{}"));
    let mut client = Client::new(upstream.connect());
    client.send("POST / HTTP/1.1\r\nHost: u\r\nContent-Length: 1, 1\r\n\r\nxGET /smuggled HTTP/1.1\r\n\r\n").await;
    assert!(client.rest().await.0.ends_with("{}"));
    assert_eq!(upstream.arrivals(), 1);
}

#[tokio::test(start_paused = true)]
async fn half_a_head_is_no_arrival_but_is_kept() {
    let upstream = Upstream::in_process(|_| Answer::nothing());
    let mut client = Client::new(upstream.connect());
    client.send("GET / HT").await;
    drop(client);
    upstream.peer_gone(1).await;
    assert_eq!(
        (upstream.arrivals(), upstream.unclean()),
        (0, vec!["connection 1: a head that did not end in 8 bytes".to_owned(),])
    );
    assert_eq!(upstream.connections()[0].leftover, "GET / HT");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_goes_is_noticed_whatever_the_upstream_does() {
    let chunked = "POST / HTTP/1.1\r\nHost: u\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (what, answer, sent) in [
        ("idle", Answer::json(200, "{}"), GET),
        ("sleeping", Answer::json(200, "{}").after(60 * SECOND), GET),
        ("sleeping in a stream", Answer::events().event("1").sleep(60 * SECOND).end(), GET),
        ("hanging", Answer::nothing().hang(), GET),
        ("hanging with a body unread", Answer::nothing().early().hang(), chunked),
        ("reading a body", Answer::json(200, "{}"), chunked),
        ("waiting for a head", Answer::nothing(), "GET"),
    ] {
        let upstream = Upstream::in_process(move |_| answer.clone());
        let mut client = Client::new(upstream.connect());
        let start = Instant::now();
        client.send(sent).await;
        sleep(3 * SECOND).await;
        drop(client);
        let gone = timeout(SECOND, upstream.peer_gone(1)).await.unwrap_or_else(|_| panic!("not noticed while {what}"));
        assert_eq!(gone, Gone { at: start + 3 * SECOND, how: Farewell::Closed }, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_goes_while_it_is_sent_to_counts_as_reset() {
    let upstream = Upstream::in_process(|_| Answer::status(200).body(vec![b'x'; 1024 * 1024]));
    let mut client = Client::new(upstream.connect());
    client.send(GET).await;
    sleep(SECOND).await;
    drop(client);
    assert_eq!(upstream.peer_gone(1).await.how, Farewell::Reset);
    assert_eq!(upstream.answered(1).await.sent, []);
}

#[tokio::test(start_paused = true)]
async fn an_early_answer_leaves_the_body_on_the_wire_until_it_is_read() {
    let upstream = Upstream::in_process(|request| match request.number {
        1 => Answer::nothing()
            .early()
            .sleep(SECOND)
            .read_bytes(3)
            .sleep(SECOND)
            .read_body()
            .send("HTTP/1.1 204 x\r\n\r\n"),
        _ => Answer::json(200, "{}"),
    });
    let mut client = Client::new(upstream.connect());
    client.send("PUT / HTTP/1.1\r\nHost: u\r\nContent-Length: 8\r\n\r\n").await;
    sleep(Duration::from_millis(500)).await;
    client.send("1234").await;
    sleep(Duration::from_millis(100)).await;
    assert_eq!(upstream.request(1).raw_body, b"");
    sleep(SECOND).await;
    assert_eq!(upstream.request(1).raw_body, b"1234");
    client.send("5678").await;
    assert_eq!(client.answer(false).await.unwrap().status, 204);
    assert_eq!(upstream.request(1).body, b"12345678");
    assert_eq!(client.ask(GET).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn an_unread_body_holds_its_sender_back() {
    let upstream = Upstream::in_process(|_| Answer::json(200, "{}").early().after(10 * SECOND));
    let mut client = Client::new(upstream.connect());
    client.send("PUT / HTTP/1.1\r\nHost: u\r\nContent-Length: 100000\r\n\r\n").await;
    sleep(SECOND).await;
    let body = "x".repeat(100_000);
    assert!(timeout(8 * SECOND, client.send(&body)).await.is_err(), "the whole body was taken");
}

#[tokio::test(start_paused = true)]
async fn a_body_refused_early_is_still_read_before_the_next_request() {
    let upstream = Upstream::in_process(|request| match request.number {
        1 => Answer::status(413).early(),
        _ => Answer::json(200, "{}"),
    });
    let mut client = Client::new(upstream.connect());
    assert_eq!(client.ask("PUT / HTTP/1.1\r\nHost: u\r\nContent-Length: 3\r\n\r\n").await.status, 413);
    assert_eq!(client.ask(&format!("abc{GET}")).await.status, 200);
    assert_eq!((upstream.request(1).body.as_slice(), upstream.request(2).target.as_str()), (&b"abc"[..], "/a"));
}

#[tokio::test(start_paused = true)]
async fn continue_is_sent_when_the_script_says_so() {
    let upstream = Upstream::in_process(|_| {
        let go_on = Answer::status(100).early().after(SECOND);
        go_on.then(Answer::json(200, "{}"))
    });
    let mut client = Client::new(upstream.connect());
    let start = Instant::now();
    let head = "PUT / HTTP/1.1\r\nHost: u\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    assert_eq!((client.ask(head).await.status, start.elapsed()), (100, SECOND));
    assert_eq!(client.ask("ok").await.status, 200);
    assert_eq!(upstream.request(1).body, b"ok");
}

#[tokio::test(start_paused = true)]
async fn the_connection_ends_when_either_side_says_so() {
    for (answer, request) in [
        (Answer::json(200, "{}"), "GET / HTTP/1.0\r\n\r\n"),
        (Answer::json(200, "{}"), "GET / HTTP/1.1\r\nHost: u\r\nConnection: x, Close\r\n\r\n"),
        (Answer::json(200, "{}").header("Connection", "close"), GET),
        (Answer::json(200, "{}").close(), GET),
        (Answer::json(200, "{}").reset(), GET),
    ] {
        let upstream = Upstream::in_process(move |_| answer.clone());
        let mut client = Client::new(upstream.connect());
        client.send(request).await;
        assert!(timeout(SECOND, client.rest()).await.unwrap().0.ends_with("{}"), "{request:?}");
        assert!(upstream.connections()[0].ended_at.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_half_closed_client_still_gets_its_answer() {
    let upstream = Upstream::in_process(|_| Answer::json(200, "{}").after(SECOND));
    let mut client = Client::new(upstream.connect());
    client.send(GET).await;
    client.io.shutdown().await.unwrap();
    assert_eq!(client.answer(true).await.unwrap().status, 200);
    assert_eq!(upstream.peer_gone(1).await.how, Farewell::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_test_can_wait_for_arrivals_and_answers() {
    let upstream = Upstream::in_process(|_| Answer::json(200, "{}").after(SECOND));
    let client = async {
        for _ in 0..3 {
            sleep(SECOND).await;
            Client::new(upstream.connect()).ask(GET).await;
        }
    };
    let start = Instant::now();
    let waiting = async {
        upstream.arrived(2).await;
        let arrived = start.elapsed();
        upstream.answered(2).await;
        (arrived, start.elapsed())
    };
    let (_, times) = tokio::join!(client, waiting);
    assert_eq!(times, (3 * SECOND, 4 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn pipelined_requests_are_told_apart() {
    let upstream = Upstream::in_process(|request| Answer::status(200).body(request.target.clone()));
    let mut client = Client::new(upstream.connect());
    client
        .send("GET /1 HTTP/1.1\r\nHost: u\r\n\r\nPOST /2 HTTP/1.1\r\nHost: u\r\nContent-Length: 1\r\n\r\nxGET /3")
        .await;
    client.send(" HTTP/1.1\r\nHost: u\r\n\r\n").await;
    for target in ["/1", "/2", "/3"] {
        assert_eq!(client.answer(true).await.unwrap().body, target);
    }
    assert_eq!(upstream.request(2).body, b"x");
}
