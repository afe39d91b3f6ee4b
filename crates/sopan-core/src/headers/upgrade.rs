//! Which protocols does a client want to switch to, and did the upstream choose one of them (RFC 9110 §7.8)?

use http::header::{CONNECTION, HeaderMap, HeaderValue, UPGRADE};

/// The protocols that a request offers and that can be passed on, as the next hop's `Upgrade`; none if it offers none.
/// Ask before the fields of the hop are taken off.
///
/// HTTP/2 (`h2c`) and TLS would change how this very hop is spoken, not what is said through it, and are not passed on.
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use sopan_core::headers::offered_upgrade;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("connection", HeaderValue::from_static("Upgrade"));
/// headers.insert("upgrade", HeaderValue::from_static("h2c, websocket"));
/// assert_eq!(offered_upgrade(&headers).unwrap(), "websocket");
/// ```
pub fn offered_upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    // Looked at first, since hardly any request has it.
    headers.get(UPGRADE)?;
    let options = headers.get_all(CONNECTION).iter().flat_map(members);
    if !options.into_iter().any(|option| option.eq_ignore_ascii_case(b"upgrade")) {
        return None;
    }
    let protocols = headers.get_all(UPGRADE).iter().flat_map(members);
    let kept: Vec<_> = protocols.filter(|protocol| !is_of_this_hop(protocol)).collect();
    if kept.is_empty() { None } else { HeaderValue::from_bytes(&kept.join(&b", "[..])).ok() }
}

/// Whether the fields of a 101 name only protocols that were offered, and at least one.
pub fn is_upgrade_offered(offered: &HeaderValue, chosen: &HeaderMap) -> bool {
    let mut all = chosen.get_all(UPGRADE).iter().flat_map(members).peekable();
    let is_offered = |chosen: &[u8]| members(offered).any(|offer| offer.eq_ignore_ascii_case(chosen));
    all.peek().is_some() && all.all(is_offered)
}

fn is_of_this_hop(protocol: &[u8]) -> bool {
    let name = protocol.split(|byte| *byte == b'/').next().unwrap_or_default();
    [&b"h2c"[..], b"h2", b"http", b"tls"].iter().any(|hop| name.eq_ignore_ascii_case(hop))
}

fn members(line: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    line.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn what_is_offered_is_passed_on_without_what_is_of_this_hop() {
        for (lines, expected) in [
            (&[("connection", "upgrade"), ("upgrade", "websocket")][..], Some("websocket")),
            (&[("connection", "x, UPGRADE"), ("upgrade", "a/1"), ("upgrade", ",b, ")], Some("a/1, b")),
            (&[("connection", "upgrade"), ("upgrade", "H2C, TLS/1.0, HTTP/2.0, h2c")], None),
            (&[("connection", "upgrade"), ("upgrade", "")], None),
            (&[("connection", "keep-alive"), ("upgrade", "websocket")], None),
            (&[("upgrade", "websocket")], None),
            (&[("connection", "upgrade")], None),
        ] {
            assert_eq!(offered_upgrade(&headers(lines)).as_ref().map(|v| v.to_str().unwrap()), expected, "{lines:?}");
        }
    }

    #[test]
    fn only_what_was_offered_can_be_chosen() {
        let offered = HeaderValue::from_static("websocket, b/1");
        for (chosen, expected) in [
            (&[("upgrade", "WebSocket")][..], true),
            (&[("upgrade", "b/1, websocket")], true),
            (&[("upgrade", "websocket"), ("upgrade", "c")], false),
            (&[("upgrade", "b")], false),
            (&[("upgrade", "")], false),
            (&[], false),
        ] {
            assert_eq!(is_upgrade_offered(&offered, &headers(chosen)), expected, "{chosen:?}");
        }
    }
}
