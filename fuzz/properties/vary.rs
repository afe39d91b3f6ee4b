//! What must hold of every answer with `Vary` and any two requests (RFC 9111 §4.1).
//!
//! The lines before the first empty one are those of `Vary`; then come the fields of a request, an empty line, and those of
//! another.

use http::header::{HeaderMap, HeaderName, HeaderValue, VARY};
use sopan_core::cache::vary::Selecting;
use sopan_core::headers::is_credential;

/// Who names more fields than this names everything.
const FIELDS_MAX: usize = 32;

pub(crate) fn check(input: &[u8]) {
    let mut parts = [HeaderMap::new(), HeaderMap::new(), HeaderMap::new()];
    let mut at = 0;
    for line in input.split(|byte| *byte == b'\n') {
        match field(line, at == 0) {
            _ if line.is_empty() => at = (at + 1).min(2),
            Some((name, value)) => drop(parts[at].append(name, value)),
            None => {}
        }
    }
    let [answer, one, two] = &parts;
    let (of_one, of_two) = (Selecting::of(answer, one), Selecting::of(answer, two));
    let names = names(answer);
    assert_eq!(of_one.is_beyond_fields, names.is_none(), "{names:?}");
    assert_eq!(of_two.is_beyond_fields, names.is_none());
    let Some(names) = names else {
        assert!(!of_one.is_for(one) && !of_one.is_for(two), "it is for nobody else, whatever was asked");
        return;
    };
    assert!(of_one.is_for(one) && of_two.is_for(two), "who asks the same again gets the same");
    let is_same = of_one == of_two;
    assert_eq!(of_one.is_for(two), is_same, "a comparison is one of normal forms: {of_one:?}, {of_two:?}");
    assert_eq!(of_two.is_for(one), is_same);
    let is_kept = |(name, value): &(HeaderName, Option<Box<[u8]>>)| {
        is_credential(name) && value.as_deref().is_some_and(|value| !value.is_empty())
    };
    assert!(!of_one.fields.iter().any(is_kept), "of a credential nothing is kept");
    let is_closed = of_one.fields.iter().all(|(_, value)| !value.as_deref().is_some_and(|value| value.ends_with(b" ")));
    // A blank at the end, where the last line of several is empty, is taken off a field.
    assert!(!is_closed || of_one.is_for(&rewritten(&of_one, one)), "a normal form is one of itself: {of_one:?}");
    let differs =
        |key: fn(&HeaderMap, &HeaderName) -> Option<Vec<u8>>| names.iter().any(|name| key(one, name) != key(two, name));
    assert!(!is_same || !differs(gist), "what differs in more than case, blanks and commas is not the same");
    assert!(is_same || differs(joined), "what is the same but for lines is the same");
}

/// The fields that an answer names; none if it names what nobody can look at.
fn names(answer: &HeaderMap) -> Option<Vec<HeaderName>> {
    let text = joined(answer, &VARY).unwrap_or_default();
    let members = text.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty());
    let mut names: Vec<_> = members.map(|member| HeaderName::from_bytes(member).ok()).collect::<Option<_>>()?;
    names.sort_by_key(ToString::to_string);
    names.dedup();
    Some(names).filter(|names| names.len() <= FIELDS_MAX && names.iter().all(|name| name.as_str() != "*"))
}

/// All lines of a field as one (RFC 9110 §5.2); of a credential nothing, since whose an answer is, is not said by this.
fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<Vec<u8>> {
    let lines: Vec<_> = headers.get_all(name).iter().map(|line| line.as_bytes().trim_ascii()).collect();
    if is_credential(name) {
        return (!lines.is_empty()).then(Vec::new);
    }
    (!lines.is_empty()).then(|| lines.join(&b", "[..]))
}

/// What is left of a field whatever is forgiven.
fn gist(headers: &HeaderMap, name: &HeaderName) -> Option<Vec<u8>> {
    let mut gist = joined(headers, name)?.to_ascii_lowercase();
    gist.retain(|byte| !b" \t,;".contains(byte));
    Some(gist)
}

/// A request that has the normal form of each field in it.
fn rewritten(selecting: &Selecting, request: &HeaderMap) -> HeaderMap {
    let mut request = request.clone();
    for (name, value) in &selecting.fields {
        if let Some(value) = value {
            request.insert(name, HeaderValue::from_bytes(value).expect("it was one"));
        }
    }
    request
}

fn field(line: &[u8], is_vary: bool) -> Option<(HeaderName, HeaderValue)> {
    if is_vary {
        return Some((VARY, HeaderValue::from_bytes(line).ok()?));
    }
    let colon = line.iter().position(|byte| *byte == b':')?;
    Some((HeaderName::from_bytes(&line[..colon]).ok()?, HeaderValue::from_bytes(&line[colon + 1..]).ok()?))
}
