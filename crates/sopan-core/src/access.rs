//! Whose is this request, and may it ask that?
//!
//! Where clients have keys, every request must have one, in a field that is looked at ([`KeyFields`]). The door knows of a key
//! only its digest ([`KeyDigest`]) and says which client each key of a request belongs to; [`who`] decides whose the request
//! is then, and [`Access::may`] whether that client may ask this. What cannot be told for certain is refused: a path that two
//! servers could read in two ways is no path that a client was given.
//!
//! How often somebody may guess is [`Guesses`]' business, and what a refusal says in words is the engine's.

mod guesses;
mod key;

use std::time::SystemTime;

use http::{HeaderMap, Method};

pub use guesses::{ADDRESSES_MAX, GUESSES_MAX, Guesses, WINDOW};
pub use key::{KEY_BYTES_MIN, KEYS_MAX, KeyDigest, KeyFields, holds, pieces, strip};

/// What a client may do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// The numbers of the upstreams that it may ask; none for all of them.
    pub upstreams: Option<Vec<usize>>,
    /// The methods that it may use; none for all of them.
    pub methods: Option<Vec<Method>>,
    /// Paths as they are sent, each with all that is below it, and without a slash at its end; none for all of them.
    pub paths: Option<Vec<String>>,
    /// From when on its keys are good for nothing; none for never.
    pub expires: Option<SystemTime>,
}

/// Why a request is not let in where clients have keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Barred {
    /// It has no key in any of these fields.
    NoKey(KeyFields),
    /// It has a key that nobody has.
    UnknownKey,
    /// Its client's time is over.
    Expired,
    /// It has keys of several clients, or more than [`KEYS_MAX`] texts that may be keys.
    SeveralKeys,
    /// A key stands in its target, where logs keep it.
    KeyInTarget,
    /// So many wrong keys have come from its address that none is looked at for a while.
    TooManyGuesses {
        /// In how many seconds the next one is.
        retry_after: u64,
    },
    /// Its client may not do that.
    NotAllowed(NotAllowed),
}

/// What a client may not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAllowed {
    /// Ask this upstream.
    Upstream,
    /// Use this method.
    Method,
    /// Ask for this path.
    Path,
    /// Ask for a path that can be read in several ways, since it is for some paths alone.
    UnclearPath,
    /// Name another method or path in a field, since it is for some methods or paths alone.
    Override,
}

/// Whose a request is with these keys, each of the client that has it, or of none. One that nobody has may stand beside one
/// that somebody has: it is the client's own, for the upstream.
///
/// # Errors
/// There is none, nobody has it, or several have them.
pub fn who(keys: &[Option<usize>], fields: KeyFields) -> Result<usize, Barred> {
    let mut known = keys.iter().flatten();
    match known.next() {
        None if keys.is_empty() => Err(Barred::NoKey(fields)),
        None => Err(Barred::UnknownKey),
        Some(client) if known.all(|other| other == client) => Ok(*client),
        Some(_) => Err(Barred::SeveralKeys),
    }
}

/// Fields by which some servers are told of another method, and those of another path.
const METHOD_OVERRIDES: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];
const PATH_OVERRIDES: [&str; 3] = ["x-original-url", "x-rewrite-url", "x-original-uri"];

impl Access {
    /// Whether its time is over.
    pub fn has_expired(&self, wall: SystemTime) -> bool {
        self.expires.is_some_and(|end| end <= wall)
    }

    /// Whether the client may ask this upstream for this.
    ///
    /// # Errors
    /// What of it is not allowed, the first that is not.
    pub fn may(&self, upstream: usize, method: &Method, path: &str, headers: &HeaderMap) -> Result<(), NotAllowed> {
        if self.upstreams.as_ref().is_some_and(|allowed| !allowed.contains(&upstream)) {
            return Err(NotAllowed::Upstream);
        }
        if let Some(allowed) = &self.methods {
            if !allowed.contains(method) {
                return Err(NotAllowed::Method);
            }
            if has_any(headers, &METHOD_OVERRIDES) {
                return Err(NotAllowed::Override);
            }
        }
        let Some(allowed) = &self.paths else { return Ok(()) };
        let begins = |prefix: &String| {
            path.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if is_unclear(path) {
            Err(NotAllowed::UnclearPath)
        } else if !allowed.iter().any(begins) {
            Err(NotAllowed::Path)
        } else if has_any(headers, &PATH_OVERRIDES) {
            Err(NotAllowed::Override)
        } else {
            Ok(())
        }
    }
}

/// Whether a field has one of these names; who hands fields on as variables takes `_` and `-` for the same.
fn has_any(headers: &HeaderMap, names: &[&str]) -> bool {
    let is_same = |a: &str, b: &str| {
        a.len() == b.len() && a.bytes().zip(b.bytes()).all(|(a, b)| a == b || (a, b) == (b'_', b'-'))
    };
    headers.keys().any(|name| names.iter().any(|other| is_same(name.as_str(), other)))
}

/// Whether a path may mean another one to who reads it in another way: by segments that climb, also with parameters behind
/// them (`/..;/`); by slashes of the other kind; by dots, slashes or percent signs that are encoded, also in more bytes than UTF-8
/// allows (`%c0%ae`, `%e0%80%ae`); or by a percent sign that encodes nothing.
pub fn is_unclear(path: &str) -> bool {
    let climbs = |segment: &str| {
        segment.starts_with("..")
            || segment.strip_prefix('.').is_some_and(|rest| rest.is_empty() || rest.starts_with([';', '%']))
    };
    // The first byte of a sequence says how long it is, and what could be said in a shorter one begins again below a bound.
    let hides = |(at, _): (usize, &str)| match encoded(path, at) {
        None | Some(b'.' | b'/' | b'\\' | b'%' | 0xc0 | 0xc1 | 0xf8..) => true,
        Some(0xe0) => matches!(encoded(path, at + 3), Some(0x80..0xa0)),
        Some(0xf0) => matches!(encoded(path, at + 3), Some(0x80..0x90)),
        Some(_) => false,
    };
    path.contains('\\') || path.split('/').any(climbs) || path.match_indices('%').any(hides)
}

/// The byte that is percent-encoded there, if one is.
fn encoded(path: &str, at: usize) -> Option<u8> {
    let [b'%', digits @ ..] = path.as_bytes().get(at..at + 3)? else { return None };
    // One that has a sign is no digit.
    let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn a_request_is_of_the_one_client_whose_keys_it_has() {
        const FIELDS: KeyFields = KeyFields::ALL;
        for (keys, expected) in [
            (&[][..], Err(Barred::NoKey(FIELDS))),
            (&[None], Err(Barred::UnknownKey)),
            (&[None, None], Err(Barred::UnknownKey)),
            (&[Some(3)], Ok(3)),
            (&[Some(3), Some(3)], Ok(3)),
            // The other one is for the upstream.
            (&[None, Some(3)], Ok(3)),
            (&[Some(3), None, Some(3)], Ok(3)),
            (&[Some(3), Some(4)], Err(Barred::SeveralKeys)),
            (&[Some(3), None, Some(4)], Err(Barred::SeveralKeys)),
        ] {
            assert_eq!(who(keys, FIELDS), expected, "{keys:?}");
        }
    }

    fn list(texts: &[&str]) -> Option<Vec<String>> {
        Some(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    #[track_caller]
    fn check(access: &Access, request: &str, expected: Result<(), NotAllowed>) {
        let mut words = request.split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let headers = words.map(|name| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_static("x"))).collect();
        let may = access.may(1, &method.parse().unwrap(), path, &headers);
        assert_eq!(may, expected, "{request} with {access:?}");
    }

    #[test]
    fn who_is_told_of_no_bounds_may_do_everything() {
        for request in ["GET /", "DELETE /a/../b%2f x-http-method", "OPTIONS *", "BREW /x x-original-url"] {
            check(&Access::default(), request, Ok(()));
        }
    }

    #[test]
    fn upstreams_and_methods_are_those_that_are_named() {
        for (upstreams, expected) in [
            (vec![1], Ok(())),
            (vec![0, 1], Ok(())),
            (vec![0], Err(NotAllowed::Upstream)),
            (vec![], Err(NotAllowed::Upstream)),
        ] {
            check(&Access { upstreams: Some(upstreams), ..Access::default() }, "GET /x", expected);
        }
        let reads = Access { methods: Some(vec![Method::GET, Method::POST]), ..Access::default() };
        for (request, expected) in [
            ("GET /x", Ok(())),
            ("POST /x", Ok(())),
            ("HEAD /x", Err(NotAllowed::Method)),
            ("DELETE /x", Err(NotAllowed::Method)),
            ("get /x", Err(NotAllowed::Method)),
            ("POST /x x-http-method-override", Err(NotAllowed::Override)),
            ("POST /x X_HTTP_Method", Err(NotAllowed::Override)),
            // It says nothing of paths.
            ("GET /x x-original-url", Ok(())),
        ] {
            check(&reads, request, expected);
        }
    }

    #[test]
    fn paths_are_whole_segments_and_cannot_be_left() {
        const NO: Result<(), NotAllowed> = Err(NotAllowed::Path);
        const UNCLEAR: Result<(), NotAllowed> = Err(NotAllowed::UnclearPath);
        let access = Access { paths: list(&["/shop/orders", "/mail"]), ..Access::default() };
        for (path, expected) in [
            ("/shop/orders", Ok(())),
            ("/shop/orders/", Ok(())),
            ("/shop/orders/7", Ok(())),
            ("/shop/orders//7", Ok(())),
            ("/mail/%C3%A9/.well-known/a.b", Ok(())),
            ("/shop/orders2", NO),
            ("/shop", NO),
            ("/", NO),
            ("*", NO),
            ("/Mail", NO),
            ("//mail", NO),
            ("/%6dail", NO),
            ("/mail/..", UNCLEAR),
            ("/mail/../shop", UNCLEAR),
            ("/mail/./x", UNCLEAR),
            ("/mail/..;a=b/x", UNCLEAR),
            ("/mail/..%3b/x", UNCLEAR),
            ("/mail/.;/x", UNCLEAR),
            ("/mail/%2e%2e/x", UNCLEAR),
            ("/mail/.%2E/x", UNCLEAR),
            ("/mail/%2f..%2fx", UNCLEAR),
            ("/mail/a%2Fb", UNCLEAR),
            ("/mail%2fx", UNCLEAR),
            ("/mail/a%5cb", UNCLEAR),
            ("/mail/a\\..\\b", UNCLEAR),
            ("/mail/%252e%252e/x", UNCLEAR),
            ("/mail/%c0%ae%c0%ae/x", UNCLEAR),
            ("/mail/%E0%80%AE%e0%80%ae/x", UNCLEAR),
            ("/mail/%f0%80%80%ae./x", UNCLEAR),
            ("/mail/%f8%80%80%80%ae./x", UNCLEAR),
            ("/mail/%e0%a4%95/%e2%82%ac/%F0%9F%98%80/%e9", Ok(())),
            ("/mail/%+e%+e/x", UNCLEAR),
            ("/mail/%u002e/x", UNCLEAR),
            ("/mail/100%", UNCLEAR),
            ("/mail/1%2", UNCLEAR),
        ] {
            check(&access, &format!("GET {path}"), expected);
        }
        check(&access, "GET /mail/x X-Rewrite-URL", Err(NotAllowed::Override));
        check(&access, "GET /mail/x x-http-method-override", Ok(()));
        // All paths, and none that is unclear.
        let all = Access { paths: list(&[""]), ..Access::default() };
        check(&all, "GET /x", Ok(()));
        check(&all, "GET /../x", UNCLEAR);
    }

    #[test]
    fn a_time_is_over_at_its_end() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let access = Access { expires: Some(at(100)), ..Access::default() };
        for (now, expected) in [(0, false), (99, false), (100, true), (101, true)] {
            assert_eq!((access.has_expired(at(now)), Access::default().has_expired(at(now))), (expected, false));
        }
    }
}
