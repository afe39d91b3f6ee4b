//! How is an answer written for other instances?
//!
//! A version, a sum over all that follows and over the key, when it was received by the server's clock, how far the purges had
//! come, and the head and the body, both together compressed where that makes them smaller. What was written for one key is
//! never read as another's, and nothing is made room for before the sum is right and the length is one that is allowed.

use bytes::Bytes;
use crc32fast::Hasher;
use sopan_core::cache::Stored;
use sopan_core::policy::{CachePolicy, PathTreatment};

/// What is written in another way is not read.
const VERSION: u8 = 1;
/// The head and the body are compressed.
const COMPRESSED: u8 = 1;
/// Version, flags and sum; then two numbers and two lengths.
const BEGINNING: usize = 2 + 4;
const NUMBERS: usize = 8 + 8 + 4 + 4;
/// A shorter one is not worth the trouble.
const COMPRESS_MIN: usize = 256;
/// No head takes more, with all that is known of it.
const HEAD_MAX: usize = 256 * 1024;

/// What other instances have to know of an answer.
pub(super) struct Written {
    /// When it was received, in microseconds of the server's clock.
    pub(super) received: u64,
    /// How far the purges had come when it was known to be true.
    pub(super) number: u64,
    /// As [`Stored::encode`] has it.
    pub(super) head: Vec<u8>,
    pub(super) body: Bytes,
}

/// Why nothing was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// It is not what was written for this key, or not by this version.
    Damaged,
    /// It is, and these settings would not have stored it so, or not an answer that is so large.
    NotByThese,
}

impl Written {
    pub(super) fn write(&self, key: &[u8]) -> Vec<u8> {
        let plain = [&self.head, &self.body[..]].concat();
        let length = plain.len();
        let compressed = (length >= COMPRESS_MIN).then(|| lz4_flex::block::compress(&plain));
        // What saves less than an eighth is not worth taking apart again.
        let (flags, payload) = match compressed {
            Some(compressed) if compressed.len() <= length / 8 * 7 => (COMPRESSED, compressed),
            _ => (0, plain),
        };
        let mut value = vec![VERSION, flags, 0, 0, 0, 0];
        value.reserve_exact(NUMBERS + payload.len());
        value.extend(self.received.to_le_bytes());
        value.extend(self.number.to_le_bytes());
        for length in [self.head.len(), length] {
            // What is longer is never written: an entry has a bound far below.
            value.extend(u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
        }
        value.extend(payload);
        let sum = sum(key, &value);
        value[2..BEGINNING].copy_from_slice(&sum.to_le_bytes());
        value
    }

    /// What was written for this key, with a body of at most so many bytes.
    pub(super) fn read(key: &[u8], value: &[u8], body_max: u64) -> Result<Self, Unread> {
        let parts = Parts::of(key, value).ok_or(Unread::Damaged)?;
        let body_length = parts.length - parts.head_length;
        if parts.head_length > HEAD_MAX || body_length as u64 > body_max {
            return Err(Unread::NotByThese);
        }
        let plain = match parts.is_compressed {
            true => lz4_flex::block::decompress(parts.payload, parts.length).map_err(|_| Unread::Damaged)?,
            false => parts.payload.to_vec(),
        };
        if plain.len() != parts.length {
            return Err(Unread::Damaged);
        }
        let (head, body) = plain.split_at(parts.head_length);
        // Each in memory of its own: the body is kept, and the head is not.
        let (head, body) = (head.to_vec(), Bytes::copy_from_slice(body));
        Ok(Self { received: parts.received, number: parts.number, head, body })
    }

    /// The answer, as it is to be used by these settings.
    pub(super) fn stored(&self, policy: &CachePolicy, rule: Option<PathTreatment>) -> Result<Stored, Unread> {
        let mut stored = Stored::decode(&self.head, policy, rule).ok_or(Unread::NotByThese)?;
        if stored.has_come_with(self.body.len() as u64) { Ok(stored) } else { Err(Unread::Damaged) }
    }
}

/// The parts of a value whose sum is right.
struct Parts<'a> {
    is_compressed: bool,
    received: u64,
    number: u64,
    head_length: usize,
    /// Of the head and the body.
    length: usize,
    payload: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(key: &[u8], value: &'a [u8]) -> Option<Self> {
        let ([version, flags, written_sum @ ..], rest) = value.split_first_chunk::<BEGINNING>()?;
        let is_known = *version == VERSION && flags & !COMPRESSED == 0;
        if !is_known || u32::from_le_bytes(*written_sum) != sum(key, value) {
            return None;
        }
        let (received, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (head_length, rest) = rest.split_first_chunk()?;
        let (length, payload) = rest.split_first_chunk()?;
        let (head_length, length) = (u32::from_le_bytes(*head_length) as usize, u32::from_le_bytes(*length) as usize);
        let (received, number) = (u64::from_le_bytes(*received), u64::from_le_bytes(*number));
        let is_compressed = flags & COMPRESSED != 0;
        (head_length <= length).then_some(Self { is_compressed, received, number, head_length, length, payload })
    }
}

fn sum(key: &[u8], value: &[u8]) -> u32 {
    let mut sum = Hasher::new();
    sum.update(&(key.len() as u64).to_le_bytes());
    sum.update(key);
    sum.update(&value[..2]);
    sum.update(&value[BEGINNING..]);
    sum.finalize()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(head: &[u8], body: &[u8]) -> Written {
        Written { received: 7 << 50, number: 8 << 50, head: head.to_vec(), body: Bytes::copy_from_slice(body) }
    }

    fn noise(length: usize) -> Vec<u8> {
        let mut word = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            word as u8
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn what_was_written_is_read_and_takes_less_where_that_can_be() {
        let text = br#"{"id": 17, "state": "paid", "lines": []}, "#.repeat(1000);
        for (head, body, expected) in [
            (&b"head"[..], &b""[..], 30..40),
            (b"", b"short", 30..40),
            (b"head", &text, 100..text.len() / 4),
            (b"head", &noise(42_000), 42_034..42_035),
        ] {
            let value = written(head, body).write(b"key");
            assert!(expected.contains(&value.len()), "{} of {}", value.len(), body.len());
            let read = Written::read(b"key", &value, 42_000).unwrap();
            assert_eq!((read.received, read.number, &read.head[..]), (7 << 50, 8 << 50, head));
            assert!(read.body == body);
        }
    }

    #[test]
    fn what_is_damaged_another_s_or_too_long_is_not_read() {
        let value = written(b"head", &b"a body that is compressed ".repeat(20)).write(b"key");
        assert_eq!(Written::read(b"other", &value, 1 << 20).err(), Some(Unread::Damaged));
        assert_eq!(Written::read(b"key", &value, 519).err(), Some(Unread::NotByThese));
        assert!(Written::read(b"key", &value, 520).is_ok());
        for at in 0..value.len() {
            let mut damaged = value.clone();
            damaged[at] ^= 0x10;
            assert!(Written::read(b"key", &damaged, 1 << 20).is_err(), "byte {at}");
            assert!(Written::read(b"key", &value[..at], 1 << 20).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn a_length_that_lies_makes_no_room() {
        // With a sum that is right, as whoever may write to the server could make it.
        for (head, length) in [(0, u32::MAX), (u32::MAX, u32::MAX), (9, 8), (0, 1 << 20), (0, 3)] {
            for flags in [0, COMPRESSED] {
                let mut value = vec![VERSION, flags, 0, 0, 0, 0];
                value.extend([0; 16]);
                value.extend(u32::to_le_bytes(head));
                value.extend(length.to_le_bytes());
                value.extend(b"\x40body");
                let sum = sum(b"key", &value);
                value[2..BEGINNING].copy_from_slice(&sum.to_le_bytes());
                let read = Written::read(b"key", &value, 1 << 20);
                assert!(read.is_err(), "{head} {length} {flags}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_value_makes_it_panic(value in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Written::read(b"key", &value, 1 << 20).is_err());
        }
    }
}
