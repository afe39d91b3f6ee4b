//! What a client's connection is doing, and since when: whether a time-out runs, and which.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use sopan_core::time::Instant;
use sopan_engine::clock::Clock;

/// Written by the connection's reads and writes and by its requests, which all run in one task.
#[derive(Debug)]
pub(super) struct Phase {
    kind: AtomicU8,
    since: AtomicU64,
    /// Since when a write has been stuck; 0 if none is.
    stuck: AtomicU64,
    clock: Clock,
}

const IDLE: u8 = 0;
const HEAD: u8 = 1;
const BUSY: u8 = 2;

/// The time-outs of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    pub(super) header: Duration,
    pub(super) idle: Duration,
}

impl Phase {
    /// A new connection owes a head.
    pub(super) fn new(clock: Clock) -> Self {
        let phase = Self { kind: AtomicU8::new(HEAD), since: AtomicU64::new(0), stuck: AtomicU64::new(0), clock };
        phase.enter(HEAD);
        phase
    }

    /// Bytes came: if none were expected, they begin a head.
    pub(super) fn read(&self) {
        if self.kind.load(Relaxed) == IDLE {
            self.enter(HEAD);
        }
    }

    /// A head is complete.
    pub(super) fn request(&self) {
        self.kind.store(BUSY, Relaxed);
    }

    /// Whether no request is being served.
    pub(super) fn is_waiting(&self) -> bool {
        self.kind.load(Relaxed) != BUSY
    }

    /// An answer is complete.
    pub(super) fn answered(&self) {
        self.enter(IDLE);
    }

    /// Whether the last write could not go on because the client does not read.
    pub(super) fn wrote(&self, is_stuck: bool) {
        if !is_stuck {
            self.stuck.store(0, Relaxed);
        } else if self.stuck.load(Relaxed) == 0 {
            self.stuck.store(self.clock.now().as_nanos().max(1), Relaxed);
        }
    }

    /// When the connection must be given up if nothing happens before; never while a request is being served.
    pub(super) fn deadline(&self, timeouts: Timeouts) -> Instant {
        let since = Instant::from_nanos(self.since.load(Relaxed));
        let stuck = self.stuck.load(Relaxed);
        match self.kind.load(Relaxed) {
            _ if stuck != 0 => Instant::from_nanos(stuck).after(timeouts.idle),
            IDLE => since.after(timeouts.idle),
            HEAD => since.after(timeouts.header),
            _ => Instant::NEVER,
        }
    }

    fn enter(&self, kind: u8) {
        self.since.store(self.clock.now().as_nanos(), Relaxed);
        self.kind.store(kind, Relaxed);
    }
}
