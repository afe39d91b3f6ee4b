//! One quota, of a sliding span or of the calendar.

use std::time::SystemTime;

use super::day::DayCount;
use super::ring::QuotaRing;
use super::{Fill, Room};
use crate::time::Instant;

#[derive(Debug, Clone)]
pub(super) enum QuotaCount {
    Sliding(QuotaRing),
    Calendar(DayCount),
}

impl QuotaCount {
    pub(super) fn room(&self, cost: u32, now: Instant) -> Room {
        match self {
            Self::Sliding(ring) => ring.room(cost, now),
            Self::Calendar(days) => days.room(cost, now),
        }
    }

    pub(super) fn reserve(&mut self, cost: u32) {
        match self {
            Self::Sliding(ring) => ring.reserve(cost),
            Self::Calendar(days) => days.reserve(cost),
        }
    }

    pub(super) fn charge(&mut self, cost: u32, written: Instant) {
        match self {
            Self::Sliding(ring) => ring.charge(cost, written),
            Self::Calendar(days) => days.charge(cost, written),
        }
    }

    pub(super) fn give_back(&mut self, cost: u32) {
        match self {
            Self::Sliding(ring) => ring.give_back(cost),
            Self::Calendar(days) => days.give_back(cost),
        }
    }

    pub(super) fn predict(&self, ahead: u64, cost: u32, now: Instant) -> Instant {
        match self {
            Self::Sliding(ring) => ring.predict(ahead, cost, now),
            Self::Calendar(days) => days.predict(ahead, cost, now),
        }
    }

    pub(super) fn reserved(&self) -> u64 {
        match self {
            Self::Sliding(ring) => ring.reserved(),
            Self::Calendar(days) => days.reserved(),
        }
    }

    pub(super) fn set_reserved(&mut self, reserved: u64) {
        match self {
            Self::Sliding(ring) => ring.set_reserved(reserved),
            Self::Calendar(days) => days.set_reserved(reserved),
        }
    }

    pub(super) fn fill(&self, now: Instant) -> Fill {
        match self {
            Self::Sliding(ring) => ring.fill(now),
            Self::Calendar(days) => days.fill(now),
        }
    }

    /// Takes over what was counted by one of the same kind.
    pub(super) fn take_over(&mut self, old: &Self) {
        match (self, old) {
            (Self::Sliding(new), Self::Sliding(old)) => new.take_over(old),
            (Self::Calendar(new), Self::Calendar(old)) => new.take_over(old),
            (Self::Sliding(_), Self::Calendar(_)) | (Self::Calendar(_), Self::Sliding(_)) => {}
        }
    }

    /// When the calendar must be told again; never for a sliding span.
    pub(super) fn calendar_due(&self) -> Instant {
        match self {
            Self::Sliding(_) => Instant::NEVER,
            Self::Calendar(days) => days.due(),
        }
    }

    pub(super) fn set_calendar(&mut self, now: Instant, wall: SystemTime) {
        if let Self::Calendar(days) = self {
            days.set_calendar(now, wall);
        }
    }

    pub(super) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Of the quotas that were kept to before, the one that the `nth` of this kind takes over from.
    pub(super) fn predecessor<'a>(&self, nth: usize, old: &'a [Self]) -> Option<&'a Self> {
        let mut like = old.iter().filter(|quota| self.is_like(quota));
        like.clone().nth(nth).or_else(|| like.next_back())
    }
}
