//! The body of an answer on its way to the client, and the story of the exchange that ends with it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, Uri};
use http_body::{Body, Frame, SizeHint};
use sopan_core::time::Instant;
use tokio::time::Sleep;

use crate::clock::Clock;
use crate::dispatcher::Turn;
use crate::event::Event;
use crate::transport::{Conn, WireError};
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
#[derive(Debug)]
pub struct Passing {
    prefix: Option<Bytes>,
    conn: Option<Box<Conn>>,
    turn: Option<Turn>,
    upstream: Arc<Upstream>,
    told: Told,
    silence: Option<Pin<Box<Sleep>>>,
    /// What broke it off, to be told at the next poll: a server that is told drops what it has not flushed yet, and with it
    /// bytes, even the head, that had come from the upstream whole.
    broken: Option<AnswerError>,
    bytes: u64,
}

impl Passing {
    pub(super) fn new(prefix: Option<Bytes>, conn: Box<Conn>, turn: Turn, upstream: Arc<Upstream>, told: Told) -> Self {
        let (conn, turn) = (Some(conn), Some(turn));
        Self {
            prefix: prefix.filter(|p| !p.is_empty()),
            conn,
            turn,
            upstream,
            told,
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
            Poll::Ready(Some(Ok(frame))) => {
                self.silence = None;
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
        if let Some(turn) = self.turn.take() {
            turn.cut();
        }
        self.told.ended(&self.upstream, self.bytes, false);
        self.broken = Some(error);
        cx.waker().wake_by_ref();
        Poll::Pending
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

/// What happened in an exchange, as it is told to the client and to the observer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Story {
    pub(super) arrived: Instant,
    pub(super) wait: Duration,
    pub(super) attempts: u32,
    pub(super) upstream: Duration,
    pub(super) refused: Option<&'static str>,
    /// Since when it waits, if it does.
    pub(super) waiting_since: Option<Instant>,
    /// When the request was sent whose answer it waits for.
    pub(super) sent: Option<Instant>,
    status: Option<StatusCode>,
    is_told: bool,
}

/// A story, and whose it is.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) story: Story,
    pub(super) method: Method,
    pub(super) uri: Uri,
}

impl Told {
    fn ended(&mut self, upstream: &Upstream, bytes: u64, whole: bool) {
        self.story.ended(upstream, &self.method, &self.uri, bytes, whole);
    }
}

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

impl Story {
    pub(super) fn new(arrived: Instant) -> Self {
        Self {
            arrived,
            wait: Duration::ZERO,
            attempts: 0,
            upstream: Duration::ZERO,
            refused: None,
            waiting_since: None,
            sent: None,
            status: None,
            is_told: false,
        }
    }

    /// A wait has ended; answers how long it was.
    pub(super) fn waited(&mut self, clock: Clock) -> Duration {
        let waited = self.waiting_since.take().map_or(Duration::ZERO, |since| clock.now().since(since));
        self.wait += waited;
        waited
    }

    /// An attempt has ended: there is an answer, or none will come.
    pub(super) fn heard(&mut self, clock: Clock) {
        if let Some(sent) = self.sent.take() {
            self.upstream += clock.now().since(sent);
        }
    }

    /// The observer is told by another, when the answer has been passed on.
    pub(super) fn is_told_later(&mut self) {
        self.is_told = true;
    }

    /// Tells the client what happened, beside whatever the upstream tells it (Server Timing, W3C).
    pub(super) fn tell<B>(&mut self, response: &mut Response<B>) {
        self.status = Some(response.status());
        let mut line = Line::default();
        line.text("wait;dur=").tenths(millis_tenths(self.wait));
        line.text(", attempts;desc=\"").number(self.attempts.into());
        line.text("\", upstream;dur=").tenths(millis_tenths(self.upstream));
        if let Ok(value) = HeaderValue::from_bytes(line.bytes()) {
            response.headers_mut().append(SERVER_TIMING, value);
        }
    }

    /// Tells the observer, once.
    pub(super) fn ended(&mut self, upstream: &Upstream, method: &Method, uri: &Uri, bytes: u64, whole: bool) {
        if std::mem::replace(&mut self.is_told, true) {
            return;
        }
        // A client that has left ends what was under way.
        self.waited(upstream.clock);
        self.heard(upstream.clock);
        upstream.observer.ended(&Event {
            method,
            uri,
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

fn millis_tenths(span: Duration) -> u64 {
    span.as_secs() * 10_000 + u64::from(span.subsec_micros() / 100)
}

/// A short line written by hand: every answer carries one, and formatting would cost as much as parsing the answer.
struct Line {
    bytes: [u8; 96],
    len: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { bytes: [0; 96], len: 0 }
    }
}

impl Line {
    fn text(&mut self, text: &str) -> &mut Self {
        for byte in text.bytes() {
            self.push(byte);
        }
        self
    }

    fn number(&mut self, number: u64) -> &mut Self {
        if number >= 10 {
            self.number(number / 10);
        }
        self.push(b'0' + (number % 10) as u8);
        self
    }

    fn tenths(&mut self, tenths: u64) -> &mut Self {
        self.number(tenths / 10);
        self.push(b'.');
        self.push(b'0' + (tenths % 10) as u8);
        self
    }

    /// What does not fit is left out; three numbers of twenty digits do.
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timing_is_told_in_milliseconds() {
        for (wait, attempts, upstream, expected) in [
            (0, 1, 0, "wait;dur=0.0, attempts;desc=\"1\", upstream;dur=0.0"),
            (312_450, 2, 41_000, "wait;dur=312.4, attempts;desc=\"2\", upstream;dur=41.0"),
            (3_600_000_000, 1000, 99, "wait;dur=3600000.0, attempts;desc=\"1000\", upstream;dur=0.0"),
        ] {
            let mut story = Story::new(Instant::ORIGIN);
            (story.wait, story.upstream) = (Duration::from_micros(wait), Duration::from_micros(upstream));
            story.attempts = attempts;
            let mut response = Response::new(());
            story.tell(&mut response);
            assert_eq!(response.headers()[SERVER_TIMING], expected);
        }
    }
}
