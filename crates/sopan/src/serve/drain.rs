//! Ending in order: no new connections, what waits and what is under way finishes, and not for ever.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, Semaphore, mpsc};

use crate::log::Counted;

/// Who says that it is time to end.
pub(super) enum Signals {
    /// Whoever runs the program, by SIGTERM and SIGINT.
    Process { terminate: Signal, interrupt: Signal },
    /// Another command of it, by dropping the other end. That counts as every signal there is.
    Owner(mpsc::Receiver<Infallible>),
}

impl Signals {
    pub(super) fn of_process() -> std::io::Result<Self> {
        let [terminate, interrupt] = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
        Ok(Self::Process { terminate: terminate?, interrupt: interrupt? })
    }

    pub(super) async fn next(&mut self) {
        match self {
            Self::Process { terminate, interrupt } => tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            },
            Self::Owner(owner) => drop(owner.recv().await),
        }
    }
}

/// Tells every connection when draining begins. A connection looks at one flag whenever it runs, and is woken once; a
/// channel that each of them polls would cost every request more than its turn does.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    /// Somebody wants it to begin, who cannot send signals.
    asked: Notify,
    begun: AtomicBool,
    members: Mutex<Members>,
    over: Notify,
}

#[derive(Debug, Default)]
struct Members {
    wakers: HashMap<u64, Waker>,
    next: u64,
}

/// A connection's part in it.
#[derive(Debug)]
pub(super) struct Member {
    drain: Arc<Drain>,
    number: Option<u64>,
    told: bool,
}

impl Drain {
    pub(super) fn member(self: &Arc<Self>) -> Member {
        Member { drain: Arc::clone(self), number: None, told: false }
    }

    /// Has it begin, as a signal does.
    pub(crate) fn ask(&self) {
        self.asked.notify_one();
    }

    /// Ends when somebody has asked for it.
    pub(super) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// Whether nothing new is taken any more.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Ends when draining is over, for what should be there until then.
    pub(super) fn over(self: &Arc<Self>) -> impl Future<Output = ()> + Send + 'static {
        let this = Arc::clone(self);
        async move { this.over.notified().await }
    }

    /// Waits until every connection has closed, the time is over, or a signal comes after the one that began it. Where it was
    /// `asked` for there was none, and the first changes nothing: whoever drains and then stops the service wants no more.
    pub(super) async fn run(
        &self,
        limit: Duration,
        places: &Semaphore,
        max_connections: usize,
        asked: bool,
        mut signals: Signals,
    ) {
        let open = || Counted((max_connections - places.available_permits()) as u64, "connection");
        // The settings keep it far below what does not fit.
        let all = u32::try_from(max_connections).unwrap_or(u32::MAX);
        tracing::info!("draining: {} open; a second signal ends at once", open());
        self.begun.store(true, Ordering::Release);
        let wakers = std::mem::take(&mut self.members.lock().wakers);
        wakers.into_values().for_each(Waker::wake);
        let second = async {
            if asked {
                signals.next().await;
            }
            signals.next().await;
        };
        tokio::select! {
            _ = places.acquire_many(all) => tracing::info!("drained"),
            () = tokio::time::sleep(limit) => {
                tracing::warn!("the time for draining (--drain) is over; cut off: {}", open());
            }
            () = second => tracing::warn!("second signal; cut off: {}", open()),
        }
        self.over.notify_waiters();
    }
}

impl Member {
    /// Whether draining begins now; answers yes once.
    pub(super) fn begins(&mut self, cx: &Context<'_>) -> bool {
        if self.told {
            return false;
        }
        if self.number.is_none() {
            // A task is woken by the same waker all its life.
            let mut members = self.drain.members.lock();
            let number = members.next;
            members.next += 1;
            members.wakers.insert(number, cx.waker().clone());
            self.number = Some(number);
        }
        self.told = self.drain.begun.load(Ordering::Acquire);
        self.told
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.drain.members.lock().wakers.remove(&number);
        }
    }
}
