//! Is this instance in touch with the ledger, and what may it do if not?
//!
//! ```text
//! Shared ── an ask or a beat fails ──▶ Silent ── ALONE_AFTER since the last contact ──▶ Alone ── grace less a beat ──▶ After
//!   ▲                                    │                                               │                            │
//!   └───────────────────────── a beat is answered ─────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The last contact is when the last beat was *sent* that was answered: the ledger has seen it no sooner. What the modes mean
//! for a lane is [`Lane::set_contact`](crate::lane::Lane::set_contact)'s business; who beats, and logs it, the caller's.

use std::time::Duration;

use super::{ALONE_AFTER, ALONE_AT_START, BEAT, GRACE_MIN, Members, PROBE};
use crate::time::Instant;

/// What an instance does that has been cut off for longer than the others count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnStoreFailure {
    /// It goes on with its share.
    #[default]
    Share,
    /// It refuses requests.
    Refuse,
    /// It uses the whole of the limits by itself.
    Ignore,
}

/// What an instance goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The ledger.
    Shared,
    /// What it was leased, while that lasts; the others do not know yet that it is cut off.
    Silent,
    /// Itself, at one of so many parts of every limit.
    Alone {
        /// How many parts.
        share: u32,
    },
    /// What the settings say of an instance that has been cut off for long.
    After {
        /// That.
        policy: OnStoreFailure,
        /// How many parts the limits would have.
        share: u32,
    },
}

/// Whether this instance is in touch with the ledger.
#[derive(Debug, Clone)]
pub struct Contact {
    policy: OnStoreFailure,
    grace: Duration,
    /// How many instances there are, if the settings say so.
    instances: Option<u32>,
    mode: Mode,
    /// When the last beat was sent that was answered, or when this began.
    last: Instant,
    was_answered: bool,
    members: Members,
    /// The most that were counted in the grace that ends now, and in the one before.
    most: [u32; 2],
    most_since: Instant,
    next_beat: Instant,
}

impl Contact {
    /// The contact of an instance that begins now.
    pub fn new(policy: OnStoreFailure, grace: Duration, instances: Option<u32>, now: Instant) -> Self {
        Self {
            policy,
            grace: grace.max(GRACE_MIN),
            instances,
            mode: Mode::Silent,
            last: now,
            was_answered: false,
            members: Members::ONE,
            most: [1, 1],
            most_since: now,
            next_beat: now,
        }
    }

    /// What it goes by.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Who shares, as was last heard.
    pub fn members(&self) -> Members {
        self.members
    }

    /// Whether the ledger has ever been heard of.
    pub fn was_answered(&self) -> bool {
        self.was_answered
    }

    /// In how many parts the limits are divided where each goes by itself: as the settings say, else as many as were counted of
    /// late.
    pub fn share(&self) -> u32 {
        self.instances.unwrap_or(self.most[0].max(self.most[1])).max(1)
    }

    /// A beat that was sent at `sent` was answered.
    pub fn answered(&mut self, sent: Instant, members: Members, now: Instant) {
        self.members = members.sound();
        // A register that was lost counts from one again, so for the share it is what there were of late.
        if now.since(self.most_since) > self.grace {
            (self.most, self.most_since) = ([1, self.most[0]], now);
        }
        self.most[0] = self.most[0].max(self.members.counted);
        (self.mode, self.was_answered) = (Mode::Shared, true);
        self.last = self.last.max(sent);
        self.next_beat = sent.after(BEAT);
    }

    /// An ask or a beat failed, or took too long.
    pub fn failed(&mut self, now: Instant) {
        // Most failures are over at once, and what they cost is what is not leased meanwhile.
        let begins = !self.was_answered && self.mode == Mode::Silent;
        let again = if self.mode == Mode::Shared || begins { BEAT } else { PROBE };
        if self.mode == Mode::Shared {
            self.mode = Mode::Silent;
        }
        self.next_beat = now.after(again);
        self.pass(now);
    }

    /// What it is the contact with has not answered since then, though the ledgers as a whole have.
    pub fn unanswered_since(&mut self, since: Instant) {
        self.last = self.last.min(since);
    }

    /// Whether it is time for a beat; if so, the next one is not due before this one has been answered or has failed.
    pub fn beats(&mut self, now: Instant) -> bool {
        let is_due = now >= self.next_beat;
        if is_due {
            self.next_beat = Instant::NEVER;
        }
        is_due
    }

    /// Does what time brings; answers when to look again.
    pub fn tick(&mut self, now: Instant) -> Instant {
        self.pass(now);
        let next = match self.mode {
            Mode::Shared | Mode::After { .. } => Instant::NEVER,
            Mode::Silent => self.last.after(self.silence()),
            Mode::Alone { .. } => self.last.after(self.grace - BEAT),
        };
        next.min(self.next_beat)
    }

    /// How long it is silent. Nobody keeps a share for one that was never heard of.
    fn silence(&self) -> Duration {
        if self.was_answered { ALONE_AFTER } else { ALONE_AT_START }
    }

    fn pass(&mut self, now: Instant) {
        let cut_off = now.since(self.last);
        let share = self.share();
        self.mode = match self.mode {
            Mode::Silent | Mode::Alone { .. } if cut_off >= self.grace - BEAT => {
                Mode::After { policy: self.policy, share }
            }
            Mode::Silent if cut_off >= self.silence() => Mode::Alone { share },
            mode => mode,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn members(seen: u32, counted: u32) -> Members {
        Members { seen, counted }
    }

    #[test]
    fn an_instance_that_is_cut_off_is_silent_then_alone_then_does_what_it_was_told() {
        for policy in [OnStoreFailure::Share, OnStoreFailure::Refuse, OnStoreFailure::Ignore] {
            let mut contact = Contact::new(policy, Duration::from_secs(10), None, at(0));
            assert!(contact.beats(at(0)) && !contact.beats(at(1)));
            contact.answered(at(0), members(4, 4), at(1));
            assert_eq!((contact.mode(), contact.tick(at(1))), (Mode::Shared, at(200)));
            // However late it is looked at, while nothing fails it is in touch.
            assert_eq!(contact.tick(at(60_000)), at(200));
            contact.answered(at(60_000), members(4, 4), at(60_001));
            contact.failed(at(60_300));
            assert_eq!((contact.mode(), contact.tick(at(60_300))), (Mode::Silent, at(60_500)));
            assert!(contact.beats(at(60_500)));
            contact.failed(at(60_600));
            assert_eq!((contact.mode(), contact.tick(at(60_600))), (Mode::Silent, at(61_200)));
            assert_eq!(contact.tick(at(61_200)), at(61_600));
            assert_eq!(contact.mode(), Mode::Alone { share: 4 });
            assert!(contact.beats(at(61_600)));
            contact.failed(at(61_700));
            assert_eq!(contact.tick(at(61_700)), at(62_700));
            assert_eq!(contact.tick(at(69_799)), at(62_700));
            assert_eq!(contact.mode(), Mode::Alone { share: 4 });
            contact.tick(at(69_800));
            assert_eq!(contact.mode(), Mode::After { policy, share: 4 });
            contact.answered(at(70_000), members(1, 2), at(70_001));
            assert_eq!((contact.mode(), contact.members()), (Mode::Shared, members(1, 2)));
        }
    }

    #[test]
    fn the_share_is_what_the_settings_say_or_what_was_counted_of_late() {
        let mut contact = Contact::new(OnStoreFailure::Share, Duration::from_secs(10), None, at(0));
        assert_eq!((contact.share(), contact.was_answered()), (1, false));
        contact.answered(at(0), members(4, 5), at(1));
        // The register was lost.
        contact.answered(at(200), members(1, 1), at(201));
        assert_eq!((contact.share(), contact.members()), (5, Members::ONE));
        for beat in 0..200 {
            contact.answered(at(400 + beat * 200), members(2, 2), at(401 + beat * 200));
        }
        assert_eq!(contact.share(), 2);
        contact.failed(at(41_000));
        contact.failed(at(42_000));
        assert_eq!(contact.mode(), Mode::Alone { share: 2 });

        let mut fixed = Contact::new(OnStoreFailure::Share, Duration::from_secs(10), Some(7), at(0));
        fixed.answered(at(0), members(2, 2), at(1));
        assert_eq!(fixed.share(), 7);
    }

    #[test]
    fn one_that_never_heard_of_the_ledger_goes_on_by_itself() {
        let mut contact = Contact::new(OnStoreFailure::Share, Duration::from_secs(10), Some(3), at(0));
        contact.failed(at(30));
        assert_eq!((contact.mode(), contact.tick(at(30))), (Mode::Silent, at(230)));
        contact.failed(at(230));
        assert_eq!(contact.tick(at(230)), at(430));
        assert_eq!(contact.tick(at(499)), at(430));
        contact.tick(at(500));
        assert_eq!(contact.mode(), Mode::Alone { share: 3 });
    }
}
