//! Where a lane has its turns from: a bucket of its own, or a book of what it was leased.
//!
//! Both are asked the same. What is shared is behind a pointer, so that a lane that is not pays nothing for it. An instance
//! that is cut off from the ledger has a bucket again, with its share of the limits: it begins with one token a rate, and with
//! its share of what was left of the quotas, since the others go on with theirs.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::bucket::{Bucket, Fill, Take};
use crate::policy::{LanePolicy, Limit, Margin};
use crate::share::{Ask, Book, Demand, Leased, Members, Mode, OnStoreFailure, Terms};
use crate::time::Instant;

#[derive(Debug)]
pub(super) enum Tokens {
    Own(Bucket),
    Shared(Box<Shared>),
}

/// The limits of a lane that many instances share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) book: Book,
    pub(super) members: Members,
    mode: Mode,
    /// What an instance that is cut off goes by.
    alone: Option<Bucket>,
    /// What it spent of it.
    spent: u64,
    /// What turns hold of a bucket that is gone, since the ledger is back: they are settled with the next one.
    left_out: u64,
    limits: Vec<Limit>,
    headroom: u32,
    margin: Margin,
}

impl Tokens {
    /// Reserves `cost` tokens if they are there; answers also until when the turn must be written.
    pub(super) fn take(&mut self, cost: u32, now: Instant) -> (Take, Instant) {
        match self {
            Self::Own(bucket) => (bucket.take(cost, now), Instant::NEVER),
            Self::Shared(shared) => shared.take(cost, now),
        }
    }

    pub(super) fn charge(&mut self, cost: u32, due: Option<Instant>, lapses: Instant, at: Instant) {
        match self {
            Self::Own(bucket) => bucket.charge(cost, due, at),
            Self::Shared(shared) => shared.charge(cost, due, lapses, at),
        }
    }

    pub(super) fn give_back(&mut self, cost: u32, lapses: Instant) {
        match self {
            Self::Own(bucket) => bucket.give_back(cost),
            Self::Shared(shared) => shared.give_back(cost, lapses),
        }
    }

    pub(super) fn predict(&self, ahead: u64, cost: u32, now: Instant) -> Instant {
        match self {
            Self::Own(bucket) => bucket.predict(ahead, cost, now),
            Self::Shared(shared) => match &shared.alone {
                Some(alone) => alone.predict(ahead, cost, now),
                None if shared.limits.is_empty() => now,
                None => shared.book.predict(ahead, cost, now),
            },
        }
    }

    /// Whether what is predicted comes by itself as long as nobody holds tokens; else an answer brings it.
    pub(super) fn is_certain(&self, ahead: u64, cost: u32, now: Instant) -> bool {
        match self {
            Self::Own(_) => true,
            Self::Shared(shared) => {
                let is_own = shared.alone.is_some() || shared.limits.is_empty();
                is_own || shared.book.is_certain(ahead, cost, now)
            }
        }
    }

    pub(super) fn hold_until(&mut self, end: Instant, now: Instant) {
        if let Self::Shared(shared) = self {
            shared.book.hold_until(end, now);
        }
        if let Some(bucket) = self.bucket() {
            bucket.hold_until(end);
        }
    }

    pub(super) fn hold_over(&mut self) {
        if let Some(bucket) = self.bucket() {
            bucket.hold_over();
        }
    }

    pub(super) fn release(&mut self, now: Instant) {
        if let Self::Shared(shared) = self {
            shared.book.ask_anew(now);
        }
        if let Some(bucket) = self.bucket() {
            bucket.release(now);
        }
    }

    /// The bucket that is gone by, if it is one.
    fn bucket(&mut self) -> Option<&mut Bucket> {
        match self {
            Self::Own(bucket) => Some(bucket),
            Self::Shared(shared) => shared.alone.as_mut(),
        }
    }

    /// The lane's own bucket, if its limits are not shared: only what that counts must outlive the process.
    pub(super) fn own(&mut self) -> Option<&mut Bucket> {
        match self {
            Self::Own(bucket) => Some(bucket),
            Self::Shared(_) => None,
        }
    }

    pub(super) fn calendar_due(&self) -> Instant {
        match self {
            Self::Own(bucket) => bucket.calendar_due(),
            Self::Shared(shared) => shared.alone.as_ref().map_or(Instant::NEVER, Bucket::calendar_due),
        }
    }

    pub(super) fn set_calendar(&mut self, now: Instant, wall: SystemTime) {
        if let Some(bucket) = self.bucket() {
            bucket.set_calendar(now, wall);
        }
    }

    /// Whether a turn holds tokens so that predictions move; those of a book do not.
    pub(super) fn is_reserved(&self) -> bool {
        match self {
            Self::Own(bucket) => bucket.is_reserved(),
            Self::Shared(shared) => shared.alone.as_ref().is_some_and(Bucket::is_reserved),
        }
    }

    pub(super) fn has_rate(&self) -> bool {
        match self {
            Self::Own(bucket) => bucket.has_rate(),
            Self::Shared(shared) => shared.limits.iter().any(|limit| matches!(limit, Limit::Rate(_))),
        }
    }

    pub(super) fn fills(&self, now: Instant) -> Vec<Fill> {
        match self {
            Self::Own(bucket) => bucket.fills(now).collect(),
            Self::Shared(shared) => match &shared.alone {
                Some(alone) => alone.fills(now).collect(),
                None => shared.book.fills(now),
            },
        }
    }

    pub(super) fn full_in(&self, now: Instant) -> Vec<Duration> {
        match self {
            Self::Own(bucket) => bucket.full_in(now).collect(),
            Self::Shared(shared) => match &shared.alone {
                Some(alone) => alone.full_in(now).collect(),
                None => shared.book.full_in(now),
            },
        }
    }

    pub(super) fn lasts(&self, per_s: f64, now: Instant) -> Option<Duration> {
        match self {
            Self::Own(bucket) => bucket.lasts(per_s, now),
            Self::Shared(shared) => match &shared.alone {
                Some(alone) => alone.lasts(per_s, now),
                None => shared.book.lasts(per_s, now),
            },
        }
    }

    /// Whether nothing is let through as long as the ledger is not to be heard of.
    pub(super) fn refuses(&self) -> bool {
        match self {
            Self::Own(_) => false,
            Self::Shared(shared) => matches!(shared.mode, Mode::After { policy: OnStoreFailure::Refuse, .. }),
        }
    }
}

impl Shared {
    /// Nothing has been heard of the ledger yet.
    pub(super) fn new(policy: &LanePolicy, now: Instant) -> Self {
        let terms = Terms::new(&policy.limits, policy.headroom, policy.rate_margin);
        Self {
            book: Book::new(Arc::new(terms), now),
            members: Members::ONE,
            mode: Mode::Silent,
            alone: None,
            spent: 0,
            left_out: 0,
            limits: policy.limits.clone(),
            headroom: policy.headroom,
            margin: policy.rate_margin,
        }
    }

    /// What it goes by from now on, and whether that is new; `hold` is the end of a pause, if there is one.
    pub(super) fn set_mode(&mut self, mode: Mode, hold: Option<Instant>, now: Instant) -> bool {
        if std::mem::replace(&mut self.mode, mode) == mode {
            return false;
        }
        match mode {
            Mode::Shared => {
                if let Some(alone) = self.alone.take() {
                    self.left_out = alone.reserved();
                    self.book.spend(std::mem::take(&mut self.spent));
                }
                self.book.ask_anew(now);
            }
            Mode::Silent => {}
            Mode::Alone { share } | Mode::After { policy: OnStoreFailure::Share, share } => {
                self.go_on(share, hold, now)
            }
            Mode::After { policy: OnStoreFailure::Ignore, .. } => self.go_on(1, hold, now),
            // What was reserved of the bucket is still settled with it.
            Mode::After { policy: OnStoreFailure::Refuse, .. } => {}
        }
        true
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// Goes on alone, at one of so many parts.
    fn go_on(&mut self, parts: u32, hold: Option<Instant>, now: Instant) {
        let limits: Vec<_> = self.limits.iter().map(|limit| limit.share(parts)).collect();
        if let Some(alone) = &mut self.alone {
            return alone.change(&limits, self.headroom, self.margin, now);
        }
        let mut bucket = Bucket::new(&limits, self.headroom, self.margin);
        bucket.begin_with(&self.book.fills(now), parts, now);
        bucket.set_reserved(std::mem::take(&mut self.left_out));
        if let Some(end) = hold {
            bucket.hold_until(end);
        }
        (self.alone, self.spent) = (Some(bucket), 0);
    }

    fn take(&mut self, cost: u32, now: Instant) -> (Take, Instant) {
        if matches!(self.mode, Mode::After { policy: OnStoreFailure::Refuse, .. }) {
            return (Take::At(Instant::NEVER), Instant::NEVER);
        }
        if let Some(alone) = &mut self.alone {
            return (alone.take(cost, now), Instant::NEVER);
        }
        if self.limits.is_empty() {
            return (Take::Taken { due: Instant::ORIGIN }, Instant::NEVER);
        }
        let found = self.book.look(cost, now);
        let lapses = if let Take::Taken { .. } = found { self.book.reserve(cost, now) } else { Instant::NEVER };
        (found, lapses)
    }

    fn charge(&mut self, cost: u32, due: Option<Instant>, lapses: Instant, at: Instant) {
        if lapses < Instant::NEVER {
            return self.book.charge(lapses);
        }
        match &mut self.alone {
            Some(alone) => {
                alone.charge(cost, due, at);
                self.spent += u64::from(cost);
            }
            // It was alone when this turn was granted.
            None if !self.limits.is_empty() => {
                self.left_out = self.left_out.saturating_sub(cost.into());
                self.book.spend(cost.into());
            }
            None => {}
        }
    }

    fn give_back(&mut self, cost: u32, lapses: Instant) {
        if lapses < Instant::NEVER {
            self.book.give_back(lapses);
        } else if let Some(alone) = &mut self.alone {
            alone.give_back(cost);
        } else {
            self.left_out = self.left_out.saturating_sub(cost.into());
        }
    }

    fn asks(&self) -> bool {
        self.mode == Mode::Shared && !self.limits.is_empty()
    }

    /// What to ask the ledger for now.
    pub(super) fn ask(&mut self, demand: Demand, now: Instant) -> Option<Ask> {
        if self.asks() { self.book.ask(demand, now) } else { None }
    }

    /// When to ask, if nothing happens before.
    pub(super) fn asks_at(&self, demand: Demand, now: Instant) -> Option<Instant> {
        if self.asks() { self.book.asks_at(demand, now) } else { None }
    }

    pub(super) fn grant(&mut self, leased: &Leased, received: Instant) {
        self.book.grant(leased, received);
    }
}
