//! How much of a reply is read?
//!
//! As much as ever answers what we ask. The `redis` crate takes whatever length a server says, and keeps what has come of a reply
//! until it is whole; so each byte that it reads is looked at before, only for where replies and their parts begin and end (RESP2
//! and RESP3). What goes beyond a bound breaks the connection before it is kept anywhere, and says which bound that was.
//!
//! What a reply means the crate reads, and whoever asked judges.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use redis::RedisError;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The largest reply to what is asked of limits: a few hundred numbers; and the table of a large Cluster.
pub(crate) const NUMBERS_MAX: usize = 1 << 20;
/// The largest in a Cluster, whose connections do not know what for they are: an answer of the cache.
pub(super) const CLUSTER_MAX: usize = 2 * (17 << 20);
/// Parts of a reply, on all its levels: in the table of a Cluster each range of slots has a dozen. Each takes some 60 bytes.
const PARTS_MAX: u64 = 1 << 16;
/// How deep lists lie in lists: four levels in the table of a Cluster.
const NESTING_MAX: usize = 8;
/// A line that is no text of any length: an error, a number.
const LINE_MAX: usize = 64 * 1024;
/// What begins with a length, and what is one line.
const LENGTHS: &[u8] = b"$*%~>=!|";
const LINES: &[u8] = b"+-:_#,(";
/// A length in digits.
const DIGITS_MAX: usize = 32;

/// What a reply has too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Excess {
    #[error("a reply of more than {0} bytes, and nothing that is asked has so long a one")]
    Bytes(usize),
    #[error("a reply of more than {PARTS_MAX} parts")]
    Parts,
    #[error("a reply of lists more than {NESTING_MAX} deep in each other")]
    Nesting,
    #[error("something that is no reply")]
    NoReply,
}

impl Excess {
    /// Whether this is why an answer did not come.
    pub(super) fn of(error: &RedisError) -> Option<Self> {
        let shared = error.source()?.downcast_ref::<Arc<dyn Error + Send + Sync>>()?;
        shared.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref().copied()
    }
}

/// Where in the replies of a connection it is.
#[derive(Debug)]
struct Replies {
    bytes_max: usize,
    /// Of this reply.
    bytes: usize,
    parts: u64,
    /// How many parts are still to come of each list that has begun.
    open: Vec<u64>,
    at: At,
}

#[derive(Debug)]
enum At {
    /// A reply, or a part of one, begins.
    Start,
    /// In the line that begins one of this kind; `text` is what it has so far, if that is a length.
    Line { kind: u8, length: usize, text: Vec<u8>, is_at_cr: bool },
    /// So much of a text is still to come, with the end of its line.
    Text(usize),
}

impl Replies {
    fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, parts: 0, open: Vec::new(), at: At::Start }
    }

    fn read(&mut self, mut bytes: &[u8]) -> Result<(), Excess> {
        while let Some((first, rest)) = bytes.split_first() {
            let read = match &mut self.at {
                At::Start => {
                    if !LENGTHS.contains(first) && !LINES.contains(first) {
                        return Err(Excess::NoReply);
                    }
                    self.at = At::Line { kind: *first, length: 0, text: Vec::new(), is_at_cr: false };
                    1
                }
                At::Text(left) => {
                    let read = bytes.len().min(*left);
                    *left -= read;
                    if *left == 0 {
                        self.end_part();
                    }
                    read
                }
                At::Line { kind, text, is_at_cr: true, .. } if *first == b'\n' => {
                    let (kind, text) = (*kind, std::mem::take(text));
                    self.end_line(kind, &text)?;
                    1
                }
                At::Line { kind, length, text, is_at_cr } => {
                    *length += 1;
                    if LENGTHS.contains(kind) {
                        text.push(*first);
                        if text.len() > DIGITS_MAX {
                            return Err(Excess::NoReply);
                        }
                    } else if *length > LINE_MAX {
                        return Err(Excess::Bytes(LINE_MAX));
                    }
                    *is_at_cr = *first == b'\r';
                    1
                }
            };
            bytes = if read == 1 { rest } else { &bytes[read..] };
            // A reply that has ended has begun anew.
            if !(self.open.is_empty() && matches!(self.at, At::Start)) {
                self.take(read)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> Result<(), Excess> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.bytes_max { Err(Excess::Bytes(self.bytes_max)) } else { Ok(()) }
    }

    /// The line that begins a part has come; `text` is its length, where it has one.
    fn end_line(&mut self, kind: u8, text: &[u8]) -> Result<(), Excess> {
        if !LENGTHS.contains(&kind) {
            self.end_part();
            return Ok(());
        }
        let length: i64 =
            std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok()).ok_or(Excess::NoReply)?;
        let Ok(length) = u64::try_from(length) else {
            // Nothing, which only these can be.
            let is_nothing = b"$*~>".contains(&kind);
            self.end_part();
            return if is_nothing { Ok(()) } else { Err(Excess::NoReply) };
        };
        let parts = match kind {
            b'$' | b'=' | b'!' => return self.begin_text(length),
            b'%' => length.saturating_mul(2),
            b'|' => length.saturating_mul(2).saturating_add(1),
            _ => length,
        };
        self.parts = self.parts.saturating_add(parts);
        if self.parts > PARTS_MAX {
            return Err(Excess::Parts);
        }
        if parts == 0 {
            self.end_part();
            return Ok(());
        }
        if self.open.len() == NESTING_MAX {
            return Err(Excess::Nesting);
        }
        self.open.push(parts);
        self.at = At::Start;
        Ok(())
    }

    /// It is known to be too long before any of it has come.
    fn begin_text(&mut self, length: u64) -> Result<(), Excess> {
        let length = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(2);
        if self.bytes.saturating_add(length) > self.bytes_max {
            return Err(Excess::Bytes(self.bytes_max));
        }
        self.at = At::Text(length);
        Ok(())
    }

    fn end_part(&mut self) {
        self.at = At::Start;
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return;
            }
            self.open.pop();
        }
        (self.bytes, self.parts) = (0, 0);
    }
}

/// The bytes of a connection, as long as they are replies within the bounds.
#[derive(Debug)]
pub(super) struct Bounded<S> {
    stream: S,
    replies: Replies,
    /// Nothing comes any more.
    broken: Option<Excess>,
}

impl<S> Bounded<S> {
    /// No reply is longer than this.
    pub(super) fn new(stream: S, bytes_max: usize) -> Self {
        Self { stream, replies: Replies::new(bytes_max), broken: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let broken = |excess| Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, excess)));
        if let Some(excess) = self.broken {
            return broken(excess);
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        match self.replies.read(&buf.filled()[before..]) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(excess) => {
                buf.set_filled(before);
                self.broken = Some(excess);
                broken(excess)
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// In one piece and byte for byte.
    #[track_caller]
    fn check(text: &str, expected: Result<(), Excess>) {
        let whole = Replies::new(1000).read(text.as_bytes());
        let mut replies = Replies::new(1000);
        let single = text.as_bytes().chunks(1).try_for_each(|byte| replies.read(byte));
        assert_eq!((whole, single), (expected, expected), "{text:.60}");
        if expected.is_ok() {
            assert!(replies.open.is_empty() && replies.bytes == 0, "{text}: {replies:?}");
        }
    }

    #[test]
    fn a_reply_is_read_to_its_end_and_nothing_beyond_a_bound() {
        for text in [
            "+OK\r\n",
            ":-12\r\n$-1\r\n*-1\r\n_\r\n#t\r\n,1.5\r\n(123\r\n",
            "-ERR a\rb\nc\r\n",
            "$5\r\nab\r\nc\r\n$0\r\n\r\n",
            "*3\r\n*2\r\n:1\r\n$1\r\na\r\n*0\r\n+x\r\n",
            "%1\r\n+a\r\n*1\r\n:1\r\n",
            ">3\r\n+message\r\n$1\r\nc\r\n$2\r\nab\r\n",
            "|1\r\n+a\r\n+b\r\n:1\r\n",
            "~1\r\n!3\r\nERR\r\n=5\r\ntxt:x\r\n",
            &format!("{}:1\r\n", "*1\r\n".repeat(NESTING_MAX)),
            // However many come, one after the other.
            &format!("$100\r\n{}\r\n", "x".repeat(100)).repeat(50),
        ] {
            check(text, Ok(()));
        }
        let long = format!("*20\r\n{}", format!("$98\r\n{}\r\n", "x".repeat(98)).repeat(20));
        for (text, excess) in [
            ("$2000000000\r\n", Excess::Bytes(1000)),
            ("$18446744073709551615\r\n", Excess::NoReply),
            ("$9223372036854775807\r\n", Excess::Bytes(1000)),
            (long.as_str(), Excess::Bytes(1000)),
            (&*format!("-{}", "x".repeat(2000)), Excess::Bytes(1000)),
            ("*2000000000\r\n", Excess::Parts),
            ("*9223372036854775807\r\n", Excess::Parts),
            ("%40000\r\n", Excess::Parts),
            ("*40000\r\n*40000\r\n", Excess::Parts),
            (&*"*1\r\n".repeat(NESTING_MAX + 1), Excess::Nesting),
            ("HTTP/1.1 400 Bad Request\r\n\r\n", Excess::NoReply),
            ("$x\r\n", Excess::NoReply),
            ("$?\r\n", Excess::NoReply),
            ("=-1\r\n", Excess::NoReply),
            (&*format!("${}", "0".repeat(100)), Excess::NoReply),
        ] {
            check(text, Err(excess));
        }
    }
}
