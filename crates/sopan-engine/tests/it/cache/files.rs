//! What is too large for memory comes from the disk, just as if it came from memory.

use sopan_engine::{CacheSettings, DiskSettings};
use sopan_fake::script::Answer;
use tempfile::TempDir;
use tokio::time::sleep;

use super::{caching, inbound};
use crate::support::lines::Line;
use crate::support::{Bench, Got, noise, s};

/// Larger than what one entry may take of the memory.
const LENGTH: usize = 200_000;

/// A cache with little memory and a disk, in front of this upstream.
fn bench(
    directory: &TempDir,
    script: impl Fn(&sopan_fake::script::Request) -> Answer + Send + Sync + 'static,
) -> Bench {
    let disk = Some(DiskSettings { directory: directory.path().to_owned(), bytes_max: 64 << 20 });
    let size = CacheSettings { memory_bytes: 1 << 20, disk };
    Bench::storing(&size, |_| Line::Open, script, caching(|_| {}))
}

async fn ask(bench: &Bench, asked: &str) -> Got {
    bench.handed(inbound(asked, 1)).await
}

/// Waits until there is an answer to this in store; the disk is as quick as the machine's.
#[allow(clippy::disallowed_methods, reason = "nothing else is to go on meanwhile, least of all the paused clock")]
async fn stored(bench: &Bench, asked: &str) {
    for _ in 0..1_000 {
        if ask(bench, &format!("{asked} | Cache-Control: only-if-cached")).await.status() != 504 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{asked} is not stored");
}

/// What the cache did, as the observer was told of the last exchange.
fn how(bench: &Bench) -> &'static str {
    bench.seen.ended().last().unwrap().cache.unwrap().word()
}

#[tokio::test(start_paused = true)]
async fn a_body_from_a_file_is_given_in_every_shape() {
    let directory = tempfile::tempdir().unwrap();
    let script = |_: &sopan_fake::script::Request| {
        let answer = Answer::status(200).header("Cache-Control", "max-age=60, stale-while-revalidate=100");
        answer.header("ETag", "\"a\"").body(noise(LENGTH))
    };
    let bench = bench(&directory, script);
    assert!(ask(&bench, "GET /a").await.body.unwrap() == noise(LENGTH));
    stored(&bench, "GET /a").await;
    let body = noise(LENGTH);
    for (asked, status, range) in [
        ("GET /a", 200, 0..LENGTH),
        ("HEAD /a", 200, 0..0),
        ("GET /a | If-None-Match: \"a\"", 304, 0..0),
        ("GET /a | Range: bytes=0-0", 206, 0..1),
        ("GET /a | Range: bytes=65535-65536", 206, 65_535..65_537),
        ("GET /a | Range: bytes=-1000", 206, LENGTH - 1000..LENGTH),
        ("GET /a | Range: bytes=100000-", 206, 100_000..LENGTH),
        ("GET /a | Range: bytes=200000-", 416, 0..0),
    ] {
        let got = ask(&bench, asked).await;
        assert_eq!((got.status(), how(&bench)), (status, "hit"), "{asked}");
        assert!(got.body.unwrap() == body[range], "{asked}");
    }
    let got = ask(&bench, "GET /a | Range: bytes=0-9,199990-").await;
    let boundary = got.field("content-type").unwrap().rsplit('=').next().unwrap().trim_matches('"').to_owned();
    let told = got.body.unwrap();
    let parts: Vec<_> = [&body[..10], &body[199_990..]].into_iter().map(|part| find(&told, part)).collect();
    assert!(parts[0] < parts[1] && told.ends_with(format!("\r\n--{boundary}--\r\n").as_bytes()));
    assert_eq!(bench.upstream.arrivals(), 1);
    // What is stale is told to be.
    sleep(s(100)).await;
    let got = ask(&bench, "GET /a | Cache-Control: max-stale=200").await;
    assert_eq!((got.status(), how(&bench)), (200, "stale"));
    bench.is_at_rest();
}

#[track_caller]
fn find(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).position(|window| window == part).unwrap()
}

/// A part that came in chunks says only in `Content-Range` how long it is, and that may be untrue.
#[tokio::test(start_paused = true)]
async fn a_part_that_is_longer_or_shorter_than_it_says_is_not_stored() {
    for (range, is_stored) in [("0-199999/300000", true), ("0-199998/300000", false), ("0-200000/300000", false)] {
        let directory = tempfile::tempdir().unwrap();
        let script = move |request: &sopan_fake::script::Request| match &*request.target {
            "/a" => Answer::chunked(206)
                .header("Cache-Control", "max-age=60")
                .header("Content-Range", format!("bytes {range}"))
                .chunk(noise(LENGTH))
                .end(),
            _ => Answer::status(200).header("Cache-Control", "max-age=60").body(noise(LENGTH)),
        };
        let bench = bench(&directory, script);
        let asked = "GET /a | Range: bytes=0-200000";
        assert!(ask(&bench, asked).await.body.unwrap() == noise(LENGTH));
        // What comes later is stored later.
        ask(&bench, "GET /b").await;
        stored(&bench, "GET /b").await;
        let got = ask(&bench, "GET /a | Range: bytes=199990-199998 | Cache-Control: only-if-cached").await;
        assert_eq!(got.status() == 206, is_stored, "{range}");
    }
}

/// To complete it costs as much as to have all of it, and it would have to be read first.
#[tokio::test(start_paused = true)]
async fn a_part_in_a_file_is_used_as_it_is_and_not_completed() {
    let directory = tempfile::tempdir().unwrap();
    let script = |request: &sopan_fake::script::Request| {
        let (status, range) = match request.field("range") {
            Some("bytes=0-199999") => (206, Some("bytes 0-199999/300000")),
            Some(other) => panic!("nobody asked for {other}"),
            None => (200, None),
        };
        let answer = Answer::status(status).header("Cache-Control", "max-age=60").header("ETag", "\"a\"");
        match range {
            Some(range) => answer.header("Content-Range", range).body(noise(LENGTH)),
            None => answer.body(noise(300_000)),
        }
    };
    let bench = bench(&directory, script);
    assert!(ask(&bench, "GET /a | Range: bytes=0-199999").await.body.unwrap() == noise(LENGTH));
    stored(&bench, "GET /a | Range: bytes=0-9").await;
    let got = ask(&bench, "GET /a").await;
    assert_eq!((got.status(), bench.upstream.arrivals()), (200, 2));
    assert!(got.field("cache-status").unwrap().starts_with("sopan; fwd=partial; stored"), "{:?}", got.response);
    assert!(got.body.unwrap() == noise(300_000));
    bench.is_at_rest();
}
