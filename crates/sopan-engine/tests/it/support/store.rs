//! A store in memory that instances share: the core's own ledgers behind the seam, on the paused clock, with whatever goes wrong.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sopan_core::share::{Ask, GRACE, Leased, Ledger, Members, Register, Stamp, TellHold};
use sopan_engine::clock::Clock;
use sopan_engine::shared::{Answer, Fault, GoingAlone, Hear, Ledgers, Shared};
use tokio::time::sleep;

use super::{EPOCH, ms, wall};

/// The store, which all instances reach.
pub(crate) struct Store {
    clock: Clock,
    is_in_parts: bool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    ledgers: BTreeMap<String, Ledger>,
    register: Register,
    listeners: Vec<(String, Hear)>,
    fault: Option<Fault>,
    /// The ledger of this lane is on a part that is gone.
    lost: Option<String>,
    /// Questions of each kind that were answered.
    asks: usize,
    beats: usize,
}

/// How far away it is, there and back.
const AWAY: Duration = ms(2);

/// One instance's way to it.
struct Way {
    store: Arc<Store>,
    instance: String,
}

impl Store {
    pub(crate) fn new() -> Arc<Self> {
        Self::of_parts(false)
    }

    /// One of which a part can fail by itself, if so.
    pub(crate) fn of_parts(is_in_parts: bool) -> Arc<Self> {
        Arc::new(Self { clock: Clock::paused(wall()), is_in_parts, inner: Mutex::default() })
    }

    /// An instance of this name that shares through it; its steward runs.
    pub(crate) fn instance(self: &Arc<Self>, name: &str, alone: GoingAlone) -> Arc<Shared> {
        let way = Way { store: Arc::clone(self), instance: name.to_owned() };
        let shared = Shared::through(Arc::new(way), alone, self.clock);
        tokio::spawn(Arc::clone(&shared).serve());
        shared
    }

    /// From now on nobody reaches it, or everybody again.
    pub(crate) fn fails(&self, fault: Option<Fault>) {
        self.inner.lock().fault = fault;
    }

    /// A part of it is gone, with the ledger of one lane; answers which.
    pub(crate) fn loses_a_part(&self) -> String {
        let inner = &mut *self.inner.lock();
        let lane = inner.ledgers.keys().next().expect("a lane has asked").clone();
        inner.lost = Some(lane.clone());
        lane
    }

    /// It has that again.
    pub(crate) fn finds_its_part(&self) {
        self.inner.lock().lost = None;
    }

    /// All that it knew is gone.
    pub(crate) fn forgets(&self) {
        let inner = &mut *self.inner.lock();
        (inner.ledgers, inner.register) = Default::default();
    }

    pub(crate) fn asks(&self) -> usize {
        self.inner.lock().asks
    }

    fn now(&self) -> Stamp {
        let since = self.clock.wall().duration_since(wall()).unwrap();
        Stamp(EPOCH * 1_000_000 + u64::try_from(since.as_micros()).unwrap())
    }
}

impl Way {
    /// The way there, what is done there, and the way back.
    async fn go<T>(&self, what: impl FnOnce(&mut Inner, Stamp) -> T) -> Result<T, Fault> {
        let fault = self.store.inner.lock().fault.clone();
        match fault {
            Some(fault @ Fault::Slow(after)) => {
                sleep(after).await;
                return Err(fault);
            }
            Some(fault) => return Err(fault),
            None => {}
        }
        sleep(AWAY / 2).await;
        let done = what(&mut self.store.inner.lock(), self.store.now());
        sleep(AWAY / 2).await;
        Ok(done)
    }
}

impl Way {
    /// Whether the part is there that has a lane's ledger.
    fn has(&self, lane: &str) -> Result<(), Fault> {
        let lost = self.store.inner.lock().lost.clone();
        match lost.as_deref() == Some(lane) {
            true => Err(Fault::Refused("CLUSTERDOWN".to_owned())),
            false => Ok(()),
        }
    }
}

impl Ledgers for Way {
    fn ask<'a>(&'a self, lane: &'a str, ask: &'a Ask) -> Answer<'a, Leased> {
        Box::pin(async move {
            self.has(lane)?;
            self.go(move |inner, now| {
                inner.asks += 1;
                inner.ledgers.entry(lane.to_owned()).or_default().ask(&self.instance, ask, now)
            })
            .await
        })
    }

    fn is_in_parts(&self) -> bool {
        self.store.is_in_parts
    }

    fn hold<'a>(&'a self, lane: &'a str, told: &'a TellHold) -> Answer<'a, ()> {
        Box::pin(async move {
            let listeners = self
                .go(|inner, now| {
                    inner.ledgers.entry(lane.to_owned()).or_default().tell(told, now);
                    inner.listeners.clone()
                })
                .await?;
            for (_, hear) in listeners.iter().filter(|(instance, _)| *instance != self.instance) {
                hear(lane.to_owned(), told.news);
            }
            Ok(())
        })
    }

    fn beat(&self, known: u32) -> Answer<'_, Members> {
        Box::pin(self.go(move |inner, now| {
            inner.beats += 1;
            inner.register.beat_knowing(known, &self.instance, GRACE, now)
        }))
    }

    fn leave(&self) -> Answer<'_, ()> {
        Box::pin(self.go(move |inner, _| inner.register.leave(&self.instance)))
    }

    fn probe<'a>(&'a self, lane: &'a str, _: &'a Ask) -> Answer<'a, ()> {
        Box::pin(async move {
            self.has(lane)?;
            self.go(|_, _| ()).await
        })
    }

    fn listen(&self, hear: Hear) -> Pin<Box<dyn Future<Output = Fault> + Send + '_>> {
        Box::pin(async move {
            let hear: Hear = hear;
            self.store.inner.lock().listeners.push((self.instance.clone(), hear));
            std::future::pending().await
        })
    }
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Way({})", self.instance)
    }
}
