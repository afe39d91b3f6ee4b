//! Is the upstream well enough to be asked?
//!
//! Closed, traffic flows and its outcomes are counted. When enough of them in a row, or a large enough share, are
//! failures, and they span long enough to be an outage rather than a hiccup, the [`Breaker`] trips: open, nobody is let
//! through for a while. Then it is half-open: a few probes are let through, and the first whose outcome is known decides,
//! closed or open again.
//!
//! Whoever wants to send asks for a [`Permit`] and brings it back with what came of it. A permit is good for the state
//! it was given in: what comes back later, when the breaker has moved on, moves nothing. Asking on behalf of whom, what
//! to tell those who are refused, and who waits for half-open, are the caller's.

mod tally;

use std::time::Duration;

use crate::policy::BreakerPolicy;
use crate::retry::Outcome;
use crate::time::Instant;

use tally::Tally;

/// What one attempt says of the upstream's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It answered, and does what it should: also a 429 or another 4xx, which find fault with the request.
    Success,
    /// It answered with a server's error, or not at all.
    Failure,
    /// Nothing: the client left, or the upstream asked everybody to wait.
    Neither,
}

impl Health {
    /// What the outcome of an attempt says: a status of 500 or above is a failure, but a 503 with a usable `Retry-After`
    /// is a request to wait, and neither. (A status of 600 or above is a server's error, RFC 9110 §15.)
    pub fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Answered { status, .. } if status.as_u16() < 500 => Self::Success,
            Outcome::Answered { .. } if outcome.asks_to_wait() => Self::Neither,
            Outcome::Answered { .. } | Outcome::NotSent | Outcome::Broken | Outcome::TimedOut => Self::Failure,
        }
    }
}

/// How the breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Traffic flows.
    Closed,
    /// Nobody is let through.
    Open {
        /// When it will be half-open.
        until: Instant,
    },
    /// Only probes are let through.
    HalfOpen {
        /// How many more at this moment.
        free: u32,
    },
}

/// The permission to make one attempt, in the state the breaker was in.
///
/// Every permit must come back, by [`Breaker::record`] or [`Breaker::give_back`]: a probe that never does keeps the
/// breaker half-open. Bringing it back twice does no harm while half-open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    /// The number of the period between two changes of state.
    period: u64,
    /// The number of the probe, unique in the life of the breaker; `None` while closed.
    probe: Option<u64>,
}

impl Permit {
    /// Whether this attempt is to find out if the upstream is well again.
    pub fn is_probe(self) -> bool {
        self.probe.is_some()
    }
}

/// No permit now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// When the breaker will be half-open; `None` if it is, and all its probes are out.
    pub until: Option<Instant>,
}

/// A change of state that an outcome brought about. (That an open breaker becomes half-open is the work of time alone.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Closed to open.
    Tripped {
        /// When it will be half-open.
        until: Instant,
    },
    /// Half-open to open: a probe failed.
    Reopened {
        /// When it will be half-open again.
        until: Instant,
    },
    /// Half-open to closed: a probe succeeded.
    Reset,
}

/// The breaker of one upstream.
///
/// ```
/// use std::time::Duration;
/// use sopan_core::breaker::{Breaker, Change, Health, State};
/// use sopan_core::policy::BreakerPolicy;
/// use sopan_core::time::Instant;
///
/// let policy = BreakerPolicy { failures: 2, min_span: Duration::ZERO, ..BreakerPolicy::default() };
/// let (mut breaker, now) = (Breaker::new(policy), Instant::ORIGIN);
/// for _ in 0..2 {
///     let permit = breaker.permit(now).expect("closed");
///     breaker.record(permit, Health::Failure, now);
/// }
/// let until = now.after(Duration::from_secs(10));
/// assert_eq!(breaker.state(now), State::Open { until });
/// assert_eq!(breaker.permit(now).unwrap_err().until, Some(until));
///
/// let probe = breaker.permit(until).expect("half-open");
/// assert!(breaker.permit(until).is_err());
/// assert_eq!(breaker.record(probe, Health::Success, until), Some(Change::Reset));
/// ```
#[derive(Clone, Debug)]
pub struct Breaker {
    policy: BreakerPolicy,
    phase: Phase,
    /// Counts the changes of `phase`.
    period: u64,
    /// Counts the probes of all periods.
    probes: u64,
    /// Counts the outages that it found: from closed to open.
    trips: u64,
    /// What was counted since it closed.
    tally: Tally,
}

#[derive(Clone, Debug)]
enum Phase {
    Closed,
    /// Half-open from `until` on, although only the next permit makes it so.
    Open {
        until: Instant,
    },
    HalfOpen {
        /// The numbers of the probes that are out, at most as many as the policy allows.
        out: Vec<u64>,
    },
}

impl Breaker {
    /// A closed breaker that has seen nothing. The policy must be valid.
    pub fn new(policy: BreakerPolicy) -> Self {
        debug_assert!(policy.validate().is_ok(), "policies are validated before they are used: {policy:?}");
        let tally = Tally::new(policy.window);
        Self { policy, phase: Phase::Closed, period: 0, probes: 0, trips: 0, tally }
    }

    /// A breaker that was open when the process ended, and is until `until`; then it is half-open.
    pub fn restore(&mut self, until: Instant) {
        if self.policy.on {
            self.enter(Phase::Open { until });
        }
    }

    /// How long it is open at a time.
    pub fn open_for(&self) -> Duration {
        self.policy.open_for
    }

    /// Whether it ever trips.
    pub fn is_on(&self) -> bool {
        self.policy.on
    }

    /// How often it has tripped. A probe that fails opens it again, and is no other trip.
    pub fn trips(&self) -> u64 {
        self.trips
    }

    /// Somebody says that the upstream is not to be asked for a while, whatever it would answer.
    pub fn open_by_hand(&mut self, open_for: Duration, now: Instant) {
        self.enter(Phase::Open { until: now.after(open_for) });
    }

    /// Somebody says that it is well; what it did before is forgotten.
    pub fn close_by_hand(&mut self) {
        self.enter(Phase::Closed);
    }

    /// How it stands at `now`.
    pub fn state(&self, now: Instant) -> State {
        match &self.phase {
            Phase::Closed => State::Closed,
            Phase::Open { until } if now < *until => State::Open { until: *until },
            Phase::Open { .. } => State::HalfOpen { free: self.policy.probes },
            Phase::HalfOpen { out } => State::HalfOpen { free: self.policy.probes.saturating_sub(out.len() as u32) },
        }
    }

    /// The permission to make one attempt.
    ///
    /// # Errors
    /// While open, and while half-open with all probes out.
    pub fn permit(&mut self, now: Instant) -> Result<Permit, Refused> {
        match self.phase {
            Phase::Closed => Ok(Permit { period: self.period, probe: None }),
            Phase::Open { until } if now < until => Err(Refused { until: Some(until) }),
            Phase::Open { .. } => {
                self.enter(Phase::HalfOpen { out: Vec::new() });
                self.probe()
            }
            Phase::HalfOpen { .. } => self.probe(),
        }
    }

    /// What came of an attempt, known at its head. Says so if that changes the state.
    ///
    /// What comes back from an earlier state than the present one is not counted: it tells of an upstream that was
    /// already known to be ill, or well.
    pub fn record(&mut self, permit: Permit, health: Health, now: Instant) -> Option<Change> {
        if permit.period != self.period {
            return None;
        }
        match &mut self.phase {
            Phase::Closed => self.count(health, now),
            Phase::HalfOpen { out } => {
                let was_out = take(out, permit.probe);
                was_out.then(|| self.settle(health, now)).flatten()
            }
            Phase::Open { .. } => None,
        }
    }

    /// The body of an attempt broke off, after its head had counted as a success: that is one failure, and of the same attempt.
    ///
    /// It counts while the breaker is still in the state of the permit. The body of a probe comes when its head has
    /// already closed the breaker, so there it counts in the closed state that the probes of that period led to.
    pub fn record_cut(&mut self, permit: Permit, now: Instant) -> Option<Change> {
        let is_present = permit.period == self.period || (permit.is_probe() && permit.period + 1 == self.period);
        match self.phase {
            Phase::Closed if is_present && self.policy.on => {
                self.tally.cut(now);
                self.trip_in_outage(now)
            }
            Phase::Closed | Phase::Open { .. } | Phase::HalfOpen { .. } => None,
        }
    }

    /// Brings back a permit of which nothing came: no attempt was made, or its client left. A probe makes room for
    /// another.
    pub fn give_back(&mut self, permit: Permit) {
        if let (Phase::HalfOpen { out }, true) = (&mut self.phase, permit.period == self.period) {
            take(out, permit.probe);
        }
    }

    /// One more probe, if there is room.
    fn probe(&mut self) -> Result<Permit, Refused> {
        match &mut self.phase {
            Phase::HalfOpen { out } if out.len() < self.policy.probes as usize => {
                self.probes += 1;
                out.push(self.probes);
                Ok(Permit { period: self.period, probe: Some(self.probes) })
            }
            Phase::HalfOpen { .. } | Phase::Open { .. } | Phase::Closed => Err(Refused { until: None }),
        }
    }

    /// Counts an outcome of the closed state, and trips if that is one too many.
    fn count(&mut self, health: Health, now: Instant) -> Option<Change> {
        if !self.policy.on {
            return None;
        }
        match health {
            Health::Success => self.tally.success(now),
            Health::Failure => self.tally.failure(now),
            Health::Neither => return None,
        }
        self.trip_in_outage(now)
    }

    /// Opens it if what was counted amounts to an outage.
    fn trip_in_outage(&mut self, now: Instant) -> Option<Change> {
        self.tally.is_outage(&self.policy).then(|| {
            self.trips += 1;
            Change::Tripped { until: self.open(now) }
        })
    }

    /// What follows from the outcome of a probe.
    fn settle(&mut self, health: Health, now: Instant) -> Option<Change> {
        match health {
            Health::Success => {
                self.enter(Phase::Closed);
                Some(Change::Reset)
            }
            Health::Failure => Some(Change::Reopened { until: self.open(now) }),
            // It found out nothing, and being back it made room for another.
            Health::Neither => None,
        }
    }

    fn open(&mut self, now: Instant) -> Instant {
        let until = now.after(self.policy.open_for);
        self.enter(Phase::Open { until });
        until
    }

    /// Every change of state goes through here, so that no permit outlives its own and no count its period.
    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.period += 1;
        self.tally.clear();
    }
}

/// Takes a probe off those that are out; says whether it was one of them.
fn take(out: &mut Vec<u64>, probe: Option<u64>) -> bool {
    let place = out.iter().position(|number| Some(*number) == probe);
    place.map(|place| out.swap_remove(place)).is_some()
}

#[cfg(test)]
mod tests;
