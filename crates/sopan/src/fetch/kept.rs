//! What of a traversal is on the disk, and where does it go on?

use std::io;
use std::path::PathBuf;

use super::sinks::{Done, Progress, Sink, SinkError};
use super::stand::{JobDigest, Past, Stand};

/// Where a traversal is kept, and whose it is.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The output.
    pub(crate) out: PathBuf,
    /// What is asked for.
    pub(crate) job: JobDigest,
}

/// Why nothing can be kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeptError {
    /// Another run has it.
    #[error("another run writes to `{}`; wait for its end, or name another output", .0.display())]
    Taken(PathBuf),
    /// What is there belongs to another job.
    #[error(
        "`{}` is the state of another job: {}; name another output, or begin anew with --restart, which forgets it",
        .state.display(), .differences.join(", ")
    )]
    OtherJob {
        /// Its state.
        state: PathBuf,
        /// In what it differs.
        differences: Vec<String>,
    },
    /// What is there cannot be understood.
    #[error("`{}` cannot be used: {why}; begin anew with --restart, which forgets it", .state.display())]
    Broken {
        /// The state.
        state: PathBuf,
        /// Why.
        why: String,
    },
    /// The system does not let us.
    #[error("`{}` cannot be {what}: {source}", .path.display())]
    Io {
        /// What it is about.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What it says.
        source: io::Error,
    },
}

/// What is there of a traversal.
#[derive(Debug)]
pub(crate) struct Kept {}

impl Kept {
    /// Opens what is there, and tells where the traversal stands; none if it begins. With `restart` it begins anyway.
    ///
    /// # Errors
    /// Nothing was changed then.
    pub(crate) fn open(_place: &Place, _restart: bool) -> Result<(Self, Option<Stand>), KeptError> {
        Err(KeptError::Taken(PathBuf::new()))
    }

    /// By what it is known which pages were asked for.
    ///
    /// # Errors
    /// A state that cannot be read.
    pub(crate) fn asked(&self) -> Result<Vec<u64>, KeptError> {
        Ok(Vec::new())
    }

    /// What the last run of this job that became whole left.
    pub(crate) fn past(&self) -> Option<&Past> {
        None
    }

    /// Keeps a page: its good records and those that were set aside, one a line, each line with its end.
    ///
    /// # Errors
    /// The page is not kept then; all pages before it are.
    pub(crate) fn page(&mut self, _lines: &[u8], _rejects: &[u8], _stand: &Stand) -> io::Result<()> {
        Ok(())
    }

    /// Makes the output. Takes as long as that; `progress` tells how far it is, and can stop it.
    ///
    /// # Errors
    /// All pages are still kept then: the next run makes the output without a request.
    pub(crate) fn finish(self, _sink: &Sink, _progress: &Progress) -> Result<Done, SinkError> {
        Err(SinkError::Interrupted)
    }
}
