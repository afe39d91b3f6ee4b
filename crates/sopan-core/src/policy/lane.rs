//! What a lane keeps to: its limits, and the bounds of its queue.

use std::time::Duration;

use super::{Limit, Margin};

/// The settings of a lane. The defaults are those of a proxy in front of one API.
#[derive(Debug, Clone, PartialEq)]
pub struct LanePolicy {
    /// All of them are kept to; none means unlimited.
    pub limits: Vec<Limit>,
    /// How much of a burst of 2 or more is left unused, so that two requests which bunch up on the way still fit; default 1.
    pub headroom: u32,
    /// The share of every rate that is left unused, since two clocks never run alike; default 0.1 %.
    pub rate_margin: Margin,
    /// Requests that wait at once, default 1000. With 0 nobody waits: what cannot leave at once is refused.
    pub waiting_max: u32,
    /// Bytes of heads and bodies that waiting requests hold together, default 64 MiB.
    pub queue_bytes_max: u64,
    /// The longest stay in the queue, default 30 s; none means no bound.
    pub wait_max: Option<Duration>,
    /// Requests that are under way at once, from the turn to the end of the answer; none, the default, means no bound.
    pub max_in_flight: Option<u32>,
    /// The longest hold, default 1 h: an epoch sent by mistake must not close a lane for decades.
    pub max_hold: Duration,
}

/// The most limits that one lane takes; every one of them is looked at for every request.
pub const LIMITS_MAX: usize = 16;

impl Default for LanePolicy {
    fn default() -> Self {
        let limit = "10/s burst 20".parse().expect("the default limit is written as limits are");
        Self {
            limits: vec![limit],
            headroom: 1,
            rate_margin: Margin::default(),
            waiting_max: 1000,
            queue_bytes_max: 64 * 1024 * 1024,
            wait_max: Some(Duration::from_secs(30)),
            max_in_flight: None,
            max_hold: Duration::from_secs(3600),
        }
    }
}

/// Settings of a lane that cannot be kept to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LanePolicyError {
    /// Nothing would ever leave.
    #[error("max_in_flight is 0, so nothing would ever leave; allowed are 1 or more, or unlimited")]
    NoPlaces,
    /// More limits than anybody's API has.
    #[error("{0} limits are too many; allowed are up to {LIMITS_MAX} for one upstream")]
    TooManyLimits(usize),
}

impl LanePolicy {
    /// Whether the lane can be run with these settings.
    ///
    /// # Errors
    /// The first that cannot be kept to.
    pub fn validate(&self) -> Result<(), LanePolicyError> {
        if self.max_in_flight == Some(0) {
            return Err(LanePolicyError::NoPlaces);
        }
        if self.limits.len() > LIMITS_MAX {
            return Err(LanePolicyError::TooManyLimits(self.limits.len()));
        }
        Ok(())
    }
}
