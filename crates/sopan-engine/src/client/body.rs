//! A body in memory: up to a bound, and whole.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;

use bytes::Bytes;
use http_body::Body as _;
use serde::de::IgnoredAny;

use crate::exchange::{AnswerBody, Sink};

/// What a body is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// JSON, of which can be told whether it is all there. Not every server says how long its answer is.
    Json,
    /// Anything.
    Any,
}

/// Whether a body came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    Yes,
    No,
}

/// A body in memory.
pub(super) struct Body {
    bytes: Vec<u8>,
    bytes_max: u64,
    kind: Kind,
}

impl Body {
    pub(super) fn new(kind: Kind, bytes_max: u64) -> Self {
        Self { bytes: Vec::new(), bytes_max, kind }
    }

    pub(super) fn into_bytes(self) -> Bytes {
        self.bytes.into()
    }

    /// Takes in all of an answer.
    ///
    /// # Errors
    /// It is too long.
    pub(super) async fn read(&mut self, answer: &mut AnswerBody) -> io::Result<Whole> {
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut *answer).poll_frame(cx)).await {
            let Ok(frame) = frame else { return Ok(Whole::No) };
            self.write(&frame.into_data().unwrap_or_default())?;
        }
        Ok(if self.end().is_ok() { Whole::Yes } else { Whole::No })
    }
}

impl Sink for Body {
    fn restart(&mut self) -> io::Result<()> {
        self.bytes.clear();
        Ok(())
    }

    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        if (self.bytes.len() + piece.len()) as u64 > self.bytes_max {
            return Err(io::Error::other(format!("it is longer than {} bytes (body_bytes_max)", self.bytes_max)));
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        // One that is empty was hardly cut off.
        if self.kind == Kind::Any || self.bytes.is_empty() {
            return Ok(());
        }
        match serde_json::from_slice::<IgnoredAny>(&self.bytes) {
            Err(error) if error.is_eof() => Err(format!("its JSON ends after {} bytes: {error}", self.bytes.len())),
            _ => Ok(()),
        }
    }
}
