//! What somebody who runs the lane does to it by hand: holds and releases it, opens and closes its breaker.
//!
//! A hold by hand is a hold like any other, with the same bound and the same end. Who may do it, and what is said of it, is the
//! business of whoever asks for it.

use std::time::Duration;

use super::{HeldBy, Lane};
use crate::share::HoldNews;
use crate::time::Instant;

/// The lane has no breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoBreaker;

impl Lane {
    /// Pauses the lane for `wait`, at most `max_hold`, unless it is held for longer already; answers until when it is held.
    pub fn hold_by_hand(&mut self, wait: Duration, now: Instant) -> Instant {
        self.end_hold(now);
        self.hold_by(HeldBy::Operator, wait, now);
        self.hold.unwrap_or(now)
    }

    /// Ends a pause at once, whoever asked for it: one token is there now, or less if there would not be one without the pause,
    /// and the rest follows as after any hold. Answers whether there was one.
    pub fn release(&mut self, now: Instant) -> bool {
        self.end_hold(now);
        if self.hold.is_none() {
            return false;
        }
        self.tokens.release(now);
        if self.sharing().is_some() {
            self.untold = Some(HoldNews::Released);
        }
        self.hold = Some(now);
        self.end_hold(now);
        true
    }

    /// Sends nothing for `open_for`, or for as long as the breaker is open by itself, at most `max_hold`; then probes decide.
    /// Answers until when.
    ///
    /// # Errors
    /// The lane has none.
    pub fn open_breaker(&mut self, open_for: Option<Duration>, now: Instant) -> Result<Instant, NoBreaker> {
        if !self.breaker.is_on() {
            return Err(NoBreaker);
        }
        let open_for = self.policy.hold_for(open_for.unwrap_or(self.breaker.open_for()));
        self.breaker.open_by_hand(open_for, now);
        Ok(now.after(open_for))
    }

    /// Lets traffic flow again; what the upstream did before is forgotten.
    ///
    /// # Errors
    /// The lane has none.
    pub fn close_breaker(&mut self, now: Instant) -> Result<(), NoBreaker> {
        if !self.breaker.is_on() {
            return Err(NoBreaker);
        }
        self.breaker.close_by_hand();
        self.clear_since = self.clear_since.max(now);
        Ok(())
    }
}
