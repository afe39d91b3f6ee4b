//! How do many instances keep to one limit together?
//!
//! What a lane's limits let is a schedule of due times. Where they are shared, a [`Ledger`] beside all instances (in Redis, as
//! a script; here as the same arithmetic) deals that schedule out: an instance [asks](Ask) for a few turns and is
//! [leased](Leased) as many due times, so that all instances together are one schedule. What it was leased it keeps in a [`Book`],
//! which its lane asks where it would have asked its own bucket.
//!
//! - Everything in a ledger is in microseconds of its own clock, as [`Stamp`]s. What an instance knows of that clock it
//!   learns from how long answers take ([`Book`]), so how its own clock is set does not matter, nor how the others' are.
//! - A turn leaves no earlier than its due time and *lapses* a little later ([`LAPSE`]): so in any span at most
//!   `burst + rate · (span + LAPSE)` leave, whatever is delayed, stopped or cut off. Where the way to the ledger and back takes
//!   longer than half of that, it is that way and half of it.
//! - An instance that hears nothing of the ledger any more is told what to do by a [`Contact`]: at first it is silent, then it
//!   goes on alone with its share, which the others leave it meanwhile.
//!
//! Who waits for what in a lane, the breaker, the retry budget and places are each instance's own. How scripts are run, and
//! connections kept, is the business of whoever carries asks and answers.

mod book;
mod contact;
mod ledger;
mod register;
mod server_clock;
mod terms;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use crate::bucket::Fill;
use crate::lane::HeldBy;
pub use book::{Book, Demand};
pub use contact::{Contact, Mode, OnStoreFailure};
pub use ledger::Ledger;
pub use register::Register;
pub use terms::{DayNow, Terms};
pub use wire::{Nonsense, TellHold};

/// A turn that has not left this long after it was due leaves no more. Where a rate has a working burst of 1 it is a tenth of
/// its interval, at least [`LAPSE_MIN`].
pub const LAPSE: Duration = Duration::from_millis(50);
/// The least that a turn has to leave in.
pub const LAPSE_MIN: Duration = Duration::from_millis(2);
/// A ledger leases no turn that is due later than this, so what one instance has asked for keeps nobody else waiting for longer.
pub const HORIZON: Duration = Duration::from_millis(300);
/// Turns in one answer. The ledger stands still for everybody while it deals them out: 256 take it a millisecond.
pub const WANT_MAX: u32 = 256;
/// The longest after which an instance asks again that waits for what its ledger has not.
pub const AGAIN_MAX: Duration = Duration::from_secs(10);
/// So often an instance says that it lives.
pub const BEAT: Duration = Duration::from_millis(200);
/// One that has not said so for this long is unseen: the others leave it its share aside.
pub const UNSEEN_AFTER: Duration = Duration::from_millis(600);
/// After this, one that is cut off goes on alone: by then all others, who look once a [`BEAT`] and hear of it within
/// [`TIMEOUT`], leave it its share, and have used what they were leased before.
pub const ALONE_AFTER: Duration = Duration::from_millis(1200);
/// One that never reached the ledger goes on alone after this: nobody keeps a share for it.
pub const ALONE_AT_START: Duration = Duration::from_millis(500);
/// One that is unseen for this long is counted no more, unless the settings say otherwise.
pub const GRACE: Duration = Duration::from_secs(10);
/// The shortest grace: one that was counted no more before it went [on alone](ALONE_AFTER) would have no share left for it.
pub const GRACE_MIN: Duration = Duration::from_secs(2);
/// One that is cut off tries so often whether it still is.
pub const PROBE: Duration = Duration::from_secs(1);
/// An answer that takes longer is given up, unless the settings say otherwise.
pub const TIMEOUT: Duration = Duration::from_millis(100);
/// Members of one ledger; a store that counts more is not believed.
pub const MEMBERS_MAX: u32 = 4096;

/// An instant on a ledger's clock: microseconds since 1970 as its server counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp(pub u64);

/// The instances that share limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Members {
    /// Who has been seen of late.
    pub seen: u32,
    /// Who counts: those, and those who have been unseen for less than the grace.
    pub counted: u32,
}

impl Members {
    /// One instance by itself.
    pub const ONE: Self = Self { seen: 1, counted: 1 };

    /// As they can be calculated with: at least one seen, none seen that is not counted, and not more than [`MEMBERS_MAX`].
    pub fn sound(self) -> Self {
        let counted = self.counted.clamp(1, MEMBERS_MAX);
        Self { seen: self.seen.clamp(1, counted), counted }
    }
}

/// A turn that was leased: when it is due, and what it may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Granted {
    /// When.
    pub due: Stamp,
    /// Tokens.
    pub cost: u32,
}

/// What an instance asks of a lane's ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Counts the book's asks, from 1. One that is not greater than the last that the ledger heard does nothing.
    pub number: u64,
    /// The last one whose answer came; what was leased in answer to later ones never arrived.
    pub heard: u64,
    /// So many turns.
    pub want: u32,
    /// Each of them for so many tokens.
    pub cost: u32,
    /// Who shares, as this instance knows it.
    pub members: Members,
    /// The limits.
    pub terms: Arc<Terms>,
    /// The present day of each quota of the calendar among them, in their order.
    pub days: Vec<DayNow>,
    /// How much later than it is due a turn may leave that this asks for.
    pub lapse: Duration,
    /// Turns that it was leased and will not use, or could not use in time.
    pub returned: Vec<Granted>,
    /// What it spent while it was alone, if it was.
    pub spent: Option<u64>,
    /// The latest due time that it was ever leased.
    pub last: Option<Stamp>,
    /// After this the ask does nothing: nobody waits for its answer any more. None if the ledger's clock is not known.
    pub valid_until: Option<Stamp>,
}

/// What a ledger answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Leased {
    /// The number of the ask.
    pub number: u64,
    /// Whether the ask did anything: not if it came too late.
    pub is_done: bool,
    /// What the ledger's clock showed.
    pub at: Stamp,
    /// The turns, earliest first; at most as many as were asked for.
    pub due: Vec<Stamp>,
    /// After how long a turn more would be due, whoever got it.
    pub next_in: Duration,
    /// When it is worth to ask again; none if all was leased that was wanted.
    pub again_in: Option<Duration>,
    /// How many instances want more than they get, this one included.
    pub among: u32,
    /// How long the lane is held, and who asked for that.
    pub hold: Option<(Duration, HeldBy)>,
    /// How full each limit is, in the order of the terms: rates before quotas.
    pub fills: Vec<Fill>,
}

/// A change of a lane's hold that the others must be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldNews {
    /// Nothing leaves for so long.
    Held {
        /// How long from now.
        remaining: Duration,
        /// Who asked for it.
        by: HeldBy,
    },
    /// Whatever pause there was is over.
    Released,
}
