//! How does what is on the disk come back?
//!
//! The answers for a key at once, with the bodies that lie in the index; a large body later, block by block, by whoever gives
//! it away. What is not as it was written is told to the thread that writes, which drops it.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;

use super::Shared;
use super::files::{self, BodyLost};
use super::index::{Found, IndexError};
use super::queue::What;
use super::record::Shape;
use crate::store::key::Key;

/// Reads the answers for one key.
#[derive(Debug)]
pub(in crate::store) struct Reading {
    pub(super) shared: Arc<Shared>,
    pub(super) key: Key,
}

impl Reading {
    /// Blocks the thread. The one stored first is at the beginning. None if it cannot be known what is there.
    pub(in crate::store) fn read(self) -> Option<Vec<Read>> {
        let Self { shared, key } = self;
        if !shared.queue.wait_settled(&key) {
            return None;
        }
        let read = shared.index.read().as_ref()?.read(&key);
        let (found, broken) = match read {
            Ok(read) => read,
            Err(IndexError::Broken(_)) => {
                // The writer sees to it.
                shared.is_suspect.store(true, Relaxed);
                shared.queue.remove(What::Remove { key, ids: Vec::new() }, None);
                return None;
            }
            Err(error) => {
                shared.warn(&format!("stored answers cannot be read: {error}"));
                return None;
            }
        };
        if !broken.is_empty() {
            shared.warn_of_loss("its sum is another one");
            shared.queue.remove(What::Remove { key, ids: broken }, None);
        }
        Some(found.into_iter().map(|found| shared.answer(found)).collect())
    }
}

/// An answer that was read from the disk.
#[derive(Debug)]
pub(in crate::store) struct Read {
    pub(in crate::store) id: u64,
    /// As [`Stored::encode`](sopan_core::cache::Stored::encode) has it.
    pub(in crate::store) head: Vec<u8>,
    pub(in crate::store) body: ReadBody,
}

#[derive(Debug)]
pub(in crate::store) enum ReadBody {
    Here(Bytes),
    File(Arc<FileBody>),
}

/// A body that lies in a file.
#[derive(Debug)]
pub(crate) struct FileBody {
    pub(in crate::store) id: u64,
    pub(in crate::store) path: PathBuf,
    shape: Shape,
}

impl FileBody {
    pub(in crate::store) fn length(&self) -> u64 {
        self.shape.length
    }

    /// What it takes in memory, without its bytes.
    pub(in crate::store) fn weight(&self) -> usize {
        self.shape.sums.len() * 4 + self.path.as_os_str().len() + 64
    }

    pub(in crate::store) fn open(&self) -> Result<File, BodyLost> {
        files::open(&self.path, self.shape.length)
    }

    /// Whole blocks, verified. Blocks the thread.
    pub(in crate::store) fn read(&self, file: &File, first: u64, count: u64) -> Result<Bytes, BodyLost> {
        files::read(file, self.id, &self.shape, first, count)
    }
}

impl Shared {
    fn answer(&self, found: Found) -> Read {
        let body = match found.body {
            Some(body) => ReadBody::Here(body),
            None => {
                let path = self.files.path(found.id);
                ReadBody::File(Arc::new(FileBody { id: found.id, path, shape: found.shape }))
            }
        };
        Read { id: found.id, head: found.head, body }
    }
}
