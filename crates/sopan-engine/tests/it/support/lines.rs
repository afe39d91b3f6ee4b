//! Connections to the upstream, each made as a test planned it.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use sopan_engine::{Dial, Stream};
use sopan_fake::script;
use tokio::io::BufWriter;

/// How a connection is made.
pub(crate) enum Line {
    /// At once.
    Open,
    /// At once, over something that keeps what is written to it until it is told to let it go, as TLS may.
    Kept,
    /// After so long.
    Slow(Duration),
    /// Nobody listens.
    Refused,
    /// The name has no address.
    Unresolvable,
    /// Nobody answers at all.
    Hangs,
    /// It comes about, and its peer is gone before a byte was written.
    Dead,
}

type Plan = dyn Fn(usize) -> Line + Send + Sync;

/// Makes connections to a scripted upstream in memory.
pub(crate) struct Lines {
    upstream: Arc<script::Upstream>,
    plan: Box<Plan>,
    dialled: AtomicUsize,
}

impl Lines {
    pub(crate) fn new(upstream: Arc<script::Upstream>, plan: impl Fn(usize) -> Line + Send + Sync + 'static) -> Self {
        Self { upstream, plan: Box::new(plan), dialled: AtomicUsize::new(0) }
    }

    /// How many connections were begun.
    pub(crate) fn dialled(&self) -> usize {
        self.dialled.load(Relaxed)
    }
}

impl Dial for Lines {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>> {
        let line = (self.plan)(self.dialled.fetch_add(1, Relaxed) + 1);
        Box::pin(async move {
            match line {
                Line::Open => {}
                Line::Kept => return Ok(Stream::Other(Box::new(BufWriter::new(self.upstream.connect())))),
                Line::Slow(time) => tokio::time::sleep(time).await,
                Line::Refused => return Err(io::ErrorKind::ConnectionRefused.into()),
                Line::Unresolvable => return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address")),
                Line::Hangs => std::future::pending().await,
                Line::Dead => return Ok(Stream::Other(Box::new(tokio::io::duplex(1024).0))),
            }
            Ok(Stream::Other(Box::new(self.upstream.connect())))
        })
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lines({} dialled)", self.dialled())
    }
}
