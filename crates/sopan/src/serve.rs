//! The proxy's door: takes connections, hands them to the workers, and closes in order.
//!
//! One thread accepts, listens to signals and serves the admin port. Each worker is a thread with a runtime of its own, so
//! that a request stays on one core; accepted sockets are dealt to the workers in turn, since hashing them by address can
//! put a few long-lived connections on one core. What all workers share, lanes and connections to the upstream, is shared
//! by the engine.

mod client;
mod connection;
mod drain;
mod io;
mod phase;
mod workers;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use sopan_engine::clock::Clock;
use sopan_engine::{Surroundings, Upstream};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;

use crate::{admin, config};
use connection::Door;
use drain::{Drain, Signals};
use workers::Workers;

/// Connections that the kernel may hold for us before they are accepted.
const BACKLOG: u32 = 4096;

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
    let listener = bind(settings.listen, "--listen")?;
    let admin = settings.admin.map(|address| bind(address, "--admin")).transpose()?;
    settings.admin = admin.as_ref().map(TcpListener::local_addr).transpose()?;
    let clock = Clock::system();
    let around = Surroundings { clock, observer: Arc::clone(&metrics) as _, ..Surroundings::default() };
    let (upstream, background) = Upstream::start(settings.upstream.clone(), around)?;
    metrics.watch(Arc::downgrade(&upstream), settings.limits());

    let workers = Workers::start(settings.workers)?;
    workers.spawn(0, background);
    let drain = Arc::<Drain>::default();
    let door = Arc::new(Door::new(&settings, upstream, clock, Arc::clone(&drain)));
    tracing::info!("{}", settings.summary(listener.local_addr()?));
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
    Ok(())
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
    loop {
        let Ok(place) = Arc::clone(places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Taken off this thread's reactor, to be put on the worker's.
                if let Ok(stream) = stream.into_std() {
                    workers.hand(connection::Accepted { stream, peer, place, door: Arc::clone(door) });
                }
            }
            Err(error) => {
                // Out of descriptors, or the client has gone already: neither is a reason to end, or to spin.
                tracing::warn!(%error, "a connection could not be accepted: {error}");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
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
