//! A client that hangs up cancels all that stands behind it, wherever its request is.

use std::future::Future;
use std::time::Duration;

use sopan_core::breaker::State;
use sopan_core::queue::ClientId;
use sopan_engine::Settings;
use sopan_engine::exchange::{self, Inbound};
use sopan_fake::script::{Answer, Request};
use tokio::time::sleep;

use crate::support::lines::Line;
use crate::support::{Bench, SECOND, get, is_just, is_within, leave_after, ms, noise, s, settled};

fn fine(_: &Request) -> Answer {
    Answer::json(200, "{}")
}

fn one_an_hour(settings: &mut Settings) {
    settings.lane.limits = vec!["1/h".parse().unwrap()];
    (settings.lane.wait_max, settings.retry.total_timeout) = (None, None);
    settings.breaker.on = true;
    (settings.breaker.failures, settings.breaker.min_span) = (1, s(0));
}

/// After a client has left nothing is left of it, nothing follows, and the breaker has learnt nothing.
async fn nothing_follows(bench: &Bench) {
    settled().await;
    bench.is_at_rest();
    let (arrivals, dialled) = (bench.upstream.arrivals(), bench.lines.dialled());
    sleep(s(300)).await;
    assert_eq!((bench.upstream.arrivals(), bench.lines.dialled()), (arrivals, dialled));
    assert_eq!(bench.snapshot().breaker, State::Closed);
}

/// The token of a client that left before its request was written goes to the next at once.
async fn token_is_back(bench: &Bench, at: Duration) {
    let got = bench.get("/next").await;
    assert_eq!((got.status(), got.head_at), (200, at));
}

#[tokio::test(start_paused = true)]
async fn while_it_waits_for_its_turn() {
    let bench = Bench::new(fine, one_an_hour);
    bench.get("/first").await;
    leave_after(s(10), bench.get("/leaves")).await;
    nothing_follows(&bench).await;
    let got = bench.get("/next").await;
    // One token an hour, and the one who left has not had it.
    is_within(got.head_at, s(3_600), s(3_604));
    assert_eq!(bench.targets(), ["/first", "/next"]);
    let [_, left, _] = &bench.seen.ended()[..] else { panic!("{:?}", bench.seen.ended()) };
    let event = (left.what.as_str(), left.attempts, left.wait, left.upstream, left.total, left.whole);
    assert_eq!(event, ("GET /leaves 0", 0, s(10), s(0), s(10), false));
}

#[tokio::test(start_paused = true)]
async fn while_it_waits_and_has_a_connection_already() {
    let script = |request: &Request| match request.number {
        1 => fine(request).header("Connection", "close"),
        _ => fine(request),
    };
    let bench = Bench::over(
        |number| if number == 2 { Line::Slow(ms(100)) } else { Line::Open },
        script,
        |settings| settings.lane.limits = vec!["1/s".parse().unwrap()],
    );
    bench.get("/first").await;
    leave_after(ms(50), bench.get("/connecting")).await;
    leave_after(ms(500), bench.get("/connected")).await;
    assert_eq!(bench.lines.dialled(), 3);
    nothing_follows(&bench).await;
    assert_eq!(bench.get("/next").await.status(), 200);
    assert_eq!((bench.targets(), bench.lines.dialled()), (vec!["/first".to_owned(), "/next".to_owned()], 4));
}

#[tokio::test(start_paused = true)]
async fn while_its_connection_is_made() {
    let plan = |number| if number == 1 { Line::Slow(s(4)) } else { Line::Open };
    let bench = Bench::over(plan, fine, one_an_hour);
    leave_after(s(2), bench.get("/leaves")).await;
    nothing_follows(&bench).await;
    token_is_back(&bench, s(302)).await;
}

// px-9, 1
#[tokio::test(start_paused = true)]
async fn before_the_first_byte_of_the_answer() {
    let bench = Bench::new(|request| fine(request).after(s(20)), |_| {});
    leave_after(SECOND, bench.get("/x")).await;
    is_just(bench.gone(1).await, SECOND);
    nothing_follows(&bench).await;
    let [left] = &bench.seen.ended()[..] else { panic!("{:?}", bench.seen.ended()) };
    let event = (left.what.as_str(), left.attempts, left.wait, left.upstream, left.total, left.whole);
    assert_eq!(event, ("GET /x 0", 1, s(0), SECOND, SECOND, false));
    // And on a wire.
    let bench = Bench::new(|request| fine(request).after(s(20)), |_| {});
    let mut client = bench.door();
    client.send("GET /x HTTP/1.1\r\nHost: sopan\r\n\r\n").await;
    sleep(SECOND).await;
    drop(client);
    is_just(bench.gone(1).await, SECOND);
    nothing_follows(&bench).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_written_is_spent() {
    let bench = Bench::new(|request| fine(request).after(s(20)), one_an_hour);
    leave_after(SECOND, bench.get("/x")).await;
    nothing_follows(&bench).await;
    let next = bench.spawn(get("/next"));
    sleep(s(3_200)).await;
    assert_eq!(bench.upstream.arrivals(), 1);
    assert_eq!(next.await.unwrap().status(), 200);
}

// px-9, 2
#[tokio::test(start_paused = true)]
async fn in_the_middle_of_a_body() {
    let script =
        |_: &Request| (0..100).fold(Answer::chunked(200), |answer, _| answer.chunk("piece").sleep(ms(100))).end();
    let bench = Bench::new(script, |_| {});
    leave_after(SECOND, bench.get("/x")).await;
    is_within(bench.gone(1).await, SECOND, ms(1_200));
    nothing_follows(&bench).await;
    let bench = Bench::new(script, |_| {});
    let mut client = bench.door();
    client.send("GET /x HTTP/1.1\r\nHost: sopan\r\n\r\n").await;
    client.head().await;
    sleep(SECOND).await;
    drop(client);
    is_within(bench.gone(1).await, SECOND, ms(1_200));
    nothing_follows(&bench).await;
    let events = bench.seen.ended();
    assert_eq!((events.len(), events[0].whole), (1, false));
}

#[tokio::test(start_paused = true)]
async fn with_the_head_in_hand_and_the_body_unread() {
    let script = |_: &Request| Answer::chunked(200).chunk("piece").sleep(s(20)).end();
    let bench = Bench::new(script, |_| {});
    let inbound = Inbound { request: get("/x"), client: ClientId(1), weight: 1, interims: None, hop: None };
    let answer = exchange::call(&bench.engine, inbound).await;
    assert_eq!(bench.in_flight(), 1);
    drop(answer);
    assert_eq!(bench.gone(1).await, s(0));
    nothing_follows(&bench).await;
}

// px-9, 3
#[tokio::test(start_paused = true)]
async fn on_a_wire_while_it_waits() {
    for body in [0, 100, 100_000] {
        let bench = Bench::new(fine, one_an_hour);
        bench.get("/first").await;
        let mut client = bench.door();
        client.send(format!("PUT /x HTTP/1.1\r\nHost: sopan\r\nContent-Length: {body}\r\n\r\n")).await;
        client.send(noise(body)).await;
        sleep(SECOND).await;
        assert_eq!(bench.waiting(), 1);
        drop(client);
        nothing_follows(&bench).await;
        assert_eq!(bench.upstream.arrivals(), 1);
    }
    // Also where the body had not all come.
    let bench = Bench::new(fine, one_an_hour);
    bench.get("/first").await;
    let mut client = bench.door();
    client.send("PUT /x HTTP/1.1\r\nHost: sopan\r\nContent-Length: 100\r\n\r\nhalf").await;
    sleep(SECOND).await;
    assert_eq!(bench.waiting(), 1);
    drop(client);
    nothing_follows(&bench).await;
    assert_eq!(bench.upstream.arrivals(), 1);
}

// px-9, 4
#[tokio::test(start_paused = true)]
async fn in_the_middle_of_its_upload() {
    for (framing, replay_bytes_max) in [
        ("Content-Length: 1000000", 1 << 20),
        ("Content-Length: 1000000", 1_000),
        ("Transfer-Encoding: chunked", 1 << 20),
        ("Transfer-Encoding: chunked", 1_000),
    ] {
        let bench = Bench::new(fine, |settings| {
            one_an_hour(settings);
            settings.retry.replay_bytes_max = replay_bytes_max;
        });
        let mut client = bench.door();
        client.send(format!("PUT /x HTTP/1.1\r\nHost: sopan\r\n{framing}\r\n\r\n")).await;
        if framing.starts_with('T') {
            client.send_chunk(&noise(5_000)).await
        } else {
            client.send(noise(5_000)).await
        }
        sleep(SECOND).await;
        assert_eq!(bench.upstream.request(1).body.len(), 5_000);
        drop(client);
        is_just(bench.gone(1).await, SECOND);
        nothing_follows(&bench).await;
        assert_eq!((bench.upstream.request(1).body_at, bench.upstream.arrivals()), (None, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn while_it_waits_before_a_retry() {
    for first in [Answer::status(500), Answer::status(429).header("Retry-After", "20"), Answer::nothing().close()] {
        let script = move |request: &Request| if request.number == 1 { first.clone() } else { fine(request) };
        let bench = Bench::new(script, |settings| {
            settings.retry.backoff_base = s(20);
            settings.retry.backoff_cap = s(20);
        });
        leave_after(SECOND, bench.get("/x")).await;
        settled().await;
        bench.is_at_rest();
        sleep(s(60)).await;
        assert_eq!(bench.upstream.arrivals(), 1);
        bench.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn while_a_failed_answer_is_read() {
    let bench = Bench::new(|_| Answer::chunked(500).chunk("slow").sleep(s(20)).end(), |_| {});
    leave_after(ms(500), bench.get("/x")).await;
    is_just(bench.gone(1).await, ms(500));
    nothing_follows(&bench).await;
}

#[tokio::test(start_paused = true)]
async fn in_the_instant_in_which_its_turn_comes() {
    // The turn was given, and its client leaves before it has heard of it.
    let bench = Bench::new(fine, |settings| settings.lane.limits = vec!["1/s".parse().unwrap()]);
    bench.get("/first").await;
    for _ in 0..20 {
        let leaves = bench.spawn(get("/leaves"));
        let (at, before) = (bench.begun + due(&bench).await, bench.upstream.arrivals());
        tokio::time::sleep_until(at).await;
        leaves.abort();
        settled().await;
        let written = bench.upstream.arrivals() - before;
        assert_eq!(bench.in_flight(), 0);
        let got = bench.get("/next").await;
        assert_eq!(got.status(), 200);
        // Whoever came next had that turn, unless it was used after all.
        is_within(got.head_at, at - bench.begun, at - bench.begun + ms(1_003 * written as u64 + 2));
    }
    bench.is_at_rest();
}

/// When the next turn comes, to the tick.
fn due(bench: &Bench) -> impl Future<Output = Duration> {
    let last = *bench.arrivals().last().unwrap();
    async move { last + ms(1_002) }
}
