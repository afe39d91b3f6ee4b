//! The requests of one connection, one after the other: HTTP/1.1 as a server (RFC 9112), over a client's socket.
//!
//! What is decided, heads, framing, bodies, is in `sopan_core::h1`; here it is read and written. All of it runs in the
//! connection's one task, so nothing of a client outlives it.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Request, Response, Version};
use http_body::Body;
use http_body_util::Full;
use parking_lot::Mutex;
use sopan_core::access::GUESSES_MAX;
use sopan_core::h1::framer::{Framer, Framing, NotAsTold, SLICES_MAX};
use sopan_core::h1::request::{BadRequest, Incoming};
use sopan_core::safety::Denied;
use sopan_engine::body::Source;
use sopan_engine::exchange::{self, Answer, Astray, Inbound, Tunnel};
use sopan_engine::{Interims, Upstream};

use super::answer::{self, Asked};
use super::auth::Came;
use super::client::Connected;
use super::connection::{Behind, Door};
use super::gate;
use super::inbox::{ClientBody, Inbox};
use super::io::Socket;

/// How a connection ends.
#[derive(Debug)]
pub(super) enum End {
    /// There is nothing more to say.
    Closed,
    /// The client may still be sending, and must be able to read the answer before it hears that nobody listens.
    Lingers,
    /// Another protocol was agreed on.
    Switched(Tunnel),
}

/// A connection's requests.
pub(super) struct Wire<'a> {
    door: &'a Door,
    socket: &'a Arc<Socket>,
    inbox: Arc<Mutex<Inbox>>,
    connected: Connected,
    peer: SocketAddr,
    /// By what name the client knows sopan, if it was let in by that.
    base: Option<HeaderValue>,
    /// The number of the client whose key the last request had that was let in by one.
    keyed: Option<usize>,
    /// Which upstream has the request.
    upstream: Option<&'a Upstream>,
    interims: Interims,
    framer: Framer,
}

impl<'a> Wire<'a> {
    pub(super) fn new(door: &'a Door, socket: &'a Arc<Socket>, inbox: Arc<Mutex<Inbox>>, peer: SocketAddr) -> Self {
        let (connected, interims, framer) = (door.connected(peer), Interims::default(), Framer::default());
        Self { door, socket, inbox, connected, peer, base: None, keyed: None, upstream: None, interims, framer }
    }

    /// Serves one request after the other.
    pub(super) async fn run(mut self) -> End {
        loop {
            let incoming = match poll_fn(|cx| self.inbox.lock().poll_head(cx)).await {
                Ok(Some(incoming)) => incoming,
                Ok(None) => return End::Closed,
                Err(bad) => return self.refuse(bad).await,
            };
            self.socket.phase.request();
            if let Some(end) = self.serve(incoming).await {
                return end;
            }
            self.socket.phase.answered();
            self.rest();
        }
    }

    /// Serves one request; answers how the connection ends if it does.
    async fn serve(&mut self, incoming: Incoming) -> Option<End> {
        let asked = Asked::new(incoming.request.method(), incoming.request.version(), incoming.keeps);
        let Ok(answer) = self.answer(incoming).await else { return Some(End::Closed) };
        let Answer { response, lines, tunnel, .. } = answer;
        let (asks, goes_on) = poll_fn(|cx| Poll::Ready(self.end_of_request(cx))).await;
        if asks {
            self.framer.response(&go_on(), Framing::Done, None);
        }
        let asked = Asked { keeps: asked.keeps && goes_on && !self.socket.is_closing(), ..asked };
        let (keeps, sent) = self.pass_on(response, lines.as_deref(), &asked).await;
        match (sent, tunnel) {
            (Ok(()), Some(tunnel)) => Some(End::Switched(tunnel)),
            (Err(_), _) => Some(End::Closed),
            (Ok(()), None) if keeps && !self.socket.is_closing() => None,
            (Ok(()), None) if goes_on && self.inbox.lock().is_empty() && !self.socket.has_unread() => Some(End::Closed),
            (Ok(()), None) => Some(End::Lingers),
        }
    }

    /// Hands a request over and waits for its answer; meanwhile what comes before it is sent on.
    async fn answer(&mut self, incoming: Incoming) -> io::Result<Answer> {
        let Incoming { request, decoder, expects_continue, .. } = incoming;
        let (mut parts, ()) = request.into_parts();
        let interims = (parts.version == Version::HTTP_11).then(|| self.interims.clone());
        let source = if decoder.is_done() {
            Source::Empty
        } else {
            Source::Stream(Box::pin(ClientBody::new(Arc::clone(&self.inbox), decoder, expects_continue)))
        };
        let hop = gate::hop(self.peer.ip(), &parts);
        let admitted = gate::admit(self.door.hosts(), self.base.as_ref(), &hop, &parts);
        if admitted == Err(Denied::Host) {
            self.base = None;
        } else if self.base != hop.base {
            self.base.clone_from(&hop.base);
        }
        let keyed = match admitted {
            Ok(()) => self.identify(&mut parts),
            Err(denied) => {
                // It is told of in the log all the same.
                self.door.auth().inspect(|auth| auth.hide_key(&mut parts));
                Err(Astray::Denied(denied))
            }
        };
        let behind = keyed.and_then(|keyed| self.route(keyed, &parts));
        self.upstream = behind.ok().map(|behind| &*behind.upstream);
        let keyed = keyed.ok().flatten().zip(self.door.auth()).map(|(number, auth)| auth.share(number));
        let behind = match behind {
            Ok(behind) => behind,
            Err(why) => {
                let client = keyed.map_or_else(|| self.connected.address(), |(client, _)| client);
                return Ok(self.door.nowhere().answer(parts, client, why));
            }
        };
        let (client, weight) = keyed
            .unwrap_or_else(|| (self.door.clients().of_request(&behind.client_by, &parts.headers, self.connected), 1));
        let (request, hop) = (Request::from_parts(parts, source), Some(hop));
        let mut call = pin!(exchange::call(&behind.upstream, Inbound { request, client, weight, interims, hop }));
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(answer) = call.as_mut().poll(cx) {
                    return Poll::Ready(Ok(answer));
                }
                ready!(poll_flush(&mut self.framer, self.socket, cx))?;
                if self.inbox.lock().asks_for_body() {
                    self.framer.response(&go_on(), Framing::Done, None);
                } else if let Some(interim) = self.interim() {
                    self.framer.response(&interim, Framing::Done, None);
                } else {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// The number of the client whose key a request has, which is taken off; none where clients have no keys.
    fn identify(&mut self, request: &mut Parts) -> Result<Option<usize>, Astray> {
        let Some(auth) = self.door.auth() else { return Ok(None) };
        let (now, wall) = (self.door.now(), self.door.wall());
        let came = Came { from: self.peer.ip(), after: self.keyed, now, wall };
        match auth.identify(request, came) {
            Ok(number) => {
                self.keyed = Some(number);
                Ok(self.keyed)
            }
            Err(turned) => {
                if let Some(seconds) = turned.shut_for {
                    let client = self.door.clients().name(self.connected.address());
                    tracing::warn!(
                        client = &*client,
                        shut_s = seconds,
                        "{GUESSES_MAX} wrong keys have come from {client}: for {seconds} s no key from there is looked at"
                    );
                }
                Err(Astray::Barred(turned.why))
            }
        }
    }

    /// The upstream that takes a request of this client, if that may ask it.
    fn route(&self, client: Option<usize>, request: &Parts) -> Result<&'a Behind, Astray> {
        let behind = self.door.route(request).ok_or(Astray::NoRoute)?;
        if let Some((auth, client)) = self.door.auth().zip(client) {
            auth.may(client, behind.number, request).map_err(Astray::Barred)?;
        }
        Ok(behind)
    }

    /// The next interim answer, its links leading back here.
    fn interim(&self) -> Option<Response<()>> {
        let mut interim = self.interims.take()?;
        if let Some(upstream) = self.upstream {
            upstream.tell_in_between(interim.headers_mut(), self.base.as_ref());
        }
        Some(interim)
    }

    /// Whether the client is to be asked for its body all the same, and whether another request can be read after this one. A
    /// body that is still being sent upstream is left alone.
    fn end_of_request(&self, cx: &mut Context<'_>) -> (bool, bool) {
        let is_free = Arc::strong_count(&self.inbox) <= INBOX_HOLDERS;
        let mut inbox = self.inbox.lock();
        let asks = inbox.asks_for_body();
        (asks, if is_free { inbox.ends(cx) } else { inbox.is_at_end() })
    }

    /// Lets go of the buffers for answers, which a connection that rests does not need, and the next one does.
    fn rest(&mut self) {
        if self.framer.is_done() {
            SPARE.set(Some(std::mem::take(&mut self.framer)));
        }
    }

    /// Sends an answer; answers whether another may follow.
    async fn pass_on<B>(&mut self, response: Response<B>, lines: Option<&[u8]>, asked: &Asked) -> (bool, io::Result<()>)
    where
        B: Body<Data = Bytes> + Unpin,
    {
        // What came before the answer and was not sent yet goes before it.
        while let Some(interim) = self.interim() {
            self.framer.response(&interim, Framing::Done, None);
        }
        if self.framer.is_done() {
            self.framer = SPARE.take().unwrap_or_default();
        }
        let (body, framing, keeps) = answer::begin(&mut self.framer, response, lines, asked, || self.door.wall());
        if framing == Framing::Close {
            // However this ends before its time, the client must not take that for the answer's end.
            self.socket.reset_at_end();
        }
        let mut sending = Sending { body, failed: None };
        let sent = poll_fn(|cx| sending.poll(&mut self.framer, self.socket, cx)).await;
        if framing == Framing::Close && sent.is_ok() {
            self.socket.close_at_end();
        }
        (keeps, sent)
    }

    /// Answers what cannot be read as a request, which is the last of its connection.
    async fn refuse(&mut self, bad: BadRequest) -> End {
        self.socket.phase.request();
        let response = self.door.nowhere().unread(bad, self.connected.address()).map(Full::new);
        match self.pass_on(response, None, &Asked::unreadable(&bad)).await {
            (_, Ok(())) => End::Lingers,
            (_, Err(_)) => End::Closed,
        }
    }
}

thread_local! {
    /// Buffers that no answer needs just now, of a worker: answers begin and end by the thousand, and hardly ever are two of
    /// them under way on one thread that did not fit into their sockets at once.
    static SPARE: Cell<Option<Framer>> = const { Cell::new(None) };
}

/// Who holds the inbox beside a request's body: the connection and its requests.
const INBOX_HOLDERS: usize = 2;

fn go_on() -> Response<()> {
    let mut interim = Response::new(());
    *interim.status_mut() = http::StatusCode::CONTINUE;
    interim
}

/// Writes what is ready.
fn poll_flush(framer: &mut Framer, socket: &Socket, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    while framer.has_bytes() {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = framer.slices(&mut slices);
        match ready!(socket.poll_write(&slices[..count], cx))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            written => framer.advance(written),
        }
    }
    Poll::Ready(Ok(()))
}

/// An answer's body on its way.
struct Sending<B> {
    body: B,
    /// Why no more of it comes; what came before is sent all the same.
    failed: Option<io::Error>,
}

impl<B: Body<Data = Bytes> + Unpin> Sending<B> {
    fn poll(&mut self, framer: &mut Framer, socket: &Socket, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let gathered = self.gather(framer, cx);
            ready!(poll_flush(framer, socket, cx))?;
            if let Some(error) = self.failed.take() {
                return Poll::Ready(Err(error));
            }
            if framer.is_done() {
                return Poll::Ready(Ok(()));
            }
            ready!(gathered);
        }
    }

    /// Takes of the body what is there; pending if more is to come.
    fn gather(&mut self, framer: &mut Framer, cx: &mut Context<'_>) -> Poll<()> {
        while framer.wants_more() && !framer.is_full() && self.failed.is_none() {
            let framed = match ready!(Pin::new(&mut self.body).poll_frame(cx)).transpose() {
                Err(_) => Err(NotAsTold),
                Ok(None) => framer.end(None),
                Ok(Some(frame)) => match frame.into_data() {
                    Ok(data) => framer.data(data),
                    Err(frame) => framer.end(frame.into_trailers().ok().as_ref()),
                },
            };
            self.failed = framed.err().map(io::Error::other);
        }
        Poll::Ready(())
    }
}
