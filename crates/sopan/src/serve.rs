//! The proxy's door: takes connections, hands them to the workers, and closes in order.
//!
//! One thread accepts, listens to signals and serves the admin port. Each worker is a thread with a runtime of its own, so
//! that a request stays on one core; accepted sockets are dealt to the workers in turn, since hashing them by address can
//! put a few long-lived connections on one core. What all workers share, lanes and connections to the upstream, is shared
//! by the engine.

mod answer;
mod client;
mod connection;
mod drain;
mod gate;
mod inbox;
mod io;
mod phase;
mod tunnel;
mod wire;
mod workers;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sopan_core::time::Instant;
use sopan_engine::clock::Clock;
use sopan_engine::{StateFile, Surroundings, Upstream};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;

use crate::log::Counted;
use crate::{admin, config};
use connection::Door;
use drain::{Drain, Signals};
use workers::Workers;

/// Connections that the kernel may hold for us before they are accepted.
const BACKLOG: u32 = 4096;
/// When no connection can be accepted, the next attempt comes after this.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Runs the proxy until it is told to end, and has drained.
///
/// # Errors
/// A port cannot be listened on, or the upstream cannot be set up; nothing was started then.
pub(crate) fn run(settings: config::Serve, metrics: Arc<admin::Metrics>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(serve(settings, metrics))
}

async fn serve(mut settings: config::Serve, metrics: Arc<admin::Metrics>) -> anyhow::Result<()> {
    let mut signals = Signals::new().context("signals cannot be listened to")?;
    raise_open_files();
    let listener = bind(settings.listen, "--listen")?;
    let admin = settings.admin.map(|address| bind(address, "--admin")).transpose();
    // Most never typed it, and would look for the port that they did type.
    let admin = admin.map_err(|error| anyhow!("{error:#}; choose another with --admin, or --admin off"))?;
    settings.admin = admin.as_ref().map(TcpListener::local_addr).transpose()?;
    let clock = Clock::system();
    let mut state = settings.state.as_deref().map(|path| StateFile::open(path, clock)).transpose()?;
    let known = state.as_ref().map(|state| state.upstream(&settings.upstream.target.to_string()));
    let around = Surroundings { clock, observer: Arc::clone(&metrics) as _, state: known, ..Surroundings::default() };
    let (upstream, background) = Upstream::start(settings.upstream.clone(), around)?;
    state.as_mut().map_or(Ok(()), StateFile::begin)?;
    metrics.watch(Arc::downgrade(&upstream), settings.limits());

    let workers = Workers::start(settings.workers)?;
    workers.spawn(0, background);
    let drain = Arc::<Drain>::default();
    let at_once: Vec<_> = upstream.snapshot().fills.iter().map(|fill| fill.capacity as u64).collect();
    let door = Arc::new(Door::new(&settings, Arc::clone(&upstream), clock, Arc::clone(&drain)));
    tell(&settings.in_force(listener.local_addr()?, &at_once));
    if let Some(admin) = admin {
        let end = drain.over();
        tokio::spawn(admin::serve(admin, metrics, end));
    }

    let places = Arc::new(Semaphore::new(settings.max_connections));
    tokio::select! {
        () = accept(&listener, &workers, &door, &places) => {}
        () = signals.next() => {}
    }
    accept_rest(listener, &workers, &door, &places);
    // The listener is closed; new connections are refused from here on.
    drain.run(settings.drain, &places, settings.max_connections, signals).await;
    workers.stop();
    upstream.close();
    // Here the state goes to the disk.
    drop(state);
    Ok(())
}

/// Lets as many files be open as the system allows: what a login allows at first (1,024, on most) is less than
/// `max_connections`. Where even that is too few, those that cannot be accepted are told of.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // Refused only if it were above what is allowed.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// The first line of the log.
fn tell(in_force: &config::InForce<'_>) {
    let config::InForce { listen, upstream, limits, max_in_flight, .. } = in_force;
    let config::InForce { waiting_max, wait_max, max_retries, breaker, admin, .. } = in_force;
    tracing::info!(
        listen,
        %upstream,
        limits,
        max_in_flight,
        waiting_max,
        wait_max,
        max_retries,
        breaker,
        admin,
        "{in_force}"
    );
}

fn bind(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    socket
        .and_then(|socket| {
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(BACKLOG)
        })
        .with_context(|| format!("{flag}: `{address}` cannot be listened on"))
}

/// Accepts for ever. With `max_connections` open, the next ones wait in the kernel until one closes.
async fn accept(listener: &TcpListener, workers: &Workers, door: &Arc<Door>, places: &Arc<Semaphore>) {
    let mut trouble = Trouble::default();
    loop {
        let Ok(place) = Arc::clone(places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                if let Some(failed) = trouble.over() {
                    tracing::info!(failed, "connections are accepted again, after {}", Counted(failed, "failure"));
                }
                // Taken off this thread's reactor, to be put on the worker's.
                if let Ok(stream) = stream.into_std() {
                    workers.hand(connection::Accepted { stream, peer, place, door: Arc::clone(door) });
                }
            }
            Err(error) => {
                // Out of descriptors, or the client has gone already: neither is a reason to end, or to spin.
                if let Some(failed) = trouble.again(door.now()) {
                    let so_far = Counted(failed, "failure");
                    tracing::warn!(%error, failed, "a connection could not be accepted: {error} ({so_far} so far)");
                }
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

/// Connections that could not be accepted; decides when that is worth a line. With few descriptors left failures and
/// successes take turns, so success alone does not make the next failure news.
#[derive(Debug, Default)]
struct Trouble {
    failed: u64,
    /// When a failure was last told, if ever.
    told: Option<Instant>,
    /// Whether the end of it is still to be told.
    lasts: bool,
}

impl Trouble {
    /// The least time between two lines: descriptors can be out for hours.
    const TELL_AGAIN: Duration = Duration::from_secs(10);

    /// One more; how many there are by now, if that is to be told.
    fn again(&mut self, now: Instant) -> Option<u64> {
        self.failed += 1;
        if self.told.is_some_and(|told| now < told.after(Self::TELL_AGAIN)) {
            return None;
        }
        (self.told, self.lasts) = (Some(now), true);
        Some(self.failed)
    }

    /// One was accepted; how many were not, if that was told.
    fn over(&mut self) -> Option<u64> {
        std::mem::take(&mut self.lasts).then(|| std::mem::take(&mut self.failed))
    }
}

/// Accepts who has connected already, and may have sent a request: the kernel would reset them with the listener.
fn accept_rest(listener: TcpListener, workers: &Workers, door: &Arc<Door>, places: &Arc<Semaphore>) {
    let Ok(listener) = listener.into_std() else { return };
    while let Ok(place) = Arc::clone(places).try_acquire_owned()
        && let Ok((stream, peer)) = listener.accept()
    {
        if stream.set_nonblocking(true).is_ok() {
            workers.hand(connection::Accepted { stream, peer, place, door: Arc::clone(door) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_told_at_first_then_every_ten_seconds_and_when_it_is_over() {
        let mut trouble = Trouble::default();
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        assert_eq!(trouble.over(), None);
        for (ms, told) in [(0, Some(1)), (50, None), (9_999, None), (10_000, Some(4)), (10_050, None)] {
            assert_eq!(trouble.again(at(ms)), told, "{ms} ms");
        }
        assert_eq!((trouble.over(), trouble.over()), (Some(5), None));
        // Another failure soon after is the same trouble.
        assert_eq!((trouble.again(at(10_100)), trouble.over()), (None, None));
        assert_eq!((trouble.again(at(20_000)), trouble.over()), (Some(2), Some(2)));
    }
}
