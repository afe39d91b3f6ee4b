//! What speaks of one connection only.

use http::header::{CONNECTION, HeaderMap, HeaderName};

/// Whether an intermediary takes this field off, be it named by `Connection` or not: what RFC 9110 §7.6.1 lists, what
/// only an upgrade to HTTP/2 needed (RFC 7540 §3.2.1), and by what a client and its proxy know each other (RFC 9110
/// §11.7), which is no business of the next hop.
///
/// `Trailer` is not among them: it announces fields after the body, which are passed on with the body.
///
/// One `match` over the text costs 2 ns a field, less than a look-up of ten names in the map.
pub fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "http2-settings"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authentication-info"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// Whether this field stays even if `Connection` names it.
///
/// These are meant for all recipients, so that naming them is forbidden (RFC 9110 §7.6.1). To obey all the same would let
/// a sender change what its message is for those behind us: where it ends and what its bytes are, for which host it is,
/// who may store it, and whether it goes round in circles.
fn is_end_to_end(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "cache-control" | "content-encoding" | "content-length" | "content-range" | "content-type" | "host" | "via"
    )
}

/// Takes off what belongs to this hop: the fields that any `Connection` line names, in any case, `Connection` itself, and
/// `Keep-Alive`, `Proxy-Connection`, `Proxy-Authenticate`, `Proxy-Authentication-Info`, `Proxy-Authorization`, `TE`,
/// `Transfer-Encoding`, `Upgrade` and `HTTP2-Settings` in any case (RFC 9110 §7.6.1, §11.7). Answers which fields
/// `Connection` named, for those that come after the body ([`strip_trailers`](super::strip_trailers)).
///
/// `Cache-Control`, `Content-Encoding`, `Content-Length`, `Content-Range`, `Content-Type`, `Host` and `Via` cannot be
/// taken off by naming them. The lines of a field that stays keep their order.
///
/// Strip before anything is decided by the fields, so that what is decided and what is sent are the same request: a
/// client could otherwise have a POST repeated for an `Idempotency-Key` that the upstream never sees.
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use sopan_core::headers::strip_hop_by_hop;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("connection", HeaderValue::from_static("keep-alive, X-Hop"));
/// headers.insert("x-hop", HeaderValue::from_static("1"));
/// headers.insert("x-end", HeaderValue::from_static("2"));
/// strip_hop_by_hop(&mut headers);
/// assert_eq!(headers.keys().collect::<Vec<_>>(), ["x-end"]);
/// ```
pub fn strip_hop_by_hop(headers: &mut HeaderMap) -> Vec<HeaderName> {
    let mut named = Vec::new();
    // Most messages have none or one of them, so looking again from the start is cheaper than a list of what to remove.
    while let Some(name) = headers.keys().find(|name| is_hop_by_hop(name)).cloned() {
        if name == CONNECTION {
            named = named_by_connection(headers);
            for name in &named {
                headers.remove(name);
            }
        }
        headers.remove(name);
    }
    named
}

/// The fields that `Connection` names and that can be taken off. The usual options, which name no field that we would not
/// take off anyway, cost no allocation; what cannot be the name of a field names none.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let lines = headers.get_all(CONNECTION).iter();
    let options = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b',')).map(<[u8]>::trim_ascii);
    let unusual = options.filter(|option| {
        !option.is_empty() && !option.eq_ignore_ascii_case(b"keep-alive") && !option.eq_ignore_ascii_case(b"close")
    });
    unusual.filter_map(|option| HeaderName::from_bytes(option).ok()).filter(|name| !is_end_to_end(name)).collect()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    /// `lines` as they came in, `expected` as they are passed on, without regard to the order of different fields.
    #[track_caller]
    fn check(lines: &[&str], expected: &[&str]) {
        let mut headers = HeaderMap::new();
        for line in lines {
            let (name, value) = line.split_once(": ").expect("a field line");
            headers.append(
                HeaderName::from_bytes(name.as_bytes()).expect("a field name"),
                HeaderValue::from_bytes(value.as_bytes()).expect("a field value"),
            );
        }
        strip_hop_by_hop(&mut headers);
        let mut left: Vec<_> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        // Stable, so that the lines of one field stay in their order.
        left.sort_by(|a, b| a.split(':').next().cmp(&b.split(':').next()));
        assert_eq!(left, expected, "{lines:?}");
    }

    #[test]
    fn a_request_loses_what_belongs_to_the_hop() {
        check(
            &[
                "Connection: keep-alive, X-Hop",
                "Connection: x-other",
                "X-Hop: secret",
                "X-OTHER: secret2",
                "X-End: keep",
                "Keep-Alive: timeout=5",
                "Proxy-Connection: keep-alive",
                "Proxy-Authorization: Basic Zm9vOmJhcg==",
                "TE: gzip",
                "Transfer-Encoding: chunked",
                "Upgrade: h2c",
                "HTTP2-Settings: AAMAAABk",
            ],
            &["x-end: keep"],
        );
    }

    #[test]
    fn a_response_loses_what_belongs_to_the_hop() {
        check(
            &[
                "Connection: X-Back",
                "X-Back: 1",
                "Keep-Alive: timeout=9",
                "Proxy-Authenticate: Basic",
                "Proxy-Authentication-Info: nextnonce=1",
                "X-End: keep",
            ],
            &["x-end: keep"],
        );
    }

    #[test]
    fn what_no_hop_owns_stays_as_it_is() {
        check(&[], &[]);
        check(
            &["Host: a.test", "Set-Cookie: a=1", "Trailer: x-sum", "Set-Cookie: b=2", "WWW-Authenticate: Basic"],
            &["host: a.test", "set-cookie: a=1", "set-cookie: b=2", "trailer: x-sum", "www-authenticate: Basic"],
        );
        check(&["Connection: close", "Set-Cookie: a=1", "Set-Cookie: b=2"], &["set-cookie: a=1", "set-cookie: b=2"]);
    }

    #[test]
    fn all_lines_of_a_named_field_go() {
        check(&["X-Hop: 1", "X-Hop: 2", "Connection: x-hop", "X-End: 3"], &["x-end: 3"]);
        check(&["Keep-Alive: a", "Keep-Alive: b", "X-End: 3"], &["x-end: 3"]);
    }

    #[test]
    fn options_are_found_however_they_are_written() {
        check(&["Connection: ,, \tX-HOP\t ,close,", "X-Hop: 1"], &[]);
        check(&["Connection: x-hop;q=1, x hop, \"x-hop\", ü", "X-Hop: 1"], &["x-hop: 1"]);
        check(&["Connection: ", "X-Hop: 1"], &["x-hop: 1"]);
        check(&["Connection: x-absent, connection, te", "TE: trailers"], &[]);
    }

    #[test]
    fn what_makes_the_message_cannot_be_named_away() {
        let kept = [
            "cache-control: private",
            "content-encoding: gzip",
            "content-length: 5",
            "content-range: bytes 0-4/9",
            "content-type: text/plain",
            "host: a.test",
            "via: 1.1 other",
        ];
        let names: Vec<_> = kept.iter().filter_map(|line| line.split(':').next()).collect();
        let connection = format!("Connection: {}", names.join(", ").to_uppercase());
        check(&[&[&*connection][..], &kept].concat(), &kept);
    }

    proptest! {
        #[test]
        fn nothing_of_the_hop_is_left_whatever_connection_says(
            connection in proptest::collection::vec(any::<u8>(), 0..40),
            names in proptest::collection::vec("connection|keep-alive|te|upgrade|x-a|x-b|proxy-connection", 0..20),
        ) {
            let mut headers = HeaderMap::new();
            headers.extend(HeaderValue::from_bytes(&connection).ok().map(|value| (Some(CONNECTION), value)));
            for name in names {
                let value = HeaderValue::from_static("x-b");
                headers.append(HeaderName::from_bytes(name.as_bytes()).expect("a field name"), value);
            }
            let named = headers.get_all(CONNECTION).iter().any(|value| value == "x-b");
            strip_hop_by_hop(&mut headers);
            prop_assert!(!headers.keys().any(is_hop_by_hop));
            prop_assert!(!(named && headers.contains_key("x-b")));
        }
    }
}
