//! What other instances have stored, and who waits for a request of theirs.
//!
//! Both only where nothing here will do, and where something there might: it costs a round trip to a server. One request in each
//! instance asks, for all that are equal, and goes to the upstream if no other instance has sent one. Who waits for that does
//! so once, and no longer than it may take; then it goes by itself.

use std::time::Duration;

use http::HeaderValue;
use sopan_core::cache::status::Forward;
use sopan_core::cache::{Lookup, Marks, lookup};
use sopan_core::headers::passes;
use sopan_core::time::Instant;

use super::{Caching, whose, with_stored};
use crate::event;
use crate::exchange::{Answer, Exchange};
use crate::store::{Awaited, Course, InCommon, Variant};

/// Nobody leads for longer than this, so that one that has died holds nobody up for longer.
const LEAD_MAX: Duration = Duration::from_secs(10);

impl Exchange<'_> {
    /// Whether another instance may have what is not at hand.
    pub(super) fn may_be_in_common(&self, caching: &Caching) -> bool {
        let is_in_step = self.upstream.cache.as_ref().is_some_and(|cache| cache.store.may_be_in_common());
        if self.upstream.observe || !is_in_step {
            return false;
        }
        // One that wants an answer from store or none.
        let Some(sent) = &caching.sent else { return true };
        match sent.forward {
            Forward::UriMiss | Forward::VaryMiss | Forward::Partial => true,
            // A younger one, if there can be one that is used unasked.
            Forward::Stale => {
                let index = sent.ask.as_ref().map(|ask| ask.index).or(sent.fallback);
                let at_hand =
                    index.and_then(|index| caching.entry.as_ref()?.variants.get(index)).map(|variant| &**variant);
                at_hand.is_none_or(|Variant { stored, .. }| {
                    stored.is_used_unasked() && stored.ttl(self.upstream.clock.wall()) < 0
                })
            }
            Forward::Request | Forward::Bypass | Forward::Method => false,
        }
    }

    /// Answers with what another instance has stored, or stores when a request of its own is answered. Who may lead waits for
    /// that, and if there is none it leads from then on.
    pub(super) async fn look_in_common(&mut self, may_lead: bool) -> Option<Answer> {
        if !self.caching.as_ref().is_some_and(|caching| self.may_be_in_common(caching)) {
            return None;
        }
        let leads_for = self.leads_for().filter(|_| may_lead);
        let mut there = self.ask_in_common(leads_for).await;
        if let InCommon::Found(entry) = there {
            if let Some(answer) = self.look_at(Some(entry)).await {
                return Some(answer);
            }
            there = self.lead_in_common(leads_for?).await;
        }
        if let InCommon::Awaited(awaited) = there {
            if let Some(answer) = self.wait_in_common(awaited).await {
                return Some(answer);
            }
            there = self.ask_in_common(leads_for).await;
        }
        match there {
            InCommon::Found(entry) => return self.look_at(Some(entry)).await,
            InCommon::Nothing(lead) => self.caching.as_mut()?.lead = lead.map(Box::new),
            // It has waited once already.
            InCommon::Awaited(_) => {}
        }
        None
    }

    /// Whether a stored answer that is asked about in the background need not be, since another instance has done that or does it.
    pub(super) async fn is_done_in_common(&mut self) -> bool {
        let (Some(cache), Some(caching)) = (&self.upstream.cache, &self.caching) else { return false };
        if !self.may_be_in_common(caching) {
            return false;
        }
        match self.ask_in_common(self.leads_for()).await {
            InCommon::Found(entry) => {
                let Some(caching) = &self.caching else { return false };
                let now = self.upstream.clock.wall();
                let looked = self.with_asked(caching, |asked| {
                    with_stored(Some(&entry), |stored| lookup(&cache.policy, asked, stored, now))
                });
                matches!(looked, Lookup::Reuse(reuse) if reuse.stale.is_none())
            }
            InCommon::Nothing(lead) => {
                if let Some(caching) = &mut self.caching {
                    caching.lead = lead.map(Box::new);
                }
                false
            }
            InCommon::Awaited(_) => true,
        }
    }

    /// How long others wait for its answer at most, if they do.
    fn leads_for(&self) -> Option<Duration> {
        let caching = self.caching.as_ref()?;
        // One that has come round must not wait for the answer to itself.
        let has_come_round = caching.marks.has(Marks::VIA) && passes(self.head.headers()) > 0;
        let left = self.left().unwrap_or(LEAD_MAX);
        (!has_come_round).then(|| self.upstream.retry.attempt_timeout.min(LEAD_MAX).min(left))
    }

    async fn ask_in_common(&self, leads_for: Option<Duration>) -> InCommon {
        let (Some(cache), Some(caching)) = (&self.upstream.cache, &self.caching) else {
            return InCommon::Nothing(None);
        };
        let host = whose::in_lower_case(self.base().map_or(b"", HeaderValue::as_bytes));
        let course = caching.course(&host);
        cache.store.ask_in_common(&course, caching.entry.as_ref(), self.rule(), leads_for).await
    }

    async fn lead_in_common(&self, leads_for: Duration) -> InCommon {
        let (Some(cache), Some(caching)) = (&self.upstream.cache, &self.caching) else {
            return InCommon::Nothing(None);
        };
        let host = whose::in_lower_case(self.base().map_or(b"", HeaderValue::as_bytes));
        cache.store.lead_in_common(&caching.course(&host), leads_for).await
    }

    /// Waits for a request of another instance, or until what is stored here is better given than waited with.
    async fn wait_in_common(&mut self, awaited: Awaited) -> Option<Answer> {
        self.caching.as_mut()?.has_followed = true;
        self.story.waits(event::Awaited::Equal, self.now());
        // What comes of it may be of no use, and then there has to be time for a request of its own.
        let wait = awaited.wait(self.left().map_or(LEAD_MAX, |left| left / 2));
        let waited = match self.standby(Instant::NEVER) {
            Some(standby) => standby.over(self, wait).await,
            None => {
                wait.await;
                Ok(())
            }
        };
        self.waited(true);
        match waited {
            Ok(()) => None,
            Err(failure) => self.stale_instead(failure).await,
        }
    }
}

impl Caching {
    fn course<'a>(&'a self, host: &'a [u8]) -> Course<'a> {
        let is_last_resort = self.sent.is_none();
        Course { key: &self.key, host, owner: self.owner, told_apart: self.told_apart(), is_last_resort }
    }
}
