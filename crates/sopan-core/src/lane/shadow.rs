//! What would a lane do to traffic that it only observes?
//!
//! A [`Shadow`] is told of the same events as a lane, and makes nobody wait: it answers how long a request would have waited
//! or why it would have been refused, and keeps a bucket, a hold and a breaker as a lane in earnest would have them. Those
//! who would be waiting stand in a line of its own, first come first served. Whenever anything happens, those whose turns
//! have come by then leave it, at the very instants at which a lane would have let them go, so that a hold moves back
//! those who still wait, and leaves one token behind at its end. A wait is what the lane would have predicted on arrival.
//!
//! It is told of traffic as it is and not as it would be, and so it leaves out:
//!
//! - *Who it is.* Fairness between clients, what single clients keep to themselves, the bytes that wait, and places (`max_in_flight`, which act in earnest, beside
//!   this) change nothing here, and nobody leaves the line but by his turn or his deadline.
//! - *What is not sent.* Retries that would have been made are charged nothing; a request that goes out at once and then
//!   fails to connect is charged all the same.
//! - *What an answer would have been.* An upstream may answer 429 to what a lane would have spaced. What would have been
//!   refused would not have been sent, so its answer says nothing here; neither does that of a request sent during a hold
//!   ask for another one, or traffic that does not pause would prolong a hold for ever.
//! - *How a lane starts again.* One without a rate lets all go when a hold ends, where a real one goes by rounds; and those
//!   who wait when the breaker trips go on waiting for their turns as before.
//!
//! What is said of it, and where, is the business of others.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use super::refusal::seconds;
use super::{Cause, Refusal, Snapshot};
use crate::breaker::{Breaker, Change, Health, Permit};
use crate::bucket::{Bucket, Take};
use crate::policy::LanePolicy;
use crate::queue::Entry;
use crate::time::Instant;

/// What a lane would have done with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Foreseen {
    /// Let it go after this wait.
    Goes(Duration),
    /// Refused it.
    Refused(Refusal),
}

/// What a shadow keeps of a request that it only observes. It must come back through [`Shadow::finish`] when nothing more
/// will be known of it, or the breaker waits for a probe for ever; the caller keeps it in a guard.
#[derive(Debug)]
#[must_use = "a shade that is not finished may keep the breaker half-open for ever"]
pub struct Shade {
    foreseen: Foreseen,
    /// None if it would have been refused.
    permit: Option<Permit>,
    /// Whether it was sent during a hold.
    was_held: bool,
    /// How the upstream was, once its answer has come.
    health: Health,
}

impl Shade {
    /// What would have become of its request.
    pub fn foreseen(&self) -> Foreseen {
        self.foreseen
    }
}

/// A lane that makes nobody wait.
#[derive(Debug)]
pub struct Shadow {
    /// Charged with what would have left so far.
    bucket: Bucket,
    breaker: Breaker,
    /// Those who would be waiting, at most `waiting_max`.
    line: VecDeque<Waiting>,
    /// What they cost together.
    cost: u64,
    /// The next one leaves no sooner: the last one left then, or a hold ends then.
    floor: Instant,
    hold: Option<Instant>,
    holds: u64,
    waiting_max: usize,
    max_hold: Duration,
    /// How the breaker's state has changed, to be told.
    change: Option<Change>,
}

#[derive(Debug)]
struct Waiting {
    cost: u32,
    since: Instant,
    deadline: Option<Instant>,
}

impl Shadow {
    /// When the calendar must be told, as a lane's ([`Lane::calendar_due`](super::Lane::calendar_due)).
    pub fn calendar_due(&self) -> Instant {
        self.bucket.calendar_due()
    }

    /// The clock on the wall shows `wall` at `now`.
    pub fn set_calendar(&mut self, now: Instant, wall: SystemTime) {
        self.bucket.set_calendar(now, wall);
    }

    /// The shadow of a lane with these settings, at rest. The policy must be valid.
    pub fn new(policy: &LanePolicy, breaker: Breaker) -> Self {
        debug_assert_eq!(policy.validate(), Ok(()));
        Self {
            bucket: Bucket::new(&policy.limits, policy.headroom, policy.rate_margin),
            breaker,
            line: VecDeque::new(),
            cost: 0,
            floor: Instant::ORIGIN,
            hold: None,
            holds: 0,
            waiting_max: policy.waiting_max as usize,
            max_hold: policy.max_hold,
            change: None,
        }
    }

    /// A request has come, and goes out at once: what would a lane have done with it?
    pub fn arrive(&mut self, entry: &Entry, now: Instant) -> Shade {
        self.pass(now);
        let was_held = self.is_held(now);
        let (foreseen, permit) = match self.admit(entry, now) {
            Ok((wait, permit)) => (Foreseen::Goes(wait), Some(permit)),
            Err(refusal) => (Foreseen::Refused(refusal), None),
        };
        Shade { foreseen, permit, was_held, health: Health::Neither }
    }

    /// A request goes out once more because its idle connection was closed: it was charged when it came. That it would have
    /// been refused then is forgotten; so seldom are both.
    pub fn come_again(&mut self, now: Instant) -> Shade {
        let (permit, was_held) = (self.breaker.permit(now).ok(), self.is_held(now));
        Shade { foreseen: Foreseen::Goes(Duration::ZERO), permit, was_held, health: Health::Neither }
    }

    /// Its answer has come, or will not come: how the upstream is, and whether it asked for a pause.
    pub fn settle(&mut self, shade: &mut Shade, health: Health, hold: Option<Duration>, now: Instant) {
        let Some(permit) = shade.permit else { return };
        shade.health = health;
        let change = self.breaker.record(permit, health, now);
        self.note(change);
        if let Some(wait) = hold.filter(|_| !shade.was_held) {
            self.hold(wait, now);
        }
    }

    /// No connection could be made for it.
    pub fn unconnected(&mut self, shade: &mut Shade, now: Instant) {
        self.settle(shade, Health::Failure, None, now);
    }

    /// The body of its answer broke off. An answer that was a failure by its head is no second one.
    pub fn cut(&mut self, shade: &Shade, now: Instant) {
        if let Some(permit) = shade.permit.filter(|_| shade.health == Health::Success) {
            let change = self.breaker.record_cut(permit, now);
            self.note(change);
        }
    }

    /// Nothing more will be known of it.
    #[allow(clippy::needless_pass_by_value, reason = "a finished shade must not be used again")]
    pub fn finish(&mut self, shade: Shade) {
        if let Some(permit) = shade.permit {
            self.breaker.give_back(permit);
        }
    }

    /// How the breaker's state has changed since this was last asked.
    pub fn take_change(&mut self) -> Option<Change> {
        self.change.take()
    }

    /// Until when the lane would be held, or would have been at last.
    pub fn held_until(&self) -> Option<Instant> {
        self.hold
    }

    /// Shows the limits, the hold and the breaker as they would be, in place of those of a lane that has none.
    pub fn show(&mut self, snapshot: &mut Snapshot, now: Instant) {
        self.pass(now);
        snapshot.hold = self.hold.map(|end| end.until(now)).filter(|left| !left.is_zero());
        snapshot.holds = self.holds;
        snapshot.breaker = self.breaker.state(now);
        snapshot.trips = self.breaker.trips();
        snapshot.fills = self.bucket.fills(now).collect();
    }

    pub(super) fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// How long a newcomer would wait, and the breaker that there would be.
    pub(super) fn foresee(&mut self, now: Instant) -> (Duration, &Breaker) {
        self.pass(now);
        (self.predict(1, now).0.until(now), &self.breaker)
    }

    /// Takes a newcomer in, if a lane would; answers how long he would wait.
    fn admit(&mut self, entry: &Entry, now: Instant) -> Result<(Duration, Permit), Refusal> {
        let permit = self.breaker.permit(now).map_err(|refused| Refusal::BreakerOpen {
            retry_after: seconds(refused.until.unwrap_or(now).until(now)),
        })?;
        let (due, cause) = self.predict(entry.cost, now);
        if self.line.is_empty() && due <= now {
            self.spend(entry.cost, now);
            return Ok((Duration::ZERO, permit));
        }
        if let Some(refusal) = self.refusal(entry, due, cause, now) {
            self.breaker.give_back(permit);
            return Err(refusal);
        }
        self.cost += u64::from(entry.cost);
        self.line.push_back(Waiting { cost: entry.cost, since: now, deadline: entry.deadline });
        Ok((due.until(now), permit))
    }

    /// Why somebody who cannot go at once would be turned away, if he would.
    fn refusal(&self, entry: &Entry, due: Instant, cause: Cause, now: Instant) -> Option<Refusal> {
        let too_late = entry.deadline.map(|deadline| (deadline.since(now), due.since(deadline)));
        let too_late = too_late.filter(|(_, late)| !late.is_zero());
        if self.line.len() >= self.waiting_max {
            let frees = self.bucket.predict(0, 1, self.floor.max(now)).until(now);
            let late = too_late.map_or(Duration::ZERO, |(_, late)| late);
            return Some(Refusal::QueueFull { waiting: self.line.len(), retry_after: seconds(frees.max(late)) });
        }
        let (allowed, late) = too_late?;
        Some(Refusal::WaitTooLong { predicted: due.until(now), allowed, cause, retry_after: seconds(late) })
    }

    /// When a newcomer could leave, behind those who would be waiting, and what he would wait for most.
    fn predict(&self, cost: u32, now: Instant) -> (Instant, Cause) {
        let due = self.bucket.predict(self.cost, cost, self.floor.max(now));
        let is_held = self.hold.is_some_and(|end| end > now && end == due);
        (due, if is_held { Cause::Hold } else { Cause::Limits })
    }

    /// Lets those leave the line whose turns have come by `now`, each at his own instant.
    fn pass(&mut self, now: Instant) {
        while let Some(first) = self.line.front() {
            let cost = first.cost;
            let due = self.bucket.predict(0, cost, self.floor.max(first.since));
            let deadline = first.deadline.unwrap_or(Instant::NEVER);
            if due.min(deadline) > now {
                return;
            }
            self.line.pop_front();
            self.cost -= u64::from(cost);
            // A hold may have come after he was let in; who is too late then is refused, and costs nothing.
            if due <= deadline {
                self.spend(cost, due);
            }
        }
    }

    /// Somebody leaves at `at`.
    fn spend(&mut self, cost: u32, at: Instant) {
        let taken = self.bucket.take(cost, at);
        debug_assert!(matches!(taken, Take::Taken { .. }), "what is due can be taken: {taken:?}");
        if matches!(taken, Take::Taken { .. }) {
            self.bucket.charge(cost, None, at);
        }
        self.floor = self.floor.max(at);
    }

    fn is_held(&self, now: Instant) -> bool {
        self.hold.is_some_and(|end| end > now)
    }

    /// As [`Lane::hold`](super::Lane::hold) does.
    fn hold(&mut self, wait: Duration, now: Instant) {
        self.pass(now);
        let end = now.after(wait.min(self.max_hold));
        self.holds += 1;
        if self.hold.is_some_and(|until| until >= end) {
            return;
        }
        self.hold = Some(end);
        self.floor = self.floor.max(end);
        self.bucket.hold_until(end);
    }

    fn note(&mut self, change: Option<Change>) {
        self.change = change.or(self.change);
    }
}

#[cfg(test)]
mod tests;
