//! What is in the file of a credential?

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use super::BYTES_MAX;

/// Why it cannot be read.
pub(super) struct Unreadable(pub(super) String);

/// All of it, and not much more than a credential can have. It is read whole each time: what a file system tells of times can
/// be the same before and after a change.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Unreadable> {
    let unreadable = |error: std::io::Error| Unreadable(error.to_string());
    // Nobody may ever write into a pipe.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(Unreadable("it is no plain file, so it cannot be read again".to_owned()));
    }
    let mut bytes = Vec::new();
    // With line breaks behind it.
    File::open(path).and_then(|file| file.take(BYTES_MAX as u64 + 3).read_to_end(&mut bytes)).map_err(unreadable)?;
    Ok(bytes)
}
