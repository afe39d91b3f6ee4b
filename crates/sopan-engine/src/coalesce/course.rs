//! Which requests are equal?
//!
//! Those that may well be given the same answer: they ask for the same, by the same host and for the same owner, and nothing is
//! known to tell them apart. A digest says so, since few requests have more to compare than that.

use std::hash::{BuildHasher as _, Hash, Hasher, RandomState};

use http::header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE};
use http::{HeaderName, Method};
use sopan_core::cache::vary::Selecting;
use sopan_core::cache::{Asked, Marks, Owner, Send as Sent};
use sopan_core::headers::passes;

/// Fields by which requests for the same differ before any answer has said by what else (`Vary`).
const DISTINCTIVE: [HeaderName; 6] = [RANGE, IF_RANGE, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_MATCH, IF_UNMODIFIED_SINCE];

/// What requests have in common that are equal.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Course<K> {
    pub(super) key: K,
    /// A digest of it and of whatever else: who finds that two differ all the same goes on by itself.
    pub(super) digest: u64,
}

/// The digest is one that nobody can foresee, so maps need no other.
impl<K> Hash for Course<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.digest);
    }
}

/// A digest that begins with one which nobody can foresee, so that what is added to it may be mixed in quickly.
struct Digest(u64);

impl Digest {
    fn add(&mut self, number: u64) {
        // An odd number whose bits are as good as any.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let product = u128::from(self.0 ^ number) * u128::from(FACTOR);
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn add_bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut number = [0; 8];
            number[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(number));
        }
    }
}

/// A digest of the key and of what may choose another answer for it: whom it is for, what is asked of it.
pub(super) fn digest<K: Hash>(
    hasher: &RandomState,
    key: &K,
    asked: &Asked<'_>,
    told_apart: Option<&Selecting>,
    sent: &Sent,
) -> u64 {
    let mut digest = Digest(hasher.hash_one(key));
    // Lengths and kinds first, so that nothing is taken for something else.
    let kinds = u64::from(asked.owner.is_some()) << 1 | u64::from(asked.method == Method::HEAD);
    digest.add((asked.host.len() as u64) << 2 | kinds);
    digest.add_bytes(asked.host);
    if let Some(Owner(owner)) = &asked.owner {
        digest.add_bytes(owner);
    }
    // One that has come round must not wait for the answer to itself.
    let rounds = if asked.marks.has(Marks::VIA) { passes(asked.headers) } else { 0 };
    let is_of_many = rounds == 0 && told_apart.is_none();
    if !is_of_many || sent.ask.is_some() || asked.marks.has(Marks::DISTINCTIVE) {
        digest.add(particulars(hasher, asked, told_apart, sent));
        digest.add(rounds as u64);
    }
    digest.0
}

/// The same of what few requests have.
fn particulars(hasher: &RandomState, asked: &Asked<'_>, told_apart: Option<&Selecting>, sent: &Sent) -> u64 {
    let mut hasher = hasher.build_hasher();
    told_apart.map(|told_apart| &told_apart.fields).hash(&mut hasher);
    match &sent.ask {
        Some(ask) => {
            let missing = ask.missing.map(|span| (span.first, span.last));
            (&ask.conditions.none_match, &ask.conditions.modified_since, missing).hash(&mut hasher);
        }
        None => {
            for name in &DISTINCTIVE {
                let values = asked.headers.get_all(name);
                values.iter().for_each(|value| value.hash(&mut hasher));
                0xff_u8.hash(&mut hasher);
            }
        }
    }
    hasher.finish()
}
