//! How late do timers fire?
//!
//! A runtime that is kept busy by one task, or gets no processor, makes everybody on it wait who is ready, and turns late. So
//! each has a task that sleeps for a second and then looks how much later it is. What is told is the worst of the last half to
//! whole minute, so that whoever scrapes every half minute sees every peak, and a runtime that does not come back at all is
//! later and later. What is to be done about it is said by who shows it.

use std::time::Duration;

use parking_lot::Mutex;
use sopan_core::time::Instant;
use sopan_engine::clock::Clock;

/// How often it is looked: seldom enough that an idle program sleeps.
const EVERY: Duration = Duration::from_secs(1);
/// For at least so long a peak is told of.
const KEPT: Duration = Duration::from_secs(30);

/// How late the timers of all runtimes are.
#[derive(Debug)]
pub(crate) struct Lag {
    clock: Clock,
    /// That which accepts, and then each worker's.
    runtimes: Box<[Mutex<Seen>]>,
}

/// The number of the runtime that accepts.
pub(super) const ACCEPTS: usize = 0;

/// The number of a worker's runtime.
pub(super) fn of_worker(worker: usize) -> usize {
    worker + 1
}

impl Lag {
    pub(super) fn new(clock: Clock, workers: usize) -> Self {
        let now = clock.now();
        Self { clock, runtimes: (0..of_worker(workers)).map(|_| Mutex::new(Seen::new(now))).collect() }
    }

    /// Looks for ever; to be polled on the runtime of this number.
    pub(super) async fn watch(&self, runtime: usize) {
        loop {
            let due = self.clock.now().after(EVERY);
            self.runtimes[runtime].lock().due = due;
            tokio::time::sleep_until(self.clock.tokio(due)).await;
            self.runtimes[runtime].lock().fired(self.clock.now());
        }
    }

    /// By which name each runtime goes, and how late it was or is.
    pub(crate) fn all(&self) -> impl Iterator<Item = (String, Duration)> {
        let now = self.clock.now();
        let name = |number: usize| number.checked_sub(1).map_or("main".to_owned(), |worker| format!("worker-{worker}"));
        self.runtimes.iter().enumerate().map(move |(number, seen)| (name(number), seen.lock().worst(now)))
    }
}

/// What was seen of one runtime.
#[derive(Debug)]
struct Seen {
    /// When its timer should fire, or should have fired.
    due: Instant,
    /// The worst since `since`, and in the time before that.
    late: Duration,
    late_before: Duration,
    since: Instant,
}

impl Seen {
    fn new(now: Instant) -> Self {
        Self { due: now.after(EVERY), late: Duration::ZERO, late_before: Duration::ZERO, since: now }
    }

    fn fired(&mut self, now: Instant) {
        if now.since(self.since) >= KEPT {
            (self.late_before, self.late, self.since) = (self.late, Duration::ZERO, now);
        }
        self.late = self.late.max(now.since(self.due));
    }

    fn worst(&self, now: Instant) -> Duration {
        // One that has not fired yet may be late already.
        self.late.max(self.late_before).max(now.since(self.due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_is_told_for_a_while_and_what_does_not_come_back_is_later_and_later() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut seen = Seen::new(at(0));
        let mut told = Vec::new();
        for (due, fired) in [(1_000, 1_001), (2_001, 2_251), (31_000, 31_002), (60_000, 60_003), (62_000, 62_004)] {
            seen.due = at(due);
            seen.fired(at(fired));
            told.push(seen.worst(at(fired)).as_millis());
        }
        assert_eq!(told, [1, 250, 250, 250, 4]);
        seen.due = at(63_000);
        assert_eq!([62_990, 63_000, 63_700, 99_000].map(|now| seen.worst(at(now)).as_millis()), [4, 4, 700, 36_000]);
    }
}
