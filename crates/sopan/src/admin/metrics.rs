//! What is counted, and how it is shown: OpenMetrics, all names beginning with `sopan_`, and with `process_` what any program tells.
//!
//! What happens is counted where it happens, by upstream, through handles that are kept, so that an exchange costs a few
//! increments and no look-up. What is, a queue, a hold, a breaker, is read from the upstreams when somebody asks. The labels
//! are fixed here and by the settings; nothing that comes over a wire ever becomes one.

mod clients;
mod family;
mod lanes;
mod observed;
mod program;
mod shared;
mod store;
mod tally;
mod totals;

use std::sync::{Arc, Weak};

use prometheus_client::encoding::text;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use sopan_core::cache::NotStored;
use sopan_core::cache::status::Detail;
use sopan_engine::event::{Cached, NO_UPSTREAM, Observer};
use sopan_engine::refusal::REASONS;
use sopan_engine::shared::Shared;
use sopan_engine::{Cache, Upstream};

use crate::log::AccessLog;
use crate::traces::{Counts, Traces};
use crate::version;
use clients::ByClient;
use family::{ByUpstream, Counters};
pub(crate) use lanes::Bounds;
use lanes::Lanes;
pub(crate) use program::Program;
pub(crate) use shared::Trips;
use tally::{ATTEMPTS, CLASSES, Tally};
pub(super) use totals::Totals;

/// Everything that is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    upstreams: Vec<Arc<Tally>>,
    /// What goes to no upstream.
    none: Arc<Tally>,
    lanes: Lanes,
    cache: store::Watched,
    shared: shared::Watched,
    program: program::Watched,
    traces: Counts,
}

impl Metrics {
    /// Nothing has happened yet; every counter is there from the start, at zero. `names` are those of the upstreams.
    pub(crate) fn new(names: impl IntoIterator<Item = String>, access_log: Option<AccessLog>) -> Arc<Self> {
        Self::with_clients(names, [], access_log)
    }

    /// The same where clients have keys, in the order of the settings.
    pub(crate) fn with_clients(
        names: impl IntoIterator<Item = String>,
        clients: impl IntoIterator<Item = String>,
        access_log: Option<AccessLog>,
    ) -> Arc<Self> {
        let clients = Arc::new(ByClient::new(clients));
        let tally = |name: String| Arc::new(Tally::new(name.into(), Arc::clone(&clients), access_log.clone()));
        let upstreams: Vec<_> = names.into_iter().map(tally).collect();
        let none = Arc::new(Tally::new(NO_UPSTREAM.into(), Arc::clone(&clients), access_log));
        let lanes = Lanes::new(upstreams.iter().map(|tally| &tally.upstream));
        let mut whole = Registry::default();
        let program = program::Watched::default();
        whole.register_collector(Box::new(program::Process(program.clone())));
        let registry = whole.sub_registry_with_prefix("sopan");
        let build = Info::new([("version", version::NUMBER), ("commit", version::COMMIT.unwrap_or("unknown"))]);
        registry.register("build", "The version that runs, and the commit that it was built from", build);
        let all: Vec<_> = upstreams.iter().chain([&none]).map(Arc::clone).collect();
        register(registry, &upstreams, &all);
        clients.register(registry);
        let traces = Counts::default();
        let help = "Spans of traces that were delivered";
        registry.register("trace_spans_sent", help, traces.sent.clone());
        let help = "Spans of traces that found no room, or nobody who took them";
        registry.register("trace_spans_lost", help, traces.lost.clone());
        registry.register_collector(Box::new(observed::Shown::new(&upstreams)));
        registry.register_collector(Box::new(lanes.clone()));
        let cache = store::Watched::default();
        registry.register_collector(Box::new(cache.clone()));
        let shared = shared::Watched::default();
        registry.register_collector(Box::new(shared.clone()));
        registry.register_collector(Box::new(program.clone()));
        Arc::new(Self { registry: whole, upstreams, none, lanes, cache, shared, program, traces })
    }

    /// Who counts what becomes of exchanges with the upstream of this number.
    pub(crate) fn observer(&self, number: usize) -> Arc<dyn Observer> {
        Arc::clone(&self.upstreams[number]) as _
    }

    /// Who counts what goes to no upstream.
    pub(crate) fn none(&self) -> Arc<dyn Observer> {
        Arc::clone(&self.none) as _
    }

    /// What is counted of traces.
    pub(crate) fn of_traces(&self) -> Counts {
        self.traces.clone()
    }

    /// Has exchanges that are recorded told there; once only.
    pub(crate) fn trace_to(&self, traces: &Traces) {
        for tally in self.upstreams.iter().chain([&self.none]) {
            tally.trace_to(traces);
        }
    }

    /// Shows from now on what the upstream of this number is like, as long as it lives; once only.
    pub(crate) fn watch(&self, number: usize, upstream: Weak<Upstream>, bounds: Bounds) {
        if upstream.upgrade().is_some_and(|upstream| upstream.is_only_observed()) {
            self.upstreams[number].would_be.show();
        }
        self.lanes.watch(number, upstream, bounds);
    }

    /// Shows from now on how full the cache is, as long as it lives; once only.
    pub(crate) fn watch_cache(&self, cache: &Arc<Cache>) {
        self.cache.watch(Arc::downgrade(cache));
    }

    /// Who counts what is asked of the store that instances share.
    pub(crate) fn of_store() -> Arc<Trips> {
        Arc::default()
    }

    /// Shows from now on how it is with that store, as long as it is used; once only.
    pub(crate) fn watch_shared(&self, shared: &Arc<Shared>, trips: Arc<Trips>) {
        self.shared.watch(Arc::downgrade(shared), trips);
    }

    /// Shows from now on what the program is like; once only.
    pub(crate) fn watch_program(&self, program: Program) {
        self.program.watch(program);
    }

    /// All of it as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::with_capacity(16 * 1024);
        text::encode(&mut text, &self.registry).expect("a string takes everything");
        text
    }
}

/// What is counted has its names; attempts have only `upstreams`, exchanges `all`.
fn register(registry: &mut Registry, upstreams: &[Arc<Tally>], all: &[Arc<Tally>]) {
    let help = "Attempts to send a request upstream, by what came of them; left if nobody waited for it any more";
    registry.register("attempts", help, Counters::new(upstreams, |tally| &tally.attempts, "outcome", ATTEMPTS));
    let help =
        "Requests of clients that have ended, by the class of the status that they got; none if they ended before";
    registry.register("exchanges", help, Counters::new(all, |tally| &tally.exchanges, "status", CLASSES));
    let help = "Requests of clients that sopan answered by itself, by reason";
    registry.register("refusals", help, Counters::new(all, |tally| &tally.refusals, "reason", REASONS));
    let help = "Requests of clients whose answer was not passed on to its end";
    registry.register("cut_off", help, ByUpstream::new(upstreams, MetricType::Counter, |tally| tally.cut.clone()));
    let help = "Requests of clients to an upstream with a cache, by what that did for them";
    let words = Cached::ALL.map(Cached::word);
    registry.register("cache_requests", help, Counters::new(upstreams, |tally| &tally.cached, "result", words));
    let help = "Requests of clients that were answered without a token being spent on them";
    let saved = ByUpstream::new(upstreams, MetricType::Counter, |tally: &Tally| tally.saved.clone());
    registry.register("cache_tokens_saved", help, saved);
    let help = "Answers that were passed on and not stored, by the reason";
    let reasons = NotStored::ALL.map(NotStored::word);
    registry.register("cache_not_stored", help, Counters::new(upstreams, |tally| &tally.not_stored, "reason", reasons));
    let help = "Answers that were given from store though they were stale, by the reason";
    let reasons = Detail::STALE.map(Detail::word);
    registry.register("cache_stale", help, Counters::new(upstreams, |tally| &tally.stale, "reason", reasons));
    let mut seconds = |name, help, of: &[Arc<Tally>], histogram: fn(&Tally) -> Histogram| {
        registry.register_with_unit(name, help, Unit::Seconds, ByUpstream::new(of, MetricType::Histogram, histogram));
    };
    let help = "How long requests waited: for turns, and before retries";
    seconds("wait", help, upstreams, |tally| tally.wait.clone());
    let help = "How long the upstream took, over all attempts of a request, where one was sent";
    seconds("upstream", help, upstreams, |tally| tally.answered_in.clone());
    let help = "From the arrival of a request to the end of its answer";
    seconds("exchange", help, all, |tally| tally.total.clone());
}

#[cfg(test)]
pub(super) mod tests;
