//! What is said of a setting that cannot be kept to.

use std::fmt::Display;

/// A setting outside of what is allowed: `jitter is 1.5; allowed is 0 to 1`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {value}; allowed is {allowed}")]
pub struct PolicyError {
    /// The setting, by the name it has in a settings file.
    pub key: &'static str,
    /// What it was set to.
    pub value: String,
    /// What it may be set to, in words.
    pub allowed: String,
}

/// Gathers all that is wrong with a policy, so that whoever wrote it mends it once.
#[derive(Default)]
pub(super) struct Checks(Vec<PolicyError>);

impl Checks {
    /// Notes that `key` is wrong unless `holds`.
    pub(super) fn require(&mut self, holds: bool, key: &'static str, value: impl Display, allowed: impl Into<String>) {
        if !holds {
            self.0.push(PolicyError { key, value: value.to_string(), allowed: allowed.into() });
        }
    }

    /// All that was noted, in the order of the checks.
    pub(super) fn finish(self) -> Result<(), Vec<PolicyError>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}
