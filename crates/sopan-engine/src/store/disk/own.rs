//! Is what lies there ours?
//!
//! All that is made is for this user alone. A symbolic link where a file or a folder of ours should be is not followed:
//! whoever put it there would have us write elsewhere, or give away what lies elsewhere. A directory into which others may
//! write is refused, since they could forge what is answered; of one into which a group may, there is a warning.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::geteuid;

const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
const WRITABLE_BY_GROUP: u32 = 0o020;
const WRITABLE_BY_ALL: u32 = 0o002;
/// Root may do everything anyway.
const ROOT: u32 = 0;

/// Which file it is, whatever it is called by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity(u64, u64);

impl Identity {
    pub(super) fn of(found: &Metadata) -> Self {
        Self(found.dev(), found.ino())
    }

    /// Whether it is the file with this name. Where that cannot be known it counts as such.
    pub(super) fn is_at(self, path: &Path) -> bool {
        match fs::symlink_metadata(path) {
            Ok(found) => Self::of(&found) == self,
            Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        }
    }
}

/// Makes the directory of a cache, with those above it, unless it is there.
pub(super) fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)?;
    let found = fs::metadata(path)?;
    let user = geteuid().as_raw();
    for owner in [fs::symlink_metadata(path)?.uid(), found.uid()] {
        if owner != user && owner != ROOT {
            return Err(refused(format!("it belongs to another user ({owner}; sopan runs as {user})")));
        }
    }
    let mode = found.mode() & 0o7777;
    if mode & WRITABLE_BY_ALL != 0 {
        return Err(refused(format!("every user may write into it (its mode is {mode:o})")));
    }
    if mode & WRITABLE_BY_GROUP != 0 {
        let directory = path.display();
        tracing::warn!(
            %directory,
            "the cache in {directory}: its group may write into it (its mode is {mode:o}), and change what is answered; take \
             that away with chmod g-w"
        );
    }
    Ok(())
}

/// Makes a folder in it, unless it is there.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    match fs::symlink_metadata(path)?.file_type() {
        found if found.is_dir() => Ok(()),
        found if found.is_symlink() => Err(is_link(path)),
        _ => Err(refused(format!("`{}` is no directory", path.display()))),
    }
}

/// Opens a file for reading.
pub(super) fn open(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), path)
}

/// Opens a file for reading and writing, and makes it if it is not there.
pub(super) fn open_or_create(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().read(true).write(true).create(true).truncate(false), path)
}

/// Makes a file for writing, in place of whatever has its name.
pub(super) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true);
    match open_with(options, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            open_with(options, path)
        }
        created => created,
    }
}

fn open_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let no_follow = OFlags::NOFOLLOW.bits().cast_signed();
    options.mode(FILE_MODE).custom_flags(no_follow).open(path).map_err(|error| {
        // Systems call it by different names.
        let is_linked = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
        if is_linked && error.kind() != io::ErrorKind::AlreadyExists { is_link(path) } else { error }
    })
}

fn is_link(path: &Path) -> io::Error {
    refused(format!("`{}` is a symbolic link, which sopan does not follow", path.display()))
}

fn refused(why: String) -> io::Error {
    io::Error::other(why)
}
