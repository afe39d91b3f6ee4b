//! The two steps in which an exchange meets the cache: before its first wait, and behind its last answer.
//!
//! What is decided, whether an answer in store will do, how the upstream is asked, what becomes of its answer, is decided
//! in `sopan_core::cache`; here it is done. A fresh hit is answered on the spot, without a task, a wait or a token
//! ([`Exchange::answer_from_store`]). All else has a [`Caching`] from then on. The head is changed on its way to the upstream,
//! and made again what the client sent when there is an answer to be held against it, by `own`. Who waits for an equal request
//! is in `together`, what other instances have, and who waits for those, in `common`. How an answer is made of what is stored is in `reuse`, and when that is given for want of another in
//! `standby`; what becomes of the upstream's answer in `settle`, of the rest of a part in `join`, of what an unsafe request
//! makes untrue in `untrue`. Asking while the client has its answer already is in `background`.

pub(crate) mod background;
mod common;
mod join;
mod own;
mod reuse;
mod settle;
mod standby;
mod together;
mod untrue;
mod whose;

use std::sync::Arc;
use std::time::SystemTime;

use http::HeaderValue;
use http::header::{ETAG, IF_RANGE, RANGE};
use http::uri::PathAndQuery;
use http::{HeaderMap, Response, StatusCode};
use sopan_core::cache::directives::RequestDirectives;
use sopan_core::cache::invalidate::invalidates;
use sopan_core::cache::range::Span;
use sopan_core::cache::status::{CacheStatus, Forward};
use sopan_core::cache::vary::Selecting;
use sopan_core::cache::{
    After, Ask, Asked, Lookup, Marks, NotStored, Owner, Received, Reuse, Send, Shape, Stored, after_response, lookup,
};
use sopan_core::policy::{CachePolicy, PathTreatment};

use self::reuse::CACHE_STATUS;
use super::{Answer, Exchange};
use crate::body::Body;
use crate::coalesce::Leader;
use crate::event::{Cached, Observed};
use crate::store::{self, CommonLead, Entry, Epoch, Key, Sought};
use join::is_joined;
use own::Own;
pub(super) use settle::Unsettled;
pub(super) use standby::Standby;
pub(crate) use together::Seat;

/// What the cache knows of an exchange that was not answered from store on the spot.
pub(super) struct Caching {
    key: Key,
    /// What the client asked, beside what the head says: see [`Exchange::with_asked`].
    marks: Marks,
    owner: Option<Owner>,
    has_body: bool,
    directives: RequestDirectives,
    /// What the client has sent of that which the head has changed in; none while it is as the client sent it.
    own: Option<Own>,
    /// What was stored when that was looked at last.
    entry: Option<Arc<Entry>>,
    /// How it goes to the upstream; none if it wants an answer from store or none.
    sent: Option<Send>,
    /// When its last attempt was sent, by the calendar and by the store's own count of what was made untrue.
    requested: SystemTime,
    epoch: Epoch,
    /// Whether it is with the upstream, which may be acting on it.
    is_out: bool,
    /// Whether an attempt was lost that the upstream may have acted on.
    is_in_doubt: bool,
    /// By what others were chosen that it has waited for in vain, and what it has there itself.
    told_apart: Option<Box<Selecting>>,
    /// Others wait for its answer, here, and at other instances.
    leader: Option<Leader<Key, Seat>>,
    lead: Option<Box<CommonLead>>,
    /// Whether it waited for the answer of another.
    has_followed: bool,
}

impl Caching {
    fn new(key: Key, asked: &Asked<'_>, epoch: Epoch, now: SystemTime) -> Self {
        let Asked { marks, owner, has_body, directives, .. } = *asked;
        Self {
            key,
            marks,
            owner,
            has_body,
            directives,
            own: None,
            entry: None,
            sent: None,
            requested: now,
            epoch,
            is_out: false,
            is_in_doubt: false,
            told_apart: None,
            leader: None,
            lead: None,
            has_followed: false,
        }
    }

    /// What follows from the upstream's answer.
    fn after(&self, asked: &Asked<'_>, policy: &CachePolicy, received: Received<'_>) -> After {
        let Some(sent) = &self.sent else { return After::PassOn(NotStored::Bypass) };
        with_stored(self.entry.as_deref(), |stored| after_response(policy, asked, sent, stored, received))
    }

    fn told_apart(&self) -> Option<&Selecting> {
        self.told_apart.as_deref()
    }

    /// Why it goes to the upstream.
    fn forward(&self) -> Forward {
        self.sent.as_ref().map_or(Forward::Bypass, |sent| sent.forward)
    }

    /// What the upstream is asked about a stored answer, if it is.
    fn ask(&self) -> Option<&Ask> {
        self.sent.as_ref()?.ask.as_deref()
    }
}

/// Shows the stored answers of an entry to who decides; hardly ever are there several.
fn with_stored<T>(entry: Option<&Entry>, decide: impl FnOnce(&[&Stored]) -> T) -> T {
    match entry.map(|entry| &*entry.variants) {
        None | Some([]) => decide(&[]),
        Some([one]) => decide(&[&one.stored]),
        Some(several) => decide(&several.iter().map(|variant| &variant.stored).collect::<Vec<_>>()),
    }
}

impl Exchange<'_> {
    /// The answer from store, if there is one that will do as it is. Else the cache knows from now on what was asked.
    pub(super) fn answer_from_store(&mut self) -> Option<Answer> {
        let upstream = self.upstream;
        let cache = upstream.cache.as_ref()?;
        let (method, target, headers) = (self.head.method(), self.target(), self.head.headers());
        let host = whose::in_lower_case(self.base().map_or(b"", HeaderValue::as_bytes));
        let asked = Asked::new(&cache.policy, method, target, &host, headers);
        // A body that is collected goes elsewhere, and what becomes another protocol is no answer; what may change something
        // changes it whether it becomes one or not.
        let is_only_a_switch = asked.marks.has(Marks::UPGRADE) && method.is_safe();
        if self.has_sink() || is_only_a_switch {
            return None;
        }
        let has_body = !matches!(self.body, Body::Empty);
        let asked = Asked { owner: whose::owner(headers, asked.marks), has_body, ..asked };
        let sought = Sought::new(upstream.name(), cache.place, target);
        let entry = cache.store.find(&sought);
        let now = upstream.clock.wall();
        let looked = with_stored(entry.as_deref(), |stored| lookup(&cache.policy, &asked, stored, now));
        if let (Lookup::Reuse(reuse), Some(found)) = (&looked, &entry)
            && !upstream.observe
        {
            let caching = || Box::new(Caching::new(sought.key(), &asked, cache.store.epoch(), now));
            if let Some(conditions) = &reuse.revalidate {
                self.ask_in_background(caching(), found, reuse.index, conditions.clone());
            }
            if !is_at_hand(found, reuse) {
                // It is looked at again where a file can be waited for.
                self.caching = Some(caching());
                return None;
            }
            return Some(self.reuse_at_once(found, reuse));
        }
        self.caching = Some(Box::new(Caching::new(sought.key(), &asked, cache.store.epoch(), now)));
        self.looked(looked, entry);
        None
    }

    /// The target as the client sent it.
    fn target(&self) -> &str {
        self.target_as_sent().path_and_query().map_or("/", PathAndQuery::as_str)
    }

    /// What holds for its path.
    fn rule(&self) -> Option<PathTreatment> {
        self.upstream.cache.as_ref()?.policy.rule(self.target())
    }

    /// Shows what the client asked to who decides.
    fn with_asked<T>(&self, caching: &Caching, decide: impl FnOnce(&Asked<'_>) -> T) -> T {
        let Caching { marks, owner, has_body, directives, .. } = *caching;
        let (method, target, headers) = (self.head.method(), self.target(), self.head.headers());
        let host = whose::in_lower_case(self.base().map_or(b"", HeaderValue::as_bytes));
        let rule = self.rule();
        decide(&Asked { method, target, host: &host, headers, marks, owner, has_body, directives, rule })
    }

    /// Whether it may have changed something at the upstream, which nobody has told.
    fn may_have_written(&self, caching: &Caching) -> bool {
        (caching.is_out || caching.is_in_doubt) && invalidates(self.head.method(), StatusCode::OK)
    }

    /// Looks at what is stored now, once more.
    async fn look_at(&mut self, mut entry: Option<Arc<Entry>>) -> Option<Answer> {
        let cache = self.upstream.cache.as_ref()?;
        loop {
            let caching = self.caching.as_ref()?;
            let now = self.upstream.clock.wall();
            let looked = self.with_asked(caching, |asked| {
                with_stored(entry.as_deref(), |stored| lookup(&cache.policy, asked, stored, now))
            });
            let (reuse, found) = match (looked, entry) {
                (Lookup::Reuse(reuse), Some(found)) if !self.upstream.observe => (reuse, found),
                (looked, entry) => {
                    self.looked(looked, entry);
                    return None;
                }
            };
            if let Some(conditions) = &reuse.revalidate {
                let (key, epoch) = (caching.key.clone(), cache.store.epoch());
                let caching = self.with_asked(caching, |asked| Box::new(Caching::new(key, asked, epoch, now)));
                self.ask_in_background(caching, &found, reuse.index, conditions.clone());
            }
            let how = match reuse.stale {
                _ if caching.has_followed => Cached::Coalesced,
                Some(_) => Cached::Stale,
                None => Cached::Hit,
            };
            let key = caching.key.clone();
            if let Some(answer) = self.reuse(&key, &found, &reuse, how).await {
                return Some(answer);
            }
            // Its body is lost.
            entry = None;
        }
    }

    /// Notes how the request goes to the upstream. Where that is only observed it goes as it came.
    fn looked(&mut self, looked: Lookup, entry: Option<Arc<Entry>>) {
        let observe = self.upstream.observe;
        if observe && matches!(looked, Lookup::Reuse(_)) {
            self.story.observed = Some(Box::new(Observed::from_store()));
        }
        let (Some(cache), Some(caching)) = (&self.upstream.cache, &mut self.caching) else { return };
        let memory_max = cache.store.memory_body_max();
        let is_joined = |ask: &Ask| entry.as_ref().is_some_and(|entry| is_joined(entry, ask, memory_max));
        caching.sent = match looked {
            Lookup::Send(send) if observe => Some(Send { ask: None, fallback: None, is_sharable: false, ..send }),
            Lookup::Send(send) => Some(Send { ask: send.ask.filter(|ask| is_joined(ask)), ..send }),
            Lookup::Unsatisfied if !observe => None,
            Lookup::Unsatisfied | Lookup::Reuse(_) => Some(Send {
                forward: Forward::Bypass,
                ask: None,
                fallback: None,
                is_sharable: false,
                may_store: !caching.directives.no_store,
            }),
        };
        caching.entry = entry;
    }

    /// Tells the client of an answer of the upstream that the cache does not look at why it had to be asked for.
    pub(super) fn tell_of_miss(&mut self, headers: &mut HeaderMap) {
        let Some(caching) = &self.caching else { return };
        let forward = caching.forward();
        self.story.cache = Some(Cached::of(forward));
        headers.append(CACHE_STATUS, CacheStatus { forward: Some(forward), ..CacheStatus::default() }.value());
    }

    /// Whether the cache has a say in the answer that is here: not where it is another protocol.
    pub(super) fn concerns_cache(&self) -> bool {
        let switches = |response: &Response<()>| response.status() == StatusCode::SWITCHING_PROTOCOLS;
        self.caching.is_some() && !self.response.as_ref().is_some_and(switches)
    }

    /// Notes that an attempt is about to be sent.
    pub(super) fn note_sending(&mut self) {
        let (Some(cache), Some(caching)) = (&self.upstream.cache, &mut self.caching) else { return };
        (caching.requested, caching.epoch) = (self.upstream.clock.wall(), cache.store.epoch());
        caching.leader.iter().for_each(Leader::sends);
        caching.is_in_doubt |= caching.is_out;
        caching.is_out = true;
    }

    /// Notes that the upstream has answered the attempt, or has not seen it.
    pub(super) fn note_sent(&mut self) {
        if let Some(caching) = &mut self.caching {
            caching.is_out = false;
        }
    }

    /// Has the head ask about what is stored, in place of what the client asks about what it has.
    pub(super) fn ask_about_stored(&mut self) {
        let Some((caching, ask)) = self.caching.as_ref().and_then(|caching| Some((caching, caching.ask()?))) else {
            return;
        };
        let headers = self.head.headers_mut();
        ask.conditions.apply(headers);
        let Some(Span { first, last }) = ask.missing else { return };
        let part = caching.entry.as_ref().and_then(|entry| entry.variants.get(ask.index));
        // Where there is no such tag the core does not ask for a rest.
        let Some(tag) = part.and_then(|part| part.stored.headers.get(ETAG)) else { return };
        let range = HeaderValue::try_from(format!("bytes={first}-{last}")).expect("digits are text");
        headers.insert(RANGE, range);
        headers.insert(IF_RANGE, tag.clone());
    }

    /// Has the head ask what the client asked again.
    fn ask_as_client(&mut self) {
        if let Some(sent) = self.caching.as_mut().and_then(|caching| caching.sent.as_mut()) {
            sent.ask = None;
        }
        self.dress();
    }
}

/// Whether what is to be sent of an answer need not be read from a file first.
fn is_at_hand(entry: &Entry, reuse: &Reuse) -> bool {
    let has_no_body = matches!(reuse.shape, Shape::Head | Shape::NotModified | Shape::Unsatisfiable);
    has_no_body || matches!(entry.variants[reuse.index].body, store::Body::Memory(_))
}
