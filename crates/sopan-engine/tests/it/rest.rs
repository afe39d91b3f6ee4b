//! The rest of a body of which a part is stored already.

use http::HeaderValue;
use http::header::RANGE;
use sopan_core::policy::CachePolicy;
use sopan_fake::script::Answer;

use crate::support::{Bench, get, is_within, s};

#[tokio::test(start_paused = true)]
async fn a_rest_that_comes_byte_by_byte_is_waited_for_as_long_as_a_head() {
    let part = |range: &str| {
        let part = Answer::status(206).header("etag", "\"a\"").header("cache-control", "max-age=600");
        part.header("content-range", format!("bytes {range}/1000")).header("content-length", "500")
    };
    let bench = Bench::new(
        move |request| match request.field("range") {
            Some("bytes=0-499") => part("0-499").send("x".repeat(500)),
            // It is never silent for long.
            _ => (0..500).fold(part("500-999"), |answer, _| answer.send("x").sleep(s(1))),
        },
        |settings| settings.cache = Some(CachePolicy::default()),
    );
    let mut half = get("/a");
    half.headers_mut().insert(RANGE, HeaderValue::from_static("bytes=0-499"));
    assert_eq!(bench.send(half).await.status(), 206);
    let got = bench.get("/a").await;
    assert_eq!(got.status(), 504);
    is_within(got.head_at, s(29), s(31));
}
