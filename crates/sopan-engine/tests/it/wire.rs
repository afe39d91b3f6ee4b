//! The bytes to and from the upstream: however they come in pieces, and whatever it says before or beside its answer.

use sopan_fake::script::{Answer, Request};

use crate::support::lines::Line;
use crate::support::{Bench, get, is_within, ms, noise, request, s, settled};

/// Sends these bytes one by one, each by itself.
fn drip(bytes: &str) -> Answer {
    bytes.bytes().fold(Answer::nothing(), |answer, byte| answer.send(vec![byte]).sleep(ms(1)))
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_the_same_in_whatever_pieces_it_comes() {
    let heads = "X-One: 1\r\nx-two:  a b \r\n";
    for (answer, body) in [
        (format!("HTTP/1.1 200 OK\r\n{heads}Content-Length: 5\r\n\r\nhello"), "hello"),
        (
            format!("HTTP/1.1 200 OK\r\n{heads}Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"),
            "hello",
        ),
        (format!("HTTP/1.1 200 OK\r\n{heads}Transfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 7\r\n\r\n"), ""),
        (format!("HTTP/1.1 204 \r\n{heads}\r\n"), ""),
    ] {
        let bench = Bench::new(
            move |request| if request.number == 1 { drip(&answer) } else { Answer::raw(answer.clone()) },
            |_| {},
        );
        for _ in 0..2 {
            let got = bench.get("/x").await;
            assert_eq!((got.text(), got.field("x-one"), got.field("x-two")), (body, Some("1"), Some("a b")));
        }
        assert_eq!(bench.upstream.connections().len(), 1);
        bench.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn interim_answers_without_end_are_not_listened_to() {
    for (count, status) in [(100, 200), (101, 502)] {
        let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(count);
        let script = move |_: &Request| Answer::raw(format!("{interim}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
        let bench = Bench::new(script, |settings| settings.retry.max_retries = 0);
        assert_eq!(bench.get("/x").await.status(), status, "{count}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answers_head_may_be_64_kib_and_no_more() {
    let head_of = |length: usize| {
        let start = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Long: ";
        format!("{start}{}\r\n\r\n", "x".repeat(length - start.len() - 4))
    };
    for (length, status) in [(64 * 1024, 200), (64 * 1024 + 1, 502), (120 * 1024, 502)] {
        let bench = Bench::new(move |_| Answer::raw(head_of(length)), |settings| settings.retry.max_retries = 0);
        assert_eq!(bench.get("/x").await.status(), status, "{length}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_connection_keeps_is_let_go_at_once() {
    let script = |request: &Request| match request.number {
        // Answers when it has the first chunk, while there is no other yet.
        2 => Answer::nothing().early().read_bytes("3\r\none".len()).then(Answer::json(200, "{}").early()),
        _ => Answer::json(200, "{}"),
    };
    let bench = Bench::over(|_| Line::Kept, script, |_| {});
    assert_eq!(bench.send(request("PUT", "/x", noise(100_000))).await.status(), 200);
    let mut client = bench.door();
    client.send("PUT /x HTTP/1.1\r\nHost: sopan\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    client.send_chunk(b"one").await;
    assert_eq!(client.head().await.status(), 200);
    assert_eq!(client.bytes(2).await, b"{}");
}

#[tokio::test(start_paused = true)]
async fn an_upload_arrives_the_same_however_slowly_it_is_taken() {
    let script = |_: &Request| {
        let taken = (1..=40).fold(Answer::nothing().early(), |answer, i| answer.read_bytes(i * 10_000).sleep(ms(10)));
        taken.then(Answer::json(200, "{}"))
    };
    for chunked in [false, true] {
        let bench = Bench::new(script, |settings| settings.retry.replay_bytes_max = 1_000);
        let body = noise(400_000);
        let mut client = bench.door();
        let framing = if chunked { "Transfer-Encoding: chunked" } else { "Content-Length: 400000" };
        client.send(format!("PUT /x HTTP/1.1\r\nHost: sopan\r\n{framing}\r\n\r\n")).await;
        if chunked {
            for chunk in body.chunks(9_973) {
                client.send_chunk(chunk).await;
            }
            client.send("0\r\n\r\n").await;
        } else {
            client.send(&body).await;
        }
        assert_eq!(client.head().await.status(), 200);
        assert!(bench.upstream.request(1).body == body);
        bench.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn interim_answers_are_not_the_answer() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let bench = Bench::new(move |_| Answer::raw(interim).sleep(ms(100)).then(Answer::json(200, "{}")), |_| {});
    let got = bench.get("/x").await;
    assert_eq!((got.status(), got.text(), got.field("link")), (200, "{}", None));
    is_within(got.head_at, ms(100), ms(101));
    // They do not stop the clock of the attempt.
    let slow = (0..100).fold(Answer::nothing(), |answer, _| answer.send(interim).sleep(ms(100)));
    let bench = Bench::new(
        move |_| slow.clone().hang(),
        |settings| {
            (settings.retry.attempt_timeout, settings.retry.max_retries) = (s(2), 0);
        },
    );
    let got = bench.get("/x").await;
    assert_eq!(got.status(), 504);
    is_within(got.head_at, s(2), ms(2_001));
    // A protocol that nobody asked for is no answer.
    let switched = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";
    let bench = Bench::new(move |_| Answer::raw(switched).hang(), |settings| settings.retry.max_retries = 0);
    let got = bench.get("/x").await;
    assert_eq!((got.status(), got.detail()), (502, "the upstream did not answer in HTTP".to_owned()));
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn an_answer_with_two_lengths_reaches_the_client_with_one() {
    let both = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let bench = Bench::new(
        move |request| if request.number == 1 { Answer::raw(both) } else { Answer::json(200, "{}") },
        |_| {},
    );
    let mut client = bench.door();
    client.send("GET /x HTTP/1.1\r\nHost: sopan\r\n\r\n").await;
    let head = client.head().await;
    assert_eq!((head.field("content-length"), head.field("transfer-encoding")), (None, Some("chunked")));
    assert_eq!(client.through(b"0\r\n\r\n").await, b"5\r\nhello\r\n0\r\n\r\n");
    settled().await;
    // What sends so is not trusted with another request.
    assert_eq!(bench.get("/y").await.text(), "{}");
    assert_eq!(bench.upstream.connections().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn lengths_that_agree_are_one() {
    let twice = "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\nContent-Length: 5\r\n\r\nhello";
    let bench = Bench::new(move |_| Answer::raw(twice), |_| {});
    let mut client = bench.door();
    client.send("GET /x HTTP/1.1\r\nHost: sopan\r\n\r\n").await;
    let head = client.head().await;
    assert_eq!(head.0.matches("content-length: 5\r\n").count(), 1, "{}", head.0);
    assert_eq!(client.bytes(5).await, b"hello");
}

#[tokio::test(start_paused = true)]
async fn two_lengths_that_differ_are_no_answer() {
    for fields in [
        "Content-Length: 3\r\nContent-Length: 5\r\n",
        "Content-Length: 3, 5\r\n",
        "Content-Length: -3\r\n",
        "Content-Length: +3\r\n",
        "Content-Length: 0x3\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: identity\r\n",
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\n{fields}\r\nabcde");
        let bench = Bench::new(move |_| Answer::raw(answer.clone()).close(), |settings| settings.retry.max_retries = 0);
        let got = bench.get("/x").await;
        assert_eq!((got.status(), got.detail()), (502, "the upstream did not answer in HTTP".to_owned()), "{fields}");
    }
}

// px-3
#[tokio::test(start_paused = true)]
async fn fields_keep_their_lines_their_order_and_their_bytes() {
    let cookies = ["a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT; Path=/", "b=2; HttpOnly", "a=1"];
    let script = move |_: &Request| {
        let head = Answer::json(200, "{}").header("X-Name", "Tük; q=\"x\", y").header("X-Empty", "");
        cookies.iter().fold(head, |answer, cookie| answer.header("Set-Cookie", *cookie))
    };
    let bench = Bench::new(script, |_| {});
    let mut client = bench.door();
    let fields = "X-Many: 1\r\nX-Many: 2\r\nX-Bytes: t\u{fc}k\r\nCookie: a=1; b=2";
    client.send(format!("GET /x HTTP/1.1\r\nHost: sopan\r\n{fields}\r\n\r\n")).await;
    let head = client.head().await;
    let seen: Vec<_> = head.0.lines().filter_map(|line| line.strip_prefix("set-cookie: ")).collect();
    assert_eq!(seen, cookies);
    assert_eq!((head.field("x-name"), head.field("x-empty")), (Some("Tük; q=\"x\", y"), Some("")));
    let request = bench.upstream.request(1);
    assert_eq!((request.fields_named("x-many"), request.field("x-bytes")), (vec!["1", "2"], Some("t\u{fc}k")));
    assert_eq!(request.field("cookie"), Some("a=1; b=2"));
    bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn the_bytes_of_a_target_stay_as_they_are() {
    let bench = Bench::new(|_| Answer::json(200, "{}"), |_| {});
    let targets = ["/a//b", "//cms/x", "/a%2Fb", "/%7Euser?q=a+b&&c", "/caf%C3%A9", "/a/./b/../c", "/a;v=1/b", "/?"];
    let mut client = bench.door();
    for target in targets {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: sopan\r\n\r\n")).await;
        client.head().await;
        client.bytes(2).await;
    }
    assert_eq!(bench.targets(), targets);
    let mut options = request("OPTIONS", "/", "");
    *options.uri_mut() = "*".parse().unwrap();
    bench.send(options).await;
    assert_eq!(bench.targets().last().unwrap(), "*");
}

#[tokio::test(start_paused = true)]
async fn an_answer_counts_although_the_upstream_stopped_reading() {
    // It refuses and closes while the client still sends: the answer is there, and writing fails.
    for wait in [0, 100] {
        let script = move |_: &Request| {
            let refusal = Answer::json(413, "too much").header("Connection", "close").early();
            if wait == 0 { refusal } else { refusal.after(ms(wait)) }
        };
        for length in [50_000, 5_000_000] {
            let bench = Bench::new(script, |settings| settings.retry.replay_bytes_max = 1_000);
            let mut client = bench.door();
            client.send(format!("POST /x HTTP/1.1\r\nHost: sopan\r\nContent-Length: {length}\r\n\r\n")).await;
            client.send(noise(40_000)).await;
            assert_eq!(client.head().await.status(), 413);
            assert_eq!(client.bytes(8).await, b"too much");
            settled().await;
            assert_eq!(bench.in_flight(), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn heads_have_a_bound() {
    let fields = |count: usize| (0..count).map(|i| format!("X-{i}: {i}\r\n")).collect::<String>();
    for (fields, status) in [
        (fields(90), 200),
        (fields(101), 502),
        (format!("X: {}\r\n", "x".repeat(60_000)), 200),
        (format!("X: {}\r\n", "x".repeat(600_000)), 502),
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n");
        let bench = Bench::new(move |_| Answer::raw(answer.clone()), |settings| settings.retry.max_retries = 0);
        let got = bench.send(get("/x")).await;
        assert_eq!(got.status(), status, "{} bytes", fields.len());
        if status == 502 {
            assert_eq!(got.detail(), "the head of the upstream's answer is too large");
        }
    }
}
