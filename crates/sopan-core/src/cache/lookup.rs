//! Is there an answer for a request in store?
//!
//! [`lookup`] finds the answer that counts, whole or in part, and asks whether it may be used as it is. Where it may not, it
//! tells how the upstream is asked: whether that answer is still good, for what is missing of it, or as the client asks.
//!
//! Left to others: which answers are there for a request ([`choose`](super::choose)), whether one may be used
//! ([`standing`](super::standing)) and what of it is sent ([`shape`](super::shape)).

use std::time::SystemTime;

use http::Method;
use http::header::ETAG;

use super::choose::{Choice, all, choose, completable, covering, is_for};
use super::conditional::Conditions;
use super::marks::Marks;
use super::range::Span;
use super::shape::shape;
use super::standing::{Judgement, Standing, is_fallback, judge};
use super::status::{Detail, Forward};
use super::{Asked, Extent, Stored};
use crate::policy::{CachePolicy, PathTreatment};

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// It is answered from store.
    Reuse(Reuse),
    /// It goes to the upstream.
    Send(Send),
    /// It wants an answer from store or none (`only-if-cached`), and there is none: 504.
    Unsatisfied,
}

/// How a request is answered from store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// Which of the stored answers is used.
    pub index: usize,
    /// What of it is sent.
    pub shape: Shape,
    /// How old it is, in whole seconds, for `Age`.
    pub age: u64,
    /// For how long it is fresh still, in seconds, below 0 where it is stale.
    pub ttl: i64,
    /// Why it is used though it is stale.
    pub stale: Option<Detail>,
    /// With what the upstream is to be asked in the background, where it is used meanwhile.
    pub revalidate: Option<Conditions>,
}

/// What of a stored answer is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Its status, fields and body.
    Whole,
    /// The same without the body, for a HEAD.
    Head,
    /// 304, without a body: the client has it already.
    NotModified,
    /// 206 with these bytes of the body; a `Content-Range` is made of them and the length of the whole.
    Part(Span),
    /// 206 in several parts (`multipart/byteranges`), each with a `Content-Range`.
    Parts(Vec<Span>),
    /// 416, with the length of the whole in `Content-Range: bytes */LENGTH`.
    Unsatisfiable,
}

/// How a request goes to the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    /// Why it goes.
    pub forward: Forward,
    /// What the upstream is asked with in place of the client's own conditions and `Range`; none if they go as they are.
    pub ask: Option<Box<Ask>>,
    /// Which stored answer may be given if the upstream fails, as [`after_failure`](super::after_failure) has it.
    pub fallback: Option<usize>,
    /// Whether others that ask the same may wait for its answer.
    pub is_sharable: bool,
    /// Whether its answer may be stored.
    pub may_store: bool,
}

impl Send {
    /// What it asks for of a part in store that is to be completed.
    pub(super) fn missing(&self) -> Option<&Ask> {
        self.ask.as_deref().filter(|ask| ask.missing.is_some())
    }
}

/// What the upstream is asked about a stored answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Which one it is about.
    pub index: usize,
    /// Whether it is still good.
    pub conditions: Conditions,
    /// The bytes that are missing of it, instead (`Range`, with its strong entity tag in `If-Range`).
    pub missing: Option<Span>,
}

/// Looks for an answer among those `stored` for the same target.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use http::{HeaderMap, HeaderValue, Method, StatusCode};
/// use sopan_core::cache::{Asked, Lookup, Received, Shape, Stored, Times, lookup};
/// use sopan_core::policy::CachePolicy;
///
/// let policy = CachePolicy::default();
/// let fields = HeaderMap::new();
/// let asked = Asked::new(&policy, &Method::GET, "/v1/orders", b"api.example.com", &fields);
///
/// let noon = UNIX_EPOCH + Duration::from_secs(1_792_584_000);
/// let mut headers = HeaderMap::new();
/// headers.insert("cache-control", HeaderValue::from_static("max-age=60"));
/// let times = Times { requested: noon, received: noon };
/// let stored = Stored::of(&policy, &asked, Received { status: StatusCode::OK, headers: &headers, times }).unwrap();
///
/// let Lookup::Reuse(reuse) = lookup(&policy, &asked, &[&stored], noon + Duration::from_secs(20)) else { panic!() };
/// assert_eq!((reuse.shape, reuse.age, reuse.ttl), (Shape::Whole, 20, 40));
/// assert!(matches!(lookup(&policy, &asked, &[&stored], noon + Duration::from_secs(60)), Lookup::Send(_)));
/// ```
pub fn lookup(policy: &CachePolicy, asked: &Asked<'_>, stored: &[&Stored], now: SystemTime) -> Lookup {
    if let Some(forward) = passes_by(policy, asked) {
        return as_it_is(asked, forward);
    }
    let choice = choose(asked, stored);
    let part = if choice.has_parts { covering(asked, stored) } else { None };
    let mut candidate = None;
    for index in [choice.whole, part].into_iter().flatten() {
        let standing = Standing::of(stored[index], now);
        let (stale, revalidate) = match judge(policy, asked, stored[index], standing) {
            Judgement::Use(stale) => (stale, None),
            Judgement::UseAndAsk => {
                let conditions = Conditions::of(stored[index], &[]);
                (Some(Detail::StaleWhileRevalidate), Some(conditions))
            }
            Judgement::Ask(forward) => {
                candidate = candidate.or(Some(Candidate { index, forward, standing }));
                continue;
            }
        };
        if let Some(reuse) = reuse(asked, index, stored[index], standing) {
            return Lookup::Reuse(Reuse { stale, revalidate, ..reuse });
        }
    }
    if asked.directives.only_if_cached {
        return Lookup::Unsatisfied;
    }
    Lookup::Send(send(policy, asked, stored, &choice, candidate))
}

/// How a request is answered with an answer that was asked for on its behalf too, after it came, and has just come or been
/// confirmed; none if it is not for this request. That it may not be used unasked another time is no hindrance (RFC 9111 §4).
pub fn reuse_just_come(asked: &Asked<'_>, stored: &Stored, now: SystemTime) -> Option<Reuse> {
    if is_for(asked, stored) { reuse(asked, 0, stored, Standing::of(stored, now)) } else { None }
}

/// How a request is answered with an answer that may be given; none if that is a part, and not enough.
pub(super) fn reuse(asked: &Asked<'_>, index: usize, stored: &Stored, standing: Standing) -> Option<Reuse> {
    let (age, ttl) = (standing.age.as_secs(), standing.ttl());
    Some(Reuse { index, shape: shape(asked, stored)?, age, ttl, stale: None, revalidate: None })
}

/// Why the cache has no say in a request, if it has none.
///
/// A body may tell apart what the target does not (a search), and `If-Match` is for the upstream to judge.
fn passes_by(policy: &CachePolicy, asked: &Asked<'_>) -> Option<Forward> {
    let is_answered = [Method::GET, Method::HEAD].contains(asked.method);
    if !policy.on || asked.rule == Some(PathTreatment::Bypass) {
        Some(Forward::Bypass)
    } else if !is_answered {
        Some(Forward::Method)
    } else if asked.has_body || asked.marks.has(Marks::FOR_UPSTREAM) {
        Some(Forward::Bypass)
    } else {
        None
    }
}

fn as_it_is(asked: &Asked<'_>, forward: Forward) -> Lookup {
    // The answer to a POST may be what a GET of the same target would get (RFC 9110 §9.3.3).
    let may_store = forward == Forward::Method && asked.method == Method::POST && !asked.directives.no_store;
    Lookup::Send(Send { forward, ask: None, fallback: None, is_sharable: false, may_store })
}

/// An answer that might have been used, but for the reason why it is asked about first.
struct Candidate {
    index: usize,
    forward: Forward,
    standing: Standing,
}

fn send(
    policy: &CachePolicy,
    asked: &Asked<'_>,
    stored: &[&Stored],
    choice: &Choice,
    candidate: Option<Candidate>,
) -> Send {
    // What would come of asking may not be stored, not even that it is still good.
    let is_asked = !asked.directives.no_store;
    let about = candidate.as_ref().filter(|_| is_asked).and_then(|of| about(asked, stored, of.index));
    let missing = || {
        let (index, missing) = completable(policy, asked, stored).filter(|_| is_asked)?;
        Some(Box::new(Ask { index, conditions: Conditions::default(), missing: Some(missing) }))
    };
    let forward = match &candidate {
        Some(candidate) => candidate.forward,
        None if choice.has_parts => Forward::Partial,
        None => choice.miss,
    };
    let fallback = candidate.filter(|of| is_fallback(asked, stored[of.index], of.standing)).map(|of| of.index);
    let may_store = is_asked && asked.method == Method::GET;
    let ask = if choice.has_parts { about.or_else(missing) } else { about };
    Send { forward, ask, fallback, is_sharable: may_store && is_plain(asked), may_store }
}

/// How the upstream is asked whether an answer is still good, if there is anything to ask with.
fn about(asked: &Asked<'_>, stored: &[&Stored], index: usize) -> Option<Box<Ask>> {
    let others: Vec<_> = listed(asked, stored, index).into_iter().map(|other| stored[other]).collect();
    let conditions = Conditions::of(stored[index], &others);
    (!conditions.is_empty()).then(|| Box::new(Ask { index, conditions, missing: None }))
}

/// The other answers that are asked about with one: those that the upstream could choose for this request instead, by their
/// entity tags. A part is asked about alone, and not along with others (RFC 9111 §4.3.1).
pub(super) fn listed(asked: &Asked<'_>, stored: &[&Stored], index: usize) -> Vec<usize> {
    let is_listed = |at: usize| matches!(stored[at].extent, Extent::Whole(_)) && stored[at].headers.contains_key(ETAG);
    let others = if is_listed(index) { all(asked, stored) } else { Vec::new() };
    others.into_iter().filter(|other| *other != index && is_listed(*other)).collect()
}

/// Whether a request asks for all of an answer, and takes any that comes: nothing in it is about what the client has, or
/// how old an answer may be.
fn is_plain(asked: &Asked<'_>) -> bool {
    let directives = &asked.directives;
    let is_particular = directives.no_cache || directives.max_age.is_some() || directives.min_fresh.is_some();
    !is_particular && !asked.marks.has(Marks::DISTINCTIVE)
}

#[cfg(test)]
mod tests;
