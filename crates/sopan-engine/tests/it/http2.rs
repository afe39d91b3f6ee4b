//! Upstreams that speak HTTP/2: many requests on one connection, and for each of them the same rules as for HTTP/1.1.

mod faults;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server;
use http::{HeaderMap, Method, Response};
use http_body::Frame;
use http_body_util::BodyExt as _;
use sopan_core::queue::ClientId;
use sopan_engine::Interims;
use sopan_engine::body::{BodyError, Source};
use sopan_engine::exchange::{self, Inbound};
use tokio::time::sleep;

use crate::support::http2::{Asked, Http2, Line, Then};
use crate::support::{Bench, SECOND, get, is_just, is_within, leave_after, ms, noise, now, request, s, settled};

#[tokio::test(start_paused = true)]
async fn many_requests_share_a_connection_and_look_as_http_2_wants_them() {
    let upstream = Http2::new(|asked: Asked| asked.slow(ms(100)));
    let bench = Bench::shared(&upstream, |_| {});
    for got in bench.crowd(30) {
        let got = got.await.unwrap();
        assert_eq!((got.status(), got.text()), (200, "{}"));
        assert_eq!(got.response.version(), http::Version::HTTP_11);
        is_within(got.head_at, ms(100), ms(102));
    }
    let mut with_fields = request("OPTIONS", "*", "");
    for (name, value) in [("connection", "x-hop"), ("x-hop", "1"), ("keep-alive", "5"), ("cookie", "a=b"), ("x-a", "1")]
    {
        with_fields.headers_mut().insert(name, value.parse().unwrap());
    }
    with_fields.headers_mut().append("x-a", "2".parse().unwrap());
    bench.send(with_fields).await;
    bench.send(request("PROPFIND", "/a//b?c=%2f", "four")).await;
    assert_eq!((upstream.dialled(), bench.upstream.arrivals()), ((1, 0), 0));

    let arrived = upstream.arrived();
    assert_eq!(arrived[0].uri, "https://upstream.test/v2/0");
    let [.., options, other] = &arrived[..] else { panic!("{arrived:?}") };
    let names: Vec<_> =
        options.fields.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    assert_eq!(
        (options.method.as_str(), &names[..]),
        ("OPTIONS", &["cookie: a=b", "x-a: 1", "x-a: 2"].map(str::to_owned)[..])
    );
    assert!(options.uri.ends_with('*'), "{}", options.uri);
    assert_eq!((other.method.as_str(), &*other.uri), ("PROPFIND", "https://upstream.test/v2/a//b?c=%2f"));
    assert_eq!(other.fields["content-length"], "4");
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn another_connection_is_made_where_the_first_is_full() {
    let mut builder = server::Builder::new();
    builder.max_concurrent_streams(2);
    let upstream = Http2::over(|_| Line::Open, builder, |asked: Asked| asked.slow(SECOND));
    let bench = Bench::shared(&upstream, |_| {});
    for got in bench.crowd(5) {
        let got = got.await.unwrap();
        assert_eq!(got.status(), 200);
        is_within(got.head_at, SECOND, ms(1_005));
    }
    assert_eq!((upstream.dialled(), upstream.connections()), ((3, 0), vec![1, 1, 2, 2, 3]));
    // The first that has room takes the next, so that the others fall idle.
    bench.get("/x").await;
    assert_eq!(upstream.connections().last(), Some(&1));
    assert_eq!(bench.seen.outcomes(), ["HTTP 200"; 6]);
}

#[tokio::test(start_paused = true)]
async fn large_bodies_flow_both_ways() {
    let upstream = Http2::new(|mut asked: Asked| async move {
        let (length, trailers) = asked.read().await;
        let mut body = Bytes::from(noise(length));
        let mut sending = asked.respond.send_response(Response::new(()), false).unwrap();
        while !body.is_empty() {
            sending.reserve_capacity(body.len());
            let room = std::future::poll_fn(|cx| sending.poll_capacity(cx)).await.unwrap().unwrap();
            sending.send_data(body.split_to(room), false).unwrap();
        }
        sending.send_trailers(trailers.unwrap_or_default()).unwrap();
        Then::GoesOn
    });
    let bench = Bench::shared(&upstream, |_| {});
    let bytes = noise(3_000_000);
    let got = bench.send(request("PUT", "/x", bytes.clone())).await;
    assert!(got.body.unwrap() == bytes);
    assert_eq!(upstream.arrived()[0].fields["content-length"], "3000000");

    // Of unknown length, and with trailers, which come back.
    let trailers: HeaderMap = [(http::HeaderName::from_static("x-sum"), "7".parse().unwrap())].into_iter().collect();
    let frames =
        [Frame::data(Bytes::from(noise(70_000))), Frame::data(Bytes::from(noise(5))), Frame::trailers(trailers)];
    let source = streaming(frames.map(Ok));
    let inbound = Inbound {
        request: request("POST", "/y", "").map(|_| source),
        client: ClientId(1),
        weight: 1,
        interims: None,
        hop: None,
    };
    let answer = exchange::call(&bench.engine, inbound).await;
    let collected = answer.response.into_body().collect().await.unwrap();
    assert_eq!(collected.trailers().unwrap()["x-sum"], "7");
    assert_eq!(collected.to_bytes().len(), 70_005);
    assert_eq!(upstream.arrived()[1].fields.get("content-length"), None);
    bench.is_at_rest();
}

/// A body in pieces.
pub(crate) fn streaming(
    frames: impl IntoIterator<Item = Result<Frame<Bytes>, BodyError>, IntoIter: Send + 'static>,
) -> Source {
    struct Pieces<I>(I);
    impl<I: Iterator<Item = Result<Frame<Bytes>, BodyError>> + Unpin> http_body::Body for Pieces<I> {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<I::Item>> {
            Poll::Ready(self.0.next())
        }
    }
    Source::Stream(Box::pin(Pieces(Box::new(frames.into_iter()) as Box<dyn Iterator<Item = _> + Send>)))
}

#[tokio::test(start_paused = true)]
async fn what_has_no_body_ends_with_its_head() {
    let upstream = Http2::new(|asked: Asked| async move {
        let response = match asked.request.uri().path() {
            "/v2/204" => Response::builder().status(204),
            "/v2/304" => Response::builder().status(304).header("content-length", "7"),
            "/v2/zero" => Response::builder().header("content-length", "0"),
            _ => Response::builder().header("content-length", "7"),
        };
        asked.answer(response, "")
    });
    let bench = Bench::shared(&upstream, |_| {});
    for (method, path, status, length) in [
        ("HEAD", "/head", 200, Some("7")),
        ("GET", "/204", 204, None),
        ("GET", "/304", 304, Some("7")),
        ("GET", "/zero", 200, Some("0")),
    ] {
        let got = bench.send(request(method, path, "")).await;
        assert_eq!((got.status(), got.field("content-length"), got.text()), (status, length, ""), "{path}");
    }
    assert_eq!(upstream.connections(), [1; 4]);
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_takes_stops_only_itself() {
    const ENDLESS: usize = 100_000_000;
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let upstream = Http2::new(move |mut asked: Asked| {
        let count = Arc::clone(&count);
        async move {
            if asked.request.uri().path() != "/v2/endless" {
                return asked.fine().await;
            }
            let mut sending = asked.respond.send_response(Response::new(()), false).unwrap();
            let mut left = Bytes::from(vec![b'x'; ENDLESS]);
            while !left.is_empty() {
                sending.reserve_capacity(left.len());
                let Some(Ok(room)) = std::future::poll_fn(|cx| sending.poll_capacity(cx)).await else { break };
                count.fetch_add(room, Relaxed);
                sending.send_data(left.split_to(room), false).unwrap();
            }
            Then::GoesOn
        }
    });
    let bench = Bench::shared(&upstream, |_| {});
    let mut untaken = Vec::new();
    for _ in 0..20 {
        let inbound = Inbound { request: get("/endless"), client: ClientId(1), weight: 1, interims: None, hop: None };
        untaken.push(exchange::call(&bench.engine, inbound).await);
    }
    settled().await;
    // A window for each, and no more.
    assert_eq!(sent.load(Relaxed), 20 * 256 * 1024);
    assert_eq!(bench.get("/x").await.text(), "{}");
    // As its client takes of one, more comes.
    let mut body = untaken.pop().unwrap().response.into_body();
    let mut taken = 0;
    while taken < 1_000_000 {
        taken += body.frame().await.unwrap().unwrap().into_data().unwrap().len();
    }
    settled().await;
    let more = sent.load(Relaxed) - 20 * 256 * 1024;
    assert!((taken - 256 * 1024..=taken).contains(&more), "{more} after {taken}");
    drop((body, untaken));
    settled().await;
    assert_eq!((upstream.dialled(), bench.in_flight()), ((1, 0), 0));
}

#[tokio::test(start_paused = true)]
async fn a_request_body_is_read_only_as_fast_as_it_is_taken() {
    let upstream = Http2::new(|asked: Asked| async move {
        sleep(s(5)).await;
        drop(asked);
        Then::GoesOn
    });
    let bench = Bench::shared(&upstream, |settings| settings.retry.replay_bytes_max = 1000);
    let read = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&read);
    let pieces = std::iter::repeat_with(move || {
        count.fetch_add(10_000, Relaxed);
        Ok(Frame::data(Bytes::from(vec![b'x'; 10_000])))
    });
    let request = request("POST", "/x", "").map(|_| streaming(pieces));
    leave_after(s(3), bench.send(request)).await;
    // The window of a stream, which the upstream never opens further, and a piece that waits for it.
    let read = read.load(Relaxed);
    assert!((65_535..=65_535 + 20_000).contains(&read), "{read}");
    settled().await;
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn an_answer_may_come_before_its_request_has_gone() {
    let upstream = Http2::new(|mut asked: Asked| async move {
        let mut sending =
            asked.respond.send_response(Response::builder().status(200).body(()).unwrap(), false).unwrap();
        sending.send_data("enough".into(), true).unwrap();
        // Dropping the rest of the request resets it without an error.
        Then::GoesOn
    });
    let bench = Bench::shared(&upstream, |_| {});
    let got = bench.send(request("POST", "/x", noise(1_000_000))).await;
    assert_eq!((got.status(), got.text()), (200, "enough"));
    assert_eq!(bench.get("/y").await.text(), "enough");
    assert_eq!(upstream.connections(), [1, 1]);
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn interim_answers_are_passed_on_and_100_lets_the_body_go() {
    let upstream = Http2::new(|mut asked: Asked| async move {
        let interim = |status: u16| Response::builder().status(status).header("link", "</a>").body(()).unwrap();
        for status in [103, 103, 102] {
            asked.respond.send_informational(interim(status)).unwrap();
        }
        if asked.request.uri().path() == "/v2/asks" {
            sleep(ms(300)).await;
            asked.respond.send_informational(interim(100)).unwrap();
        }
        let begun = now();
        let (length, _) = asked.read().await;
        let waited = (now() - begun).as_millis();
        asked.answer(Response::builder(), format!("{length} after {waited}"))
    });
    let bench = Bench::shared(&upstream, |_| {});
    // It is let go when it is asked for, or a second after nobody has.
    for (path, at, text) in [("/asks", ms(300), "4 after 0"), ("/silent", SECOND, "4 after 1000")] {
        let mut request = request("POST", path, "four");
        request.headers_mut().insert("expect", "100-continue".parse().unwrap());
        let interims = Interims::default();
        let inbound = Inbound { request, client: ClientId(1), weight: 1, interims: Some(interims.clone()), hop: None };
        let begun = now();
        let answer = exchange::call(&bench.engine, inbound).await;
        is_just(now() - begun, at);
        let body = answer.response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, text);
        let statuses: Vec<_> =
            std::iter::from_fn(|| interims.take()).map(|interim| interim.status().as_u16()).collect();
        assert_eq!(statuses, [103, 103, 102]);
    }
}

#[tokio::test(start_paused = true)]
async fn requests_keep_their_pace_and_places() {
    let upstream = Http2::new(|asked: Asked| asked.slow(ms(1_500)));
    let bench = Bench::shared(&upstream, |settings| {
        settings.lane.limits = vec!["1/s".parse().unwrap()];
        settings.lane.max_in_flight = Some(2);
    });
    let crowd = bench.crowd(6);
    sleep(ms(1_200)).await;
    assert_eq!(bench.in_flight(), 2);
    for got in crowd {
        assert_eq!(got.await.unwrap().status(), 200);
    }
    let arrived = upstream.arrived();
    for (number, arrived) in arrived.iter().enumerate() {
        is_within(arrived.at - bench.begun, s(number as u64), s(number as u64) + ms(20));
    }
    assert_eq!((arrived.len(), upstream.dialled()), (6, (1, 0)));
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn one_that_wants_to_switch_protocols_goes_over_http_1() {
    let upstream = Http2::new(Asked::fine);
    let bench = Bench::shared(&upstream, |_| {});
    assert_eq!(bench.get("/x").await.text(), "{}");
    let mut request = get("/ws");
    request.headers_mut().insert("connection", "upgrade".parse().unwrap());
    request.headers_mut().insert("upgrade", "websocket".parse().unwrap());
    let interims = Some(Interims::default());
    let answer =
        exchange::call(&bench.engine, Inbound { request, client: ClientId(1), weight: 1, interims, hop: None }).await;
    let body = answer.response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!((&body[..], upstream.dialled()), (&b"\"1.1\""[..], (1, 1)));
    // That has changed nothing for the others.
    assert_eq!(bench.get("/x").await.text(), "{}");
    assert_eq!(upstream.connections(), [1, 1]);
    assert_eq!(upstream.arrived()[0].method, Method::GET);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_idle_for_too_long_is_closed() {
    let upstream = Http2::new(Asked::fine);
    let bench = Bench::shared(&upstream, |settings| settings.idle_timeout = s(10));
    for (wait, connection) in [(0, 1), (9, 1), (9, 1), (11, 2)] {
        sleep(s(wait)).await;
        bench.get("/x").await;
        assert_eq!(upstream.connections().last(), Some(&connection), "after {wait} s");
    }
}
