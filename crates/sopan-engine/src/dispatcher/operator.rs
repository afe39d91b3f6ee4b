//! What somebody who runs the program does to a lane, and wants to know of it.
//!
//! A change is followed by a step like any other, so that those who wait hear of it at once. What is told takes the lock once for
//! the lane and once for each client, so that nobody whose turn it is waits for whoever looks.

use std::time::Duration;

use sopan_core::lane::{Lane, NoBreaker, Outlook, Snapshot, Whose};
use sopan_core::queue::LineOf;
use sopan_core::time::Instant;

use super::Dispatcher;

impl Dispatcher {
    /// Pauses the lane; answers for how long from now.
    pub(crate) fn hold(&self, wait: Duration) -> Duration {
        self.act(|shared, now| shared.lane.hold_by_hand(wait, now).until(now))
    }

    /// Ends a pause; answers whether there was one.
    pub(crate) fn release(&self) -> bool {
        self.act(|shared, now| shared.lane.release(now))
    }

    /// Opens the breaker; answers for how long.
    pub(crate) fn open_breaker(&self, open_for: Option<Duration>) -> Result<Duration, NoBreaker> {
        self.act(|shared, now| shared.lane.open_breaker(open_for, now).map(|until| until.until(now)))
    }

    /// Closes it.
    pub(crate) fn close_breaker(&self) -> Result<(), NoBreaker> {
        self.act(|shared, now| shared.lane.close_breaker(now))
    }

    /// How it looks, and what will become of those who wait, client by client.
    pub(crate) fn look(&self, clients_max: usize) -> (Snapshot, Outlook, Vec<(LineOf, Duration)>) {
        let (snapshot, outlook) = {
            let mut shared = self.shared.lock();
            let now = shared.now(self.clock);
            let (mut snapshot, mut outlook) = (shared.lane.snapshot(now), shared.lane.outlook(clients_max, now));
            if let Some(shadow) = &mut shared.shadow {
                shadow.show(&mut snapshot, now);
                shadow.foretell(&mut outlook, now);
            }
            (snapshot, outlook)
        };
        let wait_of = |line: &LineOf| self.ask(|lane, now| lane.foresee(Whose::Client(line.client, line.weight), now));
        let lines = outlook.lines.iter().map(|line| (*line, wait_of(line))).collect();
        (snapshot, outlook, lines)
    }

    fn ask<T>(&self, ask: impl FnOnce(&Lane, Instant) -> T) -> T {
        let mut shared = self.shared.lock();
        let now = shared.now(self.clock);
        ask(&shared.lane, now)
    }
}
