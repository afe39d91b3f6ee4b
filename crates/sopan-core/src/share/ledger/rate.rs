//! A rate: the instant at which it would be full again, in microseconds and parts of one.
//!
//! The same as a lane's own (see [`crate::bucket`]), but that nothing is reserved: what is dealt out is charged at once.

use crate::share::Members;
use crate::share::terms::{NEVER, RateTerm};

#[derive(Debug, Clone)]
pub(super) struct RatePage {
    term: RateTerm,
    tat: At,
    /// What it would be without the hold that there is.
    unheld: Option<At>,
}

/// So many microseconds, and so many parts of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct At {
    whole: u64,
    part: u64,
}

impl RatePage {
    pub(super) fn new(term: RateTerm) -> Self {
        Self { term, tat: At { whole: 0, part: 0 }, unheld: None }
    }

    pub(super) fn term(&self) -> RateTerm {
        self.term
    }

    /// When `cost` tokens are there; a cost above the burst goes when it is full, and leaves a debt.
    pub(super) fn earliest(&self, cost: u32, members: Members) -> u64 {
        let term = self.term.shared(members);
        let cost = u64::from(cost).min(term.burst);
        let at = self.tat.minus(span(&term, term.burst - cost), term.parts);
        if at.part > 0 { at.whole + 1 } else { at.whole }
    }

    pub(super) fn charge(&mut self, cost: u32, due: u64, members: Members) {
        let term = self.term.shared(members);
        let spent = |tat: At| {
            // Less than a microsecond above is the rounding of an instant that was due.
            let is_rounding = due <= tat.whole || (due == tat.whole + 1 && tat.part > 0);
            let start = if is_rounding { tat } else { At { whole: due, part: 0 } };
            start.plus(span(&term, cost.into()), term.parts)
        };
        (self.tat, self.unheld) = (spent(self.tat), self.unheld.map(spent));
    }

    /// The last turn that is known of was due at `last`.
    pub(super) fn go_on_after(&mut self, last: u64) {
        let next = At { whole: last, part: 0 }.plus(span(&self.term, 1), self.term.parts);
        self.tat = self.tat.max(next);
    }

    /// At `at` there will be one token, or less if there would be less.
    fn one_at(&self, at: u64, members: Members) -> At {
        let term = self.term.shared(members);
        At { whole: at, part: 0 }.plus(span(&term, term.burst - 1), term.parts)
    }

    pub(super) fn leave_one(&mut self, now: u64, members: Members) {
        let one = self.one_at(now, members);
        (self.tat, self.unheld) = (self.tat.max(one), self.unheld.map(|tat| tat.max(one)));
    }

    pub(super) fn hold_until(&mut self, end: u64, members: Members) {
        self.unheld.get_or_insert(self.tat);
        self.tat = self.tat.max(self.one_at(end, members));
    }

    pub(super) fn hold_over(&mut self) {
        self.unheld = None;
    }

    pub(super) fn release(&mut self, now: u64, members: Members) {
        if let Some(tat) = self.unheld.take() {
            self.tat = tat.max(self.one_at(now, members));
        }
    }

    pub(super) fn shift(&mut self, back: u64) {
        let shifted = |tat: At| At { whole: tat.whole.saturating_sub(back), part: tat.part };
        (self.tat, self.unheld) = (shifted(self.tat), self.unheld.map(shifted));
    }

    /// Takes over the tokens that are missing from another rate. In doubles: two products here may be large.
    pub(super) fn take_over(&mut self, old: &Self, now: u64) {
        let carried = |tat: At| {
            if tat.whole < now {
                return At { whole: 0, part: 0 };
            }
            let missing = (tat.whole - now) as f64 + tat.part as f64 / old.term.parts as f64;
            let tokens = missing / (old.term.interval as f64 / old.term.parts as f64);
            let ahead = (tokens * (self.term.interval as f64 / self.term.parts as f64)).ceil();
            At { whole: (now as f64 + ahead).min(NEVER as f64) as u64, part: 0 }
        };
        (self.tat, self.unheld) = (carried(old.tat), old.unheld.map(carried));
    }

    /// Thousandths of tokens, and tokens when full.
    pub(super) fn fill(&self, now: u64, members: Members) -> (f64, f64) {
        let term = self.term.shared(members);
        let ahead = if self.tat.whole < now {
            0.0
        } else {
            (self.tat.whole - now) as f64 + self.tat.part as f64 / term.parts as f64
        };
        let missing = ahead / (term.interval as f64 / term.parts as f64);
        (((term.burst as f64 - missing) * 1000.0).floor().max(-(NEVER as f64)), term.burst as f64)
    }
}

/// So many intervals.
fn span(term: &RateTerm, count: u64) -> At {
    let (whole, part) = (term.interval / term.parts, term.interval % term.parts);
    let parts = count * part;
    let micros = u128::from(count) * u128::from(whole);
    let micros = u64::try_from(micros).unwrap_or(NEVER).min(NEVER);
    At { whole: (micros + parts / term.parts).min(NEVER), part: parts % term.parts }
}

impl At {
    fn plus(self, span: Self, parts: u64) -> Self {
        let part = self.part + span.part;
        let whole = self.whole + span.whole + part / parts;
        Self { whole: whole.min(NEVER), part: part % parts }
    }

    fn minus(self, span: Self, parts: u64) -> Self {
        let (whole, part) = if self.part < span.part {
            (span.whole + 1, self.part + parts - span.part)
        } else {
            (span.whole, self.part - span.part)
        };
        if self.whole < whole { Self { whole: 0, part: 0 } } else { Self { whole: self.whole - whole, part } }
    }
}
