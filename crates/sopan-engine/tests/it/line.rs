use std::time::Duration;

use sopan_fake::script::{Answer, Upstream};

use crate::support::Bench;

#[tokio::test(start_paused = true)]
async fn a_429_costs_one_wait_and_then_the_answer_comes() {
    let upstream = Upstream::in_process(|request| match request.number {
        1 => Answer::status(429).header("Retry-After", "3"),
        _ => Answer::json(200, r#"{"ok":true}"#),
    });
    let bench = Bench::new(upstream, |_| {});
    let got = bench.get("/x").await;
    assert_eq!((got.status(), &got.body.unwrap()[..]), (200, &br#"{"ok":true}"#[..]));
    assert_eq!(bench.upstream.arrivals(), 2);
    let gap = bench.upstream.gap(1);
    assert!(gap >= Duration::from_secs(3) && gap < Duration::from_millis(3_010), "{gap:?}");
}
