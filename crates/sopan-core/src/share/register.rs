//! Which instances are there?
//!
//! Each says every [`BEAT`](super::BEAT) that it lives, and hears how many do. One that has not said so for three beats is
//! unseen: it may be cut off, and goes on alone with its share, which the others leave it; so it counts until its grace is over.
//! One that ends in order says so.
//!
//! A register that has lost its memory must not take the first who comes for the only one: the others may go on at their shares,
//! and that would be more than the limits. So whoever comes first brings along as many as it knows of, without their names, as
//! seen long ago. Each takes the place of one of them when it comes itself, and who never comes is forgotten like any other.
//!
//! As a script this is `members`, line by line; it is kept apart from the ledgers.

use std::collections::BTreeMap;
use std::time::Duration;

use super::terms::micros;
use super::{Members, Stamp, UNSEEN_AFTER};

/// How those are called who have no names; no instance's begins so.
const NAMELESS: char = '?';
/// More are not brought along.
const NAMELESS_MAX: u32 = 1000;

/// The instances, as a server keeps them.
#[derive(Debug, Clone, Default)]
pub struct Register {
    seen: BTreeMap<String, u64>,
}

impl Register {
    /// An instance lives when the clock shows `now`; answers who does.
    pub fn beat(&mut self, instance: &str, grace: Duration, now: Stamp) -> Members {
        self.beat_knowing(1, instance, grace, now)
    }

    /// The same of one that knows of `known` instances, itself included.
    pub fn beat_knowing(&mut self, known: u32, instance: &str, grace: Duration, now: Stamp) -> Members {
        // Those whom a clock that was set back left in the future have been seen now.
        self.seen.values_mut().for_each(|seen| *seen = (*seen).min(now.0));
        self.seen.retain(|_, seen| *seen + micros(grace) > now.0);
        if self.seen.is_empty() {
            let unseen = now.0.saturating_sub(micros(UNSEEN_AFTER));
            self.seen.extend((1..known.min(NAMELESS_MAX)).map(|other| (format!("{NAMELESS}{other}"), unseen)));
        } else if !self.seen.contains_key(instance) {
            let longest_ago = self.seen.iter().filter(|(name, _)| name.starts_with(NAMELESS));
            // Those that were seen at the same time have the order of their names, as in a sorted set.
            let first = longest_ago.min_by(|a, b| (a.1, a.0).cmp(&(b.1, b.0))).map(|(name, _)| name.clone());
            first.map(|name| self.seen.remove(&name));
        }
        self.seen.insert(instance.to_owned(), now.0);
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

    #[test]
    fn a_register_that_lost_its_memory_leaves_the_others_their_shares() {
        let mut register = Register::default();
        let mut beat = |known: u32, instance: &str, ms: u64| {
            let now = Stamp(100_000_000 + ms * 1000);
            let Members { seen, counted } = register.beat_knowing(known, instance, Duration::from_secs(10), now);
            (seen, counted)
        };
        assert_eq!((beat(4, "a", 0), beat(4, "b", 50), beat(4, "a", 200)), ((1, 4), (2, 4), (2, 4)));
        // One that nobody knew of may be one of those.
        assert_eq!((beat(1, "e", 300), beat(4, "a", 400), beat(4, "b", 450)), ((3, 4), (3, 4), (3, 4)));
        assert_eq!(beat(4, "a", 9_399), (1, 4));
        assert_eq!(beat(4, "a", 9_400), (1, 3));
    }
}
