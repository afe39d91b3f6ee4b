//! When is what written?
//!
//! One thread takes changes from the line, many at once, and makes them. About once a second, and at once where somebody
//! waits for a removal, they are synced: until then a crash undoes them, the last ones first.
//!
//! A disk that takes no more stops nobody. What was only to be stored is given up, and for a minute no more is taken. What
//! was to be removed cannot be given up: if it cannot be written, the whole index is thrown away.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sopan_core::time::Instant;

use super::index::{Applied, Counts, Index, IndexError, Limits};
use super::queue::{Batch, Change, What};
use super::spill::Drafts;
use super::{Shared, place};
use crate::store::key::Scope;

/// What is written is on the disk for good after this time, and a little.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// And before more than this part of the bound is written: what is no longer needed can be written over only then.
const UNSYNCED_SHARE: u64 = 32;
/// So long nothing is stored after the disk took no more.
const PAUSE: Duration = Duration::from_secs(60);
/// How often is looked whether there is something to do.
const IDLE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Writer<'a> {
    shared: &'a Shared,
    unsynced: Unsynced,
    drafts: Drafts,
    /// When something is stored again.
    paused_until: Option<Instant>,
    /// That the disk takes no more was told, and not yet that it does again.
    is_told: bool,
    /// The index takes more on the disk than its answers account for.
    is_overgrown: bool,
}

/// What a crash would undo.
#[derive(Debug, Default)]
struct Unsynced {
    since: Option<Instant>,
    bytes: u64,
    removals: bool,
    /// Files of answers that went. A crash would bring back their answers, so they stay until it does not.
    files: Vec<u64>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(shared: &'a Shared) -> Self {
        let (unsynced, drafts) = Default::default();
        Self { shared, unsynced, drafts, paused_until: None, is_told: false, is_overgrown: false }
    }

    /// Until the line is closed and empty.
    pub(super) fn run(mut self) {
        // What is there may be more than it may be by now.
        self.write(&[], false);
        self.is_overgrown = self.shared.index.read().as_ref().is_some_and(|index| self.is_too_large(index));
        loop {
            let Batch { changes, is_last } = self.shared.queue.take(self.wait_max());
            self.look_after();
            self.write(&changes, is_last);
            self.shared.queue.settle(&changes);
            if is_last {
                return;
            }
        }
    }

    fn wait_max(&self) -> Duration {
        let now = self.shared.clock.now();
        self.unsynced.since.map_or(IDLE, |since| since.after(SYNC_EVERY).until(now))
    }

    /// Sees whether there is an index again, and whether what there is can be used.
    fn look_after(&mut self) {
        let now = self.shared.clock.now();
        if !self.is_in_place() {
            self.begin_elsewhere();
        }
        if self.shared.is_suspect.swap(false, Relaxed) {
            self.recover(&IndexError::Broken("it contradicts itself".to_owned()), true);
        }
        if std::mem::take(&mut self.is_overgrown) {
            // A file of the library never shrinks by itself.
            let directory = self.shared.directory.display();
            tracing::info!(%directory, "the cache in {directory} begins empty, since its index has outgrown its bound");
            let gone = self.shared.counts.lock().answers;
            self.shared.evictions.fetch_add(gone, Relaxed);
            self.begin_anew();
        }
        if self.paused_until.is_some_and(|until| until <= now) {
            self.paused_until = None;
            if self.shared.index.read().is_none() {
                self.begin_anew();
            }
            self.shared.is_full.store(self.paused_until.is_some(), Relaxed);
        }
    }

    /// Whether what is written is what has its name.
    fn is_in_place(&self) -> bool {
        let path = place::path(&self.shared.directory);
        // Where there is no index, that is known already; and without the lock alone nothing is lost.
        let is_there = |index: &Index| index.is_at(&path) && self.shared.place.lock().take_again().is_ok();
        self.shared.index.read().as_ref().is_none_or(is_there)
    }

    /// Somebody has removed the directory, or a part of it, or moved it away.
    fn begin_elsewhere(&mut self) {
        let known = self.shared.index.write().take();
        known.into_iter().for_each(Index::void);
        match self.try_begin_anew() {
            Ok(()) => {
                self.paused_until = None;
                self.shared.is_full.store(false, Relaxed);
                let directory = self.shared.directory.display();
                tracing::warn!(
                    %directory,
                    "the cache in {directory} was removed by somebody else, or a part of it; it is made anew, and begins empty"
                );
            }
            Err(error) => {
                self.pause(&format!(
                    "it was removed by somebody else, or a part of it, and cannot be made anew: {error}"
                ));
            }
        }
    }

    fn write(&mut self, changes: &[Change], is_last: bool) {
        if let Err(error) = self.drafts.append(changes, &self.shared.files, room(self.shared.bytes_max)) {
            self.pause(&error.to_string());
        }
        let is_all = |change: &Change| matches!(change.what, What::Purge(Scope::All));
        let start = changes.iter().rposition(is_all).map_or(0, |at| at + 1);
        let (before, changes) = changes.split_at(start);
        if !before.is_empty() {
            let all = self.shared.counts.lock().answers;
            self.begin_anew();
            let removed: Vec<_> = before.iter().map(|change| if is_all(change) { all } else { 0 }).collect();
            tell(before, &removed);
        }
        match self.make(changes, is_last) {
            Ok(Some(removed)) => tell(changes, &removed),
            Ok(None) => {
                self.drop_bodies(changes);
                tell(changes, &[]);
            }
            Err(error) => {
                let removes = self.unsynced.removals || changes.iter().any(|change| change.what.removes());
                self.recover(&error, removes);
                self.drop_bodies(changes);
                tell(changes, &[]);
            }
        }
    }

    /// Makes changes, and says how many answers each has removed. None if there is no index.
    fn make(&mut self, changes: &[Change], is_last: bool) -> Result<Option<Vec<u64>>, IndexError> {
        let shared = self.shared;
        let index = shared.index.read();
        let Some(index) = index.as_ref() else { return Ok(None) };
        let room = room(shared.bytes_max);
        let limits = Limits {
            counts: *shared.counts.lock(),
            bytes_max: room - self.drafts.bytes().min(room),
            may_store: self.paused_until.is_none(),
        };
        let is_idle = changes.is_empty() && !is_last && !self.is_sync_due();
        if is_idle && limits.counts.bytes() <= limits.bytes_max {
            return Ok(Some(Vec::new()));
        }
        let applied = index.apply(changes, &shared.files, &mut self.drafts, limits)?;
        self.unsynced.since.get_or_insert(shared.clock.now());
        self.unsynced.bytes += changes.iter().map(|change| change.what.bytes()).sum::<u64>();
        self.unsynced.removals |= changes.iter().any(|change| change.what.removes());
        self.note(&applied);
        if is_last || self.is_sync_due() || changes.iter().any(|change| change.waiter.is_some()) {
            index.sync()?;
            let synced = std::mem::take(&mut self.unsynced);
            synced.files.into_iter().for_each(|id| shared.files.remove(id));
            self.is_overgrown = self.is_too_large(index);
        }
        Ok(Some(applied.removed_by))
    }

    fn is_too_large(&self, index: &Index) -> bool {
        index.bytes() + self.shared.counts.lock().file_bytes > self.shared.bytes_max
    }

    fn is_sync_due(&self) -> bool {
        let now = self.shared.clock.now();
        self.unsynced.since.is_some_and(|since| since.after(SYNC_EVERY) <= now)
            || self.unsynced.bytes > self.shared.bytes_max / UNSYNCED_SHARE
    }

    fn note(&mut self, applied: &Applied) {
        *self.shared.counts.lock() = applied.counts;
        self.shared.evictions.fetch_add(applied.evicted, Relaxed);
        self.shared.note_keys(&applied.added, &applied.removed);
        self.unsynced.files.extend(&applied.files);
        if let Some(error) = &applied.trouble {
            self.pause(&error.to_string());
        } else if !applied.added.is_empty() && std::mem::take(&mut self.is_told) {
            let directory = self.shared.directory.display();
            tracing::info!(%directory, "the cache in {directory} takes answers again");
        }
    }

    /// Drops bodies of answers that are not in the index after all.
    fn drop_bodies(&mut self, changes: &[Change]) {
        for id in changes.iter().filter_map(|change| change.what.new_id()) {
            self.drafts.give_up(id);
            self.shared.files.remove(id);
        }
    }

    fn pause(&mut self, error: &str) {
        self.shared.is_full.store(true, Relaxed);
        self.paused_until = Some(self.shared.clock.now().after(PAUSE));
        if !std::mem::replace(&mut self.is_told, true) {
            let directory = self.shared.directory.display();
            let (what, rest) = match self.shared.index.read().is_some() {
                true => ("takes no more", "what is there is given still"),
                false => ("is given up", "answers are kept in memory alone"),
            };
            let pause = PAUSE.as_secs();
            tracing::warn!(
                %directory,
                "the cache in {directory} {what}: {error}; {rest}, and it is tried again every {pause} s"
            );
        }
    }

    /// The index could not be written. Nothing of what was not synced may be in it by half.
    fn recover(&mut self, error: &IndexError, removes: bool) {
        match error {
            IndexError::Broken(error) => {
                // Closed before it is renamed: the library writes when it closes.
                *self.shared.index.write() = None;
                // If even that cannot be done, beginning anew cannot either, and tells of it.
                let _ = place::put_aside(&self.shared.directory, error);
                self.begin_anew();
            }
            IndexError::Io(_) | IndexError::Taken if removes || !self.open_again() => {
                self.begin_anew();
                self.pause(&error.to_string());
            }
            IndexError::Io(_) | IndexError::Taken => self.pause(&error.to_string()),
        }
    }

    /// Opens the index as it was when it was last synced.
    fn open_again(&mut self) -> bool {
        let mut index = self.shared.index.write();
        *index = None;
        let Ok((again, known)) = place::read_as_it_is(&self.shared.directory) else { return false };
        *index = Some(again);
        // Files that nobody knows any more would fill the disk for good.
        (self.unsynced, self.drafts) = Default::default();
        let _ = self.shared.files.sweep(|id| known.files.contains(&id));
        *self.shared.counts.lock() = known.counts;
        self.shared.keys.lock().clear();
        self.shared.note_keys(&known.keys, &[]);
        true
    }

    /// Throws everything away.
    fn begin_anew(&mut self) {
        if let Err(error) = self.try_begin_anew() {
            self.pause(&error.to_string());
        }
    }

    fn try_begin_anew(&mut self) -> Result<(), IndexError> {
        let mut index = self.shared.index.write();
        *index = None;
        (self.unsynced, self.drafts) = Default::default();
        *self.shared.counts.lock() = Counts::default();
        self.shared.keys.lock().clear();
        // Another's directory must not be swept.
        self.shared.place.lock().take_again()?;
        let anew = place::begin_anew(&self.shared.directory);
        // Those that cannot be removed now are when it is opened the next time.
        let _ = self.shared.files.make_folder().and_then(|()| self.shared.files.sweep(|_| false));
        *index = Some(anew?);
        Ok(())
    }
}

/// What answers may take of all that the cache may take: the rest is for what was removed and is not yet written over.
pub(super) fn room(bytes_max: u64) -> u64 {
    bytes_max / 4 * 3
}

fn tell(changes: &[Change], removed: &[u64]) {
    for (at, change) in changes.iter().enumerate() {
        if let Some(waiter) = &change.waiter {
            waiter.tell(removed.get(at).copied().unwrap_or(0));
        }
    }
}
