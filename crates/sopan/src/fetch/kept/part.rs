//! A file to which each page adds its lines.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::media::{Media, USUAL};

/// How far a file reaches after a page, and the sum of what that page added, by which it is known to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Reach {
    pub(super) bytes: u64,
    pub(super) sum: u32,
}

#[derive(Debug)]
pub(super) struct Part {
    pub(super) path: PathBuf,
    /// There from the first line on.
    media: Option<Media>,
    pub(super) reach: Reach,
}

impl Part {
    /// What is there of it; nothing is made yet.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let media = if path.symlink_metadata().is_ok() { Some(Media::open(path, USUAL)?) } else { None };
        Ok(Self { path: path.to_owned(), media, reach: Reach::default() })
    }

    /// How many bytes are there; none if there is no such file.
    pub(super) fn there(&self) -> io::Result<Option<u64>> {
        self.media.as_ref().map(Media::bytes).transpose()
    }

    /// Whether what is to stand between two reaches does.
    pub(super) fn holds(&self, from: Reach, to: Reach) -> io::Result<bool> {
        let Some(length) = to.bytes.checked_sub(from.bytes) else { return Ok(false) };
        let Some(media) = &self.media else { return Ok(length == 0) };
        let mut rest = media.read_from(from.bytes)?.take(length);
        let (mut sum, mut read) = (crc32fast::Hasher::new(), 0);
        let mut piece = vec![0; 64 * 1024];
        loop {
            match rest.read(&mut piece)? {
                0 => return Ok(read == length && sum.finalize() == to.sum),
                count => {
                    sum.update(&piece[..count]);
                    read += count as u64;
                }
            }
        }
    }

    /// Forgets what stands beyond.
    pub(super) fn cut_to(&mut self, reach: Reach) -> io::Result<()> {
        self.reach = reach;
        match &self.media {
            Some(media) if media.bytes()? > reach.bytes => media.cut(reach.bytes),
            _ => Ok(()),
        }
    }

    /// Adds lines. What it reaches then is to be said only when the page is kept.
    pub(super) fn add(&mut self, lines: &[u8]) -> io::Result<Reach> {
        if !lines.is_empty() {
            let at = self.reach.bytes;
            self.make()?.put(at, lines)?;
        }
        Ok(Reach { bytes: self.reach.bytes + lines.len() as u64, sum: crc32fast::hash(lines) })
    }

    /// Makes the file, unless it is there.
    pub(super) fn make(&mut self) -> io::Result<&Media> {
        if self.media.is_none() {
            self.media = Some(Media::anew(&self.path)?);
        }
        self.media.as_ref().ok_or_else(|| io::Error::other("it was not made"))
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.media.as_ref().map_or(Ok(()), Media::sync)
    }
}
