//! What is said of a setting that cannot be kept to.

use std::fmt::{self, Display};

/// A setting outside of what is allowed: `jitter is 1.5; allowed is 0 to 1`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {value}; allowed is {allowed}")]
pub struct PolicyError {
    /// The setting, by the name it has in a settings file.
    pub key: &'static str,
    /// What it was set to.
    pub value: String,
    /// What it may be set to.
    pub allowed: Allowed,
}

/// What a setting may be set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// In words: `0 to 1`.
    Words(String),
    /// As much as another setting, which has this value.
    AtLeast(&'static str, String),
    /// More than another setting, which has this value.
    MoreThan(&'static str, String),
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) => f.write_str(words),
            Self::AtLeast(key, value) => write!(f, "{key} ({value}) or more"),
            Self::MoreThan(key, value) => write!(f, "more than {key} ({value})"),
        }
    }
}

impl<T: Into<String>> From<T> for Allowed {
    fn from(words: T) -> Self {
        Self::Words(words.into())
    }
}

/// Gathers all that is wrong with a policy, so that whoever wrote it mends it once.
#[derive(Default)]
pub(super) struct Checks(Vec<PolicyError>);

impl Checks {
    /// Notes that `key` is wrong unless `holds`.
    pub(super) fn require(&mut self, holds: bool, key: &'static str, value: impl Display, allowed: impl Into<Allowed>) {
        if !holds {
            self.0.push(PolicyError { key, value: value.to_string(), allowed: allowed.into() });
        }
    }

    /// All that was noted, in the order of the checks.
    pub(super) fn finish(self) -> Result<(), Vec<PolicyError>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}
