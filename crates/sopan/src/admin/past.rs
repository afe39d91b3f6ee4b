//! What was in the last five minutes? A few numbers a second of each upstream, for plots.

use std::collections::VecDeque;
use std::time::SystemTime;

use serde::Serialize;

use super::gather::thousandths;

/// Seconds that are remembered.
const SAMPLES_MAX: usize = 300;

/// What is remembered, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Past(VecDeque<Sample>);

#[derive(Debug)]
struct Sample {
    at: SystemTime,
    /// In the order of the settings.
    loads: Box<[Load]>,
}

/// How much an upstream has to do, at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Load {
    /// What may be sent in a second: nothing in a hold and while the breaker is open; none where it has no limit.
    pub(super) allowed_per_s: Option<f64>,
    pub(super) used_per_s: f64,
    pub(super) waiting: u64,
}

/// The same as it is told: columns, as long as each other.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct History<'a> {
    /// When, in seconds since 1970.
    at: Vec<f64>,
    upstreams: Vec<Columns<'a>>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Columns<'a> {
    name: &'a str,
    allowed_per_s: Vec<Option<f64>>,
    used_per_s: Vec<f64>,
    waiting: Vec<u64>,
}

impl Past {
    /// Adds how it is now.
    pub(super) fn remember(&mut self, loads: Box<[Load]>) {
        if self.0.len() == SAMPLES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Sample { at: SystemTime::now(), loads });
    }

    /// All of it; `names` in the order of the settings.
    pub(super) fn told<'a>(&self, names: impl Iterator<Item = &'a str>) -> History<'a> {
        let column = |number: usize| self.0.iter().filter_map(move |sample| sample.loads.get(number));
        let upstreams = names.enumerate().map(|(number, name)| Columns {
            name,
            allowed_per_s: column(number).map(|load| load.allowed_per_s.map(thousandths)).collect(),
            used_per_s: column(number).map(|load| thousandths(load.used_per_s)).collect(),
            waiting: column(number).map(|load| load.waiting).collect(),
        });
        History { at: self.0.iter().map(|sample| epoch(sample.at)).collect(), upstreams: upstreams.collect() }
    }
}

fn epoch(at: SystemTime) -> f64 {
    thousandths(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_minutes_are_told_in_columns_and_no_more() {
        let mut past = Past::default();
        for waiting in 0..310 {
            let held = Load { allowed_per_s: Some(0.0), used_per_s: 1.23456, waiting };
            past.remember([held, Load { allowed_per_s: None, used_per_s: 0.0, waiting: 0 }].into());
        }
        let History { at, upstreams } = past.told(["shop", "mail"].into_iter());
        assert!(at.len() == 300 && at.is_sorted(), "{at:?}");
        let [shop, mail] = &upstreams[..] else { panic!("{upstreams:?}") };
        assert_eq!((shop.name, shop.used_per_s[0], shop.allowed_per_s[299]), ("shop", 1.235, Some(0.0)));
        assert_eq!(shop.waiting, (10..310).collect::<Vec<_>>());
        assert_eq!((mail.allowed_per_s.len(), mail.allowed_per_s[0]), (300, None));
    }
}
