//! What happened last: the exchanges that ended, as they are shown one by one.
//!
//! Whoever serves an exchange tells of it when it has ended, and then this must cost next to nothing. So of thousands a second
//! only some are kept, [`EVERY`] apart after a first few; the others cost a comparison. Those in which something happened
//! (refused, failed, repeated, waited) are counted and kept apart from the others, so that a flood of plain ones does not wash
//! them away. One that is kept is copied under a short lock, with its secrets; they are taken out when it is shown.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use http::{Method, StatusCode, Uri};
use parking_lot::Mutex;
use sopan_core::headers::redact_url;
use sopan_core::queue::ClientId;
use sopan_core::time::{Instant, nanos};
use sopan_engine::event::{Attempted, Cached, Event, Observer, Step};

use super::state::EXCHANGES_MAX;

/// In the long run one is kept in so long.
const EVERY: u64 = nanos(Duration::from_millis(5));
/// So many are kept beyond that after a quiet time.
const AT_ONCE: u64 = 2 * EXCHANGES_MAX as u64;
/// The most of a target that is kept.
const TARGET_BYTES_MAX: usize = 1024;
/// A wait that is worth telling of.
const LONG_WAIT: Duration = Duration::from_millis(100);

/// The last exchanges of all upstreams.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    plain: Share,
    eventful: Share,
    /// How many were kept so far.
    kept: AtomicU64,
}

/// Those of one sort.
#[derive(Debug, Default)]
struct Share {
    allowance: Allowance,
    /// The newest last, at most [`EXCHANGES_MAX`].
    ended: Mutex<VecDeque<Arc<Ended>>>,
}

/// Which of many are kept: those for which a bucket has a token, kept as one instant.
#[derive(Debug, Default)]
struct Allowance(AtomicU64);

impl Allowance {
    fn takes(&self, now: Instant) -> bool {
        let (now, full) = (now.as_nanos(), self.0.load(Relaxed));
        if full > now.saturating_add(AT_ONCE * EVERY) {
            return false;
        }
        // Two workers at once may both have the same one, which does no harm.
        self.0.store(full.max(now).saturating_add(EVERY), Relaxed);
        true
    }
}

/// An exchange that has ended.
#[derive(Clone)]
pub(super) struct Ended {
    pub(super) id: u64,
    /// The number of its upstream; none if it went to none.
    pub(super) upstream: Option<usize>,
    pub(super) client: ClientId,
    pub(super) method: Method,
    /// With its secrets, and perhaps cut off.
    target: String,
    pub(super) status: Option<StatusCode>,
    pub(super) cache: Option<Cached>,
    pub(super) wait: Duration,
    pub(super) attempts: u32,
    pub(super) answered_in: Duration,
    pub(super) total: Duration,
    pub(super) bytes: u64,
    pub(super) at: SystemTime,
    steps: Box<[Step]>,
    left_out: u32,
}

impl Recent {
    /// Has an observer's exchanges remembered too. `upstream`: whose they are, if anybody's.
    pub(crate) fn beside(self: &Arc<Self>, observer: Arc<dyn Observer>, upstream: Option<usize>) -> Arc<dyn Observer> {
        Arc::new(Beside { observer, recent: Arc::clone(self), upstream })
    }

    /// The newest first, at most [`EXCHANGES_MAX`]. Of the eventful ones there are at least half as many, if there are.
    pub(super) fn newest(&self) -> Vec<Arc<Ended>> {
        let newest = |share: &Share| share.ended.lock().iter().rev().cloned().collect::<Vec<_>>();
        let (mut plain, mut eventful) = (newest(&self.plain), newest(&self.eventful));
        eventful.truncate(EXCHANGES_MAX - plain.len().min(EXCHANGES_MAX / 2));
        plain.truncate(EXCHANGES_MAX - eventful.len());
        let mut all = [plain, eventful].concat();
        all.sort_by_key(|ended| std::cmp::Reverse(ended.id));
        all
    }

    fn ended(&self, upstream: Option<usize>, event: &Event<'_>) {
        let share = if is_eventful(event) { &self.eventful } else { &self.plain };
        if !share.allowance.takes(event.ended) {
            return;
        }
        let id = self.kept.fetch_add(1, Relaxed) + 1;
        let ended = Arc::new(Ended::new(id, upstream, event, SystemTime::now()));
        let mut all = share.ended.lock();
        if all.len() == EXCHANGES_MAX {
            all.pop_front();
        }
        all.push_back(ended);
    }
}

/// Whether more happened than that it was asked and answered.
fn is_eventful(event: &Event<'_>) -> bool {
    let is_well = event.whole && event.status.is_some_and(|status| status.as_u16() < 400);
    !is_well || event.refused.is_some() || event.attempts > 1 || event.wait >= LONG_WAIT
}

impl Ended {
    fn new(id: u64, upstream: Option<usize>, event: &Event<'_>, at: SystemTime) -> Self {
        Self {
            id,
            upstream,
            client: event.client,
            method: event.method.clone(),
            target: target_of(event.uri),
            status: event.status,
            cache: event.cache,
            wait: event.wait,
            attempts: event.attempts,
            answered_in: event.upstream,
            total: event.total,
            bytes: event.bytes,
            at,
            steps: event.steps.into(),
            left_out: event.steps_left_out,
        }
    }

    /// Without what may be secret.
    pub(super) fn target(&self) -> String {
        redact_url(&self.target)
    }

    /// What happened, one after the other.
    pub(super) fn story(&self) -> Vec<String> {
        let mut story: Vec<_> = self.steps.iter().map(|step| step.what.to_string()).collect();
        if self.left_out > 0 {
            story.push(format!("and {} more", self.left_out));
        }
        story
    }

    /// When it arrived, as far as clocks agree.
    pub(super) fn began(&self) -> SystemTime {
        self.at.checked_sub(self.total).unwrap_or(self.at)
    }
}

/// As it was sent, as far as there is room.
fn target_of(uri: &Uri) -> String {
    let whole = uri.path_and_query().map_or_else(|| uri.to_string(), |target| target.as_str().to_owned());
    match whole.char_indices().find(|(at, c)| at + c.len_utf8() > TARGET_BYTES_MAX) {
        Some((end, _)) => format!("{}…", &whole[..end]),
        None => whole,
    }
}

impl fmt::Debug for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ended").field("id", &self.id).field("target", &self.target()).finish_non_exhaustive()
    }
}

/// Tells an observer, and remembers.
#[derive(Debug)]
struct Beside {
    observer: Arc<dyn Observer>,
    recent: Arc<Recent>,
    upstream: Option<usize>,
}

impl Observer for Beside {
    fn attempted(&self, attempted: Attempted<'_>) {
        self.observer.attempted(attempted);
    }

    fn ended(&self, event: &Event<'_>) {
        self.observer.ended(event);
        self.recent.ended(self.upstream, event);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use sopan_engine::event::{Unobserved, What};

    use super::*;

    /// An exchange of shop's with this target and status has ended.
    pub(in super::super) fn tell(recent: &Arc<Recent>, uri: &str, status: u16, ended: Instant) {
        recent.beside(Arc::new(Unobserved), Some(0)).ended(&Event {
            client: ClientId(1),
            method: &Method::GET,
            uri: &uri.parse().unwrap(),
            status: StatusCode::from_u16(status).ok(),
            refused: None,
            observed: None,
            cache: None,
            cache_detail: None,
            wait: Duration::ZERO,
            attempts: 1,
            upstream: Duration::from_millis(3),
            total: Duration::from_millis(5),
            ended,
            bytes: 2,
            whole: true,
            steps: &[Step { at: Duration::ZERO, what: What::Sent { attempt: 1 } }],
            steps_left_out: 0,
            trace: None,
        });
    }

    fn at(millis: u64) -> Instant {
        Instant::ORIGIN.after(Duration::from_millis(millis))
    }

    fn shown(recent: &Recent) -> Vec<(u64, String)> {
        recent.newest().iter().map(|ended| (ended.id, ended.target())).collect()
    }

    #[test]
    fn the_newest_come_first_without_their_secrets() {
        let recent = Arc::<Recent>::default();
        assert_eq!(shown(&recent), []);
        tell(&recent, "/a?key=SECRET&page=1", 200, at(0));
        tell(&recent, "http://user:SECRET@localhost/b", 503, at(0));
        assert_eq!(shown(&recent), [(2, "/b".to_owned()), (1, "/a?key=…&page=…".to_owned())]);
        assert!(!format!("{recent:?}").contains("SECRET"));
        // A long one is cut off, and a secret at the cut is none to be read.
        let long = format!("/{}?key=SECRET{}", "x".repeat(900), "SECRET".repeat(100));
        tell(&recent, &long, 200, at(0));
        let (_, target) = shown(&recent).swap_remove(0);
        assert!(target.len() < 1100 && target.ends_with("?key=…"), "{target}");
    }

    #[test]
    fn of_a_flood_some_are_kept_and_what_happened_before_stays() {
        let recent = Arc::<Recent>::default();
        tell(&recent, "/failed", 500, at(0));
        for number in 0..100_000 {
            tell(&recent, "/plain", 200, at(number / 10));
        }
        let all = shown(&recent);
        assert_eq!(all.len(), EXCHANGES_MAX);
        assert_eq!(all.last().unwrap(), &(1, "/failed".to_owned()));
        // 200 at once and 200 a second, of 10 seconds.
        assert!((2_150..=2_250).contains(&recent.kept.load(Relaxed)), "{:?}", recent.kept);
        for number in 0..1_000 {
            tell(&recent, "/failed", 500, at(20_000 + number));
        }
        let failed = shown(&recent).iter().filter(|(_, target)| target == "/failed").count();
        assert_eq!(failed, EXCHANGES_MAX / 2);
        // Where there are no others, all of them are shown.
        let recent = Arc::<Recent>::default();
        (0..150).for_each(|_| tell(&recent, "/failed", 500, at(0)));
        let all = shown(&recent);
        assert_eq!((all.len(), all[0].0, all[99].0), (100, 150, 51));
    }
}
