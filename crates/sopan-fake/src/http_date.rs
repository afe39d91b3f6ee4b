//! How HTTP writes a date: the three forms of RFC 9110 §5.6.7.
//!
//! Only writing, since an upstream's double never has to read one. Civil dates come from the day number by the
//! arithmetic of 400-year cycles, so that no time zone and no table of leap years is involved.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// 9999-12-31T23:59:59Z
const LAST_SECOND: u64 = 253_402_300_799;

/// `Wed, 21 Oct 2026 12:01:30 GMT`, the form that a sender should write.
pub fn imf(at: SystemTime) -> String {
    let c = Civil::of(at);
    let weekday = &c.weekday_name()[..3];
    format!("{weekday}, {:02} {} {:04} {} GMT", c.day, c.month_name(), c.year, c.time_of_day())
}

/// `Wednesday, 21-Oct-26 12:01:30 GMT`, obsolete, with a year of two digits.
pub fn rfc850(at: SystemTime) -> String {
    let c = Civil::of(at);
    let weekday = c.weekday_name();
    format!("{weekday}, {:02}-{}-{:02} {} GMT", c.day, c.month_name(), c.year % 100, c.time_of_day())
}

/// `Wed Oct 21 12:01:30 2026`, obsolete; a day of one digit is padded with a space, and the zone is always UTC.
pub fn asctime(at: SystemTime) -> String {
    let c = Civil::of(at);
    let weekday = &c.weekday_name()[..3];
    format!("{weekday} {} {:2} {} {:04}", c.month_name(), c.day, c.time_of_day(), c.year)
}

/// `2026-10-21T12:01:30Z`, as JSON bodies write it.
pub(crate) fn iso8601(at: SystemTime) -> String {
    let c = Civil::of(at);
    format!("{:04}-{:02}-{:02}T{}Z", c.year, c.month, c.day, c.time_of_day())
}

/// The last moment that can be written: years have four digits. Later ones are written as this one.
pub(crate) fn last() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(LAST_SECOND)
}

/// One second of the Gregorian calendar in UTC.
struct Civil {
    year: u64,
    /// 1 to 12
    month: u64,
    /// 1 to 31
    day: u64,
    /// 0 is Sunday
    weekday: u64,
    second_of_day: u64,
}

impl Civil {
    /// The second in which `at` lies, cut to what can be written: the epoch at one end, [`last`] at the other.
    fn of(at: SystemTime) -> Self {
        let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().min(LAST_SECOND);
        let days = seconds / 86_400;
        // Years are counted from 1 March of the year 0, so that a leap day ends its year and months need no table.
        let shifted = days + 719_468;
        let (cycle, day_of_cycle) = (shifted / 146_097, shifted % 146_097);
        let year_of_cycle =
            (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
        let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Self {
            year: cycle * 400 + year_of_cycle + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            weekday: (days + 4) % 7,
            second_of_day: seconds % 86_400,
        }
    }

    fn weekday_name(&self) -> &'static str {
        WEEKDAYS[self.weekday as usize]
    }

    fn month_name(&self) -> &'static str {
        MONTHS[self.month as usize - 1]
    }

    fn time_of_day(&self) -> String {
        let s = self.second_of_day;
        format!("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(epoch_seconds: u64, expected: [&str; 3]) {
        let at = UNIX_EPOCH + Duration::from_secs(epoch_seconds);
        assert_eq!([imf(at), rfc850(at), asctime(at)], expected);
    }

    #[test]
    fn the_three_forms_agree_with_the_calendar() {
        check(0, ["Thu, 01 Jan 1970 00:00:00 GMT", "Thursday, 01-Jan-70 00:00:00 GMT", "Thu Jan  1 00:00:00 1970"]);
        check(
            951_827_696,
            ["Tue, 29 Feb 2000 12:34:56 GMT", "Tuesday, 29-Feb-00 12:34:56 GMT", "Tue Feb 29 12:34:56 2000"],
        );
        check(
            1_709_164_800,
            ["Thu, 29 Feb 2024 00:00:00 GMT", "Thursday, 29-Feb-24 00:00:00 GMT", "Thu Feb 29 00:00:00 2024"],
        );
        check(
            1_775_088_000,
            ["Thu, 02 Apr 2026 00:00:00 GMT", "Thursday, 02-Apr-26 00:00:00 GMT", "Thu Apr  2 00:00:00 2026"],
        );
        check(
            1_792_584_090,
            ["Wed, 21 Oct 2026 12:01:30 GMT", "Wednesday, 21-Oct-26 12:01:30 GMT", "Wed Oct 21 12:01:30 2026"],
        );
        check(
            4_107_542_399,
            ["Sun, 28 Feb 2100 23:59:59 GMT", "Sunday, 28-Feb-00 23:59:59 GMT", "Sun Feb 28 23:59:59 2100"],
        );
        check(
            253_402_300_799,
            ["Fri, 31 Dec 9999 23:59:59 GMT", "Friday, 31-Dec-99 23:59:59 GMT", "Fri Dec 31 23:59:59 9999"],
        );
    }

    #[test]
    fn json_dates_are_iso_8601() {
        assert_eq!(iso8601(UNIX_EPOCH + Duration::from_secs(1_792_584_090)), "2026-10-21T12:01:30Z");
    }

    #[test]
    fn moments_that_cannot_be_written_become_the_nearest_that_can() {
        assert_eq!(asctime(last() + Duration::from_secs(1)), "Fri Dec 31 23:59:59 9999");
        assert_eq!(imf(UNIX_EPOCH - Duration::from_secs(1)), "Thu, 01 Jan 1970 00:00:00 GMT");
    }
}
