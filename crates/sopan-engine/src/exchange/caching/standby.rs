//! Is a request that waits better answered with what is stored?
//!
//! Who waits is not to be worse off than who comes now. So one that has an answer to fall back on waits for nothing for which a
//! newcomer would not: as soon as the breaker lets nobody through, or the upstream has asked for a pause that outlasts what a
//! newcomer may wait, that answer is given in time, if it may be. And one whose attempt has failed already, and is to be tried
//! again, does not wait until what may take the place of the failure may not do so any more.
//!
//! Left to others: whether a stored answer may be given ([`stands_by`]), and who gets turns.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use sopan_core::cache::status::CacheStatus;
use sopan_core::cache::{Asked, Failure, Reuse, Stored, after_failure, stands_by};
use sopan_core::lane::Cause;
use sopan_core::time::Instant;
use tokio::sync::futures::Notified;

use super::{Caching, with_stored};
use crate::clock::Watchdog;
use crate::dispatcher::Dispatcher;
use crate::event::Cached;
use crate::exchange::{Answer, Exchange};

/// So long before it may not be given any more a stored answer is given, lest a timer that is late come too late.
const MARGIN: Duration = Duration::from_secs(1);

/// Watches over a wait of an exchange that has something to fall back on.
pub(in crate::exchange) struct Standby<'a> {
    dispatcher: &'a Dispatcher,
    barred: Pin<Box<Notified<'a>>>,
    /// Whether it is to be looked whether somebody is let through.
    is_due: bool,
    /// Since when the request waits in the lane, if it does.
    since: Instant,
    /// What it has met already, and when that can no longer be made good.
    in_hand: Option<(Failure, Instant)>,
    timer: Watchdog,
}

impl<'a> Exchange<'a> {
    /// For a wait that begins: one in the lane, where the request stays since then. None where there is nothing to fall back
    /// on.
    pub(in crate::exchange) fn standby(&self, since: Instant) -> Option<Standby<'a>> {
        let caching = self.caching.as_ref()?;
        caching.sent.as_ref()?.fallback?;
        let now = self.now();
        let in_hand = self.failure_in_hand().and_then(|failure| {
            let left = self.stands_by(caching, failure)?;
            Some((failure, now.after(left.saturating_sub(MARGIN))))
        });
        let dispatcher = &*self.upstream.dispatcher;
        let barred = Box::pin(dispatcher.barred());
        Some(Standby { dispatcher, barred, is_due: true, since, in_hand, timer: Watchdog::default() })
    }

    /// What would be the failure of a request that came now, or waits since then, if it would get no turn in time and what is
    /// stored may be given then.
    pub(in crate::exchange) fn falls_back(&self, caching: &Caching, since: Instant) -> Option<Failure> {
        caching.sent.as_ref()?.fallback?;
        let deadline = self.entry(since).deadline;
        let failure = match self.upstream.dispatcher.bar(deadline)? {
            Cause::Breaker => Failure::Disconnected,
            Cause::Hold | Cause::Limits | Cause::Own | Cause::Places => Failure::NoToken,
        };
        self.stands_by(caching, failure).map(|_| failure)
    }

    /// For how long there is something to fall back on. What the head has on its way to the upstream makes no difference to
    /// that.
    fn stands_by(&self, caching: &Caching, failure: Failure) -> Option<Duration> {
        let cache = self.upstream.cache.as_ref()?;
        let (sent, now) = (caching.sent.as_ref()?, self.upstream.clock.wall());
        self.with_asked(caching, |asked| {
            with_stored(caching.entry.as_deref(), |stored| stands_by(&cache.policy, asked, sent, stored, failure, now))
        })
    }
}

impl Exchange<'_> {
    /// There is no answer from the upstream: the one in store, though it is stale, if that is allowed.
    pub(in crate::exchange) async fn stale_instead(&mut self, failure: Failure) -> Option<Answer> {
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
    /// What is given rather than a complaint of the upstream where who came now would get no turn: this one has met what the
    /// others are kept from, and is not to be worse off.
    pub(super) fn rather(&self, caching: &Caching, now: SystemTime) -> Option<Reuse> {
        let (cache, failure) = (self.upstream.cache.as_ref()?, self.falls_back(caching, self.now())?);
        let sent = caching.sent.as_ref()?;
        self.with_asked(caching, |asked| {
            let decide = |stored: &[&Stored]| after_failure(&cache.policy, asked, sent, stored, failure, now);
            with_stored(caching.entry.as_deref(), decide)
        })
    }
}

impl Standby<'_> {
    /// Waits, unless what is stored is to be given first, for this reason.
    pub(in crate::exchange) async fn over<T>(
        mut self,
        exchange: &Exchange<'_>,
        wait: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        let mut wait = pin!(wait);
        poll_fn(|cx| match wait.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Ok(done)),
            Poll::Pending => self.poll(exchange, cx).map(Err),
        })
        .await
    }

    /// Ready, with the reason, when what is stored is to be given.
    pub(in crate::exchange) fn poll(&mut self, exchange: &Exchange<'_>, cx: &mut Context<'_>) -> Poll<Failure> {
        loop {
            if std::mem::take(&mut self.is_due)
                && let Some(caching) = &exchange.caching
                && let Some(failure) = exchange.falls_back(caching, self.since.min(exchange.now()))
            {
                return Poll::Ready(failure);
            }
            if self.barred.as_mut().poll(cx).is_pending() {
                break;
            }
            self.is_due = true;
            self.barred = Box::pin(self.dispatcher.barred());
        }
        let Some((failure, ends)) = self.in_hand else { return Poll::Pending };
        self.timer.poll(exchange.upstream.clock, ends, cx).map(|()| failure)
    }
}
