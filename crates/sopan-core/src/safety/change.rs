//! Does whoever sends this request mean it?
//!
//! A browser sends what a page makes it send, with the credentials that it has for the site that is asked. A page of another
//! site can have it send a form, and any request without a field that a form would not have; for more than that the browser
//! asks first, and is never told yes. So what changes something must have such a field, and where a browser says whence it
//! comes, it must be the very page that was asked ([`is_meant`]). Programs only need the field.

use http::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};

use super::{SEC_FETCH_SITE, is, words};

/// Why a request is not taken to be meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmeant {
    /// It comes from another page.
    Elsewhere,
    /// It might have been sent by a form.
    Formlike,
}

/// A field that no form sends.
const X_SOPAN: HeaderName = HeaderName::from_static("x-sopan");

/// Whether a request is sent by a program, or by the page that it asks.
///
/// # Errors
/// It may be the doing of a page of another site, which the person before the browser does not know of.
pub fn is_meant(headers: &HeaderMap) -> Result<(), Unmeant> {
    let is_own = |word: &[u8]| is(word, b"same-origin") || is(word, b"none");
    if !headers.get_all(SEC_FETCH_SITE).iter().flat_map(words).all(is_own) {
        return Err(Unmeant::Elsewhere);
    }
    let mut hosts = headers.get_all(HOST).iter();
    let host = (hosts.next(), hosts.next());
    let is_asked = |origin: &HeaderValue| match host {
        (Some(host), None) => authority_of(origin).is_some_and(|from| from.eq_ignore_ascii_case(host.as_bytes())),
        _ => false,
    };
    if !headers.get_all(ORIGIN).iter().all(is_asked) {
        return Err(Unmeant::Elsewhere);
    }
    if headers.contains_key(X_SOPAN) || is_json(headers) { Ok(()) } else { Err(Unmeant::Formlike) }
}

/// Host and port of an origin (RFC 6454 §7).
fn authority_of(origin: &HeaderValue) -> Option<&[u8]> {
    let origin = origin.to_str().ok()?;
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"))?;
    Some(authority.as_bytes())
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(only), None) = (types.next(), types.next()) else { return false };
    let essence = only.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: Result<(), Unmeant> = Ok(());
    const ELSEWHERE: Result<(), Unmeant> = Err(Unmeant::Elsewhere);
    const FORMLIKE: Result<(), Unmeant> = Err(Unmeant::Formlike);

    #[test]
    fn only_a_program_or_the_page_that_is_asked_changes_anything() {
        let json = "content-type: application/json";
        for (lines, expected) in [
            (&[json][..], OK),
            (&["content-type: Application/JSON; charset=utf-8"], OK),
            (&["x-sopan: 1"], OK),
            (&["x-sopan: "], OK),
            (&[json, "sec-fetch-site: same-origin", "origin: http://127.0.0.1:8001"], OK),
            (&[json, "origin: https://127.0.0.1:8001"], OK),
            (&[json, "sec-fetch-site: none"], OK),
            // What a form can send.
            (&[], FORMLIKE),
            (&["content-type: text/plain"], FORMLIKE),
            (&["content-type: text/plain; application/json"], FORMLIKE),
            (&["content-type: application/x-www-form-urlencoded"], FORMLIKE),
            (&["content-type: application/jsonp"], FORMLIKE),
            (&["content-type: text/plain", json], FORMLIKE),
            (&["origin: http://127.0.0.1:8001"], FORMLIKE),
            // Other pages, those of this machine and of sub-domains among them.
            (&[json, "sec-fetch-site: cross-site"], ELSEWHERE),
            (&[json, "sec-fetch-site: same-site"], ELSEWHERE),
            (&[json, "sec-fetch-site: same-origin, cross-site"], ELSEWHERE),
            (&[json, "sec-fetch-site: same-origin", "sec-fetch-site: cross-site"], ELSEWHERE),
            (&[json, "sec-fetch-site: "], ELSEWHERE),
            (&[json, "origin: http://127.0.0.1:3000"], ELSEWHERE),
            (&[json, "origin: http://127.0.0.1"], ELSEWHERE),
            (&[json, "origin: http://evil.test"], ELSEWHERE),
            (&[json, "origin: ftp://127.0.0.1:8001"], ELSEWHERE),
            (&[json, "origin: null"], ELSEWHERE),
            (&[json, "origin: 127.0.0.1:8001"], ELSEWHERE),
            (&[json, "origin: http://127.0.0.1:8001", "origin: http://evil.test"], ELSEWHERE),
            (&[json, "origin: http://127.0.0.1:8001", "host: evil.test"], ELSEWHERE),
        ] {
            let mut headers = HeaderMap::new();
            for line in ["host: 127.0.0.1:8001"].iter().chain(lines) {
                let (name, value) = line.split_once(": ").unwrap();
                headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
            }
            assert_eq!(is_meant(&headers), expected, "{lines:?}");
        }
    }
}
