//! How is an answer written?
//!
//! A record is the head of one answer with what is known of its body: how long it is, where it lies, and a sum over each of
//! its blocks. The record has a sum of its own, over the key and the id as well, so that what was written for one
//! answer is never read as another, whatever happened to the disk in between.

use std::sync::Arc;

use crc32fast::Hasher;

/// A body is summed up, and verified before it is given, in blocks of this many bytes.
pub(crate) const BLOCK: usize = 64 * 1024;
/// A larger body is a file of its own.
pub(super) const INLINE_MAX: u64 = BLOCK as u64;

const IN_INDEX: u8 = 0;
const IN_FILE: u8 = 1;

/// Where a body lies, and what it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) is_file: bool,
    pub(super) length: u64,
    pub(super) sums: Arc<[u32]>,
}

impl Shape {
    /// That of a body that is here.
    pub(super) fn of(id: u64, body: &[u8]) -> Self {
        let sums = body.chunks(BLOCK).zip(0..).map(|(block, number)| sum_of_block(id, number, block)).collect();
        Self { is_file: body.len() as u64 > INLINE_MAX, length: body.len() as u64, sums }
    }

    /// Whether a body that was read is the one that was written.
    pub(super) fn is_that_of(&self, id: u64, body: &[u8]) -> bool {
        let found = Self::of(id, body);
        (found.length, found.sums) == (self.length, Arc::clone(&self.sums))
    }
}

/// A sum over one block, its place and its answer.
pub(super) fn sum_of_block(id: u64, number: u64, block: &[u8]) -> u32 {
    let mut hasher = begin_sum(id, number);
    hasher.update(block);
    hasher.finalize()
}

/// The same before the first byte of the block.
pub(super) fn begin_sum(id: u64, number: u64) -> Hasher {
    let mut hasher = Hasher::new();
    hasher.update(&id.to_le_bytes());
    hasher.update(&number.to_le_bytes());
    hasher
}

fn sum_of_record(key: &[u8], id: u64, rest: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(key);
    hasher.update(&id.to_le_bytes());
    hasher.update(rest);
    hasher.finalize()
}

/// A head as `Stored::encode` has it, with its body's shape.
pub(super) fn write(key: &[u8], id: u64, head: &[u8], shape: &Shape) -> Vec<u8> {
    let mut record = vec![0; 4];
    record.push(if shape.is_file { IN_FILE } else { IN_INDEX });
    record.extend(shape.length.to_le_bytes());
    shape.sums.iter().for_each(|sum| record.extend(sum.to_le_bytes()));
    record.extend(head);
    let sum = sum_of_record(key, id, &record[4..]);
    record[..4].copy_from_slice(&sum.to_le_bytes());
    record
}

/// What was written, if it is whole.
pub(super) fn read<'a>(key: &[u8], id: u64, record: &'a [u8]) -> Option<(&'a [u8], Shape)> {
    let (sum, rest) = record.split_first_chunk()?;
    if u32::from_le_bytes(*sum) != sum_of_record(key, id, rest) {
        return None;
    }
    let (place, rest) = rest.split_first()?;
    let (length, rest) = rest.split_first_chunk()?;
    let length = u64::from_le_bytes(*length);
    let blocks = usize::try_from(length.div_ceil(BLOCK as u64)).ok()?;
    let (sums, head) = rest.split_at_checked(blocks.checked_mul(4)?)?;
    let sums = sums.as_chunks().0.iter().map(|sum| u32::from_le_bytes(*sum)).collect();
    Some((head, Shape { is_file: *place == IN_FILE, length, sums }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_not_at_all_when_it_was_changed() {
        for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK] {
            let body = vec![7; length];
            let shape = Shape::of(9, &body);
            assert_eq!((shape.sums.len(), shape.is_file), (length.div_ceil(BLOCK), length > BLOCK));
            assert!(shape.is_that_of(9, &body) && (length == 0 || !shape.is_that_of(10, &body)));
            let record = write(b"key", 9, b"head", &shape);
            assert_eq!(read(b"key", 9, &record), Some((&b"head"[..], shape)));
            assert_eq!((read(b"kez", 9, &record), read(b"key", 8, &record)), (None, None));
            for at in 0..record.len() {
                assert_eq!(read(b"key", 9, &record[..at]), None, "{at}");
                let mut changed = record.clone();
                changed[at] ^= 4;
                assert_eq!(read(b"key", 9, &changed), None, "{at}");
            }
        }
    }
}
