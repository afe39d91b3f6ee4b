//! How many wrong keys may come from one address?
//!
//! [`GUESSES_MAX`] different ones within [`WINDOW`], counted from the first. From then on to the end of the window no key from
//! there is looked at, right or wrong, so that a right one cannot be told by guessing on. The same wrong key is one guess
//! however often it comes: a program with a key of yesterday that tries on must not shut out all others behind its address.
//! A connection on which a key was right is not asked here while it keeps to that client; whoever lets requests in sees to it.
//!
//! At most [`ADDRESSES_MAX`] addresses are known; beyond that the one whose window began first is forgotten. Who has so many
//! can guess as often with each of them. An IPv6 network of 64 bits counts as one address, since whoever has one of its addresses
//! mostly has them all.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use super::KeyDigest;
use crate::time::Instant;

/// Different wrong keys from one address within [`WINDOW`] before no more are looked at.
pub const GUESSES_MAX: usize = 10;
/// How long they count, from the first on.
pub const WINDOW: Duration = Duration::from_secs(60);
/// Addresses that are known at once.
pub const ADDRESSES_MAX: usize = 10_000;

/// Wrong keys, by where they came from.
#[derive(Debug, Default)]
pub struct Guesses {
    addresses: BTreeMap<u128, Wrong>,
    /// When each address's window began, the first in front. Windows are equally long, so they end in this order too.
    began: VecDeque<(Instant, u128)>,
}

/// Wrong keys from one address.
#[derive(Debug)]
struct Wrong {
    end: Instant,
    /// The beginnings of their digests.
    keys: Vec<u64>,
}

impl Guesses {
    /// In how many seconds keys from this address are looked at again, if they are not now.
    pub fn shut(&mut self, ip: IpAddr, now: Instant) -> Option<u64> {
        self.forget(now);
        let wrong = self.addresses.get(&address(ip)).filter(|wrong| wrong.keys.len() >= GUESSES_MAX)?;
        let left = wrong.end.since(now);
        Some((left.as_secs() + u64::from(left.subsec_nanos() > 0)).max(1))
    }

    /// Wrong keys have come from this address. Answers in how many seconds keys from there are looked at again, if these were
    /// the ones too many.
    pub fn wrong(&mut self, ip: IpAddr, keys: &[KeyDigest], now: Instant) -> Option<u64> {
        if self.shut(ip, now).is_some() {
            return None;
        }
        let address = address(ip);
        if !self.addresses.contains_key(&address) {
            if self.addresses.len() >= ADDRESSES_MAX {
                self.forget_first();
            }
            self.began.push_back((now, address));
        }
        let wrong = self.addresses.entry(address).or_insert_with(|| Wrong { end: now.after(WINDOW), keys: Vec::new() });
        for key in keys {
            if !wrong.keys.contains(&key.begin()) && wrong.keys.len() < GUESSES_MAX {
                wrong.keys.push(key.begin());
            }
        }
        self.shut(ip, now)
    }

    /// Forgets those whose window is over.
    fn forget(&mut self, now: Instant) {
        while self.began.front().is_some_and(|(began, _)| began.after(WINDOW) <= now) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, address)) = self.began.pop_front() {
            self.addresses.remove(&address);
        }
    }
}

/// An address as it is counted. That of IPv4 and its mapping into IPv6 are the same.
fn address(ip: IpAddr) -> u128 {
    match ip.to_canonical() {
        IpAddr::V4(v4) => v4.to_bits().into(),
        // No address of IPv4: all of those are below 2^32.
        IpAddr::V6(v6) => v6.to_bits() >> 64 << 64 | 1 << 63,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> KeyDigest {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_be_bytes());
        KeyDigest::new(digest)
    }

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn ten_different_wrong_keys_shut_an_address_until_a_minute_after_the_first() {
        let (mut guesses, here) = (Guesses::default(), ip("10.0.0.1"));
        for number in 0..9 {
            assert_eq!(guesses.wrong(here, &[key(number)], at(number * 1000)), None);
            // However often it comes.
            assert_eq!(guesses.wrong(here, &[key(number), key(number)], at(number * 1000)), None);
        }
        assert_eq!(guesses.shut(here, at(9_000)), None);
        assert_eq!(guesses.wrong(here, &[key(9)], at(9_500)), Some(51));
        for (ms, left) in [(9_500, Some(51)), (10_000, Some(50)), (59_999, Some(1)), (60_000, None)] {
            let mut guesses = Guesses::default();
            (0..9).for_each(|number| assert_eq!(guesses.wrong(here, &[key(number)], at(0)), None));
            assert!(guesses.wrong(here, &[key(9)], at(9_000)).is_some());
            // It is told once, and lasts no longer for it.
            assert_eq!(guesses.wrong(here, &[key(10)], at(9_001)), None);
            assert_eq!((guesses.shut(here, at(ms)), guesses.shut(ip("10.0.0.2"), at(ms))), (left, None), "{ms}");
        }
    }

    #[test]
    fn several_wrong_keys_of_one_request_are_several_guesses() {
        let (mut guesses, here) = (Guesses::default(), ip("10.0.0.1"));
        let keys: Vec<_> = (0..4).map(key).collect();
        assert_eq!(guesses.wrong(here, &keys, at(0)), None);
        let keys: Vec<_> = (4..12).map(key).collect();
        assert_eq!(guesses.wrong(here, &keys, at(0)), Some(60));
        assert_eq!(guesses.addresses[&address(here)].keys.len(), GUESSES_MAX);
    }

    #[test]
    fn addresses_are_told_apart_as_people_have_them() {
        for (a, b, same) in [
            ("10.0.0.1", "::ffff:10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("2001:db8::1", "2001:db8::ffff:2", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("::1", "0.0.0.1", false),
        ] {
            assert_eq!(address(ip(a)) == address(ip(b)), same, "{a} and {b}");
        }
    }

    #[test]
    fn no_more_addresses_are_kept_than_there_is_room_for() {
        let mut guesses = Guesses::default();
        let nth = |n: u32| IpAddr::V4(n.into());
        for n in 0..ADDRESSES_MAX as u32 + 5 {
            let keys: Vec<_> = (0..10).map(key).collect();
            assert!(guesses.wrong(nth(n), &keys, at(n.into())).is_some());
        }
        assert_eq!((guesses.addresses.len(), guesses.began.len()), (ADDRESSES_MAX, ADDRESSES_MAX));
        let now = at(ADDRESSES_MAX as u64 + 5);
        assert_eq!((guesses.shut(nth(4), now), guesses.shut(nth(5), now).is_some()), (None, true));
        assert_eq!(guesses.shut(nth(5), at(80_000)), None);
        assert_eq!((guesses.addresses.len(), guesses.began.len()), (0, 0));
    }
}
