//! What must hold of every value that is read as an HTTP-date (RFC 9110 §5.6.7).
//!
//! The first line may be the time of reception, as seconds since the Unix epoch; the rest is the value.

use sopan_core::hints::{Reader, http_date};

use crate::reception::{NOON, at, received};

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

pub(crate) fn check(input: &[u8]) {
    let (received, value) = received(input);
    let lenient = http_date::parse(value, at(received), Reader::Lenient);
    let strict = http_date::parse(value, at(received), Reader::Strict);
    assert!(strict.is_none() || strict == lenient, "who is lenient reads differently: {strict:?}, {lenient:?}");
    let Some(seconds) = lenient else { return };
    assert_eq!(strict.is_some(), is_gmt(value), "the strict reader knows one name of the zone only");
    check_text(value, seconds);
    check_forms(seconds);
    if value.contains(&b'-') {
        check_century(seconds, received);
    } else {
        for other in [0, -NOON, 4 * NOON] {
            assert_eq!(http_date::parse(value, at(other), Reader::Lenient), lenient, "received at {other}");
        }
    }
}

/// What was read is the value, but for case, the name of the weekday, the names of the zone, and a leap second.
fn check_text(value: &[u8], seconds: i64) {
    let date = Date::of(seconds);
    let value = String::from_utf8(value.to_ascii_lowercase()).expect("a date is ASCII");
    let weekday = value.bytes().take_while(u8::is_ascii_alphabetic).count();
    assert!(DAYS.iter().any(|day| [day.to_ascii_lowercase(), day[..3].to_ascii_lowercase()].contains(&value[..weekday].to_owned())));
    let zone = |text: &str| {
        let other = [" utc", " +0000"].iter().find_map(|zone| text.strip_suffix(zone));
        other.map_or(text.to_owned(), |rest| format!("{rest} gmt"))
    };
    let read = zone(&value[weekday..]);
    let second = read.match_indices(":60").last().map_or(read.clone(), |(at, _)| {
        let (before, after) = read.split_at(at);
        format!("{before}:59{}", &after[3..])
    });
    // The grammar of asctime has a day below ten in two ways.
    let second = match second.split_at_checked(5) {
        Some((month, day)) if !second.starts_with(',') && day.starts_with('0') => format!("{month} {}", &day[1..]),
        _ => second,
    };
    let forms =
        date.forms().map(|form| form.trim_start_matches(|c: char| c.is_ascii_alphabetic()).to_ascii_lowercase());
    assert!(forms.contains(&second), "{value:?} was read as one of {forms:?}");
}

/// The three forms of an instant are read as that instant.
fn check_forms(seconds: i64) {
    for form in Date::of(seconds).forms() {
        let read = http_date::parse(form.as_bytes(), at(seconds), Reader::Strict);
        assert_eq!(read, Some(seconds), "{form:?}");
    }
}

/// A year of two digits is the latest one that is at most fifty years ahead.
fn check_century(seconds: i64, received: i64) {
    let (read, now) = (Date::of(seconds), Date::of(received));
    let years_ahead = read.year - now.year;
    let is_later_in_year = read.day_of_year() > now.day_of_year();
    assert!((-50..=50).contains(&years_ahead), "{years_ahead} years ahead");
    assert!(years_ahead < 50 || !is_later_in_year, "more than fifty years ahead");
    assert!(years_ahead > -50 || is_later_in_year, "a century later it would still be within fifty years");
}

fn is_gmt(value: &[u8]) -> bool {
    !value.contains(&b',') || value.to_ascii_lowercase().ends_with(b"gmt")
}

/// A date of the Gregorian calendar in UTC, reckoned from the first of March, as leap days are then the last of a year.
struct Date {
    year: i64,
    month: usize,
    day: i64,
    second: i64,
    weekday: usize,
}

impl Date {
    fn of(seconds: i64) -> Self {
        let days = seconds.div_euclid(86_400);
        let weekday = days.rem_euclid(7) as usize;
        // Days since 1 March of the year 0, in spans of 400 years.
        let (era, rest) = ((days + 719_468).div_euclid(146_097), (days + 719_468).rem_euclid(146_097));
        let years = (rest - rest / 1460 + rest / 36_524 - rest / 146_096) / 365;
        let day_of_year = rest - (365 * years + years / 4 - years / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * from_march + 2) / 5 + 1;
        let month = ((from_march + 2) % 12) as usize;
        let year = era * 400 + years + i64::from(month < 2);
        Self { year, month, day, second: seconds.rem_euclid(86_400), weekday }
    }

    /// Comparable within years, leap days or not.
    fn day_of_year(&self) -> (usize, i64, i64) {
        (self.month, self.day, self.second)
    }

    fn forms(&self) -> [String; 3] {
        let Self { year, day, weekday, .. } = self;
        let (month, name) = (MONTHS[self.month], DAYS[*weekday]);
        let time = format!("{:02}:{:02}:{:02}", self.second / 3600, self.second / 60 % 60, self.second % 60);
        [
            format!("{}, {day:02} {month} {year:04} {time} GMT", &name[..3]),
            format!("{name}, {day:02}-{month}-{:02} {time} GMT", year.rem_euclid(100)),
            format!("{} {month} {day:2} {time} {year:04}", &name[..3]),
        ]
    }
}
