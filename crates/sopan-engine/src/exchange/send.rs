//! Sending on a turn, and the clocks that run meanwhile.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Response;
use tokio::task::coop::has_budget_remaining;

use super::Exchange;
use crate::interim::Interims;
use crate::transport::{Conn, Lost};

/// While a client does not take what came before its answer, the clocks stand still, and are looked at again after this.
const CLIENT_MAX: Duration = Duration::from_secs(1);

/// No answer's head came.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The connection gave none.
    Lost(Lost),
    /// `attempt_timeout` is over.
    TimedOut,
    /// The time for the whole exchange is over.
    TotalTimeout {
        /// Whether the attempt had a fair part of the time that it could have had at most. If not, its end says nothing
        /// of the upstream: the time went by in the queue.
        was_fair: bool,
    },
}

impl Exchange<'_> {
    /// Sends the request and waits for the answer's head, within the time of an attempt and what is left of the whole.
    /// Both clocks stand still while bytes of the request's body move.
    pub(super) async fn send(&mut self) -> Result<Response<()>, Unanswered> {
        let Self { upstream, head, body, deadline, story, turn, conn, past, interims, .. } = self;
        let (Some(turn), Some(conn)) = (turn, conn) else { return Err(Unanswered::TimedOut) };
        let begun = upstream.clock.now();
        let mut attempt_ends = begun.after(upstream.retry.attempt_timeout);
        let mut timer = conn.take_timer();
        // Only now, and anew for each attempt: it may have been changed meanwhile.
        upstream.credential.iter().for_each(|credential| credential.put_in(head));
        let result = {
            let (attempt, interims) = (body.attempt(), interims.as_ref());
            let written = |at| {
                story.asks(at);
                turn.written(at);
                if let Some(past) = past {
                    past.withdrawn = None;
                }
            };
            let (one, shared) = match &mut **conn {
                Conn::Http1(conn) => (Some(conn.send(head, attempt, interims, written)), None),
                // Boxed, so that it does not make every waiting request larger.
                Conn::Http2(conn) => (None, Some(Box::pin(conn.send(head, attempt, interims, written)))),
            };
            let (mut one, mut shared) = (pin!(one), shared);
            let mut poll_answer = |cx: &mut Context<'_>| match (one.as_mut().as_pin_mut(), &mut shared) {
                (Some(one), _) => one.poll(cx),
                (None, Some(shared)) => shared.as_mut().poll(cx),
                // It is one or the other.
                (None, None) => Poll::Pending,
            };
            poll_fn(|cx| {
                if let Poll::Ready(answer) = poll_answer(cx) {
                    return Poll::Ready(answer.map_err(Unanswered::Lost));
                }
                loop {
                    let ends = deadline.map_or(attempt_ends, |total| total.min(attempt_ends));
                    // A timer says "pending" to a task that has used up its share by reading; then the clock itself is asked.
                    let is_blind = || !has_budget_remaining() && upstream.clock.now() >= ends;
                    if timer.poll(upstream.clock, ends, cx).is_pending() && !is_blind() {
                        return Poll::Pending;
                    }
                    let mut moved = body.take_moved();
                    if interims.is_some_and(Interims::is_full) {
                        // It is the client who does not take what has come, and its connection has a clock of its own.
                        moved += CLIENT_MAX;
                    }
                    if moved.is_zero() {
                        let is_total = deadline.is_some_and(|total| total <= attempt_ends);
                        let was_fair = upstream.clock.now().since(begun) >= upstream.retry.time_for_one() / 2;
                        let unanswered =
                            if is_total { Unanswered::TotalTimeout { was_fair } } else { Unanswered::TimedOut };
                        return Poll::Ready(Err(unanswered));
                    }
                    attempt_ends = attempt_ends.after(moved);
                    *deadline = deadline.map(|total| total.after(moved));
                }
            })
            .await
        };
        conn.put_timer(timer);
        upstream.credential.iter().for_each(|credential| credential.take_out(head));
        let moved = body.take_moved();
        *deadline = deadline.map(|total| total.after(moved));
        story.heard(upstream.clock);
        result
    }
}
