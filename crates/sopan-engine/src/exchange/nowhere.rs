//! What becomes of a request that goes to no upstream?
//!
//! Its head cannot be read, its door does not let it in, or no upstream takes it. So it has no lane, no limits and no
//! connection, and never becomes an exchange; but like one it is answered in words, counted, and now and then logged.
//! Which requests these are is the door's business.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response, Uri};
use sopan_core::access::Barred;
use sopan_core::h1::request::BadRequest;
use sopan_core::queue::ClientId;
use sopan_core::safety::Denied;
use sopan_core::trace::Sampler;

use super::hop::ends_here;
use super::log::{Seldom, log_refusal};
use super::story::{Audience, Story};
use super::trail::Ending;
use super::{Answer, AnswerBody, End};
use crate::clock::Clock;
use crate::event::{NO_UPSTREAM, Observer};
use crate::jitter::Jitter;
use crate::refusal::{END_OF_THE_LINE, Refusal};

/// Answers requests that go to no upstream.
#[derive(Debug)]
pub struct Nowhere {
    clock: Clock,
    observer: Arc<dyn Observer>,
    refusals: Seldom,
    sampler: Option<Sampler>,
    jitter: Jitter,
}

/// Why a request that can be read goes to no upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Astray {
    /// Its door does not let it in.
    Denied(Denied),
    /// It is of nobody who may ask this.
    Barred(Barred),
    /// No upstream takes it.
    NoRoute,
}

impl Nowhere {
    /// Tells the observer of whatever it answers.
    pub fn new(clock: Clock, observer: Arc<dyn Observer>) -> Self {
        Self { clock, observer, refusals: Seldom::default(), sampler: None, jitter: Jitter::new() }
    }

    /// Has these recorded in traces.
    pub fn recorded(self, sampler: Option<Sampler>) -> Self {
        Self { sampler, ..self }
    }

    /// The answer to what cannot be read as a request of this client.
    pub fn unread(&self, bad: BadRequest, client: ClientId) -> Response<Bytes> {
        let mut story = Story::new(self.clock.now());
        let refusal = Refusal::Unreadable(bad);
        story.refused = Some(refusal.reason());
        let response = refusal.response();
        story.answered(response.status());
        // What it would have asked for is not known, and is told so.
        let method = Method::from_bytes(b"-").unwrap_or_default();
        story.ended(
            self.audience(client),
            &method,
            &Uri::from_static("*"),
            response.body().len() as u64,
            Ending::Whole,
        );
        response
    }

    /// The answer to a request of this client that leads nowhere.
    pub fn answer(&self, mut request: Parts, client: ClientId, why: Astray) -> Answer {
        let mut story = Story::new(self.clock.now());
        story.join_trace(self.sampler, &mut request.headers, &self.jitter);
        // One that was to go no further asks nothing of an upstream; but who is not let in is told nothing.
        let own = if why == Astray::NoRoute { ends_here(&mut request) } else { None };
        let (response, end) = match own {
            Some(response) => {
                story.refused = Some(END_OF_THE_LINE);
                (response, End::Own)
            }
            None => {
                let refusal = refusal(&request, why);
                story.refused = Some(refusal.reason());
                if let Some(count) = self.refusals.next(refusal.reason(), self.clock.now()) {
                    log_refusal(&refusal, count, NO_UPSTREAM, &request.method, &request.uri);
                }
                (refusal.response(), End::Refused(refusal))
            }
        };
        let bytes = response.body().len() as u64;
        let mut response = response.map(|body| AnswerBody::Full(Some(body)));
        story.tell(&mut response);
        story.ended(self.audience(client), &request.method, &request.uri, bytes, Ending::Whole);
        Answer { response, lines: None, end, tunnel: None }
    }

    fn audience(&self, client: ClientId) -> Audience<'_> {
        Audience { clock: self.clock, observer: &*self.observer, client }
    }
}

fn refusal(request: &Parts, why: Astray) -> Refusal {
    match why {
        // Whoever takes us for a proxy of the other kind is best told that, for whatever host it asks.
        _ if request.method == Method::CONNECT => Refusal::Unsupported("CONNECT"),
        Astray::Denied(denied) => Refusal::Denied(denied),
        Astray::Barred(barred) => Refusal::Barred(barred),
        Astray::NoRoute => Refusal::NoRoute,
    }
}
