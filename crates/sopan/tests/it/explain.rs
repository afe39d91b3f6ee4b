//! `sopan explain`: what would be done with an answer, by the whole program.

use std::io::Write;
use std::process::Stdio;

use crate::support::{command, sopan};

const NOON: &str = "Wed, 21 Oct 2026 12:00:00 GMT";

#[test]
fn it_says_what_would_be_done_and_why() {
    let until = "Retry-After: Wed, 21 Oct 2026 12:00:30 GMT";
    let run = sopan(&["explain", "--status", "429", "--header", until, "--now", NOON]);
    let out = String::from_utf8(run.out).unwrap();
    assert_eq!((run.code, &*run.err), (Some(0), ""));
    assert!(out.starts_with(&format!("GET answered with 429, received {NOON}\n")), "{out}");
    assert!(out.ends_with("\nSo sopan waits 30 s, then sends attempt 2, and nobody else sends meanwhile\n"), "{out}");
    // Nobody looks at a terminal here.
    assert!(!out.contains('\x1b'), "{out}");
}

#[test]
fn the_settings_of_the_proxy_are_heeded() {
    let args = ["explain", "--status", "500", "--jitter", "0", "--backoff-base", "2s", "--format", "json"];
    let run = sopan(&args);
    let object: serde_json::Value = serde_json::from_slice(&run.out).unwrap();
    assert_eq!((run.code, &*run.err), (Some(0), ""));
    assert_eq!(object["wait_s"], serde_json::json!({ "least": 2.0, "most": 2.0 }));
}

#[test]
fn of_a_body_only_its_size_is_told() {
    let mut explain = command(&["explain", "--status", "500", "--body", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    explain.stdin.take().unwrap().write_all(&vec![b'S'; 65_537]).unwrap();
    let done = explain.wait_with_output().unwrap();
    let out = String::from_utf8(done.stdout).unwrap();
    assert!(
        done.status.success() && out.contains(" 65537 bytes, too long to be kept: passed on, and not retried"),
        "{out}"
    );
    assert!(!out.contains("SS"), "{out}");
}

#[test]
fn a_body_that_cannot_be_read_is_a_wrong_setting() {
    let run = sopan(&["explain", "--status", "500", "--body", "/no/such/file"]);
    assert_eq!((run.code, run.out.len()), (Some(2), 0));
    assert!(run.err.starts_with("error: --body: `/no/such/file` cannot be read: "), "{}", run.err);
}
