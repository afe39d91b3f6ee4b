//! How many turns beyond those that requests wait for are worth asking for?
//!
//! Few clients that ask again as soon as they are served use as many turns as many clients do, but at any instant few of their
//! requests wait. Asked for one by one, their turns would each be a whole line away, and they would get next to nothing beside
//! an instance with a long queue. So more is asked for than waits, as long as requests are there when those turns come due:
//! twice as much each time, and after a turn that was used late or not at all half of it, and then one more now and then. A turn
//! that is leased in vain is one that nobody has.
//!
//! What is used at an even pace whatever there is, the [`Book`](super::Book) expects by itself.

use std::time::Duration;

use crate::time::Instant;

/// By then it is seen what became of what was asked for before: a ledger leases no further ahead, and a turn has left or lapsed.
const TRIAL: Duration = Duration::from_millis(300);
/// The longest until it is tried again whether more is of use.
const PATIENCE_MAX: Duration = Duration::from_secs(20);
/// After so many times its patience without a miss, it is as new.
const CALM: u32 = 8;

#[derive(Debug, Clone, Copy)]
pub(super) struct Beyond {
    turns: u64,
    /// So many were once too many by half; up to here it grows fast.
    proven: u64,
    grows_at: Instant,
    missed_at: Instant,
    patience: Duration,
}

impl Beyond {
    pub(super) fn new(now: Instant) -> Self {
        Self { turns: 0, proven: u64::MAX, grows_at: now, missed_at: now, patience: TRIAL }
    }

    pub(super) fn turns(&self) -> u64 {
        self.turns
    }

    /// Turns were leased for which somebody else would have had a use; more than `most` are not worth it.
    pub(super) fn grow(&mut self, most: u64, now: Instant) {
        if now.since(self.missed_at) > self.patience * CALM {
            // What was so long ago says nothing of now.
            *self = Self { turns: self.turns, grows_at: self.grows_at, ..Self::new(now) };
        }
        if now >= self.grows_at {
            let is_known = self.turns < self.proven;
            self.turns = if is_known { (self.turns * 2).clamp(1, self.proven) } else { self.turns + 1 };
            self.grows_at = now.after(if is_known { TRIAL } else { self.patience });
        }
        self.turns = self.turns.min(most);
    }

    /// A turn lapsed unused, or was used late.
    pub(super) fn missed(&mut self, now: Instant) {
        if self.turns > 0 && now.since(self.missed_at) > TRIAL {
            self.turns /= 2;
            (self.proven, self.missed_at) = (self.turns, now);
            self.patience = (self.patience * 2).min(PATIENCE_MAX);
        }
        self.grows_at = self.grows_at.max(now.after(self.patience));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos((1_000_000 + ms) * 1_000_000)
    }

    #[test]
    fn it_doubles_while_all_is_used_and_is_halved_and_careful_when_it_was_too_much() {
        let mut beyond = Beyond::new(at(0));
        let grown = |beyond: &mut Beyond, from: u64, to: u64| {
            (from..to).step_by(100).for_each(|ms| beyond.grow(15, at(ms)));
            beyond.turns()
        };
        assert_eq!([300, 600, 900, 1_200, 5_000].map(|to| grown(&mut beyond, to - 300, to)), [1, 2, 4, 8, 15]);
        // However many are missed at once, they were asked for at once.
        (0..5).for_each(|ms| beyond.missed(at(5_000 + ms)));
        assert_eq!((beyond.turns(), grown(&mut beyond, 5_100, 5_600)), (7, 7));
        assert_eq!([6_200, 6_800, 7_400].map(|to| grown(&mut beyond, to - 600, to)), [8, 9, 10]);
        // Where it is too much again and again, it is tried ever less often.
        (0..4).for_each(|time| beyond.missed(at(8_000 + time * 400)));
        assert_eq!((beyond.turns(), grown(&mut beyond, 9_300, 18_700)), (0, 0));
        assert_eq!(grown(&mut beyond, 18_700, 19_000), 1);
        // And when all has been well for long, as if nothing had been.
        assert_eq!(grown(&mut beyond, 200_000, 202_000), 15);
        beyond.grow(2, at(202_000));
        assert_eq!(beyond.turns(), 2);
    }

    #[test]
    fn a_turn_that_is_used_late_says_nothing_where_none_were_asked_for_in_advance() {
        let mut beyond = Beyond::new(at(0));
        (0..1_000).for_each(|ms| beyond.missed(at(ms * 1_000)));
        beyond.grow(15, at(1_001_000));
        assert_eq!(beyond.turns(), 1);
        beyond.grow(15, at(1_001_300));
        assert_eq!(beyond.turns(), 2);
    }
}
