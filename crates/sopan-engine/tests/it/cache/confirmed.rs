//! What becomes of a stored answer when the upstream is asked about it.

use super::{Line, Stage};

// ca-4
#[tokio::test(start_paused = true)]
async fn a_304_freshens_what_is_stored_and_the_client_gets_all_of_it() {
    let body = "x".repeat(500);
    let first = format!("200 | max-age=1 | ETag: \"v1\" | X-Old: 1 | X-Both: 1 | = {body}");
    let word = "304 | max-age=30 | X-New: 2 | X-Both: 2 | Date: Tue, 10 Mar 2026 12:00:02 GMT | Content-Length: 0";
    let stage = Stage::new(|_| {});
    stage.play(&[(0, "GET /a", &first, &format!("200 {body} miss"))]).await;
    for (at, answer, how, age) in [(2, word, "revalidated", "0"), (3, "-", "hit", "1"), (12, "-", "hit", "10")] {
        tokio::time::sleep_until(stage.bench.begun + crate::support::s(at)).await;
        stage.will_answer(answer);
        let got = stage.ask("GET /a").await;
        assert_eq!(stage.told(&got), format!("200 {body} {how} age={age}"));
        let fields = ["content-length", "etag", "x-old", "x-new", "x-both", "date", "cache-control"];
        let expected = ["500", "\"v1\"", "1", "2", "2", "Tue, 10 Mar 2026 12:00:02 GMT", "max-age=30"];
        assert_eq!(fields.map(|name| got.field(name).unwrap()), expected, "at {at}");
    }
    assert_eq!(stage.bench.upstream.arrivals(), 2);
    assert_eq!(stage.last_asked_with("if-none-match").as_deref(), Some("\"v1\""));
    stage.bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn a_304_to_what_is_not_ours_is_of_no_use_to_who_asked_for_an_answer() {
    let first = "200 | max-age=1 | ETag: \"a\"";
    let stage = Stage::new(|_| {});
    stage
        .play(&[
            (0, "GET /a", first, "200 v1 miss"),
            (2, "GET /a", "304 | ETag: \"b\" || 200 | max-age=1 | ETag: \"b\"", "200 v3 miss"),
        ])
        .await;
    let asked: Vec<_> = stage.bench.upstream.requests().iter().map(|r| r.field("if-none-match").is_some()).collect();
    assert_eq!(asked, [false, true, false]);
    // Once is enough: to the question without a condition a 304 is what the upstream says.
    stage.play(&[(4, "GET /a", "304 | ETag: \"c\" || 304 | ETag: \"c\"", "304 miss")]).await;
    // What it was asked about is not asked about again.
    stage.play(&[(5, "GET /a", "200", "200 v6 miss")]).await;
    assert_eq!(stage.last_asked_with("if-none-match"), None);
}

#[tokio::test(start_paused = true)]
async fn a_clients_own_condition_is_answered_and_never_mixed_with_ours() {
    let stage = Stage::new(|_| {});
    let (ours, theirs) = ("GET /a | If-None-Match: W/\"a\"", "GET /a | If-None-Match: \"mine\"");
    let lines: [Line<'_>; 9] = [
        (0, "GET /a", "200 | max-age=2 | ETag: \"a\" | Last-Modified: Tue, 10 Mar 2026 11:59:00 GMT", "200 v1 miss"),
        (1, ours, "-", "304 hit age=1"),
        (1, theirs, "-", "200 v1 hit age=1"),
        (1, "GET /a | If-Modified-Since: Tue, 10 Mar 2026 11:59:00 GMT", "-", "304 hit age=1"),
        (3, ours, "304 | max-age=2", "304 revalidated age=0"),
        (6, theirs, "304 | max-age=2", "200 v1 revalidated age=0"),
        // About what is not stored it is the client's own question.
        (9, theirs, "304 | ETag: \"z\" || 304 | ETag: \"mine\"", "304 miss"),
        (9, theirs, "304 | ETag: \"mine\"", "304 miss"),
        (9, "GET /a", "200", "200 v7 miss"),
    ];
    stage.play(&lines).await;
    let asked = stage.bench.upstream.requests();
    let asked: Vec<_> = asked.iter().map(|request| request.fields_named("if-none-match").join(" + ")).collect();
    assert_eq!(asked, ["", "\"a\"", "\"a\"", "\"a\"", "\"mine\"", "\"mine\"", ""]);
}

#[tokio::test(start_paused = true)]
async fn a_head_is_answered_from_a_get_and_tells_of_it() {
    let get = "200 | max-age=10 | ETag: \"a\" | = hello";
    let head = |tag| format!("200 | max-age=10 | ETag: \"{tag}\" | Content-Length: 5");
    let stage = Stage::new(|_| {});
    stage
        .play(&[
            (0, "HEAD /a", &head("a"), "200 miss"),
            (0, "GET /a", get, "200 hello miss"),
            (1, "HEAD /a", "-", "200 hit age=1"),
            // It confirms what is stored,
            (20, "HEAD /a", &head("a"), "200 miss"),
            (21, "GET /a", "-", "200 hello hit age=1"),
            // or says that it is another by now.
            (40, "HEAD /a", &head("b"), "200 miss"),
            (40, "GET /a", get, "200 hello miss"),
        ])
        .await;
    tokio::time::sleep(crate::support::s(1)).await;
    let got = stage.ask("HEAD /a").await;
    assert_eq!((got.field("content-length"), got.text()), (Some("5"), ""));
    assert_eq!(stage.last_asked_with("if-none-match"), None);
}

#[tokio::test(start_paused = true)]
async fn a_new_answer_takes_the_place_of_what_was_asked_about_whatever_it_is() {
    let first = "200 | max-age=1 | ETag: \"a\"";
    for (news, expected, next, then) in [
        ("200 | max-age=60", "200 v2 miss", "-", "200 v2 hit age=1"),
        ("200 | no-store", "200 v2 miss", "200", "200 v3 miss"),
        ("404", "404 v2 miss", "200", "200 v3 miss"),
        ("301 | Location: /b | max-age=60", "301 v2 miss", "-", "301 v2 hit age=1"),
        // A failure is no news.
        ("500", "500 v2 miss", "304", "200 v1 revalidated age=0"),
        ("429", "429 v2 miss", "304", "200 v1 revalidated age=0"),
        ("403", "403 v2 miss", "304", "200 v1 revalidated age=0"),
    ] {
        let stage = Stage::new(|_| {});
        stage.play(&[(0, "GET /a", first, "200 v1 miss"), (5, "GET /a", news, expected)]).await;
        // A 429 holds the lane for a while.
        tokio::time::sleep(crate::support::s(1)).await;
        assert_eq!(stage.line("GET /a", next).await, then, "{news}");
    }
}
