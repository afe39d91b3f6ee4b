//! When is that? An HTTP-date (RFC 9110 §5.6.7) as seconds since the Unix epoch.
//!
//! All three forms are read: IMF-fixdate, RFC 850 and asctime. The general date libraries refuse one or the other, pin
//! the two-digit year to a fixed century, or refuse a date for its weekday; this reader does what the RFC asks. Beyond
//! the grammar it forgives only what leaves the instant clear:
//!
//! - names and zone match in any case (RFC 9111 §4.2 asks that of caches, and the same reader serves both);
//! - the weekday must be one, in the form's own length, but need not fit the date: the date is what was computed, the
//!   name beside it decorates;
//! - a leap second, `:60`, is read as `:59` of its minute.
//!
//! Everything else is refused: a second space, a one-digit day or hour, a two-digit year outside of RFC 850, a day that
//! its month does not have, another zone, anything before or after. No date is ever read in local time.

use std::time::{SystemTime, UNIX_EPOCH};

use super::Reader;

const DAY: i64 = 86_400;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const LONG_WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// The three forms of an HTTP-date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `Wed, 21 Oct 2026 12:01:30 GMT`, the one that senders must write.
    ImfFixdate,
    /// `Wednesday, 21-Oct-26 12:01:30 GMT`, with two digits for the year.
    Rfc850,
    /// `Wed Oct 21 12:01:30 2026`, which is UTC.
    Asctime,
}

impl Form {
    /// The only form in which `value` can be a date; whether it is one is for [`parse`] to say.
    pub fn of(value: &[u8]) -> Self {
        // The first comma tells the forms apart: after a short weekday, after a long one, or none at all.
        match value.iter().position(|&byte| byte == b',') {
            Some(3) => Self::ImfFixdate,
            Some(_) => Self::Rfc850,
            None => Self::Asctime,
        }
    }
}

/// The instant that `value` names, in seconds since the Unix epoch (negative before 1970), or `None` if it is no
/// HTTP-date (RFC 9110 §5.6.7).
///
/// `received` is when the field came in; only the two-digit year of the RFC 850 form depends on it. [`Reader::Lenient`]
/// also takes `UTC` and `+0000` where the grammar has `GMT`. White space around the value is not taken off here.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use sopan_core::hints::{Reader, http_date};
///
/// let received = UNIX_EPOCH + Duration::from_secs(1_792_584_000); // Wed, 21 Oct 2026 12:00:00 GMT
/// let date = http_date::parse(b"Wednesday, 21-Oct-26 12:01:30 GMT", received, Reader::Strict);
/// assert_eq!(date, Some(1_792_584_090));
/// ```
pub fn parse(value: &[u8], received: SystemTime, reader: Reader) -> Option<i64> {
    let rest = Rest(value);
    match Form::of(value) {
        Form::ImfFixdate => imf_fixdate(rest, reader),
        Form::Rfc850 => rfc_850(rest, received, reader),
        Form::Asctime => asctime(rest),
    }
}

/// Whole seconds from the Unix epoch to `time`, rounded down, so that the fraction left over is never negative.
pub(crate) fn unix_seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        Err(error) => {
            let before = crate::time::whole_seconds_up(error.duration());
            i64::try_from(before).map_or(i64::MIN, |seconds| -seconds)
        }
    }
}

/// `Wed, 21 Oct 2026 12:01:30 GMT`
fn imf_fixdate(mut rest: Rest<'_>, reader: Reader) -> Option<i64> {
    rest.one_of(&WEEKDAYS)?;
    rest.literal(", ")?;
    let day = rest.digits(2)?;
    rest.literal(" ")?;
    let month = rest.month()?;
    rest.literal(" ")?;
    let year = rest.digits(4)?;
    rest.literal(" ")?;
    let second = rest.second_of_day()?;
    rest.literal(" ")?;
    rest.zone(reader)?;
    rest.end()?;
    Date { year, month, day, second }.seconds()
}

/// `Wednesday, 21-Oct-26 12:01:30 GMT`
fn rfc_850(mut rest: Rest<'_>, received: SystemTime, reader: Reader) -> Option<i64> {
    rest.one_of(&LONG_WEEKDAYS)?;
    rest.literal(", ")?;
    let day = rest.digits(2)?;
    rest.literal("-")?;
    let month = rest.month()?;
    rest.literal("-")?;
    let year = rest.digits(2)?;
    rest.literal(" ")?;
    let second = rest.second_of_day()?;
    rest.literal(" ")?;
    rest.zone(reader)?;
    rest.end()?;
    Date { year, month, day, second }.within_fifty_years_of(received).seconds()
}

/// `Wed Oct 21 12:01:30 2026`, which is UTC; a one-digit day is padded with a space.
fn asctime(mut rest: Rest<'_>) -> Option<i64> {
    rest.one_of(&WEEKDAYS)?;
    rest.literal(" ")?;
    let month = rest.month()?;
    rest.literal(" ")?;
    let day = if rest.literal(" ").is_some() { rest.digits(1)? } else { rest.digits(2)? };
    rest.literal(" ")?;
    let second = rest.second_of_day()?;
    rest.literal(" ")?;
    let year = rest.digits(4)?;
    rest.end()?;
    Date { year, month, day, second }.seconds()
}

/// What of the value has not been read yet. Each method takes its part off the front, or nothing.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    /// The bytes of `text`, in any case.
    fn literal(&mut self, text: &str) -> Option<()> {
        let (front, rest) = self.0.split_at_checked(text.len())?;
        if !front.eq_ignore_ascii_case(text.as_bytes()) {
            return None;
        }
        self.0 = rest;
        Some(())
    }

    /// Exactly `count` ASCII digits.
    fn digits(&mut self, count: usize) -> Option<i64> {
        let (front, rest) = self.0.split_at_checked(count)?;
        if !front.iter().all(u8::is_ascii_digit) {
            return None;
        }
        self.0 = rest;
        Some(front.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
    }

    /// One of `names`, as its index.
    fn one_of(&mut self, names: &[&str]) -> Option<usize> {
        names.iter().position(|name| self.literal(name).is_some())
    }

    /// A month, 1 to 12.
    fn month(&mut self) -> Option<i64> {
        self.one_of(&MONTHS).map(|index| index as i64 + 1)
    }

    /// `12:01:30`, as seconds since midnight.
    fn second_of_day(&mut self) -> Option<i64> {
        let hour = self.digits(2)?;
        self.literal(":")?;
        let minute = self.digits(2)?;
        self.literal(":")?;
        let second = self.digits(2)?;
        if hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        Some(hour * 3600 + minute * 60 + second.min(59))
    }

    /// The zone, which is always UTC by whatever name the reader takes.
    fn zone(&mut self, reader: Reader) -> Option<()> {
        match reader {
            Reader::Strict => self.literal("GMT"),
            Reader::Lenient => self.one_of(&["GMT", "UTC", "+0000"]).map(|_| ()),
        }
    }

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// A date of the Gregorian calendar in UTC. The order of the fields makes the derived order that of time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Date {
    year: i64,
    month: i64,
    day: i64,
    /// Seconds since midnight.
    second: i64,
}

impl Date {
    /// Seconds since the Unix epoch, or `None` if that month has no such day.
    fn seconds(self) -> Option<i64> {
        let exists = (1..=days_in(self.year, self.month)).contains(&self.day);
        exists.then(|| {
            let days = days_before_year(self.year) + self.day_of_year();
            days.saturating_mul(DAY).saturating_add(self.second)
        })
    }

    /// Days of this year that are over.
    fn day_of_year(self) -> i64 {
        (1..self.month).map(|month| days_in(self.year, month)).sum::<i64>() + self.day - 1
    }

    /// The date `seconds` after the Unix epoch.
    fn from_seconds(seconds: i64) -> Self {
        let days = seconds.div_euclid(DAY);
        // The mean year is 365.2425 days long, so this guess is never off by more than one year.
        let guess = (days as i128 * 400).div_euclid(146_097) as i64 + 1970;
        let year = (guess - 1..=guess + 1).rev().find(|&year| days_before_year(year) <= days).unwrap_or(guess - 1);
        let (mut month, mut day) = (1, days - days_before_year(year));
        while month < 12 && day >= days_in(year, month) {
            day -= days_in(year, month);
            month += 1;
        }
        Self { year, month, day: day + 1, second: seconds.rem_euclid(DAY) }
    }

    /// A date whose year has only its last two digits, in the latest century that puts it at most fifty years after
    /// `received`: what looks further ahead is the past (RFC 9110 §5.6.7). No fixed pivot, which would rot.
    fn within_fifty_years_of(self, received: SystemTime) -> Self {
        let mut horizon = Self::from_seconds(unix_seconds(received));
        horizon.year += 50;
        let candidate = Self { year: horizon.year - (horizon.year - self.year).rem_euclid(100), ..self };
        if candidate > horizon { Self { year: candidate.year - 100, ..self } } else { candidate }
    }
}

fn is_leap(year: i64) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from the Unix epoch to the first of January of `year`.
fn days_before_year(year: i64) -> i64 {
    let past = year - 1;
    let leap_days = past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400);
    // 719162 is what the same sum gives for 1970.
    past * 365 + leap_days - 719_162
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    /// Wed, 21 Oct 2026 12:00:00 GMT.
    const NOON: i64 = 1_792_584_000;

    fn at(seconds: i64) -> SystemTime {
        let span = Duration::from_secs(seconds.unsigned_abs());
        if seconds < 0 { UNIX_EPOCH - span } else { UNIX_EPOCH + span }
    }

    fn strict(value: &str) -> Option<i64> {
        parse(value.as_bytes(), at(NOON), Reader::Strict)
    }

    #[track_caller]
    fn check(value: &str, expected: impl Into<Option<i64>>) {
        let expected = expected.into();
        assert_eq!(strict(value), expected, "strict, {value:?}");
        assert_eq!(parse(value.as_bytes(), at(NOON), Reader::Lenient), expected, "lenient, {value:?}");
    }

    #[test]
    fn the_three_forms_name_the_same_instant() {
        check("Wed, 21 Oct 2026 12:01:30 GMT", NOON + 90);
        check("Wednesday, 21-Oct-26 12:01:30 GMT", NOON + 90);
        check("Wed Oct 21 12:01:30 2026", NOON + 90);
        check("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777);
        check("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777);
        check("Sun Nov  6 08:49:37 1994", 784_111_777);
        check("Thu Apr  2 00:00:00 2026", 1_775_088_000);
    }

    #[test]
    fn any_four_digit_year_is_read() {
        check("Thu, 01 Jan 1970 00:00:00 GMT", 0);
        check("Wed, 31 Dec 1969 23:59:59 GMT", -1);
        check("Sat, 01 Jan 0000 00:00:00 GMT", -62_167_219_200);
        check("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799);
    }

    #[test]
    fn a_day_that_its_month_does_not_have_is_no_date() {
        check("Thu, 29 Feb 2024 00:00:00 GMT", 1_709_164_800);
        check("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400);
        check("Sun, 29 Feb 2026 00:00:00 GMT", None);
        check("Mon, 29 Feb 2100 00:00:00 GMT", None);
        check("Fri, 31 Apr 2026 00:00:00 GMT", None);
        check("Wed, 00 Oct 2026 00:00:00 GMT", None);
        check("Wed, 32 Oct 2026 00:00:00 GMT", None);
        check("Wed Oct  0 00:00:00 2026", None);
    }

    #[test]
    fn a_time_that_no_clock_shows_is_no_date_but_a_leap_second_is() {
        check("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_799);
        check("Wednesday, 21-Oct-26 12:01:60 GMT", NOON + 119);
        check("Wed Oct 21 12:01:60 2026", NOON + 119);
        check("Wed, 21 Oct 2026 12:01:61 GMT", None);
        check("Wed, 21 Oct 2026 12:60:00 GMT", None);
        check("Wed, 21 Oct 2026 24:00:00 GMT", None);
    }

    #[test]
    fn case_is_forgiven() {
        check("wed, 21 OCT 2026 12:01:30 gmt", NOON + 90);
        check("WEDNESDAY, 21-oct-26 12:01:30 Gmt", NOON + 90);
        check("WED oct 21 12:01:30 2026", NOON + 90);
    }

    #[test]
    fn a_weekday_that_does_not_fit_is_forgiven_but_must_be_one() {
        check("Mon, 21 Oct 2026 12:01:30 GMT", NOON + 90);
        check("Friday, 21-Oct-26 12:01:30 GMT", NOON + 90);
        check("Sun Oct 21 12:01:30 2026", NOON + 90);
        check("Foo, 21 Oct 2026 12:01:30 GMT", None);
        check("Wednesday, 21 Oct 2026 12:01:30 GMT", None);
        check("Wed, 21-Oct-26 12:01:30 GMT", None);
        check("21 Oct 2026 12:01:30 GMT", None);
    }

    #[test]
    fn the_layout_is_not_forgiven() {
        check("", None);
        check(",", None);
        check("Wed,", None);
        check("Wed, 21  Oct 2026 12:01:30 GMT", None);
        check("Wed,21 Oct 2026 12:01:30 GMT", None);
        check("Wed 21 Oct 2026 12:01:30 GMT", None);
        check("Wed, 1 Oct 2026 12:01:30 GMT", None);
        check("Wed, 21 Oct 26 12:01:30 GMT", None);
        check("Wed, 21 October 2026 12:01:30 GMT", None);
        check("Wed, 21 Oct 2026 2:01:30 GMT", None);
        check("Wed, 21 Oct 2026 12.01.30 GMT", None);
        check("Wed, 21 Oct 2026 12:01 GMT", None);
        check("Wed, 21 Oct 2026 12:01:30", None);
        check("Wed, 21 Oct 2026 12:01:30 GMT+1", None);
        check("Wed, 21 Oct 2026 12:01:30 EST", None);
        check("Wed, 21 Oct 2026 12:01:30 +0100", None);
        check(" Wed, 21 Oct 2026 12:01:30 GMT", None);
        check("Wed, 21 Oct 2026 12:01:30 GMT ", None);
        check("Wednesday, 21-Oct-2026 12:01:30 GMT", None);
        check("Wednesday, 21 Oct 26 12:01:30 GMT", None);
        check("Wed Oct 1 12:01:30 2026", None);
        check("Wed Oct 21 12:01:30 26", None);
        check("Wed Oct 21 12:01:30 2026 GMT", None);
        check("Wed Oct 21 12:01:30 UTC 2026", None);
        check("Wed, ²1 Oct 2026 12:01:30 GMT", None);
        check("2026-10-21T12:01:30Z", None);
    }

    #[test]
    fn only_the_lenient_reader_knows_other_names_of_utc() {
        for (value, expected) in [
            ("Wed, 21 Oct 2026 12:01:30 UTC", Some(NOON + 90)),
            ("Wed, 21 Oct 2026 12:01:30 +0000", Some(NOON + 90)),
            ("Wednesday, 21-Oct-26 12:01:30 utc", Some(NOON + 90)),
            ("Wed, 21 Oct 2026 12:01:30 -0000", None),
            ("Wed, 21 Oct 2026 12:01:30 UT", None),
            ("Wed, 21 Oct 2026 12:01:30 Z", None),
        ] {
            assert_eq!(strict(value), None, "{value:?}");
            assert_eq!(parse(value.as_bytes(), at(NOON), Reader::Lenient), expected, "{value:?}");
        }
    }

    /// `value` is an RFC 850 date, `received` and `expected` are IMF-fixdates.
    #[track_caller]
    fn check_century(received: &str, value: &str, expected: &str) {
        let received = at(strict(received).expect("a date"));
        let read = parse(value.as_bytes(), received, Reader::Strict);
        assert_eq!(read, strict(expected), "{value:?}");
        assert!(read.is_some(), "{value:?}");
    }

    #[test]
    fn a_two_digit_year_is_at_most_fifty_years_ahead_of_its_reception() {
        let now = "Wed, 21 Oct 2026 12:00:00 GMT";
        check_century(now, "Monday, 21-Oct-26 00:00:00 GMT", "Mon, 21 Oct 2026 00:00:00 GMT");
        check_century(now, "Monday, 01-Jan-00 00:00:00 GMT", "Mon, 01 Jan 2000 00:00:00 GMT");
        check_century(now, "Monday, 15-Jun-70 00:00:00 GMT", "Mon, 15 Jun 2070 00:00:00 GMT");
        check_century(now, "Monday, 15-Jun-76 00:00:00 GMT", "Mon, 15 Jun 2076 00:00:00 GMT");
        check_century(now, "Monday, 21-Oct-76 12:00:00 GMT", "Mon, 21 Oct 2076 12:00:00 GMT");
        check_century(now, "Monday, 21-Oct-76 12:00:01 GMT", "Mon, 21 Oct 1976 12:00:01 GMT");
        check_century(now, "Monday, 01-Nov-76 00:00:00 GMT", "Mon, 01 Nov 1976 00:00:00 GMT");
        check_century(now, "Monday, 01-Jan-77 00:00:00 GMT", "Mon, 01 Jan 1977 00:00:00 GMT");
        check_century(now, "Monday, 31-Dec-99 00:00:00 GMT", "Mon, 31 Dec 1999 00:00:00 GMT");

        let later = "Fri, 01 Jan 2055 00:00:00 GMT";
        check_century(later, "Monday, 01-Jan-04 00:00:00 GMT", "Mon, 01 Jan 2104 00:00:00 GMT");
        check_century(later, "Monday, 01-Jan-05 00:00:01 GMT", "Mon, 01 Jan 2005 00:00:01 GMT");
        check_century(later, "Monday, 01-Jan-99 00:00:00 GMT", "Mon, 01 Jan 2099 00:00:00 GMT");

        let early = "Thu, 01 Jan 1970 00:00:00 GMT";
        check_century(early, "Monday, 01-Jan-20 00:00:00 GMT", "Mon, 01 Jan 2020 00:00:00 GMT");
        check_century(early, "Monday, 01-Jan-21 00:00:00 GMT", "Mon, 01 Jan 1921 00:00:00 GMT");
    }

    #[test]
    fn a_reception_at_the_end_of_time_is_no_reason_to_panic() {
        let span = Duration::from_secs(i64::MAX as u64);
        let ends = [UNIX_EPOCH.checked_add(span), UNIX_EPOCH.checked_sub(span)];
        for received in ends.into_iter().flatten() {
            parse(b"Wednesday, 21-Oct-26 12:01:30 GMT", received, Reader::Strict);
        }
    }

    #[test]
    fn a_received_time_between_two_seconds_counts_as_the_earlier_one() {
        assert_eq!(unix_seconds(at(7) + Duration::from_millis(900)), 7);
        assert_eq!(unix_seconds(at(-7) + Duration::from_millis(900)), -7);
        assert_eq!(unix_seconds(at(-7)), -7);
    }

    fn written(seconds: i64) -> String {
        httpdate::fmt_http_date(at(seconds))
    }

    /// `value` without what is forgiven, so that it can be compared with what a strict writer gives.
    fn normal(value: &str) -> String {
        value.to_ascii_lowercase()[3..].replace(":60 ", ":59 ")
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(value in proptest::collection::vec(any::<u8>(), 0..64), received in any::<i32>()) {
            parse(&value, at(received.into()), Reader::Strict);
            parse(&value, at(received.into()), Reader::Lenient);
        }

        #[test]
        fn what_is_written_is_read(seconds in 0..253_402_300_800_i64) {
            prop_assert_eq!(strict(&written(seconds)), Some(seconds));
        }

        #[test]
        fn what_is_read_is_what_was_written(
            seconds in 0..253_402_300_800_i64,
            (place, byte) in (0..29_usize, 32..127_u8),
        ) {
            let mut bytes = written(seconds).into_bytes();
            bytes[place] = byte;
            let value = String::from_utf8(bytes).expect("ASCII");
            match strict(&value) {
                Some(read) if read >= 0 => prop_assert_eq!(normal(&written(read)), normal(&value)),
                Some(_) => {}
                None => prop_assert!(httpdate::parse_http_date(&value).is_err(), "{}", value),
            }
        }

        #[test]
        fn a_calendar_date_and_its_seconds_are_the_same(seconds in -100_000_000_000_000_i64..100_000_000_000_000) {
            prop_assert_eq!(Date::from_seconds(seconds).seconds(), Some(seconds));
        }

        #[test]
        fn the_century_is_the_latest_one_within_fifty_years(
            received in -1_000_000_000..20_000_000_000_i64,
            year in 0..100_i64,
        ) {
            let date = Date { year, month: 6, day: 15, second: 0 }.within_fifty_years_of(at(received));
            let now = Date::from_seconds(received);
            let horizon = Date { year: now.year + 50, ..now };
            let century_later = Date { year: date.year + 100, ..date };
            prop_assert_eq!(date.year.rem_euclid(100), year);
            prop_assert!(date <= horizon && horizon < century_later);
        }
    }
}
