//! Through whose hands has a message gone?
//!
//! Each intermediary adds itself to `Via` (RFC 9110 §7.6.3). Whoever finds itself there too often is being asked by
//! itself: two proxies that point at each other would else pass one request round for ever, and charge a token for each
//! round.

use http::Version;
use http::header::{HeaderMap, HeaderName, HeaderValue, VIA};

/// The name by which sopan is known there: one for all, so that no inner host is told.
const PSEUDONYM: &str = "sopan";

const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

/// Adds sopan as the last one of `Via`, on a line of its own. `received` is the version that the message came in.
pub fn append_via(headers: &mut HeaderMap, received: Version) {
    let member = match received {
        Version::HTTP_09 => "0.9 sopan",
        Version::HTTP_10 => "1.0 sopan",
        Version::HTTP_2 => "2 sopan",
        Version::HTTP_3 => "3 sopan",
        _ => "1.1 sopan",
    };
    headers.append(VIA, HeaderValue::from_static(member));
}

/// How often `Via` names sopan, in whatever version, with whatever port, in any case.
///
/// A comma within a comment counts as the end of a member too. So a sender can pretend that its request has gone round,
/// which harms nobody but itself; it cannot hide that one has.
pub fn passes(headers: &HeaderMap) -> usize {
    let lines = headers.get_all(VIA).iter();
    lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b',')).filter(|member| is_ours(member)).count()
}

/// Whether an answer says that its request went in a circle (`Proxy-Status`, RFC 9209 §2.3.12). To repeat it would send it
/// round again; and if all who stand in the circle did so, each would multiply what the one before it repeats.
pub fn went_in_a_circle(headers: &HeaderMap) -> bool {
    const ERROR: &[u8] = b"proxy_loop_detected";
    let mut lines = headers.get_all(PROXY_STATUS).iter();
    lines.any(|line| line.as_bytes().windows(ERROR.len()).any(|window| window == ERROR))
}

/// Whether a member's second word is our name, perhaps with a port.
fn is_ours(member: &[u8]) -> bool {
    let mut words = member.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let by = words.nth(1).and_then(|by| by.split(|&byte| byte == b':').next());
    by.is_some_and(|by| by.eq_ignore_ascii_case(PSEUDONYM.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_come_last_and_those_before_us_stay_as_they_are() {
        for (version, last) in
            [(Version::HTTP_10, "1.0 sopan"), (Version::HTTP_11, "1.1 sopan"), (Version::HTTP_2, "2 sopan")]
        {
            let mut headers = HeaderMap::new();
            headers.append(VIA, HeaderValue::from_static("1.0 fred, 1.1 p.example.net (a, b)"));
            headers.append(VIA, HeaderValue::from_static("1.1 other"));
            append_via(&mut headers, version);
            let lines: Vec<_> = headers.get_all(VIA).iter().collect();
            assert_eq!(lines, ["1.0 fred, 1.1 p.example.net (a, b)", "1.1 other", last]);
        }
    }

    #[test]
    fn each_time_that_we_are_named_is_counted() {
        for (lines, expected) in [
            (&[][..], 0),
            (&["1.1 sopan"], 1),
            (&["1.1 sopan, 1.0 sopan", "2 SOPAN"], 3),
            (&["HTTP/1.1 sopan:8000 (sopan), ,1.1\tsopan"], 2),
            (&["1.1 sopan.example, 1.1 my-sopan, sopan, 1.1 x (sopan)"], 0),
            // Nobody hides us in a comment.
            (&["1.1 x (", "1.1 sopan", "1.1 y (, 1.1 sopan)"], 1),
            (&["1.1 y (, 1.1 sopan"], 1),
            (&["", ",,", "1.1"], 0),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(VIA, HeaderValue::from_str(line).unwrap());
            }
            assert_eq!(passes(&headers), expected, "{lines:?}");
        }
        let mut headers = HeaderMap::new();
        headers.append(VIA, HeaderValue::from_bytes(b"1.1 \xff, 1.1 sopan").unwrap());
        assert_eq!(passes(&headers), 1);
    }

    #[test]
    fn who_saw_a_circle_says_so() {
        for (lines, expected) in [
            (&["sopan; error=proxy_loop_detected"][..], true),
            (&["cdn", "a, b; details=\"x\"; error=proxy_loop_detected; x"], true),
            (&["sopan; error=connection_refused"], false),
            (&[], false),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(PROXY_STATUS, HeaderValue::from_str(line).unwrap());
            }
            assert_eq!(went_in_a_circle(&headers), expected, "{lines:?}");
        }
    }
}
