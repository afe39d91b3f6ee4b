//! What several instances of the program have in common through a store: the limits of their upstreams, and pauses.
//!
//! A [`Shared`] serves the program. Upstreams join it when they are set up; what they keep to is then said by a ledger in the
//! store, and each lane takes turns out of it ahead of their time. The steward, one task, sees to the conversation: it asks for
//! lanes that want turns, says that the instance lives, hears of pauses that others met, and when the store is gone tells the
//! lanes how to go on. Nobody who is served ever waits for the store.
//!
//! What a lane may do with what it has, and what follows from silence, is [`sopan_core::share`]'s business; how the store is
//! spoken to, that of [`Ledgers`].

mod ledgers;
mod look;
mod steward;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
pub use sopan_core::share::OnStoreFailure;
use sopan_core::share::{Ask, Contact, GRACE, GRACE_MIN, Members, TIMEOUT, TellHold};
use sopan_core::time::{Instant, nanos};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::dispatcher::Dispatcher;
use crate::jitter::Jitter;
pub use crate::store::redis::{FAULTS, Fault, RedisSettings, RedisSetupError, RedisUrl, RedisUrlError};
use crate::store::redis::{NUMBERS_MAX, Redis, RedisLedgers};
pub use ledgers::{Answer, Hear, Ledgers};
pub(crate) use look::Unheard;
pub use look::{StoreLook, StoreMode, StoreObserver, Trip};
use steward::Steward;

/// How instances share what their upstreams allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedSettings {
    /// Where the store is.
    pub redis: RedisSettings,
    /// How all keys and channels begin; default `sopan`.
    pub prefix: String,
    /// What follows when it is gone.
    pub going_alone: GoingAlone,
}

/// How an instance goes on that does not reach the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoingAlone {
    /// How many instances there are at most: by what an instance divides the limits that it keeps to alone. None, the default,
    /// means the number that was there last, and at first one.
    pub instances: Option<u32>,
    /// How long an instance that is not heard of keeps its share, and one that hears of nobody keeps to it; default 10 s, at least [`GRACE_MIN`].
    pub grace: Duration,
    /// What it does after that; default `Share`.
    pub on_store_failure: OnStoreFailure,
}

impl Default for GoingAlone {
    fn default() -> Self {
        Self { instances: None, grace: GRACE, on_store_failure: OnStoreFailure::Share }
    }
}

/// What this instance has in common with others.
pub struct Shared {
    ledgers: Arc<dyn Ledgers>,
    observer: Arc<dyn StoreObserver>,
    clock: Clock,
    alone: GoingAlone,
    timeout: Duration,
    kind: &'static str,
    url: String,
    seats: Mutex<Vec<Arc<Seated>>>,
    /// What lanes want of the store, until the steward sees to it.
    errands: Mutex<Vec<(usize, Errand)>>,
    bell: Notify,
    is_leaving: AtomicBool,
    shown: Mutex<Shown>,
    round_trips: AtomicU64,
    /// Smoothed, in ns; 0 until there was one.
    round_trip: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
struct Shown {
    mode: StoreMode,
    since: Instant,
    members: Members,
    parts: u32,
}

/// A lane that shares.
#[derive(Debug)]
struct Seated {
    /// What its ledger is called.
    tag: String,
    /// What its upstream is called in the log.
    upstream: Arc<str>,
    dispatcher: Mutex<Weak<Dispatcher>>,
}

/// What a lane wants of the store.
#[derive(Debug)]
pub(crate) struct Errand {
    /// That all know of its pause.
    pub(crate) tell: Option<TellHold>,
    /// Turns. It asks once at a time.
    pub(crate) ask: Option<Ask>,
}

/// A lane's place: by this it says that it wants something.
#[derive(Debug)]
pub(crate) struct Seat {
    shared: Arc<Shared>,
    seated: Arc<Seated>,
    number: usize,
}

/// The store may take this long to hear that an instance ends.
const LEAVE_MAX: Duration = Duration::from_millis(200);
/// What an instance is called begins so; the rest is chance.
const INSTANCE_DIGITS: usize = 16;

impl Shared {
    /// What is shared through Redis. Nothing is connected yet.
    ///
    /// # Errors
    /// Settings that cannot be used, whatever the server says.
    pub fn open(
        settings: &SharedSettings,
        clock: Clock,
        jitter: &Jitter,
        observer: Arc<dyn StoreObserver>,
    ) -> Result<Arc<Self>, RedisSetupError> {
        let SharedSettings { redis, prefix, going_alone } = settings;
        let connection = Redis::new(redis.clone(), NUMBERS_MAX, clock)?;
        let mut instance = format!("{:032x}", jitter.number());
        instance.truncate(INSTANCE_DIGITS);
        // As long as each reckons for itself.
        let grace = going_alone.grace.max(GRACE_MIN);
        let ledgers = RedisLedgers::new(connection, prefix.clone(), instance, grace);
        let (kind, url) = (redis.url.kind(), redis.url.to_string());
        let mut shared = Self::new(Arc::new(ledgers), *going_alone, clock, observer);
        (shared.kind, shared.url, shared.timeout) = (kind, url, redis.timeout);
        Ok(Arc::new(shared))
    }

    /// The same through any store.
    pub fn through(ledgers: Arc<dyn Ledgers>, going_alone: GoingAlone, clock: Clock) -> Arc<Self> {
        Arc::new(Self::new(ledgers, going_alone, clock, Arc::new(Unheard)))
    }

    fn new(ledgers: Arc<dyn Ledgers>, alone: GoingAlone, clock: Clock, observer: Arc<dyn StoreObserver>) -> Self {
        let shown = Shown {
            mode: StoreMode::Silent,
            since: clock.now(),
            members: Members::ONE,
            parts: alone.instances.unwrap_or(1),
        };
        Self {
            ledgers,
            observer,
            clock,
            alone,
            timeout: TIMEOUT,
            kind: "standalone",
            url: String::new(),
            seats: Mutex::default(),
            errands: Mutex::default(),
            bell: Notify::new(),
            is_leaving: AtomicBool::new(false),
            shown: Mutex::new(shown),
            round_trips: AtomicU64::new(0),
            round_trip: AtomicU64::new(0),
        }
    }

    /// Speaks with the store until this instance [leaves](Self::leave); some task must poll it.
    pub async fn serve(self: Arc<Self>) {
        Steward::new(self).run().await;
    }

    /// Gives back what was not used, and says that this instance ends, if the store takes that within a moment. Nothing is
    /// asked for any more.
    pub async fn leave(&self) {
        self.is_leaving.store(true, Ordering::Release);
        self.bell.notify_one();
        if self.look().mode != StoreMode::Shared {
            // Who is not heard of is counted out by itself.
            return;
        }
        let mut trips = JoinSet::new();
        for seated in self.seats_from(0) {
            let Some(ask) = seated.dispatcher().and_then(|dispatcher| dispatcher.take_back()) else { continue };
            let ledgers = Arc::clone(&self.ledgers);
            trips.spawn(async move { ledgers.ask(&seated.tag, &ask).await.map(drop) });
        }
        let ledgers = Arc::clone(&self.ledgers);
        let all = async {
            while trips.join_next().await.is_some() {}
            self.trip(Trip::Leave, ledgers.leave()).await
        };
        match tokio::time::timeout(LEAVE_MAX, all).await {
            Ok((Ok(()), _)) => tracing::info!("left those who share: what was not used is theirs"),
            Ok((Err(fault), _)) => {
                tracing::warn!("Redis {fault}: the others keep a share for this instance for a while")
            }
            Err(_) => tracing::warn!(
                "Redis takes too long to hear that this instance ends: the others keep a share for it for a while"
            ),
        }
    }

    /// How it is with the store.
    pub fn look(&self) -> StoreLook {
        let Shown { mode, since, members, parts } = *self.shown.lock();
        let round_trip = self.round_trip.load(Ordering::Relaxed);
        StoreLook {
            kind: self.kind,
            url: self.url.clone(),
            mode,
            since: self.clock.now().since(since),
            seen: members.seen,
            counted: members.counted,
            parts,
            round_trips: self.round_trips.load(Ordering::Relaxed),
            round_trip: (round_trip > 0).then(|| Duration::from_nanos(round_trip)),
        }
    }

    /// A place for the lane of this upstream, which must be given its dispatcher.
    pub(crate) fn join(self: &Arc<Self>, upstream: &Arc<str>, target: &str) -> Seat {
        let seated = Arc::new(Seated {
            tag: tag(upstream, target),
            upstream: Arc::clone(upstream),
            dispatcher: Mutex::new(Weak::new()),
        });
        let mut seats = self.seats.lock();
        let number = seats.len();
        seats.push(Arc::clone(&seated));
        Seat { shared: Arc::clone(self), seated, number }
    }

    /// How many there are if the store was never reached.
    pub(crate) fn contact(&self) -> Contact {
        let GoingAlone { instances, grace, on_store_failure } = self.alone;
        Contact::new(on_store_failure, grace, instances, self.clock.now())
    }

    fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Acquire)
    }

    fn seats_from(&self, first: usize) -> Vec<Arc<Seated>> {
        self.seats.lock().get(first..).map(<[_]>::to_vec).unwrap_or_default()
    }

    /// What is wanted, in exchange for an empty list.
    fn take_errands(&self, list: &mut Vec<(usize, Errand)>) {
        std::mem::swap(&mut *self.errands.lock(), list);
    }

    fn show(&self, mode: StoreMode, members: Members, parts: u32) {
        let mut shown = self.shown.lock();
        if shown.mode != mode {
            (shown.mode, shown.since) = (mode, self.clock.now());
        }
        (shown.members, shown.parts) = (members, parts);
    }

    /// Asks, and counts it; answers when the answer came.
    async fn trip<T>(&self, what: Trip, answer: Answer<'_, T>) -> (Result<T, Fault>, Instant) {
        let sent = self.clock.now();
        let answer = answer.await;
        let at = self.clock.now();
        let took = at.since(sent);
        if answer.is_ok() {
            self.round_trips.fetch_add(1, Ordering::Relaxed);
            let before = self.round_trip.load(Ordering::Relaxed);
            let smoothed = if before == 0 { nanos(took) } else { before - before / 8 + nanos(took) / 8 };
            self.round_trip.store(smoothed.max(1), Ordering::Relaxed);
        }
        self.observer.asked(what, took, answer.as_ref().err());
        (answer, at)
    }
}

impl Seated {
    fn dispatcher(&self) -> Option<Arc<Dispatcher>> {
        self.dispatcher.lock().upgrade()
    }
}

impl Seat {
    /// The lane wants something.
    pub(crate) fn want(&self, errand: Errand) {
        self.shared.errands.lock().push((self.number, errand));
        self.shared.bell.notify_one();
    }

    /// How long an answer is waited for.
    pub(crate) fn timeout(&self) -> Duration {
        self.shared.timeout
    }

    /// Who sits there.
    pub(crate) fn take(&self, dispatcher: &Arc<Dispatcher>) {
        *self.seated.dispatcher.lock() = Arc::downgrade(dispatcher);
    }
}

/// What the ledger of an upstream is called: digits of a digest, so that whatever its name and URL hold means nothing in a key.
fn tag(upstream: &str, target: &str) -> String {
    let digest = Sha256::new().chain_update(upstream).chain_update([0]).chain_update(target).finalize();
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared({:?})", self.ledgers)
    }
}
