//! The client for programs: JSON or a clear error, and all the patience of a job that would rather wait than fail.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use sopan_core::policy::RetryPolicy;
use sopan_engine::clock::Clock;
use sopan_engine::event::Unobserved;
use sopan_engine::exchange::{self, End, Inbound, Sink};
use sopan_engine::jitter::Jitter;
use sopan_engine::{ApiClient, Dial, Error, Stream, Surroundings};
use sopan_fake::script::{Answer, Request, Upstream};
use sopan_fake::{FakeApi, Settings};
use tokio::time::Instant;

use crate::support::log::Log;
use crate::support::{Bench, SECOND, get, is_just, is_within, ms, now, s, wall};

/// Connects to the fake API in memory.
pub(crate) struct ToApi(pub(crate) Arc<FakeApi>);

/// Connects to a scripted upstream in memory.
pub(crate) struct ToScript(pub(crate) Arc<Upstream>);

impl Dial for ToApi {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>> {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tokio::spawn(Arc::clone(&self.0).serve_io(theirs));
        Box::pin(async move { Ok(Stream::Other(Box::new(ours))) })
    }
}

impl Dial for ToScript {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>> {
        let stream = self.0.connect();
        Box::pin(async move { Ok(Stream::Other(Box::new(stream))) })
    }
}

impl fmt::Debug for ToApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToApi")
    }
}

impl fmt::Debug for ToScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToScript")
    }
}

pub(crate) fn policy() -> RetryPolicy {
    RetryPolicy { jitter: 0.0, ..RetryPolicy::default() }
}

pub(crate) fn around(dial: impl Dial) -> Surroundings {
    Surroundings {
        clock: Clock::paused(wall()),
        jitter: Jitter::seeded(1),
        observer: Arc::new(Unobserved),
        dial: Some(Arc::new(dial)),
        state: None,
        ..Surroundings::default()
    }
}

pub(crate) fn builder(dial: impl Dial) -> sopan_engine::Builder {
    ApiClient::builder("http://api.test").unwrap().retry(policy()).surroundings(around(dial))
}

/// The fake API with these settings, and a client of it.
pub(crate) fn fake(change: impl FnOnce(&mut Settings)) -> (Arc<FakeApi>, ApiClient) {
    let mut settings = Settings { wall_start: Some(wall()), ..Settings::default() };
    change(&mut settings);
    let api = FakeApi::new(settings);
    let client = builder(ToApi(Arc::clone(&api))).build().unwrap();
    (api, client)
}

pub(crate) fn scripted(
    script: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    change: impl FnOnce(sopan_engine::Builder) -> sopan_engine::Builder,
) -> (Arc<Upstream>, ApiClient) {
    let upstream = Arc::new(Upstream::in_process(script));
    let client = change(builder(ToScript(Arc::clone(&upstream)))).build().unwrap();
    (upstream, client)
}

pub(crate) fn statuses(api: &FakeApi) -> Vec<u16> {
    api.log().into_iter().map(|entry| entry.status.unwrap_or(0)).collect()
}

const ORDERS: &str = "/api/v1/orders?page=1";

async fn orders(client: &ApiClient) -> Result<serde_json::Value, Error> {
    client.get_json(ORDERS).await
}

/// Transient with this text and status.
#[track_caller]
pub(crate) fn is_transient<T: fmt::Debug>(result: Result<T, Error>, text: &str, code: Option<u16>) {
    match result {
        Err(error @ Error::Transient { status, .. }) => {
            assert_eq!((error.to_string().as_str(), status.map(|s| s.as_u16())), (text, code));
        }
        other => panic!("not transient: {other:?}"),
    }
}

/// Permanent with this text and status.
#[track_caller]
pub(crate) fn is_permanent<T: fmt::Debug>(result: Result<T, Error>, text: &str, code: Option<u16>) {
    match result {
        Err(error @ Error::Permanent { status, .. }) => {
            assert_eq!((error.to_string().as_str(), status.map(|s| s.as_u16())), (text, code));
        }
        other => panic!("not permanent: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_429_costs_one_wait_and_one_warning() {
    let log = Log::keep();
    let (api, client) = fake(|settings| settings.rate_limit_first = 1);
    let begun = now();
    let page = orders(&client).await.unwrap();
    is_just(now() - begun, SECOND);
    assert_eq!((page["page"].as_u64(), page["data"].as_array().map(Vec::len)), (Some(1), Some(50)));
    assert_eq!(statuses(&api), [429, 200]);
    assert_eq!(log.warnings(), ["attempt 1 failed (HTTP 429); waiting 1.00 s before retrying"]);
}

#[tokio::test(start_paused = true)]
async fn two_failures_are_overcome() {
    let (api, client) = fake(|settings| settings.fail_first = 2);
    let begun = now();
    assert!(orders(&client).await.is_ok());
    is_within(now() - begun, ms(1_500), ms(1_503));
    assert_eq!(statuses(&api), [500, 500, 200]);
}

#[tokio::test(start_paused = true)]
async fn failures_without_end_are_a_transient_error_after_three_warnings() {
    let log = Log::keep();
    let (api, client) = fake(|settings| settings.fail_first = 9);
    let text = "HTTP 500 from http://api.test/api/v1/orders?page=…; limit of 3 retries reached";
    is_transient(orders(&client).await, text, Some(500));
    assert_eq!(statuses(&api), [500; 4]);
    let expected: Vec<_> = [(1, "0.50"), (2, "1.00"), (3, "2.00")]
        .map(|(attempt, wait)| format!("attempt {attempt} failed (HTTP 500); waiting {wait} s before retrying"))
        .into();
    assert_eq!(log.warnings(), expected);
}

#[tokio::test(start_paused = true)]
async fn every_fault_of_the_way_is_overcome() {
    type Change = fn(&mut Settings);
    for (name, change) in [
        ("before the head", (|s| s.drop_before_head_first = 1) as Change),
        ("in the head", |s| s.drop_in_head_first = 1),
        ("after the head", |s| s.drop_after_head_first = 1),
        ("in the body", |s| s.truncate_first = 2),
        ("one after the other", |s| (s.rate_limit_first, s.fail_first, s.truncate_first) = (1, 1, 1)),
    ] {
        let (api, client) = fake(change);
        let page = orders(&client).await;
        assert_eq!(page.unwrap()["data"].as_array().map(Vec::len), Some(50), "{name}: {:?}", statuses(&api));
        assert!(statuses(&api).len() > 1, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_off_every_time_is_a_transient_error() {
    let log = Log::keep();
    let cut = |_: &Request| Answer::status(200).header("Content-Length", "100").send("{\"half\":").close();
    let (upstream, client) = scripted(cut, |builder| builder);
    let Err(error @ Error::Transient { status: None, .. }) = client.get_json::<serde_json::Value>("/x").await else {
        panic!("not transient")
    };
    let (text, end) = (error.to_string(), ", for http://api.test/x; limit of 3 retries reached");
    let broken = text.strip_suffix(end).expect(&text);
    assert!(broken.starts_with("answer broken off: "), "{broken}");
    assert_eq!(upstream.arrivals(), 4);
    assert_eq!(log.warnings()[0], format!("attempt 1 failed ({broken}); waiting 0.50 s before retrying"));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_falls_silent_is_asked_for_again() {
    let script = |request: &Request| match request.number {
        1 => Answer::chunked(200).chunk("{\"half\":").hang(),
        _ => Answer::json(200, "[1]"),
    };
    let (upstream, client) = scripted(script, |builder| builder);
    assert_eq!(client.get_json::<Vec<u8>>("/x").await.unwrap(), [1]);
    is_within(upstream.request(2).first_byte_at - upstream.request(1).first_byte_at, ms(60_500), ms(60_505));
}

#[tokio::test(start_paused = true)]
async fn what_waiting_does_not_mend_is_a_permanent_error() {
    let script = |request: &Request| match &*request.target {
        "/moved" => Answer::status(301).header("Location", "https://api.test/new?key=secret&page=2"),
        "/long" => Answer::json(200, "[1, 2, 3, 4]"),
        "/fits" => Answer::json(200, "[1, 2, 34]"),
        "/html" => Answer::status(200).body("<html>"),
        "/other" => Answer::json(200, "{\"a\":1}"),
        "/empty" => Answer::status(204),
        "/422" => Answer::json(422, "{\"error\":\n \"size is at most\u{202e} 100\"}"),
        target => Answer::json(target[1..4].parse().unwrap(), "{}"),
    };
    let (upstream, client) = scripted(script, |builder| builder.body_bytes_max(10));
    for (path, text, status) in [
        ("/404", "HTTP 404 from http://api.test/404", Some(404)),
        (
            "/422",
            "HTTP 422 from http://api.test/422; it says: {\"error\": \"size is at most\\u{202e} 100\"}",
            Some(422),
        ),
        ("/400?token=secret&page=1", "HTTP 400 from http://api.test/400?token=…&page=…", Some(400)),
        (
            "/moved",
            "HTTP 301 from http://api.test/moved; redirects are not followed, use https://api.test/new?key=…&page=… \
             instead if that is right",
            Some(301),
        ),
        (
            "/long",
            "the answer from http://api.test/long cannot be used: it is longer than 10 bytes (body_bytes_max)",
            None,
        ),
        (
            "/html",
            "the answer from http://api.test/html is not the JSON that was expected: expected value at line 1 column 1",
            None,
        ),
        (
            "/other",
            "the answer from http://api.test/other is not the JSON that was expected: invalid type: map, expected a \
             sequence at line 1 column 0",
            None,
        ),
        (
            "/empty",
            "the answer from http://api.test/empty is not the JSON that was expected: EOF while parsing a value at \
             line 1 column 0",
            None,
        ),
    ] {
        let before = upstream.arrivals();
        is_permanent(client.get_json::<Vec<u32>>(path).await, text, status);
        assert_eq!(upstream.arrivals() - before, 1, "{path}");
    }
    assert_eq!(client.get_json::<Vec<u32>>("/fits").await.unwrap(), [1, 2, 34]);
    let before = upstream.arrivals();
    for path in ["orders", "", "http://elsewhere.test/x"] {
        let text = format!("`{path}` is not a path; write for example /orders?page=1");
        is_permanent(client.get_json::<Vec<u32>>(path).await, &text, None);
    }
    let text = "`orders?key=…` is not a path; write for example /orders?page=1";
    is_permanent(client.get_json::<Vec<u32>>("orders?key=secret").await, text, None);
    assert_eq!(upstream.arrivals(), before);
    // A server's own error that is not repeated may pass all the same.
    is_transient(client.get_json::<Vec<u32>>("/501").await, "HTTP 501 from http://api.test/501", Some(501));
}

#[tokio::test(start_paused = true)]
async fn what_waiting_may_mend_is_a_transient_error() {
    let script = |request: &Request| match &*request.target {
        "/limited" => Answer::status(429).header("Retry-After", "1"),
        "/closed" => Answer::status(503).header("Retry-After", "3600"),
        "/lost" => Answer::raw("HTTP/1.1 2").close(),
        "/silent" => Answer::nothing().hang(),
        target => Answer::status(target[1..4].parse().unwrap()),
    };
    for (path, text, status) in [
        ("/limited", "HTTP 429 from http://api.test/limited; limit of 1 retry reached", Some(429)),
        (
            "/closed",
            "HTTP 503 from http://api.test/closed; asked to wait 3600.00 s, which is above max_retry_after of 60.00 s",
            Some(503),
        ),
        ("/408", "HTTP 408 from http://api.test/408; limit of 1 retry reached", Some(408)),
        (
            "/silent",
            "timed out, for http://api.test/silent; another attempt was cut off when the time for the whole request \
             (total_timeout) was over",
            None,
        ),
    ] {
        let (_, client) = scripted(script, |builder| builder.retry(RetryPolicy { max_retries: 1, ..policy() }));
        is_transient(client.get_json::<Vec<u32>>(path).await, text, status);
    }
    let (_, client) = scripted(script, |builder| builder);
    let Err(error @ Error::Transient { status: None, .. }) = client.get_json::<Vec<u32>>("/lost").await else {
        panic!("not transient")
    };
    let text = error.to_string();
    assert!(text.starts_with("connection broken: "), "{text}");
    assert!(text.ends_with(", for http://api.test/lost; limit of 3 retries reached"), "{text}");
}

/// Makes no connection.
#[derive(Debug)]
struct Nowhere(fn() -> io::Error);

impl Dial for Nowhere {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>> {
        Box::pin(async { Err(self.0()) })
    }
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_cannot_be_reached_is_a_transient_error() {
    let end = ", for http://api.test/x; limit of 3 retries reached";
    let client = builder(Nowhere(|| io::ErrorKind::ConnectionRefused.into())).build().unwrap();
    let text = format!("connection failed: connection refused{end}");
    is_transient(client.get_json::<Vec<u32>>("/x").await, &text, None);
    let client = builder(Nowhere(|| io::Error::new(io::ErrorKind::NotFound, "no such name"))).build().unwrap();
    is_transient(client.get_json::<Vec<u32>>("/x").await, &format!("connection failed: no such name{end}"), None);
}

#[tokio::test(start_paused = true)]
async fn a_certificate_that_is_not_accepted_is_a_permanent_error() {
    let unknown = || io::Error::other(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer));
    let client = builder(Nowhere(unknown)).build().unwrap();
    let text = "connection failed: invalid peer certificate: it is signed by nobody that is trusted, perhaps \
                by itself; add its authority to those that are (ca_file), for http://api.test/x";
    is_permanent(client.get_json::<Vec<u32>>("/x").await, text, None);
}

#[tokio::test(start_paused = true)]
async fn the_status_of_an_error_is_the_upstreams() {
    // Its answer cannot be kept, and no other comes in time: what sopan says instead has a status of its own.
    let script = |request: &Request| match request.number {
        1 => Answer::status(429).header("Retry-After", "1").body(vec![b'x'; 100_000]),
        _ => Answer::nothing().hang(),
    };
    let short = RetryPolicy { total_timeout: Some(s(5)), ..policy() };
    let (_, client) = scripted(script, |builder| builder.retry(short));
    let text = "HTTP 429 from http://api.test/x; another attempt was cut off when the time for the whole request \
                (total_timeout) was over";
    is_transient(client.get_json::<Vec<u32>>("/x").await, text, Some(429));
}

#[tokio::test(start_paused = true)]
async fn json_is_asked_for_and_nothing_else_is_said() {
    let (upstream, client) = scripted(|_| Answer::json(200, "[]"), |builder| builder);
    client.get_json::<Vec<u32>>("/x?a=b").await.unwrap();
    let request = upstream.request(1);
    let fields: Vec<_> = request.fields.iter().map(|(name, value)| (name.to_lowercase(), &**value)).collect();
    let expected = [("accept".to_owned(), "application/json"), ("host".to_owned(), "api.test")];
    let mut fields = fields;
    fields.sort();
    assert_eq!((&*request.target, &fields[..]), ("/x?a=b", &expected[..]));
}

#[tokio::test(start_paused = true)]
async fn fields_of_the_caller_go_with_every_request() {
    let script = |request: &Request| if request.number == 1 { Answer::status(500) } else { Answer::json(200, "[]") };
    let fields =
        [("Authorization", "Bearer 7"), ("X-Tag", "a"), ("X-Tag", "t\u{fc}k"), ("Accept", "application/hal+json")];
    let (upstream, client) =
        scripted(script, |builder| fields.iter().fold(builder, |b, (name, value)| b.header(name, value).unwrap()));
    for _ in 0..2 {
        client.get_json::<Vec<u32>>("/x").await.unwrap();
    }
    for request in upstream.requests() {
        assert_eq!((request.field("authorization"), request.field("accept")), (Some("Bearer 7"), Some(fields[3].1)));
        assert_eq!((request.fields_named("x-tag"), request.fields.len()), (vec!["a", fields[2].1], 5));
    }
    assert_eq!(upstream.arrivals(), 3);
}

#[test]
fn a_field_that_is_not_the_callers_to_set_is_refused_with_the_reason() {
    let no_name = "the name of a field holds a character that no name can hold; write for example X-Api-Key";
    let how = "cannot be set: it is told by how a request is sent";
    for (name, value, error) in [
        ("Host", "elsewhere", format!("`host` {how}")),
        ("Content-Length", "5", format!("`content-length` {how}")),
        ("transfer-encoding", "chunked", format!("`transfer-encoding` {how}")),
        ("Connection", "close", format!("`connection` {how}")),
        ("Bearer SECRET", "Authorization", no_name.to_owned()),
        ("X-Key", "1\r\nHost: x", "the value for `x-key` holds a line break or another control character".to_owned()),
    ] {
        is_permanent(ApiClient::builder("http://api.test").unwrap().header(name, value), &error, None);
    }
}

fn seconds_since(begun: Instant) -> u64 {
    (now() - begun).as_secs()
}

#[tokio::test(start_paused = true)]
async fn waits_for_turns_and_holds_do_not_count_in_the_time_of_a_request() {
    let ten = RetryPolicy { total_timeout: Some(s(10)), ..policy() };
    // Turns: the third comes after a minute.
    let (_, client) =
        scripted(|_| Answer::json(200, "[]"), |builder| builder.retry(ten.clone()).limit("2/min".parse().unwrap()));
    let begun = now();
    let all = (0..3).map(|_| client.clone()).map(|c| tokio::spawn(async move { c.get_json::<Vec<u32>>("/x").await }));
    for got in all.collect::<Vec<_>>() {
        got.await.unwrap().unwrap();
    }
    assert_eq!(seconds_since(begun), 60);
    // Holds: three of 8 s each.
    let limited = |request: &Request| match request.number {
        1..=3 => Answer::status(429).header("Retry-After", "8"),
        _ => Answer::json(200, "[]"),
    };
    let (_, client) = scripted(limited, |builder| builder.retry(ten.clone()));
    let begun = now();
    client.get_json::<Vec<u32>>("/x").await.unwrap();
    assert_eq!(seconds_since(begun), 24);
    // Somebody else's hold.
    let begun = now();
    let (upstream, client) = scripted(
        |request| match &*request.target {
            "/told" => Answer::status(429).header("Retry-After", "50"),
            _ => Answer::json(200, "[]"),
        },
        |builder| builder.retry(RetryPolicy { max_retries: 0, ..ten.clone() }),
    );
    client.get_json::<Vec<u32>>("/told").await.unwrap_err();
    client.get_json::<Vec<u32>>("/x").await.unwrap();
    assert_eq!((seconds_since(begun), upstream.arrivals()), (50, 2));
    // What the upstream takes, and waits after its failures, do count.
    let failing = |_: &Request| Answer::status(500).after(s(3));
    let (upstream, client) = scripted(failing, |builder| builder.retry(ten));
    let begun = now();
    let text = "HTTP 500 from http://api.test/x; another attempt was cut off when the time for the whole request \
                (total_timeout) was over";
    is_transient(client.get_json::<Vec<u32>>("/x").await, text, Some(500));
    assert_eq!((seconds_since(begun), upstream.arrivals()), (10, 3));
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_beyond_the_time_that_is_left_ends_the_request_at_once() {
    // Waiting for turns and holds does not use up that time, but it says how much more waiting the caller has in mind.
    for (retry_after, waits) in [("8", true), ("12", false)] {
        let limited = move |request: &Request| match request.number {
            1 => Answer::status(429).header("Retry-After", retry_after),
            _ => Answer::json(200, "[]"),
        };
        let ten = RetryPolicy { total_timeout: Some(s(10)), ..policy() };
        let (_, client) = scripted(limited, |builder| builder.retry(ten));
        let begun = now();
        let got = client.get_json::<Vec<u32>>("/x").await;
        assert_eq!((got.is_ok(), seconds_since(begun)), (waits, if waits { 8 } else { 0 }), "{retry_after}");
    }
}

#[tokio::test(start_paused = true)]
async fn pages_are_read_one_after_the_other_and_a_429_among_them_costs_one_wait() {
    let (api, client) = fake(|settings| {
        settings.limits = vec![sopan_fake::Limit::Quota { count: 2, span: s(10) }];
    });
    let mut path = "/api/v1/orders?page=1&size=50".to_owned();
    let (begun, mut ids) = (now(), Vec::new());
    loop {
        let page: serde_json::Value = client.get_json(&path).await.unwrap();
        ids.extend(page["data"].as_array().unwrap().iter().map(|order| order["id"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        path = next.to_owned();
    }
    assert_eq!((ids.len(), statuses(&api)), (120, vec![200, 200, 429, 200]));
    assert!((5..=11).contains(&seconds_since(begun)), "{}", seconds_since(begun));
    ids.dedup();
    assert_eq!(ids.len(), 120);
}

#[tokio::test(start_paused = true)]
async fn clones_share_their_turns() {
    let (upstream, client) = scripted(|_| Answer::json(200, "[]"), |builder| builder.limit("1/s".parse().unwrap()));
    let begun = now();
    for _ in 0..3 {
        client.clone().get_json::<Vec<u32>>("/x").await.unwrap();
    }
    assert_eq!((seconds_since(begun), upstream.arrivals()), (2, 3));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_refused_by_its_own_lane_may_try_later() {
    let (_, client) = scripted(
        |_| Answer::json(200, "[]"),
        |builder| builder.limit("1/s".parse().unwrap()).settings(|settings| settings.lane.waiting_max = 0),
    );
    client.get_json::<Vec<u32>>("/x").await.unwrap();
    let text = "queue full: 0 requests wait already (waiting_max), for http://api.test/x";
    is_transient(client.get_json::<Vec<u32>>("/x").await, text, None);
}

#[tokio::test(start_paused = true)]
async fn settings_that_cannot_be_kept_are_all_named() {
    let wrong = RetryPolicy { max_retries: 5_000, jitter: 2.0, ..policy() };
    let refused = builder(ToApi(FakeApi::new(Settings::default()))).retry(wrong).settings(|settings| {
        settings.idle_timeout = s(0);
        settings.lane.max_in_flight = Some(0);
    });
    let text = refused.build().unwrap_err().to_string();
    for key in ["max_retries is 5000", "jitter is 2", "idle_timeout is zero", "max_in_flight is 0"] {
        assert!(text.contains(key), "{text}");
    }
    let error = ApiClient::builder("ftp://api.test").unwrap_err();
    assert!(matches!(error, Error::Permanent { .. }), "{error:?}");
}

/// Writes down what happens to it; fails at a piece that it was told of.
#[derive(Default)]
struct Notes {
    begun: usize,
    text: String,
    fails_at: Option<&'static str>,
}

impl Sink for Notes {
    fn restart(&mut self) -> io::Result<()> {
        self.begun += 1;
        self.text.clear();
        Ok(())
    }

    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        let piece = String::from_utf8_lossy(piece);
        if Some(&*piece) == self.fails_at {
            return Err(io::Error::other("disk full"));
        }
        self.text += &piece;
        Ok(())
    }
}

async fn collect(bench: &Bench, sink: &mut Notes) -> io::Result<(u16, End, String)> {
    let inbound =
        Inbound { request: get("/x"), client: sopan_core::queue::ClientId(1), weight: 1, interims: None, hop: None };
    let answer = exchange::collect(&bench.engine, inbound, sink).await?;
    let status = answer.response.status().as_u16();
    let end = answer.end.clone();
    let rest = http_body_util::BodyExt::collect(answer.response.into_body()).await.unwrap().to_bytes();
    Ok((status, end, String::from_utf8(rest.to_vec()).unwrap()))
}

#[tokio::test(start_paused = true)]
async fn a_sink_gets_the_whole_answer_and_begins_anew_with_every_attempt() {
    let script = |request: &Request| match request.number {
        1 => Answer::chunked(200).chunk("ha").sleep(ms(100)).chunk("lf").close(),
        2 => Answer::json(500, "not for the sink"),
        _ => Answer::chunked(200).chunk("who").sleep(ms(100)).chunk("le").end(),
    };
    let bench = Bench::new(script, |settings| settings.lane.max_in_flight = Some(1));
    let mut sink = Notes::default();
    assert_eq!(collect(&bench, &mut sink).await.unwrap(), (200, End::Done, String::new()));
    assert_eq!((sink.begun, &*sink.text, bench.upstream.arrivals()), (2, "whole", 3));
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn what_is_no_success_does_not_go_to_the_sink() {
    for (status, ends) in [(404, End::Done), (301, End::Done)] {
        let bench = Bench::new(move |_| Answer::json(status, "no"), |_| {});
        let mut sink = Notes::default();
        assert_eq!(collect(&bench, &mut sink).await.unwrap(), (status, ends, "no".to_owned()));
        assert_eq!((sink.begun, &*sink.text), (0, ""));
        bench.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_fails_ends_it_and_closes_what_was_not_read() {
    let script = |_: &Request| Answer::chunked(200).chunk("one").sleep(ms(100)).chunk("two").sleep(s(9)).end();
    let bench = Bench::new(script, |_| {});
    let mut sink = Notes { fails_at: Some("two"), ..Notes::default() };
    assert_eq!(collect(&bench, &mut sink).await.unwrap_err().to_string(), "disk full");
    is_within(bench.gone(1).await, ms(100), ms(102));
    assert_eq!((&*sink.text, bench.upstream.arrivals()), ("one", 1));
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn a_body_without_end_is_bounded_by_its_silence_alone() {
    let script = |_: &Request| (0..50).fold(Answer::chunked(200), |answer, _| answer.chunk("x").sleep(s(5))).end();
    let bench = Bench::new(script, |settings| settings.idle_timeout = s(6));
    let mut sink = Notes::default();
    assert_eq!(collect(&bench, &mut sink).await.unwrap().0, 200);
    assert_eq!(sink.text.len(), 50);
}

#[tokio::test(start_paused = true)]
async fn what_runs_beside_an_upstream_ends_with_it() {
    let settings = sopan_engine::Settings::new(sopan_engine::Target::parse("http://api.test").unwrap());
    let (upstream, background) = sopan_engine::Upstream::start(settings, Surroundings::default()).unwrap();
    let background = tokio::spawn(background);
    tokio::time::sleep(s(100)).await;
    assert!(!background.is_finished());
    drop(upstream);
    tokio::time::timeout(s(60), background).await.unwrap().unwrap();
}
