//! What the cache does with an answer, and how long it is used: as the code that the proxy runs says, at one instant after the
//! other.
//!
//! Nothing is stored, and no rule of caching is written down here. An answer that would be stored is held in hand, and the
//! cache asked about it as if the same request came again: while it is fresh, when it is not, and when the API fails. What
//! of that is told, and how, is in `stored`.

use std::time::{Duration, SystemTime};

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};
use sopan_core::cache::invalidate::{invalidates, others};
use sopan_core::cache::status::Forward;
use sopan_core::cache::{
    After, Asked, Failure, Lookup, NotStored, Owner, Received, Send, Stored, Times, after_failure, after_response,
    lookup,
};
use sopan_core::headers::is_credential;
use sopan_core::policy::CachePolicy;

use super::Answer;

/// What the cache does with an answer.
#[derive(Debug)]
pub(super) struct Cached {
    pub(super) fate: Fate,
    /// Whether it makes untrue what is stored for its target; and for how many others.
    pub(super) untrue: Option<usize>,
}

#[derive(Debug)]
pub(super) enum Fate {
    /// The request would not have gone to the API: it wants an answer from store or none.
    Unsatisfied,
    /// The answer is passed on and nothing more.
    Passed(NotStored),
    Stored(Box<Kept>),
}

/// What would be stored, and what becomes of it.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) stored: Stored,
    pub(super) audience: Audience,
    /// How old it is when it comes.
    pub(super) age: Duration,
    /// How long it is fresh still; zero where it is stale already.
    pub(super) left: Duration,
    /// What an equal request gets at once.
    pub(super) at_once: Lookup,
    /// What it gets when the answer is stale.
    pub(super) later: Lookup,
    pub(super) stale: Stale,
}

/// Who may get it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    All,
    /// Everybody who asks without a credential.
    Strangers,
    /// Who asks with the same one.
    Owner,
}

/// How long it is given although it is stale; none where it never is.
#[derive(Debug, Default)]
pub(super) struct Stale {
    /// While it is asked about in the background.
    pub(super) meanwhile: Option<Duration>,
    /// To a request that takes it.
    pub(super) accepted: Option<Duration>,
    /// When the API cannot be reached, or is held to be down.
    pub(super) disconnected: Option<Duration>,
    /// When it answers with an error.
    pub(super) on_error: Option<Duration>,
    /// When no token is there in time.
    pub(super) no_token: Option<Duration>,
}

impl Cached {
    pub(super) fn of(answer: &Answer, policy: &CachePolicy) -> Self {
        let asked = asked(answer, policy);
        let untrue = invalidates(&answer.method, answer.status)
            .then(|| others(&answer.headers, &answer.target, asked.host).len());
        Self { fate: Fate::of(answer, policy, &asked), untrue }
    }
}

impl Fate {
    fn of(answer: &Answer, policy: &CachePolicy, asked: &Asked<'_>) -> Self {
        let sent = match lookup(policy, asked, &[], answer.received) {
            Lookup::Send(sent) => sent,
            Lookup::Unsatisfied => return Self::Unsatisfied,
            Lookup::Reuse(_) => unreachable!("nothing is stored, and {asked:?} is answered from store"),
        };
        let headers = with_length(answer);
        let times = Times { requested: answer.received, received: answer.received };
        let received = Received { status: answer.status, headers: &headers, times };
        match after_response(policy, asked, &sent, &[], received) {
            After::Store { stored, .. } => Self::Stored(Box::new(Kept::of(*stored, policy, asked))),
            After::PassOn(why) => Self::Passed(why),
            // Where nothing is stored, nothing can be said of it.
            After::Freshen { .. }
            | After::Join { .. }
            | After::AskAgain { .. }
            | After::Stale(_)
            | After::Forget(_) => Self::Passed(NotStored::Status),
        }
    }
}

impl Kept {
    fn of(stored: Stored, policy: &CachePolicy, asked: &Asked<'_>) -> Self {
        let came = stored.times.received;
        let age = stored.freshness.age(stored.times, came);
        let left = stored.freshness.lifetime.saturating_sub(age);
        let look = |after: Duration| lookup(policy, asked, &[&stored], later(came, after));
        let stale = Stale::of(&stored, policy, asked, left);
        let audience = Audience::of(&stored, policy, asked);
        let (at_once, later) = (look(Duration::ZERO), look(left + policy.stale_max.max(FAR)));
        Self { audience, age, left, at_once, later, stale, stored }
    }
}

impl Audience {
    fn of(stored: &Stored, policy: &CachePolicy, asked: &Asked<'_>) -> Self {
        let other = Asked { owner: Some(SOMEBODY_ELSE), ..*asked };
        let is_found = match lookup(policy, &other, &[stored], stored.times.received) {
            Lookup::Send(sent) => sent.forward != Forward::UriMiss,
            Lookup::Reuse(_) => true,
            Lookup::Unsatisfied => false,
        };
        match stored.owner {
            Some(_) => Self::Owner,
            None if is_found => Self::All,
            None => Self::Strangers,
        }
    }
}

impl Kept {
    /// Whether an equal request gets it without the API being asked.
    pub(super) fn is_given_at_once(&self) -> bool {
        !self.left.is_zero() && matches!(self.at_once, Lookup::Reuse(_))
    }
}

/// Further than anything is given that is stale.
const FAR: Duration = Duration::from_secs(86_400);

impl Stale {
    /// `left`: how long it is fresh.
    fn of(stored: &Stored, policy: &CachePolicy, asked: &Asked<'_>, left: Duration) -> Self {
        let at = |after: Duration| later(stored.times.received, left + after);
        let look = |after| lookup(policy, asked, &[stored], at(after));
        let unasked = longest(policy, |after| matches!(look(after), Lookup::Reuse(_)));
        let meanwhile =
            longest(policy, |after| matches!(look(after), Lookup::Reuse(reuse) if reuse.revalidate.is_some()));
        // What is given without asking is given when asking would fail, too, which is no news.
        let after_asking = |gives: &dyn Fn(&Send, SystemTime) -> bool| {
            let holds = |after| match look(after) {
                Lookup::Send(sent) => gives(&sent, at(after)),
                Lookup::Reuse(_) | Lookup::Unsatisfied => true,
            };
            longest(policy, holds).filter(|span| Some(*span) > unasked)
        };
        let fails =
            |failure| after_asking(&|sent, now| after_failure(policy, asked, sent, &[stored], failure, now).is_some());
        Self {
            meanwhile,
            accepted: unasked.filter(|span| Some(*span) > meanwhile),
            disconnected: fails(Failure::Disconnected),
            on_error: after_asking(&|sent, now| gives_for_error(policy, asked, sent, stored, now)),
            no_token: fails(Failure::NoToken),
        }
    }
}

fn gives_for_error(policy: &CachePolicy, asked: &Asked<'_>, sent: &Send, stored: &Stored, now: SystemTime) -> bool {
    let times = Times { requested: now, received: now };
    let received = Received { status: StatusCode::SERVICE_UNAVAILABLE, headers: &HeaderMap::new(), times };
    matches!(after_response(policy, asked, sent, &[stored], received), After::Stale(_))
}

/// The longest whole number of seconds, up to `stale_max`, for which something holds that holds from the first second on, and
/// not again once it does not.
fn longest(policy: &CachePolicy, holds: impl Fn(Duration) -> bool) -> Option<Duration> {
    let holds = |seconds| holds(Duration::from_secs(seconds));
    let (mut yes, mut no) = (0, policy.stale_max.as_secs() + 1);
    while no - yes > 1 {
        let middle = yes.midpoint(no);
        if holds(middle) { yes = middle } else { no = middle }
    }
    (yes > 0 && holds(1)).then(|| Duration::from_secs(yes))
}

/// An instant that the calendar has.
fn later(at: SystemTime, after: Duration) -> SystemTime {
    at.checked_add(after).unwrap_or(at)
}

/// The request as the cache sees it.
fn asked<'a>(answer: &'a Answer, policy: &CachePolicy) -> Asked<'a> {
    let Answer { method, target, request, .. } = answer;
    let owner = request.keys().any(is_credential).then_some(SOMEBODY);
    Asked { owner, ..Asked::new(policy, method, target, b"localhost", request) }
}

/// Nobody in particular: that it is the same one is all that counts here.
const SOMEBODY: Owner = Owner([0; 16]);
const SOMEBODY_ELSE: Owner = Owner([1; 16]);

/// The fields of an answer, with the length of its body where that is known otherwise.
fn with_length(answer: &Answer) -> HeaderMap {
    let mut headers = answer.headers.clone();
    if let Some(bytes) = answer.body.filter(|_| !headers.contains_key(CONTENT_LENGTH)) {
        headers.insert(CONTENT_LENGTH, bytes.into());
    }
    headers
}
