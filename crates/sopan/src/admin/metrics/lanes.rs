//! What upstreams are like now: who waits, holds, limits, breakers. Read from their lanes when somebody asks, so that it costs
//! nothing when nobody does.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Unit;
use sopan_core::breaker::State;
use sopan_core::bucket::Fill;
use sopan_core::lane::Snapshot;
use sopan_core::policy::{LanePolicy, Limit};
use sopan_engine::Upstream;

use crate::admin::gather::sustained_per_s;

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
    bounds: Bounds,
}

/// What the settings bound a lane by.
#[derive(Debug)]
pub(crate) struct Bounds {
    limits: Vec<Bound>,
    waiting_max: u32,
    waiting_bytes_max: u64,
}

#[derive(Debug)]
struct Bound {
    limit: String,
    per_second: f64,
}

impl Bounds {
    /// Those of a policy; its `limits` rates before quotas, the order in which a lane tells how full they are.
    pub(crate) fn new<'l>(policy: &LanePolicy, limits: impl IntoIterator<Item = &'l Limit>) -> Self {
        let bound = |limit: &Limit| Bound { limit: limit.to_string(), per_second: sustained_per_s(limit) };
        Self {
            limits: limits.into_iter().map(bound).collect(),
            waiting_max: policy.waiting_max,
            waiting_bytes_max: policy.queue_bytes_max,
        }
    }
}

/// Reads the lanes when somebody asks.
#[derive(Debug, Clone)]
pub(super) struct Lanes(Arc<[Shown]>);

impl Lanes {
    /// Those of upstreams that are called so, none of which is watched yet.
    pub(super) fn new<'n>(names: impl Iterator<Item = &'n Arc<str>>) -> Self {
        Self(names.map(|name| Shown { name: Arc::clone(name), lane: OnceLock::new() }).collect())
    }

    /// Shows from now on what the upstream of this number is like, as long as it lives; once only.
    pub(super) fn watch(&self, number: usize, upstream: Weak<Upstream>, bounds: Bounds) {
        // A second one would be a mistake of ours that is not worth ending for.
        let first = self.0[number].lane.set(Watched { upstream, bounds }).is_ok();
        debug_assert!(first, "an upstream is watched once");
    }
}

impl Collector for Lanes {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let lanes = self.0.iter().filter_map(|shown| {
            let Watched { upstream, bounds } = shown.lane.get()?;
            Some(Lane { upstream: &shown.name, now: upstream.upgrade()?.snapshot(), bounds })
        });
        Lines(encoder).lanes(&lanes.collect::<Vec<_>>())
    }
}

/// What a lane is like now.
struct Lane<'a> {
    upstream: &'a str,
    now: Snapshot,
    bounds: &'a Bounds,
}

/// Writes what lanes are like.
struct Lines<'a>(DescriptorEncoder<'a>);

impl Lines<'_> {
    fn lanes(&mut self, lanes: &[Lane<'_>]) -> fmt::Result {
        if lanes.is_empty() {
            return Ok(());
        }
        let (bytes, seconds) = (Some(&Unit::Bytes), Some(&Unit::Seconds));
        self.gauge(lanes, "waiting", "Requests that wait for a turn.", None, |lane| lane.now.waiting as f64)?;
        let help = "Requests that may wait for a turn.";
        self.gauge(lanes, "waiting_max", help, None, |lane| f64::from(lane.bounds.waiting_max))?;
        let help = "Bytes that waiting requests hold.";
        self.gauge(lanes, "waiting", help, bytes, |lane| lane.now.waiting_bytes as f64)?;
        let help = "Bytes that waiting requests may hold.";
        self.gauge(lanes, "waiting_max", help, bytes, |lane| lane.bounds.waiting_bytes_max as f64)?;
        let help = "Requests under way, from the turn to the end of the answer.";
        self.gauge(lanes, "in_flight", help, None, |lane| f64::from(lane.now.in_flight))?;
        let help = "What is left of a pause that the upstream or an operator asked for.";
        self.gauge(lanes, "hold", help, seconds, |lane| lane.now.hold.unwrap_or_default().as_secs_f64())?;
        let help = "Pauses that the upstream or an operator asked for.";
        self.counter(lanes, "holds", help, |lane| lane.now.holds)?;
        let help = "Requests that each limit would let go now; negative while a debt is paid off.";
        self.family(lanes, "limit_tokens", help, "limit", |lane| fills(lane, |fill| fill.tokens))?;
        let help = "Requests that each limit would let go after a quiet time.";
        self.family(lanes, "limit_capacity", help, "limit", |lane| fills(lane, |fill| fill.capacity))?;
        let help = "Requests that each limit lets go in a second, in the long run.";
        self.family(lanes, "limit_per_second", help, "limit", |lane| {
            lane.bounds.limits.iter().map(|bound| (&*bound.limit, bound.per_second)).collect()
        })?;
        let help = "Retries that the traffic of the last 10 s affords now.";
        self.gauge(lanes, "retry_budget", help, None, |lane| lane.now.retries_left.map(|left| left as f64))?;
        let help = "The state of the breaker: 1 for the one it is in.";
        self.family(lanes, "breaker", help, "state", |lane| states(lane.now.breaker).to_vec())?;
        let help = "Outages for which the breaker opened.";
        self.counter(lanes, "breaker_trips", help, |lane| lane.now.trips)
    }

    /// One value for each lane that has one.
    fn gauge<V: Into<Option<f64>>>(
        &mut self,
        lanes: &[Lane<'_>],
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        of: fn(&Lane<'_>) -> V,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for lane in lanes {
            if let Some(value) = of(lane).into() {
                family.encode_family(&[("upstream", lane.upstream)])?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }

    fn counter(&mut self, lanes: &[Lane<'_>], name: &str, help: &str, of: fn(&Lane<'_>) -> u64) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for lane in lanes {
            ConstCounter::new(of(lane)).encode(family.encode_family(&[("upstream", lane.upstream)])?)?;
        }
        Ok(())
    }

    /// Several values for each lane, told apart by another label.
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
    lane.bounds.limits.iter().map(|bound| &*bound.limit).zip(lane.now.fills.iter().map(of)).collect()
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
mod tests {
    use std::time::Duration;

    use prometheus_client::encoding::text;
    use prometheus_client::registry::Registry;
    use sopan_core::time::Instant;

    use super::super::tests::{check_form, check_lines};
    use super::*;

    /// What a registry shows of these lanes, in this order.
    fn shown(lanes: Vec<(&'static str, Snapshot, Bounds)>) -> String {
        #[derive(Debug)]
        struct Fixed(Vec<(&'static str, Snapshot, Bounds)>);
        impl Collector for Fixed {
            fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
                let lanes = self.0.iter().map(|(upstream, now, bounds)| Lane { upstream, now: now.clone(), bounds });
                Lines(encoder).lanes(&lanes.collect::<Vec<_>>())
            }
        }
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
            trips: 4,
            retries_left: Some(88),
            fills: vec![Fill { tokens: -0.5, capacity: 19.0 }, Fill { tokens: 4000.0, capacity: 5000.0 }],
        };
        let mail =
            Snapshot { hold: None, breaker: State::Open { until: Instant::NEVER }, retries_left: None, ..shop.clone() };
        let limits: Vec<Limit> = ["10/s burst 20", "5400 per 1h"].iter().map(|limit| limit.parse().unwrap()).collect();
        let bounds = |limits: &[Limit]| Bounds::new(&LanePolicy::default(), limits);
        let text = shown(vec![("shop", shop, bounds(&limits)), ("mail", mail, bounds(&[]))]);
        check_form(&text);
        check_lines(
            &text,
            &[
                "sopan_waiting{upstream=\"shop\"} 7.0",
                "sopan_waiting{upstream=\"mail\"} 7.0",
                "sopan_waiting_max{upstream=\"mail\"} 1000.0",
                "sopan_waiting_bytes{upstream=\"shop\"} 3500.0",
                "sopan_waiting_max_bytes{upstream=\"shop\"} 67108864.0",
                "sopan_in_flight{upstream=\"shop\"} 3.0",
                "sopan_hold_seconds{upstream=\"shop\"} 1.5",
                "sopan_hold_seconds{upstream=\"mail\"} 0.0",
                "sopan_holds_total{upstream=\"shop\"} 2",
                "sopan_holds_total{upstream=\"mail\"} 2",
                "sopan_limit_tokens{upstream=\"shop\",limit=\"10/s burst 20\"} -0.5",
                "sopan_limit_tokens{upstream=\"shop\",limit=\"5400 per 1h\"} 4000.0",
                "sopan_limit_capacity{upstream=\"shop\",limit=\"5400 per 1h\"} 5000.0",
                "sopan_limit_per_second{upstream=\"shop\",limit=\"10/s burst 20\"} 10.0",
                "sopan_limit_per_second{upstream=\"shop\",limit=\"5400 per 1h\"} 1.5",
                "sopan_retry_budget{upstream=\"shop\"} 88.0",
                "sopan_breaker{upstream=\"shop\",state=\"closed\"} 0.0",
                "sopan_breaker{upstream=\"shop\",state=\"open\"} 0.0",
                "sopan_breaker{upstream=\"shop\",state=\"half_open\"} 1.0",
                "sopan_breaker{upstream=\"mail\",state=\"open\"} 1.0",
                "sopan_breaker_trips_total{upstream=\"mail\"} 4",
            ],
        );
        // Where any number can be afforded there is none to tell.
        assert!(!text.contains("sopan_retry_budget{upstream=\"mail\"}"));
        assert!(!text.contains("upstream=\"mail\",limit"));
    }
}
