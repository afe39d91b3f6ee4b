//! Metrics with a value for each upstream, in the order of the settings: prometheus-client's own families show theirs in another
//! one each time it starts. What they mean is told by who registers them.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;

use super::tally::Tally;

/// A metric for each upstream.
#[derive(Debug)]
pub(super) struct ByUpstream<M> {
    kind: MetricType,
    metrics: Vec<(Arc<str>, M)>,
}

impl<M> ByUpstream<M> {
    pub(super) fn new(tallies: &[Arc<Tally>], kind: MetricType, of: fn(&Tally) -> M) -> Self {
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
pub(super) struct Counters<const N: usize> {
    label: &'static str,
    values: [&'static str; N],
    counters: Vec<(Arc<str>, [Counter; N])>,
}

impl<const N: usize> Counters<N> {
    pub(super) fn new(
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
