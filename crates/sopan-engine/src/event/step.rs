//! What happened in an exchange, step by step: its story, as people read it and traces draw it.
//!
//! A [`Step`] says when and what. An exchange has few of them, and never more than [`STEPS_MAX`]: one that goes on is told
//! from its beginning, and how many are left out. Who records them, and when, is the exchange's business.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use sopan_core::lane::Cause;

use super::Cached;
use crate::refusal::Failure;

/// The most steps that are told of one exchange: twice what the longest that makes sense has.
pub const STEPS_MAX: usize = 64;

/// Something that happened in an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// When, since the exchange arrived. Of what takes time it is the end.
    pub at: Duration,
    /// What.
    pub what: What,
}

/// What a step is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A wait is over.
    Waited {
        /// What it was for.
        on: Awaited,
        /// How long it was.
        how_long: Duration,
    },
    /// A connection was made, for a turn that had come.
    Connected {
        /// How long that took.
        how_long: Duration,
    },
    /// The head of an attempt was written.
    Sent {
        /// Which attempt, from 1.
        attempt: u32,
    },
    /// The upstream answered the attempt.
    Answered {
        /// Its status.
        status: StatusCode,
        /// What it said of when to come again.
        retry_after: Option<Duration>,
    },
    /// The attempt got no answer, or no whole one.
    Failed {
        /// What it was.
        failure: Failure,
        /// Why, in words.
        reason: Arc<str>,
    },
    /// The idle connection that it went out on had just been closed. That is no attempt, and it goes out once more.
    Stale,
    /// The answer is one of the store, or of an equal request.
    FromStore {
        /// Of which kind.
        how: Cached,
    },
    /// The answer came whole, and is stored.
    Stored,
    /// sopan answered by itself.
    Refused {
        /// The reason.
        reason: &'static str,
    },
    /// The answer was not passed on to its end.
    CutOff,
    /// The client left before there was an answer.
    Left,
}

/// What an exchange waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// Tokens of a rate or a quota, and those who go before it.
    Token,
    /// Tokens of the limits that its client has for itself.
    Own,
    /// The end of a hold.
    Hold,
    /// A place among the requests under way.
    Place,
    /// The breaker's next probe.
    Probe,
    /// Its own delay before a retry.
    Retry,
    /// The answer of an equal request.
    Equal,
}

impl Awaited {
    /// As traces and programs call it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Own => "own",
            Self::Hold => "hold",
            Self::Place => "place",
            Self::Probe => "probe",
            Self::Retry => "retry",
            Self::Equal => "equal",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Token => "for a token",
            Self::Own => "for a token of its client",
            Self::Hold => "for the end of a hold",
            Self::Place => "for a place",
            Self::Probe => "for the breaker",
            Self::Retry => "before retrying",
            Self::Equal => "for an equal request",
        }
    }
}

impl From<Cause> for Awaited {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Hold => Self::Hold,
            Cause::Limits => Self::Token,
            Cause::Own => Self::Own,
            Cause::Places => Self::Place,
            Cause::Breaker => Self::Probe,
        }
    }
}

/// `waited 3.2 s for a token`, `429 with Retry-After 2`, `attempt 2`, `200`, `stored`.
impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waited { on, how_long } => write!(f, "waited {} {}", Brief(*how_long), on.words()),
            Self::Connected { how_long } => write!(f, "connected in {}", Brief(*how_long)),
            Self::Sent { attempt } => write!(f, "attempt {attempt}"),
            Self::Answered { status, retry_after: None } => write!(f, "{}", status.as_u16()),
            Self::Answered { status, retry_after: Some(wait) } => {
                write!(f, "{} with Retry-After {}", status.as_u16(), wait.as_secs_f64())
            }
            Self::Failed { reason, .. } => f.write_str(reason),
            Self::Stale => f.write_str("the idle connection was closed already"),
            Self::FromStore { how: Cached::Coalesced } => f.write_str("the answer of an equal request"),
            Self::FromStore { how: Cached::Stale } => f.write_str("from store, though stale"),
            Self::FromStore { how: Cached::Revalidated } => f.write_str("from store, still good"),
            Self::FromStore { .. } => f.write_str("from store"),
            Self::Stored => f.write_str("stored"),
            Self::Refused { reason } => write!(f, "refused: {reason}"),
            Self::CutOff => f.write_str("cut off"),
            Self::Left => f.write_str("the client left"),
        }
    }
}

/// A duration in two or three digits: `0.4 ms`, `12 ms`, `3.2 s`, `61 s`.
struct Brief(Duration);

impl fmt::Display for Brief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        let millis = seconds * 1000.0;
        match self.0.as_micros() {
            ..9_950 => write!(f, "{millis:.1} ms"),
            9_950..999_500 => write!(f, "{millis:.0} ms"),
            999_500..9_950_000 => write!(f, "{seconds:.1} s"),
            _ => write!(f, "{seconds:.0} s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_reads_like_one() {
        let ms = Duration::from_millis;
        let waited = |on, how_long| What::Waited { on, how_long };
        let answered = |status, retry_after| What::Answered { status, retry_after };
        for (what, expected) in [
            (waited(Awaited::Token, ms(3_215)), "waited 3.2 s for a token"),
            (waited(Awaited::Own, ms(41)), "waited 41 ms for a token of its client"),
            (waited(Awaited::Hold, ms(61_300)), "waited 61 s for the end of a hold"),
            (waited(Awaited::Place, Duration::from_micros(420)), "waited 0.4 ms for a place"),
            (waited(Awaited::Probe, ms(9_960)), "waited 10 s for the breaker"),
            (waited(Awaited::Retry, ms(500)), "waited 500 ms before retrying"),
            (waited(Awaited::Equal, Duration::from_micros(999_600)), "waited 1.0 s for an equal request"),
            (What::Connected { how_long: ms(41) }, "connected in 41 ms"),
            (What::Sent { attempt: 2 }, "attempt 2"),
            (answered(StatusCode::OK, None), "200"),
            (answered(StatusCode::TOO_MANY_REQUESTS, Some(ms(2_000))), "429 with Retry-After 2"),
            (answered(StatusCode::SERVICE_UNAVAILABLE, Some(ms(1_500))), "503 with Retry-After 1.5"),
            (
                What::Failed { failure: Failure::Refused, reason: "connection failed: refused".into() },
                "connection failed: refused",
            ),
            (What::FromStore { how: Cached::Hit }, "from store"),
            (What::FromStore { how: Cached::Coalesced }, "the answer of an equal request"),
            (What::Stored, "stored"),
            (What::Refused { reason: "queue-full" }, "refused: queue-full"),
        ] {
            assert_eq!(what.to_string(), expected);
        }
    }
}
