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

use super::server::Lead;
use super::work::Work;
use super::{Commons, Name, Tag, count};

/// Leads, until it is dropped.
pub(crate) struct CommonLead {
    pub(super) commons: Arc<Commons>,
    pub(super) tag: Tag,
    pub(super) lead: Lead,
}

impl fmt::Debug for CommonLead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommonLead({})", self.lead.course)
    }
}

impl Drop for CommonLead {
    fn drop(&mut self) {
        self.commons.send(Work::LetGo { tag: self.tag, lead: self.lead });
    }
}

/// Who waits for whom.
#[derive(Debug, Default)]
pub(super) struct Waiting(Mutex<HashMap<Name, Arc<Notify>>>);

impl Waiting {
    /// From now on a word about this course is heard.
    pub(super) fn expect(self: &Arc<Self>, course: Name) -> Expecting {
        let bell = Arc::clone(self.0.lock().entry(course).or_default());
        let mut rings = Box::pin(Arc::clone(&bell).notified_owned());
        rings.as_mut().enable();
        Expecting { waiting: Arc::clone(self), course, bell, rings }
    }

    pub(super) fn tell(&self, course: Name) {
        if let Some(bell) = self.0.lock().get(&course) {
            bell.notify_waiters();
        }
    }

    pub(super) fn tell_all(&self) {
        self.0.lock().values().for_each(|bell| bell.notify_waiters());
    }
}

/// Hears of one course.
#[derive(Debug)]
pub(super) struct Expecting {
    waiting: Arc<Waiting>,
    course: Name,
    bell: Arc<Notify>,
    rings: std::pin::Pin<Box<OwnedNotified>>,
}

impl Drop for Expecting {
    fn drop(&mut self) {
        let mut all = self.waiting.0.lock();
        // The map's, this one, and the one of what rings.
        if Arc::strong_count(&self.bell) <= 3 {
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
