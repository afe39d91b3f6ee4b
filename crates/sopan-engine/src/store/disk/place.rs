//! May the directory be used, and what is in it?
//!
//! It is made if it is not there, for nobody else to look into, and locked for this process. An index that cannot be read,
//! because a disk broke it or another program wrote it, is put aside and everything begins anew: a cache that is lost costs
//! some requests, and one that is repaired by guess costs trust. Files in the directory that do not have our names are left
//! alone.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use parking_lot::{Mutex, RwLock};

use super::files::Files;
use super::index::{Index, IndexError, Known};
use super::queue::Queue;
use super::{BYTES_MIN, Shared};
use crate::clock::Clock;
use crate::store::{CacheError, DiskSettings};

const LOCK: &str = "sopan-cache.lock";
const INDEX: &str = "sopan-cache.index";
const BODIES: &str = "sopan-cache.bodies";
/// The name that an index is given that cannot be read.
const ASIDE: &str = "sopan-cache.index.broken";

pub(super) fn open(settings: &DiskSettings) -> Result<Shared, CacheError> {
    let directory = settings.directory.clone();
    if settings.bytes_max < BYTES_MIN {
        return Err(CacheError::TooSmall { directory, bytes: settings.bytes_max });
    }
    let failed = |error| CacheError::Directory { directory: directory.clone(), error };
    DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(failed)?;
    let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(directory.join(LOCK));
    let lock = lock.map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(CacheError::Taken { directory }),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    let files = Files::open(directory.join(BODIES)).map_err(failed)?;
    let (index, known) = read(&directory).map_err(|error| match error {
        IndexError::Taken => CacheError::Taken { directory: directory.clone() },
        IndexError::Io(error) => failed(error),
        IndexError::Broken(error) => failed(io::Error::other(error)),
    })?;
    files.sweep(|id| known.files.contains(&id)).map_err(failed)?;
    let shared = Shared {
        directory: directory.clone(),
        _lock: lock,
        bytes_max: settings.bytes_max,
        clock: Clock::system(),
        index: RwLock::new(Some(index)),
        files,
        queue: Queue::default(),
        keys: Mutex::default(),
        counts: Mutex::new(known.counts),
        last_id: AtomicU64::new(known.last_id),
        is_full: AtomicBool::new(false),
        is_suspect: AtomicBool::new(false),
        skipped: AtomicU64::new(0),
        spilling: AtomicUsize::new(0),
        warned: Mutex::default(),
    };
    shared.note_keys(&known.keys, &[]);
    Ok(shared)
}

/// The index of a directory, a new one if it cannot be read.
fn read(directory: &Path) -> Result<(Index, Known), IndexError> {
    match read_as_it_is(directory) {
        Err(IndexError::Broken(error)) => {
            put_aside(directory, &error).map_err(IndexError::Io)?;
            read_as_it_is(directory)
        }
        read => read,
    }
}

/// The index of a directory, if it can be read.
pub(super) fn read_as_it_is(directory: &Path) -> Result<(Index, Known), IndexError> {
    let index = Index::open(&path(directory))?;
    let known = index.known()?;
    Ok((index, known))
}

fn path(directory: &Path) -> PathBuf {
    directory.join(INDEX)
}

/// Gives the index another name, in place of one that was put aside before.
pub(super) fn put_aside(directory: &Path, error: &str) -> io::Result<()> {
    let aside = directory.join(ASIDE);
    fs::rename(path(directory), &aside)?;
    let (directory, aside) = (directory.display(), aside.display());
    tracing::warn!(
        %directory,
        "the cache in {directory} cannot be read: {error}; its index is put aside as {aside}, and it begins empty"
    );
    Ok(())
}

/// Removes the index, for good when it returns. That needs no room on the disk.
pub(super) fn throw_away(directory: &Path) -> io::Result<()> {
    match fs::remove_file(path(directory)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::open(directory)?.sync_all()
}

/// An empty index, in place of what there is.
pub(super) fn begin_anew(directory: &Path) -> Result<Index, IndexError> {
    throw_away(directory).map_err(IndexError::Io)?;
    Index::open(&path(directory))
}
