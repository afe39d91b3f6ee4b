//! Which entries are at hand?
//!
//! Those that are asked for most, as many as the budget of bytes holds: S3-FIFO, so that what is asked for once does not
//! drive out what is asked for often. An entry that would take more than its share of the budget is not taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};

use super::entry::Entry;
use super::key::{Key, Sought};
use crate::digest::ByDigest;

/// What a slot of the map and a key's own record take.
const KEY_BYTES: u64 = 160;
/// The budget is divided among these, each with a lock of its own. An entry must fit into one of them.
const SHARDS: usize = 8;
/// No entry takes more than this part of the budget.
const SHARE: u64 = 16;
/// Of what weight entries are taken to be, to judge how many there will be.
const USUAL_WEIGHT: u64 = 4096;

#[derive(Clone, Debug)]
struct ByBytes;

impl Weighter<Key, Arc<Entry>> for ByBytes {
    fn weight(&self, key: &Key, entry: &Arc<Entry>) -> u64 {
        key.as_bytes().len() as u64 + KEY_BYTES + entry.weight
    }
}

/// Counts the answers that go to make room.
#[derive(Clone, Debug, Default)]
struct Evicted(Arc<AtomicU64>, DefaultLifecycle<Key, Arc<Entry>>);

impl Lifecycle<Key, Arc<Entry>> for Evicted {
    type RequestState = <DefaultLifecycle<Key, Arc<Entry>> as Lifecycle<Key, Arc<Entry>>>::RequestState;

    fn on_evict(&self, state: &mut Self::RequestState, key: Key, entry: Arc<Entry>) {
        self.0.fetch_add(entry.variants.len() as u64, Relaxed);
        self.1.on_evict(state, key, entry);
    }
}

#[derive(Debug)]
pub(super) struct Memory {
    map: Cache<Key, Arc<Entry>, ByBytes, ByDigest, Evicted>,
    evicted: Evicted,
    bytes_max: u64,
}

impl Memory {
    pub(super) fn new(bytes_max: u64) -> Self {
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity(usize::try_from(bytes_max / USUAL_WEIGHT).unwrap_or(usize::MAX))
            .weight_capacity(bytes_max)
            .build()
            .expect("both capacities are given");
        let evicted = Evicted::default();
        let map = Cache::with_options(options, ByBytes, ByDigest::default(), evicted.clone());
        Self { map, evicted, bytes_max }
    }

    /// What the answers of one entry may weigh.
    pub(super) fn weight_max(&self, key: &Key) -> u64 {
        (self.bytes_max / SHARE).saturating_sub(KEY_BYTES + key.as_bytes().len() as u64)
    }

    /// The largest body that an entry can have, whatever its head.
    pub(super) fn body_max(&self) -> u64 {
        self.bytes_max / SHARE
    }

    pub(super) fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        self.map.get(key)
    }

    pub(super) fn find(&self, sought: &Sought) -> Option<Arc<Entry>> {
        self.map.get(sought)
    }

    /// The same, without counting as use.
    pub(super) fn peek(&self, key: &Key) -> Option<Arc<Entry>> {
        self.map.peek(key)
    }

    /// Takes an entry that weighs no more than it may; one without answers is removed.
    pub(super) fn set(&self, key: &Key, entry: Entry) {
        if entry.variants.is_empty() {
            self.map.remove(key);
        } else {
            self.map.insert(key.clone(), Arc::new(entry));
        }
    }

    pub(super) fn remove(&self, key: &Key) -> Option<Arc<Entry>> {
        self.map.remove(key).map(|(_, entry)| entry)
    }

    /// The keys of these kinds for which there are entries.
    pub(super) fn keys(&self, is_one: impl Fn(&Key) -> bool) -> Vec<Key> {
        self.map.iter().filter(|(key, _)| is_one(key)).map(|(key, _)| key).collect()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.map.weight()
    }

    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// How many answers went to make room.
    pub(super) fn evictions(&self) -> u64 {
        self.evicted.0.load(Relaxed)
    }

    pub(super) fn targets(&self) -> u64 {
        self.map.len() as u64
    }
}
