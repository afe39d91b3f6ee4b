//! Bodies: read ahead, kept and sent again, streamed both ways, and broken where the other side's broke.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use sopan_engine::Settings;
use sopan_fake::script::{Answer, Request};
use tokio::task::JoinHandle;

use crate::support::door::Client;
use crate::support::lines::Line;
use crate::support::{Bench, TICK, get, is_within, ms, noise, now, s, settled};

const PUT_CHUNKED: &str = "PUT /x HTTP/1.1\r\nHost: sopan\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Refuses before it has read the body; asks to come again.
fn refused_early() -> Answer {
    Answer::json(503, "busy").header("Retry-After", "1").early()
}

/// Failing at first, then fine.
fn fails_first(request: &Request) -> Answer {
    if request.number == 1 { Answer::status(500) } else { Answer::json(200, "{}") }
}

fn one_a_second(settings: &mut Settings) {
    settings.lane.limits = vec!["1/s".parse().unwrap()];
}

fn put(length: usize) -> String {
    format!("PUT /x HTTP/1.1\r\nHost: sopan\r\nContent-Length: {length}\r\n\r\n")
}

fn refused_early_then_fine(request: &Request) -> Answer {
    if request.number == 1 { refused_early() } else { Answer::json(200, "{}") }
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_is_refused_early_is_sent_again_whole() {
    let bench = Bench::new(refused_early_then_fine, |_| {});
    let body = noise(300_000);
    let mut client = bench.door();
    client.send(PUT_CHUNKED).await;
    client.send_chunk(&body[..5_000]).await;
    settled().await;
    assert_eq!(bench.upstream.answered(1).await.number, 1);
    client.send_chunk(&body[5_000..]).await;
    client.send("0\r\n\r\n").await;
    assert_eq!(client.head().await.status(), 200);
    assert!(bench.upstream.request(2).body == body);
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn an_upload_of_single_bytes_is_sent_again_whole() {
    let bench = Bench::new(fails_first, |_| {});
    let body = noise(3_000);
    let mut client = bench.door();
    client.send(PUT_CHUNKED).await;
    for chunk in body[..2_900].chunks(1) {
        client.send_chunk(chunk).await;
    }
    settled().await;
    for chunk in body[2_900..].chunks(1) {
        client.send_chunk(chunk).await;
        settled().await;
    }
    client.send("0\r\n\r\n").await;
    assert_eq!(client.head().await.status(), 200);
    for number in [1, 2] {
        assert!(bench.upstream.request(number).body == body);
    }
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_outgrows_what_is_kept_while_its_refusal_is_read_is_not_sent_again_in_part() {
    let slow_refusal = |request: &Request| match request.number {
        1 => Answer::chunked(503).header("Retry-After", "1").early().chunk("busy").sleep(ms(500)).end(),
        _ => Answer::json(200, "{}"),
    };
    let bench = Bench::new(slow_refusal, |settings| settings.retry.replay_bytes_max = 10_000);
    let body = noise(30_000);
    let mut client = bench.door();
    client.send(PUT_CHUNKED).await;
    client.send_chunk(&body[..5_000]).await;
    tokio::time::sleep(ms(100)).await;
    for chunk in body[5_000..].chunks(5_000) {
        client.send_chunk(chunk).await;
        settled().await;
    }
    client.send("0\r\n\r\n").await;
    assert_eq!(client.head().await.status(), 503);
    assert_eq!(bench.upstream.arrivals(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_outgrows_what_is_kept_while_its_retry_waits_is_sent_whole() {
    let bench = Bench::new(refused_early_then_fine, |settings| settings.retry.replay_bytes_max = 10_000);
    let body = noise(30_000);
    let mut client = bench.door();
    client.send(PUT_CHUNKED).await;
    client.send_chunk(&body[..5_000]).await;
    bench.upstream.answered(1).await;
    for chunk in body[5_000..].chunks(4_000) {
        client.send_chunk(chunk).await;
        settled().await;
    }
    client.send("0\r\n\r\n").await;
    assert_eq!(client.head().await.status(), 200);
    assert!(bench.upstream.request(2).body == body);
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_was_refused_early_is_not_disturbed_by_what_became_of_its_first_connection() {
    // An idle connection lies on top of the one whose upload was never finished, so the second attempt takes that; it is
    // slow, and whoever comes meanwhile would find the other one.
    let script = |request: &Request| match (&*request.target, request.number) {
        ("/x", 2) => Answer::json(500, "oh").early(),
        ("/x", _) => Answer::nothing().early().sleep(s(1)).then(Answer::json(200, "{}")),
        ("/slow", _) => Answer::json(200, "{}").after(ms(500)),
        _ => Answer::json(200, "{}"),
    };
    let bench = Bench::new(script, |settings| {
        settings.retry.backoff_base = s(1);
        settings.retry.replay_bytes_max = 4_000_000;
    });
    let body = noise(2_000_000);
    let other = bench.spawn(get("/slow"));
    settled().await;
    let mut client = bench.door();
    let uploading = async {
        client.send(PUT_CHUNKED).await;
        client.send_chunk(&body).await;
        client.send("0\r\n\r\n").await;
        client.head().await.status()
    };
    let meanwhile = async {
        tokio::time::sleep(ms(1_200)).await;
        assert_eq!((other.await.unwrap().status(), bench.upstream.arrivals()), (200, 3));
        bench.get("/y").await.status()
    };
    assert_eq!(tokio::join!(uploading, meanwhile), (200, 200));
    let second = bench.upstream.request(3);
    assert!(second.body == body, "{} bytes of {}", second.body.len(), body.len());
}

#[tokio::test(start_paused = true)]
async fn a_body_is_read_while_its_request_waits() {
    let bench = Bench::new(|_| Answer::json(200, "{}"), one_a_second);
    bench.get("/first").await;
    let mut client = bench.door();
    client.send(put(10_000)).await;
    settled().await;
    let head = bench.snapshot().waiting_bytes;
    assert_eq!((bench.waiting(), head > 0), (1, true));
    client.send(noise(10_000)).await;
    settled().await;
    assert_eq!(bench.snapshot().waiting_bytes, head + 10_000);
    assert_eq!(client.head().await.status(), 200);
    let request = bench.upstream.request(2);
    assert!(request.body == noise(10_000));
    is_within(request.body_at.unwrap() - request.first_byte_at, Duration::ZERO, TICK);
    bench.is_at_rest();
}

/// Sends as much of a body as is taken, in the background; answers how much that was so far.
fn pour(mut client: Client, head: &str) -> (JoinHandle<()>, Arc<AtomicUsize>) {
    let (head, poured) = (head.to_owned(), Arc::<AtomicUsize>::default());
    let count = Arc::clone(&poured);
    let pouring = async move {
        client.send(head).await;
        for chunk in noise(10_000_000).chunks(4_000) {
            client.send_chunk(chunk).await;
            count.fetch_add(chunk.len(), Relaxed);
        }
    };
    (tokio::spawn(pouring), poured)
}

/// More than pipes and buffers hold on the way, much less than the whole.
const BUFFERED_MAX: usize = 1_500_000;

#[tokio::test(start_paused = true)]
async fn no_more_is_read_ahead_than_is_kept() {
    let bench = Bench::new(
        |_| Answer::json(200, "{}"),
        |settings| {
            one_a_second(settings);
            settings.retry.replay_bytes_max = 10_000;
        },
    );
    bench.get("/first").await;
    let (_pouring, poured) = pour(bench.door(), PUT_CHUNKED);
    settled().await;
    // Pieces are not taken apart, so the last one may go beyond.
    let waiting_bytes = bench.snapshot().waiting_bytes;
    assert!((10_000..14_200).contains(&waiting_bytes), "{waiting_bytes}");
    let poured = poured.load(Relaxed);
    assert!((10_000..BUFFERED_MAX).contains(&poured), "{poured}");
    // Of one that says that it is longer nothing is read.
    let mut client = bench.door();
    client.send(put(10_001)).await;
    client.send(noise(10_001)).await;
    settled().await;
    assert_eq!((bench.waiting(), bench.snapshot().waiting_bytes < waiting_bytes + 100), (2, true));
}

#[tokio::test(start_paused = true)]
async fn waiting_bodies_are_bounded_together_and_a_newcomer_needs_room_for_its_head() {
    let bench = Bench::new(
        |_| Answer::json(200, "{}"),
        |settings| {
            one_a_second(settings);
            settings.lane.queue_bytes_max = 20_000;
        },
    );
    bench.get("/first").await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        // There is room for a head until the bodies fill the queue.
        let mut client = bench.door();
        client.send(put(15_000)).await;
        settled().await;
        clients.push(client);
    }
    for client in &mut clients {
        client.send(noise(15_000)).await;
        settled().await;
    }
    let bytes = bench.snapshot().waiting_bytes;
    assert!((20_000..40_000).contains(&bytes), "{bytes}");
    let got = bench.get("/late").await;
    assert_eq!((got.status(), got.refused()), (503, "queue-full".to_owned()));
    assert_eq!(got.detail(), format!("queue full: waiting requests hold {bytes} bytes already (queue_bytes_max)"));
    assert!((1..=4).contains(&got.retry_after()));
    for client in &mut clients {
        assert_eq!(client.head().await.status(), 200);
    }
    assert!(bench.upstream.requests()[1..].iter().all(|request| request.body == noise(15_000)));
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_for_all_exchanges_together_is_bounded_and_given_back() {
    // The first two fail, and of those that follow every first attempt.
    let script = |request: &Request| match request.number {
        1 | 2 => Answer::status(500),
        n if n > 3 && n % 2 == 0 => Answer::status(500),
        _ => Answer::json(200, "{}"),
    };
    let bench = Bench::new(script, |settings| {
        settings.retry.replay_bytes_max = 50_000;
        settings.retry.replay_bytes_total = 60_000;
    });
    let mut clients = [bench.door(), bench.door()];
    for client in &mut clients {
        client.send(put(40_000)).await;
        client.send(noise(39_999)).await;
    }
    settled().await;
    let mut statuses = Vec::new();
    for client in &mut clients {
        client.send("x").await;
        statuses.push(client.head().await.status());
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 500]);
    settled().await;
    for _ in 0..3 {
        let mut client = bench.door();
        client.send(put(40_000)).await;
        client.send(noise(40_000)).await;
        assert_eq!(client.head().await.status(), 200);
    }
    assert_eq!(bench.upstream.arrivals(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_longer_body_streams_and_is_not_sent_again_after_its_first_byte() {
    for (length, kept) in [(10_000, true), (10_001, false), (100_000, false)] {
        for chunked in [false, true] {
            let bench = Bench::new(fails_first, |settings| settings.retry.replay_bytes_max = 10_000);
            let mut client = bench.door();
            client.send(if chunked { PUT_CHUNKED.to_owned() } else { put(length) }).await;
            if chunked {
                client.send_chunk(&noise(length)).await;
                client.send("0\r\n\r\n").await;
            } else {
                client.send(noise(length)).await;
            }
            let expected = if kept { (200, 2) } else { (500, 1) };
            let got = (client.head().await.status(), bench.upstream.arrivals());
            assert_eq!(got, expected, "{length} bytes, chunked: {chunked}");
            assert!(bench.upstream.requests().iter().all(|request| request.body == noise(length)));
            bench.is_at_rest();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_longer_body_is_sent_again_where_none_of_it_had_gone() {
    let plan = |number| if number == 1 { Line::Refused } else { Line::Open };
    let bench = Bench::over(plan, |_| Answer::json(200, "{}"), |settings| settings.retry.replay_bytes_max = 10_000);
    let mut client = bench.door();
    client.send(put(100_000)).await;
    client.send(noise(100_000)).await;
    assert_eq!((client.head().await.status(), bench.lines.dialled()), (200, 2));
    assert!(bench.upstream.request(1).body == noise(100_000));
}

#[tokio::test(start_paused = true)]
async fn an_upload_streams_as_fast_as_the_upstream_reads_and_no_faster() {
    let script = |_: &Request| Answer::json(200, "{}").early().read_bytes(5).sleep(s(20)).read_body();
    let bench = Bench::new(script, |settings| settings.retry.replay_bytes_max = 10_000);
    let mut client = bench.door();
    client.send(PUT_CHUNKED).await;
    client.send_chunk(b"hello").await;
    settled().await;
    assert_eq!(bench.upstream.request(1).body, b"hello");
    let bench = Bench::new(script, |settings| settings.retry.replay_bytes_max = 10_000);
    let (_pouring, poured) = pour(bench.door(), PUT_CHUNKED);
    settled().await;
    let stuck = poured.load(Relaxed);
    assert!((5..BUFFERED_MAX).contains(&stuck), "{stuck}");
    tokio::time::sleep(s(10)).await;
    assert_eq!(poured.load(Relaxed), stuck);
}

#[tokio::test(start_paused = true)]
async fn a_download_streams_as_fast_as_the_client_reads_and_no_faster() {
    let script = |_: &Request| {
        let chunks = (0..100).fold(Answer::chunked(200), |answer, i| answer.chunk(vec![b'a' + i % 26; 100_000]));
        chunks.end()
    };
    let bench = Bench::new(script, |_| {});
    let mut client = bench.door();
    client.send("GET /x HTTP/1.1\r\nHost: sopan\r\nConnection: close\r\n\r\n").await;
    settled().await;
    let sent = || bench.upstream.request(1).sent.len();
    let stuck = sent();
    assert!((1..15).contains(&stuck), "{stuck}");
    tokio::time::sleep(s(100)).await;
    assert_eq!((sent(), bench.in_flight()), (stuck, 1));
    let all = client.rest().await.unwrap();
    assert!(all.len() > 10_000_000 && all.ends_with(b"\r\n0\r\n\r\n"), "{}", all.len());
    settled().await;
    bench.is_at_rest();
}

/// What a client of one request sees until its connection ends, from the body on.
async fn seen_body(bench: &Bench, method: &str) -> (u16, String) {
    let mut client = bench.door();
    let framing = if method == "GET" { "" } else { "Content-Length: 0\r\n" };
    client.send(format!("{method} /x HTTP/1.1\r\nHost: sopan\r\nConnection: close\r\n{framing}\r\n")).await;
    let head = client.head().await;
    let rest = client.rest().await.unwrap_or_default();
    (head.status(), String::from_utf8(rest).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_truncated_answer_reaches_the_client_as_a_broken_transfer() {
    let length = || Answer::status(200).header("Content-Length", "100");
    for (answer, expected) in [
        (length().send("half").close(), "half"),
        (length().send("half").reset(), "half"),
        (length().close(), ""),
        (Answer::chunked(200).chunk("half").close(), "4\r\nhalf\r\n"),
        (Answer::chunked(200).chunk("half").reset(), "4\r\nhalf\r\n"),
        (Answer::chunked(200).send("8\r\nhalf").close(), "4\r\nhalf\r\n"),
        (Answer::chunked(200).chunk("half").send("x\r\n").hang(), "4\r\nhalf\r\n"),
    ] {
        let bench = Bench::new(move |_| answer.clone(), |_| {});
        // Shorter than its length, or without its last chunk.
        assert_eq!(seen_body(&bench, "GET").await, (200, expected.to_owned()));
        assert_eq!(bench.upstream.arrivals(), 1);
        let events = bench.seen.ended();
        assert_eq!((events.len(), events[0].whole), (1, false));
        bench.is_at_rest();
    }
    // The end of the connection is the end of this one.
    let bench = Bench::new(|_| Answer::raw("HTTP/1.1 200 OK\r\n\r\nwhole").close(), |_| {});
    assert_eq!(seen_body(&bench, "GET").await, (200, "5\r\nwhole\r\n0\r\n\r\n".to_owned()));
    assert!(bench.seen.ended()[0].whole);
}

// px-5
#[tokio::test(start_paused = true)]
async fn an_answer_to_head_has_the_length_of_what_it_stands_for_and_no_body() {
    let script = |request: &Request| match &*request.method {
        "HEAD" if request.target == "/fails" => Answer::status(500).header("Content-Length", "1234"),
        "HEAD" => Answer::status(200).header("Content-Length", "1234"),
        _ => Answer::status(200).body("body"),
    };
    let bench = Bench::new(script, |_| {});
    let mut client = bench.door();
    for (target, status) in [("/x", 200), ("/fails", 500)] {
        client.send(format!("HEAD {target} HTTP/1.1\r\nHost: sopan\r\n\r\n")).await;
        let head = client.head().await;
        assert_eq!((head.status(), head.field("content-length")), (status, Some("1234")));
        settled().await;
        assert_eq!(client.here(), b"");
    }
    is_within(now() - bench.begun, ms(600), ms(603));
    client.send("GET /x HTTP/1.1\r\nHost: sopan\r\n\r\n").await;
    assert_eq!(client.head().await.field("content-length"), Some("4"));
    assert_eq!(client.bytes(4).await, b"body");
    settled().await;
    // A body may follow such a head all the same, so each was the last on its connection.
    assert_eq!(bench.upstream.connections().len(), 5);
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_has_no_body_is_over_with_its_head() {
    for status in [204, 304] {
        let script = move |_: &Request| Answer::status(status).header("ETag", "\"1\"").header("Content-Length", "7");
        let bench = Bench::new(script, |settings| settings.lane.max_in_flight = Some(1));
        let mut client = bench.door();
        for _ in 0..2 {
            client.send("GET /x HTTP/1.1\r\nHost: sopan\r\n\r\n").await;
            assert_eq!(client.head().await.status(), status);
        }
        settled().await;
        // With a length there may be a body after all, so each was the last on its connection.
        assert_eq!((client.here(), bench.upstream.connections().len()), (Vec::new(), 2));
        bench.is_at_rest();
    }
}

// px-7
#[tokio::test(start_paused = true)]
async fn what_is_encoded_stays_as_it_is() {
    let gzip = [&[0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 0, 3][..], &noise(500)].concat();
    let body = gzip.clone();
    let script = move |request: &Request| {
        let status = if request.target == "/fails" { 500 } else { 200 };
        let encoded = request.field("accept-encoding").is_some();
        let answer = Answer::status(status).header("ETag", "\"v1\"");
        if encoded { answer.header("Content-Encoding", "gzip").body(body.clone()) } else { answer.body("plain") }
    };
    let bench = Bench::new(script, |_| {});
    for (target, status) in [("/x", 200), ("/fails", 500)] {
        let mut client = bench.door();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: sopan\r\nAccept-Encoding: gzip\r\n\r\n")).await;
        let head = client.head().await;
        let fields = ["content-encoding", "content-length", "etag"].map(|name| head.field(name));
        assert_eq!((head.status(), fields), (status, [Some("gzip"), Some("510"), Some("\"v1\"")]));
        assert!(client.bytes(510).await == gzip);
    }
    let got = bench.get("/x").await;
    assert_eq!((got.text(), got.field("content-encoding")), ("plain", None));
    let requests = bench.upstream.requests();
    assert_eq!(requests[0].field("accept-encoding"), Some("gzip"));
    assert_eq!(requests.last().unwrap().field("accept-encoding"), None);
}

// px-8
#[tokio::test(start_paused = true)]
async fn every_event_is_passed_on_as_it_comes() {
    for kind in ["text/event-stream", "application/json"] {
        let script = move |_: &Request| {
            let head = Answer::chunked(200).header("Content-Type", kind).sleep(s(2));
            (0..10).fold(head, |answer, i| answer.event(&format!("{i:032}")).sleep(ms(500))).end()
        };
        let bench = Bench::new(script, |_| {});
        let mut client = bench.door();
        client.send("GET /x HTTP/1.1\r\nHost: sopan\r\n\r\n").await;
        let head = client.head().await;
        assert_eq!((head.field("content-type"), now() - bench.begun), (Some(kind), Duration::ZERO));
        for i in 0..10 {
            let event = client.through(b"\n\n").await;
            assert!(event.ends_with(format!("data: {i:032}\n\n").as_bytes()));
            let sent = bench.upstream.request(1).sent[i + 1].at;
            is_within(now() - sent, Duration::ZERO, TICK);
        }
        client.through(b"0\r\n\r\n").await;
        settled().await;
        bench.is_at_rest();
    }
}

// ls-1
#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_is_broken_and_not_begun_anew() {
    let three = || Answer::events().event("1").event("2").event("3");
    let events = "9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n9\r\ndata: 3\n\n\r\n";
    for (answer, end) in [
        (three().reset(), ""),
        (three().close(), ""),
        (three().event("error").end(), "D\r\ndata: error\n\n\r\n0\r\n\r\n"),
        (three().end(), "0\r\n\r\n"),
    ] {
        for method in ["GET", "POST"] {
            let answer = answer.clone();
            let bench = Bench::new(move |_| answer.clone(), |_| {});
            assert_eq!(seen_body(&bench, method).await, (200, format!("{events}{end}")));
            tokio::time::sleep(s(60)).await;
            assert_eq!(bench.upstream.arrivals(), 1);
            bench.is_at_rest();
        }
    }
}

// ls-2
#[tokio::test(start_paused = true)]
async fn no_time_out_cuts_a_stream_that_flows() {
    let script = |_: &Request| {
        let head = Answer::nothing().sleep(ms(300));
        let events = (0..20).fold(Answer::events(), |answer, i| answer.event(&i.to_string()).sleep(ms(500)));
        head.then(events.end())
    };
    let bench = Bench::new(script, |settings| {
        (settings.retry.attempt_timeout, settings.retry.total_timeout) = (s(2), Some(s(3)));
        settings.idle_timeout = s(1);
    });
    let got = bench.get("/x").await;
    assert_eq!(got.text().matches("data: ").count(), 20);
    is_within(got.body_at, ms(10_300), ms(10_325));
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn silence_in_an_answer_breaks_it_off() {
    let script = |_: &Request| Answer::chunked(200).chunk("1").sleep(s(59)).chunk("2").hang();
    let bench = Bench::new(script, |_| {});
    let got = bench.get("/x").await;
    assert_eq!(got.text(), "the upstream fell silent in the middle of its answer");
    is_within(got.body_at, s(119), ms(119_002));
    is_within(bench.gone(1).await, s(119), ms(119_003));
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn silence_in_a_request_ends_it() {
    for waits in [false, true] {
        let bench = Bench::new(
            |_| Answer::json(200, "{}"),
            |settings| {
                settings.lane.limits = vec!["1 per 1h".parse().unwrap()];
                (settings.lane.wait_max, settings.retry.total_timeout) = (None, None);
            },
        );
        if waits {
            bench.get("/first").await;
        }
        let mut client = bench.door();
        client.send(put(100)).await;
        client.send("half").await;
        let head = client.head().await;
        assert_eq!(head.status(), 408);
        is_within(now() - bench.begun, s(60), ms(60_002));
        let body = String::from_utf8(client.rest().await.unwrap()).unwrap();
        assert!(body.contains("the client fell silent in the middle of its request body"), "{body}");
        settled().await;
        assert_eq!(
            bench.upstream.requests().iter().filter(|request| request.body_at.is_some()).count(),
            usize::from(waits)
        );
        assert_eq!((bench.waiting(), bench.in_flight()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn the_clocks_stand_still_while_an_upload_moves() {
    let limits = |settings: &mut Settings| {
        (settings.retry.attempt_timeout, settings.retry.total_timeout) = (s(2), Some(s(3)));
        settings.retry.max_retries = 0;
    };
    let bench = Bench::new(|_| Answer::json(200, "{}").after(ms(1_900)), limits);
    let mut client = bench.door();
    client.send(PUT_CHUNKED).await;
    for _ in 0..20 {
        tokio::time::sleep(ms(500)).await;
        client.send_chunk(b"piece").await;
    }
    client.send("0\r\n\r\n").await;
    assert_eq!(client.head().await.status(), 200);
    is_within(now() - bench.begun, ms(11_900), ms(11_925));
    // When it moves no more, they go on.
    let bench = Bench::new(|_| Answer::nothing().hang(), limits);
    let mut client = bench.door();
    client.send(PUT_CHUNKED).await;
    for _ in 0..20 {
        tokio::time::sleep(ms(500)).await;
        client.send_chunk(b"piece").await;
    }
    assert_eq!(client.head().await.status(), 504);
    is_within(now() - bench.begun, ms(12_000), ms(12_025));
}

#[tokio::test(start_paused = true)]
async fn nobody_is_told_to_continue_before_its_turn() {
    let bench = Bench::new(|_| Answer::json(200, "{}"), one_a_second);
    bench.get("/first").await;
    let mut client = bench.door();
    client.send("PUT /x HTTP/1.1\r\nHost: sopan\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n").await;
    tokio::time::sleep(ms(900)).await;
    assert_eq!((bench.waiting(), client.here()), (1, Vec::new()));
    tokio::time::sleep(ms(200)).await;
    assert_eq!(client.head().await.status(), 100);
    assert_eq!(bench.upstream.request(2).field("expect"), Some("100-continue"));
    client.send("body").await;
    assert_eq!((client.head().await.status(), &*bench.upstream.request(2).body), (200, &b"body"[..]));
}

#[tokio::test(start_paused = true)]
async fn trailers_are_passed_on_both_ways_and_repeated() {
    let script = |request: &Request| match request.number {
        1 => Answer::status(503),
        _ => Answer::chunked(200).header("Trailer", "X-Sum").chunk("body").send("0\r\nX-Sum: 7\r\n\r\n"),
    };
    let bench = Bench::new(script, |_| {});
    let mut client = bench.door();
    let fields = "Host: sopan\r\nTE: trailers\r\nTrailer: X-Size\r\nTransfer-Encoding: chunked";
    client.send(format!("PUT /x HTTP/1.1\r\n{fields}\r\n\r\n")).await;
    client.send_chunk(b"body").await;
    client.send("0\r\nX-Size: 4\r\n\r\n").await;
    assert_eq!(client.head().await.status(), 200);
    let rest = String::from_utf8(client.through(b"\r\n\r\n").await).unwrap();
    assert_eq!(rest.to_lowercase(), "4\r\nbody\r\n0\r\nx-sum: 7\r\n\r\n");
    for request in bench.upstream.requests() {
        let trailers: Vec<_> = request.trailers.iter().map(|(name, value)| (name.to_lowercase(), &**value)).collect();
        assert_eq!((&*request.body, &trailers[..]), (&b"body"[..], &[("x-size".to_owned(), "4")][..]));
    }
}

#[tokio::test(start_paused = true)]
async fn trailers_say_nothing_that_belongs_to_the_head_or_the_hop() {
    let smuggled =
        "Content-Length: 9\r\nHost: evil\r\nAuthorization: x\r\nTransfer-Encoding: x\r\nX-Hop: 1\r\nX-Sum: 7";
    let bench = Bench::new(
        move |_| {
            let answer =
                Answer::chunked(200).header("Connection", "X-Hop").header("Trailer", "X-Sum, X-Hop, Set-Cookie");
            answer.chunk("body").send(format!("0\r\nSet-Cookie: a=1\r\n{smuggled}\r\n\r\n"))
        },
        |_| {},
    );
    let mut client = bench.door();
    let fields = "Host: sopan\r\nConnection: X-Hop\r\nTE: trailers\r\nTransfer-Encoding: chunked";
    client.send(format!("PUT /x HTTP/1.1\r\n{fields}\r\n\r\n4\r\nbody\r\n0\r\n{smuggled}\r\n\r\n")).await;
    assert_eq!(client.head().await.status(), 200);
    let rest = String::from_utf8(client.through(b"\r\n\r\n").await).unwrap();
    assert_eq!(rest.to_lowercase(), "4\r\nbody\r\n0\r\nx-sum: 7\r\n\r\n");
    assert_eq!(bench.upstream.request(1).trailers, [("x-sum".to_owned(), "7".to_owned())]);
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_body_gets_no_framing_of_one() {
    let bench = Bench::new(|_| Answer::json(200, "{}"), |_| {});
    let mut client = bench.door();
    for (method, field, expected) in
        [("GET", "", None), ("DELETE", "", None), ("POST", "Content-Length: 0\r\n", Some("0"))]
    {
        client.send(format!("{method} /x HTTP/1.1\r\nHost: sopan\r\n{field}\r\n")).await;
        client.head().await;
        client.bytes(2).await;
        let request = bench.upstream.requests().pop().unwrap();
        let framing = (request.field("content-length"), request.field("transfer-encoding"));
        assert_eq!(framing, (expected, None), "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_before_the_upload_is_over_is_passed_on_and_its_connection_closed() {
    let script = |request: &Request| match request.number {
        1 => Answer::json(413, "too much").early().read_bytes(100),
        _ => Answer::json(200, "{}"),
    };
    let bench = Bench::new(script, |settings| settings.retry.replay_bytes_max = 10_000);
    let mut client = bench.door();
    client.send(put(1_000_000)).await;
    client.send(noise(1_000)).await;
    assert_eq!(client.head().await.status(), 413);
    assert_eq!(client.bytes(8).await, b"too much");
    settled().await;
    assert_eq!(bench.get("/y").await.status(), 200);
    let connections: Vec<_> = bench.upstream.requests().iter().map(|request| request.connection).collect();
    assert_eq!(connections, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_in_our_own_version_whatever_the_upstreams() {
    let script = |_: &Request| Answer::raw("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok").close();
    let bench = Bench::new(script, |_| {});
    let mut client = bench.door();
    client.send("GET /x HTTP/1.1\r\nHost: sopan\r\n\r\n").await;
    let head = client.head().await;
    assert!(head.0.starts_with("HTTP/1.1 200 "), "{}", head.0);
    assert_eq!(client.bytes(2).await, b"ok");
    // And so is one that was kept.
    let script = |_: &Request| Answer::raw("HTTP/1.0 500 Oh\r\nContent-Length: 2\r\n\r\noh").close();
    let bench = Bench::new(script, |_| {});
    let mut client = bench.door();
    client.send("GET /x HTTP/1.1\r\nHost: sopan\r\n\r\n").await;
    let head = client.head().await;
    assert!(head.0.starts_with("HTTP/1.1 500 "), "{}", head.0);
}

#[tokio::test(start_paused = true)]
async fn bodies_go_both_ways_at_once() {
    let script = |_: &Request| {
        let echo = |answer: Answer, n: usize| answer.read_bytes(n * 9).chunk(format!("echo {n}"));
        (1..=5).fold(Answer::chunked(200).early(), echo).read_body().end()
    };
    let bench = Bench::new(script, |_| {});
    let mut client = bench.door();
    client.send("POST /x HTTP/1.1\r\nHost: sopan\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    assert_eq!(client.head().await.status(), 200);
    for n in 1..=5 {
        tokio::time::sleep(s(10)).await;
        client.send_chunk(b"talk").await;
        client.through(format!("echo {n}\r\n").as_bytes()).await;
    }
    client.send("0\r\n\r\n").await;
    assert_eq!(client.through(b"\r\n\r\n").await, b"0\r\n\r\n");
    is_within(now() - bench.begun, s(50), ms(50_010));
    settled().await;
    // Both bodies have ended, so the connection is idle again.
    assert_eq!(bench.get("/y").await.status(), 200);
    assert_eq!(bench.upstream.connections().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_goes_on_when_its_request_breaks_off() {
    let script = |_: &Request| {
        (0..5).fold(Answer::chunked(200).early(), |answer, i| answer.chunk(i.to_string()).sleep(s(30))).end()
    };
    let bench = Bench::new(script, |_| {});
    let mut client = bench.door();
    client.send(put(1_000_000)).await;
    client.send("half").await;
    // It falls silent for longer than it may.
    assert_eq!(client.head().await.status(), 200);
    let body = client.through(b"0\r\n\r\n").await;
    assert_eq!(String::from_utf8(body).unwrap(), "1\r\n0\r\n1\r\n1\r\n1\r\n2\r\n1\r\n3\r\n1\r\n4\r\n0\r\n\r\n");
    settled().await;
    assert_eq!(bench.in_flight(), 0);
    assert_eq!(bench.get("/y").await.status(), 200);
    assert_eq!(bench.upstream.connections().len(), 2);
}
