//! The steps of an exchange, as its story tells them when it has ended.
//!
//! Most exchanges are plain: sent once without a wait and answered, or answered from store. Of those the story knows all
//! that there is to tell, and the steps are made of that at the end. What is not plain is noted when it happens, and from
//! then on everything is. What the steps look like to people is `event::step`'s business.

use std::time::Duration;

use sopan_core::retry::Outcome;
use sopan_core::time::Instant;
use sopan_core::trace::Trace;

use super::Failed;
use super::story::Story;
use crate::clock::Clock;
use crate::event::{Cached, STEPS_MAX, Step, What};
use crate::refusal::Failure;

/// What was noted.
#[derive(Debug, Clone, Default)]
pub(super) struct Trail {
    steps: Vec<Step>,
    left_out: u32,
    /// What the exchange is in a trace that is recorded.
    pub(super) trace: Option<Trace>,
}

/// So many steps have room without a second allocation: two attempts and what lies between them.
const USUAL: usize = 8;

impl Trail {
    fn push(&mut self, step: Step) {
        if self.steps.len() < STEPS_MAX {
            self.steps.push(step);
        } else {
            self.left_out = self.left_out.saturating_add(1);
        }
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(super) fn left_out(&self) -> u32 {
        self.left_out
    }

    fn is_from_store(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.what, What::FromStore { .. }))
    }
}

/// The steps of an exchange of which none was noted.
pub(super) struct Plain {
    steps: [Step; PLAIN_MAX],
    length: usize,
}

/// One is sent, answered, and ends in one way or another.
const PLAIN_MAX: usize = 4;

impl Plain {
    fn new() -> Self {
        const NONE: Step = Step { at: Duration::ZERO, what: What::Left };
        Self { steps: [NONE; PLAIN_MAX], length: 0 }
    }

    fn push(&mut self, step: Step) {
        debug_assert!(self.length < PLAIN_MAX);
        if let Some(place) = self.steps.get_mut(self.length) {
            *place = step;
            self.length += 1;
        }
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.steps[..self.length]
    }
}

/// How an exchange has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Its answer was passed on to its end.
    Whole,
    /// The same, and it is stored.
    Stored,
    /// It was not: it broke off, or nobody wanted it any more.
    Cut,
    /// There was none: nobody waited for it any more.
    Left,
}

impl Ending {
    /// Of an answer of which no more is known.
    pub(super) fn of(whole: bool) -> Self {
        if whole { Self::Whole } else { Self::Cut }
    }
}

impl Story {
    /// What came of an attempt.
    pub(super) fn came_to(&mut self, attempt: &Failed, clock: Clock) {
        let what = match attempt.outcome {
            Outcome::Answered { status, retry_after: None } if self.is_sent_plainly() && self.status.is_none() => {
                self.status = Some(status);
                return;
            }
            Outcome::Answered { status, retry_after } => What::Answered { status, retry_after },
            Outcome::NotSent | Outcome::Broken | Outcome::TimedOut => What::Failed {
                failure: attempt.failure.unwrap_or(Failure::Terminated),
                reason: attempt.clone().words().into(),
            },
        };
        self.note(what, clock.now());
    }

    /// A connection was made that nobody waited for before the turn had come.
    pub(super) fn connected(&mut self, now: Instant) {
        // Until then nothing took time.
        let before = self.trail.as_ref().and_then(|trail| trail.steps.last()).map_or(Duration::ZERO, |step| step.at);
        let how_long = now.since(self.arrived).saturating_sub(before);
        self.note(What::Connected { how_long }, now);
    }

    /// An answer from store begins to be passed on.
    pub(super) fn gives_from_store(&mut self, clock: Clock) {
        if let Some(how) = self.kind_from_store() {
            self.note(What::FromStore { how }, clock.now());
        }
    }

    /// Notes what has just happened.
    pub(super) fn note(&mut self, what: What, now: Instant) {
        let step = Step { at: now.since(self.arrived), what };
        self.begin_trail().push(step);
    }

    /// From here on everything is noted; what has happened before is noted first.
    pub(super) fn begin_trail(&mut self) -> &mut Trail {
        if self.trail.is_none() {
            let mut trail = Box::new(Trail { steps: Vec::with_capacity(USUAL), ..Trail::default() });
            self.tell_plainly(|step| trail.push(step));
            self.trail = Some(trail);
        }
        self.trail.get_or_insert_default()
    }

    /// Whether it was sent, and nothing is noted.
    pub(super) fn is_sent_plainly(&self) -> bool {
        self.trail.is_none() && self.sent != Instant::NEVER
    }

    /// The steps of an exchange that has ended, of which none was noted.
    pub(super) fn plain(&self, ending: Ending, total: Duration) -> Plain {
        let mut plain = Plain::new();
        self.tell_plainly(|step| plain.push(step));
        self.tell_end(ending, true, |what| plain.push(Step { at: total, what }));
        plain
    }

    /// Notes the end of one that was not plain.
    pub(super) fn end_trail(&self, trail: &mut Trail, ending: Ending, total: Duration) {
        let is_told = trail.is_from_store();
        self.tell_end(ending, !is_told, |what| trail.push(Step { at: total, what }));
    }

    /// What happened while nothing was noted.
    fn tell_plainly(&self, mut tell: impl FnMut(Step)) {
        if self.sent == Instant::NEVER {
            return;
        }
        let at = self.sent.since(self.arrived);
        tell(Step { at, what: What::Sent { attempt: 1 } });
        if let Some(status) = self.status {
            // Sent once, the upstream took as long as the answer to that.
            tell(Step { at: at + self.upstream(), what: What::Answered { status, retry_after: None } });
        }
    }

    fn tell_end(&self, ending: Ending, is_from_store_untold: bool, mut tell: impl FnMut(What)) {
        if let Some(how) = self.kind_from_store().filter(|_| is_from_store_untold) {
            tell(What::FromStore { how });
        }
        if let Some(reason) = self.refused {
            tell(What::Refused { reason });
        }
        match ending {
            Ending::Whole => {}
            Ending::Stored => tell(What::Stored),
            Ending::Cut => tell(What::CutOff),
            Ending::Left => tell(What::Left),
        }
    }

    fn kind_from_store(&self) -> Option<Cached> {
        match self.cache? {
            how @ (Cached::Hit | Cached::Stale | Cached::Revalidated | Cached::Coalesced) => Some(how),
            Cached::Miss | Cached::Bypass => None,
        }
    }
}
