//! The workers: a thread and a runtime each, to which connections are dealt in turn.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;

use anyhow::Context as _;
use tokio::sync::mpsc::{self, UnboundedSender, WeakUnboundedSender};

use super::connection::{self, Accepted};

enum Job {
    Connection(Accepted),
    Task(Pin<Box<dyn Future<Output = ()> + Send>>),
}

pub(super) struct Workers {
    all: Vec<Worker>,
    next: AtomicUsize,
}

struct Worker {
    jobs: UnboundedSender<Job>,
    thread: JoinHandle<()>,
}

/// Asks workers for a sign of life, without keeping them alive.
pub(super) struct Pulse(Vec<WeakUnboundedSender<Job>>);

/// Tasks that a worker polls before it looks at its sockets and timers again. Lower than tokio's 61, so that a turn that
/// has come due does not wait behind so many busy connections.
const EVENT_INTERVAL: u32 = 16;

impl Workers {
    pub(super) fn start(count: usize) -> anyhow::Result<Self> {
        let all = (0..count).map(start_one).collect::<anyhow::Result<_>>()?;
        Ok(Self { all, next: AtomicUsize::new(0) })
    }

    /// Runs a future on one of them.
    pub(super) fn spawn(&self, worker: usize, task: impl Future<Output = ()> + Send + 'static) {
        self.send(worker, Job::Task(Box::pin(task)));
    }

    /// Hands a connection to the next one.
    pub(super) fn hand(&self, accepted: Accepted) {
        self.send(self.next.fetch_add(1, Relaxed) % self.all.len(), Job::Connection(accepted));
    }

    pub(super) fn pulse(&self) -> Pulse {
        Pulse(self.all.iter().map(|worker| worker.jobs.downgrade()).collect())
    }

    /// Ends them. What they still serve is cut off, and is told of like everything that ends, so this waits until they have
    /// ended; no job takes long to drop.
    pub(super) fn stop(self) {
        let threads: Vec<_> = self.all.into_iter().map(|worker| worker.thread).collect();
        for thread in threads {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }

    fn send(&self, worker: usize, job: Job) {
        // A worker ends only when it is stopped. The channel is as long as the connections are many, which
        // `max_connections` bounds.
        let _ = self.all[worker].jobs.send(job);
    }
}

impl Pulse {
    /// Whether all of them have done something since; no once they are stopped. A worker that is stuck keeps the answer back.
    pub(super) async fn felt(&self) -> bool {
        let (sign, mut signs) = mpsc::unbounded_channel();
        for jobs in &self.0 {
            let Some(jobs) = jobs.upgrade() else { return false };
            let sign = sign.clone();
            let beat = async move {
                // Nobody waits any more where another worker has ended.
                let _ = sign.send(());
            };
            let _ = jobs.send(Job::Task(Box::pin(beat)));
        }
        drop(sign);
        for _ in &self.0 {
            if signs.recv().await.is_none() {
                return false;
            }
        }
        true
    }
}

fn start_one(number: usize) -> anyhow::Result<Worker> {
    let (sender, mut jobs) = mpsc::unbounded_channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .event_interval(EVENT_INTERVAL)
        .build()
        .context("no runtime for a worker")?;
    let work = async move {
        while let Some(job) = jobs.recv().await {
            match job {
                Job::Connection(accepted) => tokio::spawn(connection::serve(accepted)),
                Job::Task(task) => tokio::spawn(task),
            };
        }
    };
    let serve = move || {
        runtime.block_on(work);
        // A name that is still being looked up must not keep the program.
        runtime.shutdown_background();
    };
    let thread = std::thread::Builder::new().name(format!("worker-{number}")).spawn(serve);
    Ok(Worker { jobs: sender, thread: thread.context("a worker's thread cannot be started")? })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn one_worker_that_is_stuck_keeps_the_sign_of_life_back() {
        let workers = Workers::start(2).unwrap();
        let pulse = workers.pulse();
        assert!(pulse.felt().await);
        let (go_on, stuck) = std::sync::mpsc::channel::<()>();
        workers.spawn(1, async move { assert!(stuck.recv().is_err()) });
        let mut felt = Box::pin(pulse.felt());
        assert!(tokio::time::timeout(Duration::from_millis(100), &mut felt).await.is_err());
        drop(go_on);
        assert!(felt.await);
        workers.stop();
        assert!(!pulse.felt().await);
    }
}
