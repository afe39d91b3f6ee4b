//! What did it take to get it: how many requests, and how long was waited for what?
//!
//! It is told by the engine, of each request as it ends.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use sopan_engine::event::{Attempted, Awaited, Event, Observer, What};

/// What waits are for, in the order in which they are told.
pub(super) const CAUSES: [(Awaited, &str, &str); 5] = [
    (Awaited::Token, "limits", "for the limits"),
    (Awaited::Hold, "holds", "for pauses that the API asked for"),
    (Awaited::Retry, "retries", "before retries"),
    (Awaited::Probe, "breaker", "for the breaker"),
    (Awaited::Place, "places", "for a place"),
];

/// Counts of requests, and of what was waited for.
#[derive(Debug, Default)]
pub(super) struct Tally {
    attempts: AtomicU64,
    requests: AtomicU64,
    from_store: AtomicU64,
    waits_us: [AtomicU64; CAUSES.len()],
}

/// The same at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Requests that were sent, those included that repeat others.
    pub(super) sent: u64,
    /// Of them, those that repeat others.
    pub(super) repeated: u64,
    /// Pages that the store had.
    pub(super) from_store: u64,
    /// In the order of [`CAUSES`].
    pub(super) waits: [Duration; CAUSES.len()],
}

impl Tally {
    pub(super) fn counts(&self) -> Counts {
        let (sent, requests) = (self.attempts.load(Relaxed), self.requests.load(Relaxed));
        Counts {
            sent,
            repeated: sent.saturating_sub(requests),
            from_store: self.from_store.load(Relaxed),
            waits: std::array::from_fn(|cause| Duration::from_micros(self.waits_us[cause].load(Relaxed))),
        }
    }
}

impl Counts {
    /// What has come since then.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(before.sent),
            repeated: self.repeated.saturating_sub(before.repeated),
            from_store: self.from_store.saturating_sub(before.from_store),
            waits: std::array::from_fn(|cause| self.waits[cause].saturating_sub(before.waits[cause])),
        }
    }

    /// All waits together. Those of several requests at once count each.
    pub(super) fn waited(&self) -> Duration {
        self.waits.iter().sum()
    }
}

impl Observer for Tally {
    fn attempted(&self, _: Attempted<'_>) {}

    fn ended(&self, event: &Event<'_>) {
        self.attempts.fetch_add(event.attempts.into(), Relaxed);
        self.requests.fetch_add(u64::from(event.attempts > 0), Relaxed);
        self.from_store.fetch_add(u64::from(event.saved_a_token()), Relaxed);
        for step in event.steps {
            let What::Waited { on, how_long } = &step.what else { continue };
            if let Some(cause) = CAUSES.iter().position(|(cause, ..)| cause == on) {
                let micros = u64::try_from(how_long.as_micros()).unwrap_or(u64::MAX);
                self.waits_us[cause].fetch_add(micros, Relaxed);
            }
        }
    }
}
