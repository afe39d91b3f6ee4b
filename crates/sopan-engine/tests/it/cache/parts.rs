//! Parts of bodies: out of what is stored, stored themselves, and joined.

use super::{Line, Stage};
use crate::support::s;

const TEN: &str = "200 | max-age=60 | ETag: \"a\" | Content-Type: text/plain | = 0123456789";

#[tokio::test(start_paused = true)]
async fn a_range_comes_out_of_what_is_stored() {
    let stage = Stage::new(|_| {});
    stage.play(&[(0, "GET /a", TEN, "200 0123456789 miss")]).await;
    for (range, expected, content_range) in [
        ("bytes=2-4", "206 234 hit age=0", "bytes 2-4/10"),
        ("bytes=7-", "206 789 hit age=0", "bytes 7-9/10"),
        ("bytes=-3", "206 789 hit age=0", "bytes 7-9/10"),
        ("bytes=-99", "206 0123456789 hit age=0", "bytes 0-9/10"),
        ("bytes=8-99", "206 89 hit age=0", "bytes 8-9/10"),
        ("bytes=10-", "416 hit age=0", "bytes */10"),
        ("bytes=4-2", "200 0123456789 hit age=0", ""),
        ("lines=1-2", "200 0123456789 hit age=0", ""),
        ("bytes=0-1 | If-Range: \"a\"", "206 01 hit age=0", "bytes 0-1/10"),
        ("bytes=0-1 | If-Range: \"b\"", "200 0123456789 hit age=0", ""),
        ("bytes=0-1 | If-None-Match: \"a\"", "304 hit age=0", ""),
    ] {
        let got = stage.ask(&format!("GET /a | Range: {range}")).await;
        assert_eq!(stage.told(&got), expected, "{range}");
        assert_eq!(got.field("content-range").unwrap_or_default(), content_range, "{range}");
    }
    // A HEAD has no parts.
    let got = stage.ask("HEAD /a | Range: bytes=2-4").await;
    assert_eq!((got.status(), got.field("content-length"), got.field("content-range")), (200, Some("10"), None));
    assert_eq!(stage.bench.upstream.arrivals(), 1);
    stage.bench.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn several_ranges_come_in_several_parts() {
    let stage = Stage::new(|_| {});
    stage.play(&[(0, "GET /a", TEN, "200 0123456789 miss")]).await;
    let got = stage.ask("GET /a | Range: bytes=0-1,5-6,-1").await;
    assert_eq!(got.status(), 206);
    let boundary = got.field("content-type").unwrap().strip_prefix("multipart/byteranges; boundary=").unwrap();
    let boundary = boundary.trim_matches('"');
    let parts: Vec<_> = got.text().split(&format!("--{boundary}")).map(str::trim).collect();
    assert_eq!(parts.len(), 5, "{parts:?}");
    assert_eq!((parts[0], parts[4]), ("", "--"));
    for (part, range, body) in [(1, "bytes 0-1/10", "01"), (2, "bytes 5-6/10", "56"), (3, "bytes 9-9/10", "9")] {
        let (head, found) = parts[part].split_once("\r\n\r\n").unwrap();
        let head = head.to_ascii_lowercase();
        assert!(
            head.contains(&format!("content-range: {range}")) && head.contains("content-type: text/plain"),
            "{head}"
        );
        assert_eq!(found, body);
    }
    assert_eq!(got.field("content-range"), None);
    assert_eq!(stage.bench.upstream.arrivals(), 1);
}

const HALF: &str = "206 | max-age=60 | ETag: \"a\" | Content-Range: bytes 0-4/10 | = 01234";
const REST: &str = "206 | max-age=60 | ETag: \"a\" | Content-Range: bytes 5-9/10 | = 56789";

#[tokio::test(start_paused = true)]
async fn a_part_is_stored_and_the_rest_is_asked_for() {
    let stage = Stage::new(|_| {});
    let lines: [Line<'_>; 6] = [
        (0, "GET /a | Range: bytes=0-4", HALF, "206 01234 miss"),
        (1, "GET /a | Range: bytes=1-2", "-", "206 12 hit age=1"),
        (1, "GET /a | Range: bytes=0-4", "-", "206 01234 hit age=1"),
        (1, "GET /a", REST, "200 0123456789 miss age=0"),
        (2, "GET /a", "-", "200 0123456789 hit age=1"),
        (2, "GET /a | Range: bytes=4-5", "-", "206 45 hit age=1"),
    ];
    stage.play(&lines).await;
    assert_eq!(stage.last_asked_with("range").as_deref(), Some("bytes=5-9"));
    assert_eq!(stage.last_asked_with("if-range").as_deref(), Some("\"a\""));
    let got = stage.ask("GET /a").await;
    assert_eq!((got.field("content-length"), got.field("content-range")), (Some("10"), None));
}

/// In each case the client gets all of what is there now, and no byte of another version.
#[tokio::test(start_paused = true)]
async fn parts_that_do_not_belong_together_are_never_joined() {
    let whole = "200 | max-age=60 | ETag: \"b\" | = abcdefghij";
    let again = |first: &str| format!("{first} || {whole}");
    for (half, rest, ranges) in [
        // The other version has come meanwhile, whole or in part.
        (HALF, whole.to_owned(), vec![Some("bytes=5-9")]),
        (HALF, again("206 | ETag: \"b\" | Content-Range: bytes 5-9/10 | = fghij"), vec![Some("bytes=5-9"), None]),
        (HALF, again("206 | ETag: W/\"a\" | Content-Range: bytes 5-9/10 | = 56789"), vec![Some("bytes=5-9"), None]),
        (HALF, again("206 | Content-Range: bytes 5-9/10 | = 56789"), vec![Some("bytes=5-9"), None]),
        // It is not what was asked for, or not what it says.
        (HALF, again("206 | ETag: \"a\" | Content-Range: bytes 6-9/10 | = 6789"), vec![Some("bytes=5-9"), None]),
        (HALF, again("206 | ETag: \"a\" | Content-Range: bytes 5-9/10 | = 5678"), vec![Some("bytes=5-9"), None]),
        (HALF, again("206 | ETag: \"a\" | Content-Range: bytes 5-9/11 | = 56789"), vec![Some("bytes=5-9"), None]),
        (HALF, again("416 | Content-Range: bytes */4"), vec![Some("bytes=5-9"), None]),
        // Without a strong tag nobody knows whether they would.
        ("206 | max-age=60 | Content-Range: bytes 0-4/10 | = 01234", whole.to_owned(), vec![None]),
        ("206 | max-age=60 | ETag: W/\"a\" | Content-Range: bytes 0-4/10 | = 01234", whole.to_owned(), vec![None]),
    ] {
        let stage = Stage::new(|_| {});
        stage.play(&[(0, "GET /a | Range: bytes=0-4", half, "206 01234 miss")]).await;
        assert!(stage.line("GET /a", &rest).await.starts_with("200 abcdefghij miss"), "{half}, then {rest}");
        let asked: Vec<_> =
            stage.bench.upstream.requests()[1..].iter().map(|r| r.field("range").map(str::to_owned)).collect();
        assert_eq!(asked.iter().map(Option::as_deref).collect::<Vec<_>>(), ranges, "{half}, then {rest}");
        assert_eq!(stage.line("GET /a", "-").await, "200 abcdefghij hit age=0", "{half}, then {rest}");
        stage.bench.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_that_is_not_what_it_says_is_not_stored() {
    for part in [
        "206 | max-age=60 | Content-Range: bytes 0-4/10 | = 012345",
        "206 | max-age=60 | Content-Range: bytes 0-4/3 | = 01234",
        "206 | max-age=60 | = 01234",
        "206 | max-age=60 | Content-Range: bytes 0-4/10 | Transfer-Encoding: chunked | = 4\r\n0123\r\n0\r\n\r\n",
    ] {
        let stage = Stage::new(|_| {});
        stage.line("GET /a | Range: bytes=0-4", part).await;
        assert!(!stage.has("GET /a | Range: bytes=0-1").await, "{part}");
    }
    let stage = Stage::new(|_| {});
    let chunked =
        "206 | max-age=60 | Content-Range: bytes 0-4/10 | Transfer-Encoding: chunked | = 5\r\n01234\r\n0\r\n\r\n";
    stage.play(&[(0, "GET /a | Range: bytes=0-4", chunked, "206 01234 miss")]).await;
    assert!(stage.has("GET /a | Range: bytes=0-1").await);
}

#[tokio::test(start_paused = true)]
async fn a_rest_that_breaks_off_is_asked_for_again_and_not_given() {
    let stage = Stage::new(|_| {});
    stage.play(&[(0, "GET /a | Range: bytes=0-4", HALF, "206 01234 miss")]).await;
    let cut = "206 | ETag: \"a\" | Content-Range: bytes 5-9/10 | Content-Length: 5 | Connection: close | = 567";
    let whole = "200 | max-age=60 | ETag: \"a\" | = 0123456789";
    assert_eq!(stage.line("GET /a", &format!("{cut} || {whole}")).await, "200 0123456789 miss");
    assert_eq!(stage.line("GET /a", "-").await, "200 0123456789 hit age=0");
    // While it is down what is held of it is given to those who want no more.
    let stage = Stage::new(|_| {});
    stage.play(&[(0, "GET /a | Range: bytes=0-4", HALF, "206 01234 miss")]).await;
    tokio::time::sleep(s(1)).await;
    assert!(stage.line("GET /a", "down").await.starts_with("502 "));
    assert_eq!(stage.line("GET /a | Range: bytes=3-4", "-").await, "206 34 hit age=1");
}
