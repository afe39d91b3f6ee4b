//! Is what a client, or this cache, has already still good (RFC 9110 §13, RFC 9111 §4.3)?
//!
//! An entity tag decides where there is one, else the date of the last change. A client is told that what it has is still
//! good ([`is_not_modified`]); the upstream is asked whether what is stored is ([`Conditions`]), and its 304 read
//! ([`is_about`], [`updated`]).
//!
//! Left to others: whether a request may be answered from store at all, and that only an answer that succeeded, to a GET or
//! a HEAD, is held against conditions (RFC 9110 §13.2.1).

use http::header::{
    AGE, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, LAST_MODIFIED,
    RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::Stored;
use super::values::{Dates, Strength, Tag, members, single};
use crate::h1::HEAD_BYTES_MAX;
use crate::h1::fields::FIELDS_MAX;
use crate::headers::is_hop_by_hop;

/// With so many entity tags the upstream is asked at most, ...
const TAGS_MAX: usize = 16;
/// ... and with none longer than this: a request that grows by what was answered would one day be refused.
const TAG_BYTES_MAX: usize = 1024;

const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");

/// Whether a request that says what it has already (`If-None-Match`, else `If-Modified-Since`) need not be sent this
/// answer again: the answer is 304 (RFC 9110 §13.2.2, RFC 9111 §4.3.2).
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use sopan_core::cache::conditional::is_not_modified;
///
/// let (mut request, mut stored) = (HeaderMap::new(), HeaderMap::new());
/// request.insert("if-none-match", HeaderValue::from_static(r#""v1", W/"v2""#));
/// stored.insert("etag", HeaderValue::from_static(r#""v2""#));
/// assert!(is_not_modified(&request, &stored));
/// ```
pub fn is_not_modified(request: &HeaderMap, stored: &HeaderMap) -> bool {
    if request.contains_key(IF_NONE_MATCH) {
        let stands_for_any = members(request, &IF_NONE_MATCH).eq([b"*"]);
        let tag = Tag::of(stored);
        let is_ours = |member| tag.is_some_and(|tag| tag.is_like(&Tag::read(member)));
        return stands_for_any || members(request, &IF_NONE_MATCH).any(is_ours);
    }
    let Some(since) = single(request, &IF_MODIFIED_SINCE) else { return false };
    let dates = Dates::of(stored);
    let changed = if stored.contains_key(LAST_MODIFIED) { dates.modified } else { dates.made };
    matches!((changed, dates.read(since)), (Some(changed), Some(since)) if changed <= since)
}

/// What the upstream is asked with, whether answers in store are still good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The value of `If-None-Match`, if any of them has an entity tag.
    pub none_match: Option<HeaderValue>,
    /// That of `If-Modified-Since`, of the answer that would be used.
    pub modified_since: Option<HeaderValue>,
}

impl Conditions {
    /// Those for `used`, the answer that would be used, and the other variants of it that may be chosen instead.
    pub fn of(used: &Stored, others: &[&Stored]) -> Self {
        let modified = Dates::of(&used.headers).modified.and_then(|_| used.headers.get(LAST_MODIFIED));
        let modified_since = modified.cloned();
        let own = tag_to_ask_with(used);
        let is_listed = |tag: &Tag<'_>| tag.strength != Strength::Odd;
        let tags = match own {
            // Nobody knows where it would end in a list.
            Some(tag) if !is_listed(&tag) => tag.text.to_vec(),
            // With tags of others, its own date would not be looked at.
            None if modified_since.is_some() => Vec::new(),
            own => {
                let others = others.iter().filter_map(|other| tag_to_ask_with(other));
                list(own.into_iter().chain(others.filter(is_listed)))
            }
        };
        let none_match = if tags.is_empty() { None } else { HeaderValue::from_bytes(&tags).ok() };
        Self { none_match, modified_since }
    }

    /// Whether there is anything to ask with.
    pub fn is_empty(&self) -> bool {
        self.none_match.is_none() && self.modified_since.is_none()
    }

    /// Puts them into a request, in place of the client's own: the two are never mixed. Its `Range` goes with them, since all
    /// of the answer is asked about.
    pub fn apply(&self, request: &mut HeaderMap) {
        for name in [IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_RANGE, RANGE] {
            request.remove(name);
        }
        let conditions = [(IF_NONE_MATCH, &self.none_match), (IF_MODIFIED_SINCE, &self.modified_since)];
        for (name, value) in conditions {
            if let Some(value) = value {
                request.insert(name, value.clone());
            }
        }
    }
}

/// An odd one is sent as it came, for the upstream that made it so; but not one that would mean something else.
fn tag_to_ask_with(stored: &Stored) -> Option<Tag<'_>> {
    let is_clear = |tag: &Tag<'_>| tag.strength != Strength::Odd || tag.text != b"*" && !tag.text.contains(&b',');
    Tag::of(&stored.headers).filter(|tag| tag.text.len() <= TAG_BYTES_MAX && is_clear(tag))
}

/// The first of them that differ.
fn list<'a>(tags: impl Iterator<Item = Tag<'a>>) -> Vec<u8> {
    let mut listed: Vec<&[u8]> = Vec::new();
    for tag in tags {
        if listed.len() < TAGS_MAX && !listed.contains(&tag.text) {
            listed.push(tag.text);
        }
    }
    listed.join(&b", "[..])
}

/// Whether a 304 with these fields is about this answer (RFC 9111 §4.3.4): it has the same validator, or none at all and
/// answers what was asked about this one alone.
///
/// Where it has an entity tag, that decides, as it does for whoever answers a condition.
pub fn is_about(not_modified: &HeaderMap, stored: &HeaderMap, is_only_one: bool) -> bool {
    match Tag::of(not_modified) {
        Some(tag) => Tag::of(stored).is_some_and(|ours| match tag.strength {
            Strength::Strong => tag.is_same(&ours),
            Strength::Weak | Strength::Odd => tag.is_like(&ours),
        }),
        None if not_modified.contains_key(http::header::ETAG) => false,
        None => match not_modified.contains_key(LAST_MODIFIED) {
            true => is_modified_alike(not_modified, stored),
            false => is_only_one,
        },
    }
}

/// One that cannot be read is no date, but the same text is no other one.
fn is_modified_alike(a: &HeaderMap, b: &HeaderMap) -> bool {
    let (of_a, of_b) = (single(a, &LAST_MODIFIED), single(b, &LAST_MODIFIED));
    let is_same_date = || {
        let (a, b) = (Dates::of(a).modified, Dates::of(b).modified);
        a.is_some() && a == b
    };
    of_a.is_some() && of_a == of_b || is_same_date()
}

/// The fields of a stored answer after one that has updated it (RFC 9111 §3.2): those of the update replace all lines of
/// theirs, but what describes the stored body stays. An `Age` told of the one before.
///
/// None where many updates, each with new names, would make a head larger than any that can be received: one without some of
/// what was said now or before is no head of that answer.
///
/// Whether what comes of it may be stored, with a `Set-Cookie` for one, is looked at afterwards by whoever stores it.
pub fn updated(stored: &HeaderMap, update: &HeaderMap) -> Option<HeaderMap> {
    let mut fields = stored.clone();
    fields.remove(AGE);
    for name in update.keys().filter(|name| !stays(name)) {
        fields.remove(name);
        for line in update.get_all(name) {
            fields.append(name, line.clone());
        }
    }
    let is_as_large = |lines: usize, bytes: usize| fields.len() <= lines && head_bytes(&fields) <= bytes;
    let fits = is_as_large(FIELDS_MAX, HEAD_BYTES_MAX) || is_as_large(stored.len(), head_bytes(stored));
    fits.then_some(fields)
}

/// What an update says of its own hop and body, which it does not have.
fn stays(name: &HeaderName) -> bool {
    is_hop_by_hop(name) || [AGE, CONTENT_LENGTH, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_DIGEST].contains(name)
}

/// As lines of a head.
fn head_bytes(fields: &HeaderMap) -> usize {
    fields.iter().map(|(name, line)| name.as_str().len() + line.len() + ": \r\n".len()).sum()
}

/// Whether two answers have the same strong validator, so that parts of their bodies are parts of one (RFC 9110 §8.8.1).
/// That is an entity tag: that nothing changed within a second of a date is more than anybody knows.
pub fn is_same_body(a: &HeaderMap, b: &HeaderMap) -> bool {
    matches!((Tag::of(a), Tag::of(b)), (Some(a), Some(b)) if a.is_same(&b))
}

#[cfg(test)]
mod tests;
