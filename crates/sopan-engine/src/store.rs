//! Where are answers kept until they are asked for again?
//!
//! One [`Cache`] serves the program. Answers are found by upstream and target; all for one target are the variants of one
//! entry, told apart by host, owner and selecting fields. Entries lie in memory, as many as its budget holds. What is stored
//! is told from what was made untrue meanwhile by the epoch in which it was asked for.
//!
//! Which answer may be stored or given is for [`sopan_core::cache`] to say.

mod entry;
mod epoch;
mod key;
mod memory;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sopan_core::cache::Stored;
use sopan_core::policy::{CachePolicy, PathTreatment};

pub(crate) use entry::{Body, Entry, Variant};
pub(crate) use epoch::Epoch;
use epoch::Epochs;
pub(crate) use key::Key;
use key::Scope;
use memory::Memory;

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
    /// What it may take.
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
    epochs: Epochs,
    last_id: AtomicU64,
}

/// Why a cache cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {}

/// What is thrown away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

impl Cache {
    /// Makes room in memory.
    ///
    /// # Errors
    /// None yet.
    pub fn open(settings: &CacheSettings) -> Result<Arc<Self>, CacheError> {
        let memory = Memory::new(settings.memory_bytes);
        Ok(Arc::new(Self { memory, epochs: Epochs::new(), last_id: AtomicU64::new(0) }))
    }

    /// Throws answers away. What was asked for before is not stored afterwards.
    pub async fn purge(&self, what: Purge<'_>) -> Purged {
        let scope = match what {
            Purge::Url { upstream, target } => return self.invalidate(&Key::new(upstream, target)).await,
            Purge::Prefix { upstream, path } => Scope::Below { upstream: upstream.to_owned(), path: path.to_owned() },
            Purge::All => Scope::All,
        };
        self.epochs.purge(scope.clone());
        Purged { memory: self.memory.sweep(|key| scope.holds(key)), disk: 0 }
    }

    /// How full it is.
    pub fn usage(&self) -> Usage {
        Usage {
            memory_bytes: self.memory.bytes(),
            memory_bytes_max: self.memory.bytes_max(),
            memory_targets: self.memory.targets(),
        }
    }

    /// To be taken before a request is sent whose answer may be stored.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epochs.now()
    }

    /// The answers for a key that are at hand.
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        self.memory.get(key)
    }

    /// The answers for a key, wherever they are.
    pub(crate) async fn load(
        &self,
        key: &Key,
        _policy: &CachePolicy,
        _rule: Option<PathTreatment>,
    ) -> Option<Arc<Entry>> {
        self.get(key)
    }

    /// Stores an answer, in place of those with these ids, unless something made it untrue since it was asked for.
    pub(crate) fn put(&self, key: &Key, stored: Stored, body: Body, replaces: &[u64], since: Epoch) -> bool {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let new = Variant::new(id, stored, body);
        let mut held = self.epochs.hold(key);
        if !held.is_current(key, since) {
            return false;
        }
        held.note_change(key);
        let known = self.memory.peek(key).unwrap_or_default();
        let (mut entry, _gone) = known.with(&new, replaces);
        let weight_max = self.memory.weight_max(key);
        let is_taken = new.weight() <= weight_max;
        if !is_taken {
            entry = entry.without(&[id]);
        }
        entry.trim(weight_max);
        self.memory.set(key, entry);
        is_taken
    }

    /// Gives a stored answer another head, if it is still there and nothing made it untrue since that was asked for.
    pub(crate) fn freshen(&self, key: &Key, id: u64, stored: Stored, since: Epoch) -> bool {
        let mut held = self.epochs.hold(key);
        if !held.is_current(key, since) {
            return false;
        }
        held.note_change(key);
        let Some(mut entry) = self.memory.peek(key).and_then(|known| known.freshened(id, stored)) else { return false };
        entry.trim(self.memory.weight_max(key));
        self.memory.set(key, entry);
        true
    }

    /// Throws single answers away.
    pub(crate) fn forget(&self, key: &Key, ids: &[u64]) {
        let mut held = self.epochs.hold(key);
        held.note_change(key);
        if let Some(known) = self.memory.peek(key) {
            self.memory.set(key, known.without(ids));
        }
    }

    /// Throws all answers for a key away. What was asked for before is not stored afterwards.
    pub(crate) async fn invalidate(&self, key: &Key) -> Purged {
        let mut held = self.epochs.hold(key);
        held.invalidate(key);
        held.note_change(key);
        let memory = self.memory.remove(key).map_or(0, |entry| entry.variants.len() as u64);
        Purged { memory, disk: 0 }
    }
}
