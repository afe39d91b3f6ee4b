//! Who is turned away instead of waiting, why, and when another attempt is worth it.

use std::time::Duration;

use super::{Call, DEADLINE_GRACE, Lane, Visit};
use crate::breaker::State;
use crate::queue::Entry;
use crate::share::PROBE;
use crate::time::{Instant, whole_seconds_up};

/// Why a request is turned away instead of waiting. The words for it are the door's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// As many wait as may.
    QueueFull {
        /// How many wait.
        waiting: usize,
        /// Whole seconds until a place in the queue frees.
        retry_after: u64,
    },
    /// Waiting requests hold as many bytes as they may.
    BytesFull {
        /// How many bytes they hold.
        bytes: u64,
        /// Whole seconds until a place in the queue frees.
        retry_after: u64,
    },
    /// Its turn would come after its deadline.
    WaitTooLong {
        /// How long it would wait.
        predicted: Duration,
        /// How long it may.
        allowed: Duration,
        /// What it would wait for most.
        cause: Cause,
        /// Whole seconds after which it would be admitted if nobody else came.
        retry_after: u64,
    },
    /// It waited until its deadline.
    WaitedTooLong {
        /// What stood in the way.
        cause: Cause,
        /// Whole seconds after which it would be admitted if nobody else came.
        retry_after: u64,
    },
    /// The breaker is open, or half-open and its probes are out.
    BreakerOpen {
        /// Whole seconds until the next probe.
        retry_after: u64,
    },
    /// The limits are shared, this instance has long been cut off from where that is done, and was told to refuse then.
    CutOff {
        /// Whole seconds until it tries again whether it still is.
        retry_after: u64,
    },
}

const CUT_OFF: Refusal = Refusal::CutOff { retry_after: whole_seconds_up(PROBE) };

/// What a request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The upstream asked for a pause.
    Hold,
    /// A rate or a quota.
    Limits,
    /// The limits of the client itself.
    Own,
    /// A place among the requests under way.
    Places,
    /// The breaker's next probe.
    Breaker,
}

impl Lane {
    /// Why a request that cannot go at once is turned away, if it is.
    pub(super) fn refusal(&self, entry: &Entry, visit: Visit, now: Instant) -> Option<Refusal> {
        if self.tokens.refuses() {
            return Some(CUT_OFF);
        }
        if let Some(until) = self.next_probe(now) {
            let stays = visit == Visit::Again && entry.deadline.is_none_or(|deadline| deadline > until);
            if !stays {
                return Some(Refusal::BreakerOpen { retry_after: seconds(until.until(now)) });
            }
        }
        let (predicted, cause) = self.predict(entry, now);
        let too_late = entry.deadline.and_then(|deadline| {
            let late = predicted.since(deadline);
            (!late.is_zero()).then(|| (deadline.since(now), late))
        });
        if visit == Visit::First {
            let frees = || {
                let first = self.first_due(now).unwrap_or(predicted);
                seconds(first.until(now).max(too_late.map_or(Duration::ZERO, |(_, late)| late)))
            };
            if self.queue.len() >= self.policy.waiting_max as usize {
                return Some(Refusal::QueueFull { waiting: self.queue.len(), retry_after: frees() });
            }
            if self.queue.bytes().saturating_add(entry.bytes) > self.policy.queue_bytes_max {
                return Some(Refusal::BytesFull { bytes: self.queue.bytes(), retry_after: frees() });
            }
        }
        let (allowed, late) = too_late?;
        if allowed.is_zero() && visit == Visit::Again {
            return Some(Refusal::WaitedTooLong { cause, retry_after: seconds(late) });
        }
        Some(Refusal::WaitTooLong { predicted: predicted.until(now), allowed, cause, retry_after: seconds(late) })
    }

    /// Why whoever comes now gets no turn until `deadline`, however short the queue is, if so: because of the breaker, or of a
    /// hold.
    pub fn bar(&self, deadline: Option<Instant>, now: Instant) -> Option<Cause> {
        let outlasts = |hold: Instant| hold > now && deadline.is_some_and(|deadline| hold > deadline);
        match self.next_probe(now) {
            Some(_) => Some(Cause::Breaker),
            None => self.hold.is_some_and(outlasts).then_some(Cause::Hold),
        }
    }

    /// When the breaker lets somebody through again, or has to be asked again, if it lets nobody now.
    fn next_probe(&self, now: Instant) -> Option<Instant> {
        match self.breaker.state(now) {
            State::Closed => None,
            State::Open { until } => Some(until),
            State::HalfOpen { free } => (free == 0).then_some(now),
        }
    }

    /// Turns away those whose deadline has passed, and those whose deadline comes before an open breaker's next probe.
    pub(super) fn expire(&mut self, now: Instant, calls: &mut Vec<Call>) {
        if self.tokens.refuses() {
            while let Some(id) = self.first() {
                self.queue.remove(id);
                calls.push(Call::Refuse(id, CUT_OFF));
            }
        }
        let State::Open { until } = self.breaker.state(now) else { return self.expire_before(now, None, calls) };
        self.expire_before(now, Some(until), calls);
    }

    fn expire_before(&mut self, now: Instant, breaker: Option<Instant>, calls: &mut Vec<Call>) {
        while let Some((deadline, id)) = self.queue.first_deadline() {
            let passed = deadline.after(DEADLINE_GRACE) <= now;
            if !passed && breaker.is_none_or(|until| deadline > until) {
                return;
            }
            let Some(entry) = self.queue.remove(id) else { return };
            let refusal = match breaker {
                Some(until) => Refusal::BreakerOpen { retry_after: seconds(until.until(now)) },
                None => {
                    let allowed = deadline.since(entry.since);
                    let (at, cause) = self.predict(&entry, now);
                    let retry_after = seconds(at.until(now).saturating_sub(allowed));
                    Refusal::WaitedTooLong { cause, retry_after }
                }
            };
            calls.push(Call::Refuse(id, refusal));
        }
    }

    /// What a ticket that has just come waits for most, as things stand.
    pub fn awaits(&self, entry: &Entry, now: Instant) -> Cause {
        let (at, cause) = self.predict(entry, now);
        // How long places are held is not known at first.
        if at <= now && !self.places.has_room() { Cause::Places } else { cause }
    }

    /// When the entry would go by the fair order as it stands: an estimate, since later clients can still move it back.
    pub(super) fn predict(&self, entry: &Entry, now: Instant) -> (Instant, Cause) {
        let of_lane = self.predict_after(self.ahead_of(entry, now), entry.cost, now);
        let of_client = self.predict_own(entry, now).filter(|(at, _)| *at > of_lane.0);
        of_client.unwrap_or(of_lane)
    }

    /// When the first of those who wait leaves; nothing if nobody waits.
    fn first_due(&self, now: Instant) -> Option<Instant> {
        self.upcoming(now).next().map(|coming| coming.due)
    }

    /// When a ticket of that cost could go if tickets of `ahead` in all go before it, and what it would wait for most.
    pub(super) fn predict_after(&self, ahead: u64, cost: u32, now: Instant) -> (Instant, Cause) {
        let mut latest = (self.tokens.predict(ahead, cost, now), Cause::Limits);
        let mut consider = |at: Instant, cause| {
            if at >= latest.0 && at > now {
                latest = (at, cause);
            }
        };
        consider(self.places.predict(ahead, now), Cause::Places);
        consider(self.hold.unwrap_or(now), Cause::Hold);
        if let State::Open { until } = self.breaker.state(now) {
            consider(until, Cause::Breaker);
        }
        latest
    }
}

/// Whole seconds for a Retry-After: rounded up, at least 1.
pub(super) fn seconds(wait: Duration) -> u64 {
    whole_seconds_up(wait).max(1)
}
