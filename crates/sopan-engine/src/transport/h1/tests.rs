use tokio::io::AsyncWriteExt as _;

use super::*;

/// What a connection keeps to read into when it rests after an answer with a body of this length.
async fn kept(length: usize) -> usize {
    let (ours, mut theirs) = tokio::io::duplex(1024 * 1024);
    let mut conn = Conn::new(Stream::Other(Box::new(ours)), Clock::system());
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
    theirs.write_all(&[head.as_bytes(), &vec![b'x'; length]].concat()).await.unwrap();
    let head = Request::new(());
    conn.send(&head, AttemptBody::Empty, None, |_| {}).await.map_err(|lost| lost.error).unwrap();
    while let Some(frame) = poll_fn(|cx| conn.poll_body(cx)).await {
        frame.unwrap();
    }
    assert!(conn.is_idle());
    conn.rests();
    // All that it still has, also what was given out and has come back.
    conn.read.reserve(1);
    conn.read.capacity()
}

#[tokio::test]
async fn a_connection_that_rests_keeps_no_large_buffer() {
    for (length, keeps) in [(0, true), (1_000, true), (7_000, true), (50_000, false), (500_000, false)] {
        let kept = kept(length).await;
        assert!(kept <= HEAD_READ && (kept > 1_000) == keeps, "{kept} bytes after {length}");
    }
}

/// A chunk, and then a failure, as often as it is asked.
struct Breaks(bool);

impl http_body::Body for Breaks {
    type Data = Bytes;
    type Error = crate::body::BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let is_first = !std::mem::replace(&mut self.0, true);
        let broken = crate::body::BodyError::Broken;
        Poll::Ready(Some(is_first.then(|| Frame::data(Bytes::from_static(b"hello"))).ok_or(broken)))
    }
}

/// The answer and the body's failure are seen at the same moment: the answer goes on, the request never looks whole.
#[tokio::test]
async fn a_body_that_breaks_off_is_given_no_end() {
    let (ours, mut theirs) = tokio::io::duplex(1024 * 1024);
    let mut conn = Conn::new(Stream::Other(Box::new(ours)), Clock::system());
    theirs.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
    let bounds = crate::body::Bounds {
        replay_bytes_max: 1024,
        budget: std::sync::Arc::new(crate::budget::ByteBudget::new(1024)),
        idle_timeout: Duration::from_secs(60),
        clock: Clock::system(),
    };
    let source = crate::body::Source::Stream(Box::pin(Breaks(false)));
    let body = crate::body::Body::new(source, Vec::new(), &bounds);
    let head = Request::new(());
    conn.send(&head, body.attempt(), None, |_| {}).await.map_err(|lost| lost.error).unwrap();
    while let Some(frame) = poll_fn(|cx| conn.poll_body(cx)).await {
        frame.unwrap();
    }
    assert!(!conn.is_idle());
    drop(conn);
    let mut sent = String::new();
    theirs.read_to_string(&mut sent).await.unwrap();
    assert!(!sent.contains("0\r\n\r\n"), "{sent:?}");
}
