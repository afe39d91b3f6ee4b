//! What `sopan keys new` was asked for, and what a key of ours looks like.

use super::Format;
use super::problem::Wrong;
use super::read::{Check, client_name, one_of};
use crate::cli;

/// How every key begins that sopan makes: who finds one somewhere knows what it is, and so do programs that look for secrets.
pub(crate) const KEY_BEGINS: &str = "sopan_";

/// What `sopan keys new` does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewKey {
    /// Whose key it is.
    pub(crate) name: String,
    pub(crate) format: Format,
}

/// What was typed.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn new_key(typed: &cli::KeysNew) -> Result<NewKey, Wrong> {
    let mut check = Check::default();
    let name = check.read("NAME", &typed.name, client_name);
    let format = check.read("--format", &typed.format, one_of(Format::ALL));
    let keys = name.zip(format).map(|(name, format)| NewKey { name, format });
    check.finish(keys)
}
