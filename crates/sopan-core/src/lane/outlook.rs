//! What will become of those who wait, and of those who come now?
//!
//! Beside a [`Snapshot`](super::Snapshot), which is cheap and for metrics, this is for people: who waits and for how long, how
//! long a quota lasts, when a breaker is half-open. Nothing here changes anything, and all of it is an estimate, since later
//! clients can still change the order.

use std::time::Duration;

use super::Lane;
use super::shadow::Shadow;
use crate::breaker::State;
use crate::queue::{ClientId, Entry, LineOf};
use crate::time::Instant;

/// Who asked for a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldBy {
    /// The upstream.
    Upstream,
    /// Somebody who runs the lane.
    Operator,
}

/// A lane as people want to know it.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    /// Requests that may wait.
    pub waiting_max: u32,
    /// Bytes that they may hold.
    pub waiting_bytes_max: u64,
    /// Requests that may be under way; none where any number may.
    pub max_in_flight: Option<u32>,
    /// How long a newcomer would wait.
    pub wait: Duration,
    /// Who has most waiting, at most as many as were asked for.
    pub lines: Vec<LineOf>,
    /// How many clients have something waiting.
    pub clients_waiting: usize,
    /// Who asked for the pause, if there is one.
    pub held_by: HeldBy,
    /// How long until an open breaker lets probes through; none unless it is open.
    pub half_open_in: Option<Duration>,
    /// Whether there is a breaker.
    pub has_breaker: bool,
    /// Tokens spent in a second, over the last ten.
    pub used_per_s: f64,
    /// How long until each limit is full if nothing more leaves, rates before quotas.
    pub full_in: Vec<Duration>,
    /// How long until a quota is used up if all goes on as over the last ten seconds; none if none will be.
    pub lasts: Option<Duration>,
}

/// Who comes now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// It has nothing waiting, and counts once.
    Newcomer,
    /// It is this client, of that weight.
    Client(ClientId, u32),
}

impl Lane {
    /// How it looks, with the `clients_max` clients who have most waiting.
    pub fn outlook(&mut self, clients_max: usize, now: Instant) -> Outlook {
        let used_per_s = self.sent.per_second(now);
        Outlook {
            waiting_max: self.policy.waiting_max,
            waiting_bytes_max: self.policy.queue_bytes_max,
            max_in_flight: self.policy.max_in_flight,
            wait: self.foresee(Whose::Newcomer, now),
            lines: self.queue.longest_lines(clients_max),
            clients_waiting: self.queue.clients_waiting(),
            held_by: self.held_by,
            half_open_in: half_open_in(self.breaker.state(now), now),
            has_breaker: self.breaker.is_on(),
            used_per_s,
            full_in: self.tokens.full_in(now),
            lasts: self.tokens.lasts(used_per_s, now),
        }
    }

    /// How long a request that comes now would wait, by the fair order as it stands.
    pub fn foresee(&self, whose: Whose, now: Instant) -> Duration {
        let (client, weight) = match whose {
            Whose::Newcomer => (ClientId::NOBODY, 1),
            Whose::Client(client, weight) => (client, weight),
        };
        let entry = Entry { client, weight, arrival: u64::MAX, cost: 1, bytes: 0, since: now, deadline: None };
        self.predict(&entry, now).0.until(now)
    }
}

impl Shadow {
    /// Shows what would be in place of what a lane that has none knows.
    pub fn foretell(&mut self, outlook: &mut Outlook, now: Instant) {
        let (wait, breaker) = self.foresee(now);
        outlook.wait = wait;
        outlook.half_open_in = half_open_in(breaker.state(now), now);
        outlook.has_breaker = breaker.is_on();
        outlook.full_in = self.bucket().full_in(now).collect();
        outlook.lasts = self.bucket().lasts(outlook.used_per_s, now);
    }
}

fn half_open_in(breaker: State, now: Instant) -> Option<Duration> {
    match breaker {
        State::Open { until } => Some(until.until(now)),
        State::Closed | State::HalfOpen { .. } => None,
    }
}
