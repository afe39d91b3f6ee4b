//! The body of an answer on its way to the client.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use sopan_core::headers::redact_url;
use tokio::time::Sleep;

use super::feed::Feed;
use super::filed::Filed;
use super::flow::Reader;
use super::story::Told;
use super::trail::Ending;
use crate::event::Cached;
use crate::transport::WireError;
use crate::upstream::Upstream;

/// The body of an answer.
pub enum AnswerBody {
    /// All of it is here: sopan's own, or an answer that was kept.
    Full(Option<Bytes>),
    /// It is passed on as it comes.
    Passing(Box<Passing>),
    /// It comes from a file of the store.
    Filed(Box<Filed>),
    /// It is read by others too, or kept for the store, as it comes.
    Sharing(Box<Sharing>),
}

impl fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(bytes) => write!(f, "Full({} bytes)", bytes.as_ref().map_or(0, Bytes::len)),
            Self::Passing(passing) => passing.fmt(f),
            Self::Filed(filed) => filed.fmt(f),
            Self::Sharing(sharing) => sharing.fmt(f),
        }
    }
}

/// A body that broke off. The client must see a broken transfer, never a whole one.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AnswerError {
    /// The upstream broke off.
    #[error("the upstream broke off its answer")]
    Broken(#[source] Arc<WireError>),
    /// The upstream fell silent for longer than `idle_timeout`.
    #[error("the upstream fell silent in the middle of its answer")]
    Silent,
    /// It was stored, and what is on the disk is not what was written there.
    #[error("what was stored of it is lost")]
    Lost,
    /// Others read the same answer as it comes, and waited for this client for as long as they wait.
    #[error("its client fell behind others that get the same answer")]
    Behind,
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = AnswerError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        match self.get_mut() {
            Self::Full(bytes) => Poll::Ready(bytes.take().filter(|b| !b.is_empty()).map(|b| Ok(Frame::data(b)))),
            Self::Passing(passing) => passing.poll_frame(cx),
            Self::Filed(filed) => filed.poll_frame(cx),
            Self::Sharing(sharing) => sharing.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Self::Passing(passing) => passing.is_end_stream(),
            Self::Filed(filed) => filed.is_end_stream(),
            Self::Sharing(sharing) => sharing.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Passing(passing) => passing.feed.size_hint(),
            Self::Filed(filed) => SizeHint::with_exact(filed.left()),
            Self::Sharing(sharing) => sharing.reader.size_hint(),
        }
    }
}

/// An upstream's body, passed on to one client.
pub struct Passing {
    feed: Feed,
    told: Told,
    silence: Option<Pin<Box<Sleep>>>,
    /// What broke it off, to be told at the next poll: a server that is told drops what it has not flushed yet, and with it
    /// bytes, even the head, that had come from the upstream whole.
    broken: Option<AnswerError>,
    bytes: u64,
}

impl Passing {
    pub(super) fn new(feed: Feed, told: Told) -> Self {
        Self { feed, told, silence: None, broken: None, bytes: 0 }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match self.feed.poll_frame(cx) {
            Poll::Pending => {
                if self.poll_silence(cx).is_pending() {
                    return Poll::Pending;
                }
                self.feed.cut();
                self.cut(AnswerError::Silent, cx)
            }
            Poll::Ready(Some(Ok(frame))) => {
                self.silence = None;
                self.bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
                if self.feed.is_over() {
                    self.told.ended(self.feed.upstream(), self.bytes, true);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => {
                self.told.ended(self.feed.upstream(), self.bytes, true);
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => self.cut(AnswerError::Broken(Arc::new(error)), cx),
        }
    }

    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let idle_timeout = self.feed.upstream().idle_timeout;
        let silence = self.silence.get_or_insert_with(|| Box::pin(tokio::time::sleep(idle_timeout)));
        silence.as_mut().poll(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.broken.is_none() && self.feed.is_end_stream()
    }

    fn cut<T>(&mut self, error: AnswerError, cx: &mut Context<'_>) -> Poll<T> {
        let upstream = self.feed.upstream();
        self.told.ended(upstream, self.bytes, false);
        warn_of_cut(&self.told, upstream, self.bytes, &error);
        self.broken = Some(error);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// An upstream's body, of which this is one client's part.
pub struct Sharing {
    reader: Reader,
    told: Told,
    /// As in [`Passing`].
    broken: Option<AnswerError>,
    bytes: u64,
}

impl Sharing {
    pub(super) fn new(reader: Reader, told: Told) -> Self {
        Self { reader, told, broken: None, bytes: 0 }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match ready!(self.reader.poll_frame(cx)).transpose() {
            Ok(frame) => {
                let data = frame.as_ref().and_then(Frame::data_ref);
                self.bytes += data.map_or(0, Bytes::len) as u64;
                if frame.is_none() || self.reader.is_end_stream() {
                    self.end_whole();
                }
                Poll::Ready(frame.map(Ok))
            }
            Err(error) => {
                let upstream = self.reader.upstream();
                self.told.ended(upstream, self.bytes, false);
                if self.reader.is_first_to_know() || matches!(error, AnswerError::Behind) {
                    warn_of_cut(&self.told, upstream, self.bytes, &error);
                }
                self.broken = Some(error);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.broken.is_none() && self.reader.is_end_stream()
    }

    /// It was passed on to its end. That it is stored is told by the one who asked for it.
    fn end_whole(&mut self) {
        let is_stored = self.told.story.cache != Some(Cached::Coalesced) && self.reader.is_handed_on();
        let ending = if is_stored { Ending::Stored } else { Ending::Whole };
        self.told.ended_so(self.reader.upstream(), self.bytes, ending);
    }
}

impl fmt::Debug for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sharing({} bytes passed on)", self.bytes)
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        match self.is_end_stream() {
            true => self.end_whole(),
            false => self.told.ended(self.reader.upstream(), self.bytes, false),
        }
    }
}

pub(super) fn warn_of_cut(told: &Told, upstream: &Upstream, bytes: u64, error: &AnswerError) {
    let (method, target) = (told.method.as_str(), redact_url(&told.uri.to_string()));
    let upstream = upstream.name();
    tracing::warn!(bytes, upstream, method, target, "{method} {target} was cut off after {bytes} bytes: {error}");
}

impl fmt::Debug for Passing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Passing({} bytes passed on)", self.bytes)
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        let is_whole = self.is_end_stream();
        if is_whole {
            // An answer without a body is never polled.
            self.feed.end();
        }
        self.told.ended(self.feed.upstream(), self.bytes, is_whole);
    }
}
