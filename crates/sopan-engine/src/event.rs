//! What became of an exchange, for metrics, logs and people. Who is told decides what to do with it.

mod step;

use std::fmt;
use std::time::Duration;

use http::{Method, StatusCode, Uri};
use sopan_core::cache::status::{Detail, Forward};
use sopan_core::headers::redact_url;
use sopan_core::queue::ClientId;
use sopan_core::retry::{Outcome, Verdict};
use sopan_core::time::Instant;
use sopan_core::trace::Trace;

use crate::refusal::Refusal;
pub use step::{Awaited, STEPS_MAX, Step, What};

/// What stands where an upstream is named, for what went to none.
pub const NO_UPSTREAM: &str = "none";

/// One exchange that has ended.
#[derive(Clone)]
pub struct Event<'a> {
    /// The request's method.
    pub method: &'a Method,
    /// The request's target as the client sent it; show it redacted.
    pub uri: &'a Uri,
    /// Whose it is.
    pub client: ClientId,
    /// The status that the client got; none if it left before there was one.
    pub status: Option<StatusCode>,
    /// The reason of a refusal, if sopan answered by itself.
    pub refused: Option<&'static str>,
    /// What would have become of it, where the upstream is only observed and the request went there.
    pub observed: Option<&'a Observed>,
    /// What the cache did, where there is one.
    pub cache: Option<Cached>,
    /// Why it did not store the answer, or gave it though it is stale.
    pub cache_detail: Option<Detail>,
    /// How long it waited: for turns, and before retries.
    pub wait: Duration,
    /// Attempts, those included that failed to connect.
    pub attempts: u32,
    /// How long the upstream took, over all attempts, from the written head to the answer's.
    pub upstream: Duration,
    /// From the arrival to the end of the answer.
    pub total: Duration,
    /// When it ended, by the clock of the engine.
    pub ended: Instant,
    /// Bytes of the answer's body that were passed on.
    pub bytes: u64,
    /// Whether the answer was passed on to its end.
    pub whole: bool,
    /// What happened, in order.
    pub steps: &'a [Step],
    /// How many steps more there were than are told.
    pub steps_left_out: u32,
    /// What it is in a trace, where that is recorded.
    pub trace: Option<&'a Trace>,
}

/// What would have become of an exchange if its upstream were not only observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observed {
    /// How long it would have waited for its turn; nothing if it would have been refused.
    pub wait: Duration,
    /// Why it would have been refused.
    pub refused: Option<Refusal>,
    /// What would have followed the failure of its attempt, if it failed and would not have been refused.
    pub failed: Option<Verdict>,
    /// Whether it would have been answered from store, and no token spent on it.
    pub from_store: bool,
}

/// What the cache did for one exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cached {
    /// The answer came from the store, fresh.
    Hit,
    /// It came from the store although it was stale.
    Stale,
    /// The upstream was asked whether what is stored is still good, and it was.
    Revalidated,
    /// It was that of an equal request which was under way.
    Coalesced,
    /// It came from the upstream.
    Miss,
    /// The cache has no part in such requests.
    Bypass,
}

impl Cached {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Hit, Self::Stale, Self::Revalidated, Self::Coalesced, Self::Miss, Self::Bypass];

    /// What it did for one whose answer came from the upstream.
    pub(crate) fn of(forward: Forward) -> Self {
        match forward {
            Forward::Bypass | Forward::Method => Self::Bypass,
            Forward::UriMiss | Forward::VaryMiss | Forward::Request | Forward::Stale | Forward::Partial => Self::Miss,
        }
    }

    /// As metrics and logs call it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Stale => "stale",
            Self::Revalidated => "revalidated",
            Self::Coalesced => "coalesced",
            Self::Miss => "miss",
            Self::Bypass => "bypass",
        }
    }
}

impl Event<'_> {
    /// Whether the request was answered without a token being spent on it.
    pub fn saved_a_token(&self) -> bool {
        self.attempts == 0 && matches!(self.cache, Some(Cached::Hit | Cached::Stale | Cached::Coalesced))
    }
}

impl Observed {
    /// It would have been answered from store.
    pub(crate) fn from_store() -> Self {
        Self { wait: Duration::ZERO, refused: None, failed: None, from_store: true }
    }

    /// After which wait its attempt would have been repeated, if it would have been.
    pub fn would_retry(&self) -> Option<Duration> {
        match self.failed {
            Some(Verdict::Again(again)) => Some(again.wait),
            Some(Verdict::Done | Verdict::GiveUp(_)) | None => None,
        }
    }
}

/// What became of one sending of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempted<'a> {
    /// An attempt with an outcome.
    Ended(&'a Outcome),
    /// Nobody waited for its outcome any more: the client left, broke off its request, or had no time left to wait.
    Left,
    /// An idle connection was closed just as it was used again. That is no attempt, and the request goes out once more.
    Stale,
}

impl fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            client, method, uri, status, refused, observed, cache, cache_detail, wait, attempts, upstream, ..
        } = self;
        let Self { total, bytes, whole, steps, steps_left_out, trace, .. } = self;
        f.debug_struct("Event")
            .field("client", client)
            .field("method", method)
            .field("uri", &redact_url(&uri.to_string()))
            .field("status", status)
            .field("refused", refused)
            .field("observed", observed)
            .field("cache", cache)
            .field("cache_detail", cache_detail)
            .field("wait", wait)
            .field("attempts", attempts)
            .field("upstream", upstream)
            .field("total", total)
            .field("bytes", bytes)
            .field("whole", whole)
            .field("steps", steps)
            .field("steps_left_out", steps_left_out)
            .field("trace", trace)
            .finish()
    }
}

/// Is told what happens. Called on the request's own path, so it must be quick and must not block.
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// A sending has ended, or an attempt that did not come so far.
    fn attempted(&self, attempted: Attempted<'_>);
    /// An exchange has ended.
    fn ended(&self, event: &Event<'_>);
}

/// Looks away.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn attempted(&self, _: Attempted<'_>) {}
    fn ended(&self, _: &Event<'_>) {}
}
