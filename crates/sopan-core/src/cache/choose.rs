//! Which of the answers in store for a target are there for a request?
//!
//! Those that were given for the same host, to the same owner or to everybody, and that were chosen by fields in which both
//! requests agree (RFC 9111 §4.1). Of several whole ones the owner's own, then the most recent counts ([`choose`]). A part
//! counts where no whole one does: it has all that is asked for ([`covering`]), or so much that one more part completes it
//! ([`completable`]).
//!
//! Left to others: whether one is used unasked ([`standing`](super::standing)), and what of it is sent
//! ([`shape`](super::shape)).

use http::Method;
use http::header::DATE;

use super::conditional::is_same_body;
use super::freshness::Source;
use super::keep::is_for_all;
use super::marks::Marks;
use super::range::{Part, Span, if_range_holds, joined, wanted_of_part};
use super::status::Forward;
use super::{Asked, Extent, Stored};
use crate::hints::{Reader, http_date};
use crate::policy::CachePolicy;

/// What there is for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// The whole answer that counts.
    pub(super) whole: Option<usize>,
    /// Whether there are parts of one.
    pub(super) has_parts: bool,
    /// Why the request goes to the upstream if there is neither.
    pub(super) miss: Forward,
}

/// Looks through all that is stored for the target once.
pub(super) fn choose(asked: &Asked<'_>, stored: &[&Stored]) -> Choice {
    let mut choice = Choice { whole: None, has_parts: false, miss: Forward::UriMiss };
    for (index, candidate) in stored.iter().enumerate() {
        if !is_given_to(asked, candidate) {
            continue;
        }
        choice.miss = Forward::VaryMiss;
        if !candidate.selecting.is_for(asked.headers) {
            continue;
        }
        match candidate.extent {
            Extent::Part(_) => choice.has_parts = true,
            Extent::Whole(_) if choice.whole.is_none_or(|best| counts_before(asked, candidate, stored[best])) => {
                choice.whole = Some(index);
            }
            Extent::Whole(_) => {}
        }
    }
    choice
}

/// Whether an answer is there for this request.
pub(super) fn is_for(asked: &Asked<'_>, stored: &Stored) -> bool {
    is_given_to(asked, stored) && stored.selecting.is_for(asked.headers)
}

/// Whether an answer may be given to who asks, whatever it was chosen by.
fn is_given_to(asked: &Asked<'_>, stored: &Stored) -> bool {
    // That nobody has said how long it lasts leaves open for whom it is, too: without a secret there may be another answer
    // than with one.
    let is_for_strangers = stored.owner.is_none()
        && matches!(stored.freshness.source, Source::Default | Source::Heuristic)
        && !is_for_all(&stored.directives);
    *stored.host == *asked.host
        && stored.is_for_owner(asked)
        && !(is_for_strangers && asked.owner.is_some())
        && !stored.is_given_once()
}

/// RFC 9111 §4: by `Date`. Of the same second, the one that came later.
///
/// But for an owner, one's own counts before what was told a stranger and does not say that it is for everybody, as if each
/// owner had a cache in front of the one that all share: an upstream tells its users more than it tells others.
fn counts_before(asked: &Asked<'_>, one: &Stored, other: &Stored) -> bool {
    let key = |stored: &Stored| {
        let date = stored.headers.get(DATE).map(|date| date.as_bytes());
        let made = date.and_then(|date| http_date::parse(date, stored.times.received, Reader::Strict));
        let is_meant = stored.owner.is_some() || is_for_all(&stored.directives);
        (asked.owner.is_some() && is_meant, made, stored.times.received)
    };
    key(one) > key(other)
}

/// The places of all that are there for a request, whole or in part.
pub(super) fn all(asked: &Asked<'_>, stored: &[&Stored]) -> Vec<usize> {
    (0..stored.len()).filter(|index| is_for(asked, stored[*index])).collect()
}

/// The most recent part with all that is asked for.
pub(super) fn covering(asked: &Asked<'_>, stored: &[&Stored]) -> Option<usize> {
    let covers = |index: &usize| part_wanted(asked, stored[*index]).is_some();
    all(asked, stored)
        .into_iter()
        .filter(covers)
        .reduce(|best, index| if counts_before(asked, stored[index], stored[best]) { index } else { best })
}

/// What is asked for of a part, if that is in it: never all, which is no part.
pub(super) fn part_wanted(asked: &Asked<'_>, stored: &Stored) -> Option<Span> {
    let Extent::Part(part) = stored.extent else { return None };
    let span = wanted(asked, stored, part).filter(|_| asked.marks.has(Marks::RANGE))?;
    part.span.contains(span).then_some(span)
}

/// What is asked for of an answer of which a part is held: of several ranges nothing, since parts of parts are not worth
/// their trouble.
fn wanted(asked: &Asked<'_>, stored: &Stored, part: Part) -> Option<Span> {
    if asked.method != Method::GET {
        return None;
    }
    match asked.marks.has(Marks::RANGE) {
        true if if_range_holds(asked.headers, &stored.headers) => wanted_of_part(asked.headers, part.complete),
        true => None,
        false => Some(Span { first: 0, last: part.complete?.checked_sub(1)? }),
    }
}

/// A part that together with another one has all that is asked for, and this other one.
///
/// Both are parts of one body only if they have the same strong entity tag (RFC 9110 §15.3.7.3): without one, asking for
/// the rest would cost a request for nothing.
pub(super) fn completable(policy: &CachePolicy, asked: &Asked<'_>, stored: &[&Stored]) -> Option<(usize, Span)> {
    let missing_of = |index: usize| {
        let candidate = stored[index];
        let Extent::Part(part) = candidate.extent else { return None };
        let missing = missing(part.span, wanted(asked, candidate, part)?)?;
        let both = joined(part, Part { span: missing, complete: part.complete })?;
        let fits = both.span.length() <= policy.entry_bytes_max;
        (fits && is_same_body(&candidate.headers, &candidate.headers)).then_some((index, missing))
    };
    all(asked, stored).into_iter().filter_map(missing_of).min_by_key(|(_, missing)| missing.length())
}

/// What is missing of `wanted` if `held` is there, in one piece that touches it.
fn missing(held: Span, wanted: Span) -> Option<Span> {
    let starts_within = wanted.first >= held.first && wanted.first <= held.last.saturating_add(1);
    let ends_within = wanted.last <= held.last && wanted.last.saturating_add(1) >= held.first;
    match (starts_within, ends_within) {
        (true, false) => Some(Span { first: held.last.checked_add(1)?, last: wanted.last }),
        (false, true) => Some(Span { first: wanted.first, last: held.first.checked_sub(1)? }),
        _ => None,
    }
}
