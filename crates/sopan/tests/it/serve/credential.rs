//! The API's key, by the real program: what arrives byte for byte, and a key that is changed while requests run.

use std::fs;
use std::path::Path;
use std::thread;

use sopan_fake::script::Answer;

use super::door::{Scripted, Serve};
use super::wire::{Reply, request};
use crate::support::{PATIENCE, until};

fn ask(proxy: &Serve, target: &str, fields: &str) -> Reply {
    let mut client = proxy.connect();
    client.send(request("GET", target, fields));
    client.reply()
}

/// Puts another key in the place of the one that is there, as a secret store does: no reader ever sees half of it.
fn replace(path: &Path, key: &str) {
    let new = path.with_extension("new");
    fs::write(&new, key).unwrap();
    fs::rename(new, path).unwrap();
}

// au-1
#[test]
fn the_api_gets_its_key_and_no_byte_of_the_client_s() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    fs::write(&path, "vendor/s3cret\n").unwrap();
    let file = format!("--credential-file {}", path.display());
    for (flags, line, field) in [
        (&[][..], "GET /x?page=2 HTTP/1.1", Some("authorization: Bearer vendor/s3cret")),
        (&["--credential-header X-Api-Key"], "GET /x?page=2 HTTP/1.1", Some("x-api-key: vendor/s3cret")),
        (&["--credential-query key"], "GET /x?page=2&key=vendor%2Fs3cret HTTP/1.1", None),
    ] {
        let upstream = Scripted::start(|request| {
            let status = if request.number == 1 { 503 } else { 200 };
            Answer::status(status).header("Location", format!("{}&next", request.target))
        });
        let flags = [&[&*file, "--rate unlimited", "--access-log on", "--backoff-base 10ms"][..], flags].concat();
        let proxy = Serve::start(&upstream.url(), &flags);
        let own = match field {
            Some(field) => format!("{}: MINE\r\n", field.split_once(':').unwrap().0),
            None => String::new(),
        };
        let target = if field.is_none() { "/x?page=2&key=MINE" } else { "/x?page=2" };
        let reply = ask(&proxy, target, &own);
        assert_eq!((reply.status(), reply.field("location")), (200, Some("/x?page=2&next")));
        for number in [1, 2] {
            let head = String::from_utf8(upstream.request(number).head.to_vec()).unwrap();
            assert_eq!(head.lines().next(), Some(line));
            let fields: Vec<_> =
                head.lines().filter(|line| line.contains("vendor") && !line.starts_with("GET")).collect();
            assert_eq!(fields, field.into_iter().collect::<Vec<_>>());
            assert!(!head.contains("MINE"), "{head}");
        }
        let told = proxy.await_logged("INFO", 3).join("\n") + &proxy.lines().join("\n");
        assert!(told.contains("; credential in ") && told.contains("/x?page=…"), "{told}");
        assert!(!told.contains("s3cret") && !told.contains("MINE"), "{told}");
    }
}

#[test]
fn a_key_is_changed_while_requests_run_and_none_goes_without() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    fs::write(&path, "key-1").unwrap();
    let upstream = Scripted::start(|request| match request.field("authorization") {
        Some(key) if key.starts_with("Bearer key-") => Answer::json(200, format!("\"{key}\"")),
        _ => Answer::status(401),
    });
    let file = format!("--credential-file {}", path.display());
    let mut proxy = Serve::start(&upstream.url(), &["--rate unlimited", &file]);
    thread::scope(|scope| {
        let proxy = &proxy;
        let clients: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(move || {
                    let (mut client, mut keys) = (proxy.connect(), Vec::new());
                    let begun = std::time::Instant::now();
                    while keys.last().is_none_or(|key| key != "\"Bearer key-3\"") {
                        let reply = client.get("/x");
                        assert_eq!(reply.status(), 200);
                        keys.push(String::from_utf8(reply.body).unwrap());
                        keys.dedup();
                        assert!(begun.elapsed() < PATIENCE, "{keys:?}");
                    }
                    keys
                })
            })
            .collect();
        for key in ["key-2", "key-3"] {
            replace(&path, key);
            until(|| (ask(proxy, "/x", "").body == format!("\"Bearer {key}\"").as_bytes()).then_some(()));
        }
        for client in clients {
            // In this order, and never back.
            let keys = client.join().unwrap();
            assert_eq!(keys, [1, 2, 3].map(|n| format!("\"Bearer key-{n}\"")));
        }
    });
    fs::remove_file(&path).unwrap();
    let warned = proxy.await_logged("WARN", 1);
    assert!(warned[0].contains("stays the one that was read before"), "{warned:?}");
    assert_eq!(ask(&proxy, "/x", "").status(), 200);
    proxy.program.signal("TERM");
    let (status, lines) = proxy.wait();
    assert!(status.success() && !lines.join("\n").contains("key-"), "{lines:?}");
}

#[test]
fn over_plain_http_to_elsewhere_it_is_warned_of_at_the_start() {
    let key = tempfile::NamedTempFile::new().unwrap();
    fs::write(&key, "s3cret").unwrap();
    let file = format!("--credential-file {}", key.path().display());
    let proxy = Serve::start("http://api.invalid", &[&file]);
    let expected =
        "the credential for default goes to http://api.invalid over plain http, and whoever is on the way can read it";
    assert_eq!(proxy.await_logged("WARN", 1), [expected]);
}
