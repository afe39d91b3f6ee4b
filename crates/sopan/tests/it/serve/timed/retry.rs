//! What a 429 costs a client of the proxy.

use std::time::Instant;

use super::ms;
use crate::serve::door::Serve;
use crate::support::Fake;

#[test]
fn a_429_costs_the_second_that_it_asks_for_and_little_more() {
    let mut took = Vec::new();
    for log in ["text", "json"].into_iter().cycle().take(9) {
        let fake = Fake::start(&["--rate-limit-first", "1"]);
        let mut proxy = Serve::start(&fake.url(""), &[&format!("--log {log}")]);
        let mut client = proxy.connect();
        let asked = Instant::now();
        let reply = client.get("/api/v1/health");
        took.push(asked.elapsed());
        assert_eq!((reply.status(), reply.text(), reply.attempts()), (200, r#"{"status": "ok"}"#, 2));
        let requests = fake.log();
        assert_eq!(requests.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [429, 200]);
        let gap = requests[1].1 - requests[0].1;
        assert!(gap >= ms(1000) && took.last().unwrap() >= &ms(1000), "{gap:?} {took:?}");
        drop(client);
        proxy.program.signal("TERM");
        let (_, lines) = proxy.wait();
        let warnings: Vec<_> = lines.iter().filter(|line| line.contains("WARN")).collect();
        assert_eq!(warnings.len(), 1, "{lines:?}");
        check_warning(log, warnings[0]);
    }
    took.sort();
    assert!(took[4] < ms(1300), "{took:?}");
}

#[track_caller]
fn check_warning(log: &str, line: &str) {
    let said = "attempt 1 failed (HTTP 429); waiting 1.00 s before retrying";
    if log == "text" {
        return assert_eq!(line.split_once(' ').unwrap().1, format!("WARN {said}"));
    }
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    let fields = ["level", "message", "attempt", "reason", "wait_s"].map(|name| line[name].clone());
    assert_eq!(serde_json::json!(fields), serde_json::json!(["WARN", said, 1, "HTTP 429", 1.0]));
}
