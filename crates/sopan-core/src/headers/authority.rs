//! What is in front of a path: a host and perhaps a port (RFC 3986 §3.2), as `Host`, `Origin` and URLs have it.

use std::net::Ipv6Addr;

use crate::h1::authority;

/// `host`, `host:port`, or the same with an IPv6 address in brackets; never with a user name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Authority<'a> {
    pub(crate) host: Host<'a>,
    /// None where it is not given, or empty.
    pub(crate) port: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host<'a> {
    V6(Ipv6Addr),
    /// A name or an IPv4 address, as it is written; never empty.
    Named(&'a str),
}

impl<'a> Authority<'a> {
    /// None for whatever else it may be.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        if !authority::is_valid(bytes) {
            return None;
        }
        let (host, port) = authority::split(bytes);
        let text = |part| std::str::from_utf8(part).ok();
        let host = match host.strip_prefix(b"[") {
            Some(address) => Host::V6(text(address.strip_suffix(b"]")?)?.parse().ok()?),
            None => Host::Named(text(host)?),
        };
        let port = match port {
            None | Some([]) => None,
            Some(digits) => Some(text(digits)?.parse().ok()?),
        };
        Some(Self { host, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_and_a_port_may_be_missing() {
        let named = |host, port| Some(Authority { host: Host::Named(host), port });
        let v6 = |host: &str, port| Some(Authority { host: Host::V6(host.parse().unwrap()), port });
        for (text, expected) in [
            ("a.test", named("a.test", None)),
            ("A.test.:80", named("A.test.", Some(80))),
            ("a.test:", named("a.test", None)),
            ("127.0.0.1:0080", named("127.0.0.1", Some(80))),
            ("[::1]", v6("::1", None)),
            ("[::1]:8000", v6("::1", Some(8000))),
            ("[0:0::1]:", v6("::1", None)),
            ("me@a.test", None),
            ("a.test:65536", None),
            ("[fe80::1%25eth0]", None),
            ("", None),
        ] {
            assert_eq!(Authority::parse(text.as_bytes()), expected, "{text}");
        }
    }
}
