//! How is a file of ours written, and how does it end?
//!
//! At places that are known, never at "the end": what a write that failed left behind is written over by the next one. In tests
//! a fuse of the thread cuts everything off at the n-th change, in the middle of it, as kill -9 does.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use redb::StorageBackend;
use rustix::fs::OFlags;

/// Who may read what is for its owner only; what an output is made of gets what the user's files have.
pub(super) const PRIVATE: u32 = 0o600;
pub(super) const USUAL: u32 = 0o666;

/// A file that is open for reading and writing.
#[derive(Debug)]
pub(in crate::fetch) struct Media {
    pub(super) file: File,
    /// Where the next piece goes of what is written in a row.
    at: u64,
}

impl Media {
    /// Opens it, or makes it; never what a symbolic link leads to.
    pub(in crate::fetch) fn open(path: &Path, mode: u32) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(mode);
        let file = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        Ok(Self { file, at: 0 })
    }

    /// Makes it, in place of one that was left behind.
    pub(in crate::fetch) fn anew(path: &Path) -> io::Result<Self> {
        let made = Self::open(path, USUAL)?;
        made.cut(0)?;
        Ok(made)
    }

    pub(super) fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    pub(super) fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if let Err(cut) = fuse::burn() {
            self.file.write_all_at(&bytes[..bytes.len() / 2 * usize::from(cut.is_first)], at)?;
            return Err(cut.into());
        }
        self.file.write_all_at(bytes, at)
    }

    pub(super) fn cut(&self, bytes: u64) -> io::Result<()> {
        fuse::burn()?;
        self.file.set_len(bytes)
    }

    pub(in crate::fetch) fn sync(&self) -> io::Result<()> {
        fuse::burn()?;
        if fuse::SYNCS { self.file.sync_data() } else { Ok(()) }
    }

    /// What stands from there on.
    pub(super) fn read_from(&self, at: u64) -> io::Result<impl Read> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(at))?;
        Ok(file)
    }
}

impl Write for Media {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(self.at, bytes)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Opened by who has locked it.
impl StorageBackend for Media {
    fn len(&self) -> io::Result<u64> {
        self.bytes()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.cut(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync()
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.put(offset, bytes)
    }
}

/// Gives a file another name, and makes that last.
pub(in crate::fetch) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fuse::burn()?;
    fs::rename(from, to)?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if fuse::SYNCS { File::open(parent)?.sync_all() } else { Ok(()) }
}

/// Takes a file away, if it is there.
pub(in crate::fetch) fn remove(path: &Path) -> io::Result<()> {
    fuse::burn()?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(not(test))]
mod fuse {
    pub(super) const SYNCS: bool = true;

    /// Never made.
    pub(super) struct Cut {
        pub(super) is_first: bool,
    }

    impl From<Cut> for std::io::Error {
        fn from(_: Cut) -> Self {
            Self::other("cut")
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "it can in tests")]
    pub(super) fn burn() -> Result<(), Cut> {
        Ok(())
    }
}

#[cfg(test)]
pub(in crate::fetch) mod fuse {
    use std::cell::Cell;
    use std::io;

    /// No test cuts the power, and many of them would wait for the disk.
    pub(super) const SYNCS: bool = false;

    thread_local! {
        static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// What is cut off; only the first is so in its middle.
    pub(in crate::fetch) struct Cut {
        pub(in crate::fetch) is_first: bool,
    }

    impl From<Cut> for io::Error {
        fn from(_: Cut) -> Self {
            Self::other("cut")
        }
    }

    /// From the change after this many on, nothing of this thread reaches the disk; with none all does.
    pub(in crate::fetch) fn set(left: Option<u64>) {
        LEFT.set(left);
    }

    /// How many of so many changes there were.
    pub(in crate::fetch) fn burnt(of: u64) -> u64 {
        LEFT.get().map_or(0, |left| of.saturating_sub(left))
    }

    /// Whether it has cut.
    pub(in crate::fetch) fn is_burnt() -> bool {
        LEFT.get() == Some(u64::MAX)
    }

    pub(super) fn burn() -> Result<(), Cut> {
        match LEFT.get() {
            None => Ok(()),
            Some(left) if (1..u64::MAX).contains(&left) => {
                LEFT.set(Some(left - 1));
                Ok(())
            }
            Some(left) => {
                LEFT.set(Some(u64::MAX));
                Err(Cut { is_first: left == 0 })
            }
        }
    }
}
