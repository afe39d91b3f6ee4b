//! Reading a good answer whole, for a caller who wants all of it or none.

use std::future::poll_fn;
use std::io;

use bytes::Bytes;
use http::Response;
use hyper::body::Incoming;
use sopan_core::retry::Outcome;

use super::{Exchange, Failed, make_ours};
use crate::dispatcher::Turn;
use crate::refusal::Failure;
use crate::transport::Conn;

/// Takes a body, piece by piece, perhaps more than once.
pub trait Sink: Send + Sync {
    /// Forgets what was written: the answer broke off, and another one begins.
    ///
    /// # Errors
    /// What was written cannot be undone.
    fn restart(&mut self) -> io::Result<()>;

    /// Takes the next piece.
    ///
    /// # Errors
    /// It cannot be taken; the exchange ends.
    fn write(&mut self, piece: &[u8]) -> io::Result<()>;
}

/// A sink, and where its error goes.
pub(super) struct Collector<'a> {
    pub(super) sink: &'a mut dyn Sink,
    pub(super) failed: &'a mut Option<io::Error>,
}

impl Collector<'_> {
    /// Whether it could be done.
    fn take(&mut self, step: impl FnOnce(&mut dyn Sink) -> io::Result<()>) -> bool {
        match step(self.sink) {
            Ok(()) => true,
            Err(error) => {
                *self.failed = Some(error);
                false
            }
        }
    }
}

impl Exchange<'_> {
    /// Whether this answer's body goes to the sink.
    pub(super) fn collects(&self, response: &Response<Incoming>) -> bool {
        self.collector.is_some() && response.status().is_success()
    }

    /// Writes the body to the sink. An error of the sink ends it as if it were whole; the caller learns of it.
    pub(super) async fn collect(
        &mut self,
        response: Response<Incoming>,
        mut conn: Conn,
        turn: Turn,
    ) -> Result<Response<()>, Failed> {
        let (mut parts, mut incoming) = response.into_parts();
        make_ours(&mut parts);
        let begun = self.now();
        let result = self.write_all(&mut incoming, &mut conn).await;
        // Reading a body is bounded by its silence, not by the time of the exchange.
        let took = self.now().since(begun);
        self.deadline = self.deadline.map(|deadline| deadline.after(took));
        match result {
            Ok(whole) => {
                if whole {
                    self.upstream.transport.put_if_idle(conn).await;
                }
                Ok(Response::from_parts(parts, ()))
            }
            Err(reason) => {
                turn.cut();
                Err(Failed { outcome: Outcome::Broken, failure: Some(Failure::Terminated), reason })
            }
        }
    }

    /// Whether the body was read to its end.
    async fn write_all(&mut self, incoming: &mut Incoming, conn: &mut Conn) -> Result<bool, String> {
        let Some(collector) = &mut self.collector else { return Ok(false) };
        if !collector.take(|sink| sink.restart()) {
            return Ok(false);
        }
        loop {
            let frame =
                tokio::time::timeout(self.upstream.idle_timeout, poll_fn(|cx| conn.poll_body(incoming, cx))).await;
            let piece: Bytes = match frame {
                Err(_) => return Err("answer broken off: silent for too long".to_owned()),
                Ok(None) => return Ok(true),
                Ok(Some(Err(error))) => return Err(format!("answer broken off: {error}")),
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            };
            if !collector.take(|sink| sink.write(&piece)) {
                return Ok(false);
            }
        }
    }
}
