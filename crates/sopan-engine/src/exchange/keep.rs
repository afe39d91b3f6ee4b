//! Keeping a failed answer while the request is tried again, so that the caller can get it if nothing better follows.

use bytes::{Bytes, BytesMut};
use http::Response;
use hyper::body::Incoming;
use std::future::poll_fn;
use std::time::Duration;

use super::{Exchange, make_ours};
use crate::dispatcher::Turn;
use crate::transport::Conn;

/// The longest body that is kept.
const KEPT_BYTES_MAX: usize = 64 * 1024;
/// The longest that reading it may take.
const KEPT_TIME_MAX: Duration = Duration::from_secs(1);

/// What became of a failed answer.
pub(super) enum Kept {
    /// It is kept.
    Whole,
    /// It is too long, or too slow: what was read of it, and the rest.
    TooLong(Box<Long>),
    /// It broke off, and is gone.
    Broken,
}

/// An answer of which the beginning was read, and where its rest comes from.
pub(super) type Long = (Response<Incoming>, Bytes, Conn, Turn);

impl Exchange<'_> {
    /// Reads a failed answer to its end. The turn ends with it: who waits for a retry holds no place.
    pub(super) async fn keep(&mut self, response: Response<Incoming>, mut conn: Conn, turn: Turn) -> Kept {
        self.last_status = Some(response.status());
        // Where this one cannot be kept, an older one is not the last answer of the upstream either.
        self.kept = None;
        let (mut parts, mut incoming) = response.into_parts();
        let mut read = BytesMut::new();
        let whole = tokio::time::timeout(KEPT_TIME_MAX, async {
            while let Some(frame) = poll_fn(|cx| conn.poll_body(&mut incoming, cx)).await {
                let Ok(frame) = frame else { return None };
                // Trailers of a failure are nothing that a caller would miss.
                if let Ok(data) = frame.into_data() {
                    read.extend_from_slice(&data);
                }
                if read.len() > KEPT_BYTES_MAX {
                    return Some(false);
                }
            }
            Some(true)
        });
        match whole.await.unwrap_or(Some(false)) {
            Some(true) => {
                make_ours(&mut parts);
                self.kept = Some(Box::new(Response::from_parts(parts, read.freeze())));
                self.upstream.transport.put_if_idle(conn).await;
                Kept::Whole
            }
            Some(false) => {
                let response = Response::from_parts(parts, incoming);
                Kept::TooLong(Box::new((response, read.freeze(), conn, turn)))
            }
            None => {
                turn.cut();
                Kept::Broken
            }
        }
    }
}
