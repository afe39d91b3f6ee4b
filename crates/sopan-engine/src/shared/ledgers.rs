//! How the store is spoken to: the narrow seam that tests replace.
//!
//! Every question is answered, or failed, within a time of its own; none is asked twice by itself.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use sopan_core::share::{Ask, HoldNews, Leased, Members, TellHold};

use super::Fault;

/// What comes of a question.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'a>>;

/// Where the ledgers of all lanes are, as one instance reaches them.
pub trait Ledgers: fmt::Debug + Send + Sync + 'static {
    /// Asks a lane's ledger for turns.
    fn ask<'a>(&'a self, lane: &'a str, ask: &'a Ask) -> Answer<'a, Leased>;

    /// Lets a lane's ledger, and all who listen, know of a pause or of its end.
    fn hold<'a>(&'a self, lane: &'a str, told: &'a TellHold) -> Answer<'a, ()>;

    /// Says that this instance lives; `known` is how many it knows of, for a store that knows of none.
    fn beat(&self, known: u32) -> Answer<'_, Members>;

    /// Says that it ends.
    fn leave(&self) -> Answer<'_, ()>;

    /// Whether a part of the store can fail by itself.
    fn is_in_parts(&self) -> bool {
        false
    }

    /// Whether this lane's ledger can be asked. `ask` is one that takes nothing, in nobody's name.
    fn probe<'a>(&'a self, lane: &'a str, ask: &'a Ask) -> Answer<'a, ()>;

    /// Tells what others let all know, until that is lost; answers why it was. What is missed meanwhile a lane learns with the
    /// next answer of its ledger.
    fn listen(&self, hear: Hear) -> Pin<Box<dyn Future<Output = Fault> + Send + '_>>;
}

/// Is told which lane is paused, or no longer; must not wait.
pub type Hear = Arc<dyn Fn(String, HoldNews) + Send + Sync>;
