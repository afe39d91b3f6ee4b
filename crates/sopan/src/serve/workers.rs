//! The workers: a thread and a runtime each, to which connections are dealt in turn.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;

use anyhow::Context as _;
use tokio::sync::mpsc;

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
    jobs: mpsc::UnboundedSender<Job>,
    thread: JoinHandle<()>,
}

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
