//! Which instances are there?
//!
//! Each says every [`BEAT`](super::BEAT) that it lives, and hears how many do. One that has not said so for three beats is
//! unseen: it may be cut off, and goes on alone with its share, which the others leave it; so it counts until its grace is over.
//! One that ends in order says so. As a script this is `beat`; it is kept apart from the ledgers.

use std::collections::BTreeMap;
use std::time::Duration;

use super::terms::micros;
use super::{Members, Stamp, UNSEEN_AFTER};

/// The instances, as a server keeps them.
#[derive(Debug, Clone, Default)]
pub struct Register {
    seen: BTreeMap<String, u64>,
}

impl Register {
    /// An instance lives when the clock shows `now`; answers who does.
    pub fn beat(&mut self, instance: &str, grace: Duration, now: Stamp) -> Members {
        // Those whom a clock that was set back left in the future have been seen now.
        self.seen.values_mut().for_each(|seen| *seen = (*seen).min(now.0));
        self.seen.insert(instance.to_owned(), now.0);
        self.seen.retain(|_, seen| *seen + micros(grace) > now.0);
        let of_late = self.seen.values().filter(|seen| **seen + micros(UNSEEN_AFTER) > now.0).count();
        let count = |members: usize| u32::try_from(members).unwrap_or(u32::MAX);
        Members { seen: count(of_late), counted: count(self.seen.len()) }
    }

    /// An instance ends in order.
    pub fn leave(&mut self, instance: &str) {
        self.seen.remove(instance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_seen_counts_until_its_grace_is_over_and_who_leaves_at_once_not() {
        let mut register = Register::default();
        let mut beat = |instance: &str, ms: u64| {
            let Members { seen, counted } = register.beat(instance, Duration::from_secs(10), Stamp(ms * 1000));
            (seen, counted)
        };
        assert_eq!((beat("a", 0), beat("b", 100), beat("c", 150)), ((1, 1), (2, 2), (3, 3)));
        assert_eq!((beat("a", 699), beat("a", 700), beat("a", 750)), ((3, 3), (2, 3), (1, 3)));
        assert_eq!((beat("a", 10_099), beat("a", 10_100), beat("a", 10_150)), ((1, 3), (1, 2), (1, 1)));
        assert_eq!(beat("b", 9_000), (2, 2));
        register.leave("b");
        assert_eq!(register.beat("a", Duration::from_secs(10), Stamp(9_000_100)), Members::ONE);
    }
}
