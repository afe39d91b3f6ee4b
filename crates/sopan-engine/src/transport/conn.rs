//! One HTTP/1.1 connection to an upstream, driven by whoever uses it.
//!
//! hyper's connection is a future beside the request's. It is polled inside of the request's own task, which saves a task
//! switch for every piece and ends the connection, and with it the upstream's work, the moment the request is dropped.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use sopan_core::time::Instant;

use super::dial::Stream;
use super::wire::{Meter, Wire};
use crate::body::AttemptBody;
use crate::clock::Clock;

/// The most fields of an answer's head.
const FIELDS_MAX: usize = 100;
/// The largest head of an answer, and the most of a body that is read at once.
const BUFFER_MAX: usize = 512 * 1024;

type Driver = http1::Connection<TokioIo<Wire>, AttemptBody>;

/// A connection that carries one request at a time.
#[derive(Debug)]
pub(crate) struct Conn {
    sender: http1::SendRequest<AttemptBody>,
    driver: Box<Driver>,
    meter: Arc<Meter>,
    reused: bool,
    movable: bool,
}

/// An attempt that got no answer's head.
#[derive(Debug)]
pub(crate) struct Lost {
    /// Whether a byte of the request was written.
    pub(crate) sent: bool,
    /// Whether the connection had been idle and said nothing to this request: most likely it was closed just as it was
    /// used again, which says nothing about the upstream.
    pub(crate) stale: bool,
    /// What hyper made of it; none if the connection ended without a word.
    pub(crate) error: Option<hyper::Error>,
}

impl Conn {
    pub(super) async fn new(stream: Stream, clock: Clock) -> hyper::Result<Self> {
        let meter = Arc::new(Meter::default());
        let movable = matches!(stream, Stream::Tcp(_));
        let wire = Wire::new(stream, Arc::clone(&meter), clock);
        let (sender, driver) = http1::Builder::new()
            .max_headers(FIELDS_MAX)
            .max_buf_size(BUFFER_MAX)
            .handshake(TokioIo::new(wire))
            .await?;
        Ok(Self { sender, driver: Box::new(driver), meter, reused: false, movable })
    }

    /// A connection over a stream that has carried requests before.
    pub(super) async fn reused(stream: Stream, clock: Clock) -> hyper::Result<Self> {
        Ok(Self { reused: true, ..Self::new(stream, clock).await? })
    }

    /// Whether it can be taken to another thread's runtime: a TLS session cannot be taken apart.
    pub(super) fn is_movable(&self) -> bool {
        self.movable
    }

    /// Whether it can carry a request: neither closed nor speaking unasked.
    pub(crate) fn is_alive(&mut self, cx: &mut Context<'_>) -> bool {
        self.drive(cx).is_pending() && self.sender.is_ready()
    }

    /// Whether it has been idle: it has carried a request before, or was made for one that left.
    pub(crate) fn is_reused(&self) -> bool {
        self.reused
    }

    /// It is idle from now on, and may be closed from the other side at any moment.
    pub(super) fn rests(&mut self) {
        self.reused = true;
    }

    /// Sends a request and waits for the answer's head. `written` is told when the first byte was taken by the kernel.
    pub(crate) async fn send(
        &mut self,
        request: Request<AttemptBody>,
        mut written: impl FnMut(Instant),
    ) -> Result<Response<Incoming>, Lost> {
        self.meter.arm();
        let mut answer = pin!(self.sender.try_send_request(request));
        let (driver, meter) = (&mut self.driver, &self.meter);
        let mut noted = false;
        let answer = poll_fn(|cx| {
            // The driver takes the request and writes it in this very poll, unless the socket is full.
            let ended = Pin::new(&mut **driver).poll(cx).is_ready();
            if !noted && let Some(at) = meter.first_write() {
                noted = true;
                written(at);
            }
            match answer.as_mut().poll(cx) {
                Poll::Ready(answer) => Poll::Ready(answer.map_err(|e| Some(e.into_error()))),
                // An ended driver has told the sender all that it ever will.
                Poll::Pending if ended => Poll::Ready(Err(None)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await;
        let stale = self.reused && self.meter.received() == 0;
        self.reused = true;
        answer.map_err(|error| Lost { sent: self.meter.first_write().is_some(), stale, error })
    }

    /// Polls a body of this connection.
    pub(crate) fn poll_body(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<bytes::Bytes>, hyper::Error>>> {
        let first = Pin::new(&mut *body).poll_frame(cx);
        if first.is_ready() {
            return first;
        }
        let _ = self.drive(cx);
        Pin::new(body).poll_frame(cx)
    }

    fn drive(&mut self, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        Pin::new(&mut *self.driver).poll(cx)
    }

    /// The bare stream of an idle connection, to be taken to another runtime; none if bytes have come already.
    pub(super) fn into_stream(self) -> Option<Stream> {
        let parts = self.driver.into_parts();
        parts.read_buf.is_empty().then(|| parts.io.into_inner().into_stream())
    }
}
