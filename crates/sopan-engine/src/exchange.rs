//! One client's request and its one answer: the straight line, from arrival to response.
//!
//! ```text
//! call ─ from store? ─ wait for a turn ─ send ─ read hints, settle ─ decide ─ store, pass on
//!                            ▲                                          │
//!                            └────────── after a wait, once more ◀──────┘
//! ```
//!
//! This is the parent that owns the branches: whether to wait, to send, to repeat or to give up is decided in the core and
//! acted on here. Dropping the
//! future at any moment cancels all that stands behind it: the place in the queue, the tokens of a turn that was not
//! written, the connection to the upstream.

mod answer;
mod attempt;
pub(crate) mod caching;
mod collect;
mod end;
mod feed;
mod filed;
pub(crate) mod flow;
mod hop;
mod inbound;
mod keep;
pub(crate) mod log;
mod nowhere;
mod observe;
mod send;
pub(crate) mod story;
mod traced;
mod trail;
mod tunnel;
mod turn;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, RETRY_AFTER, UPGRADE};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use sopan_core::breaker::Health;
use sopan_core::cache;
use sopan_core::headers::{offered_upgrade, strip_hop_by_hop, went_in_a_circle};
use sopan_core::lane::Visit;
use sopan_core::queue::{ClientId, Entry};
use sopan_core::retry::{Again, Backoff, Decision, Outcome, Situation, Verdict, Why, decide};
use sopan_core::time::Instant;

use crate::body::Body;
use crate::credential::Credential;
use crate::dispatcher::Turn;
use crate::event::{Attempted, Awaited};
use crate::interim::Interims;
use crate::refusal::{Failure, Refusal};
use crate::transport::Conn;
use crate::upstream::Upstream;
pub use answer::{AnswerBody, AnswerError};
use caching::{Caching, Unsettled};
use collect::Collector;
pub use collect::Sink;
use hop::Crossing;
pub use hop::Hop;
pub use inbound::{Answer, End, Inbound};
use keep::Kept;
pub use keep::{KEPT_BYTES_MAX, KEPT_TIME_MAX};
pub use nowhere::{Astray, Nowhere};
use story::Story;
pub use tunnel::Tunnel;
use turn::Stop;

/// Sends a request to an upstream when its turn has come, and again where that is right; answers with what is to be passed
/// on. The answer's body must be read to its end or dropped, since the request holds its place until then.
// Not an `async fn`: that would keep its arguments beside what is made of them, for as long as the request waits.
pub fn call(upstream: &Arc<Upstream>, inbound: Inbound) -> impl Future<Output = Answer> + Send + '_ {
    let mut exchange = Exchange::new(upstream, inbound, None);
    async move { exchange.run().await }
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

/// The largest head of a request that is passed on.
const HEAD_BYTES_MAX: u64 = sopan_core::h1::HEAD_BYTES_MAX as u64;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

struct Exchange<'a> {
    upstream: &'a Arc<Upstream>,
    /// The request's head, as every attempt sends it.
    head: Request<()>,
    /// About what it holds of memory.
    head_bytes: u32,
    /// The target as the client sent it, where the upstream's prefix or credential makes it another.
    original: Option<Box<Uri>>,
    body: Body,
    client: ClientId,
    weight: u32,
    interims: Option<Interims>,
    crossing: Option<Box<Crossing>>,
    arrival: u64,
    /// When the whole exchange must have its answer's head.
    deadline: Option<Instant>,
    story: Story,
    /// What the attempt under way has: a turn, a connection for it, and an answer on that.
    turn: Option<Turn>,
    conn: Option<Box<Conn>>,
    response: Option<Response<()>>,
    /// What the cache knows of it, where that has a part in it.
    caching: Option<Box<Caching>>,
    /// What is left of failed attempts, which most exchanges have none of.
    past: Option<Box<Past>>,
    collector: Option<Box<Collector<'a>>>,
}

/// What attempts that failed have left behind.
#[derive(Default)]
struct Past {
    /// The last whole answer of the upstream.
    kept: Option<Response<Bytes>>,
    last: Option<Failed>,
    last_status: Option<StatusCode>,
    /// The pause that the last attempt was answered with.
    hold: Option<Duration>,
    /// Whether it had a `Retry-After`, usable or not.
    says_when: bool,
    /// How long the waits have been.
    backoff: Backoff,
    /// When the retry that is not sent yet was taken from the lane's budget.
    withdrawn: Option<Instant>,
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

impl Failed {
    /// What came of it in words, also where that goes without saying.
    fn words(self) -> String {
        if self.reason.is_empty() { self.outcome.to_string() } else { self.reason }
    }
}

/// What came of one attempt. In boxes, as in [`Onward`].
enum Attempt {
    /// There is an answer, on the connection of the turn.
    Answered,
    Failed(Box<Failed>),
    /// An idle connection was closed just as it was used again; the upstream has not seen the request.
    Stale,
    /// It is a retry that the lane's traffic does not afford.
    Unaffordable,
    Stopped(Box<Stop>),
    /// What is stored is given instead of waiting for a turn, for this reason; if it is lost, that goes on so.
    Superseded(Box<(cache::Failure, Next)>),
}

/// Why there will be no answer.
enum GivenUp {
    /// There is no turn, or no time for one.
    Stopped(Stop),
    /// The last attempt failed.
    Failed(Verdict),
}

/// What follows an attempt. In boxes, lest there be room for it beside all that wait.
enum Onward {
    Again(Box<Again>),
    GiveUp(Box<GivenUp>),
    /// It is the cache's turn.
    Settle(Box<Unsettled>),
}

/// What follows an answer.
enum Answered {
    Again(Again),
    PassOn(Option<Bytes>, Verdict),
    Collected(Response<()>),
    Fail(Verdict),
}

/// How the next attempt goes to its turn.
#[derive(Clone, Copy)]
struct Next {
    visit: Visit,
    /// When its stay in the queue begins.
    since: Instant,
    /// Whether an idle connection will not do.
    fresh: bool,
    /// Whether it is a retry that the lane's budget pays for.
    is_paid_for: bool,
}

impl<'a> Exchange<'a> {
    fn new(upstream: &'a Arc<Upstream>, inbound: Inbound, collector: Option<Collector<'a>>) -> Self {
        let Inbound { request, client, weight, interims, hop } = inbound;
        let (mut parts, source) = request.into_parts();
        let arrived = upstream.clock.now();
        let upgrade = offered_upgrade(&parts.headers).filter(|_| parts.version == Version::HTTP_11);
        let mut story = Story::new(arrived);
        let crossing = hop.map(|hop| Box::new(Crossing::new(hop, &mut parts)));
        // Fields of the hop go first, so that nothing below is read from a field that its sender declared to be one.
        let mut named_by_connection = strip_hop_by_hop(&mut parts.headers);
        story.join_trace(upstream.sampler, &mut parts.headers, &upstream.jitter);
        // What the upstream will not see has no say either, in whose an answer is.
        if let Some(credential) = &upstream.credential {
            credential.take_off_own(&mut parts.headers);
            named_by_connection.extend(credential.field().cloned());
        }
        let body = Body::new(source, named_by_connection, &upstream.bounds);
        // A body would have to be sent whole before the protocol changes, and only h2c has ever wanted that.
        if let Some(protocols) = upgrade.filter(|_| interims.is_some() && matches!(body, Body::Empty)) {
            parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            parts.headers.insert(UPGRADE, protocols);
        }
        Self {
            upstream,
            head: Request::from_parts(parts, ()),
            head_bytes: 0,
            original: None,
            body,
            client,
            weight,
            interims,
            crossing,
            arrival: 0,
            deadline: upstream.retry.total_timeout.map(|total| arrived.after(total)),
            story,
            turn: None,
            conn: None,
            response: None,
            caching: None,
            past: None,
            collector: collector.map(Box::new),
        }
    }

    async fn run(&mut self) -> Answer {
        if let Some(answer) = self.answer_here() {
            return answer;
        }
        // One that only asks for the store's sake knows what it asks.
        if self.caching.is_none()
            && let Some(answer) = self.answer_from_store()
        {
            return answer;
        }
        // What is answered from store takes no number, which all workers count together.
        self.arrival = self.upstream.next_arrival();
        if self.has_to_wait()
            && let Some(answer) = Box::pin(self.before_sending()).await
        {
            return answer;
        }
        if let Err(refusal) = self.prepare() {
            return self.refuse(refusal);
        }
        let mut next = Next { visit: Visit::First, since: self.story.arrived, fresh: false, is_paid_for: false };
        loop {
            let onward = match self.attempt(next).await {
                Attempt::Stopped(stop) => Onward::GiveUp(Box::new(GivenUp::Stopped(*stop))),
                Attempt::Stale => {
                    next = Next { visit: Visit::Again, since: self.now(), fresh: true, is_paid_for: false };
                    continue;
                }
                Attempt::Superseded(why) => match Box::pin(self.fall_back(why.0)).await {
                    Some(answer) => return answer,
                    None => {
                        next = why.1;
                        continue;
                    }
                },
                Attempt::Unaffordable => Onward::GiveUp(Box::new(GivenUp::Failed(Verdict::GiveUp(Why::BudgetSpent)))),
                Attempt::Failed(failed) => match self.decide(*failed) {
                    Verdict::Again(again) => Onward::Again(Box::new(again)),
                    verdict => Onward::GiveUp(Box::new(GivenUp::Failed(verdict))),
                },
                Attempt::Answered => match self.answered().await {
                    Answered::PassOn(prefix, verdict) if self.concerns_cache() => {
                        match self.settle_at_once(prefix, verdict) {
                            Ok(answer) => return answer,
                            Err(unsettled) => Onward::Settle(unsettled),
                        }
                    }
                    Answered::PassOn(prefix, verdict) => return self.pass_on(prefix, verdict),
                    Answered::Again(again) => Onward::Again(Box::new(again)),
                    Answered::Collected(response) => return self.finish(response.map(|()| None), End::Done),
                    Answered::Fail(verdict) => Onward::GiveUp(Box::new(GivenUp::Failed(verdict))),
                },
            };
            next = match onward {
                Onward::Again(again) => match Box::pin(self.wait(*again)).await {
                    Ok(next) => next,
                    Err(answer) => return *answer,
                },
                Onward::GiveUp(why) => return Box::pin(self.give_up(*why)).await,
                Onward::Settle(unsettled) => match Box::pin(self.settle_with_cache(*unsettled)).await {
                    Some(answer) => return answer,
                    // It was asked for the store's sake, and of no use to the client.
                    None => Next { visit: Visit::Again, since: self.now(), fresh: false, is_paid_for: false },
                },
            };
        }
    }

    /// The upstream has answered: is that the answer of the exchange, or is another attempt worth it?
    async fn answered(&mut self) -> Answered {
        let outcome = self.outcome();
        let again = match self.decide(Failed { outcome, failure: None, reason: String::new() }) {
            Verdict::Done if self.collects() => return Box::pin(self.collected()).await,
            Verdict::Again(again) => again,
            verdict => return Answered::PassOn(None, verdict),
        };
        let kept = Box::pin(self.keep()).await;
        // An answer may come before its request has gone whole, and while it was read more of the body may have gone than
        // is kept: what is left would be another request.
        if !self.body.is_replayable() {
            return match kept {
                Kept::TooLong(prefix) => Answered::PassOn(Some(prefix), Verdict::Done),
                Kept::Whole | Kept::Broken => Answered::Fail(Verdict::GiveUp(Why::BodyNotReplayable)),
            };
        }
        match kept {
            Kept::Whole | Kept::Broken => Answered::Again(again),
            // Asked to wait, the upstream did nothing: what it said at length may be dropped.
            Kept::TooLong(_) if outcome.asks_to_wait() => {
                self.let_go();
                Answered::Again(again)
            }
            Kept::TooLong(prefix) => Answered::PassOn(Some(prefix), Verdict::Done),
        }
    }

    /// Makes the head what every attempt sends.
    fn prepare(&mut self) -> Result<(), Refusal> {
        // Whoever takes us for a proxy of the other kind is best told that, for whatever host it asks.
        if *self.head.method() == Method::CONNECT {
            return Err(Refusal::Unsupported("CONNECT"));
        }
        self.admit()?;
        let target = self.upstream.target();
        match target.path(self.head.uri(), &self.upstream.mount) {
            Ok(None) => {}
            Ok(Some(uri)) => self.original = Some(Box::new(std::mem::replace(self.head.uri_mut(), uri))),
            Err(_) => return Err(Refusal::Unsupported("this request target")),
        }
        let credential = self.upstream.credential.as_ref();
        if let Some(bare) = credential.and_then(|credential| credential.target_without_own(self.head.uri())) {
            let was = std::mem::replace(self.head.uri_mut(), bare);
            // Kept in any case, since the target will be another one while it is sent.
            self.original.get_or_insert_with(|| Box::new(was));
        }
        let bytes = head_bytes(&self.head) + credential.map_or(0, Credential::bytes);
        self.head_bytes = match u32::try_from(bytes) {
            Ok(bytes) if u64::from(bytes) <= HEAD_BYTES_MAX => bytes,
            _ => return Err(Refusal::HeadTooLarge { max: HEAD_BYTES_MAX }),
        };
        self.dress();
        Ok(())
    }

    /// What follows an attempt, for this exchange and for its lane.
    fn decide(&mut self, failed: Failed) -> Verdict {
        let outcome = failed.outcome;
        self.upstream.observer.attempted(Attempted::Ended(&outcome));
        self.story.came_to(&failed, self.upstream.clock);
        let decision = if is_good(&outcome) {
            Decision { verdict: Verdict::Done, hold: None }
        } else {
            let situation = Situation {
                method: self.head.method(),
                has_idempotency_key: self.has_key(),
                is_replayable: self.body.is_replayable(),
                backoff: self.past.as_ref().map_or_else(Backoff::default, |past| past.backoff),
                left: self.left(),
            };
            decide(&self.upstream.retry, &situation, &outcome, self.upstream.jitter.dice())
        };
        // An attempt without an answer has been settled already, whatever follows.
        if failed.failure.is_none() {
            self.settle(Health::of(&outcome), decision.hold);
        }
        if decision.verdict == Verdict::Done {
            return Verdict::Done;
        }
        self.refund_retry();
        let says_when = self.response.as_ref().is_some_and(|response| response.headers().contains_key(RETRY_AFTER));
        let is_hopeless = failed.failure.is_some_and(Failure::is_lasting)
            || self.response.as_ref().is_some_and(|response| went_in_a_circle(response.headers()));
        let (failure, reason) = (failed.failure, failed.words());
        let past = self.past();
        (past.last, past.hold, past.says_when) = (Some(Failed { outcome, failure, reason }), decision.hold, says_when);
        let verdict = match decision.verdict {
            Verdict::Again(_) if is_hopeless => Verdict::GiveUp(Why::Hopeless),
            // It is paid for when it is sent; what cannot be afforded now need not wait for that.
            Verdict::Again(again) if again.spends_budget && !self.upstream.dispatcher.affords_retry() => {
                Verdict::GiveUp(Why::BudgetSpent)
            }
            verdict => verdict,
        };
        if self.upstream.observe { self.only_observe(verdict) } else { verdict }
    }

    /// Pays for a retry that is about to be sent, if that can be afforded.
    fn withdraw(&mut self) -> bool {
        self.past().withdrawn = self.upstream.dispatcher.withdraw();
        self.past().withdrawn.is_some()
    }

    /// Gives back what a retry was paid with that was not sent.
    fn refund_retry(&mut self) {
        if let Some(withdrawn) = self.past.as_mut().and_then(|past| past.withdrawn.take()) {
            self.upstream.dispatcher.refund_retry(withdrawn);
        }
    }

    fn outcome(&self) -> Outcome {
        let Some(response) = &self.response else { return Outcome::Broken };
        let received = self.upstream.clock.wall();
        Outcome::of_answer(response.status(), response.headers(), received, &self.upstream.retry)
    }

    fn settle(&mut self, health: Health, hold: Option<Duration>) {
        if let Some(turn) = &mut self.turn {
            turn.settle(health, hold);
        }
    }

    fn past(&mut self) -> &mut Past {
        self.past.get_or_insert_default()
    }

    fn last(&self) -> Option<&Failed> {
        self.past.as_ref()?.last.as_ref()
    }

    /// Lets go of what the last attempt had: its connection is closed, its turn is over.
    fn let_go(&mut self) {
        (self.response, self.conn, self.turn) = (None, None, None);
    }

    /// Gives back a turn that is not used, and its connection.
    fn put_back(&mut self) {
        self.turn = None;
        if let Some(conn) = self.conn.take() {
            self.upstream.transport.put(conn);
        }
    }

    /// Waits before a retry, where the hold of the lane does not do that anyway; unless there is an answer sooner.
    async fn wait(&mut self, again: Again) -> Result<Next, Box<Answer>> {
        let now = self.now();
        let resume = now.after(again.wait);
        self.past().backoff = again.backoff;
        // Waits count from the end of the answer, and the hold began at its head. Else it would end a moment before this
        // wait does, and whoever came after this request would go before it.
        if let Some(hold) = self.past().hold {
            self.upstream.dispatcher.prolong_hold(hold, now);
        }
        if let Some(failure) = self.failure_by_now()
            && let Some(answer) = self.fall_back(failure).await
        {
            return Err(Box::new(answer));
        }
        self.log_wait(again.wait);
        // A ticket that waits in the queue for the end of a hold is there when it comes, in its place.
        if self.upstream.dispatcher.held_until().is_none_or(|end| end < resume) {
            let asked = self.last().is_some_and(|failed| failed.outcome.asks_to_wait());
            while let Err(failure) = self.sleep_until(resume, asked).await {
                if let Some(answer) = self.fall_back(failure).await {
                    return Err(Box::new(answer));
                }
            }
        }
        Ok(Next { visit: Visit::Again, since: resume, fresh: false, is_paid_for: again.spends_budget })
    }

    /// Sleeps, unless what is stored is to be given first, for this reason.
    async fn sleep_until(&mut self, resume: Instant, asked: bool) -> Result<(), cache::Failure> {
        self.story.waits(Awaited::Retry, self.now());
        let sleep = self.upstream.clock.sleep_until(resume);
        let slept = match self.standby(Instant::NEVER) {
            Some(standby) => standby.over(self, sleep).await,
            None => {
                sleep.await;
                Ok(())
            }
        };
        self.waited(asked);
        slept
    }

    /// Accounts for a wait that has just ended. One that the lane or the upstream asked for does not count in the time of
    /// an exchange whose caller would rather wait than fail.
    fn waited(&mut self, asked: bool) {
        let waited = self.story.waited(self.upstream.clock);
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
        // What a retry keeps of its body waits with it.
        let bytes = u64::from(self.head_bytes) + self.body.held();
        Entry { client, weight, arrival, cost: 1, bytes, since, deadline }
    }

    fn left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.until(self.now()))
    }

    fn now(&self) -> Instant {
        self.upstream.clock.now()
    }
}

/// Whether nothing need be decided: the upstream answered, and without complaint.
fn is_good(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Answered { status, .. } if status.as_u16() < 400)
}

/// About what a head holds of memory: its target, and its fields with a little for each.
fn head_bytes(head: &Request<()>) -> u64 {
    let target = head.uri().path_and_query().map_or(1, |p| p.as_str().len());
    let fields: usize = head.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    (target + fields) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Source;
    use crate::{Settings, Surroundings, Target};

    /// A hundred thousand requests may wait, and each is such a future.
    #[tokio::test]
    async fn a_waiting_exchange_is_small() {
        let settings = Settings::new(Target::parse("http://upstream.test").unwrap());
        let (upstream, _) = Upstream::start(settings, Surroundings::default()).unwrap();
        let hop = Some(Hop::default());
        let inbound =
            Inbound { request: Request::new(Source::Empty), client: ClientId(1), weight: 1, interims: None, hop };
        let size = size_of_val(&call(&upstream, inbound));
        assert!(size <= 1184, "{size} bytes");
    }
}
