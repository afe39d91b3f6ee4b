//! Answers that are given again, by the real program: its settings, its bytes on the wire, what it tells, and its disk.

use sopan_fake::script::Answer;

use super::door::{START_LINES, Scripted, Serve};
use super::wire::{Client, End, Reply, request};
use crate::support::{sopan, until};

fn fresh() -> Answer {
    Answer::status(200).header("Cache-Control", "max-age=600")
}

/// Bytes in which nothing repeats soon.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(byte).take(length).collect()
}

fn ask(client: &mut Client, target: &str, fields: &str) -> Reply {
    client.send(request("GET", target, fields));
    client.reply()
}

/// Whether there is an answer in store; nobody but the program is asked.
fn is_stored(proxy: &Serve, target: &str) -> bool {
    ask(&mut proxy.connect(), target, "Cache-Control: only-if-cached\r\n").status() == 200
}

#[test]
fn settings_say_what_is_stored() {
    // What stands for an answer, and how many requests the same one twice costs with these flags.
    for (target, flags, cost) in [
        ("/nothing", &[][..], 2),
        ("/nothing", &["--default-ttl 300s"], 1),
        ("/fresh", &[], 1),
        ("/fresh", &["--cache off"], 2),
        ("/fresh", &["--cache off", "--default-ttl 300s"], 2),
        ("/fresh", &["--cache-path /fresh bypass"], 2),
        ("/fresh", &["--cache-path /fres bypass"], 1),
        ("/nothing", &["--cache-path /nothing default-ttl 10s"], 1),
        ("/fresh", &["--revalidate always"], 2),
        ("/fresh", &["--cache-path / revalidate always"], 2),
        ("/fresh", &["--cache-entry-bytes-max 4"], 2),
        ("/fresh", &["--cache-entry-bytes-max 5"], 1),
        ("/cookie", &[], 2),
        ("/cookie", &["--store-set-cookie on"], 1),
        ("/targeted", &[], 1),
        ("/targeted", &["--cache-targeted none"], 2),
        ("/targeted", &["--cache-targeted x-mine"], 2),
        ("/nothing", &["--default-ttl 300s", "--observe on"], 2),
    ] {
        let upstream = Scripted::start(|request| {
            let answer = match &*request.target {
                "/nothing" => Answer::status(200),
                "/fresh" => fresh().header("ETag", "\"a\""),
                "/cookie" => fresh().header("Set-Cookie", "s=1"),
                "/targeted" => Answer::status(200)
                    .header("Cache-Control", "no-store")
                    .header("X-Mine", "no-store")
                    .header("CDN-Cache-Control", "max-age=60"),
                target => panic!("{target}"),
            };
            if request.field("if-none-match").is_some() { Answer::status(304) } else { answer.body("hello") }
        });
        let proxy = Serve::start(&upstream.url(), &[flags, &["--rate unlimited"]].concat());
        let mut client = proxy.connect();
        for _ in 0..2 {
            let reply = client.get(target);
            assert_eq!((reply.status(), reply.text()), (200, "hello"), "{target} {flags:?}");
            let is_on = !flags.contains(&"--cache off");
            assert_eq!(reply.field("cache-status").is_some(), is_on, "{target} {flags:?}");
        }
        assert_eq!(upstream.deliveries(target), cost, "{target} {flags:?}");
    }
}

/// One connection, on which any byte too few or too many would be taken for another answer.
#[test]
fn what_is_stored_is_framed_for_each_client_anew() {
    let body = noise(100_000);
    let sent = body.clone();
    let upstream = Scripted::start(move |request| match &*request.target {
        "/chunks" => Answer::chunked(200)
            .header("Cache-Control", "max-age=600")
            .header("ETag", "\"c\"")
            .header("Trailer", "X-Sum")
            .chunk(&sent[..1])
            .chunk(&sent[1..])
            .send("0\r\nX-Sum: 1\r\n\r\n"),
        "/204" => Answer::raw("HTTP/1.1 204 No Content\r\nCache-Control: max-age=600\r\nContent-Length: 7\r\n\r\n"),
        "/empty" => fresh(),
        "/404" => Answer::status(404).header("Cache-Control", "max-age=600").body("none"),
        target => panic!("{target}"),
    });
    let proxy = Serve::start(&upstream.url(), &["--rate unlimited"]);
    let mut client = proxy.connect();
    for round in 0..3 {
        let whole = client.get("/chunks");
        assert!(whole.end == End::Whole && whole.body == body, "{whole:?}");
        let head = client.head("/chunks");
        assert_eq!((head.status(), head.field("content-length")), (200, Some("100000")));
        let part = ask(&mut client, "/chunks", "Range: bytes=0-4\r\n");
        assert_eq!((part.status(), &*part.body, part.field("content-length")), (206, &body[..5], Some("5")));
        let known = ask(&mut client, "/chunks", "If-None-Match: \"c\"\r\n");
        assert_eq!((known.status(), known.field("content-length")), (304, None));
        let none = ask(&mut client, "/chunks", "Range: bytes=100000-\r\n");
        assert_eq!((none.status(), none.field("content-range"), none.body.len()), (416, Some("bytes */100000"), 0));
        for (target, status, length) in [("/204", 204, None), ("/empty", 200, Some("0")), ("/404", 404, Some("4"))] {
            let reply = client.get(target);
            assert_eq!((reply.status(), reply.field("content-length")), (status, length), "{target} in round {round}");
        }
    }
    // Many at once on one connection, the last one in another form, and one by a client that knows no chunks.
    client.send(request("GET", "/chunks", "").repeat(20));
    client.send("GET http://localhost/404 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for _ in 0..20 {
        assert!(client.reply().body == body);
    }
    assert_eq!(client.reply().text(), "none");
    client.send("GET /chunks HTTP/1.0\r\nHost: localhost\r\n\r\n");
    let old = client.reply();
    assert_eq!((old.field("transfer-encoding"), old.field("content-length")), (None, Some("100000")));
    assert!(old.body == body);
    assert_eq!(upstream.arrivals(), 4);
}

#[test]
fn what_the_cache_did_is_counted_and_logged() {
    let upstream = Scripted::start(|request| match (&*request.method, &*request.target) {
        ("GET", "/stale") if request.number > 1 => Answer::status(500),
        ("GET", "/stale") => Answer::status(200).header("Cache-Control", "max-age=0, stale-if-error=60").body("stale"),
        ("GET", "/asked") if request.field("if-none-match").is_some() => Answer::status(304),
        ("GET", "/asked") => Answer::status(200).header("Cache-Control", "no-cache").header("ETag", "\"a\""),
        ("GET", "/slow") => fresh().after(std::time::Duration::from_millis(500)),
        _ => fresh(),
    });
    let flags = ["--rate 100 per 1h", "--max-retries 0", "--access-log on"];
    let proxy = Serve::start(&upstream.url(), &flags);
    let mut client = proxy.connect();
    for target in ["/stale", "/stale", "/asked", "/asked", "/fresh", "/fresh", "/fresh?key=SECRET"] {
        assert_eq!(client.get(target).status(), 200, "{target}");
    }
    client.send(request("DELETE", "/fresh", ""));
    assert_eq!(client.reply().status(), 200);
    assert_eq!(ask(&mut client, "/none", "Cache-Control: only-if-cached\r\n").status(), 504);
    let mut both = [proxy.connect(), proxy.connect()];
    both[0].send(request("GET", "/slow", ""));
    upstream.await_target("/slow");
    both[1].send(request("GET", "/slow", ""));
    for client in &mut both {
        assert_eq!(client.reply().status(), 200);
    }
    proxy.await_rest();
    let lines = proxy.await_logged("INFO", START_LINES + 11)[START_LINES..].to_vec();
    let said: Vec<_> = lines.iter().map(|line| line.split("; cache: ").nth(1).unwrap_or("-")).collect();
    let expected = [
        "miss",
        "stale (stale-on-error)",
        "miss",
        "revalidated",
        "miss",
        "hit",
        "miss",
        "bypass (method)",
        "-",
        "miss",
        "coalesced",
    ];
    let mut sorted = (said.clone(), expected.to_vec());
    // The last two end at the same time.
    sorted.0[9..].sort_unstable();
    sorted.1[9..].sort_unstable();
    assert_eq!(sorted.0, sorted.1, "{lines:#?}");
    assert!(lines.iter().all(|line| !line.contains("SECRET")), "{lines:#?}");
    let count =
        |result: &str| proxy.metric(&format!("sopan_cache_requests_total{{upstream=\"default\",result=\"{result}\"}}"));
    for (result, expected) in
        [("hit", 1.0), ("stale", 1.0), ("revalidated", 1.0), ("coalesced", 1.0), ("miss", 5.0), ("bypass", 1.0)]
    {
        assert_eq!(count(result), expected, "{result}");
    }
    for (metric, reason) in [("stale", "stale-on-error"), ("not_stored", "method")] {
        let name = format!("sopan_cache_{metric}_total{{upstream=\"default\",reason=\"{reason}\"}}");
        assert_eq!(proxy.metric(&name), 1.0, "{name}");
    }
    // A stale answer was given after the token was spent.
    assert_eq!(proxy.metric("sopan_cache_tokens_saved_total{upstream=\"default\"}"), 2.0);
    assert_eq!(proxy.metric("sopan_refusals_total{upstream=\"default\",reason=\"only-if-cached\"}"), 1.0);
    assert_eq!(proxy.metric("sopan_limit_tokens{upstream=\"default\",limit=\"100 per 1h\"}"), 92.0);
}

#[test]
fn a_restart_keeps_what_is_stored_and_one_directory_is_for_one_program() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("cache").display().to_string();
    let upstream = Scripted::start(|request| match &*request.target {
        "/large" => fresh().body(noise(300_000)),
        _ => fresh().header("ETag", "\"a\"").header("X-Line", "1").header("X-Line", "2").body("hello"),
    });
    let cache_dir = format!("--cache-dir {dir}");
    let flags = ["--rate unlimited", &cache_dir];
    let mut proxy = Serve::start(&upstream.url(), &flags);
    let first = proxy.get("/small");
    for target in ["/large", "/gone"] {
        proxy.get(target);
    }
    let mut client = proxy.connect();
    client.send(request("DELETE", "/gone", ""));
    client.reply();
    until(|| (is_stored(&proxy, "/small") && is_stored(&proxy, "/large")).then_some(()));
    assert_eq!(upstream.arrivals(), 4);
    let url = upstream.url();
    let run = sopan(&["serve", "--listen", "127.0.0.1:0", "--admin", "off", "--upstream", &url, "--cache-dir", &dir]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.complained()[0].contains("is used by another sopan"), "{run:?}");
    assert!(
        proxy.logged("INFO")[0]
            .ends_with(&format!("; cache 256MiB of memory, 1GiB in {dir}, which has 0 answers (0 bytes)"))
    );
    let disk = |proxy: &Serve, name: &str| proxy.metric(&format!("sopan_cache_{name}"));
    until(|| (disk(&proxy, "entries{tier=\"disk\"}") == 2.0).then_some(()));
    let bytes = disk(&proxy, "bytes{tier=\"disk\"}");
    assert!((300_000.0..400_000.0).contains(&bytes), "{bytes}");
    assert_eq!(disk(&proxy, "max_bytes{tier=\"memory\"}"), f64::from(256 << 20));
    assert_eq!((disk(&proxy, "entries{tier=\"memory\"}"), disk(&proxy, "evictions_total{tier=\"disk\"}")), (2.0, 0.0));
    assert_eq!((disk(&proxy, "disk{state=\"in_use\"}"), disk(&proxy, "disk{state=\"lost\"}")), (1.0, 0.0));
    proxy.program.signal("TERM");
    assert!(proxy.wait().0.success());
    let proxy = Serve::start(&upstream.url(), &flags);
    let found = format!("in {dir}, which has 2 answers ({bytes} bytes)");
    assert!(proxy.logged("INFO")[0].ends_with(&found), "{:?}", proxy.lines());
    let mut client = proxy.connect();
    let small = client.get("/small");
    assert_eq!((small.status(), small.text(), small.fields("x-line")), (200, "hello", vec!["1", "2"]));
    assert_eq!((small.field("date"), small.field("etag")), (first.field("date"), Some("\"a\"")));
    assert!(small.field("cache-status").unwrap().starts_with("sopan; hit"), "{small:?}");
    assert!(client.get("/large").body == noise(300_000));
    assert_eq!(upstream.arrivals(), 4);
    assert!(!is_stored(&proxy, "/gone"));
    // Others of this machine cannot read it, and what a setting forbids now is not given any more.
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&dir).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);
    drop(proxy);
    let proxy = Serve::start(&upstream.url(), &[&flags[..], &["--cache-path /small bypass"]].concat());
    assert_eq!(proxy.get("/small").field("cache-status").map(|status| status.contains("hit")), Some(false));
    assert_eq!(upstream.arrivals(), 5);
    drop(proxy);
    // What cannot be read is told of once, and stops nobody.
    std::fs::write(directory.path().join("cache/sopan-cache.index"), "broken").unwrap();
    let proxy = Serve::start(&upstream.url(), &flags);
    assert!(proxy.logged("INFO")[0].ends_with("which has 0 answers (0 bytes)"));
    let warned = proxy.logged("WARN");
    let [warned] = &warned[..] else { panic!("{warned:?}") };
    assert!(warned.contains("its index is put aside as ") && warned.ends_with("and it begins empty"), "{warned}");
    assert_eq!(proxy.get("/small").status(), 200);
}

/// It goes through the disk while it comes, and never through memory as a whole.
#[test]
fn a_large_body_goes_through_the_disk() {
    const LENGTH: usize = 20 << 20;
    let body = noise(LENGTH);
    let directory = tempfile::tempdir().unwrap();
    let sent = bytes::Bytes::from(body.clone());
    let upstream = Scripted::start(move |_| fresh().header("ETag", "\"a\"").body(sent.clone()));
    let cache_dir = format!("--cache-dir {}", directory.path().display());
    let flags = ["--rate unlimited", "--cache-size 16MiB", "--cache-entry-bytes-max 32MiB", &cache_dir];
    let mut proxy = Serve::start(&upstream.url(), &flags);
    for restarts in 0..2 {
        let whole = proxy.get("/large");
        assert!(whole.end == End::Whole && whole.body == body, "{whole:?}");
        until(|| is_stored(&proxy, "/large").then_some(()));
        let mut client = proxy.connect();
        for (range, expected) in [
            ("0-0", 0..1),
            ("65530-65545", 65_530..65_546),
            ("10000000-19999999", 10_000_000..20_000_000),
            ("-1", LENGTH - 1..LENGTH),
            ("20971519-", LENGTH - 1..LENGTH),
        ] {
            let part = ask(&mut client, "/large", &format!("Range: bytes={range}\r\n"));
            assert!(part.status() == 206 && part.body == body[expected], "{range}: {part:?}");
        }
        assert_eq!(upstream.arrivals(), 1, "after {restarts} restarts");
        let peak = proxy.memory_peak();
        assert!(peak < 64 << 20, "{} KiB", peak / 1024);
        proxy.program.signal("TERM");
        assert!(proxy.wait().0.success());
        proxy = Serve::start(&upstream.url(), &flags);
    }
}
