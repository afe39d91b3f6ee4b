//! What is still to be written?
//!
//! Who serves only leaves a change here; one thread takes them, in order, many at a time. The line is bounded: what is to be
//! stored is refused when it is full, and nobody waits. What is to be removed is never refused. Should even these become
//! too many, because the disk stands still, they become one change that removes everything.
//!
//! Who wants to read waits until the changes of its key are made, so that nobody reads what is to be removed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use sopan_core::cache::Stored;

use crate::store::entry::{Variant, head_weight};
use crate::store::key::{Key, Scope};

/// What is to be stored is refused beyond this.
const BYTES_MAX: u64 = 32 << 20;
/// What a change takes beside its body.
const CHANGE_BYTES: u64 = 1024;
/// So many removals, some 100 MB of them, and everything is removed.
pub(super) const REMOVALS_MAX: usize = 200_000;
/// Changes that are made at once, as many as take this many bytes, or one more.
const BATCH_MAX: usize = 512;
const BATCH_BYTES: u64 = 1 << 20;
/// The longest that a removal is waited for. It is a removal for this process at once; what is waited for is that it is one for
/// the next process as well, and a disk that takes longer would hold up clients.
const DURABLE_WAIT_MAX: Duration = Duration::from_secs(5);
/// The longest that a reader waits for the changes of its key.
const SETTLE_WAIT_MAX: Duration = Duration::from_secs(1);

/// Something to be written.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) what: What,
    /// Who waits until it is on the disk for good.
    pub(super) waiter: Option<Arc<Waiter>>,
}

#[derive(Debug)]
pub(super) enum What {
    /// An answer, in place of those with these ids.
    Put { key: Key, variant: Arc<Variant>, replaces: Vec<u64> },
    /// The same, whose body was written while it came.
    PutSpilled { key: Key, id: u64, stored: Box<Stored>, length: u64, replaces: Vec<u64> },
    /// A piece of a body that is still coming.
    Piece { id: u64, is_first: bool, piece: Bytes },
    /// Such a body will not come whole.
    GiveUp { id: u64 },
    /// Another head for an answer that is there.
    Head { key: Key, id: u64, stored: Arc<Stored> },
    /// Single answers go.
    Remove { key: Key, ids: Vec<u64> },
    /// All of a key go.
    Forget { key: Key },
    /// Those of many keys go.
    Purge(Scope),
}

/// Of which keys a reader has to wait for a change.
enum About<'a> {
    One(&'a Key),
    Many,
    None,
}

impl What {
    fn about(&self) -> About<'_> {
        match self {
            Self::Put { key, .. }
            | Self::PutSpilled { key, .. }
            | Self::Head { key, .. }
            | Self::Remove { key, .. }
            | Self::Forget { key } => About::One(key),
            Self::Purge(_) => About::Many,
            Self::Piece { .. } | Self::GiveUp { .. } => About::None,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Put { variant, .. } => CHANGE_BYTES + variant.weight(),
            Self::Piece { piece, .. } => CHANGE_BYTES + piece.len() as u64,
            Self::PutSpilled { stored, .. } => CHANGE_BYTES + head_weight(stored) as u64,
            Self::Head { stored, .. } => CHANGE_BYTES + head_weight(stored) as u64,
            Self::GiveUp { .. } | Self::Remove { .. } | Self::Forget { .. } | Self::Purge(_) => 0,
        }
    }

    /// Whether something that is on the disk must not be read again.
    pub(super) fn removes(&self) -> bool {
        match self {
            Self::Put { replaces, .. } | Self::PutSpilled { replaces, .. } => !replaces.is_empty(),
            Self::Head { .. } | Self::Piece { .. } | Self::GiveUp { .. } => false,
            Self::Remove { .. } | Self::Forget { .. } | Self::Purge(_) => true,
        }
    }

    /// The id of a body that it may have put into a file.
    pub(super) fn new_id(&self) -> Option<u64> {
        match self {
            Self::Put { variant, .. } => Some(variant.id),
            Self::PutSpilled { id, .. } => Some(*id),
            _ => None,
        }
    }
}

/// Waits for a removal.
#[derive(Debug, Default)]
pub(super) struct Waiter {
    /// How many answers it has removed, once that is on the disk.
    done: Mutex<Option<u64>>,
    bell: Condvar,
}

impl Waiter {
    pub(super) fn tell(&self, removed: u64) {
        *self.done.lock() = Some(removed);
        self.bell.notify_all();
    }

    /// Blocks the thread. None if it takes too long.
    pub(super) fn wait(&self) -> Option<u64> {
        let mut done = self.done.lock();
        self.bell.wait_while_for(&mut done, |done| done.is_none(), DURABLE_WAIT_MAX);
        *done
    }
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    /// There is something to do.
    bell: Condvar,
    /// Something was done.
    settled: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    list: VecDeque<Change>,
    bytes: u64,
    /// How many changes of each key are not made yet.
    pending: HashMap<u64, u32>,
    /// Changes that are about many keys.
    pending_purges: u32,
    is_closed: bool,
}

/// What is to be done next.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) changes: Vec<Change>,
    /// There will be no more after these.
    pub(super) is_last: bool,
}

impl Queue {
    /// Whether there was room for it.
    pub(super) fn store(&self, change: What) -> bool {
        let mut inner = self.inner.lock();
        let bytes = change.bytes();
        let has_room = inner.bytes == 0 || inner.bytes + bytes <= BYTES_MAX;
        if has_room && !inner.is_closed {
            inner.push(Change { what: change, waiter: None });
            self.bell.notify_one();
        }
        has_room && !inner.is_closed
    }

    pub(super) fn remove(&self, what: What, waiter: Option<Arc<Waiter>>) {
        let mut inner = self.inner.lock();
        if inner.is_closed {
            // The thread has gone, and with it the process.
            waiter.iter().for_each(|waiter| waiter.tell(0));
            return;
        }
        if inner.list.len() >= REMOVALS_MAX {
            let dropped = std::mem::take(&mut inner.list);
            // One by one, since those that were taken before are still being made and count until then.
            dropped.iter().for_each(|change| inner.settle(&change.what));
            inner.bytes = 0;
            let waiting: Vec<_> = dropped.into_iter().filter_map(|change| change.waiter).collect();
            for waiter in waiting.into_iter().map(Some).chain([None]) {
                inner.push(Change { what: What::Purge(Scope::All), waiter });
            }
        }
        inner.push(Change { what, waiter });
        self.bell.notify_one();
    }

    /// Waits for changes, up to a while, and takes them.
    pub(super) fn take(&self, wait_max: Duration) -> Batch {
        let mut inner = self.inner.lock();
        self.bell.wait_while_for(&mut inner, |inner| inner.list.is_empty() && !inner.is_closed, wait_max);
        let (mut changes, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH_BYTES && changes.len() < BATCH_MAX {
            let Some(change) = inner.list.pop_front() else { break };
            bytes += change.what.bytes();
            changes.push(change);
        }
        inner.bytes -= bytes;
        Batch { changes, is_last: inner.is_closed && inner.list.is_empty() }
    }

    /// These are made, or will never be.
    pub(super) fn settle(&self, changes: &[Change]) {
        let mut inner = self.inner.lock();
        for change in changes {
            inner.settle(&change.what);
        }
        self.settled.notify_all();
    }

    pub(super) fn is_pending(&self, key: &Key) -> bool {
        self.inner.lock().is_pending(key)
    }

    /// Blocks the thread until the changes of a key are made; false if that takes too long.
    pub(super) fn wait_settled(&self, key: &Key) -> bool {
        let mut inner = self.inner.lock();
        let wait = self.settled.wait_while_for(&mut inner, |inner| inner.is_pending(key), SETTLE_WAIT_MAX);
        !wait.timed_out()
    }

    /// No more is taken. What is in the line is still written.
    pub(super) fn close(&self) {
        self.inner.lock().is_closed = true;
        self.bell.notify_all();
    }

    /// Nobody will make what is in the line.
    pub(super) fn abandon(&self) {
        let mut inner = self.inner.lock();
        let left = std::mem::take(&mut *inner);
        inner.is_closed = true;
        left.list.into_iter().filter_map(|change| change.waiter).for_each(|waiter| waiter.tell(0));
        self.settled.notify_all();
    }
}

impl Inner {
    fn push(&mut self, change: Change) {
        self.bytes += change.what.bytes();
        match change.what.about() {
            About::One(key) => *self.pending.entry(key.digest()).or_default() += 1,
            About::Many => self.pending_purges += 1,
            About::None => {}
        }
        self.list.push_back(change);
    }

    /// It is made, or will never be.
    fn settle(&mut self, what: &What) {
        match what.about() {
            About::One(key) => {
                if let Some(count) = self.pending.get_mut(&key.digest()) {
                    *count -= 1;
                    if *count == 0 {
                        self.pending.remove(&key.digest());
                    }
                }
            }
            About::Many => self.pending_purges -= 1,
            About::None => {}
        }
    }

    fn is_pending(&self, key: &Key) -> bool {
        self.pending_purges > 0 || self.pending.contains_key(&key.digest())
    }
}
