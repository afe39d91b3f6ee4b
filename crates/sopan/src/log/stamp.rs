//! When it was, as a line begins with it: `2026-11-29T22:33:05.123Z`.

use std::fmt;
use std::time::SystemTime;

/// An instant of the calendar, to the millisecond.
pub(crate) struct Stamp(pub(crate) SystemTime);

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A clock that was never set may be before 1970; nothing is told by which year it says.
        let since = self.0.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (day, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        let (year, month, day) = date(day);
        let (hour, minute, second, milli) = (second / 3600, second / 60 % 60, second % 60, since.subsec_millis());
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

/// The date of a day since 1970, by counting from a 1 March: then the day that some years have more is the last one of them.
fn date(day: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    // From 0000-03-01 on.
    let day = day + 719_468;
    let (era, day) = (day / DAYS_OF_400_YEARS, day % DAYS_OF_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Months of 31, 30, 31, 30, 31 days take turns, from March on.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let is_next_year = month >= 10;
    (era * 400 + year + u64::from(is_next_year), if is_next_year { month - 9 } else { month + 3 }, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_is_the_date_of_the_calendar() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_001, "2000-03-01T00:00:00.001Z"),
            (1_772_323_200_000, "2026-03-01T00:00:00.000Z"),
            (1_795_991_585_123, "2026-11-29T22:33:05.123Z"),
            (1_798_761_599_000, "2026-12-31T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            let at = SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
            assert_eq!(Stamp(at).to_string(), expected);
        }
        assert_eq!(Stamp(SystemTime::UNIX_EPOCH - Duration::from_secs(1)).to_string(), "1970-01-01T00:00:00.000Z");
    }

    /// Against a calendar that is written in another way.
    #[test]
    fn every_day_follows_the_one_before() {
        let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let length = |year, month| match month {
            2 => 28 + u64::from(is_leap(year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for number in 0..200_000 {
            assert_eq!(date(number), (year, month, day));
            day += 1;
            if day > length(year, month) {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }
}
