//! A client's socket: reading, writing, and a watch for the client's leaving, which nothing that is read or written tells
//! of while its request waits.

use std::cell::RefCell;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use rustix::net::{RecvFlags, Shutdown, recv, sockopt};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::phase::Phase;

/// With so much room left, a buffer is read into further.
const SPARE_MIN: usize = 4 * 1024;

/// What is read at once of a head.
const LITTLE: usize = 4 * 1024;

thread_local! {
    /// What is read goes through here, and what it took is known then.
    static SCRATCH: RefCell<[u8; LITTLE]> = const { RefCell::new([0; LITTLE]) };
}

/// The socket, and what its connection is doing. Shared by those who read and who write, all in one task.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    pub(super) phase: Phase,
    /// Whether the connection ends with the answer under way.
    closing: AtomicBool,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, phase: Phase) -> Self {
        Self { stream, phase, closing: AtomicBool::new(false) }
    }

    /// From now on no further request is read.
    pub(super) fn close_soon(&self) {
        self.closing.store(true, Relaxed);
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Relaxed)
    }

    /// Reads what has come into a buffer, which gets room for about `room` bytes only when there is something.
    pub(super) fn poll_read(&self, buf: &mut BytesMut, room: usize, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            // Small pieces fill one buffer and do not get one each.
            if buf.capacity() - buf.len() < room.min(SPARE_MIN) {
                buf.reserve(room);
            }
            match self.stream.try_read_buf(buf) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(read) => {
                    if read > 0 && buf.len() < buf.capacity() {
                        self.exhausted(Interest::READABLE);
                    }
                    if read > 0 {
                        self.phase.read();
                    }
                    return Poll::Ready(Ok(read));
                }
            }
        }
    }

    /// The same for what is mostly short, and kept while it is used: a head. The buffer gets no more room than that takes, since a
    /// hundred thousand may wait.
    pub(super) fn poll_read_little(&self, buf: &mut BytesMut, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            let read = SCRATCH.with_borrow_mut(|scratch| {
                let read = self.stream.try_read(scratch)?;
                buf.extend_from_slice(&scratch[..read]);
                Ok(read)
            });
            match read {
                Err(error) if io::Error::kind(&error) == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(read) => {
                    if (1..LITTLE).contains(&read) {
                        self.exhausted(Interest::READABLE);
                    }
                    if read > 0 {
                        self.phase.read();
                    }
                    return Poll::Ready(Ok(read));
                }
            }
        }
    }

    pub(super) fn poll_write(&self, slices: &[IoSlice<'_>], cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        loop {
            let Poll::Ready(ready) = self.stream.poll_write_ready(cx) else {
                self.phase.wrote(true);
                return Poll::Pending;
            };
            ready?;
            let written = match slices {
                [one] => self.stream.try_write(one),
                many => self.stream.try_write_vectored(many),
            };
            match written {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(written) => {
                    if (1..length).contains(&written) {
                        self.exhausted(Interest::WRITABLE);
                    }
                    self.phase.wrote(false);
                    return Poll::Ready(Ok(written));
                }
            }
        }
    }

    /// Says that the socket has no more to give, or takes no more, for now.
    ///
    /// A read that does not fill the buffer has emptied the socket, and a write that is not taken whole has filled it; tokio's
    /// own stream draws the same conclusion, and saves a system call that could only answer "not now". Events on the
    /// socket come in on this very thread, so none can be lost between the read and this.
    fn exhausted(&self, interest: Interest) {
        let _ = self.stream.try_io(interest, || Err::<(), _>(ErrorKind::WouldBlock.into()));
    }

    /// Says that nothing more is sent.
    pub(super) fn end_writing(&self) -> io::Result<()> {
        rustix::net::shutdown(&self.stream, Shutdown::Write).map_err(Into::into)
    }

    /// Lets the connection end with a reset, whoever ends it, for a client who could take an orderly end for the end of the
    /// answer.
    pub(super) fn reset_at_end(&self) {
        let _ = sockopt::set_socket_linger(&self.stream, Some(std::time::Duration::ZERO));
    }

    /// Lets the connection end in order again.
    pub(super) fn close_at_end(&self) {
        let _ = sockopt::set_socket_linger(&self.stream, None);
    }

    /// Has the kernel look now and then whether the other side is still there.
    pub(super) fn keep_alive(&self) {
        let _ = sockopt::set_socket_keepalive(&self.stream, true);
    }

    /// Whether bytes of the client wait in the kernel.
    pub(super) fn has_unread(&self) -> bool {
        let peeked = recv(&self.stream, &mut [0_u8; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        peeked.is_ok_and(|(_, count)| count > 0)
    }

    /// Waits until the client has closed its side, or the connection is broken. A client that closes only its sending side
    /// counts as gone too: nobody can tell it from one that has left.
    pub(super) async fn gone(&self) {
        loop {
            // Interest in priority data also tells of the end of reading, without telling of data that wait to be read.
            match self.stream.ready(Interest::PRIORITY).await {
                Ok(ready) if ready.is_read_closed() || ready.is_error() => return,
                Ok(_) => {
                    // Urgent data, which nobody asked for; what it announces is not read as such.
                    let clear = self.stream.try_io(Interest::PRIORITY, || Err::<(), _>(ErrorKind::WouldBlock.into()));
                    if clear.is_err_and(|error| error.kind() != ErrorKind::WouldBlock) {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }
}

/// The socket after HTTP has ended on it, for whatever protocol was agreed on.
pub(super) struct Raw {
    /// What the client has sent already.
    pub(super) early: BytesMut,
    pub(super) socket: Arc<Socket>,
}

impl AsyncRead for Raw {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.early.is_empty() {
            ready!(this.socket.poll_read(&mut this.early, buf.remaining().max(1), cx))?;
        }
        let length = this.early.len().min(buf.remaining());
        buf.put_slice(&this.early[..length]);
        this.early.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Raw {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.socket.poll_write(&[IoSlice::new(buf)], cx)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.socket.end_writing())
    }
}
