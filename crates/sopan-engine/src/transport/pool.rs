//! Idle connections to one upstream, on shelves that threads need not share.
//!
//! A connection is registered with the runtime of the thread that made it, and events on it wake that thread. So each
//! thread uses its own shelf first, last in first out; with none left it takes one from another's shelf and moves it over
//! before it would connect anew. Threads beyond the number of shelves share them, which costs a little and breaks
//! nothing.

use std::cell::Cell;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use sopan_core::time::Instant;
use tokio::net::TcpStream;

use super::conn::Conn;
use super::dial::Stream;
use super::h1;
use crate::clock::Clock;

/// A connection that was used within this time is as the runtime knows it. After a longer rest the kernel is asked, which
/// costs a system call: this program may not have run meanwhile.
const RESTED: Duration = Duration::from_millis(10);
/// Idle connections that are looked at in one go.
const SWEPT_AT_ONCE: usize = 64;
/// Idle connections kept on one shelf; more are closed.
const IDLE_MAX: usize = 4096;
/// Shelves there are at least: there may be more workers than processors, and an empty shelf costs a lock to look at,
/// only before connecting anew.
const SHELVES_MIN: usize = 16;

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
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let shelves = (0..processors.max(SHELVES_MIN)).map(|_| Mutex::default()).collect();
        Self { shelves, idle_timeout, clock }
    }

    /// A connection that has just been seen alive.
    pub(super) async fn take(&self) -> Option<Box<Conn>> {
        let own = self.own_shelf();
        while let Some(idle) = self.pop(own) {
            if let Some(conn) = self.alive(idle).await {
                return Some(conn);
            }
        }
        for other in (1..self.shelves.len()).map(|i| (own + i) % self.shelves.len()) {
            while let Some(idle) = self.pop(other) {
                if let Some(conn) = self.alive(idle).await.and_then(|conn| self.move_here(conn)) {
                    return Some(conn);
                }
            }
        }
        None
    }

    /// The connection, if it can carry a request.
    async fn alive(&self, idle: (Box<Conn>, Duration)) -> Option<Box<Conn>> {
        let (mut conn, rested) = idle;
        let has_rested = rested >= RESTED;
        let is_alive = poll_fn(|cx| Poll::Ready(if has_rested { conn.is_surely_alive(cx) } else { conn.is_alive(cx) }));
        is_alive.await.then_some(conn)
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
            // A few at a time, the oldest first, and looked at without the lock: it may be thousands, and others need the
            // newest meanwhile.
            let (mut seen, all) = (0, shelf.lock().len());
            let mut left = all;
            while left > 0 {
                let mut some: Vec<_> = {
                    let mut shelf = shelf.lock();
                    let from = seen.min(shelf.len());
                    let to = (from + left.min(SWEPT_AT_ONCE)).min(shelf.len());
                    shelf.drain(from..to).collect()
                };
                if some.is_empty() {
                    break;
                }
                left -= some.len();
                let mut is_kept =
                    |idle: &mut Idle| now.since(idle.since) < self.idle_timeout && idle.conn.is_alive(&mut cx);
                let gone: Vec<_> = some.extract_if(.., |idle| !is_kept(idle)).collect();
                let mut shelf = shelf.lock();
                let at = seen.min(shelf.len());
                seen = at + some.len();
                shelf.splice(at..at, some);
                drop(shelf);
                drop(gone);
            }
        }
    }

    /// The newest of a shelf, and how long it has rested.
    fn pop(&self, shelf: usize) -> Option<(Box<Conn>, Duration)> {
        let Idle { conn, since } = self.shelves[shelf].lock().pop()?;
        let rested = self.clock.now().since(since);
        (rested < self.idle_timeout).then_some((conn, rested))
    }

    /// Registers a connection with this thread's runtime. One that cannot be moved is used from here as it is.
    fn move_here(&self, conn: Box<Conn>) -> Option<Box<Conn>> {
        if !conn.is_movable() {
            return Some(conn);
        }
        let Conn::Http1(conn) = *conn else { return None };
        let stream = match conn.into_stream() {
            Stream::Tcp(tcp) => Stream::Tcp(TcpStream::from_std(tcp.into_std().ok()?).ok()?),
            other => other,
        };
        Some(Box::new(Conn::Http1(h1::Conn::reused(stream, self.clock))))
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

#[cfg(test)]
mod tests {
    use std::io;
    use std::pin::Pin;
    use std::sync::Arc;

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    use super::*;

    type Looked = Box<dyn Fn() + Send + Sync>;

    /// A connection that lives, and tells when somebody looks whether it does.
    struct Line(Looked);

    impl AsyncRead for Line {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            self.0();
            Poll::Pending
        }
    }

    impl AsyncWrite for Line {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    fn line(clock: Clock, looked: impl Fn() + Send + Sync + 'static) -> Box<Conn> {
        let stream = Stream::Other(Box::new(Line(Box::new(looked))));
        Box::new(Conn::Http1(h1::Conn::new(stream, clock)))
    }

    fn address(conn: &Conn) -> usize {
        std::ptr::from_ref(conn) as usize
    }

    #[tokio::test]
    async fn sweeping_locks_nobody_out_and_keeps_the_order() {
        let clock = Clock::system();
        let pool = Arc::new(Pool::new(Duration::from_secs(60), clock));
        let newest = Arc::new(Mutex::new(Some(line(clock, || {}))));
        let mut expected = vec![address(newest.lock().as_ref().unwrap())];
        let (other, late) = (Arc::clone(&pool), Arc::clone(&newest));
        let first = line(clock, move || late.lock().take().into_iter().for_each(|conn| other.put(conn)));
        let conns = [first, line(clock, || {}), line(clock, || {})];
        expected.extend(conns.iter().rev().map(|conn| address(conn)));
        conns.into_iter().for_each(|conn| pool.put(conn));
        pool.sweep();
        let mut taken = Vec::new();
        while let Some(conn) = pool.take().await {
            taken.push(conn);
        }
        assert_eq!(taken.iter().map(|conn| address(conn)).collect::<Vec<_>>(), expected);
    }
}
