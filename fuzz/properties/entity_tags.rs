//! What must hold of every entity tag, and of what asks with some (RFC 9110 §8.8.3, §13).
//!
//! The first line is an `ETag`, the others are lines of `If-None-Match`, and tags of other answers in store.

use http::{HeaderMap, HeaderValue};
use sopan_core::cache::Stored;
use sopan_core::cache::conditional::{Conditions, is_about, is_not_modified, is_same_body, updated};
use sopan_core::policy::CachePolicy;

use crate::answer;

pub(crate) fn check(input: &[u8]) {
    let lines: Option<Vec<_>> =
        input.split(|byte| *byte == b'\n').map(|line| HeaderValue::from_bytes(line).ok()).collect();
    let Some((etag, asked)) = lines.as_deref().and_then(<[_]>::split_first) else { return };
    let answer = fields("etag", [etag]);
    check_not_modified(etag, asked, &answer);
    check_pairs(etag, asked);
    check_asked(etag, asked, &answer);
}

fn check_not_modified(etag: &HeaderValue, asked: &[HeaderValue], answer: &HeaderMap) {
    let request = fields("if-none-match", asked);
    let all: Vec<_> = asked.iter().flat_map(|line| members(line.as_bytes())).collect();
    let own = trimmed(etag);
    let is_any = all == [b"*"];
    let expected = is_any || !own.is_empty() && all.iter().any(|member| are_alike(member, own));
    assert_eq!(is_not_modified(&request, answer), expected && !asked.is_empty());
    // It must not depend on how they are spread over lines.
    let line = HeaderValue::from_bytes(&all.join(&b", "[..])).expect("parts of values are values");
    let is_one_line = all.iter().all(|member| are_closed(member));
    if is_one_line && !asked.is_empty() {
        assert_eq!(is_not_modified(&fields("if-none-match", [&line]), answer), expected);
    }
}

/// Whoever has which of two, they are the same or not.
fn check_pairs(etag: &HeaderValue, asked: &[HeaderValue]) {
    for other in asked.iter().filter(|other| members(other.as_bytes()) == [trimmed(other)] && trimmed(other) != b"*") {
        if members(etag.as_bytes()) == [trimmed(etag)] && trimmed(etag) != b"*" {
            let is = |a, b| is_not_modified(&fields("if-none-match", [a]), &fields("etag", [b]));
            assert_eq!(is(etag, other), is(other, etag));
        }
        let (a, b) = (fields("etag", [etag]), fields("etag", [other]));
        let is_same = is_same_body(&a, &b);
        assert_eq!(is_same, is_same_body(&b, &a));
        assert!(!is_same || trimmed(etag) == trimmed(other) && is_tag(trimmed(etag)));
    }
}

/// What the upstream is asked with, whoever has the same answer finds nothing new in.
fn check_asked(etag: &HeaderValue, asked: &[HeaderValue], answer: &HeaderMap) {
    let policy = CachePolicy::default();
    let stored = |tag| answer::stored(fields("etag", [tag]), &policy);
    let used = stored(etag);
    let others: Vec<Stored> = asked.iter().map(stored).collect();
    let conditions = Conditions::of(&used, &others.iter().collect::<Vec<_>>());
    let mut request = fields("if-none-match", asked);
    conditions.apply(&mut request);
    assert_eq!(conditions.is_empty(), request.is_empty());
    let Some(line) = request.get("if-none-match") else { return };
    assert!(line.len() <= 16 * (1024 + 2) && trimmed(line) != b"*");
    let is_ours = members(line.as_bytes()).first() == Some(&trimmed(etag));
    let is_of_others = || others.iter().any(|other| is_not_modified(&request, &other.headers));
    assert!(if is_ours { is_not_modified(&request, answer) } else { is_of_others() });
    if is_ours {
        assert!(is_about(answer, answer, false), "a 304 with our own tag is about ours");
        assert_eq!(updated(answer, answer).as_ref(), Some(answer));
    }
}

/// The members of a list, without those that are empty.
fn members(line: &[u8]) -> Vec<&[u8]> {
    let (mut members, mut begin, mut quotes) = (Vec::new(), 0, 0);
    for at in 0..=line.len() {
        let is_end = line.get(at).is_none_or(|byte| *byte == b',' && quotes % 2 == 0);
        quotes += usize::from(line.get(at) == Some(&b'"'));
        if is_end {
            members.push(strip(&line[begin..at]));
            begin = at + 1;
        }
    }
    members.retain(|member| !member.is_empty());
    members
}

/// Whether all its quotes end, so that what follows in one line is no part of it.
fn are_closed(member: &[u8]) -> bool {
    member.iter().filter(|byte| **byte == b'"').count() % 2 == 0
}

fn are_alike(a: &[u8], b: &[u8]) -> bool {
    let bare = |tag: &[u8]| tag.strip_prefix(b"W/").unwrap_or(tag).to_vec();
    a == b || is_tag(&bare(a)) && bare(a) == bare(b)
}

/// A strong one, by the grammar but for the characters between the quotes.
fn is_tag(text: &[u8]) -> bool {
    text.len() >= 2
        && text.starts_with(b"\"")
        && text.iter().position(|byte| *byte == b'"') == Some(0)
        && text[1..].iter().position(|byte| *byte == b'"') == Some(text.len() - 2)
}

fn trimmed(value: &HeaderValue) -> &[u8] {
    strip(value.as_bytes())
}

fn strip(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

fn fields<'a>(name: &'static str, lines: impl IntoIterator<Item = &'a HeaderValue>) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for line in lines {
        fields.append(name, line.clone());
    }
    fields
}
