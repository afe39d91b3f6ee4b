//! What becomes of an answer whose body is too large for memory?
//!
//! It goes to the disk while it comes, and is stored when it has come whole, like any other.

use std::sync::Arc;

use bytes::Bytes;
use sopan_core::cache::Stored;

use super::disk::Spilling;
use super::{Cache, Entry, Epoch, Key, Slot, slots_of};
use crate::exchange::flow::Spill;

/// An answer that is being written to the disk.
#[derive(Debug)]
pub(crate) struct SpilledAnswer {
    cache: Arc<Cache>,
    key: Key,
    stored: Stored,
    replaces: Vec<u64>,
    since: Epoch,
    body: Spilling,
}

impl Cache {
    /// What writes an answer, which [`put`](Self::put) would store from memory, to the disk, if there is one.
    pub(crate) fn spill(
        self: &Arc<Self>,
        key: &Key,
        stored: Stored,
        replaces: &[u64],
        since: Epoch,
    ) -> Option<SpilledAnswer> {
        let disk = self.disk.as_ref().filter(|_| key.may_be_written())?;
        let body = disk.spill(self.next_id());
        let (cache, key, replaces) = (Arc::clone(self), key.clone(), replaces.to_vec());
        Some(SpilledAnswer { cache, key, stored, replaces, since, body })
    }
}

impl Spill for SpilledAnswer {
    fn write(&mut self, piece: &Bytes) -> bool {
        piece.is_empty() || self.body.write(piece)
    }

    /// Stores the answer, unless something made it untrue since it was asked for.
    fn finish(mut self: Box<Self>) {
        if !self.stored.has_come_with(self.body.length) {
            return;
        }
        let Self { cache, key, stored, mut replaces, since, body } = *self;
        let Some(disk) = &cache.disk else { return };
        let mut held = cache.epochs.hold(&key);
        if !held.is_current(&key, since) {
            return;
        }
        held.note_change(&key);
        let known = cache.memory.peek(&key);
        if let Some(commons) = &cache.commons {
            // It is too large for the others, and what they have is not what it was.
            let mut slots = known.as_ref().map_or_else(Vec::new, |known| slots_of(known, &replaces));
            slots.push(Slot::of(&stored));
            commons.drop_these(&key, slots);
        }
        if let Some(known) = known {
            let (kept, gone) = known.beside(&stored, &replaces);
            replaces.extend(gone);
            cache.memory.set(&key, Entry::of(kept, false));
        }
        disk.put_spilled(&key, stored, body, replaces);
    }
}
