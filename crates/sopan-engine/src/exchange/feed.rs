//! What an answer's body comes from: a connection, with the turn that lasts until the body's end.
//!
//! Both are given back at the end, the connection idle; one that breaks off is dropped, and the lane hears of that. Who
//! waits for it, for how long, and what a client is told is left to those who read it.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderName;
use http_body::{Frame, SizeHint};
use sopan_core::headers::strip_trailers;

use crate::dispatcher::Turn;
use crate::transport::{Conn, WireError};
use crate::upstream::Upstream;

/// The body of an answer as its upstream sends it.
pub(crate) struct Feed {
    prefix: Option<Bytes>,
    conn: Option<Box<Conn>>,
    turn: Option<Turn>,
    upstream: Arc<Upstream>,
    /// Fields of the upstream's hop, which its trailers may not bring either.
    named_by_connection: Vec<HeaderName>,
}

impl Feed {
    /// `prefix` is what was read of it already.
    pub(super) fn new(
        prefix: Option<Bytes>,
        conn: Box<Conn>,
        turn: Turn,
        upstream: Arc<Upstream>,
        named_by_connection: Vec<HeaderName>,
    ) -> Self {
        let (conn, turn) = (Some(conn), Some(turn));
        Self { prefix: prefix.filter(|p| !p.is_empty()), conn, turn, upstream, named_by_connection }
    }

    /// The next piece; none at its end, and after a failure.
    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, WireError>>> {
        if let Some(prefix) = self.prefix.take() {
            return Poll::Ready(Some(Ok(Frame::data(prefix))));
        }
        let Some(conn) = &mut self.conn else { return Poll::Ready(None) };
        match conn.poll_body(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(mut frame))) => {
                if let Some(trailers) = frame.trailers_mut() {
                    strip_trailers(trailers, &self.named_by_connection);
                }
                if conn.is_end_of_body() {
                    self.end();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => {
                self.end();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                self.cut();
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    /// Whether nothing more comes of it.
    pub(super) fn is_over(&self) -> bool {
        self.prefix.is_none() && self.conn.is_none()
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.prefix.is_none() && self.conn.as_ref().is_none_or(|conn| conn.is_end_of_body())
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        let prefix = self.prefix.as_ref().map_or(0, Bytes::len) as u64;
        match self.conn.as_ref().map_or(Some(0), |conn| conn.body_left()) {
            Some(left) => SizeHint::with_exact(prefix.saturating_add(left)),
            None => SizeHint::default(),
        }
    }

    /// It has been read to its end: its connection is idle again, and its place is free.
    pub(super) fn end(&mut self) {
        if let Some(conn) = self.conn.take() {
            self.upstream.transport.put(conn);
        }
        self.turn = None;
    }

    /// It breaks off here.
    pub(super) fn cut(&mut self) {
        self.conn = None;
        if let Some(mut turn) = self.turn.take() {
            turn.cut();
        }
    }

    pub(super) fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }
}
