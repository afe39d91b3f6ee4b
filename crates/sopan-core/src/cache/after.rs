//! What follows for the store, and for the client, from what the upstream has answered?
//!
//! [`after_response`] tells by the answer's status what it can be: word that a stored answer is still good, the rest of one,
//! a failure in whose place a stored one is given, or an answer of its own, which is stored or not, and makes those before
//! it obsolete. [`after_failure`] tells what is given where there is none.
//!
//! Left to others: whether and how an answer is stored ([`keep`](super::keep)), and what an unsafe request makes untrue
//! ([`invalidate`](super::invalidate)).

use std::fmt;
use std::time::{Duration, SystemTime};

use http::header::{ETAG, HeaderName, LAST_MODIFIED};
use http::{HeaderMap, Method, StatusCode};

use super::choose::{all, choose};
use super::conditional::{is_about, is_same_body};
use super::keep::{content_length, held};
use super::lookup::{Ask, Reuse, Send, listed, reuse};
use super::range::{Part, joined, part_of_answer};
use super::standing::{Lack, StandIn, Standing, may_stand_in};
use super::status::Forward;
use super::values::Tag;
use super::{Asked, Extent, NotStored, Stored, Times};
use crate::headers::Shown;
use crate::policy::CachePolicy;

/// The head of an answer, without the fields of its hop.
#[derive(Clone, Copy)]
pub struct Received<'a> {
    /// Its status.
    pub status: StatusCode,
    /// Its fields, as the upstream sent them.
    pub headers: &'a HeaderMap,
    /// When it was asked for and came.
    pub times: Times,
}

/// Shows no secret.
impl fmt::Debug for Received<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, headers, times } = self;
        f.debug_struct("Received")
            .field("status", status)
            .field("headers", &Shown(headers))
            .field("times", times)
            .finish()
    }
}

/// What follows from an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum After {
    /// It goes to the client, and is not stored.
    PassOn(NotStored),
    /// It goes to the client, and is stored in place of the stored answers at these places, which are for the same requests.
    Store {
        /// What is to be known of it.
        stored: Box<Stored>,
        /// Which others go.
        replaces: Vec<usize>,
    },
    /// It was about a stored answer, which is good again: that gets a new head, its body stays.
    Freshen {
        /// Which one.
        index: usize,
        /// Its new head.
        stored: Box<Stored>,
        /// How the client is answered from it, with `stored` in its place; none if it gets what the upstream answered,
        /// because that is what it asked for (a HEAD, a range, or a condition of its own).
        ///
        /// It is not for [`lookup`](super::lookup()) to say: an answer that is to be asked about each time may be given now,
        /// and would not be found.
        reuse: Option<Reuse>,
    },
    /// It is a part of the body of which the stored answer has another: both are one from now on.
    Join {
        /// Which one.
        index: usize,
        /// The head of both.
        stored: Box<Stored>,
        /// How the client is answered from both, as soon as the part has come whole.
        reuse: Reuse,
    },
    /// It says nothing about the answer in store, and the client did not ask for it: the request has to be sent once more, as
    /// the client made it.
    AskAgain {
        /// The stored answer that it turned out to be useless to ask about, and goes.
        forget: Option<usize>,
    },
    /// It is a failure, and a stale answer is given in its place.
    Stale(Reuse),
    /// It goes to the client, and the stored answers at these places are no longer true.
    Forget(Vec<usize>),
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The upstream could not be reached, broke off, did not answer in time, or is held to be down.
    Disconnected,
    /// It answered that it failed, and that answer is not passed on.
    Error,
    /// There is no token for the request before its deadline.
    NoToken,
}

/// What follows from an answer to a request that went to the upstream as `sent`; `stored` is what lookup was given.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use http::{HeaderMap, HeaderValue, Method, StatusCode};
/// use sopan_core::cache::{After, Asked, Lookup, Received, Times, after_response, lookup};
/// use sopan_core::policy::CachePolicy;
///
/// let policy = CachePolicy::default();
/// let fields = HeaderMap::new();
/// let asked = Asked::new(&policy, &Method::GET, "/v1/orders", b"api.example.com", &fields);
/// let noon = UNIX_EPOCH + Duration::from_secs(1_792_584_000);
/// let Lookup::Send(sent) = lookup(&policy, &asked, &[], noon) else { panic!("nothing is stored") };
///
/// let mut headers = HeaderMap::new();
/// headers.insert("cache-control", HeaderValue::from_static("max-age=60"));
/// let times = Times { requested: noon, received: noon };
/// let received = Received { status: StatusCode::OK, headers: &headers, times };
/// let after = after_response(&policy, &asked, &sent, &[], received);
/// assert!(matches!(after, After::Store { stored, .. } if stored.freshness.lifetime == Duration::from_secs(60)));
/// ```
pub fn after_response(
    policy: &CachePolicy,
    asked: &Asked<'_>,
    sent: &Send,
    stored: &[&Stored],
    received: Received<'_>,
) -> After {
    let answered = Answered { policy, asked, sent, stored, received };
    if sent.forward == Forward::Bypass {
        return After::PassOn(NotStored::Bypass);
    }
    if sent.forward == Forward::Method {
        return answered.keep();
    }
    match received.status {
        StatusCode::NOT_MODIFIED => answered.not_modified(),
        StatusCode::PARTIAL_CONTENT => answered.part(),
        StatusCode::RANGE_NOT_SATISFIABLE => answered.not_satisfiable(),
        status if status.is_server_error() => answered.failed(),
        _ if *asked.method == Method::HEAD => answered.head(),
        _ => answered.keep(),
    }
}

/// Which stale answer is given where there is none from the upstream, if any may be.
pub fn after_failure(
    policy: &CachePolicy,
    asked: &Asked<'_>,
    sent: &Send,
    stored: &[&Stored],
    failure: Failure,
    now: SystemTime,
) -> Option<Reuse> {
    stand_in(policy, asked, sent, stored, failure.lack(), now)
}

/// For how long at least a stored answer may still be given where there is none from the upstream, if one may be: for a request that
/// waits, and is better answered with that in time.
pub fn stands_by(
    policy: &CachePolicy,
    asked: &Asked<'_>,
    sent: &Send,
    stored: &[&Stored],
    failure: Failure,
    now: SystemTime,
) -> Option<Duration> {
    let fallback = stored.get(sent.fallback?)?;
    let standing = Standing::of(fallback, now);
    match may_stand_in(policy, asked, fallback, standing, failure.lack()) {
        StandIn::No => None,
        StandIn::Fresh => Some(standing.left()),
        StandIn::Stale(_, left) => Some(left),
    }
}

impl Failure {
    fn lack(self) -> Lack {
        match self {
            Self::Disconnected => Lack::Disconnected,
            Self::Error => Lack::Error,
            Self::NoToken => Lack::NoToken,
        }
    }
}

fn stand_in(
    policy: &CachePolicy,
    asked: &Asked<'_>,
    sent: &Send,
    stored: &[&Stored],
    lack: Lack,
    now: SystemTime,
) -> Option<Reuse> {
    let index = sent.fallback?;
    let fallback = stored.get(index)?;
    let standing = Standing::of(fallback, now);
    let stale = match may_stand_in(policy, asked, fallback, standing, lack) {
        StandIn::No => return None,
        StandIn::Fresh => None,
        StandIn::Stale(detail, _) => Some(detail),
    };
    reuse(asked, index, fallback, standing).map(|reuse| Reuse { stale, ..reuse })
}

/// An answer, and all that it is to be seen with.
#[derive(Clone, Copy)]
struct Answered<'a> {
    policy: &'a CachePolicy,
    asked: &'a Asked<'a>,
    sent: &'a Send,
    stored: &'a [&'a Stored],
    received: Received<'a>,
}

impl Answered<'_> {
    /// An answer of its own: it is stored, or it is not, and what was there before is obsolete all the same.
    fn keep(self) -> After {
        match Stored::of(self.policy, self.asked, self.received) {
            Ok(stored) => {
                let replaces = (0..self.stored.len()).filter(|at| self.replaces(&stored, self.stored[*at])).collect();
                After::Store { stored: Box::new(stored), replaces }
            }
            Err(why) if *self.asked.method == Method::GET && self.sent.may_store && is_news(self.received.status) => {
                self.forget(why)
            }
            Err(why) => After::PassOn(why),
        }
    }

    /// What was there for this request is no longer true.
    fn forget(self, why: NotStored) -> After {
        match all(self.asked, self.stored) {
            none if none.is_empty() => After::PassOn(why),
            obsolete => After::Forget(obsolete),
        }
    }

    /// 304
    fn not_modified(self) -> After {
        match &self.sent.ask {
            Some(ask) if ask.missing.is_none() && !ask.conditions.is_empty() => self.confirmed(ask),
            // Nobody has asked that.
            Some(ask) => self.is_no_use(ask),
            None => self.confirmed_to_the_client(),
        }
    }

    /// Word on what was asked about; on anything else it is of no use to a client that has asked for an answer.
    fn confirmed(self, ask: &Ask) -> After {
        if self.stored.get(ask.index).is_none() {
            return self.is_no_use(ask);
        }
        let others = listed(self.asked, self.stored, ask.index);
        let is_only_one = others.is_empty();
        let is_meant = |at: &usize| is_about(self.received.headers, &self.stored[*at].headers, is_only_one);
        let Some(index) = std::iter::once(ask.index).chain(others).find(is_meant) else { return self.is_no_use(ask) };
        let Some(stored) = self.renewed(index, self.stored[index].extent) else {
            return After::AskAgain { forget: Some(index) };
        };
        match self.reuse(index, &stored) {
            Some(reuse) => After::Freshen { index, stored: Box::new(stored), reuse: Some(reuse) },
            None => self.is_no_use(ask),
        }
    }

    /// The client has asked with what it has, and that may be what is stored.
    fn confirmed_to_the_client(self) -> After {
        let is_meant = |at: &usize| is_about(self.received.headers, &self.stored[*at].headers, false);
        let meant = choose(self.asked, self.stored).whole.filter(is_meant);
        match meant.filter(|_| !self.asked.directives.no_store) {
            Some(index) => self.pass_on_and_freshen(index),
            None => After::PassOn(NotStored::Status),
        }
    }

    fn pass_on_and_freshen(self, index: usize) -> After {
        match self.renewed(index, self.stored[index].extent).filter(|stored| !stored.is_given_once()) {
            Some(stored) => After::Freshen { index, stored: Box::new(stored), reuse: None },
            None => After::Forget(vec![index]),
        }
    }

    /// 206
    fn part(self) -> After {
        if let Some(ask) = self.sent.missing() {
            return self.rest(ask).unwrap_or_else(|| self.is_no_use(ask));
        }
        // What several parts come in says of itself what type it has, and not of the body that they are parts of.
        let part = part_of_answer(self.received.headers);
        let has = |whole: &Stored| {
            is_same_body(self.received.headers, &whole.headers) && part.is_some_and(|part| fits(part, whole.extent))
        };
        match choose(self.asked, self.stored).whole.filter(|at| has(self.stored[*at])) {
            // What is stored has this part already.
            Some(index) if self.sent.may_store => self.pass_on_and_freshen(index),
            _ => self.keep(),
        }
    }

    /// The part that was missing.
    fn rest(self, ask: &Ask) -> Option<After> {
        let before = self.stored.get(ask.index)?;
        let Extent::Part(part) = before.extent else { return None };
        let both = joined(part, part_of_answer(self.received.headers)?)?;
        if !is_same_body(&before.headers, self.received.headers) {
            return None;
        }
        let stored = self.renewed(ask.index, held(both))?;
        let reuse = self.reuse(ask.index, &stored)?;
        let is_kept = !stored.is_given_once();
        is_kept.then(|| After::Join { index: ask.index, stored: Box::new(stored), reuse })
    }

    /// 416: the rest is not there, or what the client asks for is not.
    fn not_satisfiable(self) -> After {
        self.sent.missing().map_or(After::PassOn(NotStored::Status), |ask| self.is_no_use(ask))
    }

    /// 5xx: a stored answer is better, if it may be given; and it is kept in any case, rather than what says that nothing is
    /// known at present.
    fn failed(self) -> After {
        let Self { policy, asked, sent, stored, received } = self;
        let is_error = [500, 502, 503, 504].contains(&received.status.as_u16());
        if is_error && let Some(reuse) = stand_in(policy, asked, sent, stored, Lack::Error, received.times.received) {
            return After::Stale(reuse);
        }
        let is_good = |at: usize| !stored[at].status.is_server_error();
        if all(asked, stored).into_iter().any(is_good) {
            return After::PassOn(NotStored::Status);
        }
        self.keep()
    }

    /// The answer to a HEAD tells whether that to a GET in store is still good (RFC 9111 §4.3.5).
    fn head(self) -> After {
        let Self { asked, stored, received, .. } = self;
        if asked.directives.no_store {
            return After::PassOn(NotStored::RequestNoStore);
        }
        match choose(asked, stored).whole {
            Some(index) if stored[index].status == received.status && is_confirmed(stored[index], received.headers) => {
                self.pass_on_and_freshen(index)
            }
            _ if is_news(received.status) => self.forget(NotStored::Method),
            _ => After::PassOn(NotStored::Method),
        }
    }

    /// How the client is answered with one that has just been confirmed.
    fn reuse(self, index: usize, stored: &Stored) -> Option<Reuse> {
        reuse(self.asked, index, stored, Standing::of(stored, self.received.times.received))
    }

    /// None where its head would become too large.
    fn renewed(self, index: usize, extent: Extent) -> Option<Stored> {
        self.stored[index].renewed(self.policy, self.asked, self.received, extent)
    }

    /// It cost a request to learn nothing, and would each time.
    fn is_no_use(self, ask: &Ask) -> After {
        After::AskAgain { forget: Some(ask.index) }
    }

    /// Whether a new answer takes the place of one that was there for the same request.
    fn replaces(self, new: &Stored, old: &Stored) -> bool {
        let is_for_same = *old.host == *new.host && old.selecting.is_for(self.asked.headers);
        // One for everybody stays beside one that is for its owner alone.
        let is_for_fewer = old.owner == new.owner || new.owner.is_none() && old.owner == self.asked.owner;
        is_for_same && is_for_fewer && is_obsolete(new, old)
    }
}

/// Whether an answer is obsolete because of a newer one to the same request. A part says nothing of one with which it may be
/// together.
fn is_obsolete(new: &Stored, old: &Stored) -> bool {
    let Extent::Part(new_part) = new.extent else { return true };
    let is_same = is_same_body(&new.headers, &old.headers);
    match old.extent {
        Extent::Part(old) if is_same => new_part.span.contains(old.span),
        Extent::Part(old_part) => {
            let apart = new_part.span.last < old_part.span.first || old_part.span.last < new_part.span.first;
            !apart || is_other_version(&new.headers, &old.headers)
        }
        Extent::Whole(_) => is_other_version(&new.headers, &old.headers) || !fits(new_part, old.extent),
    }
}

/// Whether a part may be one of a whole that is as long as that.
fn fits(part: Part, whole: Extent) -> bool {
    let Extent::Whole(Some(length)) = whole else { return true };
    part.span.last < length && part.complete.is_none_or(|complete| complete == length)
}

/// Whether two answers are known to be of different versions.
fn is_other_version(a: &HeaderMap, b: &HeaderMap) -> bool {
    match (Tag::of(a), Tag::of(b)) {
        (Some(a), Some(b)) => !a.is_like(&b),
        _ => matches!((a.get(LAST_MODIFIED), b.get(LAST_MODIFIED)), (Some(a), Some(b)) if a != b),
    }
}

/// Whether an answer of this status tells how things are now, so that what was answered before is obsolete even if this one
/// is not stored: it succeeded, leads elsewhere, or says that there is nothing. A part tells nothing of other parts.
fn is_news(status: StatusCode) -> bool {
    match status {
        StatusCode::PARTIAL_CONTENT => false,
        StatusCode::NOT_FOUND | StatusCode::GONE => true,
        status => status.is_success() || status.is_redirection(),
    }
}

/// Whether what a HEAD was answered is about what is stored: all validators that it has, and the length, are the same.
fn is_confirmed(stored: &Stored, head: &HeaderMap) -> bool {
    let is_alike = |name: &HeaderName| head.get(name).is_none_or(|value| stored.headers.get(name) == Some(value));
    let length = match stored.extent {
        Extent::Whole(length) => length,
        Extent::Part(part) => part.complete,
    };
    let is_as_long = content_length(head).is_none_or(|told| length.is_none_or(|length| length == told));
    [ETAG, LAST_MODIFIED].iter().all(is_alike) && is_as_long
}

#[cfg(test)]
mod tests;
