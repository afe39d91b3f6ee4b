//! How much of a body has come, what of it is here, and what its readers get next.
//!
//! Behind the flow's lock; nothing here waits, wakes or hands on. What comes out to be dropped is dropped without the lock,
//! since it may end in one of another.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::Frame;
use sopan_core::time::Instant;

use super::kept::{Handed, Keep, Keeping};
use super::readers::Readers;
use super::stir::Stir;
use super::{AnswerError, FINISH_BYTES_MAX, Feed, WINDOW_BYTES};
use crate::budget::ByteBudget;

/// About what a piece holds beside its bytes: an upstream may send single ones.
const PIECE_COST: u64 = 64;

pub(super) struct State {
    /// None while it is asked, and after its end.
    feed: Option<Box<Feed>>,
    /// All that has come, or what of it somebody still needs.
    pieces: VecDeque<Piece>,
    /// How many bytes have come.
    front: u64,
    trailers: Option<HeaderMap>,
    end: Option<End>,
    keeping: Keeping,
    is_handed_on: bool,
    budget: Option<Arc<ByteBudget>>,
    readers: Readers,
    /// Who asked the feed last, and so is the one that waits for its silence.
    asker: Option<u64>,
    silent_at: Option<Instant>,
    is_finishing: bool,
    /// What the last piece was counted for, until it is added.
    last_cost: u64,
}

struct Piece {
    at: u64,
    bytes: Bytes,
    /// What it was counted for in the budget.
    cost: u64,
}

impl Piece {
    fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }
}

enum End {
    Whole,
    Broken(AnswerError),
}

/// What a reader gets.
pub(super) enum Next {
    Frame(Frame<Bytes>),
    End,
    Broken(AnswerError),
    Wait,
}

/// What is left of a body that is given up.
pub(super) struct Left {
    _feed: Option<Box<Feed>>,
    _keeping: Keeping,
}

impl State {
    pub(super) fn new(feed: Box<Feed>, keep: Option<Keep>, length: Option<u64>) -> Self {
        Self {
            feed: Some(feed),
            pieces: VecDeque::new(),
            front: 0,
            trailers: None,
            end: None,
            budget: keep.as_ref().map(|keep| Arc::clone(&keep.budget)),
            keeping: Keeping::of(keep, length),
            is_handed_on: false,
            readers: Readers::default(),
            asker: None,
            silent_at: None,
            is_finishing: false,
            last_cost: 0,
        }
    }

    /// A new reader, at the beginning.
    pub(super) fn attach(&mut self) -> u64 {
        self.readers.add()
    }

    pub(super) fn attach_if_whole(&mut self) -> Option<u64> {
        let begins = self.pieces.front().map_or(self.front, |piece| piece.at);
        let is_broken = matches!(self.end, Some(End::Broken(_)));
        (begins == 0 && !is_broken).then(|| self.attach())
    }

    /// A reader leaves. Answers whether others that wait have to look again.
    pub(super) fn detach(&mut self, number: u64) -> bool {
        let was_held_back = self.is_held_back();
        self.readers.remove(number);
        self.trim();
        let was_asker = self.asker == Some(number);
        if was_asker {
            self.asker = None;
        }
        was_asker || was_held_back && !self.is_held_back()
    }

    /// Whether nobody is left to read on.
    pub(super) fn is_forsaken(&self) -> bool {
        self.readers.is_empty() && self.end.is_none() && !self.is_finishing
    }

    /// The next for a reader, and whether others that wait have to look again.
    pub(super) fn next(&mut self, number: u64) -> (Next, bool) {
        let Some(seat) = self.readers.get_mut(number) else { return (Next::End, false) };
        if seat.is_cut {
            return (Next::Broken(AnswerError::Behind), false);
        }
        if seat.at < self.front {
            return self.walk(number);
        }
        let next = match (&self.end, &self.trailers) {
            (None, _) => Next::Wait,
            (Some(End::Broken(error)), _) => Next::Broken(error.clone()),
            (Some(End::Whole), Some(trailers)) if !seat.has_trailers => {
                seat.has_trailers = true;
                Next::Frame(Frame::trailers(trailers.clone()))
            }
            (Some(End::Whole), _) => Next::End,
        };
        (next, false)
    }

    /// A reader goes on by a piece.
    fn walk(&mut self, number: u64) -> (Next, bool) {
        let was_held_back = self.is_held_back();
        let Some(from) = self.readers.get(number).map(|seat| seat.at) else { return (Next::End, false) };
        let index = self.pieces.partition_point(|piece| piece.end() <= from);
        let piece = &self.pieces[index];
        let bytes = piece.bytes.slice((from - piece.at) as usize..);
        self.readers.advance(number, piece.end());
        self.trim();
        (Next::Frame(Frame::data(bytes)), was_held_back && !self.is_held_back())
    }

    /// Whether this reader has more than waiting to do; for one that only wants the end, whether that has come.
    pub(super) fn has_news(&self, number: u64) -> bool {
        self.end.is_some() || self.readers.get(number).is_some_and(|seat| seat.is_cut || seat.at < self.front)
    }

    pub(super) fn is_at_end(&self, number: u64) -> bool {
        let Some(seat) = self.readers.get(number) else { return true };
        let has_all = !seat.is_cut && seat.at == self.front && (seat.has_trailers || self.trailers.is_none());
        has_all && matches!(self.end, Some(End::Whole))
    }

    /// How much is left for a reader of a body this long.
    pub(super) fn left(&self, number: u64, length: Option<u64>) -> Option<u64> {
        let length = if matches!(self.end, Some(End::Whole)) { Some(self.front) } else { length };
        let seat = self.readers.get(number)?;
        length?.checked_sub(seat.at)
    }

    /// The feed, if it is here and may have more than when it was last asked.
    pub(super) fn take_feed(&mut self, stir: &Stir, number: u64) -> Option<Box<Feed>> {
        if self.feed.is_none() || !stir.take() {
            return None;
        }
        self.asker = Some(number);
        self.feed.take()
    }

    /// The feed, if it is here and has been silent for too long.
    pub(super) fn take_silent_feed(&mut self, now: Instant) -> Option<Box<Feed>> {
        self.silent_at.filter(|at| *at <= now)?;
        self.feed.take()
    }

    pub(super) fn put_feed(&mut self, feed: Box<Feed>) {
        self.feed = Some(feed);
    }

    pub(super) fn silent_at(&self) -> Option<Instant> {
        self.silent_at
    }

    /// The feed has nothing now: since when has it been so?
    pub(super) fn falls_silent_after(&mut self, now: Instant, idle_timeout: Duration) -> Instant {
        *self.silent_at.get_or_insert_with(|| now.after(idle_timeout))
    }

    /// A piece has come. Answers what kept the body, if that is too large for it from now on.
    pub(super) fn push(&mut self, bytes: Bytes) -> Option<Keeping> {
        self.silent_at = None;
        let (cost, not_kept) = self.admit(bytes.len() as u64);
        self.append(bytes, cost);
        self.spill();
        self.trim();
        not_kept
    }

    pub(super) fn set_trailers(&mut self, trailers: HeaderMap) {
        self.silent_at = None;
        self.trailers = Some(trailers);
    }

    /// The feed has ended, with this last piece: what is there to hand on, and what is not kept after all?
    pub(super) fn begin_end(&mut self, last: Option<Bytes>) -> (Option<Handed>, Option<Keeping>) {
        let (cost, not_kept) = last.as_ref().map_or((0, None), |last| self.admit(last.len() as u64));
        self.last_cost = cost;
        match std::mem::replace(&mut self.keeping, Keeping::Nothing) {
            Keeping::Memory(keep) => {
                self.keeping = Keeping::HandedOn;
                self.is_handed_on = true;
                let pieces = self.pieces.iter().map(|piece| piece.bytes.clone()).chain(last).collect();
                (Some(Handed::Memory(keep.done, pieces)), not_kept)
            }
            Keeping::Spilling { mut spill, taken, keep } => {
                let rest = self.pieces.iter().filter(|piece| piece.at >= taken).map(|piece| &piece.bytes);
                if rest.chain(&last).all(|piece| spill.write(piece)) {
                    self.is_handed_on = true;
                    (Some(Handed::Spilled(keep.done, spill)), not_kept)
                } else {
                    (None, Some(Keeping::Spilling { spill, taken, keep }))
                }
            }
            other => {
                self.keeping = other;
                (None, not_kept)
            }
        }
    }

    /// Whether it has come whole, and was handed on.
    pub(super) fn is_handed_on(&self) -> bool {
        self.is_handed_on
    }

    /// It is over: this is the last piece, or all of it in one.
    pub(super) fn end(&mut self, last: Option<Bytes>, joined: Option<Bytes>) {
        let cost = std::mem::take(&mut self.last_cost);
        match joined {
            Some(whole) => {
                // What is one piece costs no more than it did in several.
                let sum = cost + self.pieces.drain(..).map(|piece| piece.cost).sum::<u64>();
                let needed = sum.min(whole.len() as u64 + PIECE_COST);
                self.give_back(sum - needed);
                self.front = 0;
                self.append(whole, needed);
            }
            None => self.append(last.unwrap_or_default(), cost),
        }
        self.end = Some(End::Whole);
        self.trim();
    }

    /// It breaks off here.
    pub(super) fn break_off(&mut self, error: AnswerError) -> Left {
        self.end = Some(End::Broken(error));
        Left { _feed: self.feed.take(), _keeping: std::mem::replace(&mut self.keeping, Keeping::Nothing) }
    }

    /// The same where nobody is there to hear of it.
    pub(super) fn abandon(&mut self) -> Left {
        self.break_off(AnswerError::Behind)
    }

    pub(super) fn is_worth_finishing(&self, length: Option<u64>) -> bool {
        let left = length.map(|length| length.saturating_sub(self.front));
        self.keeping.is_wanted() && left.is_some_and(|left| left <= FINISH_BYTES_MAX)
    }

    /// The number of one that reads on for the store.
    pub(super) fn begin_finish(&mut self) -> u64 {
        self.is_finishing = true;
        self.readers.number()
    }

    pub(super) fn is_finish_wanted(&self) -> bool {
        self.end.is_none() && self.keeping.is_wanted()
    }

    pub(super) fn end_finish(&mut self) -> Option<Left> {
        self.is_finishing = false;
        self.is_forsaken().then(|| self.abandon())
    }

    /// Until when the first reader waits for others, if it must.
    pub(super) fn held_back_until(&mut self, now: Instant) -> Option<Instant> {
        if self.is_held_back() {
            return Some(self.readers.waits_until(self.front, now));
        }
        self.readers.catch_up(self.slowest(), now);
        None
    }

    /// Cuts off those for which the first has waited long enough.
    pub(super) fn cut_off(&mut self, now: Instant) {
        if self.is_held_back() {
            self.readers.cut_off(now);
            self.trim();
        }
    }

    fn is_held_back(&self) -> bool {
        let has_window = matches!(self.keeping, Keeping::Nothing | Keeping::Spilling { .. });
        has_window && self.front - self.slowest() >= WINDOW_BYTES
    }

    /// Where the slowest reader is.
    fn slowest(&self) -> u64 {
        self.readers.slowest().unwrap_or(self.front)
    }

    /// What so many more bytes are counted for, and what kept the body if it is too large for that with them.
    fn admit(&mut self, bytes: u64) -> (u64, Option<Keeping>) {
        if !self.keeping.is_wanted() {
            return (0, None);
        }
        let cost = bytes + PIECE_COST;
        let fits = self.keeping.fits(self.front + bytes);
        if fits && self.budget.as_ref().is_some_and(|budget| budget.take(cost)) {
            return (cost, None);
        }
        (0, Some(std::mem::replace(&mut self.keeping, Keeping::Nothing)))
    }

    fn append(&mut self, bytes: Bytes, cost: u64) {
        if bytes.is_empty() {
            return self.give_back(cost);
        }
        let at = self.front;
        self.front += bytes.len() as u64;
        self.pieces.push_back(Piece { at, bytes, cost });
    }

    /// Writes on what has come, as far as it is taken.
    fn spill(&mut self) {
        let Keeping::Spilling { spill, taken, .. } = &mut self.keeping else { return };
        let from = self.pieces.partition_point(|piece| piece.at < *taken);
        for piece in self.pieces.range(from..) {
            if !spill.write(&piece.bytes) {
                break;
            }
            *taken = piece.end();
        }
    }

    /// Lets go of what nobody needs any more.
    fn trim(&mut self) {
        let needed = match &self.keeping {
            Keeping::Memory(_) | Keeping::HandedOn => 0,
            Keeping::Spilling { taken, .. } => self.slowest().min(*taken),
            Keeping::Nothing => self.slowest(),
        };
        while let Some(piece) = self.pieces.pop_front_if(|piece| piece.end() <= needed) {
            self.give_back(piece.cost);
        }
    }

    fn give_back(&self, cost: u64) {
        if let Some(budget) = &self.budget {
            budget.give_back(cost);
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.give_back(self.last_cost + self.pieces.iter().map(|piece| piece.cost).sum::<u64>());
    }
}
