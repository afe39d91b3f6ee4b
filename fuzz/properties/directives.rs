//! What must hold of every message with directives for caches (RFC 9111 §5.2, RFC 9213).
//!
//! Each line is one of `Cache-Control`, or with `Pragma: ` or `Targeted: ` in front one of that field. A second reader, slow
//! and sharing nothing with the product, says what they mean.

use http::header::{CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue, PRAGMA};
use sopan_core::cache::directives::{RequestDirectives, ResponseDirectives, Scope};

/// RFC 9111 §1.2.2.
const SECONDS_MAX: u64 = 1 << 31;
const TARGETED: HeaderName = HeaderName::from_static("cdn-cache-control");

pub(crate) fn check(input: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in input.split(|byte| *byte == b'\n') {
        let prefixes = [(&b"Pragma: "[..], PRAGMA), (b"Targeted: ", TARGETED)];
        let found = prefixes.into_iter().find_map(|(prefix, name)| Some((name, line.strip_prefix(prefix)?)));
        let (name, value) = found.unwrap_or((CACHE_CONTROL, line));
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(name, value);
        }
    }
    check_request(&headers);
    check_answer(&headers);
    check_targeted(&headers);
}

fn check_request(headers: &HeaderMap) {
    let known = members(headers, &CACHE_CONTROL);
    let is_there = |name: &str| of(&known, name).next().is_some();
    let numbers = |name| of(&known, name).filter_map(number);
    let bare = of(&known, "max-stale").filter(|argument| **argument == Argument::None).map(|_| u32::MAX);
    let mut pragmas = members(headers, &PRAGMA).into_iter();
    let expected = RequestDirectives {
        no_store: is_there("no-store"),
        no_cache: match headers.get(CACHE_CONTROL) {
            Some(_) => is_there("no-cache"),
            None => pragmas.any(|(name, _)| name == "no-cache"),
        },
        only_if_cached: is_there("only-if-cached"),
        max_age: of(&known, "max-age").map(|argument| number(argument).unwrap_or(0)).min(),
        min_fresh: numbers("min-fresh").max(),
        max_stale: numbers("max-stale").chain(bare).min(),
        stale_if_error: numbers("stale-if-error").min(),
    };
    assert_eq!(RequestDirectives::read(headers), expected);
    assert_eq!(RequestDirectives::read(&shouted(headers)), expected, "case means nothing");
}

fn check_answer(headers: &HeaderMap) {
    let expected = answer(&members(headers, &CACHE_CONTROL));
    assert_eq!(ResponseDirectives::read(headers, &[]), expected);
    assert_eq!(ResponseDirectives::read(&shouted(headers), &[]), expected, "case means nothing");
}

/// All or nothing; and where it is something, and written so that both grammars know it, it means what it means in
/// `Cache-Control`.
fn check_targeted(headers: &HeaderMap) {
    let aimed = ResponseDirectives::read(headers, &[TARGETED]);
    if !aimed.is_targeted {
        assert_eq!(aimed, ResponseDirectives::read(headers, &[]), "what counts as absent says nothing");
        return;
    }
    let mut alone = headers.clone();
    alone.remove(CACHE_CONTROL);
    assert_eq!(aimed, ResponseDirectives::read(&alone, &[TARGETED]), "nothing else is looked at");
    let is_common = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-=,\" ".contains(byte);
    let known = members(headers, &TARGETED);
    let is_once = known.iter().all(|(name, _)| of(&known, name).count() == 1);
    if is_once && headers.get_all(TARGETED).iter().all(|line| line.as_bytes().iter().all(is_common)) {
        assert_eq!(aimed, ResponseDirectives { is_targeted: true, ..answer(&known) });
    }
}

fn answer(known: &[Member]) -> ResponseDirectives {
    let is_there = |name: &str| of(known, name).next().is_some();
    let lifetime = |name: &str| {
        let mut all: Vec<_> = of(known, name).map(|argument| number(argument).unwrap_or(0)).collect();
        all.dedup();
        if all.len() > 1 { Some(0) } else { all.pop() }
    };
    let window = |name: &str| of(known, name).filter_map(number).min();
    ResponseDirectives {
        is_targeted: false,
        no_store: is_there("no-store"),
        no_cache: scope(known, "no-cache"),
        private: scope(known, "private"),
        public: of(known, "public").any(|argument| *argument == Argument::None),
        must_revalidate: is_there("must-revalidate"),
        proxy_revalidate: is_there("proxy-revalidate"),
        must_understand: is_there("must-understand"),
        immutable: is_there("immutable"),
        max_age: lifetime("max-age"),
        s_maxage: lifetime("s-maxage"),
        stale_while_revalidate: window("stale-while-revalidate"),
        stale_if_error: window("stale-if-error"),
    }
}

fn scope(known: &[Member], directive: &str) -> Scope {
    let mut names = Vec::new();
    for argument in of(known, directive) {
        let Argument::Text(list) = argument else { return Scope::All };
        let parts = divided(list);
        let parts: Vec<_> = parts.iter().filter(|part| !part.is_empty()).collect();
        let read: Vec<_> = parts.iter().filter_map(|part| HeaderName::from_bytes(part).ok()).collect();
        if parts.is_empty() || read.len() < parts.len() {
            return Scope::All;
        }
        names.extend(read);
    }
    names.sort_by_key(ToString::to_string);
    names.dedup();
    match names.len() {
        0 => Scope::None,
        1..=64 => Scope::Fields(names.into()),
        _ => Scope::All,
    }
}

type Member = (String, Argument);

#[derive(Debug, PartialEq, Eq)]
enum Argument {
    None,
    Text(Vec<u8>),
    Unreadable,
}

fn of<'a>(known: &'a [Member], name: &'a str) -> impl Iterator<Item = &'a Argument> {
    known.iter().filter(move |(other, _)| other == name).map(|(_, argument)| argument)
}

fn number(argument: &Argument) -> Option<u32> {
    let Argument::Text(text) = argument else { return None };
    let text = std::str::from_utf8(text).ok().filter(|text| !text.is_empty())?;
    if !text.chars().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let seconds = text.parse::<u64>().unwrap_or(SECONDS_MAX).min(SECONDS_MAX);
    u32::try_from(seconds).ok()
}

/// The directives of all lines of a field, names in lower case.
fn members(headers: &HeaderMap, field: &HeaderName) -> Vec<Member> {
    let lines = headers.get_all(field).iter();
    lines.flat_map(|line| divided(line.as_bytes())).filter(|part| !part.is_empty()).map(|part| member(&part)).collect()
}

/// What stands between the commas of a line that are not within quotes.
fn divided(line: &[u8]) -> Vec<Vec<u8>> {
    // First, which bytes are within quotes; second, the division.
    let mut is_quoted = vec![false; line.len()];
    let mut at = 0;
    while at < line.len() {
        if line[at] != b'"' {
            at += 1;
            continue;
        }
        let Some(end) = closing(line, at) else { break };
        is_quoted[at..end].fill(true);
        at = end + 1;
    }
    let mut parts = vec![Vec::new()];
    for (byte, is_quoted) in line.iter().zip(is_quoted) {
        if *byte == b',' && !is_quoted {
            parts.push(Vec::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(*byte);
        }
    }
    for part in &mut parts {
        let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        while is_blank(part.last()) {
            part.pop();
        }
        while is_blank(part.first()) {
            part.remove(0);
        }
    }
    parts
}

/// Where the quote at `open` is closed.
fn closing(line: &[u8], open: usize) -> Option<usize> {
    let mut is_escaped = false;
    for (at, byte) in line.iter().enumerate().skip(open + 1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(at),
            _ => {}
        }
    }
    None
}

fn member(part: &[u8]) -> Member {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let length = part.iter().take_while(|byte| is_token(byte)).count();
    let name = String::from_utf8_lossy(&part[..length]).to_ascii_lowercase();
    let argument = match &part[length..] {
        [] => Argument::None,
        [b'=', b'"', rest @ ..] if closing(part, length + 1) == Some(part.len() - 1) => {
            let mut text = Vec::new();
            let mut is_escaped = false;
            for byte in &rest[..rest.len() - 1] {
                is_escaped = *byte == b'\\' && !is_escaped;
                if !is_escaped {
                    text.push(*byte);
                }
            }
            Argument::Text(text)
        }
        [b'=', rest @ ..] if !rest.is_empty() && rest.iter().all(is_token) => Argument::Text(rest.to_vec()),
        _ => Argument::Unreadable,
    };
    (name, argument)
}

/// The same, in capitals.
fn shouted(headers: &HeaderMap) -> HeaderMap {
    let shout = |value: &HeaderValue| HeaderValue::from_bytes(&value.as_bytes().to_ascii_uppercase());
    headers.iter().map(|(name, value)| (name.clone(), shout(value).expect("letters stay letters"))).collect()
}
