//! Who reads a body, and how far each has come.
//!
//! Where not all of it is kept, the first waits for the others, for a while; those that do not follow are cut off. Whether it
//! has to is for the [`State`](super::state::State) to say.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use sopan_core::time::Instant;

use super::{LAG_MAX, LAGS_MAX};

#[derive(Default)]
pub(super) struct Readers {
    seats: HashMap<u64, Seat>,
    /// How many are where, but for those that are cut off.
    positions: BTreeMap<u64, usize>,
    last: u64,
    lag: Option<Lag>,
    /// How long the first has waited for others before that.
    waited: Duration,
}

pub(super) struct Seat {
    pub(super) at: u64,
    pub(super) is_cut: bool,
    pub(super) has_trailers: bool,
}

/// The first reader waits for those that are not where it is.
struct Lag {
    mark: u64,
    since: Instant,
    until: Instant,
}

impl Readers {
    /// One more, at the beginning.
    pub(super) fn add(&mut self) -> u64 {
        let number = self.number();
        self.seats.insert(number, Seat { at: 0, is_cut: false, has_trailers: false });
        self.put_position(0);
        number
    }

    /// A number that no reader has.
    pub(super) fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(super) fn remove(&mut self, number: u64) {
        if let Some(seat) = self.seats.remove(&number)
            && !seat.is_cut
        {
            self.take_position(seat.at);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    pub(super) fn get(&self, number: u64) -> Option<&Seat> {
        self.seats.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Seat> {
        self.seats.get_mut(&number)
    }

    /// A reader has all before `to` now.
    pub(super) fn advance(&mut self, number: u64, to: u64) {
        let Some(seat) = self.seats.get_mut(&number) else { return };
        let from = std::mem::replace(&mut seat.at, to);
        self.take_position(from);
        self.put_position(to);
    }

    /// Where the last one is.
    pub(super) fn slowest(&self) -> Option<u64> {
        self.positions.first_key_value().map(|(at, _)| *at)
    }

    /// Until when the first, which is at `front`, waits for the others.
    pub(super) fn waits_until(&mut self, front: u64, now: Instant) -> Instant {
        let slowest = self.slowest().unwrap_or(front);
        self.catch_up(slowest, now);
        let patience = LAGS_MAX.saturating_sub(self.waited).min(LAG_MAX);
        self.lag.get_or_insert(Lag { mark: front, since: now, until: now.after(patience) }).until
    }

    /// Ends the wait for those behind the mark, if nobody is there any more.
    pub(super) fn catch_up(&mut self, slowest: u64, now: Instant) {
        if let Some(lag) = self.lag.take_if(|lag| lag.mark <= slowest) {
            self.waited += now.since(lag.since);
        }
    }

    /// Cuts off those for which the first has waited long enough.
    pub(super) fn cut_off(&mut self, now: Instant) {
        let Some(Lag { mark, since, .. }) = self.lag.take_if(|lag| lag.until <= now) else { return };
        self.waited += now.since(since);
        for seat in self.seats.values_mut().filter(|seat| seat.at < mark) {
            seat.is_cut = true;
        }
        self.positions = self.positions.split_off(&mark);
    }

    fn put_position(&mut self, at: u64) {
        *self.positions.entry(at).or_default() += 1;
    }

    fn take_position(&mut self, at: u64) {
        if let Some(count) = self.positions.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                self.positions.remove(&at);
            }
        }
    }
}
