//! What can go wrong on a shared connection, and what the requests on it come to.

use h2::{Reason, server};
use http::Response;
use tokio::time::sleep;

use crate::support::http2::{Asked, Http2, Line, Then};
use crate::support::log::Log;
use crate::support::{Bench, Got, SECOND, is_just, is_within, ms, request, s, settled};

/// What the upstream does with the first request; all later ones it answers well.
type First = fn(Asked) -> std::pin::Pin<Box<dyn Future<Output = Then> + Send>>;

macro_rules! first {
    (|$asked:ident| $body:expr) => {
        |#[allow(unused_mut)] mut $asked: Asked| Box::pin(async move { $body })
    };
}

/// What a request comes to whose first attempt meets this.
async fn met(first: First, method: &str) -> (Bench, std::sync::Arc<Http2>, Got) {
    let upstream = Http2::new(move |asked: Asked| async move {
        if asked.number == 1 { first(asked).await } else { asked.fine().await }
    });
    let bench = Bench::shared(&upstream, |_| {});
    let got = bench.send(request(method, "/x", "body")).await;
    settled().await;
    bench.is_at_rest();
    (bench, upstream, got)
}

fn reset(mut asked: Asked, reason: Reason) -> Then {
    asked.respond.send_reset(reason);
    Then::GoesOn
}

#[tokio::test(start_paused = true)]
async fn what_was_not_looked_at_is_sent_again_whatever_it_is() {
    let refused: First = first!(|asked| reset(asked, Reason::REFUSED_STREAM));
    for method in ["GET", "POST", "PATCH"] {
        let (bench, upstream, got) = met(refused, method).await;
        assert_eq!((got.status(), upstream.connections()), (200, vec![1, 1]), "{method}");
        is_within(got.head_at, ms(200), ms(202));
        assert_eq!(bench.seen.outcomes(), ["connection failed", "HTTP 200"]);
    }
    // It may want HTTP/1.1 for it, and then gets that for all. That does not say that it did nothing.
    let old: First = first!(|asked| reset(asked, Reason::HTTP_1_1_REQUIRED));
    for (method, status) in [("PUT", 200), ("POST", 502)] {
        let (bench, upstream, got) = met(old, method).await;
        assert_eq!((got.status(), upstream.connections()), (status, vec![1]), "{method}");
        assert_eq!(bench.get("/y").await.text(), "\"1.1\"");
        assert_eq!(upstream.dialled(), (1, 1), "{method}");
    }
}

/// What is refused on a connection that is well would be refused on another too.
#[tokio::test(start_paused = true)]
async fn a_refused_request_waits_and_goes_again_on_the_same_connection() {
    let upstream = Http2::new(|asked: Asked| async move {
        if asked.number == 2 { reset(asked, Reason::REFUSED_STREAM) } else { asked.fine().await }
    });
    let bench = Bench::shared(&upstream, |_| {});
    for _ in 0..2 {
        assert_eq!(bench.get("/x").await.status(), 200);
    }
    assert_eq!((upstream.connections(), upstream.dialled()), (vec![1, 1, 1], (1, 0)));
    assert_eq!(bench.seen.outcomes(), ["HTTP 200", "connection failed", "HTTP 200"]);
}

/// No request waits on it for as long as it has been silent, but all of them together do.
#[tokio::test(start_paused = true)]
async fn a_connection_that_has_vanished_is_given_up() {
    let plan = |number| if number == 1 { Line::Answers(b"") } else { Line::Open };
    let upstream = Http2::over(plan, server::Builder::new(), Asked::fine);
    let bench = Bench::shared(&upstream, |settings| settings.retry.attempt_timeout = s(3));
    assert_eq!(bench.get("/x").await.status(), 200);
    assert_eq!((upstream.connections(), upstream.dialled()), (vec![2], (2, 0)));
}

/// What the peer lets a request send, nobody else can: so it goes also where nobody takes the answer.
#[tokio::test(start_paused = true)]
async fn an_upload_goes_on_although_nobody_reads_its_early_answer() {
    const LENGTH: usize = 300_000;
    let (sender, mut whole) = tokio::sync::mpsc::unbounded_channel();
    let upstream = Http2::new(move |mut asked: Asked| {
        let sender = sender.clone();
        async move {
            let mut answer = asked.respond.send_response(Response::new(()), false).unwrap();
            let mut read = 0;
            while let Some(Ok(data)) = asked.request.body_mut().data().await {
                read += data.len();
                asked.request.body_mut().flow_control().release_capacity(data.len()).unwrap();
            }
            sender.send(read).unwrap();
            answer.send_data("late".into(), true).unwrap();
            Then::GoesOn
        }
    });
    let bench = Bench::shared(&upstream, |_| {});
    let mut client = bench.door();
    client.send(format!("POST /x HTTP/1.1\r\nHost: sopan\r\nContent-Length: {LENGTH}\r\n\r\n")).await;
    client.send(vec![b'x'; LENGTH]).await;
    assert_eq!(whole.recv().await, Some(LENGTH));
    assert_eq!(client.head().await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn one_that_leaves_says_which_requests_it_has_looked_at() {
    // GOAWAY with no request as the last, on a connection that has taken one.
    const LEAVES: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let plan = |number| if number == 1 { Line::Answers(LEAVES) } else { Line::Open };
    let upstream = Http2::over(plan, server::Builder::new(), Asked::fine);
    let bench = Bench::shared(&upstream, |_| {});
    let got = bench.send(request("POST", "/x", "body")).await;
    assert_eq!((got.status(), upstream.connections()), (200, vec![2]));
    assert_eq!(bench.seen.outcomes(), ["connection failed", "HTTP 200"]);

    // It leaves with a request unanswered that it has looked at: that is lost, and another connection is made.
    let leaves: First = first!(|asked| {
        let mut sending = asked.respond.send_response(Response::new(()), false).unwrap();
        sending.send_data("half".into(), false).unwrap();
        sleep(ms(10)).await;
        // Dropped, it would be reset.
        std::mem::forget(sending);
        Then::Leaves(Reason::NO_ERROR)
    });
    let (bench, upstream, got) = met(leaves, "POST").await;
    assert!(got.body.is_err(), "{got:?}");
    assert_eq!(bench.get("/y").await.status(), 200);
    assert_eq!(upstream.connections(), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_acted_on_is_sent_again_only_where_that_is_safe() {
    let reset_before: First = first!(|asked| reset(asked, Reason::INTERNAL_ERROR));
    let closed: First = first!(|asked| {
        drop(asked);
        Then::Closes
    });
    let left: First = first!(|asked| {
        std::mem::forget(asked);
        Then::Leaves(Reason::ENHANCE_YOUR_CALM)
    });
    let switches: First = first!(|asked| {
        let _ = asked.respond.send_informational(Response::builder().status(101).body(()).unwrap());
        sleep(SECOND).await;
        Then::GoesOn
    });
    let chatters: First = first!(|asked| {
        for _ in 0..101 {
            let _ = asked.respond.send_informational(Response::builder().status(102).body(()).unwrap());
        }
        sleep(SECOND).await;
        Then::GoesOn
    });
    let many: First = first!(|asked| {
        let fields = (0..101).fold(Response::builder(), |fields, n| fields.header(format!("x-{n}"), "1"));
        asked.answer(fields, "")
    });
    let terminated = ("connection_terminated", "the upstream closed the connection before it answered");
    let garbage = ("http_protocol_error", "the upstream did not answer in HTTP");
    let too_large = ("http_response_header_section_size", "the head of the upstream's answer is too large");
    for (name, first, (error, detail), outcome) in [
        ("reset", reset_before, terminated, "connection broken: the upstream broke it off: INTERNAL_ERROR"),
        ("closed", closed, terminated, "connection broken: "),
        ("left", left, terminated, "connection broken: "),
        ("switches", switches, garbage, "connection broken: not an HTTP answer: it switches protocols"),
        ("chatters", chatters, garbage, "connection broken: not an HTTP answer: too many interim answers"),
        ("many", many, too_large, "connection broken: the answer's head is too large"),
    ] {
        let (_, upstream, got) = met(first, "PUT").await;
        assert_eq!((got.status(), upstream.arrived().len()), (200, 2), "{name}: {got:?}");
        let log = Log::keep();
        let (_, upstream, got) = met(first, "POST").await;
        assert_eq!((got.status(), upstream.arrived().len()), (502, 1), "{name}: {got:?}");
        assert_eq!(got.field("proxy-status"), Some(&*format!("sopan; error={error}")), "{name}: {got:?}");
        assert_eq!(got.detail(), format!("{detail}; whether it acted on the request is not known"), "{name}");
        let said = log.warnings();
        assert!(said.len() == 1 && said[0].contains(outcome), "{name}: {said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_off_never_looks_whole() {
    let in_body: First = first!(|asked| {
        let mut sending = asked.respond.send_response(Response::new(()), false).unwrap();
        sending.send_data("half".into(), false).unwrap();
        sleep(ms(10)).await;
        sending.send_reset(Reason::INTERNAL_ERROR);
        Then::GoesOn
    });
    let closed: First = first!(|asked| {
        let mut sending = asked.respond.send_response(Response::new(()), false).unwrap();
        sending.send_data("half".into(), false).unwrap();
        sleep(ms(10)).await;
        Then::Closes
    });
    let too_short: First = first!(|asked| asked.answer(Response::builder().header("content-length", "9"), "half"));
    let too_long: First = first!(|asked| asked.answer(Response::builder().header("content-length", "2"), "half"));
    for (name, first) in [("reset", in_body), ("closed", closed), ("short", too_short), ("long", too_long)] {
        let (_, upstream, got) = met(first, "GET").await;
        assert_eq!((got.status(), upstream.arrived().len()), (200, 1), "{name}: {got:?}");
        assert_eq!(got.text(), "the upstream broke off its answer", "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_that_is_gone_when_it_is_used_is_no_failure() {
    for (method, status) in [("GET", 200), ("POST", 502)] {
        let upstream =
            Http2::new(|asked: Asked| async move { if asked.number == 2 { Then::Closes } else { asked.fine().await } });
        let bench = Bench::shared(&upstream, |settings| settings.retry.max_retries = 0);
        bench.get("/first").await;
        sleep(SECOND).await;
        let got = bench.send(request(method, "/x", "body")).await;
        assert_eq!(got.status(), status, "{method}");
        if status == 200 {
            is_just(got.head_at, SECOND);
            assert_eq!(bench.seen.outcomes(), ["HTTP 200", "Stale", "HTTP 200"]);
            assert_eq!(upstream.connections(), [1, 1, 2]);
        }
        bench.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_lose_their_connection_together_share_the_next() {
    let upstream = Http2::new(|asked: Asked| async move {
        match asked.connection {
            1 if asked.number == 1 => asked.fine().await,
            1 if asked.number == 11 => Then::Closes,
            1 => asked.slow(s(5)).await,
            _ => asked.fine().await,
        }
    });
    let bench = Bench::shared(&upstream, |_| {});
    bench.get("/first").await;
    for got in bench.crowd(10) {
        assert_eq!(got.await.unwrap().status(), 200);
    }
    assert_eq!(upstream.dialled(), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_has_fallen_silent_is_not_used_for_others() {
    for (timeout, connections) in [(s(10), vec![1, 1, 2]), (s(2), vec![1, 1, 1])] {
        let upstream = Http2::new(|asked: Asked| async move {
            match asked.number {
                2 => asked.slow(s(3_600)).await,
                _ => asked.fine().await,
            }
        });
        let bench = Bench::shared(&upstream, |settings| {
            settings.retry.attempt_timeout = timeout;
            settings.retry.max_retries = 0;
        });
        for status in [200, 504, 200] {
            assert_eq!(bench.get("/x").await.status(), status);
        }
        // A short time-out says little of the connection.
        assert_eq!(upstream.connections(), connections, "{timeout:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_agrees_to_http_2_and_does_not_speak_it_is_told_so() {
    let silent: &[u8] = b"";
    for (says, status, error, log) in [
        (silent, 504, "connection_timeout", "no connection in time"),
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            502,
            "http_protocol_error",
            "it agreed to HTTP/2 and does not keep to its rules: FRAME_SIZE_ERROR",
        ),
        // It allows no request at all.
        (&[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0], 504, "connection_timeout", "no connection in time"),
    ] {
        let kept = Log::keep();
        let upstream = Http2::over(move |_| Line::Says(says), server::Builder::new(), Asked::fine);
        let bench = Bench::shared(&upstream, |settings| settings.retry.max_retries = 0);
        let got = bench.get("/x").await;
        assert_eq!(
            (got.status(), got.field("proxy-status")),
            (status, Some(&*format!("sopan; error={error}"))),
            "{log}"
        );
        assert!(kept.warnings()[0].contains(log), "{:?}", kept.warnings());
        bench.is_at_rest();
    }
}

/// Frames that no library of ours would send: each ends its own request or its connection, and nothing else.
#[tokio::test(start_paused = true)]
async fn frames_against_the_rules_end_the_request() {
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        let [.., high, low] = payload.len().to_be_bytes();
        [&[0, high, low, kind, flags, 0, 0, 0, stream][..], payload].concat()
    };
    // A field of 4000 bytes that is named once, and twenty times by its place in the table (RFC 7541 §6).
    let named = [&[0x88, 0x40, 1, b'x', 0x7f, 0xa1, 0x1e][..], &[b'y'; 4000]].concat();
    let two_lengths = [&[0x88][..], &[0x0f, 0x0d, 1, b'2'], &[0x0f, 0x0d, 1, b'2']].concat();
    let unpacks_large = [&named[..], &[0xbe; 20]].concat();
    let rules = "it broke the rules of HTTP/2, or its head is too large";
    for (what, frames, says) in [
        ("data before a head", frame(0, 0, 1, b"data"), rules),
        ("a push", frame(5, 4, 1, &[0, 0, 0, 2, 0x82]), rules),
        ("a head without a status", frame(1, 5, 1, &[0x0f, 0x0d, 1, b'0']), rules),
        ("a window that is too large", frame(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff]), rules),
        ("an answer to nobody", frame(1, 5, 7, &[0x88]), rules),
        ("two lengths", frame(1, 4, 1, &two_lengths), "its Content-Length is given twice"),
        ("a head that unpacks to more than 64 KiB", frame(1, 5, 1, &unpacks_large), rules),
    ] {
        let log = Log::keep();
        let bytes: &'static [u8] = frames.leak();
        let upstream = Http2::over(move |_| Line::Answers(bytes), server::Builder::new(), Asked::fine);
        let bench = Bench::shared(&upstream, |settings| settings.retry.max_retries = 0);
        let got = bench.get("/x").await;
        assert_eq!(got.status(), 502, "{what}: {got:?}");
        assert!(log.warnings()[0].contains(says), "{what}: {:?}", log.warnings());
        bench.is_at_rest();
    }
}
