//! The file on the disk: opened for this process alone, and replaced as a whole.
//!
//! It is locked, and whoever finds it locked is told. A file that is replaced takes its lock along: the new one is locked
//! before it gets the name, and who has locked the old one meanwhile sees that it has lost its name, and begins anew.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// No state is larger: a file is written anew at 1 MiB.
const TEXT_MAX: u64 = 64 * 1024 * 1024;
/// What is added to the name of the file that will replace it; nobody else's file is called so.
const DRAFT: &str = ".sopan-new";
/// So often another process may replace the file just when this one opens it.
const TRIES: usize = 100;

/// Why a state file cannot be used. None of them changes the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// It cannot be opened or created.
    #[error("the state file `{}` cannot be opened: {error}; name a file that sopan may create and write, in a \
             directory that is there", .path.display())]
    Open {
        /// Its name.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// It cannot be written, or not be replaced.
    #[error(
        "the state file `{}` cannot be written anew: {error}; sopan must be able to write in its directory, since the file \
         is replaced now and then",
        .path.display()
    )]
    Write {
        /// Its name.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Another process uses it.
    #[error("the state file `{}` is used by another sopan; stop that one, or give each a file of its own", .path.display())]
    Locked {
        /// Its name.
        path: PathBuf,
    },
    /// It was not written by us.
    #[error("`{}` is not a state file of sopan and is left as it is; name another one", .path.display())]
    Foreign {
        /// Its name.
        path: PathBuf,
    },
    /// It was written by a later version.
    #[error(
        "the state file `{}` has form {version}, and this sopan knows form {known}; it is left as it is: use the newer sopan \
         or name another file",
        .path.display()
    )]
    Newer {
        /// Its name.
        path: PathBuf,
        /// Its form.
        version: u32,
        /// The form that is known here.
        known: u32,
    },
}

/// A file that is ours alone.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    /// Where it really is.
    pub(super) path: PathBuf,
    pub(super) text: Vec<u8>,
}

pub(super) fn open(path: &Path) -> Result<Opened, StateError> {
    let failed = |error| StateError::Open { path: path.to_owned(), error };
    for _ in 0..TRIES {
        let file = options().create(true).open(path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        // A pipe or a device would take all that is written and give nothing back.
        if !found.is_file() || found.len() > TEXT_MAX {
            return Err(StateError::Foreign { path: path.to_owned() });
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StateError::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let is_named_still =
            fs::metadata(path).is_ok_and(|named| (named.dev(), named.ino()) == (found.dev(), found.ino()));
        if is_named_still {
            let mut text = Vec::new();
            (&file).take(TEXT_MAX).read_to_end(&mut text).map_err(failed)?;
            let path = fs::canonicalize(path).map_err(failed)?;
            return Ok(Opened { file, path, text });
        }
    }
    Err(StateError::Locked { path: path.to_owned() })
}

/// Readable by nobody else: it tells which APIs are used, and how much.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true).mode(0o600);
    options
}

/// What has the name of our file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    /// The file itself, with so many bytes.
    Ours(u64),
    /// Nothing: it was removed, or its directory moved.
    Nothing,
    /// Another file, which is not ours to replace.
    Another,
}

pub(super) fn named(path: &Path, file: &File) -> io::Result<Named> {
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Named::Nothing),
        found => found?,
    };
    let ours = file.metadata()?;
    let is_ours = (found.dev(), found.ino()) == (ours.dev(), ours.ino());
    Ok(if is_ours { Named::Ours(found.len()) } else { Named::Another })
}

/// A file beside the one that it will replace.
#[derive(Debug)]
pub(super) struct Draft {
    file: File,
    draft: PathBuf,
    path: PathBuf,
}

impl Draft {
    /// Writes the text, to the disk.
    pub(super) fn write(path: &Path, text: &[u8]) -> io::Result<Self> {
        let mut name = path.as_os_str().to_owned();
        name.push(DRAFT);
        let draft = PathBuf::from(name);
        // One that a crash left behind is of no use.
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = options().create_new(true).open(&draft)?;
        let draft = Self { file, draft, path: path.to_owned() };
        draft.file.try_lock().map_err(io::Error::from)?;
        (&draft.file).write_all(text)?;
        draft.file.sync_all()?;
        Ok(draft)
    }

    /// Adds what has come meanwhile, and takes the name of the file that it replaces.
    pub(super) fn publish(self, more: &[u8]) -> io::Result<File> {
        (&self.file).write_all(more)?;
        fs::rename(&self.draft, &self.path)?;
        self.file.try_clone()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Gone already if it was published.
        let _ = fs::remove_file(&self.draft);
    }
}

/// Has the new name of a file on the disk.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}
