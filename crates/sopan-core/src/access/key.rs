//! Where is a key in a request, and how is it taken off?
//!
//! A key is known by its SHA-256 alone. Keys are long and come from chance, so that a fast digest is as good as a slow one,
//! and digests are compared in a time that does not depend on where they differ. A key that let a request in is nobody's
//! business behind this hop, so all that holds it goes, in whatever field it stands.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};

use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHORIZATION};
use memchr::memmem;
use subtle::ConstantTimeEq as _;

/// So many texts of one request are looked at, where a key could be, at most: each is a guess.
pub const KEYS_MAX: usize = 4;

/// So many parts of a target are looked at, where a key could be, at most.
const PIECES_MAX: usize = 32;
/// No shorter text is a key, whatever its digest: it could be guessed, and found in much that is no secret.
pub const KEY_BYTES_MIN: usize = 16;

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The SHA-256 of a key. Compared in constant time; what it is is not shown.
#[derive(Clone, Copy)]
pub struct KeyDigest([u8; 32]);

impl KeyDigest {
    /// A digest as it is computed.
    pub fn new(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// A digest in 64 hexadecimal digits; none for anything else.
    pub fn read(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let mut digest = [0; 32];
        for (byte, at) in digest.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
        }
        Some(Self(digest))
    }

    /// Its beginning, to tell apart keys that are wrong.
    pub(super) fn begin(&self) -> u64 {
        let mut begin = [0; 8];
        begin.copy_from_slice(&self.0[..8]);
        u64::from_be_bytes(begin)
    }
}

impl PartialEq for KeyDigest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for KeyDigest {}

impl Hash for KeyDigest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0);
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyDigest(…)")
    }
}

/// The fields in which a key may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyFields {
    /// `Authorization: Bearer KEY`.
    pub authorization: bool,
    /// `Proxy-Authorization: Bearer KEY`.
    pub proxy_authorization: bool,
    /// `X-Api-Key: KEY`.
    pub x_api_key: bool,
}

impl KeyFields {
    /// All of them.
    pub const ALL: Self = Self { authorization: true, proxy_authorization: true, x_api_key: true };
    /// None.
    pub const NONE: Self = Self { authorization: false, proxy_authorization: false, x_api_key: false };

    /// All texts of a request that may be keys, in the fields that are looked at.
    pub fn texts(self, headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
        let lines = move |name: HeaderName, is_looked_at: bool| {
            is_looked_at.then(|| headers.get_all(name).iter()).into_iter().flatten().map(HeaderValue::as_bytes)
        };
        let bearers = lines(AUTHORIZATION, self.authorization)
            .chain(lines(PROXY_AUTHORIZATION, self.proxy_authorization))
            .filter_map(|value| of_scheme(value, b"bearer"));
        bearers.chain(lines(X_API_KEY, self.x_api_key).map(<[u8]>::trim_ascii))
    }
}

impl fmt::Display for KeyFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (self.authorization, "Authorization: Bearer KEY"),
            (self.proxy_authorization, "Proxy-Authorization: Bearer KEY"),
            (self.x_api_key, "X-Api-Key: KEY"),
        ];
        let looked_at: Vec<_> =
            all.into_iter().filter_map(|(is_looked_at, text)| is_looked_at.then_some(text)).collect();
        match &looked_at[..] {
            [before @ .., last] if !before.is_empty() => write!(f, "{} or {last}", before.join(", ")),
            one => f.write_str(&one.concat()),
        }
    }
}

/// What follows the name of a scheme (RFC 9110 §11.4), if it is this one.
fn of_scheme<'v>(value: &'v [u8], scheme: &[u8]) -> Option<&'v [u8]> {
    let (name, rest) = value.trim_ascii_start().split_at_checked(scheme.len())?;
    let is_it = name.eq_ignore_ascii_case(scheme) && rest.first().is_none_or(u8::is_ascii_whitespace);
    is_it.then(|| rest.trim_ascii())
}

/// Takes off every line of every field that holds one of these keys.
pub fn strip(headers: &mut HeaderMap, keys: &[impl AsRef<[u8]>]) {
    for key in keys {
        let finder = memmem::Finder::new(key.as_ref());
        let lines = headers.iter().filter(|(_, value)| has(&finder, value.as_bytes()));
        let mut names: Vec<_> = lines.map(|(name, _)| name.clone()).collect();
        names.dedup();
        for name in names {
            let others = headers.get_all(&name).iter().filter(|value| !has(&finder, value.as_bytes()));
            let others: Vec<_> = others.cloned().collect();
            headers.remove(&name);
            for value in others {
                headers.append(name.clone(), value);
            }
        }
    }
}

/// Whether a text holds a key: as it is, percent-encoded, or in the base64 of `Basic`.
pub fn holds(text: &[u8], key: &[u8]) -> bool {
    has(&memmem::Finder::new(key), text)
}

fn has(key: &memmem::Finder<'_>, text: &[u8]) -> bool {
    // In no form it takes less room; and an empty one would be everywhere.
    if key.needle().is_empty() || text.len() < key.needle().len() {
        return false;
    }
    let is_in = |text: &[u8]| key.find(text).is_some();
    is_in(text)
        || matches!(percent_decoded(text), Cow::Owned(decoded) if is_in(&decoded))
        || of_scheme(text, b"basic").is_some_and(|credentials| is_in(&base64_decoded(credentials)))
}

/// The parts of a target that may be keys, as they were before they were percent-encoded: segments of its path, names and
/// values of its query.
pub fn pieces(target: &str) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let parts = target.split(['/', '?', '&', '=', ';', ',', '#']).filter(|part| part.len() >= KEY_BYTES_MIN);
    parts.take(PIECES_MAX).map(|part| percent_decoded(part.as_bytes()))
}

/// A text without its percent-encoding; as it is where there is none.
fn percent_decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'%', text).is_none() {
        return Cow::Borrowed(text);
    }
    let (mut decoded, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = text.get(at) {
        let digits =
            text.get(at + 1..at + 3).filter(|_| byte == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(encoded) => {
                decoded.push(encoded);
                at += 3;
            }
            None => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    Cow::Owned(decoded)
}

/// What base64 stands for, of either alphabet, as far as it is base64.
fn base64_decoded(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => break,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            decoded.push((bits >> count) as u8);
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sopan_q83vEjRWeJASNFZ4kBI0VniQEjRWeJASNFZ4kBI0Vng";

    fn headers(lines: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in lines {
            let (name, value) = line.split_once(": ").unwrap();
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_digest_is_read_compared_and_never_shown() {
        let text = "00ff".repeat(16);
        let digest = KeyDigest::read(&text).unwrap();
        assert_eq!(KeyDigest::read(&text.to_uppercase()), Some(digest));
        assert_eq!(
            (digest, digest.begin()),
            (KeyDigest::new([0, 255].repeat(16).try_into().unwrap()), 0x00ff_00ff_00ff_00ff)
        );
        assert_eq!(format!("{digest:?}"), "KeyDigest(…)");
        for at in 0..32 {
            let mut other = digest.0;
            other[at] ^= 1;
            assert_ne!(digest, KeyDigest(other));
        }
        for wrong in ["", "00", KEY, &text[1..], &format!("{text}0"), &text.replace("ff", "fg"), &"é".repeat(32)] {
            assert_eq!(KeyDigest::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn keys_are_where_they_are_looked_for() {
        let (none, all) = (KeyFields::NONE, KeyFields::ALL);
        for (fields, lines, expected) in [
            (all, &["authorization: Bearer a"][..], &["a"][..]),
            (all, &["authorization: bEaReR   a  "], &["a"]),
            (all, &["proxy-authorization: Bearer a"], &["a"]),
            (all, &["x-api-key:  a "], &["a"]),
            (all, &["x-api-key: a b"], &["a b"]),
            (
                all,
                &["x-api-key: a", "authorization: Bearer b", "authorization: Bearer c", "x-api-key: d"],
                &["b", "c", "a", "d"],
            ),
            (
                all,
                &["authorization: Basic a", "authorization: Bearera", "authorization: a", "api-key: a", "cookie: a"],
                &[],
            ),
            // Nothing is a text too, and nobody's.
            (all, &["authorization: Bearer"], &[""]),
            (KeyFields { x_api_key: true, ..none }, &["authorization: Bearer a", "x-api-key: b"], &["b"]),
            (KeyFields { authorization: true, ..none }, &["proxy-authorization: Bearer a", "x-api-key: b"], &[]),
            (KeyFields { proxy_authorization: true, ..none }, &["proxy-authorization: Bearer a"], &["a"]),
        ] {
            let headers = headers(lines);
            let texts: Vec<_> = fields.texts(&headers).map(|text| std::str::from_utf8(text).unwrap()).collect();
            assert_eq!(texts, expected, "{lines:?}");
        }
    }

    #[test]
    fn how_a_key_is_sent_is_told() {
        let none = KeyFields::NONE;
        for (fields, expected) in [
            (KeyFields::ALL, "Authorization: Bearer KEY, Proxy-Authorization: Bearer KEY or X-Api-Key: KEY"),
            (KeyFields { proxy_authorization: false, ..KeyFields::ALL }, "Authorization: Bearer KEY or X-Api-Key: KEY"),
            (KeyFields { x_api_key: true, ..none }, "X-Api-Key: KEY"),
        ] {
            assert_eq!(fields.to_string(), expected);
        }
    }

    #[test]
    fn every_line_that_holds_a_key_is_taken_off_and_no_other() {
        let bearer = format!("authorization: Bearer {KEY}");
        let (own, cookie) = (format!("x-api-key: {KEY}"), format!("cookie: a=b; k={KEY}"));
        let encoded = format!("referer: http://app.test/?k={}", KEY.replace('_', "%5F").replace('q', "%71"));
        // `:KEY`, `me:KEY` and `KEY:` in base64.
        let basic = "authorization: Basic OnNvcGFuX3E4M3ZFalJXZUpBU05GWjRrQkkwVm5pUUVqUldlSkFTTkZaNGtCSTBWbmc=";
        let basic_of = "authorization: basic bWU6c29wYW5fcTgzdkVqUldlSkFTTkZaNGtCSTBWbmlRRWpSV2VKQVNORlo0a0JJMFZuZw==";
        let basic_user = "x: Basic c29wYW5fcTgzdkVqUldlSkFTTkZaNGtCSTBWbmlRRWpSV2VKQVNORlo0a0JJMFZuZzo=";
        for gone in [&*bearer, &own, &cookie, &encoded, basic, basic_of, basic_user] {
            let kept = ["authorization: Basic bWU6cHc=", "accept: */*", "cookie: a=b", "x: 100%", "x-api-key: vendor"];
            let mut found = headers(&[&[gone][..], &kept, &[gone]].concat());
            strip(&mut found, &[KEY]);
            assert_eq!(found, headers(&kept), "{gone}");
        }
        let mut found = headers(&[&bearer, "x-api-key: second-key"]);
        strip(&mut found, &[KEY, "second-key"]);
        assert!(found.is_empty(), "{found:?}");
        let mut found = headers(&["accept: */*"]);
        strip(&mut found, &[""]);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn a_target_is_looked_through_in_parts() {
        let long = "0123456789abcdef";
        for (target, expected) in [
            ("/api/v1/orders?page=2", &[][..]),
            ("/0123456789abcdef/x?k=0123456789abcdef&0123456789abcdef", &[long, long, long]),
            ("/x?k=0123456789abcde%66", &[long]),
            ("/x;0123456789abcdef,y#0123456789abcdef", &[long, long]),
        ] {
            let found: Vec<_> = pieces(target).map(|piece| String::from_utf8(piece.into_owned()).unwrap()).collect();
            assert_eq!(found, expected, "{target}");
        }
        assert_eq!(pieces(&format!("/{long}").repeat(100)).count(), PIECES_MAX);
        for (text, expected) in
            [(KEY, true), ("%73opan_q83vEjRWeJASNFZ4kBI0VniQEjRWeJASNFZ4kBI0Vng", true), ("sopan_", false)]
        {
            assert_eq!(holds(format!("/x?k={text}&page=2").as_bytes(), KEY.as_bytes()), expected, "{text}");
        }
    }
}
