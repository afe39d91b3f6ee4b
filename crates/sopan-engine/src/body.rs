//! A request's body: read while its request waits, kept so that it can be sent again, streamed when it is too long.
//!
//! A `Body` belongs to the exchange; each attempt gets an `AttemptBody`, which first repeats what was kept and then goes
//! on with what the client still sends. Up to `replay_bytes_max` is kept (`replay_bytes_total` over all exchanges); a longer
//! body streams, and cannot be sent again after its first byte.

mod pieces;
mod replay;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderName;
use http_body::{Body as _, Frame, SizeHint};
use parking_lot::Mutex;

use crate::budget::ByteBudget;
use crate::clock::Clock;
use replay::Replay;

/// Where a request's body comes from.
#[derive(Default)]
pub enum Source {
    /// There is none.
    #[default]
    Empty,
    /// All of it is here.
    Bytes(Bytes),
    /// A client sends it.
    Stream(Stream),
}

/// A body as it comes in, from whatever door.
pub type Stream = Pin<Box<dyn http_body::Body<Data = Bytes, Error = BodyError> + Send>>;

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("Empty"),
            Self::Bytes(bytes) => write!(f, "Bytes({} bytes)", bytes.len()),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// A body that could not be sent to its end because the client did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The client broke off.
    #[error("the client broke off its request body")]
    Broken,
    /// The client fell silent for longer than `idle_timeout`.
    #[error("the client fell silent in the middle of its request body")]
    Silent,
    /// What the client sent is no body (RFC 9112 §7).
    #[error("the request body cannot be read: {0}")]
    Malformed(&'static str),
}

/// The bounds of a body.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    pub(crate) replay_bytes_max: u64,
    /// For what all exchanges with an upstream keep together.
    pub(crate) budget: Arc<ByteBudget>,
    pub(crate) idle_timeout: Duration,
    pub(crate) clock: Clock,
}

/// A request's body, as the exchange holds it.
pub(crate) enum Body {
    Empty,
    Replay(Arc<Mutex<Replay>>),
}

impl Body {
    /// `named_by_connection`: fields that the client declared to be of its hop, which trailers may not bring either.
    pub(crate) fn new(source: Source, named_by_connection: Vec<HeaderName>, bounds: &Bounds) -> Self {
        match source {
            Source::Empty => Self::Empty,
            Source::Stream(stream) if stream.is_end_stream() => Self::Empty,
            source => Self::Replay(Arc::new(Mutex::new(Replay::new(source, named_by_connection, bounds.clone())))),
        }
    }

    /// The body of the next attempt. The attempt before it must be over.
    pub(crate) fn attempt(&self) -> AttemptBody {
        match self {
            Self::Empty => AttemptBody::Empty,
            Self::Replay(replay) => {
                replay.lock().rewind();
                AttemptBody::Replay(Arc::clone(replay))
            }
        }
    }

    /// Whether it can be sent whole once more.
    pub(crate) fn is_replayable(&self) -> bool {
        self.with(true, |replay| replay.is_replayable())
    }

    /// How many bytes of it are kept.
    pub(crate) fn held(&self) -> u64 {
        self.with(0, |replay| replay.held())
    }

    /// Why it could not be sent to its end.
    pub(crate) fn error(&self) -> Option<BodyError> {
        self.with(None, |replay| replay.error())
    }

    /// How long bytes of it have been moving since the last call, so that no time-out need count that.
    pub(crate) fn take_moved(&self) -> Duration {
        self.with(Duration::ZERO, Replay::take_moved)
    }

    /// Reads ahead what may be kept while the request waits; ready only when the client broke off. `room` counts the bytes
    /// of each piece and answers whether more may be read.
    pub(crate) fn poll_read_ahead(&self, cx: &mut Context<'_>, room: impl FnMut(u64) -> bool) -> Poll<()> {
        self.with(Poll::Pending, |replay| replay.poll_read_ahead(cx, room))
    }

    fn with<T>(&self, empty: T, ask: impl FnOnce(&mut Replay) -> T) -> T {
        match self {
            Self::Empty => empty,
            Self::Replay(replay) => ask(&mut replay.lock()),
        }
    }
}

/// The body of one attempt.
#[derive(Default)]
pub(crate) enum AttemptBody {
    #[default]
    Empty,
    Replay(Arc<Mutex<Replay>>),
}

impl http_body::Body for AttemptBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Replay(replay) => replay.lock().poll_frame(cx),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Replay(replay) => replay.lock().size_hint(),
        }
    }
}
