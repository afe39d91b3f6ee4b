//! What is stored under one key?
//!
//! All answers for one target, for whatever host, owner and fields of a request: its variants, the latest stored last. An
//! [`Entry`] never changes, so whoever looks at one may take its time; a change makes another.

use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use sopan_core::cache::Stored;

/// A target has no more answers than this: the least recently stored go. Who looks for one looks at them all.
pub(super) const VARIANTS_MAX: usize = 128;
/// About what an answer takes beside its bytes, in maps and allocations; and a line of its head.
const VARIANT_BYTES: usize = 768;
const LINE_BYTES: usize = 112;

/// The answers for one key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) variants: Vec<Arc<Variant>>,
    /// Whether these are all that the disk has as well.
    pub(super) is_whole: bool,
    pub(super) weight: u64,
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Variant {
    /// By which it is told from all others, also from those before a restart.
    pub(crate) id: u64,
    pub(crate) stored: Stored,
    pub(crate) body: Body,
    weight: u64,
}

/// A body, or the part of it that is held.
#[derive(Clone)]
pub(crate) enum Body {
    Memory(Bytes),
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.len())
    }
}

impl Body {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }

    fn weight(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
        }
    }
}

impl Variant {
    pub(super) fn new(id: u64, mut stored: Stored, body: Body) -> Arc<Self> {
        stored.headers = compact(&stored.headers);
        let selecting: usize = stored.selecting.fields.iter().map(|(name, value)| field_weight(name, value)).sum();
        let lines: usize =
            stored.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + LINE_BYTES).sum();
        let weight = VARIANT_BYTES + stored.host.len() + selecting + lines + body.weight();
        Arc::new(Self { id, stored, body, weight: weight as u64 })
    }

    /// The same with another head.
    pub(super) fn with_head(&self, stored: Stored) -> Arc<Self> {
        Self::new(self.id, stored, self.body.clone())
    }

    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    /// Whether another answers the same requests, so that one of the two is enough.
    fn is_like(&self, other: &Self) -> bool {
        let (a, b) = (&self.stored, &other.stored);
        a.host == b.host && a.owner == b.owner && a.selecting == b.selecting
    }
}

fn field_weight(name: &HeaderName, value: &Option<Box<[u8]>>) -> usize {
    LINE_BYTES + name.as_str().len() + value.as_ref().map_or(0, |value| value.len())
}

/// The same fields in memory of their own: as they came they would keep alive the buffer that they were read into.
fn compact(fields: &HeaderMap) -> HeaderMap {
    let mut bytes = BytesMut::with_capacity(fields.values().map(HeaderValue::len).sum());
    fields.values().for_each(|value| bytes.extend_from_slice(value.as_bytes()));
    let mut bytes = bytes.freeze();
    let mut own = HeaderMap::with_capacity(fields.keys_len());
    for (name, value) in fields {
        let part = bytes.split_to(value.len());
        let mut copy = HeaderValue::from_maybe_shared(part).expect("it was a value before");
        copy.set_sensitive(value.is_sensitive());
        let name = HeaderName::from_bytes(name.as_str().as_bytes()).expect("it was a name before");
        own.append(name, copy);
    }
    own
}

impl Entry {
    /// One of these, the latest last.
    pub(super) fn of(variants: Vec<Arc<Variant>>, is_whole: bool) -> Self {
        let weight = variants.iter().map(|variant| variant.weight()).sum();
        Self { variants, is_whole, weight }
    }

    /// The same with one more, in place of those with these ids and of one like it. With the ids that went.
    pub(super) fn with(&self, new: &Arc<Variant>, replaces: &[u64]) -> (Self, Vec<u64>) {
        let goes = |old: &Arc<Variant>| replaces.contains(&old.id) || old.is_like(new);
        let (gone, mut kept): (Vec<_>, Vec<_>) = self.variants.iter().cloned().partition(goes);
        let too_many = (kept.len() + 1).saturating_sub(VARIANTS_MAX);
        let gone = gone.into_iter().chain(kept.drain(..too_many)).map(|variant| variant.id).collect();
        kept.push(Arc::clone(new));
        (Self::of(kept, self.is_whole), gone)
    }

    /// The same without those with these ids.
    pub(super) fn without(&self, ids: &[u64]) -> Self {
        let kept = self.variants.iter().filter(|variant| !ids.contains(&variant.id));
        Self::of(kept.cloned().collect(), self.is_whole)
    }

    /// The same with another head for the one with this id, if it is there.
    pub(super) fn freshened(&self, id: u64, stored: Stored) -> Option<Self> {
        let at = self.variants.iter().position(|variant| variant.id == id)?;
        let mut variants = self.variants.clone();
        variants[at] = variants[at].with_head(stored);
        Some(Self::of(variants, self.is_whole))
    }

    /// Without the least recently stored, as many as it takes to weigh no more than this. With the ids that went.
    pub(super) fn trim(&mut self, weight_max: u64) -> Vec<u64> {
        let mut weight = self.weight;
        let mut count = 0;
        while weight > weight_max && count < self.variants.len() {
            weight -= self.variants[count].weight();
            count += 1;
        }
        self.weight = weight;
        self.variants.drain(..count).map(|variant| variant.id).collect()
    }
}
