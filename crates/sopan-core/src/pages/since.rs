//! From where on are records new?
//!
//! A load that goes on where the last one ended remembers the greatest value of one field, its high-water mark ([`Mark`]), and
//! asks for what is not before it. Since APIs give records late, or several with the same time, it asks from a little before
//! ([`Mark::less`]), and knows what of that it has already.

use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::value::RawValue;

use super::raw;

/// The value of a field that grows with time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// An instant, as it was written (RFC 3339).
    Time(String),
    /// A whole number, as it was written: an id, or seconds since 1970.
    Number(String),
    /// Anything else, in the order of its bytes.
    Text(String),
}

/// How far before the mark a load begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// For instants.
    Time(Duration),
    /// For whole numbers.
    Count(u64),
}

impl Mark {
    /// The value as a mark; none for what is not in any order: an object, a list, null, a fraction.
    pub fn of(value: &RawValue) -> Option<Self> {
        match raw::string(value) {
            Some(text) => Some(Self::from(text)),
            None => whole(value.get()).map(|_| Self::Number(value.get().to_owned())),
        }
    }

    /// Which comes first; none if they are not of one kind.
    pub fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Time(one), Self::Time(other)) => Some(instant(one)?.cmp(&instant(other)?)),
            (Self::Number(one), Self::Number(other)) => Some(whole(one)?.cmp(&whole(other)?)),
            (Self::Text(one), Self::Text(other)) => Some(one.cmp(other)),
            _ => None,
        }
    }

    /// What lies so much before it, as it is asked for; none where that cannot be told.
    pub fn less(&self, overlap: Overlap) -> Option<Self> {
        match (self, overlap) {
            (Self::Time(text), Overlap::Time(span)) => {
                let span = SignedDuration::try_from(span).ok()?;
                let earlier = instant(text)?.checked_sub(span).ok()?;
                Some(Self::Time(earlier.to_string()))
            }
            // Seconds since 1970, most likely.
            (Self::Number(text), Overlap::Time(span)) => {
                Some(Self::Number(whole(text)?.checked_sub(span.as_secs().into())?.to_string()))
            }
            (Self::Number(text), Overlap::Count(count)) => {
                Some(Self::Number(whole(text)?.checked_sub(count.into())?.to_string()))
            }
            (Self::Time(_), Overlap::Count(_)) | (Self::Text(_), _) => None,
        }
    }
}

impl From<String> for Mark {
    fn from(text: String) -> Self {
        match () {
            () if instant(&text).is_some() => Self::Time(text),
            () if whole(&text).is_some() => Self::Number(text),
            () => Self::Text(text),
        }
    }
}

/// As it is asked for.
impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Time(text) | Self::Number(text) | Self::Text(text)) = self;
        f.write_str(text)
    }
}

fn instant(text: &str) -> Option<Timestamp> {
    // With a date and a time; what has neither is a number or a text.
    text.contains(':').then(|| text.parse().ok()).flatten()
}

fn whole(text: &str) -> Option<i128> {
    (text.len() <= 38).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(json: &str) -> Option<Mark> {
        Mark::of(serde_json::from_str(json).unwrap())
    }

    #[test]
    fn marks_are_in_the_order_of_what_they_mean() {
        for (one, other, order) in [
            ("\"2026-01-01T00:00:00Z\"", "\"2026-01-01T00:30:00+01:00\"", Some(Ordering::Greater)),
            ("\"2026-01-01T00:00:00.1Z\"", "\"2026-01-01T00:00:00.10Z\"", Some(Ordering::Equal)),
            ("9", "10", Some(Ordering::Less)),
            ("\"9\"", "10", Some(Ordering::Less)),
            ("12345678901234567890123", "12345678901234567890124", Some(Ordering::Less)),
            ("\"b\"", "\"a\"", Some(Ordering::Greater)),
            ("\"2026-01-02\"", "\"2026-01-10\"", Some(Ordering::Less)),
            ("1", "\"2026-01-01T00:00:00Z\"", None),
        ] {
            assert_eq!(mark(one).unwrap().order(&mark(other).unwrap()), order, "{one} {other}");
        }
        for nothing in ["null", "1.5", "{}", "[]", "true"] {
            assert_eq!(mark(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn a_load_begins_a_little_before_the_mark() {
        let hour = Overlap::Time(Duration::from_secs(3600));
        for (json, overlap, expected) in [
            ("\"2026-01-01T00:30:00Z\"", hour, Some("2025-12-31T23:30:00Z")),
            ("\"2026-01-01T00:30:00.25+01:00\"", hour, Some("2025-12-31T22:30:00.25Z")),
            ("1796074040", hour, Some("1796070440")),
            ("17", Overlap::Count(5), Some("12")),
            ("\"abc\"", hour, None),
            ("\"2026-01-01T00:30:00Z\"", Overlap::Count(5), None),
        ] {
            assert_eq!(mark(json).unwrap().less(overlap).map(|mark| mark.to_string()).as_deref(), expected, "{json}");
        }
    }
}
