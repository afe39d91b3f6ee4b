//! What does a request make untrue of what is stored (RFC 9111 §4.4)?
//!
//! A request that may have changed something, and did not fail, makes untrue what is stored for its target, and for where
//! its answer points to: what was created, or moved. Never what is on another host, which this upstream has no say in.

use http::header::{CONTENT_LOCATION, LOCATION};
use http::{HeaderMap, Method, StatusCode};

use crate::headers::authority::{Authority, Host};

/// The port of `http`, the scheme by which clients ask.
const PORT: u16 = 80;

/// Whether an answer to such a request makes what is stored for its target untrue: the method is unsafe, or nobody knows
/// what it does, and it has succeeded (2xx or 3xx).
pub fn invalidates(method: &Method, status: StatusCode) -> bool {
    (status.is_success() || status.is_redirection()) && !is_safe(method)
}

/// Whether a method only reads, by the registry of methods.
fn is_safe(method: &Method) -> bool {
    matches!(method.as_str(), "GET" | "HEAD" | "OPTIONS" | "TRACE" | "QUERY" | "PROPFIND" | "REPORT" | "SEARCH" | "PRI")
}

/// The targets, in origin form, beside the request's own, that such an answer makes untrue: those of `Location` and
/// `Content-Location`, where they lead to the host that was asked, `http` as clients speak it. The fields are as the client
/// gets them, `target` is its target and `host` its `Host`.
pub fn others(answer: &HeaderMap, target: &str, host: &[u8]) -> Vec<String> {
    let mut others: Vec<String> = Vec::new();
    for line in [LOCATION, CONTENT_LOCATION].iter().flat_map(|name| answer.get_all(name)) {
        let reference = std::str::from_utf8(line.as_bytes()).ok().map(str::trim_ascii);
        if let Some(led) = reference.and_then(|reference| resolve(reference, target, host))
            && led != target
            && !others.contains(&led)
        {
            others.push(led);
        }
    }
    others
}

/// Where a reference leads that stands in the answer for `target` (RFC 3986 §5.2), as an origin form; none if not to `host`.
fn resolve(reference: &str, target: &str, host: &[u8]) -> Option<String> {
    let (reference, _fragment) = reference.split_once('#').unwrap_or((reference, ""));
    if let Some(rest) = reference.strip_prefix("//") {
        return beneath(rest, host);
    }
    let first = reference.find([':', '/', '?']);
    if let Some(colon) = first.filter(|at| reference.as_bytes()[*at] == b':') {
        let (scheme, rest) = reference.split_at(colon);
        let rest = rest.strip_prefix("://").filter(|_| scheme.eq_ignore_ascii_case("http"))?;
        return beneath(rest, host);
    }
    let (path, _query) = split_query(target);
    let folder = path.rfind('/').map_or("/", |slash| &path[..=slash]);
    Some(match reference.as_bytes() {
        [] => target.to_owned(),
        [b'?', ..] => [path, reference].concat(),
        [b'/', ..] => origin_form(reference),
        _ => origin_form(&[folder, reference].concat()),
    })
}

/// What of this host a reference leads to, whose scheme and two slashes are taken off.
fn beneath(reference: &str, host: &[u8]) -> Option<String> {
    let end = reference.find(['/', '?']).unwrap_or(reference.len());
    let (authority, rest) = reference.split_at(end);
    is_same(authority.as_bytes(), host).then(|| origin_form(rest))
}

fn is_same(authority: &[u8], host: &[u8]) -> bool {
    let (Some(a), Some(b)) = (Authority::parse(authority), Authority::parse(host)) else { return false };
    let is_host = match (a.host, b.host) {
        (Host::V6(a), Host::V6(b)) => a == b,
        (Host::Named(a), Host::Named(b)) => a.eq_ignore_ascii_case(b),
        _ => false,
    };
    is_host && a.port.unwrap_or(PORT) == b.port.unwrap_or(PORT)
}

/// A path without its dot segments, as clients ask for it, and its query.
fn origin_form(path_and_query: &str) -> String {
    let (path, query) = split_query(path_and_query);
    let mut form = without_dots(path);
    if let Some(query) = query {
        form.push('?');
        form.push_str(query);
    }
    form
}

fn split_query(target: &str) -> (&str, Option<&str>) {
    target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)))
}

/// RFC 3986 §5.2.4.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
    while let Some(segment) = segments.next() {
        let is_dots = matches!(segment, "." | "..");
        if segment == ".." {
            kept.pop();
        }
        if !is_dots {
            kept.push(segment);
        } else if segments.peek().is_none() {
            // What ends in dots is a folder.
            kept.push("");
        }
    }
    ["/", &kept.join("/")].concat()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn what_may_have_changed_something_and_did_not_fail_invalidates() {
        let is = |method: &str, status: u16| {
            invalidates(&Method::from_bytes(method.as_bytes()).unwrap(), StatusCode::from_u16(status).unwrap())
        };
        for method in ["POST", "PUT", "DELETE", "PATCH", "FOO", "M-SEARCH", "get", "CONNECT", "MKCOL"] {
            for (status, expected) in [(200, true), (204, true), (301, true), (399, true), (100, false)] {
                assert_eq!(is(method, status), expected, "{method} {status}");
            }
            for status in [400, 404, 429, 500, 503, 999] {
                assert!(!is(method, status), "{method} {status}");
            }
        }
        for method in ["GET", "HEAD", "OPTIONS", "TRACE", "QUERY", "PROPFIND", "REPORT", "SEARCH"] {
            assert!(!is(method, 200), "{method}");
        }
    }

    #[track_caller]
    fn check(target: &str, reference: &str, expected: Option<&str>) {
        for name in ["location", "content-location"] {
            let mut answer = HeaderMap::new();
            answer.append(name, HeaderValue::from_bytes(reference.as_bytes()).unwrap());
            answer.append("link", HeaderValue::from_static("</other>"));
            let others = others(&answer, target, b"Proxy.test:8000");
            assert_eq!(others.iter().map(String::as_str).collect::<Vec<_>>(), Vec::from_iter(expected), "{reference}");
        }
    }

    #[test]
    fn a_reference_is_resolved_against_the_target() {
        for (reference, expected) in [
            ("/r/2", "/r/2"),
            ("/r/2?a=/../b#c", "/r/2?a=/../b"),
            ("/r//2/", "/r//2/"),
            ("/a/./b/../c", "/a/c"),
            ("/a/..", "/"),
            ("/a/b/.", "/a/b/"),
            ("/../../a", "/a"),
            ("/a%2Fb/%2e%2e", "/a%2Fb/%2e%2e"),
            ("2", "/r/2"),
            ("./2?x", "/r/2?x"),
            ("../2", "/2"),
            ("..", "/"),
            ("?y", "/r/1?y"),
            ("2/a:b", "/r/2/a:b"),
            ("http://proxy.test:8000/r/2", "/r/2"),
            ("HTTP://PROXY.test:8000", "/"),
            ("http://proxy.test:8000?x#y", "/?x"),
            ("//proxy.test:8000/r/../2", "/2"),
            ("/é", "/é"),
        ] {
            check("/r/1?q", reference, Some(expected));
        }
        check("/", "2", Some("/2"));
        check("/a/b", "", None);
    }

    #[test]
    fn what_is_elsewhere_or_its_own_is_none() {
        for reference in [
            "/r/1?q",
            "1?q",
            "#x",
            "",
            "http://proxy.test:8000/r/1?q",
            "http://proxy.test/r/2",
            "http://other.test:8000/r/2",
            "https://proxy.test:8000/r/2",
            "//other.test/r/2",
            "//me@proxy.test:8000/r/2",
            "http:/r/2",
            "http:r/2",
            "a:b",
            "urn:x",
            "http://",
            "//",
        ] {
            check("/r/1?q", reference, None);
        }
    }

    #[test]
    fn each_is_told_once_and_a_missing_port_is_that_of_http() {
        let mut answer = HeaderMap::new();
        for (name, value) in [("location", "/2"), ("location", "/3"), ("content-location", "http://a.test:80/2")] {
            answer.append(name, HeaderValue::from_static(value));
        }
        assert_eq!(others(&answer, "/1", b"a.test"), ["/2", "/3"]);
        assert_eq!(others(&answer, "/1", b"[::1]"), ["/2", "/3"]);
        assert_eq!(others(&answer, "/1", b""), ["/2", "/3"]);
        answer.insert("location", HeaderValue::from_static("http://[0::1]/4"));
        assert_eq!(others(&answer, "/1", b"[::1]:80"), ["/4"]);
    }
}
