//! How do entries come back from the disk?
//!
//! Who misses one in memory reads it, if there may be one, and takes it into memory, so that those who ask next find it
//! there. For a stripe of keys one reads at a time: many who ask for one key at once wait for one reading. What was read is
//! used only if the entry was not changed meanwhile.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use sopan_core::cache::Stored;
use sopan_core::policy::{CachePolicy, PathTreatment};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::disk::{Read, ReadBody};
use super::epoch::{STRIPES, stripe};
use super::{Body, Cache, Entry, Key, Variant};

/// A client waits no longer for the disk: to ask the upstream is quicker then.
const LOAD_MAX: Duration = Duration::from_secs(2);
/// So often an entry may be changed while it is read.
const TRIES: usize = 3;

/// Who reads from the disk.
#[derive(Debug)]
pub(super) struct Loads(Box<[Arc<Mutex<()>>]>);

impl Loads {
    pub(super) fn new() -> Self {
        Self((0..STRIPES).map(|_| Arc::default()).collect())
    }
}

impl Cache {
    /// The answers for a key, wherever they are. Those that the settings would not have stored are left out.
    pub(crate) async fn load(
        &self,
        key: &Key,
        policy: &CachePolicy,
        rule: Option<PathTreatment>,
    ) -> Option<Arc<Entry>> {
        if let Some(entry) = self.get(key) {
            return Some(entry);
        }
        if !self.may_be_on_disk(key) {
            return self.memory.get(key);
        }
        let loading = timeout(LOAD_MAX, self.load_from_disk(key, policy, rule)).await;
        loading.unwrap_or_else(|_| self.memory.get(key))
    }

    async fn load_from_disk(&self, key: &Key, policy: &CachePolicy, rule: Option<PathTreatment>) -> Option<Arc<Entry>> {
        let disk = self.disk.as_ref()?;
        for _ in 0..TRIES {
            // Held by the thread that reads, to its end: where a disk stands still, no more threads than stripes do.
            let turn = Arc::clone(&self.loads.0[stripe(key)]).lock_owned().await;
            if let Some(entry) = self.get(key) {
                return Some(entry);
            }
            let since = self.epoch();
            self.epochs.hold(key).begin_loading(key);
            let reading = disk.reading(key);
            let read = move || (reading.read(), turn);
            let (read, _turn) = tokio::task::spawn_blocking(read).await.ok()?;
            let mut held = self.epochs.hold(key);
            if !held.end_loading(key) || !held.is_current(key, since) {
                continue;
            }
            let Some(read) = read else { break };
            return self.take_in(key, read, policy, rule);
        }
        self.memory.get(key)
    }

    /// Takes what was read into memory, beside what is there already. The entry is held.
    fn take_in(
        &self,
        key: &Key,
        read: Vec<Read>,
        policy: &CachePolicy,
        rule: Option<PathTreatment>,
    ) -> Option<Arc<Entry>> {
        let at_hand = self.memory.peek(key).unwrap_or_default();
        let known: HashSet<_> = at_hand.variants.iter().map(|variant| variant.id).collect();
        let read = read.into_iter().filter(|read| !known.contains(&read.id));
        let mut all: Vec<_> = read.filter_map(|read| variant(read, policy, rule)).collect();
        all.extend(at_hand.variants.iter().cloned());
        all.sort_by_key(|variant| variant.id);
        // One after the other, so that of two for the same requests the later one stays.
        let (mut entry, mut gone) = (Entry::default(), Vec::new());
        for variant in &all {
            let (with, without) = entry.with(variant, &[]);
            entry = with;
            gone.extend(without);
        }
        self.disk.iter().for_each(|disk| disk.remove(key, gone.clone()));
        entry.is_whole = true;
        if entry.weight <= self.memory.weight_max(key) {
            self.memory.set(key, entry.clone());
        }
        Some(entry).filter(|entry| !entry.variants.is_empty()).map(Arc::new)
    }
}

fn variant(read: Read, policy: &CachePolicy, rule: Option<PathTreatment>) -> Option<Arc<Variant>> {
    let stored = Stored::decode(&read.head, policy, rule)?;
    let body = match read.body {
        ReadBody::Here(bytes) => Body::Memory(bytes),
        ReadBody::File(file) => Body::File(file),
    };
    Some(Variant::new(read.id, stored, body))
}
