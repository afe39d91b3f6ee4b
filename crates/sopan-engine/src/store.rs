//! Where are answers kept until they are asked for again?
//!
//! One [`Cache`] serves the program. Answers are found by upstream and target; all for one target are the variants of one
//! entry, told apart by host, owner and selecting fields. Entries lie in memory, as many as its budget holds, and if there
//! is a directory for them, on the disk too, from where they come back after a restart. An answer that something made untrue
//! after it was asked for is not stored: that is what an [`Epoch`] is for.
//!
//! Which answer may be stored or given is for [`sopan_core::cache`] to say.

mod disk;
mod entry;
mod epoch;
mod key;
mod load;
mod memory;
mod read;
pub(crate) mod redis;
mod spill;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use sopan_core::cache::Stored;
use sopan_core::headers::redact_url;

use crate::budget::ByteBudget;
use crate::coalesce::Flights;
use crate::exchange::caching::Seat;
pub(crate) use disk::BodyLost;
use disk::Disk;
pub use disk::{DiskState, DiskUsage};
pub(crate) use entry::{Body, Entry, Variant};
pub(crate) use epoch::Epoch;
use epoch::Epochs;
use key::Scope;
pub(crate) use key::{Key, Place, Sought};
use load::Loads;
use memory::Memory;
pub(crate) use read::BodyReader;

/// How large a cache is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSettings {
    /// What entries may take in memory; default 256 MiB.
    pub memory_bytes: u64,
    /// Where more are kept, also beyond the end of the program; default nowhere.
    pub disk: Option<DiskSettings>,
}

/// A place on a disk for entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskSettings {
    /// A directory for this cache alone. It is created if it is not there.
    pub directory: PathBuf,
    /// What it may take, 16 MiB or more.
    pub bytes_max: u64,
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self { memory_bytes: 256 << 20, disk: None }
    }
}

/// Answers of upstreams, kept to be given again.
#[derive(Debug)]
pub struct Cache {
    memory: Memory,
    disk: Option<Disk>,
    epochs: Epochs,
    loads: Loads,
    filling: Arc<ByteBudget>,
    /// Requests under way whose answers others may get, of each upstream.
    flights: Mutex<Vec<Weak<Flights<Key, Seat>>>>,
    last_id: AtomicU64,
}

/// Why a cache cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// Its directory, or what is in it, cannot be created, opened or written.
    #[error("the directory `{}` of the cache cannot be used: {error}; name one that sopan may create and write, for this \
             cache alone", .directory.display())]
    Directory {
        /// Its name.
        directory: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Another process uses it.
    #[error("the directory `{}` of the cache is used by another sopan; stop that one, or give each a directory of its own",
            .directory.display())]
    Taken {
        /// Its name.
        directory: PathBuf,
    },
    /// It may take less than it needs to work.
    #[error("the cache in `{}` may take {bytes} bytes, which is too little to work with; allow 16 MiB or more",
            .directory.display())]
    TooSmall {
        /// Its name.
        directory: PathBuf,
        /// What it may take.
        bytes: u64,
    },
}

/// What is thrown away.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purge<'a> {
    /// All answers for one target.
    Url {
        /// The upstream's name.
        upstream: &'a str,
        /// Path and query, byte for byte as clients send them.
        target: &'a str,
    },
    /// All for the targets of an upstream whose path begins with this one, in whole segments, with any query.
    Prefix {
        /// The upstream's name.
        upstream: &'a str,
        /// As clients send it, such as `/v2/orders`.
        path: &'a str,
    },
    /// Everything.
    All,
}

/// Shows no secret of a query.
impl fmt::Debug for Purge<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url { upstream, target } => write!(f, "Url({upstream} {})", redact_url(target)),
            Self::Prefix { upstream, path } => write!(f, "Prefix({upstream} {path})"),
            Self::All => f.write_str("All"),
        }
    }
}

/// How many answers a purge has thrown away. One that lies in both places counts in both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purged {
    /// From memory.
    pub memory: u64,
    /// From the disk.
    pub disk: u64,
}

/// How full a cache is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// What entries take in memory.
    pub memory_bytes: u64,
    /// What they may take.
    pub memory_bytes_max: u64,
    /// For how many targets answers lie in memory.
    pub memory_targets: u64,
    /// How many answers have gone from there to make room.
    pub memory_evictions: u64,
    /// The same of the disk, if there is one.
    pub disk: Option<DiskUsage>,
}

/// What of the memory all bodies together may hold that are coming still.
const FILLING_SHARE: u64 = 4;

impl Cache {
    /// Makes room in memory, and opens what there is on the disk.
    ///
    /// # Errors
    /// The directory cannot be used. An index in it that cannot be read is no error: it is put aside, with a warning.
    pub fn open(settings: &CacheSettings) -> Result<Arc<Self>, CacheError> {
        let disk = settings.disk.as_ref().map(Disk::open).transpose()?;
        let last_id = disk.as_ref().map_or(0, Disk::last_id);
        Ok(Arc::new(Self {
            memory: Memory::new(settings.memory_bytes),
            disk,
            epochs: Epochs::new(),
            loads: Loads::new(),
            filling: Arc::new(ByteBudget::new(settings.memory_bytes / FILLING_SHARE)),
            flights: Mutex::default(),
            last_id: AtomicU64::new(last_id),
        }))
    }

    /// Throws answers away. What was asked for before is not stored afterwards. Where some lie on a disk, that they are gone
    /// is on it for good when this returns.
    pub async fn purge(self: &Arc<Self>, what: Purge<'_>) -> Purged {
        let scope = match what {
            Purge::Url { upstream, target } => Scope::Url { upstream: upstream.to_owned(), target: target.to_owned() },
            Purge::Prefix { upstream, path } => Scope::Below { upstream: upstream.to_owned(), path: path.to_owned() },
            Purge::All => Scope::All,
        };
        let cache = Arc::clone(self);
        // There may be a million of them. It is given up only with the runtime.
        tokio::task::spawn_blocking(move || cache.purge_many(&scope)).await.unwrap_or_default()
    }

    fn purge_many(&self, scope: &Scope) -> Purged {
        self.epochs.purge(scope.clone());
        self.doom(|key| scope.holds(key.as_bytes()));
        let removal = self.disk.as_ref().map(|disk| disk.purge(scope.clone()));
        let mut memory = 0;
        for key in self.memory.keys(|key| scope.holds(key.as_bytes())) {
            // Whoever changes an entry just now would bring back what it has from before.
            let mut held = self.epochs.hold(&key);
            held.note_change(&key);
            memory += self.memory.remove(&key).map_or(0, |entry| entry.variants.len() as u64);
        }
        Purged { memory, disk: removal.map_or(0, disk::Removal::wait) }
    }

    /// How full it is.
    pub fn usage(&self) -> Usage {
        Usage {
            memory_bytes: self.memory.bytes(),
            memory_bytes_max: self.memory.bytes_max(),
            memory_targets: self.memory.targets(),
            memory_evictions: self.memory.evictions(),
            disk: self.disk.as_ref().map(Disk::usage),
        }
    }

    /// Has all that was stored on the disk, if there is one, which takes no more then. To be called when the program ends;
    /// it blocks the thread.
    pub fn close(&self) {
        self.disk.iter().for_each(Disk::close);
    }

    /// Has a purge end what is under way there for who comes later.
    pub(crate) fn add_flights(&self, flights: &Arc<Flights<Key, Seat>>) {
        let mut known = self.flights.lock();
        known.retain(|flights| flights.strong_count() > 0);
        known.push(Arc::downgrade(flights));
    }

    fn doom(&self, is_doomed: impl Fn(&Key) -> bool) {
        let known: Vec<_> = self.flights.lock().iter().filter_map(Weak::upgrade).collect();
        known.iter().for_each(|flights| flights.doom_where(&is_doomed));
    }

    /// For what bodies hold that are coming still.
    pub(crate) fn filling(&self) -> &Arc<ByteBudget> {
        &self.filling
    }

    /// The largest body that is stored anywhere.
    pub(crate) fn body_max(&self) -> u64 {
        if self.disk.is_some() { u64::MAX } else { self.memory.body_max() }
    }

    /// The largest body that lies in memory.
    pub(crate) fn memory_body_max(&self) -> u64 {
        self.memory.body_max()
    }

    /// To be taken before a request is sent whose answer may be stored.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epochs.now()
    }

    /// The answers for a key, if all that there are are at hand.
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        self.memory.get(key).filter(|entry| entry.is_whole)
    }

    /// The same for one that is only looked for.
    pub(crate) fn find(&self, sought: &Sought) -> Option<Arc<Entry>> {
        self.memory.find(sought).filter(|entry| entry.is_whole)
    }

    /// Stores an answer, in place of those with these ids, unless something made it untrue since it was asked for.
    pub(crate) fn put(&self, key: &Key, stored: Stored, body: Body, replaces: &[u64], since: Epoch) -> bool {
        let new = Variant::new(self.next_id(), stored, body);
        let mut held = self.epochs.hold(key);
        if !held.is_current(key, since) {
            return false;
        }
        held.note_change(key);
        let known = self.memory.peek(key);
        let is_whole = known.as_ref().map_or_else(|| !self.may_be_on_disk(key), |known| known.is_whole);
        let (entry, mut gone) = known.unwrap_or_default().with(&new, replaces);
        gone.extend(replaces.iter().filter(|id| !gone.contains(id)).copied().collect::<Vec<_>>());
        let is_on_disk = self.disk.as_ref().is_some_and(|disk| disk.put(key, &new, gone));
        let is_in_memory = self.keep(key, Entry { is_whole, ..entry }, Some(&new));
        is_in_memory || is_on_disk
    }

    /// Gives a stored answer another head, if it is still there and nothing made it untrue since that was asked for.
    pub(crate) fn freshen(&self, key: &Key, id: u64, stored: Stored, since: Epoch) -> bool {
        let mut held = self.epochs.hold(key);
        if !held.is_current(key, since) {
            return false;
        }
        held.note_change(key);
        let is_on_disk = self.may_be_on_disk(key);
        if let Some(disk) = self.disk.as_ref().filter(|_| is_on_disk) {
            disk.set_head(key, id, Arc::new(stored.clone()));
        }
        let freshened = self.memory.peek(key).and_then(|known| known.freshened(id, stored));
        freshened.map_or(is_on_disk, |entry| self.keep(key, entry, None))
    }

    /// Throws single answers away.
    pub(crate) fn forget(&self, key: &Key, ids: &[u64]) {
        let mut held = self.epochs.hold(key);
        held.note_change(key);
        self.disk.iter().for_each(|disk| disk.remove(key, ids.to_vec()));
        if let Some(known) = self.memory.peek(key) {
            self.memory.set(key, known.without(ids));
        }
    }

    /// Throws all answers for a key away, since an unsafe request that was sent in this epoch has made them untrue. What was
    /// asked for before is not stored afterwards, but its own answer may be, in the epoch that comes back; unless another has
    /// made that untrue, also while this one waited. Where some lie on a disk, that they are gone is on it for good when this
    /// returns.
    pub(crate) async fn invalidate(&self, key: &Key, since: Epoch) -> Epoch {
        let (own, removal) = {
            let mut held = self.epochs.hold(key);
            let is_current = held.is_current(key, since);
            let begun = held.invalidate(key);
            held.note_change(key);
            self.memory.remove(key);
            let removal = self.disk.as_ref().and_then(|disk| disk.forget(key));
            (if is_current { begun } else { since }, removal)
        };
        if let Some(removal) = removal {
            // It is given up only with the runtime.
            let _ = tokio::task::spawn_blocking(|| removal.wait()).await;
        }
        own
    }

    /// Throws all answers for a key away without waiting until that is on a disk.
    pub(crate) fn invalidate_soon(&self, key: &Key) {
        let mut held = self.epochs.hold(key);
        held.invalidate(key);
        held.note_change(key);
        self.memory.remove(key);
        drop(self.disk.as_ref().and_then(|disk| disk.forget(key)));
    }

    /// The bytes in this range of a stored body. The first ones are there when it returns, so that the upstream can be asked
    /// still if they are lost.
    pub(crate) async fn read(
        self: &Arc<Self>,
        key: &Key,
        variant: &Variant,
        range: Range<u64>,
    ) -> Result<BodyReader, BodyLost> {
        BodyReader::open(self, key, variant, range).await
    }

    /// Takes an entry into memory as far as it fits; `new` is what it has more than before, if so. Whether that is in it now.
    fn keep(&self, key: &Key, mut entry: Entry, new: Option<&Arc<Variant>>) -> bool {
        let weight_max = self.memory.weight_max(key);
        let too_heavy = new.filter(|new| new.weight() > weight_max);
        if let Some(new) = too_heavy {
            entry = Entry { is_whole: self.disk.is_none(), ..entry.without(&[new.id]) };
        }
        match &self.disk {
            None => entry.trim(weight_max),
            // From where it comes when it is asked for.
            Some(_) if entry.weight > weight_max => entry = Entry::default(),
            Some(_) => {}
        }
        self.memory.set(key, entry);
        too_heavy.is_none()
    }

    fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether there may be answers for a key that have to be waited for.
    pub(crate) fn may_be_on_disk(&self, key: &Key) -> bool {
        self.disk.as_ref().is_some_and(|disk| disk.may_have(key))
    }

    /// A stored body is not there, or not what was written: it goes.
    fn lose(&self, key: &Key, id: u64, lost: BodyLost) -> BodyLost {
        self.disk.iter().for_each(|disk| disk.warn_of_loss(&lost));
        self.forget(key, &[id]);
        lost
    }
}
