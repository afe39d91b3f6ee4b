//! The state behind a body: what was read and kept, and what is still to come.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderName;
use http_body::{Frame, SizeHint};
use sopan_core::time::Instant;
use tokio::time::Sleep;

use super::pieces::{Piece, Pieces};
use super::{BodyError, Bounds, Source};

pub(crate) struct Replay {
    source: Source,
    named_by_connection: Vec<HeaderName>,
    ended: bool,
    error: Option<BodyError>,
    /// What was read. While it is all kept, attempts walk over it; once it is not, they take pieces out.
    pieces: Pieces,
    /// Bytes in `pieces`, counted against the budget.
    held: u64,
    /// Whether everything read so far is in `pieces`.
    kept: bool,
    /// Whether an attempt has taken something that is kept no more.
    spent: bool,
    /// How long it is as a whole, if its client told; the same for every attempt.
    size: SizeHint,
    /// When bytes last moved, and how long they have been moving since that was last asked.
    last_move: Option<Instant>,
    moved: Duration,
    silence: Option<Pin<Box<Sleep>>>,
    bounds: Bounds,
}

impl Replay {
    pub(super) fn new(source: Source, named_by_connection: Vec<HeaderName>, bounds: Bounds) -> Self {
        let size = match &source {
            Source::Empty => SizeHint::with_exact(0),
            Source::Bytes(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Stream(stream) => stream.size_hint(),
        };
        let mut replay = Self {
            source,
            named_by_connection,
            ended: false,
            error: None,
            pieces: Pieces::default(),
            held: 0,
            kept: size.lower() <= bounds.replay_bytes_max,
            spent: false,
            size,
            last_move: None,
            moved: Duration::ZERO,
            silence: None,
            bounds,
        };
        if let Source::Bytes(bytes) = &mut replay.source {
            // The caller holds them anyway, so keeping them costs nothing, however long they are.
            let bytes = std::mem::take(bytes);
            (replay.kept, replay.ended) = (true, true);
            replay.pieces.push(Piece::Data(bytes), true);
        }
        replay
    }

    pub(super) fn rewind(&mut self) {
        self.pieces.rewind();
        self.last_move = Some(self.bounds.clock.now());
    }

    pub(super) fn is_replayable(&self) -> bool {
        self.error.is_none() && !self.spent
    }

    pub(super) fn held(&self) -> u64 {
        self.held
    }

    pub(super) fn error(&self) -> Option<BodyError> {
        self.error
    }

    pub(super) fn take_moved(&mut self) -> Duration {
        std::mem::take(&mut self.moved)
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.size
    }

    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        while self.pieces.is_walked() && !self.ended {
            match self.poll_piece(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(Ok(None)) => {}
                Poll::Ready(Ok(Some(piece))) => self.keep(piece),
            }
        }
        let frame = if self.kept { self.pieces.walk() } else { self.take_next() };
        self.note_move();
        // One that broke off never ends: whoever asks again must not take it for whole.
        Poll::Ready(frame.map(Ok).or_else(|| self.error.map(Err)))
    }

    pub(super) fn poll_read_ahead(&mut self, cx: &mut Context<'_>, mut room: impl FnMut(u64) -> bool) -> Poll<()> {
        // No attempt is under way, so the next one needs all of it: none may be let go of as sent already.
        self.pieces.rewind();
        while self.kept && !self.ended && self.held < self.bounds.replay_bytes_max && room(0) {
            match self.poll_piece(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(None)) => {}
                Poll::Ready(Ok(Some(piece))) => {
                    room(piece.len());
                    self.keep(piece);
                }
            }
        }
        Poll::Pending
    }

    /// The next piece from the client.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Piece>, BodyError>> {
        if let Some(error) = self.error {
            return Poll::Ready(Err(error));
        }
        let Source::Stream(stream) = &mut self.source else {
            self.ended = true;
            return Poll::Ready(Ok(None));
        };
        match stream.as_mut().poll_frame(cx) {
            Poll::Pending => self.poll_silence(cx).map(Err),
            Poll::Ready(None) => {
                self.end();
                Poll::Ready(Ok(None))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Err(self.fail(error))),
            Poll::Ready(Some(Ok(frame))) => {
                self.silence = None;
                Poll::Ready(Ok(Some(Piece::new(frame, &self.named_by_connection))))
            }
        }
    }

    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<BodyError> {
        let idle_timeout = self.bounds.idle_timeout;
        let silence = self.silence.get_or_insert_with(|| Box::pin(tokio::time::sleep(idle_timeout)));
        match silence.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => Poll::Ready(self.fail(BodyError::Silent)),
        }
    }

    fn keep(&mut self, piece: Piece) {
        let bytes = piece.len();
        if self.kept {
            if self.held + bytes <= self.bounds.replay_bytes_max && self.bounds.budget.take(bytes) {
                self.held += bytes;
            } else {
                self.let_go();
            }
        }
        let is_whole = self.size.exact() == Some(bytes);
        self.pieces.push(piece, is_whole || !self.kept);
    }

    /// From here on pieces are taken out as they are sent: those already sent are not needed any more.
    fn let_go(&mut self) {
        self.kept = false;
        self.spent |= self.pieces.has_walked();
        let freed = self.pieces.forget_walked();
        self.give_back(freed);
    }

    fn take_next(&mut self) -> Option<Frame<Bytes>> {
        let (frame, freed) = self.pieces.take();
        self.give_back(freed);
        self.spent |= frame.is_some();
        frame
    }

    /// Pieces read after they were no longer kept have not been counted.
    fn give_back(&mut self, freed: u64) {
        let bytes = freed.min(self.held);
        self.held -= bytes;
        self.bounds.budget.give_back(bytes);
    }

    fn note_move(&mut self) {
        let now = self.bounds.clock.now();
        if let Some(last) = self.last_move.replace(now) {
            self.moved += now.since(last);
        }
    }

    fn end(&mut self) {
        self.ended = true;
        self.silence = None;
        self.source = Source::Empty;
    }

    fn fail(&mut self, error: BodyError) -> BodyError {
        self.end();
        self.error = Some(error);
        error
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        self.bounds.budget.give_back(self.held);
    }
}
