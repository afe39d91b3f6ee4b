//! What sopan says when it answers by itself.

use std::sync::Arc;

use http::Request;
use sopan_core::access::{Barred, NotAllowed};
use sopan_core::queue::ClientId;
use sopan_core::safety::Denied;
use sopan_engine::Settings;
use sopan_engine::clock::Clock;
use sopan_engine::exchange::{Astray, Nowhere};
use sopan_fake::script::{self, Answer};
use tracing::Level;

use crate::support::lines::Line;
use crate::support::log::Log;
use crate::support::{Bench, Got, Seen, get, ms, now, request, s, wall};

fn fine(_: &script::Request) -> Answer {
    Answer::json(200, "{}")
}

/// An answer of sopan's own: its kind, its error type of RFC 9209, whether it says when to come again.
#[track_caller]
fn check(got: &Got, status: u16, kind: &str, error: &str, retry_after: bool) {
    let problem = got.problem();
    assert_eq!(got.status(), status, "{problem}");
    assert_eq!(problem["type"], format!("urn:sopan:{kind}"));
    assert_eq!(
        (&problem["status"], got.field("proxy-status")),
        (&status.into(), Some(&*format!("sopan; error={error}")))
    );
    assert_eq!(problem["title"], got.response.status().canonical_reason().unwrap());
    assert_eq!(got.field("retry-after").is_some(), retry_after, "{problem}");
    if retry_after {
        assert!(got.retry_after() >= 1);
    }
    let text = got.text();
    assert!(!text.contains("upstream.test") && !text.contains("secret"), "{text}");
    assert!(!got.detail().ends_with('.'), "{text}");
    assert!(got.field("server-timing").is_some());
}

fn one_an_hour(settings: &mut Settings) {
    settings.lane.limits = vec!["1/h".parse().unwrap()];
}

#[tokio::test(start_paused = true)]
async fn the_lane_says_why_and_when_to_come_again() {
    let bench = Bench::new(fine, one_an_hour);
    bench.get("/x").await;
    let got = bench.get("/x?key=secret").await;
    check(&got, 503, "wait-too-long", "proxy_internal_response", true);
    let bench = Bench::new(fine, |settings| {
        one_an_hour(settings);
        settings.lane.waiting_max = 0;
    });
    bench.get("/x").await;
    check(&bench.get("/x?key=secret").await, 503, "queue-full", "proxy_internal_response", true);
    let bench = Bench::new(fine, |settings| {
        settings.lane.limits = vec!["1/min".parse().unwrap()];
        settings.lane.wait_max = None;
        settings.retry.total_timeout = None;
        settings.lane.queue_bytes_max = 50;
    });
    bench.get("/x").await;
    let _waits = bench.spawn(get("/waits"));
    tokio::task::yield_now().await;
    let got = bench.get(&format!("/{}?key=secret", "x".repeat(100))).await;
    check(&got, 503, "queue-full", "proxy_internal_response", true);
    assert!(got.detail().ends_with("bytes already (queue_bytes_max)"), "{}", got.detail());
    let bench = Bench::new(
        |_| Answer::status(500),
        |settings| {
            settings.breaker.on = true;
            (settings.breaker.failures, settings.breaker.min_span) = (1, s(0));
            settings.retry.max_retries = 0;
        },
    );
    bench.get("/x").await;
    check(&bench.get("/x?key=secret").await, 503, "breaker-open", "destination_unavailable", true);
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_the_upstream_is_told_without_its_inner_name() {
    let limits = |settings: &mut Settings| {
        settings.retry.max_retries = 0;
        settings.retry.attempt_timeout = s(1);
    };
    for (answer, status, kind, error) in [
        (Answer::nothing().close(), 502, "upstream-failed", "connection_terminated"),
        (Answer::raw("secret\r\n\r\n").close(), 502, "upstream-failed", "http_protocol_error"),
        (Answer::nothing().hang(), 504, "upstream-timeout", "http_response_timeout"),
        (
            Answer::raw(format!("HTTP/1.1 200 OK\r\n{}\r\n", "X-Many: secret\r\n".repeat(101))).close(),
            502,
            "upstream-failed",
            "http_response_header_section_size",
        ),
    ] {
        let bench = Bench::new(move |_| answer.clone(), limits);
        check(&bench.get("/x?key=secret").await, status, kind, error, false);
    }
    for (plan, status, kind, error) in [
        ((|_| Line::Refused) as fn(usize) -> Line, 502, "upstream-failed", "connection_refused"),
        (|_| Line::Unresolvable, 502, "upstream-failed", "dns_error"),
        (|_| Line::Hangs, 504, "upstream-timeout", "connection_timeout"),
        (|_| Line::Dead, 502, "upstream-failed", "connection_terminated"),
    ] {
        let bench = Bench::over(plan, fine, limits);
        check(&bench.get("/x?key=secret").await, status, kind, error, false);
    }
    let bench = Bench::new(|_| Answer::nothing().hang(), |settings| settings.retry.total_timeout = Some(ms(500)));
    check(&bench.get("/x?key=secret").await, 504, "total-timeout", "http_response_timeout", false);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_passed_on_is_refused_before_anything_is_sent() {
    let bench = Bench::new(fine, |_| {});
    let mut connect = request("CONNECT", "/", "");
    *connect.uri_mut() = "example.com:443".parse().unwrap();
    let got = bench.send(connect).await;
    check(&got, 501, "unsupported", "http_request_error", false);
    assert_eq!((got.detail(), bench.lines.dialled()), ("CONNECT is not passed on".to_owned(), 0));
}

#[tokio::test(start_paused = true)]
async fn a_head_may_be_64_kib_and_no_more() {
    for (length, is_passed_on) in [(65_000, true), (70_000, false)] {
        let bench = Bench::new(fine, |_| {});
        let mut long = get("/x");
        long.headers_mut().insert("x-long", "x".repeat(length).parse().unwrap());
        let got = bench.send(long).await;
        assert_eq!(bench.upstream.arrivals(), usize::from(is_passed_on));
        if !is_passed_on {
            check(&got, 431, "head-too-large", "http_request_error", false);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_belongs_to_the_request_reaches_the_upstream() {
    let bench = Bench::new(fine, |_| {});
    let mut inbound = get("http://elsewhere.test:99/a//b?x=%2f");
    for (name, value) in [
        ("connection", "keep-alive, X-Hop"),
        ("x-hop", "1"),
        ("host", "elsewhere.test"),
        ("proxy-authorization", "Basic secret"),
        ("te", "gzip"),
        ("x-end", "2"),
    ] {
        inbound.headers_mut().insert(name, value.parse().unwrap());
    }
    assert_eq!(bench.send(inbound).await.status(), 200);
    let request = bench.upstream.request(1);
    assert_eq!((&*request.target, request.field("host")), ("/a//b?x=%2f", Some("upstream.test")));
    let mut names: Vec<_> = request.fields.iter().map(|(name, _)| name.to_lowercase()).collect();
    names.sort();
    assert_eq!(names, ["host", "x-end"]);
    bench.is_at_rest();
}

/// It is no exchange, and yet it is answered, counted and logged like one.
#[tokio::test(start_paused = true)]
async fn what_goes_to_no_upstream_is_told_why() {
    let (seen, log) = (Arc::<Seen>::default(), Log::keep());
    let nowhere = Nowhere::new(Clock::paused(wall()), Arc::clone(&seen) as _);
    let (host, site) = (Astray::Denied(Denied::Host), Astray::Denied(Denied::CrossSite));
    let (denied, not_found) = ("http_request_denied", "destination_not_found");
    for (method, forwards, why, status, kind, error) in [
        ("GET", None, host, 421, "misdirected", denied),
        ("GET", None, site, 403, "cross-site", denied),
        // Who is not let in is not answered in another way either.
        ("TRACE", Some("0"), host, 421, "misdirected", denied),
        ("TRACE", Some("0"), Astray::Barred(Barred::UnknownKey), 401, "key-unknown", denied),
        ("GET", None, Astray::Barred(Barred::NotAllowed(NotAllowed::Upstream)), 403, "not-allowed", denied),
        ("POST", None, Astray::NoRoute, 404, "no-route", not_found),
        ("TRACE", Some("1"), Astray::NoRoute, 404, "no-route", not_found),
        // Whoever takes sopan for a proxy of the other kind is told so.
        ("CONNECT", None, Astray::NoRoute, 501, "unsupported", "http_request_error"),
        ("CONNECT", None, host, 501, "unsupported", "http_request_error"),
    ] {
        let mut request = Request::builder().method(method).uri("http://h/x?key=secret");
        if let Some(hops) = forwards {
            request = request.header("Max-Forwards", hops);
        }
        let (request, ()) = request.body(()).unwrap().into_parts();
        let got = Got::read(nowhere.answer(request, ClientId(1), why), now()).await;
        check(&got, status, kind, error, false);
        if why == host && status == 421 {
            assert!(got.detail().contains("--host NAME"), "{}", got.detail());
        }
    }
    let (request, ()) =
        Request::builder().method("TRACE").uri("/x").header("Max-Forwards", "0").body(()).unwrap().into_parts();
    let got = Got::read(nowhere.answer(request, ClientId(1), Astray::NoRoute), now()).await;
    assert_eq!((got.status(), got.text()), (200, "TRACE /x HTTP/1.1\r\nmax-forwards: 0\r\n\r\n"));
    let told: Vec<_> = seen.ended().into_iter().map(|ended| (ended.what, ended.refused, ended.whole)).collect();
    assert_eq!(told.len(), 10);
    assert_eq!(told[5], ("POST http://h/x?key=secret 404".to_owned(), Some("no-route"), true));
    assert_eq!((told[9].1, seen.outcomes()), (Some("max-forwards"), Vec::new()));
    // Others for the same reason come too soon after the first to have a line of their own.
    let entries = log.entries();
    let reasons: Vec<_> = entries.iter().map(|entry| &*entry.fields["reason"]).collect();
    assert_eq!(reasons, ["misdirected", "cross-site", "key-unknown", "not-allowed", "no-route", "unsupported"]);
    assert!(
        entries.iter().all(|entry| entry.level == Level::WARN && entry.fields["upstream"] == "none"),
        "{entries:?}"
    );
    let first = &entries[0].message;
    assert!(first.starts_with("GET http://h/x?key=… refused: the request is for a host"), "{first}");
}
