//! What is stored under one key?
//!
//! All answers for one target, for whatever host, owner and fields of a request: its variants, the latest stored last. An
//! [`Entry`] never changes, so whoever looks at one may take its time; a change makes another.

use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::DATE;
use http::{HeaderMap, HeaderName, HeaderValue};
use sopan_core::cache::{Extent, Stored};
use sopan_core::h1::framer::field_lines;
use sopan_core::headers::is_link;

use super::disk::FileBody;

/// A target has no more answers than this: the least recently stored go. Who looks for one looks at them all.
pub(super) const VARIANTS_MAX: usize = 128;
/// About what an answer takes beside its bytes, in maps and allocations; and a line of its head.
const VARIANT_BYTES: usize = 768;
const LINE_BYTES: usize = 112;

/// The answers for one key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) variants: Vec<Arc<Variant>>,
    /// Whether the disk has none beside these.
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
    /// The lines of its head as they are sent to whoever gets all of it, written once; none where they are made anew for each,
    /// because they have links, or the body has to be read first anyway.
    pub(crate) lines: Option<Box<[u8]>>,
    weight: u64,
}

/// A body, or the part of it that is held.
#[derive(Clone)]
pub(crate) enum Body {
    Memory(Bytes),
    /// In a file. [`Cache::read`](super::Cache::read) reads it.
    File(Arc<FileBody>),
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
            Self::File(file) => file.length(),
        }
    }

    fn weight(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::File(file) => file.weight(),
        }
    }
}

impl Variant {
    pub(crate) fn new(id: u64, mut stored: Stored, body: Body) -> Arc<Self> {
        stored.headers = compact(&stored.headers);
        let lines = written(&stored.headers).filter(|_| matches!(body, Body::Memory(_)));
        let weight = head_weight(&stored) + lines.as_ref().map_or(0, |lines| lines.len()) + body.weight();
        Arc::new(Self { id, stored, body, lines, weight: weight as u64 })
    }

    /// The same with another head.
    pub(crate) fn with_head(&self, stored: Stored) -> Arc<Self> {
        Self::new(self.id, stored, self.body.clone())
    }

    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    /// Whether a newer one answers all the requests that this one answers, so that it is enough. A part does not answer those
    /// for another part, and not those for the whole.
    pub(super) fn is_covered_by(&self, newer: &Stored) -> bool {
        let Stored { host, owner, selecting, extent, .. } = &self.stored;
        let has_all = match (&newer.extent, extent) {
            (Extent::Whole(_), _) => true,
            (Extent::Part(newer), Extent::Part(part)) => newer.span.contains(part.span),
            (Extent::Part(_), Extent::Whole(_)) => false,
        };
        has_all && (host, owner, selecting) == (&newer.host, &newer.owner, &newer.selecting)
    }
}

/// About what the head of an answer takes.
pub(super) fn head_weight(stored: &Stored) -> usize {
    let selecting: usize = stored.selecting.fields.iter().map(|(name, value)| field_weight(name, value)).sum();
    let lines: usize = stored.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + LINE_BYTES).sum();
    VARIANT_BYTES + stored.host.len() + selecting + lines
}

/// The lines of a head, if they are the same for all, and nothing is missing.
fn written(fields: &HeaderMap) -> Option<Box<[u8]>> {
    let is_the_same = !fields.keys().any(is_link) && fields.contains_key(DATE);
    is_the_same.then(|| field_lines(fields).into())
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

    /// The same with one more, in place of those with these ids and of those that it covers. With the ids that went.
    pub(super) fn with(&self, new: &Arc<Variant>, replaces: &[u64]) -> (Self, Vec<u64>) {
        let (mut kept, mut gone) = self.beside(&new.stored, replaces);
        let too_many = (kept.len() + 1).saturating_sub(VARIANTS_MAX);
        gone.extend(kept.drain(..too_many).map(|variant| variant.id));
        kept.push(Arc::clone(new));
        (Self::of(kept, self.is_whole), gone)
    }

    /// Those that stay beside an answer that is stored in place of these, and the ids of the others.
    pub(super) fn beside(&self, new: &Stored, replaces: &[u64]) -> (Vec<Arc<Variant>>, Vec<u64>) {
        let goes = |old: &Arc<Variant>| replaces.contains(&old.id) || old.is_covered_by(new);
        let (gone, kept): (Vec<_>, _) = self.variants.iter().cloned().partition(goes);
        (kept, gone.into_iter().map(|variant| variant.id).collect())
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

    /// Drops the least recently stored, as many as it takes to weigh no more than this.
    pub(super) fn trim(&mut self, weight_max: u64) {
        let mut count = 0;
        while self.weight > weight_max && count < self.variants.len() {
            self.weight -= self.variants[count].weight();
            count += 1;
        }
        self.variants.drain(..count);
    }
}
