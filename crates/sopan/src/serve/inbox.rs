//! What comes from a client: heads, and the bodies between them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use sopan_core::h1::body::{Decoder, Step};
use sopan_core::h1::request::{self, BadRequest, Incoming};
use sopan_core::h1::{HEAD_BYTES_MAX, fields};
use sopan_engine::body::BodyError;

use super::io::Socket;

/// What is read at once of a body, and of what nobody wants.
const BODY_READ: usize = 64 * 1024;
const REST_READ: usize = 4 * 1024;
/// What is read of a body that nobody wants, so that the connection can go on.
const UNWANTED_MAX: usize = 64 * 1024;

/// The reading side of a connection. Heads are read by the connection, a body by whoever has the request.
pub(super) struct Inbox {
    socket: Arc<Socket>,
    /// What was read and is not used yet.
    read: BytesMut,
    /// Bytes of `read` in which the end of a head has been looked for in vain.
    scanned: usize,
    /// Whether an empty line before the head was passed over.
    skipped: bool,
    /// What is to come of the body.
    decoder: Decoder,
    /// Whether the client waits to be asked for its body.
    awaits_continue: bool,
    /// Whether it is to be asked now.
    asks: bool,
    /// Whether the body is malformed or broken off: nothing after it can be relied on.
    is_broken: bool,
}

impl Inbox {
    pub(super) fn new(socket: Arc<Socket>) -> Self {
        Self {
            socket,
            read: BytesMut::new(),
            scanned: 0,
            skipped: false,
            decoder: Decoder::Done,
            awaits_continue: false,
            asks: false,
            is_broken: false,
        }
    }

    /// Whether nothing of a next request has been read.
    pub(super) fn is_empty(&self) -> bool {
        self.read.is_empty()
    }

    /// The next head; none if the client has closed the connection.
    pub(super) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Incoming>, BadRequest>> {
        if !self.read.is_empty() {
            // It has begun to come with what was before it.
            self.socket.phase.read();
        }
        loop {
            if let Some(bytes) = self.whole_head()? {
                return Poll::Ready(request::read(&bytes).map(Some));
            }
            if self.read.is_empty() {
                // Thousands of connections rest, and a resting one needs no buffer.
                self.read = BytesMut::new();
            }
            match ready!(self.socket.poll_read_little(&mut self.read, cx)) {
                // A head that breaks off asks for nothing, and nobody is there to be told.
                Ok(0) | Err(_) => return Poll::Ready(Ok(None)),
                Ok(_) => {}
            }
        }
    }

    fn whole_head(&mut self) -> Result<Option<Bytes>, BadRequest> {
        // Old clients send one more line end after a body (RFC 9112 §2.2).
        if !self.skipped && self.read.starts_with(b"\r\n") {
            self.read.advance(2);
            (self.skipped, self.scanned) = (true, 0);
            if self.read.is_empty() {
                self.socket.phase.answered();
            }
        }
        let end = fields::find_end(&self.read, self.scanned);
        let end = end.map_err(|fault| BadRequest::from(fault).of(&self.read))?;
        match end {
            Some(length) if length <= HEAD_BYTES_MAX => {
                (self.scanned, self.skipped) = (0, false);
                Ok(Some(self.read.split_to(length).freeze()))
            }
            None if self.read.len() <= HEAD_BYTES_MAX => {
                self.scanned = self.read.len();
                Ok(None)
            }
            _ => Err(BadRequest::too_long(&self.read)),
        }
    }

    /// A body follows.
    fn begin(&mut self, decoder: Decoder, expects_continue: bool) {
        self.decoder = decoder;
        // One that does not wait has begun to send already.
        self.awaits_continue = expects_continue && self.read.is_empty();
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            match self.decoder.decode(&mut self.read) {
                Ok(Step::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(Step::Trailers(fields)) => return Poll::Ready(Some(Ok(Frame::trailers(fields)))),
                Ok(Step::End) => return Poll::Ready(None),
                Ok(Step::More) => {}
                Err(why) => return Poll::Ready(Some(Err(self.broken(BodyError::Malformed(why))))),
            }
            self.asks |= std::mem::take(&mut self.awaits_continue);
            let room = self.decoder.left().map_or(BODY_READ, |left| left.clamp(1, BODY_READ as u64) as usize);
            match ready!(self.socket.poll_read(&mut self.read, room, cx)) {
                Ok(0) | Err(_) => return Poll::Ready(Some(Err(self.broken(BodyError::Broken)))),
                Ok(_) => {}
            }
        }
    }

    fn broken(&mut self, error: BodyError) -> BodyError {
        (self.is_broken, self.decoder) = (true, Decoder::Done);
        error
    }

    /// Whether the client is to be asked for its body (`100 Continue`); answers yes once.
    pub(super) fn asks_for_body(&mut self) -> bool {
        std::mem::take(&mut self.asks)
    }

    /// Whether the body has been read to its end, so that another request can be read.
    pub(super) fn is_at_end(&self) -> bool {
        self.decoder.is_done() && !self.is_broken
    }

    /// The request has been answered; whether another one can be read after it. What has come already of a body that was
    /// not wanted is read, so that a small one costs no connection.
    pub(super) fn ends(&mut self, cx: &mut Context<'_>) -> bool {
        self.asks = false;
        let mut unwanted = 0;
        while !self.decoder.is_done() && !self.awaits_continue && unwanted < UNWANTED_MAX {
            match self.poll_body(cx) {
                Poll::Ready(Some(Ok(frame))) => unwanted += frame.data_ref().map_or(0, Bytes::len),
                Poll::Ready(None) => break,
                Poll::Ready(Some(Err(_))) | Poll::Pending => return false,
            }
        }
        self.is_at_end()
    }

    /// Reads and forgets, until the client has closed its side too.
    pub(super) fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.read.clear();
            match ready!(self.socket.poll_read(&mut self.read, REST_READ, cx)) {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(_) => {}
            }
        }
    }

    /// What was read and is not used.
    pub(super) fn take_read(&mut self) -> BytesMut {
        std::mem::take(&mut self.read)
    }
}

/// The body of the request under way, as the engine reads it.
pub(super) struct ClientBody {
    inbox: Arc<Mutex<Inbox>>,
    size: SizeHint,
}

impl ClientBody {
    pub(super) fn new(inbox: Arc<Mutex<Inbox>>, decoder: Decoder, expects_continue: bool) -> Self {
        let size = decoder.left().map_or_else(SizeHint::default, SizeHint::with_exact);
        inbox.lock().begin(decoder, expects_continue);
        Self { inbox, size }
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.inbox.lock().poll_body(cx)
    }

    /// As its head told; the engine asks before it reads.
    fn size_hint(&self) -> SizeHint {
        self.size
    }
}
