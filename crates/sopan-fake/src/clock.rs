//! What time it is for the fake API, on two scales that never drift apart.
//!
//! Both are read from tokio's clock, so that a test which pauses it also pauses the dates in `Retry-After` and the
//! stamps in the log: the wall clock is looked at once, at the start, and moved on by what has elapsed since.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::http_date;

/// A start on both scales. Instants of the fake API are durations since that start.
#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    wall_start: SystemTime,
}

impl Clock {
    /// Starts now; `wall_start` is what a clock on the wall shows at that moment.
    pub(crate) fn start(wall_start: SystemTime) -> Self {
        Self { started: Instant::now(), wall_start }
    }

    /// How long this clock has run. Never goes back.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// What the wall shows that long after the start; the last date that HTTP can write where that is beyond counting.
    pub(crate) fn wall(&self, elapsed: Duration) -> SystemTime {
        self.wall_start.checked_add(elapsed).unwrap_or_else(http_date::last)
    }

    /// The same in microseconds since the Unix epoch; zero before it.
    pub(crate) fn wall_micros(&self, elapsed: Duration) -> u64 {
        let since_epoch = self.wall(elapsed).duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn both_scales_follow_a_paused_clock() {
        let clock = Clock::start(UNIX_EPOCH + Duration::from_secs(100));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(clock.elapsed(), Duration::from_secs(5));
        assert_eq!(clock.wall_micros(clock.elapsed()), 105_000_000);
    }
}
