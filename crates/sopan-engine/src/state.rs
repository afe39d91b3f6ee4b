//! State that survives the process, also `kill -9`, so that a crash does not spend a quota twice.
//!
//! One [`StateFile`] serves the program, and every upstream has a [`StateHandle`] to it. What the core hands out as
//! [`Note`]s is appended as a line before the turns are used that it came with: what the kernel has taken survives the
//! process. A thread of its own sees to what may take long: about once a second the file is synced to the disk, against
//! loss of power (which can cost that second), and when it has grown it is written anew; so it is when it was removed or
//! cut under the program. A disk that cannot be written to stops nobody: that is warned of, and mended as soon as it can be.
//!
//! What is said when is [`sopan_core::journal`]'s business.

mod disk;
mod lines;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use sopan_core::journal::{Ledger, Note};
use sopan_core::time::Instant;

use crate::clock::Clock;
use disk::Named;
pub use disk::StateError;
use lines::Stamp;

/// A file that has grown beyond this is written anew.
const SIZE_MAX: u64 = 1024 * 1024;
/// One that could not be written anew for so long takes no more: it would fill the disk, and be too long to be read again.
const GROWN_MAX: u64 = 16 * SIZE_MAX;
/// What is written is on the disk after this time, and a little.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// A disk that cannot be written to is warned of this far apart.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// The file in which the state of all upstreams is kept. No other program can use it meanwhile.
#[derive(Debug)]
pub struct StateFile {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

/// One upstream's part of a [`StateFile`].
#[derive(Debug, Clone)]
pub struct StateHandle {
    shared: Arc<Shared>,
    name: Arc<str>,
}

#[derive(Debug)]
struct Shared {
    /// The file itself, where its name was a link.
    path: PathBuf,
    clock: Clock,
    inner: Mutex<Inner>,
    /// Taken by who writes the file anew, before `inner`.
    anew: Mutex<()>,
    /// There is something for the keeper to do.
    bell: Condvar,
    /// It must do it at once, since the file is closed.
    end: Condvar,
}

#[derive(Debug)]
struct Inner {
    file: Arc<File>,
    len: u64,
    /// What the file says, added up.
    ledgers: BTreeMap<String, Ledger>,
    /// The upstreams that exist.
    known: BTreeSet<String>,
    /// What was appended while the file is being written anew.
    meanwhile: Option<Vec<u8>>,
    /// A line was not written to its end.
    is_torn: bool,
    is_unsynced: bool,
    /// It should be written anew.
    is_stale: bool,
    is_closed: bool,
    trouble: Trouble,
}

/// A disk that cannot be written to.
#[derive(Debug, Default)]
struct Trouble {
    error: Option<io::Error>,
    told: Option<Instant>,
    is_over: bool,
}

enum News {
    /// What is written is not on file.
    Failing(io::Error),
    /// All is on file again.
    Mended,
}

impl StateFile {
    /// Opens the file, or creates it, and reads what it knows.
    ///
    /// # Errors
    /// A file that cannot be opened or locked, or is not one of ours. It is left as it is then.
    pub fn open(path: &Path, clock: Clock) -> Result<Self, StateError> {
        let mut opened = disk::open(path)?;
        if lines::is_unwritten(&opened.text) {
            opened.file.set_len(0).map_err(|error| StateError::Write { path: path.into(), error })?;
            opened.text.clear();
        }
        let now = Stamp::of(clock);
        let read = lines::read(&opened.text, lines::boot_id().as_deref(), now).map_err(|e| e.of(path))?;
        if read.unreadable > 0 {
            let (file, lines) = (path.display(), read.unreadable);
            tracing::warn!(%file, lines, "{file}: lines that cannot be read and are passed over: {lines}");
        }
        let inner = Inner {
            file: Arc::new(opened.file),
            len: opened.text.len() as u64,
            ledgers: read.ledgers,
            known: BTreeSet::new(),
            meanwhile: None,
            is_torn: !opened.text.is_empty() && !opened.text.ends_with(b"\n"),
            is_unsynced: false,
            is_stale: false,
            is_closed: false,
            trouble: Trouble::default(),
        };
        let shared = Shared {
            path: opened.path,
            clock,
            inner: Mutex::new(inner),
            anew: Mutex::new(()),
            bell: Condvar::new(),
            end: Condvar::new(),
        };
        let file = Self { shared: Arc::new(shared), keeper: None };
        let header = if opened.text.is_empty() { lines::header() } else { Vec::new() };
        let beginning = [header, lines::process(lines::boot_id().as_deref())].concat();
        let failed = |error| StateError::Write { path: path.into(), error };
        file.shared.inner.lock().append(&beginning).map_err(failed)?;
        Ok(file)
    }

    /// The part of the upstream of this name.
    pub fn upstream(&self, name: &str) -> StateHandle {
        StateHandle { shared: Arc::clone(&self.shared), name: name.into() }
    }

    /// Forgets the upstreams that were not set up since it was opened, and sees to the file from now on. It can be called
    /// again when upstreams have come and gone.
    ///
    /// # Errors
    /// The file cannot be written anew, which it will have to be now and then; nothing is lost.
    pub fn begin(&mut self) -> Result<(), StateError> {
        {
            let inner = &mut *self.shared.inner.lock();
            inner.ledgers.retain(|name, _| inner.known.contains(name));
        }
        let failed = |error| StateError::Write { path: self.shared.path.clone(), error };
        self.shared.write_anew().map_err(failed)?;
        if self.keeper.is_some() {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let keeper = std::thread::Builder::new().name("state".to_owned()).spawn(move || shared.keep());
        self.keeper = Some(keeper.map_err(failed)?);
        Ok(())
    }
}

impl Drop for StateFile {
    /// What was written is on the disk when this is over.
    fn drop(&mut self) {
        self.shared.inner.lock().is_closed = true;
        self.shared.bell.notify_one();
        self.shared.end.notify_one();
        if let Some(keeper) = self.keeper.take() {
            // A panic was told of already.
            let _ = keeper.join();
        }
    }
}

impl StateHandle {
    /// What the file knows of this upstream, of which all limits are forgotten but those that are called so.
    pub(crate) fn restore(&self, kept: &BTreeSet<String>) -> Vec<Note> {
        let mut inner = self.shared.inner.lock();
        inner.known.insert(self.name.as_ref().to_owned());
        let Some(ledger) = inner.ledgers.get_mut(self.name.as_ref()) else { return Vec::new() };
        let forgotten = ledger.keep_only(kept);
        let notes = ledger.notes(Stamp::of(self.shared.clock).tick());
        drop(inner);
        let upstream = self.name.as_ref();
        if !notes.is_empty() {
            let known: Vec<_> = notes.iter().map(in_words).collect();
            tracing::info!(upstream, "from before this start: {}", known.join("; "));
        }
        for limit in forgotten {
            let now: Vec<_> = kept.iter().map(String::as_str).collect();
            let now = if now.is_empty() { "none that is kept".to_owned() } else { now.join(", ") };
            tracing::info!(upstream, %limit, "what was used of {limit} is forgotten, since the quotas are {now} now: those start full");
        }
        notes
    }

    /// What the file knows of this upstream stays there, though nobody uses it now.
    pub(crate) fn keep(&self) {
        self.shared.inner.lock().known.insert(self.name.as_ref().to_owned());
    }

    /// Has these on file when it returns, if the disk lets it.
    pub(crate) fn write(&self, notes: &mut Vec<Note>) {
        if !notes.is_empty() {
            self.shared.append(&self.name, std::mem::take(notes));
        }
    }
}

fn in_words(note: &Note) -> String {
    match note {
        Note::Sliding { limit, left, may } => {
            let used = left.iter().fold(*may, |sum, left| sum.saturating_add(left.turns));
            format!("{used} used of {limit}")
        }
        Note::Calendar { limit, days, today, may } => {
            let used = days.iter().find(|(date, _)| date == today).map_or(0, |(_, used)| *used);
            format!("{} used of {limit} on {today}", used.saturating_add(*may))
        }
        Note::Hold { left } => format!("nothing is sent for another {:.2} s", left.as_secs_f64()),
        Note::Breaker { open_for: Some(left) } if !left.is_zero() => {
            format!("the breaker is open for another {:.2} s", left.as_secs_f64())
        }
        Note::Breaker { .. } => "the breaker was open".to_owned(),
    }
}

impl Shared {
    fn append(&self, name: &str, notes: Vec<Note>) {
        let mut inner = self.inner.lock();
        let now = Stamp::of(self.clock);
        let line = lines::line(name, &notes, now);
        let ledger = inner.ledgers.entry(name.to_owned()).or_default();
        notes.into_iter().for_each(|note| ledger.add(note, now.tick()));
        if let Some(meanwhile) = &mut inner.meanwhile {
            meanwhile.extend_from_slice(&line);
        }
        match inner.append(&line) {
            Ok(()) => inner.is_stale |= inner.len > SIZE_MAX,
            // It is in the ledger, so it will be in the file when that is written anew.
            Err(error) => {
                inner.is_stale = true;
                inner.trouble.error = Some(error);
            }
        }
        self.bell.notify_one();
    }

    /// Syncs the file and writes it anew when that is due, until it is closed.
    fn keep(&self) {
        loop {
            let mut inner = self.inner.lock();
            while !inner.is_unsynced && !inner.is_stale && !inner.is_closed {
                self.bell.wait(&mut inner);
            }
            let is_last = inner.is_closed;
            drop(inner);
            self.tend();
            if is_last {
                return;
            }
            let mut inner = self.inner.lock();
            if !inner.is_closed {
                self.end.wait_for(&mut inner, SYNC_EVERY);
            }
        }
    }

    fn tend(&self) {
        let mut inner = self.inner.lock();
        let (file, len, is_stale) = (Arc::clone(&inner.file), inner.len, inner.is_stale);
        inner.is_unsynced = false;
        drop(inner);
        // Who tidies up may take it away, and what is written then is read by nobody.
        let is_whole = || matches!(disk::named(&self.path, &file), Ok(Named::Ours(found)) if found >= len);
        let done = if is_stale || !is_whole() { self.write_anew() } else { file.sync_data() };
        let mut inner = self.inner.lock();
        let now = self.clock.now();
        match done {
            Ok(()) => inner.trouble.is_over = true,
            Err(error) => {
                inner.is_stale = true;
                inner.trouble.error = Some(error);
            }
        }
        let news = inner.trouble.news(now);
        drop(inner);
        let file = self.path.display();
        match news {
            Some(News::Failing(error)) => tracing::warn!(
                %file,
                %error,
                "the state cannot be written to {file}: {error}; sopan goes on, and a crash now would forget what was used of quotas"
            ),
            Some(News::Mended) => {
                tracing::info!(%file, "the state is written to {file} again, with all that was missing")
            }
            None => {}
        }
    }

    /// Writes the file anew, with nothing in it but what still matters. Lines can be appended meanwhile.
    fn write_anew(&self) -> io::Result<()> {
        let _one_at_a_time = self.anew.lock();
        let mut inner = self.inner.lock();
        let file = Arc::clone(&inner.file);
        let mut text = [lines::header(), lines::process(lines::boot_id().as_deref())].concat();
        let now = Stamp::of(self.clock);
        for (name, ledger) in &inner.ledgers {
            let notes = ledger.notes(now.tick());
            if !notes.is_empty() {
                text.extend(lines::line(name, &notes, now));
            }
        }
        inner.meanwhile = Some(Vec::new());
        drop(inner);
        let draft = disk::Draft::write(&self.path, &text).and_then(|draft| match disk::named(&self.path, &file)? {
            Named::Another => Err(io::Error::other("another file has its name, which is left as it is")),
            Named::Ours(_) | Named::Nothing => Ok(draft),
        });
        let mut inner = self.inner.lock();
        let meanwhile = inner.meanwhile.take().unwrap_or_default();
        let file = draft.and_then(|draft| draft.publish(&meanwhile))?;
        (inner.file, inner.len) = (Arc::new(file), (text.len() + meanwhile.len()) as u64);
        (inner.is_stale, inner.is_torn, inner.is_unsynced) = (false, false, !meanwhile.is_empty());
        drop(inner);
        disk::sync_directory(&self.path)
    }
}

impl Inner {
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if self.len > GROWN_MAX {
            return Err(io::Error::other("it has grown long and cannot be written anew"));
        }
        let text = if self.is_torn { [b"\n", line].concat() } else { line.to_vec() };
        self.is_torn = true;
        (&*self.file).write_all(&text)?;
        (self.is_torn, self.is_unsynced) = (false, true);
        self.len += text.len() as u64;
        Ok(())
    }
}

impl Trouble {
    /// What is to be told now.
    fn news(&mut self, now: Instant) -> Option<News> {
        let is_over = std::mem::take(&mut self.is_over);
        match self.error.take() {
            // Written anew, so what failed before is mended; another failure soon after is the same trouble.
            Some(_) if is_over => None,
            Some(_) if self.told.is_some_and(|told| now < told.after(WARN_EVERY)) => None,
            Some(error) => {
                self.told = Some(now);
                Some(News::Failing(error))
            }
            None if is_over && self.told.is_some() => {
                self.told = None;
                Some(News::Mended)
            }
            None => None,
        }
    }
}

#[cfg(test)]
mod tests;
