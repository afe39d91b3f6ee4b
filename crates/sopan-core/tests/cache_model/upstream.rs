//! An upstream that does what a history says, and numbers its answers (`x-number`).
//!
//! A byte of a body knows what it is a byte of. Answers with the same strong tag have the same body; all others have one of
//! their own.

use http::header::{
    CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, LAST_MODIFIED, RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::fields;
use crate::history::{Answer, Moment, Quirk, Tag, written};

pub(crate) const NUMBER: HeaderName = HeaderName::from_static("x-number");
const LINES: HeaderName = HeaderName::from_static("x-line");

/// A byte of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Byte {
    pub(crate) of: usize,
    pub(crate) at: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<Byte>,
}

/// What it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) host: String,
    pub(crate) headers: HeaderMap,
}

/// The body whose bytes these are, from 0.
fn body(of: usize, length: usize) -> Vec<Byte> {
    (0..length).map(|at| Byte { of, at }).collect()
}

pub(crate) fn answer(answer: &Answer, sent: &Sent, number: usize, now: Moment) -> Message {
    let mut headers = written(&answer.fields, now);
    headers.insert(NUMBER, HeaderValue::from(number));
    headers.append(LINES, HeaderValue::from_str(&format!("first of {number}")).expect("plain text"));
    headers.append(LINES, HeaderValue::from_str(&format!("second of {number}")).expect("plain text"));
    let is_whole = answer.status == 200;
    if is_whole {
        tag(answer, answer.version, &mut headers);
    }
    let of = match answer.tag {
        Tag::Strong if is_whole => known_body(sent, answer.version),
        _ => 1000 + number,
    };
    let length = match answer.status {
        204 => 0,
        200 => 12 - 2 * usize::from(answer.version),
        _ => 4,
    };
    let whole = Message { status: answer.status, headers, body: body(of, length) };
    let mut message = match what(answer, sent, &whole) {
        What::Whole => whole,
        What::NotModified => not_modified(answer, whole),
        What::Part(first, last) => part(answer, whole, first, last),
        What::Several => Message { status: 206, body: body(1000 + number, 5), ..several(whole) },
        What::Nothing => Message { status: 416, body: body(1000 + number, 4), ..whole },
    };
    if answer.quirk != Quirk::NoLength && !matches!(message.status, 204 | 304) {
        message.headers.insert(CONTENT_LENGTH, HeaderValue::from(message.body.len()));
    }
    if sent.method == "HEAD" {
        message.body.clear();
    }
    message
}

/// Targets of different hosts are different things, also where they have the same tag.
fn known_body(sent: &Sent, version: u8) -> usize {
    usize::from(version) * 4 + usize::from(sent.target == "/b") * 2 + usize::from(sent.host != "one.example")
}

fn tag(answer: &Answer, version: u8, headers: &mut HeaderMap) {
    let text = match answer.tag {
        Tag::None => return,
        Tag::Strong => format!(r#""v{version}""#),
        Tag::Weak => format!(r#"W/"v{version}""#),
    };
    headers.insert(ETAG, HeaderValue::from_str(&text).expect("a tag is a value"));
}

enum What {
    Whole,
    NotModified,
    Part(usize, usize),
    Several,
    Nothing,
}

fn what(answer: &Answer, sent: &Sent, whole: &Message) -> What {
    let (is_get, is_head) = (sent.method == "GET", sent.method == "HEAD");
    if answer.quirk == Quirk::UnaskedNotModified && (is_get || is_head) {
        return What::NotModified;
    }
    if answer.status != 200 {
        return What::Whole;
    }
    if answer.looks_at_conditions && (is_get || is_head) && is_unchanged(&sent.headers, &whole.headers) {
        return What::NotModified;
    }
    if answer.quirk == Quirk::UnaskedPart && is_get {
        return What::Part(0, 3);
    }
    if answer.quirk == Quirk::UnaskedParts && is_get {
        return What::Several;
    }
    if answer.looks_at_ranges && is_get && (answer.quirk == Quirk::NoIfRange || if_range(&sent.headers, &whole.headers))
    {
        let Some(ranges) = fields::text(&sent.headers, &RANGE).and_then(|range| fields::ranges(&range)) else {
            return What::Whole;
        };
        let mut there = ranges.iter().filter_map(|range| range.within(whole.body.len()));
        return match (there.next(), there.next()) {
            (None, _) => What::Nothing,
            (Some((first, last)), None) => What::Part(first, last),
            (Some(_), Some(_)) => What::Several,
        };
    }
    What::Whole
}

fn is_unchanged(request: &HeaderMap, answer: &HeaderMap) -> bool {
    if let Some(known) = fields::text(request, &IF_NONE_MATCH) {
        let tag = fields::text(answer, &ETAG);
        return known == "*" || tag.is_some_and(|tag| fields::is_weakly_in(&tag, &known));
    }
    let since = fields::text(request, &IF_MODIFIED_SINCE).and_then(|since| fields::date(&since));
    let modified = fields::text(answer, &LAST_MODIFIED).and_then(|modified| fields::date(&modified));
    since.is_some_and(|since| modified.is_some_and(|modified| modified <= since))
}

fn if_range(request: &HeaderMap, answer: &HeaderMap) -> bool {
    let Some(given) = fields::text(request, &IF_RANGE) else { return true };
    let is_strong = !given.starts_with("W/");
    let validator = if given.contains('"') { &ETAG } else { &LAST_MODIFIED };
    is_strong && fields::text(answer, validator).as_deref() == Some(&given)
}

fn not_modified(answer: &Answer, mut message: Message) -> Message {
    message.status = 304;
    message.body.clear();
    tag(answer, answer.version, &mut message.headers);
    match answer.quirk {
        Quirk::BareNotModified => {
            message.headers.remove(ETAG);
            message.headers.remove(LAST_MODIFIED);
        }
        Quirk::OtherNotModified => tag(answer, 3 - answer.version, &mut message.headers),
        Quirk::EmptyNotModified => {
            message.headers.insert(CONTENT_LENGTH, HeaderValue::from(0));
        }
        _ => {}
    }
    message
}

fn part(answer: &Answer, mut message: Message, first: usize, last: usize) -> Message {
    let complete = match answer.quirk {
        Quirk::UnknownWhole => "*".to_owned(),
        _ => message.body.len().to_string(),
    };
    let range = format!("bytes {first}-{last}/{complete}");
    message.headers.insert(CONTENT_RANGE, HeaderValue::from_str(&range).expect("plain text"));
    message.status = 206;
    message.body = message.body[first..=last].to_vec();
    if answer.quirk == Quirk::ShortPart {
        message.body.pop();
    }
    message
}

fn several(mut message: Message) -> Message {
    message.headers.insert(CONTENT_TYPE, HeaderValue::from_static("multipart/byteranges; boundary=x"));
    message
}
