//! What sopan would do to traffic, told while it does nothing of it.

use std::thread;

use sopan_fake::script::Answer;

use super::door::{Scripted, Serve};
use crate::support::get;

#[test]
fn observed_traffic_passes_at_once_and_metrics_and_log_tell_what_would_have_been() {
    let upstream = Scripted::start(|request| match &*request.target {
        "/limited" => Answer::json(429, "{}").header("Retry-After", "30"),
        _ => Answer::json(200, "{}"),
    });
    // In earnest six would take 5 h, and four would be refused.
    let flags = [
        "--observe on",
        "--rate 1 per 1h",
        "--wait-max 10h",
        "--waiting-max 5",
        "--access-log on",
        "--total-timeout 12h",
    ];
    let proxy = Serve::start(&upstream.url(), &flags);
    let first = proxy.logged("WARN").remove(0);
    let loud = "ONLY OBSERVING: limits, holds, retries, breaker and cache change nothing (observe); requests go to ";
    assert!(first.starts_with(loud), "{first}");
    thread::scope(|scope| {
        let crowd: Vec<_> = (0..9).map(|_| scope.spawn(|| proxy.get("/orders"))).collect();
        for got in crowd {
            let got = got.join().unwrap();
            assert_eq!(got.status(), 200);
            assert!(got.field("server-timing").unwrap().starts_with("wait;dur=0.0, attempts;desc=\"1\""), "{got:?}");
        }
    });
    // What would have been refused would have met no 429.
    assert_eq!(proxy.get("/limited").status(), 429);
    assert_eq!(upstream.requests().len(), 10);
    proxy.await_rest();
    for (sample, expected) in [
        ("sopan_exchanges_total{upstream=\"default\",status=\"2xx\"}", 9.0),
        ("sopan_refusals_total{upstream=\"default\",reason=\"queue-full\"}", 0.0),
        ("sopan_observed_refusals_total{upstream=\"default\",reason=\"queue-full\"}", 4.0),
        ("sopan_observed_retries_total{upstream=\"default\"}", 0.0),
        ("sopan_observed_wait_seconds_count{upstream=\"default\"}", 6.0),
        ("sopan_limit_tokens{upstream=\"default\",limit=\"1 per 1h\"}", 0.0),
    ] {
        assert_eq!(proxy.metric(sample), expected, "{sample} in {}", get(proxy.admin, "/metrics").body);
    }
    let lines = proxy.await_logged("INFO", 11);
    let told = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
    assert_eq!((told("; would have waited 0.0 ms"), told("; would have been refused: queue-full")), (1, 4));
    assert_eq!((told("; would have waited "), told("; would have been retried")), (6, 0));
}

#[test]
fn a_429_passes_with_the_hold_and_the_retry_that_would_follow() {
    let upstream = Scripted::start(|_| Answer::json(429, "{}").header("Retry-After", "30"));
    let proxy = Serve::start(&upstream.url(), &["--observe on", "--access-log on"]);
    let got = proxy.get("/orders");
    assert_eq!((got.status(), got.field("retry-after")), (429, Some("30")));
    proxy.await_rest();
    assert_eq!(
        (
            proxy.metric("sopan_observed_retries_total{upstream=\"default\"}"),
            proxy.metric("sopan_holds_total{upstream=\"default\"}")
        ),
        (1.0, 1.0)
    );
    assert!(proxy.metric("sopan_hold_seconds{upstream=\"default\"}") > 1.0);
    let lines = proxy.await_logged("INFO", 4);
    assert_eq!(
        lines[1..3],
        [
            "observe: the upstream asks for a pause: nothing would be sent for 30.00 s",
            "observe: attempt 1 failed (HTTP 429); would wait 30.00 s before retrying",
        ]
    );
    assert!(lines[3].ends_with("; would have waited 0.0 ms; would have been retried after 30.00 s"), "{lines:?}");
}
