//! Where do large bodies lie?
//!
//! Each in a file of its own, named by its answer's id, in one of 256 folders. It is written under another name and renamed
//! when it is whole, so that a file that has its name was written to its end. Whether what is read from it later is still
//! what was written, the sums say.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};

use super::own;
use super::record::{BLOCK, Shape, sum_of_block};

/// Added to the name of a file that is being written.
const DRAFT: &str = "-new";

/// The folder of all bodies.
#[derive(Debug)]
pub(super) struct Files {
    folder: PathBuf,
}

impl Files {
    pub(super) fn open(folder: PathBuf) -> io::Result<Self> {
        let files = Self { folder };
        files.make_folder()?;
        Ok(files)
    }

    /// Makes the folder of all of them, unless it is there.
    pub(super) fn make_folder(&self) -> io::Result<()> {
        own::make_folder(&self.folder)
    }

    pub(super) fn path(&self, id: u64) -> PathBuf {
        self.folder.join(format!("{:02x}", id as u8)).join(format!("{id:016x}"))
    }

    /// Begins a file that has no name of its own yet.
    pub(super) fn draft(&self, id: u64) -> io::Result<Draft> {
        let path = self.path(id);
        if let Some(folder) = path.parent() {
            self.make_folder()?;
            own::make_folder(folder)?;
        }
        let mut draft = path.clone().into_os_string();
        draft.push(DRAFT);
        let draft = PathBuf::from(draft);
        let file = own::create(&draft)?;
        Ok(Draft { file, draft, path, is_named: false })
    }

    /// Writes a body that is here.
    pub(super) fn write(&self, id: u64, body: &[u8]) -> io::Result<()> {
        let mut draft = self.draft(id)?;
        draft.append(body)?;
        draft.publish()
    }

    /// A file that is not there need not be removed.
    pub(super) fn remove(&self, id: u64) {
        let _ = fs::remove_file(self.path(id));
    }

    /// Removes what has a name as we give it, but for those that are known.
    pub(super) fn sweep(&self, is_known: impl Fn(u64) -> bool) -> io::Result<()> {
        for folder in fs::read_dir(&self.folder)? {
            let folder = folder?;
            let name = folder.file_name();
            let is_ours = name.to_str().is_some_and(|name| name.len() == 2 && u8::from_str_radix(name, 16).is_ok());
            if !is_ours || !folder.file_type()?.is_dir() {
                continue;
            }
            for file in fs::read_dir(folder.path())? {
                let file = file?;
                let name = file.file_name();
                let Some((id, is_draft)) = name.to_str().and_then(read_name) else { continue };
                if is_draft || !is_known(id) || file.path() != self.path(id) {
                    fs::remove_file(file.path())?;
                }
            }
        }
        Ok(())
    }
}

fn read_name(name: &str) -> Option<(u64, bool)> {
    let (name, is_draft) = name.strip_suffix(DRAFT).map_or((name, false), |name| (name, true));
    let id = u64::from_str_radix(name, 16).ok().filter(|_| name.len() == 16)?;
    Some((id, is_draft))
}

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Draft {
    file: File,
    draft: PathBuf,
    path: PathBuf,
    is_named: bool,
}

impl Draft {
    pub(super) fn append(&mut self, piece: &[u8]) -> io::Result<()> {
        self.file.write_all(piece)
    }

    /// Gives it its name.
    pub(super) fn publish(mut self) -> io::Result<()> {
        fs::rename(&self.draft, &self.path)?;
        self.is_named = true;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_named {
            let _ = fs::remove_file(&self.draft);
        }
    }
}

/// Why bytes of a body cannot be given.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyLost {
    /// It went meanwhile, to make room or because it is no longer true.
    #[error("a stored body is gone")]
    Gone,
    /// It is not what was written.
    #[error("a stored body is not what was written: {0}")]
    Broken(String),
}

impl BodyLost {
    fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Gone,
            _ => Self::Broken(error.to_string()),
        }
    }
}

/// Opens a body for reading.
pub(super) fn open(path: &Path, length: u64) -> Result<File, BodyLost> {
    let file = own::open(path).map_err(|error| BodyLost::of(&error))?;
    let found = file.metadata().map_err(|error| BodyLost::of(&error))?.len();
    if found == length { Ok(file) } else { Err(BodyLost::Broken(format!("{found} bytes instead of {length}"))) }
}

/// Whole blocks of a body, verified.
pub(super) fn read(file: &File, id: u64, shape: &Shape, first: u64, count: u64) -> Result<Bytes, BodyLost> {
    let start = first * BLOCK as u64;
    let end = (start + count * BLOCK as u64).min(shape.length);
    let mut bytes = BytesMut::zeroed((end - start) as usize);
    file.read_exact_at(&mut bytes, start).map_err(|error| BodyLost::of(&error))?;
    for (block, number) in bytes.chunks(BLOCK).zip(first..) {
        if shape.sums.get(number as usize) != Some(&sum_of_block(id, number, block)) {
            return Err(BodyLost::Broken(format!("the sum of block {number} is another one")));
        }
    }
    Ok(bytes.freeze())
}
