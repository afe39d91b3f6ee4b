//! What several instances of the program have in common through a store: the limits of their upstreams, and pauses.
//!
//! A [`Shared`] serves the program. Upstreams join it when they are set up; what they keep to is then said by a ledger in the
//! store, and each lane takes turns out of it ahead of their time. The steward, one task, sees to the conversation: it asks for
//! lanes that want turns, says that the instance lives, hears of pauses that others met, and when the store is gone tells the
//! lanes how to go on. Nobody who is served ever waits for the store.
//!
//! What a lane may do with what it has, and what follows from silence, is `sopan_core::share`'s business; how the store is
//! spoken to, that of [`Ledgers`].

mod look;

use std::time::Duration;

pub use crate::store::redis::{FAULTS, Fault, RedisSettings, RedisSetupError, RedisUrl, RedisUrlError};
pub use look::{StoreLook, StoreMode};

/// How instances share what their upstreams allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedSettings {
    /// Where the store is.
    pub redis: RedisSettings,
    /// How all keys and channels begin; default `sopan`.
    pub prefix: String,
    /// How many instances there are at most: by what an instance divides the limits that it keeps to alone. None, the default,
    /// means the number that was there last, and at first one.
    pub instances: Option<u32>,
    /// How long an instance that is not heard of keeps its share, and one that hears of nobody keeps to it; default 10 s.
    pub grace: Duration,
    /// What it does after that; default `Share`.
    pub on_store_failure: OnStoreFailure,
}

/// What an instance does when the store has been gone for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnStoreFailure {
    /// It goes on keeping to its share.
    Share,
    /// It refuses.
    Refuse,
    /// It takes the whole limit.
    Ignore,
}
