//! By what are answers found?
//!
//! By the upstream and the target, byte for byte as the client sent it. Two spellings of one target are two keys: which of
//! them an upstream takes for the same is its own affair. Under one name there may be another API after a restart, or the
//! same behind another path, so where an upstream leads ([`Place`]) is part of the key as well. The hash is made once and
//! keyed by chance, since clients choose targets.

use std::borrow::Cow;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher as _, Hash, Hasher};
use std::sync::{Arc, LazyLock};

use quick_cache::Equivalent;
use sha2::{Digest as _, Sha256};
use sopan_core::headers::{has_secret_parameter, redact_url};

/// Between the upstream's name, the target and where that leads. Neither of the first two can have it: a target has no
/// control characters, and a name from outside with one would only share its entries with another such.
const SEPARATOR: u8 = 0;

/// Where the targets of an upstream lead: a digest of its URL and of what is taken off before that, the same in every
/// process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place([u8; PLACE_BYTES]);

const PLACE_BYTES: usize = 8;

impl Place {
    pub(crate) fn new(url: &str, mount: &str) -> Self {
        // Neither has a space.
        let digest = Sha256::digest(format!("{url} {mount}"));
        let mut place = [0; 8];
        place.copy_from_slice(&digest[..8]);
        Self(place)
    }
}

/// An upstream's name, a target, and where that leads.
#[derive(Clone)]
pub(crate) struct Key {
    hash: u64,
    bytes: Arc<[u8]>,
}

/// A key that is only looked for, and takes nothing from the heap unless it is long.
pub(crate) struct Sought {
    hash: u64,
    bytes: Written,
}

enum Written {
    Short([u8; SHORT_MAX], usize),
    Long(Vec<u8>),
}

/// Most targets are shorter than this, with the name of their upstream.
const SHORT_MAX: usize = 192;

impl Sought {
    pub(crate) fn new(upstream: &str, Place(place): Place, target: &str) -> Self {
        let parts = [upstream.as_bytes(), &[SEPARATOR], target.as_bytes(), &[SEPARATOR], &place];
        let length = parts.iter().map(|part| part.len()).sum();
        let bytes = if length <= SHORT_MAX {
            let mut short = [0; SHORT_MAX];
            let mut at = 0;
            for part in parts {
                short[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
            Written::Short(short, length)
        } else {
            Written::Long(parts.concat())
        };
        Self { hash: hash(bytes.as_ref()), bytes }
    }

    /// The key to keep.
    pub(crate) fn key(&self) -> Key {
        Key { hash: self.hash, bytes: self.bytes.as_ref().into() }
    }
}

impl Written {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Short(bytes, length) => &bytes[..*length],
            Self::Long(bytes) => bytes,
        }
    }
}

impl Hash for Sought {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Equivalent<Key> for Sought {
    fn equivalent(&self, key: &Key) -> bool {
        self.hash == key.hash && *self.bytes.as_ref() == *key.bytes
    }
}

fn hash(bytes: &[u8]) -> u64 {
    static BY_CHANCE: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let mut hasher = BY_CHANCE.build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

impl Key {
    pub(crate) fn new(upstream: &str, place: Place, target: &str) -> Self {
        Sought::new(upstream, place, target).key()
    }

    /// One that was written as [`as_bytes`](Self::as_bytes).
    pub(super) fn from_bytes(bytes: Arc<[u8]>) -> Self {
        Self { hash: hash(&bytes), bytes }
    }

    /// Whether its target may stand in a file, so that it outlives the process: none in which there may be a secret.
    pub(super) fn may_be_written(&self) -> bool {
        let target = self.bytes.split(|byte| *byte == SEPARATOR).nth(1).unwrap_or_default();
        std::str::from_utf8(target).is_ok_and(|target| !has_secret_parameter(target))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it is one of the upstream with this name, which leads there.
    pub(super) fn belongs_to(&self, upstream: &str, Place(place): Place) -> bool {
        let name = self.bytes.strip_prefix(upstream.as_bytes());
        name.is_some_and(|rest| rest.first() == Some(&SEPARATOR)) && self.bytes.ends_with(&place)
    }

    /// The target as clients send it.
    pub(super) fn target(&self) -> Cow<'_, str> {
        let beyond_name = self.bytes.iter().position(|byte| *byte == SEPARATOR).map_or(0, |at| at + 1);
        let end = self.bytes.len().saturating_sub(PLACE_BYTES + 1).max(beyond_name);
        String::from_utf8_lossy(&self.bytes[beyond_name..end])
    }

    /// The same for equal keys in one process, and in no other.
    pub(super) fn digest(&self) -> u64 {
        self.hash
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.bytes == other.bytes
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = self.bytes.splitn(3, |byte| *byte == SEPARATOR).map(String::from_utf8_lossy);
        let (upstream, target) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        write!(f, "Key({upstream} {})", redact_url(&target))
    }
}

/// Which keys a purge is about.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Scope {
    /// Those of an upstream for this target, wherever that leads.
    Url { upstream: String, target: String },
    /// Those of an upstream whose path begins with this one, in whole segments.
    Below { upstream: String, path: String },
    /// All.
    All,
}

/// Shows no secret of a query.
impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url { upstream, target } => write!(f, "Url({upstream} {})", redact_url(target)),
            Self::Below { upstream, path } => write!(f, "Below({upstream} {path})"),
            Self::All => f.write_str("All"),
        }
    }
}

impl Scope {
    /// Whether a key with these bytes is one of them.
    pub(super) fn holds(&self, key: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Url { .. } => key.starts_with(&self.beginning()),
            Self::Below { path, .. } => {
                let Some(rest) = key.strip_prefix(&self.beginning()[..]) else { return false };
                let ends = |next: &u8| [b'/', b'?', SEPARATOR].contains(next);
                path.is_empty() || path.ends_with('/') || rest.first().is_none_or(ends)
            }
        }
    }

    /// With what the bytes of all these keys begin.
    pub(super) fn beginning(&self) -> Vec<u8> {
        match self {
            Self::All => Vec::new(),
            Self::Url { upstream, target } => {
                [upstream.as_bytes(), &[SEPARATOR], target.as_bytes(), &[SEPARATOR]].concat()
            }
            Self::Below { upstream, path } => [upstream.as_bytes(), &[SEPARATOR], path.as_bytes()].concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(upstream: &str, target: &str) -> Key {
        Key::new(upstream, Place::new("https://api.test", ""), target)
    }

    #[test]
    fn another_api_under_the_same_name_has_keys_of_its_own() {
        let places =
            [("https://a.test", ""), ("https://b.test", ""), ("https://a.test/v2", ""), ("https://a.test", "/v2")];
        let keys = places.map(|(url, mount)| Key::new("default", Place::new(url, mount), "/v2/orders"));
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[..at].contains(key), "{:?}", places[at]);
            for (target, expected) in [("/v2/orders", true), ("/v2/order", false), ("/v2/orders?", false)] {
                let scope = Scope::Url { upstream: "default".to_owned(), target: target.to_owned() };
                assert_eq!(scope.holds(key.as_bytes()), expected, "{target}");
            }
        }
    }

    #[test]
    fn a_purge_goes_by_whole_segments_and_takes_any_query() {
        for (path, target, expected) in [
            ("/v1", "/v1", true),
            ("/v1", "/v1/orders?page=2", true),
            ("/v1", "/v1?key=abc", true),
            ("/v1", "/v10", false),
            ("/v1", "/v", false),
            ("/v1", "/V1", false),
            ("/v1/", "/v1/orders", true),
            ("/v1/", "/v1", false),
            ("/", "/anything", true),
            ("", "/anything", true),
        ] {
            let scope = Scope::Below { upstream: "shop".to_owned(), path: path.to_owned() };
            assert_eq!(scope.holds(key("shop", target).as_bytes()), expected, "{path} {target}");
            assert!(!scope.holds(key("shop2", target).as_bytes()), "{path} {target}");
        }
        assert!(Scope::All.holds(key("shop", "/x").as_bytes()));
    }

    #[test]
    fn a_key_is_found_without_being_made() {
        let place = Place::new("https://api.test", "");
        let long = format!("/{}", "x".repeat(SHORT_MAX));
        let targets = ["/", "/v1", "/v1?key=abc", &long[..SHORT_MAX - 14], &long[..SHORT_MAX - 13], &long];
        for (upstream, target) in ["", "shop", "a-name-of-more-than-eight"].iter().flat_map(|u| targets.map(|t| (u, t)))
        {
            let (sought, key) = (Sought::new(upstream, place, target), Key::new(upstream, place, target));
            assert!(sought.equivalent(&key) && sought.key() == key, "{upstream} {target}");
            // As it is read from a disk.
            assert_eq!(Key::from_bytes(key.as_bytes().into()), key);
            for (upstream, target) in [("other", target), (upstream, "/other"), (upstream, &target[1..])] {
                assert!(!Sought::new(upstream, place, target).equivalent(&key), "{upstream} {target}");
            }
        }
    }

    #[test]
    fn a_key_shows_no_secret_of_its_target() {
        assert_eq!(format!("{:?}", key("shop", "/v1?key=abc")), "Key(shop /v1?key=…)");
        let scope = Scope::Url { upstream: "shop".to_owned(), target: "/v1?key=abc".to_owned() };
        assert_eq!(format!("{scope:?}"), "Url(shop /v1?key=…)");
    }
}
