//! What can go wrong on a connection, and what is certain of a request that met it.

use std::io;

use sopan_core::h1::response::HeadError;

use super::fault::of_tls;

/// An attempt that got no answer's head.
#[derive(Debug)]
pub(crate) struct Lost {
    /// Whether a byte of the request was written.
    pub(crate) sent: bool,
    /// Whether the upstream has said all the same that it did not look at the request, which only HTTP/2 can say.
    pub(crate) unprocessed: bool,
    /// Whether the connection had been idle, said nothing to this request and was lost at once: most likely it was
    /// closed just as it was used again, which says nothing about the upstream.
    pub(crate) stale: bool,
    /// What went wrong.
    pub(crate) error: WireError,
}

/// What can go wrong on a connection.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The connection failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It was closed before the message was complete.
    #[error("closed before the answer was complete")]
    Closed,
    /// The upstream ended this request alone (RFC 9113 §5.4.2).
    #[error("the upstream broke it off: {0}")]
    Reset(&'static str),
    /// The upstream left the connection, and has not looked at this request (RFC 9113 §6.8).
    #[error("the upstream left the connection before it looked at the request: {0}")]
    Left(&'static str),
    /// What came is not HTTP, or it cannot be told where it ends.
    #[error("not an HTTP answer: {0}")]
    Garbage(&'static str),
    /// What came is TLS (RFC 8446 §5.1), which was not asked for.
    #[error("what answers there speaks TLS; is the URL to begin with https://?")]
    SpeaksTls,
    /// The head is larger than is read.
    #[error("the answer's head is too large")]
    HeadTooLarge,
    /// The request's own body broke off.
    #[error(transparent)]
    Request(#[from] crate::body::BodyError),
}

impl WireError {
    /// Whether TLS says what happened, by an alert for example.
    pub(super) fn is_of_tls(&self) -> bool {
        matches!(self, Self::Io(error) if of_tls(error).is_some())
    }
}

impl From<HeadError> for WireError {
    fn from(error: HeadError) -> Self {
        match error {
            HeadError::Garbage(why) => Self::Garbage(why),
            HeadError::TooLarge => Self::HeadTooLarge,
        }
    }
}
