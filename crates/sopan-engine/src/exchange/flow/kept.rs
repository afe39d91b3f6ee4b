//! What of a body is kept for the store, and how it gets there.

use std::sync::Arc;

use bytes::Bytes;

use crate::budget::ByteBudget;

/// What is to become of a body beside being read. Dropped with it if the body does not come whole or is not kept.
pub(crate) struct Keep {
    /// The largest body that is kept at all.
    pub(crate) entry_bytes_max: u64,
    /// The largest that is kept in memory.
    pub(crate) memory_bytes_max: u64,
    /// For what all bodies together hold in memory while they come and are read.
    pub(crate) budget: Arc<ByteBudget>,
    /// Takes what is too large for memory.
    pub(crate) spill: Option<Box<dyn Spill>>,
    /// Told once when the body is whole, before any reader hears of its end; in the task of some reader, which must not be
    /// kept waiting.
    pub(crate) done: Done,
}

pub(crate) type Done = Box<dyn FnOnce(Whole) + Send>;

/// A body that has come whole, without its trailers.
pub(crate) enum Whole {
    /// In a piece of its own, of its exact size.
    Memory(Bytes),
    /// All of it was taken by the spill, which is yet to be finished.
    Spilled(Box<dyn Spill>),
}

/// Takes a body that is too large for memory, piece by piece, while it comes. Dropped before it is finished it is abandoned,
/// and leaves nothing.
pub(crate) trait Spill: Send {
    /// Takes a piece; answers whether it could, at once. One that it could not take is offered again when more comes, as long
    /// as there is room to keep it: clients do not wait for this.
    fn write(&mut self, piece: &Bytes) -> bool;

    /// All of the body has been written.
    fn finish(self: Box<Self>);
}

/// How a body is kept.
pub(super) enum Keeping {
    /// Not at all.
    Nothing,
    /// All of it, in memory.
    Memory(Keep),
    /// It has been handed on, and stays as long as somebody reads it.
    HandedOn,
    /// By the spill, which has taken everything before `taken`.
    Spilling { spill: Box<dyn Spill>, taken: u64, keep: Keep },
}

impl Keeping {
    /// How a body of this length is kept, if that is known.
    pub(super) fn of(keep: Option<Keep>, length: Option<u64>) -> Self {
        let Some(mut keep) = keep else { return Self::Nothing };
        let length = length.unwrap_or(0);
        if length <= keep.memory_bytes_max.min(keep.entry_bytes_max) {
            return Self::Memory(keep);
        }
        match keep.spill.take().filter(|_| length <= keep.entry_bytes_max) {
            Some(spill) => Self::Spilling { spill, taken: 0, keep },
            None => Self::Nothing,
        }
    }

    /// Whether it can be kept with so many bytes in all. What is too large for memory goes to the spill from here on.
    pub(super) fn fits(&mut self, total: u64) -> bool {
        match self {
            Self::Nothing | Self::HandedOn => true,
            Self::Memory(keep) => {
                if total <= keep.memory_bytes_max.min(keep.entry_bytes_max) {
                    return true;
                }
                if total > keep.entry_bytes_max || keep.spill.is_none() {
                    return false;
                }
                if let Self::Memory(mut keep) = std::mem::replace(self, Self::Nothing)
                    && let Some(spill) = keep.spill.take()
                {
                    *self = Self::Spilling { spill, taken: 0, keep };
                }
                true
            }
            Self::Spilling { taken, keep, .. } => {
                total <= keep.entry_bytes_max && total - *taken <= keep.memory_bytes_max.max(super::WINDOW_BYTES)
            }
        }
    }

    pub(super) fn is_wanted(&self) -> bool {
        matches!(self, Self::Memory(_) | Self::Spilling { .. })
    }
}

/// A whole body, to be handed on without a lock.
pub(super) enum Handed {
    Memory(Done, Vec<Bytes>),
    Spilled(Done, Box<dyn Spill>),
}

impl Handed {
    /// Hands it on; answers what it is now if it is in one piece.
    pub(super) fn hand_on(self) -> Option<Bytes> {
        match self {
            Self::Memory(done, pieces) => {
                // A copy, so that the buffers go into which it was read: they may be much larger.
                let mut whole = Vec::with_capacity(pieces.iter().map(Bytes::len).sum());
                pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
                drop(pieces);
                let whole = Bytes::from(whole);
                done(Whole::Memory(whole.clone()));
                Some(whole)
            }
            Self::Spilled(done, spill) => {
                done(Whole::Spilled(spill));
                None
            }
        }
    }
}
