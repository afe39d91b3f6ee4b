//! What is made of the records that are kept?
//!
//! Each output is a function of the part file, in which there is a record a line, and so the same whenever it is made. What has
//! to be moved into its place is made in a draft beside it; a table of a database is changed in one transaction instead.

mod columns;
mod parquet;
mod pressed;
mod record;
mod sqlite;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sopan_core::pages::Pointer;

use super::kept::media::Media;

/// What the output is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sink {
    /// A record a line.
    Lines,
    /// The same, compressed with gzip.
    Gzip,
    /// The same, compressed with Zstandard.
    Zstd,
    /// Columns.
    Parquet,
    /// A table of a SQLite database.
    Sqlite {
        /// Its name.
        table: String,
        /// What of a record tells it from others; none where each run replaces the table.
        key: Vec<Pointer>,
    },
}

/// Why it is not known what the output is to be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameError {
    /// The ending says nothing.
    #[error("`{}` does not say what it is to be; it ends in {}", .0.display(), ENDINGS.join(", "))]
    Unknown(PathBuf),
    /// No field of a record.
    #[error("--key {0}: a key is a field of the record itself, such as `/id`")]
    Key(Pointer),
}

/// What a name can end in.
pub(crate) const ENDINGS: [&str; 7] = [".jsonl", ".ndjson", ".jsonl.gz", ".jsonl.zst", ".parquet", ".db", ".sqlite"];

impl Sink {
    /// What a file of this name is to be.
    ///
    /// # Errors
    /// A name that does not say it.
    pub(crate) fn of(out: &Path, table: &str, key: &[Pointer]) -> Result<Self, NameError> {
        let name = out.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if let Some(key) = key.iter().find(|key| key.names().len() != 1) {
            return Err(NameError::Key(key.clone()));
        }
        let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
        if ends(&[".jsonl", ".ndjson"]) {
            Ok(Self::Lines)
        } else if ends(&[".jsonl.gz", ".ndjson.gz"]) {
            Ok(Self::Gzip)
        } else if ends(&[".jsonl.zst", ".ndjson.zst"]) {
            Ok(Self::Zstd)
        } else if ends(&[".parquet"]) {
            Ok(Self::Parquet)
        } else if ends(&[".db", ".sqlite", ".sqlite3"]) {
            Ok(Self::Sqlite { table: table.to_owned(), key: key.to_vec() })
        } else {
            Err(NameError::Unknown(out.to_owned()))
        }
    }

    /// Makes the output of a part file: what is to be moved to `out` then, if something is.
    pub(super) fn make(&self, part: &Path, out: &Path, progress: &Progress) -> Result<Option<PathBuf>, SinkError> {
        let lines = Lines { part, out, progress };
        let draft = || {
            let mut name = OsString::from(out);
            name.push(".new");
            PathBuf::from(name)
        };
        match self {
            Self::Lines => Ok(Some(part.to_owned())),
            Self::Gzip => lines.write_draft(draft(), pressed::gzip).map(Some),
            Self::Zstd => lines.write_draft(draft(), pressed::zstd).map(Some),
            Self::Parquet => lines.write_draft(draft(), parquet::write).map(Some),
            Self::Sqlite { table, key } => sqlite::write(&lines, table, key).map(|()| None),
        }
    }
}

/// The records of a part file.
#[derive(Debug)]
struct Lines<'a> {
    part: &'a Path,
    out: &'a Path,
    progress: &'a Progress,
}

impl Lines<'_> {
    /// Has a draft written, and sees that it is on the disk.
    fn write_draft(
        &self,
        path: PathBuf,
        write: impl FnOnce(&Self, &mut Media) -> Result<(), SinkError>,
    ) -> Result<PathBuf, SinkError> {
        let failed = |source| SinkError::Io { path: path.clone(), source };
        let mut draft = Media::anew(&path).map_err(failed)?;
        let written = write(self, &mut draft).and_then(|()| draft.sync().map_err(failed));
        match written {
            Ok(()) => Ok(path),
            Err(error) => {
                // It would be made anew anyway.
                let _ = super::kept::media::remove(&path);
                Err(error)
            }
        }
    }

    /// Hands over each line without its end, with its number from 1, and counts it.
    fn each(&self, mut act: impl FnMut(u64, &str) -> Result<(), SinkError>) -> Result<(), SinkError> {
        let failed = |source| SinkError::Io { path: self.part.to_owned(), source };
        let mut lines = BufReader::with_capacity(64 * 1024, File::open(self.part).map_err(failed)?);
        let (mut line, mut number) = (String::new(), 0);
        while lines.read_line(&mut line).map_err(failed)? > 0 {
            number += 1;
            act(number, line.trim_end_matches('\n'))?;
            self.progress.records.store(number, Ordering::Relaxed);
            if self.progress.stop.load(Ordering::Relaxed) {
                return Err(SinkError::Interrupted);
            }
            line.clear();
        }
        Ok(())
    }

    /// Why the output is not written.
    fn failed(&self, source: io::Error) -> SinkError {
        SinkError::Io { path: self.out.to_owned(), source }
    }

    fn misfit(&self, number: u64, why: impl Into<String>) -> SinkError {
        SinkError::Record { number, out: self.out.to_owned(), why: why.into() }
    }
}

/// How far the making of an output is, and whether it is to stop.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Records that are done.
    pub(crate) records: AtomicU64,
    /// Set by who does not want it any more.
    pub(crate) stop: AtomicBool,
}

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Done {
    /// The output.
    pub(crate) out: PathBuf,
    /// How many bytes it has.
    pub(crate) bytes: u64,
    /// How many records.
    pub(crate) records: u64,
    /// Where the records are that were set aside.
    pub(crate) rejects: Option<PathBuf>,
}

/// Why there is no output.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SinkError {
    /// The system does not let us.
    #[error("`{}` cannot be written: {source}", .path.display())]
    Io {
        /// What it is about.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
    /// A record that does not fit.
    #[error("record {number} does not fit into `{}`: {why}", .out.display())]
    Record {
        /// Which one, counted from 1.
        number: u64,
        /// The output.
        out: PathBuf,
        /// Why.
        why: String,
    },
    /// The database is not as it should be.
    #[error("`{}` cannot be written: {why}", .out.display())]
    Table {
        /// The database.
        out: PathBuf,
        /// Why.
        why: String,
    },
    /// Another program has it.
    #[error("`{}` is in use by another program; run this again when it is free: what was fetched is kept", .0.display())]
    Busy(PathBuf),
    /// It was to stop.
    #[error("interrupted")]
    Interrupted,
}
