//! What is counted, and how it is shown: OpenMetrics, all names beginning with `sopan_`.
//!
//! What happens is counted where it happens, by upstream, through handles that are kept, so that an exchange costs a few
//! increments and no look-up. What is, a queue, a hold, a breaker, is read from the upstreams when somebody asks. The labels
//! are fixed here and by the settings; nothing that comes over a wire ever becomes one.

mod clients;
mod observed;
mod store;
mod totals;

use std::array;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use http::StatusCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use sopan_core::breaker::State;
use sopan_core::bucket::Fill;
use sopan_core::cache::NotStored;
use sopan_core::cache::status::Detail;
use sopan_core::lane::Snapshot;
use sopan_core::retry::Outcome;
use sopan_engine::event::{Attempted, Cached, Event, NO_UPSTREAM, Observer};
use sopan_engine::refusal::REASONS;
use sopan_engine::{Cache, Upstream};

use crate::log::{self, AccessLog};
use crate::traces::{Counts, Traces};
use crate::version;
use clients::ByClient;
use observed::WouldBe;
pub(super) use totals::Totals;

/// Everything that is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    upstreams: Vec<Arc<Tally>>,
    /// What goes to no upstream.
    none: Arc<Tally>,
    lanes: Arc<[Shown]>,
    cache: store::Watched,
    traces: Counts,
}

/// What is counted of one upstream; also writes its access log, since both are told the same.
#[derive(Debug)]
pub(crate) struct Tally {
    upstream: Arc<str>,
    attempts: [Counter; ATTEMPTS.len()],
    exchanges: [Counter; CLASSES.len()],
    refusals: [Counter; REASONS.len()],
    cut: Counter,
    cached: [Counter; Cached::ALL.len()],
    saved: Counter,
    not_stored: [Counter; NotStored::ALL.len()],
    stale: [Counter; Detail::STALE.len()],
    wait: Histogram,
    answered_in: Histogram,
    total: Histogram,
    would_be: WouldBe,
    /// What is counted of clients, wherever their requests go.
    clients: Arc<ByClient>,
    access_log: Option<AccessLog>,
    traces: OnceLock<Traces>,
}

/// How attempts end; where in the list is told by [`attempt`].
const ATTEMPTS: [&str; 10] = ["2xx", "3xx", "4xx", "429", "5xx", "not_sent", "broken", "timed_out", "left", "stale"];

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
const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

fn class(status: Option<StatusCode>) -> usize {
    status.map_or(0, |status| (usize::from(status.as_u16()) / 100).clamp(1, CLASSES.len() - 1))
}

/// Where the reason of a refusal stands in the engine's list.
fn refusal(reason: &str) -> Option<usize> {
    REASONS.iter().position(|known| *known == reason)
}

/// From what nobody notices to what `total_timeout` allows.
const SECONDS: [f64; 16] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];

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
        let lanes = upstreams.iter().map(|tally| Shown { name: Arc::clone(&tally.upstream), lane: OnceLock::new() });
        let lanes: Arc<[_]> = lanes.collect();
        let mut registry = Registry::with_prefix("sopan");
        let build = Info::new([("version", version::NUMBER), ("commit", version::COMMIT.unwrap_or("unknown"))]);
        registry.register("build", "The version that runs, and the commit that it was built from", build);
        let all: Vec<_> = upstreams.iter().chain([&none]).map(Arc::clone).collect();
        register(&mut registry, &upstreams, &all);
        clients.register(&mut registry);
        let traces = Counts::default();
        let help = "Spans of traces that were delivered";
        registry.register("trace_spans_sent", help, traces.sent.clone());
        let help = "Spans of traces that found no room, or nobody who took them";
        registry.register("trace_spans_lost", help, traces.lost.clone());
        registry.register_collector(Box::new(observed::Shown::new(&upstreams)));
        registry.register_collector(Box::new(LaneCollector(Arc::clone(&lanes))));
        let cache = store::Watched::default();
        registry.register_collector(Box::new(cache.clone()));
        Arc::new(Self { registry, upstreams, none, lanes, cache, traces })
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
            let first = tally.traces.set(traces.clone()).is_ok();
            debug_assert!(first, "traces go to one place");
        }
    }

    /// Shows from now on what the upstream of this number is like, as long as it lives; once only. `limits` as they are
    /// written, rates before quotas.
    pub(crate) fn watch(&self, number: usize, upstream: Weak<Upstream>, limits: Vec<String>) {
        if upstream.upgrade().is_some_and(|upstream| upstream.is_only_observed()) {
            self.upstreams[number].would_be.show();
        }
        // A second one would be a mistake of ours that is not worth ending for.
        let first = self.lanes[number].lane.set(Watched { upstream, limits }).is_ok();
        debug_assert!(first, "an upstream is watched once");
    }

    /// Shows from now on how full the cache is, as long as it lives; once only.
    pub(crate) fn watch_cache(&self, cache: &Arc<Cache>) {
        self.cache.watch(Arc::downgrade(cache));
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

/// A metric for each upstream, in their order: prometheus-client's own families show theirs in another one each time it
/// starts.
#[derive(Debug)]
struct ByUpstream<M> {
    kind: MetricType,
    metrics: Vec<(Arc<str>, M)>,
}

impl<M> ByUpstream<M> {
    fn new(tallies: &[Arc<Tally>], kind: MetricType, of: fn(&Tally) -> M) -> Self {
        Self { kind, metrics: tallies.iter().map(|tally| (Arc::clone(&tally.upstream), of(tally))).collect() }
    }
}

impl<M: EncodeMetric> EncodeMetric for ByUpstream<M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (upstream, metric) in &self.metrics {
            metric.encode(encoder.encode_family(&[("upstream", &**upstream)])?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        self.kind
    }
}

/// The same with another label, a counter for each of its values.
#[derive(Debug)]
struct Counters<const N: usize> {
    label: &'static str,
    values: [&'static str; N],
    counters: Vec<(Arc<str>, [Counter; N])>,
}

impl<const N: usize> Counters<N> {
    fn new(
        tallies: &[Arc<Tally>],
        of: fn(&Tally) -> &[Counter; N],
        label: &'static str,
        values: [&'static str; N],
    ) -> Self {
        let counters = tallies.iter().map(|tally| (Arc::clone(&tally.upstream), of(tally).clone())).collect();
        Self { label, values, counters }
    }
}

impl<const N: usize> EncodeMetric for Counters<N> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (upstream, counters) in &self.counters {
            for (value, counter) in self.values.iter().zip(counters) {
                let labels = [("upstream", &**upstream), (self.label, value)];
                counter.encode(encoder.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

impl Tally {
    fn new(upstream: Arc<str>, clients: Arc<ByClient>, access_log: Option<AccessLog>) -> Self {
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
            clients,
            access_log,
            traces: OnceLock::new(),
        }
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

/// An upstream as it is shown, once it is watched.
#[derive(Debug)]
struct Shown {
    name: Arc<str>,
    lane: OnceLock<Watched>,
}

/// The upstream whose lane is shown.
#[derive(Debug)]
struct Watched {
    upstream: Weak<Upstream>,
    limits: Vec<String>,
}

/// Reads the lanes when somebody asks.
#[derive(Debug)]
struct LaneCollector(Arc<[Shown]>);

impl Collector for LaneCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let lost = ConstCounter::new(log::lines_lost());
        let mut gauges = Gauges(encoder);
        let help = "Log lines that were lost because nobody read them fast enough.";
        lost.encode(gauges.0.encode_descriptor("log_lines_lost", help, None, MetricType::Counter)?)?;
        let lanes = self.0.iter().filter_map(|shown| {
            let Watched { upstream, limits } = shown.lane.get()?;
            Some(Lane { upstream: &shown.name, now: upstream.upgrade()?.snapshot(), limits })
        });
        gauges.lanes(&lanes.collect::<Vec<_>>())
    }
}

/// What a lane is like now.
struct Lane<'a> {
    upstream: &'a str,
    now: Snapshot,
    limits: &'a [String],
}

/// Writes what lanes are like.
struct Gauges<'a>(DescriptorEncoder<'a>);

impl Gauges<'_> {
    fn lanes(&mut self, lanes: &[Lane<'_>]) -> fmt::Result {
        if lanes.is_empty() {
            return Ok(());
        }
        self.gauge(lanes, "waiting", "Requests that wait for a turn.", |lane| lane.waiting as f64)?;
        self.gauge(lanes, "waiting_bytes", "Bytes that waiting requests hold.", |lane| lane.waiting_bytes as f64)?;
        let help = "Requests under way, from the turn to the end of the answer.";
        self.gauge(lanes, "in_flight", help, |lane| f64::from(lane.in_flight))?;
        let help = "What is left of the pause that the upstream asked for.";
        self.gauge(lanes, "hold_seconds", help, |lane| lane.hold.unwrap_or_default().as_secs_f64())?;
        let help = "Pauses that the upstream asked for.";
        let mut holds = self.0.encode_descriptor("holds", help, None, MetricType::Counter)?;
        for lane in lanes {
            ConstCounter::new(lane.now.holds).encode(holds.encode_family(&[("upstream", lane.upstream)])?)?;
        }
        let help = "Requests that each limit would let go now; negative while a debt is paid off.";
        self.family(lanes, "limit_tokens", help, "limit", |lane| fills(lane, |fill| fill.tokens))?;
        let help = "Requests that each limit would let go after a quiet time.";
        self.family(lanes, "limit_capacity", help, "limit", |lane| fills(lane, |fill| fill.capacity))?;
        let help = "The state of the breaker: 1 for the one it is in.";
        self.family(lanes, "breaker", help, "state", |lane| states(lane.now.breaker).to_vec())
    }

    fn gauge(&mut self, lanes: &[Lane<'_>], name: &str, help: &str, of: fn(&Snapshot) -> f64) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for lane in lanes {
            family.encode_family(&[("upstream", lane.upstream)])?.encode_gauge(&of(&lane.now))?;
        }
        Ok(())
    }

    fn family(
        &mut self,
        lanes: &[Lane<'_>],
        name: &str,
        help: &str,
        label: &str,
        values: for<'l> fn(&'l Lane<'_>) -> Vec<(&'l str, f64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for lane in lanes {
            for (of, value) in values(lane) {
                family.encode_family(&[("upstream", lane.upstream), (label, of)])?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }
}

fn fills<'l>(lane: &'l Lane<'_>, of: fn(&Fill) -> f64) -> Vec<(&'l str, f64)> {
    lane.limits.iter().map(String::as_str).zip(lane.now.fills.iter().map(of)).collect()
}

fn states(breaker: State) -> [(&'static str, f64); 3] {
    let is = |yes: bool| f64::from(u8::from(yes));
    [
        ("closed", is(breaker == State::Closed)),
        ("open", is(matches!(breaker, State::Open { .. }))),
        ("half_open", is(matches!(breaker, State::HalfOpen { .. }))),
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use http::Method;
    use sopan_core::queue::ClientId;
    use sopan_core::time::Instant;

    use super::*;

    fn metrics() -> Arc<Metrics> {
        Metrics::new(["shop", "mail"].map(str::to_owned), None)
    }

    fn answered(status: u16) -> Outcome {
        Outcome::Answered { status: StatusCode::from_u16(status).unwrap(), retry_after: None }
    }

    pub(in crate::admin) fn event(status: u16) -> Event<'static> {
        static URI: OnceLock<http::Uri> = OnceLock::new();
        Event {
            ended: Instant::ORIGIN,
            method: &Method::GET,
            uri: URI.get_or_init(|| "/api/v1/orders?page=2&key=SECRET".parse().unwrap()),
            client: ClientId(1),
            status: Some(StatusCode::from_u16(status).unwrap()),
            refused: None,
            observed: None,
            cache: None,
            cache_detail: None,
            wait: Duration::from_micros(300_140),
            attempts: 2,
            upstream: Duration::from_micros(12_260),
            total: Duration::from_micros(312_400),
            bytes: 5120,
            whole: true,
            steps: &[],
            steps_left_out: 0,
            trace: None,
        }
    }

    /// Whether the text is what a scraper reads: every sample belongs to a family that was declared before, none comes
    /// twice, and it ends as it must.
    #[track_caller]
    pub(super) fn check_form(text: &str) {
        let (mut families, mut samples) = (HashSet::new(), HashSet::new());
        for line in text.lines() {
            if let Some(declared) = line.strip_prefix("# TYPE ") {
                let (name, kind) = declared.split_once(' ').unwrap();
                assert!(families.insert((name, kind)), "{line} comes twice");
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').unwrap();
                assert!(samples.insert(series), "{line} comes twice");
                assert!(value.parse::<f64>().is_ok(), "{line}");
                let name = series.split('{').next().unwrap();
                let belongs = |(family, kind): &(&str, &str)| match *kind {
                    "gauge" => name == *family,
                    "counter" => name.strip_suffix("_total") == Some(family),
                    "info" => name.strip_suffix("_info") == Some(family),
                    _ => ["_sum", "_count", "_bucket"].iter().any(|s| name.strip_suffix(s) == Some(family)),
                };
                assert!(families.iter().any(belongs), "{line} belongs nowhere");
                assert!(name.starts_with("sopan_"), "{line}");
            }
        }
        assert!(text.ends_with("\n# EOF\n"));
    }

    #[track_caller]
    pub(super) fn check_lines(text: &str, expected: &[&str]) {
        for line in expected {
            assert!(text.lines().any(|l| l == *line), "{line} is missing in:\n{text}");
        }
    }

    #[test]
    fn every_outcome_is_counted_where_it_belongs() {
        let outcomes = [
            (answered(200), "2xx"),
            (answered(304), "3xx"),
            (answered(404), "4xx"),
            (answered(429), "429"),
            (answered(500), "5xx"),
            (answered(999), "5xx"),
            (Outcome::NotSent, "not_sent"),
            (Outcome::Broken, "broken"),
            (Outcome::TimedOut, "timed_out"),
        ];
        let ended = outcomes.iter().map(|(outcome, expected)| (Attempted::Ended(outcome), *expected));
        for (attempted, expected) in ended.chain([(Attempted::Left, "left"), (Attempted::Stale, "stale")]) {
            let metrics = metrics();
            metrics.observer(1).attempted(attempted);
            let text = metrics.text();
            for other in ATTEMPTS {
                let count = u8::from(other == expected);
                let line = |upstream, count| {
                    format!("sopan_attempts_total{{upstream=\"{upstream}\",outcome=\"{other}\"}} {count}")
                };
                check_lines(&text, &[&line("mail", count), &line("shop", 0)]);
            }
        }
    }

    #[test]
    fn exchanges_are_counted_by_upstream_and_by_what_became_of_them() {
        let metrics = metrics();
        let shop = metrics.observer(0);
        shop.ended(&event(200));
        shop.ended(&Event { whole: false, ..event(200) });
        shop.ended(&Event { refused: Some("queue-full"), attempts: 0, upstream: Duration::ZERO, ..event(503) });
        shop.ended(&event(999));
        shop.ended(&Event { cache: Some(Cached::Stale), ..event(200) });
        for cached in [Cached::Hit, Cached::Hit, Cached::Stale, Cached::Coalesced, Cached::Miss, Cached::Bypass] {
            shop.ended(&Event { cache: Some(cached), attempts: 0, ..event(200) });
        }
        shop.ended(&Event { status: None, whole: false, ..event(200) });
        metrics.none().ended(&Event { refused: Some("no-route"), ..event(404) });
        let text = metrics.text();
        check_form(&text);
        check_lines(
            &text,
            &[
                "sopan_exchanges_total{upstream=\"shop\",status=\"2xx\"} 9",
                "sopan_cache_requests_total{upstream=\"shop\",result=\"hit\"} 2",
                "sopan_cache_requests_total{upstream=\"shop\",result=\"stale\"} 2",
                "sopan_cache_requests_total{upstream=\"shop\",result=\"revalidated\"} 0",
                "sopan_cache_tokens_saved_total{upstream=\"shop\"} 4",
                "sopan_exchanges_total{upstream=\"shop\",status=\"5xx\"} 2",
                "sopan_exchanges_total{upstream=\"shop\",status=\"none\"} 1",
                "sopan_exchanges_total{upstream=\"mail\",status=\"2xx\"} 0",
                "sopan_exchanges_total{upstream=\"none\",status=\"4xx\"} 1",
                "sopan_refusals_total{upstream=\"shop\",reason=\"queue-full\"} 1",
                "sopan_refusals_total{upstream=\"shop\",reason=\"wait-too-long\"} 0",
                "sopan_refusals_total{upstream=\"none\",reason=\"no-route\"} 1",
                "sopan_cut_off_total{upstream=\"shop\"} 2",
                "sopan_cut_off_total{upstream=\"mail\"} 0",
                "sopan_wait_seconds_bucket{le=\"0.25\",upstream=\"shop\"} 0",
                "sopan_wait_seconds_bucket{le=\"0.5\",upstream=\"shop\"} 12",
                "sopan_upstream_seconds_bucket{le=\"0.01\",upstream=\"shop\"} 0",
                "sopan_upstream_seconds_bucket{le=\"0.025\",upstream=\"shop\"} 11",
                "sopan_upstream_seconds_count{upstream=\"shop\"} 11",
                "sopan_exchange_seconds_count{upstream=\"shop\"} 12",
                "sopan_exchange_seconds_count{upstream=\"none\"} 1",
                &format!(
                    "sopan_build_info{{version=\"{}\",commit=\"{}\"}} 1",
                    version::NUMBER,
                    version::COMMIT.unwrap_or("unknown")
                ),
            ],
        );
    }

    #[test]
    fn why_an_answer_is_not_stored_or_given_stale_is_counted() {
        let details = NotStored::ALL.map(Detail::NotStored).into_iter().chain(Detail::STALE);
        for detail in details {
            let metrics = metrics();
            metrics.observer(1).ended(&Event { cache_detail: Some(detail), ..event(200) });
            let text = metrics.text();
            let counted = text.lines().filter(|line| line.contains("reason=") && !line.ends_with(" 0"));
            let name = if Detail::STALE.contains(&detail) { "stale" } else { "not_stored" };
            let expected = format!("sopan_cache_{name}_total{{upstream=\"mail\",reason=\"{}\"}} 1", detail.word());
            assert_eq!(counted.collect::<Vec<_>>(), [expected]);
        }
    }

    #[test]
    fn counters_stand_in_the_same_order_in_every_run() {
        let text = metrics().text();
        let in_order = |name: &str, upstreams: &[&str], label: &str, values: &[&str]| {
            let shown: Vec<_> = text.lines().filter(|line| line.starts_with(name)).collect();
            let of = |upstream| {
                values.iter().map(move |value| format!("{name}{{upstream=\"{upstream}\",{label}=\"{value}\"}} 0"))
            };
            assert_eq!(shown, upstreams.iter().flat_map(of).collect::<Vec<_>>());
        };
        in_order("sopan_attempts_total", &["shop", "mail"], "outcome", &ATTEMPTS);
        in_order("sopan_exchanges_total", &["shop", "mail", "none"], "status", &CLASSES);
        in_order("sopan_refusals_total", &["shop", "mail", "none"], "reason", &REASONS);
    }

    /// A registry that shows these lanes.
    fn shown(lanes: &[(&'static str, &Snapshot, &[&str])]) -> String {
        #[derive(Debug)]
        struct Fixed(Vec<(&'static str, Snapshot, Vec<String>)>);
        impl Collector for Fixed {
            fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
                let lanes = self.0.iter().map(|(upstream, now, limits)| Lane { upstream, now: now.clone(), limits });
                Gauges(encoder).lanes(&lanes.collect::<Vec<_>>())
            }
        }
        let owned = |limits: &[&str]| limits.iter().map(ToString::to_string).collect();
        let lanes = lanes.iter().map(|(name, lane, limits)| (*name, (*lane).clone(), owned(limits))).collect();
        let mut registry = Registry::with_prefix("sopan");
        registry.register_collector(Box::new(Fixed(lanes)));
        let mut text = String::new();
        text::encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn lanes_are_shown_as_they_are() {
        let shop = Snapshot {
            waiting: 7,
            waiting_bytes: 3500,
            in_flight: 3,
            hold: Some(Duration::from_millis(1_500)),
            holds: 2,
            breaker: State::HalfOpen { free: 1 },
            fills: vec![Fill { tokens: -0.5, capacity: 19.0 }, Fill { tokens: 4000.0, capacity: 5000.0 }],
        };
        let mail = Snapshot { hold: None, breaker: State::Open { until: Instant::NEVER }, ..shop.clone() };
        let text = shown(&[("shop", &shop, &["10/s burst 20", "5000 per 1h"]), ("mail", &mail, &[])]);
        check_form(&text);
        check_lines(
            &text,
            &[
                "sopan_waiting{upstream=\"shop\"} 7.0",
                "sopan_waiting{upstream=\"mail\"} 7.0",
                "sopan_waiting_bytes{upstream=\"shop\"} 3500.0",
                "sopan_in_flight{upstream=\"shop\"} 3.0",
                "sopan_hold_seconds{upstream=\"shop\"} 1.5",
                "sopan_hold_seconds{upstream=\"mail\"} 0.0",
                "sopan_holds_total{upstream=\"shop\"} 2",
                "sopan_holds_total{upstream=\"mail\"} 2",
                "sopan_limit_tokens{upstream=\"shop\",limit=\"10/s burst 20\"} -0.5",
                "sopan_limit_tokens{upstream=\"shop\",limit=\"5000 per 1h\"} 4000.0",
                "sopan_limit_capacity{upstream=\"shop\",limit=\"5000 per 1h\"} 5000.0",
                "sopan_breaker{upstream=\"shop\",state=\"closed\"} 0.0",
                "sopan_breaker{upstream=\"shop\",state=\"open\"} 0.0",
                "sopan_breaker{upstream=\"shop\",state=\"half_open\"} 1.0",
                "sopan_breaker{upstream=\"mail\",state=\"open\"} 1.0",
            ],
        );
    }

    #[test]
    fn before_an_upstream_is_watched_and_after_it_is_gone_its_lane_is_not_shown() {
        let metrics = metrics();
        check_form(&metrics.text());
        metrics.watch(1, Weak::new(), vec!["10/s".to_owned()]);
        let text = metrics.text();
        check_form(&text);
        assert!(!text.contains("sopan_waiting") && text.contains("sopan_log_lines_lost_total 0"));
    }
}
