//! Who leads in a course of equal requests at several instances, and how do the others wait?
//!
//! One may lead for a while at most, so that one that has died holds nobody up for long. Who waits is told when that is over;
//! nobody asks again and again.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::time::timeout;

use super::server::{Lead, Target};
use super::work::Work;
use super::{Commons, Name, count};

/// Leads, until it is dropped.
pub(crate) struct CommonLead {
    commons: Arc<Commons>,
    of: Target,
    lead: Lead,
    may_lead: bool,
}

impl CommonLead {
    /// From when that is asked for: who asks may leave before it hears that it leads.
    pub(super) fn asked(commons: &Arc<Commons>, of: Target, course: Name, ends_after: Duration) -> Self {
        let lead = Lead { course, token: commons.next_token(), ends_after };
        Self { commons: Arc::clone(commons), of, lead, may_lead: true }
    }

    pub(super) fn wish(&self) -> Lead {
        self.lead
    }

    /// It is said that somebody else leads, or nobody.
    pub(super) fn does_not(mut self) {
        self.may_lead = false;
    }
}

impl fmt::Debug for CommonLead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommonLead({})", self.lead.course)
    }
}

impl Drop for CommonLead {
    fn drop(&mut self) {
        if self.may_lead {
            self.commons.send(Work::LetGo { of: self.of, lead: self.lead });
        }
    }
}

/// Who waits for whom.
#[derive(Debug, Default)]
pub(super) struct Waiting(Mutex<HashMap<Name, Bell>>);

/// What those hear who wait in one course.
#[derive(Debug, Default)]
struct Bell {
    bell: Arc<Notify>,
    /// How many do.
    expected_by: usize,
}

impl Waiting {
    /// From now on a word about this course is heard.
    pub(super) fn expect(self: &Arc<Self>, course: Name) -> Expecting {
        let mut all = self.0.lock();
        let Bell { bell, expected_by } = all.entry(course).or_default();
        *expected_by += 1;
        let mut rings = Box::pin(Arc::clone(bell).notified_owned());
        rings.as_mut().enable();
        Expecting { waiting: Arc::clone(self), course, rings }
    }

    pub(super) fn tell(&self, course: Name) {
        if let Some(Bell { bell, .. }) = self.0.lock().get(&course) {
            bell.notify_waiters();
        }
    }

    pub(super) fn tell_all(&self) {
        self.0.lock().values().for_each(|Bell { bell, .. }| bell.notify_waiters());
    }
}

/// Hears of one course.
#[derive(Debug)]
pub(super) struct Expecting {
    waiting: Arc<Waiting>,
    course: Name,
    rings: std::pin::Pin<Box<OwnedNotified>>,
}

impl Drop for Expecting {
    fn drop(&mut self) {
        let mut all = self.waiting.0.lock();
        let Some(Bell { expected_by, .. }) = all.get_mut(&self.course) else { return };
        *expected_by -= 1;
        if *expected_by == 0 {
            all.remove(&self.course);
        }
    }
}

/// A request that is to wait for one at another instance.
#[derive(Debug)]
pub(crate) struct Awaited {
    pub(super) commons: Arc<Commons>,
    pub(super) expecting: Expecting,
    /// How long that may last.
    pub(super) ends_after: Duration,
}

impl Awaited {
    /// Waits until it is over, at most so long.
    pub(crate) async fn wait(mut self, at_most: Duration) {
        count(&self.commons.counts.waited);
        // What takes too long is not waited for.
        let _ = timeout(self.ends_after.min(at_most), self.expecting.rings.as_mut()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn what_nobody_waits_for_any_more_is_forgotten_however_many_stop_at_once() {
        let (waiting, barrier) = (Arc::<Waiting>::default(), Barrier::new(2));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for round in 0..20_000_u128 {
                        let expecting = waiting.expect(Name(round.to_be_bytes()));
                        barrier.wait();
                        drop(expecting);
                    }
                });
            }
        });
        assert_eq!(waiting.0.lock().len(), 0);
    }
}
