//! What arrived, in the order in which it arrived: the oracle that tests and demos ask.
//!
//! An entry is made when a request's head is in, and learns its status when the answer is decided, so that a request
//! whose client left in between is not forgotten. The oldest entries go when there are too many.

use std::collections::VecDeque;

use serde::Serialize;

/// One request that counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The status of the answer; none where no whole response head was sent: the connection was dropped before or
    /// within it, the client left while its body was read, or the answer is still to be decided.
    pub status: Option<u16>,
    /// The request's method.
    pub method: String,
    /// Path and query, as they came.
    pub path: String,
    /// When the request's head was in: microseconds since the Unix epoch, never going back.
    pub at_us: u64,
}

/// The entries, and how many came before the oldest that is kept.
#[derive(Debug)]
pub(crate) struct Log {
    entries: VecDeque<Entry>,
    gone: u64,
    entries_max: usize,
}

/// Names one entry for as long as the log lives, also after it is gone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryId(u64);

impl Log {
    pub(crate) fn new(entries_max: usize) -> Self {
        Self { entries: VecDeque::new(), gone: 0, entries_max }
    }

    pub(crate) fn push(&mut self, entry: Entry) -> EntryId {
        let id = EntryId(self.gone + self.entries.len() as u64);
        self.entries.push_back(entry);
        while self.entries.len() > self.entries_max {
            self.entries.pop_front();
            self.gone += 1;
        }
        id
    }

    /// Tells the entry its status; nothing happens if it is gone.
    pub(crate) fn answered(&mut self, id: EntryId, status: u16) {
        let index = id.0.checked_sub(self.gone).and_then(|index| usize::try_from(index).ok());
        if let Some(entry) = index.and_then(|index| self.entries.get_mut(index)) {
            entry.status = Some(status);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.gone += self.entries.len() as u64;
        self.entries.clear();
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.entries.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at_us: u64) -> Entry {
        Entry { status: None, method: "GET".to_owned(), path: "/".to_owned(), at_us }
    }

    #[track_caller]
    fn check(log: &Log, expected: &[(u64, Option<u16>)]) {
        let got: Vec<_> = log.entries().iter().map(|entry| (entry.at_us, entry.status)).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn the_oldest_entries_go_and_late_statuses_find_their_entry() {
        let mut log = Log::new(2);
        let ids: Vec<_> = (1..=3).map(|at_us| log.push(entry(at_us))).collect();
        log.answered(ids[0], 500);
        log.answered(ids[1], 200);
        check(&log, &[(2, Some(200)), (3, None)]);
    }

    #[test]
    fn a_status_that_comes_after_the_log_was_cleared_is_dropped() {
        let mut log = Log::new(10);
        let before = log.push(entry(1));
        log.clear();
        let after = log.push(entry(2));
        log.answered(before, 200);
        check(&log, &[(2, None)]);
        log.answered(after, 404);
        check(&log, &[(2, Some(404))]);
    }
}
