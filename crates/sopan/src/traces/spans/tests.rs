use std::sync::Arc;

use sopan_core::trace::{SpanId, Trace, TraceId};
use sopan_engine::event::{Awaited, Cached};
use sopan_engine::refusal::Failure;

use super::*;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn trace() -> Trace {
    Trace { id: TraceId::new(7).unwrap(), parent: SpanId::new(8), span: SpanId::new(9).unwrap(), flags: 1 }
}

fn record(steps: &[(u64, What)], total: u64) -> Record {
    Record {
        trace: trace(),
        ended: UNIX_EPOCH + ms(1_000_000),
        upstream: Arc::from("shop"),
        method: Method::GET,
        target: "/orders?page=…".to_owned(),
        status: Some(StatusCode::OK),
        refused: None,
        cache: None,
        wait: Duration::ZERO,
        attempts: 1,
        total: ms(total),
        bytes: 12,
        whole: true,
        steps: steps.iter().map(|(at, what)| Step { at: ms(*at), what: what.clone() }).collect(),
        steps_left_out: 0,
    }
}

/// Name, kind, from and to in milliseconds of the exchange, and what went wrong, of all spans within it.
fn drawn(record: &Record) -> Vec<(String, Kind, u64, u64, Option<String>)> {
    let spans = spans(record, None);
    let (own, within) = spans.split_first().unwrap();
    assert_eq!((own.parent, own.kind, own.is_parent_elsewhere), (record.trace.parent, Kind::Server, true));
    let ids: std::collections::HashSet<_> = spans.iter().map(|span| span.id).collect();
    assert_eq!((ids.len(), spans.len() as u64), (spans.len(), record.spans().max(spans.len() as u64)), "{spans:?}");
    let millis = |at: u64| (at - own.from) / 1_000_000;
    let draw = |span: &Span| {
        assert!(span.parent == Some(own.id) && span.from <= span.to && span.to <= own.to && span.from >= own.from);
        (span.name.to_string(), span.kind, millis(span.from), millis(span.to), span.error.clone())
    };
    within.iter().map(draw).collect()
}

fn said(span: &Span, key: &str) -> Option<String> {
    let value = span.attributes.iter().find(|(known, _)| *known == key).map(|(_, value)| value)?;
    Some(match value {
        Value::Text(text) => text.to_string(),
        Value::Whole(number) => number.to_string(),
        Value::Number(number) => number.to_string(),
    })
}

fn waited(on: Awaited, how_long: u64) -> What {
    What::Waited { on, how_long: ms(how_long) }
}

fn answered(status: u16, retry_after: Option<u64>) -> What {
    let status = StatusCode::from_u16(status).unwrap();
    What::Answered { status, retry_after: retry_after.map(Duration::from_secs) }
}

#[test]
fn every_step_that_takes_time_is_a_span() {
    let reason = "connection failed: connection refused".into();
    let record = record(
        &[
            (300, waited(Awaited::Token, 300)),
            (320, What::Failed { failure: Failure::Refused, reason }),
            (820, waited(Awaited::Retry, 500)),
            (850, What::Connected { how_long: ms(30) }),
            (850, What::Sent { attempt: 2 }),
            (900, answered(429, Some(2))),
            (2900, waited(Awaited::Hold, 2000)),
            (2900, What::Sent { attempt: 3 }),
            (2910, What::Stale),
            (2915, What::Sent { attempt: 3 }),
            (2950, answered(200, None)),
            (3000, What::Stored),
        ],
        3000,
    );
    let of =
        |name: &str, kind, from, to, error: Option<&str>| (name.to_owned(), kind, from, to, error.map(str::to_owned));
    let closed = "the idle connection was closed already; it goes out once more";
    let expected = [
        of("wait token", Kind::Internal, 0, 300, None),
        of("attempt 1", Kind::Client, 300, 320, Some("connection failed: connection refused")),
        of("wait retry", Kind::Internal, 320, 820, None),
        of("connect", Kind::Internal, 820, 850, None),
        of("attempt 2", Kind::Client, 850, 900, Some("")),
        of("wait hold", Kind::Internal, 900, 2900, None),
        of("attempt 3", Kind::Client, 2900, 2910, Some(closed)),
        of("attempt 3", Kind::Client, 2915, 2950, None),
        of("cache store", Kind::Internal, 2950, 3000, None),
    ];
    assert_eq!(drawn(&record), expected);
    let server = Server { address: "api.test".to_owned(), port: 443 };
    let spans = spans(&record, Some(&server));
    let attempts: Vec<_> = spans.iter().filter(|span| span.kind == Kind::Client).collect();
    assert_eq!(attempts[3].id, trace().attempt(3));
    let all = |key| attempts.iter().map(|span| said(span, key).unwrap_or_default()).collect::<Vec<_>>();
    assert_eq!(all("http.response.status_code"), ["", "429", "", "200"]);
    assert_eq!(all("error.type"), ["connection_refused", "429", "connection_terminated", ""]);
    assert_eq!(all("http.request.resend_count"), ["", "1", "2", "2"]);
    assert_eq!(all("sopan.retry_after"), ["", "2", "", ""]);
    assert_eq!((all("server.address"), all("server.port")), (vec!["api.test".into(); 4], vec!["443".into(); 4]));
}

#[test]
fn the_exchange_is_told_as_its_client_sees_it() {
    let plain = record(&[(0, What::Sent { attempt: 1 }), (40, answered(200, None))], 50);
    let own = spans(&plain, None).remove(0);
    assert_eq!((&*own.name, own.error.clone()), ("GET shop", None));
    assert_eq!((own.from, own.to), (999_950_000_000, 1_000_000_000_000));
    for (key, expected) in [
        ("http.request.method", Some("GET")),
        ("url.path", Some("/orders")),
        ("url.query", Some("page=…")),
        ("http.response.status_code", Some("200")),
        ("sopan.upstream", Some("shop")),
        ("sopan.attempts", Some("1")),
        ("sopan.cache", None),
        ("error.type", None),
    ] {
        assert_eq!(said(&own, key).as_deref(), expected, "{key}");
    }
    let unavailable = Some(StatusCode::SERVICE_UNAVAILABLE);
    for (record, kind, words) in [
        (Record { status: unavailable, refused: Some("queue-full"), ..plain.clone() }, Some("503"), Some("queue-full")),
        (Record { whole: false, ..plain.clone() }, Some("cut_off"), Some("the answer was not passed on to its end")),
        (Record { status: Some(StatusCode::NOT_FOUND), ..plain.clone() }, None, None),
        (Record { status: None, whole: false, ..plain.clone() }, None, None),
        (Record { cache: Some(Cached::Hit), ..plain.clone() }, None, None),
    ] {
        let own = spans(&record, None).remove(0);
        assert_eq!((said(&own, "error.type").as_deref(), own.error.as_deref()), (kind, words), "{record:?}");
    }
    let odd = Record { method: Method::from_bytes(b"BREW").unwrap(), ..plain };
    let own = spans(&odd, None).remove(0);
    assert_eq!(&*own.name, "HTTP shop");
    assert_eq!(said(&own, "http.request.method_original").as_deref(), Some("BREW"));
}

#[test]
fn what_nobody_waits_for_ends_with_the_exchange() {
    let left = record(&[(0, What::Sent { attempt: 1 }), (70, What::Left)], 70);
    let expected =
        ("attempt 1".to_owned(), Kind::Client, 0, 70, Some("nobody waited for the answer any more".to_owned()));
    assert_eq!(drawn(&left), [expected]);
    let hit = record(&[(2, What::FromStore { how: Cached::Hit })], 2);
    assert_eq!(drawn(&hit), [("cache hit".to_owned(), Kind::Internal, 0, 2, None)]);
}

#[test]
fn every_wait_that_is_drawn_is_on_the_page() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tracing.md")).unwrap();
    for on in
        [Awaited::Token, Awaited::Own, Awaited::Hold, Awaited::Place, Awaited::Probe, Awaited::Retry, Awaited::Equal]
    {
        let waited = record(&[(10, What::Waited { on, how_long: ms(10) })], 10);
        let span = spans(&waited, None).remove(1);
        for told in [span.name.to_string(), said(&span, "sopan.wait.for").unwrap()] {
            assert!(page.contains(&format!("`{told}`")), "{told}");
        }
    }
}
