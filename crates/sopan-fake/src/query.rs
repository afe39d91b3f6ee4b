//! What is asked for with a target: its path, the parameters of its query as they are meant, and what fields say.
//!
//! Parameters are decoded once, here; who answers asks for them by name. What they mean is the answer's business.

use std::time::SystemTime;

use http::header::HOST;
use http::{HeaderMap, Uri};

use crate::http_date;

/// A GET that is to be answered.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) path: &'a str,
    pub(crate) headers: &'a HeaderMap,
    parameters: Vec<(String, String)>,
}

impl<'a> Asked<'a> {
    pub(crate) fn new(uri: &'a Uri, headers: &'a HeaderMap) -> Self {
        let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let parameters = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Self { path: uri.path(), headers, parameters: parameters.collect() }
    }

    /// The first parameter of that name.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A parameter that is a whole number; `default` where it is missing, none where it is none.
    pub(crate) fn number(&self, name: &str, default: u64) -> Option<u64> {
        self.text(name).map_or(Some(default), parse_whole)
    }

    /// The same up to a most, as vendors cut what is too much.
    pub(crate) fn size(&self, name: &str, default: u64, most: u64) -> Option<u64> {
        self.number(name, default).filter(|size| *size > 0).map(|size| size.min(most))
    }

    /// A date and time; the beginning of all where it is missing, none where it is none.
    pub(crate) fn time(&self, name: &str) -> Option<SystemTime> {
        self.text(name).map_or(Some(SystemTime::UNIX_EPOCH), http_date::from_iso8601)
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// This URL with other values of some parameters, at the address that the client used.
    pub(crate) fn with(&self, changed: &[(&str, &str)]) -> String {
        let is_changed = |name: &str| changed.iter().any(|(other, _)| *other == name);
        let kept = self.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let pairs: Vec<_> = kept.filter(|(name, _)| !is_changed(name)).chain(changed.iter().copied()).collect();
        self.only(&pairs)
    }

    /// This URL with these parameters and no others.
    pub(crate) fn only(&self, pairs: &[(&str, &str)]) -> String {
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
        let host = self.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
        format!("http://{host}{}?{}", self.path, pairs.join("&"))
    }
}

/// Digits only: unlike `str::parse`, no sign.
pub(crate) fn parse_whole(digits: &str) -> Option<u64> {
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

fn decode(text: &str) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| after.get(..2)).flatten();
        let escaped = escaped.and_then(|hex| std::str::from_utf8(hex).ok());
        let escaped = escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        rest = if escaped.is_some() { &after[2..] } else { after };
        decoded.push(escaped.unwrap_or(if *first == b'+' { b' ' } else { *first }));
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn encode(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~$:,".contains(&byte);
    let encoded = text.bytes().map(|byte| match byte {
        byte if is_plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    encoded.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_as_they_are_meant_and_written_so_that_they_can_be() {
        let uri = "/a?x=1+2%2B3&%24top=5&bad=%zz&empty&page=2&since=1970-01-01T00:00:09Z".parse().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(HOST, http::HeaderValue::from_static("u:80"));
        let asked = Asked::new(&uri, &headers);
        let read = ["x", "$top", "bad", "empty", "none"].map(|name| asked.text(name));
        assert_eq!(read, [Some("1 2+3"), Some("5"), Some("%zz"), Some(""), None]);
        assert_eq!(["page", "none", "x", "empty"].map(|name| asked.number(name, 7)), [Some(2), Some(7), None, None]);
        assert_eq!(asked.size("$top", 1, 3), Some(3));
        assert_eq!(asked.time("since"), Some(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(9)));
        assert_eq!(asked.time("x"), None);
        let next = "http://u:80/a?x=1%202%2B3&$top=5&bad=%25zz&empty=&since=1970-01-01T00:00:09Z&page=3";
        assert_eq!(asked.with(&[("page", "3")]), next);
    }
}
