//! Which entries outlive the process, and those that memory has no room for?
//!
//! A directory with an index (`index`), files for large bodies (`files`), and a thread that writes. Who serves only leaves a
//! change in a line (`queue`) and reads on threads where blocking is allowed. What is read is verified, block by block; what
//! is not as it was written is dropped.
//!
//! What a crash, at any instant, must not bring back is what was made untrue: such a removal is waited for until it is on
//! the disk for good, and where it cannot be written, everything is thrown away, which needs no room. Losing what was stored
//! in the last second is no harm.

mod files;
mod index;
mod own;
mod place;
mod queue;
mod reading;
mod record;
mod spill;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use sopan_core::cache::Stored;
use sopan_core::time::Instant;

use super::entry::Variant;
use super::key::{Key, Scope};
use super::{CacheError, DiskSettings};
use crate::clock::Clock;
pub(crate) use files::BodyLost;
use files::Files;
use index::{Counts, Index, IndexError};
use place::Place;
use queue::{Queue, Waiter, What};
pub(crate) use reading::FileBody;
use reading::Reading;
pub(super) use reading::{Read, ReadBody};
pub(crate) use record::BLOCK;
pub(super) use spill::Spilling;
use writer::Writer;

/// Less is not worth its files, and too little to hold what is written between two syncs.
pub(super) const BYTES_MIN: u64 = 16 << 20;
/// What is wrong with single answers is told of this far apart.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The disk's part of a cache.
#[derive(Debug)]
pub(super) struct Disk {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    directory: PathBuf,
    place: Mutex<Place>,
    bytes_max: u64,
    clock: Clock,
    /// None while it cannot be created.
    index: RwLock<Option<Index>>,
    files: Files,
    queue: Queue,
    /// How many answers there are for each key, by half of its digest: now and then it says that there are some where there
    /// are none.
    keys: Mutex<HashMap<u32, u32>>,
    counts: Mutex<Counts>,
    last_id: AtomicU64,
    /// The disk takes no more for a while.
    is_full: AtomicBool,
    /// The index was found broken.
    is_suspect: AtomicBool,
    evictions: AtomicU64,
    skipped: AtomicU64,
    /// Bodies that are written while they come.
    spilling: AtomicUsize,
    warned: Mutex<Option<Instant>>,
}

/// How full the disk's part is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskUsage {
    /// What answers take, about.
    pub bytes: u64,
    /// What they may take: the rest of the bound is for what was removed and is not written over yet.
    pub bytes_max: u64,
    /// For how many targets there are answers, about.
    pub targets: u64,
    /// How many answers there are.
    pub answers: u64,
    /// How many have gone to make room.
    pub evictions: u64,
    /// How many were not stored there because the disk was full or too slow.
    pub skipped: u64,
    /// Whether it is of use.
    pub state: DiskState,
}

/// Whether a disk is of use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DiskState {
    /// It takes answers and gives them.
    #[default]
    InUse,
    /// It takes no more for a while, and gives those that it has.
    Paused,
    /// It has none, and takes none until it can be begun anew.
    Lost,
}

impl Disk {
    pub(super) fn open(settings: &DiskSettings) -> Result<Self, CacheError> {
        let shared = Arc::new(Shared::open(settings)?);
        let thread = Arc::clone(&shared);
        let writer = std::thread::Builder::new().name("cache".to_owned()).spawn(move || thread.write());
        let failed = |error| CacheError::Directory { directory: settings.directory.clone(), error };
        Ok(Self { shared, writer: Mutex::new(Some(writer.map_err(failed)?)) })
    }

    /// The largest id that an answer has.
    pub(super) fn last_id(&self) -> u64 {
        self.shared.last_id.load(Relaxed)
    }

    pub(super) fn usage(&self) -> DiskUsage {
        let shared = &self.shared;
        let counts = *shared.counts.lock();
        DiskUsage {
            bytes: counts.bytes(),
            bytes_max: writer::room(shared.bytes_max),
            targets: shared.keys.lock().len() as u64,
            answers: counts.answers,
            evictions: shared.evictions.load(Relaxed),
            skipped: shared.skipped.load(Relaxed),
            state: match shared.index.try_read().is_some_and(|index| index.is_some()) {
                true if shared.is_full.load(Relaxed) => DiskState::Paused,
                true => DiskState::InUse,
                // Or just being begun anew, which takes its time.
                false => DiskState::Lost,
            },
        }
    }

    /// Whether there may be answers for a key, now or soon.
    pub(super) fn may_have(&self, key: &Key) -> bool {
        self.shared.queue.is_pending(key) || self.shared.keys.lock().contains_key(&half(key.digest()))
    }

    /// Stores an answer in place of others; or not, if the disk does not keep up, or the key may be no part of a file.
    pub(super) fn put(&self, key: &Key, variant: &Arc<Variant>, replaces: Vec<u64>) -> bool {
        if !key.may_be_written() {
            return false;
        }
        let put = What::Put { key: key.clone(), variant: Arc::clone(variant), replaces: replaces.clone() };
        let is_taken = !self.shared.is_full.load(Relaxed) && self.shared.queue.store(put);
        if !is_taken {
            self.shared.skipped.fetch_add(1, Relaxed);
            self.remove(key, replaces);
        }
        is_taken
    }

    /// What writes the body of the answer with this id while it comes.
    pub(super) fn spill(&self, id: u64) -> Spilling {
        Spilling::new(&self.shared, id)
    }

    /// Stores an answer whose body was written while it came.
    pub(super) fn put_spilled(&self, key: &Key, stored: Stored, mut body: Spilling, replaces: Vec<u64>) {
        let put = What::PutSpilled {
            key: key.clone(),
            id: body.id,
            stored: Box::new(stored),
            length: body.length,
            replaces: replaces.clone(),
        };
        body.is_handed_on = self.shared.queue.store(put);
        if !body.is_handed_on {
            self.shared.skipped.fetch_add(1, Relaxed);
            self.remove(key, replaces);
        }
    }

    pub(super) fn set_head(&self, key: &Key, id: u64, stored: Arc<Stored>) {
        // With the head that it had it may be given to whom it is for no longer.
        if !self.shared.queue.store(What::Head { key: key.clone(), id, stored }) {
            self.remove(key, vec![id]);
        }
    }

    pub(super) fn remove(&self, key: &Key, ids: Vec<u64>) {
        if !ids.is_empty() && self.may_have(key) {
            self.shared.queue.remove(What::Remove { key: key.clone(), ids }, None);
        }
    }

    /// Removes all answers for a key. Nothing brings them back once the waiter has been told.
    pub(super) fn forget(&self, key: &Key) -> Option<Removal> {
        self.may_have(key).then(|| self.remove_for_good(What::Forget { key: key.clone() }))
    }

    pub(super) fn purge(&self, scope: Scope) -> Removal {
        self.remove_for_good(What::Purge(scope))
    }

    fn remove_for_good(&self, what: What) -> Removal {
        let waiter = Arc::new(Waiter::default());
        self.shared.queue.remove(what, Some(Arc::clone(&waiter)));
        Removal { waiter, shared: Arc::clone(&self.shared) }
    }

    /// Has all that was removed so far on the disk for good; false if that takes too long. Blocks the thread.
    pub(super) fn settle(&self) -> bool {
        // Nothing has this name.
        let nobody = Key::new("", super::Place::default(), "");
        self.remove_for_good(What::Forget { key: nobody }).waiter.wait().is_some()
    }

    /// What was noted last beside the answers.
    pub(super) fn note(&self) -> Option<String> {
        place::read_note(&self.shared.directory)
    }

    /// Notes something beside the answers, in place of what was noted before. Blocks the thread.
    pub(super) fn set_note(&self, note: &str) {
        if let Err(error) = place::write_note(&self.shared.directory, note) {
            self.shared.warn(&format!("what other instances have made untrue cannot be noted: {error}"));
        }
    }

    /// What is needed to read the answers for a key.
    pub(super) fn reading(&self, key: &Key) -> Reading {
        Reading { shared: Arc::clone(&self.shared), key: key.clone() }
    }

    /// What was read turns out not to be what was written.
    pub(super) fn warn_of_loss(&self, lost: &BodyLost) {
        if let BodyLost::Broken(error) = lost {
            self.shared.warn_of_loss(error);
        }
    }

    /// Has everything on the disk, and takes no more. Blocks the thread.
    pub(super) fn close(&self) {
        self.shared.queue.close();
        if let Some(writer) = self.writer.lock().take() {
            // A panic was told of already.
            let _ = writer.join();
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.close();
    }
}

/// A removal that is under way.
#[derive(Debug)]
pub(super) struct Removal {
    waiter: Arc<Waiter>,
    shared: Arc<Shared>,
}

impl Removal {
    /// Blocks the thread until it is on the disk for good, and says how many answers that were.
    pub(super) fn wait(self) -> u64 {
        self.waiter.wait().unwrap_or_else(|| {
            self.shared.warn("what was removed may be there again if sopan is ended now: the disk takes too long");
            0
        })
    }
}

impl Shared {
    fn open(settings: &DiskSettings) -> Result<Self, CacheError> {
        let directory = settings.directory.clone();
        if settings.bytes_max < BYTES_MIN {
            return Err(CacheError::TooSmall { directory, bytes: settings.bytes_max });
        }
        let io_failed = |error| CacheError::Directory { directory: directory.clone(), error };
        let failed = |error| match error {
            IndexError::Taken => CacheError::Taken { directory: directory.clone() },
            IndexError::Io(error) => io_failed(error),
            IndexError::Broken(error) => io_failed(io::Error::other(error)),
        };
        let place = Place::take(&directory).map_err(failed)?;
        let files = Files::open(place::bodies(&directory)).map_err(io_failed)?;
        let (index, known) = place::read(&directory).map_err(failed)?;
        files.sweep(|id| known.files.contains(&id)).map_err(io_failed)?;
        let shared = Self {
            place: Mutex::new(place),
            bytes_max: settings.bytes_max,
            clock: Clock::system(),
            index: RwLock::new(Some(index)),
            files,
            queue: Queue::default(),
            keys: Mutex::default(),
            counts: Mutex::new(known.counts),
            last_id: AtomicU64::new(known.last_id),
            is_full: AtomicBool::new(false),
            is_suspect: AtomicBool::new(false),
            evictions: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            spilling: AtomicUsize::new(0),
            warned: Mutex::default(),
            directory,
        };
        shared.note_keys(&known.keys, &[]);
        Ok(shared)
    }

    /// Writes until it is closed. Should that fail for a mistake of ours, nobody waits for the thread, and what could not be
    /// removed is not there for the next process.
    fn write(&self) {
        if catch_unwind(AssertUnwindSafe(|| Writer::new(self).run())).is_err() {
            *self.index.write() = None;
            // What is left to do is to warn, which a panic has done.
            let _ = place::throw_away(&self.directory);
            self.queue.abandon();
        }
    }

    fn warn_of_loss(&self, error: &str) {
        self.warn(&format!("a stored answer is not as it was written and is dropped: {error}"));
    }

    /// Tells of trouble, at most once a minute.
    fn warn(&self, what: &str) {
        let now = self.clock.now();
        let mut warned = self.warned.lock();
        if warned.is_none_or(|at| now.since(at) >= WARN_EVERY) {
            *warned = Some(now);
            drop(warned);
            let directory = self.directory.display();
            tracing::warn!(%directory, "the cache in {directory}: {what}");
        }
    }

    fn note_keys(&self, added: &[u64], removed: &[u64]) {
        let mut keys = self.keys.lock();
        for digest in added {
            *keys.entry(half(*digest)).or_default() += 1;
        }
        for digest in removed {
            if let Some(count) = keys.get_mut(&half(*digest)) {
                *count -= 1;
                if *count == 0 {
                    keys.remove(&half(*digest));
                }
            }
        }
    }
}

fn half(digest: u64) -> u32 {
    (digest >> 32) as u32
}
