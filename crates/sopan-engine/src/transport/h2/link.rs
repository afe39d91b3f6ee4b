//! A connection that speaks HTTP/2 (RFC 9113) and is shared by many requests: how it is made, who may use it, and its end.
//!
//! A task on the runtime of whoever made it drives it; requests may come from any thread. It is ready once the peer's
//! settings have come, so that nobody sends more requests at once than the peer takes, and so that a peer which turns its
//! client away over TLS 1.3 has done so before a request was written.

use std::future::Future as _;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Connection, SendRequest};
use sopan_core::time::Instant;
use tokio::sync::oneshot;

use super::super::dial::Stream;
use super::super::links::Spoken;
use super::watch::{Tap, Watch};
use crate::clock::Clock;

/// Requests on one connection at once; more get another. So many windows of a stream make the window of the connection,
/// and a client that reads slowly stops nobody's answer but its own.
const STREAMS_MAX: usize = 64;
/// What may lie unread of one answer's body.
const STREAM_WINDOW: u32 = 256 * 1024;
/// The largest head of an answer, as it is counted there (RFC 9113 §6.5.2).
const HEAD_BYTES_MAX: u32 = sopan_core::h1::HEAD_BYTES_MAX as u32;
/// What of one request's body may wait for the connection to take it.
const SEND_BYTES_MAX: usize = 64 * 1024;
/// What small frames of answers that nobody takes may cost beside their bytes, before the library ends the connection for
/// everybody: as much as all windows can hold of pieces of about thirty bytes.
const SMALL_FRAMES_MAX: usize = STREAMS_MAX * STREAM_WINDOW as usize * 8;
/// Answers to requests whose clients have left may come so late, and are ignored; of later ones, and of more, the peer is told
/// once more that nobody wants them. That is no fault of the connection, however often it happens.
const LEFT_FOR: Duration = Duration::from_secs(60);
const LEFT_MAX: usize = 1024;
/// How long a connection that nobody uses any more may take to say goodbye.
const LINGER: Duration = Duration::from_secs(5);

/// Who makes a connection waits for its first words under this number.
const MAKER: u64 = 0;

/// A connection that can carry requests, for as long as somebody holds it.
pub(crate) struct Link {
    sender: SendRequest<Bytes>,
    pub(super) watch: Arc<Watch>,
    /// When it was made.
    born: Instant,
    /// Requests that are on it.
    streams: AtomicUsize,
    /// Since when there is none, in ns.
    idle_since: AtomicU64,
    /// The number of the latest place, from 1.
    places: AtomicU64,
    /// Whether it takes no more requests, though those that are on it go on.
    retired: AtomicBool,
    spoken: Arc<Spoken>,
    /// Tells its driver when nobody holds it any more.
    _held: oneshot::Sender<()>,
}

impl Link {
    /// Speaks HTTP/2 on a stream that has agreed to it.
    pub(crate) async fn open(stream: Stream, spoken: Arc<Spoken>, clock: Clock) -> io::Result<Arc<Self>> {
        let watch = Arc::new(Watch::new(clock));
        let tap = Tap::new(stream, Arc::clone(&watch));
        let made = h2::client::Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(STREAM_WINDOW * STREAMS_MAX as u32)
            .max_header_list_size(HEAD_BYTES_MAX)
            .max_send_buffer_size(SEND_BYTES_MAX)
            .data_frame_budget(SMALL_FRAMES_MAX)
            .max_concurrent_reset_streams(LEFT_MAX)
            .reset_stream_duration(LEFT_FOR)
            .max_local_error_reset_streams(None)
            .enable_push(false)
            // None until its settings say how many; this is also how it is seen that they have come.
            .initial_max_send_streams(0)
            .handshake::<_, Bytes>(tap)
            .await;
        let (sender, connection) = made.map_err(|error| io_of(error, &watch))?;
        let (held, left) = oneshot::channel();
        tokio::spawn(drive(connection, Arc::clone(&watch), left));
        let born = clock.now();
        let link = Self {
            sender,
            watch,
            born,
            streams: AtomicUsize::new(0),
            idle_since: AtomicU64::new(born.as_nanos()),
            places: AtomicU64::new(MAKER),
            retired: AtomicBool::new(false),
            spoken,
            _held: held,
        };
        poll_fn(|cx| {
            // In this order: who asks after the end is woken by the settings too.
            let has_ended = link.watch.poll_ended(MAKER, cx);
            match (link.watch.allowed(), has_ended) {
                (_, true) => Poll::Ready(Err(link.end())),
                (0, false) => Poll::Pending,
                (_, false) => Poll::Ready(Ok(())),
            }
        })
        .await?;
        link.watch.leave(MAKER);
        Ok(Arc::new(link))
    }

    /// Why it has ended.
    fn end(&self) -> io::Error {
        self.watch.fault().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Whether a request could be sent on it, as far as is known; there may be no room for one.
    pub(crate) fn is_usable(&self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let mut takes_more = || matches!(self.sender.clone().poll_ready(&mut cx), Poll::Ready(Ok(())));
        !self.retired.load(Relaxed) && !self.watch.has_ended() && !self.watch.has_fault() && takes_more()
    }

    /// Since when it has carried nothing; none while it does.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let is_idle = self.streams.load(Relaxed) == 0;
        is_idle.then(|| Instant::from_nanos(self.idle_since.load(Relaxed)))
    }

    /// When it was made.
    pub(crate) fn born(&self) -> Instant {
        self.born
    }

    /// A place for one request, if there is one.
    pub(crate) fn place(self: &Arc<Self>) -> Option<Place> {
        let max = self.watch.allowed().min(STREAMS_MAX);
        let more = |streams: usize| (streams < max).then_some(streams + 1);
        self.streams.fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(Place { link: Arc::clone(self), number: self.places.fetch_add(1, Relaxed) + 1 })
    }

    pub(super) fn sender(&self) -> SendRequest<Bytes> {
        self.sender.clone()
    }

    /// It takes no more requests.
    pub(super) fn retire(&self) {
        self.retired.store(true, Relaxed);
    }

    /// The upstream wants HTTP/1.1 for what it was asked here (RFC 9113 §7, `HTTP_1_1_REQUIRED`), and so for all.
    pub(super) fn demands_http_1(&self) {
        self.spoken.demand_http_1();
        self.retire();
    }
}

/// A place for one request on a connection; given back when it is dropped.
pub(crate) struct Place {
    pub(super) link: Arc<Link>,
    number: u64,
}

impl Place {
    /// Whether the connection has ended; who asks is woken when it does.
    pub(super) fn poll_ended(&self, cx: &mut Context<'_>) -> bool {
        self.link.watch.poll_ended(self.number, cx)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Link { watch, idle_since, streams, .. } = &*self.link;
        watch.leave(self.number);
        idle_since.store(watch.clock.now().as_nanos(), Relaxed);
        streams.fetch_sub(1, Relaxed);
    }
}

/// Drives a connection to its end, or for a while after everybody has left it.
async fn drive(mut connection: Connection<Tap, Bytes>, watch: Arc<Watch>, mut left: oneshot::Receiver<()>) {
    /// Also where the runtime ends first.
    struct Ends(Arc<Watch>);
    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.ended();
        }
    }
    let ends = Ends(watch);
    let mut driven = pin!(poll_fn(|cx| {
        let poll = Pin::new(&mut connection).poll(cx);
        ends.0.allows(connection.max_concurrent_send_streams());
        poll.map(|end| end.err().iter().for_each(|error| explain_end(error, &ends.0)))
    }));
    tokio::select! {
        () = &mut driven => return,
        _ = &mut left => {}
    }
    // It says goodbye by itself; a peer that does not even take that is not waited for.
    let _ = tokio::time::timeout(LINGER, driven).await;
}

/// Keeps why the connection was ended, where the stream did not say.
fn explain_end(error: &h2::Error, watch: &Watch) {
    if error.is_io() {
        return;
    }
    let reason = super::name_of(error.reason());
    let (kind, why) = if error.is_remote() {
        (io::ErrorKind::ConnectionAborted, format!("it left: {reason}"))
    } else {
        (io::ErrorKind::InvalidData, format!("it agreed to HTTP/2 and does not keep to its rules: {reason}"))
    };
    watch.keep(io::Error::new(kind, why));
}

/// What the library says of an end, in full where the stream said more.
pub(super) fn io_of(error: h2::Error, watch: &Watch) -> io::Error {
    watch.fault().unwrap_or_else(|| error.into_io().unwrap_or_else(|| io::ErrorKind::InvalidData.into()))
}
