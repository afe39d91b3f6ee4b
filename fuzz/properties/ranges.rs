//! What must hold of every `Range`, and of every part of a body (RFC 9110 §14).
//!
//! The first line is the length of a body, the second a `Range`, the rest a `Content-Range`. What is asked of a small body
//! is found a second time by looking at each of its bytes.

use http::{HeaderMap, HeaderValue};
use sopan_core::cache::multipart::Multipart;
use sopan_core::cache::range::{Part, RANGES_MAX, Span, Wanted, joined, part_of_answer, wanted, wanted_of_part};

/// Each byte of a body up to this long is looked at.
const SMALL: u64 = 300;

pub(crate) fn check(input: &[u8]) {
    let mut lines = input.splitn(3, |byte| *byte == b'\n');
    let length = lines.next().and_then(|line| std::str::from_utf8(line).ok()?.parse().ok()).unwrap_or(10);
    let mut value = || lines.next().and_then(|line| HeaderValue::from_bytes(line).ok());
    if let Some(range) = value() {
        check_range(&range, length);
    }
    if let Some(content_range) = value() {
        check_part(&content_range);
    }
}

fn check_range(range: &HeaderValue, length: u64) {
    let request = one("range", range);
    let got = wanted(&request, length);
    let spans = match &got {
        Wanted::Whole | Wanted::Nothing => Vec::new(),
        Wanted::One(span) => vec![*span],
        Wanted::Several(spans) => spans.clone(),
    };
    assert!(spans.len() <= RANGES_MAX && (spans.len() > 1) == matches!(got, Wanted::Several(_)));
    assert!(spans.iter().all(|span| span.first <= span.last && span.last < length), "within {length}");
    let mut sorted = spans.clone();
    sorted.sort_by_key(|span| span.first);
    assert!(sorted.windows(2).all(|two| two[0].last < two[1].first), "nothing is given twice");
    match (wanted_of_part(&request, Some(length)), &got) {
        (Some(one), _) => assert_eq!(got, Wanted::One(one)),
        // Of several, one may be there.
        (None, Wanted::One(_)) => assert!(range.as_bytes().contains(&b',')),
        (None, _) => {}
    }
    if let Some(span) = wanted_of_part(&request, None).filter(|span| span.last < length) {
        assert_eq!(got, Wanted::One(span), "what both ends tell does not depend on the length");
    }
    if length <= SMALL {
        assert_eq!(got, looked_at_each_byte(range.as_bytes(), length));
        check_joined(&sorted, length);
        if length > 0 {
            check_multipart(&spans, length);
        }
    }
}

fn looked_at_each_byte(range: &[u8], length: u64) -> Wanted {
    let Some(ranges) = std::str::from_utf8(range).ok().and_then(ranges) else { return Wanted::Whole };
    let is_asked = |range: &(Option<u128>, Option<u128>), byte: u64| match *range {
        (Some(first), last) => first <= byte.into() && last.is_none_or(|last| u128::from(byte) <= last),
        (None, count) => u128::from(length - byte) <= count.unwrap_or(0),
    };
    if length == 0 && ranges.iter().any(|(first, last)| first.is_none() && *last != Some(0)) {
        return Wanted::Whole;
    }
    let mut spans = Vec::new();
    for range in &ranges {
        let mut asked = (0..length).filter(|byte| is_asked(range, *byte));
        if let Some(first) = asked.next() {
            spans.push(Span { first, last: asked.next_back().unwrap_or(first) });
        }
    }
    if (0..length).any(|byte| ranges.iter().filter(|range| is_asked(range, byte)).count() > 1) {
        return Wanted::Whole;
    }
    match spans[..] {
        [] => Wanted::Nothing,
        [span] => Wanted::One(span),
        _ => Wanted::Several(spans),
    }
}

/// First and last of each, if all can be read.
fn ranges(text: &str) -> Option<Vec<(Option<u128>, Option<u128>)>> {
    let blank = [' ', '\t'];
    let (unit, set) = text.trim_matches(blank).split_once('=')?;
    let members: Vec<_> = set.split(',').map(|member| member.trim_matches(blank)).filter(|m| !m.is_empty()).collect();
    if !unit.eq_ignore_ascii_case("bytes") || members.is_empty() || members.len() > RANGES_MAX {
        return None;
    }
    let number = |text: &str| match text {
        "" => Some(None),
        // Numbers that nobody counts to are alike.
        _ if text.chars().all(|digit| digit.is_ascii_digit()) => {
            Some(Some(text.parse().unwrap_or(u128::MAX).min(u64::MAX.into())))
        }
        _ => None,
    };
    let range = |member: &str| {
        let (first, last) = member.split_once('-')?;
        let (first, last) = (number(first)?, number(last)?);
        let is_in_order = first.is_none() || last.is_none() || first <= last;
        (is_in_order && (first.is_some() || last.is_some())).then_some((first, last))
    };
    members.into_iter().map(range).collect()
}

/// Two parts make one where no byte is missing between them.
fn check_joined(spans: &[Span], length: u64) {
    let part = |span| Part { span, complete: Some(length) };
    for two in spans.windows(2) {
        let (a, b) = (part(two[0]), part(two[1]));
        let whole = Span { first: a.span.first, last: b.span.last };
        let expected = (a.span.length() + b.span.length() == whole.length()).then(|| part(whole));
        assert_eq!((joined(a, b), joined(b, a)), (expected, expected));
        assert_eq!(joined(a, part(whole)), Some(part(whole)));
    }
}

/// What is written around the parts can be read, and says of each which it is.
fn check_multipart(spans: &[Span], length: u64) {
    let body: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
    let kind = HeaderValue::from_static("a/b");
    let around = Multipart::new(spans, length, Some(&kind), length.into());
    let slice = |span: &Span| &body[span.first as usize..=span.last as usize];
    let mut written = Vec::new();
    for (head, span) in around.heads.iter().zip(spans) {
        written.extend_from_slice(head);
        written.extend_from_slice(slice(span));
    }
    written.extend_from_slice(&around.tail);
    assert_eq!((around.heads.len(), around.length), (spans.len(), written.len() as u64));
    let told = around.content_type.to_str().expect("it is text");
    let boundary = told.strip_prefix("multipart/byteranges; boundary=").expect("it has a boundary");
    let mut rest = [b"\r\n", &written[..]].concat();
    for span in spans {
        let Span { first, last } = *span;
        let head =
            format!("\r\n--{boundary}\r\nContent-Type: a/b\r\nContent-Range: bytes {first}-{last}/{length}\r\n\r\n");
        rest = rest.strip_prefix(head.as_bytes()).expect("a part has a head").to_vec();
        rest = rest.strip_prefix(slice(span)).expect("and its bytes").to_vec();
    }
    if !spans.is_empty() {
        assert_eq!(rest, format!("\r\n--{boundary}--\r\n").into_bytes());
    }
}

fn check_part(value: &HeaderValue) {
    let mut answer = one("content-range", value);
    let Some(part) = part_of_answer(&answer) else { return };
    let Part { span, complete } = part;
    assert!(span.first <= span.last && complete.is_none_or(|length| span.last < length));
    let written = part.content_range();
    assert_eq!(part_of_answer(&one("content-range", &written)), Some(part));
    let text = String::from_utf8(value.as_bytes().to_ascii_lowercase()).expect("one that is read is of ASCII");
    assert_eq!(plain(text.trim_matches([' ', '\t'])), written.to_str().expect("it is text"));
    assert_eq!(joined(part, part), Some(part));
    answer.insert("content-length", span.length().into());
    assert_eq!(part_of_answer(&answer), Some(part));
    answer.insert("content-length", (span.length() - 1).into());
    assert_eq!(part_of_answer(&answer), None, "it has another length than it says");
}

/// Without zeros that stand before other digits.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for (at, sign) in text.char_indices() {
        let is_first = !plain.ends_with(|before: char| before.is_ascii_digit());
        let goes_on = text[at + 1..].starts_with(|after: char| after.is_ascii_digit());
        if sign != '0' || !is_first || !goes_on {
            plain.push(sign);
        }
    }
    plain
}

fn one(name: &'static str, value: &HeaderValue) -> HeaderMap {
    HeaderMap::from_iter([(http::HeaderName::from_static(name), value.clone())])
}
