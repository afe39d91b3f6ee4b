//! What is remembered after a page.

use serde::{Deserialize, Serialize};

use super::part::Reach;
use crate::fetch::stand::Stand;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// By what the entries of a traversal are told from those of one before it.
    pub(super) run: u64,
    pub(super) part: Reach,
    pub(super) rejects: Reach,
    pub(super) stand: Stand,
}

impl Entry {
    /// Nothing yet.
    pub(super) fn begin(run: u64) -> Self {
        Self { run, part: Reach::default(), rejects: Reach::default(), stand: Stand::default() }
    }
}
