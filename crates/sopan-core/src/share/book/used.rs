//! How much was used of late, as a guess at how much will be.

use std::time::Duration;

use crate::time::{Instant, nanos};

/// How long it is counted what was used.
const WINDOW: Duration = Duration::from_millis(100);

/// What was used in the window that goes on, and in the one before.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Used {
    window: u64,
    now: u64,
    before: u64,
}

impl Used {
    pub(super) fn add(&mut self, tokens: u32, now: Instant) {
        *self = self.by(now);
        self.now += u64::from(tokens);
    }

    fn by(self, now: Instant) -> Self {
        let window = now.as_nanos() / nanos(WINDOW);
        match window.saturating_sub(self.window) {
            0 => self,
            1 => Self { window, now: 0, before: self.now },
            _ => Self { window, now: 0, before: 0 },
        }
    }

    /// How much that makes in `span`.
    pub(super) fn within(self, span: Duration, now: Instant) -> u64 {
        let used = self.by(now);
        let into = now.as_nanos() % nanos(WINDOW);
        let before = u128::from(used.before) * u128::from(nanos(WINDOW) - into) / u128::from(nanos(WINDOW));
        let of_late = u128::from(used.now) + before;
        u64::try_from(of_late * span.as_nanos() / WINDOW.as_nanos()).unwrap_or(u64::MAX)
    }
}
