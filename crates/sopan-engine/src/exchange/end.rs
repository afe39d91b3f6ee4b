//! The end of an exchange: which answer its client gets, and who is told.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Response, StatusCode};
use sopan_core::cache;
use sopan_core::lane::Refusal as Lane;
use sopan_core::retry::{Outcome, Verdict, Why};

use super::answer::{AnswerBody, Passing};
use super::feed::Feed;
use super::story::Told;
use super::trail::Ending;
use super::tunnel::Tunnel;
use super::turn::Stop;
use super::{Answer, End, Exchange, Failed, GivenUp, Past};
use crate::event::Attempted;
use crate::refusal::Refusal;
use crate::transport::{Conn, h1};

impl Exchange<'_> {
    /// There will be no answer from the upstream: a stored one is given, if it may be, or else the caller hears of that.
    pub(super) async fn give_up(&mut self, why: GivenUp) -> Answer {
        let failure = match &why {
            GivenUp::Stopped(stop) => failure_of(*stop),
            GivenUp::Failed(_) => Some(self.failure_in_hand().unwrap_or(cache::Failure::Disconnected)),
        };
        let failure = failure.map(|failure| self.failure_by_now().unwrap_or(failure));
        if let Some(failure) = failure
            && let Some(answer) = self.stale_instead(failure).await
        {
            self.refund_retry();
            return answer;
        }
        match why {
            GivenUp::Stopped(stop) => self.stopped(stop),
            GivenUp::Failed(verdict) => self.fail(verdict),
        }
    }

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
        if let Some(mut kept) = kept.filter(|_| !may_have_acted) {
            self.tell_of_miss(kept.headers_mut());
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

    /// What is stored is given, though the request might go on, since that may be given now for this reason; none if it turns
    /// out that it is lost. Then the head is as it was.
    pub(super) async fn fall_back(&mut self, failure: cache::Failure) -> Option<Answer> {
        let answer = self.stale_instead(failure).await;
        match &answer {
            Some(_) => self.refund_retry(),
            None => self.dress(),
        }
        answer
    }

    /// What the failure of the last attempt means for what is stored, if it failed.
    pub(super) fn failure_in_hand(&self) -> Option<cache::Failure> {
        Some(match self.last()?.outcome {
            Outcome::Answered { status, .. } if status.is_server_error() => cache::Failure::Error,
            Outcome::Answered { .. } => cache::Failure::NoToken,
            Outcome::NotSent | Outcome::Broken | Outcome::TimedOut => cache::Failure::Disconnected,
        })
    }

    /// What it would be if the request came now.
    pub(super) fn failure_by_now(&self) -> Option<cache::Failure> {
        self.falls_back(self.caching.as_ref()?, self.now())
    }

    pub(super) fn end(&self, verdict: Verdict) -> End {
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
    pub(super) fn finish(&mut self, mut response: Response<Option<Bytes>>, end: End) -> Answer {
        self.story.tell(&mut response);
        self.ended(response, None, end)
    }

    /// The same, the lines of whose head are written already.
    pub(super) fn finish_written(&mut self, response: Response<Option<Bytes>>, mut lines: Vec<u8>) -> Answer {
        self.story.tell_in_line(response.status(), &mut lines);
        self.ended(response, Some(lines), End::Done)
    }

    fn ended(&mut self, response: Response<Option<Bytes>>, lines: Option<Vec<u8>>, end: End) -> Answer {
        let bytes = response.body().as_ref().map_or(0, Bytes::len) as u64;
        let (to, method) = (self.upstream.audience(self.client), self.head.method());
        let uri = self.original.as_deref().unwrap_or(self.head.uri());
        self.story.ended(to, method, uri, bytes, Ending::Whole);
        Answer { response: response.map(AnswerBody::Full), lines, end, tunnel: None }
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
        let upstream = Arc::clone(self.upstream);
        self.begin(response, end, |told| {
            let feed = Feed::new(prefix, conn, turn, upstream, named_by_connection);
            AnswerBody::Passing(Box::new(Passing::new(feed, told)))
        })
    }

    /// The head of an answer whose body comes by and by, and what becomes of that.
    pub(super) fn begin(
        &mut self,
        mut response: Response<()>,
        end: End,
        body: impl FnOnce(Told) -> AnswerBody,
    ) -> Answer {
        self.story.tell(&mut response);
        self.story.gives_from_store(self.upstream.clock);
        let uri = std::mem::take(self.head.uri_mut());
        let told = Told {
            client: self.client,
            story: self.story.hand_on(),
            method: std::mem::take(self.head.method_mut()),
            uri: self.original.take().map_or(uri, |original| *original),
        };
        Answer { response: response.map(|()| body(told)), lines: None, end, tunnel: None }
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

/// What it means for what is stored that there is no turn, or no time for one; nothing where it is the client's doing.
fn failure_of(stop: Stop) -> Option<cache::Failure> {
    match stop {
        Stop::Body(_) => None,
        Stop::Refused(Lane::BreakerOpen { .. }) | Stop::TotalTimeout { sent: true } => {
            Some(cache::Failure::Disconnected)
        }
        Stop::Refused(_) | Stop::TotalTimeout { sent: false } => Some(cache::Failure::NoToken),
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        self.refund_retry();
        self.make_untrue_in_doubt();
        // If it has not been told yet, the client has left: there was nobody to answer.
        if self.story.is_asking() {
            self.upstream.observer.attempted(Attempted::Left);
        }
        let uri = self.original.as_deref().unwrap_or(self.head.uri());
        self.story.ended(self.upstream.audience(self.client), self.head.method(), uri, 0, Ending::Cut);
    }
}
