//! A request's body on its way out over HTTP/2: no more is read of it than the peer's windows and the connection take.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::Body as _;
use tokio::task::AbortHandle;

use super::super::WireError;
use crate::body::{AttemptBody, BodyError};

/// What is left to send of a request.
#[derive(Default)]
pub(super) struct Upload(Option<Sending>);

struct Sending {
    stream: SendStream<Bytes>,
    body: AttemptBody,
    /// What was read and has not been sent.
    piece: Bytes,
    /// How much must still come, where the head told.
    left: Option<u64>,
    /// Whether it waits for the upstream to ask for it.
    is_held: bool,
}

/// Why no more is sent.
pub(super) enum Stopped {
    /// The peer takes no more. What that means, its answer says.
    Unwanted,
    /// The body itself broke off.
    Broken(WireError),
}

impl Upload {
    pub(super) fn new(stream: SendStream<Bytes>, body: AttemptBody, is_held: bool) -> Self {
        let left = body.size_hint().exact();
        Self((left != Some(0)).then(|| Sending { stream, body, piece: Bytes::new(), left, is_held }))
    }

    /// Whether the body waits to be let go.
    pub(super) fn is_held(&self) -> bool {
        self.0.as_ref().is_some_and(|sending| sending.is_held)
    }

    /// Lets the body go.
    pub(super) fn release(&mut self) {
        if let Some(sending) = &mut self.0 {
            sending.is_held = false;
        }
    }

    /// Sends what can be sent; ready at the end of the body.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Stopped>> {
        let Some(sending) = &mut self.0 else { return Poll::Ready(Ok(())) };
        if sending.is_held {
            return Poll::Pending;
        }
        let result = ready!(sending.poll(cx));
        if matches!(result, Err(Stopped::Broken(_))) {
            // The answer may go on for long, and would keep the stream from being ended.
            sending.stream.send_reset(Reason::CANCEL);
        }
        self.0 = None;
        Poll::Ready(result)
    }

    /// Sends the rest in a task of its own, if there is any that may go.
    pub(super) fn goes_on(mut self) -> Option<Uploading> {
        let may_go = self.0.as_ref().is_some_and(|sending| !sending.is_held);
        // What becomes of it the peer hears, and nobody else asks.
        may_go.then(|| Uploading(tokio::spawn(async move { drop(poll_fn(|cx| self.poll(cx)).await) }).abort_handle()))
    }
}

/// A body on its way; it ends when this is dropped.
pub(super) struct Uploading(AbortHandle);

impl Drop for Uploading {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Sending {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Stopped>> {
        loop {
            if !self.piece.is_empty() {
                if ready!(self.poll_piece(cx))? {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            let frame = ready!(Pin::new(&mut self.body).poll_frame(cx)).transpose();
            let frame = frame.map_err(|error| Stopped::Broken(error.into()))?.map(http_body::Frame::into_data);
            match (frame, self.left) {
                (Some(Ok(data)), None) => self.piece = data,
                (Some(Ok(data)), Some(left)) => {
                    let left = left.checked_sub(data.len() as u64).ok_or_else(not_as_told)?;
                    (self.piece, self.left) = (data, Some(left));
                }
                (Some(Err(frame)), None) => {
                    let trailers = frame.into_trailers().unwrap_or_default();
                    return Poll::Ready(self.stream.send_trailers(trailers).map_err(|_| Stopped::Unwanted));
                }
                // Trailers that have no place in a body of a given length, as for HTTP/1.1.
                (Some(Err(_)), Some(_)) => {}
                (None, None) => return Poll::Ready(self.send(Bytes::new(), true)),
                (None, Some(_)) => return Poll::Ready(Err(not_as_told())),
            }
        }
    }

    /// Sends what the windows take of the piece; answers whether it was the last.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Stopped>> {
        self.stream.reserve_capacity(self.piece.len());
        let mut room = self.stream.capacity();
        while room == 0 {
            match ready!(self.stream.poll_capacity(cx)) {
                Some(Ok(more)) => room = more,
                Some(Err(_)) | None => return Poll::Ready(Err(Stopped::Unwanted)),
            }
        }
        let part = self.piece.split_to(room.min(self.piece.len()));
        let is_last = self.piece.is_empty() && self.left == Some(0);
        Poll::Ready(self.send(part, is_last).map(|()| is_last))
    }

    fn send(&mut self, data: Bytes, is_last: bool) -> Result<(), Stopped> {
        self.stream.send_data(data, is_last).map_err(|_| Stopped::Unwanted)
    }
}

/// The length has been told, and the body does not keep to it.
fn not_as_told() -> Stopped {
    Stopped::Broken(BodyError::Broken.into())
}
