//! What would have become of the requests to an upstream that is only observed: counted beside the rest, under names of
//! their own, and shown only where an upstream is observed. The access log says the same of each request in words.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Unit;
use sopan_core::retry::Verdict;
use sopan_engine::event::Observed;

use super::{SECONDS, millis};

/// Why a lane that observes would refuse: it never sees what waits until its deadline.
const REASONS: [&str; 3] = ["queue-full", "wait-too-long", "breaker-open"];

/// What would have been, once an upstream is observed.
#[derive(Debug, Clone, Default)]
pub(super) struct WouldBe(Arc<OnceLock<Counts>>);

#[derive(Debug)]
struct Counts {
    refusals: [Counter; REASONS.len()],
    retries: Counter,
    wait: Histogram,
}

impl Default for Counts {
    fn default() -> Self {
        Self { refusals: Default::default(), retries: Counter::default(), wait: Histogram::new(SECONDS) }
    }
}

impl WouldBe {
    /// Shows them from now on.
    pub(super) fn show(&self) {
        self.0.get_or_init(Counts::default);
    }

    pub(super) fn ended(&self, observed: &Observed) {
        let Some(counts) = self.0.get() else { return };
        match observed.refused {
            Some(refusal) => {
                if let Some(reason) = REASONS.iter().position(|reason| *reason == refusal.reason()) {
                    counts.refusals[reason].inc();
                }
            }
            None => counts.wait.observe(observed.wait.as_secs_f64()),
        }
        if would_retry(observed).is_some() {
            counts.retries.inc();
        }
    }
}

impl Collector for WouldBe {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(counts) = self.0.get() else { return Ok(()) };
        let help = "Requests that sopan would have refused if it did not only observe, by reason.";
        let mut refusals = encoder.encode_descriptor("observed_refusals", help, None, MetricType::Counter)?;
        for (reason, counter) in REASONS.iter().zip(&counts.refusals) {
            counter.encode(refusals.encode_family(&[("reason", *reason)])?)?;
        }
        let help = "Failed attempts that sopan would have repeated if it did not only observe.";
        counts.retries.encode(encoder.encode_descriptor("observed_retries", help, None, MetricType::Counter)?)?;
        let help = "How long requests would have waited for their turns if sopan did not only observe.";
        let unit = Some(&Unit::Seconds);
        counts.wait.encode(encoder.encode_descriptor("observed_wait", help, unit, MetricType::Histogram)?)
    }
}

/// What would have been, for a line of the access log.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// For people, each part after a semicolon.
    pub(super) words: String,
    pub(super) wait_ms: Option<f64>,
    pub(super) refused: Option<&'static str>,
    pub(super) retry_s: Option<f64>,
}

impl Said {
    pub(super) fn of(observed: &Observed) -> Self {
        let refused = observed.refused.map(|refusal| refusal.reason());
        let wait_ms = refused.is_none().then(|| millis(observed.wait));
        let retry_s = would_retry(observed).map(|wait| wait.as_secs_f64());
        let mut words = String::new();
        if let Some(reason) = refused {
            words += &format!("; would have been refused: {reason}");
        }
        if let Some(wait) = wait_ms {
            words += &format!("; would have waited {wait:.1} ms");
        }
        if let Some(wait) = retry_s {
            words += &format!("; would have been retried after {wait:.2} s");
        }
        Self { words, wait_ms, refused, retry_s }
    }
}

/// After which wait it would have been tried again, if it would.
fn would_retry(observed: &Observed) -> Option<Duration> {
    match observed.failed {
        Some(Verdict::Again(again)) => Some(again.wait),
        Some(Verdict::Done | Verdict::GiveUp(_)) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use http::{Method, StatusCode, Uri};
    use sopan_core::lane;
    use sopan_core::retry::{Again, Backoff, Why};
    use sopan_engine::event::{Event, Observer as _};
    use sopan_engine::refusal::Refusal;

    use super::super::Metrics;
    use super::super::tests::{check_form, check_lines};
    use super::*;
    use crate::config::LogFormat;
    use crate::log::tests::{after_time, written};

    fn again(wait: Duration) -> Verdict {
        Verdict::Again(Again { wait, spends_budget: false, backoff: Backoff::default() })
    }

    fn waits(millis: u64) -> Observed {
        Observed { wait: Duration::from_millis(millis), refused: None, failed: None }
    }

    fn refused() -> Observed {
        let refusal = Refusal::Lane(lane::Refusal::QueueFull { waiting: 1000, retry_after: 1 });
        Observed { refused: Some(refusal), ..waits(0) }
    }

    fn told(metrics: &Metrics, observed: &Observed) {
        metrics.ended(&Event {
            method: &Method::GET,
            uri: &Uri::from_static("/orders"),
            status: Some(StatusCode::OK),
            refused: None,
            observed: Some(observed),
            wait: Duration::ZERO,
            attempts: 1,
            upstream: Duration::from_millis(12),
            total: Duration::from_millis(13),
            bytes: 2,
            whole: true,
        });
    }

    #[test]
    fn what_would_have_been_is_counted_where_an_upstream_is_observed() {
        let metrics = Metrics::new(false);
        assert!(!metrics.text().contains("sopan_observed"));
        metrics.would_be.show();
        let given_up = Observed { failed: Some(Verdict::GiveUp(Why::NotSafeToRepeat)), ..waits(0) };
        let retried = Observed { failed: Some(again(Duration::from_secs(1))), ..waits(120) };
        for observed in [waits(0), retried, given_up, refused()] {
            told(&metrics, &observed);
        }
        let text = metrics.text();
        check_form(&text);
        check_lines(
            &text,
            &[
                "sopan_observed_refusals_total{reason=\"queue-full\"} 1",
                "sopan_observed_refusals_total{reason=\"wait-too-long\"} 0",
                "sopan_observed_refusals_total{reason=\"breaker-open\"} 0",
                "sopan_observed_retries_total 1",
                "sopan_observed_wait_seconds_count 3",
                "sopan_observed_wait_seconds_bucket{le=\"0.1\"} 2",
                "sopan_observed_wait_seconds_bucket{le=\"0.25\"} 3",
            ],
        );
    }

    #[test]
    fn what_would_have_been_ends_the_line_of_the_access_log() {
        let retried = Observed { failed: Some(again(Duration::from_millis(1_000))), ..waits(120) };
        for (observed, words, fields) in [
            (waits(0), "would have waited 0.0 ms", serde_json::json!({"would_wait_ms": 0.0})),
            (refused(), "would have been refused: queue-full", serde_json::json!({"would_refuse": "queue-full"})),
            (
                retried,
                "would have waited 120.0 ms; would have been retried after 1.00 s",
                serde_json::json!({"would_wait_ms": 120.0, "would_retry_s": 1.0}),
            ),
        ] {
            let text = written(LogFormat::Text, false, || told(&Metrics::new(true), &observed));
            let line = "INFO GET /orders 200, 2 bytes in 13.0 ms: waited 0.0 ms, 1 attempt, upstream 12.0 ms";
            assert_eq!(after_time(&text), format!("{line}; {words}\n"));
            let json = written(LogFormat::Json, false, || told(&Metrics::new(true), &observed));
            let mut object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&json).unwrap();
            object.retain(|name, _| name.starts_with("would"));
            assert_eq!(serde_json::Value::from(object), fields);
        }
    }
}
