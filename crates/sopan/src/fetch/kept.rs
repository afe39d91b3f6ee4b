//! What of a traversal is on the disk, and where does it go on?
//!
//! Records lie in a part file beside the output, and what was set aside in another. After each page a line of the trail
//! ([`trail`]) says where the traversal stands, how far both files reach, and the sum of what the page added. So kill -9 costs
//! no page that was kept. About once a second both files are synced, then the ledger ([`ledger`]), and the trail begins anew. When
//! it is opened again, the newest stand counts whose page is really there, and what lies beyond is cut off: so a power cut costs
//! about a second.
//!
//! The output is a function of the part file. It is made in a file of its own, and moved when the ledger knows that it will be;
//! whoever is killed in between makes it again, without a request.
//!
//! Files of `orders.jsonl`: `.part`, `.rejects.jsonl.part`, `.trail` while it runs, `.state` (the ledger) also afterwards.
//! State and trail are for their owner only, since URLs are in them.

mod entry;
mod ledger;
pub(super) mod media;
mod part;
#[cfg(test)]
mod tests;
mod trail;

use std::ffi::OsString;
use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::TryRng as _;
use rand::rngs::SysRng;

use self::entry::Entry;
use self::ledger::{Ledger, LedgerError};
use self::media::{Media, PRIVATE};
use self::part::Part;
use self::trail::Trail;
use super::sinks::{Done, Progress, Sink, SinkError};
use super::stand::{JobDigest, Past, Stand};

/// What a power cut may cost.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// Where a traversal is kept, and whose it is.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The output.
    pub(crate) out: PathBuf,
    /// What is asked for.
    pub(crate) job: JobDigest,
}

impl Place {
    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = OsString::from(&self.out);
        name.push(ending);
        name.into()
    }
}

/// Why nothing can be kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeptError {
    /// Another run has it.
    #[error("another run writes to `{}`; wait for its end, or name another output", .0.display())]
    Taken(PathBuf),
    /// What is there belongs to another job.
    #[error(
        "`{}` is the state of another job: {}; name another output, or begin anew with --restart, which forgets it",
        .state.display(), .differences.join(", ")
    )]
    OtherJob {
        /// Its state.
        state: PathBuf,
        /// In what it differs.
        differences: Vec<String>,
    },
    /// What is there cannot be understood.
    #[error("`{}` cannot be used: {why}; begin anew with --restart, which forgets it", .state.display())]
    Broken {
        /// The state.
        state: PathBuf,
        /// Why.
        why: String,
    },
    /// The system does not let us.
    #[error("`{}` cannot be used: {source}", .path.display())]
    Io {
        /// What it is about.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> KeptError {
    move |source| KeptError::Io { path: path.to_owned(), source }
}

fn of_ledger(path: &Path) -> impl FnOnce(LedgerError) -> KeptError {
    move |error| match error {
        LedgerError::Io(source) => KeptError::Io { path: path.to_owned(), source },
        LedgerError::Broken(why) => KeptError::Broken { state: path.to_owned(), why },
    }
}

/// What is there of a traversal.
#[derive(Debug)]
pub(crate) struct Kept {
    place: Place,
    state: PathBuf,
    ledger: Ledger,
    trail: Trail,
    part: Part,
    rejects: Part,
    /// After the newest page that is kept, with the shape of all records.
    entry: Entry,
    /// What the ledger does not know yet.
    asked: Vec<u64>,
    synced: Instant,
    /// Whether there is something that is not synced.
    is_ahead: bool,
    is_moving: bool,
    past: Option<Past>,
}

impl Kept {
    /// Opens what is there, and tells where the traversal stands; none if it begins. With `restart` it begins anyway.
    ///
    /// Nothing follows the last page: then only the output is missing ([`finish`](Self::finish)).
    ///
    /// # Errors
    /// What was kept is there still then.
    pub(crate) fn open(place: &Place, restart: bool) -> Result<(Self, Option<Stand>), KeptError> {
        if place.out.is_dir() {
            return Err(io_at(&place.out)(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        let state = place.beside(".state");
        let media = Media::open(&state, PRIVATE).map_err(io_at(&state))?;
        match media.file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(KeptError::Taken(place.out.clone())),
            Err(TryLockError::Error(source)) => return Err(io_at(&state)(source)),
        }
        if restart {
            media.cut(0).map_err(io_at(&state))?;
        }
        let ledger = Ledger::open(media).map_err(of_ledger(&state))?;
        let found = ledger.found().map_err(of_ledger(&state))?;
        let path = place.beside(".trail");
        let trail = Trail::open(&path).map_err(io_at(&path))?;
        // A run that failed before its first page was kept has nothing to go on from.
        let has_page = found.is_moving || found.entry.as_ref().is_some_and(|entry| entry.stand.page > 0);
        let run = match found.run {
            Some(run) if has_page || !trail.entries(run).map_err(io_at(&path))?.is_empty() => Some(run),
            _ => None,
        };
        let is_same = found.job.as_ref().is_some_and(|job| match run {
            Some(_) => place.job.goes_on_from(job),
            None => place.job.takes_the_mark_of(job),
        });
        let is_changed = found.job.as_ref() != Some(&place.job);
        let has_mark = found.past.as_ref().is_some_and(|past| past.mark.is_some());
        if let Some(job) = found.job.filter(|_| !is_same && (run.is_some() || has_mark)) {
            return Err(KeptError::OtherJob { state, differences: place.job.differences(&job) });
        }
        let open = |ending| {
            let path = place.beside(ending);
            Part::open(&path).map_err(io_at(&path))
        };
        let (part, rejects) = (open(".part")?, open(".rejects.jsonl.part")?);
        let goes_on = run.is_some();
        let run = match run {
            Some(run) => run,
            None => SysRng.try_next_u64().map_err(|e| io_at(&state)(io::Error::other(e)))?,
        };
        let mut kept = Self {
            place: place.clone(),
            state,
            ledger,
            trail,
            part,
            rejects,
            entry: found.entry.filter(|_| goes_on).unwrap_or_else(|| Entry::begin(run)),
            asked: Vec::new(),
            synced: Instant::now(),
            is_ahead: false,
            is_moving: found.is_moving,
            past: found.past.filter(|_| is_same),
        };
        if goes_on {
            if is_changed {
                kept.ledger.becomes(&place.job).map_err(of_ledger(&kept.state))?;
            }
            kept.go_on()?;
        } else {
            kept.begin(is_same)?;
        }
        let stand = (kept.entry.stand.page > 0).then(|| kept.entry.stand.clone());
        Ok((kept, stand))
    }

    fn begin(&mut self, is_same: bool) -> Result<(), KeptError> {
        // What a trail or a part file holds by now belongs to no traversal.
        self.trail.clear().map_err(io_at(&self.trail.path))?;
        self.cut()?;
        self.ledger.begin(&self.place.job, self.entry.run, is_same).map_err(of_ledger(&self.state))
    }

    /// Finds the newest stand whose page is there, and forgets what lies beyond.
    fn go_on(&mut self) -> Result<(), KeptError> {
        if self.is_moving {
            self.entry.stand.next = None;
            return Ok(());
        }
        for (part, reach) in [(&self.part, self.entry.part), (&self.rejects, self.entry.rejects)] {
            let there = part.there().map_err(io_at(&part.path))?.unwrap_or(0);
            if there < reach.bytes {
                let (part, bytes) = (part.path.display(), reach.bytes);
                let why = format!("`{part}` had {bytes} bytes when it was written, and has {there}");
                return Err(KeptError::Broken { state: self.state.clone(), why });
            }
        }
        for entry in self.trail.entries(self.entry.run).map_err(io_at(&self.trail.path))? {
            if entry.stand.page <= self.entry.stand.page {
                // The ledger knew of it already, and the trail was about to begin anew.
                continue;
            }
            let holds = |part: &Part, from, to| part.holds(from, to).map_err(io_at(&part.path));
            let is_there = holds(&self.part, self.entry.part, entry.part)?
                && holds(&self.rejects, self.entry.rejects, entry.rejects)?;
            if !is_there || entry.stand.page != self.entry.stand.page + 1 {
                break;
            }
            self.take(entry);
        }
        self.cut()?;
        self.sync().map_err(io_at(&self.state))
    }

    fn cut(&mut self) -> Result<(), KeptError> {
        let Entry { part, rejects, .. } = self.entry;
        self.part.cut_to(part).map_err(io_at(&self.part.path))?;
        self.rejects.cut_to(rejects).map_err(io_at(&self.rejects.path))
    }

    /// That is the newest page.
    fn take(&mut self, mut entry: Entry) {
        if entry.stand.shape.is_none() {
            entry.stand.shape = self.entry.stand.shape.take();
        }
        self.asked.extend(entry.stand.asked);
        (self.part.reach, self.rejects.reach) = (entry.part, entry.rejects);
        self.entry = entry;
        self.is_ahead = true;
    }

    /// By what it is known which pages were asked for.
    ///
    /// # Errors
    /// A state that cannot be read.
    pub(crate) fn asked(&self) -> Result<Vec<u64>, KeptError> {
        let mut asked = self.ledger.asked().map_err(of_ledger(&self.state))?;
        asked.extend(&self.asked);
        Ok(asked)
    }

    /// What the last run of this job that became whole left.
    pub(crate) fn past(&self) -> Option<&Past> {
        self.past.as_ref()
    }

    /// Keeps a page: its good records and those that were set aside, one a line, each line with its end. Now and then that
    /// waits for the disk.
    ///
    /// # Errors
    /// All pages before it are kept; whether it is too shows when it is opened again, so the run is to end.
    pub(crate) fn page(&mut self, lines: &[u8], rejects: &[u8], stand: &Stand) -> io::Result<()> {
        if self.is_moving {
            return Err(io::Error::other("the traversal is over already"));
        }
        let part = self.part.add(lines)?;
        let rejects = self.rejects.add(rejects)?;
        let entry = Entry { run: self.entry.run, part, rejects, stand: stand.clone() };
        self.trail.add(&entry)?;
        self.take(entry);
        if self.synced.elapsed() >= SYNC_EVERY { self.sync() } else { Ok(()) }
    }

    /// Everything that is kept outlives a power cut from here on.
    fn sync(&mut self) -> io::Result<()> {
        if self.is_ahead {
            self.part.sync()?;
            self.rejects.sync()?;
            self.ledger.stands(&self.entry, &self.asked)?;
            self.asked.clear();
            self.trail.clear()?;
            self.is_ahead = false;
        }
        self.synced = Instant::now();
        Ok(())
    }

    /// Makes the output of what is kept, and ends the traversal. That takes as long as the output does; `progress` tells how far it is, and
    /// can stop it.
    ///
    /// # Errors
    /// All pages are kept still: the next run makes the output without a request.
    pub(crate) fn finish(mut self, sink: &Sink, progress: &Progress) -> Result<Done, SinkError> {
        let out = self.place.out.clone();
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| SinkError::Io { path, source }
        };
        self.sync().map_err(failed(&self.state))?;
        let has_rejects = self.entry.rejects.bytes > 0;
        let rejects = self.place.beside(".rejects.jsonl");
        let stand = &self.entry.stand;
        // Without a part file it was moved already, and only its end was not written down.
        let is_moved = self.is_moving && self.part.there().map_err(failed(&self.part.path))?.is_none();
        let made = if is_moved {
            None
        } else {
            self.part.make().and_then(Media::sync).map_err(failed(&self.part.path))?;
            Some(sink.make(&self.part.path, &out, progress)?)
        };
        self.ledger.moves().map_err(|e| failed(&self.state)(e.into()))?;
        if !has_rejects {
            media::remove(&rejects).map_err(failed(&rejects))?;
        } else if self.rejects.path.exists() {
            media::rename(&self.rejects.path, &rejects).map_err(failed(&rejects))?;
        }
        if let Some(draft) = made.flatten() {
            media::rename(&draft, &out).map_err(failed(&out))?;
        }
        let bytes = out.metadata().map_err(failed(&out))?.len();
        let past = Past {
            pages: stand.page,
            records: stand.records,
            rejects: stand.rejects,
            mark: stand.mark.clone(),
            shape: stand.shape.clone(),
        };
        self.ledger.ends(&past).map_err(|e| failed(&self.state)(e.into()))?;
        for gone in [&self.part.path, &self.trail.path] {
            media::remove(gone).map_err(failed(gone))?;
        }
        Ok(Done { out, bytes, records: past.records, rejects: has_rejects.then_some(rejects) })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // What this fails to do is done when it is opened again.
        let _ = self.sync();
    }
}
