//! How HTTP writes a date: the three forms of RFC 9110 §5.6.7.
//!
//! Of these only writing, since an upstream's double never has to read one; the form of JSON bodies is also read, since
//! clients ask for what came since. Civil dates come from the day number by the arithmetic of 400-year cycles, so that no time
//! zone and no table of leap years is involved.

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

/// What [`iso8601`] writes, also without the time of day, with a fraction, or with `+00:00` for `Z`; none where it is something
/// else.
pub(crate) fn from_iso8601(text: &str) -> Option<SystemTime> {
    let number = |from: usize, digits: usize| -> Option<u64> {
        let digits = text.get(from..from + digits)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    let is_date = text.get(4..5) == Some("-") && text.get(7..8) == Some("-");
    if !is_date || year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let second_of_day = match text.get(10..)? {
        "" => 0,
        rest => {
            let zone = rest.get(9..)?.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
            let is_time = rest.starts_with(['T', ' ']) && matches!(zone, "Z" | "+00:00");
            let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
            (is_time && hour < 24 && minute < 60 && second < 60).then_some(hour * 3600 + minute * 60 + second)?
        }
    };
    // Years begin on 1 March, as in `Civil::of`.
    let (year, month_from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month_from_march + 2) / 5 + day - 1 - 719_468;
    Some(UNIX_EPOCH + Duration::from_secs(days * 86_400 + second_of_day))
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
    fn a_date_of_a_body_is_read_as_it_was_written() {
        for seconds in [0, 86_399, 951_827_696, 1_709_164_800, 1_767_225_600, 1_775_088_000, LAST_SECOND] {
            let at = UNIX_EPOCH + Duration::from_secs(seconds);
            let text = iso8601(at);
            assert_eq!(from_iso8601(&text), Some(at));
            assert_eq!(from_iso8601(&text.replace('Z', ".123+00:00")), Some(at));
            assert_eq!(from_iso8601(&text[..10]), Some(at - Duration::from_secs(seconds % 86_400)));
        }
        for text in
            ["", "1969-12-31", "2026-13-01", "2026-01-00", "2026-1-1", "2026-01-01T00:00:00+07:00", "2026-01-01Z"]
        {
            assert_eq!(from_iso8601(text), None, "{text}");
        }
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
