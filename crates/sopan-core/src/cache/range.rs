//! Which bytes are asked for, and which are there (RFC 9110 §14)?
//!
//! A request asks for bytes of a body whose length is known ([`wanted`]) or not ([`wanted_of_part`]), if what it has of it
//! already is of the same ([`if_range_holds`]). An answer tells which part it is ([`part_of_answer`]), and two parts may make
//! a larger one ([`joined`]). A `Range` that is malformed, or asks for more than a body has, is not looked at, as RFC 9110
//! §14.2 allows.
//!
//! Left to others: to whom parts belong, and how several are written into one body ([`multipart`](super::multipart)).

use http::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, IF_RANGE, RANGE};
use http::{HeaderMap, HeaderValue};

use super::values::{Dates, Tag, number, single};

/// A request for more parts than this gets all: who wants to make work asks for a thousand single bytes (RFC 9110 §17.15).
pub const RANGES_MAX: usize = 16;

/// Bytes of a body, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first one, from 0.
    pub first: u64,
    /// The last one, not before the first.
    pub last: u64,
}

impl Span {
    /// How many they are.
    pub fn length(self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }

    /// Whether another's are among them.
    pub fn contains(self, other: Self) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    /// The value of a `Range` that asks for them.
    pub fn range(self) -> HeaderValue {
        written(format!("bytes={}-{}", self.first, self.last))
    }

    fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// A part of a body, and how long the whole is, where that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it is.
    pub span: Span,
    /// The length of the whole body.
    pub complete: Option<u64>,
}

impl Part {
    /// The value of its `Content-Range`.
    pub fn content_range(&self) -> HeaderValue {
        let Span { first, last } = self.span;
        written(match self.complete {
            Some(length) => format!("bytes {first}-{last}/{length}"),
            None => format!("bytes {first}-{last}/*"),
        })
    }
}

/// The value of `Content-Range` of a 416: nothing that was asked for is there.
pub fn unsatisfied(length: u64) -> HeaderValue {
    written(format!("bytes */{length}"))
}

fn written(value: String) -> HeaderValue {
    HeaderValue::try_from(value).expect("numbers and signs are of ASCII")
}

/// What a request with `Range` asks for of a body of a known length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of it: there is no `Range`, or one that is not looked at (another unit, malformed, too many).
    Whole,
    /// One part of it.
    One(Span),
    /// Several, in the order asked, which do not overlap.
    Several(Vec<Span>),
    /// Nothing that is there: 416.
    Nothing,
}

/// What is asked for of a body this long.
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use sopan_core::cache::range::{Span, Wanted, wanted};
///
/// let mut request = HeaderMap::new();
/// request.insert("range", HeaderValue::from_static("bytes=-5"));
/// assert_eq!(wanted(&request, 100), Wanted::One(Span { first: 95, last: 99 }));
/// ```
pub fn wanted(request: &HeaderMap, length: u64) -> Wanted {
    let Some(asked) = asked(request) else { return Wanted::Whole };
    // The end of an empty body is there, but no `Content-Range` can say so.
    if length == 0 && asked.iter().any(|range| matches!(range, Asked::Last(count) if *count > 0)) {
        return Wanted::Whole;
    }
    let spans: Vec<_> = asked.iter().filter_map(|range| range.within(length)).collect();
    match spans[..] {
        [] => Wanted::Nothing,
        [span] => Wanted::One(span),
        _ if is_any_asked_twice(&spans) => Wanted::Whole,
        _ => Wanted::Several(spans),
    }
}

/// Which part of a body is asked for if its length is not known or only a part of it is held: none unless it is one single
/// range with both ends, an open or a suffix range being known only with `complete`.
pub fn wanted_of_part(request: &HeaderMap, complete: Option<u64>) -> Option<Span> {
    match (&asked(request)?[..], complete) {
        ([range], Some(length)) => range.within(length),
        ([Asked::From(first, Some(last))], None) => Some(Span { first: *first, last: *last }),
        _ => None,
    }
}

/// Where nothing is asked for twice, the sum is not above the length of the whole either.
fn is_any_asked_twice(spans: &[Span]) -> bool {
    (1..spans.len()).any(|at| spans[..at].iter().any(|before| before.overlaps(spans[at])))
}

/// One range, as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// From here on, perhaps not to the end.
    From(u64, Option<u64>),
    /// So many at the end.
    Last(u64),
}

impl Asked {
    fn read(text: &[u8]) -> Option<Self> {
        let dash = text.iter().position(|byte| *byte == b'-')?;
        let (first, last) = (&text[..dash], &text[dash + 1..]);
        match (first, last) {
            ([], count) => number(count).map(Self::Last),
            (first, []) => Some(Self::From(number(first)?, None)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::From(first, Some(last)))
            }
        }
    }

    /// What there is of it in a body this long.
    fn within(self, length: u64) -> Option<Span> {
        let end = length.checked_sub(1)?;
        let (first, last) = match self {
            Self::From(first, last) => (first, last.unwrap_or(end).min(end)),
            Self::Last(0) => return None,
            Self::Last(count) => (length.saturating_sub(count), end),
        };
        (first <= last).then_some(Span { first, last })
    }
}

/// What a request asks for, if it has a `Range` that is looked at.
fn asked(request: &HeaderMap) -> Option<Vec<Asked>> {
    let value = single(request, &RANGE)?;
    let equals = value.iter().position(|byte| *byte == b'=')?;
    let (unit, set) = (&value[..equals], &value[equals + 1..]);
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let members = set.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty());
    // One more than may be is enough to know that there are too many.
    let asked: Option<Vec<_>> = members.take(RANGES_MAX + 1).map(Asked::read).collect();
    asked.filter(|asked| (1..=RANGES_MAX).contains(&asked.len()))
}

/// Whether a request has a `Range` that may be looked at, going by its `If-Range` and the answer that would be used
/// (RFC 9110 §13.1.5). Without `If-Range` it may.
pub fn if_range_holds(request: &HeaderMap, stored: &HeaderMap) -> bool {
    if !request.contains_key(IF_RANGE) {
        return true;
    }
    let Some(value) = single(request, &IF_RANGE) else { return false };
    let is_our_tag = || Tag::of(stored).is_some_and(|tag| tag.is_same(&Tag::read(value)));
    is_our_tag() || is_our_date(value, stored)
}

/// Whether it is the date of the last change, and that was over before the answer was made: what changed again within the
/// same second has the same date (RFC 9110 §8.8.2.2).
fn is_our_date(value: &[u8], stored: &HeaderMap) -> bool {
    let dates = Dates::of(stored);
    let is_strong = matches!((dates.modified, dates.made), (Some(modified), Some(made)) if modified < made);
    is_strong && dates.read(value) == dates.modified
}

/// Which part a 206 has, going by its one `Content-Range` (RFC 9110 §14.4), if that makes sense, and with its
/// `Content-Length` if it has one. None for a multipart one.
pub fn part_of_answer(answer: &HeaderMap) -> Option<Part> {
    let part = content_range(single(answer, &CONTENT_RANGE)?)?;
    let is_multipart = |kind: &HeaderValue| {
        let kind = kind.as_bytes().trim_ascii();
        kind.get(..10).is_some_and(|start| start.eq_ignore_ascii_case(b"multipart/"))
    };
    // Whose `Content-Range` belongs into the parts, and not where this one is from.
    if answer.get_all(CONTENT_TYPE).iter().any(is_multipart) {
        return None;
    }
    let fits = |length: &HeaderValue| number(length.as_bytes().trim_ascii()) == Some(part.span.length());
    answer.get_all(CONTENT_LENGTH).iter().all(fits).then_some(part)
}

fn content_range(value: &[u8]) -> Option<Part> {
    let (unit, rest) = value.split_at_checked("bytes ".len())?;
    let slash = rest.iter().position(|byte| *byte == b'/')?;
    let (span, complete) = (&rest[..slash], &rest[slash + 1..]);
    let Asked::From(first, Some(last)) = Asked::read(span)? else { return None };
    let complete = if complete == b"*" { None } else { Some(number(complete)?) };
    // At the largest number, nobody knows what it was.
    let is_within = last < complete.unwrap_or(u64::MAX);
    let is_known = unit.eq_ignore_ascii_case(b"bytes ") && complete != Some(u64::MAX);
    (is_known && is_within).then_some(Part { span: Span { first, last }, complete })
}

/// The part that two make together, if they touch or overlap and agree on the length of the whole.
pub fn joined(a: Part, b: Part) -> Option<Part> {
    let (one, other) = (a.span, b.span);
    let touch = one.first <= other.last.saturating_add(1) && other.first <= one.last.saturating_add(1);
    let agree = a.complete.is_none() || b.complete.is_none() || a.complete == b.complete;
    let span = Span { first: one.first.min(other.first), last: one.last.max(other.last) };
    let complete = a.complete.or(b.complete);
    let is_within = complete.is_none_or(|length| span.last < length);
    (touch && agree && is_within).then_some(Part { span, complete })
}

#[cfg(test)]
mod tests;
