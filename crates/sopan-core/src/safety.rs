//! Is this request meant for us, and by somebody who may?
//!
//! Whoever reaches the proxy uses the upstream's quota, often with a key that its operator has put there. On the loopback
//! interface that is every program of the machine, and every page in its browser: a page can send requests to any
//! address, and with a name of its own that it lets point to 127.0.0.1 it can read the answers as well (DNS rebinding). A
//! browser always says for which host it asks, and of a request that a page of another site causes it says so. So
//! ([`Hosts::admit`]) the host asked for must be one that can only be meant for this machine, or that is configured, and a
//! page that asks must come from such a host too.
//!
//! It protects from what browsers can be made to do, not from programs: those say what they like. And it protects whole only
//! what is asked by the names of this machine: to other names over plain HTTP browsers do not say from which site a request
//! for an image comes (W3C Fetch Metadata §2), so a page can cause such a one, and not read its answer.

mod change;

use std::net::{IpAddr, Ipv4Addr};

use http::header::{HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};

use crate::headers::authority::{Authority, Host};
pub use change::{Unmeant, is_meant};

/// For whom requests may be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hosts {
    /// Names beside those of the loopback interface.
    pub names: Vec<HostName>,
    /// Whether machines beside our own are let in; then any host will do where no names are given.
    pub is_open: bool,
}

/// The name or address of a host, without a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostName {
    /// An address.
    Ip(IpAddr),
    /// A name, in lower case and without a final dot.
    Name(String),
}

/// Why a request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// It is for another host.
    Host,
    /// It comes from a page of another site.
    CrossSite,
}

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

impl Hosts {
    /// Whether a request is let in. `authority` is that of its target, where that is a whole URL.
    ///
    /// A request without `Host`, which HTTP/1.0 allows, is let in if it says nothing that only browsers say; none of them
    /// has spoken HTTP/1.0 for decades.
    ///
    /// # Errors
    /// It is for another host, or from a page of another site.
    pub fn admit(&self, authority: Option<&str>, headers: &HeaderMap) -> Result<(), Denied> {
        let takes_any = self.is_open && self.names.is_empty();
        let is_known = |host| HostName::of(host).is_some_and(|name| self.knows(&name));
        if !takes_any && !hosts(authority, headers).all(is_known) {
            return Err(Denied::Host);
        }
        self.admit_page(authority, headers)
    }

    /// The second half of it: whether the page that a request comes from, if it does, may ask. For a door that has let in
    /// a request for this very host before.
    ///
    /// # Errors
    /// It is from a page of another site.
    pub fn admit_page(&self, authority: Option<&str>, headers: &HeaderMap) -> Result<(), Denied> {
        // Hardly any program says either, so one look at each name is enough.
        if !headers.keys().any(|name| *name == ORIGIN || *name == SEC_FETCH_SITE) {
            return Ok(());
        }
        let has_origin = headers.contains_key(ORIGIN);
        if hosts(authority, headers).next().is_none() {
            return Err(Denied::Host);
        }
        // Where the page says whose it is, nothing else counts: one of this machine on another port is cross-site too.
        let is_foreign = if has_origin {
            let asked = hosts(authority, headers).find_map(HostName::of).filter(|_| self.is_open);
            let is_known = |name: HostName| self.knows(&name) || asked.as_ref() == Some(&name);
            !headers.get_all(ORIGIN).iter().all(|origin| of_origin(origin).is_some_and(is_known))
        } else {
            // Of this machine's own names the pages of one site are this machine's; of others, anybody's sub-domains.
            let is_local =
                hosts(authority, headers).all(|host| HostName::of(host).is_some_and(|name| name.is_loopback()));
            let is_foreign = |word: &[u8]| is(word, b"cross-site") || !is_local && is(word, b"same-site");
            headers.get_all(SEC_FETCH_SITE).iter().flat_map(words).any(is_foreign)
        };
        if is_foreign { Err(Denied::CrossSite) } else { Ok(()) }
    }

    fn knows(&self, name: &HostName) -> bool {
        name.is_loopback() || self.names.contains(name)
    }
}

/// All hosts that a request names.
fn hosts<'r>(authority: Option<&'r str>, headers: &'r HeaderMap) -> impl Iterator<Item = &'r [u8]> {
    headers.get_all(HOST).iter().map(HeaderValue::as_bytes).chain(authority.map(str::as_bytes))
}

impl HostName {
    /// Reads a name or an address, IPv6 with or without brackets; none for what has a port, or is neither.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(ip) = text.parse() {
            return Some(Self::Ip(ip));
        }
        let Authority { host, port: None } = Authority::parse(text.as_bytes())? else { return None };
        let has_port = text.ends_with(':');
        Some(Self::of_host(host)).filter(|name| !has_port && name.is_plain())
    }

    /// Whether it is the host that is asked for.
    pub fn is(&self, asked: AskedHost<'_>) -> bool {
        match (self, asked) {
            (Self::Ip(ip), AskedHost::Ip(asked)) => *ip == asked,
            (Self::Name(name), AskedHost::Name(asked)) => name.eq_ignore_ascii_case(asked),
            (Self::Ip(_), AskedHost::Name(_)) | (Self::Name(_), AskedHost::Ip(_)) => false,
        }
    }

    fn of(authority: &[u8]) -> Option<Self> {
        Authority::parse(authority).map(|authority| Self::of_host(authority.host))
    }

    fn of_host(host: Host<'_>) -> Self {
        match AskedHost::of_host(host) {
            AskedHost::Ip(ip) => Self::Ip(ip),
            AskedHost::Name(name) => Self::Name(name.to_ascii_lowercase()),
        }
    }

    /// Whether it can only mean the machine on which it is used: no name of the network leads there (RFC 6761 §6.3).
    fn is_loopback(&self) -> bool {
        match self {
            Self::Ip(ip) => ip.is_loopback(),
            Self::Name(name) => name.strip_suffix("localhost").is_some_and(|sub| {
                sub.is_empty() || sub.strip_suffix('.').is_some_and(|sub| sub.split('.').all(|label| !label.is_empty()))
            }),
        }
    }

    /// Whether it consists of what names of hosts do, and of no wildcard.
    fn is_plain(&self) -> bool {
        match self {
            Self::Ip(_) => true,
            Self::Name(name) => {
                let is_label = |label: &str| {
                    !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
                };
                name.split('.').all(is_label)
            }
        }
    }
}

/// A name without the dot that may end it, and means that nothing is to be put behind it.
/// The host that a request is for. For a door that compares it with many, at every request: it is read once, and takes
/// nothing from the heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedHost<'a> {
    /// An address.
    Ip(IpAddr),
    /// A name as it was written, without a final dot.
    Name(&'a str),
}

impl<'a> AskedHost<'a> {
    /// The host of an authority, with or without a port; none for what is none.
    pub fn of(authority: &'a [u8]) -> Option<Self> {
        Authority::parse(authority).map(|authority| Self::of_host(authority.host))
    }

    fn of_host(host: Host<'a>) -> Self {
        match host {
            Host::V6(ip) => Self::Ip(ip.into()),
            Host::Named(name) => {
                let name = without_dot(name);
                name.parse::<Ipv4Addr>().map_or(Self::Name(name), |ip| Self::Ip(ip.into()))
            }
        }
    }
}

fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

/// The host of an origin (RFC 6454 §7); none for `null`, for several, and for what is none.
fn of_origin(origin: &HeaderValue) -> Option<HostName> {
    let (scheme, authority) = origin.to_str().ok()?.split_once("://")?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    if is_scheme { HostName::of(authority.as_bytes()) } else { None }
}

/// What a line of `Sec-Fetch-Site` (W3C Fetch Metadata) says, which is one word unless somebody has tampered with it.
fn words(line: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    line.as_bytes().split(|byte| b",;".contains(byte))
}

fn is(word: &[u8], wanted: &[u8]) -> bool {
    word.trim_ascii().eq_ignore_ascii_case(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: Result<(), Denied> = Ok(());
    const HOST: Result<(), Denied> = Err(Denied::Host);
    const SITE: Result<(), Denied> = Err(Denied::CrossSite);

    fn hosts(names: &[&str], is_open: bool) -> Hosts {
        Hosts { names: names.iter().map(|name| HostName::parse(name).unwrap()).collect(), is_open }
    }

    #[track_caller]
    fn check(hosts: &Hosts, lines: &[&str], expected: Result<(), Denied>) {
        let mut headers = HeaderMap::new();
        for line in lines {
            let (name, value) = line.split_once(": ").unwrap();
            headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        assert_eq!(hosts.admit(None, &headers), expected, "{lines:?} at {hosts:?}");
    }

    #[test]
    fn only_a_host_that_means_this_machine_will_do() {
        let (closed, named) = (hosts(&[], false), hosts(&["Proxy.Test", "10.0.0.1", "[2001:DB8::1]"], false));
        let (open, open_named) = (hosts(&[], true), hosts(&["proxy.test"], true));
        for (host, at_closed, at_named, at_open_named) in [
            ("localhost", OK, OK, OK),
            ("LocalHost.:8000", OK, OK, OK),
            ("a.b.localhost:1", OK, OK, OK),
            ("127.0.0.1", OK, OK, OK),
            ("127.255.0.9:65535", OK, OK, OK),
            ("127.0.0.1.", OK, OK, OK),
            ("[::1]:8000", OK, OK, OK),
            ("[0:0:0:0:0:0:0:1]", OK, OK, OK),
            ("proxy.test:99", HOST, OK, OK),
            ("PROXY.test.", HOST, OK, OK),
            ("10.0.0.1:8000", HOST, OK, HOST),
            ("[2001:db8:0::1]", HOST, OK, HOST),
            ("evil.test", HOST, HOST, HOST),
            ("a.proxy.test", HOST, HOST, HOST),
            ("localhost.evil.test", HOST, HOST, HOST),
            ("evillocalhost", HOST, HOST, HOST),
            (".localhost", HOST, HOST, HOST),
            ("a..localhost", HOST, HOST, HOST),
            ("localhost..", HOST, HOST, HOST),
            ("127.0.0.1.evil.test", HOST, HOST, HOST),
            ("0.0.0.0:8000", HOST, HOST, HOST),
            ("[::]", HOST, HOST, HOST),
            ("127.1", HOST, HOST, HOST),
            ("2130706433", HOST, HOST, HOST),
            ("me@localhost", HOST, HOST, HOST),
            ("localhost:x", HOST, HOST, HOST),
            ("localhost, evil.test", HOST, HOST, HOST),
            ("", HOST, HOST, HOST),
        ] {
            let line = format!("host: {host}");
            check(&closed, &[&line], at_closed);
            check(&named, &[&line], at_named);
            check(&open, &[&line], OK);
            check(&open_named, &[&line], at_open_named);
            let headers = HeaderMap::new();
            assert_eq!(closed.admit(Some(host), &headers), at_closed, "{host}");
        }
        check(&closed, &["host: localhost", "host: evil.test"], HOST);
        check(&closed, &["host: evil.test", "host: localhost"], HOST);
        // Without a host it is no browser, or it is refused.
        check(&closed, &[], OK);
        check(&closed, &["origin: http://localhost"], HOST);
        check(&closed, &["sec-fetch-site: none"], HOST);
    }

    #[test]
    fn no_page_of_another_site_gets_in() {
        let (closed, named) = (hosts(&[], false), hosts(&["app.test"], false));
        for (lines, at_closed, at_named) in [
            (&["origin: http://localhost:3000"][..], OK, OK),
            (&["origin: https://127.0.0.1"], OK, OK),
            (&["origin: tauri://localhost"], OK, OK),
            (&["origin: https://app.test:8443"], SITE, OK),
            (&["origin: https://evil.test"], SITE, SITE),
            (&["origin: https://app.test.evil.test"], SITE, SITE),
            (&["origin: chrome-extension://abc"], SITE, SITE),
            (&["origin: null"], SITE, SITE),
            (&["origin: localhost"], SITE, SITE),
            (&["origin: ://localhost"], SITE, SITE),
            (&["origin: 1://localhost"], SITE, SITE),
            (&["origin: http://localhost/"], SITE, SITE),
            (&["origin: http://me@localhost"], SITE, SITE),
            (&["origin: http://localhost http://evil.test"], SITE, SITE),
            (&["origin: "], SITE, SITE),
            (&["origin: http://localhost", "origin: https://evil.test"], SITE, SITE),
            (&["origin: https://evil.test", "origin: http://localhost"], SITE, SITE),
            // Another port is another site's, or none, but this machine's; what the page is says its origin.
            (&["origin: http://localhost:3000", "sec-fetch-site: cross-site"], OK, OK),
            (&["sec-fetch-site: cross-site"], SITE, SITE),
            (&["sec-fetch-site: Cross-Site;x"], SITE, SITE),
            (&["sec-fetch-site: none", "sec-fetch-site: cross-site"], SITE, SITE),
            (&["sec-fetch-site: same-site, cross-site"], SITE, SITE),
            (&["sec-fetch-site: same-site"], OK, OK),
            (&["sec-fetch-site: same-origin"], OK, OK),
            (&["sec-fetch-site: none"], OK, OK),
            (&["sec-fetch-site: cross-sites"], OK, OK),
        ] {
            let lines = [&["host: 127.0.0.1:8000"], lines].concat();
            check(&closed, &lines, at_closed);
            check(&named, &lines, at_named);
        }
    }

    #[test]
    fn where_all_are_let_in_a_page_of_the_host_asked_for_is_too() {
        let (open, open_named) = (hosts(&[], true), hosts(&["proxy.test"], true));
        for (origin, at_open, at_open_named) in [
            ("http://proxy.test:3000", OK, OK),
            ("http://localhost", OK, OK),
            ("http://evil.test", SITE, SITE),
            ("null", SITE, SITE),
        ] {
            let origin = format!("origin: {origin}");
            check(&open, &["host: Proxy.test:8000", &origin], at_open);
            check(&open_named, &["host: proxy.test:8000", &origin], at_open_named);
        }
        check(&open, &["host: other.test", "origin: http://proxy.test"], SITE);
        check(&open, &["host: proxy.test", "sec-fetch-site: cross-site"], SITE);
        check(&open, &["host: proxy.test", "sec-fetch-site: same-site"], SITE);
        check(&open, &["host: proxy.test", "sec-fetch-site: same-origin"], OK);
        check(&hosts(&[], false), &["host: evil.test", "origin: http://evil.test"], HOST);
    }

    #[test]
    fn a_host_is_the_same_with_any_port_and_however_it_is_written() {
        for (name, authority, expected) in [
            ("shop.test", "shop.test", true),
            ("shop.test", "Shop.TEST.:8000", true),
            ("Shop.test.", "shop.test:", true),
            ("shop.test", "a.shop.test", false),
            ("shop.test", "shop.test.evil.test", false),
            ("shop.test", "shop.test..", false),
            ("shop.test", "me@shop.test", false),
            ("shop.test", "shop.test:x", false),
            ("shop.test", "", false),
            ("127.0.0.2", "127.0.0.2:1", true),
            ("127.0.0.2", "127.0.0.2.", true),
            ("127.0.0.2", "127.0.0.20", false),
            ("127.0.0.2", "[::ffff:127.0.0.2]", false),
            ("::1", "[0::1]:8000", true),
            ("::1", "[::2]", false),
            ("shop.test", "[::1]", false),
            ("::1", "shop.test", false),
        ] {
            let host = HostName::parse(name).unwrap();
            let asked = AskedHost::of(authority.as_bytes());
            assert_eq!(asked.is_some_and(|asked| host.is(asked)), expected, "{name} and {authority}");
            // As the door that admits it reads it.
            assert_eq!(HostName::of(authority.as_bytes()) == Some(host), expected, "{name} and {authority}");
        }
    }

    #[test]
    fn a_configured_host_is_a_name_or_an_address() {
        for (text, expected) in [
            ("Proxy.Test.", Some(HostName::Name("proxy.test".to_owned()))),
            ("my_host-1", Some(HostName::Name("my_host-1".to_owned()))),
            ("10.0.0.1", Some(HostName::Ip([10, 0, 0, 1].into()))),
            ("::1", Some(HostName::Ip("::1".parse().unwrap()))),
            ("[::1]", Some(HostName::Ip("::1".parse().unwrap()))),
            ("proxy.test:8000", None),
            ("proxy.test:", None),
            ("[::1]:80", None),
            ("*.test", None),
            ("http://proxy.test", None),
            ("a..test", None),
            (".", None),
            ("", None),
            ("a b", None),
            ("ü.test", None),
        ] {
            assert_eq!(HostName::parse(text), expected, "{text}");
        }
    }
}
