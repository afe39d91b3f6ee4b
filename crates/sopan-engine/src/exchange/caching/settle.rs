//! What becomes of the upstream's answer: of the store, of those who wait for it too, and of the client.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{CONTENT_LOCATION, VARY};
use http::{HeaderMap, HeaderName, Method, Response, StatusCode};
use sopan_core::cache::invalidate::invalidates;
use sopan_core::cache::status::{CacheStatus, Detail};
use sopan_core::cache::{After, Lookup, NotStored, Received, Stored, Times, lookup, reuse_just_come};
use sopan_core::retry::Verdict;

use super::reuse::CACHE_STATUS;
use super::{Caching, Seat};
use crate::coalesce::{Landing, Leader};
use crate::event::Cached;
use crate::exchange::answer::{AnswerBody, Passing, Sharing};
use crate::exchange::feed::Feed;
use crate::exchange::flow::{Flow, Keep, Whole};
use crate::exchange::story::Told;
use crate::exchange::{Answer, Exchange};
use crate::store::{Body, Key, Variant};
use crate::upstream::Caches;

/// An answer of the upstream of which it cannot be said at once what becomes of it: something has to be waited for.
pub(in crate::exchange) struct Unsettled {
    passed: Passed,
    caching: Box<Caching>,
    /// What follows for what is stored; none where it has made something untrue first.
    after: Option<After>,
}

/// An answer of the upstream that goes to the client.
struct Passed {
    response: Response<()>,
    named_by_connection: Vec<HeaderName>,
    /// What was read of its body already.
    prefix: Option<Bytes>,
    verdict: Verdict,
}

impl Exchange<'_> {
    /// The upstream's last answer is here. Answers what the client gets, if nothing has to be waited for before that is known.
    pub(in crate::exchange) fn settle_at_once(
        &mut self,
        prefix: Option<Bytes>,
        verdict: Verdict,
    ) -> Result<Answer, Box<Unsettled>> {
        // Without either, nothing that is changed on the way is looked at.
        let is_known = self.caching.as_ref().is_some_and(|caching| caching.entry.is_some());
        if is_known || self.response.as_ref().is_some_and(|response| response.headers().contains_key(VARY)) {
            self.undress();
        }
        let (Some(caching), Some(mut response)) = (self.caching.take(), self.response.take()) else {
            return Ok(self.fail(verdict));
        };
        let named_by_connection = self.take_over(&mut response);
        // An attempt that was lost may have done what this answer says there is nothing to do for: a 404 after a DELETE.
        let makes_untrue = invalidates(self.head.method(), response.status()) || self.may_have_written(&caching);
        let passed = Passed { response, named_by_connection, prefix, verdict };
        match makes_untrue {
            true => Err(Box::new(Unsettled { passed, caching, after: None })),
            false => self.settle_simply(passed, caching),
        }
    }

    /// The same of an answer that has made untrue what it does.
    fn settle_simply(&mut self, passed: Passed, mut caching: Box<Caching>) -> Result<Answer, Box<Unsettled>> {
        let upstream = self.upstream;
        let Some(cache) = &upstream.cache else { return Ok(self.fail(passed.verdict)) };
        let (status, headers) = (passed.response.status(), passed.response.headers());
        let times = Times { requested: caching.requested, received: upstream.clock.wall() };
        let named = self.with_names_of_clients(headers);
        let received = Received { status, headers: named.as_ref().unwrap_or(headers), times };
        let after = self.with_asked(&caching, |asked| caching.after(asked, &cache.policy, received));
        let after = match after {
            After::PassOn(why) if is_complaint(status) => {
                self.rather(&caching, times.received).map_or(After::PassOn(why), After::Stale)
            }
            after => after,
        };
        Ok(match after {
            After::PassOn(why) => self.pass_by(passed, &mut caching, Some(why)),
            After::Forget(indices) => {
                cache.store.forget(&caching.key, &caching.ids(indices));
                self.pass_by(passed, &mut caching, None)
            }
            After::Store { stored, replaces } => {
                let replaces = caching.ids(replaces);
                self.pass_and_store(passed, caching, *stored, replaces)
            }
            after => return Err(Box::new(Unsettled { passed, caching, after: Some(after) })),
        })
    }

    /// What the client gets of an answer for which something has to be waited; none if the request has to be sent once more.
    pub(in crate::exchange) async fn settle_with_cache(&mut self, unsettled: Unsettled) -> Option<Answer> {
        let Unsettled { passed, mut caching, after } = unsettled;
        let Some(after) = after else {
            self.make_untrue(&mut caching, passed.response.headers()).await;
            return match self.settle_simply(passed, caching) {
                Ok(answer) => Some(answer),
                Err(unsettled) => Box::pin(self.settle_with_cache(*unsettled)).await,
            };
        };
        let upstream = self.upstream;
        let Some(cache) = &upstream.cache else { return Some(self.fail(passed.verdict)) };
        let status = passed.response.status();
        let entry = caching.entry.clone().unwrap_or_default();
        Some(match after {
            // What becomes of these is known at once.
            After::PassOn(_) | After::Forget(_) | After::Store { .. } => self.pass_by(passed, &mut caching, None),
            After::Freshen { index, stored, reuse } => {
                let variant = &entry.variants[index];
                let is_stored = if stored.is_given_once() {
                    cache.store.forget(&caching.key, &[variant.id]);
                    false
                } else {
                    cache.store.freshen(&caching.key, variant.id, Stored::clone(&stored), caching.epoch)
                };
                let renewed = variant.with_head(*stored);
                self.share_confirmed(&mut caching, &renewed);
                let Some(reuse) = reuse else { return Some(self.pass_by(passed, &mut caching, None)) };
                self.put_back();
                let told = CacheStatus {
                    forward: Some(caching.forward()),
                    forward_status: Some(status),
                    stored: is_stored,
                    ttl: Some(reuse.ttl),
                    ..CacheStatus::default()
                };
                match self.answer_from(&caching.key, &renewed, &reuse, Cached::Revalidated, &told).await {
                    Some(answer) => answer,
                    None => return self.ask_again(caching),
                }
            }
            After::Join { index, stored, reuse } => {
                let part = Arc::clone(&entry.variants[index]);
                match self.join(&mut caching, &part, *stored, &reuse, passed.response.headers()).await {
                    Some(answer) => answer,
                    None => return self.ask_again(caching),
                }
            }
            After::AskAgain { forget } => {
                cache.store.forget(&caching.key, &caching.ids(forget));
                return self.ask_again(caching);
            }
            After::Stale(reuse) => {
                self.let_go_of_rest();
                if let Some(leader) = caching.leader.take() {
                    leader.failed();
                }
                let told = CacheStatus {
                    forward: Some(caching.forward()),
                    forward_status: Some(status),
                    ttl: Some(reuse.ttl),
                    detail: reuse.stale,
                    ..CacheStatus::default()
                };
                let stale = &entry.variants[reuse.index];
                match self.answer_from(&caching.key, stale, &reuse, Cached::Stale, &told).await {
                    Some(answer) => answer,
                    None => return self.ask_again(caching),
                }
            }
        })
    }

    /// The fields of an answer that is stored only if it is what a GET would get, as its `Content-Location` says: held against
    /// what the client asked for.
    fn with_names_of_clients(&self, headers: &HeaderMap) -> Option<HeaderMap> {
        let is_named = *self.head.method() == Method::POST && headers.contains_key(CONTENT_LOCATION);
        is_named.then(|| {
            let mut named = headers.clone();
            self.upstream.as_clients_see(&mut named, self.base().unwrap_or(&super::untrue::NOBODY));
            named
        })
    }

    /// Passes an answer on that is not stored.
    fn pass_by(&mut self, passed: Passed, caching: &mut Caching, why: Option<NotStored>) -> Answer {
        let status = passed.response.status();
        if let Some(leader) = caching.leader.take() {
            // A failure says nothing of the answers that will come.
            if is_complaint(status) {
                leader.failed();
            } else {
                leader.alone();
            }
        }
        let told = CacheStatus {
            forward: Some(caching.forward()),
            detail: why.map(Detail::NotStored),
            ..CacheStatus::default()
        };
        self.pass(passed, &told, |feed, told| AnswerBody::Passing(Box::new(Passing::new(feed, told))))
    }

    /// Passes an answer on while it is stored, to all who wait for it.
    fn pass_and_store(
        &mut self,
        passed: Passed,
        mut caching: Box<Caching>,
        stored: Stored,
        replaces: Vec<u64>,
    ) -> Answer {
        let upstream = self.upstream;
        let Some(cache) = &upstream.cache else { return self.fail(passed.verdict) };
        let now = upstream.clock.wall();
        let leader = caching.leader.take();
        let others = self.others(&caching, &stored, now);
        let is_too_large = stored.extent.bytes().is_some_and(|bytes| bytes > cache.store.body_max());
        let told = CacheStatus {
            forward: Some(caching.forward()),
            stored: !is_too_large,
            ttl: (!is_too_large).then(|| stored.ttl(now)),
            detail: is_too_large.then_some(Detail::NotStored(NotStored::TooLarge)),
            ..CacheStatus::default()
        };
        let stored = Arc::new(stored);
        let joined = leader.as_ref().filter(|_| others == Others::All);
        let keep = caching.keep(cache, &stored, replaces, joined.map(Leader::landing));
        self.pass(passed, &told, |feed, told| {
            let (flow, reader) = Flow::new(feed, Some(keep));
            let is_asked_for = others == Others::ThoseBefore;
            let seat = move || Some(Seat::Coming { stored: Arc::clone(&stored), reader: flow.reader()?, is_asked_for });
            match (leader, others) {
                (None, _) => {}
                (Some(leader), Others::All) => leader.shared(seat),
                (Some(leader), Others::ThoseBefore) => leader.answers_those_before(seat),
                (Some(leader), Others::None) => leader.alone(),
            }
            AnswerBody::Sharing(Box::new(Sharing::new(reader, told)))
        })
    }

    /// Gives those who wait for it what the upstream has said is still good.
    fn share_confirmed(&self, caching: &mut Caching, renewed: &Arc<Variant>) {
        let Some(leader) = caching.leader.take() else { return };
        match self.others(caching, &renewed.stored, renewed.stored.times.received) {
            Others::All => leader.stored(),
            Others::ThoseBefore => leader.answers_those_before(|| Some(Seat::Confirmed(Arc::clone(renewed)))),
            Others::None => leader.alone(),
        }
    }

    /// Who of those who ask the same may have it too.
    fn others(&self, caching: &Caching, stored: &Stored, now: SystemTime) -> Others {
        let Some(cache) = &self.upstream.cache else { return Others::None };
        self.with_asked(caching, |asked| {
            if matches!(lookup(&cache.policy, asked, &[stored], now), Lookup::Reuse(_)) {
                Others::All
            } else if reuse_just_come(asked, stored, now).is_some() {
                Others::ThoseBefore
            } else {
                Others::None
            }
        })
    }

    fn pass(&mut self, passed: Passed, cache: &CacheStatus, body: impl FnOnce(Feed, Told) -> AnswerBody) -> Answer {
        let Passed { mut response, named_by_connection, prefix, verdict } = passed;
        let (Some(conn), Some(turn)) = (self.conn.take(), self.turn.take()) else { return self.fail(verdict) };
        (self.story.cache, self.story.cache_detail) = (cache.forward.map(Cached::of), cache.detail);
        let end = self.end(verdict);
        self.log_end(&end);
        let headers = response.headers_mut();
        headers.append(CACHE_STATUS, cache.value());
        self.lead_back(headers);
        let feed = Feed::new(prefix, conn, turn, Arc::clone(self.upstream), named_by_connection);
        self.begin(response, end, |told| body(feed, told))
    }

    /// The answer to what the upstream was asked about is of no use: the client's own question follows.
    fn ask_again(&mut self, caching: Box<Caching>) -> Option<Answer> {
        if self.conn.as_ref().is_some_and(|conn| conn.is_end_of_body()) {
            self.put_back();
        }
        self.let_go();
        self.caching = Some(caching);
        self.ask_as_client();
        None
    }
}

/// Who of those who ask the same may have an answer too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    /// It may be used unasked.
    All,
    /// It is to be asked about each time, and was, for all who came before that.
    ThoseBefore,
    None,
}

impl Caching {
    /// By what the stored answers at these places are told from all others.
    fn ids(&self, indices: impl IntoIterator<Item = usize>) -> Vec<u64> {
        let stored = self.entry.as_deref().map_or(&[][..], |entry| &entry.variants);
        indices.into_iter().filter_map(|index| stored.get(index)).map(|variant| variant.id).collect()
    }

    /// How a body that comes is kept, and put into the store when it is whole.
    fn keep(
        &mut self,
        cache: &Caches,
        stored: &Arc<Stored>,
        replaces: Vec<u64>,
        landing: Option<Landing<Key, Seat>>,
    ) -> Keep {
        let (store, key, stored, epoch) = (Arc::clone(&cache.store), self.key.clone(), Arc::clone(stored), self.epoch);
        let lead = self.lead.take();
        let spill = store.spill(&key, Stored::clone(&stored), &replaces, epoch);
        let done = move |whole: Whole| {
            let body = match whole {
                Whole::Memory(body) => body,
                Whole::Spilled(spill) => return spill.finish(),
            };
            let mut stored = Stored::clone(&stored);
            if !stored.has_come_with(body.len() as u64) {
                return;
            }
            // One that is out of date is refused by its epoch.
            store.put(&key, stored, Body::Memory(body), &replaces, epoch);
            drop((landing, lead));
        };
        Keep {
            entry_bytes_max: cache.policy.entry_bytes_max,
            memory_bytes_max: cache.store.memory_body_max(),
            budget: Arc::clone(cache.store.filling()),
            spill: spill.map(|spill| Box::new(spill) as _),
            done: Box::new(done),
        }
    }
}

/// Whether the upstream says that it is ill, or that it was asked too often.
fn is_complaint(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}
