//! What becomes of a parameter of the query that is a secret of the proxy's?
//!
//! Some APIs take their key in the URL. Where the proxy puts it there on the way, a client's own parameter of that name goes
//! no further ([`Parameter::without`], [`Parameter::with`]), and what the API echoes in its links does not come to the client
//! ([`Parameter::hide`]): page 2 is asked for without it, and gets it on the way again. Names are compared as they are
//! read, with what is percent-encoded decoded.
//!
//! What the secret is, and when it changes, is for others to know; so are bodies, which nobody reads here.

use std::fmt::Write as _;

use http::header::{HeaderMap, HeaderValue};

use super::links::{Origin, decoded, each_reference, is_link};

/// A parameter by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    name: Vec<u8>,
}

/// A shorter secret could be a word that stands in links for itself.
const CUT_MIN: usize = 8;

impl Parameter {
    /// The parameter of this name, as people write it.
    pub fn new(name: &str) -> Self {
        Self { name: name.as_bytes().to_vec() }
    }

    /// It with this value, as it stands in a query.
    ///
    /// ```
    /// use sopan_core::headers::Parameter;
    ///
    /// assert_eq!(Parameter::new("api key").written(b"a/b+c"), "api%20key=a%2Fb%2Bc");
    /// ```
    pub fn written(&self, value: &[u8]) -> String {
        format!("{}={}", encoded(&self.name), encoded(value))
    }

    /// A path and query with this behind it, which is [`written`](Self::written).
    pub fn with(target: &str, written: &str) -> String {
        let mark = match target.split_once('?') {
            None => "?",
            Some((_, query)) if query.is_empty() || query.ends_with('&') => "",
            Some(_) => "&",
        };
        format!("{target}{mark}{written}")
    }

    /// A path and query without any parameter of this name; none where there is none. All else stays to the byte.
    pub fn without(&self, target: &str) -> Option<String> {
        let without = self.without_if(target.as_bytes(), |_| true)?;
        String::from_utf8(without).ok()
    }

    /// Takes it off all links of an answer that lead to `origin`, and the secrets that were its value off any other.
    ///
    /// ```
    /// use http::{HeaderMap, HeaderValue};
    /// use sopan_core::headers::{Origin, Parameter};
    ///
    /// let at = "api.example.com";
    /// let origin = Origin { scheme: "https", host: at, port: 443, prefix: "", mount: "", elsewhere: None };
    /// let mut headers = HeaderMap::new();
    /// headers.insert("link", HeaderValue::from_static("</orders?key=s3cret&page=2>; rel=next"));
    /// Parameter::new("key").hide(&mut headers, &origin, &[b"s3cret"]);
    /// assert_eq!(headers["link"], "</orders?page=2>; rel=next");
    /// ```
    pub fn hide(&self, headers: &mut HeaderMap, origin: &Origin<'_>, secrets: &[&[u8]]) {
        // Most answers have none.
        if !headers.keys().any(is_link) {
            return;
        }
        each_reference(headers, |reference| {
            let leaves = origin.is_left_by(reference);
            self.without_if(reference, |value| !leaves || secrets.contains(&&*as_form(value)))
        });
        let lines = headers.iter_mut().filter(|(name, _)| is_link(name)).map(|(_, line)| line);
        lines.for_each(|line| cut(line, secrets));
    }

    /// Without those parameters of this name whose value is such as to be taken off.
    fn without_if(&self, reference: &[u8], goes: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let end = reference.iter().position(|byte| *byte == b'#').unwrap_or(reference.len());
        let (reference, fragment) = reference.split_at(end);
        let mark = reference.iter().position(|byte| *byte == b'?')?;
        let (path, query) = (&reference[..mark], &reference[mark + 1..]);
        let stays = |item: &&[u8]| {
            let equals = item.iter().position(|byte| *byte == b'=').unwrap_or(item.len());
            as_form(&item[..equals]) != self.name || !goes(item.get(equals + 1..).unwrap_or_default())
        };
        let all = || query.split(|byte| *byte == b'&');
        let left: Vec<_> = all().filter(stays).collect();
        if left.len() == all().count() {
            return None;
        }
        let mark: &[u8] = if left.is_empty() { b"" } else { b"?" };
        Some([path, mark, &left.join(&b'&'), fragment].concat())
    }
}

/// What of a secret stands in a line for another reason, such as a URL within a URL, is cut out.
fn cut(line: &mut HeaderValue, secrets: &[&[u8]]) {
    for secret in secrets.iter().filter(|secret| secret.len() >= CUT_MIN) {
        for form in [secret.to_vec(), encoded(secret).into_bytes()] {
            if let Some(Ok(without)) = without(line.as_bytes(), &form).map(|bytes| HeaderValue::from_bytes(&bytes)) {
                *line = without;
            }
        }
    }
}

/// A text without a part, which may be written with any hexadecimal digits; none where it is not there.
fn without(text: &[u8], part: &[u8]) -> Option<Vec<u8>> {
    let (mut left, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.windows(part.len()).position(|window| window.eq_ignore_ascii_case(part)) {
        left.extend_from_slice(&rest[..at]);
        rest = &rest[at + part.len()..];
    }
    left.extend_from_slice(rest);
    (left.len() < text.len()).then_some(left)
}

/// As servers read what forms send.
fn as_form(text: &[u8]) -> Vec<u8> {
    decoded(text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }))
}

/// With all encoded that is not unreserved (RFC 3986 §2.3).
fn encoded(text: &[u8]) -> String {
    let mut written = String::with_capacity(text.len());
    for byte in text {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            written.push(char::from(*byte));
        } else {
            let _ = write!(written, "%{byte:02X}");
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_takes_the_place_of_all_that_a_client_has_sent() {
        let key = Parameter::new("key");
        for (target, without, with) in [
            ("/x", None, "/x?key=v"),
            ("/x?", None, "/x?key=v"),
            ("/x?a=1&", None, "/x?a=1&key=v"),
            ("/x?a=%2f&b", None, "/x?a=%2f&b&key=v"),
            ("/x?key=mine", Some("/x"), "/x?key=v"),
            ("/x?key", Some("/x"), "/x?key=v"),
            ("/x?a=1&key=mine&b=2&k%65y=other&&", Some("/x?a=1&b=2&&"), "/x?a=1&b=2&&key=v"),
            // Others that only look like it.
            ("/key=1?keys=1&Key=2&a=key=3", None, "/key=1?keys=1&Key=2&a=key=3&key=v"),
            ("/x?%=1&%zz&k%6", None, "/x?%=1&%zz&k%6&key=v"),
        ] {
            assert_eq!(key.without(target).as_deref(), without, "{target}");
            let bare = key.without(target).unwrap_or_else(|| target.to_owned());
            assert_eq!(Parameter::with(&bare, &key.written(b"v")), with, "{target}");
            assert_eq!(key.without(&bare), None, "{target}");
        }
        assert_eq!(Parameter::new("a b").without("/x?a+b=1&a%20b=2").as_deref(), Some("/x"));
    }

    #[test]
    fn what_the_api_echoes_does_not_come_back() {
        const SECRET: &[u8] = b"s3cret/and=more";
        let origin = Origin { scheme: "https", host: "api.test", port: 443, prefix: "/v2", mount: "", elsewhere: None };
        for (name, line, expected) in [
            ("location", "/v2/x?key=s3cret%2Fand%3Dmore&page=2", "/v2/x?page=2"),
            ("location", "https://api.test/v2/x?page=2&key=whatever#top", "https://api.test/v2/x?page=2#top"),
            ("content-location", "?key=whatever", ""),
            ("location", "next?key=whatever&to=https://cdn.test", "next?to=https://cdn.test"),
            // Another host has parameters of its own, and never the secret.
            ("location", "https://cdn.test/x?key=signed&a=1", "https://cdn.test/x?key=signed&a=1"),
            ("location", "//cdn.test/x?key=s3cret%2fand%3dmore", "//cdn.test/x"),
            ("location", "http://api.test/v2/x?key=s3cret/and=more", "http://api.test/v2/x"),
            (
                "location",
                "https://login.test/?to=https://api.test/x?key=s3cret%2fand%3dmore",
                "https://login.test/?to=https://api.test/x?key=",
            ),
            (
                "link",
                "</v2/x?page=2&key=a>; rel=\"next, or so\", <https://cdn.test/?key=a>, <x?key=b>",
                "</v2/x?page=2>; rel=\"next, or so\", <https://cdn.test/?key=a>, <x>",
            ),
            // It cannot be read, and is not seen in any case.
            ("link", "/v2/x?key=s3cret/and=more; rel=next", "/v2/x?key=; rel=next"),
            ("x-other", "/v2/x?key=1", "/v2/x?key=1"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(line));
            Parameter::new("key").hide(&mut headers, &origin, &[SECRET, b""]);
            assert_eq!(headers[name], expected, "{line}");
        }
    }
}
