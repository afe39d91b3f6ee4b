//! What can be seen of a shared connection from outside of the library that speaks HTTP/2 on it: which heads have been
//! written, when bytes last came, how many requests it may carry, and what its end was.
//!
//! The library does not tell when it has written a head, and pacing lives by that. So a [`Tap`] stands between it and the
//! stream and follows its frames (RFC 9113 §4.1), of which the head of a request is one; identifiers only grow (§5.1.1), so
//! the highest one seen says of all. A head counts as written when the stream has taken the first bytes of its frame. Over
//! TLS they may stay in its buffer for as long as the kernel takes no more, which is as near as it is for HTTP/1.1.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use parking_lot::Mutex;
use sopan_core::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::dial::Stream;
use super::super::fault::{Kept, of_tls};
use crate::clock::Clock;

/// What is seen of one connection, shared by its driver and all who use it.
pub(super) struct Watch {
    pub(super) clock: Clock,
    /// How often bytes have come.
    heard: AtomicU64,
    /// When the first head was written since bytes last came, in ns; 0 if none was.
    unanswered_since: AtomicU64,
    /// Requests that the peer allows at once; 0 until it has said so.
    allowed: AtomicUsize,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// The highest stream whose head has been written.
    written: u32,
    /// Those who wait to hear that theirs has. As many as requests that are being sent.
    unwritten: Vec<Unwritten>,
    /// Those who wait for its first words or its end, by their numbers: who makes it, and tickets that hold a place on it
    /// for their turn. As many as there are places, and one.
    waiting: Vec<(u64, Waker)>,
    fault: Option<Arc<io::Error>>,
    has_ended: bool,
}

struct Unwritten {
    id: u32,
    written: Option<Written>,
    waker: Waker,
}

/// A head that has been written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub(super) at: Instant,
    /// What [`Watch::heard`] was then.
    heard: u64,
}

impl Watch {
    pub(super) fn new(clock: Clock) -> Self {
        let (heard, unanswered_since) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { clock, heard, unanswered_since, allowed: AtomicUsize::new(0), seen: Mutex::default() }
    }

    /// Ready when the head of this stream has been written.
    pub(super) fn poll_written(&self, id: u32, cx: &mut Context<'_>) -> Poll<Written> {
        let mut seen = self.seen.lock();
        let Some(place) = seen.unwritten.iter().position(|one| one.id == id) else {
            if id <= seen.written {
                // It went out before anybody asked, a moment ago.
                return Poll::Ready(self.written_now());
            }
            seen.unwritten.push(Unwritten { id, written: None, waker: cx.waker().clone() });
            return Poll::Pending;
        };
        match seen.unwritten[place].written {
            Some(written) => {
                seen.unwritten.swap_remove(place);
                Poll::Ready(written)
            }
            None => {
                seen.unwritten[place].waker.clone_from(cx.waker());
                Poll::Pending
            }
        }
    }

    /// Nobody waits for this head any more; whether it has been written.
    pub(super) fn forget(&self, id: u32) -> Option<Written> {
        let mut seen = self.seen.lock();
        let place = seen.unwritten.iter().position(|one| one.id == id);
        let known = place.and_then(|place| seen.unwritten.swap_remove(place).written);
        known.or_else(|| (id <= seen.written).then(|| self.written_now()))
    }

    fn written_now(&self) -> Written {
        Written { at: self.clock.now(), heard: self.heard.load(Relaxed) }
    }

    fn wrote_head(&self, id: u32) {
        let mut seen = self.seen.lock();
        seen.written = seen.written.max(id);
        let written = self.written_now();
        let _ = self.unanswered_since.compare_exchange(0, written.at.as_nanos().max(1), Relaxed, Relaxed);
        for one in seen.unwritten.iter_mut().filter(|one| one.id <= id && one.written.is_none()) {
            one.written = Some(written);
            one.waker.wake_by_ref();
        }
    }

    /// Whether nothing has come since a head was written.
    pub(super) fn is_silent_since(&self, written: Written) -> bool {
        self.heard.load(Relaxed) == written.heard
    }

    /// For how long nothing has come although a head was written, whoever's.
    pub(super) fn silent_for(&self) -> Duration {
        match self.unanswered_since.load(Relaxed) {
            0 => Duration::ZERO,
            since => self.clock.now().since(Instant::from_nanos(since)),
        }
    }

    fn hears(&self) {
        self.heard.fetch_add(1, Relaxed);
        self.unanswered_since.store(0, Relaxed);
    }

    /// Requests that the peer allows at once.
    pub(super) fn allowed(&self) -> usize {
        self.allowed.load(Relaxed)
    }

    pub(super) fn allows(&self, streams: usize) {
        if self.allowed.swap(streams, Relaxed) == 0 && streams > 0 {
            self.wake_all();
        }
    }

    /// Whether it has ended; who asks is woken when it does, or when the peer allows the first request.
    pub(super) fn poll_ended(&self, who: u64, cx: &mut Context<'_>) -> bool {
        let mut seen = self.seen.lock();
        if !seen.has_ended {
            match seen.waiting.iter_mut().find(|(number, _)| *number == who) {
                Some((_, waker)) => waker.clone_from(cx.waker()),
                None => seen.waiting.push((who, cx.waker().clone())),
            }
        }
        seen.has_ended
    }

    /// This one waits for nothing any more.
    pub(super) fn leave(&self, who: u64) {
        self.seen.lock().waiting.retain(|(number, _)| *number != who);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.seen.lock().has_ended
    }

    pub(super) fn ended(&self) {
        self.seen.lock().has_ended = true;
        self.wake_all();
    }

    /// What ended it, if the stream said.
    pub(super) fn fault(&self) -> Option<io::Error> {
        self.seen.lock().fault.clone().map(Kept::error)
    }

    fn wake_all(&self) {
        let waiting = std::mem::take(&mut self.seen.lock().waiting);
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Whether something has gone wrong with it, though its end may not have come yet.
    pub(super) fn has_fault(&self) -> bool {
        self.seen.lock().fault.is_some()
    }

    /// Keeps what went wrong, since the library passes on only its kind. What TLS says explains more than that a stream
    /// broke; else the first says most.
    pub(super) fn keep(&self, error: io::Error) -> io::Error {
        let kind = error.kind();
        let mut seen = self.seen.lock();
        let explains = |kept: &Arc<io::Error>| of_tls(kept).is_some() || of_tls(&error).is_none();
        if !seen.fault.as_ref().is_some_and(explains) {
            seen.fault = Some(Arc::new(error));
        }
        kind.into()
    }
}

/// A stream that is watched.
pub(super) struct Tap {
    stream: Stream,
    watch: Arc<Watch>,
    frames: Frames,
    /// Whether the peer takes no more.
    is_deaf: bool,
}

impl Tap {
    pub(super) fn new(stream: Stream, watch: Arc<Watch>) -> Self {
        Self { stream, watch, frames: Frames::default(), is_deaf: false }
    }

    /// The stream takes no more. Answers may have come before, and why it was closed: so that is read first, up to an end
    /// which is on its way, where the library would end at once. What it still writes goes nowhere.
    fn is_deaf(&mut self, error: io::Error) {
        self.watch.keep(error);
        self.is_deaf = true;
    }

    fn wrote(&mut self, mut count: usize, bufs: &[io::IoSlice<'_>]) {
        for buf in bufs {
            let taken = count.min(buf.len());
            let watch = &self.watch;
            self.frames.pass(&buf[..taken], |id| watch.wrote_head(id));
            count -= taken;
        }
    }
}

impl AsyncRead for Tap {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let poll = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.watch.hears();
        }
        poll.map_err(|error| self.watch.keep(error))
    }
}

impl AsyncWrite for Tap {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all = bufs.iter().map(|buf| buf.len()).sum();
        if self.is_deaf {
            return Poll::Ready(Ok(all));
        }
        let wrote = match bufs {
            [one] => ready!(Pin::new(&mut self.stream).poll_write(cx, one)),
            many => ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, many)),
        };
        Poll::Ready(Ok(match wrote {
            Ok(count) => {
                self.wrote(count, bufs);
                count
            }
            Err(error) => {
                self.is_deaf(error);
                all
            }
        }))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_deaf
            && let Err(error) = ready!(Pin::new(&mut self.stream).poll_flush(cx))
        {
            self.is_deaf(error);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// What a client says before its first frame (RFC 9113 §3.4), and how every frame begins.
const PREFACE: usize = 24;
const FRAME_HEAD: usize = 9;
const HEADERS: u8 = 1;

/// Follows the frames that go out.
struct Frames {
    /// Bytes that are of no interest: the preface, and what frames hold.
    skip: usize,
    head: [u8; FRAME_HEAD],
    filled: usize,
}

impl Default for Frames {
    fn default() -> Self {
        Self { skip: PREFACE, head: [0; FRAME_HEAD], filled: 0 }
    }
}

impl Frames {
    /// Bytes have gone out; tells of each frame of HEADERS, by the identifier of its stream.
    fn pass(&mut self, mut bytes: &[u8], mut headers: impl FnMut(u32)) {
        while !bytes.is_empty() {
            if self.skip > 0 {
                let skipped = self.skip.min(bytes.len());
                self.skip -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            let taken = (FRAME_HEAD - self.filled).min(bytes.len());
            self.head[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled == FRAME_HEAD {
                let [a, b, c, kind, _, id @ ..] = self.head;
                (self.skip, self.filled) = (u32::from_be_bytes([0, a, b, c]) as usize, 0);
                if kind == HEADERS {
                    headers(u32::from_be_bytes(id) & (u32::MAX >> 1));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, id: u32, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, 0], &id.to_be_bytes(), payload].concat()
    }

    #[test]
    fn heads_are_seen_wherever_the_writes_cut_them() {
        let bytes = [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
            frame(4, 0, &[0; 18]),
            frame(HEADERS, 1, &[1; 300]),
            frame(0, 1, &[1, 2, 3, HEADERS]),
            frame(HEADERS, 1 << 31 | 3, &[]),
            frame(9, 3, &[7; 70]),
        ]
        .concat();
        for step in [1, 2, 7, 9, 10, 24, 1000] {
            let (mut frames, mut seen) = (Frames::default(), Vec::new());
            for piece in bytes.chunks(step) {
                frames.pass(piece, |id| seen.push(id));
            }
            assert_eq!(seen, [1, 3], "by {step}");
            assert_eq!((frames.skip, frames.filled), (0, 0));
        }
    }

    #[test]
    fn what_tls_says_explains_most() {
        let tls = || io::Error::other(rustls::Error::AlertReceived(rustls::AlertDescription::UnknownCA));
        let (reset, pipe) = (|| io::ErrorKind::ConnectionReset.into(), || io::ErrorKind::BrokenPipe.into());
        for (errors, is_tls, kind) in [
            ([tls(), reset()], true, io::ErrorKind::Other),
            ([pipe(), tls()], true, io::ErrorKind::Other),
            ([pipe(), reset()], false, io::ErrorKind::BrokenPipe),
        ] {
            let watch = Watch::new(Clock::system());
            assert!(!watch.has_fault());
            for error in errors {
                watch.keep(error);
            }
            let kept = watch.fault().unwrap();
            assert_eq!((of_tls(&kept).is_some(), kept.kind()), (is_tls, kind));
        }
    }

    #[test]
    fn a_head_that_was_written_before_anybody_asked_is_not_waited_for() {
        let clock = Clock::system();
        let watch = Watch::new(clock);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(watch.poll_written(3, &mut cx).is_pending());
        watch.wrote_head(5);
        assert!(watch.poll_written(3, &mut cx).is_ready() && watch.poll_written(5, &mut cx).is_ready());
        assert!(watch.poll_written(7, &mut cx).is_pending());
        assert!(watch.forget(7).is_none() && watch.forget(5).is_some());
        assert!(watch.seen.lock().unwritten.is_empty());
    }
}
