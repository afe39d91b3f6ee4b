//! Traces: what becomes of which exchange, told span by span to whoever draws that (OTLP over HTTP).
//!
//! Who serves an exchange only copies what there is to tell ([`Record`]) into a queue with a bound. A thread of its own makes
//! spans of that ([`spans`]), writes them down as collectors read them ([`otlp`]) and delivers them. What finds no room, or
//! nobody who takes it, is lost and counted; nobody waits for it. Which exchanges are recorded is decided in
//! `sopan_core::trace`, and what happened in them is the engine's to say.

mod deliver;
mod otlp;
mod record;
mod spans;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use sopan_engine::event::Event;
use sopan_engine::{SetupError, Upstream};
use tokio::sync::{Notify, watch};

use crate::config;
use deliver::Delivery;
use record::Record;

/// Exchanges that wait to be delivered; one holds some 500 bytes, and with the longest target and story 5 KiB.
const WAITING_MAX: usize = 2048;
/// So many are delivered at once.
const BATCH_MAX: usize = 512;
/// How long those that come wait for others.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the end waits for what is still to be delivered.
const END_MAX: Duration = Duration::from_secs(5);

/// Takes exchanges that are recorded.
#[derive(Debug, Clone)]
pub(crate) struct Traces(Arc<Shared>);

struct Shared {
    waiting: Mutex<Vec<Record>>,
    /// There are many, or it is time to end.
    bell: Notify,
    ends: watch::Sender<bool>,
    ended: watch::Sender<bool>,
    counts: Counts,
}

/// Spans, by what became of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    pub(crate) sent: Counter,
    pub(crate) lost: Counter,
}

impl Traces {
    /// Delivers from now on what it is told.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub(crate) fn start(
        settings: &config::Traces,
        upstreams: &[Arc<Upstream>],
        counts: Counts,
    ) -> Result<Self, SetupError> {
        let shared = Shared {
            waiting: Mutex::default(),
            bell: Notify::new(),
            ends: watch::Sender::new(false),
            ended: watch::Sender::new(false),
            counts,
        };
        let traces = Self(Arc::new(shared));
        let delivery = Delivery::new(settings, upstreams)?;
        traces
            .begin(delivery)
            .map_err(|error| SetupError::Policy(vec![format!("no thread can be started: {error}")]))?;
        Ok(traces)
    }

    fn begin(&self, delivery: Delivery) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let traces = self.clone();
        let deliver = move || {
            runtime.block_on(traces.deliver(delivery));
            traces.0.ended.send_replace(true);
            runtime.shutdown_background();
        };
        std::thread::Builder::new().name("sopan-traces".to_owned()).spawn(deliver).map(drop)
    }

    /// An exchange with this upstream has ended.
    pub(crate) fn tell(&self, upstream: &Arc<str>, event: &Event<'_>) {
        let Some(record) = Record::of(upstream, event) else { return };
        let mut waiting = self.0.waiting.lock();
        if waiting.len() >= WAITING_MAX {
            drop(waiting);
            self.0.counts.lost.inc_by(record.spans());
            return;
        }
        waiting.push(record);
        let is_batch = waiting.len() == BATCH_MAX;
        drop(waiting);
        if is_batch {
            self.0.bell.notify_one();
        }
    }

    /// Delivers what still waits, for some seconds at most. What is told after that is lost.
    pub(crate) async fn close(&self) {
        let mut ended = self.0.ended.subscribe();
        self.0.ends.send_replace(true);
        self.0.bell.notify_one();
        let has_ended = tokio::time::timeout(END_MAX, ended.wait_for(|has_ended| *has_ended)).await.is_ok();
        let left = std::mem::take(&mut *self.0.waiting.lock());
        if !has_ended || !left.is_empty() {
            let seconds = END_MAX.as_secs();
            tracing::warn!(
                seconds,
                "not all traces could be delivered within {seconds} s of the end; the rest is lost"
            );
        }
    }

    async fn deliver(&self, mut delivery: Delivery) {
        let background = delivery.background();
        let deliver = async {
            loop {
                let _ = tokio::time::timeout(PAUSE, self.0.bell.notified()).await;
                // Asked before what waits is taken, so that nothing which was told before the end is left.
                let ends = *self.0.ends.borrow();
                loop {
                    let batch = self.batch();
                    if batch.is_empty() {
                        break;
                    }
                    delivery.deliver(&batch, &self.0.counts).await;
                }
                if ends {
                    return;
                }
            }
        };
        tokio::select! {
            () = deliver => {}
            () = background => {}
        }
    }

    fn batch(&self) -> Vec<Record> {
        let mut waiting = self.0.waiting.lock();
        let count = waiting.len().min(BATCH_MAX);
        waiting.drain(..count).collect()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Traces({} wait)", self.waiting.lock().len())
    }
}
