//! Was what is stored now asked for before something made it untrue?
//!
//! Whoever sends a request takes an [`Epoch`] first, and stores the answer under it. An invalidation or a purge begins a new
//! one, and is remembered: what was asked for earlier is refused from then on, since it may be what the upstream had before.
//! The memory is bounded. What is older than all that is remembered is refused as well: to ask again is cheap, and to
//! store what is untrue is not.
//!
//! Each key belongs to a stripe, whose lock is held while its entry is read, changed and put back, so that no change is
//! lost between two tasks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::key::{Key, Scope};

/// So many locks make it unlikely that two workers meet at one.
pub(super) const STRIPES: usize = 64;
/// Invalidations that a stripe remembers: 16,384 in all, which at a thousand writes a second is a quarter of a minute.
const REMEMBERED_MAX: usize = 256;
/// Purges that are remembered. They come from people.
const PURGES_MAX: usize = 64;

/// How far the invalidations had come at some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Epoch(u64);

/// The invalidations of the recent past.
#[derive(Debug)]
pub(super) struct Epochs {
    now: AtomicU64,
    stripes: Box<[Mutex<Stripe>]>,
    last_purge: AtomicU64,
    purges: Mutex<Recent<Scope>>,
}

/// What is remembered of some of the keys.
#[derive(Debug, Default)]
pub(super) struct Stripe {
    recent: Recent<u64>,
    /// The key whose entry is being read from the disk, and whether it was changed meanwhile.
    pub(super) loading: Option<(u64, bool)>,
}

/// Things and when they were, the latest last.
#[derive(Debug)]
struct Recent<T> {
    list: VecDeque<(T, u64)>,
    /// The latest that is no longer in the list.
    forgotten: u64,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self { list: VecDeque::new(), forgotten: 0 }
    }
}

impl<T: PartialEq> Recent<T> {
    fn note(&mut self, what: T, epoch: u64, max: usize) {
        // One that comes again and again takes no place from the others.
        if let Some(at) = self.list.iter().position(|(known, _)| *known == what) {
            self.list.remove(at);
        } else if self.list.len() == max
            && let Some((_, epoch)) = self.list.pop_front()
        {
            self.forgotten = epoch;
        }
        self.list.push_back((what, epoch));
    }

    /// Whether there was none of these after an epoch, for all that is known.
    fn is_clear(&self, since: u64, is_one: impl Fn(&T) -> bool) -> bool {
        let later = self.list.iter().rev().take_while(|(_, epoch)| *epoch > since);
        since >= self.forgotten && !later.into_iter().any(|(what, _)| is_one(what))
    }
}

/// The entries of some keys, for one task alone.
pub(super) struct Held<'a> {
    epochs: &'a Epochs,
    stripe: MutexGuard<'a, Stripe>,
}

impl Epochs {
    pub(super) fn new() -> Self {
        Self {
            now: AtomicU64::new(0),
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            last_purge: AtomicU64::new(0),
            purges: Mutex::default(),
        }
    }

    pub(super) fn now(&self) -> Epoch {
        Epoch(self.now.load(Ordering::Acquire))
    }

    pub(super) fn hold(&self, key: &Key) -> Held<'_> {
        Held { epochs: self, stripe: self.stripes[stripe(key)].lock() }
    }

    /// Begins a new epoch for many keys. After it nothing is stored for them that was asked for before; what is stored
    /// already is for the caller to sweep.
    pub(super) fn purge(&self, scope: Scope) {
        {
            let mut purges = self.purges.lock();
            let epoch = self.next();
            purges.note(scope, epoch, PURGES_MAX);
            self.last_purge.store(epoch, Ordering::Release);
        }
        // Whoever looked before that may still be storing, with a stripe in hand.
        for stripe in &self.stripes {
            drop(stripe.lock());
        }
    }

    fn next(&self) -> u64 {
        self.now.fetch_add(1, Ordering::AcqRel) + 1
    }
}

pub(super) fn stripe(key: &Key) -> usize {
    // Other bits than those by which maps sort.
    (key.digest() >> 40) as usize % STRIPES
}

impl Held<'_> {
    /// Whether what was asked for in this epoch may still be stored.
    pub(super) fn is_current(&self, key: &Key, Epoch(since): Epoch) -> bool {
        let is_purged = || !self.epochs.purges.lock().is_clear(since, |scope| scope.holds(key.as_bytes()));
        self.stripe.recent.is_clear(since, |digest| *digest == key.digest())
            && (since >= self.epochs.last_purge.load(Ordering::Acquire) || !is_purged())
    }

    /// Begins a new epoch for a key.
    pub(super) fn invalidate(&mut self, key: &Key) -> Epoch {
        let epoch = self.epochs.next();
        self.stripe.recent.note(key.digest(), epoch, REMEMBERED_MAX);
        Epoch(epoch)
    }

    /// From here on [`end_loading`](Self::end_loading) tells whether the entry was changed.
    pub(super) fn begin_loading(&mut self, key: &Key) {
        self.stripe.loading = Some((key.digest(), false));
    }

    /// The entry is changed.
    pub(super) fn note_change(&mut self, key: &Key) {
        if let Some((loading, is_changed)) = &mut self.stripe.loading {
            *is_changed |= *loading == key.digest();
        }
    }

    /// Whether the entry was left alone since loading began.
    pub(super) fn end_loading(&mut self, key: &Key) -> bool {
        self.stripe.loading.take() == Some((key.digest(), false))
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::Place;
    use super::*;

    fn key(target: &str) -> Key {
        Key::new("shop", Place::default(), target)
    }

    fn is_current(epochs: &Epochs, key: &Key, since: Epoch) -> bool {
        epochs.hold(key).is_current(key, since)
    }

    #[test]
    fn what_was_asked_for_before_an_invalidation_is_refused() {
        let epochs = Epochs::new();
        let (a, b) = (key("/a"), key("/b"));
        let before = epochs.now();
        epochs.hold(&a).invalidate(&a);
        assert!(!is_current(&epochs, &a, before) && is_current(&epochs, &b, before));
        assert!(is_current(&epochs, &a, epochs.now()));
        let before = epochs.now();
        epochs.purge(Scope::Below { upstream: "shop".to_owned(), path: "/b".to_owned() });
        assert!(is_current(&epochs, &a, before) && !is_current(&epochs, &b, before));
        epochs.purge(Scope::All);
        assert!(!is_current(&epochs, &a, before) && is_current(&epochs, &a, epochs.now()));
    }

    #[test]
    fn what_is_older_than_all_that_is_remembered_is_refused() {
        let epochs = Epochs::new();
        let others: Vec<_> = (0..)
            .map(|i| key(&format!("/{i}")))
            .filter(|other| stripe(other) == stripe(&key("/a")))
            .take(REMEMBERED_MAX + 1)
            .collect();
        let key = key("/a");
        let before = epochs.now();
        for other in &others[1..] {
            epochs.hold(other).invalidate(other);
        }
        // One that comes often leaves room for the others.
        for _ in 0..10 * REMEMBERED_MAX {
            epochs.hold(&others[1]).invalidate(&others[1]);
        }
        assert!(is_current(&epochs, &key, before));
        epochs.hold(&others[0]).invalidate(&others[0]);
        assert!(!is_current(&epochs, &key, before));
        let before = epochs.now();
        for i in 0..=PURGES_MAX {
            assert!(is_current(&epochs, &key, before), "{i}");
            epochs.purge(Scope::Below { upstream: "other".to_owned(), path: format!("/{i}") });
        }
        assert!(!is_current(&epochs, &key, before));
    }
}
