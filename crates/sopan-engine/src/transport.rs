//! Sending a request upstream and getting an answer's head: one narrow seam, so that the HTTP client under it can be
//! replaced without touching pacing, cache or retries.
//!
//! [`Transport::connection`] gives a connection, idle or new, or a place on one that is shared; [`Conn::send`] sends on it.
//! What to do with either's failure is the exchange's business.

mod conn;
mod dial;
mod fault;
pub(crate) mod h1;
mod h2;
mod links;
mod lost;
mod pool;
mod race;
mod target;
mod tls;

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use sopan_core::time::{Instant, nanos};
use tokio::sync::Semaphore;

use crate::clock::Clock;
pub(crate) use conn::Conn;
pub(crate) use dial::connect_tcp;
pub use dial::{Dial, Io, Stream};
pub(crate) use fault::{explain, failure, failure_in_use};
use h2::Link;
use links::{Links, Made, Spoken};
pub(crate) use lost::Lost;
pub use lost::WireError;
use pool::Pool;
pub use target::{Target, TargetError};
pub use tls::{ClientCertificate, Roots, TlsError};

/// Connections to one upstream.
pub(crate) struct Transport {
    target: Target,
    dial: Arc<dyn Dial>,
    /// Idle connections of HTTP/1.1.
    pool: Pool,
    /// Those of HTTP/2, idle or not.
    links: Links,
    spoken: Arc<Spoken>,
    /// One connection is made at a time where it may turn out to have room for those who wait for theirs.
    making: Semaphore,
    connect_timeout: Duration,
    idle_timeout: Duration,
    clock: Clock,
    /// How long connecting takes, smoothed, in ns; 0 until it was measured.
    connect_time: AtomicU64,
}

/// Which connection a request needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// Not one that was there before.
    pub(crate) fresh: bool,
    /// One that may become another protocol's, which one of HTTP/2 does not.
    pub(crate) switches: bool,
}

/// No connection could be made.
#[derive(Debug)]
pub(crate) enum ConnectFailure {
    /// It took longer than `connect_timeout`.
    TimedOut,
    /// The exchange has no more time.
    Deadline,
    /// The host's name has no address.
    Unresolvable(io::Error),
    /// Connecting or the TLS handshake failed.
    Io(io::Error),
}

impl Transport {
    pub(crate) fn new(
        target: Target,
        dial: Arc<dyn Dial>,
        http2: bool,
        connect_timeout: Duration,
        idle_timeout: Duration,
        clock: Clock,
    ) -> Self {
        let spoken = Arc::new(Spoken::new(http2 && target.is_tls()));
        let (pool, links) = (Pool::new(idle_timeout, clock), Links::new(idle_timeout, clock));
        let (making, connect_time) = (Semaphore::new(1), AtomicU64::new(0));
        Self { target, dial, pool, links, spoken, making, connect_timeout, idle_timeout, clock, connect_time }
    }

    /// The usual way to the target: TCP, with TLS where its scheme says so.
    pub(crate) fn tcp(
        target: &Target,
        roots: &Roots,
        client: Option<&ClientCertificate>,
        http2: bool,
    ) -> Result<Arc<dyn Dial>, TlsError> {
        Ok(Arc::new(dial::TcpDial::new(target, roots, client, http2)?))
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// A connection that can carry a request: one that is idle or has room, or a new one, by the deadline.
    pub(crate) async fn connection(
        &self,
        wanted: Wanted,
        deadline: Option<Instant>,
    ) -> Result<Box<Conn>, ConnectFailure> {
        if !wanted.fresh {
            if !wanted.switches
                && let Some(conn) = self.shared(Made::AnyTime)
            {
                return Ok(conn);
            }
            if let Some(conn) = self.pool.take().await {
                return Ok(conn);
            }
        }
        // Boxed, so that connecting, which is rare, does not make every waiting request larger.
        Box::pin(self.connect(wanted, deadline)).await
    }

    fn shared(&self, made: Made) -> Option<Box<Conn>> {
        let conn = if self.spoken.may_be_shared() { self.links.take(made) } else { None };
        conn.map(|conn| Box::new(Conn::Http2(conn)))
    }

    async fn connect(&self, wanted: Wanted, deadline: Option<Instant>) -> Result<Box<Conn>, ConnectFailure> {
        let begun = self.clock.now();
        let limit = begun.after(self.connect_timeout);
        let ends = deadline.map_or(limit, |deadline| deadline.min(limit));
        let making = async {
            if wanted.switches {
                self.measure(self.make_http_1()).await
            } else {
                self.make(if wanted.fresh { Made::Since(begun) } else { Made::AnyTime }).await
            }
        };
        match tokio::time::timeout_at(self.clock.tokio(ends), making).await {
            Ok(conn) => conn,
            Err(_) if ends < limit => Err(ConnectFailure::Deadline),
            Err(_) => Err(ConnectFailure::TimedOut),
        }
    }

    /// A new connection; or a place on one that another has made meanwhile, if that will do.
    async fn make(&self, will_do: Made) -> Result<Box<Conn>, ConnectFailure> {
        let mut alone = None;
        if self.spoken.may_be_shared() {
            alone = self.making.acquire().await.ok();
            if let Some(conn) = self.shared(will_do) {
                return Ok(conn);
            }
        }
        // It turned out to speak HTTP/1.1, and everybody makes a connection of their own.
        let _alone = alone.filter(|_| self.spoken.may_be_shared());
        if self.spoken.is_only_http_1() {
            return self.measure(self.make_http_1()).await;
        }
        self.measure(self.make_any()).await
    }

    async fn make_any(&self) -> Result<Box<Conn>, ConnectFailure> {
        let stream = self.dial.dial().await.map_err(undialled)?;
        let is_http_2 = stream.is_http_2();
        self.spoken.heard(is_http_2);
        if !is_http_2 {
            return Ok(Box::new(Conn::Http1(h1::Conn::new(stream, self.clock))));
        }
        let link = Link::open(stream, Arc::clone(&self.spoken), self.clock).await.map_err(ConnectFailure::Io)?;
        // It allowed a request a moment ago, and may have thought better of it.
        let conn = self.links.add(link).ok_or_else(|| ConnectFailure::Io(io::ErrorKind::ConnectionReset.into()))?;
        Ok(Box::new(Conn::Http2(conn)))
    }

    async fn make_http_1(&self) -> Result<Box<Conn>, ConnectFailure> {
        let stream = self.dial.dial_http_1().await.map_err(undialled)?;
        Ok(Box::new(Conn::Http1(h1::Conn::new(stream, self.clock))))
    }

    /// Measures how long it takes to connect.
    async fn measure<T>(&self, connecting: impl Future<Output = T>) -> T {
        let begun = self.clock.now();
        let connected = connecting.await;
        self.measured(self.clock.now().since(begun));
        connected
    }

    /// Takes back a connection; one that is not idle again is closed. A place on a shared one is free by itself.
    pub(crate) fn put(&self, conn: Box<Conn>) {
        if conn.is_idle() {
            self.pool.put(conn);
        }
    }

    /// How long connecting takes, as far as it has been measured.
    pub(crate) fn connect_time(&self) -> Duration {
        Duration::from_nanos(self.connect_time.load(Relaxed))
    }

    fn measured(&self, took: Duration) {
        let (old, new) = (self.connect_time.load(Relaxed), nanos(took));
        // A slow connection counts at once, fast ones bring the measure down by and by.
        let smoothed = if new >= old { new } else { old - (old - new) / 8 };
        self.connect_time.store(smoothed, Relaxed);
    }

    /// Closes connections that are idle for too long, until the transport is gone.
    pub(crate) async fn sweep(transport: Weak<Self>) {
        while let Some(period) = transport.upgrade().map(|t| t.idle_timeout / 4) {
            tokio::time::sleep(period.max(Duration::from_millis(100))).await;
            if let Some(transport) = transport.upgrade() {
                transport.pool.sweep();
                transport.links.sweep();
            }
        }
    }
}

fn undialled(error: io::Error) -> ConnectFailure {
    match error.kind() {
        io::ErrorKind::NotFound => ConnectFailure::Unresolvable(error),
        _ => ConnectFailure::Io(error),
    }
}
