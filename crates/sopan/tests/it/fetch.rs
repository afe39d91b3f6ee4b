//! `sopan fetch`: one GET, its body whole or nothing.

use std::io::Read;
use std::process::Stdio;

use crate::support::{Fake, Once, Run, Running, command, nobody, skipped, sopan, until};

/// So that retries after failures take no time; what a 429 asks for is in the timed tests.
const QUICK: [&str; 4] = ["--backoff-base", "1ms", "--backoff-cap", "1ms"];

fn fetch(url: &str, flags: &[&str]) -> Run {
    let args = ["fetch", url].into_iter().chain(QUICK).chain(flags.iter().copied());
    sopan(&args.collect::<Vec<_>>())
}

#[test]
fn the_body_comes_out_byte_for_byte_and_nothing_else() {
    let fake = Fake::start(&[]);
    let run = fetch(&fake.url("/api/v1/orders?page=2"), &[]);
    assert_eq!((run.code, &*run.err), (Some(0), ""));
    assert_eq!(String::from_utf8(run.out).unwrap(), fake.get("/api/v1/orders?page=2").body);
}

#[test]
fn a_body_that_does_not_fit_into_memory_comes_out_too() {
    let body: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    answer.extend_from_slice(&body);
    let once = Once::answering(answer);
    let run = fetch(&format!("http://{}/", once.address), &[]);
    assert_eq!((run.code, &*run.err, run.out == body), (Some(0), "", true));
}

#[test]
fn the_request_is_what_was_typed() {
    let once = Once::answering("HTTP/1.1 204 No Content\r\n\r\n");
    let url = format!("http://{}/a//b%2Fc?x=%20&y&z=1#frag", once.address);
    let run = fetch(&url, &["--header", "Authorization: Bearer SECRET", "--header", "X-A: 1", "--header", "x-a: 2"]);
    assert_eq!((run.code, &*run.err, run.out.len()), (Some(0), "", 0));
    let host = once.address;
    let request = once.request().to_ascii_lowercase();
    let (line, fields) = request.trim_end().split_once("\r\n").unwrap();
    assert_eq!(line, "get /a//b%2fc?x=%20&y&z=1 http/1.1");
    let mut fields: Vec<_> = fields.split("\r\n").collect();
    fields.sort_unstable();
    let (host, agent) = (format!("host: {host}"), format!("user-agent: sopan/{}", env!("CARGO_PKG_VERSION")));
    assert_eq!(fields, ["accept: */*", "authorization: bearer secret", &host, &agent, "x-a: 1", "x-a: 2"]);
}

#[test]
fn a_key_comes_from_a_variable_or_a_file_and_is_sent_with_it() {
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&key, "me:s3cret\n").unwrap();
    let file = ["--credential-file", key.path().to_str().unwrap(), "--credential-scheme", "Basic"];
    for (flags, field) in [
        (&["--credential-env", "SOPAN_TEST_KEY"][..], "authorization: Bearer s3cret"),
        (&file, "authorization: Basic bWU6czNjcmV0"),
    ] {
        let once = Once::answering("HTTP/1.1 204 No Content\r\n\r\n");
        let url = format!("http://{}/", once.address);
        let args = ["fetch", &url, "--header", "Authorization: other"].into_iter().chain(flags.iter().copied());
        let done = command(&args.collect::<Vec<_>>()).env("SOPAN_TEST_KEY", "s3cret").output().unwrap();
        assert_eq!((done.status.code(), done.stderr.len()), (Some(0), 0), "{done:?}");
        let request = once.request();
        assert_eq!(request.lines().filter(|line| line.starts_with("authorization")).collect::<Vec<_>>(), [field]);
    }
}

#[test]
fn failures_cost_retries_and_a_line_each() {
    let fake = Fake::start(&["--fail-first", "2"]);
    let run = fetch(&fake.url("/api/v1/health"), &[]);
    assert_eq!((run.code, &*run.out), (Some(0), &br#"{"status": "ok"}"#[..]));
    let waited = run.logged("WARN");
    assert_eq!(waited.len(), 2, "{}", run.err);
    assert_eq!(waited[0], "attempt 1 failed (HTTP 500); waiting 0.00 s before retrying");
    assert_eq!(waited[1], "attempt 2 failed (HTTP 500); waiting 0.00 s before retrying");
    assert_eq!(fake.statuses(), [500, 500, 200]);
}

#[test]
fn spent_retries_are_a_failure_that_may_pass() {
    let fake = Fake::start(&["--fail-first", "9"]);
    let url = fake.url("/api/v1/orders?page=1&key=SECRET");
    let run = fetch(&url, &["--header", "Authorization: Bearer SECRET"]);
    assert_eq!((run.code, run.out.len(), run.logged("WARN").len()), (Some(75), 0, 3));
    let shown = url.replace("page=1&key=SECRET", "page=…&key=…");
    assert_eq!(run.complained(), [format!("error: HTTP 500 from {shown}; limit of 3 retries reached")]);
    assert_eq!(fake.statuses(), [500; 4]);
    assert!(!run.err.contains("SECRET"), "{}", run.err);
}

#[test]
fn a_request_that_is_refused_must_be_mended() {
    let fake = Fake::start(&[]);
    let url = fake.url("/api/v1/nothing");
    let run = fetch(&url, &[]);
    assert_eq!((run.code, run.out.len()), (Some(76), 0));
    let says = r#"it says: {"error": "not_found", "message": "Alamat tidak ditemukan."}"#;
    assert_eq!(run.err, format!("error: HTTP 404 from {url}; {says}\n"));
    assert_eq!(fake.statuses(), [404]);
}

#[test]
fn what_an_upstream_says_cannot_play_tricks_on_a_terminal() {
    let long = "x".repeat(400);
    for (kind, body, says) in [
        ("application/json", "a\u{1b}[2J\n\n b", "; it says: a\\u{1b}[2J b"),
        ("text/plain; charset=utf-8", &long, &format!("; it says: {}…", "x".repeat(300))),
        ("text/html", "<h1>no</h1>", ""),
        ("application/json", "", ""),
    ] {
        let length = body.len();
        let head = format!("HTTP/1.1 403 Forbidden\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n");
        let once = Once::answering(head + body);
        let url = format!("http://{}/x", once.address);
        let run = fetch(&url, &[]);
        assert_eq!((run.code, run.err), (Some(76), format!("error: HTTP 403 from {url}{says}\n")));
    }
}

#[test]
fn a_redirect_is_told_and_not_followed() {
    let once = Once::answering("HTTP/1.1 301 Moved\r\nLocation: https://u/new?key=SECRET\r\nContent-Length: 0\r\n\r\n");
    let url = format!("http://{}/old", once.address);
    let run = fetch(&url, &[]);
    let told = "redirects are not followed, use https://u/new?key=… instead if that is right";
    assert_eq!((run.code, run.err), (Some(76), format!("error: HTTP 301 from {url}; {told}\n")));
}

#[test]
fn nobody_listening_may_pass() {
    let url = format!("http://{}/x?key=SECRET", nobody());
    let run = fetch(&url, &["--max-retries", "1"]);
    assert_eq!((run.code, run.out.len()), (Some(75), 0));
    let complained = run.complained();
    assert_eq!(complained.len(), 1, "{}", run.err);
    let shown = url.replace("SECRET", "…");
    assert!(complained[0].starts_with("error: connection failed: "), "{}", run.err);
    assert!(complained[0].ends_with(&format!(", for {shown}; limit of 1 retry reached")), "{}", run.err);
}

#[test]
fn a_body_that_breaks_off_is_fetched_again() {
    for cut in ["close", "reset"] {
        let fake = Fake::start(&["--truncate-first", "1", "--cut", cut]);
        let run = fetch(&fake.url("/api/v1/orders"), &[]);
        assert_eq!(run.code, Some(0), "{}", run.err);
        assert_eq!(String::from_utf8(run.out.clone()).unwrap(), fake.get("/api/v1/orders").body);
        assert_eq!(run.logged("WARN").len(), 1, "{}", run.err);
    }
}

#[test]
fn a_body_that_always_breaks_off_leaves_nothing_on_standard_output() {
    let fake = Fake::start(&["--truncate-first", "9"]);
    let run = fetch(&fake.url("/api/v1/orders"), &["--max-retries", "2"]);
    assert_eq!((run.code, run.out.len()), (Some(75), 0), "{}", run.err);
    assert!(run.complained()[0].ends_with("; limit of 2 retries reached"), "{}", run.err);
}

#[test]
fn a_body_has_a_bound() {
    let fake = Fake::start(&[]);
    let url = fake.url("/api/v1/orders");
    let run = fetch(&url, &["--body-bytes-max", "1KiB"]);
    assert_eq!((run.code, run.out.len()), (Some(76), 0));
    let expected =
        format!("error: the answer from {url} cannot be kept: it is longer than 1024 bytes (--body-bytes-max)\n");
    assert_eq!(run.err, expected);
}

#[test]
fn waits_are_objects_in_a_json_log() {
    let fake = Fake::start(&["--fail-first", "1"]);
    let run = fetch(&fake.url("/api/v1/health"), &["--log", "json"]);
    assert_eq!((run.code, run.err.lines().count()), (Some(0), 1), "{}", run.err);
    let line: serde_json::Value = serde_json::from_str(&run.err).unwrap();
    assert_eq!((&line["level"], &line["attempt"], &line["reason"]), (&"WARN".into(), &1.into(), &"HTTP 500".into()));
    assert!(line["wait_s"].as_f64().unwrap() < 0.1 && line["timestamp"].as_str().unwrap().ends_with('Z'));
    assert_eq!(line["message"], "attempt 1 failed (HTTP 500); waiting 0.00 s before retrying");
}

#[test]
fn every_line_of_a_json_log_is_an_object_also_the_last() {
    let fake = Fake::start(&["--fail-first", "9"]);
    let url = fake.url("/api/v1/health");
    let run = fetch(&url, &["--log", "json", "--max-retries", "1"]);
    let lines: Vec<serde_json::Value> = run.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((run.code, lines.len()), (Some(75), 2), "{}", run.err);
    let last = ["level", "message", "exit_code"].map(|name| lines[1][name].clone());
    let message = format!("HTTP 500 from {url}; limit of 1 retry reached");
    assert_eq!(serde_json::json!(last), serde_json::json!(["ERROR", message, 75]));
}

#[test]
fn a_reader_that_had_enough_is_no_failure() {
    let fake = Fake::start(&["--orders-total", "1000"]);
    let url = fake.url("/api/v1/orders?size=1000");
    let mut child = command(&["fetch", &url]).spawn().unwrap();
    // More than a pipe holds is on its way.
    let mut begin = [0; 5];
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut begin).unwrap();
    assert_eq!(&begin, b"{\"dat");
    drop(out);
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((Running(child).wait().code(), &*err), (Some(0), ""));
}

#[test]
fn a_full_disk_is_told() {
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else {
        return skipped("this system has no /dev/full");
    };
    let fake = Fake::start(&[]);
    let done = command(&["fetch", &fake.url("/api/v1/orders")]).stdout(full).output().unwrap();
    let err = String::from_utf8(done.stderr).unwrap();
    assert!(err.starts_with("error: standard output cannot be written to: No space left on device"), "{err}");
    assert_eq!(done.status.code(), Some(76));
}

#[test]
fn sigint_ends_it_while_it_waits_and_while_nobody_reads() {
    let slow = Fake::start(&["--delay", "60s"]);
    let mut waiting = Running(command(&["fetch", &slow.url("/api/v1/health")]).spawn().unwrap());
    until(|| (!slow.log().is_empty()).then_some(()));
    waiting.signal("INT");
    assert_eq!(waiting.wait().code(), Some(130));

    let large = Fake::start(&["--orders-total", "1000"]);
    let url = large.url("/api/v1/orders?size=1000");
    let mut writing = command(&["fetch", &url]).stderr(Stdio::inherit()).spawn().unwrap();
    let mut out = writing.stdout.take().unwrap();
    // It has begun to write, and a pipe does not hold all of it.
    out.read_exact(&mut [0]).unwrap();
    let mut writing = Running(writing);
    writing.signal("INT");
    assert_eq!(writing.wait().code(), Some(130));
}
