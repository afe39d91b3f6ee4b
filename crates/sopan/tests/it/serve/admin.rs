//! What it tells while it serves, and before it does.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use sopan_fake::script::Answer;

use super::door::{Port, START_LINES, Scripted, Serve};
use super::wire::{post, request};
use crate::support::{get, nobody, sopan, until};

#[test]
fn the_first_lines_name_what_is_in_force() {
    for (flags, in_force, store) in [
        (
            &[][..],
            "limits 10/s burst 20 (19 at once); waiting_max 1000; wait_max 30s; max_retries 3; breaker on; cache on",
            "; cache 256MiB of memory",
        ),
        (
            &[
                "--rate 5/s",
                "--rate 5000 per 1h",
                "--burst 3",
                "--max-in-flight 7",
                "--waiting-max 5",
                "--wait-max unlimited",
                "--max-retries 0",
                "--breaker off",
                "--default-ttl 300",
                "--cache-size 1GiB",
            ],
            "limits 5/s burst 3 (2 at once), 5000 per 1h; max_in_flight 7; waiting_max 5; wait_max unlimited; max_retries 0; \
             breaker off; cache on; default_ttl 5m",
            "; cache 1GiB of memory",
        ),
        (
            &["--cache off"],
            "limits 10/s burst 20 (19 at once); waiting_max 1000; wait_max 30s; max_retries 3; breaker on; cache off",
            "",
        ),
    ] {
        let proxy = Serve::start("http://api.example:81/v2", flags);
        let listening = format!("listening on http://{}; admin http://{}{store}", proxy.address, proxy.admin);
        assert_eq!(proxy.logged("INFO"), [listening, format!("requests go to http://api.example:81/v2; {in_force}")]);
    }
    // A headroom that leaves nothing of a burst shows, and whoever did not mean that is told before.
    let proxy = Serve::start("http://api.example", &["--rate 10/s burst 5", "--headroom 9", "--log json"]);
    let [warned, first, second] =
        [0, 1, 2].map(|at| serde_json::from_str::<serde_json::Value>(&proxy.lines()[at]).unwrap());
    let said = warned["message"].as_str().unwrap();
    assert!(
        said.starts_with("--rate: `10/s burst 5` is used with a burst of 1, since --headroom (9) leaves"),
        "{said}"
    );
    assert_eq!((&warned["level"], &warned["setting"]), (&"WARN".into(), &"--rate".into()));
    let names = ["upstream", "route", "url", "limits", "waiting_max", "wait_max", "max_retries", "breaker", "cache"];
    let expected = serde_json::json!([
        "default",
        "any",
        "http://api.example",
        "10/s burst 5 (1 at once)",
        1000,
        "30s",
        3,
        "on",
        "on"
    ]);
    assert_eq!(serde_json::json!(names.map(|name| second[name].clone())), expected);
    assert_eq!(first["listen"], format!("http://{}", proxy.address));
    assert_eq!(first["admin"], format!("http://{}", proxy.admin));
    let version = format!("sopan {}\n", first["version"].as_str().unwrap());
    assert_eq!(version.as_bytes(), sopan(&["-V"]).out);
}

#[test]
fn it_tells_what_goes_on_while_it_goes_on() {
    let upstream = Scripted::start(|request| match &*request.target {
        "/limited" if request.number == 1 => Answer::json(429, "{}").header("Retry-After", "0"),
        "/missing" => Answer::json(404, "{}"),
        "/open" => Answer::events().event("1").hang(),
        _ => Answer::json(200, "{}"),
    });
    let flags = ["--rate 1000/s burst 50", "--rate 100 per 1h", "--max-in-flight 1", "--min-wait 10ms"];
    let proxy = Serve::start(&upstream.url(), &flags);
    let health = get(proxy.admin, "/healthz");
    assert_eq!((health.status(), &*health.body), (200, "ok\n"));
    assert_eq!(proxy.get("/limited").status(), 200);
    assert_eq!((proxy.get("/missing").status(), proxy.get("/fine").status()), (404, 200));
    let mut open = proxy.connect();
    open.send(request("GET", "/open", ""));
    open.sees("data: 1\n");
    let mut waiting = proxy.connect();
    waiting.send(post("/fine", "hello"));
    proxy.await_waiting(1);
    let text = get(proxy.admin, "/metrics").body;
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    for expected in [
        "sopan_attempts_total{upstream=\"default\",outcome=\"2xx\"} 3",
        "sopan_attempts_total{upstream=\"default\",outcome=\"4xx\"} 1",
        "sopan_attempts_total{upstream=\"default\",outcome=\"429\"} 1",
        "sopan_attempts_total{upstream=\"default\",outcome=\"broken\"} 0",
        "sopan_exchanges_total{upstream=\"default\",status=\"2xx\"} 2",
        "sopan_exchanges_total{upstream=\"default\",status=\"4xx\"} 1",
        "sopan_refusals_total{upstream=\"default\",reason=\"queue-full\"} 0",
        "sopan_waiting{upstream=\"default\"} 1.0",
        "sopan_in_flight{upstream=\"default\"} 1.0",
        "sopan_holds_total{upstream=\"default\"} 1",
        "sopan_hold_seconds{upstream=\"default\"} 0.0",
        "sopan_limit_tokens{upstream=\"default\",limit=\"100 per 1h\"} 95.0",
        "sopan_breaker{upstream=\"default\",state=\"closed\"} 1.0",
        "sopan_wait_seconds_count{upstream=\"default\"} 3",
    ] {
        assert!(text.lines().any(|line| line == expected), "{expected} is missing in\n{text}");
    }
    // Its body is read ahead, and counts with the head.
    let bytes = proxy.metric("sopan_waiting_bytes{upstream=\"default\"}");
    assert!((5.0..200.0).contains(&bytes), "{bytes}");
    drop(open);
    assert_eq!(waiting.reply().status(), 200);
    proxy.await_rest();
    assert_eq!(
        (
            proxy.metric("sopan_waiting_bytes{upstream=\"default\"}"),
            proxy.metric("sopan_cut_off_total{upstream=\"default\"}")
        ),
        (0.0, 1.0)
    );
}

#[test]
fn every_request_is_a_line_if_that_is_wanted() {
    let upstream = Scripted::start(|request| match &*request.target {
        "/cut?key=SECRET" => {
            Answer::status(200).header("Content-Length", "10").body("half").sleep(Duration::from_millis(50)).close()
        }
        _ => Answer::json(200, "{}"),
    });
    let flags = ["--rate 1 per 1h", "--wait-max 0s", "--access-log on"];
    let text = Serve::start(&upstream.url(), &flags);
    assert_eq!(text.get("/orders?key=SECRET").status(), 200);
    assert_eq!(text.get("/orders?key=SECRET").status(), 503);
    let lines: Vec<_> =
        text.await_logged("INFO", START_LINES + 2)[START_LINES..].iter().map(|line| without_times(line)).collect();
    assert_eq!(
        lines,
        [
            "# # ms GET /orders?key=… 2 bytes; waited # ms, 1 attempt, upstream # ms; cache: miss (no-lifetime)",
            "# # ms GET /orders?key=… # bytes; waited # ms, 0 attempts, upstream # ms; refused: wait-too-long",
        ]
    );
    let json = Serve::start(&upstream.url(), &["--rate unlimited", "--access-log on", "--log json"]);
    json.get("/cut?key=SECRET");
    let line = until(|| json.lines().get(START_LINES).cloned());
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    let fields = ["level", "method", "path", "status", "bytes", "attempts", "whole"].map(|name| line[name].clone());
    assert_eq!(serde_json::json!(fields), serde_json::json!(["INFO", "GET", "/cut?key=…", 200, 4, 1, false]));
    // Without the flag there is none, nor anywhere a secret.
    let silent = Serve::start(&upstream.url(), &["--rate unlimited"]);
    assert_eq!(silent.get("/orders?key=SECRET").status(), 200);
    silent.await_rest();
    assert_eq!(silent.lines().len(), START_LINES, "{:?}", silent.lines());
    assert!([text.lines(), json.lines()].concat().iter().all(|line| !line.contains("SECRET")));
}

/// Numbers with decimals, and the length of sopan's own answers, are what they are.
fn without_times(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        let (number, rest) = word.split_at(word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len()));
        if number.contains('.') || number.len() == 3 && rest.is_empty() { format!("#{rest}") } else { word.to_owned() }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Runs it with flags that are wrong; answers what it says.
#[track_caller]
fn refused(listen: SocketAddr, args: &[&str]) -> String {
    let listen = listen.to_string();
    let run = sopan(&[&["serve", "--listen", &listen, "--admin", "off"], args].concat());
    assert_eq!((run.code, run.out.len()), (Some(2), 0), "{args:?}: {}", run.err);
    run.err
}

#[test]
fn a_wrong_value_is_one_message_that_says_what_is_allowed_and_nothing_starts() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "no certificate").unwrap();
    let not_pem = file.path().to_str().unwrap();
    let upstream = ["--upstream", "http://127.0.0.1:1"];
    let port = Port::closed();
    for (args, flag, says) in [
        (&["--rate", "-1"][..], "--rate: `-1`", "10/s"),
        (&["--rate", "-1/s"], "--rate: `-1/s`", ""),
        (&["--rate", "NaN/s"], "--rate: `NaN/s`", ""),
        (&["--rate", "1e309/s"], "--rate: `1e309/s`", ""),
        (&["--rate", "10/fortnight"], "--rate: `10/fortnight`", ""),
        (&["--rate", "2000000000/s"], "--rate: `2000000000/s`", "1000000/s"),
        (&["--rate", "0 per 1s"], "--rate: `0 per 1s`", ""),
        (&["--rate", "5 per 0s"], "--rate: `5 per 0s`", ""),
        (&["--rate", "10/s burst 0"], "--rate: `10/s burst 0`", ""),
        (&["--rate", "unlimited", "--burst", "5"], "--rate: `unlimited`", "stands alone"),
        (&["--burst", "0"], "--burst: `0`", "1 to 1000000000"),
        (&["--jitter", "NaN"], "--jitter: ", "0 to 1"),
        (&["--jitter", "1e309"], "--jitter: ", "0 to 1"),
        (&["--max-retries", "-1"], "--max-retries: `-1`", ""),
        (&["--backoff-base", "1e309s"], "--backoff-base: `1e309s`", ""),
        (&["--total-timeout", "0s"], "--total-timeout: ", ""),
        (&["--waiting-max", "1e309"], "--waiting-max: `1e309`", ""),
        (&["--max-in-flight", "0"], "--max-in-flight: ", ""),
        (&["--max-connections", "0"], "--max-connections: `0`", "1 to 1000000"),
        (&["--workers", "0"], "--workers: `0`", "1 to 1024"),
        (&["--idle-timeout", "0s"], "--idle-timeout: `0s`", "more than zero"),
        (&["--drain", "-1s"], "--drain: `-1s`", ""),
        (&["--breaker", "failures=0"], "--breaker", "1 or more"),
        (&["--client-by", "header:a b"], "--client-by: `a b`", "header:X-Team"),
        (&["--ca-file", "/nowhere/ca.pem"], "--ca-file: ", "/nowhere/ca.pem"),
        (&["--ca-file", not_pem], "--ca-file: ", "PEM"),
        (&["--log", "xml"], "--log: `xml`", "text, json"),
        (&["--upstream", "ftp://127.0.0.1"], "--upstream: `ftp://127.0.0.1`", "https"),
        (&["--upstream", "127.0.0.1:80"], "--upstream: ", ""),
        (&["--upstream", "http://"], "--upstream: ", ""),
        (&["--upstream", "http://u?x=1"], "--upstream: ", ""),
    ] {
        let args = if args[0] == "--upstream" { args.to_vec() } else { [&upstream, args].concat() };
        let err = refused(port.address, &args);
        assert!(err.starts_with(&format!("error: {flag}")) && err.contains(says), "{args:?}: {err}");
        assert!(err.lines().count() == 1 && err.len() < 300, "{err}");
    }
    assert!(TcpStream::connect(port.address).is_err());
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let listen = nobody();
    let err = refused(listen, &["--upstream", "x", "--rate", "0/s", "--jitter", "2", "--log", "xml"]);
    let flags: Vec<_> = err.lines().map(|line| line.split(": ").nth(1).unwrap()).collect();
    assert_eq!(flags, ["--upstream", "--log", "--rate", "--jitter"], "{err}");
}

#[test]
fn a_port_in_use_is_told_and_nothing_starts() {
    let (taken, free) = (TcpListener::bind("127.0.0.1:0").unwrap(), nobody());
    let (taken, free) = (taken.local_addr().map(|address| (taken, address.to_string())).unwrap(), free.to_string());
    for (listen, admin, flag, hint) in [
        (&taken.1, "off", "--listen", "choose another with --listen"),
        (&free, &taken.1, "--admin", "choose another with --admin, or --admin off"),
    ] {
        let run = sopan(&["serve", "--upstream", "http://127.0.0.1:1", "--listen", listen, "--admin", admin]);
        let taken = &taken.1;
        let expected =
            format!("error: {flag}: `{taken}` cannot be listened on: Address already in use (os error 98); {hint}\n");
        assert_eq!((run.code, run.out.len(), run.err), (Some(2), 0, expected));
    }
    // Two that wait for the same clients would each get half of them.
    let proxy = Serve::start("http://127.0.0.1:1", &[]);
    let listen = proxy.address.to_string();
    let run = sopan(&["serve", "--upstream", "http://127.0.0.1:1", "--listen", &listen, "--admin", "off"]);
    assert_eq!((run.code, run.err.lines().count()), (Some(2), 1), "{}", run.err);
}
