//! Connections to one upstream that speak HTTP/2, shared by all threads; and which version of HTTP the upstream speaks.
//!
//! A request takes a place on the first connection that has one, so that the later ones fall idle and are closed. Where
//! all are full another is made: a request that has its turn does not wait for another's answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use sopan_core::time::Instant;

use super::h2::{self, Link};
use crate::clock::Clock;

/// Connections that are shared; one more serves the request that it was made for, and is closed.
const LINKS_MAX: usize = 256;

pub(super) struct Links {
    all: Mutex<Vec<Arc<Link>>>,
    idle_timeout: Duration,
    clock: Clock,
}

/// Which connections will do.
#[derive(Debug, Clone, Copy)]
pub(super) enum Made {
    AnyTime,
    /// Not one that was there before.
    Since(Instant),
}

impl Links {
    pub(super) fn new(idle_timeout: Duration, clock: Clock) -> Self {
        Self { all: Mutex::default(), idle_timeout, clock }
    }

    /// A place on a connection that can be used, as far as is known.
    pub(super) fn take(&self, made: Made) -> Option<h2::Conn> {
        let gone = self.remove_gone();
        let will_do = |link: &&Arc<Link>| match made {
            Made::AnyTime => true,
            Made::Since(at) => link.born() >= at,
        };
        let place = self.all.lock().iter().filter(|link| will_do(link)).find_map(Link::place);
        // Dropping connections wakes others, which is not done under the lock.
        drop(gone);
        Some(h2::Conn::new(place?, matches!(made, Made::AnyTime)))
    }

    /// Shares a connection that was just made, and takes a place on it.
    pub(super) fn add(&self, link: Arc<Link>) -> Option<h2::Conn> {
        let place = link.place()?;
        let mut all = self.all.lock();
        if all.len() < LINKS_MAX {
            all.push(link);
        }
        Some(h2::Conn::new(place, false))
    }

    /// Closes what has been idle for too long, or takes no more requests.
    pub(super) fn sweep(&self) {
        drop(self.remove_gone());
    }

    fn remove_gone(&self) -> Vec<Arc<Link>> {
        let now = self.clock.now();
        let is_idle = |since: Instant| now.since(since) >= self.idle_timeout;
        let is_gone = |link: &mut Arc<Link>| link.idle_since().is_some_and(is_idle) || !link.is_usable();
        self.all.lock().extract_if(.., is_gone).collect()
    }
}

/// What is known of the versions of HTTP that an upstream speaks over TLS.
#[derive(Debug)]
pub(super) struct Spoken(AtomicU8);

const UNKNOWN: u8 = 0;
const HTTP_1: u8 = 1;
const HTTP_2: u8 = 2;
/// Nothing else is asked for.
const ONLY_HTTP_1: u8 = 3;

impl Spoken {
    /// `may_be_2`: whether it is asked for.
    pub(super) fn new(may_be_2: bool) -> Self {
        Self(AtomicU8::new(if may_be_2 { UNKNOWN } else { ONLY_HTTP_1 }))
    }

    /// Whether the next connection may be one that many can share: then one is made at a time, and who waited for that looks
    /// first whether there is room on it.
    pub(super) fn may_be_shared(&self) -> bool {
        matches!(self.0.load(Relaxed), UNKNOWN | HTTP_2)
    }

    pub(super) fn is_only_http_1(&self) -> bool {
        self.0.load(Relaxed) == ONLY_HTTP_1
    }

    /// What a new connection has turned out to speak.
    pub(super) fn heard(&self, is_http_2: bool) {
        let heard = if is_http_2 { HTTP_2 } else { HTTP_1 };
        let _ = self.0.fetch_update(Relaxed, Relaxed, |known| (known != ONLY_HTTP_1).then_some(heard));
    }

    /// The upstream wants nothing else.
    pub(super) fn demand_http_1(&self) {
        self.0.store(ONLY_HTTP_1, Relaxed);
    }
}
