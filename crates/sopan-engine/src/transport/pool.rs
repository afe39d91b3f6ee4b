//! Idle connections to one upstream, on a shelf per worker.
//!
//! A connection is registered with the runtime of the thread that made it, and events on it wake that thread. So each
//! thread uses its own shelf first, last in first out; with none left it takes one from another's shelf and moves it over
//! before it would connect anew.

use std::cell::Cell;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use sopan_core::time::Instant;
use tokio::net::TcpStream;

use super::dial::Stream;
use super::h1::Conn;
use crate::clock::Clock;

/// Idle connections kept on one shelf; more are closed.
const IDLE_MAX: usize = 4096;

struct Idle {
    conn: Box<Conn>,
    since: Instant,
}

pub(super) struct Pool {
    shelves: Box<[Mutex<Vec<Idle>>]>,
    idle_timeout: Duration,
    clock: Clock,
}

impl Pool {
    pub(super) fn new(idle_timeout: Duration, clock: Clock) -> Self {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let shelves = (0..workers).map(|_| Mutex::default()).collect();
        Self { shelves, idle_timeout, clock }
    }

    /// A connection that has just been seen alive.
    pub(super) async fn take(&self) -> Option<Box<Conn>> {
        let own = self.own_shelf();
        while let Some(mut conn) = self.pop(own) {
            if poll_fn(|cx| Poll::Ready(conn.is_alive(cx))).await {
                return Some(conn);
            }
        }
        for other in (1..self.shelves.len()).map(|i| (own + i) % self.shelves.len()) {
            while let Some(mut conn) = self.pop(other) {
                if poll_fn(|cx| Poll::Ready(conn.is_alive(cx))).await
                    && let Some(conn) = self.move_here(conn)
                {
                    return Some(conn);
                }
            }
        }
        None
    }

    pub(super) fn put(&self, mut conn: Box<Conn>) {
        conn.rests();
        let mut shelf = self.shelves[self.own_shelf()].lock();
        if shelf.len() < IDLE_MAX {
            shelf.push(Idle { conn, since: self.clock.now() });
        }
    }

    /// Closes what has been idle for too long, or was closed from the other side.
    pub(super) fn sweep(&self) {
        let now = self.clock.now();
        let mut cx = Context::from_waker(Waker::noop());
        for shelf in &self.shelves {
            // Kept apart so that sockets are closed after the lock is released.
            let mut gone = Vec::new();
            let mut shelf = shelf.lock();
            for mut idle in std::mem::take(&mut *shelf) {
                let keep = now.since(idle.since) < self.idle_timeout && idle.conn.is_alive(&mut cx);
                if keep { shelf.push(idle) } else { gone.push(idle) }
            }
            drop(shelf);
        }
    }

    fn pop(&self, shelf: usize) -> Option<Box<Conn>> {
        let idle = self.shelves[shelf].lock().pop()?;
        (self.clock.now().since(idle.since) < self.idle_timeout).then_some(idle.conn)
    }

    /// Registers a connection with this thread's runtime. One that cannot be moved is used from here as it is.
    fn move_here(&self, conn: Box<Conn>) -> Option<Box<Conn>> {
        if !conn.is_movable() {
            return Some(conn);
        }
        let stream = match conn.into_stream() {
            Stream::Tcp(tcp) => Stream::Tcp(TcpStream::from_std(tcp.into_std().ok()?).ok()?),
            other => other,
        };
        Some(Box::new(Conn::reused(stream, self.clock)))
    }

    fn own_shelf(&self) -> usize {
        thread_number() % self.shelves.len()
    }
}

/// A small number for this thread, the same for ever.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<Option<usize>> = const { Cell::new(None) };
    }
    OWN.with(|own| {
        own.get().unwrap_or_else(|| {
            let number = NEXT.fetch_add(1, Relaxed);
            own.set(Some(number));
            number
        })
    })
}
