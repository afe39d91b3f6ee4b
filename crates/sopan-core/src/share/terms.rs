//! What limits are to a ledger: whole numbers that are exact in doubles too, since scripts count with those.
//!
//! An interval is so many parts of a microsecond; how many parts one has is a power of two, as many as leave room for what the
//! interval is multiplied with. Rounded up, that makes a rate at most a millionth slower. All else is microseconds and counts.

use std::time::{Duration, SystemTime};

use super::{HORIZON, LAPSE, LAPSE_MIN, Members, Stamp};
use crate::bucket::{schedule, spread};
use crate::calendar::{Date, Daybreak};
use crate::policy::{Limit, Margin, Rate};

/// Parts of a microsecond, at most.
const PARTS_MAX: u64 = 1 << 20;
/// Parts that an interval has, at most: times [`MEMBERS_MAX`](super::MEMBERS_MAX) that is exact in a double.
const INTERVAL_MAX: u128 = 1 << 40;

/// All limits of a lane, rates before quotas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    pub(super) rates: Vec<RateTerm>,
    pub(super) quotas: Vec<QuotaTerm>,
    lapse: Duration,
}

/// A token each `interval` parts, of which a microsecond has `parts`; `burst` when full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RateTerm {
    pub(super) interval: u64,
    pub(super) parts: u64,
    pub(super) burst: u64,
}

/// A quota, in the order in which they were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum QuotaTerm {
    /// So many in any span of so many microseconds.
    Sliding { count: u64, span: u64 },
    /// So many in any day.
    Calendar { count: u64, daybreak: Daybreak, name: String },
}

/// The present day of a quota of the calendar. Dates are numbers that tell them apart: 20261021.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayNow {
    /// The day before.
    pub before: u64,
    /// Today.
    pub today: u64,
    /// The day after.
    pub after: u64,
    /// When today began.
    pub begin: Stamp,
    /// When it ends.
    pub end: Stamp,
}

impl Terms {
    /// The terms of these limits; headroom and margin as a [`Bucket`](crate::bucket::Bucket) has them.
    pub fn new(limits: &[Limit], headroom: u32, margin: Margin) -> Self {
        let (mut rates, mut quotas) = (Vec::new(), Vec::new());
        for limit in limits {
            match limit {
                Limit::Rate(rate) => rates.push(RateTerm::new(rate, headroom, margin)),
                Limit::Quota(quota) => {
                    quotas.push(QuotaTerm::Sliding { count: quota.count(), span: micros(spread(quota.span())) });
                }
                Limit::Calendar(quota) => {
                    let (daybreak, name) = (quota.daybreak().clone(), quota.daybreak().to_string());
                    quotas.push(QuotaTerm::Calendar { count: quota.count(), daybreak, name });
                }
            }
        }
        let strict = rates.iter().filter(|rate| rate.burst == 1).map(|rate| Duration::from_micros(rate.micros(1) / 10));
        let lapse = strict.min().unwrap_or(LAPSE).clamp(LAPSE_MIN, LAPSE);
        Self { rates, quotas, lapse }
    }

    /// How long after it was due a turn may leave.
    pub fn lapse(&self) -> Duration {
        self.lapse
    }

    /// From one turn to the next at the slowest limit, in whole microseconds, if all count who are `members`: what a script
    /// calculates with.
    pub(super) fn pace(&self, members: Members) -> u64 {
        let rates = self.rates.iter().map(|rate| rate.shared(members).micros(1));
        let quotas = self.quotas.iter().map(|quota| match quota {
            QuotaTerm::Sliding { count, span } => span.div_ceil(shared_count(*count, members)),
            QuotaTerm::Calendar { .. } => 1,
        });
        rates.chain(quotas).max().unwrap_or(1).max(1)
    }

    /// What can be counted on in the long run: the seconds from one turn to the next.
    pub(super) fn seconds_a_turn(&self) -> f64 {
        self.paces().fold(0.0, f64::max)
    }

    /// The same for each limit.
    pub(super) fn paces(&self) -> impl Iterator<Item = f64> + '_ {
        let rates = self.rates.iter().map(|rate| rate.interval as f64 / rate.parts as f64);
        let quotas = self.quotas.iter().map(|quota| match quota {
            QuotaTerm::Sliding { count, span } => *span as f64 / *count as f64,
            QuotaTerm::Calendar { count, .. } => 86_400e6 / *count as f64,
        });
        rates.chain(quotas).map(|micros| micros / 1e6)
    }

    /// Whether what was leased and not used should be given back although its time has passed.
    pub(super) fn has_quota(&self) -> bool {
        !self.quotas.is_empty()
    }

    /// The days that it is at `at`; where that is not known all time is one day.
    pub fn days(&self, at: Option<Stamp>) -> Vec<DayNow> {
        self.daybreaks().map(|daybreak| at.map_or(DayNow::NONE, |at| DayNow::of(daybreak, at))).collect()
    }

    /// Whether it matters which day it is.
    pub(super) fn has_days(&self) -> bool {
        self.daybreaks().next().is_some()
    }

    fn daybreaks(&self) -> impl Iterator<Item = &Daybreak> {
        self.quotas.iter().filter_map(|quota| match quota {
            QuotaTerm::Calendar { daybreak, .. } => Some(daybreak),
            QuotaTerm::Sliding { .. } => None,
        })
    }
}

impl RateTerm {
    fn new(rate: &Rate, headroom: u32, margin: Margin) -> Self {
        let (n, p, burst) = schedule(rate, headroom, margin);
        let mut parts = PARTS_MAX;
        loop {
            let interval = (p * u128::from(parts)).div_ceil(n * 1000);
            if interval < INTERVAL_MAX || parts == 1 {
                return Self { interval: interval.min(INTERVAL_MAX) as u64, parts, burst };
            }
            parts /= 2;
        }
    }

    /// The same while some are aside: as much slower, and with as much less burst, as they are part of all.
    pub(super) fn shared(&self, members: Members) -> Self {
        let (seen, counted) = (u64::from(members.seen), u64::from(members.counted));
        let interval = (self.interval * counted).div_ceil(seen);
        Self { interval, parts: self.parts, burst: (self.burst * seen / counted).max(1) }
    }

    /// So many intervals, in whole microseconds, rounded up.
    pub(super) fn micros(&self, count: u64) -> u64 {
        (self.interval * count).div_ceil(self.parts)
    }
}

impl QuotaTerm {
    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Sliding { count, .. } | Self::Calendar { count, .. } => *count,
        }
    }
}

/// What a quota lets while some are aside.
pub(super) fn shared_count(count: u64, members: Members) -> u64 {
    let (seen, counted) = (u64::from(members.seen), u64::from(members.counted));
    (count / counted * seen + count % counted * seen / counted).max(1)
}

impl DayNow {
    /// Whether it is not known which day it is.
    pub(super) fn is_unknown(&self) -> bool {
        self.today == 0
    }

    /// All time as one day.
    pub(super) const NONE: Self = Self { before: 0, today: 0, after: 0, begin: Stamp(0), end: Stamp(NEVER) };

    fn of(daybreak: &Daybreak, at: Stamp) -> Self {
        let instant = |stamp: u64| SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(stamp));
        let now = instant(at.0).unwrap_or(SystemTime::UNIX_EPOCH);
        let day = daybreak.day(now);
        let before = daybreak.day(day.begin.checked_sub(Duration::from_nanos(1)).unwrap_or(day.begin)).date;
        let after = daybreak.day(day.end).date;
        let (begin, end) = (stamp(day.begin), stamp(day.end));
        Self { before: number(before), today: number(day.date), after: number(after), begin, end }
    }
}

fn stamp(at: SystemTime) -> Stamp {
    Stamp(at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, micros))
}

fn number(date: Date) -> u64 {
    let year = u64::try_from(date.year()).unwrap_or(0);
    year * 10_000 + u64::from(date.month().unsigned_abs()) * 100 + u64::from(date.day().unsigned_abs())
}

/// Whole microseconds, rounded down.
pub(super) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// Later than all that a ledger counts with, and exact in a double.
pub(super) const NEVER: u64 = 1 << 52;
/// How far ahead a ledger looks, in its own measure.
pub(super) const HORIZON_MICROS: u64 = HORIZON.as_micros() as u64;
