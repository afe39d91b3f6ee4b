//! What does a `Retry-After` field ask for (RFC 9110 §10.2.3)?
//!
//! A value is either a number of seconds or an HTTP-date, whole and alone; everything else is no value at all. "Zero"
//! and "nothing usable" are different answers and stay different here. How long is waited in the end is policy, and
//! decided in [`crate::retry`].

use std::time::{Duration, SystemTime};

use super::{Reader, http_date};

/// What one `Retry-After` line asks for. A date is kept as such, because from which clock it is measured is a question
/// of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Wait that long from the reception on.
    Delta(Duration),
    /// Wait until then: seconds since the Unix epoch.
    Date(i64),
}

/// What a value looks like, and so how it is read; whether it is one is for [`read_value`] to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Digits alone: a number of seconds.
    Seconds,
    /// It begins with a digit, and there is more: a decimal fraction, or nothing that can be used.
    Decimal,
    /// Anything else can only be a date.
    Date(http_date::Form),
}

impl Form {
    /// What `value` looks like; `None` if nothing is there.
    pub fn of(value: &[u8]) -> Option<Self> {
        let value = without_white_space(value);
        // A date begins with the name of a weekday, so the first byte tells which of the two is meant.
        Some(match value.first()? {
            b'0'..=b'9' if value.iter().all(u8::is_ascii_digit) => Self::Seconds,
            b'0'..=b'9' => Self::Decimal,
            _ => Self::Date(http_date::Form::of(value)),
        })
    }
}

impl Reading {
    /// How long that is from `received` on, a date's remaining time rounded up to whole seconds so that nobody comes
    /// early; zero for a date that has passed.
    pub fn wait(self, received: SystemTime) -> Duration {
        match self {
            Self::Delta(wait) => wait,
            Self::Date(date) => seconds_between(http_date::unix_seconds(received), date),
        }
    }
}

/// How long a `Retry-After` value asks to wait, read strictly by RFC 9110 §10.2.3; `None` if it is no valid value.
///
/// `received` is when the field came in. Zero is a valid wait, also what a past date means. White space around the
/// value is not part of it. A number too large to count is the longest wait there is.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use sopan_core::hints::parse_retry_after;
///
/// let received = UNIX_EPOCH + Duration::from_secs(1_792_584_000); // Wed, 21 Oct 2026 12:00:00 GMT
/// assert_eq!(parse_retry_after("90", received), Some(Duration::from_secs(90)));
/// assert_eq!(parse_retry_after("Wed, 21 Oct 2026 12:01:30 GMT", received), Some(Duration::from_secs(90)));
/// assert_eq!(parse_retry_after("5s", received), None);
/// ```
pub fn parse_retry_after(value: &str, received: SystemTime) -> Option<Duration> {
    read_value(value.as_bytes(), received, Reader::Strict).map(|reading| reading.wait(received))
}

/// What the bytes of one `Retry-After` line ask for; `None` if they are no valid value for that reader.
///
/// `received` is when the field came in; it resolves the two-digit year of an RFC 850 date.
pub fn read_value(value: &[u8], received: SystemTime, reader: Reader) -> Option<Reading> {
    let form = Form::of(value)?;
    let value = without_white_space(value);
    match form {
        Form::Seconds | Form::Decimal => number(value, reader).map(Reading::Delta),
        Form::Date(_) => http_date::parse(value, received, reader).map(Reading::Date),
    }
}

/// The time between two instants in seconds since the Unix epoch; zero if `to` is not the later one.
///
/// With `from` rounded down and `to` whole this is also the remaining time rounded up.
pub(super) fn seconds_between(from: i64, to: i64) -> Duration {
    if to > from { Duration::from_secs(to.abs_diff(from)) } else { Duration::ZERO }
}

/// `value` without spaces and tabs around it (RFC 9110 §5.5).
fn without_white_space(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// Digits, and for the lenient reader a decimal fraction after them.
fn number(value: &[u8], reader: Reader) -> Option<Duration> {
    let end = value.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(value.len());
    let (whole, rest) = value.split_at(end);
    let seconds = Duration::from_secs(saturating_number(whole));
    match (rest, reader) {
        ([], _) => Some(seconds),
        ([b'.', fraction @ ..], Reader::Lenient) => Some(seconds.saturating_add(nanoseconds(fraction)?)),
        _ => None,
    }
}

/// The number that ASCII digits write, or the largest there is.
fn saturating_number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |number: u64, digit| number.saturating_mul(10).saturating_add((digit - b'0').into()))
}

/// What stands behind a decimal point, at least one digit; what is finer than a nanosecond is rounded up, never early.
fn nanoseconds(fraction: &[u8]) -> Option<Duration> {
    if fraction.is_empty() || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let (kept, finer) = fraction.split_at(fraction.len().min(9));
    let nanos = saturating_number(kept) * 10_u64.pow(9 - kept.len() as u32);
    let more = finer.iter().any(|&digit| digit != b'0');
    Some(Duration::from_nanos(nanos + u64::from(more)))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use proptest::prelude::*;

    use super::*;

    const LONGEST: f64 = f64::INFINITY;

    /// Wed, 21 Oct 2026 12:00:00 GMT.
    fn noon() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_792_584_000)
    }

    fn seconds(expected: f64) -> Duration {
        if expected == LONGEST { Duration::from_secs(u64::MAX) } else { Duration::from_secs_f64(expected) }
    }

    #[track_caller]
    fn check_strict(value: &str, expected: impl Into<Option<f64>>) {
        assert_eq!(parse_retry_after(value, noon()), expected.into().map(seconds), "strict, {value:?}");
    }

    #[track_caller]
    fn check_lenient(value: &str, expected: impl Into<Option<f64>>) {
        let read = read_value(value.as_bytes(), noon(), Reader::Lenient).map(|reading| reading.wait(noon()));
        assert_eq!(read, expected.into().map(seconds), "lenient, {value:?}");
    }

    #[track_caller]
    fn check(value: &str, expected: impl Into<Option<f64>>) {
        let expected = expected.into();
        check_strict(value, expected);
        check_lenient(value, expected);
    }

    #[test]
    fn a_number_and_the_three_forms_of_a_date_are_understood() {
        check("90", 90.0);
        check("Wed, 21 Oct 2026 12:01:30 GMT", 90.0);
        check("Wednesday, 21-Oct-26 12:01:30 GMT", 90.0);
        check("Wed Oct 21 12:01:30 2026", 90.0);
        check("Wed, 21 Oct 2026 12:01:60 GMT", 119.0);
    }

    #[test]
    fn a_value_is_what_it_looks_like_or_nothing() {
        use http_date::Form as Date;
        for (value, expected) in [
            ("90", Some(Form::Seconds)),
            (" \t0 ", Some(Form::Seconds)),
            ("1.5", Some(Form::Decimal)),
            ("5s", Some(Form::Decimal)),
            ("90, 120", Some(Form::Decimal)),
            ("Wed, 21 Oct 2026 12:01:30 GMT", Some(Form::Date(Date::ImfFixdate))),
            ("Wed, 21 Oct 2026 12:01:30 UTC", Some(Form::Date(Date::ImfFixdate))),
            ("Wednesday, 21-Oct-26 12:01:30 GMT", Some(Form::Date(Date::Rfc850))),
            ("Wed Oct 21 12:01:30 2026", Some(Form::Date(Date::Asctime))),
            ("-1", Some(Form::Date(Date::Asctime))),
            ("not-a-date", Some(Form::Date(Date::Asctime))),
            ("", None),
            (" ", None),
        ] {
            assert_eq!(Form::of(value.as_bytes()), expected, "{value:?}");
        }
    }

    #[test]
    fn a_past_date_means_now() {
        check("Wed, 21 Oct 2026 11:59:30 GMT", 0.0);
        check("Wednesday, 21-Oct-26 11:59:30 GMT", 0.0);
        check("Wed Oct 21 11:59:30 2026", 0.0);
        check("Wed, 21 Oct 2026 12:00:00 GMT", 0.0);
        check("Sunday, 06-Nov-94 08:49:37 GMT", 0.0);
    }

    #[test]
    fn zero_is_a_value_and_nothing_usable_is_none() {
        check("0", 0.0);
        check("000", 0.0);
        check("007", 7.0);
        for junk in ["", " ", "not-a-date", "abc", "-1", "-3", "+3", "1e1", "0x10", "5s", "5 seconds", "120junk"] {
            check(junk, None);
        }
        for junk in ["90, 120", "90,120", "1;2", "\"5\"", "true", "NaN", "inf", "²", "١٢", "5 5", "5\u{a0}", "\u{a0}5"]
        {
            check(junk, None);
        }
        for junk in ["Sep 2027", "Jan 1 2030", "2026-03-10T12:00:45Z", "Wed, 21 Oct 2026 12:01:30"] {
            check(junk, None);
        }
    }

    #[test]
    fn white_space_around_is_not_part_of_the_value() {
        check("  1\t", 1.0);
        check("\t Wed, 21 Oct 2026 12:01:30 GMT ", 90.0);
        check(" \t ", None);
    }

    #[test]
    fn only_the_lenient_reader_takes_a_decimal_fraction_and_does_not_round_it() {
        for (value, expected) in [
            ("1.5", Some(1.5)),
            ("0.0", Some(0.0)),
            ("0.25", Some(0.25)),
            ("00.500", Some(0.5)),
            ("1.000000001", Some(1.000_000_001)),
            ("1.0000000000", Some(1.0)),
            ("1.0000000001", Some(1.000_000_001)),
            ("0.9999999999", Some(1.0)),
            ("1.", None),
            (".5", None),
            ("1.5.5", None),
            ("1.5s", None),
            ("1,5", None),
            ("1.-5", None),
            ("1. 5", None),
            ("-1.5", None),
        ] {
            check_strict(value, None);
            check_lenient(value, expected);
        }
    }

    #[test]
    fn only_the_lenient_reader_takes_other_names_of_utc() {
        for value in ["Wed, 21 Oct 2026 12:01:30 UTC", "Wed, 21 Oct 2026 12:01:30 +0000"] {
            check_strict(value, None);
            check_lenient(value, 90.0);
        }
    }

    #[test]
    fn a_number_too_large_is_a_very_long_wait() {
        check("2147483648", 2_147_483_648.0);
        check("4294967296", 4_294_967_296.0);
        check("18446744073709551615", LONGEST);
        check("18446744073709551616", LONGEST);
        check("99999999999999999999999999999999", LONGEST);
        check(&"9".repeat(5000), LONGEST);
        // The fraction of the longest wait is still added, which must not wrap.
        let longest = read_value(b"18446744073709551615.9", noon(), Reader::Lenient).expect("a number");
        assert!(longest.wait(noon()) >= seconds(LONGEST));
        let rounded = read_value(b"18446744073709551615.9999999999", noon(), Reader::Lenient).expect("a number");
        assert!(rounded.wait(noon()) >= seconds(LONGEST));
    }

    #[test]
    fn the_remaining_time_of_a_date_is_rounded_up() {
        let half_past = noon() + Duration::from_millis(500);
        for (value, expected) in [
            ("Wed, 21 Oct 2026 12:00:00 GMT", 0),
            ("Wed, 21 Oct 2026 12:00:01 GMT", 1),
            ("Wed, 21 Oct 2026 12:00:02 GMT", 2),
        ] {
            assert_eq!(parse_retry_after(value, half_past), Some(Duration::from_secs(expected)), "{value}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(value in proptest::collection::vec(any::<u8>(), 0..48)) {
            for reader in [Reader::Strict, Reader::Lenient] {
                if let Some(reading) = read_value(&value, noon(), reader) {
                    reading.wait(noon());
                }
            }
        }

        #[test]
        fn what_looks_nearly_right_does_not_make_it_panic(value in "[ \t]{0,2}[0-9]{0,25}[.,:a-zA-Z]?[0-9]{0,25}[ \t]{0,2}") {
            let strict = read_value(value.as_bytes(), noon(), Reader::Strict);
            let lenient = read_value(value.as_bytes(), noon(), Reader::Lenient);
            prop_assert!(strict.is_none() || strict == lenient, "lenient takes all that strict takes, and reads it alike");
        }

        #[test]
        fn every_number_is_itself(number in any::<u64>()) {
            prop_assert_eq!(parse_retry_after(&number.to_string(), noon()), Some(Duration::from_secs(number)));
        }
    }
}
