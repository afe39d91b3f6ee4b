//! May the directory be used, and what is in it?
//!
//! It is made if it is not there, for nobody else to look into, and locked for this process. An index that cannot be read,
//! because a disk broke it or another program wrote it, is put aside and everything begins anew: a cache that is lost costs
//! some requests, and one that is repaired by guess costs trust. Files in the directory that do not have our names are left
//! alone.
//!
//! What was removed or moved away while it is used is noticed by who it is, not by its name ([`Place::is_there`]).

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::index::{Index, IndexError, Known};
use super::own::{self, Identity};

const LOCK: &str = "sopan-cache.lock";
const INDEX: &str = "sopan-cache.index";
const BODIES: &str = "sopan-cache.bodies";
const NOTE: &str = "sopan-cache.heard";
const NEW_NOTE: &str = "sopan-cache.heard.new";
/// A longer one is not ours.
const NOTE_MAX: u64 = 1 << 20;
/// The name that an index is given that cannot be read.
const ASIDE: &str = "sopan-cache.index.broken";

/// A directory that is ours as long as this is held.
#[derive(Debug)]
pub(super) struct Place {
    directory: PathBuf,
    lock: Identity,
    _locked: File,
}

impl Place {
    /// Makes the directory, if it is not there, and locks it.
    pub(super) fn take(directory: &Path) -> Result<Self, IndexError> {
        own::make_directory(directory).map_err(IndexError::Io)?;
        let locked = own::open_or_create(&directory.join(LOCK)).map_err(IndexError::Io)?;
        match locked.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(IndexError::Taken),
            Err(TryLockError::Error(error)) => return Err(IndexError::Io(error)),
        }
        let lock = Identity::of(&locked.metadata().map_err(IndexError::Io)?);
        Ok(Self { directory: directory.to_owned(), lock, _locked: locked })
    }

    /// Whether what was locked still stands there.
    pub(super) fn is_there(&self) -> bool {
        self.lock.is_at(&self.directory.join(LOCK))
    }

    /// Takes it again, if it is there no more.
    pub(super) fn take_again(&mut self) -> Result<(), IndexError> {
        if !self.is_there() {
            *self = Self::take(&self.directory)?;
        }
        Ok(())
    }
}

/// Where the bodies are of the cache in a directory.
pub(super) fn bodies(directory: &Path) -> PathBuf {
    directory.join(BODIES)
}

/// The index of a directory, a new one if it cannot be read.
pub(super) fn read(directory: &Path) -> Result<(Index, Known), IndexError> {
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

/// Where its index is.
pub(super) fn path(directory: &Path) -> PathBuf {
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

/// What was noted beside the answers; none where that cannot be known.
pub(super) fn read_note(directory: &Path) -> Option<String> {
    let mut note = String::new();
    own::open(&directory.join(NOTE)).ok()?.take(NOTE_MAX).read_to_string(&mut note).ok()?;
    Some(note)
}

/// Notes something, for good or not at all.
pub(super) fn write_note(directory: &Path, note: &str) -> io::Result<()> {
    let new = directory.join(NEW_NOTE);
    let mut file = own::create(&new)?;
    file.write_all(note.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, directory.join(NOTE))
}

/// An empty index, in place of what there is.
pub(super) fn begin_anew(directory: &Path) -> Result<Index, IndexError> {
    throw_away(directory).map_err(IndexError::Io)?;
    Index::open(&path(directory))
}
