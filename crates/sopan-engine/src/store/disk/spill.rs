//! How is a body written that is too large for memory?
//!
//! While it comes. Whoever brings it leaves its pieces in the line, and gives up when there is no room for one; the thread that
//! writes appends them to a file without a name, and sums up its blocks. Only what has come whole gets a name and a record.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use crc32fast::Hasher;

use super::Shared;
use super::files::{Draft, Files};
use super::queue::{Change, What};
use super::record::{BLOCK, Shape, begin_sum};

/// All bodies that are not whole yet may take this part of what answers may take.
const SHARE: u64 = 4;
/// Each body that is written while it comes has an open file.
pub(super) const SPILLING_MAX: usize = 64;

/// A body that is written while it comes. It goes when this is dropped, unless its answer is stored before.
#[derive(Debug)]
pub(in crate::store) struct Spilling {
    pub(super) shared: Arc<Shared>,
    pub(super) id: u64,
    pub(in crate::store) length: u64,
    /// Whether it is one of the few that are written at the same time.
    has_place: bool,
    /// Whether its answer is stored, and it is not to go.
    pub(super) is_handed_on: bool,
}

impl Spilling {
    pub(super) fn new(shared: &Arc<Shared>, id: u64) -> Self {
        Self { shared: Arc::clone(shared), id, length: 0, has_place: false, is_handed_on: false }
    }

    /// Whether there was room for a piece.
    pub(in crate::store) fn write(&mut self, piece: &Bytes) -> bool {
        self.has_place = self.has_place || self.shared.take_place();
        let put = What::Piece { id: self.id, is_first: self.length == 0, piece: piece.clone() };
        let is_taken = self.has_place && self.shared.queue.store(put);
        if is_taken {
            self.length += piece.len() as u64;
        }
        is_taken
    }
}

impl Drop for Spilling {
    fn drop(&mut self) {
        if self.has_place {
            self.shared.spilling.fetch_sub(1, Relaxed);
        }
        if self.length > 0 && !self.is_handed_on {
            self.shared.queue.remove(What::GiveUp { id: self.id }, None);
        }
    }
}

impl Shared {
    fn take_place(&self) -> bool {
        let take = |taken| (taken < SPILLING_MAX).then_some(taken + 1);
        !self.is_full.load(Relaxed) && self.spilling.fetch_update(Relaxed, Relaxed, take).is_ok()
    }
}

/// The bodies that are being written.
#[derive(Debug, Default)]
pub(super) struct Drafts {
    drafts: HashMap<u64, Growing>,
    bytes: u64,
}

#[derive(Debug)]
struct Growing {
    draft: Draft,
    length: u64,
    sums: Vec<u32>,
    /// Of the block that is not full yet.
    sum: Hasher,
}

impl Drafts {
    /// What they take.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes the pieces among these changes, and drops what is given up. One that cannot be written, or is too much, is
    /// dropped as well.
    pub(super) fn append(&mut self, changes: &[Change], files: &Files, room: u64) -> io::Result<()> {
        let mut done = Ok(());
        for change in changes {
            match &change.what {
                What::Piece { id, is_first, piece } => {
                    let appended = self.append_one(*id, *is_first, piece, files);
                    if appended.is_err() || self.bytes > room / SHARE {
                        self.give_up(*id);
                    }
                    done = done.and(appended);
                }
                What::GiveUp { id } => self.give_up(*id),
                _ => {}
            }
        }
        done
    }

    fn append_one(&mut self, id: u64, is_first: bool, piece: &[u8], files: &Files) -> io::Result<()> {
        if is_first {
            let growing = Growing { draft: files.draft(id)?, length: 0, sums: Vec::new(), sum: begin_sum(id, 0) };
            self.drafts.insert(id, growing);
        }
        // Not there if a piece before could not be written.
        let Some(growing) = self.drafts.get_mut(&id) else { return Ok(()) };
        self.bytes += piece.len() as u64;
        growing.append(id, piece)
    }

    /// Gives one that has come whole its name. None if it is not there, or is not this long.
    pub(super) fn finish(&mut self, id: u64, length: u64) -> Option<Shape> {
        let Growing { draft, length: found, mut sums, sum } = self.take(id)?;
        if !found.is_multiple_of(BLOCK as u64) {
            sums.push(sum.finalize());
        }
        let is_whole = found == length && draft.publish().is_ok();
        is_whole.then(|| Shape { is_file: true, length, sums: sums.into() })
    }

    pub(super) fn give_up(&mut self, id: u64) {
        drop(self.take(id));
    }

    fn take(&mut self, id: u64) -> Option<Growing> {
        let growing = self.drafts.remove(&id)?;
        self.bytes -= growing.length;
        Some(growing)
    }
}

impl Growing {
    fn append(&mut self, id: u64, mut piece: &[u8]) -> io::Result<()> {
        let all = piece;
        while !piece.is_empty() {
            let filled = (self.length % BLOCK as u64) as usize;
            let (part, rest) = piece.split_at(piece.len().min(BLOCK - filled));
            self.sum.update(part);
            self.length += part.len() as u64;
            if filled + part.len() == BLOCK {
                let next = begin_sum(id, self.sums.len() as u64 + 1);
                self.sums.push(std::mem::replace(&mut self.sum, next).finalize());
            }
            piece = rest;
        }
        self.draft.append(all)
    }
}
