//! How a lane without a rate starts again after a hold: 1, 2, 4, … turns, each round when the last one was answered.
//!
//! With a rate the bucket itself spaces what follows a hold. Without one everything that waited would leave in the same
//! instant, and the upstream that has just said "enough" would say it again.

#[derive(Debug)]
pub(super) struct Restart {
    id: u64,
    size: usize,
    granted: usize,
    answered: usize,
}

/// How a restart stands after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Round {
    /// Answers of this round are still to come.
    Goes,
    /// The next round begins.
    Next,
    /// The next round would let go all who wait: rounds no longer matter.
    NoneNeeded,
}

impl Restart {
    pub(super) fn new(id: u64) -> Self {
        Self { id, size: 1, granted: 0, answered: 0 }
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn has_room(&self) -> bool {
        self.room() > 0
    }

    /// How many more may go in this round.
    pub(super) fn room(&self) -> u64 {
        self.size.saturating_sub(self.granted) as u64
    }

    /// A turn of this round goes; answers which restart it belongs to.
    pub(super) fn grant(&mut self) -> u64 {
        self.granted += 1;
        self.id
    }

    /// A turn of this round was never written.
    pub(super) fn undo(&mut self) {
        self.granted = self.granted.saturating_sub(1);
    }

    /// A turn was answered while so many wait; answers what that leaves of the restart.
    pub(super) fn answered(&mut self, waiting: usize) -> Round {
        self.answered += 1;
        if waiting == 0 && self.answered == self.granted {
            return Round::NoneNeeded;
        }
        if self.answered < self.size {
            return Round::Goes;
        }
        (self.size, self.granted, self.answered) = (self.size.saturating_mul(2), 0, 0);
        if self.size > waiting { Round::NoneNeeded } else { Round::Next }
    }
}
