//! Who waits for a body, and whether there may be more of it than was asked for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Wake, Waker};

use parking_lot::Mutex;

/// As a waker, it wakes all that wait.
pub(super) struct Stir {
    /// Whether the feed is worth asking: it has said so since it was last asked, or was never asked.
    is_set: AtomicBool,
    waiting: Mutex<HashMap<u64, Waker>>,
}

impl Default for Stir {
    fn default() -> Self {
        Self { is_set: AtomicBool::new(true), waiting: Mutex::default() }
    }
}

impl Stir {
    /// To be called before it is looked whether there is more, so that nothing comes in between unheard.
    pub(super) fn register(&self, number: u64, waker: &Waker) {
        self.waiting.lock().insert(number, waker.clone());
    }

    pub(super) fn forget(&self, number: u64) {
        self.waiting.lock().remove(&number);
    }

    pub(super) fn wake_all(&self) {
        let waiting: Vec<_> = self.waiting.lock().drain().collect();
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
    }

    pub(super) fn set(&self) {
        self.is_set.store(true, SeqCst);
    }

    pub(super) fn is_set(&self) -> bool {
        self.is_set.load(SeqCst)
    }

    /// Whether it is; not any more.
    pub(super) fn take(&self) -> bool {
        self.is_set.swap(false, SeqCst)
    }
}

impl Wake for Stir {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set();
        self.wake_all();
    }
}
