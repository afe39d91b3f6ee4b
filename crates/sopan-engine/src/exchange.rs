//! One client's request and its one answer: the straight line, from arrival to response.
//!
//! ```text
//! call ─ wait for a turn ─ send ─ read hints, settle ─ decide ─ pass on
//!            ▲                                           │
//!            └────────── after a wait, once more ◀───────┘
//! ```
//!
//! This is the parent that owns the branches: whether to wait, to send, to repeat or to give up is decided in the core and
//! acted on here. A cache stands in front of the first wait and behind the last answer once there is one. Dropping the
//! future at any moment cancels all that stands behind it: the place in the queue, the tokens of a turn that was not
//! written, the connection to the upstream.

mod answer;
mod collect;
mod keep;
mod send;
mod turn;

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use http::{HeaderName, Method, Request, Response, StatusCode, Version, response};
use hyper::body::Incoming;
use sopan_core::breaker::Health;
use sopan_core::headers::strip_hop_by_hop;
use sopan_core::hints;
use sopan_core::lane::Visit;
use sopan_core::queue::{ClientId, Entry};
use sopan_core::retry::{Again, Backoff, Decision, Outcome, Situation, Verdict, Why, decide};
use sopan_core::time::Instant;

use crate::body::{Body, Source};
use crate::dispatcher::Turn;
use crate::refusal::{Failure, Refusal};
use crate::transport::Conn;
use crate::upstream::Upstream;
pub use answer::{AnswerBody, AnswerError};
use answer::{Passing, Story};
use collect::Collector;
pub use collect::Sink;
use keep::{Kept, Long};
use turn::Stop;

/// A request as a door hands it over.
#[derive(Debug)]
pub struct Inbound {
    /// The request; its target in origin form, or absolute, in which case its authority is not looked at.
    pub request: Request<Source>,
    /// Whose it is.
    pub client: ClientId,
    /// The client's share against others, 1 or more.
    pub weight: u32,
}

/// An exchange's answer.
#[derive(Debug)]
pub struct Answer {
    /// What the client gets.
    pub response: Response<AnswerBody>,
    /// How it came about.
    pub end: End,
}

/// How an exchange ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The upstream answered, and that is the answer.
    Done,
    /// The last attempt failed, and the failure in hand is passed on.
    GaveUp {
        /// What came of the last attempt, in words.
        reason: String,
        /// What it was if there was no answer.
        failure: Option<Failure>,
        /// The upstream's status if there was one. The answer's own may be sopan's, where the upstream's was not kept.
        status: Option<StatusCode>,
        /// Why there was no other.
        why: Why,
    },
    /// sopan answered by itself.
    Refused(Refusal),
}

/// Sends a request to an upstream when its turn has come, and again where that is right; answers with what is to be passed
/// on. The answer's body must be read to its end or dropped, since the request holds its place until then.
pub async fn call(upstream: &Arc<Upstream>, inbound: Inbound) -> Answer {
    Exchange::new(upstream, inbound, None).run().await
}

/// The same for a caller who wants the whole body: it is written to the sink, and an answer whose body breaks off is a
/// failed attempt, to be repeated where that is right. The body of the answer that comes back is then empty. An answer
/// that is no success is not written to the sink but comes back with its body.
///
/// # Errors
/// What the sink answers when it cannot take the body.
pub async fn collect(upstream: &Arc<Upstream>, inbound: Inbound, sink: &mut dyn Sink) -> io::Result<Answer> {
    let mut failed = None;
    let collector = Collector { sink, failed: &mut failed };
    let answer = Exchange::new(upstream, inbound, Some(collector)).run().await;
    failed.map_or(Ok(answer), Err)
}

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

struct Exchange<'a> {
    upstream: &'a Arc<Upstream>,
    /// The request's head, as every attempt sends it.
    head: Request<()>,
    body: Body,
    client: ClientId,
    weight: u32,
    arrival: u64,
    /// When the whole exchange must have its answer's head.
    deadline: Option<Instant>,
    backoff: Backoff,
    story: Box<Story>,
    /// The last whole answer of the upstream to an attempt that failed.
    kept: Option<Box<Response<Bytes>>>,
    last: Option<Failed>,
    last_status: Option<StatusCode>,
    collector: Option<Collector<'a>>,
}

/// What came of an attempt that failed.
#[derive(Debug, Clone)]
struct Failed {
    outcome: Outcome,
    /// What it was if there was no answer.
    failure: Option<Failure>,
    /// What it was in words, for the log.
    reason: String,
}

/// What came of one attempt.
#[allow(
    clippy::large_enum_variant,
    reason = "it lives for one line of the loop, and the large variant is the usual one"
)]
enum Attempt {
    Answered(Response<Incoming>, Conn, Turn),
    Failed(Failed),
    /// An idle connection was closed just as it was used again; the upstream has not seen the request.
    Stale,
    Stopped(Stop),
}

/// How the next attempt goes to its turn.
#[derive(Clone, Copy)]
struct Next {
    visit: Visit,
    /// When its stay in the queue begins.
    since: Instant,
    /// Whether an idle connection will not do.
    fresh: bool,
}

impl<'a> Exchange<'a> {
    fn new(upstream: &'a Arc<Upstream>, inbound: Inbound, collector: Option<Collector<'a>>) -> Self {
        let Inbound { request, client, weight } = inbound;
        let (mut parts, source) = request.into_parts();
        let arrived = upstream.clock.now();
        let story = Box::new(Story::new(&parts.method, &parts.uri, arrived));
        // Fields of the hop go first, so that nothing below is read from a field that its sender declared to be one.
        strip_hop_by_hop(&mut parts.headers);
        Self {
            upstream,
            head: Request::from_parts(parts, ()),
            body: Body::new(source, upstream.bounds.clone()),
            client,
            weight,
            arrival: upstream.next_arrival(),
            deadline: upstream.retry.total_timeout.map(|total| arrived.after(total)),
            backoff: Backoff::default(),
            story,
            kept: None,
            last: None,
            last_status: None,
            collector,
        }
    }

    async fn run(mut self) -> Answer {
        if let Err(refusal) = self.prepare() {
            return self.refuse(refusal);
        }
        let mut next = Next { visit: Visit::First, since: self.story.arrived, fresh: false };
        loop {
            let again = match self.attempt(next).await {
                Attempt::Stopped(stop) => return self.stopped(stop),
                Attempt::Stale => {
                    next = Next { visit: Visit::Again, since: self.now(), fresh: true };
                    continue;
                }
                Attempt::Failed(failed) => match self.decide(failed, None) {
                    Verdict::Again(again) => again,
                    verdict => return self.fail(verdict),
                },
                Attempt::Answered(response, conn, turn) => match self.answered(response, conn, turn).await {
                    Ok(again) => again,
                    Err(answer) => return answer.unwrap_or_else(|verdict| self.fail(verdict)),
                },
            };
            next = Box::pin(self.wait(again)).await;
        }
    }

    /// The upstream has answered: is that the answer of the exchange, or is another attempt worth it?
    async fn answered(
        &mut self,
        response: Response<Incoming>,
        conn: Conn,
        mut turn: Turn,
    ) -> Result<Again, Result<Answer, Verdict>> {
        let outcome = self.outcome(&response);
        let failed = Failed { outcome, failure: None, reason: String::new() };
        let again = match self.decide(failed, Some(&mut turn)) {
            Verdict::Done if self.collects(&response) => return self.collected(response, conn, turn).await,
            Verdict::Again(again) => again,
            verdict => return Err(Ok(self.pass_on(response, conn, turn, None, verdict))),
        };
        let kept = Box::pin(self.keep(response, conn, turn)).await;
        // An answer may come before its request has gone whole, and while it was read more of the body may have gone than
        // is kept: what is left would be another request.
        if !self.body.is_replayable() {
            return Err(match kept {
                Kept::TooLong(long) => Ok(self.pass_on_long(*long)),
                Kept::Whole | Kept::Broken => Err(Verdict::GiveUp(Why::BodyNotReplayable)),
            });
        }
        match kept {
            Kept::Whole | Kept::Broken => Ok(again),
            // Asked to wait, the upstream did nothing: what it said at length may be dropped.
            Kept::TooLong(_) if outcome.asks_to_wait() => Ok(again),
            Kept::TooLong(long) => Err(Ok(self.pass_on_long(*long))),
        }
    }

    /// A failed answer that cannot be kept, passed on from its beginning.
    fn pass_on_long(&mut self, (response, prefix, conn, turn): Long) -> Answer {
        self.pass_on(response, conn, turn, Some(prefix), Verdict::Done)
    }

    /// Reads a good answer whole; one that breaks off is a failed attempt.
    async fn collected(
        &mut self,
        response: Response<Incoming>,
        conn: Conn,
        turn: Turn,
    ) -> Result<Again, Result<Answer, Verdict>> {
        match Box::pin(self.collect(response, conn, turn)).await {
            Ok(response) => Err(Ok(self.finish(response.map(|()| None), End::Done))),
            Err(failed) => match self.decide(failed, None) {
                Verdict::Again(again) => Ok(again),
                verdict => Err(Err(verdict)),
            },
        }
    }

    /// Makes the head what every attempt sends.
    fn prepare(&mut self) -> Result<(), Refusal> {
        if *self.head.method() == Method::CONNECT {
            return Err(Refusal::Unsupported("CONNECT"));
        }
        let target = self.upstream.target();
        let Ok(uri) = target.path(self.head.uri()) else { return Err(Refusal::Unsupported("this request target")) };
        *self.head.uri_mut() = uri;
        *self.head.version_mut() = Version::HTTP_11;
        self.head.headers_mut().insert(http::header::HOST, target.authority().clone());
        Ok(())
    }

    /// What follows an attempt, for this exchange and for its lane.
    fn decide(&mut self, failed: Failed, turn: Option<&mut Turn>) -> Verdict {
        let outcome = failed.outcome;
        self.upstream.observer.attempted(&outcome);
        let decision = if is_good(&outcome) {
            Decision { verdict: Verdict::Done, hold: None }
        } else {
            let situation = Situation {
                method: self.head.method(),
                has_idempotency_key: self.has_key(),
                is_replayable: self.body.is_replayable(),
                backoff: self.backoff,
                left: self.left(),
            };
            decide(&self.upstream.retry, &situation, &outcome, self.upstream.jitter.dice())
        };
        if let Some(turn) = turn {
            turn.settle(Health::of(&outcome), decision.hold);
        }
        if decision.verdict == Verdict::Done {
            return Verdict::Done;
        }
        let reason = if failed.reason.is_empty() { outcome.to_string() } else { failed.reason };
        self.last = Some(Failed { reason, ..failed });
        match decision.verdict {
            Verdict::Again(again) if again.spends_budget && !self.upstream.dispatcher.withdraw() => {
                Verdict::GiveUp(Why::BudgetSpent)
            }
            verdict => verdict,
        }
    }

    fn outcome(&self, response: &Response<Incoming>) -> Outcome {
        let status = response.status();
        let retry_after = if status.as_u16() < 400 {
            None
        } else {
            hints::read(response.headers(), self.upstream.clock.wall(), self.upstream.retry.reader).retry_after
        };
        Outcome::Answered { status, retry_after }
    }

    /// Waits before a retry, where the hold of the lane does not do that anyway.
    async fn wait(&mut self, again: Again) -> Next {
        let now = self.now();
        let resume = now.after(again.wait);
        self.log_wait(again.wait);
        self.backoff = again.backoff;
        // A ticket that waits in the queue for the end of a hold is there when it comes, in its place.
        if self.upstream.dispatcher.held_until().is_none_or(|end| end < resume) {
            self.upstream.clock.sleep_until(resume).await;
            let asked = self.last.as_ref().is_some_and(|failed| failed.outcome.asks_to_wait());
            self.waited(now, asked);
        }
        Next { visit: Visit::Again, since: resume, fresh: false }
    }

    fn log_wait(&self, wait: Duration) {
        let Some(Failed { reason, .. }) = &self.last else { return };
        let (attempt, wait_s) = (self.story.attempts, wait.as_secs_f64());
        tracing::warn!(
            attempt,
            reason,
            wait_s = (wait_s * 1000.0).round() / 1000.0,
            "attempt {attempt} failed ({reason}); waiting {wait_s:.2} s before retrying"
        );
    }

    /// Accounts for a wait that has just ended. One that the lane or the upstream asked for does not count in the time of
    /// an exchange whose caller would rather wait than fail.
    fn waited(&mut self, since: Instant, asked: bool) {
        let waited = self.now().since(since);
        self.story.wait += waited;
        if asked && !self.upstream.waits_count {
            self.deadline = self.deadline.map(|deadline| deadline.after(waited));
        }
    }

    fn entry(&self, since: Instant) -> Entry {
        let stay = self.upstream.wait_max.map(|wait| since.after(wait));
        let total = if self.upstream.waits_count { self.deadline } else { None };
        let deadline = match (stay, total) {
            (Some(stay), Some(total)) => Some(stay.min(total)),
            (stay, total) => stay.or(total),
        };
        let (client, weight, arrival) = (self.client, self.weight.max(1), self.arrival);
        Entry { client, weight, arrival, cost: 1, bytes: head_bytes(&self.head), since, deadline }
    }

    fn left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.until(self.now()))
    }

    fn now(&self) -> Instant {
        self.upstream.clock.now()
    }

    /// There is no turn, or no time for one: the failure in hand goes to the caller, if there is one.
    fn stopped(&mut self, stop: Stop) -> Answer {
        let refusal = match stop {
            Stop::Body(error) => Refusal::Body(error),
            Stop::Refused(_) | Stop::TotalTimeout if self.last.is_some() => {
                return self.fail(Verdict::GiveUp(Why::NoTurn));
            }
            Stop::Refused(refusal) => Refusal::Lane(refusal),
            Stop::TotalTimeout => Refusal::TotalTimeout,
        };
        self.refuse(refusal)
    }

    /// The last attempt failed and got no answer: the caller gets the last whole answer of the upstream, or else sopan's.
    fn fail(&mut self, verdict: Verdict) -> Answer {
        let end = self.end(verdict);
        if let Some(kept) = self.kept.take() {
            return self.finish(kept.map(Some), end);
        }
        let refusal = match &self.last {
            Some(Failed { failure: Some(failure), outcome, .. }) => Refusal::Failed {
                failure: *failure,
                outcome_unknown: *outcome != Outcome::NotSent && !self.head.method().is_safe(),
                last_status: self.last_status,
            },
            _ => Refusal::NothingKept { last_status: self.last_status },
        };
        if let Some(Failed { reason, failure: Some(_), .. }) = &self.last {
            let attempt = self.story.attempts;
            tracing::warn!(attempt, reason, "attempt {attempt} failed ({reason}); not retried: {}", Reason(&end));
        }
        self.story.refused = Some(refusal.reason());
        self.finish(refusal.response().map(Some), end)
    }

    fn end(&self, verdict: Verdict) -> End {
        match (verdict, &self.last) {
            (Verdict::GiveUp(why), Some(Failed { outcome, reason, failure })) => {
                let status = match outcome {
                    Outcome::Answered { status, .. } => Some(*status),
                    Outcome::NotSent | Outcome::Broken | Outcome::TimedOut => None,
                };
                End::GaveUp { reason: reason.clone(), failure: *failure, status, why }
            }
            _ => End::Done,
        }
    }

    fn refuse(&mut self, refusal: Refusal) -> Answer {
        self.story.refused = Some(refusal.reason());
        self.finish(refusal.response().map(Some), End::Refused(refusal))
    }

    /// An answer that is all here.
    fn finish(&mut self, response: Response<Option<Bytes>>, end: End) -> Answer {
        let bytes = response.body().as_ref().map_or(0, Bytes::len) as u64;
        let mut response = response.map(AnswerBody::Full);
        self.story.tell(&mut response);
        self.story.ended(self.upstream, bytes, true);
        Answer { response, end }
    }

    /// An answer of the upstream, passed on as it comes.
    fn pass_on(
        &mut self,
        response: Response<Incoming>,
        conn: Conn,
        turn: Turn,
        prefix: Option<Bytes>,
        verdict: Verdict,
    ) -> Answer {
        let end = self.end(verdict);
        let (mut parts, incoming) = response.into_parts();
        make_ours(&mut parts);
        let mut response = Response::from_parts(parts, ());
        self.story.tell(&mut response);
        let passing = Passing::new(incoming, prefix, conn, turn, Arc::clone(self.upstream), self.story.take());
        Answer { response: response.map(|()| AnswerBody::Passing(Box::new(passing))), end }
    }
}

/// Makes the head of an upstream's answer one to pass on: without what belongs to the upstream's hop, and in our own
/// version of HTTP (RFC 9112 §2.3).
fn make_ours(head: &mut response::Parts) {
    strip_hop_by_hop(&mut head.headers);
    head.version = Version::HTTP_11;
}

/// Whether nothing need be decided: the upstream answered, and without complaint.
fn is_good(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Answered { status, .. } if status.as_u16() < 400)
}

/// Why an exchange was given up, for the log.
struct Reason<'a>(&'a End);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            End::GaveUp { why, .. } => why.fmt(f),
            End::Done | End::Refused(_) => f.write_str("it is no failure that is repeated"),
        }
    }
}

/// About what a head holds of memory: its target, and its fields with a little for each.
fn head_bytes(head: &Request<()>) -> u64 {
    let target = head.uri().path_and_query().map_or(1, |p| p.as_str().len());
    let fields: usize = head.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    (target + fields) as u64
}
