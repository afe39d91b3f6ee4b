//! What does an instance know of one upstream in common?
//!
//! How far it has heard of what became untrue, what time it is at the server, and whether it is worth asking there at all.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sopan_core::policy::CachePolicy;
use sopan_core::time::Instant;

use super::{BELOW_MAX, Known, Purges, Step, Tag, Untrue};
use crate::store::key::Scope;
use crate::store::{Key, Place};

/// After so many requests for which it was asked in vain, and nothing was stored, it is asked for one of so many.
const IN_VAIN_MAX: u32 = 32;

/// What belongs to one upstream.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) tag: Tag,
    pub(super) name: Box<str>,
    pub(super) place: Place,
    pub(super) policy: CachePolicy,
    pub(super) known: Mutex<Purges>,
    pub(super) time: Mutex<Option<ServerTime>>,
    /// It has seen that the server has lost something.
    pub(super) is_in_doubt: AtomicBool,
    /// How often in a row nothing was found there, and nothing stored here either.
    in_vain: AtomicU32,
}

impl Part {
    /// One that has heard of what became untrue up to this number.
    pub(super) fn new(tag: Tag, name: &str, place: Place, policy: CachePolicy, number: u64) -> Self {
        let known = Purges { number, ..Purges::default() };
        let (known, time, is_in_doubt) = (Mutex::new(known), Mutex::default(), AtomicBool::new(false));
        Self { tag, name: name.into(), place, policy, known, time, is_in_doubt, in_vain: AtomicU32::new(0) }
    }

    pub(super) fn known(&self) -> Known {
        let (number, is_in_doubt) = (self.known.lock().number, self.is_in_doubt.load(Ordering::Relaxed));
        Known { tag: self.tag, number, is_in_doubt }
    }

    /// Notes that it has heard of a step, and done what follows from it here; not if there is something to be heard before.
    pub(super) fn step(&self, Step { before, number }: Step, scope: &Untrue) {
        let mut known = self.known.lock();
        if known.number != before && *scope != Untrue::All || known.number > number {
            return;
        }
        known.number = number;
        match scope {
            Untrue::Target { .. } => {}
            Untrue::Below(path) if known.below.len() < BELOW_MAX => {
                known.below.retain(|(other, _)| other != path);
                known.below.push((path.clone(), number));
            }
            Untrue::Below(_) | Untrue::All => {
                known.all = number;
                known.below.clear();
            }
        }
    }

    /// Whether it is worth asking: an API that lets nothing be stored, or whose answers nobody asks for twice, costs a round trip
    /// for each request otherwise.
    pub(super) fn is_worth_asking(&self) -> bool {
        let in_vain = self.in_vain.fetch_add(1, Ordering::Relaxed);
        in_vain < IN_VAIN_MAX || in_vain.is_multiple_of(IN_VAIN_MAX)
    }

    /// Something was found, or stored: it is.
    pub(super) fn is_of_use(&self) {
        self.in_vain.store(0, Ordering::Relaxed);
    }

    /// Whether a value for this key counts that was put under this number.
    pub(super) fn counts(&self, key: &Key, number: u64) -> bool {
        let known = self.known.lock();
        let below = |path: &String| Scope::Below { upstream: self.name.to_string(), path: path.clone() };
        let is_purged = |(path, at): &(String, u64)| number < *at && below(path).holds(key.as_bytes());
        number >= known.all && !known.below.iter().any(is_purged)
    }
}

/// What time it was at the server, between two instants here.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerTime {
    pub(super) asked: Instant,
    pub(super) heard: Instant,
    pub(super) time: u64,
}

impl ServerTime {
    /// Not before this, by its clock.
    pub(super) fn at_least(self, now: Instant) -> u64 {
        self.time.saturating_add(micros(now.since(self.heard)))
    }

    /// Not after that.
    pub(super) fn at_most(self, now: Instant) -> u64 {
        self.time.saturating_add(micros(now.since(self.asked)))
    }
}

pub(super) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
