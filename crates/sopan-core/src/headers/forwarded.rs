//! What does the upstream learn of who asked, and by which name?
//!
//! Nothing, unless that is wished: the upstream is somebody else's, and the addresses and names of one's own network are
//! none of its business. It acts on `Forwarded` and its unwritten relatives, which a client may send too.

use std::fmt::Write as _;
use std::net::IpAddr;

use http::header::{FORWARDED, HeaderMap, HeaderName, HeaderValue};

/// What is done with `Forwarded` (RFC 7239), `X-Forwarded-*` and `X-Real-IP`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForwardedPolicy {
    /// None of them reaches the upstream, also not what a client sent.
    #[default]
    Off,
    /// What a client sent goes on as it is.
    Pass,
    /// The same, and an element of `Forwarded` for the client is added.
    Rfc7239,
    /// The same, and the client is added to `X-Forwarded-For`; `X-Forwarded-Host` and `-Proto` say what it asked for.
    XForwarded,
}

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

impl ForwardedPolicy {
    /// Does it to a request that came from `peer` and was for `host`, over plain HTTP.
    pub fn apply(self, headers: &mut HeaderMap, peer: Option<IpAddr>, host: Option<&HeaderValue>) {
        let peer = peer.map(|peer| peer.to_canonical());
        match self {
            Self::Off => {
                while let Some(name) = headers.keys().find(|name| tells_who_asked(name)).cloned() {
                    headers.remove(name);
                }
            }
            Self::Pass => {}
            Self::Rfc7239 => {
                if let Ok(element) = HeaderValue::try_from(element(peer, host)) {
                    headers.append(FORWARDED, element);
                }
            }
            Self::XForwarded => {
                if let Some(value) = peer.and_then(|peer| with_peer(headers, peer)) {
                    headers.insert(X_FORWARDED_FOR, value);
                }
                match host {
                    Some(host) => headers.insert(X_FORWARDED_HOST, host.clone()),
                    None => headers.remove(X_FORWARDED_HOST),
                };
                headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static("http"));
            }
        }
    }
}

/// Whether this field is one of those, also with `_` for `-`: servers that hand fields on as variables take both for the
/// same.
pub fn tells_who_asked(name: &HeaderName) -> bool {
    let name = name.as_str().as_bytes();
    // Hardly any name begins so.
    if !matches!(name, [b'f' | b'x', ..]) {
        return false;
    }
    let begins = |with: &[u8]| {
        name.len() >= with.len() && name.iter().zip(with).all(|(a, b)| a == b || (*a, *b) == (b'_', b'-'))
    };
    name == b"forwarded" || begins(b"x-real-ip") && name.len() == 9 || begins(b"x-forwarded")
}

/// An element of `Forwarded`. An IPv6 address is bracketed, and what is no token is quoted (RFC 7239 §6).
fn element(peer: Option<IpAddr>, host: Option<&HeaderValue>) -> String {
    let mut element = match peer {
        Some(IpAddr::V4(v4)) => format!("for={v4}"),
        Some(IpAddr::V6(v6)) => format!("for=\"[{v6}]\""),
        None => "for=unknown".to_owned(),
    };
    if let Some(host) = host.and_then(|host| host.to_str().ok()) {
        let is_token = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~".contains(&b));
        // A string takes everything.
        let _ = if is_token {
            write!(element, ";host={host}")
        } else {
            write!(element, ";host=\"{}\"", host.replace('\\', "\\\\").replace('"', "\\\""))
        };
    }
    element + ";proto=http"
}

/// All of `X-Forwarded-For` on one line, since many read only one, and the peer at its end.
fn with_peer(headers: &HeaderMap, peer: IpAddr) -> Option<HeaderValue> {
    let mut value = Vec::new();
    for line in headers.get_all(X_FORWARDED_FOR) {
        value.extend_from_slice(line.as_bytes());
        value.extend_from_slice(b", ");
    }
    value.extend_from_slice(peer.to_string().as_bytes());
    HeaderValue::from_bytes(&value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: [(&str, &str); 8] = [
        ("forwarded", "for=10.0.0.1"),
        ("forwarded", "for=10.0.0.2"),
        ("x-forwarded-for", "10.0.0.1"),
        ("x-forwarded-for", "10.0.0.2"),
        ("x-forwarded-host", "inner.test"),
        ("x-forwarded-prefix", "/a"),
        ("x-real-ip", "10.0.0.1"),
        ("x-end", "1"),
    ];

    /// What is left of [`SENT`], in the order of its names.
    #[track_caller]
    fn check(policy: ForwardedPolicy, peer: Option<&str>, host: Option<&str>, expected: &[&str]) {
        let mut headers = HeaderMap::new();
        for (name, value) in SENT {
            headers.append(name, HeaderValue::from_static(value));
        }
        let host = host.map(|host| HeaderValue::from_str(host).unwrap());
        policy.apply(&mut headers, peer.map(|peer| peer.parse().unwrap()), host.as_ref());
        let mut left: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        left.sort_by(|a, b| a.split(':').next().cmp(&b.split(':').next()));
        assert_eq!(left, expected);
    }

    #[test]
    fn the_upstream_learns_what_the_policy_says_and_no_more() {
        use ForwardedPolicy::{Off, Pass, Rfc7239, XForwarded};
        let sent = SENT.map(|(name, value)| format!("{name}: {value}"));
        let mut sent: Vec<&str> = sent.iter().map(String::as_str).collect();
        sent.sort_by_key(|line| line.split(':').next());
        let (peer, host) = (Some("192.0.2.1"), Some("127.0.0.1:8000"));
        check(Off, peer, host, &["x-end: 1"]);
        check(Pass, peer, host, &sent);
        let with = |element| [&sent[..2], &[element], &sent[2..]].concat();
        check(Rfc7239, peer, host, &with("forwarded: for=192.0.2.1;host=\"127.0.0.1:8000\";proto=http"));
        check(Rfc7239, Some("::1"), Some("localhost"), &with("forwarded: for=\"[::1]\";host=localhost;proto=http"));
        check(Rfc7239, Some("::ffff:192.0.2.1"), None, &with("forwarded: for=192.0.2.1;proto=http"));
        check(Rfc7239, None, Some("a\"\\"), &with("forwarded: for=unknown;host=\"a\\\"\\\\\";proto=http"));
        let x = |list: &'static str, host: &'static [&'static str]| {
            [&sent[..2], &["x-end: 1", list], host, &["x-forwarded-prefix: /a", "x-forwarded-proto: http"], &sent[7..]]
                .concat()
        };
        check(
            XForwarded,
            peer,
            host,
            &x("x-forwarded-for: 10.0.0.1, 10.0.0.2, 192.0.2.1", &["x-forwarded-host: 127.0.0.1:8000"]),
        );
        check(XForwarded, Some("2001:db8::1"), None, &x("x-forwarded-for: 10.0.0.1, 10.0.0.2, 2001:db8::1", &[]));
    }

    #[test]
    fn its_fields_are_known_also_as_variables() {
        for name in ["forwarded", "x-forwarded-for", "x-forwarded", "x_forwarded_for", "x-real-ip", "X_Real-IP"] {
            assert!(tells_who_asked(&name.parse().unwrap()), "{name}");
        }
        for name in ["forwarded-for", "x-real-ips", "x-real", "x-forward", "via", "x"] {
            assert!(!tells_who_asked(&name.parse().unwrap()), "{name}");
        }
    }
}
