//! A connection for one request, whichever version of HTTP it speaks.
//!
//! Each has a `send` of its own, which the exchange chooses from by itself: what waits for an answer is as large as that of
//! HTTP/1.1 then, and no larger.

use std::io;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;

use super::lost::WireError;
use super::{h1, h2};
use crate::clock::Watchdog;

/// A connection that can carry one request now.
pub(crate) enum Conn {
    /// One of its own, for one request at a time.
    Http1(h1::Conn),
    /// A place on one that others use too.
    Http2(h2::Conn),
}

/// Asks the connection, whichever it is.
macro_rules! each {
    ($self:ident.$method:ident($($arg:expr),*)) => {
        match $self {
            Conn::Http1(conn) => conn.$method($($arg),*),
            Conn::Http2(conn) => conn.$method($($arg),*),
        }
    };
}

impl Conn {
    /// Whether it can carry a request: neither closed nor speaking unasked, as far as this task has been told.
    pub(crate) fn is_alive(&mut self, cx: &mut Context<'_>) -> bool {
        each!(self.is_alive(cx))
    }

    /// The same, and the kernel is asked too where nobody else reads from the connection.
    pub(crate) fn is_surely_alive(&mut self, cx: &mut Context<'_>) -> bool {
        match self {
            Self::Http1(conn) => conn.is_surely_alive(cx),
            Self::Http2(conn) => conn.is_alive(cx),
        }
    }

    /// Whether it is of no use to its last request any more, and can be kept for another. A place on a shared connection is
    /// not kept: it is free when it is let go.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self, Self::Http1(conn) if conn.is_idle())
    }

    /// It is idle from now on, and may be closed from the other side at any moment.
    pub(super) fn rests(&mut self) {
        if let Self::Http1(conn) = self {
            conn.rests();
        }
    }

    /// Whether it can be taken to another thread's runtime.
    pub(super) fn is_movable(&self) -> bool {
        matches!(self, Self::Http1(conn) if conn.is_movable())
    }

    /// Why it was found not to be alive, where it says more than that it was closed.
    pub(crate) fn take_fault(&mut self) -> Option<io::Error> {
        each!(self.take_fault())
    }

    /// Whether it was there before it was asked for.
    pub(crate) fn is_reused(&self) -> bool {
        each!(self.is_reused())
    }

    /// The timer that bounds its attempts.
    pub(crate) fn take_timer(&mut self) -> Watchdog {
        each!(self.take_timer())
    }

    pub(crate) fn put_timer(&mut self, timer: Watchdog) {
        each!(self.put_timer(timer));
    }

    /// The next piece of the answer's body; none at its end.
    pub(crate) fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, WireError>>> {
        each!(self.poll_body(cx))
    }

    /// Whether the answer's body has ended.
    pub(crate) fn is_end_of_body(&self) -> bool {
        each!(self.is_end_of_body())
    }

    /// How long the rest of the answer's body is, where its head told.
    pub(crate) fn body_left(&self) -> Option<u64> {
        each!(self.body_left())
    }
}
