//! What is sent again and what is not, what the caller gets when it does not help, and what is said about it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use sopan_core::policy::CachePolicy;
use sopan_core::retry::Why;
use sopan_engine::Settings;
use sopan_engine::body::Source;
use sopan_engine::exchange::End;
use sopan_engine::refusal::Refusal;
use sopan_fake::script::{Answer, Request};
use tracing::Level;

use crate::support::lines::Line;
use crate::support::log::Log;
use crate::support::{Bench, SECOND, get, is_just, is_within, leave_after, ms, noise, now, request, s, settled};

fn attempts(count: u32) -> impl FnOnce(&mut Settings) {
    move |settings| settings.retry.max_retries = count - 1
}

/// These answers one after the other, then 200.
fn in_turn<const N: usize>(answers: [Answer; N]) -> impl Fn(&Request) -> Answer + Send + Sync {
    move |request| answers.get(request.number - 1).cloned().unwrap_or_else(|| Answer::json(200, "{}"))
}

/// No whole head. That some of it came tells it from a stale connection, which is another story.
fn lost() -> Answer {
    Answer::raw("HTTP/1.1 2").close()
}

/// Methods by what RFC 9110 says of repeating them, and one that it does not know.
const IDEMPOTENT: [&str; 6] = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"];
const OTHERS: [&str; 3] = ["POST", "PATCH", "PURGE"];

// rt-1
#[tokio::test(start_paused = true)]
async fn a_post_whose_reply_was_lost_is_not_sent_twice() {
    for method in ["POST", "PATCH"] {
        let bench = Bench::new(in_turn([lost()]), |_| {});
        let got = bench.send(request(method, "/orders?id=7", "amount=1")).await;
        assert_eq!(got.status(), 502);
        assert!(got.detail().contains("whether it acted on the request is not known"), "{}", got.detail());
        assert_eq!(got.why(), Why::NotSafeToRepeat);
        tokio::time::sleep(s(60)).await;
        assert_eq!(bench.upstream.arrivals(), 1);
        bench.is_at_rest();
    }
}

/// Whether a request is sent again after this fault: by method, and with an Idempotency-Key.
async fn check_fault(name: &str, fault: &Answer, idempotent: bool, others: bool) {
    let all = IDEMPOTENT.iter().map(|m| (*m, idempotent)).chain(OTHERS.iter().map(|m| (*m, others)));
    for (method, again) in all {
        let bench = Bench::new(in_turn([fault.clone()]), |settings| settings.retry.attempt_timeout = s(5));
        let body = if matches!(method, "PUT" | "POST" | "PATCH") { "body" } else { "" };
        let got = bench.send(request(method, "/x", body)).await;
        tokio::time::sleep(s(60)).await;
        let expected = if again { (2, true) } else { (1, false) };
        assert_eq!((bench.upstream.arrivals(), got.status() == 200), expected, "{method} after {name}: {got:?}");
        bench.is_at_rest();
    }
    let bench = Bench::new(in_turn([fault.clone()]), |settings| settings.retry.attempt_timeout = s(5));
    let mut post = request("POST", "/x", "body");
    post.headers_mut().insert("Idempotency-Key", "7".parse().unwrap());
    let got = bench.send(post).await;
    assert_eq!((bench.upstream.arrivals(), got.status()), (2, 200), "POST with a key after {name}");
    for request in bench.upstream.requests() {
        assert_eq!((request.field("idempotency-key"), &*request.body), (Some("7"), &b"body"[..]));
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_done_is_repeated_only_where_that_is_safe() {
    for (name, fault) in [
        ("a close before the head", Answer::nothing().close()),
        ("a reset before the head", Answer::nothing().reset()),
        ("a close in the head", Answer::raw("HTTP/1.1 200 OK\r\nConte").close()),
        ("garbage", Answer::raw("SSH-2.0-OpenSSH_9.2\r\n\r\n").close()),
        ("a head without end", Answer::raw(format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(700_000))).hang()),
        ("silence", Answer::nothing().hang()),
        ("a 500", Answer::status(500)),
        ("a 502", Answer::status(502)),
        ("a 503", Answer::status(503)),
        ("a 503 with junk", Answer::status(503).header("Retry-After", "soon")),
        ("a 504", Answer::status(504)),
        ("a 408", Answer::status(408)),
    ] {
        check_fault(name, &fault, true, false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_not_done_is_repeated_whatever_it_is() {
    for (name, fault) in [
        ("a 429", Answer::status(429).header("Retry-After", "1")),
        ("a bare 429", Answer::status(429)),
        ("a 503 with Retry-After", Answer::status(503).header("Retry-After", "1")),
        ("a 503 with Retry-After 0", Answer::status(503).header("Retry-After", "0")),
    ] {
        check_fault(name, &fault, true, true).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_never_sent_is_repeated_whatever_it_is() {
    for method in IDEMPOTENT.iter().chain(&OTHERS) {
        let plan = |number| match number {
            1 => Line::Refused,
            2 => Line::Dead,
            _ => Line::Open,
        };
        let bench = Bench::over(plan, in_turn([]), |_| {});
        let got = bench.send(request(method, "/x", "body")).await;
        assert_eq!((got.status(), bench.lines.dialled(), bench.upstream.arrivals()), (200, 3, 1), "{method}");
        assert_eq!(bench.upstream.request(1).body, b"body");
    }
}

#[tokio::test(start_paused = true)]
async fn any_other_answer_is_an_answer() {
    for status in [200, 201, 204, 206, 301, 304, 400, 401, 403, 404, 409, 418, 425, 451, 499, 501, 505, 507, 599] {
        let bench = Bench::new(in_turn([Answer::status(status)]), |_| {});
        let got = bench.get("/x").await;
        assert_eq!((got.status(), &got.end, bench.upstream.arrivals()), (status, &End::Done, 1));
    }
    let bench = Bench::new(in_turn([Answer::status(425)]), |settings| {
        settings.retry.retry_on = vec![http::StatusCode::TOO_EARLY];
    });
    assert_eq!((bench.get("/x").await.status(), bench.upstream.arrivals()), (200, 2));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_none_makes_nothing_repeatable() {
    // One that belonged to the hop, and ones that tell no request from another.
    for (connection, key, passed_on) in
        [("idempotency-key", "7", None), ("keep-alive", "", Some("")), ("keep-alive", " \t ", Some(""))]
    {
        let bench = Bench::new(in_turn([lost()]), |_| {});
        let mut post = request("POST", "/x", "body");
        post.headers_mut().insert("Idempotency-Key", key.parse().unwrap());
        post.headers_mut().insert("Connection", connection.parse().unwrap());
        assert_eq!((bench.send(post).await.status(), bench.upstream.arrivals()), (502, 1), "{key:?}");
        assert_eq!(bench.upstream.request(1).field("idempotency-key"), passed_on);
    }
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_turns_out_to_be_empty_is_framed_alike_in_every_attempt() {
    // At once, and when it was read to its end while it waited.
    for limits in [vec![], vec!["1/s".parse().unwrap()]] {
        let script =
            |request: &Request| if request.number == 2 { Answer::status(500) } else { Answer::json(200, "{}") };
        let bench = Bench::new(script, |settings| settings.lane.limits = limits);
        bench.send(get("/first")).await;
        let mut client = bench.door();
        client.send("PUT /x HTTP/1.1\r\nHost: sopan\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").await;
        assert_eq!((client.head().await.status(), bench.upstream.arrivals()), (200, 3));
        for number in [2, 3] {
            let request = bench.upstream.request(number);
            let framing = (request.field("content-length"), request.field("transfer-encoding"));
            assert_eq!((framing, &*request.body), ((None, Some("chunked")), &b""[..]), "request {number}");
        }
        bench.is_at_rest();
    }
}

// rt-2
#[tokio::test(start_paused = true)]
async fn every_attempt_carries_the_same_body_in_the_same_framing() {
    let body = noise(256 * 1024);
    let busy = || Answer::status(503).header("Retry-After", "0");
    for chunked in [false, true] {
        let bench = Bench::new(in_turn([busy(), busy()]), |_| {});
        let mut client = bench.door();
        let framing = if chunked { "Transfer-Encoding: chunked" } else { "Content-Length: 262144" };
        client.send(format!("PUT /x HTTP/1.1\r\nHost: sopan\r\n{framing}\r\n\r\n")).await;
        if chunked {
            for chunk in body.chunks(7_919) {
                client.send_chunk(chunk).await;
            }
            client.send("0\r\n\r\n").await;
        } else {
            client.send(&body).await;
        }
        assert_eq!(client.head().await.status(), 200);
        assert_eq!(bench.upstream.arrivals(), 3);
        for request in bench.upstream.requests() {
            assert!(request.body == body, "attempt {} had other {} bytes", request.number, request.body.len());
            let framing = (request.field("content-length"), request.field("transfer-encoding"));
            assert_eq!(framing, if chunked { (None, Some("chunked")) } else { (Some("262144"), None) });
        }
        bench.is_at_rest();
    }
}

// rt-3
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_client_that_has_gone() {
    let five = |settings: &mut Settings| {
        settings.retry.max_retries = 4;
        settings.retry.total_timeout = Some(s(60));
    };
    for on_a_wire in [false, true] {
        let bench = Bench::new(|_| Answer::status(429).header("Retry-After", "3"), five);
        if on_a_wire {
            let mut client = bench.door();
            client.send("GET /x HTTP/1.1\r\nHost: sopan\r\n\r\n").await;
            tokio::time::sleep(ms(500)).await;
        } else {
            leave_after(ms(500), bench.get("/x")).await;
        }
        settled().await;
        bench.is_at_rest();
        tokio::time::sleep(s(15)).await;
        assert_eq!(bench.upstream.arrivals(), 1);
    }
}

// rt-4
#[tokio::test(start_paused = true)]
async fn a_wait_that_overruns_the_deadline_is_not_begun() {
    let limited = Answer::json(429, r#"{"error":"slow down"}"#).header("Retry-After", "10");
    let bench = Bench::new(in_turn([limited]), |settings| settings.retry.total_timeout = Some(s(3)));
    let got = bench.get("/x").await;
    assert_eq!((got.status(), got.field("retry-after"), got.text()), (429, Some("10"), r#"{"error":"slow down"}"#));
    assert!(got.body_at < ms(500));
    let Why::DeadlineTooClose { wait, left } = got.why() else { panic!("{:?}", got.end) };
    assert_eq!((wait, left), (s(10), s(3)));
    assert_eq!(bench.upstream.arrivals(), 1);
}

// rt-5
#[tokio::test(start_paused = true)]
async fn a_refused_connection_is_tried_again_by_the_backoff() {
    let begun = now();
    let plan = move |_| if now() - begun < ms(600) { Line::Refused } else { Line::Open };
    let log = Log::keep();
    let bench = Bench::over(plan, in_turn([]), attempts(5));
    let got = bench.get("/x").await;
    assert_eq!(got.status(), 200);
    is_within(got.body_at, ms(600), s(2));
    let waits: Vec<f64> = log.entries().iter().map(|entry| entry.fields["wait_s"].parse().unwrap()).collect();
    assert!(waits.len() >= 2 && waits.iter().all(|wait| *wait >= 0.2), "{waits:?}");
    assert!(log.warnings()[0].starts_with("attempt 1 failed (connection failed: "), "{:?}", log.warnings());
}

#[tokio::test(start_paused = true)]
async fn every_wait_before_a_retry_is_a_warning_before_it_starts() {
    let limited = Answer::status(429).header("Retry-After", "1");
    let script = in_turn([limited, lost(), Answer::nothing().hang(), Answer::status(500)]);
    let log = Log::keep();
    let bench = Bench::new(script, |settings| {
        settings.retry.max_retries = 4;
        settings.retry.attempt_timeout = s(2);
    });
    let exchange = bench.spawn(get("/x"));
    settled().await;
    assert_eq!(log.warnings(), ["attempt 1 failed (HTTP 429); waiting 1.00 s before retrying"]);
    assert_eq!(exchange.await.unwrap().status(), 200);
    let warnings = log.entries().into_iter().filter(|entry| entry.level == Level::WARN);
    let entries: Vec<_> = warnings.map(|entry| (entry.fields, entry.message)).collect();
    let expected = [
        ("1", "HTTP 429", "1", "1.00"),
        // And more of what was wrong with it.
        ("2", "connection broken: ", "0.4", "0.40"),
        ("3", "timed out", "0.8", "0.80"),
        ("4", "HTTP 500", "1.6", "1.60"),
    ];
    assert_eq!(entries.len(), expected.len(), "{entries:?}");
    for ((fields, message), (attempt, begins, wait_s, shown)) in entries.into_iter().zip(expected) {
        let reason = &fields["reason"];
        assert!(reason == begins || (begins.ends_with(' ') && reason.starts_with(begins)), "{reason}");
        assert_eq!((&*fields["attempt"], &*fields["method"], &*fields["target"]), (attempt, "GET", "/x"));
        assert_eq!(fields["wait_s"].parse::<f64>().unwrap(), wait_s.parse::<f64>().unwrap());
        assert_eq!(message, format!("attempt {attempt} failed ({reason}); waiting {shown} s before retrying"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_token_is_no_warning() {
    let log = Log::keep();
    let bench = Bench::new(in_turn([]), |settings| settings.lane.limits = vec!["1/s".parse().unwrap()]);
    for got in bench.crowd(3) {
        assert_eq!(got.await.unwrap().status(), 200);
    }
    assert_eq!(bench.upstream.gap(1).as_secs(), 1);
    assert_eq!(log.warnings(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_last_real_answer_is_what_the_caller_gets() {
    let failed = |status, body: &'static str| Answer::json(status, body).header("X-Trace", body);
    for (script, status, body) in [
        // The last attempt's own.
        ([failed(500, "a"), failed(503, "b"), failed(502, "c")], 502, "c"),
        // The last one that there was.
        ([failed(500, "a"), lost(), lost()], 500, "a"),
        ([failed(500, "a"), failed(503, "b"), lost()], 503, "b"),
        ([failed(500, "a"), failed(429, "b"), Answer::nothing().hang()], 429, "b"),
    ] {
        let bench = Bench::new(in_turn(script), |settings| {
            settings.retry.attempt_timeout = s(2);
            settings.cache = Some(CachePolicy::default());
        });
        let got = bench.get("/x").await;
        assert_eq!((got.status(), got.text(), got.field("x-trace")), (status, body, Some(body)));
        // Each tells what the cache did, whether that has looked at it or not.
        let told = got.field("cache-status").unwrap();
        assert!(told.starts_with("sopan; fwd=uri-miss"), "{told}");
        assert_eq!(got.why(), Why::RetriesSpent { max: 2 });
        assert_eq!(bench.upstream.arrivals(), 3);
        bench.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn without_any_real_answer_the_caller_gets_one_that_says_what_happened() {
    for (fault, status, error, detail) in [
        (lost(), 502, "connection_terminated", "the upstream closed the connection before it answered"),
        (Answer::raw("hello\r\n\r\n"), 502, "http_protocol_error", "the upstream did not answer in HTTP"),
        (Answer::nothing().hang(), 504, "http_response_timeout", "the upstream did not answer in time"),
    ] {
        let bench = Bench::new(move |_| fault.clone(), |settings| settings.retry.attempt_timeout = s(2));
        let got = bench.get("/x").await;
        assert_eq!((got.status(), got.detail()), (status, detail.to_owned()));
        assert_eq!(got.field("proxy-status"), Some(&*format!("sopan; error={error}")));
        assert_eq!((got.why(), bench.upstream.arrivals()), (Why::RetriesSpent { max: 2 }, 3));
    }
    for (plan, status, error, detail) in [
        ((|_| Line::Refused) as fn(usize) -> Line, 502, "connection_refused", "the upstream refused the connection"),
        (|_| Line::Unresolvable, 502, "dns_error", "the name of the upstream has no address"),
        (|_| Line::Hangs, 504, "connection_timeout", "no connection to the upstream came about in time"),
    ] {
        let bench = Bench::over(plan, in_turn([]), |settings| settings.connect_timeout = s(5));
        let got = bench.send(request("POST", "/x", "body")).await;
        assert_eq!((got.status(), got.detail()), (status, detail.to_owned()), "the upstream has not seen it");
        assert_eq!(got.field("proxy-status"), Some(&*format!("sopan; error={error}")));
        assert_eq!((got.why(), bench.lines.dialled()), (Why::RetriesSpent { max: 2 }, 3));
    }
}

/// A failed answer with a body of so many bytes.
fn long(status: u16, bytes: usize) -> Answer {
    Answer::status(status).body(noise(bytes))
}

const KEPT: usize = 64 * 1024;

#[tokio::test(start_paused = true)]
async fn a_failed_answer_that_can_be_kept_is_kept() {
    for script in [[long(500, KEPT), lost()], [long(429, KEPT), lost()]] {
        let bench = Bench::new(in_turn(script), attempts(2));
        let got = bench.get("/x").await;
        assert_eq!(bench.upstream.arrivals(), 2);
        assert!(got.body.unwrap() == noise(KEPT));
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_answer_that_is_too_long_to_keep_is_passed_on_at_once_and_whole() {
    let bench = Bench::new(in_turn([long(500, KEPT + 1)]), |_| {});
    let got = bench.get("/x").await;
    assert_eq!((got.status(), bench.upstream.arrivals(), got.head_at), (500, 1, Duration::ZERO));
    assert!(got.body.unwrap() == noise(KEPT + 1));
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn a_failed_answer_that_is_too_slow_to_keep_is_passed_on_after_a_second_and_whole() {
    let slow = Answer::chunked(500).chunk("one").sleep(ms(900)).chunk("two").sleep(ms(900)).chunk("three").end();
    let bench = Bench::new(in_turn([slow]), |_| {});
    let got = bench.get("/x").await;
    assert_eq!((got.status(), got.text(), bench.upstream.arrivals()), (500, "onetwothree", 1));
    is_just(got.head_at, SECOND);
    is_just(got.body_at, ms(1_800));
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn one_that_asks_to_wait_is_dropped_where_it_cannot_be_kept() {
    let told = |answer: Answer| answer.header("Retry-After", "2");
    let slow = || told(Answer::chunked(429)).chunk("one").sleep(s(30)).end();
    let cut = || told(Answer::status(503)).header("Content-Length", "100").send("half").close();
    for first in [told(long(429, 2 * KEPT)), told(long(503, 2 * KEPT)), slow(), cut()] {
        let bench = Bench::new(in_turn([first.clone()]), |_| {});
        let got = bench.get("/x").await;
        assert_eq!((got.status(), got.text(), bench.upstream.arrivals()), (200, "{}", 2), "{first:?}");
        assert!(bench.arrivals()[1] >= s(2), "{:?}", bench.arrivals());
        bench.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_dropped_is_named_where_nothing_better_follows() {
    let (told, cut) = (long(429, 2 * KEPT), Answer::status(500).header("Content-Length", "100").send("half").close());
    for (script, status, detail) in [
        (
            [told.clone(), lost(), lost()],
            502,
            "the upstream closed the connection before it answered; the last answer of the upstream had status 429",
        ),
        (
            [told, Answer::nothing().hang(), Answer::nothing().hang()],
            504,
            "the upstream did not answer in time; the last answer of the upstream had status 429",
        ),
        (
            [cut, lost(), lost()],
            502,
            "the upstream closed the connection before it answered; the last answer of the upstream had status 500",
        ),
    ] {
        let bench = Bench::new(in_turn(script), |settings| settings.retry.attempt_timeout = s(2));
        let got = bench.get("/x").await;
        assert_eq!((got.status(), got.detail()), (status, detail.to_owned()));
        bench.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_answer_is_not_replaced_by_an_older_one() {
    let script = [Answer::json(500, "older"), long(429, 2 * KEPT), lost()];
    let bench = Bench::new(in_turn(script), |_| {});
    let got = bench.get("/x").await;
    assert_eq!(got.status(), 502, "{}", got.text());
    assert!(got.detail().ends_with("the last answer of the upstream had status 429"), "{}", got.detail());
}

#[tokio::test(start_paused = true)]
async fn a_failed_answer_that_breaks_off_is_a_failed_attempt() {
    let cut = Answer::status(500).header("Content-Length", "100").send("half").close();
    let bench = Bench::new(in_turn([cut]), |_| {});
    assert_eq!((bench.get("/x").await.status(), bench.upstream.arrivals()), (200, 2));
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_not_taken_back_once_a_byte_of_its_body_was_passed_on() {
    let cut = Answer::status(200).header("Content-Length", "100").send("half").close();
    let bench = Bench::new(in_turn([cut]), |_| {});
    let got = bench.get("/x").await;
    assert_eq!((got.status(), got.text()), (200, "the upstream broke off its answer"));
    tokio::time::sleep(s(60)).await;
    assert_eq!(bench.upstream.arrivals(), 1);
    let events = bench.seen.ended();
    assert_eq!((events.len(), events[0].whole, events[0].bytes), (1, false, 4));
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn the_total_time_cuts_every_attempt() {
    let hang = || Answer::nothing().hang();
    let limit = |settings: &mut Settings| {
        settings.retry.total_timeout = Some(s(3));
        settings.retry.attempt_timeout = s(60);
    };
    let bench = Bench::new(in_turn([hang()]), limit);
    let got = bench.get("/x").await;
    assert_eq!((got.status(), got.refusal()), (504, Refusal::TotalTimeout { outcome_unknown: false }));
    is_just(got.head_at, s(3));
    is_just(bench.gone(1).await, s(3));
    // With an answer in hand, that is the better one.
    let bench = Bench::new(in_turn([Answer::json(500, "a"), hang()]), limit);
    let got = bench.get("/x").await;
    assert_eq!((got.status(), got.text(), got.why()), (500, "a", Why::TotalTimeout));
    is_just(got.head_at, s(3));
    // Connecting is a part of it.
    let bench = Bench::over(|_| Line::Hangs, in_turn([]), limit);
    let got = bench.get("/x").await;
    assert_eq!((got.status(), got.refusal()), (504, Refusal::TotalTimeout { outcome_unknown: false }));
    is_just(got.head_at, s(3));
}

#[tokio::test(start_paused = true)]
async fn one_who_posted_is_told_what_is_not_known() {
    let over = "the time for the whole request (total_timeout) is over";
    let unknown = "; whether the upstream acted on the request is not known";
    for (plan, unknown) in [((|_| Line::Open) as fn(usize) -> Line, unknown), (|_| Line::Hangs, "")] {
        let bench =
            Bench::over(plan, |_| Answer::nothing().hang(), |settings| settings.retry.total_timeout = Some(s(3)));
        let got = bench.send(request("POST", "/x", "body")).await;
        assert_eq!((got.status(), got.detail()), (504, format!("{over}{unknown}")));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_says_nothing_was_done_is_not_given_where_something_may_have_been() {
    let unknown = "on the request is not known";
    for (fault, status) in [(lost(), 502), (Answer::nothing().hang(), 504)] {
        for total_timeout in [s(3), s(300)] {
            for (key, kept) in [(false, false), (true, true)] {
                let refused = Answer::status(429).header("Retry-After", "1");
                let script = [refused, fault.clone(), fault.clone(), fault.clone(), fault.clone()];
                let bench = Bench::new(in_turn(script), |settings| settings.retry.total_timeout = Some(total_timeout));
                let mut post = request("POST", "/x", "amount=1");
                if key {
                    // The upstream tells repetitions by it, so the caller may send it again.
                    post.headers_mut().insert("Idempotency-Key", "7".parse().unwrap());
                }
                let got = bench.send(post).await;
                if kept {
                    assert_eq!(got.status(), 429);
                } else {
                    assert_eq!(got.status(), status);
                    assert!(got.detail().contains(unknown), "{}", got.detail());
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_has_its_own_time_and_connecting_its_own() {
    let bench = Bench::new(|_| Answer::nothing().hang(), |settings| settings.retry.attempt_timeout = s(2));
    assert_eq!(bench.get("/x").await.status(), 504);
    let expected = [s(0), ms(2_200), ms(4_600)];
    bench
        .arrivals()
        .into_iter()
        .zip(expected)
        .for_each(|(actual, expected)| is_within(actual, expected, expected + ms(3)));
    assert_eq!(bench.upstream.arrivals(), 3);
    let plan = |number| if number < 3 { Line::Hangs } else { Line::Slow(ms(900)) };
    let bench = Bench::over(plan, in_turn([]), |settings| {
        (settings.connect_timeout, settings.retry.attempt_timeout) = (s(1), ms(500));
    });
    let got = bench.get("/x").await;
    assert_eq!((got.status(), bench.lines.dialled()), (200, 3));
    is_within(got.head_at, ms(3_500), ms(3_510));
}

#[tokio::test(start_paused = true)]
async fn the_last_wait_counts_from_now_and_nothing_follows_the_last_attempt() {
    let bench = Bench::new(|_| Answer::status(503), attempts(4));
    let got = bench.get("/x").await;
    let waits: Vec<_> = (1..4).map(|n| bench.upstream.gap(n)).collect();
    waits.into_iter().zip([200, 400, 800]).for_each(|(wait, expected)| is_just(wait, ms(expected)));
    assert_eq!((got.status(), got.why()), (503, Why::RetriesSpent { max: 3 }));
    is_within(got.body_at, ms(1_400), ms(1_403));
    tokio::time::sleep(s(60)).await;
    assert_eq!(bench.upstream.arrivals(), 4);
}

#[tokio::test(start_paused = true)]
async fn retries_after_failures_stay_in_proportion_and_those_that_were_asked_for_do_not_count() {
    for (budget, retries) in [(true, 160), (false, 300)] {
        let limited = AtomicBool::new(true);
        let script = move |request: &Request| match &*request.target {
            "/limited" if limited.swap(false, Relaxed) => Answer::status(429).header("Retry-After", "0"),
            "/limited" => Answer::status(200),
            _ => Answer::status(500),
        };
        let bench = Bench::new(script, |settings| {
            settings.retry.max_retries = 1;
            settings.retry.retry_budget = budget;
        });
        let mut spent = 0;
        for got in bench.crowd(300) {
            let got = got.await.unwrap();
            assert_eq!(got.status(), 500);
            spent += usize::from(got.why() == Why::BudgetSpent);
        }
        assert_eq!((bench.upstream.arrivals(), spent), (300 + retries, 300 - retries));
        assert_eq!(bench.get("/limited").await.status(), 200);
        assert_eq!(bench.upstream.arrivals(), 300 + retries + 2);
    }
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_is_away_for_a_second_costs_no_request() {
    let away_until = now() + s(1);
    let plan = move |_| if now() < away_until { Line::Refused } else { Line::Open };
    let bench = Bench::over(
        plan,
        |_| Answer::status(200),
        |settings| {
            (settings.retry.max_retries, settings.retry.backoff_base) = (3, ms(500));
        },
    );
    let bench = Arc::new(bench);
    // 64 that ask again and again, and 50 new ones in the second, and nobody before.
    let asking = (0..64).map(|_| {
        let bench = Arc::clone(&bench);
        tokio::spawn(async move {
            for _ in 0..20 {
                assert_eq!(bench.get("/again").await.status(), 200);
                tokio::time::sleep(ms(10)).await;
            }
        })
    });
    let asking: Vec<_> = asking.collect();
    let mut crowd = Vec::new();
    for _ in 0..50 {
        tokio::time::sleep(ms(20)).await;
        crowd.extend(bench.crowd(1));
    }
    for got in crowd {
        assert_eq!(got.await.unwrap().status(), 200);
    }
    for asked in asking {
        asked.await.unwrap();
    }
    // Most retries found the door shut, and cost nothing.
    let refused = bench.seen.outcomes().iter().filter(|outcome| outcome.starts_with("connection failed")).count();
    assert!(refused > 150, "{refused} were refused");
}

#[tokio::test(start_paused = true)]
async fn a_retry_whose_client_leaves_costs_the_others_nothing() {
    let script = |request: &Request| Answer::status(if request.target == "/fails" { 500 } else { 200 });
    let bench = Bench::new(script, |settings| settings.retry.max_retries = 1);
    let crowd = || (0..100).map(|_| bench.spawn(get("/fails"))).collect::<Vec<_>>();
    for _ in 0..3 {
        let leaving = crowd();
        tokio::time::sleep(ms(100)).await;
        leaving.iter().for_each(tokio::task::JoinHandle::abort);
    }
    assert_eq!(bench.upstream.arrivals(), 300);
    for got in crowd() {
        assert_eq!(got.await.unwrap().why(), Why::RetriesSpent { max: 1 });
    }
    assert_eq!(bench.upstream.arrivals(), 500);
}

#[tokio::test(start_paused = true)]
async fn every_answer_says_what_happened_beside_what_the_upstream_says() {
    let told = Answer::json(200, "{}").header("Server-Timing", "db;dur=5").after(ms(40));
    let bench = Bench::new(in_turn([Answer::status(429).header("Retry-After", "1"), told]), |_| {});
    let got = bench.get("/x").await;
    let lines: Vec<_> = got.response.headers().get_all("server-timing").iter().map(|v| v.to_str().unwrap()).collect();
    let [upstreams, ours] = lines[..] else { panic!("{lines:?}") };
    assert_eq!(upstreams, "db;dur=5");
    let ours: Vec<_> = ours.split(", ").collect();
    let duration = |metric: &str| metric.split_once(";dur=").unwrap().1.parse::<f64>().unwrap();
    assert_eq!((ours[0].split(';').next(), ours[1]), (Some("wait"), "attempts;desc=\"2\""));
    assert!((1000.0..1002.0).contains(&duration(ours[0])), "{ours:?}");
    assert!((40.0..42.0).contains(&duration(ours[2])), "{ours:?}");
    // sopan's own answers say it too.
    let bench = Bench::new(in_turn([]), |settings| settings.lane.max_hold = s(1));
    let mut connect = request("CONNECT", "/", "");
    *connect.uri_mut() = "example.com:443".parse().unwrap();
    let got = bench.send(connect).await;
    assert_eq!(got.status(), 501);
    assert_eq!(got.field("server-timing"), Some("wait;dur=0.0, attempts;desc=\"0\", upstream;dur=0.0"));
    assert_eq!(bench.lines.dialled(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_event_tells_the_whole_story() {
    let bench = Bench::new(in_turn([Answer::status(503), Answer::json(200, "{}").after(ms(30))]), |_| {});
    bench.get("/x?page=2").await;
    let [event] = &bench.seen.ended()[..] else { panic!("{:?}", bench.seen.ended()) };
    assert_eq!(event.what, "GET /x?page=2 200");
    assert_eq!((event.attempts, event.refused, event.bytes, event.whole), (2, None, 2, true));
    is_just(event.wait, ms(200));
    is_just(event.upstream, ms(30));
    is_within(event.total, ms(230), ms(232));
    assert_eq!(bench.seen.outcomes(), ["HTTP 503", "HTTP 200"]);
}

#[tokio::test(start_paused = true)]
async fn a_program_gets_its_body_sent_again_however_long_it_is() {
    let bench = Bench::new(in_turn([Answer::status(503), lost()]), |settings| settings.retry.replay_bytes_max = 10);
    let body = noise(100_000);
    let put = get("/x").map(|_| Source::Bytes(body.clone().into()));
    let (mut parts, body_source) = put.into_parts();
    parts.method = http::Method::PUT;
    assert_eq!(bench.send(http::Request::from_parts(parts, body_source)).await.status(), 200);
    assert!(bench.upstream.requests().iter().all(|request| request.body == body));
    assert_eq!(bench.upstream.arrivals(), 3);
}

/// Everything that decides about requests is said once, and no secret with it.
#[tokio::test(start_paused = true)]
async fn what_the_lane_does_and_why_it_gives_up_is_logged() {
    let script = |request: &Request| match request.number {
        1 => Answer::status(429).header("Retry-After", "100"),
        2..=4 => Answer::status(500),
        _ => Answer::json(200, "{}"),
    };
    let log = Log::keep();
    let bench = Bench::new(script, |settings| {
        (settings.retry.max_retries, settings.lane.wait_max) = (0, Some(s(10)));
        settings.breaker.on = true;
        (settings.breaker.failures, settings.breaker.min_span) = (3, s(0));
    });
    bench.get("/x?api_key=SECRET").await;
    for _ in 0..5 {
        assert_eq!(bench.get("/x").await.status(), 503);
    }
    tokio::time::sleep(s(100)).await;
    for _ in 0..3 {
        assert_eq!(bench.get("/x").await.status(), 500);
    }
    tokio::time::sleep(s(10)).await;
    assert_eq!(bench.get("/x").await.status(), 200);
    let lines: Vec<_> = log.entries().into_iter().map(|entry| format!("{} {}", entry.level, entry.message)).collect();
    let spent = "not retried: limit of 0 retries reached";
    let expected = [
        "INFO the upstream asks for a pause: nothing is sent for 100.00 s".to_owned(),
        "INFO attempt 1 failed (HTTP 429); not retried: ".to_owned(),
        "WARN GET /x refused: ".to_owned(),
        format!("INFO attempt 1 failed (HTTP 500); {spent}"),
        format!("INFO attempt 1 failed (HTTP 500); {spent}"),
        "WARN the upstream fails too often: the breaker is open, nothing is sent for 10.00 s".to_owned(),
        format!("INFO attempt 1 failed (HTTP 500); {spent}"),
        "INFO the upstream answers again: the breaker is closed".to_owned(),
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    lines.iter().zip(&expected).for_each(|(line, begins)| assert!(line.starts_with(begins), "{line}, not {begins}"));
    assert!(log.entries().iter().all(|entry| !format!("{entry:?}").contains("SECRET")));
}
