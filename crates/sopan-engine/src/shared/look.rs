//! How is it with the store? For people and for whoever counts.

use std::fmt;
use std::time::Duration;

use sopan_core::share::{Mode, OnStoreFailure};

use super::Fault;

/// The store, as people want to know it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoreLook {
    /// `standalone`, `sentinel` or `cluster`.
    pub kind: &'static str,
    /// Where it is, without what is secret.
    pub url: String,
    /// How this instance stands to it.
    pub mode: StoreMode,
    /// For how long it has stood so.
    pub since: Duration,
    /// Instances that are heard of, this one included.
    pub seen: u32,
    /// Instances for which a share is kept.
    pub counted: u32,
    /// In how many parts limits are divided where it goes by itself: as it was told, else as many as were counted of late.
    pub parts: u32,
    /// Questions that it has answered.
    pub round_trips: u64,
    /// How long it took to answer of late; none before it has answered.
    pub round_trip: Option<Duration>,
}

/// How an instance stands to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreMode {
    /// Limits are kept together with the others.
    Shared,
    /// The store does not answer, and the others may not have noticed: nothing is sent but what was promised before.
    Silent,
    /// It keeps to its share, by itself.
    Alone,
    /// It has waited long enough, and refuses.
    Refuse,
    /// It has waited long enough, and takes the whole limit.
    Ignore,
}

impl StoreMode {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Shared, Self::Silent, Self::Alone, Self::Refuse, Self::Ignore];

    pub(super) fn of(mode: Mode) -> Self {
        match mode {
            Mode::Shared => Self::Shared,
            Mode::Silent => Self::Silent,
            Mode::Alone { .. } | Mode::After { policy: OnStoreFailure::Share, .. } => Self::Alone,
            Mode::After { policy: OnStoreFailure::Refuse, .. } => Self::Refuse,
            Mode::After { policy: OnStoreFailure::Ignore, .. } => Self::Ignore,
        }
    }

    /// As it is called in the settings and everywhere.
    pub fn word(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Silent => "silent",
            Self::Alone => "alone",
            Self::Refuse => "refuse",
            Self::Ignore => "ignore",
        }
    }
}

/// What the store is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trip {
    /// For turns, or how a lane stands.
    Ask,
    /// Who else lives.
    Beat,
    /// To let all know of a pause, or of its end.
    Hold,
    /// To go on without this instance.
    Leave,
}

impl Trip {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ask, Self::Beat, Self::Hold, Self::Leave];

    /// For labels.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Beat => "beat",
            Self::Hold => "hold",
            Self::Leave => "leave",
        }
    }
}

/// Is told of every question to the store.
pub trait StoreObserver: fmt::Debug + Send + Sync + 'static {
    /// It was answered, or not, after so long.
    fn asked(&self, what: Trip, took: Duration, fault: Option<&Fault>);
}

/// Nobody is told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unheard;

impl StoreObserver for Unheard {
    fn asked(&self, _: Trip, _: Duration, _: Option<&Fault>) {}
}
