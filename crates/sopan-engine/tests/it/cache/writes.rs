//! What a write makes untrue, and what it leaves alone.

use super::{Line, Stage, inbound};
use crate::support::{s, settled};

const ONE: &str = "GET /r/1";
const TWO: &str = "GET /r/2";
const FRESH: &str = "200 | max-age=600";

/// Which of two that were stored are still there after this exchange.
async fn left(asked: &str, answer: &str) -> [bool; 2] {
    let stage = Stage::new(|_| {});
    stage.play(&[(0, ONE, FRESH, "200 v1 miss"), (0, TWO, FRESH, "200 v2 miss")]).await;
    stage.line(asked, answer).await;
    [stage.has(ONE).await, stage.has(TWO).await]
}

// ca-6
#[tokio::test(start_paused = true)]
async fn a_write_drops_what_it_was_to_and_nothing_else() {
    for method in ["POST", "PUT", "PATCH", "DELETE", "FOO", "M-SEARCH", "get"] {
        for (status, expected) in [
            ("200", [false, true]),
            ("201", [false, true]),
            ("204", [false, true]),
            ("303", [false, true]),
            ("400", [true, true]),
            ("404", [true, true]),
            ("409", [true, true]),
            ("500", [true, true]),
            ("503 | Retry-After: 1", [true, true]),
        ] {
            assert_eq!(left(&format!("{method} /r/1"), status).await, expected, "{method} {status}");
        }
    }
    for method in ["OPTIONS", "QUERY", "PROPFIND", "REPORT", "SEARCH"] {
        assert_eq!(left(&format!("{method} /r/1"), "200").await, [true, true], "{method}");
    }
    // It was answered by us, and never sent.
    assert_eq!(left("TRACE /r/1 | Max-Forwards: 0", "-").await, [true, true]);
    // One that asked for another protocol, and got an answer.
    assert_eq!(left("DELETE /r/1 | Connection: upgrade | Upgrade: other/1", "200").await, [false, true]);
}

#[tokio::test(start_paused = true)]
async fn what_it_points_to_on_the_same_host_goes_too() {
    for (field, goes) in [
        ("Location: /r/2", true),
        ("Location: 2", true),
        ("Location: http://upstream.test/r/2", true),
        ("Location: http://upstream.test:80/r/2#there", true),
        ("Content-Location: http://UPSTREAM.test/r/2", true),
        ("Location: /r/2?x", false),
        ("Location: http://other.test/r/2", false),
        ("Location: https://upstream.test/r/2", false),
        ("Location: //other.test/r/2", false),
        ("Link: </r/2>", false),
    ] {
        assert_eq!(left("POST /r/1", &format!("201 | {field}")).await, [false, !goes], "{field}");
        assert_eq!(left("POST /r/1", &format!("409 | {field}")).await, [true, true], "{field}");
    }
}

/// However else they were told apart: they are all of what was written to.
#[tokio::test(start_paused = true)]
async fn all_variants_of_all_owners_and_hosts_go_at_once() {
    let all = [
        // What is for all is for these too, so that they come first.
        "GET /r/1 | Authorization: A",
        "GET /r/1 | Authorization: B",
        "GET /r/1",
        "GET /r/1 | Accept-Language: en",
        "GET /r/1 | Accept-Language: de",
        "GET /r/1 | Host: other-name.test",
    ];
    let stage = Stage::new(|_| {});
    for asked in all {
        stage.line(asked, "200 | max-age=600 | Vary: Accept-Language").await;
    }
    stage
        .line("GET /r/1 | Range: bytes=0-1 | Host: third.test", "206 | max-age=600 | Content-Range: bytes 0-1/9 | = 01")
        .await;
    let asked_all: Vec<_> = all.into_iter().chain(["GET /r/1 | Range: bytes=0-1 | Host: third.test"]).collect();
    for asked in &asked_all {
        assert!(stage.has(asked).await, "{asked}");
    }
    stage.line("DELETE /r/1 | Authorization: C | Host: fourth.test", "204").await;
    for asked in &asked_all {
        assert!(!stage.has(asked).await, "{asked}");
    }
}

/// What came of a question that was asked before the write may be what was there before.
#[tokio::test(start_paused = true)]
async fn what_was_under_way_when_a_write_was_answered_is_not_stored() {
    let stage = Stage::new(|_| {});
    stage.play(&[(0, TWO, FRESH, "200 v1 miss")]).await;
    // Of the same target; of one that it points to; of another.
    let asking = [ONE, "GET /r/3", "GET /r/4"].map(|asked| {
        stage.will_answer("200 | max-age=600 | after 5");
        stage.spawn(asked, 1)
    });
    settled().await;
    assert_eq!(stage.bench.upstream.arrivals(), 4);
    stage.line("PUT /r/1", "200 | Location: /r/3").await;
    // Who asks now does not wait for what was asked for before.
    stage.will_answer("200 | no-store");
    let got = stage.ask(ONE).await;
    assert_eq!((stage.told(&got), got.head_at < s(1)), ("200 v6 miss".to_owned(), true));
    for asking in asking {
        assert_eq!(asking.await.unwrap().status(), 200);
    }
    let stored = [stage.has(ONE).await, stage.has("GET /r/3").await, stage.has("GET /r/4").await, stage.has(TWO).await];
    assert_eq!(stored, [false, false, true, true]);
}

/// The body of an answer may still come when it is untrue already.
#[tokio::test(start_paused = true)]
async fn what_was_coming_when_a_write_was_answered_is_not_stored() {
    let stage = Stage::new(|_| {});
    stage.will_answer("200 | max-age=600");
    let mut answer = sopan_engine::exchange::call(&stage.bench.engine, inbound(ONE, 1)).await;
    stage.line("DELETE /r/1", "204").await;
    let body = http_body_util::BodyExt::collect(answer.response.body_mut()).await.unwrap().to_bytes();
    assert_eq!(body, "v1");
    assert!(!stage.has(ONE).await);
    // Nor does what it brings out of a 304 come back.
    let lines: [Line<'_>; 1] = [(0, ONE, "200 | max-age=1 | ETag: \"a\"", "200 v3 miss")];
    stage.play(&lines).await;
    tokio::time::sleep(s(2)).await;
    stage.will_answer("304 | max-age=600 | after 5");
    let asking = stage.spawn(ONE, 1);
    settled().await;
    stage.line("DELETE /r/1", "204").await;
    assert_eq!(asking.await.unwrap().text(), "v3");
    assert!(!stage.has(ONE).await);
}
