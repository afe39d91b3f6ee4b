//! What a door hands over, and what it gets back.

use std::fmt;

use http::{Request, Response, StatusCode};
use sopan_core::headers::{Shown, redact_url};
use sopan_core::queue::ClientId;
use sopan_core::retry::Why;

use super::{AnswerBody, Hop, Tunnel};
use crate::body::Source;
use crate::interim::Interims;
use crate::refusal::{Failure, Refusal};

/// A request as a door hands it over.
pub struct Inbound {
    /// The request; its target in origin form, or absolute, in which case its authority is not looked at.
    pub request: Request<Source>,
    /// Whose it is.
    pub client: ClientId,
    /// The client's share against others, 1 or more.
    pub weight: u32,
    /// Where interim answers (1xx) to it go. With it the door says that its client understands them, and that it can
    /// switch protocols; without it neither happens.
    pub interims: Option<Interims>,
    /// The hop that it came over; none for a program that asks by itself, and is no intermediary.
    pub hop: Option<Hop>,
}

impl fmt::Debug for Inbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbound")
            .field("method", self.request.method())
            .field("target", &redact_url(&self.request.uri().to_string()))
            .field("fields", &Shown(self.request.headers()))
            .field("body", self.request.body())
            .field("client", &self.client)
            .field("weight", &self.weight)
            .field("interims", &self.interims)
            .field("hop", &self.hop)
            .finish()
    }
}

/// An exchange's answer.
pub struct Answer {
    /// What the client gets.
    pub response: Response<AnswerBody>,
    /// Lines of its head that are written already, and not among the fields of `response`: only for a door that takes them
    /// ([`Hop::takes_lines`]), with an answer from store.
    pub lines: Option<Vec<u8>>,
    /// How it came about.
    pub end: End,
    /// What follows the head, where the upstream has switched protocols (101).
    pub tunnel: Option<Tunnel>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("status", &self.response.status())
            .field("fields", &Shown(self.response.headers()))
            .field("body", self.response.body())
            .field("lines", &self.lines.as_ref().map(Vec::len))
            .field("end", &self.end)
            .field("tunnel", &self.tunnel)
            .finish()
    }
}

/// How an exchange ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The upstream answered, and that is the answer.
    Done,
    /// The last attempt failed, and the failure in hand is passed on.
    GaveUp {
        /// What came of the last attempt, in words.
        reason: String,
        /// What it was if there was no answer.
        failure: Option<Failure>,
        /// The upstream's status if there was one. The answer's own may be sopan's, where the upstream's was not kept.
        status: Option<StatusCode>,
        /// Why there was no other.
        why: Why,
    },
    /// sopan answered by itself.
    Refused(Refusal),
    /// sopan was asked itself: the request was to go no further (`Max-Forwards`).
    Own,
}
