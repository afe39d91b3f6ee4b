//! What was read of a body, in as little memory as it takes, and how far an attempt has walked over it.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderName};
use http_body::Frame;
use sopan_core::headers::strip_trailers;

/// A shorter piece is copied to those before it. As it came it may be one byte of a large buffer, which it would keep.
const SMALL: usize = 4 * 1024;
/// Short pieces are put together up to this length.
const BLOCK: usize = 16 * 1024;

/// A piece of a body.
pub(super) enum Piece {
    Data(Bytes),
    /// Short pieces, one after the other.
    Block(Vec<u8>),
    Trailers(HeaderMap),
}

impl Piece {
    /// Trailers that may not be passed on are left out.
    pub(super) fn new(frame: Frame<Bytes>, named_by_connection: &[HeaderName]) -> Self {
        match frame.into_data() {
            Ok(bytes) => Self::Data(bytes),
            Err(frame) => {
                let mut trailers = frame.into_trailers().unwrap_or_default();
                strip_trailers(&mut trailers, named_by_connection);
                Self::Trailers(trailers)
            }
        }
    }

    /// How many bytes it holds.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Data(bytes) => bytes.len() as u64,
            Self::Block(bytes) => bytes.len() as u64,
            Self::Trailers(fields) => {
                fields.iter().map(|(name, value)| (name.as_str().len() + value.len()) as u64).sum()
            }
        }
    }

    /// Without its first bytes.
    fn into_frame(self, from: usize) -> Frame<Bytes> {
        match self {
            Self::Data(bytes) => Frame::data(bytes),
            Self::Block(bytes) => {
                let mut bytes = Bytes::from(bytes);
                bytes.advance(from);
                Frame::data(bytes)
            }
            Self::Trailers(fields) => Frame::trailers(fields),
        }
    }
}

/// Pieces in their order. While all of them are kept, each attempt walks over them; else they are taken out.
#[derive(Default)]
pub(super) struct Pieces {
    pieces: VecDeque<Piece>,
    /// The next piece of the attempt under way, and how much of it has been walked over already.
    next: usize,
    offset: usize,
}

impl Pieces {
    /// Adds a piece that was just read. `as_is`: whether it is not worth a copy, since nothing is added to it.
    pub(super) fn push(&mut self, piece: Piece, as_is: bool) {
        if piece.len() == 0 {
            return;
        }
        let piece = match (piece, self.pieces.back_mut()) {
            (Piece::Data(data), Some(Piece::Block(block)))
                if data.len() < SMALL && block.len() + data.len() <= BLOCK =>
            {
                block.extend_from_slice(&data);
                return;
            }
            (Piece::Data(data), _) if data.len() < SMALL && !as_is => Piece::Block(data.to_vec()),
            (piece, _) => piece,
        };
        self.step_over_block();
        self.pieces.push_back(piece);
    }

    /// The next attempt begins.
    pub(super) fn rewind(&mut self) {
        (self.next, self.offset) = (0, 0);
    }

    /// Whether the attempt has walked over all there is.
    pub(super) fn is_walked(&self) -> bool {
        match self.pieces.get(self.next) {
            None => true,
            Some(Piece::Block(block)) => self.offset == block.len() && self.next + 1 == self.pieces.len(),
            Some(_) => false,
        }
    }

    /// The next piece of the attempt, which stays for those after it.
    pub(super) fn walk(&mut self) -> Option<Frame<Bytes>> {
        // The last block may still grow.
        if self.is_walked() {
            return None;
        }
        self.step_over_block();
        let (frame, walked) = match self.pieces.get(self.next)? {
            Piece::Data(bytes) => (Frame::data(bytes.clone()), true),
            Piece::Trailers(fields) => (Frame::trailers(fields.clone()), true),
            Piece::Block(block) => {
                let new = Bytes::copy_from_slice(&block[self.offset..]);
                self.offset = block.len();
                (Frame::data(new), false)
            }
        };
        self.next += usize::from(walked);
        Some(frame)
    }

    /// Takes out the first piece that the attempt has not walked over, and whatever lies before it; answers how many bytes
    /// that frees.
    pub(super) fn take(&mut self) -> (Option<Frame<Bytes>>, u64) {
        let mut freed = self.forget_walked();
        let offset = std::mem::take(&mut self.offset);
        let frame = self.pieces.pop_front().map(|piece| {
            freed += piece.len();
            piece.into_frame(offset)
        });
        (frame, freed)
    }

    /// Lets go of the pieces that the attempt has walked over; answers how many bytes that frees.
    pub(super) fn forget_walked(&mut self) -> u64 {
        self.step_over_block();
        let walked = std::mem::take(&mut self.next).min(self.pieces.len());
        self.pieces.drain(..walked).map(|piece| piece.len()).sum()
    }

    /// Whether the attempt has walked over anything.
    pub(super) fn has_walked(&self) -> bool {
        (self.next, self.offset) != (0, 0)
    }

    /// Goes on to the next piece where this one is a block that has been walked over and grows no more.
    fn step_over_block(&mut self) {
        if let Some(Piece::Block(block)) = self.pieces.get(self.next)
            && self.offset == block.len()
        {
            (self.next, self.offset) = (self.next + 1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn data(bytes: &[u8]) -> Piece {
        Piece::Data(Bytes::copy_from_slice(bytes))
    }

    fn walk_all(pieces: &mut Pieces) -> Vec<u8> {
        std::iter::from_fn(|| pieces.walk()).flat_map(|frame| frame.into_data().unwrap()).collect()
    }

    #[test]
    fn a_body_of_single_bytes_is_kept_in_blocks() {
        let mut pieces = Pieces::default();
        (0..100_000).for_each(|_| pieces.push(data(b"x"), false));
        assert_eq!(pieces.pieces.len(), 100_000_usize.div_ceil(BLOCK));
        assert_eq!(walk_all(&mut pieces).len(), 100_000);
    }

    #[test]
    fn a_block_grows_under_an_attempt_that_has_walked_over_it() {
        let mut pieces = Pieces::default();
        for part in [&b"one"[..], b"two", &[b'x'; SMALL], b"three"] {
            pieces.push(data(part), false);
            assert!(!pieces.is_walked());
            assert_eq!(walk_all(&mut pieces), part);
            assert!(pieces.is_walked());
        }
        pieces.push(Piece::Trailers([(http::header::ETAG, "x".parse().unwrap())].into_iter().collect()), false);
        assert!(pieces.walk().unwrap().is_trailers() && pieces.walk().is_none());
        pieces.rewind();
        assert_eq!(pieces.walk().unwrap().into_data().unwrap(), "onetwo");
    }

    proptest! {
        #[test]
        fn nothing_is_lost_doubled_or_moved(
            steps in proptest::collection::vec((0..6_u8, 1..6_000_usize), 1..60),
        ) {
            // All bytes so far, how many of them are gone, and how many the attempt has seen.
            let (mut pieces, mut all, mut gone, mut seen) = (Pieces::default(), Vec::new(), 0, 0);
            let (mut is_kept, mut freed) = (true, 0);
            for (step, length) in steps {
                match step {
                    0..3 => {
                        let length = if step == 0 { length % 10 + 1 } else { length };
                        let part: Vec<u8> = (all.len()..all.len() + length).map(|i| (i % 251) as u8).collect();
                        pieces.push(data(&part), !is_kept);
                        all.extend(part);
                    }
                    3 if is_kept => {
                        pieces.rewind();
                        seen = gone;
                    }
                    4 if is_kept => {
                        is_kept = false;
                        freed += pieces.forget_walked();
                        gone = seen;
                    }
                    _ => {
                        let frame = if is_kept {
                            pieces.walk()
                        } else {
                            let (frame, more) = pieces.take();
                            freed += more;
                            frame
                        };
                        let bytes = frame.map(|frame| frame.into_data().unwrap()).unwrap_or_default();
                        prop_assert_eq!(&bytes[..], &all[seen..seen + bytes.len()]);
                        seen += bytes.len();
                    }
                }
                prop_assert_eq!(pieces.is_walked(), seen == all.len());
            }
            let rest: u64 = pieces.pieces.iter().map(Piece::len).sum();
            prop_assert_eq!(freed + rest, all.len() as u64);
        }
    }
}
