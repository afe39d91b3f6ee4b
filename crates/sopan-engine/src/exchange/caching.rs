//! The two steps in which an exchange meets the cache: before its first wait, and behind its last answer.
//!
//! What is decided, whether an answer in store will do, how the upstream is asked, what becomes of its answer, is decided
//! in `sopan_core::cache`; here it is done. A fresh hit is answered on the spot, without a task, a wait or a token
//! ([`Exchange::answer_from_store`]). All else has a [`Caching`] from then on. The head is changed on its way to the upstream,
//! and made again what the client sent when there is an answer to be held against it, by `own`. How an answer is made of what is stored is in `reuse`, what becomes
//! of the upstream's in `settle`, when it is given rather than waited for in `standby`, asking in the background in `background`, what an unsafe request makes untrue in `untrue`.

pub(crate) mod background;
mod own;
mod reuse;
mod settle;
mod standby;
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
    After, Ask, Asked, Failure, Lookup, Marks, NotStored, Owner, Received, Reuse, Send, Shape, Stored, after_failure,
    after_response, lookup, reuse_just_come,
};
use sopan_core::policy::{CachePolicy, PathTreatment};
use sopan_core::time::Instant;

use self::reuse::CACHE_STATUS;
use super::turn::Stop;
use super::{Answer, Exchange, GivenUp};
use crate::body::Body;
use crate::coalesce::{Joined, Leader, Led};
use crate::event::{Cached, Observed};
use crate::exchange::flow::Reader;
use crate::refusal::Refusal;
use crate::store::{self, Entry, Epoch, Key, Sought, Variant};
use own::Own;
pub(super) use settle::Unsettled;
pub(super) use standby::Standby;

/// How often a request looks anew because another has changed what is stored, before it goes on its own.
const LOOKS_MAX: usize = 4;

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
    /// Others wait for its answer.
    leader: Option<Leader<Key, Seat>>,
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

/// An answer that is coming, with its body from the beginning, for a request that asked the same.
pub(crate) enum Seat {
    /// It is coming.
    Coming {
        stored: Arc<Stored>,
        reader: Reader,
        /// Whether that was asked for after the request came, so that it is for it also where it is to be asked for each time.
        is_asked_for: bool,
    },
    /// It is in store, and the upstream was asked about it after the request came.
    Confirmed(Arc<Variant>),
}

impl Seat {
    fn stored(&self) -> &Stored {
        match self {
            Self::Coming { stored, .. } => stored,
            Self::Confirmed(variant) => &variant.stored,
        }
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

    /// Whether something is to be looked at or waited for before the request goes to the upstream.
    pub(super) fn has_to_wait(&self) -> bool {
        let (Some(cache), Some(caching)) = (&self.upstream.cache, &self.caching) else { return false };
        let Some(sent) = &caching.sent else { return true };
        let is_alone = || {
            self.with_asked(caching, |asked| cache.flights.is_alone(&caching.key, asked, caching.told_apart(), sent))
        };
        let goes_by_itself = self.upstream.observe || !sent.is_sharable || is_alone();
        caching.leader.is_none() && (cache.store.may_be_on_disk(&caching.key) || !goes_by_itself)
    }

    /// What has to be done before the request goes to the upstream: what is on file is looked at, and an equal request that is
    /// under way is waited for.
    pub(super) async fn before_sending(&mut self) -> Option<Answer> {
        let upstream = self.upstream;
        let (cache, caching) = (upstream.cache.as_ref()?, self.caching.as_ref()?);
        let entry = cache.store.load(&caching.key, &cache.policy, self.rule()).await;
        let is_known = match (&caching.entry, &entry) {
            (Some(known), Some(entry)) => Arc::ptr_eq(known, entry),
            (None, None) => caching.sent.is_some(),
            _ => false,
        };
        if !is_known && let Some(answer) = self.look_at(entry).await {
            return Some(answer);
        }
        if self.caching.as_ref().is_some_and(|caching| caching.sent.is_none()) {
            return Some(self.refuse(Refusal::OnlyIfCached));
        }
        for _ in 0..LOOKS_MAX {
            let caching = self.caching.as_ref()?;
            let sent = caching.sent.as_ref().filter(|sent| sent.is_sharable && !upstream.observe)?;
            let told_apart = caching.told_apart();
            let joined =
                self.with_asked(caching, |asked| cache.flights.join(caching.key.clone(), asked, told_apart, sent));
            let caching = self.caching.as_mut()?;
            let led = match joined {
                Joined::Lead(leader) => Led::Lead(leader),
                Joined::Alone => Led::Alone,
                Joined::Follow(follower) => {
                    caching.has_followed = true;
                    self.story.waits(upstream.clock.now());
                    let wait = follower.wait(self.deadline);
                    let led = match self.standby(Instant::NEVER) {
                        Some(standby) => standby.over(self, wait).await,
                        None => Ok(wait.await),
                    };
                    self.waited(true);
                    match led {
                        Ok(led) => led,
                        Err(failure) => match self.stale_instead(failure).await {
                            Some(answer) => return Some(answer),
                            None => continue,
                        },
                    }
                }
            };
            match led {
                Led::Shared(seat) => {
                    let is_told_apart = self.is_told_apart(seat.stored());
                    if let Some(answer) = self.share(seat).await {
                        return Some(answer);
                    }
                    if !is_told_apart {
                        return None;
                    }
                }
                Led::Alone => return None,
                Led::TooLate => return Some(self.give_up(GivenUp::Stopped(Stop::TotalTimeout { sent: false })).await),
                Led::LookAgain => {
                    if let Some(answer) = self.look_again().await {
                        return Some(answer);
                    }
                }
                Led::Lead(leader) => {
                    // The one before may have stored its answer after this one has looked.
                    if let Some(answer) = self.look_again().await {
                        leader.stored();
                        return Some(answer);
                    }
                    self.caching.as_mut()?.leader = Some(leader);
                    return None;
                }
            }
        }
        None
    }

    /// Answers with what another request has brought, if it is for this one too.
    async fn share(&mut self, seat: Seat) -> Option<Answer> {
        let (cache, caching) = (self.upstream.cache.as_ref()?, self.caching.as_ref()?);
        let (stored, now) = (seat.stored(), self.upstream.clock.wall());
        let reuse = self.with_asked(caching, |asked| match (&seat, lookup(&cache.policy, asked, &[stored], now)) {
            (_, Lookup::Reuse(reuse)) => Some(reuse),
            (Seat::Coming { is_asked_for: false, .. }, _) => None,
            (Seat::Coming { .. } | Seat::Confirmed(_), _) => reuse_just_come(asked, stored, now),
        })?;
        let (ttl, forward) = (Some(reuse.ttl), Some(caching.forward()));
        let told = CacheStatus { forward, collapsed: true, ttl, ..CacheStatus::default() };
        match seat {
            Seat::Coming { stored, reader, .. } => self.answer_as_it_comes(&stored, reader, &reuse, &told),
            Seat::Confirmed(variant) => {
                let key = caching.key.clone();
                self.answer_from(&key, &variant, &reuse, Cached::Coalesced, &told).await
            }
        }
    }

    /// Whether this answer was chosen by something in which the request differs, as was not known before: those that have
    /// the same there can wait for each other.
    fn is_told_apart(&mut self, stored: &Stored) -> bool {
        let headers = self.head.headers();
        let Some(caching) = self.caching.as_mut().filter(|_| !stored.selecting.is_for(headers)) else { return false };
        let told_apart = Selecting::of(&stored.headers, headers);
        let is_new = !told_apart.is_beyond_fields && caching.told_apart() != Some(&told_apart);
        caching.told_apart = Some(Box::new(told_apart));
        is_new
    }

    async fn look_again(&mut self) -> Option<Answer> {
        let (cache, caching) = (self.upstream.cache.as_ref()?, self.caching.as_ref()?);
        let entry = cache.store.load(&caching.key, &cache.policy, self.rule()).await;
        self.look_at(entry).await
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

    /// There is no answer from the upstream: the one in store, though it is stale, if that is allowed.
    pub(super) async fn stale_instead(&mut self, failure: Failure) -> Option<Answer> {
        let cache = self.upstream.cache.as_ref()?;
        let leader = self.caching.as_mut()?.leader.take();
        self.undress();
        let (now, caching) = (self.upstream.clock.wall(), self.caching.as_ref()?);
        let decide = |asked: &Asked<'_>, stored: &[&Stored]| {
            after_failure(&cache.policy, asked, caching.sent.as_ref()?, stored, failure, now)
        };
        let entry = caching.entry.as_deref();
        let reuse = self.with_asked(caching, |asked| with_stored(entry, |stored| decide(asked, stored)));
        if let Some(leader) = leader {
            leader.failed();
        }
        let (key, entry) = (caching.key.clone(), caching.entry.clone());
        let (Some(reuse), Some(entry)) = (reuse, entry) else { return self.has_no_fallback() };
        let told = CacheStatus {
            forward: Some(caching.forward()),
            ttl: Some(reuse.ttl),
            detail: reuse.stale,
            ..CacheStatus::default()
        };
        match self.answer_from(&key, &entry.variants[reuse.index], &reuse, Cached::Stale, &told).await {
            Some(answer) => Some(answer),
            None => self.has_no_fallback(),
        }
    }

    /// There is no answer in store for the failures of this request, or not any more.
    fn has_no_fallback<T>(&mut self) -> Option<T> {
        self.caching.as_mut()?.sent.as_mut()?.fallback = None;
        None
    }
}

/// Whether the rest of a part, where that is what is asked for, can be joined to it: only in memory, where both have to fit. To
/// have all of it anew costs no more tokens.
fn is_joined(entry: &Entry, ask: &Ask, memory_max: u64) -> bool {
    let Some(missing) = ask.missing else { return true };
    let held = entry.variants.get(ask.index).map(|part| &part.body);
    matches!(held, Some(store::Body::Memory(held)) if held.len() as u64 + missing.length() <= memory_max)
}

/// Whether what is to be sent of an answer need not be read from a file first.
fn is_at_hand(entry: &Entry, reuse: &Reuse) -> bool {
    let has_no_body = matches!(reuse.shape, Shape::Head | Shape::NotModified | Shape::Unsatisfiable);
    has_no_body || matches!(entry.variants[reuse.index].body, store::Body::Memory(_))
}
