//! An exchange as part of a trace: taken up when the request comes, told of with each attempt.
//!
//! What a request says of its trace, and what follows from that, is decided in `sopan_core::trace`. Without a sampler
//! nothing here happens, and the fields go on as they came. The spans are made of the steps, by whoever is told of them.

use http::HeaderMap;
use sopan_core::trace::{Begun, Sampler, TRACEPARENT, TRACESTATE, begin};

use super::Exchange;
use super::story::Story;
use crate::jitter::Jitter;

impl Story {
    /// Takes the request up into its trace, where traces are kept at all.
    pub(super) fn join_trace(&mut self, sampler: Option<Sampler>, fields: &mut HeaderMap, jitter: &Jitter) {
        let Some(sampler) = sampler else { return };
        match begin(fields, sampler, jitter.number()) {
            Begun::PassedOn => {}
            Begun::Recorded(trace) => {
                if trace.parent.is_none() {
                    // It is of another trace, or of none (Trace Context §3.3.1.1).
                    fields.remove(TRACESTATE);
                }
                self.begin_trail().trace = Some(trace);
            }
            Begun::Told(context) => {
                fields.remove(TRACESTATE);
                fields.insert(TRACEPARENT, context.value());
            }
        }
    }
}

impl Exchange<'_> {
    /// Names the attempt that is about to be sent as the one who asks.
    pub(super) fn tell_of_trace(&mut self) {
        let Some(trace) = self.story.trail.as_ref().and_then(|trail| trail.trace) else { return };
        self.head.headers_mut().insert(TRACEPARENT, trace.told(self.story.attempts).value());
    }
}
