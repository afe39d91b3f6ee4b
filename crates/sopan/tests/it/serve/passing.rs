//! Requests and answers pass through as they are, streaming both ways.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::thread::{self, JoinHandle};

use sopan_fake::script::Answer;

use super::door::{Scripted, Serve, UNLIMITED};
use super::wire::{Client, End, Reply, chunked, request};
use crate::support::{PATIENCE, skipped};

/// Bytes in which nothing repeats soon.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(byte).take(len).collect()
}

// px-5
#[test]
fn a_head_is_answered_at_once_with_the_length_and_no_body_and_the_connection_goes_on() {
    let upstream = Scripted::start(|request| match &*request.method {
        "HEAD" => Answer::status(200).header("Content-Length", "1234").header("X-A", "1"),
        _ => Answer::json(200, "{}"),
    });
    let proxy = Serve::start(&upstream.url(), UNLIMITED);
    let mut client = proxy.connect();
    let reply = client.head("/x");
    assert_eq!((reply.status(), reply.field("content-length"), reply.field("x-a")), (200, Some("1234"), Some("1")));
    // Whatever came after the head would be taken for the beginning of this answer.
    assert_eq!(client.get("/x").text(), "{}");
}

#[test]
fn answers_that_have_no_body_have_none_and_the_connection_goes_on() {
    let upstream = Scripted::start(|request| match &*request.target {
        "/304" => Answer::raw("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 7\r\n\r\n"),
        "/204" => Answer::raw("HTTP/1.1 204 No Content\r\nETag: \"a\"\r\n\r\n"),
        _ => Answer::raw("HTTP/1.1 200 OK\r\nETag: \"a\"\r\nContent-Length: 0\r\n\r\n"),
    });
    let proxy = Serve::start(&upstream.url(), UNLIMITED);
    let mut client = proxy.connect();
    for (target, status, length) in
        [("/304", 304, Some("7")), ("/204", 204, None), ("/empty", 200, Some("0")), ("/304", 304, Some("7"))]
    {
        let reply = client.get(target);
        assert_eq!((reply.status(), reply.field("etag"), reply.body.len()), (status, Some("\"a\""), 0), "{target}");
        assert!(reply.field("content-length").is_none_or(|told| Some(told) == length), "{target}: {reply:?}");
        assert_eq!(reply.field("transfer-encoding"), None, "{target}");
    }
    // A 304 with a length was the last of its connection, in case a body follows after all.
    assert_eq!(upstream.connections().len(), 2);
}

// px-7
#[test]
fn a_coded_body_and_what_describes_it_pass_unchanged() {
    let body = noise(5000);
    let sent = body.clone();
    let upstream = Scripted::start(move |request| {
        let status = if request.target == "/500" { 500 } else { 200 };
        match request.field("accept-encoding") {
            Some(_) => {
                Answer::status(status).header("Content-Encoding", "gzip").header("ETag", "\"g\"").body(sent.clone())
            }
            None => Answer::status(status).header("ETag", "\"p\"").body("plain"),
        }
    });
    let proxy = Serve::start(&upstream.url(), &["--rate unlimited", "--max-retries 0"]);
    let mut client = proxy.connect();
    for (target, status) in [("/200", 200), ("/500", 500)] {
        client.send(request("GET", target, "Accept-Encoding: gzip, br;q=0.5\r\n"));
        let reply = client.reply();
        let described = ["content-encoding", "etag", "content-length"].map(|name| reply.fields(name).concat());
        assert_eq!((reply.status(), described), (status, ["gzip".to_owned(), "\"g\"".to_owned(), "5000".to_owned()]));
        assert!(reply.body == body, "{target}");
        let reply = client.get(target);
        assert_eq!((reply.field("content-encoding"), reply.text()), (None, "plain"));
    }
    let asked: Vec<_> = upstream.requests().iter().map(|r| r.field("accept-encoding").map(str::to_owned)).collect();
    let coded = Some("gzip, br;q=0.5".to_owned());
    assert_eq!(asked, [coded.clone(), None, coded, None]);
}

#[test]
fn chunks_and_trailers_pass_both_ways() {
    let body = noise(300_000);
    let upstream = Scripted::start(move |_| {
        let answer = Answer::chunked(200).header("Trailer", "X-Sum").chunk("one").chunk(vec![b'2'; 70_000]);
        answer.send("0\r\nX-Sum: 42\r\n\r\n")
    });
    let proxy = Serve::start(&upstream.url(), UNLIMITED);
    let mut client = proxy.connect();
    // Twice over one connection, so that neither end may be found in the wrong place.
    for number in 1..=2 {
        let mut bytes = chunked("PUT", "/x", &body, &[1, 4093, 7, 65_537]);
        bytes.truncate(bytes.len() - 2);
        bytes.extend_from_slice(b"X-Check: 7\r\n\r\n");
        // The first line and the host's go on as they are, with what asks for trailers behind them.
        let head = bytes.windows(2).position(|window| window == b"\r\n").unwrap() + 2;
        bytes.splice(head..head, *b"TE: trailers\r\nConnection: TE\r\nTrailer: X-Check\r\n");
        client.send(bytes);
        let reply = client.reply();
        assert_eq!((reply.field("transfer-encoding"), reply.whole()), (Some("chunked"), Some((200, 70_003))));
        assert!(reply.body.starts_with(b"one2") && reply.body.ends_with(b"2"));
        assert_eq!(reply.trailers.iter().map(|line| line.to_ascii_lowercase()).collect::<Vec<_>>(), ["x-sum: 42"]);
        let got = upstream.request(number);
        assert_eq!((got.field("transfer-encoding"), got.field("content-length")), (Some("chunked"), None));
        assert!(got.body == body, "{} bytes", got.body.len());
        assert_eq!(got.trailers, [("x-check".to_owned(), "7".to_owned())]);
    }
    assert_eq!(upstream.unclean(), [""; 0]);
}

#[test]
fn an_answer_that_ends_with_its_connection_is_whole_after_fin_and_cut_after_rst() {
    let upstream = Scripted::start(|request| {
        let answer = Answer::raw("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n").send("to the end");
        // Time for the bytes to be read before the reset throws them away.
        let answer = answer.sleep(std::time::Duration::from_millis(100));
        if request.target == "/rst" { answer.reset() } else { answer.close() }
    });
    let proxy = Serve::start(&upstream.url(), UNLIMITED);
    let mut client = proxy.connect();
    let reply = client.get("/fin");
    assert_eq!((reply.end, reply.text(), reply.field("content-length")), (End::Whole, "to the end", None));
    let reply = client.get("/rst");
    assert_eq!((reply.end, reply.text()), (End::Cut, "to the end"));
}

#[test]
fn a_client_of_http_1_0_gets_what_it_understands() {
    let upstream = Scripted::start(|_| Answer::chunked(200).chunk("one").chunk("two").end());
    let proxy = Serve::start(&upstream.url(), UNLIMITED);
    let mut client = proxy.connect();
    client.send("GET /x HTTP/1.0\r\n\r\n");
    let reply = client.reply();
    assert_eq!((reply.end, reply.text(), reply.field("transfer-encoding")), (End::Whole, "onetwo", None));
    // Nothing of that is seen behind the proxy.
    let got = upstream.request(1);
    assert_eq!((&*got.version, got.field("host")), ("HTTP/1.1", Some(&*upstream.address().to_string())));
    assert_eq!(upstream.unclean(), [""; 0]);
}

#[test]
fn an_upstream_of_http_1_0_is_one_hop_and_the_client_sees_1_1() {
    let upstream = Scripted::start(|request| match &*request.target {
        "/close" => Answer::raw("HTTP/1.0 200 OK\r\n\r\nto the end").close(),
        _ => Answer::raw("HTTP/1.0 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\nabc"),
    });
    let proxy = Serve::start(&upstream.url(), UNLIMITED);
    let mut client = proxy.connect();
    for (target, body) in [("/keep", "abc"), ("/close", "to the end"), ("/keep", "abc")] {
        let reply = client.get(target);
        assert_eq!((reply.end, reply.text()), (End::Whole, body), "{target}");
        // RFC 9110 §2.5: an intermediary sends its own version.
        assert!(reply.head.starts_with("HTTP/1.1 200 OK\r\n"), "{}", reply.head);
    }
}

#[test]
fn requests_that_come_all_at_once_are_answered_in_their_order() {
    let upstream = Scripted::start(|request| Answer::status(200).body(request.target.clone()));
    let proxy = Serve::start(&upstream.url(), UNLIMITED);
    let mut client = proxy.connect();
    let targets: Vec<_> = (0..20).map(|n| format!("/{n}")).collect();
    client.send(targets.iter().map(|target| request("GET", target, "")).collect::<String>());
    for target in &targets {
        assert_eq!(client.reply().text(), target);
    }
}

/// Sends a body without looking for an answer, until nobody takes it any more; answers what there is then.
fn upload_without_looking(proxy: &Serve, framing: &str) -> Reply {
    let mut client = proxy.connect();
    client.send(request("POST", "/x", framing));
    if framing.starts_with("Transfer-Encoding") {
        client.send("5f5e100\r\n");
    }
    let piece = vec![b'x'; 64 * 1024];
    while client.try_send(&piece) {}
    client.reply()
}

const FRAMINGS: [&str; 2] = ["Content-Length: 100000000\r\n", "Transfer-Encoding: chunked\r\n"];

#[test]
fn an_early_answer_reaches_a_client_that_is_still_sending() {
    let upstream = Scripted::start(|_| {
        Answer::status(413).header("Connection", "close").early().read_bytes(10_000).body("too large")
    });
    let proxy = Serve::start(&upstream.url(), UNLIMITED);
    for framing in FRAMINGS {
        let reply = upload_without_looking(&proxy, framing);
        assert_eq!((reply.status(), reply.text()), (413, "too large"), "{framing}");
    }
    assert_eq!(upstream.arrivals(), 2);
}

#[test]
fn so_does_an_answer_of_sopans_own() {
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let proxy = Serve::start(&upstream.url(), &["--rate 1 per 1h", "--wait-max 0s"]);
    assert_eq!(proxy.get("/x").status(), 200);
    for framing in FRAMINGS {
        let reply = upload_without_looking(&proxy, framing);
        assert_eq!((reply.status(), reply.problem().0), (503, "urn:sopan:wait-too-long".to_owned()), "{framing}");
    }
}

/// 1 GiB, far more than may stand in memory.
const LARGE: usize = 1024 * 1024 * 1024;
/// What the proxy may need more than before: buffers of both sockets, and nothing in proportion to the body.
const GROWTH_MAX: u64 = 8 * 1024 * 1024;

/// Reads a request and its body of `LARGE` bytes, or to the last chunk; answers how long it was.
fn swallow() -> (SocketAddr, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let reading = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let is_chunked = String::from_utf8(head).unwrap().contains("transfer-encoding: chunked");
        let (mut piece, mut length, mut last) = (vec![0; 256 * 1024], 0, Vec::new());
        while if is_chunked { !last.ends_with(b"0\r\n\r\n") } else { length < LARGE } {
            let read = socket.read(&mut piece).unwrap();
            assert_ne!(read, 0, "it ended after {length} bytes");
            length += read;
            last.extend_from_slice(&piece[read.saturating_sub(5)..read]);
            last.drain(..last.len().saturating_sub(5));
        }
        socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        length
    });
    (address, reading)
}

#[test]
fn a_long_upload_streams_and_is_not_held_in_memory() {
    let piece = vec![b'x'; 1024 * 1024];
    let length = format!("Content-Length: {LARGE}\r\n");
    for framing in [&*length, "Transfer-Encoding: chunked\r\n"] {
        let is_chunked = framing.starts_with("Transfer-Encoding");
        let (address, reading) = swallow();
        let proxy = Serve::start(&format!("http://{address}"), UNLIMITED);
        let before = proxy.memory_peak();
        let mut client = proxy.connect();
        client.send(request("PUT", "/x", framing));
        for _ in 0..LARGE / piece.len() {
            if is_chunked {
                client.send(format!("{:x}\r\n", piece.len()));
            }
            client.send(&piece);
            if is_chunked {
                client.send("\r\n");
            }
        }
        if is_chunked {
            client.send("0\r\n\r\n");
        }
        assert_eq!(client.reply().text(), "ok");
        assert!(reading.join().unwrap() >= LARGE, "{framing}");
        let growth = proxy.memory_peak() - before;
        assert!(growth < GROWTH_MAX, "{growth} bytes: {framing}");
    }
}

#[test]
fn a_long_download_streams_and_is_not_held_in_memory() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut head = [0; 4096];
        assert_ne!(socket.read(&mut head).unwrap(), 0);
        socket.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n").as_bytes()).unwrap();
        let piece = vec![b'x'; 1024 * 1024];
        for _ in 0..LARGE / piece.len() {
            socket.write_all(&piece).unwrap();
        }
    });
    let proxy = Serve::start(&format!("http://{address}"), UNLIMITED);
    let before = proxy.memory_peak();
    let mut socket = std::net::TcpStream::connect(proxy.address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(request("GET", "/x", "Connection: close\r\n").as_bytes()).unwrap();
    // The upstream runs ahead as far as it is let.
    thread::sleep(std::time::Duration::from_millis(300));
    let (mut piece, mut length) = (vec![0; 256 * 1024], 0);
    while let Ok(read @ 1..) = socket.read(&mut piece) {
        length += read;
    }
    assert!((LARGE..LARGE + 1024).contains(&length), "{length} bytes");
    let growth = proxy.memory_peak() - before;
    assert!(growth < GROWTH_MAX, "{growth} bytes");
}

/// Runs curl; none where there is none.
fn curl(args: &[&str], input: Option<&std::path::Path>) -> Option<String> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--max-time", "30", "--noproxy", "*"]).args(args);
    if let Some(path) = input {
        curl.stdin(std::fs::File::open(path).unwrap());
    }
    let Ok(done) = curl.output() else {
        skipped("there is no curl");
        return None;
    };
    assert!(done.status.success(), "{}: {}", done.status, String::from_utf8_lossy(&done.stderr));
    Some(String::from_utf8(done.stdout).unwrap())
}

#[test]
fn curl_uses_its_connection_again() {
    let upstream = Scripted::start(|request| Answer::json(200, format!("\"{}\"", request.target)));
    let proxy = Serve::start(&upstream.url(), UNLIMITED);
    let url = format!("http://{}/[1-5]", proxy.address);
    let Some(out) = curl(&["--write-out", " %{num_connects} %{http_code} %{http_version}\n", &url], None) else {
        return;
    };
    let expected: Vec<_> = (1..=5).map(|n| format!("\"/{n}\" {} 200 1.1", usize::from(n == 1))).collect();
    assert_eq!(out.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>(), expected);
    assert_eq!(upstream.connections().len(), 1);
}

#[test]
fn curl_uploads_in_chunks_and_with_an_expectation() {
    let body = noise(3 * 1024 * 1024);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &body).unwrap();
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let proxy = Serve::start(&upstream.url(), UNLIMITED);
    let url = format!("http://{}/x", proxy.address);
    let path = file.path().to_str().unwrap();
    // curl would rather wait for 100 Continue until the test fails than send the body unasked.
    let expect = ["--expect100-timeout", "60", "--header", "Expect: 100-continue"];
    for (number, args, framing) in [
        (1, &["--upload-file", "-"][..], ("transfer-encoding", "chunked")),
        (2, &["--upload-file", path], ("content-length", "3145728")),
        (3, &["--upload-file", "-", "--request", "POST"], ("transfer-encoding", "chunked")),
    ] {
        let args: Vec<_> = expect.iter().chain(args).chain([&&*url]).copied().collect();
        let Some(out) = curl(&args, Some(file.path())) else { return };
        let got = upstream.request(number);
        assert_eq!((&*out, got.field(framing.0)), ("{}", Some(framing.1)), "{args:?}");
        assert!(got.body == body, "{} bytes", got.body.len());
    }
    assert_eq!(upstream.unclean(), [""; 0]);
}

#[test]
fn a_client_that_expects_is_told_to_go_on_and_once_only() {
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let proxy = Serve::start(&upstream.url(), UNLIMITED);
    let mut client: Client = proxy.connect();
    client.send(request("PUT", "/x", "Content-Length: 5\r\nExpect: 100-continue\r\n"));
    client.sees("HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hello");
    let reply = client.reply();
    assert_eq!((reply.status(), reply.interim, upstream.request(1).body), (200, vec![], b"hello".to_vec()));
}
