//! What instances of sopan share, as it is asked for.

use std::path::PathBuf;
use std::time::Duration;

use sopan_engine::shared::{GoingAlone, OnStoreFailure, RedisSettings, RedisUrl, SharedSettings};

/// The same on its way to being asked for.
#[derive(Debug, Clone)]
pub(crate) struct SharedDraft {
    pub(super) url: Option<RedisUrl>,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) prefix: String,
    pub(super) timeout: Duration,
    pub(super) instances: Option<u32>,
    pub(super) grace: Duration,
    pub(super) on_store_failure: OnStoreFailure,
}

pub(crate) const ON_STORE_FAILURE: [(&str, OnStoreFailure); 3] =
    [("share", OnStoreFailure::Share), ("refuse", OnStoreFailure::Refuse), ("ignore", OnStoreFailure::Ignore)];

impl SharedDraft {
    /// Before anything is put.
    pub(super) fn new() -> Self {
        Self {
            url: None,
            ca_file: None,
            prefix: String::new(),
            timeout: Duration::ZERO,
            instances: None,
            grace: Duration::ZERO,
            on_store_failure: OnStoreFailure::Share,
        }
    }

    pub(super) fn made(self) -> Option<SharedSettings> {
        let Self { url, ca_file, prefix, timeout, instances, grace, on_store_failure } = self;
        let redis = RedisSettings { url: url?, ca_file, timeout };
        Some(SharedSettings { redis, prefix, going_alone: GoingAlone { instances, grace, on_store_failure } })
    }
}

/// The beginning of all keys. What has a meaning of its own in keys of a Cluster is not in it.
pub(super) fn prefix(text: &str) -> Result<String, String> {
    const CHARS_MAX: usize = 64;
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    if text.is_empty() || text.len() > CHARS_MAX || !text.bytes().all(is_allowed) {
        return Err(format!(
            "`{text}` is not allowed; write up to {CHARS_MAX} letters, digits, dots, dashes, underscores and colons"
        ));
    }
    Ok(text.to_owned())
}

/// A duration within bounds.
pub(super) fn within(min: Duration, max: Duration) -> impl Fn(&str) -> Result<Duration, String> {
    use sopan_core::policy::{parse_duration, show_duration};

    move |text| {
        let span = parse_duration(text).map_err(|error| error.to_string())?;
        if (min..=max).contains(&span) {
            return Ok(span);
        }
        Err(format!("`{text}` is not allowed; write {} to {}", show_duration(min), show_duration(max)))
    }
}
