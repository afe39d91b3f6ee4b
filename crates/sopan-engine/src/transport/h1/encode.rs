//! A request on its way out: its head, made anew from its parts, and its body, framed.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Request;
use http_body::Body as _;
use sopan_core::h1::framer::{Framer, Framing, NotAsTold, SLICES_MAX};

use super::WireError;
use crate::body::AttemptBody;

/// Writes one request. Its buffer is used again for the next.
#[derive(Default)]
pub(super) struct Encoder {
    framer: Framer,
    body: AttemptBody,
    /// Whether the body waits for the upstream to ask for it.
    is_held: bool,
}

impl Encoder {
    pub(super) fn start(&mut self, head: &Request<()>, body: AttemptBody, is_held: bool) {
        let framing = framing(&body);
        (self.body, self.is_held) = (body, is_held && framing != Framing::Done);
        self.framer.request(head, framing);
    }

    /// Whether all has been written.
    pub(super) fn is_done(&self) -> bool {
        self.framer.is_done()
    }

    /// Whether the body waits to be let go.
    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    /// Lets the body go.
    pub(super) fn release(&mut self) {
        self.is_held = false;
    }

    /// Writes nothing more, whatever is left.
    pub(super) fn abandon(&mut self) {
        *self = Self::default();
    }

    /// Writes as much as can be written, through `write`. What is there already of the body goes with the head.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&mut Context<'_>, &[IoSlice<'_>]) -> Poll<io::Result<usize>>,
    ) -> Poll<Result<(), WireError>> {
        loop {
            let gathered = self.gather(cx)?;
            while self.framer.has_bytes() {
                let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                let count = self.framer.slices(&mut slices);
                match ready!(write(cx, &slices[..count]))? {
                    0 => return Poll::Ready(Err(io::Error::from(io::ErrorKind::WriteZero).into())),
                    written => self.framer.advance(written),
                }
            }
            if self.framer.is_done() {
                self.body = AttemptBody::Empty;
                return Poll::Ready(Ok(()));
            }
            ready!(gathered);
        }
    }

    /// Takes of the body what is there; pending if more is to come.
    fn gather(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, WireError> {
        while self.framer.wants_more() && !self.framer.is_full() {
            if self.is_held {
                return Ok(Poll::Pending);
            }
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else { return Ok(Poll::Pending) };
            match frame.transpose()?.map(http_body::Frame::into_data) {
                None => self.framer.end(None)?,
                Some(Ok(data)) => self.framer.data(data)?,
                Some(Err(frame)) => self.framer.end(frame.into_trailers().ok().as_ref())?,
            }
        }
        Ok(Poll::Ready(()))
    }
}

impl From<NotAsTold> for WireError {
    fn from(_: NotAsTold) -> Self {
        Self::Request(crate::body::BodyError::Broken)
    }
}

/// As the client framed it, in every attempt: what a body says of its length does not change when it has been read.
fn framing(body: &AttemptBody) -> Framing {
    match body.size_hint().exact() {
        Some(0) => Framing::Done,
        Some(length) => Framing::Length(length),
        None => Framing::Chunked,
    }
}
