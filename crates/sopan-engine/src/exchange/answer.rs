//! The body of an answer on its way to the client, and the story of the exchange that ends with it.

use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, Uri};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use sopan_core::time::Instant;
use tokio::time::Sleep;

use crate::dispatcher::Turn;
use crate::event::Event;
use crate::transport::Conn;
use crate::upstream::Upstream;

/// The body of an answer.
#[derive(Debug)]
pub enum AnswerBody {
    /// All of it is here: sopan's own, or an answer that was kept.
    Full(Option<Bytes>),
    /// It is passed on as it comes.
    Passing(Box<Passing>),
}

/// A body that broke off. The client must see a broken transfer, never a whole one.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// The upstream broke off.
    #[error("the upstream broke off its answer")]
    Broken(#[source] hyper::Error),
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
            Self::Passing(passing) => passing.prefix.is_none() && passing.incoming.is_end_stream(),
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
#[derive(Debug)]
pub struct Passing {
    incoming: Incoming,
    prefix: Option<Bytes>,
    conn: Option<Conn>,
    turn: Option<Turn>,
    upstream: Arc<Upstream>,
    story: Box<Story>,
    silence: Option<Pin<Box<Sleep>>>,
    /// What broke it off, to be told at the next poll: a server that is told drops what it has not flushed yet, and with it
    /// bytes, even the head, that had come from the upstream whole.
    broken: Option<AnswerError>,
    bytes: u64,
}

impl Passing {
    pub(super) fn new(
        incoming: Incoming,
        prefix: Option<Bytes>,
        conn: Conn,
        turn: Turn,
        upstream: Arc<Upstream>,
        story: Box<Story>,
    ) -> Self {
        let (conn, turn) = (Some(conn), Some(turn));
        Self {
            incoming,
            prefix: prefix.filter(|p| !p.is_empty()),
            conn,
            turn,
            upstream,
            story,
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
        match conn.poll_body(&mut self.incoming, cx) {
            Poll::Pending => {
                if self.poll_silence(cx).is_pending() {
                    return Poll::Pending;
                }
                self.cut(AnswerError::Silent, cx)
            }
            Poll::Ready(Some(Ok(frame))) => {
                self.silence = None;
                self.bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
                if self.incoming.is_end_stream() {
                    self.end(cx);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => {
                self.end(cx);
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

    fn size_hint(&self) -> SizeHint {
        let mut size = self.incoming.size_hint();
        if let Some(prefix) = &self.prefix {
            let more = prefix.len() as u64;
            let upper = size.upper().map(|upper| upper + more);
            size.set_lower(size.lower() + more);
            if let Some(upper) = upper {
                size.set_upper(upper);
            }
        }
        size
    }

    /// The answer has been passed on to its end: its connection is idle again, and its place is free.
    fn end(&mut self, cx: &mut Context<'_>) {
        if let Some(mut conn) = self.conn.take()
            && conn.is_alive(cx)
        {
            self.upstream.transport.put(conn);
        }
        self.turn = None;
        self.story.ended(&self.upstream, self.bytes, true);
    }

    fn cut<T>(&mut self, error: AnswerError, cx: &mut Context<'_>) -> Poll<T> {
        self.conn = None;
        if let Some(turn) = self.turn.take() {
            turn.cut();
        }
        self.story.ended(&self.upstream, self.bytes, false);
        self.broken = Some(error);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        if self.prefix.is_none() && self.incoming.is_end_stream() {
            // An answer without a body is never polled.
            self.end(&mut Context::from_waker(Waker::noop()));
        } else {
            self.story.ended(&self.upstream, self.bytes, false);
        }
    }
}

/// What happened in an exchange, as it is told to the client and to the observer.
#[derive(Debug)]
pub(super) struct Story {
    method: Method,
    uri: Uri,
    pub(super) arrived: Instant,
    pub(super) wait: Duration,
    pub(super) attempts: u32,
    pub(super) upstream: Duration,
    pub(super) refused: Option<&'static str>,
    status: StatusCode,
    told: bool,
}

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

impl Story {
    pub(super) fn new(method: &Method, uri: &Uri, arrived: Instant) -> Self {
        Self {
            method: method.clone(),
            uri: uri.clone(),
            arrived,
            wait: Duration::ZERO,
            attempts: 0,
            upstream: Duration::ZERO,
            refused: None,
            status: StatusCode::OK,
            told: false,
        }
    }

    /// The story, to be told further by someone else.
    pub(super) fn take(&mut self) -> Box<Self> {
        let rest = Self { told: true, ..Self::new(&Method::GET, &Uri::default(), self.arrived) };
        Box::new(std::mem::replace(self, rest))
    }

    /// Tells the client what happened, beside whatever the upstream tells it (Server Timing, W3C).
    pub(super) fn tell<B>(&mut self, response: &mut Response<B>) {
        self.status = response.status();
        let mut value = String::with_capacity(64);
        let (wait, upstream) = (millis(self.wait), millis(self.upstream));
        let _ = write!(value, "wait;dur={wait}, attempts;desc=\"{}\", upstream;dur={upstream}", self.attempts);
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().append(SERVER_TIMING, value);
        }
    }

    /// Tells the observer, once.
    pub(super) fn ended(&mut self, upstream: &Upstream, bytes: u64, whole: bool) {
        if std::mem::replace(&mut self.told, true) {
            return;
        }
        upstream.observer.ended(&Event {
            method: self.method.clone(),
            uri: self.uri.clone(),
            status: self.status,
            refused: self.refused,
            wait: self.wait,
            attempts: self.attempts,
            upstream: self.upstream,
            total: upstream.clock.now().since(self.arrived),
            bytes,
            whole,
        });
    }
}

/// Milliseconds with one decimal, without the detour over a float.
fn millis(span: Duration) -> impl std::fmt::Display {
    let tenths = span.as_micros() / 100;
    std::fmt::from_fn(move |f| write!(f, "{}.{}", tenths / 10, tenths % 10))
}
