//! One attempt: a turn, a connection, and what came of sending.

use std::future::Future;

use sopan_core::breaker::Health;
use sopan_core::retry::Outcome;

use super::send::Unanswered;
use super::turn::{NoTurn, Stop};
use super::{Attempt, Exchange, Failed, Next};
use crate::event::{Attempted, What};
use crate::refusal::Failure;
use crate::transport::{ConnectFailure, Lost, WireError, explain, failure, failure_in_use};

impl Exchange<'_> {
    /// Waits for a turn, sends, and waits for the answer's head.
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` keeps room for its arguments twice, beside all that wait"
    )]
    pub(super) fn attempt(&mut self, next: Next) -> impl Future<Output = Attempt> + Send {
        async move {
            match self.turn(next).await {
                Ok(()) => {}
                Err(NoTurn::Stopped(stop)) => return Attempt::Stopped(Box::new(stop)),
                Err(NoTurn::Superseded(failure)) => return Attempt::Superseded(Box::new((failure, next))),
                Err(NoTurn::Unconnected(failure)) => {
                    self.story.attempts += 1;
                    self.unconnected();
                    return Attempt::Failed(Box::new(unconnected(&failure)));
                }
            }
            if next.is_paid_for && !self.withdraw() {
                self.put_back();
                return Attempt::Unaffordable;
            }
            self.story.attempts += 1;
            self.note_sending();
            self.tell_of_trace();
            match self.send().await {
                Ok(response) => {
                    self.note_sent();
                    self.response = Some(response);
                    Attempt::Answered
                }
                Err(unanswered) => {
                    let attempt = self.unanswered(&unanswered);
                    self.let_go();
                    attempt
                }
            }
        }
    }

    fn unanswered(&mut self, unanswered: &Unanswered) -> Attempt {
        if let Some(error) = self.body.error() {
            self.upstream.observer.attempted(Attempted::Left);
            self.settle(Health::Neither, None);
            return Attempt::Stopped(Box::new(Stop::Body(error)));
        }
        let failed = match unanswered {
            Unanswered::TotalTimeout { was_fair } => {
                let (attempted, health) = if *was_fair {
                    (Attempted::Ended(&Outcome::TimedOut), Health::Failure)
                } else {
                    (Attempted::Left, Health::Neither)
                };
                self.upstream.observer.attempted(attempted);
                self.settle(health, None);
                return Attempt::Stopped(Box::new(Stop::TotalTimeout { sent: true }));
            }
            Unanswered::TimedOut => {
                Failed { outcome: Outcome::TimedOut, failure: Some(Failure::ResponseTimeout), reason: String::new() }
            }
            Unanswered::Lost(lost) => {
                let repeatable = !lost.sent || lost.unprocessed || self.is_repeatable();
                if lost.stale && repeatable && self.body.is_replayable() {
                    self.story.attempts -= 1;
                    self.upstream.observer.attempted(Attempted::Stale);
                    self.story.note(What::Stale, self.now());
                    return Attempt::Stale;
                }
                lost_attempt(lost)
            }
        };
        if failed.outcome == Outcome::NotSent {
            self.note_sent();
        }
        let was_written = !matches!(unanswered, Unanswered::Lost(Lost { sent: false, .. }));
        if was_written {
            self.settle(Health::of(&failed.outcome), None);
        } else {
            self.unconnected();
        }
        Attempt::Failed(Box::new(failed))
    }

    /// No connection could be made for the turn, or it was lost before a byte was written.
    fn unconnected(&mut self) {
        if let Some(turn) = self.turn.take() {
            turn.unconnected();
        }
    }

    /// Whether the upstream may get it twice.
    pub(super) fn is_repeatable(&self) -> bool {
        self.head.method().is_idempotent() || self.has_key()
    }

    /// Whether the upstream can tell that it is the same request; by an empty key it cannot.
    pub(super) fn has_key(&self) -> bool {
        let mut keys = self.head.headers().get_all(super::IDEMPOTENCY_KEY).iter();
        keys.any(|key| !key.as_bytes().trim_ascii().is_empty())
    }
}

fn unconnected(why: &ConnectFailure) -> Failed {
    let (kind, reason) = match why {
        ConnectFailure::TimedOut | ConnectFailure::Deadline => {
            (Failure::ConnectTimeout, "no connection in time".to_owned())
        }
        ConnectFailure::Unresolvable(error) => (Failure::Unresolvable, error.to_string()),
        ConnectFailure::Io(error) => (failure(error), explain(error)),
    };
    Failed { outcome: Outcome::NotSent, failure: Some(kind), reason: format!("connection failed: {reason}") }
}

/// What a lost attempt came to.
fn lost_attempt(lost: &Lost) -> Failed {
    let failure = match &lost.error {
        WireError::HeadTooLarge => Failure::HeadTooLarge,
        WireError::Garbage(_) => Failure::Garbage,
        WireError::SpeaksTls => Failure::SpeaksTls,
        WireError::Io(error) => failure_in_use(error),
        WireError::Closed | WireError::Reset(_) | WireError::Left(_) | WireError::Request(_) => Failure::Terminated,
    };
    let why = match &lost.error {
        WireError::Io(error) => explain(error),
        other => other.to_string(),
    };
    let is_unseen = !lost.sent || lost.unprocessed || failure.turns_away();
    let outcome = if is_unseen { Outcome::NotSent } else { Outcome::Broken };
    Failed { outcome, failure: Some(failure), reason: format!("{outcome}: {why}") }
}
