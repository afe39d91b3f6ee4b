//! One client's connection: its requests, one after the other, and the ends that it can come to.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sopan_core::queue::ClientId;
use sopan_core::time::Instant;
use sopan_engine::Upstream;
use sopan_engine::body::Source;
use sopan_engine::clock::{Clock, Watchdog};
use sopan_engine::exchange::{self, AnswerBody, AnswerError, Inbound};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::coop::unconstrained;

use super::client::Clients;
use super::drain::Drain;
use super::io::{self, ClientIo};
use super::phase::{Phase, Timeouts};
use crate::config;

/// The largest head of a request, and the most of a body that is read at once.
const BUFFER_MAX: usize = 64 * 1024;

/// What all connections of a listener share.
#[derive(Debug)]
pub(super) struct Door {
    upstream: Arc<Upstream>,
    clients: Clients,
    timeouts: Timeouts,
    clock: Clock,
    drain: Arc<Drain>,
    connections: AtomicU64,
}

impl Door {
    pub(super) fn new(settings: &config::Serve, upstream: Arc<Upstream>, clock: Clock, drain: Arc<Drain>) -> Self {
        let clients = Clients::new(settings.client_by.clone());
        let timeouts = Timeouts { header: settings.header_timeout, idle: settings.idle_timeout };
        Self { upstream, clients, timeouts, clock, drain, connections: AtomicU64::new(0) }
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
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
    let (stream, phase) = (Arc::new(stream), Arc::new(Phase::new(door.clock)));
    let number = door.connections.fetch_add(1, Relaxed);
    let client = door.clients.of_connection(peer, number);
    let service = service_fn(|request| request_of(&door, &phase, client, request));
    let io = TokioIo::new(ClientIo::new(Arc::clone(&stream), Arc::clone(&phase)));
    let mut connection = pin!(http1::Builder::new().max_buf_size(BUFFER_MAX).serve_connection(io, service));
    // Both are asked after the connection, which may have used up the share of time of this task; they would say "pending".
    let mut gone = pin!(unconstrained(io::gone(&stream)));
    let mut watchdog = Watchdog::default();
    let mut is_given_up = |cx: &mut Context<'_>| {
        let late = unconstrained(poll_fn(|cx| watchdog.poll(door.clock, phase.deadline(door.timeouts), cx)));
        gone.as_mut().poll(cx).is_ready() || pin!(late).poll(cx).is_ready()
    };
    let mut drain = door.drain.member();
    let drains = poll_fn(|cx| {
        if connection.as_mut().poll(cx).is_ready() || is_given_up(cx) {
            return Poll::Ready(false);
        }
        if drain.begins(cx) { Poll::Ready(true) } else { Poll::Pending }
    })
    .await;
    if drains {
        let mut told = false;
        poll_fn(|cx| {
            loop {
                if connection.as_mut().poll(cx).is_ready() || is_given_up(cx) {
                    return Poll::Ready(());
                }
                if told {
                    return Poll::Pending;
                }
                // A request that has come already is read, and not thrown away with its connection. This task may only not
                // have been told of it yet, so others have a turn, the reactor among them, and it looks again.
                if phase.is_waiting() && io::has_unread(&stream) {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                told = true;
                connection.as_mut().graceful_shutdown();
            }
        })
        .await;
    }
    drop(place);
}

/// Serves one request.
fn request_of<'a>(
    door: &'a Door,
    phase: &'a Arc<Phase>,
    connection: ClientId,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response<DoorBody>, Infallible>> + 'a {
    phase.request();
    let client = door.clients.of_request(request.headers(), connection);
    let inbound = Inbound { request: request.map(Source::Incoming), client, weight: 1 };
    let answer = exchange::call(&door.upstream, inbound);
    async move {
        let phase = Arc::clone(phase);
        Ok(answer.await.response.map(|body| DoorBody { body, phase }))
    }
}

/// An answer's body, whose end makes the connection idle.
struct DoorBody {
    body: AnswerBody,
    phase: Arc<Phase>,
}

impl Body for DoorBody {
    type Data = Bytes;
    type Error = AnswerError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for DoorBody {
    fn drop(&mut self) {
        self.phase.answered();
    }
}
