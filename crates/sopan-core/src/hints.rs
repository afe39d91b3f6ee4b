//! What does an answer say of the limits of its sender?
//!
//! [`read`] looks at a response head once and turns what it says into one [`Hints`] value, in terms that no longer depend
//! on the notation. Reading and policy are never mixed: nothing here is floored, cut or replaced by a default. That, and
//! what to do about it, is decided in [`crate::retry`].

pub mod http_date;
pub mod retry_after;

use std::time::{Duration, SystemTime};

use http::header::{AGE, DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue};

pub use retry_after::{Reading, parse_retry_after};

/// How far the sender's clock and ours may be apart before we stop believing either of them alone, in seconds.
const SKEW_MAX: u64 = 3600;

/// How `Retry-After` is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reader {
    /// RFC 9110 §10.2.3 to the letter. It knows nothing but the field and the time of its reception.
    Strict,
    /// What senders really write, the default: beyond the strict values a decimal fraction (`1.5`), and dates that end
    /// in `UTC` or `+0000`. A date is measured by the sender's own clock where the response shows it.
    #[default]
    Lenient,
}

/// What an answer says of the limits of its sender. The default says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// How long to wait, counted from the reception, as asked: zero is a valid wait, `None` means that nothing usable was
    /// said. It may be very long ([`Duration::MAX`] and less), so add to it only with saturation.
    pub retry_after: Option<Duration>,
}

/// Reads what a response head says of limits. `received` is our wall clock at its reception.
///
/// `Retry-After` (RFC 9110 §10.2.3): of several lines the longest valid one counts. Clocks differ, so the lenient reader
/// measures a date from the response's `Date`, unless an `Age` shows that a cache kept the response meanwhile. Where
/// `Date` and our clock are more than an hour apart, one of them is wrong and nobody can tell which; then the shorter
/// wait counts, since a hold of hours by mistake is worse than one request too early.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use http::{HeaderMap, HeaderValue, header::RETRY_AFTER};
/// use sopan_core::hints::{self, Reader};
///
/// let mut headers = HeaderMap::new();
/// headers.insert(RETRY_AFTER, HeaderValue::from_static("1.5"));
/// let received = UNIX_EPOCH + Duration::from_secs(1_792_584_000);
/// let hints = hints::read(&headers, received, Reader::Lenient);
/// assert_eq!(hints.retry_after, Some(Duration::from_millis(1500)));
/// ```
pub fn read(headers: &HeaderMap, received: SystemTime, reader: Reader) -> Hints {
    Hints { retry_after: waits(headers, received, reader).filter_map(|(_, wait)| wait).max() }
}

/// Every `Retry-After` line, with the wait that it asks for; `None` beside one that cannot be used.
pub fn waits(
    headers: &HeaderMap,
    received: SystemTime,
    reader: Reader,
) -> impl Iterator<Item = (&HeaderValue, Option<Duration>)> {
    headers.get_all(RETRY_AFTER).iter().map(move |line| {
        let reading = retry_after::read_value(line.as_bytes(), received, reader);
        let wait = reading.map(|reading| match reading {
            Reading::Date(date) => retry_after::seconds_between(Clock::of(headers, received, reader).now(), date),
            delta @ Reading::Delta(_) => delta.wait(received),
        });
        (line, wait)
    })
}

/// From which clock a date in a response is measured. All are in seconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// From ours, since the strict reader looks at no other.
    Ours(i64),
    /// From ours, since the response does not show what its sender's was.
    Unknown(i64, Unknown),
    /// From the sender's, as `Date` shows it.
    Senders {
        /// What the sender's shows.
        theirs: i64,
        /// What ours shows.
        ours: i64,
    },
    /// They are so far apart that one of them is wrong: from the later one, from which the wait is the shorter.
    Apart {
        /// What the sender's shows.
        theirs: i64,
        /// What ours shows.
        ours: i64,
    },
}

/// Why it is not known what the clock of a response's sender showed when it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// There is no `Date`.
    NoDate,
    /// There are several.
    SeveralDates,
    /// It is no HTTP-date.
    UnusableDate,
    /// There is an `Age`: a cache has kept the response since.
    Aged,
}

impl Clock {
    /// From which clock a date in these headers is measured.
    pub fn of(headers: &HeaderMap, received: SystemTime, reader: Reader) -> Self {
        let ours = http_date::unix_seconds(received);
        match (reader, senders_clock(headers, received, reader)) {
            (Reader::Strict, _) => Self::Ours(ours),
            (Reader::Lenient, Err(why)) => Self::Unknown(ours, why),
            (Reader::Lenient, Ok(theirs)) if theirs.abs_diff(ours) <= SKEW_MAX => Self::Senders { theirs, ours },
            (Reader::Lenient, Ok(theirs)) => Self::Apart { theirs, ours },
        }
    }

    /// The time from which a date is measured.
    pub fn now(self) -> i64 {
        match self {
            Self::Ours(ours) | Self::Unknown(ours, _) => ours,
            Self::Senders { theirs, .. } => theirs,
            Self::Apart { theirs, ours } => theirs.max(ours),
        }
    }
}

/// What the sender's clock showed when the response left it, if the response tells: one valid `Date`, no `Age`.
fn senders_clock(headers: &HeaderMap, received: SystemTime, reader: Reader) -> Result<i64, Unknown> {
    let mut dates = headers.get_all(DATE).iter();
    match (dates.next(), dates.next()) {
        (None, _) => Err(Unknown::NoDate),
        (Some(_), Some(_)) => Err(Unknown::SeveralDates),
        (Some(_), None) if headers.contains_key(AGE) => Err(Unknown::Aged),
        (Some(date), None) => http_date::parse(date.as_bytes(), received, reader).ok_or(Unknown::UnusableDate),
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use http::{HeaderName, HeaderValue};

    use super::*;

    const NOON: &str = "Date: Wed, 21 Oct 2026 12:00:00 GMT";

    /// Wed, 21 Oct 2026 12:00:00 GMT.
    fn noon() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_792_584_000)
    }

    fn read_lines(lines: &[&str], received: SystemTime, reader: Reader) -> Option<Duration> {
        read(&fields(lines), received, reader).retry_after
    }

    fn fields(lines: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in lines {
            let (name, value) = line.split_once(": ").expect("a field line");
            headers.append(
                HeaderName::from_bytes(name.as_bytes()).expect("a field name"),
                HeaderValue::from_bytes(value.as_bytes()).expect("a field value"),
            );
        }
        headers
    }

    #[track_caller]
    fn check(lines: &[&str], expected: impl Into<Option<f64>>) {
        let expected = expected.into().map(Duration::from_secs_f64);
        assert_eq!(read_lines(lines, noon(), Reader::Lenient), expected, "{lines:?}");
    }

    #[test]
    fn nothing_said_is_nothing_read() {
        check(&[], None);
        check(&[NOON], None);
        check(&["Retry-After: soon"], None);
    }

    #[test]
    fn of_several_lines_the_longest_valid_one_counts() {
        check(&["Retry-After: 5", "Retry-After: 120", "Retry-After: 90"], 120.0);
        check(&["Retry-After: 5", "Retry-After: soon", "Retry-After: 999s"], 5.0);
        check(&["Retry-After: soon", "Retry-After: 0"], 0.0);
        check(&["Retry-After: 60", "Retry-After: Wed, 21 Oct 2026 12:01:30 GMT"], 90.0);
        check(&["Retry-After: Wed, 21 Oct 2026 12:01:30 GMT", "Retry-After: 91"], 91.0);
    }

    #[test]
    fn a_date_is_measured_by_the_clock_of_its_sender() {
        let until = "Retry-After: Wed, 21 Oct 2026 12:01:30 GMT";
        check(&[until], 90.0);
        check(&[until, NOON], 90.0);
        check(&[until, "Date: Wed, 21 Oct 2026 12:01:00 GMT"], 30.0);
        check(&[until, "Date: Wed, 21 Oct 2026 11:51:30 GMT"], 600.0);
        check(&[until, "Date: Wed, 21 Oct 2026 12:02:00 GMT"], 0.0);
        check(&[until, "Date: Wednesday, 21-Oct-26 12:01:00 GMT"], 30.0);
    }

    #[test]
    fn a_number_does_not_depend_on_any_clock() {
        check(&["Retry-After: 90", "Date: Wed, 21 Oct 2026 12:01:00 GMT"], 90.0);
    }

    #[test]
    fn our_clock_measures_where_the_senders_is_not_known() {
        let until = "Retry-After: Wed, 21 Oct 2026 12:01:30 GMT";
        check(&[until, "Date: Wed, 21 Oct 2026 12:01:00 GMT", "Age: 30"], 90.0);
        check(&[until, "Date: Wed, 21 Oct 2026 12:01:00 GMT", "Age: junk"], 90.0);
        check(&[until, "Date: yesterday"], 90.0);
        check(&[until, "Date: Wed, 21 Oct 2026 12:01:00 GMT", "Date: Wed, 21 Oct 2026 12:01:00 GMT"], 90.0);
    }

    #[test]
    fn clocks_more_than_an_hour_apart_give_the_shorter_wait() {
        // The sender is two hours behind, and asks for an hour and a half of its own time: half an hour behind ours.
        check(&["Retry-After: Wed, 21 Oct 2026 11:30:00 GMT", "Date: Wed, 21 Oct 2026 10:00:00 GMT"], 0.0);
        check(&["Retry-After: Wed, 21 Oct 2026 12:10:00 GMT", "Date: Wed, 21 Oct 2026 10:00:00 GMT"], 600.0);
        // The sender is two hours ahead.
        check(&["Retry-After: Wed, 21 Oct 2026 14:01:00 GMT", "Date: Wed, 21 Oct 2026 14:00:00 GMT"], 60.0);
        // An hour exactly is still believed, a second more is not.
        check(&["Retry-After: Wed, 21 Oct 2026 12:01:00 GMT", "Date: Wed, 21 Oct 2026 11:00:00 GMT"], 3660.0);
        check(&["Retry-After: Wed, 21 Oct 2026 12:01:00 GMT", "Date: Wed, 21 Oct 2026 10:59:59 GMT"], 60.0);
    }

    #[test]
    fn it_is_told_by_which_clock_a_date_is_measured_and_why() {
        const AT_NOON: i64 = 1_792_584_000;
        let early = "Date: Wed, 21 Oct 2026 10:00:00 GMT";
        for (lines, expected) in [
            (&[][..], Clock::Unknown(AT_NOON, Unknown::NoDate)),
            (&[NOON, NOON], Clock::Unknown(AT_NOON, Unknown::SeveralDates)),
            (&[NOON, "Age: 30"], Clock::Unknown(AT_NOON, Unknown::Aged)),
            (&["Date: yesterday"], Clock::Unknown(AT_NOON, Unknown::UnusableDate)),
            (&["Date: Wed, 21 Oct 2026 12:01:00 GMT"], Clock::Senders { theirs: AT_NOON + 60, ours: AT_NOON }),
            (&[early], Clock::Apart { theirs: AT_NOON - 7200, ours: AT_NOON }),
        ] {
            assert_eq!(Clock::of(&fields(lines), noon(), Reader::Lenient), expected, "{lines:?}");
        }
        assert_eq!(Clock::of(&fields(&[early]), noon(), Reader::Strict), Clock::Ours(AT_NOON));
    }

    #[test]
    fn the_strict_reader_knows_only_the_field_and_its_reception() {
        let until = "Retry-After: Wed, 21 Oct 2026 12:01:30 GMT";
        for (lines, expected) in [
            (&[until, "Date: Wed, 21 Oct 2026 12:01:00 GMT"][..], Some(90)),
            (&["Retry-After: 1.5"], None),
            (&["Retry-After: 5", "Retry-After: 120"], Some(120)),
        ] {
            let expected = expected.map(Duration::from_secs);
            assert_eq!(read_lines(lines, noon(), Reader::Strict), expected, "{lines:?}");
        }
    }

    #[test]
    fn what_is_measured_by_our_clock_is_rounded_up_and_never_early() {
        let received = noon() + Duration::from_millis(500);
        let read = read_lines(&["Retry-After: Wed, 21 Oct 2026 12:00:01 GMT"], received, Reader::Lenient);
        assert_eq!(read, Some(Duration::from_secs(1)));
    }
}
