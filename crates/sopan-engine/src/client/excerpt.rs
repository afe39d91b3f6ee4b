//! What does an API say of a request that it refuses? Most say there what to mend.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http_body::Body as _;

use crate::exchange::Answer;

/// Enough for a sentence, too little for a page.
const CHARS_MAX: usize = 300;
/// What has come by then will do.
const TIME_MAX: Duration = Duration::from_secs(1);

/// The beginning of its text, on one line, without what a terminal would obey; none if it is nothing to read.
pub(super) async fn excerpt(answer: Answer) -> Option<String> {
    let (head, mut body) = answer.response.into_parts();
    let kind = head.headers.get(CONTENT_TYPE)?.to_str().ok()?;
    if !kind.contains("json") && !kind.starts_with("text/plain") {
        return None;
    }
    let mut bytes = Vec::new();
    let read = async {
        while bytes.len() < CHARS_MAX * 4 {
            let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await else { return };
            bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        }
    };
    let _ = tokio::time::timeout(TIME_MAX, read).await;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown = String::new();
    for char in text.chars().take(CHARS_MAX) {
        match char {
            '"' | '\'' | '\\' => shown.push(char),
            other => shown.extend(other.escape_debug()),
        }
    }
    if text.chars().nth(CHARS_MAX).is_some() {
        shown.push('…');
    }
    (!matches!(&*shown, "" | "{}" | "[]")).then_some(shown)
}
