//! By what are answers found?
//!
//! By the upstream and the target, byte for byte as the client sent it. Two spellings of one target are two keys: which of
//! them an upstream takes for the same is its own affair. The hash is made once and keyed by chance, since clients choose
//! targets.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher as _, Hash, Hasher};
use std::sync::{Arc, LazyLock};

use quick_cache::Equivalent;
use sopan_core::headers::redact_url;

/// Between the upstream's name and the target. Neither can have it: a target has no control characters, and a name from
/// outside with one would only share its entries with another such.
const SEPARATOR: u8 = 0;

/// An upstream's name and a target.
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
    pub(crate) fn new(upstream: &str, target: &str) -> Self {
        let (name, length) = (upstream.len(), upstream.len() + 1 + target.len());
        let bytes = if length <= SHORT_MAX {
            let mut short = [SEPARATOR; SHORT_MAX];
            short[..name].copy_from_slice(upstream.as_bytes());
            short[name + 1..length].copy_from_slice(target.as_bytes());
            Written::Short(short, length)
        } else {
            Written::Long([upstream.as_bytes(), &[SEPARATOR], target.as_bytes()].concat())
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
    pub(crate) fn new(upstream: &str, target: &str) -> Self {
        Sought::new(upstream, target).key()
    }

    /// One that was written as [`as_bytes`](Self::as_bytes).
    pub(super) fn from_bytes(bytes: Arc<[u8]>) -> Self {
        Self { hash: hash(&bytes), bytes }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
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
        let text = String::from_utf8_lossy(&self.bytes);
        let (upstream, target) = text.split_once(char::from(SEPARATOR)).unwrap_or(("", &text));
        write!(f, "Key({upstream} {})", redact_url(target))
    }
}

/// Which keys a purge is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Those of an upstream whose path begins with this one, in whole segments.
    Below { upstream: String, path: String },
    /// All.
    All,
}

impl Scope {
    /// Whether a key with these bytes is one of them.
    pub(super) fn holds(&self, key: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Below { path, .. } => {
                let Some(rest) = key.strip_prefix(&self.beginning()[..]) else { return false };
                path.is_empty() || path.ends_with('/') || rest.first().is_none_or(|next| b"/?".contains(next))
            }
        }
    }

    /// With what the bytes of all these keys begin.
    pub(super) fn beginning(&self) -> Vec<u8> {
        match self {
            Self::All => Vec::new(),
            Self::Below { upstream, path } => [upstream.as_bytes(), &[SEPARATOR], path.as_bytes()].concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(scope.holds(Key::new("shop", target).as_bytes()), expected, "{path} {target}");
            assert!(!scope.holds(Key::new("shop2", target).as_bytes()), "{path} {target}");
        }
        assert!(Scope::All.holds(Key::new("shop", "/x").as_bytes()));
    }

    #[test]
    fn a_key_is_found_without_being_made() {
        let long = format!("/{}", "x".repeat(SHORT_MAX));
        let targets = ["/", "/v1", "/v1?key=abc", &long[..SHORT_MAX - 5], &long[..SHORT_MAX - 4], &long];
        for (upstream, target) in ["", "shop", "a-name-of-more-than-eight"].iter().flat_map(|u| targets.map(|t| (u, t)))
        {
            let (sought, key) = (Sought::new(upstream, target), Key::new(upstream, target));
            assert!(sought.equivalent(&key) && sought.key() == key);
            // As it is read from a disk.
            assert_eq!(Key::from_bytes(key.as_bytes().into()), key);
            for (upstream, target) in [("other", target), (upstream, "/other"), (upstream, &target[1..])] {
                assert!(!Sought::new(upstream, target).equivalent(&key), "{upstream} {target}");
            }
        }
    }

    #[test]
    fn a_key_shows_no_secret_of_its_target() {
        assert_eq!(format!("{:?}", Key::new("shop", "/v1?key=abc")), "Key(shop /v1?key=…)");
    }
}
