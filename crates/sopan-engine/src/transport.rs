//! Sending a request upstream and getting an answer's head: one narrow seam, so that the HTTP client under it can be
//! replaced without touching pacing, cache or retries.
//!
//! [`Transport::connection`] gives a connection, idle or new; [`h1::Conn::send`] sends on it. What to do with either's
//! failure is the exchange's business.

mod dial;
mod fault;
mod h1;
mod pool;
mod race;
mod target;
mod tls;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use sopan_core::time::{Instant, nanos};

use crate::clock::Clock;
pub use dial::{Dial, Io, Stream};
pub(crate) use fault::{explain, failure, failure_in_use};
pub use h1::WireError;
pub(crate) use h1::{Conn, Lost};
use pool::Pool;
pub use target::{Target, TargetError};
pub use tls::{ClientCertificate, Roots, TlsError};

/// Connections to one upstream.
pub(crate) struct Transport {
    target: Target,
    dial: Arc<dyn Dial>,
    pool: Pool,
    connect_timeout: Duration,
    idle_timeout: Duration,
    clock: Clock,
    /// How long connecting takes, smoothed, in ns; 0 until it was measured.
    connect_time: AtomicU64,
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
        connect_timeout: Duration,
        idle_timeout: Duration,
        clock: Clock,
    ) -> Self {
        let pool = Pool::new(idle_timeout, clock);
        Self { target, dial, pool, connect_timeout, idle_timeout, clock, connect_time: AtomicU64::new(0) }
    }

    /// The usual way to the target: TCP, with TLS where its scheme says so.
    pub(crate) fn tcp(
        target: &Target,
        roots: &Roots,
        client: Option<&ClientCertificate>,
    ) -> Result<Arc<dyn Dial>, TlsError> {
        Ok(Arc::new(dial::TcpDial::new(target, roots, client)?))
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// A connection that can carry a request: one that is idle, or a new one, by the deadline.
    pub(crate) async fn connection(&self, fresh: bool, deadline: Option<Instant>) -> Result<Box<Conn>, ConnectFailure> {
        if !fresh && let Some(conn) = self.pool.take().await {
            return Ok(conn);
        }
        // Boxed, so that connecting, which is rare, does not make every waiting request larger.
        Box::pin(self.connect(deadline)).await
    }

    async fn connect(&self, deadline: Option<Instant>) -> Result<Box<Conn>, ConnectFailure> {
        let begun = self.clock.now();
        let limit = begun.after(self.connect_timeout);
        let ends = deadline.map_or(limit, |deadline| deadline.min(limit));
        let dial = async {
            let stream = self.dial.dial().await.map_err(|e| match e.kind() {
                io::ErrorKind::NotFound => ConnectFailure::Unresolvable(e),
                _ => ConnectFailure::Io(e),
            })?;
            Ok(Box::new(Conn::new(stream, self.clock)))
        };
        match tokio::time::timeout_at(self.clock.tokio(ends), dial).await {
            Ok(conn) => {
                self.measured(self.clock.now().since(begun));
                conn
            }
            Err(_) if ends < limit => Err(ConnectFailure::Deadline),
            Err(_) => Err(ConnectFailure::TimedOut),
        }
    }

    /// Takes back a connection; one that is not idle again is closed.
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
            }
        }
    }
}
