//! How far may an OPTIONS or a TRACE go, and what does the last one answer?
//!
//! With `Max-Forwards` (RFC 9110 §7.6.2) a sender asks the intermediaries one by one, to see where a request gets stuck.
//! Whoever finds zero there answers as if it were the server, and asks nobody.

use http::Method;
use http::header::{HeaderMap, HeaderValue, MAX_FORWARDS};
use http::request::Parts;

use super::redact::is_secret;

/// Where a request ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// It is passed on.
    Further,
    /// It ends here, and is answered here.
    Here,
}

/// Whether this request ends here; where it does not, one is taken off its `Max-Forwards`. For methods other than
/// OPTIONS and TRACE it is ignored, and what is no single number is passed on as it is.
pub fn reach(method: &Method, headers: &mut HeaderMap) -> Reach {
    if *method != Method::OPTIONS && *method != Method::TRACE {
        return Reach::Further;
    }
    let mut lines = headers.get_all(MAX_FORWARDS).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return Reach::Further };
    let digits = line.as_bytes();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Reach::Further;
    }
    // One that is too large for us becomes the largest that we know.
    let left = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(u64::MAX);
    let Some(left) = left.checked_sub(1) else { return Reach::Here };
    headers.insert(MAX_FORWARDS, HeaderValue::from(left));
    Reach::Further
}

/// The head of a request as a TRACE gets it back (RFC 9110 §9.3.8), without the fields that hold a secret: who could make a
/// browser send one would else read what the browser keeps from it.
pub fn reflect(request: &Parts) -> Vec<u8> {
    let mut head = format!("{} {} {:?}\r\n", request.method, request.uri, request.version).into_bytes();
    for (name, value) in request.headers.iter().filter(|(name, value)| !is_secret(name) && !value.is_sensitive()) {
        for piece in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(piece);
        }
    }
    head.extend_from_slice(b"\r\n");
    head
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn one_is_taken_off_until_there_is_none() {
        const NONE: &[&str] = &[];
        for (method, lines, reach_is, left) in [
            ("TRACE", &["0"][..], Reach::Here, &["0"][..]),
            ("OPTIONS", &["00"], Reach::Here, &["00"]),
            ("OPTIONS", &["1"], Reach::Further, &["0"]),
            ("TRACE", &["010"], Reach::Further, &["9"]),
            ("TRACE", &["18446744073709551616"], Reach::Further, &["18446744073709551614"]),
            ("OPTIONS", NONE, Reach::Further, NONE),
            ("OPTIONS", &[""], Reach::Further, &[""]),
            ("OPTIONS", &["-1"], Reach::Further, &["-1"]),
            ("OPTIONS", &["+0"], Reach::Further, &["+0"]),
            ("OPTIONS", &["0x0"], Reach::Further, &["0x0"]),
            ("OPTIONS", &["0, 0"], Reach::Further, &["0, 0"]),
            ("OPTIONS", &["0", "1"], Reach::Further, &["0", "1"]),
            ("GET", &["0"], Reach::Further, &["0"]),
            ("options", &["0"], Reach::Further, &["0"]),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(MAX_FORWARDS, HeaderValue::from_str(line).unwrap());
            }
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(reach(&method, &mut headers), reach_is, "{method} {lines:?}");
            assert_eq!(headers.get_all(MAX_FORWARDS).iter().collect::<Vec<_>>(), left, "{method} {lines:?}");
        }
    }

    #[test]
    fn a_trace_shows_what_came_but_no_secret() {
        let request = Request::builder()
            .method("TRACE")
            .uri("/a?b=1")
            .header("Host", "a.test")
            .header("Authorization", "Bearer SECRET")
            .header("Cookie", "SECRET")
            .header("Proxy-Authorization", "SECRET")
            .header("X-Api-Key", "SECRET")
            .header("X-End", &b"\xfc"[..]);
        let (parts, ()) = request.body(()).unwrap().into_parts();
        assert_eq!(reflect(&parts), b"TRACE /a?b=1 HTTP/1.1\r\nhost: a.test\r\nx-end: \xfc\r\n\r\n");
    }
}
