//! What does a server do for those who have answers in common?
//!
//! It keeps values that mean nothing to it, by the names of their targets, and for each upstream how far the purges have come:
//! a number that only grows, and that nobody who was away can take for the one that it knew. It refuses what is put by
//! somebody who does not know yet that it was made untrue, tells all of what is, and lets one at a time lead.
//!
//! [`CommonsServer`] is the seam that tests replace. A server that does not answer, or nonsense, is an error; how long one is
//! waited for is for whoever asks to say.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use sopan_core::headers::redact_url;
use tokio::sync::mpsc;

use super::name::{Name, Slot, Tag, Whose};

/// What comes of asking a server.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, CommonsError>> + Send + 'a>>;

/// Why a server is of no use, or not for this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommonsError {
    /// It cannot be asked, or it answers what nobody can make use of.
    #[error("{0}")]
    Lost(String),
    /// It has no room.
    #[error("it has no room: {0}")]
    Full(String),
}

/// Keeps what instances have in common.
pub trait CommonsServer: fmt::Debug + Send + Sync + 'static {
    /// Begins to hear what is told to all. The end of it means that something may have been missed.
    fn listen(&self) -> Reply<'_, mpsc::Receiver<Notice>>;

    /// How far the purges of these upstreams have come. Where the server has lost what an instance knows, it begins anew, and
    /// nothing that it has counts any more.
    fn catch_up<'a>(&'a self, known: &'a [Known]) -> Reply<'a, Vec<CaughtUp>>;

    /// The values for a target and these people. Where there is none, who asks that may lead, if nobody else does.
    fn fetch<'a>(&'a self, of: Target, whose: &'a [Whose], lead: Option<Lead>) -> Reply<'a, Fetched>;

    /// Lets this one lead, if nobody else does.
    fn lead(&self, tag: Tag, lead: Lead) -> Reply<'_, Led>;

    /// It leads no more: who waits for that is told.
    fn let_go(&self, tag: Tag, lead: Lead) -> Reply<'_, ()>;

    /// Keeps a value in place of those in these slots and in its own; false if it may be untrue, because something was purged
    /// of which the number does not know.
    fn put(&self, of: Target, put: Put) -> Reply<'_, bool>;

    /// Drops single values.
    fn remove<'a>(&'a self, of: Target, slots: &'a [Slot]) -> Reply<'a, ()>;

    /// Drops what is in this scope, takes no more of it from who does not know that, and tells all.
    fn make_untrue<'a>(&'a self, tag: Tag, by: u64, scope: &'a Untrue) -> Reply<'a, Step>;
}

/// A target of an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Target {
    /// Which upstream.
    pub tag: Tag,
    /// Which target.
    pub name: Name,
}

/// How far an instance has heard of the purges of an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Which upstream.
    pub tag: Tag,
    /// The number of the last one; 0 if it has heard of none.
    pub number: u64,
    /// Whether it has seen that the server has lost something.
    pub is_in_doubt: bool,
}

/// How far the purges of an upstream have come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaughtUp {
    /// What time it is where its answers are, in microseconds.
    pub time: u64,
    /// What was purged.
    pub purges: Purges,
}

/// What was purged of one upstream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Purges {
    /// The number of the last that was made untrue.
    pub number: u64,
    /// No value counts that was put under a smaller number than this.
    pub all: u64,
    /// The same for the targets below some paths.
    pub below: Vec<(String, u64)>,
}

/// A wish to lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lead {
    /// In which course of equal requests.
    pub course: Name,
    /// By which it is told from all others who lead.
    pub token: u128,
    /// How long at most.
    pub ends_after: Duration,
}

/// Who leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Led {
    /// Who has asked.
    ByMe,
    /// Somebody else, for so long at most.
    ByAnother(Duration),
}

/// What there is for a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// These values.
    Found(Vec<(Slot, Bytes)>),
    /// None; and who leads, where that was asked.
    Nothing(Option<Led>),
}

/// A value that is to be kept.
#[derive(Clone)]
pub struct Put {
    /// In which slot.
    pub slot: Slot,
    /// The value.
    pub value: Bytes,
    /// Which others go.
    pub replaces: Vec<Slot>,
    /// How far the purges had come when it was known to be true.
    pub number: u64,
    /// For how long.
    pub ttl: Duration,
}

/// Shows no answer.
impl fmt::Debug for Put {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Put({} bytes, {}, {:?})", self.value.len(), self.number, self.ttl)
    }
}

/// What is untrue from now on.
#[derive(Clone, PartialEq, Eq)]
pub enum Untrue {
    /// All for this target.
    Target {
        /// By which it is found.
        name: Name,
        /// As clients send it.
        target: String,
    },
    /// All whose path begins with this one, which is one, in whole segments.
    Below(String),
    /// All of the upstream.
    All,
}

impl Untrue {
    /// What its text holds.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Target { target: text, .. } | Self::Below(text) => text.len(),
            Self::All => 0,
        }
    }
}

/// Shows no secret of a query.
impl fmt::Debug for Untrue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target { target, .. } => write!(f, "Target({})", redact_url(target)),
            Self::Below(path) => write!(f, "Below({path})"),
            Self::All => f.write_str("All"),
        }
    }
}

/// From one number to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The number before.
    pub before: u64,
    /// The number now.
    pub number: u64,
}

/// What is told to all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Something was made untrue.
    Untrue {
        /// Of which upstream.
        tag: Tag,
        /// By which instance.
        by: u64,
        /// As which step.
        step: Step,
        /// What.
        scope: Untrue,
    },
    /// Who has led in this course leads no more.
    LetGo(Name),
}
