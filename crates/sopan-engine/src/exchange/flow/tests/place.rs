//! An upstream that is played by hand, and clients that read from it.

use std::fmt;
use std::io;
use std::time::SystemTime;

use http::Request;
use sopan_core::lane::Visit;
use sopan_core::queue::{ClientId, Entry};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf};

use super::*;
use crate::body::AttemptBody;
use crate::clock::Clock;
use crate::dispatcher::Entered;
use crate::event::{Attempted, Event, Observer};
use crate::jitter::Jitter;
use crate::transport::{Conn, Wanted};
use crate::{Dial, Io, Settings, Stream, Surroundings, Target};

pub(super) const SECOND: Duration = Duration::from_secs(1);
/// What a connection holds on the way.
pub(super) const PIPE_BYTES: usize = 64 * 1024;
pub(super) const KIB: u64 = 1024;

/// Bytes of which each says where it is.
pub(super) fn noise(length: u64) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect()
}

/// What observers were told: bytes, and whether that was whole.
#[derive(Debug, Default)]
pub(super) struct Ends(pub(super) Mutex<Vec<(u64, bool)>>);

impl Observer for Ends {
    fn attempted(&self, _: Attempted<'_>) {}

    fn ended(&self, event: &Event<'_>) {
        self.0.lock().push((event.bytes, event.whole));
    }
}

/// Makes pipes, and keeps their other ends.
#[derive(Default)]
pub(super) struct Pipes {
    theirs: Mutex<Vec<DuplexStream>>,
    /// For the next one, if it stirs.
    meanwhile: Mutex<Option<Arc<Mutex<Option<Meanwhile>>>>>,
}

impl fmt::Debug for Pipes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pipes")
    }
}

impl Dial for Pipes {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>> {
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        self.theirs.lock().push(theirs);
        let stream: Box<dyn Io> = match self.meanwhile.lock().take() {
            Some(meanwhile) => Box::new(Stirs { pipe: ours, meanwhile }),
            None => Box::new(ours),
        };
        Box::pin(async { Ok(Stream::Other(stream)) })
    }
}

/// An upstream, played by hand.
pub(super) struct Place {
    pipes: Arc<Pipes>,
    pub(super) upstream: Arc<Upstream>,
    pub(super) ends: Arc<Ends>,
    pub(super) budget: Arc<ByteBudget>,
    /// The bodies that were handed on.
    pub(super) whole: Arc<Mutex<Vec<Bytes>>>,
}

impl Place {
    pub(super) fn new() -> Self {
        let settings = Settings::new(Target::parse("http://upstream.test").unwrap());
        let (ends, pipes) = (Arc::<Ends>::default(), Arc::<Pipes>::default());
        let around = Surroundings {
            clock: Clock::paused(SystemTime::UNIX_EPOCH),
            jitter: Jitter::seeded(1),
            observer: Arc::clone(&ends) as _,
            dial: Some(Arc::clone(&pipes) as _),
            ..Surroundings::default()
        };
        let (upstream, _) = Upstream::start(settings, around).unwrap();
        Self { pipes, upstream, ends, budget: Arc::new(ByteBudget::new(64 << 20)), whole: Arc::default() }
    }

    /// An answer with this head, and the other end of its connection.
    pub(super) async fn answer(&self, head: &str) -> (Feed, DuplexStream) {
        let wanted = Wanted { fresh: true, switches: false };
        let mut conn = self.upstream.transport.connection(wanted, None).await.unwrap();
        let mut theirs = self.pipes.theirs.lock().pop().unwrap();
        theirs.write_all(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n").as_bytes()).await.unwrap();
        let Conn::Http1(http_1) = &mut *conn else { panic!("it is HTTP/2") };
        let request = Request::get("/").body(()).unwrap();
        http_1.send(&request, AttemptBody::Empty, None, |_| {}).await.map_err(|lost| lost.error).unwrap();
        let (client, since) = (ClientId(1), self.upstream.clock.now());
        let entry = Entry { client, weight: 1, arrival: 0, cost: 1, bytes: 0, since, deadline: None };
        let Entered::Go(turn) = self.upstream.dispatcher.enter(entry, Visit::First, Visit::First) else {
            panic!("it waits")
        };
        (Feed::new(None, conn, turn, Arc::clone(&self.upstream), Vec::new()), theirs)
    }

    pub(super) fn keep(&self) -> Keep {
        let whole = Arc::clone(&self.whole);
        let done: Done = Box::new(move |body| match body {
            Whole::Memory(bytes) => whole.lock().push(bytes),
            Whole::Spilled(spill) => spill.finish(),
        });
        let budget = Arc::clone(&self.budget);
        Keep { entry_bytes_max: 8 << 20, memory_bytes_max: 8 << 20, budget, spill: None, done }
    }

    pub(super) async fn flow(&self, head: &str, keep: Option<Keep>) -> (Flow, Reader, DuplexStream) {
        let (feed, theirs) = self.answer(head).await;
        let (flow, reader) = Flow::new(feed, keep);
        (flow, reader, theirs)
    }

    /// The same over a connection that stirs.
    pub(super) async fn stirring(
        &self,
        head: &str,
        meanwhile: Arc<Mutex<Option<Meanwhile>>>,
    ) -> (Flow, Reader, DuplexStream) {
        *self.pipes.meanwhile.lock() = Some(meanwhile);
        self.flow(head, None).await
    }

    pub(super) fn handed_on(&self) -> Vec<Bytes> {
        self.whole.lock().clone()
    }

    /// Nothing is held for a body any more.
    #[track_caller]
    pub(super) fn is_at_rest(&self) {
        assert_eq!((self.budget.used(), self.upstream.snapshot().in_flight), (0, 0), "bytes of the budget, in flight");
    }
}

/// How far a reader came, and how it ended.
#[derive(Default)]
pub(super) struct Read {
    pub(super) bytes: Vec<u8>,
    pub(super) trailers: Option<http::HeaderMap>,
    pub(super) end: Option<Result<(), AnswerError>>,
}

impl Read {
    /// Takes all that is here; answers whether it has ended.
    pub(super) fn take(&mut self, reader: &mut Reader, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match ready!(reader.poll_frame(cx)) {
                None => self.end = Some(Ok(())),
                Some(Err(error)) => self.end = Some(Err(error)),
                Some(Ok(frame)) => {
                    match frame.into_data() {
                        Ok(data) => self.bytes.extend_from_slice(&data),
                        Err(frame) => self.trailers = frame.into_trailers().ok(),
                    }
                    continue;
                }
            }
            return Poll::Ready(());
        }
    }

    #[track_caller]
    pub(super) fn is(&self, body: &[u8]) {
        assert!(matches!(self.end, Some(Ok(()))), "{:?} after {} bytes", self.end, self.bytes.len());
        assert!(self.bytes == body, "{} bytes instead of {}", self.bytes.len(), body.len());
    }

    #[track_caller]
    pub(super) fn broke_off(&self, begins: &[u8], why: &str) {
        let error = self.end.as_ref().and_then(|end| end.as_ref().err()).map(ToString::to_string);
        assert_eq!((error.as_deref(), self.bytes.len()), (Some(why), begins.len()));
        assert!(self.bytes == begins);
    }
}

pub(super) async fn read(mut reader: Reader) -> Read {
    let mut read = Read::default();
    std::future::poll_fn(|cx| read.take(&mut reader, cx)).await;
    read
}

/// What is here now, without anybody who would be woken.
pub(super) fn here(reader: &mut Reader) -> Read {
    let mut read = Read::default();
    let _ = read.take(reader, &mut Context::from_waker(Waker::noop()));
    read
}

/// One frame, if there is one.
pub(super) fn frame(reader: &mut Reader) -> Option<Bytes> {
    match reader.poll_frame(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().ok(),
        _ => None,
    }
}

/// Sends a body, in the background, and keeps the connection.
pub(super) fn pour(mut theirs: DuplexStream, body: Vec<u8>) -> tokio::task::JoinHandle<DuplexStream> {
    tokio::spawn(async move {
        // Who has left need not take it.
        let _ = theirs.write_all(&body).await;
        theirs
    })
}

pub(super) async fn settled() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

pub(super) fn length(bytes: u64) -> String {
    format!("Content-Length: {bytes}")
}

pub(super) fn chunked(body: &[u8], trailers: &str) -> Vec<u8> {
    let chunks = body.chunks(10_000).flat_map(|chunk| {
        let head = format!("{:x}\r\n", chunk.len());
        [head.as_bytes(), chunk, b"\r\n"].concat()
    });
    chunks.chain(format!("0\r\n{trailers}\r\n").into_bytes()).collect()
}

/// A connection that stirs while it is read from, and has somebody else ask meanwhile.
pub(super) struct Stirs {
    pipe: DuplexStream,
    meanwhile: Arc<Mutex<Option<Meanwhile>>>,
}

pub(super) type Meanwhile = Box<dyn FnOnce(&mut Context<'_>) + Send>;

impl AsyncRead for Stirs {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.pipe).poll_read(cx, buf);
        if let Some(meanwhile) = self.meanwhile.lock().take() {
            meanwhile(cx);
        }
        poll
    }
}

impl AsyncWrite for Stirs {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.pipe).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(cx)
    }
}
