//! An HTTP/1.1 connection to an upstream (RFC 9112), driven by whoever uses it: one request at a time, no task of its own.
//!
//! [`Conn::send`] writes a request and reads the answer's head, [`Conn::poll_body`] reads its body, and goes on writing
//! the request's where the upstream has answered early. Dropping the connection ends the upstream's work. Why it is no
//! library's client is among the Decisions in ARCHITECTURE.md.
//!
//! What is certain is kept: when the first byte was written, whether any was, whether a byte came back. Any doubt about
//! where a message ends ends the connection.

mod encode;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{EXPECT, UPGRADE};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use sopan_core::h1::body::{Decoder, Step};
use sopan_core::h1::response::{self, HeadError, Incoming};
use sopan_core::h1::{HEAD_BYTES_MAX, fields};
use sopan_core::headers::is_upgrade_offered;
use sopan_core::time::Instant;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::task::coop::unconstrained;
use tokio::time::Sleep;

use super::dial::Stream;
use super::lost::{Lost, WireError};
use crate::body::AttemptBody;
use crate::clock::{Clock, Watchdog};
use crate::interim::Interims;
use encode::Encoder;

/// Interim answers (1xx) to one request; more say nothing and never end.
pub(super) const INTERIM_MAX: u32 = 100;
/// What is read at once of a head, and of a body.
const HEAD_READ: usize = 8 * 1024;
const BODY_READ: usize = 64 * 1024;

/// How long the body of a request that says `Expect: 100-continue` is held back for an upstream that says nothing: it may
/// not know the expectation (RFC 9110 §10.1.1).
pub(super) const CONTINUE_MAX: Duration = Duration::from_secs(1);

/// A connection that was closed while it was idle tells so at once when it is used again, in one round trip. Whatever
/// ends later had the request, and may have worked on it.
pub(super) const STALE_MAX: Duration = Duration::from_secs(1);

/// A connection that carries one request at a time.
pub(crate) struct Conn {
    stream: Stream,
    clock: Clock,
    /// What was read and is not used yet.
    read: BytesMut,
    /// The most that `read` has had room for, and so about what it keeps, whatever is left of it to be seen.
    room: usize,
    /// Bytes of `read` in which the end of a head has been looked for in vain.
    scanned: usize,
    /// Interim answers to this request.
    interim: u32,
    encoder: Encoder,
    /// Whether the stream may still keep some of what was written to it, as TLS does when the kernel takes no more.
    unflushed: bool,
    decoder: Decoder,
    /// Whether the connection may carry another request after this one.
    keeps: bool,
    /// Whether its request broke off: not a byte more of it may go, lest it look whole.
    is_spoilt: bool,
    first_write: Option<Instant>,
    has_received: bool,
    reused: bool,
    /// What its end was, if it was seen before a request was sent.
    fault: Option<io::Error>,
    timer: Watchdog,
    /// Until when a body is held back at most.
    held_until: Option<Pin<Box<Sleep>>>,
}

impl Conn {
    pub(super) fn new(stream: Stream, clock: Clock) -> Self {
        Self {
            stream,
            clock,
            read: BytesMut::new(),
            room: 0,
            scanned: 0,
            interim: 0,
            encoder: Encoder::default(),
            unflushed: false,
            decoder: Decoder::Done,
            keeps: true,
            is_spoilt: false,
            first_write: None,
            has_received: false,
            reused: false,
            fault: None,
            timer: Watchdog::default(),
            held_until: None,
        }
    }

    /// A connection over a stream that has carried requests before.
    pub(super) fn reused(stream: Stream, clock: Clock) -> Self {
        Self { reused: true, ..Self::new(stream, clock) }
    }

    /// Whether it can carry a request: neither closed nor speaking unasked, as far as this task has been told.
    pub(crate) fn is_alive(&mut self, cx: &mut Context<'_>) -> bool {
        // One byte is enough to know, and is not there on a connection that can be used.
        let mut byte = [0];
        let mut buf = ReadBuf::new(&mut byte);
        // A task that has used up its share of time would be told "pending" of every connection.
        let Self { stream, fault, .. } = self;
        let look = unconstrained(poll_fn(|cx| {
            let read = Pin::new(&mut *stream).poll_read(cx, &mut buf);
            Poll::Ready(match read {
                Poll::Pending => true,
                Poll::Ready(Ok(())) => false,
                Poll::Ready(Err(error)) => {
                    *fault = Some(error);
                    false
                }
            })
        }));
        let is_silent = pin!(look).poll(cx) == Poll::Ready(true);
        is_silent && self.is_idle()
    }

    /// Why it was found not to be alive, where it says more than that it was closed.
    pub(crate) fn take_fault(&mut self) -> Option<io::Error> {
        self.fault.take()
    }

    /// The same, and the kernel is asked too: what came while this program did not run, it does not know yet.
    pub(crate) fn is_surely_alive(&mut self, cx: &mut Context<'_>) -> bool {
        self.is_alive(cx) && self.stream.is_silent()
    }

    /// Whether its last answer has been read to the end, and nothing else.
    pub(crate) fn is_idle(&self) -> bool {
        self.keeps && !self.is_spoilt && self.decoder.is_done() && self.is_sent() && self.read.is_empty()
    }

    /// Whether all of the request has gone.
    fn is_sent(&self) -> bool {
        self.encoder.is_done() && !self.unflushed
    }

    /// Whether it has been idle: it has carried a request before, or was made for one that left.
    pub(crate) fn is_reused(&self) -> bool {
        self.reused
    }

    /// It is idle from now on, and may be closed from the other side at any moment. Thousands may rest, so it keeps no
    /// more to read into than a head takes.
    pub(super) fn rests(&mut self) {
        self.reused = true;
        if self.read.is_empty() && self.room > HEAD_READ {
            (self.read, self.room) = (BytesMut::new(), 0);
        }
    }

    /// Whether it can be taken to another thread's runtime: a TLS session cannot be taken apart.
    pub(super) fn is_movable(&self) -> bool {
        matches!(self.stream, Stream::Tcp(_))
    }

    pub(super) fn into_stream(self) -> Stream {
        self.stream
    }

    /// The timer that bounds its attempts, kept with it since it hardly ever has to be set.
    pub(crate) fn take_timer(&mut self) -> Watchdog {
        std::mem::take(&mut self.timer)
    }

    pub(crate) fn put_timer(&mut self, timer: Watchdog) {
        self.timer = timer;
    }

    /// Sends a request and waits for the answer's head. `written` is told when the kernel has taken the first byte, and
    /// `interims` gets what comes before the answer, if there is a client for it.
    pub(crate) async fn send(
        &mut self,
        head: &Request<()>,
        body: AttemptBody,
        interims: Option<&Interims>,
        mut written: impl FnMut(Instant),
    ) -> Result<Response<()>, Lost> {
        self.encoder.start(head, body, head.headers().contains_key(EXPECT));
        (self.first_write, self.has_received, self.keeps, self.scanned) = (None, false, true, 0);
        self.interim = 0;
        self.held_until = self.encoder.is_held().then(|| Box::pin(tokio::time::sleep(CONTINUE_MAX)));
        let (mut told, mut broke) = (false, None);
        let answer = poll_fn(|cx| {
            if self.held_until.as_mut().is_some_and(|sleep| sleep.as_mut().poll(cx).is_ready()) {
                self.release_body();
            }
            let mut wrote = self.poll_request(cx);
            if !told && let Some(at) = self.first_write {
                told = true;
                written(at);
            }
            let was_held = self.encoder.is_held();
            let answer = self.poll_head(head, interims, cx);
            // Asked for it, the client must hear of that, even if the answer is here already.
            if was_held && !self.encoder.is_held() && !self.is_spoilt {
                wrote = self.poll_request(cx);
            }
            match (answer, wrote) {
                // The upstream may have answered before it stopped reading, and a write hears of its end before the
                // answer can be read: only an end without an answer is the failure, and that end is on its way too.
                (Poll::Pending, Poll::Ready(Err(WireError::Io(error)))) => {
                    broke = Some(error);
                    Poll::Pending
                }
                (Poll::Pending, Poll::Ready(Err(error))) => Poll::Ready(Err(error)),
                (answer, _) => answer,
            }
        })
        .await;
        self.held_until = None;
        let answer = answer.map_err(|error| match (error, broke) {
            // What it said before it left explains more than that it has left.
            (said @ WireError::Io(_), Some(_)) if said.is_of_tls() => said,
            (said @ WireError::SpeaksTls, _) => said,
            (_, Some(broke)) => WireError::Io(broke),
            (error, None) => error,
        });
        let is_early = self.first_write.is_none_or(|at| self.clock.now().since(at) < STALE_MAX);
        let stale = self.reused && !self.has_received && is_early;
        self.reused = true;
        answer.map_err(|error| Lost { sent: self.first_write.is_some(), unprocessed: false, stale, error })
    }

    /// The next piece of the answer's body; none at its end.
    pub(crate) fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, WireError>>> {
        if !self.is_sent() {
            // The answer goes on whatever becomes of the request's body; the connection does not.
            let _ = self.poll_request(cx);
        }
        loop {
            match self.decoder.decode(&mut self.read) {
                Ok(Step::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(Step::Trailers(fields)) => return Poll::Ready(Some(Ok(Frame::trailers(fields)))),
                Ok(Step::End) => return Poll::Ready(None),
                Ok(Step::More) => {}
                Err(why) => return Poll::Ready(Some(Err(self.fail(WireError::Garbage(why))))),
            }
            let room = self.decoder.left().map_or(BODY_READ, |left| left.clamp(1, BODY_READ as u64) as usize);
            match self.poll_read(room, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) if self.decoder.ends_with_connection() => {
                    self.keeps = false;
                    self.decoder = Decoder::Done;
                    return Poll::Ready(None);
                }
                Poll::Ready(Ok(0)) => return Poll::Ready(Some(Err(self.fail(WireError::Closed)))),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(self.fail(error.into())))),
            }
        }
    }

    /// Whether the answer's body has ended.
    pub(crate) fn is_end_of_body(&self) -> bool {
        self.decoder.is_done()
    }

    /// How long the rest of the answer's body is, where its head told.
    pub(crate) fn body_left(&self) -> Option<u64> {
        self.decoder.left()
    }

    /// Writes what it can of the request. One that fails, its own body or the way there, is written no further.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WireError>> {
        if self.is_spoilt {
            return Poll::Pending;
        }
        let wrote = self.poll_write(cx);
        if let Poll::Ready(Err(_)) = wrote {
            self.encoder.abandon();
            (self.unflushed, self.is_spoilt) = (false, true);
        }
        wrote
    }

    /// Writes what it can of the request, and sees to it that it leaves.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WireError>> {
        let Self { encoder, unflushed, stream, first_write, clock, .. } = self;
        let wrote = encoder.poll(cx, |cx, slices| {
            let poll = match slices {
                [one] => Pin::new(&mut *stream).poll_write(cx, one),
                many => Pin::new(&mut *stream).poll_write_vectored(cx, many),
            };
            if let Poll::Ready(Ok(bytes)) = &poll
                && *bytes > 0
            {
                *unflushed = true;
                first_write.get_or_insert_with(|| clock.now());
            }
            poll
        });
        // Also while the client has no more yet: what it has sent must not wait for the rest.
        if self.unflushed && !matches!(wrote, Poll::Ready(Err(_))) {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.unflushed = false;
        }
        wrote
    }

    /// The body is held back no more.
    fn release_body(&mut self) {
        self.encoder.release();
        self.held_until = None;
    }

    /// Reads until there is a final head. Interim answers say nothing about the request's fate.
    fn poll_head(
        &mut self,
        request: &Request<()>,
        interims: Option<&Interims>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Response<()>, WireError>> {
        loop {
            // Whoever takes them out polls again.
            if interims.is_some_and(Interims::is_full) {
                return Poll::Pending;
            }
            if let Some(len) = fields::find_end(&self.read, self.scanned).map_err(HeadError::from)? {
                self.scanned = 0;
                if len > HEAD_BYTES_MAX {
                    return Poll::Ready(Err(WireError::HeadTooLarge));
                }
                let is_head = request.method() == http::Method::HEAD;
                let incoming = response::read(&self.read.split_to(len).freeze(), is_head)?;
                if let Some(response) = self.take_head(incoming, request, interims)? {
                    return Poll::Ready(Ok(response));
                }
                continue;
            }
            if self.read.len() > HEAD_BYTES_MAX {
                return Poll::Ready(Err(WireError::HeadTooLarge));
            }
            if is_tls(&self.read) {
                return Poll::Ready(Err(WireError::SpeaksTls));
            }
            self.scanned = self.read.len();
            match self.poll_read(HEAD_READ, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(WireError::Closed)),
                Poll::Ready(Ok(_)) => self.has_received = true,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// A head has come: the answer's, or one before it.
    fn take_head(
        &mut self,
        incoming: Incoming,
        request: &Request<()>,
        interims: Option<&Interims>,
    ) -> Result<Option<Response<()>>, WireError> {
        let response = incoming.response;
        match response.status() {
            // Who has not been asked to wait is told all the same, if the upstream says it unasked (RFC 9110 §15.2).
            StatusCode::CONTINUE if request.headers().contains_key(EXPECT) => self.release_body(),
            StatusCode::SWITCHING_PROTOCOLS => {
                let (offered, chosen) = (request.headers().get(UPGRADE), response.headers());
                if !offered.is_some_and(|offered| is_upgrade_offered(offered, chosen)) {
                    return Err(WireError::Garbage("it switches to a protocol that nobody asked for"));
                }
                self.keeps = false;
                return Ok(Some(response));
            }
            status if status.is_informational() => {
                if let Some(interims) = interims {
                    interims.add(response);
                }
            }
            _ => {
                (self.keeps, self.decoder) = (incoming.keeps, incoming.decoder);
                return Ok(Some(response));
            }
        }
        self.interim += 1;
        if self.interim > INTERIM_MAX {
            return Err(WireError::Garbage("too many interim answers"));
        }
        Ok(None)
    }

    /// What the connection becomes after it has switched protocols: what was read beyond the head, and the stream.
    pub(crate) fn into_tunnel(self) -> (Bytes, Stream) {
        (self.read.freeze(), self.stream)
    }

    fn poll_read(&mut self, room: usize, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // Large reads while there is room; a new buffer for every small piece would cost more than it saves.
        if self.read.capacity() - self.read.len() < room.min(HEAD_READ) {
            self.read.reserve(room);
        }
        self.room = self.room.max(self.read.capacity());
        poll_read_buf(&mut self.stream, &mut self.read, cx)
    }

    fn fail(&mut self, error: WireError) -> WireError {
        self.keeps = false;
        self.decoder = Decoder::Done;
        error
    }
}

/// Whether it begins as a record of TLS does, an alert or a handshake: no head of HTTP begins so.
fn is_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [0x15 | 0x16, 0x03, ..])
}

/// Reads into the spare room of a buffer, without clearing it first.
fn poll_read_buf(stream: &mut Stream, buf: &mut BytesMut, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    pin!(stream.read_buf(buf)).poll(cx)
}

#[cfg(test)]
mod tests;
