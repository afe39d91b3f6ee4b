//! How full the cache is, that of all upstreams together, and what that has cost. Read from it when somebody asks; of the disk,
//! and of what is shared with other instances, only where that is.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use sopan_engine::{Cache, CommonsUsage, DiskState, Usage};

/// The cache that is shown, as long as it lives.
#[derive(Debug, Clone, Default)]
pub(super) struct Watched(Arc<OnceLock<Weak<Cache>>>);

impl Watched {
    pub(super) fn watch(&self, cache: Weak<Cache>) {
        // A second one would be a mistake of ours that is not worth ending for.
        let first = self.0.set(cache).is_ok();
        debug_assert!(first, "a cache is watched once");
    }
}

impl Collector for Watched {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let cache = self.0.get().and_then(Weak::upgrade);
        cache.map_or(Ok(()), |cache| Shown(encoder).usage(&cache.usage()))
    }
}

struct Shown<'a>(DescriptorEncoder<'a>);

impl Shown<'_> {
    fn usage(&mut self, usage: &Usage) -> fmt::Result {
        let disk = usage.disk.as_ref();
        let bytes = (usage.memory_bytes, disk.map(|disk| disk.bytes));
        self.tiers("cache", "What stored answers take.", Some(&Unit::Bytes), MetricType::Gauge, bytes)?;
        let bytes_max = (usage.memory_bytes_max, disk.map(|disk| disk.bytes_max));
        self.tiers("cache_max", "What stored answers may take.", Some(&Unit::Bytes), MetricType::Gauge, bytes_max)?;
        let targets = (usage.memory_targets, disk.map(|disk| disk.targets));
        self.tiers("cache_entries", "URLs for which answers are stored.", None, MetricType::Gauge, targets)?;
        let evictions = (usage.memory_evictions, disk.map(|disk| disk.evictions));
        let help = "Answers that went to make room for others.";
        self.tiers("cache_evictions", help, None, MetricType::Counter, evictions)?;
        usage.commons.as_ref().map_or(Ok(()), |commons| self.commons(commons))?;
        let Some(disk) = disk else { return Ok(()) };
        let help = "Answers that were not stored on the disk because it was full, lost or too slow.";
        let skipped = self.0.encode_descriptor("cache_disk_skipped", help, None, MetricType::Counter)?;
        ConstCounter::new(disk.skipped).encode(skipped)?;
        let help = "The state of the disk of the cache: 1 for the one it is in.";
        let mut states = self.0.encode_descriptor("cache_disk", help, None, MetricType::Gauge)?;
        for (name, state) in [("in_use", DiskState::InUse), ("paused", DiskState::Paused), ("lost", DiskState::Lost)] {
            ConstGauge::new(u64::from(disk.state == state)).encode(states.encode_family(&[("state", name)])?)?;
        }
        Ok(())
    }

    /// What came of sharing answers.
    fn commons(&mut self, usage: &CommonsUsage) -> fmt::Result {
        let help =
            "Whether stored answers are shared with other instances now: 1 if all that is made untrue is heard of.";
        let up = self.0.encode_descriptor("cache_shared_up", help, None, MetricType::Gauge)?;
        ConstGauge::new(u64::from(usage.is_in_step)).encode(up)?;
        let help = "Times that an answer was looked for there that was not at hand.";
        let damaged = ("damaged", usage.damaged);
        self.results("cache_shared_reads", help, &[("found", usage.found), ("missed", usage.missed), damaged])?;
        let help = "Answers that were to be stored there.";
        let skipped = ("skipped", usage.skipped);
        self.results("cache_shared_writes", help, &[("stored", usage.stored), ("refused", usage.refused), skipped])?;
        let help = "Requests that waited for an equal one at another instance.";
        let waits = self.0.encode_descriptor("cache_shared_waits", help, None, MetricType::Counter)?;
        ConstCounter::new(usage.waited).encode(waits)?;
        let help = "Times that Redis could not be asked for stored answers.";
        let failures = self.0.encode_descriptor("cache_shared_failures", help, None, MetricType::Counter)?;
        ConstCounter::new(usage.failed).encode(failures)
    }

    fn results(&mut self, name: &str, help: &str, counts: &[(&'static str, u64)]) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (result, count) in counts {
            ConstCounter::new(*count).encode(family.encode_family(&[("result", *result)])?)?;
        }
        Ok(())
    }

    /// One value for the memory, and one for the disk if there is one.
    fn tiers(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        kind: MetricType,
        (memory, disk): (u64, Option<u64>),
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit, kind)?;
        for (tier, value) in [("memory", Some(memory)), ("disk", disk)] {
            let Some(value) = value else { continue };
            let labels = [("tier", tier)];
            let one = family.encode_family(&labels)?;
            match kind {
                MetricType::Counter => ConstCounter::new(value).encode(one)?,
                _ => ConstGauge::new(value).encode(one)?,
            }
        }
        Ok(())
    }
}
