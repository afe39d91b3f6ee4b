//! How is a body written that is too large for memory?
//!
//! While it comes. Whoever brings it leaves its pieces in the line, and gives up when there is no room for one; the thread that
//! writes appends them to a file without a name, and sums up its blocks. Only what has come whole gets a name and a record.

use std::collections::HashMap;
use std::io;

use crc32fast::Hasher;

use super::files::{Draft, Files};
use super::queue::{Change, What};
use super::record::{BLOCK, Shape, begin_sum};

/// All bodies that are not whole yet may take this part of what answers may take.
const SHARE: u64 = 4;

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
