//! Where does a link lead that the upstream gives?
//!
//! To the upstream itself, most often: page 2, what was just created, where it has moved. Followed as it stands such a link
//! would go past the proxy, its limits and its line. So `Location`, `Content-Location` (RFC 9110) and the targets of
//! `Link` (RFC 8288) that point to the upstream's own origin are made to point to where the client asked.
//!
//! A client resolves a reference against the address that it asked, where the upstream's prefix is missing, and where the
//! proxy's mount stands instead if it has one. So where there is either, `/v2/x` becomes `/x` or `/shop/x`, and what is
//! outside of the prefix, and cannot be reached through the proxy, is written out as a URL of the upstream. So is what would
//! lead to another upstream behind the same proxy, whatever the client would do to the path on its way: it would send there
//! what was meant for this one, perhaps with a key. All else stays as it is to the byte: relative references, which mean the same on both sides (but where one climbs out of the prefix: it
//! would take the whole address asked to see that), other origins, what cannot be read.

use std::collections::BTreeSet;

use http::header::{CONTENT_LOCATION, HeaderMap, HeaderName, HeaderValue, LINK, LOCATION};

use super::authority::{Authority, Host};

/// Whose links are rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin<'a> {
    /// `http` or `https`.
    pub scheme: &'a str,
    /// Its name or address, without brackets.
    pub host: &'a str,
    /// Its port, given or by the scheme.
    pub port: u16,
    /// What is in front of every path there, such as `/v2`; empty at the root.
    pub prefix: &'a str,
    /// What the client has in front of every path instead, such as `/shop`; empty where that is nothing.
    pub mount: &'a str,
    /// What beneath that leads to other upstreams, if anything does.
    pub elsewhere: Option<&'a Elsewhere>,
}

/// Paths that lead to other upstreams, such as `/shop/eu`, and all beneath them. However many there are, a link is looked up
/// in no more steps than the deepest of them has segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    taken: BTreeSet<Vec<Vec<u8>>>,
    deepest: usize,
}

impl Elsewhere {
    /// `paths` as clients write them; none where there are none.
    pub fn new(paths: &[String]) -> Option<Self> {
        let taken: BTreeSet<_> = paths.iter().map(|path| as_followed(path.as_bytes())).collect();
        let deepest = taken.iter().map(Vec::len).max()?;
        Some(Self { taken, deepest })
    }

    /// Whether a client that follows this path comes there.
    fn takes(&self, path: &[u8]) -> bool {
        let path = as_followed(path);
        (0..=self.deepest.min(path.len())).any(|depth| self.taken.contains(&path[..depth]))
    }
}

/// Rewrites the links of an answer that point to `origin`, for a client that knows the proxy by `authority`, over plain
/// HTTP. Lines keep their order.
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use sopan_core::headers::{Origin, rewrite_links};
///
/// let at = "api.example.com";
/// let origin = Origin { scheme: "https", host: at, port: 443, prefix: "/v2", mount: "", elsewhere: None };
/// let mut headers = HeaderMap::new();
/// headers.insert("location", HeaderValue::from_static("https://api.example.com/v2/orders?page=2"));
/// rewrite_links(&mut headers, &origin, "127.0.0.1:8000");
/// assert_eq!(headers["location"], "http://127.0.0.1:8000/orders?page=2");
/// ```
pub fn rewrite_links(headers: &mut HeaderMap, origin: &Origin<'_>, authority: &str) {
    let rewriter = Rewriter { origin, authority };
    each_reference(headers, |reference| rewriter.reference(reference));
}

/// Replaces the references in all links of an answer; `replace` says by what, or none where one stays as it is. A line of
/// `Link` stays as a whole where any of it cannot be read.
pub(super) fn each_reference(headers: &mut HeaderMap, replace: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    for (name, value) in headers.iter_mut().filter(|(name, _)| is_link(name)) {
        let replaced = match *name {
            LINK => in_line(value.as_bytes(), &replace),
            _ => replace(value.as_bytes()),
        };
        if let Some(Ok(replaced)) = replaced.map(|bytes| HeaderValue::from_bytes(&bytes)) {
            *value = replaced;
        }
    }
}

/// Whether a field of an answer has links that may lead to where it comes from.
pub fn is_link(name: &HeaderName) -> bool {
    matches!(*name, LOCATION | CONTENT_LOCATION | LINK)
}

struct Rewriter<'a> {
    origin: &'a Origin<'a>,
    authority: &'a str,
}

/// How a reference is written (RFC 3986 §4.2), as far as that can be ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `https://host/path`
    Absolute,
    /// `//host/path`
    WithoutScheme,
    /// `/path`
    Path,
}

impl Origin<'_> {
    /// Whether a reference names another host or scheme than this one.
    pub(super) fn is_left_by(&self, reference: &[u8]) -> bool {
        let end = reference.iter().position(|byte| b":/?#".contains(byte)).unwrap_or(reference.len());
        let names_host = reference.starts_with(b"//") || reference[end..].starts_with(b":");
        names_host && self.ours(reference).is_none()
    }

    /// The form of a reference to the upstream, and what follows its authority; none for any other.
    fn ours<'r>(&self, reference: &'r [u8]) -> Option<(Form, &'r [u8])> {
        let (form, rest) = match reference {
            [b'/', b'/', rest @ ..] => (Form::WithoutScheme, rest),
            [b'/', ..] => return Some((Form::Path, reference)),
            _ => {
                let colon = reference.iter().position(|&byte| byte == b':')?;
                let (scheme, rest) = reference.split_at(colon);
                let rest = rest.strip_prefix(b"://")?;
                (Form::Absolute, scheme.eq_ignore_ascii_case(self.scheme.as_bytes()).then_some(rest)?)
            }
        };
        let end = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        self.is_at(Authority::parse(authority)?).then_some((form, path))
    }

    fn is_at(&self, authority: Authority<'_>) -> bool {
        let is_host = match authority.host {
            Host::V6(address) => self.host.parse() == Ok(address),
            Host::Named(name) => name.eq_ignore_ascii_case(self.host),
        };
        is_host && authority.port.unwrap_or(default_port(self.scheme)) == self.port
    }
}

impl Rewriter<'_> {
    /// What a reference becomes; none if it stays as it is.
    fn reference(&self, reference: &[u8]) -> Option<Vec<u8>> {
        let Origin { scheme, mount, .. } = self.origin;
        let (form, path) = self.origin.ours(reference)?;
        match (form, self.beneath(path)) {
            (Form::Path, Some(_)) if self.is_at_root() => None,
            // What begins with two slashes would be read as a host, also with a backslash or a tab between them and in
            // their place.
            (Form::Path, Some(rest)) if !mount.is_empty() || !matches!(rest, [b'/', b'/' | b'\\' | b'\t', ..]) => {
                Some(rooted(mount.as_bytes(), rest))
            }
            (_, Some(rest)) => Some(rooted(format!("http://{}{mount}", self.authority).as_bytes(), rest)),
            (Form::Absolute, None) => None,
            (Form::WithoutScheme, None) => Some([scheme.as_bytes(), b":", reference].concat()),
            (Form::Path, None) => Some(rooted(self.upstream().as_bytes(), path)),
        }
    }

    /// Whether paths are the same on both sides.
    fn is_at_root(&self) -> bool {
        self.origin.prefix.is_empty() && self.origin.mount.is_empty()
    }

    /// What of a path, with its query and fragment, comes after the prefix; none where it is not beneath it, or the client
    /// would come to another upstream. The prefix ends where a segment does, and a path that may climb out of it
    /// (`/v2/../x`), or out of what the client has in its place, is not beneath it.
    fn beneath<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let rest = path.strip_prefix(self.origin.prefix.as_bytes())?;
        let end = rest.iter().position(|byte| b"?#".contains(byte)).unwrap_or(rest.len());
        if self.leads_elsewhere(&rest[..end]) {
            return None;
        }
        if self.is_at_root() {
            return Some(rest);
        }
        let climbs = rest[..end].split(|byte| b"/\\".contains(byte)).any(is_parent);
        (matches!(rest, [] | [b'/' | b'?' | b'#', ..]) && !climbs).then_some(rest)
    }

    /// Whether a client that follows a path in place of the prefix comes to another upstream.
    fn leads_elsewhere(&self, rest: &[u8]) -> bool {
        let Origin { mount, elsewhere, .. } = *self.origin;
        elsewhere.is_some_and(|elsewhere| elsewhere.takes(&rooted(mount.as_bytes(), rest)))
    }

    /// The upstream's URL, without a path.
    fn upstream(&self) -> String {
        let Origin { scheme, host, port, .. } = *self.origin;
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let port = if port == default_port(scheme) { String::new() } else { format!(":{port}") };
        format!("{scheme}://{host}{port}")
    }
}

/// What a line of `Link` becomes; none if it stays as it is, which it does as a whole where any of it cannot be read.
fn in_line(line: &[u8], replace: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let (mut replaced, mut copied, mut at) = (Vec::new(), 0, 0);
    loop {
        // Members may be empty (RFC 9110 §5.6.1).
        at += line[at..].iter().take_while(|byte| b" \t,".contains(byte)).count();
        if at == line.len() {
            break;
        }
        let target = line[at..].strip_prefix(b"<")?;
        let target = &target[..target.iter().position(|&byte| byte == b'>')?];
        let (begin, end) = (at + 1, at + 1 + target.len());
        if let Some(reference) = replace(target) {
            replaced.extend_from_slice(&line[copied..begin]);
            replaced.extend_from_slice(&reference);
            copied = end;
        }
        at = end + 1 + parameters(&line[end + 1..])?;
    }
    replaced.extend_from_slice(&line[copied..]);
    (copied > 0).then_some(replaced)
}

/// How long the parameters of a link are, up to the comma behind them or the end; none if they cannot be read. What is
/// quoted may hold anything.
fn parameters(text: &[u8]) -> Option<usize> {
    let first = text.iter().find(|byte| !b" \t".contains(byte));
    if first.is_some_and(|byte| !b";,".contains(byte)) {
        return None;
    }
    let (mut is_quoted, mut at) = (false, 0);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\\' if is_quoted => at += 1,
            b',' if !is_quoted => return Some(at),
            _ => {}
        }
        at += 1;
    }
    (!is_quoted).then_some(text.len())
}

/// Whether a segment is `..`, also with its dots encoded or tabs in it, as browsers read it.
fn is_parent(segment: &[u8]) -> bool {
    if segment.contains(&b'\t') {
        return is_parent(&segment.iter().copied().filter(|byte| *byte != b'\t').collect::<Vec<_>>());
    }
    let dot = |text: &[u8]| match text {
        [b'.', ..] => 1,
        [b'%', b'2', b'e' | b'E', ..] => 3,
        _ => 0,
    };
    let first = dot(segment);
    let second = dot(&segment[first..]);
    first > 0 && second > 0 && first + second == segment.len()
}

/// The segments of a path after all that any client may do to it before it asks: dots resolved, what is encoded decoded,
/// backslashes for slashes, tabs left out. To see too much of a path in another one is harmless.
fn as_followed(path: &[u8]) -> Vec<Vec<u8>> {
    let plain = decoded(path.iter().copied().filter(|byte| *byte != b'\t'));
    let mut followed = Vec::new();
    for segment in plain.split(|byte| b"/\\".contains(byte)).skip(1) {
        match segment {
            b"." => {}
            b".." => drop(followed.pop()),
            segment => followed.push(segment.to_vec()),
        }
    }
    followed
}

/// With what is percent-encoded decoded; a sign that encodes nothing stays.
pub(super) fn decoded(mut bytes: impl Iterator<Item = u8> + Clone) -> Vec<u8> {
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
    let mut plain = Vec::with_capacity(bytes.size_hint().1.unwrap_or_default());
    while let Some(byte) = bytes.next() {
        let mut ahead = bytes.clone();
        if byte == b'%'
            && let (Some(high), Some(low)) = (digit(ahead.next()), digit(ahead.next()))
        {
            plain.push((high * 16 + low) as u8);
            bytes = ahead;
        } else {
            plain.push(byte);
        }
    }
    plain
}

/// Something and a path behind it, which begins with a slash.
fn rooted(before: &[u8], path: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if path.starts_with(b"/") { b"" } else { b"/" };
    [before, slash, path].concat()
}

fn default_port(scheme: &str) -> u16 {
    if scheme == "https" { 443 } else { 80 }
}

#[cfg(test)]
mod tests;
