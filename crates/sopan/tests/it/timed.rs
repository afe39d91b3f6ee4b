//! What takes a time that matters; these run one at a time.

mod killed;
mod library;

use std::time::Duration;

use crate::support::{Fake, sopan};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn a_429_costs_the_second_that_it_asks_for_and_little_more() {
    let mut took = Vec::new();
    for _ in 0..9 {
        let fake = Fake::start(&["--rate-limit-first", "1"]);
        let run = sopan(&["fetch", &fake.url("/api/v1/health")]);
        assert_eq!((run.code, &*run.out), (Some(0), &br#"{"status": "ok"}"#[..]), "{}", run.err);
        assert_eq!(run.logged("WARN"), ["attempt 1 failed (HTTP 429); waiting 1.00 s before retrying"]);
        let log = fake.log();
        assert_eq!((log[0].0, log[1].0, log.len()), (429, 200, 2));
        let gap = log[1].1 - log[0].1;
        assert!(gap >= ms(1000) && run.took >= ms(1000), "{gap:?} {:?}", run.took);
        took.push(run.took);
    }
    // Others on this machine can only make it longer, and what it costs by itself is in every one of them.
    assert!(took.iter().min().unwrap() < &ms(1300), "{took:?}");
}

#[test]
fn failures_are_spaced_by_the_backoff() {
    let mut gaps = [ms(u64::MAX); 2];
    for _ in 0..3 {
        let fake = Fake::start(&["--fail-first", "2"]);
        let run = sopan(&["fetch", &fake.url("/api/v1/health"), "--jitter", "0"]);
        assert_eq!(run.code, Some(0), "{}", run.err);
        assert_eq!(
            run.logged("WARN"),
            [
                "attempt 1 failed (HTTP 500); waiting 0.50 s before retrying",
                "attempt 2 failed (HTTP 500); waiting 1.00 s before retrying"
            ]
        );
        let log = fake.log();
        gaps = [gaps[0].min(log[1].1 - log[0].1), gaps[1].min(log[2].1 - log[1].1)];
    }
    // The least of each: never early, and others on this machine make some late.
    for (gap, least) in gaps.into_iter().zip([ms(500), ms(1000)]) {
        assert!(gap >= least && gap < least + ms(300), "{gap:?}");
    }
}

#[test]
fn the_defaults_give_up_after_three_retries_and_three_and_a_half_seconds() {
    let fake = Fake::start(&["--fail-first", "9"]);
    let url = fake.url("/api/v1/health");
    let run = sopan(&["fetch", &url]);
    assert_eq!((run.code, run.logged("WARN").len()), (Some(75), 3), "{}", run.err);
    assert_eq!(run.complained(), [format!("error: HTTP 500 from {url}; limit of 3 retries reached")]);
    assert_eq!(fake.statuses(), [500; 4]);
    // 0.5 + 1 + 2 s, each ± 25 %.
    assert!(run.took >= ms(2625) && run.took < ms(4375 + 500), "{:?}", run.took);
}
