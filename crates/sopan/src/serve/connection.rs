//! One client's connection: its requests, one after the other, and the ends that it can come to.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use sopan_core::queue::ClientId;
use sopan_core::safety::Hosts;
use sopan_core::time::Instant;
use sopan_engine::Upstream;
use sopan_engine::clock::{Clock, Watchdog};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::coop::unconstrained;

use super::client::Clients;
use super::drain::Drain;
use super::inbox::Inbox;
use super::io::Socket;
use super::phase::{Phase, Timeouts};
use super::tunnel::pass_through;
use super::wire::{End, Wire};
use crate::config;

/// How long a client that is still sending has to read its answer.
const LINGER_MAX: Duration = Duration::from_secs(2);

/// What all connections of a listener share.
#[derive(Debug)]
pub(super) struct Door {
    upstream: Arc<Upstream>,
    clients: Clients,
    hosts: Hosts,
    timeouts: Timeouts,
    clock: Clock,
    drain: Arc<Drain>,
    connections: AtomicU64,
}

impl Door {
    pub(super) fn new(settings: &config::Serve, upstream: Arc<Upstream>, clock: Clock, drain: Arc<Drain>) -> Self {
        let clients = Clients::new(settings.upstreams[0].client_by.clone());
        let timeouts = Timeouts { header: settings.header_timeout, idle: settings.idle_timeout };
        let hosts = settings.hosts.clone();
        Self { upstream, clients, hosts, timeouts, clock, drain, connections: AtomicU64::new(0) }
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(super) fn wall(&self) -> SystemTime {
        self.clock.wall()
    }

    pub(super) fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Whose a new connection is, as far as that decides whose its requests are.
    pub(super) fn client_of(&self, peer: SocketAddr) -> ClientId {
        self.clients.of_connection(peer, self.connections.fetch_add(1, Relaxed))
    }

    pub(super) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    pub(super) fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }
}

/// A connection on its way to a worker.
pub(super) struct Accepted {
    pub(super) stream: std::net::TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) place: OwnedSemaphorePermit,
    pub(super) door: Arc<Door>,
}

/// Serves a connection until either side ends it.
pub(super) async fn serve(accepted: Accepted) {
    let Accepted { stream, peer, place, door } = accepted;
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    // Without it an answer in two pieces could wait for the client's acknowledgement; a socket that refuses it is broken.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let socket = Arc::new(Socket::new(stream, Phase::new(door.clock)));
    let inbox = Arc::new(Mutex::new(Inbox::new(Arc::clone(&socket))));
    match requests(&door, &socket, &inbox, peer).await {
        End::Closed => {}
        End::Lingers => linger(&socket, &inbox).await,
        End::Switched(tunnel) => {
            Box::pin(pass_through(&socket, &inbox, tunnel, (door.clock, door.timeouts.idle))).await
        }
    }
    drop(place);
}

/// Serves the requests of a connection, until it ends, its client is given up, or it has drained.
async fn requests(door: &Arc<Door>, socket: &Arc<Socket>, inbox: &Arc<Mutex<Inbox>>, peer: SocketAddr) -> End {
    let mut wire = pin!(Wire::new(door, socket, Arc::clone(inbox), peer).run());
    // Both are asked after the requests, which may have used up the share of time of this task; they would say "pending".
    let mut gone = pin!(unconstrained(socket.gone()));
    let mut watchdog = Watchdog::default();
    let mut is_given_up = |cx: &mut Context<'_>| {
        let deadline = socket.phase.deadline(door.timeouts);
        let late = unconstrained(poll_fn(|cx| watchdog.poll(door.clock, deadline, cx)));
        gone.as_mut().poll(cx).is_ready() || pin!(late).poll(cx).is_ready()
    };
    let mut drain = door.drain.member();
    let mut drains = false;
    poll_fn(|cx| {
        loop {
            if let Poll::Ready(end) = wire.as_mut().poll(cx) {
                return Poll::Ready(end);
            }
            if is_given_up(cx) {
                return Poll::Ready(End::Closed);
            }
            drains |= drain.begins(cx);
            if !drains || socket.is_closing() {
                return Poll::Pending;
            }
            // A request that has come already is read, and not thrown away with its connection. This task may only not
            // have been told of it yet, so others have a turn, the reactor among them, and it looks again.
            if socket.phase.is_waiting() && socket.has_unread() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            socket.close_soon();
            if socket.phase.is_waiting() && inbox.lock().is_empty() {
                return Poll::Ready(End::Closed);
            }
        }
    })
    .await
}

/// Ends a connection whose client may still be sending: closed at once, the kernel would throw away the answer too.
async fn linger(socket: &Socket, inbox: &Mutex<Inbox>) {
    if socket.end_writing().is_ok() {
        let _ = tokio::time::timeout(LINGER_MAX, poll_fn(|cx| inbox.lock().poll_rest(cx))).await;
    }
}
