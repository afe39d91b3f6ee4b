//! What must outlive the process, so that a crash does not spend a quota twice: as values, to be written by the caller.
//!
//! A [`Lane`](crate::lane::Lane) that keeps a journal hands out [`Note`]s, and what they say must be on file before the turns
//! are used that were granted with them. A [`Ledger`] adds the notes of one lane up, as whoever reads the file does, and
//! gives them back as few: to the next process, or to a file that is written anew. It counts time in *ticks* on an axis of
//! the caller's, which two processes share.
//!
//! What is kept: quotas of a minute or longer and those of the calendar, of the lane and of single clients, the hold, and whether the breaker is open. A
//! shorter quota is over before a program is up again. The form of the file, and which clock the ticks come from, are the
//! caller's.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::calendar::Date;
use crate::policy::Limit;
use crate::time::nanos;

/// The shortest span that is kept.
pub const SPAN_MIN: Duration = Duration::from_secs(60);
/// Entries of one quota: a ring has 128 groups, each of which may be told in two pieces, and some to spare. Beyond it the
/// oldest count as one.
const LEFT_MAX: usize = 512;
/// Days of one quota.
const DAYS_MAX: usize = 4;
/// A ring counts for up to 100 ms longer than its span.
const SPARE: Duration = Duration::from_secs(1);

/// Turns that left together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// How long ago the last of them did.
    pub ago: Duration,
    /// How many.
    pub turns: u64,
}

/// What a limit is called in notes: as it is shown, and after the name of the client whose own it is.
pub fn title(limit: &Limit, client: Option<&str>) -> String {
    client.map_or_else(|| limit.to_string(), |client| format!("{client}: {limit}"))
}

/// The limit that is called so.
fn limit_of(title: &str) -> Option<Limit> {
    title.rsplit_once(": ").map_or(title, |(_, limit)| limit).parse().ok()
}

/// One thing that must be on file, as things stand when it is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// Of a quota of a sliding span.
    Sliding {
        /// What the limit is [called](title).
        limit: Arc<str>,
        /// What has left and was not told before, the oldest first.
        left: Vec<Left>,
        /// So many more may leave before the next note of this limit.
        may: u64,
    },
    /// Of a quota of the calendar.
    Calendar {
        /// What the limit is [called](title).
        limit: Arc<str>,
        /// What has left on the days that are known, the latest used first.
        days: Vec<(Date, u64)>,
        /// The present day.
        today: Date,
        /// So many more may leave before the next note of this limit.
        may: u64,
    },
    /// Nothing is sent for so long.
    Hold {
        /// What is left of it.
        left: Duration,
    },
    /// The breaker has changed.
    Breaker {
        /// How long it is still open; none if it is closed.
        open_for: Option<Duration>,
    },
}

/// Whether a limit outlives the process; if so, how many it lets.
pub fn is_kept(limit: &Limit) -> Option<u64> {
    let is_short = matches!(limit, Limit::Quota(quota) if quota.span() < SPAN_MIN);
    limit.count().filter(|_| !is_short)
}

/// An instant on an axis that the processes share, in nanoseconds; may be negative.
pub type Tick = i64;

/// All notes of one lane, added up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    pages: BTreeMap<Arc<str>, Page>,
    hold: Option<Tick>,
    breaker: Option<Tick>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Page {
    Sliding { span: Duration, left: VecDeque<(Tick, u64)>, may: u64 },
    Calendar { days: Vec<(Date, u64)>, today: Date, may: u64 },
}

impl Ledger {
    /// Adds a note that was said at `tick`. One of a limit that is none, or is not kept, is passed over.
    pub fn add(&mut self, note: Note, tick: Tick) {
        match note {
            Note::Hold { left } => self.hold = Some(tick.saturating_add(ticks(left))),
            Note::Breaker { open_for } => self.breaker = open_for.map(|left| tick.saturating_add(ticks(left))),
            Note::Calendar { limit, mut days, today, may } => {
                // A limit that has a page was read before; this runs while a lane waits.
                let is_known = matches!(self.pages.get(&limit), Some(Page::Calendar { .. }));
                if is_known || matches!(limit_of(&limit), Some(Limit::Calendar(_))) {
                    days.truncate(DAYS_MAX);
                    self.pages.insert(limit, Page::Calendar { days, today, may });
                }
            }
            Note::Sliding { limit, left, may } => self.add_left(limit, &left, may, tick),
        }
    }

    fn add_left(&mut self, limit: Arc<str>, new: &[Left], more: u64, tick: Tick) {
        let page = match self.pages.get_mut(&limit) {
            Some(page) => page,
            None => {
                let Some(Limit::Quota(quota)) = limit_of(&limit) else { return };
                let page = Page::Sliding { span: quota.span(), left: VecDeque::new(), may: 0 };
                self.pages.entry(limit).or_insert(page)
            }
        };
        let Page::Sliding { span, left, may } = page else { return };
        *may = more;
        left.extend(new.iter().map(|Left { ago, turns }| (tick.saturating_sub(ticks(*ago)), *turns)));
        let over = tick.saturating_sub(ticks(*span + SPARE));
        while left.front().is_some_and(|(at, _)| *at < over) {
            left.pop_front();
        }
        while left.len() > LEFT_MAX {
            let Some((_, oldest)) = left.pop_front() else { return };
            if let Some((_, turns)) = left.front_mut() {
                *turns = turns.saturating_add(oldest);
            }
        }
    }

    /// The notes that say it all at `tick`. What lies in the future, since a clock was set, counts as now.
    pub fn notes(&self, tick: Tick) -> Vec<Note> {
        let until = |end: Tick| Duration::from_nanos(u64::try_from(end.saturating_sub(tick)).unwrap_or(0));
        let pages = self.pages.iter().map(|(limit, page)| match page {
            Page::Sliding { left, may, .. } => {
                let mut left: Vec<_> = left
                    .iter()
                    .map(|(at, turns)| Left {
                        ago: Duration::from_nanos(u64::try_from(tick.saturating_sub(*at)).unwrap_or(0)),
                        turns: *turns,
                    })
                    .collect();
                // A clock that was set while they were written may have mixed them up.
                left.sort_by_key(|left| std::cmp::Reverse(left.ago));
                Note::Sliding { limit: Arc::clone(limit), left, may: *may }
            }
            Page::Calendar { days, today, may } => {
                Note::Calendar { limit: Arc::clone(limit), days: days.clone(), today: *today, may: *may }
            }
        });
        let hold = self.hold.map(until).filter(|left| !left.is_zero()).map(|left| Note::Hold { left });
        let breaker = self.breaker.map(|end| Note::Breaker { open_for: Some(until(end)) });
        pages.chain(hold).chain(breaker).collect()
    }

    /// Forgets all limits but those that are called so; answers which.
    pub fn keep_only(&mut self, titles: &BTreeSet<String>) -> Vec<Arc<str>> {
        let is_known = |limit: &str| titles.contains(limit);
        let forgotten = self.pages.keys().filter(|limit| !is_known(limit)).map(Arc::clone).collect();
        self.pages.retain(|limit, _| is_known(limit));
        forgotten
    }
}

fn ticks(span: Duration) -> Tick {
    Tick::try_from(nanos(span)).unwrap_or(Tick::MAX)
}

#[cfg(test)]
mod tests;
