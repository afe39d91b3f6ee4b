//! Bodies: read ahead, kept and sent again, streamed both ways, and broken where the other side's broke.

use std::time::Duration;

use sopan_core::retry::Why;
use sopan_engine::Settings;
use sopan_fake::script::{Answer, Request};

use crate::support::door::Client;
use crate::support::lines::Line;
use crate::support::{Bench, SECOND, get, is_just, is_within, ms, noise, now, request, s, settled};

const PUT_CHUNKED: &str = "PUT /x HTTP/1.1\r\nHost: sopan\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Refuses before it has read the body; asks to come again.
fn refused_early() -> Answer {
    Answer::json(503, "busy").header("Retry-After", "1").early()
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
