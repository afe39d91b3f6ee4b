//! How many bytes may many hold together?
//!
//! Counted, not allocated: whoever takes some gives them back when it holds them no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// So many bytes, for all that share it.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    max: u64,
    used: AtomicU64,
}

impl ByteBudget {
    pub(crate) fn new(max: u64) -> Self {
        Self { max, used: AtomicU64::new(0) }
    }

    /// Takes some, if there are so many left.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let room = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.max);
        self.used.fetch_update(Relaxed, Relaxed, room).is_ok()
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Relaxed);
    }

    /// Takes some, if there are so many left, until what comes back is dropped.
    pub(crate) fn hold(self: &Arc<Self>, bytes: u64) -> Option<Held> {
        self.take(bytes).then(|| Held { budget: Arc::clone(self), bytes })
    }

    #[cfg(test)]
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }
}

/// Bytes of a budget that somebody holds.
#[derive(Debug)]
pub(crate) struct Held {
    budget: Arc<ByteBudget>,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}
