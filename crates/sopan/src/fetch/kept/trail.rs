//! Where did the traversal stand after the pages since the last sync?
//!
//! A line for each page, with its sum before it. What kill -9 or a power cut leaves of the last ones is not read.

use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use super::entry::Entry;
use super::media::{Media, PRIVATE};

#[derive(Debug)]
pub(super) struct Trail {
    pub(super) path: PathBuf,
    media: Media,
    bytes: u64,
}

impl Trail {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let media = Media::open(path, PRIVATE)?;
        let bytes = media.bytes()?;
        Ok(Self { path: path.to_owned(), media, bytes })
    }

    /// What is there of this run, up to the first line that is not whole.
    pub(super) fn entries(&self, run: u64) -> io::Result<Vec<Entry>> {
        let mut lines = BufReader::new(self.media.read_from(0)?);
        let (mut entries, mut line) = (Vec::new(), Vec::new());
        loop {
            line.clear();
            lines.read_until(b'\n', &mut line)?;
            match entry(&line) {
                Some(entry) if entry.run == run => entries.push(entry),
                _ => return Ok(entries),
            }
        }
    }

    pub(super) fn add(&mut self, entry: &Entry) -> io::Result<()> {
        let json = serde_json::to_string(entry).map_err(io::Error::other)?;
        let line = format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()));
        self.media.put(self.bytes, line.as_bytes())?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Forgets all of it.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        if self.bytes > 0 {
            self.media.cut(0)?;
            self.bytes = 0;
        }
        Ok(())
    }
}

fn entry(line: &[u8]) -> Option<Entry> {
    let (sum, json) = str::from_utf8(line).ok()?.strip_suffix('\n')?.split_once(' ')?;
    let is_whole = u32::from_str_radix(sum, 16).ok()? == crc32fast::hash(json.as_bytes());
    is_whole.then(|| serde_json::from_str(json).ok()).flatten()
}
