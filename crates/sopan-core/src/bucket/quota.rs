//! One quota, of a sliding span or of the calendar, and how much of it is on file.
//!
//! Where state is kept, what may leave must be on file before it leaves. Instead of a line for every turn there is one that
//! lets a whole group leave, ⌈N/128⌉; together with it goes what has left since the line before. After a crash what was let
//! and is not told of counts as gone, so a crash costs a group at most, and what was under way.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::day::DayCount;
use super::ring::{GROUPS, QuotaRing};
use super::{Fill, Room};
use crate::journal::{Left, Note};
use crate::policy::{CalendarQuota, Quota};
use crate::time::Instant;

#[derive(Debug, Clone)]
pub(super) struct QuotaCount {
    kind: Kind,
    on_file: Option<OnFile>,
}

#[derive(Debug, Clone)]
enum Kind {
    Sliding(QuotaRing),
    Calendar(DayCount),
}

/// What is known of a quota to whoever reads the file. May and untold turns obey `reserved + untold ≤ may` whenever a turn is
/// handed out.
#[derive(Debug, Clone)]
struct OnFile {
    limit: Arc<str>,
    /// So many are let at once.
    group: u64,
    /// So many may leave, or have left, as far as the file says.
    may: u64,
    /// So many of those have left.
    untold: u64,
}

impl QuotaCount {
    pub(super) fn sliding(quota: Quota) -> Self {
        Self { kind: Kind::Sliding(QuotaRing::new(quota)), on_file: None }
    }

    pub(super) fn calendar(quota: &CalendarQuota) -> Self {
        Self { kind: Kind::Calendar(DayCount::new(quota)), on_file: None }
    }

    pub(super) fn room(&self, cost: u32, now: Instant) -> Room {
        match &self.kind {
            Kind::Sliding(ring) => ring.room(cost, now),
            Kind::Calendar(days) => days.room(cost, now),
        }
    }

    pub(super) fn reserve(&mut self, cost: u32) {
        match &mut self.kind {
            Kind::Sliding(ring) => ring.reserve(cost),
            Kind::Calendar(days) => days.reserve(cost),
        }
    }

    pub(super) fn charge(&mut self, cost: u32, written: Instant) {
        match &mut self.kind {
            Kind::Sliding(ring) => ring.charge(cost, written),
            Kind::Calendar(days) => days.charge(cost, written),
        }
        if let Some(on_file) = &mut self.on_file {
            on_file.untold += u64::from(cost);
        }
    }

    pub(super) fn give_back(&mut self, cost: u32) {
        match &mut self.kind {
            Kind::Sliding(ring) => ring.give_back(cost),
            Kind::Calendar(days) => days.give_back(cost),
        }
    }

    pub(super) fn predict(&self, ahead: u64, cost: u32, now: Instant) -> Instant {
        match &self.kind {
            Kind::Sliding(ring) => ring.predict(ahead, cost, now),
            Kind::Calendar(days) => days.predict(ahead, cost, now),
        }
    }

    pub(super) fn count_until(&self, at: Instant, now: Instant) -> u64 {
        match &self.kind {
            Kind::Sliding(ring) => ring.count_until(at, now),
            Kind::Calendar(days) => days.count_until(at, now),
        }
    }

    pub(super) fn reserved(&self) -> u64 {
        match &self.kind {
            Kind::Sliding(ring) => ring.reserved(),
            Kind::Calendar(days) => days.reserved(),
        }
    }

    pub(super) fn set_reserved(&mut self, reserved: u64) {
        match &mut self.kind {
            Kind::Sliding(ring) => ring.set_reserved(reserved),
            Kind::Calendar(days) => days.set_reserved(reserved),
        }
    }

    pub(super) fn fill(&self, now: Instant) -> Fill {
        match &self.kind {
            Kind::Sliding(ring) => ring.fill(now),
            Kind::Calendar(days) => days.fill(now),
        }
    }

    pub(super) fn full_at(&self, now: Instant) -> Instant {
        match &self.kind {
            Kind::Sliding(ring) => ring.full_at(now),
            Kind::Calendar(days) => days.full_at(now),
        }
    }

    pub(super) fn lasts(&self, per_s: f64, now: Instant) -> Option<Duration> {
        match &self.kind {
            Kind::Sliding(ring) => ring.lasts(per_s, now),
            Kind::Calendar(days) => days.lasts(per_s, now),
        }
    }

    pub(super) fn free(&self, now: Instant) -> u64 {
        match &self.kind {
            Kind::Sliding(ring) => ring.free(now),
            Kind::Calendar(days) => days.free(now),
        }
    }

    /// So many have left by now, elsewhere.
    pub(super) fn spend(&mut self, turns: u64, now: Instant) {
        match &mut self.kind {
            Kind::Sliding(ring) => ring.restore(&[Left { ago: Duration::ZERO, turns }], now),
            Kind::Calendar(days) => days.spend(turns),
        }
    }

    /// Takes over what was counted by one of the same kind.
    pub(super) fn take_over(&mut self, old: &Self) {
        match (&mut self.kind, &old.kind) {
            (Kind::Sliding(new), Kind::Sliding(old)) => new.take_over(old),
            (Kind::Calendar(new), Kind::Calendar(old)) => new.take_over(old),
            (Kind::Sliding(_), Kind::Calendar(_)) | (Kind::Calendar(_), Kind::Sliding(_)) => {}
        }
    }

    /// When the calendar must be told again; never for a sliding span.
    pub(super) fn calendar_due(&self) -> Instant {
        match &self.kind {
            Kind::Sliding(_) => Instant::NEVER,
            Kind::Calendar(days) => days.due(),
        }
    }

    pub(super) fn set_calendar(&mut self, now: Instant, wall: SystemTime) {
        if let Kind::Calendar(days) = &mut self.kind {
            days.set_calendar(now, wall);
        }
    }

    pub(super) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(&self.kind) == std::mem::discriminant(&other.kind)
    }

    /// Of the quotas that were kept to before, the one that the `nth` of this kind takes over from.
    pub(super) fn predecessor<'a>(&self, nth: usize, old: &'a [Self]) -> Option<&'a Self> {
        let mut like = old.iter().filter(|quota| self.is_like(quota));
        like.clone().nth(nth).or_else(|| like.next_back())
    }

    /// From now on what may leave is told before it leaves, under the name of the limit.
    pub(super) fn keep(&mut self, limit: Arc<str>, count: u64) {
        self.on_file = Some(OnFile { limit, group: count.div_ceil(GROUPS), may: 0, untold: 0 });
    }

    /// What must be on file before the turns that are out are used.
    pub(super) fn journal(&mut self, now: Instant) -> Option<Note> {
        let on_file = self.on_file.as_ref()?;
        let reserved = self.reserved();
        if reserved + on_file.untold <= on_file.may {
            return None;
        }
        let more = (on_file.group - 1).min(self.free(now));
        self.tell(reserved + more, now)
    }

    /// All that is not on file yet, and no more is let than what is out.
    pub(super) fn whole_journal(&mut self, now: Instant) -> Option<Note> {
        let (on_file, reserved) = (self.on_file.as_ref()?, self.reserved());
        if on_file.untold == 0 && on_file.may == reserved {
            return None;
        }
        self.tell(reserved, now)
    }

    fn tell(&mut self, may: u64, now: Instant) -> Option<Note> {
        let on_file = self.on_file.as_mut()?;
        let untold = std::mem::take(&mut on_file.untold);
        on_file.may = may;
        let limit = Arc::clone(&on_file.limit);
        Some(match &self.kind {
            Kind::Sliding(ring) => Note::Sliding { limit, left: ring.latest(untold, now), may },
            Kind::Calendar(count) => {
                let (today, days) = count.counted();
                Note::Calendar { limit, days, today, may }
            }
        })
    }

    /// Counts what the file knows of this limit. What was let and is not told of counts as gone by now.
    pub(super) fn restore(&mut self, note: &Note, now: Instant) {
        let Some(on_file) = &mut self.on_file else { return };
        let gone = match (&mut self.kind, note) {
            (Kind::Sliding(ring), Note::Sliding { limit, left, may }) if *limit == on_file.limit => {
                ring.restore(left, now);
                ring.restore(&[Left { ago: Duration::ZERO, turns: *may }], now);
                *may
            }
            (Kind::Calendar(count), Note::Calendar { limit, days, today, may }) if *limit == on_file.limit => {
                count.restore(days, *may, *today);
                *may
            }
            _ => return,
        };
        // The file lets them until it is told that they have left.
        (on_file.may, on_file.untold) = (gone, gone);
    }

    #[cfg(test)]
    pub(super) fn ring(&self) -> &QuotaRing {
        match &self.kind {
            Kind::Sliding(ring) => ring,
            Kind::Calendar(_) => panic!("a quota of the calendar has no ring"),
        }
    }
}
