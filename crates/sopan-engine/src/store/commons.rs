//! Which answers do several instances have in common?
//!
//! Those that a server keeps for all of them, behind what each has in memory and on its disk. Who finds nothing there asks it
//! once, and what comes is taken into memory; what is stored is written there in the background. What makes answers untrue is
//! told to all by it, each with a number and the one before, so that an instance that has missed something knows (`watch`). Such a
//! one drops what it has, and takes and gives nothing until it has caught up: it is *in step* or it goes on alone. Requests that
//! ask the same at several instances wait for one of them (`lead`).
//!
//! How an answer is written is in `value`, by which names it is found in `name`; what a server has to do is in `server`, and
//! `redis` is one.

mod heard;
mod lead;
mod name;
mod part;
mod redis;
mod server;
mod take;
mod value;
mod watch;
mod work;

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, RwLock};
use sopan_core::cache::{Extent, Stored};
use sopan_core::policy::CachePolicy;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use super::{Key, Place, Purge, Variant};
use crate::budget::{ByteBudget, Held};
use crate::clock::Clock;
use crate::jitter::Jitter;
use crate::store::entry::Body;
use crate::store::redis::{RedisSettings, RedisSetupError};
pub(super) use heard::Heard;
use lead::Waiting;
pub(crate) use lead::{Awaited, CommonLead};
pub use name::{Name, Slot, Tag, Whose};
use part::{Part, micros};
use redis::RedisCommons;
pub use server::{
    CaughtUp, CommonsError, CommonsServer, Fetched, Known, Lead, Led, Notice, Purges, Put, Reply, Step, Target, Untrue,
};
pub(crate) use take::{Course, InCommon};
pub(super) use watch::keep;
use work::Work;

/// Where answers are that instances have in common, and how they are shared.
#[derive(Debug, Clone)]
pub struct CommonsSettings {
    /// Who keeps them.
    pub server: Arc<dyn CommonsServer>,
    /// How long it is waited for; one that takes longer is left alone for a while. Default 100 ms.
    pub timeout: Duration,
    /// The largest body that is kept there; default 1 MiB.
    pub entry_bytes_max: u64,
    /// By which this instance is told from the others.
    pub instance: u64,
    /// By which ages are reckoned.
    pub clock: Clock,
}

/// The largest body that is kept in common, where nobody says otherwise.
const ENTRY_BYTES_MAX: u64 = 1 << 20;

impl CommonsSettings {
    /// The defaults.
    pub fn new(server: Arc<dyn CommonsServer>, instance: u64) -> Self {
        let timeout = Duration::from_millis(100);
        Self { server, timeout, entry_bytes_max: ENTRY_BYTES_MAX, instance, clock: Clock::system() }
    }

    /// Those for answers in Redis, in keys that begin with this, and with bodies of at most so many bytes. Nothing is connected
    /// yet.
    ///
    /// # Errors
    /// Settings that cannot be used, whatever the server says.
    pub fn redis(redis: RedisSettings, prefix: &str, entry_bytes_max: u64) -> Result<Self, RedisSetupError> {
        // It sees to its time itself, and can say better what was wrong.
        let (timeout, clock) = (2 * redis.timeout, Clock::system());
        // By chance, since nobody gives instances their names.
        let instance = Jitter::new().number() as u64;
        let server = Arc::new(RedisCommons::new(redis, prefix, instance, entry_bytes_max, clock)?);
        Ok(Self { server, timeout, entry_bytes_max, instance, clock })
    }
}

/// What has come of having answers in common so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommonsUsage {
    /// Whether it is in step with the others, so that they are asked and told.
    pub is_in_step: bool,
    /// How often something was found there that was not at hand.
    pub found: u64,
    /// How often nothing was.
    pub missed: u64,
    /// How many answers were dropped because they were not what was written.
    pub damaged: u64,
    /// How many answers were stored there.
    pub stored: u64,
    /// How many were not, because something had been made untrue meanwhile.
    pub refused: u64,
    /// How many were not because there was no time or no room for them.
    pub skipped: u64,
    /// How often a request waited for one at another instance.
    pub waited: u64,
    /// How often the server could not be asked.
    pub failed: u64,
}

/// What waits to be written holds no more than this; beyond that nothing is stored there until it has gone.
const PENDING_MAX: u64 = 16 << 20;
/// Beside answers what waits in all strands holds no more than this, a kilobyte each: a target may be long.
const TEXTS_MAX: u64 = 8 << 20;
/// What is told later, since the server could not be reached; beyond that all of the upstreams is made untrue.
const UNTOLD_MAX: usize = 1024;
/// And so much text: a target may be long.
const UNTOLD_BYTES_MAX: usize = 1 << 20;
/// Paths that are remembered to have been purged, of each upstream; beyond that it is all.
const BELOW_MAX: usize = 64;
/// So much is done at the server at the same time: what concerns one target in its order, other targets meanwhile.
const STRANDS: usize = 32;
/// So much may wait to be done in each; a server that is further behind is left alone until it has been caught up with.
const STRAND_MAX: usize = 256;
/// A value is from the future if it was received later than this much from now: how old it is nobody knows.
const AHEAD_MAX: u64 = 1_000_000;

/// The part that an instance has in it.
pub(super) struct Commons {
    server: Arc<dyn CommonsServer>,
    timeout: Duration,
    entry_bytes_max: u64,
    instance: u64,
    clock: Clock,
    parts: RwLock<Vec<Arc<Part>>>,
    known_before: Heard,
    is_in_step: AtomicBool,
    /// Why it is not, if that is not known yet to who watches.
    lost: Mutex<Option<String>>,
    /// It is to be brought into step.
    stir: Notify,
    /// What the others do not know yet.
    untold: Mutex<VecDeque<(Tag, Untrue)>>,
    waiting: Arc<Waiting>,
    last_token: AtomicU64,
    pending: Arc<ByteBudget>,
    texts: Arc<ByteBudget>,
    strands: Vec<mpsc::Sender<(Work, Held)>>,
    to_do: Mutex<Vec<mpsc::Receiver<(Work, Held)>>>,
    counts: Counts,
}

impl fmt::Debug for Commons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Commons({:?})", self.server)
    }
}

#[derive(Debug, Default)]
struct Counts {
    found: AtomicU64,
    missed: AtomicU64,
    damaged: AtomicU64,
    stored: AtomicU64,
    refused: AtomicU64,
    skipped: AtomicU64,
    waited: AtomicU64,
    failed: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Commons {
    /// `known` is how far a process before this one had heard of what became untrue.
    pub(super) fn new(settings: CommonsSettings, known: Heard) -> Arc<Self> {
        let CommonsSettings { server, timeout, entry_bytes_max, instance, clock } = settings;
        let (strands, to_do) = (0..STRANDS).map(|_| mpsc::channel(STRAND_MAX)).unzip();
        Arc::new(Self {
            server,
            timeout,
            entry_bytes_max,
            instance,
            clock,
            parts: RwLock::default(),
            known_before: known,
            is_in_step: AtomicBool::new(false),
            lost: Mutex::default(),
            stir: Notify::new(),
            untold: Mutex::default(),
            waiting: Arc::default(),
            last_token: AtomicU64::new(0),
            pending: Arc::new(ByteBudget::new(PENDING_MAX)),
            texts: Arc::new(ByteBudget::new(TEXTS_MAX)),
            strands,
            to_do: Mutex::new(to_do),
            counts: Counts::default(),
        })
    }

    /// Has answers of this upstream in common, from when it has caught up.
    pub(super) fn join(&self, name: &str, place: Place, url: &str, policy: &CachePolicy) {
        let tag = Tag::of(name, url);
        let part = Part::new(tag, name, place, policy.clone(), self.known_before.of(tag));
        self.parts.write().push(Arc::new(part));
        self.is_in_step.store(false, Ordering::Release);
        self.stir.notify_one();
    }

    pub(super) fn usage(&self) -> CommonsUsage {
        let Counts { found, missed, damaged, stored, refused, skipped, waited, failed } = &self.counts;
        let [found, missed, damaged, stored, refused, skipped, waited, failed] =
            [found, missed, damaged, stored, refused, skipped, waited, failed]
                .map(|count| count.load(Ordering::Relaxed));
        CommonsUsage { is_in_step: self.is_in_step(), found, missed, damaged, stored, refused, skipped, waited, failed }
    }

    /// How far it has heard of what became untrue.
    pub(super) fn heard(&self) -> Heard {
        self.parts.read().iter().map(|part| (part.tag, part.known.lock().number)).collect()
    }

    /// Whether it is of use to ask.
    pub(super) fn is_in_step(&self) -> bool {
        self.is_in_step.load(Ordering::Acquire)
    }

    fn part_of(&self, key: &Key) -> Option<Arc<Part>> {
        let parts = self.parts.read();
        parts.iter().find(|part| key.belongs_to(&part.name, part.place)).cloned()
    }

    fn parts_named(&self, name: &str) -> Vec<Arc<Part>> {
        self.parts.read().iter().filter(|part| &*part.name == name).cloned().collect()
    }

    /// What the server answers, if it does in time. Else it is left alone until it has been caught up with.
    async fn ask<T>(&self, asking: impl Future<Output = Result<T, CommonsError>>) -> Option<T> {
        match self.hear(asking).await {
            Ok(answer) => Some(answer),
            Err(CommonsError::Full(_)) => None,
            Err(CommonsError::Lost(why)) => {
                self.lose(why);
                None
            }
        }
    }

    /// The same without a consequence.
    async fn hear<T>(&self, asking: impl Future<Output = Result<T, CommonsError>>) -> Result<T, CommonsError> {
        let answer = timeout(self.timeout, asking).await;
        let answer = answer.unwrap_or_else(|_| Err(CommonsError::Lost(format!("no answer within {:?}", self.timeout))));
        if answer.is_err() {
            count(&self.counts.failed);
        }
        answer
    }

    fn lose(&self, why: String) {
        if self.is_in_step.swap(false, Ordering::AcqRel) {
            *self.lost.lock() = Some(why);
            self.stir.notify_one();
        }
    }

    /// Tells the others what is untrue, now if that can be, and as soon as it can be if not; whether they know.
    async fn make_untrue(&self, part: &Arc<Part>, scope: Untrue) -> bool {
        if !self.is_in_step() {
            self.make_untrue_later(part.tag, scope);
            return false;
        }
        let mut telling = Telling { commons: self, part, scope: Some(scope.clone()) };
        let told = self.ask(self.server.make_untrue(part.tag, self.instance, &scope)).await;
        telling.scope = None;
        match told {
            Some(step) => {
                // Where nobody else was in between there is nothing to be heard before.
                part.step(step, &scope);
                true
            }
            None => {
                self.lose("it did not take that something is untrue".to_owned());
                self.make_untrue_later(part.tag, scope);
                false
            }
        }
    }

    /// Tells the others as soon as that can be.
    fn make_untrue_later(&self, tag: Tag, scope: Untrue) {
        let mut untold = self.untold.lock();
        if untold.iter().any(|(other, untold)| *other == tag && (*untold == Untrue::All || *untold == scope)) {
            return;
        }
        let bytes = untold.iter().map(|(_, scope)| scope.bytes()).sum::<usize>() + scope.bytes();
        if untold.len() >= UNTOLD_MAX || bytes > UNTOLD_BYTES_MAX {
            let mut tags: Vec<_> = untold.drain(..).map(|(tag, _)| tag).chain([tag]).collect();
            tags.sort_unstable_by_key(|tag| tag.0);
            tags.dedup();
            untold.extend(tags.into_iter().map(|tag| (tag, Untrue::All)));
            return;
        }
        untold.push_back((tag, scope));
    }

    /// Tells them of one key without waiting for it.
    pub(super) fn make_target_untrue_soon(&self, key: &Key) {
        let Some(part) = self.part_of(key) else { return };
        let scope = untrue(key);
        match self.is_in_step() {
            true => self.send(Work::MakeUntrue { part, scope }),
            false => self.make_untrue_later(part.tag, scope),
        }
    }

    /// The same of one key; whether they know.
    pub(super) async fn make_target_untrue(&self, key: &Key) -> bool {
        match self.part_of(key) {
            Some(part) => self.make_untrue(&part, untrue(key)).await,
            None => false,
        }
    }

    /// The same of what is purged.
    pub(super) async fn purge(&self, what: Purge<'_>) -> bool {
        let parts = match what {
            Purge::Url { upstream, .. } | Purge::Prefix { upstream, .. } => self.parts_named(upstream),
            Purge::All => self.parts.read().clone(),
        };
        let mut do_know = true;
        for part in parts {
            let scope = match what {
                Purge::Url { target, .. } => untrue(&Key::new(&part.name, part.place, target)),
                Purge::Prefix { path, .. } if path.starts_with('/') => Untrue::Below(path.to_owned()),
                Purge::Prefix { .. } | Purge::All => Untrue::All,
            };
            do_know &= self.make_untrue(&part, scope).await;
        }
        do_know
    }

    /// Has an answer stored for the others too, if it is for them; `replaces` are others that it takes the place of.
    pub(super) fn offer(&self, key: &Key, new: &Arc<Variant>, replaces: Vec<Slot>) {
        if !self.is_in_step() {
            return;
        }
        let Some(part) = self.part_of(key) else { return };
        part.is_of_use();
        let is_small = new.body.len() <= self.entry_bytes_max && matches!(new.body, Body::Memory(_));
        let ttl = new.stored.useful_for(&part.policy, self.clock.wall());
        if !is_small || !matches!(new.stored.extent, Extent::Whole(_)) || ttl.is_zero() {
            // What was there before is not what it was.
            let mut gone = replaces;
            gone.push(Slot::of(&new.stored));
            return self.send(Work::Remove { part, key: key.clone(), slots: gone });
        }
        let Some(held) = self.pending.hold(new.weight()) else {
            count(&self.counts.skipped);
            return;
        };
        // Known under the lock of the key, as is that nothing here has made it untrue.
        let number = part.known().number;
        let (key, variant) = (key.clone(), Arc::clone(new));
        self.send(Work::Put { part, key, variant, replaces, number, ttl, _held: held });
    }

    /// Has single answers dropped there too.
    pub(super) fn drop_these(&self, key: &Key, slots: Vec<Slot>) {
        if let Some(part) = self.part_of(key).filter(|_| !slots.is_empty() && self.is_in_step()) {
            self.send(Work::Remove { part, key: key.clone(), slots });
        }
    }

    /// When an answer was received, by the server's clock.
    fn received_by_server(&self, part: &Part, stored: &Stored) -> Option<u64> {
        let time = (*part.time.lock())?;
        let ago = self.clock.wall().duration_since(stored.times.received).unwrap_or_default();
        Some(time.at_least(self.clock.now()).saturating_sub(micros(ago)))
    }

    /// When that was by the calendar here, and not later; none if it is to come.
    fn received_here(&self, part: &Part, by_server: u64) -> Option<SystemTime> {
        let now = (*part.time.lock())?.at_most(self.clock.now());
        let is_past = by_server <= now.saturating_add(AHEAD_MAX);
        let ago = Duration::from_micros(now.saturating_sub(by_server));
        self.clock.wall().checked_sub(ago).filter(|_| is_past)
    }

    fn next_token(&self) -> u128 {
        let number = self.last_token.fetch_add(1, Ordering::Relaxed) + 1;
        u128::from(self.instance) << 64 | u128::from(number)
    }
}

/// That all for a key is untrue, as it is told.
fn untrue(key: &Key) -> Untrue {
    Untrue::Target { name: Name::of(key), target: key.target().into_owned() }
}

/// Tells the others what is untrue. Who waits for that may leave: then they are told all the same.
struct Telling<'a> {
    commons: &'a Commons,
    part: &'a Arc<Part>,
    scope: Option<Untrue>,
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        if let Some(scope) = self.scope.take() {
            self.commons.send(Work::MakeUntrue { part: Arc::clone(self.part), scope });
        }
    }
}
