//! What a connection to the upstream becomes when both sides have agreed on another protocol (RFC 9110 §7.8).

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::transport::{Stream, h1};

/// Bytes to and from the upstream, of whatever protocol was agreed on. Dropping it closes the connection.
pub struct Tunnel {
    /// What came with the head.
    early: Bytes,
    stream: Stream,
}

impl Tunnel {
    pub(super) fn new(conn: h1::Conn) -> Self {
        let (early, stream) = conn.into_tunnel();
        stream.keep_alive();
        Self { early, stream }
    }
}

impl Tunnel {
    /// Lets the connection end with a reset, whoever ends it, so that its end is not taken for one in order.
    pub fn reset_at_end(&self) {
        self.stream.reset_at_end();
    }

    /// Lets it end in order again.
    pub fn close_at_end(&self) {
        self.stream.close_at_end();
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.early.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let length = self.early.len().min(buf.remaining());
        buf.put_slice(&self.early[..length]);
        self.early.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tunnel({} bytes early)", self.early.len())
    }
}
