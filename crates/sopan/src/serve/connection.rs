//! One client's connection: its requests, one after the other, and the ends that it can come to.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use http::request::Parts;
use parking_lot::Mutex;
use sopan_core::safety::Hosts;
use sopan_core::time::Instant;
use sopan_engine::Upstream;
use sopan_engine::clock::{Clock, Watchdog};
use sopan_engine::exchange::Nowhere;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::coop::unconstrained;

use super::auth::Auth;
use super::client::{Clients, Connected};
use super::drain::Drain;
use super::inbox::Inbox;
use super::io::Socket;
use super::phase::{Phase, Timeouts};
use super::route::Routes;
use super::tunnel::pass_through;
use super::wire::{End, Wire};
use crate::config::{self, ClientBy};

/// How long a client that is still sending has to read its answer.
const LINGER_MAX: Duration = Duration::from_secs(2);

/// What all connections of a listener share.
#[derive(Debug)]
pub(super) struct Door {
    routes: Routes,
    upstreams: Vec<Behind>,
    nowhere: Nowhere,
    clients: Arc<Clients>,
    /// Where clients have keys.
    auth: Option<Auth>,
    hosts: Hosts,
    timeouts: Timeouts,
    clock: Clock,
    drain: Arc<Drain>,
    connections: AtomicU64,
}

/// An upstream behind a door.
#[derive(Debug)]
pub(super) struct Behind {
    /// Its number in the settings.
    pub(super) number: usize,
    pub(super) upstream: Arc<Upstream>,
    pub(super) client_by: ClientBy,
}

impl Door {
    /// `upstreams` in the order of the settings.
    pub(super) fn new(
        settings: &config::Serve,
        upstreams: Vec<Arc<Upstream>>,
        clients: Arc<Clients>,
        nowhere: Nowhere,
        clock: Clock,
        drain: Arc<Drain>,
    ) -> Self {
        let routes = Routes::new(settings.upstreams.iter().map(|served| &served.route));
        let by = settings.upstreams.iter().map(|served| served.client_by.clone());
        let behind = |(number, (upstream, client_by))| Behind { number, upstream, client_by };
        let upstreams = upstreams.into_iter().zip(by).enumerate().map(behind);
        let timeouts = Timeouts { header: settings.header_timeout, idle: settings.idle_timeout };
        Self {
            hosts: let_in(&settings.hosts, &routes),
            routes,
            upstreams: upstreams.collect(),
            nowhere,
            clients,
            auth: settings.clients.as_ref().map(Auth::new),
            timeouts,
            clock,
            drain,
            connections: AtomicU64::new(0),
        }
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

    /// A new connection, as far as it decides whose its requests are.
    pub(super) fn connected(&self, peer: SocketAddr) -> Connected {
        self.clients.connected(peer, self.connections.fetch_add(1, Relaxed))
    }

    pub(super) fn auth(&self) -> Option<&Auth> {
        self.auth.as_ref()
    }

    pub(super) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// The upstream that takes a request; none if none does.
    pub(super) fn route(&self, request: &Parts) -> Option<&Behind> {
        self.upstreams.get(self.routes.find(request)?)
    }

    pub(super) fn nowhere(&self) -> &Nowhere {
        &self.nowhere
    }
}

/// Whoever is asked for by the name of a route may be asked by it. Where any name will do, and none was given, it still does.
fn let_in(hosts: &Hosts, routes: &Routes) -> Hosts {
    let takes_any = hosts.is_open && hosts.names.is_empty();
    let routes = routes.hosts().filter(|_| !takes_any);
    Hosts { names: hosts.names.iter().chain(routes).cloned().collect(), ..*hosts }
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

#[cfg(test)]
mod tests {
    use sopan_core::safety::HostName;

    use super::*;
    use crate::config::Route;

    #[test]
    fn by_the_names_of_routes_requests_are_let_in_and_nobody_is_kept_out() {
        let name = |name| HostName::parse(name).unwrap();
        let routes = Routes::new(&[Route::Any, Route::Host(name("shop.test"))]);
        let (app, shop) = (|| name("app.test"), || name("shop.test"));
        for (names, is_open, expected) in [
            (vec![], false, vec![shop()]),
            (vec![app()], false, vec![app(), shop()]),
            (vec![app()], true, vec![app(), shop()]),
            // Any host will do, which a name would change.
            (vec![], true, vec![]),
        ] {
            let hosts = let_in(&Hosts { names, is_open }, &routes);
            assert_eq!(hosts, Hosts { names: expected, is_open });
        }
    }
}
