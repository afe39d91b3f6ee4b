//! Reading a good answer whole, for a caller who wants all of it or none.

use std::future::poll_fn;
use std::io;

use bytes::Bytes;
use sopan_core::retry::{Outcome, Verdict};

use super::{Answered, Exchange, Failed};
use crate::refusal::Failure;

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

    /// Whether what was written can be all of it; if not, it broke off, though nothing else tells that.
    ///
    /// # Errors
    /// What shows that there is more, in words.
    fn end(&mut self) -> Result<(), String> {
        Ok(())
    }
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
    /// Whether bodies of answers go to a sink, and not to a client.
    pub(super) fn has_sink(&self) -> bool {
        self.collector.is_some()
    }

    /// Whether this answer's body goes to the sink.
    pub(super) fn collects(&self) -> bool {
        self.collector.is_some() && self.response.as_ref().is_some_and(|r| r.status().is_success())
    }

    /// Writes the body to the sink; one that breaks off is a failed attempt. An error of the sink ends it as if it were
    /// whole; the caller learns of it.
    pub(super) async fn collected(&mut self) -> Answered {
        let Some(mut response) = self.response.take() else { return Answered::Fail(Verdict::Done) };
        self.make_ours(&mut response);
        let begun = self.now();
        let result = self.write_all().await;
        // Reading a body is bounded by its silence, not by the time of the exchange.
        let took = self.now().since(begun);
        self.deadline = self.deadline.map(|deadline| deadline.after(took));
        match result {
            Ok(whole) => {
                if let Some(conn) = self.conn.take().filter(|_| whole) {
                    self.upstream.transport.put(conn);
                }
                self.let_go();
                Answered::Collected(response)
            }
            Err(reason) => {
                if let Some(turn) = &mut self.turn {
                    turn.cut();
                }
                self.let_go();
                let failure = Some(Failure::Terminated);
                match self.decide(Failed { outcome: Outcome::Broken, failure, reason }) {
                    Verdict::Again(again) => Answered::Again(again),
                    verdict => Answered::Fail(verdict),
                }
            }
        }
    }

    /// Whether the body was read to its end.
    async fn write_all(&mut self) -> Result<bool, String> {
        let (Some(collector), Some(conn)) = (&mut self.collector, &mut self.conn) else { return Ok(false) };
        if !collector.take(|sink| sink.restart()) {
            return Ok(false);
        }
        loop {
            let frame = poll_fn(|cx| conn.poll_body(cx));
            let piece: Bytes = match tokio::time::timeout(self.upstream.idle_timeout, frame).await {
                Err(_) => return Err("answer broken off: silent for too long".to_owned()),
                Ok(None) => {
                    let end = collector.sink.end().map(|()| true);
                    return end.map_err(|why| format!("answer broken off: {why}"));
                }
                Ok(Some(Err(error))) => return Err(format!("answer broken off: {error}")),
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            };
            if !collector.take(|sink| sink.write(&piece)) {
                return Ok(false);
            }
        }
    }
}
