//! Is this the name and port of a server, as `Host` and an absolute target give it (RFC 9110 §4.2, RFC 3986 §3.2)?

use std::net::Ipv6Addr;

/// Whether it is a host, perhaps with a port, and nothing else: no userinfo, no empty host, no port that cannot be.
pub fn is_valid(authority: &[u8]) -> bool {
    let (host, port) = split(authority);
    is_host(host) && port.is_none_or(is_port)
}

/// The host, in brackets if it is an IPv6 address, and what follows the colon after it, if there is one.
pub fn split(authority: &[u8]) -> (&[u8], Option<&[u8]>) {
    let from = if authority.starts_with(b"[") { memchr::memchr(b']', authority).unwrap_or(0) } else { 0 };
    match memchr::memchr(b':', &authority[from..]) {
        Some(colon) => (&authority[..from + colon], Some(&authority[from + colon + 1..])),
        None => (authority, None),
    }
}

fn is_host(host: &[u8]) -> bool {
    if let Some(address) = host.strip_prefix(b"[") {
        let address = address.strip_suffix(b"]").and_then(|address| std::str::from_utf8(address).ok());
        return address.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok());
    }
    // RFC 3986 allows more in a name; what a name server never knows could be read in two ways.
    !host.is_empty() && host.iter().all(|byte| IS_OF_NAMES[usize::from(*byte)])
}

/// Letters, digits, and what may stand between them.
const IS_OF_NAMES: [bool; 256] = {
    let (mut is_of_names, mut byte) = ([false; 256], 0);
    while byte < is_of_names.len() {
        is_of_names[byte] = matches!(byte as u8, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~');
        byte += 1;
    }
    is_of_names
};

/// An empty port means the scheme's (RFC 3986 §3.2.3).
fn is_port(port: &[u8]) -> bool {
    let digits = port.iter().all(u8::is_ascii_digit);
    digits && (port.is_empty() || std::str::from_utf8(port).is_ok_and(|port| port.parse::<u16>().is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_and_perhaps_a_port_and_nothing_else() {
        for good in ["a", "a.b-c_d~.", "127.0.0.1:80", "[::1]", "[::1]:65535", "a:", "a:0", "A:00080"] {
            assert!(is_valid(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            ":80",
            "a:b",
            "a:65536",
            "a:-1",
            "a:+1",
            "a: 80",
            "a:80:80",
            "u@a",
            "u:p@a",
            "a/",
            "a?",
            "a#",
            "a b",
            "a,b",
            "[::1",
            "::1",
            "[]",
            "[a]",
            "[::1]x",
            "[::1]x:80",
            "[127.0.0.1]",
            "a\\b",
            "%61",
            "a\u{e9}",
            "a;b",
            "<a>",
            "a'b",
        ] {
            assert!(!is_valid(bad.as_bytes()), "{bad}");
        }
    }
}
