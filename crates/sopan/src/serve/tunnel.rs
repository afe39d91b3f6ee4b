//! Bytes both ways, once another protocol has been agreed on.
//!
//! Each direction ends for itself, as each side closes its half. What one side has sent before it left still reaches the
//! other. A side that breaks off is not made to look as if it had closed in order: the other one's connection is reset.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use sopan_core::time::Instant;
use sopan_engine::clock::{Clock, Watchdog};
use sopan_engine::exchange::Tunnel;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::inbox::Inbox;
use super::io::{Raw, Socket};

/// How long a client may take to close after the upstream has, while it sends what nobody takes.
const CLOSING_MAX: Duration = Duration::from_secs(60);

/// What is under way in a direction at most.
const BUFFER: usize = 16 * 1024;

/// Passes bytes both ways until both sides have ended. Silence is their business; that a side has vanished the kernel is
/// asked to find out.
///
/// A side that takes nothing for as long as `stuck_max` is given up: it would keep the other, and a place, for ever.
pub(super) async fn pass_through(
    socket: &Arc<Socket>,
    inbox: &Mutex<Inbox>,
    mut tunnel: Tunnel,
    (clock, stuck_max): (Clock, Duration),
) {
    socket.keep_alive();
    // Whoever ends this before its time, a drain for one, must not look like the other side.
    socket.reset_at_end();
    tunnel.reset_at_end();
    let mut client = Raw { early: inbox.lock().take_read(), socket: Arc::clone(socket) };
    let (mut up, mut down) = (Way::default(), Way::default());
    let (mut closing, mut watchdog) = (None, Watchdog::default());
    let in_order = poll_fn(|cx| {
        let ends = (up.poll(&mut client, &mut tunnel, clock, cx), down.poll(&mut tunnel, &mut client, clock, cx));
        match ends {
            (Some(End::Gone), _) | (_, Some(End::Gone)) => Poll::Ready(false),
            (Some(_), Some(_)) => Poll::Ready(true),
            // The client has closed, and whatever the upstream still says is for nobody.
            (Some(_), None) if down.is_unwanted => Poll::Ready(false),
            // The upstream has closed, and wants no more of what the client still sends; the client can read to the end
            // before it is told that.
            (None, Some(_)) if up.is_unwanted => {
                let closing = closing.get_or_insert_with(|| Box::pin(tokio::time::sleep(CLOSING_MAX)));
                closing.as_mut().poll(cx).map(|()| true)
            }
            _ => {
                let stuck = [up.stuck, down.stuck].into_iter().flatten().min();
                let deadline = stuck.map_or(Instant::NEVER, |since| since.after(stuck_max));
                watchdog.poll(clock, deadline, cx).map(|()| false)
            }
        }
    })
    .await;
    if in_order {
        socket.close_at_end();
        tunnel.close_at_end();
    }
}

/// How a direction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Its sender has closed, and its receiver has been told.
    Closed,
    /// Its sender has broken off.
    Gone,
}

/// One direction.
struct Way {
    buffer: Box<[u8]>,
    /// The bytes of it that are to be written.
    from: usize,
    to: usize,
    has_closed: bool,
    /// Whether the receiver takes no more. The sender is read on: it may still have to read what came the other way, and
    /// a connection that ends with bytes unread takes that along.
    is_unwanted: bool,
    /// Whether the receiver's stream may still keep some of what was written to it.
    unflushed: bool,
    /// Since when the receiver has taken nothing, if it is to take something.
    stuck: Option<Instant>,
    end: Option<End>,
}

impl Default for Way {
    fn default() -> Self {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Self { buffer, from: 0, to: 0, has_closed: false, is_unwanted: false, unflushed: false, stuck: None, end: None }
    }
}

impl Way {
    /// Passes on what can be passed on; how it ended, if it has.
    fn poll<R, W>(&mut self, sender: &mut R, receiver: &mut W, clock: Clock, cx: &mut Context<'_>) -> Option<End>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        if self.end.is_none()
            && let Poll::Ready(end) = self.pass(sender, receiver, cx)
        {
            self.end = Some(end);
        }
        let is_stuck = self.end.is_none() && self.from < self.to;
        self.stuck = is_stuck.then(|| self.stuck.unwrap_or_else(|| clock.now()));
        self.end
    }

    fn pass<R, W>(&mut self, sender: &mut R, receiver: &mut W, cx: &mut Context<'_>) -> Poll<End>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        loop {
            if self.is_unwanted {
                self.from = self.to;
                if self.has_closed {
                    return Poll::Ready(End::Closed);
                }
            }
            if self.from < self.to {
                match ready!(Pin::new(&mut *receiver).poll_write(cx, &self.buffer[self.from..self.to])) {
                    Ok(0) | Err(_) => self.is_unwanted = true,
                    Ok(written) => (self.from, self.unflushed, self.stuck) = (self.from + written, true, None),
                }
                continue;
            }
            if self.has_closed {
                // Who is not there to be told has closed too.
                let _ = ready!(Pin::new(&mut *receiver).poll_shutdown(cx));
                return Poll::Ready(End::Closed);
            }
            let mut buffer = ReadBuf::new(&mut self.buffer);
            match Pin::new(&mut *sender).poll_read(cx, &mut buffer) {
                Poll::Ready(Err(_)) => return Poll::Ready(End::Gone),
                Poll::Ready(Ok(())) => {
                    (self.from, self.to) = (0, buffer.filled().len());
                    self.has_closed = self.to == 0;
                }
                Poll::Pending => {
                    if self.unflushed {
                        self.is_unwanted |= ready!(Pin::new(&mut *receiver).poll_flush(cx)).is_err();
                        self.unflushed = false;
                    }
                    return Poll::Pending;
                }
            }
        }
    }
}
