//! A stream that tells when the first byte of a request was written, and how much went either way.
//!
//! What counts upstream is the arrival, and the last instant that we know and control is the one at which the kernel took
//! the first byte of the head. Whether a byte was written at all also decides whether a request may be sent again.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

use sopan_core::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::dial::Stream;
use crate::clock::Clock;

/// What went over a connection since it was armed for an attempt. Written by the connection and read by the exchange,
/// which run in one task; atomic only so that both may move between threads.
#[derive(Debug, Default)]
pub(super) struct Meter {
    first_write: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

impl Meter {
    pub(super) fn arm(&self) {
        self.first_write.store(0, Relaxed);
        self.sent.store(0, Relaxed);
        self.received.store(0, Relaxed);
    }

    /// When the first byte was written, if one was.
    pub(super) fn first_write(&self) -> Option<Instant> {
        match self.first_write.load(Relaxed) {
            0 => None,
            nanos => Some(Instant::from_nanos(nanos)),
        }
    }

    /// Bytes received since the attempt began.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    fn wrote(&self, bytes: usize, clock: &Clock) {
        if bytes > 0 && self.sent.load(Relaxed) == 0 {
            self.first_write.store(clock.now().as_nanos().max(1), Relaxed);
        }
        self.sent.fetch_add(bytes as u64, Relaxed);
    }
}

#[derive(Debug)]
pub(super) struct Wire {
    stream: Stream,
    meter: Arc<Meter>,
    clock: Clock,
}

impl Wire {
    pub(super) fn new(stream: Stream, meter: Arc<Meter>, clock: Clock) -> Self {
        Self { stream, meter, clock }
    }

    pub(super) fn into_stream(self) -> Stream {
        self.stream
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let poll = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.meter.received.fetch_add((buf.filled().len() - before) as u64, Relaxed);
        poll
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, buf);
        if let Poll::Ready(Ok(bytes)) = poll {
            self.meter.wrote(bytes, &self.clock);
        }
        poll
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        if let Poll::Ready(Ok(bytes)) = poll {
            self.meter.wrote(bytes, &self.clock);
        }
        poll
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
