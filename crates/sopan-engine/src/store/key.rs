//! By what are answers found?
//!
//! By the upstream and the target, byte for byte as the client sent it. Two spellings of one target are two keys: which of
//! them an upstream takes for the same is its own affair. The hash is made once and keyed by chance, since clients choose
//! targets.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher as _, BuildHasherDefault, Hash, Hasher};
use std::sync::{Arc, LazyLock};

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

impl Key {
    pub(crate) fn new(upstream: &str, target: &str) -> Self {
        Self::from_bytes([upstream.as_bytes(), &[SEPARATOR], target.as_bytes()].concat().into())
    }

    /// One that was written as [`as_bytes`](Self::as_bytes).
    pub(super) fn from_bytes(bytes: Arc<[u8]>) -> Self {
        static BY_CHANCE: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self { hash: BY_CHANCE.hash_one(&bytes[..]), bytes }
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

/// Takes the hash of a [`Key`] as it is.
#[derive(Debug, Default)]
pub(crate) struct AsIs(u64);

/// A map by [`Key`].
pub(crate) type ByKey = BuildHasherDefault<AsIs>;

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("a key writes its hash and nothing else");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
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
    pub(super) fn holds(&self, key: &Key) -> bool {
        match self {
            Self::All => true,
            Self::Below { path, .. } => {
                let Some(target) = key.as_bytes().strip_prefix(&self.beginning()[..]) else { return false };
                path.ends_with('/') || target.is_empty() || matches!(target[0], b'/' | b'?')
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
            assert_eq!(scope.holds(&Key::new("shop", target)), expected, "{path} {target}");
            assert!(!scope.holds(&Key::new("shop2", target)), "{path} {target}");
        }
        assert!(Scope::All.holds(&Key::new("shop", "/x")));
    }

    #[test]
    fn a_key_shows_no_secret_of_its_target() {
        assert_eq!(format!("{:?}", Key::new("shop", "/v1?key=abc")), "Key(shop /v1?key=…)");
    }
}
