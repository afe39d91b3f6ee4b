//! What a lane keeps to: its limits, and the bounds of its queue.

use std::time::Duration;

use super::error::Checks;
use super::{Limit, Margin, PolicyError};
use crate::queue::ClientId;

/// The settings of a lane. The defaults are those of a proxy in front of one API.
#[derive(Debug, Clone, PartialEq)]
pub struct LanePolicy {
    /// All of them are kept to; none means unlimited.
    pub limits: Vec<Limit>,
    /// Limits that single clients have beside those; none by default.
    pub clients: Vec<ClientLimits>,
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
    /// The longest hold, more than zero, default 1 h: an epoch sent by mistake must not close a lane for decades.
    pub max_hold: Duration,
}

/// What one client keeps to within a lane, whatever the lane has free.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientLimits {
    /// Whose they are.
    pub client: ClientId,
    /// What the client is called: what was used of its quotas is kept under that name.
    pub name: String,
    /// All of them are kept to, together with the lane's; none means that only the lane's are.
    pub limits: Vec<Limit>,
}

/// The most limits that one lane takes, and one client within it; every one of them is looked at for every request.
pub const LIMITS_MAX: usize = 16;
/// The most clients of a lane that may have limits of their own: a list of settings is not longer.
pub const CLIENT_LIMITS_MAX: usize = 10_000;

impl Default for LanePolicy {
    fn default() -> Self {
        let limit = "10/s burst 20".parse().expect("the default limit is written as limits are");
        Self {
            limits: vec![limit],
            clients: Vec::new(),
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

impl LanePolicy {
    /// How long the lane is held where `wait` was asked for.
    pub fn hold_for(&self, wait: Duration) -> Duration {
        wait.min(self.max_hold)
    }

    /// Whether these settings can be kept to.
    ///
    /// # Errors
    /// Everything that is outside of what is allowed, each with its key, its value and what is allowed.
    pub fn validate(&self) -> Result<(), Vec<PolicyError>> {
        let mut checks = Checks::default();
        checks.require(self.max_in_flight != Some(0), "max_in_flight", 0, "1 or more, or unlimited");
        let limits = self.limits.len();
        let of_them = format!("{limits} of them");
        checks.require(limits <= LIMITS_MAX, "limits", of_them, format!("up to {LIMITS_MAX}"));
        let most = self.clients.iter().map(|client| client.limits.len()).max().unwrap_or(0);
        checks.require(
            most <= LIMITS_MAX,
            "limits of a client",
            format!("{most} of them"),
            format!("up to {LIMITS_MAX}"),
        );
        let (clients, mut ids) =
            (self.clients.len(), self.clients.iter().map(|client| client.client).collect::<Vec<_>>());
        let of_them = format!("{clients} that have limits");
        checks.require(clients <= CLIENT_LIMITS_MAX, "clients", of_them, format!("up to {CLIENT_LIMITS_MAX}"));
        ids.sort_unstable();
        ids.dedup();
        checks.require(ids.len() == clients, "clients", "one given twice", "each once");
        // Without holds a 429 would be met again and again.
        checks.require(!self.max_hold.is_zero(), "max_hold", "0s", "more than zero");
        checks.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_as_documented_and_allowed() {
        let policy = LanePolicy::default();
        assert_eq!(policy.validate(), Ok(()));
        assert_eq!(policy.limits, ["10/s burst 20".parse().unwrap()]);
        assert!(policy.clients.is_empty());
        assert_eq!((policy.headroom, policy.rate_margin.millionths()), (1, 1000));
        assert_eq!((policy.waiting_max, policy.queue_bytes_max, policy.max_in_flight), (1000, 64 << 20, None));
        assert_eq!((policy.wait_max, policy.max_hold), (Some(Duration::from_secs(30)), Duration::from_secs(3600)));
    }

    #[test]
    fn what_cannot_be_kept_to_is_refused() {
        let limits = vec!["1/s".parse().unwrap(); 17];
        let of = |client, limits: &[Limit]| ClientLimits {
            client: ClientId(client),
            name: client.to_string(),
            limits: limits.to_vec(),
        };
        let policy = LanePolicy {
            max_in_flight: Some(0),
            clients: vec![of(1, &limits), of(2, &limits[..16]), of(1, &[])],
            limits,
            max_hold: Duration::ZERO,
            ..LanePolicy::default()
        };
        let wrong: Vec<_> = policy.validate().unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(
            wrong,
            [
                "max_in_flight is 0; allowed is 1 or more, or unlimited",
                "limits is 17 of them; allowed is up to 16",
                "limits of a client is 17 of them; allowed is up to 16",
                "clients is one given twice; allowed is each once",
                "max_hold is 0s; allowed is more than zero",
            ]
        );
    }
}
