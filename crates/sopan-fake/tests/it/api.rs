//! The fake API in process, with the clock paused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::json;
use sopan_fake::{Etag, FakeApi, Limit, RetryAfter, Settings, Window};
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep};

use crate::client::Client;

const HEALTH: &str = "/api/v1/health";
const ORDERS: &str = "/api/v1/orders";
const CHAT: &str = "/v1/chat/completions";
const LIMITED: &str = r#"{"error": "rate_limited", "message": "Terlalu banyak permintaan."}"#;

fn connect(api: &Arc<FakeApi>) -> Client<DuplexStream> {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    tokio::spawn(Arc::clone(api).serve_io(theirs));
    Client::new(ours)
}

/// 2026-10-21T12:00:00Z plus some milliseconds.
fn wall(milliseconds: u64) -> Option<std::time::SystemTime> {
    Some(UNIX_EPOCH + Duration::from_secs(1_792_584_000) + Duration::from_millis(milliseconds))
}

/// The statuses of so many requests on one connection, none where the connection was cut.
async fn statuses(api: &Arc<FakeApi>, requests: usize) -> Vec<Option<u16>> {
    let mut statuses = Vec::new();
    for _ in 0..requests {
        let mut client = connect(api);
        client.send(&format!("GET {HEALTH} HTTP/1.1\r\nHost: u\r\n\r\n")).await;
        statuses.push(client.answer(true).await.map(|answer| answer.status));
    }
    statuses
}

#[tokio::test(start_paused = true)]
async fn every_json_answer_names_the_server_the_type_and_its_own_date() {
    let api = FakeApi::new(Settings { wall_start: wall(0), ..Settings::default() });
    let mut client = connect(&api);
    sleep(Duration::from_secs(90)).await;
    for target in [HEALTH, ORDERS, "/nowhere", "/_fake/log", "/_fake/nothing"] {
        let answer = client.get(target).await;
        assert_eq!(answer.field("Server"), Some("TokoKitaAPI/1.0"), "{target}");
        assert_eq!(answer.field("Content-Type"), Some("application/json; charset=utf-8"), "{target}");
        assert_eq!(answer.field("Date"), Some("Wed, 21 Oct 2026 12:01:30 GMT"), "{target}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_has_an_answer_already_gets_304_which_may_cost_nothing() {
    let limits = || vec![Limit::Quota { count: 2, span: Duration::from_secs(60) }];
    for (etag, expected) in [(Etag::Off, [200, 200, 429]), (Etag::On, [200, 304, 429]), (Etag::Free, [200, 304, 304])] {
        let api = FakeApi::new(Settings { limits: limits(), etag, ..Settings::default() });
        let mut client = connect(&api);
        let first = client.get(ORDERS).await;
        let tag = first.field("ETag").unwrap_or("\"none\"").to_owned();
        let again = format!("GET {ORDERS} HTTP/1.1\r\nHost: u\r\nIf-None-Match: \"x\", W/{tag}\r\n\r\n");
        let (second, third) = (client.ask(&again).await, client.ask(&again).await);
        assert_eq!([first.status, second.status, third.status], expected, "{etag:?}");
        if second.status == 304 {
            assert_eq!((second.field("ETag"), &*second.body), (Some(&*tag), ""));
        }
    }
    // Another answer has another tag, and only a GET is asked about.
    let api = FakeApi::new(Settings { etag: Etag::Free, ..Settings::default() });
    let mut client = connect(&api);
    let tags =
        [client.get(ORDERS).await, client.get(HEALTH).await].map(|answer| answer.field("ETag").map(str::to_owned));
    assert!(tags[0].is_some() && tags[0] != tags[1], "{tags:?}");
    let ask = |method| format!("{method} {HEALTH} HTTP/1.1\r\nHost: u\r\nIf-None-Match: *\r\n\r\n");
    assert_eq!((client.ask(&ask("HEAD")).await.status, client.ask(&ask("POST")).await.status), (304, 405));
}

#[tokio::test(start_paused = true)]
async fn routes_answer_what_they_should() {
    let api = FakeApi::new(Settings::default());
    let mut client = connect(&api);
    for (method, target, status, allow) in [
        ("GET", "/api/v1/health", 200, None),
        ("GET", "/api/v1/health?x=1", 200, None),
        ("HEAD", "/api/v1/health", 200, None),
        ("POST", "/api/v1/health", 405, Some("GET, HEAD")),
        ("GET", "/api/v1/orders", 200, None),
        ("HEAD", "/api/v1/orders", 200, None),
        ("DELETE", "/api/v1/orders", 405, Some("GET, HEAD, POST")),
        ("GET", "/api/v1/orders/7", 200, None),
        ("GET", "/api/v1/orders/121", 404, None),
        ("GET", "/api/v1/orders/+7", 404, None),
        ("GET", "/api/v1/orders/", 404, None),
        ("PUT", "/api/v1/orders/7", 405, Some("GET, HEAD")),
        ("GET", "/api/v1/ordersX", 404, None),
        ("GET", "/", 404, None),
        ("GET", "/v1/models", 200, None),
        ("POST", "/v1/models", 405, Some("GET, HEAD")),
        ("GET", "/v1/chat/completions", 405, Some("POST")),
        ("POST", "/_fake/log", 405, Some("GET, HEAD, DELETE")),
        ("GET", "/_fake/x", 404, None),
        ("GET", "/api/v1/orders?page=0", 400, None),
        ("GET", "/api/v1/orders?page=-1", 400, None),
        ("GET", "/api/v1/orders?page=x", 400, None),
        ("GET", "/api/v1/orders?page=", 400, None),
        ("GET", "/api/v1/orders?size=0", 400, None),
        ("GET", "/api/v1/orders?size=1001", 400, None),
        ("GET", "/api/v1/orders?page=99999999999999999999", 400, None),
        ("GET", "/api/v1/orders?page=99&size=1000&other=x", 200, None),
    ] {
        let answer = client.ask(&format!("{method} {target} HTTP/1.1\r\nHost: u\r\n\r\n")).await;
        assert_eq!((answer.status, answer.field("Allow")), (status, allow), "{method} {target}");
    }
    assert_eq!(client.get(HEALTH).await.body, r#"{"status": "ok"}"#);
}

#[tokio::test(start_paused = true)]
async fn following_next_reads_every_order_once() {
    for (orders_total, page_size, pages) in [(120, 50, 3), (7, 2, 4), (4, 2, 2), (1, 1, 1), (0, 5, 1)] {
        let api = FakeApi::new(Settings { orders_total, page_size, ..Settings::default() });
        let mut client = connect(&api);
        let (mut next, mut ids, mut pages_seen) = (Some(ORDERS.to_owned()), Vec::new(), 0);
        while let Some(target) = next {
            let page = client.get(&target).await.json();
            pages_seen += 1;
            assert_eq!((&page["page"], &page["pages"]), (&json!(pages_seen), &json!(pages)));
            assert_eq!(page["total"], json!(orders_total));
            ids.extend(page["data"].as_array().unwrap().iter().map(|order| order["id"].as_u64().unwrap()));
            next = page["next"].as_str().map(str::to_owned);
        }
        assert_eq!((ids, pages_seen), ((1..=orders_total).collect(), pages));
    }
}

#[tokio::test(start_paused = true)]
async fn by_default_there_are_three_pages_and_keys_keep_their_order() {
    let answer = connect(&FakeApi::new(Settings::default())).get(ORDERS).await;
    assert!(answer.body.starts_with(r#"{"data": [{"id": 1, "code": "TK-000001", "#), "{}", answer.body);
    let end = r#"], "page": 1, "pages": 3, "total": 120, "next": "/api/v1/orders?page=2&size=50"}"#;
    assert!(answer.body.ends_with(end), "{}", answer.body);
}

#[tokio::test(start_paused = true)]
async fn a_doubled_post_makes_two_orders_and_shows() {
    let api = FakeApi::new(Settings { orders_total: 2, wall_start: wall(0), ..Settings::default() });
    let mut client = connect(&api);
    for id in [3, 4] {
        let answer = client.post(ORDERS, r#"{"client_id": "a-1"}"#).await;
        assert_eq!((answer.status, answer.field("Location")), (201, Some(format!("{ORDERS}/{id}").as_str())));
        let created = answer.json();
        assert_eq!((&created["data"]["id"], &created["data"]["client_id"]), (&json!(id), &json!("a-1")));
        assert_eq!(client.get(&format!("{ORDERS}/{id}")).await.json(), created);
    }
    client.post(ORDERS, r#"{"client_id": "b"}"#).await;
    let expected = BTreeMap::from([("a-1".to_owned(), 2), ("b".to_owned(), 1)]);
    assert_eq!(api.orders_created(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_post_that_makes_no_sense_makes_no_order() {
    let api = FakeApi::new(Settings::default());
    let too_long = format!(r#"{{"client_id": "{}"}}"#, "x".repeat(1024 * 1024));
    for (body, status) in [("", 400), ("{}", 400), (r#"{"client_id": 1}"#, 400), ("[1]", 400), (too_long.as_str(), 413)]
    {
        assert_eq!(connect(&api).post(ORDERS, body).await.status, status);
    }
    assert_eq!(api.orders_created(), BTreeMap::new());
}

#[tokio::test(start_paused = true)]
async fn the_first_requests_are_limited_then_fail_then_succeed() {
    let api = FakeApi::new(Settings { rate_limit_first: 2, fail_first: 1, ..Settings::default() });
    let mut client = connect(&api);
    for _ in 0..2 {
        let answer = client.get(ORDERS).await;
        assert_eq!((answer.status, answer.field("Retry-After")), (429, Some("1")));
        assert_eq!((answer.body.as_str(), answer.body.len()), (LIMITED, 66));
    }
    let failed = client.get("/nowhere").await;
    assert_eq!((failed.status, failed.field("Retry-After")), (500, None));
    assert!(failed.body.starts_with(r#"{"error": "server_error", "message": ""#), "{}", failed.body);
    assert_eq!(client.get(HEALTH).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_refused_or_failed_post_makes_no_order() {
    let api = FakeApi::new(Settings { rate_limit_first: 1, fail_first: 1, ..Settings::default() });
    let mut client = connect(&api);
    for status in [429, 500, 201] {
        assert_eq!(client.post(ORDERS, r#"{"client_id": "a"}"#).await.status, status);
    }
    assert_eq!(api.orders_created(), BTreeMap::from([("a".to_owned(), 1)]));
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_rounded_up_in_every_form() {
    // The quota frees a place 89.4 s after the refusal, at 12:01:30.0 on a clock that started at 12:00:00.2.
    for (form, expected) in [
        (RetryAfter::Seconds, Some("90")),
        (RetryAfter::Imf, Some("Wed, 21 Oct 2026 12:01:31 GMT")),
        (RetryAfter::Rfc850, Some("Wednesday, 21-Oct-26 12:01:31 GMT")),
        (RetryAfter::Asctime, Some("Wed Oct 21 12:01:31 2026")),
        (RetryAfter::None, None),
        (RetryAfter::Garbage, Some("not-a-date")),
    ] {
        let limits = vec![Limit::Quota { count: 1, span: Duration::from_secs(90) }];
        let api = FakeApi::new(Settings {
            limits,
            window: Window::Sliding,
            retry_after: form,
            wall_start: wall(200),
            ..Settings::default()
        });
        let mut client = connect(&api);
        assert_eq!(client.get(HEALTH).await.status, 200);
        sleep(Duration::from_millis(600)).await;
        let refused = client.get(HEALTH).await;
        assert_eq!((refused.status, refused.body.as_str()), (429, LIMITED));
        assert_eq!(refused.field("Retry-After"), expected, "{form:?}");
        sleep(Duration::from_millis(89_399)).await;
        assert_eq!(client.get(HEALTH).await.status, 429);
        sleep(Duration::from_millis(1)).await;
        assert_eq!(client.get(HEALTH).await.status, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn limits_are_kept_over_all_connections() {
    for (window, pause_ms, second_round) in
        [(Window::Bucket, 500, 2), (Window::Fixed, 500, 0), (Window::Sliding, 999, 0), (Window::Fixed, 1000, 4)]
    {
        let limits = vec![Limit::Quota { count: 4, span: Duration::from_secs(1) }];
        let api = FakeApi::new(Settings { limits, window, ..Settings::default() });
        let granted = |statuses: Vec<Option<u16>>| statuses.iter().filter(|status| **status == Some(200)).count();
        assert_eq!(granted(statuses(&api, 6).await), 4, "{window:?}");
        sleep(Duration::from_millis(pause_ms)).await;
        assert_eq!(granted(statuses(&api, 6).await), second_round, "{window:?} after {pause_ms} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_planned_500_costs_a_token_and_a_planned_429_none() {
    let limits = vec![Limit::Quota { count: 2, span: Duration::from_secs(1) }];
    let api = FakeApi::new(Settings { limits, rate_limit_first: 1, fail_first: 1, ..Settings::default() });
    assert_eq!(statuses(&api, 4).await, [Some(429), Some(500), Some(200), Some(429)]);
}

#[tokio::test(start_paused = true)]
async fn a_closed_api_says_when_it_opens_and_counts_nothing() {
    let limits = vec![Limit::Quota { count: 2, span: Duration::from_secs(3600) }];
    let api = FakeApi::new(Settings { limits, fail_first: 1, ..Settings::default() });
    api.close_for(Duration::from_millis(1500));
    let mut client = connect(&api);
    for (pause_ms, retry_after) in [(0, "2"), (600, "1"), (899, "1")] {
        sleep(Duration::from_millis(pause_ms)).await;
        let closed = client.get(HEALTH).await;
        assert_eq!((closed.status, closed.field("Retry-After")), (503, Some(retry_after)), "after {pause_ms} ms");
        assert_eq!(closed.body, r#"{"error": "unavailable", "message": "Sedang dalam perbaikan."}"#);
    }
    sleep(Duration::from_millis(1)).await;
    assert_eq!(statuses(&api, 3).await, [Some(500), Some(200), Some(429)]);
}

#[tokio::test(start_paused = true)]
async fn faults_come_in_order_and_a_refusal_uses_none_up() {
    let limits = vec![Limit::Rate { tokens: 1, per: Duration::from_secs(1), burst: 2 }];
    let api = FakeApi::new(Settings {
        limits,
        drop_before_head_first: 1,
        drop_in_head_first: 1,
        drop_after_head_first: 1,
        truncate_first: 1,
        ..Settings::default()
    });
    let mut sent = Vec::new();
    for _ in 0..7 {
        let mut client = connect(&api);
        client.send(&format!("GET {HEALTH} HTTP/1.1\r\nHost: u\r\nConnection: close\r\n\r\n")).await;
        let (text, end) = client.rest().await;
        end.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, "no head end"));
        sent.push((head.lines().next().unwrap_or_default().to_owned(), body.to_owned()));
        if sent.len() > 2 {
            sleep(Duration::from_secs(1)).await;
        }
    }
    let expected = [
        ("", "no head end"),
        ("HTTP/1.1 200 OK", "no head end"),
        ("HTTP/1.1 429 Too Many Requests", LIMITED),
        ("HTTP/1.1 200 OK", ""),
        ("HTTP/1.1 200 OK", r#"{"status"#),
        ("HTTP/1.1 200 OK", r#"{"status": "ok"}"#),
        ("HTTP/1.1 200 OK", r#"{"status": "ok"}"#),
    ];
    assert_eq!(sent, expected.map(|(line, body)| (line.to_owned(), body.to_owned())));
    let logged: Vec<_> = api.log().iter().map(|entry| entry.status).collect();
    assert_eq!(logged, [None, None, Some(429), Some(200), Some(200), Some(200), Some(200)]);
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_answer_is_dropped_was_served() {
    let api = FakeApi::new(Settings { drop_before_head_first: 1, ..Settings::default() });
    let mut client = connect(&api);
    let body = r#"{"client_id": "lost"}"#;
    client.send(&format!("POST {ORDERS} HTTP/1.1\r\nHost: u\r\nContent-Length: {}\r\n\r\n{body}", body.len())).await;
    assert_eq!(client.rest().await.0, "");
    assert_eq!(api.orders_created(), BTreeMap::from([("lost".to_owned(), 1)]));
}

#[tokio::test(start_paused = true)]
async fn a_truncated_answer_to_head_does_not_cut_the_next_one() {
    let api = FakeApi::new(Settings { truncate_first: 1, ..Settings::default() });
    let mut client = connect(&api);
    client.send(&format!("HEAD {ORDERS} HTTP/1.1\r\nHost: u\r\n\r\n")).await;
    let (text, _) = client.rest().await;
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\n"), "{text}");
    assert_eq!(connect(&api).get(HEALTH).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn the_log_tells_what_came_in_order_and_when() {
    let api = FakeApi::new(Settings { rate_limit_first: 1, wall_start: wall(0), ..Settings::default() });
    let mut client = connect(&api);
    client.get("/api/v1/orders?page=2&size=10").await;
    sleep(Duration::from_micros(1_500_000)).await;
    client.get("/_fake/log").await;
    client.post(ORDERS, r#"{"client_id": "a"}"#).await;
    let logged = client.get("/_fake/log").await;
    let expected = concat!(
        r#"[{"status": 429, "method": "GET", "path": "/api/v1/orders?page=2&size=10", "at_us": 1792584000000000}, "#,
        r#"{"status": 201, "method": "POST", "path": "/api/v1/orders", "at_us": 1792584001500000}]"#
    );
    assert_eq!((logged.status, logged.body.as_str()), (200, expected));
    let cleared = client.ask("DELETE /_fake/log HTTP/1.1\r\nHost: u\r\n\r\n").await;
    assert_eq!((cleared.status, cleared.body.as_str()), (204, ""));
    assert_eq!(client.get("/_fake/log").await.body, "[]");
    assert_eq!(api.log(), []);
}

#[tokio::test(start_paused = true)]
async fn asking_for_the_log_costs_nothing() {
    let limits = vec![Limit::Quota { count: 1, span: Duration::from_secs(1) }];
    let api = FakeApi::new(Settings { limits, fail_first: 1, ..Settings::default() });
    let mut client = connect(&api);
    for _ in 0..3 {
        assert_eq!(client.get("/_fake/log").await.status, 200);
    }
    assert_eq!(statuses(&api, 2).await, [Some(500), Some(429)]);
}

#[tokio::test(start_paused = true)]
async fn a_full_log_forgets_the_oldest() {
    let api = FakeApi::new(Settings { log_entries_max: 2, ..Settings::default() });
    let mut client = connect(&api);
    for target in ["/1", "/2", "/3"] {
        client.get(target).await;
    }
    let logged = client.get("/_fake/log").await.json();
    let paths: Vec<_> = logged.as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/2", "/3"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_logged_even_if_its_client_does_not_wait() {
    let api = FakeApi::new(Settings { delay: Duration::from_secs(5), ..Settings::default() });
    let mut client = connect(&api);
    client.send(&format!("GET {HEALTH} HTTP/1.1\r\nHost: u\r\n\r\n")).await;
    sleep(Duration::from_millis(1)).await;
    drop(client);
    let logged: Vec<_> = api.log().iter().map(|entry| entry.status).collect();
    assert_eq!(logged, [Some(200)]);
}

#[tokio::test(start_paused = true)]
async fn delays_stay_within_their_jitter_and_follow_the_seed() {
    let times = |seed| async move {
        let delay = Duration::from_millis(100);
        let api = FakeApi::new(Settings { delay, delay_jitter: delay, seed, ..Settings::default() });
        let mut client = connect(&api);
        let mut times = Vec::new();
        for _ in 0..50 {
            let start = Instant::now();
            client.get(HEALTH).await;
            times.push(start.elapsed().as_millis());
        }
        times
    };
    let first = times(1).await;
    // The clock's timer counts whole milliseconds and rounds up.
    assert!(first.iter().all(|ms| (100..=201).contains(ms)), "{first:?}");
    assert!(first.iter().min() < Some(&120) && first.iter().max() > Some(&180), "{first:?}");
    assert_eq!(first, times(1).await);
    assert_ne!(first, times(2).await);
}

#[tokio::test(start_paused = true)]
async fn who_asks_before_sending_a_body_is_refused_before_it_or_told_to_go_on() {
    let api = FakeApi::new(Settings { rate_limit_first: 1, ..Settings::default() });
    let body = r#"{"client_id": "a"}"#;
    let head =
        format!("POST {ORDERS} HTTP/1.1\r\nHost: u\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n", body.len());
    assert_eq!(connect(&api).ask(&head).await.status, 429);
    let mut client = connect(&api);
    assert_eq!(client.ask(&head).await.status, 100);
    assert_eq!(client.ask(body).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn a_half_closed_client_still_gets_its_answer() {
    let api = FakeApi::new(Settings { delay: Duration::from_secs(1), ..Settings::default() });
    let mut client = connect(&api);
    client.send(&format!("GET {HEALTH} HTTP/1.1\r\nHost: u\r\n\r\n")).await;
    client.io.shutdown().await.unwrap();
    assert_eq!(client.answer(true).await.unwrap().status, 200);
}

#[tokio::test(start_paused = true)]
async fn pipelined_requests_are_answered_in_order() {
    let api = FakeApi::new(Settings { rate_limit_first: 1, ..Settings::default() });
    let mut client = connect(&api);
    let request = format!("GET {HEALTH} HTTP/1.1\r\nHost: u\r\n\r\n");
    client.send(&format!("{request}{request}")).await;
    assert_eq!(client.answer(true).await.unwrap().status, 429);
    assert_eq!(client.answer(true).await.unwrap().status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_model_says_the_last_message_again() {
    let api = FakeApi::new(Settings { wall_start: wall(0), ..Settings::default() });
    let mut client = connect(&api);
    let plain = r#"{"model": "m", "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "one  two"}]}"#;
    let answer = client.post(CHAT, plain).await.json();
    let expected = json!({
        "id": "chatcmpl-000001", "object": "chat.completion", "created": 1_792_584_000, "model": "m",
        "choices": [{
            "index": 0, "message": {"role": "assistant", "content": "Anda berkata: one two"}, "finish_reason": "stop"
        }],
        "usage": {"prompt_tokens": 4, "completion_tokens": 4, "total_tokens": 8},
    });
    assert_eq!(answer, expected);
    let parts =
        r#"{"model": "m", "messages": [{"content": [{"type": "text", "text": "three"}, {"type": "image_url"}]}]}"#;
    let answer = client.post(CHAT, parts).await.json();
    assert_eq!(answer["choices"][0]["message"]["content"], "Anda berkata: three");
    assert_eq!(answer["id"], "chatcmpl-000002");
    for nonsense in ["", "{}", r#"{"model": "m", "messages": []}"#, r#"{"messages": [{"content": "x"}]}"#] {
        let answer = client.post(CHAT, nonsense).await;
        assert_eq!((answer.status, &answer.json()["error"]), (400, &json!("bad_request")), "{nonsense}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_can_speak_word_by_word() {
    let api = FakeApi::new(Settings::default());
    let mut client = connect(&api);
    let body =
        r#"{"model": "m", "messages": [{"content": "hi"}], "stream": true, "stream_options": {"include_usage": true}}"#;
    let begun = Instant::now();
    let length = body.len();
    client
        .send(&format!(
            "POST {CHAT} HTTP/1.1\r\nHost: u\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
        .await;
    let (answer, end) = client.rest().await;
    end.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(60), "it comes all at once");
    assert!(answer.contains("\r\nContent-Type: text/event-stream; charset=utf-8\r\n"), "{answer}");
    let events: Vec<_> = answer.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    let (done, chunks) = events.split_last().unwrap();
    let chunks: Vec<serde_json::Value> = chunks.iter().map(|chunk| serde_json::from_str(chunk).unwrap()).collect();
    let deltas: Vec<_> = chunks.iter().map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(deltas, [Some(""), Some("Anda"), Some(" berkata:"), Some(" hi"), None, None]);
    assert_eq!(chunks[4]["choices"][0]["finish_reason"], "stop");
    assert_eq!((&chunks[5]["choices"], &chunks[5]["usage"]["total_tokens"]), (&json!([]), &json!(4)));
    assert_eq!(*done, "[DONE]");
}

#[tokio::test(start_paused = true)]
async fn a_model_is_limited_and_cut_like_everything_else() {
    let settings = Settings { rate_limit_first: 1, truncate_first: 1, ..Settings::default() };
    let api = FakeApi::new(settings);
    let body = r#"{"model": "m", "messages": [{"content": "hi"}], "stream": true}"#;
    assert_eq!(connect(&api).post(CHAT, body).await.body, LIMITED);
    let mut client = connect(&api);
    let length = body.len();
    client.send(&format!("POST {CHAT} HTTP/1.1\r\nHost: u\r\nContent-Length: {length}\r\n\r\n{body}")).await;
    let (cut, _) = client.rest().await;
    assert!(cut.contains("data: {") && !cut.contains("[DONE]"), "{cut}");
    let log: Vec<_> = api.log().into_iter().map(|entry| (entry.path, entry.status)).collect();
    assert_eq!(log, [(CHAT.to_owned(), Some(429)), (CHAT.to_owned(), Some(200))]);
}
