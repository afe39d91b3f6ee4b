//! What is stored at all.

use super::{Line, Stage};

// ca-3
#[tokio::test(start_paused = true)]
async fn what_is_not_for_a_second_client_is_asked_for_each_time() {
    for fields in [
        "no-store, max-age=60",
        "private, max-age=60",
        "no-cache, max-age=60",
        "NO-STORE",
        "max-age=60 | Set-Cookie: s=1",
        "max-age=60 | Cache-Control: no-store",
    ] {
        let stage = Stage::new(|_| {});
        let answer = format!("200 | {fields}");
        assert_eq!(stage.line("GET /x", &answer).await, "200 v1 miss", "{fields}");
        tokio::time::sleep(crate::support::SECOND).await;
        let second = stage.line("GET /x", "200 | no-store").await;
        assert_eq!(second, "200 v2 miss", "{fields}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cookie_is_given_to_others_only_where_that_is_set() {
    let answer = "200 | max-age=60, no-cache=\"Set-Cookie\" | Set-Cookie: s=1 | Set-Cookie: t=2";
    let stage = Stage::new(|_| {});
    stage.play(&[(0, "GET /x", answer, "200 v1 miss"), (1, "GET /x", "-", "200 v1 hit age=1")]).await;
    assert_eq!(stage.ask("GET /x").await.field("set-cookie"), None);
    let stage = Stage::new(|policy| policy.store_set_cookie = true);
    let answer = "200 | max-age=60 | Set-Cookie: s=1 | Set-Cookie: t=2";
    stage.play(&[(0, "GET /x", answer, "200 v1 miss"), (1, "GET /x", "-", "200 v1 hit age=1")]).await;
    let got = stage.ask("GET /x").await;
    let cookies: Vec<_> = got.response.headers().get_all("set-cookie").iter().collect();
    assert_eq!(cookies, ["s=1", "t=2"]);
}

// ca-7
#[tokio::test(start_paused = true)]
async fn a_short_outage_does_not_live_on() {
    let lines: [Line<'_>; 7] = [
        (0, "GET /p", "500", "500 v1 miss"),
        (0, "GET /p", "200", "200 v2 miss"),
        // The pause that it asks for is the lane's.
        (0, "GET /p", "429 | max-age=60", "429 v3 miss"),
        (10, "GET /p", "503 | max-age=60 | Retry-After: 1", "503 v4 miss"),
        (20, "GET /p", "200 | max-age=10 | ETag: \"a\"", "200 v5 miss"),
        (40, "GET /p", "503", "503 v6 miss"),
        (41, "GET /p", "304 | max-age=10", "200 v5 revalidated age=0"),
    ];
    let stage = Stage::new(|_| {});
    stage.play(&lines).await;
    assert_eq!(stage.last_asked_with("if-none-match").as_deref(), Some("\"a\""));
}

#[tokio::test(start_paused = true)]
async fn what_a_request_itself_takes_out_of_the_cache_is_not_stored() {
    let answer = "200 | max-age=60";
    let lines: [Line<'_>; 9] = [
        (0, "GET /a | Cache-Control: no-store", answer, "200 v1 miss"),
        (0, "GET /a | If-Match: \"x\"", answer, "200 v2 bypass"),
        (0, "POST /a", answer, "200 v3 bypass"),
        (0, "PROPFIND /a", answer, "200 v4 bypass"),
        (0, "GET /a | Cache-Control: only-if-cached", "-", "504 only-if-cached"),
        (0, "GET /a | Cache-Control: no-cache", answer, "200 v5 miss"),
        (1, "GET /a | Cache-Control: only-if-cached", "-", "200 v5 hit age=1"),
        (1, "GET /a | Cache-Control: no-cache", answer, "200 v6 miss"),
        (2, "GET /a", "-", "200 v6 hit age=1"),
    ];
    Stage::new(|_| {}).play(&lines).await;
}

/// A POST whose answer says that it is what a GET would get (RFC 9110 §9.3.3).
#[tokio::test(start_paused = true)]
async fn an_answer_to_a_post_may_serve_later_gets() {
    let lines: [Line<'_>; 6] = [
        (0, "POST /a", "200 | max-age=60 | Content-Location: /a", "200 v1 bypass"),
        (1, "GET /a", "-", "200 v1 hit age=1"),
        (1, "POST /a", "200 | max-age=60 | Content-Location: http://upstream.test/a", "200 v2 bypass"),
        (2, "GET /a", "-", "200 v2 hit age=1"),
        (2, "POST /a", "200 | max-age=60 | Content-Location: /b", "200 v3 bypass"),
        (2, "GET /a", "200", "200 v4 miss"),
    ];
    Stage::new(|_| {}).play(&lines).await;
}

/// Fields of the hop, and what `Connection` names, are nobody else's business; all else comes back as it came.
#[tokio::test(start_paused = true)]
async fn a_stored_head_is_the_one_that_came() {
    let stage = Stage::new(|_| {});
    let fields =
        "Connection: x-hop | X-Hop: 1 | Link: <a> | Link: <b> | X-Order: 1 | x-order: 2 | Content-Type: text/a";
    let answer = format!("200 | max-age=60 | {fields} | = body");
    stage.play(&[(0, "GET /a", &answer, "200 body miss"), (9, "GET /a", "-", "200 body hit age=9")]).await;
    let got = stage.ask("GET /a").await;
    let lines = |name: &str| got.response.headers().get_all(name).iter().cloned().collect::<Vec<_>>();
    assert_eq!((lines("link").len(), lines("x-order")), (2, vec!["1".parse().unwrap(), "2".parse().unwrap()]));
    assert_eq!((got.field("x-hop"), got.field("connection"), got.field("content-type")), (None, None, Some("text/a")));
    // When it was made is told, also where the upstream did not; the clock shows noon at the beginning.
    assert_eq!(got.field("date"), Some("Tue, 10 Mar 2026 12:00:00 GMT"));
    assert_eq!(lines("via").len(), 1);
}
