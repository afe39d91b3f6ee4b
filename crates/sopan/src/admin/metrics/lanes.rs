//! What upstreams are like now: who waits, holds, limits, breakers. Read from their lanes when somebody asks, so that it costs
//! nothing when nobody does.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use sopan_core::breaker::State;
use sopan_core::bucket::Fill;
use sopan_core::lane::Snapshot;
use sopan_engine::Upstream;

use crate::log;

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
#[derive(Debug, Clone)]
pub(super) struct Lanes(Arc<[Shown]>);

impl Lanes {
    /// Those of upstreams that are called so, none of which is watched yet.
    pub(super) fn new<'n>(names: impl Iterator<Item = &'n Arc<str>>) -> Self {
        Self(names.map(|name| Shown { name: Arc::clone(name), lane: OnceLock::new() }).collect())
    }

    /// Shows from now on what the upstream of this number is like, as long as it lives; once only.
    pub(super) fn watch(&self, number: usize, upstream: Weak<Upstream>, limits: Vec<String>) {
        // A second one would be a mistake of ours that is not worth ending for.
        let first = self.0[number].lane.set(Watched { upstream, limits }).is_ok();
        debug_assert!(first, "an upstream is watched once");
    }
}

impl Collector for Lanes {
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
mod tests {
    use std::time::Duration;

    use prometheus_client::encoding::text;
    use prometheus_client::registry::Registry;
    use sopan_core::time::Instant;

    use super::super::tests::{check_form, check_lines};
    use super::*;

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
}
