//! `sopan fake-api`.

use std::thread;
use std::time::Duration;

use crate::support::{Fake, Running, command, nobody, sopan};

#[test]
fn it_is_an_api_with_health_orders_and_a_log() {
    let fake = Fake::start(&[]);
    let health = fake.get("/api/v1/health");
    assert_eq!((health.status(), &*health.body), (200, r#"{"status": "ok"}"#));
    assert_eq!(health.field("server"), Some("TokoKitaAPI/1.0"));
    assert_eq!(health.field("content-type"), Some("application/json; charset=utf-8"));
    let mut next = "/api/v1/orders?page=1".to_owned();
    let mut ids = Vec::new();
    loop {
        let page: serde_json::Value = serde_json::from_str(&fake.get(&next).body).unwrap();
        ids.extend(page["data"].as_array().unwrap().iter().map(|order| order["id"].as_u64().unwrap()));
        match page["next"].as_str() {
            Some(path) => next = path.to_owned(),
            None => break,
        }
    }
    assert_eq!(ids, (1..=120).collect::<Vec<_>>());
    assert_eq!(fake.statuses(), [200, 200, 200, 200]);
}

#[test]
fn a_planned_429_is_exact() {
    let fake = Fake::start(&["--rate-limit-first", "1", "--fail-first", "1"]);
    let limited = fake.get("/api/v1/health");
    assert_eq!((limited.status(), limited.field("retry-after")), (429, Some("1")));
    assert_eq!(limited.body, r#"{"error": "rate_limited", "message": "Terlalu banyak permintaan."}"#);
    assert_eq!(limited.body.len(), 66);
    assert_eq!((fake.get("/api/v1/health").status(), fake.get("/api/v1/health").status()), (500, 200));
    assert_eq!(fake.statuses(), [429, 500, 200]);
}

#[test]
fn it_keeps_to_the_limit_that_it_was_told() {
    let fake = Fake::start(&["--limit", "1/h burst 2", "--retry-after", "none"]);
    assert_eq!([0; 3].map(|_| fake.get("/api/v1/health").status()), [200, 200, 429]);
    let fake = Fake::start(&["--limit", "2 per 1h", "--window", "sliding", "--retry-after", "imf"]);
    assert_eq!([0; 2].map(|_| fake.get("/api/v1/health").status()), [200, 200]);
    assert!(fake.get("/api/v1/health").field("retry-after").unwrap().ends_with(" GMT"));
}

#[test]
fn a_signal_ends_it_with_zero() {
    for signal in ["INT", "TERM"] {
        let mut fake = Fake::start(&[]);
        fake.program.signal(signal);
        assert_eq!(fake.program.wait().code(), Some(0), "{signal}");
    }
}

#[test]
fn a_port_that_is_taken_is_told() {
    let fake = Fake::start(&[]);
    let run = sopan(&["fake-api", "--listen", &fake.address.to_string()]);
    let expected = format!(
        "error: --listen: `{}` cannot be listened on: Address already in use (os error 98); choose another",
        fake.address
    );
    assert!(run.err.starts_with(&expected), "{}", run.err);
    assert_eq!((run.code, run.out, run.err.lines().count()), (Some(2), Vec::new(), 1));
}

#[test]
fn everything_that_is_wrong_is_told_at_once_and_nothing_starts() {
    let address = nobody().to_string();
    let run = sopan(&["fake-api", "--listen", &address, "--limit", "0/s", "--window", "round", "--delay", "-1"]);
    assert_eq!((run.code, run.out.len()), (Some(2), 0));
    let flags: Vec<_> = run.complained().iter().map(|line| line.split(": ").nth(1).unwrap()).collect();
    assert_eq!(flags, ["--limit", "--window", "--delay"], "{}", run.err);
}

#[test]
fn nobody_need_read_where_it_listens() {
    let mut child = command(&["fake-api", "--listen", "127.0.0.1:0"]).spawn().unwrap();
    drop(child.stdout.take());
    let mut program = Running(child);
    // It must not have ended by itself, and must still end when told.
    thread::sleep(Duration::from_millis(100));
    assert!(program.0.try_wait().unwrap().is_none());
    program.signal("TERM");
    assert_eq!(program.wait().code(), Some(0));
}
