//! What is on the disk, and since when?
//!
//! A database of three tables, changed together or not at all: `variants` has a record for each answer, found by key;
//! `bodies` what is small enough to lie beside it; `order` which answer has been there longest, and what it takes. What a
//! crash leaves of it is one of its states of before.
//!
//! When it is opened, the sums of all its pages are looked at, which takes about as long as to read it: what a bad disk made of
//! it would make the library panic, or worse. What goes bad later may make it panic still; that is caught here, and is an
//! error like any other.

mod change;

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use bytes::Bytes;
use redb::backends::FileBackend;
use redb::{Database, Durability, ReadableDatabase as _, ReadableTable as _, TableDefinition};

use super::own::{self, Identity};
use super::record::{self, Shape};
use crate::store::key::Key;
pub(super) use change::{Applied, Limits};

const VARIANTS: TableDefinition<'_, (&[u8], u64), &[u8]> = TableDefinition::new("variants");
const BODIES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("bodies");
/// Of each answer what it takes in here, what in a file, and its key.
const ORDER: TableDefinition<'_, u64, (u64, u64, &[u8])> = TableDefinition::new("order");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// What is written in another form is not read.
const FORM: u64 = 1;
/// Pages that the library keeps in memory. What is asked for often lies in memory anyway.
const PAGES_BYTES: usize = 8 << 20;

/// Why the index cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum IndexError {
    /// Another process has it.
    #[error("it is used by another process")]
    Taken,
    /// The system does not let us.
    #[error("{0}")]
    Io(io::Error),
    /// It is not ours, or not whole.
    #[error("{0}")]
    Broken(String),
}

type Outcome<T> = Result<T, redb::Error>;

/// Does something with the library, and takes a panic of it for what it is: a file that is not what it wrote.
fn guarded<T>(act: impl FnOnce() -> Outcome<T>) -> Result<T, IndexError> {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(redb::Error::Io(error))) if error.kind() != io::ErrorKind::InvalidData => Err(IndexError::Io(error)),
        // The library keeps to itself after such an error until it is opened again.
        Ok(Err(redb::Error::PreviousIo)) => {
            Err(IndexError::Io(io::Error::other("reading or writing has failed before")))
        }
        Ok(Err(redb::Error::DatabaseAlreadyOpen)) => Err(IndexError::Taken),
        Ok(Err(other)) => Err(IndexError::Broken(other.to_string())),
        Err(_) => Err(IndexError::Broken("it contradicts itself".to_owned())),
    }
}

/// What the answers take that are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) answers: u64,
    /// In the index, about.
    pub(super) index_bytes: u64,
    /// In files.
    pub(super) file_bytes: u64,
}

impl Counts {
    pub(super) fn bytes(&self) -> u64 {
        self.index_bytes + self.file_bytes
    }
}

/// What is known of the answers that are there when the index is opened.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) counts: Counts,
    pub(super) last_id: u64,
    pub(super) keys: Vec<u64>,
    pub(super) files: HashSet<u64>,
}

/// An answer as it was read.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) id: u64,
    pub(super) head: Vec<u8>,
    /// None if it is in a file.
    pub(super) body: Option<Bytes>,
    pub(super) shape: Shape,
}

#[derive(Debug)]
pub(super) struct Index {
    /// There until it is dropped.
    database: Option<Database>,
    file: File,
    identity: Identity,
}

impl Index {
    /// Opens the index, or creates it.
    pub(super) fn open(path: &Path) -> Result<Self, IndexError> {
        let opened = own::open_or_create(path).map_err(IndexError::Io)?;
        let file = opened.try_clone().map_err(IndexError::Io)?;
        let identity = Identity::of(&file.metadata().map_err(IndexError::Io)?);
        let database = guarded(|| {
            let mut builder = Database::builder();
            builder.set_cache_size(PAGES_BYTES).set_check_integrity_on_open(true);
            let database = builder.create_with_backend(FileBackend::new(opened)?)?;
            let begun = database.begin_write()?;
            {
                let mut meta = begun.open_table(META)?;
                let form = meta.get("form")?.map(|form| form.value());
                match form {
                    None => drop(meta.insert("form", FORM)?),
                    Some(FORM) => {}
                    Some(other) => return Err(redb::Error::Corrupted(format!("it has form {other}, not {FORM}"))),
                }
                begun.open_table(VARIANTS)?;
                begun.open_table(BODIES)?;
                begun.open_table(ORDER)?;
            }
            begun.commit()?;
            Ok(database)
        })?;
        Ok(Self { database: Some(database), file, identity })
    }

    /// Looks through all that is there.
    pub(super) fn known(&self) -> Result<Known, IndexError> {
        guarded(|| {
            let mut known = Known::default();
            for row in self.database()?.begin_read()?.open_table(ORDER)?.iter()? {
                let (id, row) = row?;
                let (index_bytes, file_bytes, key) = row.value();
                known.counts.answers += 1;
                known.counts.index_bytes += index_bytes;
                known.counts.file_bytes += file_bytes;
                known.last_id = id.value();
                known.keys.push(Key::from_bytes(key.into()).digest());
                if file_bytes > 0 {
                    known.files.insert(id.value());
                }
            }
            Ok(known)
        })
    }

    /// The answers for a key, the one stored first at the beginning, and the ids of those that are not what was written.
    pub(super) fn read(&self, key: &Key) -> Result<(Vec<Found>, Vec<u64>), IndexError> {
        guarded(|| {
            let (mut found, mut broken) = (Vec::new(), Vec::new());
            let reading = self.database()?.begin_read()?;
            let (variants, bodies) = (reading.open_table(VARIANTS)?, reading.open_table(BODIES)?);
            for row in variants.range((key.as_bytes(), 0)..=(key.as_bytes(), u64::MAX))? {
                let (place, record) = row?;
                let id = place.value().1;
                let Some((head, shape)) = record::read(key.as_bytes(), id, record.value()) else {
                    broken.push(id);
                    continue;
                };
                let body = match shape.is_file {
                    true => None,
                    false => bodies.get(id)?.map(|body| Bytes::copy_from_slice(body.value())),
                };
                let is_whole = body.as_ref().map_or(shape.is_file, |body| shape.is_that_of(id, body));
                if is_whole {
                    found.push(Found { id, head: head.to_vec(), body, shape });
                } else {
                    broken.push(id);
                }
            }
            Ok((found, broken))
        })
    }

    /// What the index itself takes on the disk.
    pub(super) fn bytes(&self) -> u64 {
        self.file.metadata().map_or(0, |found| found.blocks() * 512)
    }

    /// Whether it is the file with this name still.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        self.identity.is_at(path)
    }

    /// Empties the file, wherever it is by now, so that nobody finds in it later what is untrue by then.
    pub(super) fn void(mut self) {
        self.close();
        // Whoever takes what is not ours any more off the disk sees to the rest.
        let _ = self.file.set_len(0);
    }

    /// Closing writes, and so it can panic too.
    fn close(&mut self) {
        let database = self.database.take();
        let _ = guarded(|| {
            drop(database);
            Ok(())
        });
    }

    /// Has all changes until now on the disk.
    pub(super) fn sync(&self) -> Result<(), IndexError> {
        guarded(|| {
            let mut begun = self.database()?.begin_write()?;
            begun.set_durability(Durability::Immediate).map_err(redb::Error::from)?;
            Ok(begun.commit()?)
        })
    }

    fn database(&self) -> Outcome<&Database> {
        self.database.as_ref().ok_or(redb::Error::DatabaseClosed)
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        self.close();
    }
}
