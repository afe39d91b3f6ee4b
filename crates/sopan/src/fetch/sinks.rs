//! What is made of the records that are kept?

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};

use sopan_core::pages::Pointer;

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

/// Why a file's name does not tell what it is to be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameError {
    /// The ending says nothing.
    #[error("`{}` does not say what it is to be; it ends in {}", .0.display(), ENDINGS.join(", "))]
    Unknown(PathBuf),
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
    /// It was to stop.
    #[error("interrupted")]
    Interrupted,
}
