//! By what do instances find what they have in common?
//!
//! By digests, which are the same in each of them: a name of an upstream, a URL or a host never becomes part of a key, in which
//! it might be read, be too long, or have a brace. All that belongs to one upstream has the same tag, so that a cluster keeps
//! it in one place, where one script can change it.

use std::fmt;

use sha2::{Digest as _, Sha256};
use sopan_core::cache::vary::Selecting;
use sopan_core::cache::{Owner, Stored};

use super::super::key::Key;

/// Which upstream: a digest of its name and its URL.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag(pub [u8; 8]);

impl Tag {
    /// That of an upstream with this name and this URL.
    pub fn of(name: &str, url: &str) -> Self {
        let mut tag = [0; 8];
        tag.copy_from_slice(&Sha256::digest(format!("{name}\0{url}"))[..8]);
        Self(tag)
    }

    /// The one that is written so.
    pub fn parse(text: &str) -> Option<Self> {
        let number = u64::from_str_radix(text, 16).ok().filter(|_| is_hexadecimal(text, 16));
        number.map(|number| Self(number.to_be_bytes()))
    }
}

/// In sixteen hexadecimal digits.
impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tag({self})")
    }
}

/// Which target of an upstream, or which course of requests for one: a digest of all that tells it from others.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name(pub [u8; 16]);

impl Name {
    /// That of what is found by this key.
    pub(super) fn of(key: &Key) -> Self {
        Self(digest([key.as_bytes()]))
    }

    /// That of the requests for this target, by one host and for one owner, that may wait for each other.
    pub(super) fn of_course(key: &Key, whose: Whose, told_apart: Option<&Selecting>) -> Self {
        let chosen = told_apart.map_or([0; 8], chosen);
        Self(digest([key.as_bytes(), &whose.0, &chosen]))
    }

    /// The one that is written so.
    pub fn parse(text: &str) -> Option<Self> {
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_hexadecimal(text, 32));
        number.map(|number| Self(number.to_be_bytes()))
    }
}

/// In 32 hexadecimal digits.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({self})")
    }
}

/// For whom an answer is: a digest of the host that was asked for, and of whose it is alone, if it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Whose(pub [u8; 8]);

impl Whose {
    pub(super) fn of(host: &[u8], owner: Option<Owner>) -> Self {
        let owner = owner.map(|Owner(owner)| owner);
        Self(digest([host, owner.as_ref().map_or(&[][..], |owner| owner)]))
    }
}

impl fmt::Debug for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Whose(…)")
    }
}

/// Which of the answers for one target: for whom, and by what it was chosen. A newer one of this slot takes the place of an
/// older one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot(pub [u8; 16]);

impl Slot {
    pub(in crate::store) fn of(stored: &Stored) -> Self {
        let mut slot = [0; 16];
        slot[..8].copy_from_slice(&Whose::of(&stored.host, stored.owner).0);
        slot[8..].copy_from_slice(&chosen(&stored.selecting));
        Self(slot)
    }

    /// For whom it is.
    pub fn whose(self) -> Whose {
        let mut whose = [0; 8];
        whose.copy_from_slice(&self.0[..8]);
        Whose(whose)
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slot(…)")
    }
}

fn is_hexadecimal(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn chosen(selecting: &Selecting) -> [u8; 8] {
    let fields = selecting.fields.iter();
    let parts = fields.flat_map(|(name, value)| {
        // One that is empty is not one that is missing.
        let is_there: &[u8] = if value.is_some() { b"1" } else { b"0" };
        [name.as_str().as_bytes(), is_there, value.as_deref().unwrap_or_default()]
    });
    digest(parts)
}

/// Of several parts, each with its length, lest the end of one be the beginning of the next.
fn digest<'a, const N: usize>(parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; N] {
    let mut sum = Sha256::new();
    for part in parts {
        sum.update((part.len() as u64).to_be_bytes());
        sum.update(part);
    }
    let mut digest = [0; N];
    digest.copy_from_slice(&sum.finalize()[..N]);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Place;

    #[test]
    fn names_are_the_same_in_every_process_and_can_be_read_back() {
        let tag = Tag::of("shop {eu}:1", "https://api.test/v2");
        assert_eq!((tag.to_string().len(), Tag::parse(&tag.to_string())), (16, Some(tag)));
        let name = Name::of(&Key::new("shop", Place::new("https://api.test", "/v2"), "/orders?key=abc"));
        assert_eq!((name.to_string().len(), Name::parse(&name.to_string())), (32, Some(name)));
        for text in ["", "0", "+123456789abcdef", "g123456789abcdef"] {
            assert_eq!(Tag::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_differs_has_another_name() {
        assert_ne!(Tag::of("ab", "c"), Tag::of("a", "bc"));
        let owner = Some(Owner([1; 16]));
        let all = [Whose::of(b"a", None), Whose::of(b"b", None), Whose::of(b"a", owner), Whose::of(b"", None)];
        for (at, whose) in all.iter().enumerate() {
            assert!(!all[..at].contains(whose), "{at}");
        }
    }
}
