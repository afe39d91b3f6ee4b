//! Where an upstream is: scheme, host, port and a path in front of every request's.

use std::fmt;
use std::net::IpAddr;

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Uri};
use sopan_core::headers::{Elsewhere, Origin};

/// An upstream's address, read from a URL such as `https://api.example.com/v2`.
#[derive(Debug, Clone)]
pub struct Target {
    tls: bool,
    host: String,
    port: u16,
    authority: HeaderValue,
    /// Without a final slash; empty at the root.
    prefix: String,
}

/// A URL that no upstream can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{url}` is not an upstream: {why}; write for example https://api.example.com or http://127.0.0.1:8765/v2")]
pub struct TargetError {
    url: String,
    why: &'static str,
}

impl TargetError {
    /// What is wrong with it, without the URL: for a caller who has another one to show.
    pub fn why(&self) -> &'static str {
        self.why
    }
}

impl Target {
    /// Reads an upstream's URL.
    ///
    /// # Errors
    /// Anything but `http` or `https`, a host, perhaps a port and a path. Credentials in it are refused, since they would
    /// be shown wherever the URL is.
    pub fn parse(url: &str) -> Result<Self, TargetError> {
        let fail = |why| Err(TargetError { url: sopan_core::headers::redact_url(url), why });
        let Ok(uri) = url.trim().parse::<Uri>() else { return fail("it cannot be read as a URL") };
        let tls = match uri.scheme() {
            Some(s) if *s == Scheme::HTTP => false,
            Some(s) if *s == Scheme::HTTPS => true,
            Some(_) => return fail("its scheme is neither http nor https"),
            None => return fail("it lacks http:// or https://"),
        };
        let Some(authority) = uri.authority().filter(|a| !a.host().is_empty()) else { return fail("it has no host") };
        if authority.as_str().contains('@') {
            return fail("it holds a user name or password, which would be shown in logs");
        }
        if uri.query().is_some() || url.contains('#') {
            return fail("it has a query or a fragment, which belong to single requests");
        }
        let port = match (authority.port_u16(), authority.as_str().rfind(':')) {
            (Some(0), _) => return fail("its port is 0"),
            (Some(port), _) => port,
            // A colon outside of an IPv6 address is followed by a port, or by nothing that can be one.
            (None, Some(colon)) if colon > authority.as_str().rfind(']').unwrap_or(0) => {
                return fail("its port is not a number from 1 to 65535");
            }
            (None, _) => default_port(tls),
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let Ok(value) = host_field(authority, port, tls) else { return fail("its host is not a name") };
        Ok(Self { tls, host, port, authority: value, prefix: uri.path().trim_end_matches('/').to_owned() })
    }

    /// Whether requests go over TLS.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// The host's name or address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, given or by the scheme.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether nobody on the way can read what is sent: it goes over TLS, or does not leave this machine.
    pub fn is_confidential(&self) -> bool {
        let is_loopback = match self.host.parse::<IpAddr>() {
            Ok(address) => address.to_canonical().is_loopback(),
            Err(_) => self.host.eq_ignore_ascii_case("localhost"),
        };
        self.tls || is_loopback
    }

    /// The value of the `Host` field for this upstream.
    pub fn authority(&self) -> &HeaderValue {
        &self.authority
    }

    /// Whose links are its own, for a client that has `mount` in front of every path, and comes `elsewhere` by some.
    pub(crate) fn origin<'a>(&'a self, mount: &'a str, elsewhere: Option<&'a Elsewhere>) -> Origin<'a> {
        let scheme = if self.tls { "https" } else { "http" };
        Origin { scheme, host: &self.host, port: self.port, prefix: &self.prefix, mount, elsewhere }
    }

    /// A request's target at this upstream: the client's bytes, without the mount and with the prefix in its place; none
    /// where they stay as they are. A path that is not beneath the mount loses nothing.
    pub(crate) fn path(&self, uri: &Uri, mount: &str) -> Result<Option<Uri>, http::Error> {
        let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let stays = self.prefix.is_empty() && mount.is_empty();
        if stays && uri.authority().is_none() && !path.starts_with('?') {
            return Ok(None);
        }
        let rest = path.strip_prefix(mount).filter(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
        let path = match rest.unwrap_or(path) {
            "*" => "*".to_owned(),
            rest if rest.starts_with('/') => format!("{}{rest}", self.prefix),
            rest => format!("{}/{rest}", self.prefix),
        };
        Uri::builder().path_and_query(path).build().map(Some)
    }
}

fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

fn host_field(authority: &Authority, port: u16, tls: bool) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
    let host = authority.host();
    if port == default_port(tls) {
        HeaderValue::from_str(host)
    } else {
        HeaderValue::from_str(&format!("{host}:{port}"))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority.to_str().unwrap_or(&self.host), self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_scheme_host_port_and_prefix() {
        for (url, tls, host, port, shown) in [
            ("http://127.0.0.1:8765", false, "127.0.0.1", 8765, "http://127.0.0.1:8765"),
            ("https://api.example.com/", true, "api.example.com", 443, "https://api.example.com"),
            ("https://api.example.com:443/v2/", true, "api.example.com", 443, "https://api.example.com/v2"),
            ("http://[::1]:80/a//b", false, "::1", 80, "http://[::1]/a//b"),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!((target.tls, target.host(), target.port(), &*target.to_string()), (tls, host, port, shown));
        }
    }

    #[test]
    fn only_over_tls_or_on_this_machine_nobody_reads_along() {
        for (url, expected) in [
            ("https://api.example.com", true),
            ("http://127.8.0.1:80", true),
            ("http://[::1]", true),
            ("http://[::ffff:127.0.0.1]", true),
            ("http://LocalHost:8765", true),
            ("http://api.example.com", false),
            ("http://10.0.0.1", false),
            ("http://localhost.example.com", false),
        ] {
            assert_eq!(Target::parse(url).unwrap().is_confidential(), expected, "{url}");
        }
    }

    #[test]
    fn what_is_no_upstream_is_refused_with_the_reason() {
        for (url, why) in [
            ("", "cannot be read"),
            ("api.example.com", "lacks http"),
            ("ftp://example.com", "neither http nor https"),
            ("http://", "cannot be read"),
            ("http://user:secret@example.com", "user name"),
            ("http://example.com?key=secret", "query"),
            ("http://example.com/#x", "fragment"),
            ("http://example.com:0", "port is 0"),
            ("http://example.com:99999", "port"),
            ("http://exa mple.com", "cannot be read"),
        ] {
            let error = Target::parse(url).expect_err(url).to_string();
            assert!(error.contains(why) && !error.contains("secret"), "{url}: {error}");
        }
    }

    #[test]
    fn the_bytes_of_a_path_stay_as_they_are() {
        for (base, path, expected) in [
            ("http://u", "/a//b?x=%2f&y", "/a//b?x=%2f&y"),
            ("http://u/v2", "/a//b?x=%2f&y", "/v2/a//b?x=%2f&y"),
            ("http://u/v2/", "/?", "/v2/?"),
            ("http://u", "//x", "//x"),
            // In absolute form a target may have no path; a request has one (RFC 9112 §3.2.1).
            ("http://u", "http://h", "/"),
            ("http://u", "http://h?x=1", "/?x=1"),
            ("http://u/v2", "http://h?x=1", "/v2/?x=1"),
            ("http://u", "?x=1", "/?x=1"),
            ("http://u", "http://h/a?x=1", "/a?x=1"),
            ("http://u", "*", "*"),
            ("http://u/v2", "*", "*"),
        ] {
            let uri = path.parse().unwrap_or_else(|_| Uri::builder().path_and_query(path).build().unwrap());
            let sent = Target::parse(base).unwrap().path(&uri, "").unwrap().unwrap_or(uri);
            assert_eq!(sent.path_and_query().unwrap().as_str(), expected, "{path} at {base}");
        }
    }

    #[test]
    fn the_prefix_stands_in_place_of_the_mount() {
        for (path, at_root, at_v2) in [
            ("/shop/orders?x=%2f", "/orders?x=%2f", "/v2/orders?x=%2f"),
            ("/shop", "/", "/v2/"),
            ("/shop/", "/", "/v2/"),
            ("/shop?x", "/?x", "/v2/?x"),
            ("/shop//a//b", "//a//b", "/v2//a//b"),
            ("http://h/shop?x", "/?x", "/v2/?x"),
            ("http://h/shop/a", "/a", "/v2/a"),
            ("/shop/shop", "/shop", "/v2/shop"),
            // What it means is for the upstream to say; it is the same upstream.
            ("/shop/../admin", "/../admin", "/v2/../admin"),
            ("/shop/%2e%2e/x", "/%2e%2e/x", "/v2/%2e%2e/x"),
            // None of its own: a request for all of a server, or a door that routes in another way.
            ("*", "*", "*"),
            ("/shopping", "/shopping", "/v2/shopping"),
            ("/%73hop/x", "/%73hop/x", "/v2/%73hop/x"),
        ] {
            for (base, expected) in [("http://u", at_root), ("http://u/v2", at_v2)] {
                let uri: Uri = path.parse().unwrap();
                let sent = Target::parse(base).unwrap().path(&uri, "/shop").unwrap().unwrap_or(uri);
                assert_eq!(sent.path_and_query().unwrap().as_str(), expected, "{path} at {base}");
                assert_eq!(sent.authority(), None, "{path} at {base}");
            }
        }
    }
}
