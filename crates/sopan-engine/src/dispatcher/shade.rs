//! A request that is only observed, as the lane's shadow knows it.
//!
//! Where an upstream is only observed, its lane has nothing but its places to make anybody wait for. Beside it, behind the
//! same lock, stands a [`Shadow`], which says what the lane would do otherwise. A [`Shade`] goes with the
//! ticket and the turn of its request and tells the shadow what becomes of it; one that is dropped gives back what it had of
//! the would-be breaker. What the shadow finds out of itself, holds and changes of the breaker, is logged from here, always
//! as what would be.

use std::sync::Arc;
use std::time::Duration;

use sopan_core::breaker::{Change, Health};
use sopan_core::lane::Visit;
use sopan_core::lane::shadow::{self, Foreseen, Shadow};
use sopan_core::queue::Entry;
use sopan_core::time::Instant;

use super::{Dispatcher, Shared};

/// What is known of a request that is only observed; finished when it is dropped.
#[derive(Debug)]
pub(crate) struct Shade {
    dispatcher: Arc<Dispatcher>,
    /// None once it is finished.
    shade: Option<shadow::Shade>,
}

impl Shade {
    /// One for a request that the lane has let in, if the lane only observes. A request that goes out once more, since its
    /// connection was stale, is not counted again.
    pub(super) fn of(
        dispatcher: &Arc<Dispatcher>,
        shared: &mut Shared,
        entry: &Entry,
        visit: Visit,
        now: Instant,
    ) -> Option<Box<Self>> {
        let shadow = shared.shadow.as_mut()?;
        let shade = match visit {
            Visit::First => shadow.arrive(entry, now),
            Visit::Again => shadow.come_again(now),
        };
        Some(Box::new(Self { dispatcher: Arc::clone(dispatcher), shade: Some(shade) }))
    }

    /// What the lane would have done with it.
    pub(super) fn foreseen(&self) -> Option<Foreseen> {
        self.shade.as_ref().map(shadow::Shade::foreseen)
    }

    /// Its answer has come, or will not come.
    pub(super) fn settle(&mut self, health: Health, hold: Option<Duration>) {
        let begun = self.tell(|shadow, shade, now| {
            let was_held = shadow.held_until().is_some_and(|end| end > now);
            shadow.settle(shade, health, hold, now);
            shadow.held_until().filter(|_| !was_held).map(|end| end.until(now))
        });
        if let Some(hold) = begun.flatten().filter(|hold| !hold.is_zero()) {
            let hold_s = hold.as_secs_f64();
            let upstream = &*self.dispatcher.upstream;
            tracing::info!(
                hold_s,
                upstream,
                "observe: the upstream asks for a pause: nothing would be sent for {hold_s:.2} s"
            );
        }
    }

    /// No connection could be made for it.
    pub(super) fn unconnected(&mut self) {
        self.tell(|shadow, shade, now| shadow.unconnected(shade, now));
    }

    /// The body of its answer broke off.
    pub(super) fn cut(&mut self) {
        self.tell(|shadow, shade, now| shadow.cut(shade, now));
    }

    /// Tells the shadow, and then whoever reads the log how the breaker would have changed.
    fn tell<T>(&mut self, tell: impl FnOnce(&mut Shadow, &mut shadow::Shade, Instant) -> T) -> Option<T> {
        let shade = self.shade.as_mut()?;
        let mut shared = self.dispatcher.shared.lock();
        let now = self.dispatcher.clock.now();
        let shadow = shared.shadow.as_mut()?;
        let told = tell(shadow, shade, now);
        let change = shadow.take_change();
        drop(shared);
        if let Some(change) = change {
            log_change(change, &self.dispatcher.upstream, now);
        }
        Some(told)
    }
}

impl Drop for Shade {
    fn drop(&mut self) {
        let mut shared = self.dispatcher.shared.lock();
        if let (Some(shadow), Some(shade)) = (&mut shared.shadow, self.shade.take()) {
            shadow.finish(shade);
        }
    }
}

/// Says how the breaker's state would have changed.
fn log_change(change: Change, upstream: &str, now: Instant) {
    let (until, what) = match change {
        Change::Reset => {
            return tracing::info!(upstream, "observe: the upstream answers again: the breaker would be closed");
        }
        Change::Tripped { until } => (until, "the upstream fails too often"),
        Change::Reopened { until } => (until, "the upstream still fails"),
    };
    let open_s = until.until(now).as_secs_f64();
    tracing::warn!(open_s, upstream, "observe: {what}: the breaker would be open, and nothing sent for {open_s:.2} s");
}
