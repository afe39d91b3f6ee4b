//! Keeping a failed answer while the request is tried again, so that the caller can get it if nothing better follows; or not,
//! where something better is at hand.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::timeout;

use super::Exchange;
use crate::transport::Conn;

/// The longest body of a failed answer that is kept while its request is tried again.
pub const KEPT_BYTES_MAX: usize = 64 * 1024;
/// The longest that reading it may take.
pub const KEPT_TIME_MAX: Duration = Duration::from_secs(1);

/// What became of a failed answer.
pub(super) enum Kept {
    /// It is kept.
    Whole,
    /// It is too long, or too slow, and still in hand; this was read of it.
    TooLong(Bytes),
    /// It broke off, and is gone.
    Broken,
}

impl Exchange<'_> {
    /// Lets go of an answer that nobody gets. What little is left of it is read meanwhile, so that its connection serves
    /// another request; its place is held as long.
    pub(super) fn let_go_of_rest(&mut self) {
        let (conn, turn, transport) = (self.conn.take(), self.turn.take(), Arc::clone(&self.upstream.transport));
        let Some(mut conn) = conn else { return };
        tokio::spawn(async move {
            if timeout(KEPT_TIME_MAX, is_short(&mut conn)).await.unwrap_or(false) {
                transport.put(conn);
            }
            drop(turn);
        });
    }

    /// Reads a failed answer to its end. The turn ends with it: who waits for a retry holds no place.
    pub(super) async fn keep(&mut self) -> Kept {
        let (Some(response), Some(conn)) = (&self.response, &mut self.conn) else { return Kept::Broken };
        let status = response.status();
        let mut read = BytesMut::new();
        let whole = timeout(KEPT_TIME_MAX, async {
            while let Some(frame) = poll_fn(|cx| conn.poll_body(cx)).await {
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
        let whole = whole.await.unwrap_or(Some(false));
        self.past().last_status = Some(status);
        // Where this one cannot be kept, an older one is not the last answer of the upstream either.
        self.past().kept = None;
        match whole {
            Some(false) => return Kept::TooLong(read.freeze()),
            Some(true) => {
                let response = self.response.take().map(|mut response| {
                    self.make_ours(&mut response);
                    response.map(|()| read.freeze())
                });
                self.past().kept = response;
                if let Some(conn) = self.conn.take() {
                    self.upstream.transport.put(conn);
                }
            }
            None => {
                if let Some(turn) = &mut self.turn {
                    turn.cut();
                }
            }
        }
        self.let_go();
        if whole.is_some() { Kept::Whole } else { Kept::Broken }
    }
}

/// Whether a body comes to its end before too much of it was read.
async fn is_short(conn: &mut Conn) -> bool {
    let mut read = 0;
    while let Some(frame) = poll_fn(|cx| conn.poll_body(cx)).await {
        let Ok(frame) = frame else { return false };
        read += frame.data_ref().map_or(0, Bytes::len);
        if read > KEPT_BYTES_MAX {
            return false;
        }
    }
    true
}
