//! What would have become of the requests to an upstream that is only observed: counted beside the rest, under names of
//! their own, and shown only of upstreams that are observed. What is said of each request is the access log's business.

use std::fmt;
use std::sync::{Arc, OnceLock};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Unit;
use sopan_engine::event::Observed;

use super::tally::{SECONDS, Tally};

/// Why a lane that observes would refuse: it never sees what waits until its deadline.
const REASONS: [&str; 3] = ["queue-full", "wait-too-long", "breaker-open"];

/// What would have been, once an upstream is observed.
#[derive(Debug, Clone, Default)]
pub(super) struct WouldBe(Arc<OnceLock<Counts>>);

#[derive(Debug)]
struct Counts {
    refusals: [Counter; REASONS.len()],
    retries: Counter,
    hits: Counter,
    wait: Histogram,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            refusals: Default::default(),
            retries: Counter::default(),
            hits: Counter::default(),
            wait: Histogram::new(SECONDS),
        }
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
            _ if observed.from_store => drop(counts.hits.inc()),
            Some(refusal) => {
                if let Some(reason) = REASONS.iter().position(|reason| *reason == refusal.reason()) {
                    counts.refusals[reason].inc();
                }
            }
            None => counts.wait.observe(observed.wait.as_secs_f64()),
        }
        if observed.would_retry().is_some() {
            counts.retries.inc();
        }
    }
}

/// Shows what would have been, of those upstreams that are observed.
#[derive(Debug)]
pub(super) struct Shown(Vec<(Arc<str>, WouldBe)>);

impl Shown {
    pub(super) fn new(upstreams: &[Arc<Tally>]) -> Self {
        Self(upstreams.iter().map(|tally| (Arc::clone(&tally.upstream), tally.would_be.clone())).collect())
    }
}

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let observed = self.0.iter().filter_map(|(upstream, would_be)| Some((&**upstream, would_be.0.get()?)));
        let observed: Vec<_> = observed.collect();
        if observed.is_empty() {
            return Ok(());
        }
        let help = "Requests that sopan would have refused if it did not only observe, by reason.";
        let mut refusals = encoder.encode_descriptor("observed_refusals", help, None, MetricType::Counter)?;
        for (upstream, counts) in &observed {
            for (reason, counter) in REASONS.iter().zip(&counts.refusals) {
                let labels = [("upstream", *upstream), ("reason", *reason)];
                counter.encode(refusals.encode_family(&labels)?)?;
            }
        }
        let help = "Failed attempts that sopan would have repeated if it did not only observe.";
        let mut retries = encoder.encode_descriptor("observed_retries", help, None, MetricType::Counter)?;
        for (upstream, counts) in &observed {
            counts.retries.encode(retries.encode_family(&[("upstream", *upstream)])?)?;
        }
        let help = "Requests that sopan would have answered from its cache if it did not only observe.";
        let mut hits = encoder.encode_descriptor("observed_cache_hits", help, None, MetricType::Counter)?;
        for (upstream, counts) in &observed {
            counts.hits.encode(hits.encode_family(&[("upstream", *upstream)])?)?;
        }
        let help = "How long requests would have waited for their turns if sopan did not only observe.";
        let unit = Some(&Unit::Seconds);
        let mut waits = encoder.encode_descriptor("observed_wait", help, unit, MetricType::Histogram)?;
        for (upstream, counts) in &observed {
            counts.wait.encode(waits.encode_family(&[("upstream", *upstream)])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sopan_core::queue::ClientId;
    use std::time::Duration;

    use http::{Method, StatusCode, Uri};
    use sopan_core::lane;
    use sopan_core::retry::{Again, Backoff, Verdict, Why};
    use sopan_engine::event::Event;
    use sopan_engine::refusal::Refusal;

    use super::super::Metrics;
    use super::super::tests::{check_form, check_lines};
    use super::*;

    fn again(wait: Duration) -> Verdict {
        Verdict::Again(Again { wait, spends_budget: false, backoff: Backoff::default() })
    }

    fn waits(millis: u64) -> Observed {
        Observed { wait: Duration::from_millis(millis), refused: None, failed: None, from_store: false }
    }

    fn refused() -> Observed {
        let refusal = Refusal::Lane(lane::Refusal::QueueFull { waiting: 1000, retry_after: 1 });
        Observed { refused: Some(refusal), ..waits(0) }
    }

    fn told(metrics: &Metrics, observed: &Observed) {
        metrics.observer(0).ended(&Event {
            ended: sopan_core::time::Instant::ORIGIN,
            method: &Method::GET,
            uri: &Uri::from_static("/orders"),
            client: ClientId(1),
            status: Some(StatusCode::OK),
            refused: None,
            observed: Some(observed),
            cache: None,
            cache_detail: None,
            wait: Duration::ZERO,
            attempts: 1,
            upstream: Duration::from_millis(12),
            total: Duration::from_millis(13),
            bytes: 2,
            whole: true,
            steps: &[],
            steps_left_out: 0,
            trace: None,
        });
    }

    #[test]
    fn what_would_have_been_is_counted_where_an_upstream_is_observed() {
        let metrics = Metrics::new(["shop", "mail"].map(str::to_owned), None);
        assert!(!metrics.text().contains("sopan_observed"));
        metrics.upstreams[0].would_be.show();
        let given_up = Observed { failed: Some(Verdict::GiveUp(Why::NotSafeToRepeat)), ..waits(0) };
        let retried = Observed { failed: Some(again(Duration::from_secs(1))), ..waits(120) };
        let from_store = Observed { from_store: true, ..waits(0) };
        for observed in [waits(0), retried, given_up, refused(), from_store] {
            told(&metrics, &observed);
        }
        let text = metrics.text();
        check_form(&text);
        check_lines(
            &text,
            &[
                "sopan_observed_refusals_total{upstream=\"shop\",reason=\"queue-full\"} 1",
                "sopan_observed_refusals_total{upstream=\"shop\",reason=\"wait-too-long\"} 0",
                "sopan_observed_refusals_total{upstream=\"shop\",reason=\"breaker-open\"} 0",
                "sopan_observed_retries_total{upstream=\"shop\"} 1",
                "sopan_observed_cache_hits_total{upstream=\"shop\"} 1",
                "sopan_observed_wait_seconds_count{upstream=\"shop\"} 3",
                "sopan_observed_wait_seconds_bucket{le=\"0.1\",upstream=\"shop\"} 2",
                "sopan_observed_wait_seconds_bucket{le=\"0.25\",upstream=\"shop\"} 3",
            ],
        );
    }
}
