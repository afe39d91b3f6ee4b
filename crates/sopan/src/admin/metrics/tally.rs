//! What is counted of one upstream, where it happens: through handles that are kept, so that an exchange costs a few increments
//! and no look-up. How it is shown is the parent's business.

use std::array;
use std::sync::{Arc, OnceLock};

use http::StatusCode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use sopan_core::cache::NotStored;
use sopan_core::cache::status::Detail;
use sopan_core::retry::Outcome;
use sopan_engine::event::{Attempted, Cached, Event, Observer};
use sopan_engine::refusal::REASONS;

use super::clients::ByClient;
use super::observed::WouldBe;
use crate::log::AccessLog;
use crate::serve::number_of;
use crate::traces::Traces;

/// What is counted of one upstream; also writes its access log, since both are told the same.
#[derive(Debug)]
pub(in crate::admin) struct Tally {
    pub(super) upstream: Arc<str>,
    pub(super) attempts: [Counter; ATTEMPTS.len()],
    pub(super) exchanges: [Counter; CLASSES.len()],
    pub(super) refusals: [Counter; REASONS.len()],
    pub(super) cut: Counter,
    pub(super) cached: [Counter; Cached::ALL.len()],
    pub(super) saved: Counter,
    pub(super) not_stored: [Counter; NotStored::ALL.len()],
    pub(super) stale: [Counter; Detail::STALE.len()],
    pub(super) wait: Histogram,
    pub(super) answered_in: Histogram,
    pub(super) total: Histogram,
    pub(super) would_be: WouldBe,
    /// What is counted of clients, wherever their requests go.
    clients: Arc<ByClient>,
    /// Attempts for each of those.
    pub(super) by_client: Box<[Counter]>,
    access_log: Option<AccessLog>,
    traces: OnceLock<Traces>,
}

/// How attempts end; where in the list is told by [`attempt`].
pub(super) const ATTEMPTS: [&str; 10] =
    ["2xx", "3xx", "4xx", "429", "5xx", "not_sent", "broken", "timed_out", "left", "stale"];

fn attempt(attempted: Attempted<'_>) -> usize {
    let outcome = match attempted {
        Attempted::Ended(outcome) => outcome,
        Attempted::Left => return 8,
        Attempted::Stale => return 9,
    };
    match outcome {
        Outcome::Answered { status, .. } => match status.as_u16() {
            ..300 => 0,
            300..400 => 1,
            429 => 3,
            400..500 => 2,
            // A status of 600 or above is a server's error, RFC 9110 §15.
            500.. => 4,
        },
        Outcome::NotSent => 5,
        Outcome::Broken => 6,
        Outcome::TimedOut => 7,
    }
}

/// Classes of the statuses that clients got, the first for those that ended before there was one; where in the list is told
/// by [`class`].
pub(super) const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

fn class(status: Option<StatusCode>) -> usize {
    status.map_or(0, |status| (usize::from(status.as_u16()) / 100).clamp(1, CLASSES.len() - 1))
}

/// Where the reason of a refusal stands in the engine's list.
fn refusal(reason: &str) -> Option<usize> {
    REASONS.iter().position(|known| *known == reason)
}

/// From what nobody notices to what `total_timeout` allows.
pub(super) const SECONDS: [f64; 16] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];

impl Tally {
    pub(super) fn new(upstream: Arc<str>, clients: Arc<ByClient>, access_log: Option<AccessLog>) -> Self {
        Self {
            upstream,
            attempts: array::from_fn(|_| Counter::default()),
            exchanges: array::from_fn(|_| Counter::default()),
            refusals: array::from_fn(|_| Counter::default()),
            cut: Counter::default(),
            cached: array::from_fn(|_| Counter::default()),
            saved: Counter::default(),
            not_stored: array::from_fn(|_| Counter::default()),
            stale: array::from_fn(|_| Counter::default()),
            wait: Histogram::new(SECONDS),
            answered_in: Histogram::new(SECONDS),
            total: Histogram::new(SECONDS),
            would_be: WouldBe::default(),
            by_client: clients.counters(),
            clients,
            access_log,
            traces: OnceLock::new(),
        }
    }

    /// Has exchanges that are recorded told there; once only.
    pub(super) fn trace_to(&self, traces: &Traces) {
        let first = self.traces.set(traces.clone()).is_ok();
        debug_assert!(first, "traces go to one place");
    }
}

impl Observer for Tally {
    fn attempted(&self, attempted: Attempted<'_>) {
        self.attempts[attempt(attempted)].inc();
    }

    fn ended(&self, event: &Event<'_>) {
        self.exchanges[class(event.status)].inc();
        if let Some(reason) = event.refused.and_then(refusal) {
            self.refusals[reason].inc();
        }
        if !event.whole {
            self.cut.inc();
        }
        if let Some(cached) = event.cache {
            self.cached[cached as usize].inc();
            self.saved.inc_by(event.saved_a_token().into());
        }
        let reason = match event.cache_detail {
            Some(Detail::NotStored(why)) => self.not_stored.get(why as usize),
            Some(why) => Detail::STALE.iter().position(|known| *known == why).map(|at| &self.stale[at]),
            None => None,
        };
        reason.map(Counter::inc);
        self.wait.observe(event.wait.as_secs_f64());
        // Nothing is that quick: where it is zero nothing was sent, and the upstream took no time to answer it.
        if !event.upstream.is_zero() {
            self.answered_in.observe(event.upstream.as_secs_f64());
        }
        self.total.observe(event.total.as_secs_f64());
        if let Some(observed) = event.observed {
            self.would_be.ended(observed);
        }
        if let Some(sent) = number_of(event.client).and_then(|number| self.by_client.get(number)) {
            sent.inc_by(event.attempts.into());
        }
        let client = self.clients.ended(event);
        if let Some(log) = &self.access_log {
            log.tell(&self.upstream, client, event);
        }
        if event.trace.is_some()
            && let Some(traces) = self.traces.get()
        {
            traces.tell(&self.upstream, event);
        }
    }
}
