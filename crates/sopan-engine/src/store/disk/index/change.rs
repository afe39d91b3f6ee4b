//! What follows from a change for the tables?
//!
//! Many changes are made together, and then as many answers go, those that came first, as it takes to keep within the
//! bound. The files of those that went are for the caller to remove.

use redb::{Durability, ReadableTable as _, Table};
use sopan_core::cache::Stored;

use super::{BODIES, Counts, Index, IndexError, ORDER, Outcome, VARIANTS, guarded};
use crate::store::disk::files::Files;
use crate::store::disk::queue::{Change, What};
use crate::store::disk::record::{self, Shape};
use crate::store::disk::spill::Drafts;
use crate::store::entry::{Body, Variant};
use crate::store::key::{Key, Scope};

/// Keys that are looked at in one go when many go.
const SWEEP: usize = 4096;
/// A page of the index.
const PAGE: u64 = 4096;
/// What a row takes beside its key and value.
const ROW_BYTES: u64 = 48;
/// When too much is there, so much of the bound is freed that it need not be done again at once: one part of these.
const FREED: u64 = 32;

/// What has become of changes.
#[derive(Debug, Default)]
pub(in crate::store::disk) struct Applied {
    pub(in crate::store::disk) counts: Counts,
    /// Keys, by digest, with one more answer each time.
    pub(in crate::store::disk) added: Vec<u64>,
    /// Keys with one less.
    pub(in crate::store::disk) removed: Vec<u64>,
    /// Files that are no longer needed.
    pub(in crate::store::disk) files: Vec<u64>,
    /// How many answers each change has removed.
    pub(in crate::store::disk) removed_by: Vec<u64>,
    /// How many answers went to make room.
    pub(in crate::store::disk) evicted: u64,
    /// Why a body could not be written.
    pub(in crate::store::disk) trouble: Option<std::io::Error>,
}

/// Within what changes are made.
#[derive(Clone, Copy, Debug)]
pub(in crate::store::disk) struct Limits {
    /// What is there before.
    pub(in crate::store::disk) counts: Counts,
    pub(in crate::store::disk) bytes_max: u64,
    pub(in crate::store::disk) may_store: bool,
}

struct Tables<'t, 'a> {
    variants: Table<'t, (&'static [u8], u64), &'static [u8]>,
    bodies: Table<'t, u64, &'static [u8]>,
    order: Table<'t, u64, (u64, u64, &'static [u8])>,
    files: &'a Files,
    drafts: &'a mut Drafts,
    may_store: bool,
    applied: Applied,
}

impl Index {
    /// Makes changes, and removes what is too much then; stores nothing unless it may. They are on the disk for good when
    /// [`sync`](Index::sync) says so.
    pub(in crate::store::disk) fn apply(
        &self,
        changes: &[Change],
        files: &Files,
        drafts: &mut Drafts,
        limits: Limits,
    ) -> Result<Applied, IndexError> {
        guarded(|| {
            let mut begun = self.database()?.begin_write()?;
            begun.set_durability(Durability::None).map_err(redb::Error::from)?;
            let applied = {
                let mut tables = Tables {
                    variants: begun.open_table(VARIANTS)?,
                    bodies: begun.open_table(BODIES)?,
                    order: begun.open_table(ORDER)?,
                    files,
                    drafts,
                    may_store: limits.may_store,
                    applied: Applied { counts: limits.counts, ..Applied::default() },
                };
                for change in changes {
                    let before = tables.applied.removed.len();
                    tables.make(&change.what)?;
                    let removed = tables.applied.removed.len() - before;
                    tables.applied.removed_by.push(removed as u64);
                }
                tables.make_room(limits.bytes_max)?;
                tables.applied
            };
            begun.commit()?;
            Ok(applied)
        })
    }
}

impl Tables<'_, '_> {
    fn make(&mut self, what: &What) -> Outcome<()> {
        match what {
            What::Put { key, variant, replaces } => {
                replaces.iter().try_for_each(|id| self.remove(key.as_bytes(), *id))?;
                if self.may_store { self.put(key, variant) } else { Ok(()) }
            }
            What::PutSpilled { key, id, stored, length, replaces } => {
                replaces.iter().try_for_each(|id| self.remove(key.as_bytes(), *id))?;
                let shape = self.drafts.finish(*id, *length);
                shape.map_or(Ok(()), |shape| self.insert(key, *id, stored, &shape))
            }
            What::Piece { .. } | What::GiveUp { .. } => Ok(()),
            What::Head { key, id, stored } => self.set_head(key, *id, &stored.encode()),
            What::Remove { key, ids } => ids.iter().try_for_each(|id| self.remove(key.as_bytes(), *id)),
            What::Forget { key } => {
                let range = self.variants.range((key.as_bytes(), 0)..=(key.as_bytes(), u64::MAX))?;
                let ids: Outcome<Vec<_>> = range.map(|row| Ok(row?.0.value().1)).collect();
                ids?.into_iter().try_for_each(|id| self.remove(key.as_bytes(), id))
            }
            What::Purge(scope) => self.purge(scope),
        }
    }

    fn put(&mut self, key: &Key, variant: &Variant) -> Outcome<()> {
        let Body::Memory(body) = &variant.body else { return Ok(()) };
        let shape = Shape::of(variant.id, body);
        if !shape.is_file {
            self.bodies.insert(variant.id, &body[..])?;
        } else if let Err(error) = self.files.write(variant.id, body) {
            self.applied.trouble = Some(error);
            return Ok(());
        }
        self.insert(key, variant.id, &variant.stored, &shape)
    }

    /// Makes a record for a body that is written.
    fn insert(&mut self, key: &Key, id: u64, stored: &Stored, shape: &Shape) -> Outcome<()> {
        let record = record::write(key.as_bytes(), id, &stored.encode(), shape);
        self.variants.insert((key.as_bytes(), id), &record[..])?;
        let key_bytes = key.as_bytes().len() as u64;
        let rows = paged(record.len() as u64 + key_bytes) + paged(key_bytes);
        let (index_bytes, file_bytes) = match shape.is_file {
            true => (rows, shape.length.next_multiple_of(PAGE)),
            false => (rows + paged(shape.length), 0),
        };
        self.order.insert(id, (index_bytes, file_bytes, key.as_bytes()))?;
        self.applied.counts.answers += 1;
        self.applied.counts.index_bytes += index_bytes;
        self.applied.counts.file_bytes += file_bytes;
        self.applied.added.push(key.digest());
        Ok(())
    }

    fn set_head(&mut self, key: &Key, id: u64, head: &[u8]) -> Outcome<()> {
        let place = (key.as_bytes(), id);
        let known = self.variants.get(place)?.map(|record| record.value().to_vec());
        let Some((_, shape)) = known.as_deref().and_then(|known| record::read(key.as_bytes(), id, known)) else {
            return Ok(());
        };
        self.variants.insert(place, &record::write(key.as_bytes(), id, head, &shape)[..])?;
        Ok(())
    }

    fn remove(&mut self, key: &[u8], id: u64) -> Outcome<()> {
        let row = self.order.remove(id)?.map(|row| own(row.value()));
        // Also where the tables do not agree, it must not be found any more.
        self.variants.remove((key, id))?;
        row.map_or(Ok(()), |row| self.clear(id, row))
    }

    /// Removes what belongs to a row of the order that was removed.
    fn clear(&mut self, id: u64, (index_bytes, file_bytes, key): (u64, u64, Vec<u8>)) -> Outcome<()> {
        self.variants.remove((&key[..], id))?;
        if file_bytes > 0 {
            self.applied.files.push(id);
        } else {
            self.bodies.remove(id)?;
        }
        let counts = &mut self.applied.counts;
        counts.answers = counts.answers.saturating_sub(1);
        counts.index_bytes = counts.index_bytes.saturating_sub(index_bytes);
        counts.file_bytes = counts.file_bytes.saturating_sub(file_bytes);
        self.applied.removed.push(Key::from_bytes(key.into()).digest());
        Ok(())
    }

    fn purge(&mut self, scope: &Scope) -> Outcome<()> {
        let beginning = scope.beginning();
        let mut from = (beginning.clone(), 0);
        loop {
            let mut seen: Vec<(Vec<u8>, u64)> = Vec::new();
            for row in self.variants.range((&from.0[..], from.1)..)?.take(SWEEP) {
                let place = row?.0;
                let (key, id) = place.value();
                if !key.starts_with(&beginning) {
                    break;
                }
                seen.push((key.to_vec(), id));
            }
            let Some((key, id)) = seen.last() else { return Ok(()) };
            from = (key.clone(), id + 1);
            for (key, id) in seen {
                if scope.holds(&key) {
                    self.remove(&key, id)?;
                }
            }
        }
    }

    fn make_room(&mut self, bytes_max: u64) -> Outcome<()> {
        if self.applied.counts.bytes() <= bytes_max {
            return Ok(());
        }
        while self.applied.counts.bytes() > bytes_max - bytes_max / FREED {
            let Some((id, row)) = self.order.pop_first()?.map(|(id, row)| (id.value(), own(row.value()))) else {
                break;
            };
            self.clear(id, row)?;
            self.applied.evicted += 1;
        }
        Ok(())
    }
}

fn own((index_bytes, file_bytes, key): (u64, u64, &[u8])) -> (u64, u64, Vec<u8>) {
    (index_bytes, file_bytes, key.to_vec())
}

/// About what a value takes: small ones share pages that are two thirds full; a large one has as many as the next power of two.
fn paged(bytes: u64) -> u64 {
    let bytes = bytes + ROW_BYTES;
    if bytes < PAGE / 2 { bytes * 3 / 2 } else { (bytes + ROW_BYTES).next_power_of_two().max(PAGE) }
}
