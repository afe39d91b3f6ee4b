//! What a message must lose, gain and have changed because it goes through an intermediary's hands.
//!
//! Only a request that came over a hop ([`Hop`]) is treated so. One that a program makes by itself goes as it is, since
//! its sender is a client and no intermediary (RFC 9110 §3.7).

use std::net::IpAddr;

use bytes::Bytes;
use http::header::HeaderValue;
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, Response, Version};
use sopan_core::headers::{Reach, append_via, passes, reach, reflect, strip_hop_by_hop};

use super::{Answer, End, Exchange};
use crate::refusal::{self, Refusal};

/// How often a request may have come through sopan already. A few times is how proxies in a row look, each with an
/// upstream of its own; more are a circle.
const PASSES_MAX: usize = 8;

/// The hop that a request came over.
#[derive(Debug, Clone, Default)]
pub struct Hop {
    /// The client's address, if it is known.
    pub peer: Option<IpAddr>,
    /// By what name, and on which port, the client knows sopan: the value of its `Host`, if that is one. Links of the
    /// answer that point to the upstream are rewritten to it.
    pub base: Option<HeaderValue>,
    /// Whether the door writes heads itself, and takes lines that are written already ([`Answer::lines`]) in place of fields.
    pub takes_lines: bool,
}

/// A hop, and what came of the request there. In a box, since a hundred thousand exchanges may wait.
pub(super) struct Crossing {
    hop: Hop,
    /// The answer, where sopan is the one who was asked.
    own: Option<Box<Response<Bytes>>>,
}

impl Crossing {
    /// Looks at a request as it came. One that was to go no further is answered (`Max-Forwards`, RFC 9110 §7.6.2); for one
    /// that goes on that is counted down.
    pub(super) fn new(hop: Hop, request: &mut Parts) -> Self {
        Self { hop, own: ends_here(request).map(Box::new) }
    }

    /// By what name the client knows sopan.
    pub(super) fn base(&self) -> Option<&HeaderValue> {
        self.hop.base.as_ref()
    }
}

/// The answer to a request that was to go no further than here.
pub(super) fn ends_here(request: &mut Parts) -> Option<Response<Bytes>> {
    (reach(&request.method, &mut request.headers) == Reach::Here).then(|| {
        let reflected = (request.method == Method::TRACE).then(|| reflect(request));
        refusal::end_of_the_line(reflected)
    })
}

impl Exchange<'_> {
    /// Whether the request may go on, as far as its hop is concerned.
    pub(super) fn admit(&self) -> Result<(), Refusal> {
        if self.crossing.is_none() {
            return Ok(());
        }
        let passes = passes(self.head.headers());
        if passes > PASSES_MAX { Err(Refusal::Loop { passes }) } else { Ok(()) }
    }

    /// Tells the upstream through whose hands the request went, and of the client what is wished.
    pub(super) fn sign(&mut self) {
        let Some(Crossing { hop, .. }) = self.crossing.as_deref() else { return };
        let received = self.head.version();
        let headers = self.head.headers_mut();
        self.upstream.forwarded.apply(headers, hop.peer, hop.base.as_ref());
        append_via(headers, received);
    }

    /// The answer of sopan's own, for a request that was to go no further.
    pub(super) fn answer_here(&mut self) -> Option<Answer> {
        let response = *self.crossing.as_mut()?.own.take()?;
        self.story.refused = Some(refusal::END_OF_THE_LINE);
        Some(self.finish(response.map(Some), End::Own))
    }

    /// Makes the head of an upstream's answer one to pass on: without what belongs to the upstream's hop, in our own
    /// version of HTTP (RFC 9112 §2.3), signed, and with links that lead back here. Answers which fields its `Connection`
    /// named.
    pub(super) fn make_ours(&self, response: &mut Response<()>) -> Vec<HeaderName> {
        let named_by_connection = self.take_over(response);
        self.lead_back(response.headers_mut());
        named_by_connection
    }

    /// The same but for the links, which lead back to where one client asked: so it can be given to others.
    pub(super) fn take_over(&self, response: &mut Response<()>) -> Vec<HeaderName> {
        let received = std::mem::replace(response.version_mut(), Version::HTTP_11);
        let headers = response.headers_mut();
        let named_by_connection = strip_hop_by_hop(headers);
        self.upstream.hide_credential(headers);
        if self.crossing.is_some() {
            append_via(headers, received);
        }
        named_by_connection
    }

    /// Has links lead back to where this client asked.
    pub(super) fn lead_back(&self, headers: &mut HeaderMap) {
        if let Some(base) = self.base() {
            self.upstream.lead_back(headers, base);
        }
    }

    /// The hop that the request came over.
    pub(super) fn hop(&self) -> Option<&Hop> {
        self.crossing.as_deref().map(|crossing| &crossing.hop)
    }

    /// By what name the client knows sopan.
    pub(super) fn base(&self) -> Option<&HeaderValue> {
        self.crossing.as_deref()?.base()
    }
}
