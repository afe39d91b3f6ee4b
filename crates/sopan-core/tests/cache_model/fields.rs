//! Fields, read in the plainest way that the RFCs allow, by nobody's code but this.

use std::time::UNIX_EPOCH;

use http::{HeaderMap, HeaderName};

/// All lines of a field, joined (RFC 9110 §5.3).
pub(crate) fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let lines: Vec<String> =
        headers.get_all(name).iter().map(|line| line.to_str().expect("ASCII").trim().to_owned()).collect();
    if lines.is_empty() { None } else { Some(lines.join(", ")) }
}

/// A date, in seconds since 1970.
pub(crate) fn date(text: &str) -> Option<i64> {
    let date = httpdate::parse_http_date(text).ok()?;
    Some(i64::try_from(date.duration_since(UNIX_EPOCH).ok()?.as_secs()).expect("in this age"))
}

/// The text cut at commas, but not at those in quotes, without what is empty.
pub(crate) fn members(text: &str) -> Vec<String> {
    let mut members = vec![String::new()];
    let (mut is_quoted, mut is_escaped) = (false, false);
    for char in text.chars() {
        if char == ',' && !is_quoted {
            members.push(String::new());
            continue;
        }
        members.last_mut().expect("there is one").push(char);
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            _ => {}
        }
    }
    members.into_iter().map(|member| member.trim().to_owned()).filter(|member| !member.is_empty()).collect()
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Argument {
    None,
    Token(String),
    Quoted(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Directive {
    pub(crate) name: String,
    pub(crate) argument: Argument,
}

/// The directives of a field with the syntax of `Cache-Control` (RFC 9111 §5.2).
pub(crate) fn directives(text: &str) -> Vec<Directive> {
    members(text)
        .iter()
        .map(|member| {
            let (name, argument) = match member.split_once('=') {
                None => (member.as_str(), Argument::None),
                Some((name, argument)) if argument.starts_with('"') => {
                    (name, Argument::Quoted(argument.trim_matches('"').to_owned()))
                }
                Some((name, argument)) => (name, Argument::Token(argument.to_owned())),
            };
            Directive { name: name.to_lowercase(), argument }
        })
        .collect()
}

/// The directives of a targeted field (RFC 9213): none if it is no Structured Dictionary (RFC 9651 §3.2), or an empty one.
pub(crate) fn structured(text: &str) -> Option<Vec<Directive>> {
    let mut directives = Vec::new();
    if text.trim().is_empty() {
        return None;
    }
    for member in text.split(',') {
        let member = member.trim();
        let member = member.split_once(';').map_or(member, |(member, _parameters)| member);
        let (name, value) = member.split_once('=').map_or((member, None), |(name, value)| (name, Some(value)));
        let is_key = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '*')
            && name.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit() || "_-.*".contains(char));
        if !is_key {
            return None;
        }
        let argument = match value {
            None => Argument::None,
            Some(value) if value.starts_with('"') => Argument::Quoted(value.trim_matches('"').to_owned()),
            Some(value) => Argument::Token(value.to_owned()),
        };
        // One with a value of the wrong type voids the field, as one that cannot be parsed does.
        let is_count = ["max-age", "s-maxage", "stale-while-revalidate", "stale-if-error"].contains(&name);
        let is_integer = matches!(&argument, Argument::Token(text) if text.parse::<i64>().is_ok());
        if is_count && !is_integer {
            return None;
        }
        directives.push(Directive { name: name.to_owned(), argument });
    }
    Some(directives)
}

/// A range as it is asked for (RFC 9110 §14.1.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Range {
    From(usize, Option<usize>),
    Last(usize),
}

impl Range {
    /// What of it is there of a body.
    pub(crate) fn within(self, length: usize) -> Option<(usize, usize)> {
        match self {
            Self::From(first, last) if first < length => {
                Some((first, last.map_or(length - 1, |last| last.min(length - 1))))
            }
            Self::Last(count) if count > 0 && length > 0 => Some((length.saturating_sub(count), length - 1)),
            _ => None,
        }
    }
}

/// The ranges of `Range`, if it is in bytes and well-formed.
pub(crate) fn ranges(text: &str) -> Option<Vec<Range>> {
    let ranges = text.strip_prefix("bytes=")?;
    ranges
        .split(',')
        .map(|range| {
            let (first, last) = range.trim().split_once('-')?;
            if first.is_empty() {
                return Some(Range::Last(last.parse().ok()?));
            }
            let first = first.parse().ok()?;
            if last.is_empty() {
                return Some(Range::From(first, None));
            }
            let last = last.parse().ok()?;
            (first <= last).then_some(Range::From(first, Some(last)))
        })
        .collect()
}

/// A `Content-Range` in bytes: first, last, and the length of the whole if it is known.
pub(crate) fn content_range(text: &str) -> Option<(usize, usize, Option<usize>)> {
    let (span, complete) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = span.split_once('-')?;
    let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
    let complete = if complete == "*" { None } else { Some(complete.parse().ok()?) };
    (first <= last && complete.is_none_or(|complete| last < complete)).then_some((first, last, complete))
}

/// Whether a tag is among those of a list, by the weak comparison (RFC 9110 §8.8.3.2).
pub(crate) fn is_weakly_in(tag: &str, list: &str) -> bool {
    let opaque = |tag: &str| tag.trim_start_matches("W/").to_owned();
    members(list).iter().any(|member| opaque(member) == opaque(tag))
}
