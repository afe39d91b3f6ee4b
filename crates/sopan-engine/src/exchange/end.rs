//! The end of an exchange: which answer its client gets, and who is told.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Response, StatusCode};
use sopan_core::retry::{Outcome, Verdict, Why};

use super::answer::{AnswerBody, Passing};
use super::feed::Feed;
use super::story::Told;
use super::tunnel::Tunnel;
use super::turn::Stop;
use super::{Answer, End, Exchange, Failed, Past};
use crate::event::Attempted;
use crate::refusal::Refusal;
use crate::transport::{Conn, h1};

impl Exchange<'_> {
    /// There is no turn, or no time for one: the failure in hand goes to the caller, if there is one.
    pub(super) fn stopped(&mut self, stop: Stop) -> Answer {
        let refusal = match stop {
            Stop::Body(error) => Refusal::Body(error),
            Stop::Refused(_) if self.last().is_some() => return self.fail(Verdict::GiveUp(Why::NoTurn)),
            Stop::TotalTimeout { sent } if self.last().is_some() && (!sent || self.is_repeatable()) => {
                return self.fail(Verdict::GiveUp(Why::TotalTimeout));
            }
            Stop::Refused(refusal) => Refusal::Lane(refusal),
            Stop::TotalTimeout { sent } => {
                Refusal::TotalTimeout { outcome_unknown: sent && !self.head.method().is_safe() }
            }
        };
        self.refuse(refusal)
    }

    /// The last attempt failed and got no answer: the caller gets the last whole answer of the upstream, or else sopan's.
    pub(super) fn fail(&mut self, verdict: Verdict) -> Answer {
        self.refund_retry();
        let may_have_acted = verdict == Verdict::GiveUp(Why::NotSafeToRepeat);
        let end = self.end(verdict);
        self.log_end(&end);
        let Past { kept, last, last_status, .. } = *self.past.take().unwrap_or_default();
        // An answer that the request was not acted on would invite to send it again, where it may have been since.
        if let Some(kept) = kept.filter(|_| !may_have_acted) {
            return self.finish(kept.map(Some), end);
        }
        let refusal = match last {
            Some(Failed { failure: Some(failure), outcome, .. }) => {
                let outcome_unknown = outcome != Outcome::NotSent && !self.head.method().is_safe();
                Refusal::Failed { failure, outcome_unknown, last_status }
            }
            _ => Refusal::NothingKept { last_status },
        };
        self.story.refused = Some(refusal.reason());
        self.finish(refusal.response().map(Some), end)
    }

    fn end(&self, verdict: Verdict) -> End {
        match (verdict, self.last()) {
            (Verdict::GiveUp(why), Some(Failed { outcome, reason, failure })) => {
                let status = match outcome {
                    Outcome::Answered { status, .. } => Some(*status),
                    Outcome::NotSent | Outcome::Broken | Outcome::TimedOut => None,
                };
                End::GaveUp { reason: reason.clone(), failure: *failure, status, why }
            }
            _ => End::Done,
        }
    }

    pub(super) fn refuse(&mut self, refusal: Refusal) -> Answer {
        self.story.refused = Some(refusal.reason());
        let is_told = matches!(refusal, Refusal::Lane(_) | Refusal::TotalTimeout { .. } | Refusal::Loop { .. });
        if is_told {
            self.log_refusal(&refusal);
        }
        self.finish(refusal.response().map(Some), End::Refused(refusal))
    }

    /// An answer that is all here.
    pub(super) fn finish(&mut self, response: Response<Option<Bytes>>, end: End) -> Answer {
        let bytes = response.body().as_ref().map_or(0, Bytes::len) as u64;
        let mut response = response.map(AnswerBody::Full);
        self.story.tell(&mut response);
        let (to, method) = (self.upstream.audience(), self.head.method());
        let uri = self.original.as_deref().unwrap_or(self.head.uri());
        self.story.ended(to, method, uri, bytes, true);
        Answer { response, end, tunnel: None }
    }

    /// The answer of the upstream, passed on as it comes.
    pub(super) fn pass_on(&mut self, prefix: Option<Bytes>, verdict: Verdict) -> Answer {
        let (Some(mut response), Some(conn), Some(turn)) = (self.response.take(), self.conn.take(), self.turn.take())
        else {
            return self.fail(verdict);
        };
        let end = self.end(verdict);
        self.log_end(&end);
        if response.status() == StatusCode::SWITCHING_PROTOCOLS
            && let Conn::Http1(conn) = *conn
        {
            return self.switch(response, conn, end);
        }
        let named_by_connection = self.make_ours(&mut response);
        self.story.tell(&mut response);
        let uri = std::mem::take(self.head.uri_mut());
        let told = Told {
            story: self.story.clone(),
            method: std::mem::take(self.head.method_mut()),
            uri: self.original.take().map_or(uri, |original| *original),
        };
        self.story.is_told_later();
        let feed = Feed::new(prefix, conn, turn, Arc::clone(self.upstream), named_by_connection);
        let passing = Passing::new(feed, told);
        Answer { response: response.map(|()| AnswerBody::Passing(Box::new(passing))), end, tunnel: None }
    }

    /// The upstream has switched protocols. That ends the exchange: what flows from here on is nobody's request.
    fn switch(&mut self, mut response: Response<()>, conn: h1::Conn, end: End) -> Answer {
        let chosen: Vec<_> = response.headers().get_all(UPGRADE).iter().cloned().collect();
        self.make_ours(&mut response);
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
        for protocol in chosen {
            response.headers_mut().append(UPGRADE, protocol);
        }
        let tunnel = Some(Tunnel::new(conn));
        Answer { tunnel, ..self.finish(response.map(|()| None), end) }
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        self.refund_retry();
        // If it has not been told yet, the client has left: there was nobody to answer.
        if self.story.sent.is_some() {
            self.upstream.observer.attempted(Attempted::Left);
        }
        let uri = self.original.as_deref().unwrap_or(self.head.uri());
        self.story.ended(self.upstream.audience(), self.head.method(), uri, 0, false);
    }
}
