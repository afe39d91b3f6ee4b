//! Which day is it somewhere, and when does it begin and end?
//!
//! A [`Daybreak`] is the time of day at which a new day begins in a zone: `00:00 America/Los_Angeles`. A day is named by the
//! date on which it begins, and it begins when the clock on the wall there first shows that time of that date, or a later
//! one. So where clocks are put forward over the time, the day begins as they are; where the time comes twice, at the
//! first; days of 23 and 25 hours are as long as they are there.
//!
//! The zones are those of the tz database, kept inside of the program, so nothing is read from the machine. The present
//! calendar time is the caller's to bring; what a day is counted for is [`crate::bucket`]'s business.

use std::fmt;
use std::time::{Duration, SystemTime};

use jiff::civil::{DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp, ToSpan};

use crate::spelling::distance;

pub use jiff::civil::Date;

/// The time of day at which a new day begins in a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Daybreak {
    time: Time,
    zone: TimeZone,
}

/// One day, from its beginning to that of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day {
    /// The date on which it begins.
    pub date: Date,
    /// Its first instant.
    pub begin: SystemTime,
    /// The first instant of the next.
    pub end: SystemTime,
}

/// A text that is not a time of day in a zone: what is wrong with it, and what to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DaybreakError(String);

/// A text that does not say when something ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no date; write for example 2026-12-31, the last day on which it is good in UTC, or 2026-12-31T18:00:00+01:00"
)]
pub struct EndError(String);

/// A zone's name that is no longer than this is looked for among those that exist; the longest of them has 32 letters.
const NAME_MAX: usize = 48;
/// So many names are offered for one that does not exist.
const OFFERED: usize = 3;
/// Calendar times further from 1970 than this, some 7000 years, count as that far: no clock shows them in earnest.
const REACH: u64 = 220_000_000_000;

impl Daybreak {
    /// Reads `00:00 America/Los_Angeles`.
    ///
    /// # Errors
    /// Something else than a time from 00:00 to 23:59 and a zone of the tz database, or `UTC`.
    pub fn read(text: &str) -> Result<Self, DaybreakError> {
        let (time, zone) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let zone = zone.trim();
        let Some(time) = read_time(time) else {
            return Err(DaybreakError(format!("`{time}` is not a time of day; allowed are 00:00 to 23:59")));
        };
        if zone.is_empty() {
            return Err(DaybreakError(format!(
                "whose {} that is must be said; write the zone, for example {0} UTC or {0} America/Los_Angeles",
                show_time(time)
            )));
        }
        let known = TimeZoneDatabase::bundled().get(zone).ok().filter(|z| z.iana_name().is_some());
        let zone = known.ok_or_else(|| DaybreakError(unknown(zone)))?;
        Ok(Self { time, zone })
    }

    /// The day that it is at `wall`.
    pub fn day(&self, wall: SystemTime) -> Day {
        let now = timestamp(wall);
        let local = self.zone.to_datetime(now);
        let mut date = local.date();
        if local.time() < self.time {
            date = before(date);
        }
        // Where clocks were put back over the time, the day has begun although they show the date before again.
        let (mut begin, mut end) = (self.begin(date), self.begin(after(date)));
        while end <= now && end > begin {
            (date, begin, end) = (after(date), end, self.begin(after(after(date))));
        }
        Day { date, begin: system_time(begin), end: system_time(end) }
    }

    /// When the clock there first shows the time of `date`, or a later one.
    fn begin(&self, date: Date) -> Timestamp {
        let shown = date.to_datetime(self.time);
        match self.zone.to_ambiguous_timestamp(shown).offset() {
            AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
                offset.to_timestamp(shown).unwrap_or_else(|_| furthest(shown))
            }
            AmbiguousOffset::Gap { after, .. } => {
                // Counted as if clocks had been put forward before, it is shown too early: that comes before the gap.
                let early = after.to_timestamp(shown).unwrap_or_else(|_| furthest(shown));
                let gap = self.zone.following(early).next();
                gap.map_or(early, |transition| transition.timestamp())
            }
        }
    }
}

impl fmt::Display for Daybreak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", show_time(self.time), self.zone.iana_name().unwrap_or_default())
    }
}

/// Reads when something ends: a date and time with the offset of its zone (RFC 3339), or a date, at the end of which in UTC it
/// ends.
///
/// # Errors
/// Something else, or a time that no calendar reaches.
pub fn read_end(text: &str) -> Result<SystemTime, EndError> {
    let of_date = || {
        let date: Date = text.parse().ok()?;
        TimeZone::UTC.to_timestamp(after(date).to_datetime(Time::midnight())).ok()
    };
    let is_date = text.len() == "2026-12-31".len() && !text.contains(':');
    let end = if is_date { of_date() } else { text.parse().ok() };
    end.map(system_time).ok_or_else(|| EndError(text.to_owned()))
}

fn show_time(time: Time) -> String {
    format!("{:02}:{:02}", time.hour(), time.minute())
}

fn read_time(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let two = |digits: &str| {
        let is_two = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit());
        is_two.then(|| digits.parse().ok()).flatten()
    };
    Time::new(two(hour)?, two(minute)?, 0, 0).ok()
}

/// `wall` as the calendar counts it, cut at what it reaches with days to spare on both sides.
fn timestamp(wall: SystemTime) -> Timestamp {
    let cut = |span: Duration| SignedDuration::new(span.as_secs().min(REACH) as i64, span.subsec_nanos() as i32);
    let since = match wall.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => cut(after),
        Err(before) => -cut(before.duration().min(Duration::from_secs(REACH / 4))),
    };
    Timestamp::from_duration(since).unwrap_or_default()
}

fn system_time(at: Timestamp) -> SystemTime {
    let since = at.as_duration();
    let (epoch, span) = (SystemTime::UNIX_EPOCH, since.unsigned_abs());
    let reached = if since.is_negative() { epoch.checked_sub(span) } else { epoch.checked_add(span) };
    reached.unwrap_or(epoch)
}

fn furthest(shown: DateTime) -> Timestamp {
    if shown.year() < 0 { Timestamp::MIN } else { Timestamp::MAX }
}

fn after(date: Date) -> Date {
    date.saturating_add(1.day())
}

fn before(date: Date) -> Date {
    date.saturating_sub(1.day())
}

/// What to say of a zone that does not exist: names that it may have been meant for.
fn unknown(zone: &str) -> String {
    let shown: String = zone.chars().take(NAME_MAX).collect();
    let near = nearest(zone);
    let offer = if near.is_empty() { "for example UTC or America/Los_Angeles".to_owned() } else { near.join(", ") };
    format!("`{shown}` is not a time zone; write its name in the tz database: {offer}")
}

fn nearest(zone: &str) -> Vec<String> {
    if zone.len() > NAME_MAX {
        return Vec::new();
    }
    let wanted = zone.to_ascii_lowercase().replace(' ', "_");
    // Whoever knows only the city has not mistyped anything.
    let allowed = |name: &str| 1 + name.len() / 4;
    let mut near: Vec<_> = TimeZoneDatabase::bundled()
        .available()
        .filter_map(|name| {
            let (full, wanted) = (name.as_str().to_ascii_lowercase(), wanted.as_str());
            let city = full.rsplit('/').next().unwrap_or(&full);
            let by_city = distance(wanted, city);
            let far = distance(wanted, &full).min(by_city);
            let limit = if far == by_city { allowed(city) } else { allowed(&full) };
            (far <= limit).then(|| (far, name.as_str().to_owned()))
        })
        .collect();
    near.sort();
    near.into_iter().take(OFFERED).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests;
