//! Sending on a turn, and the clocks that run meanwhile.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use http::{Request, Response};
use hyper::body::Incoming;
use sopan_core::retry::Outcome;
use sopan_core::time::Instant;

use super::{Exchange, Failed};
use crate::body::AttemptBody;
use crate::dispatcher::Turn;
use crate::refusal::Failure;
use crate::transport::{Conn, Lost};

/// No answer's head came.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The connection gave none.
    Lost(Lost),
    /// `attempt_timeout` is over.
    TimedOut,
    /// The time for the whole exchange is over.
    TotalTimeout,
}

impl Exchange<'_> {
    /// Sends the request and waits for the answer's head, within the time of an attempt and what is left of the whole.
    /// Both clocks stand still while bytes of the request's body move.
    pub(super) async fn send(&mut self, turn: &mut Turn, conn: &mut Conn) -> Result<Response<Incoming>, Unanswered> {
        let clock = self.upstream.clock;
        let request = self.request();
        let begun = clock.now();
        let mut attempt_ends = begun.after(self.upstream.retry.attempt_timeout);
        let mut written: Option<Instant> = None;
        let result = {
            let mut answer = pin!(conn.send(request, |at| {
                written = Some(at);
                turn.written(at);
            }));
            let (body, deadline) = (&self.body, &mut self.deadline);
            let mut timer = None;
            poll_fn(|cx| {
                if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                    return Poll::Ready(answer.map_err(Unanswered::Lost));
                }
                loop {
                    let ends = deadline.map_or(attempt_ends, |total| total.min(attempt_ends));
                    let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(clock.tokio(ends))));
                    if timer.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    let moved = body.take_moved();
                    attempt_ends = attempt_ends.after(moved);
                    *deadline = deadline.map(|total| total.after(moved));
                    let now = clock.now();
                    match deadline {
                        Some(total) if *total <= now => return Poll::Ready(Err(Unanswered::TotalTimeout)),
                        _ if attempt_ends <= now => return Poll::Ready(Err(Unanswered::TimedOut)),
                        _ => {}
                    }
                    let ends = deadline.map_or(attempt_ends, |total| total.min(attempt_ends));
                    timer.as_mut().reset(clock.tokio(ends));
                }
            })
            .await
        };
        let moved = self.body.take_moved();
        self.deadline = self.deadline.map(|total| total.after(moved));
        if let Some(written) = written {
            self.story.upstream += clock.now().since(written);
        }
        result
    }

    fn request(&self) -> Request<AttemptBody> {
        let mut request = Request::new(self.body.attempt());
        *request.method_mut() = self.head.method().clone();
        *request.uri_mut() = self.head.uri().clone();
        *request.headers_mut() = self.head.headers().clone();
        request
    }
}

/// What a lost attempt came to.
pub(super) fn lost_attempt(lost: &Lost) -> Failed {
    let failure = match &lost.error {
        Some(error) if error.is_parse_too_large() => Failure::HeadTooLarge,
        Some(error) if error.is_parse() => Failure::Garbage,
        _ => Failure::Terminated,
    };
    let outcome = if lost.sent { Outcome::Broken } else { Outcome::NotSent };
    let reason = lost.error.as_ref().map_or_else(String::new, |error| format!("{outcome}: {error}"));
    Failed { outcome, failure: Some(failure), reason }
}
