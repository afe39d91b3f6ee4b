//! The inputs that are kept, as ordinary tests run them.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// Checks every input of a target, and tells at the end which ones fail; why, each has said by then.
#[track_caller]
pub(crate) fn check(target: &str, property: impl Fn(&[u8])) {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "fuzz", "corpus", target].iter().collect();
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("it is listed").path()).collect();
    files.sort();
    assert!(files.len() > 10, "only {} inputs in {}", files.len(), folder.display());
    files.retain(|file| {
        let input = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        catch_unwind(AssertUnwindSafe(|| property(&input))).is_err()
    });
    assert!(files.is_empty(), "these inputs fail: {files:#?}");
}
