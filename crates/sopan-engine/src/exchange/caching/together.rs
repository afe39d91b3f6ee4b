//! Who waits for the answer to an equal request, and what it gets of that.
//!
//! Which requests are equal, and who leads, is in [`coalesce`](crate::coalesce). Who follows looks itself whether what the
//! leader has brought is for it too, and goes on by itself where it is not.

use std::sync::Arc;

use sopan_core::cache::status::CacheStatus;
use sopan_core::cache::vary::Selecting;
use sopan_core::cache::{Lookup, Stored, lookup, reuse_just_come};
use sopan_core::time::Instant;

use crate::coalesce::{Joined, Led};
use crate::event::{Awaited, Cached};
use crate::exchange::flow::Reader;
use crate::exchange::turn::Stop;
use crate::exchange::{Answer, Exchange, GivenUp};
use crate::refusal::Refusal;
use crate::store::Variant;

/// How often a request looks anew because another has changed what is stored, before it goes on its own.
const LOOKS_MAX: usize = 4;

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

impl Exchange<'_> {
    /// Whether something is to be looked at or waited for before the request goes to the upstream.
    pub(in crate::exchange) fn has_to_wait(&self) -> bool {
        let (Some(cache), Some(caching)) = (&self.upstream.cache, &self.caching) else { return false };
        let Some(sent) = &caching.sent else { return true };
        let is_alone = || {
            self.with_asked(caching, |asked| cache.flights.is_alone(&caching.key, asked, caching.told_apart(), sent))
        };
        let goes_by_itself = self.upstream.observe || !sent.is_sharable || is_alone();
        let is_elsewhere =
            || cache.store.may_be_on_disk(&caching.key) || !sent.is_sharable && self.may_be_in_common(caching);
        caching.leader.is_none() && (!goes_by_itself || is_elsewhere())
    }

    /// What has to be done before the request goes to the upstream: what is on file is looked at, and an equal request that is
    /// under way is waited for.
    pub(in crate::exchange) async fn before_sending(&mut self) -> Option<Answer> {
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
            if let Some(answer) = self.look_in_common(false).await {
                return Some(answer);
            }
            return Some(self.refuse(Refusal::OnlyIfCached));
        }
        for _ in 0..LOOKS_MAX {
            let caching = self.caching.as_ref()?;
            let Some(sent) = caching.sent.as_ref().filter(|sent| sent.is_sharable && !upstream.observe) else {
                return self.look_in_common(false).await;
            };
            let told_apart = caching.told_apart();
            let joined =
                self.with_asked(caching, |asked| cache.flights.join(caching.key.clone(), asked, told_apart, sent));
            let caching = self.caching.as_mut()?;
            let led = match joined {
                Joined::Lead(leader) => Led::Lead(leader),
                Joined::Alone => Led::Alone,
                Joined::Follow(follower) => {
                    caching.has_followed = true;
                    self.story.waits(Awaited::Equal, upstream.clock.now());
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
                    if let Some(answer) = self.look_in_common(true).await {
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
}
