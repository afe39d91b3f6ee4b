//! What stands in a field: one value, the members of a list, an entity tag, a date?
//!
//! Whoever asks for one value gets none where there are several lines: which of them counts would be a guess. What two
//! readers could understand in two ways is compared byte for byte, or not at all.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{DATE, ETAG, LAST_MODIFIED};
use http::{HeaderMap, HeaderName};

use crate::hints::Reader;
use crate::hints::http_date::{self, Form};

/// The value of the only line of a field.
pub(super) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    let mut lines = headers.get_all(name).iter();
    match (lines.next(), lines.next()) {
        (Some(line), None) => Some(line.as_bytes().trim_ascii()),
        _ => None,
    }
}

/// The members of all lines of a list, without the empty ones (RFC 9110 §5.6.1). A comma between quotes is part of its
/// member; a backslash means nothing, since it does not in an entity tag.
pub(super) fn members<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    headers.get_all(name).iter().flat_map(|line| {
        let mut is_quoted = false;
        let parts = line.as_bytes().split(move |byte| {
            is_quoted ^= *byte == b'"';
            *byte == b',' && !is_quoted
        });
        parts.map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
    })
}

/// An entity tag (RFC 9110 §8.8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    /// All of it, as it was sent.
    pub(super) text: &'a [u8],
    pub(super) strength: Strength,
    /// What is between the quotes; all of an odd one.
    opaque: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strength {
    Strong,
    Weak,
    /// It is none by the grammar: without quotes, or `w/"…"`. Some servers send such, and clients send them back as they
    /// are, so it is equal to the very same bytes, and to nothing else.
    Odd,
}

impl<'a> Tag<'a> {
    pub(super) fn read(text: &'a [u8]) -> Self {
        let (strength, quoted) = match text.strip_prefix(b"W/") {
            Some(rest) => (Strength::Weak, rest),
            None => (Strength::Strong, text),
        };
        match quoted {
            [b'"', opaque @ .., b'"'] if !opaque.contains(&b'"') => Self { text, strength, opaque },
            _ => Self { text, strength: Strength::Odd, opaque: text },
        }
    }

    /// That of an answer.
    pub(super) fn of(headers: &'a HeaderMap) -> Option<Self> {
        single(headers, &ETAG).filter(|text| !text.is_empty()).map(Self::read)
    }

    /// The weak comparison (RFC 9110 §8.8.3.2).
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let is_odd = |tag: &Self| tag.strength == Strength::Odd;
        self.opaque == other.opaque && is_odd(self) == is_odd(other)
    }

    /// The strong one.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.opaque == other.opaque && [self, other].iter().all(|tag| tag.strength == Strength::Strong)
    }
}

/// The dates of an answer, and of those that are held against it, in seconds since the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dates {
    /// When the answer was made.
    pub(super) made: Option<i64>,
    pub(super) modified: Option<i64>,
}

impl Dates {
    pub(super) fn of(answer: &HeaderMap) -> Self {
        let own = |name| single(answer, name).and_then(|value| read_date(value, None));
        let made = own(&DATE);
        let modified = single(answer, &LAST_MODIFIED).and_then(|value| read_date(value, made));
        Self { made, modified }
    }

    /// A date beside this answer. The century of one with two digits for the year is told by the answer's own.
    pub(super) fn read(&self, value: &[u8]) -> Option<i64> {
        read_date(value, self.made)
    }
}

/// A date; one with two digits for the year only where it is known `near` which time it was written.
fn read_date(value: &[u8], near: Option<i64>) -> Option<i64> {
    if Form::of(value) == Form::Rfc850 && near.is_none() {
        return None;
    }
    http_date::parse(value, at(near.unwrap_or(0)), Reader::Strict)
}

fn at(seconds: i64) -> SystemTime {
    let span = Duration::from_secs(seconds.unsigned_abs());
    let time = if seconds < 0 { UNIX_EPOCH.checked_sub(span) } else { UNIX_EPOCH.checked_add(span) };
    time.unwrap_or(UNIX_EPOCH)
}

/// A number of digits only; one that nobody can count to is `u64::MAX`.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let append = |number: u64, digit: &u8| number.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    is_number.then(|| digits.iter().fold(0, append))
}
