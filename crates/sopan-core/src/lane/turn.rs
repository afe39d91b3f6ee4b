//! The permission to send one request, and how far it has come.

use crate::breaker::{Health, Permit};
use crate::queue::ClientId;
use crate::time::Instant;

/// The permission to send one request.
#[derive(Debug)]
#[must_use = "a turn that is not finished keeps its place for ever"]
pub struct Turn {
    pub(super) client: ClientId,
    pub(super) cost: u32,
    /// Of which client's own limits it has taken, beside the lane's.
    pub(super) own: Option<u32>,
    /// When it could first have gone; none if it never waited.
    pub(super) due: Option<Instant>,
    /// It must not be written from then on; never, where the lane's limits are its own.
    pub(super) lapses: Instant,
    pub(super) permit: Permit,
    pub(super) holds: u64,
    pub(super) round: Option<u64>,
    pub(super) since: Instant,
    pub(super) stage: Stage,
    /// How the upstream was, once its answer has come.
    pub(super) health: Health,
}

/// How far a turn has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Reserved,
    Written,
    Answered,
}

impl Turn {
    /// Whether it waited in the line.
    pub(super) fn has_waited(&self) -> bool {
        self.due.is_some()
    }

    /// When it lapses, where the lane's limits are shared: from then on it must not be written, and is to be finished. Never
    /// where they are not.
    pub fn lapses(&self) -> Instant {
        self.lapses
    }

    /// The number of holds when it was granted; if [`Lane::holds`](super::Lane::holds) has grown since, it must not be written any more.
    pub fn holds(&self) -> u64 {
        self.holds
    }
}
