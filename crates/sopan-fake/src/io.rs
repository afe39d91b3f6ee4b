//! Tokio's sockets as hyper wants them, with a knife that cuts a connection at a chosen byte of an answer.
//!
//! hyper writes whole and valid answers; a fault is what the wire does to them. So the knife sits below hyper: it
//! follows the bytes that pass, and where the chosen place is reached it ends the connection and tells hyper so.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::settings::Cut;

/// How much is read at a time. Requests are small.
const READ_BYTES: usize = 8 * 1024;

/// Past the shortest status line (17 bytes), far short of the shortest head.
const IN_HEAD_BYTES: u64 = 20;

/// Where in an answer a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    BeforeHead,
    InHead,
    AfterHead,
    /// After so many bytes of the body.
    InBody(u64),
}

/// Cuts one connection. Shared between the service, which decides, and the socket, which does it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Knife(Arc<Mutex<Option<Cutting>>>);

impl Knife {
    /// The answer that is written next is cut there.
    pub(crate) fn set(&self, place: Place, cut: Cut) {
        *self.0.lock() = Some(Cutting { place, cut, passed: Passed::default() });
    }
}

/// A cut that is due.
#[derive(Debug)]
struct Cutting {
    place: Place,
    cut: Cut,
    passed: Passed,
}

/// How much of the answer has passed.
#[derive(Debug, Clone, Copy, Default)]
struct Passed {
    bytes: u64,
    /// The last four bytes, by which the end of the head is known.
    tail: [u8; 4],
    head_is_over: bool,
    body_bytes: u64,
}

impl Passed {
    fn has_reached(&self, place: Place) -> bool {
        match place {
            Place::BeforeHead => true,
            Place::InHead => self.bytes >= IN_HEAD_BYTES,
            Place::AfterHead => self.head_is_over,
            Place::InBody(bytes) => self.head_is_over && self.body_bytes >= bytes,
        }
    }

    fn pass(&mut self, byte: u8) {
        self.bytes += 1;
        if self.head_is_over {
            self.body_bytes += 1;
            return;
        }
        self.tail.rotate_left(1);
        self.tail[3] = byte;
        self.head_is_over = self.tail == *b"\r\n\r\n";
    }
}

impl Cutting {
    fn is_due(&self) -> bool {
        self.passed.has_reached(self.place)
    }

    /// How many of these bytes lie before the place.
    fn allowed(&self, bytes: &[u8]) -> usize {
        let mut passed = self.passed;
        let before_place = bytes.iter().take_while(|byte| {
            let is_before = !passed.has_reached(self.place);
            passed.pass(**byte);
            is_before
        });
        before_place.count()
    }
}

/// A tokio socket for hyper.
#[derive(Debug)]
pub(crate) struct Io<T> {
    socket: T,
    knife: Knife,
    /// Makes the close that follows an RST, where the socket can.
    prepare_reset: fn(&T),
}

impl<T> Io<T> {
    pub(crate) fn new(socket: T, knife: Knife, prepare_reset: fn(&T)) -> Self {
        Self { socket, knife, prepare_reset }
    }
}

impl<T: AsyncWrite + Unpin> Io<T> {
    /// Ends the connection if its cut is due. hyper then drops the socket, because every call fails from here on.
    fn poll_cut(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let due = self.knife.0.lock().as_ref().filter(|cutting| cutting.is_due()).map(|cutting| cutting.cut);
        match due {
            None => return Poll::Ready(Ok(())),
            Some(Cut::Reset) => (self.prepare_reset)(&self.socket),
            // FIN goes out by itself first: closing a socket that holds unread bytes would send RST instead.
            Some(Cut::Close) => ready!(Pin::new(&mut self.socket).poll_shutdown(cx))?,
        }
        Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, "cut on purpose")))
    }
}

impl<T: AsyncRead + Unpin> hyper::rt::Read for Io<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut out: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // hyper's cursor can only be moved on without copying by unsafe code.
        let mut space = [MaybeUninit::uninit(); READ_BYTES];
        let length = out.remaining().min(READ_BYTES);
        let mut read = ReadBuf::uninit(&mut space[..length]);
        ready!(Pin::new(&mut self.get_mut().socket).poll_read(cx, &mut read))?;
        out.put_slice(read.filled());
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> hyper::rt::Write for Io<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_cut(cx))?;
        let allowed = this.knife.0.lock().as_ref().map_or(bytes.len(), |cutting| cutting.allowed(bytes));
        let written = ready!(Pin::new(&mut this.socket).poll_write(cx, &bytes[..allowed]))?;
        if let Some(cutting) = this.knife.0.lock().as_mut() {
            bytes[..written].iter().for_each(|byte| cutting.passed.pass(*byte));
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.socket).poll_flush(cx))?;
        // An answer that ends just where it is cut is followed by a flush and not by another write.
        this.poll_cut(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody";

    /// What passes of `ANSWER` when it is written in pieces of every size.
    #[track_caller]
    fn check(place: Place, expected: &[u8]) {
        for size in 1..=ANSWER.len() {
            let mut cutting = Cutting { place, cut: Cut::Close, passed: Passed::default() };
            let mut sent = Vec::new();
            for piece in ANSWER.chunks(size) {
                let allowed = &piece[..cutting.allowed(piece)];
                allowed.iter().for_each(|byte| cutting.passed.pass(*byte));
                sent.extend_from_slice(allowed);
            }
            assert_eq!(sent, expected, "pieces of {size}");
            assert!(cutting.is_due());
        }
    }

    #[test]
    fn an_answer_is_cut_at_its_place_however_it_is_written() {
        check(Place::BeforeHead, b"");
        check(Place::InHead, b"HTTP/1.1 200 OK\r\nCon");
        check(Place::AfterHead, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n");
        check(Place::InBody(2), b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbo");
        check(Place::InBody(4), ANSWER);
    }
}
