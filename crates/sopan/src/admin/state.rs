//! What is going on, as `/state` tells it: for dashboards, `sopan status`, `sopan top`, and whoever asks by program.
//!
//! The types are the contract: what they are serialised to is documented in docs/admin.md and in `openapi.json`, and whoever
//! reads `/state` with another sopan's types finds at least what stands here. Spans are seconds as numbers, and end in `_s`;
//! instants are RFC 3339; nothing has a secret in it. How it is found out is [`gather`](super::gather)'s business.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// All of it, at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// Which sopan it is.
    pub(crate) version: String,
    /// When it was started.
    pub(crate) started: String,
    /// The moment.
    pub(crate) now: String,
    pub(crate) uptime_s: f64,
    /// Whether it takes nothing new and ends soon.
    pub(crate) draining: bool,
    pub(crate) connections: Connections,
    /// Lines of the log that nobody read fast enough.
    pub(crate) log_lines_lost: u64,
    /// Through what limits are shared with other instances; none where they are not.
    pub(crate) store: Option<Shared>,
    /// Where answers are stored; none where no upstream has a cache.
    pub(crate) cache: Option<Store>,
    /// In the order of the settings.
    pub(crate) upstreams: Vec<Upstream>,
    /// Those that ended last, the newest first, at most [`EXCHANGES_MAX`].
    pub(crate) exchanges: Vec<Exchange>,
}

/// Exchanges that are told of.
pub(crate) const EXCHANGES_MAX: usize = 100;
/// Clients that are told of one by one, for each upstream.
pub(crate) const CLIENTS_MAX: usize = 20;

/// Connections of clients.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Connections {
    pub(crate) open: u64,
    pub(crate) max: u64,
}

/// What instances share, and how this one stands to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shared {
    /// `standalone`, `sentinel` or `cluster`.
    pub(crate) kind: String,
    /// Without what is secret in it.
    pub(crate) url: String,
    pub(crate) mode: SharedMode,
    /// How long it has been so.
    pub(crate) since_s: f64,
    /// Instances that are heard of, this one included.
    pub(crate) seen: u32,
    /// Instances for which a share is kept.
    pub(crate) counted: u32,
    /// In how many parts limits are divided while it goes by itself.
    pub(crate) parts: u32,
    /// Questions that were answered since the start.
    pub(crate) round_trips: u64,
    /// How long it took of late; none before there was an answer.
    pub(crate) round_trip_s: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SharedMode {
    /// Limits are kept together.
    Shared,
    /// Nothing is sent but what was promised before.
    Silent,
    /// It keeps to its share by itself.
    Alone,
    /// It refuses.
    Refuse,
    /// It takes the whole limit.
    Ignore,
}

/// Where answers of all upstreams are stored.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Store {
    pub(crate) memory: Memory,
    /// None where answers are stored in memory only.
    pub(crate) disk: Option<Disk>,
    /// None where they are not shared with other instances.
    pub(crate) shared: Option<InCommon>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Memory {
    pub(crate) bytes: u64,
    pub(crate) bytes_max: u64,
    /// For how many targets there are answers.
    pub(crate) targets: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Disk {
    pub(crate) bytes: u64,
    pub(crate) bytes_max: u64,
    pub(crate) answers: u64,
}

/// What answers that are shared with other instances have come to since the start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct InCommon {
    /// Whether they are now: all that is made untrue is heard of.
    pub(crate) in_step: bool,
    /// Times that something was found there that was not at hand.
    pub(crate) found: u64,
    /// Times that nothing was.
    pub(crate) missed: u64,
    /// Answers that were stored there.
    pub(crate) stored: u64,
}

/// One upstream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Upstream {
    pub(crate) name: String,
    /// Without what may be secret in it.
    pub(crate) url: String,
    /// What it takes: `any`, a path, or a host.
    pub(crate) route: String,
    /// Whether it is only observed; limits, hold and breaker are then what they would be.
    pub(crate) observe: bool,
    /// Whether its limits are shared with other instances.
    pub(crate) shared: bool,
    /// Rates before quotas.
    pub(crate) limits: Vec<Limit>,
    /// What may go in a second as it is now: nothing in a hold or while the breaker is open; none where nothing limits it, as a
    /// quota of which some is left does not.
    pub(crate) allowed_per_s: Option<f64>,
    /// What its limits allow in the long run; none where it has none.
    pub(crate) sustained_per_s: Option<f64>,
    /// What was sent over the last 10 s.
    pub(crate) used_per_s: f64,
    /// When a quota will be used up if all goes on as over the last 10 s; none if none will be.
    pub(crate) empty_in_s: Option<f64>,
    pub(crate) queue: Queue,
    pub(crate) places: Places,
    /// None where it is not held.
    pub(crate) hold: Option<Hold>,
    pub(crate) breaker: Breaker,
    pub(crate) retry_budget: RetryBudget,
    /// What the cache did for requests since the start; none where it has none.
    pub(crate) cache: Option<Cached>,
    /// Exchanges that have ended since the start, by the class of their status; `none` for those whose client left before.
    pub(crate) exchanges: BTreeMap<String, u64>,
    /// Attempts since the start, by outcome.
    pub(crate) attempts: BTreeMap<String, u64>,
    /// Requests that sopan answered by itself since the start, by reason; only reasons that there were.
    pub(crate) refusals: BTreeMap<String, u64>,
}

/// A limit, and how much of it is free.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Limit {
    /// As it is written in the settings.
    pub(crate) limit: String,
    pub(crate) kind: LimitKind,
    /// What may leave at once after a quiet time.
    pub(crate) capacity: f64,
    /// What may leave now; less than zero while a debt is paid off.
    pub(crate) free: f64,
    /// The span that a quota counts in; none for a rate.
    pub(crate) window_s: Option<f64>,
    /// When all of it will be free, if nothing more leaves.
    pub(crate) full_in_s: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LimitKind {
    Rate,
    Quota,
}

/// Requests that wait for a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Queue {
    pub(crate) waiting: u64,
    pub(crate) waiting_max: u64,
    /// What they hold.
    pub(crate) bytes: u64,
    pub(crate) bytes_max: u64,
    /// How long a request of a client that has none yet would wait if it came now.
    pub(crate) wait_s: f64,
    /// Those who have most waiting, at most [`CLIENTS_MAX`].
    pub(crate) clients: Vec<Client>,
    /// How many have something waiting.
    pub(crate) clients_total: u64,
}

/// A client that has requests waiting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Client {
    /// Its name in the settings, or else its address, `connection 7`, `header x-team #3fa2`, or `other`.
    pub(crate) name: String,
    pub(crate) waiting: u64,
    pub(crate) weight: u32,
    /// How long one more request of it would wait.
    pub(crate) wait_s: f64,
}

/// Requests under way.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Places {
    pub(crate) used: u32,
    /// None where there may be any number.
    pub(crate) max: Option<u32>,
}

/// Nothing is sent for a while.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hold {
    pub(crate) ends_in_s: f64,
    pub(crate) by: HeldBy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum HeldBy {
    /// The upstream asked for it.
    Upstream,
    /// Somebody did at the admin port.
    Operator,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Breaker {
    pub(crate) state: BreakerState,
    /// When probes will be let through; none unless it is open.
    pub(crate) half_open_in_s: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BreakerState {
    Closed,
    Open,
    HalfOpen,
    /// There is none.
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct RetryBudget {
    /// Retries that the traffic of the last 10 s affords now; none where any number is allowed.
    pub(crate) left: Option<u64>,
}

/// What the cache did for requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cached {
    pub(crate) hit: u64,
    pub(crate) stale: u64,
    pub(crate) revalidated: u64,
    pub(crate) coalesced: u64,
    pub(crate) miss: u64,
    pub(crate) bypass: u64,
    /// Requests that were answered without a token being spent on them.
    pub(crate) tokens_saved: u64,
}

/// An exchange that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Exchange {
    /// Counts them from the start; those of a thousand a second have gaps, since some are left out.
    pub(crate) id: u64,
    /// `none` where it went to none.
    pub(crate) upstream: String,
    /// None where it went to no upstream.
    pub(crate) client: String,
    pub(crate) method: String,
    /// Without what may be secret in it.
    pub(crate) target: String,
    /// None if its client left before there was one.
    pub(crate) status: Option<u16>,
    /// When it arrived.
    pub(crate) began: String,
    pub(crate) total_s: f64,
    pub(crate) wait_s: f64,
    /// How long the upstream took, over all attempts.
    pub(crate) upstream_s: f64,
    pub(crate) attempts: u32,
    /// What the cache did; none where there is none.
    pub(crate) cache: Option<String>,
    /// Bytes of the answer's body that were passed on.
    pub(crate) bytes: u64,
    /// What happened, one after the other: `waited 3.2 s for a token`, `attempt 1`, `429 with Retry-After 2`.
    pub(crate) story: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One with everything in it, as a program might meet it.
    pub(crate) const SAMPLE: &str = include_str!("state/sample.json");

    #[test]
    fn the_sample_is_what_is_told_no_more_and_no_less() {
        let sample: serde_json::Value = serde_json::from_str(SAMPLE).unwrap();
        let state: State = serde_json::from_str(SAMPLE).unwrap();
        assert_eq!(serde_json::to_value(&state).unwrap(), sample);
    }
}
