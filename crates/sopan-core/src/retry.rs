//! What follows an attempt: is it done, is it worth another one, after which wait, and must the whole lane wait too?
//!
//! [`decide`] answers that for one attempt that has ended, from the policy, what is known of the exchange, what came of
//! the attempt, and two samples of chance. It is a value that comes back; waiting, holding the lane, asking the budget
//! and sending are the caller's.

pub mod backoff;
pub mod budget;

use std::fmt;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, Method, StatusCode};

use crate::hints;
use crate::policy::{OnLongRetryAfter, RetryPolicy};

pub use backoff::{Backoff, backoff_delay};
pub use budget::Budget;

/// The statuses that are retried whatever the settings add.
pub const RETRIED: [StatusCode; 6] = [
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::INTERNAL_SERVER_ERROR,
    StatusCode::BAD_GATEWAY,
    StatusCode::SERVICE_UNAVAILABLE,
    StatusCode::GATEWAY_TIMEOUT,
];

/// What came of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A whole head came back.
    Answered {
        /// Its status.
        status: StatusCode,
        /// How long it asks to wait, as [`hints::read`] found it: not floored, not cut.
        retry_after: Option<Duration>,
    },
    /// Not one byte of the request was written: no address, refused, no connection in time.
    NotSent,
    /// Bytes were written and no whole head came back: reset, closed, garbage. A caller that passes nothing on before the
    /// body is whole says the same of a body that breaks off.
    Broken,
    /// Bytes were written and no whole head came back in the time of an attempt.
    TimedOut,
}

/// The words of the log line: `attempt 1 failed (HTTP 429); waiting 1.00 s before retrying`.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { status, .. } => write!(f, "HTTP {}", status.as_u16()),
            Self::NotSent => f.write_str("connection failed"),
            Self::Broken => f.write_str("connection broken"),
            Self::TimedOut => f.write_str("timed out"),
        }
    }
}

impl Outcome {
    /// What came of an attempt that this head answers; `received` is our wall clock at its reception. Below 400 nothing is
    /// read of limits, since nothing follows from it.
    pub fn of_answer(status: StatusCode, headers: &HeaderMap, received: SystemTime, policy: &RetryPolicy) -> Self {
        let is_failure = status.as_u16() >= 400;
        let hints = if is_failure { hints::read(headers, received, policy.reader) } else { hints::Hints::default() };
        Self::Answered { status, retry_after: hints.retry_after }
    }

    /// The wait that the upstream asked for, if it did.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Answered { retry_after, .. } => *retry_after,
            Self::NotSent | Self::Broken | Self::TimedOut => None,
        }
    }

    /// Whether the upstream said "not now" rather than failed: a 429, or a 503 with a usable `Retry-After`. It has not
    /// done what was asked, so any method may be sent again, and it speaks for all requests, so the lane waits.
    pub fn asks_to_wait(&self) -> bool {
        match self {
            Self::Answered { status: StatusCode::TOO_MANY_REQUESTS, .. } => true,
            Self::Answered { status: StatusCode::SERVICE_UNAVAILABLE, retry_after } => retry_after.is_some(),
            _ => false,
        }
    }

    /// Whether a 429 or 503 came back, for which `default_wait` is made.
    fn is_throttled(&self) -> bool {
        matches!(self, Self::Answered { status: StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, .. })
    }

    /// Whether it is a failure that this policy repeats where that is safe.
    pub fn is_retried(&self, policy: &RetryPolicy) -> bool {
        match self {
            Self::Answered { status, .. } => RETRIED.contains(status) || policy.retry_on.contains(status),
            Self::NotSent | Self::Broken | Self::TimedOut => true,
        }
    }

    /// Whether a retry after it is paid for by the lane's budget: after a failure of the upstream or of the way there,
    /// which many retries make worse; not where the upstream itself asked to wait. A status of 600 or above is a server's
    /// error too (RFC 9110 §15).
    pub fn spends_budget(&self) -> bool {
        match self {
            Self::Answered { status, .. } => status.as_u16() >= 500 && !self.asks_to_wait(),
            Self::NotSent | Self::Broken | Self::TimedOut => true,
        }
    }
}

/// What is known of the exchange when an attempt has ended.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The method of the request.
    pub method: &'a Method,
    /// Whether the request has an `Idempotency-Key`, by which the upstream knows a repetition.
    pub has_idempotency_key: bool,
    /// Whether the body can be sent whole: there is none, it is kept, or none of it was taken from the client yet.
    pub is_replayable: bool,
    /// The retries made so far, and the last wait of the backoff.
    pub backoff: Backoff,
    /// What is left of `total_timeout`; `None` means unlimited.
    pub left: Option<Duration>,
}

/// Two independent samples, uniform in [0, 1).
#[derive(Clone, Copy, Debug)]
pub struct Dice {
    /// For the jitter of the backoff.
    pub backoff: f64,
    /// For `retry_after_jitter`.
    pub retry_after: f64,
}

/// What follows an attempt, for the exchange and for its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What follows for the exchange.
    pub verdict: Verdict,
    /// How long nobody in the lane may send, counted from now, because the upstream said so, also where this exchange
    /// itself gives up. It is the wait as the policy computes it, before any jitter on a `Retry-After` and before the
    /// lane's own bound. `None` holds nobody.
    pub hold: Option<Duration>,
}

/// What follows for the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing to repeat: whatever came back is the answer.
    Done,
    /// Another attempt after a wait.
    Again(Again),
    /// It failed, and the failure in hand goes to the caller.
    GiveUp(Why),
}

/// Another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// How long to wait before it, counted from now.
    pub wait: Duration,
    /// Whether the lane's [`Budget`] must afford it when it is sent. If it does not, that is [`Why::BudgetSpent`].
    pub spends_budget: bool,
    /// How far the backoff has come with it, for the [`Situation`] of that attempt.
    pub backoff: Backoff,
}

/// Why a failure is not followed by another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// The upstream may have acted on it, and a second time could act twice (RFC 9110 §9.2.2).
    #[error("it may have been processed, and this method is not safe to repeat without an Idempotency-Key")]
    NotSafeToRepeat,
    /// The body is gone: it was longer than what is kept.
    #[error("its body was not kept, so it cannot be sent again")]
    BodyNotReplayable,
    /// `max_retries` is reached.
    #[error("limit of {max} {} reached", if *max == 1 { "retry" } else { "retries" })]
    RetriesSpent {
        /// The limit.
        max: u32,
    },
    /// The upstream asked for a longer wait than is honoured.
    #[error("asked to wait {:.2} s, which is above max_retry_after of {:.2} s", asked.as_secs_f64(), max.as_secs_f64())]
    AskedTooLong {
        /// The wait it asked for.
        asked: Duration,
        /// The longest that is honoured.
        max: Duration,
    },
    /// The next attempt would begin when the time of the exchange is over. A wait is never shortened to fit.
    #[error("a wait of {:.2} s does not fit into the {:.2} s left", wait.as_secs_f64(), left.as_secs_f64())]
    DeadlineTooClose {
        /// The wait before the next attempt.
        wait: Duration,
        /// What was left of the total time.
        left: Duration,
    },
    /// Waiting mends nothing: a certificate is not accepted, or the request goes in a circle. Never given by [`decide`], which
    /// does not know of it.
    #[error("trying again would change nothing")]
    Hopeless,
    /// The lane gave no turn for another attempt before the time was over. Never given by [`decide`]: it is what the caller
    /// says when the lane refuses.
    #[error("there was no turn for another attempt in time")]
    NoTurn,
    /// The time of the exchange ended while another attempt was under way. Never given by [`decide`]: it is what the caller
    /// says who cut it.
    #[error("another attempt was cut off when the time for the whole request (total_timeout) was over")]
    TotalTimeout,
    /// The lane's retry budget is spent. Never given by [`decide`]: it is what the caller says after asking the budget.
    #[error("retry budget of this upstream is spent")]
    BudgetSpent,
    /// The upstream is only observed, and nothing is repeated. Never given by [`decide`], which says what would be done.
    #[error("retries are only observed")]
    OnlyObserved,
}

/// What follows an attempt that came to `outcome`.
///
/// ```
/// use std::time::Duration;
/// use http::{Method, StatusCode};
/// use sopan_core::policy::RetryPolicy;
/// use sopan_core::retry::{Backoff, Dice, Outcome, Situation, Verdict, decide};
///
/// let situation = Situation {
///     method: &Method::GET,
///     has_idempotency_key: false,
///     is_replayable: true,
///     backoff: Backoff::default(),
///     left: Some(Duration::from_secs(120)),
/// };
/// let outcome = Outcome::Answered {
///     status: StatusCode::TOO_MANY_REQUESTS,
///     retry_after: Some(Duration::from_secs(7)),
/// };
/// let dice = Dice { backoff: 0.5, retry_after: 0.5 };
/// let decision = decide(&RetryPolicy::default(), &situation, &outcome, dice);
/// assert!(matches!(decision.verdict, Verdict::Again(again) if again.wait == Duration::from_secs(7)));
/// assert_eq!(decision.hold, Some(Duration::from_secs(7)));
/// ```
pub fn decide(policy: &RetryPolicy, situation: &Situation<'_>, outcome: &Outcome, dice: Dice) -> Decision {
    if !outcome.is_retried(policy) {
        return Decision { verdict: Verdict::Done, hold: None };
    }
    // The wait comes first, since the lane is held by it even where this exchange ends here.
    let wait = Wait::after(outcome, policy, situation.backoff, dice.backoff);
    let verdict = match next_attempt(policy, situation, outcome, wait, dice.retry_after) {
        Ok(again) => Verdict::Again(again),
        Err(why) => Verdict::GiveUp(why),
    };
    Decision { verdict, hold: outcome.asks_to_wait().then_some(wait.as_duration()) }
}

/// The wait before the next attempt, and which rule gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The upstream named it.
    Asked(Duration),
    /// The upstream named zero: `min_wait`.
    Floored(Duration),
    /// The upstream named more than is honoured, and this is cut to `max_retry_after`.
    Capped(Duration),
    /// The upstream named it, and it is more than is honoured: there is no next attempt.
    TooLong(Duration),
    /// The upstream named none: `default_wait`.
    Default(Duration),
    /// The upstream named none, and neither do the settings: the backoff.
    Backoff(Duration),
}

impl Wait {
    /// The wait after an attempt that came to `outcome`. `sample` is uniform in [0, 1), for the backoff.
    pub fn after(outcome: &Outcome, policy: &RetryPolicy, backoff: Backoff, sample: f64) -> Self {
        match (outcome.retry_after(), policy.default_wait) {
            (Some(Duration::ZERO), _) => Self::Floored(policy.min_wait),
            (Some(asked), _) if asked <= policy.max_retry_after => Self::Asked(asked),
            (Some(asked), _) => match policy.on_long_retry_after {
                OnLongRetryAfter::GiveUp => Self::TooLong(asked),
                OnLongRetryAfter::Cap => Self::Capped(policy.max_retry_after),
            },
            (None, Some(wait)) if outcome.is_throttled() => Self::Default(wait),
            (None, _) => Self::Backoff(backoff_delay(policy, backoff, sample)),
        }
    }

    /// How long it is.
    pub fn as_duration(self) -> Duration {
        match self {
            Self::Asked(wait)
            | Self::Floored(wait)
            | Self::Capped(wait)
            | Self::TooLong(wait)
            | Self::Default(wait)
            | Self::Backoff(wait) => wait,
        }
    }
}

/// The next attempt, or the first reason against it. What can never be mended by waiting comes first.
fn next_attempt(
    policy: &RetryPolicy,
    situation: &Situation<'_>,
    outcome: &Outcome,
    wait: Wait,
    sample: f64,
) -> Result<Again, Why> {
    let Backoff { retries, previous } = situation.backoff;
    if Safe::because(situation, outcome).is_none() {
        return Err(Why::NotSafeToRepeat);
    }
    if !situation.is_replayable {
        return Err(Why::BodyNotReplayable);
    }
    if retries >= policy.max_retries {
        return Err(Why::RetriesSpent { max: policy.max_retries });
    }
    let (wait, previous) = match wait {
        Wait::TooLong(asked) => return Err(Why::AskedTooLong { asked, max: policy.max_retry_after }),
        Wait::Asked(wait) | Wait::Floored(wait) | Wait::Capped(wait) => {
            (wait.saturating_add(backoff::scaled(policy.retry_after_jitter, sample)), previous)
        }
        Wait::Default(wait) => (wait, previous),
        Wait::Backoff(wait) => (wait, wait),
    };
    if let Some(left) = situation.left.filter(|left| wait >= *left) {
        return Err(Why::DeadlineTooClose { wait, left });
    }
    let backoff = Backoff { retries: retries.saturating_add(1), previous };
    Ok(Again { wait, spends_budget: outcome.spends_budget(), backoff })
}

/// Why a second sending cannot make the upstream act twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Safe {
    /// Nothing was sent.
    NotSent,
    /// The upstream asked to wait: it did not act.
    AskedToWait,
    /// It knows a repetition by its `Idempotency-Key`.
    Key,
    /// The method is idempotent (RFC 9110 §9.2.2).
    Method,
}

impl Safe {
    /// Why repeating is safe after an attempt that came to `outcome`; `None` where it is not.
    pub fn because(situation: &Situation<'_>, outcome: &Outcome) -> Option<Self> {
        match outcome {
            Outcome::NotSent => Some(Self::NotSent),
            asks if asks.asks_to_wait() => Some(Self::AskedToWait),
            _ if situation.has_idempotency_key => Some(Self::Key),
            _ => situation.method.is_idempotent().then_some(Self::Method),
        }
    }
}

#[cfg(test)]
mod tests;
