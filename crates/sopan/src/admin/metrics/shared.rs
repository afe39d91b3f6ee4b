//! How it is with the store that instances share, where there is one: what was asked of it is counted as it happens, and how this
//! instance stands to it is read when somebody asks.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Unit;
use sopan_engine::shared::{FAULTS, Fault, Shared, StoreMode, StoreObserver, Trip};

/// What is asked of the store.
#[derive(Debug)]
pub(crate) struct Trips {
    answered: [Counter; Trip::ALL.len()],
    failed: [Counter; FAULTS.len()],
    took: Histogram,
}

/// From what a store on the same machine takes to the longest that is waited for.
const BUCKETS: [f64; 10] = [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1];

impl Default for Trips {
    fn default() -> Self {
        Self { answered: Default::default(), failed: Default::default(), took: Histogram::new(BUCKETS) }
    }
}

impl StoreObserver for Trips {
    fn asked(&self, what: Trip, took: Duration, fault: Option<&Fault>) {
        match fault {
            None => {
                self.answered[what as usize].inc();
                self.took.observe(took.as_secs_f64());
            }
            Some(fault) => {
                for (_, counter) in FAULTS.iter().zip(&self.failed).filter(|(kind, _)| **kind == fault.kind()) {
                    counter.inc();
                }
            }
        }
    }
}

/// The store that is shown, as long as it is used.
#[derive(Debug, Clone, Default)]
pub(super) struct Watched(Arc<OnceLock<(Weak<Shared>, Arc<Trips>)>>);

impl Watched {
    pub(super) fn watch(&self, shared: Weak<Shared>, trips: Arc<Trips>) {
        // A second one would be a mistake of ours that is not worth ending for.
        let first = self.0.set((shared, trips)).is_ok();
        debug_assert!(first, "a store is watched once");
    }
}

impl Collector for Watched {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let shown = self.0.get().and_then(|(shared, trips)| Some((shared.upgrade()?, trips)));
        shown.map_or(Ok(()), |(shared, trips)| Shown(encoder).store(&shared, trips))
    }
}

struct Shown<'a>(DescriptorEncoder<'a>);

impl Shown<'_> {
    fn store(&mut self, shared: &Shared, trips: &Trips) -> fmt::Result {
        let look = shared.look();
        let help = "Whether limits are kept together with the other instances: 1 if the store is reached.";
        let up = self.0.encode_descriptor("store_up", help, None, MetricType::Gauge)?;
        ConstGauge::new(u64::from(look.mode == StoreMode::Shared)).encode(up)?;
        let help = "Instances that share limits: those that are heard of, and those for which a share is kept.";
        let mut instances = self.0.encode_descriptor("store_instances", help, None, MetricType::Gauge)?;
        for (state, count) in [("seen", look.seen), ("counted", look.counted)] {
            ConstGauge::new(u64::from(count)).encode(instances.encode_family(&[("state", state)])?)?;
        }
        let help = "Questions that the store has answered, by what was asked.";
        let mut answered = self.0.encode_descriptor("store_round_trips", help, None, MetricType::Counter)?;
        for (what, counter) in Trip::ALL.iter().zip(&trips.answered) {
            counter.encode(answered.encode_family(&[("kind", what.word())])?)?;
        }
        let help = "Questions that it has not answered, by why.";
        let mut failed = self.0.encode_descriptor("store_failures", help, None, MetricType::Counter)?;
        for (kind, counter) in FAULTS.iter().zip(&trips.failed) {
            counter.encode(failed.encode_family(&[("reason", *kind)])?)?;
        }
        let help = "How long answers of the store took.";
        let took = self.0.encode_descriptor("store", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        trips.took.encode(took)
    }
}
