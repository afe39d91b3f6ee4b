//! Traces as a collector gets them, from the real program.

mod spans;

use std::time::Instant;

use sopan_fake::script::{Answer, Request};

use super::door::{Port, Scripted, Serve};
use super::wire::request;
use crate::support::{PATIENCE, get, until};
use spans::{Span, read};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn collector() -> Scripted {
    Scripted::start(|_| Answer::status(200).body("").header("Content-Type", "application/x-protobuf"))
}

/// All spans that have come so far, in their order.
fn collected(collector: &Scripted) -> Vec<Span> {
    collector
        .requests()
        .iter()
        .filter(|request| request.body_at.is_some())
        .flat_map(|request| read(&request.body))
        .collect()
}

/// 429, then 500, then 200.
fn reluctant(request: &Request) -> Answer {
    match request.number {
        1 => Answer::json(429, "{}").header("Retry-After", "1"),
        2 => Answer::json(500, "{}"),
        _ => Answer::json(200, "{}"),
    }
}

#[test]
fn one_trace_tells_of_two_waits_and_three_attempts() {
    let (upstream, collector) = (Scripted::start(reluctant), collector());
    let otlp = format!("--otlp {}/v1/traces", collector.url());
    let flags = ["--rate unlimited", "--jitter 0", "--backoff-base 100ms", "--trace-sample 0", &otlp];
    let mut proxy = Serve::start(&upstream.url(), &flags);
    let mut client = proxy.connect();
    let fields = format!("traceparent: {PARENT}\r\ntracestate: a=1\r\nAuthorization: Bearer s3cret\r\n");
    client.send(request("GET", "/orders?page=1&key=s3cret", &fields));
    assert_eq!((client.reply().status(), upstream.requests().len()), (200, 3));
    // One that nobody records, and of which no span may come.
    assert_eq!(proxy.get("/unrecorded").status(), 200);
    drop(client);
    // What still waits is delivered before the end.
    proxy.program.signal("TERM");
    let (status, lines) = proxy.wait();
    assert!(status.success(), "{lines:?}");

    let spans = collected(&collector);
    let (own, within) = spans.split_first().unwrap();
    let drawn: Vec<_> = within.iter().map(|span| (&*span.name, span.kind)).collect();
    let expected =
        [("connect", 1), ("attempt 1", 3), ("wait hold", 1), ("attempt 2", 3), ("wait retry", 1), ("attempt 3", 3)];
    assert_eq!(drawn, expected, "{spans:#?}");
    assert_eq!((&*own.name, own.kind, &*own.parent), ("GET default", 2, "b7ad6b7169203331"));
    assert!(spans.iter().all(|span| span.trace == TRACE && span.service == "sopan"), "{spans:#?}");
    // All within the exchange, one after the other.
    let mut before = own.from;
    for span in within {
        assert_eq!(span.parent, own.id);
        assert!(before <= span.from && span.from <= span.to && span.to <= own.to, "{spans:#?}");
        before = span.to;
    }
    let millis = |span: &Span| (span.to - span.from) / 1_000_000;
    assert!(millis(&within[2]) >= 900 && millis(&within[4]) >= 100, "{spans:#?}");
    let said = |key: &str| within.iter().map(|span| span.said(key).to_owned()).collect::<Vec<_>>();
    assert_eq!(said("http.response.status_code"), ["", "429", "", "500", "", "200"]);
    assert_eq!(said("sopan.retry_after"), ["", "1", "", "", "", ""]);
    assert_eq!(said("sopan.wait.for"), ["", "", "hold", "", "retry", ""]);
    assert_eq!(within.iter().map(|span| span.is_error).collect::<Vec<_>>(), [false, true, false, true, false, false]);
    let port = upstream.url().rsplit(':').next().unwrap().to_owned();
    assert_eq!((within[1].said("server.address"), within[1].said("server.port")), ("127.0.0.1", &*port));
    for (key, value) in [
        ("http.request.method", "GET"),
        ("http.response.status_code", "200"),
        ("url.path", "/orders"),
        ("url.query", "page=…&key=…"),
        ("sopan.upstream", "default"),
        ("sopan.attempts", "3"),
        ("sopan.cache", "miss"),
    ] {
        assert_eq!(own.said(key), value, "{key}");
    }

    // The upstream was told of each attempt, so that its own spans hang below that.
    let asked = upstream.requests();
    let told: Vec<_> = asked[..3].iter().map(|request| request.field("traceparent").unwrap().to_owned()).collect();
    let attempts = [1, 3, 5].map(|at| format!("00-{TRACE}-{}-01", within[at].id));
    assert_eq!(told, attempts);
    assert!(asked[..3].iter().all(|request| request.field("tracestate") == Some("a=1")));
    assert!(asked[3].field("traceparent").unwrap().ends_with("-02"), "{:?}", asked[3]);
    let sent = collector.requests().remove(0);
    assert_eq!((&*sent.target, sent.field("content-type")), ("/v1/traces", Some("application/x-protobuf")));
    assert!(!sent.body.windows(6).any(|bytes| bytes == b"s3cret") && !lines.concat().contains("s3cret"));
}

#[test]
fn what_comes_from_the_store_and_what_goes_nowhere_is_told_too() {
    let upstream = Scripted::start(|_| Answer::json(200, "{}").header("Cache-Control", "max-age=60"));
    let collector = collector();
    let proxy = Serve::start(&upstream.url(), &[&format!("--otlp {}", collector.url())]);
    for target in ["/a", "/a"] {
        assert_eq!(proxy.get(target).status(), 200);
    }
    let mut stranger = proxy.connect();
    stranger.send("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n");
    assert_eq!(stranger.reply().status(), 421);
    until(|| (collected(&collector).len() >= 7).then_some(()));
    let spans = collected(&collector);
    let names: Vec<_> = spans.iter().map(|span| &*span.name).collect();
    let expected = ["GET default", "connect", "attempt 1", "cache store", "GET default", "cache hit", "GET none"];
    assert_eq!(names, expected, "{spans:#?}");
    assert_eq!((spans[6].said("sopan.refused"), &*spans[6].parent), ("misdirected", ""));
    // Nobody asked within a trace, so each begins its own.
    assert!(spans[0].trace != spans[4].trace && spans[4].trace != spans[6].trace);
    until(|| (proxy.metric("sopan_trace_spans_sent_total") == 7.0).then_some(()));
}

#[test]
fn a_collector_that_is_not_there_costs_spans_and_nothing_else() {
    let (upstream, nobody) = (Scripted::start(|_| Answer::json(200, "{}")), Port::closed());
    let proxy = Serve::start(&upstream.url(), &["--rate unlimited", &format!("--otlp {}", nobody.url())]);
    let mut client = proxy.connect();
    for _ in 0..50 {
        assert_eq!(client.get("/orders").status(), 200);
    }
    // Each has an attempt, and the first a connection.
    until(|| (proxy.metric("sopan_trace_spans_lost_total") == 101.0).then_some(()));
    let warnings = proxy.await_logged("WARN", 1);
    let said = format!("traces cannot be delivered to {}: ", nobody.url());
    assert!(warnings.len() == 1 && warnings[0].starts_with(&said), "{warnings:?}");
    assert!(
        warnings[0].contains("connection failed: ") && warnings[0].contains("; spans lost so far: "),
        "{warnings:?}"
    );
    assert_eq!(proxy.metric("sopan_trace_spans_sent_total"), 0.0);
    assert!(
        get(proxy.admin, "/metrics").body.contains("\nsopan_attempts_total{upstream=\"default\",outcome=\"2xx\"} 50\n")
    );
}

#[test]
fn a_collector_that_does_not_end_its_answers_holds_up_no_others() {
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{";
    let endless = Scripted::start(move |_| Answer::raw(head).hang());
    let proxy = Serve::start(&upstream.url(), &["--rate unlimited", &format!("--otlp {}", endless.url())]);
    // An exchange and its attempt, and for the first a connection; the second ones are for another delivery.
    for sent in [3.0, 5.0] {
        assert_eq!(proxy.get("/orders").status(), 200);
        until(|| (proxy.metric("sopan_trace_spans_sent_total") == sent).then_some(()));
    }
    assert_eq!(proxy.metric("sopan_trace_spans_lost_total"), 0.0);
}

#[test]
fn a_collector_that_does_not_answer_holds_up_nobody_and_the_end_not_for_long() {
    let (upstream, silent) =
        (Scripted::start(|_| Answer::json(200, "{}")), Scripted::start(|_| Answer::nothing().hang()));
    let mut proxy = Serve::start(&upstream.url(), &["--rate unlimited", &format!("--otlp {}", silent.url())]);
    assert_eq!(proxy.get("/orders").status(), 200);
    silent.await_target("/v1/traces");
    assert_eq!(proxy.get("/orders").status(), 200);
    let begun = Instant::now();
    proxy.program.signal("TERM");
    let (status, lines) = proxy.wait();
    assert!(status.success() && begun.elapsed() < PATIENCE / 2, "{:?} {lines:?}", begun.elapsed());
    let last = lines.iter().rfind(|line| line.contains("WARN")).unwrap();
    assert!(last.ends_with("not all traces could be delivered within 5 s of the end; the rest is lost"), "{lines:?}");
}
