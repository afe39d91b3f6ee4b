//! What was counted of one upstream so far, as numbers, for who shows them beside other things.

use std::collections::BTreeMap;

use prometheus_client::metrics::counter::Counter;
use sopan_engine::event::Cached;
use sopan_engine::refusal::REASONS;

use super::Metrics;
use super::tally::{ATTEMPTS, CLASSES};

/// The counters, by the values of their label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::admin) struct Totals {
    pub(in crate::admin) exchanges: BTreeMap<String, u64>,
    pub(in crate::admin) attempts: BTreeMap<String, u64>,
    /// Without those that never were.
    pub(in crate::admin) refusals: BTreeMap<String, u64>,
    /// In the order of [`Cached::ALL`].
    pub(in crate::admin) cached: [u64; Cached::ALL.len()],
    pub(in crate::admin) tokens_saved: u64,
}

impl Metrics {
    /// Of the upstream of this number.
    pub(in crate::admin) fn totals(&self, number: usize) -> Totals {
        let tally = &self.upstreams[number];
        let mut refusals = by_name(&REASONS, &tally.refusals);
        refusals.retain(|_, count| *count > 0);
        Totals {
            exchanges: by_name(&CLASSES, &tally.exchanges),
            attempts: by_name(&ATTEMPTS, &tally.attempts),
            refusals,
            cached: std::array::from_fn(|kind| tally.cached[kind].get()),
            tokens_saved: tally.saved.get(),
        }
    }
}

fn by_name(names: &[&str], counters: &[Counter]) -> BTreeMap<String, u64> {
    names.iter().zip(counters).map(|(name, counter)| ((*name).to_owned(), counter.get())).collect()
}
