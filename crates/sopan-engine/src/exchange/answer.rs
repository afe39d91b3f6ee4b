//! The body of an answer on its way to the client.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderName;
use http_body::{Body, Frame, SizeHint};
use sopan_core::headers::{redact_url, strip_trailers};
use tokio::time::Sleep;

use super::story::Told;
use crate::dispatcher::Turn;
use crate::transport::{Conn, WireError};
use crate::upstream::Upstream;

/// The body of an answer.
pub enum AnswerBody {
    /// All of it is here: sopan's own, or an answer that was kept.
    Full(Option<Bytes>),
    /// It is passed on as it comes.
    Passing(Box<Passing>),
}

impl fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(bytes) => write!(f, "Full({} bytes)", bytes.as_ref().map_or(0, Bytes::len)),
            Self::Passing(passing) => passing.fmt(f),
        }
    }
}

/// A body that broke off. The client must see a broken transfer, never a whole one.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// The upstream broke off.
    #[error("the upstream broke off its answer")]
    Broken(#[source] WireError),
    /// The upstream fell silent for longer than `idle_timeout`.
    #[error("the upstream fell silent in the middle of its answer")]
    Silent,
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = AnswerError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        match self.get_mut() {
            Self::Full(bytes) => Poll::Ready(bytes.take().filter(|b| !b.is_empty()).map(|b| Ok(Frame::data(b)))),
            Self::Passing(passing) => passing.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Self::Passing(passing) => passing.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Passing(passing) => passing.size_hint(),
        }
    }
}

/// An upstream's body, with the connection that it comes on and the turn that lasts until its end.
pub struct Passing {
    prefix: Option<Bytes>,
    conn: Option<Box<Conn>>,
    turn: Option<Turn>,
    upstream: Arc<Upstream>,
    told: Told,
    /// Fields of the upstream's hop, which its trailers may not bring either.
    named_by_connection: Vec<HeaderName>,
    silence: Option<Pin<Box<Sleep>>>,
    /// What broke it off, to be told at the next poll: a server that is told drops what it has not flushed yet, and with it
    /// bytes, even the head, that had come from the upstream whole.
    broken: Option<AnswerError>,
    bytes: u64,
}

impl Passing {
    pub(super) fn new(
        prefix: Option<Bytes>,
        conn: Box<Conn>,
        turn: Turn,
        upstream: Arc<Upstream>,
        told: Told,
        named_by_connection: Vec<HeaderName>,
    ) -> Self {
        let (conn, turn) = (Some(conn), Some(turn));
        Self {
            prefix: prefix.filter(|p| !p.is_empty()),
            conn,
            turn,
            upstream,
            told,
            named_by_connection,
            silence: None,
            broken: None,
            bytes: 0,
        }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        if let Some(prefix) = self.prefix.take() {
            self.bytes += prefix.len() as u64;
            return Poll::Ready(Some(Ok(Frame::data(prefix))));
        }
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let Some(conn) = &mut self.conn else { return Poll::Ready(None) };
        match conn.poll_body(cx) {
            Poll::Pending => {
                if self.poll_silence(cx).is_pending() {
                    return Poll::Pending;
                }
                self.cut(AnswerError::Silent, cx)
            }
            Poll::Ready(Some(Ok(mut frame))) => {
                self.silence = None;
                if let Some(trailers) = frame.trailers_mut() {
                    strip_trailers(trailers, &self.named_by_connection);
                }
                self.bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
                if conn.is_end_of_body() {
                    self.end();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => {
                self.end();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => self.cut(AnswerError::Broken(error), cx),
        }
    }

    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let idle_timeout = self.upstream.idle_timeout;
        let silence = self.silence.get_or_insert_with(|| Box::pin(tokio::time::sleep(idle_timeout)));
        silence.as_mut().poll(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.prefix.is_none() && self.broken.is_none() && self.conn.as_ref().is_none_or(|conn| conn.is_end_of_body())
    }

    fn size_hint(&self) -> SizeHint {
        let prefix = self.prefix.as_ref().map_or(0, Bytes::len) as u64;
        match self.conn.as_ref().map_or(Some(0), |conn| conn.body_left()) {
            Some(left) => SizeHint::with_exact(prefix.saturating_add(left)),
            None => SizeHint::default(),
        }
    }

    /// The answer has been passed on to its end: its connection is idle again, and its place is free.
    fn end(&mut self) {
        if let Some(conn) = self.conn.take() {
            self.upstream.transport.put(conn);
        }
        self.turn = None;
        self.told.ended(&self.upstream, self.bytes, true);
    }

    fn cut<T>(&mut self, error: AnswerError, cx: &mut Context<'_>) -> Poll<T> {
        self.conn = None;
        if let Some(mut turn) = self.turn.take() {
            turn.cut();
        }
        self.told.ended(&self.upstream, self.bytes, false);
        let (bytes, upstream) = (self.bytes, self.upstream.name());
        let (method, target) = (self.told.method.as_str(), redact_url(&self.told.uri.to_string()));
        tracing::warn!(bytes, upstream, method, target, "{method} {target} was cut off after {bytes} bytes: {error}");
        self.broken = Some(error);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl fmt::Debug for Passing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Passing({} bytes passed on)", self.bytes)
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        if self.is_end_stream() {
            // An answer without a body is never polled.
            self.end();
        } else {
            self.told.ended(&self.upstream, self.bytes, false);
        }
    }
}
