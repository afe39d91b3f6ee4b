//! The proxy's door: takes connections, hands them to the workers, and closes in order.
//!
//! One thread accepts, listens to signals and serves the admin port. Each worker is a thread with a runtime of its own, so
//! that a request stays on one core; accepted sockets are dealt to the workers in turn, since hashing them by address can
//! put a few long-lived connections on one core. What all workers share, lanes and connections to the upstream, is shared
//! by the engine.

mod answer;
mod auth;
mod client;
mod connection;
mod drain;
mod gate;
mod in_force;
mod inbox;
mod io;
mod lag;
mod manager;
mod phase;
mod route;
mod tunnel;
mod wire;
mod workers;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, anyhow};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value as Json;
use sopan_core::policy::ClientLimits;
use sopan_core::time::Instant;
use sopan_engine::clock::Clock;
use sopan_engine::exchange::Nowhere;
use sopan_engine::jitter::Jitter;
use sopan_engine::shared::{Shared, SharedSettings};
use sopan_engine::{Cache, CacheSettings, DiskSettings, DiskUsage, Settings, StateFile, Surroundings, Upstream};
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, mpsc};

use crate::log::Counted;
use crate::sockets::Sockets;
use crate::traces::Traces;
use crate::{admin, config, version};
pub(crate) use client::Clients;
pub(crate) use client::number_of;
#[cfg(test)]
pub(crate) use client::of_key;
use connection::Door;
pub(crate) use drain::Drain;
use drain::Signals;
use in_force::{InForce, in_order};
pub(crate) use lag::Lag;
use manager::Manager;
pub(crate) use route::Routes;
use workers::Workers;

/// Connections that the kernel may hold for us before they are accepted.
const BACKLOG: u32 = 4096;
/// When no connection can be accepted, the next attempt comes after this.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Whoever started it.
struct Parent {
    /// Says when to end.
    signals: Signals,
    /// Has listened already.
    sockets: Sockets,
    /// Wants to know how it goes.
    manager: Manager,
}

/// Runs the proxy until it is told to end, and has drained. `told` is what the admin side says of the settings, and `sockets`
/// are listened on in place of what they say.
///
/// # Errors
/// A port cannot be listened on, or an upstream cannot be set up; nothing was started then.
pub(crate) fn run(
    settings: config::Serve,
    told: Json,
    metrics: Arc<admin::Metrics>,
    sockets: Sockets,
) -> anyhow::Result<()> {
    block_on(async {
        let signals = Signals::of_process().context("signals cannot be listened to")?;
        let parent = Parent { signals, sockets, manager: Manager::of_process() };
        serve(settings, told, metrics, parent, |_| ()).await
    })
}

/// The same within another command, which is told where it listens, and ends it by dropping the other end of `owner`; what
/// is under way is cut off then.
///
/// # Errors
/// As above; `listening` is not called then.
pub(crate) fn run_within(
    settings: config::Serve,
    metrics: Arc<admin::Metrics>,
    owner: mpsc::Receiver<Infallible>,
    listening: impl FnOnce(SocketAddr),
) -> anyhow::Result<()> {
    let parent = Parent { signals: Signals::Owner(owner), sockets: Sockets::default(), manager: Manager::default() };
    block_on(serve(settings, Json::Null, metrics, parent, listening))
}

fn block_on(serving: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(serving)
}

async fn serve(
    mut settings: config::Serve,
    told: Json,
    metrics: Arc<admin::Metrics>,
    mut parent: Parent,
    listening: impl FnOnce(SocketAddr),
) -> anyhow::Result<()> {
    for config::Warned { setting, place, line } in &settings.warnings {
        tracing::warn!(setting, place, "{line}");
    }
    raise_open_files();
    outlive_full_files().context("signals cannot be listened to")?;
    let listener = listen("--listen", settings.listen, parent.sockets.proxy.take())?;
    let admin = settings.admin.map(|address| listen("--admin", address, parent.sockets.admin.take())).transpose()?;
    settings.admin = admin.as_ref().map(TcpListener::local_addr).transpose()?;
    let clock = Clock::system();
    let (began, started) = (clock.now(), SystemTime::now());
    // Nobody remembers what nobody can ask for.
    let recent = admin.is_some().then(Arc::<admin::Recent>::default);
    let beside = |observer, upstream| match &recent {
        Some(recent) => recent.beside(observer, upstream),
        None => observer,
    };
    let mut state = settings.state.as_deref().map(|path| StateFile::open(path, clock)).transpose()?;
    let cache = open_cache(&settings)?;
    let trips = admin::Metrics::of_store();
    let shared = share(&settings, clock, &trips)?;
    shared.iter().for_each(|shared| metrics.watch_shared(shared, Arc::clone(&trips)));
    let sampler = settings.traces.as_ref().map(|traces| traces.sampler);
    // Before anything is changed.
    let found = cache.as_ref().and_then(|cache| cache.usage().disk);
    cache.iter().for_each(|cache| metrics.watch_cache(cache));
    let (mut upstreams, mut backgrounds) = (Vec::new(), Vec::new());
    for (number, served) in settings.upstreams.iter().enumerate() {
        // Under the same name there may have been another API.
        let who = format!("{} {}", served.name, served.settings.target);
        let known = state.as_ref().map(|state| state.upstream(&who));
        let observer = beside(metrics.observer(number), Some(number));
        let around = Surroundings {
            clock,
            observer,
            state: known,
            cache: cache.clone(),
            shared: shared.clone(),
            sampler,
            ..Surroundings::default()
        };
        let (upstream, background) = Upstream::start(settings_of(number, &settings), around)
            .with_context(|| format!("upstream `{}` cannot be set up", served.name))?;
        let bounds = admin::Bounds::new(&served.settings.lane, in_order(served));
        metrics.watch(number, Arc::downgrade(&upstream), bounds);
        upstreams.push(upstream);
        backgrounds.push(background);
    }
    state.as_mut().map_or(Ok(()), StateFile::begin)?;
    let traces = settings.traces.as_ref().map(|of| Traces::start(of, &upstreams, metrics.of_traces()));
    let traces = traces.transpose().context("traces cannot be delivered")?;
    traces.iter().for_each(|traces| metrics.trace_to(traces));

    let workers = Workers::start(settings.workers)?;
    for (number, background) in backgrounds.into_iter().enumerate() {
        workers.spawn(number % settings.workers, background);
    }
    if let Some(shared) = &shared {
        // Here and not on a worker, whose connections would keep it waiting.
        tokio::spawn(Arc::clone(shared).serve());
    }
    let drain = Arc::<Drain>::default();
    let address = listener.local_addr()?;
    tell(&settings, address, found, &upstreams);
    listening(address);
    let nowhere = Nowhere::new(clock, beside(metrics.none(), None)).recorded(sampler);
    let clients = Arc::new(Clients::new(&settings));
    let door =
        Arc::new(Door::new(&settings, upstreams.clone(), Arc::clone(&clients), nowhere, clock, Arc::clone(&drain)));
    let places = Arc::new(Semaphore::new(settings.max_connections));
    if let (Some(admin), Some(recent)) = (admin, recent) {
        let lag = watch_lag(clock, &workers, settings.workers);
        let (places, max_connections) = (Arc::clone(&places), settings.max_connections);
        metrics.watch_program(admin::Program { places: Arc::clone(&places), max_connections, lag, started });
        let scene = admin::Scene {
            gate: admin::Gate::new(&settings.hosts.names, settings.admin_token.take()),
            metrics,
            recent,
            clients,
            upstreams: settings.upstreams.iter().zip(&upstreams).map(behind).collect(),
            routes: Routes::new(settings.upstreams.iter().map(|served| &served.route)),
            cache: cache.clone(),
            shared: shared.clone(),
            places,
            max_connections,
            drain: Arc::clone(&drain),
            settings: told,
            clock,
            began,
            started,
        };
        tokio::spawn(admin::serve(admin, Arc::new(scene), drain.over()));
    }

    parent.manager.serves(&format!("http://{address}")).await;
    tokio::spawn(parent.manager.clone().watch(workers.pulse()));
    tokio::select! {
        () = accept(&listener, &workers, &door, &places) => {}
        () = parent.signals.next() => {}
        () = drain.asked() => {}
    }
    parent.manager.ends(settings.drain).await;
    accept_rest(listener, &workers, &door, &places);
    // The listener is closed; new connections are refused from here on.
    drain.run(settings.drain, &places, settings.max_connections, parent.signals).await;
    workers.stop();
    if let Some(shared) = shared {
        // Nothing is sent any more: what was promised to this one is for the others.
        shared.leave().await;
    }
    if let Some(traces) = traces {
        traces.close().await;
    }
    upstreams.iter().for_each(|upstream| upstream.close());
    cache.iter().for_each(|cache| cache.close());
    // Here the state goes to the disk.
    drop(state);
    Ok(())
}

/// Has all runtimes look how late they are.
fn watch_lag(clock: Clock, workers: &Workers, count: usize) -> Arc<Lag> {
    let lag = Arc::new(Lag::new(clock, count));
    let watch = |runtime| {
        let lag = Arc::clone(&lag);
        async move { lag.watch(runtime).await }
    };
    tokio::spawn(watch(lag::ACCEPTS));
    (0..count).for_each(|worker| workers.spawn(worker, watch(lag::of_worker(worker))));
    lag
}

/// An upstream as the admin side knows it.
fn behind((served, upstream): (&config::Served, &Arc<Upstream>)) -> admin::Behind {
    admin::Behind {
        upstream: Arc::clone(upstream),
        route: served.route.clone(),
        limits: in_order(served).cloned().collect(),
        has_cache: served.settings.cache.as_ref().is_some_and(|policy| policy.on),
    }
}

/// Where answers are stored, if those of any upstream are.
fn open_cache(settings: &config::Serve) -> anyhow::Result<Option<Arc<Cache>>> {
    let is_on = |served: &config::Served| served.settings.cache.as_ref().is_some_and(|policy| policy.on);
    if !settings.upstreams.iter().any(is_on) {
        return Ok(None);
    }
    let config::Store { memory_bytes, disk } = settings.store.clone();
    let disk = disk.map(|(directory, bytes_max)| DiskSettings { directory, bytes_max });
    Ok(Some(Cache::open(&CacheSettings { memory_bytes, disk })?))
}

/// What is shared with other instances, if anything is.
fn share(settings: &config::Serve, clock: Clock, trips: &Arc<admin::Trips>) -> anyhow::Result<Option<Arc<Shared>>> {
    let Some(of) = &settings.shared else { return Ok(None) };
    Ok(Some(Shared::open(of, clock, &Jitter::new(), Arc::clone(trips) as _)?))
}

/// Lets as many files be open as the system allows: what a login allows at first (1,024, on most) is less than
/// `max_connections`. Where even that is too few, those that cannot be accepted are told of.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // Refused only if it were above what is allowed.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// A file that may not grow any more (`ulimit -f`), the state or the log, is an error of that file: the signal that comes with
/// it would end the program.
fn outlive_full_files() -> std::io::Result<()> {
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}

/// The settings of the upstream of this number, and what is known of it at the door: what leads to others, and what clients
/// keep to that may ask it.
fn settings_of(number: usize, all: &config::Serve) -> Settings {
    let served = &all.upstreams[number];
    let (name, mount) = (served.name.clone(), served.route.mount().to_owned());
    let elsewhere = served.route.taken_by(all.upstreams.iter().map(|other| &other.route));
    let mut settings = Settings { name, mount, elsewhere, ..served.settings.clone() };
    let clients = all.clients.iter().flat_map(|clients| &clients.clients).enumerate();
    let limited = clients.filter(|(_, client)| {
        let upstreams = client.access.upstreams.as_ref();
        !client.limits.is_empty() && upstreams.is_none_or(|upstreams| upstreams.contains(&number))
    });
    settings.lane.clients = limited
        .map(|(key, client)| ClientLimits {
            client: client::of_key(key),
            name: client.name.clone(),
            limits: client.limits.clone(),
        })
        .collect();
    settings
}

/// The first lines of the log.
fn tell(settings: &config::Serve, listening: SocketAddr, found: Option<DiskUsage>, upstreams: &[Arc<Upstream>]) {
    let listen = format!("http://{listening}");
    let admin = settings.admin.map_or_else(|| "off".to_owned(), |admin| format!("http://{admin}"));
    let is_cached = settings.upstreams.iter().any(|served| served.settings.cache.is_some());
    let store = is_cached.then(|| settings.store.to_string());
    let cache = store.as_ref().map_or_else(String::new, |store| format!("; cache {store}"));
    let (stored, stored_bytes) = found.map(|found| (found.answers, found.bytes)).unzip();
    let there = found.map_or_else(String::new, |found| {
        format!(", which has {} ({})", Counted(found.answers, "answer"), Counted(found.bytes, "byte"))
    });
    tracing::info!(
        listen,
        admin,
        store,
        stored,
        stored_bytes,
        version = version::short(),
        "listening on {listen}; admin {admin}{cache}{there}"
    );
    if let Some(SharedSettings { redis, prefix, going_alone }) = &settings.shared {
        let (url, kind) = (redis.url.to_string(), redis.url.kind());
        let instances = going_alone.instances;
        let of = instances.map_or_else(String::new, |instances| format!(", up to {instances} of them"));
        tracing::info!(redis = url, kind, prefix, instances, "instances share their limits through {url}{of}");
    }
    if let Some(config::Traces { to, .. }) = &settings.traces {
        let to = format!("{}{}", to.target, to.path);
        tracing::info!(otlp = to, "traces go to {to}");
    }
    for (served, upstream) in settings.upstreams.iter().zip(upstreams) {
        let at_once = upstream.snapshot().fills.into_iter().map(|fill| fill.capacity as u64);
        InForce::new(served, at_once, upstreams.len() == 1).tell();
        tell_of_credential(served);
    }
    if let Some(clients) = &settings.clients {
        tell_of_clients(clients);
    }
}

/// A key that others can read on the way is worth a line of its own, whoever wrote the settings.
fn tell_of_credential(served: &config::Served) {
    let config::Served { name, settings, .. } = served;
    if settings.credential.is_some() && !settings.target.is_confidential() {
        let url = settings.target.to_string();
        tracing::warn!(
            upstream = name,
            url,
            "the credential for {name} goes to {url} over plain http, and whoever is on the way can read it"
        );
    }
}

/// Who may ask. What their keys are good for is told by `check`.
fn tell_of_clients(config::Clients { fields, clients }: &config::Clients) {
    let count = Counted(clients.len() as u64, "client");
    tracing::info!(clients = clients.len(), "requests need a key, which {count} may have, as {fields}");
    for config::Client { name, weight, limits, .. } in clients {
        let limits: Vec<_> = limits.iter().map(ToString::to_string).collect();
        let limits = if limits.is_empty() { "those of the upstream".to_owned() } else { limits.join(", ") };
        tracing::info!(client = name, weight, limits, "client {name}: weight {weight}; limits {limits}");
    }
}

/// On the socket that was handed over, or else on one of our own.
fn listen(flag: &str, address: SocketAddr, handed: Option<std::net::TcpListener>) -> anyhow::Result<TcpListener> {
    let listener = handed.map_or_else(|| bind(address), TcpListener::from_std);
    listener.map_err(|error| cannot_listen(flag, address, &error))
}

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Most never typed the address that is taken, so the flag that changes it is named.
pub(crate) fn cannot_listen(flag: &str, address: SocketAddr, error: &std::io::Error) -> anyhow::Error {
    let or = if flag == "--admin" { ", or --admin off" } else { "" };
    anyhow!("{flag}: `{address}` cannot be listened on: {error}; choose another with {flag}{or}")
}

/// Accepts for ever. With `max_connections` open, the next ones wait in the kernel until one closes.
async fn accept(listener: &TcpListener, workers: &Workers, door: &Arc<Door>, places: &Arc<Semaphore>) {
    let mut trouble = Trouble::default();
    loop {
        // Places are taken nowhere else, so one that is free stays so; and only who has come has one.
        let Ok(free) = places.acquire().await else { return };
        drop(free);
        match listener.accept().await {
            Ok((stream, peer)) => {
                let Ok(place) = Arc::clone(places).try_acquire_owned() else { continue };
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
mod tests;
