//! What is counted, and how it is shown: OpenMetrics, all names beginning with `sopan_`.
//!
//! What happens is counted where it happens, through handles that are kept, so that an exchange costs a few increments and
//! no look-up. What is, a queue, a hold, a breaker, is read from the upstream when somebody asks. The labels are fixed here
//! and by the settings; nothing that comes over a wire ever becomes one.

mod observed;

use std::array;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use http::StatusCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use sopan_core::breaker::State;
use sopan_core::headers::redact_url;
use sopan_core::lane::Snapshot;
use sopan_core::retry::Outcome;
use sopan_engine::Upstream;
use sopan_engine::event::{Attempted, Event, Observer};
use sopan_engine::refusal::REASONS;

use crate::log::{self, Counted};
use observed::{Said, WouldBe};

/// Everything that is counted; also writes the access log, since both are told the same.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    attempts: [Counter; ATTEMPTS.len()],
    exchanges: [Counter; CLASSES.len()],
    refusals: [Counter; REASONS.len()],
    cut: Counter,
    wait: Histogram,
    upstream: Histogram,
    total: Histogram,
    would_be: WouldBe,
    watched: Arc<OnceLock<Watched>>,
    access_log: bool,
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
    /// Nothing has happened yet; every counter is there from the start, at zero.
    pub(crate) fn new(access_log: bool) -> Arc<Self> {
        let mut registry = Registry::with_prefix("sopan");
        registry.register("build", "The version that runs", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        let help = "Attempts to send a request upstream, by what came of them; left if nobody waited for it any more";
        let attempts = labelled(&mut registry, "attempts", help, "outcome", ATTEMPTS);
        let help =
            "Requests of clients that have ended, by the class of the status that they got; none if they ended before";
        let exchanges = labelled(&mut registry, "exchanges", help, "status", CLASSES);
        let help = "Requests of clients that sopan answered by itself, by reason";
        let refusals = labelled(&mut registry, "refusals", help, "reason", REASONS);
        let cut = Counter::default();
        let help = "Requests of clients whose answer was not passed on to its end";
        registry.register("cut_off", help, cut.clone());
        let mut seconds = |name, help| {
            let histogram = Histogram::new(SECONDS);
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
            histogram
        };
        let wait = seconds("wait", "How long requests waited: for turns, and before retries");
        let upstream =
            seconds("upstream", "How long the upstream took, over all attempts of a request, where one was sent");
        let total = seconds("exchange", "From the arrival of a request to the end of its answer");
        let would_be = WouldBe::default();
        registry.register_collector(Box::new(would_be.clone()));
        let watched = Arc::<OnceLock<Watched>>::default();
        registry.register_collector(Box::new(LaneCollector(Arc::clone(&watched))));
        Arc::new(Self {
            registry,
            attempts,
            exchanges,
            refusals,
            cut,
            wait,
            upstream,
            total,
            would_be,
            watched,
            access_log,
        })
    }

    /// Shows from now on what this upstream is like, as long as it lives; once only. `limits` as they are written, rates
    /// before quotas.
    pub(crate) fn watch(&self, upstream: Weak<Upstream>, limits: Vec<String>) {
        if upstream.upgrade().is_some_and(|upstream| upstream.is_only_observed()) {
            self.would_be.show();
        }
        // A second one would be a mistake of ours that is not worth ending for.
        let first = self.watched.set(Watched { upstream, limits }).is_ok();
        debug_assert!(first, "one upstream is watched");
    }

    /// All of it as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::with_capacity(16 * 1024);
        text::encode(&mut text, &self.registry).expect("a string takes everything");
        text
    }
}

/// A counter with one label, a handle for each of its values.
fn labelled<const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    label: &'static str,
    values: [&'static str; N],
) -> [Counter; N] {
    let counters: [Counter; N] = array::from_fn(|_| Counter::default());
    registry.register(name, help, Ordered { label, values, counters: counters.clone() });
    counters
}

/// A family in the order of its values: prometheus-client's own shows them in another one each time it starts.
#[derive(Debug)]
struct Ordered<const N: usize> {
    label: &'static str,
    values: [&'static str; N],
    counters: [Counter; N],
}

impl<const N: usize> EncodeMetric for Ordered<N> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (value, counter) in self.values.iter().zip(&self.counters) {
            counter.encode(encoder.encode_family(&[(self.label, *value)])?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

impl Observer for Metrics {
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
        self.wait.observe(event.wait.as_secs_f64());
        // Nothing is that quick: where it is zero nothing was sent, and the upstream took no time to answer it.
        if !event.upstream.is_zero() {
            self.upstream.observe(event.upstream.as_secs_f64());
        }
        self.total.observe(event.total.as_secs_f64());
        if let Some(observed) = event.observed {
            self.would_be.ended(observed);
        }
        if self.access_log {
            log_access(event);
        }
    }
}

/// One line for one exchange. Fields are what a program would count; the message says the same to people.
fn log_access(event: &Event<'_>) {
    let Event { method, status, refused, attempts, bytes, whole, .. } = event;
    let path = redact_url(&event.uri.to_string());
    let (total, wait, upstream) = (millis(event.total), millis(event.wait), millis(event.upstream));
    let tried = Counted((*attempts).into(), "attempt");
    let why = refused.map_or_else(String::new, |reason| format!("; refused: {reason}"));
    let would = event.observed.map(Said::of).unwrap_or_default();
    let cut = if *whole || status.is_none() { "" } else { "; cut off" };
    let status = status.map(|status| status.as_u16());
    let got = status
        .map_or_else(|| "ended before an answer".to_owned(), |status| format!("{status}, {}", Counted(*bytes, "byte")));
    tracing::info!(
        method = method.as_str(),
        path,
        status,
        bytes,
        total_ms = total,
        wait_ms = wait,
        attempts,
        upstream_ms = upstream,
        refused,
        would_wait_ms = would.wait_ms,
        would_refuse = would.refused,
        would_retry_s = would.retry_s,
        whole,
        "{method} {path} {got} in {total:.1} ms: waited {wait:.1} ms, {tried}, \
         upstream {upstream:.1} ms{why}{cut}{}",
        would.words
    );
}

/// Milliseconds to a tenth.
fn millis(span: Duration) -> f64 {
    (span.as_secs_f64() * 10_000.0).round() / 10.0
}

/// The upstream whose lane is shown.
#[derive(Debug)]
struct Watched {
    upstream: Weak<Upstream>,
    limits: Vec<String>,
}

/// Reads a lane when somebody asks.
#[derive(Debug)]
struct LaneCollector(Arc<OnceLock<Watched>>);

impl Collector for LaneCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let lost = ConstCounter::new(log::lines_lost());
        let mut gauges = Gauges(encoder);
        let help = "Log lines that were lost because nobody read them fast enough.";
        lost.encode(gauges.0.encode_descriptor("log_lines_lost", help, None, MetricType::Counter)?)?;
        match self.0.get().and_then(|watched| Some((watched.upstream.upgrade()?, &watched.limits))) {
            Some((upstream, limits)) => gauges.lane(&upstream.snapshot(), limits),
            None => Ok(()),
        }
    }
}

/// Writes what a lane is like.
struct Gauges<'a>(DescriptorEncoder<'a>);

impl Gauges<'_> {
    fn lane(&mut self, lane: &Snapshot, limits: &[String]) -> fmt::Result {
        self.gauge("waiting", "Requests that wait for a turn.", lane.waiting as f64)?;
        self.gauge("waiting_bytes", "Bytes that waiting requests hold.", lane.waiting_bytes as f64)?;
        let help = "Requests under way, from the turn to the end of the answer.";
        self.gauge("in_flight", help, f64::from(lane.in_flight))?;
        let hold = lane.hold.unwrap_or_default().as_secs_f64();
        self.gauge("hold_seconds", "What is left of the pause that the upstream asked for.", hold)?;
        let holds = ConstCounter::new(lane.holds);
        holds.encode(self.0.encode_descriptor(
            "holds",
            "Pauses that the upstream asked for.",
            None,
            MetricType::Counter,
        )?)?;
        let fills =
            |of: fn(&sopan_core::bucket::Fill) -> f64| limits.iter().map(String::as_str).zip(lane.fills.iter().map(of));
        let help = "Requests that each limit would let go now; negative while a debt is paid off.";
        self.family("limit_tokens", help, "limit", fills(|fill| fill.tokens))?;
        let help = "Requests that each limit would let go after a quiet time.";
        self.family("limit_capacity", help, "limit", fills(|fill| fill.capacity))?;
        let is = |yes: bool| f64::from(u8::from(yes));
        let states = [
            ("closed", is(lane.breaker == State::Closed)),
            ("open", is(matches!(lane.breaker, State::Open { .. }))),
            ("half_open", is(matches!(lane.breaker, State::HalfOpen { .. }))),
        ];
        self.family("breaker", "The state of the breaker: 1 for the one it is in.", "state", states.into_iter())
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    fn family<'v>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl Iterator<Item = (&'v str, f64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (of, value) in values {
            family.encode_family(&[(label, of)])?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::HashSet;

    use http::Method;
    use sopan_core::bucket::Fill;
    use sopan_core::time::Instant;

    use super::*;
    use crate::config::LogFormat;
    use crate::log::tests::{after_time, written};

    fn answered(status: u16) -> Outcome {
        Outcome::Answered { status: StatusCode::from_u16(status).unwrap(), retry_after: None }
    }

    fn event(status: u16) -> Event<'static> {
        static URI: OnceLock<http::Uri> = OnceLock::new();
        Event {
            method: &Method::GET,
            uri: URI.get_or_init(|| "/api/v1/orders?page=2&key=SECRET".parse().unwrap()),
            status: Some(StatusCode::from_u16(status).unwrap()),
            refused: None,
            observed: None,
            wait: Duration::from_micros(300_140),
            attempts: 2,
            upstream: Duration::from_micros(12_260),
            total: Duration::from_micros(312_400),
            bytes: 5120,
            whole: true,
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
            let metrics = Metrics::new(false);
            metrics.attempted(attempted);
            let text = metrics.text();
            for other in ATTEMPTS {
                let count = u8::from(other == expected);
                check_lines(&text, &[&format!("sopan_attempts_total{{outcome=\"{other}\"}} {count}")]);
            }
        }
    }

    #[test]
    fn exchanges_are_counted_by_what_became_of_them() {
        let metrics = Metrics::new(false);
        metrics.ended(&event(200));
        metrics.ended(&Event { whole: false, ..event(200) });
        metrics.ended(&Event { refused: Some("queue-full"), attempts: 0, upstream: Duration::ZERO, ..event(503) });
        metrics.ended(&event(999));
        metrics.ended(&Event { status: None, whole: false, ..event(200) });
        let text = metrics.text();
        check_form(&text);
        check_lines(
            &text,
            &[
                "sopan_exchanges_total{status=\"2xx\"} 2",
                "sopan_exchanges_total{status=\"5xx\"} 2",
                "sopan_refusals_total{reason=\"queue-full\"} 1",
                "sopan_refusals_total{reason=\"wait-too-long\"} 0",
                "sopan_exchanges_total{status=\"none\"} 1",
                "sopan_cut_off_total 2",
                "sopan_wait_seconds_bucket{le=\"0.25\"} 0",
                "sopan_wait_seconds_bucket{le=\"0.5\"} 5",
                "sopan_upstream_seconds_bucket{le=\"0.01\"} 0",
                "sopan_upstream_seconds_bucket{le=\"0.025\"} 4",
                "sopan_upstream_seconds_count 4",
                "sopan_exchange_seconds_count 5",
                &format!("sopan_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")),
            ],
        );
    }

    #[test]
    fn counters_stand_in_the_same_order_in_every_run() {
        let text = Metrics::new(false).text();
        let in_order = |name: &str, label: &str, values: &[&str]| {
            let shown: Vec<_> = text.lines().filter(|line| line.starts_with(name)).collect();
            let expected: Vec<_> = values.iter().map(|value| format!("{name}{{{label}=\"{value}\"}} 0")).collect();
            assert_eq!(shown, expected);
        };
        in_order("sopan_attempts_total", "outcome", &ATTEMPTS);
        in_order("sopan_exchanges_total", "status", &CLASSES);
        in_order("sopan_refusals_total", "reason", &REASONS);
    }

    /// A registry that shows this lane.
    fn shown(lane: Snapshot, limits: &[&str]) -> String {
        #[derive(Debug)]
        struct Fixed(Snapshot, Vec<String>);
        impl Collector for Fixed {
            fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
                Gauges(encoder).lane(&self.0, &self.1)
            }
        }
        let mut registry = Registry::with_prefix("sopan");
        let limits = limits.iter().map(ToString::to_string).collect();
        registry.register_collector(Box::new(Fixed(lane, limits)));
        let mut text = String::new();
        text::encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn a_lane_is_shown_as_it_is() {
        let lane = Snapshot {
            waiting: 7,
            waiting_bytes: 3500,
            in_flight: 3,
            hold: Some(Duration::from_millis(1_500)),
            holds: 2,
            breaker: State::HalfOpen { free: 1 },
            fills: vec![Fill { tokens: -0.5, capacity: 19.0 }, Fill { tokens: 4000.0, capacity: 5000.0 }],
        };
        let text = shown(lane.clone(), &["10/s burst 20", "5000 per 1h"]);
        check_form(&text);
        check_lines(
            &text,
            &[
                "sopan_waiting 7.0",
                "sopan_waiting_bytes 3500.0",
                "sopan_in_flight 3.0",
                "sopan_hold_seconds 1.5",
                "sopan_holds_total 2",
                "sopan_limit_tokens{limit=\"10/s burst 20\"} -0.5",
                "sopan_limit_tokens{limit=\"5000 per 1h\"} 4000.0",
                "sopan_limit_capacity{limit=\"5000 per 1h\"} 5000.0",
                "sopan_breaker{state=\"closed\"} 0.0",
                "sopan_breaker{state=\"open\"} 0.0",
                "sopan_breaker{state=\"half_open\"} 1.0",
            ],
        );
        let text = shown(Snapshot { hold: None, breaker: State::Open { until: Instant::NEVER }, ..lane }, &[]);
        check_form(&text);
        check_lines(&text, &["sopan_hold_seconds 0.0", "sopan_breaker{state=\"open\"} 1.0"]);
    }

    #[test]
    fn before_an_upstream_is_watched_and_after_it_is_gone_its_lane_is_not_shown() {
        let metrics = Metrics::new(false);
        check_form(&metrics.text());
        metrics.watch(Weak::new(), vec!["10/s".to_owned()]);
        let text = metrics.text();
        check_form(&text);
        assert!(!text.contains("sopan_waiting") && text.contains("sopan_log_lines_lost_total 0"));
    }

    #[test]
    fn an_exchange_is_a_line_in_the_access_log_without_its_secrets() {
        for (event, line) in [
            (
                event(200),
                "GET /api/v1/orders?page=…&key=… 200, 5120 bytes in 312.4 ms: waited 300.1 ms, 2 attempts, upstream 12.3 ms",
            ),
            (
                Event { refused: Some("queue-full"), attempts: 0, ..event(503) },
                "GET /api/v1/orders?page=…&key=… 503, 5120 bytes in 312.4 ms: waited 300.1 ms, 0 attempts, \
                 upstream 12.3 ms; refused: queue-full",
            ),
            (
                Event { whole: false, attempts: 1, bytes: 1, ..event(200) },
                "GET /api/v1/orders?page=…&key=… 200, 1 byte in 312.4 ms: waited 300.1 ms, 1 attempt, \
                 upstream 12.3 ms; cut off",
            ),
            (
                Event { status: None, whole: false, attempts: 0, bytes: 0, upstream: Duration::ZERO, ..event(200) },
                "GET /api/v1/orders?page=…&key=… ended before an answer in 312.4 ms: waited 300.1 ms, 0 attempts, \
                 upstream 0.0 ms",
            ),
        ] {
            let log = written(LogFormat::Text, false, || Metrics::new(true).ended(&event));
            assert_eq!(after_time(&log), format!("INFO {line}\n"));
            assert_eq!(written(LogFormat::Text, false, || Metrics::new(false).ended(&event)), "");
        }
    }

    #[test]
    fn the_access_log_has_fields_for_programs() {
        let event = Event { refused: Some("queue-full"), ..event(503) };
        let log = written(LogFormat::Json, false, || Metrics::new(true).ended(&event));
        let mut object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&log).unwrap();
        assert!(object.remove("timestamp").is_some() && object.remove("message").is_some());
        let expected = serde_json::json!({
            "level": "INFO",
            "method": "GET",
            "path": "/api/v1/orders?page=…&key=…",
            "status": 503,
            "bytes": 5120,
            "total_ms": 312.4,
            "wait_ms": 300.1,
            "attempts": 2,
            "upstream_ms": 12.3,
            "refused": "queue-full",
            "whole": true,
        });
        assert_eq!(serde_json::Value::from(object), expected);
        let log =
            written(LogFormat::Json, false, || Metrics::new(true).ended(&Event { refused: None, ..event.clone() }));
        assert!(!log.contains("refused"), "{log}");
    }
}
