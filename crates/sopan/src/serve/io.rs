//! A client's socket, shared between hyper, which reads and writes it, and a watch for the client's leaving.
//!
//! hyper does not notice that a client has gone while the body of its request is unread or its next request has come
//! already. The kernel knows, so the watch asks it.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::phase::Phase;

#[derive(Debug)]
pub(super) struct ClientIo {
    stream: Arc<TcpStream>,
    phase: Arc<Phase>,
}

impl ClientIo {
    pub(super) fn new(stream: Arc<TcpStream>, phase: Arc<Phase>) -> Self {
        Self { stream, phase }
    }

    /// Says that the socket has no more to give, or takes no more, for now.
    ///
    /// A read that does not fill the buffer has emptied the socket, and a write that is not taken whole has filled it; tokio's
    /// own stream draws the same conclusion, and saves a system call that could only answer "not now". Events on the
    /// socket come in on this very thread, so none can be lost between the read and this.
    fn exhausted(&self, interest: Interest) {
        let _ = self.stream.try_io(interest, || Err::<(), _>(ErrorKind::WouldBlock.into()));
    }

    fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        len: usize,
        mut write: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let Poll::Ready(ready) = self.stream.poll_write_ready(cx) else {
                self.phase.wrote(true);
                return Poll::Pending;
            };
            ready?;
            match write(&self.stream) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(written) => {
                    if (1..len).contains(&written) {
                        self.exhausted(Interest::WRITABLE);
                    }
                    self.phase.wrote(false);
                    return Poll::Ready(Ok(written));
                }
            }
        }
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            match self.stream.try_read_buf(buf) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(read) => {
                    if read > 0 && buf.remaining() > 0 {
                        self.exhausted(Interest::READABLE);
                    }
                    if read > 0 {
                        self.phase.read();
                    }
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, buf.len(), |stream| stream.try_write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len = bufs.iter().map(|b| b.len()).sum();
        self.poll_write_with(cx, len, |stream| stream.try_write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(rustix::net::shutdown(&*self.stream, rustix::net::Shutdown::Write).map_err(Into::into))
    }
}

/// Whether bytes of the client wait in the kernel.
pub(super) fn has_unread(stream: &TcpStream) -> bool {
    let peeked = recv(stream, &mut [0_u8; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    peeked.is_ok_and(|(_, count)| count > 0)
}

/// Waits until the client has closed its side, or the connection is broken. A client that closes only its sending side
/// counts as gone too: nobody can tell it from one that has left.
pub(super) async fn gone(stream: &TcpStream) {
    loop {
        // Interest in priority data also tells of the end of reading, without telling of data that wait to be read.
        match stream.ready(Interest::PRIORITY).await {
            Ok(ready) if ready.is_read_closed() || ready.is_error() => return,
            Ok(_) => {
                // Urgent data, which nobody asked for; what it announces is not read as such.
                let clear = stream.try_io(Interest::PRIORITY, || Err::<(), _>(ErrorKind::WouldBlock.into()));
                if clear.is_err_and(|error| error.kind() != ErrorKind::WouldBlock) {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}
