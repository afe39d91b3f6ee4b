//! A stored body that comes from a file, on its way to a client.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;

use super::answer::{AnswerError, warn_of_cut};
use super::story::Told;
use crate::store::{BodyLost, BodyReader};
use crate::upstream::Upstream;

/// A stored body that comes from files, with what goes between its parts.
pub struct Filed {
    pieces: VecDeque<Piece>,
    told: Told,
    upstream: Arc<Upstream>,
    /// As in [`Passing`].
    broken: Option<AnswerError>,
    bytes: u64,
}

/// A piece of an answer's body.
pub(super) enum Piece {
    Text(Bytes),
    Stored(BodyReader),
}

impl Piece {
    fn left(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Stored(reader) => reader.len(),
        }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyLost>>> {
        match self {
            Self::Text(text) => Poll::Ready(Some(std::mem::take(text)).filter(|text| !text.is_empty()).map(Ok)),
            Self::Stored(reader) => reader.poll_next(cx),
        }
    }
}

impl Filed {
    pub(super) fn new(pieces: VecDeque<Piece>, told: Told, upstream: Arc<Upstream>) -> Self {
        Self { pieces, told, upstream, broken: None, bytes: 0 }
    }

    pub(super) fn left(&self) -> u64 {
        self.pieces.iter().map(Piece::left).sum()
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.broken.is_none() && self.left() == 0
    }

    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        if let Some(error) = self.broken.take() {
            self.pieces.clear();
            return Poll::Ready(Some(Err(error)));
        }
        while let Some(piece) = self.pieces.front_mut() {
            match ready!(piece.poll_next(cx)) {
                None => _ = self.pieces.pop_front(),
                Some(Ok(data)) => {
                    self.bytes += data.len() as u64;
                    if self.is_end_stream() {
                        self.told.ended(&self.upstream, self.bytes, true);
                    }
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(_)) => {
                    self.told.ended(&self.upstream, self.bytes, false);
                    warn_of_cut(&self.told, &self.upstream, self.bytes, &AnswerError::Lost);
                    self.broken = Some(AnswerError::Lost);
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(None)
    }
}

impl fmt::Debug for Filed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Filed({} bytes passed on)", self.bytes)
    }
}

impl Drop for Filed {
    fn drop(&mut self) {
        self.told.ended(&self.upstream, self.bytes, self.is_end_stream());
    }
}
