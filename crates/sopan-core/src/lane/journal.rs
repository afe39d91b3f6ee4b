//! What of a lane outlives the process: see [`crate::journal`].

use std::collections::BTreeSet;
use std::time::Duration;

use super::Lane;
use crate::breaker::State;
use crate::journal::{Note, is_kept, title};
use crate::time::Instant;

/// What was last told of the hold and the breaker: their ends.
#[derive(Debug, Default)]
pub(super) struct Noted {
    hold: Option<Instant>,
    breaker: Option<Instant>,
}

impl Lane {
    /// What those of its limits are called that are kept in a journal, and of its clients' own.
    pub fn kept(&self) -> BTreeSet<String> {
        // What is shared is kept where that is done.
        let limits = if self.sharing().is_some() { &[][..] } else { &self.policy.limits[..] };
        let of_lane = limits.iter().map(|limit| (limit, None));
        let of_clients = self.policy.clients.iter();
        let of_clients = of_clients.flat_map(|of| of.limits.iter().map(|limit| (limit, Some(of.name.as_str()))));
        let kept = of_lane.chain(of_clients).filter(|(limit, _)| is_kept(limit).is_some());
        kept.map(|(limit, client)| title(limit, client)).collect()
    }

    /// Goes on where the process before ended, and keeps a journal from now on. The calendar must have been told where the
    /// lane [wants it](Self::calendar_due), and nothing may have happened to the lane yet.
    pub fn restore(&mut self, notes: &[Note], now: Instant) {
        if let Some(bucket) = self.tokens.own() {
            bucket.keep(&self.policy.limits, None);
            bucket.restore(notes, now);
        }
        self.own.restore(&self.policy.clients, notes, now);
        let mut noted = Noted::default();
        for note in notes {
            match note {
                Note::Sliding { .. } | Note::Calendar { .. } => {}
                Note::Hold { left } => {
                    let end = now.after((*left).min(self.policy.max_hold));
                    (self.hold, noted.hold) = (Some(end), Some(end));
                    self.tokens.hold_until(end, now);
                }
                Note::Breaker { open_for: Some(left) } => {
                    let until = now.after((*left).min(self.breaker.open_for()));
                    self.breaker.restore(until);
                    noted.breaker = Some(until);
                }
                Note::Breaker { open_for: None } => {}
            }
        }
        self.noted = Some(noted);
    }

    /// What must be on file before anything is sent with the turns that are out; nothing where no journal is kept.
    pub fn journal(&mut self, now: Instant, notes: &mut Vec<Note>) {
        if self.noted.is_some() {
            if let Some(bucket) = self.tokens.own() {
                bucket.journal(now, notes);
            }
            self.own.journal(now, notes);
            self.note_state(now, notes);
        }
    }

    /// All that is not on file yet, for a process that ends in order.
    pub fn whole_journal(&mut self, now: Instant, notes: &mut Vec<Note>) {
        if self.noted.is_some() {
            if let Some(bucket) = self.tokens.own() {
                bucket.whole_journal(now, notes);
            }
            self.own.whole_journal(now, notes);
            self.note_state(now, notes);
        }
    }

    fn note_state(&mut self, now: Instant, notes: &mut Vec<Note>) {
        let Some(noted) = &mut self.noted else { return };
        if let Some(end) = self.hold.filter(|end| *end > now && noted.hold != Some(*end)) {
            noted.hold = Some(end);
            notes.push(Note::Hold { left: end.until(now) });
        }
        // One that was ended early must not come back.
        if self.hold.is_none() && noted.hold.take_if(|end| *end > now).is_some() {
            notes.push(Note::Hold { left: Duration::ZERO });
        }
        let is_open = match self.breaker.state(now) {
            State::Closed => None,
            State::Open { until } => Some(until),
            // As before, until a probe is back.
            State::HalfOpen { .. } => noted.breaker,
        };
        if is_open != noted.breaker {
            noted.breaker = is_open;
            notes.push(Note::Breaker { open_for: is_open.map(|until| until.until(now)) });
        }
    }
}
