//! Every answer that sopan gives by itself: the only place that writes words which a client sees.
//!
//! A refusal is a problem body (RFC 9457) that says what happened, why and what to do, with a true `Retry-After` where
//! waiting helps and a `Proxy-Status` (RFC 9209) for programs. It never names keys, tokens or inner hosts.

mod door;
mod failure;

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use sopan_core::access::Barred;
use sopan_core::h1::request::BadRequest;
use sopan_core::lane::{self, Cause};
use sopan_core::safety::Denied;

use crate::body::BodyError;
use door::{challenge, of_door, of_key};
pub(crate) use failure::Alert;
pub use failure::{BadCertificate, Failure};

/// Why sopan answers instead of the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The lane turned the request away.
    Lane(lane::Refusal),
    /// No answer could be had from the upstream.
    Failed {
        /// What went wrong at the last attempt.
        failure: Failure,
        /// Whether the upstream may have acted on the request.
        outcome_unknown: bool,
        /// The last status that the upstream gave to an earlier attempt, if it gave one that could not be kept.
        last_status: Option<StatusCode>,
    },
    /// The upstream's last answer could not be kept, and no better one followed.
    NothingKept {
        /// Its status.
        last_status: Option<StatusCode>,
    },
    /// The time for the whole exchange was over before there was an answer to pass on.
    TotalTimeout {
        /// Whether the upstream may have acted on the request.
        outcome_unknown: bool,
    },
    /// The request's head is larger than is passed on.
    HeadTooLarge {
        /// The bound, in bytes.
        max: u64,
    },
    /// The client did not finish its request.
    Body(BodyError),
    /// What the client sent cannot be read as a request.
    Unreadable(BadRequest),
    /// The request cannot be passed on.
    Unsupported(&'static str),
    /// Its door does not let the request in.
    Denied(Denied),
    /// It is of nobody who may ask this.
    Barred(Barred),
    /// No upstream takes the request.
    NoRoute,
    /// The client wants an answer from the cache or none (`only-if-cached`), and there is none.
    OnlyIfCached,
    /// The request goes round in a circle.
    Loop {
        /// How often it has come through sopan before.
        passes: usize,
    },
}

/// The reason of an answer that is no [`Refusal`]: the request was to go no further than to sopan (`Max-Forwards`).
pub(crate) const END_OF_THE_LINE: &str = "max-forwards";

/// All reasons why sopan answers by itself, for whoever counts them: those of [`Refusal::reason`], and `max-forwards`.
pub const REASONS: [&str; 25] = [
    "queue-full",
    "wait-too-long",
    "waited-too-long",
    "breaker-open",
    "store-unreachable",
    "upstream-failed",
    "upstream-timeout",
    "total-timeout",
    "head-too-large",
    "request-incomplete",
    "bad-request",
    "unsupported",
    "misdirected",
    "cross-site",
    "key-missing",
    "key-unknown",
    "key-expired",
    "keys-of-several",
    "key-in-address",
    "too-many-guesses",
    "not-allowed",
    "no-route",
    "only-if-cached",
    "proxy-loop",
    END_OF_THE_LINE,
];

/// A refusal in words and numbers.
struct Problem {
    status: StatusCode,
    /// The error type for `Proxy-Status`, with its parameters.
    error: Cow<'static, str>,
    detail: String,
    retry_after: Option<u64>,
}

const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

impl Refusal {
    /// The answer for the client.
    pub(crate) fn response(&self) -> Response<Bytes> {
        let problem = self.problem();
        let title = problem.status.canonical_reason().unwrap_or("Error");
        let body = serde_json::json!({
            "type": format!("urn:sopan:{}", self.reason()),
            "title": title,
            "status": problem.status.as_u16(),
            "detail": problem.detail,
        });
        let mut response = Response::new(Bytes::from(format!("{body}\n")));
        *response.status_mut() = problem.status;
        let fields = response.headers_mut();
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Ok(value) = HeaderValue::from_str(&format!("sopan; error={}", problem.error)) {
            fields.insert(PROXY_STATUS, value);
        }
        if let Some(seconds) = problem.retry_after {
            fields.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Self::Barred(barred) = self
            && let Some(challenge) = challenge(*barred)
        {
            fields.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }

    /// The kind of refusal, as metrics and the `type` of the body name it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Lane(lane::Refusal::QueueFull { .. } | lane::Refusal::BytesFull { .. }) => "queue-full",
            Self::Lane(lane::Refusal::WaitTooLong { .. }) => "wait-too-long",
            Self::Lane(lane::Refusal::WaitedTooLong { .. }) => "waited-too-long",
            Self::Lane(lane::Refusal::CutOff { .. }) => "store-unreachable",
            Self::Lane(lane::Refusal::BreakerOpen { .. }) => "breaker-open",
            Self::Failed { failure, .. } if failure.status() == StatusCode::GATEWAY_TIMEOUT => "upstream-timeout",
            Self::Failed { .. } | Self::NothingKept { .. } => "upstream-failed",
            Self::TotalTimeout { .. } => "total-timeout",
            Self::HeadTooLarge { .. } => "head-too-large",
            Self::Body(BodyError::Malformed(_)) | Self::Unreadable(_) => "bad-request",
            Self::Body(_) => "request-incomplete",
            Self::Unsupported(_) => "unsupported",
            Self::Denied(Denied::Host) => "misdirected",
            Self::Denied(Denied::CrossSite) => "cross-site",
            Self::Barred(Barred::NoKey(_)) => "key-missing",
            Self::Barred(Barred::UnknownKey) => "key-unknown",
            Self::Barred(Barred::Expired) => "key-expired",
            Self::Barred(Barred::SeveralKeys) => "keys-of-several",
            Self::Barred(Barred::KeyInTarget) => "key-in-address",
            Self::Barred(Barred::TooManyGuesses { .. }) => "too-many-guesses",
            Self::Barred(Barred::NotAllowed(_)) => "not-allowed",
            Self::NoRoute => "no-route",
            Self::OnlyIfCached => "only-if-cached",
            Self::Loop { .. } => "proxy-loop",
        }
    }

    /// What happened and why, in a sentence without a final full stop.
    pub fn detail(&self) -> String {
        self.problem().detail
    }

    fn problem(&self) -> Problem {
        match *self {
            Self::Lane(refusal) => of_lane(refusal),
            Self::Failed { failure, outcome_unknown, last_status } => {
                let unknown = unknown("it", outcome_unknown);
                Problem {
                    status: failure.status(),
                    error: failure.proxy_status().into(),
                    detail: format!("{failure}{unknown}{}", seen(last_status)),
                    retry_after: None,
                }
            }
            Self::NothingKept { last_status } => Problem {
                status: StatusCode::BAD_GATEWAY,
                error: "http_response_incomplete".into(),
                detail: format!("the upstream did not answer well{}", seen(last_status)),
                retry_after: None,
            },
            Self::TotalTimeout { outcome_unknown } => Problem {
                status: StatusCode::GATEWAY_TIMEOUT,
                error: "http_response_timeout".into(),
                detail: format!(
                    "the time for the whole request (total_timeout) is over{}",
                    unknown("the upstream", outcome_unknown)
                ),
                retry_after: None,
            },
            Self::HeadTooLarge { max } => Problem {
                status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                error: "http_request_error".into(),
                detail: format!("the head of the request is larger than {max} bytes; send fewer or shorter fields"),
                retry_after: None,
            },
            Self::Unreadable(bad) => Problem {
                status: bad.status,
                error: "http_request_error".into(),
                detail: bad.why.to_owned(),
                retry_after: None,
            },
            Self::Body(error) => Problem {
                status: match error {
                    BodyError::Malformed(_) => StatusCode::BAD_REQUEST,
                    BodyError::Broken | BodyError::Silent => StatusCode::REQUEST_TIMEOUT,
                },
                error: "http_request_error".into(),
                detail: error.to_string(),
                retry_after: None,
            },
            Self::Unsupported(what) => Problem {
                status: StatusCode::NOT_IMPLEMENTED,
                error: "http_request_error".into(),
                detail: format!("{what} is not passed on"),
                retry_after: None,
            },
            Self::Denied(denied) => of_door(denied),
            Self::Barred(barred) => of_key(barred),
            Self::NoRoute => Problem {
                status: StatusCode::NOT_FOUND,
                error: "destination_not_found".into(),
                detail: "sopan stands in front of several APIs, and neither the host nor the path of the request begins \
                         the way to one of them; ask for the host or the first part of the path that is the route to an \
                         API, and see that it is written as in the settings"
                    .to_owned(),
                retry_after: None,
            },
            Self::OnlyIfCached => Problem {
                status: StatusCode::GATEWAY_TIMEOUT,
                error: "proxy_internal_response".into(),
                detail: "the request wants an answer from the cache or none (Cache-Control: only-if-cached), and the cache has \
                         none that may be used; ask without that"
                    .to_owned(),
                retry_after: None,
            },
            Self::Loop { passes } => Problem {
                status: StatusCode::BAD_GATEWAY,
                error: "proxy_loop_detected".into(),
                detail: format!(
                    "the request has come through sopan {passes} times before (Via): the upstream leads back here; \
                     let --upstream name the API itself"
                ),
                retry_after: None,
            },
        }
    }
}

/// The answer to a request that was to go no further (RFC 9110 §7.6.2): for a TRACE its head as it came, for OPTIONS nothing,
/// since which methods are allowed only the upstream knows.
pub(crate) fn end_of_the_line(reflected: Option<Vec<u8>>) -> Response<Bytes> {
    let is_trace = reflected.is_some();
    let mut response = Response::new(Bytes::from(reflected.unwrap_or_default()));
    if is_trace {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("message/http"));
    }
    response
}

fn unknown(who: &str, outcome_unknown: bool) -> String {
    if outcome_unknown { format!("; whether {who} acted on the request is not known") } else { String::new() }
}

fn seen(last_status: Option<StatusCode>) -> String {
    last_status.map_or_else(String::new, |s| format!("; the last answer of the upstream had status {}", s.as_u16()))
}

fn of_lane(refusal: lane::Refusal) -> Problem {
    let (error_type, detail, retry_after) = match refusal {
        lane::Refusal::QueueFull { waiting, retry_after } => {
            let detail = format!("queue full: {waiting} requests wait already (waiting_max)");
            ("proxy_internal_response", detail, retry_after)
        }
        lane::Refusal::BytesFull { bytes, retry_after } => {
            let detail = format!("queue full: waiting requests hold {bytes} bytes already (queue_bytes_max)");
            ("proxy_internal_response", detail, retry_after)
        }
        lane::Refusal::WaitTooLong { predicted, allowed, cause, retry_after } => {
            let (predicted, allowed) = (rough(predicted), rough(allowed));
            let detail = format!("the request would wait {predicted} {}, and may wait {allowed}", for_cause(cause));
            ("proxy_internal_response", detail, retry_after)
        }
        lane::Refusal::WaitedTooLong { cause, retry_after } => {
            let detail = format!("the request has waited {} for as long as it may", for_cause(cause));
            ("proxy_internal_response", detail, retry_after)
        }
        lane::Refusal::CutOff { retry_after } => {
            let detail = "the store that keeps the limits for all instances cannot be reached, and without it nothing is sent \
                (on_store_failure)";
            ("proxy_internal_response", detail.to_owned(), retry_after)
        }
        lane::Refusal::BreakerOpen { retry_after } => {
            let detail =
                format!("the upstream has failed too often; it is asked again in {retry_after} s (breaker open)");
            ("destination_unavailable", detail, retry_after)
        }
    };
    Problem {
        status: StatusCode::SERVICE_UNAVAILABLE,
        error: error_type.into(),
        detail,
        retry_after: Some(retry_after),
    }
}

fn for_cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Hold => "for the pause that the upstream asked for (hold)",
        Cause::Limits => "for its turn within the upstream's limits",
        Cause::Own => "for its turn within the limits of this client",
        Cause::Places => "for a place among the requests under way (max_in_flight)",
        Cause::Breaker => "for the upstream to be asked again (breaker)",
    }
}

/// To a tenth of a second: nobody needs the nanoseconds.
fn rough(span: Duration) -> String {
    format!("{:.1} s", span.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use sopan_core::access::{KeyFields, NotAllowed};

    use super::*;

    #[track_caller]
    fn check(refusal: Refusal, status: u16, error_type: &str, retry_after: Option<&str>, detail: &str) {
        let response = refusal.response();
        let field = |name: HeaderName| response.headers().get(name).map(|v| v.to_str().unwrap().to_owned());
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(field(PROXY_STATUS), Some(format!("sopan; error={error_type}")));
        assert_eq!(field(RETRY_AFTER).as_deref(), retry_after);
        let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(body["status"], status);
        assert_eq!(body["detail"], detail);
    }

    #[test]
    fn every_kind_is_in_the_list_of_reasons() {
        let (retry_after, cause, last_status) = (1, Cause::Hold, None);
        let (predicted, allowed) = (Duration::ZERO, Duration::ZERO);
        let failed = |failure| Refusal::Failed { failure, outcome_unknown: false, last_status };
        let kinds = [
            Refusal::Lane(lane::Refusal::QueueFull { waiting: 1, retry_after }),
            Refusal::Lane(lane::Refusal::BytesFull { bytes: 1, retry_after }),
            Refusal::Lane(lane::Refusal::WaitTooLong { predicted, allowed, cause, retry_after }),
            Refusal::Lane(lane::Refusal::WaitedTooLong { cause, retry_after }),
            Refusal::Lane(lane::Refusal::BreakerOpen { retry_after }),
            Refusal::Lane(lane::Refusal::CutOff { retry_after }),
            failed(Failure::Refused),
            failed(Failure::ConnectTimeout),
            Refusal::NothingKept { last_status },
            Refusal::TotalTimeout { outcome_unknown: true },
            Refusal::HeadTooLarge { max: 1 },
            Refusal::Body(BodyError::Broken),
            Refusal::Unreadable(BadRequest::too_long(b"")),
            Refusal::Unsupported("CONNECT"),
            Refusal::Denied(Denied::Host),
            Refusal::Denied(Denied::CrossSite),
            Refusal::Barred(Barred::NoKey(KeyFields::ALL)),
            Refusal::Barred(Barred::UnknownKey),
            Refusal::Barred(Barred::Expired),
            Refusal::Barred(Barred::SeveralKeys),
            Refusal::Barred(Barred::KeyInTarget),
            Refusal::Barred(Barred::TooManyGuesses { retry_after: 1 }),
            Refusal::Barred(Barred::NotAllowed(NotAllowed::Path)),
            Refusal::NoRoute,
            Refusal::OnlyIfCached,
            Refusal::Loop { passes: 9 },
        ];
        let named: std::collections::BTreeSet<_> = kinds.iter().map(Refusal::reason).chain([END_OF_THE_LINE]).collect();
        assert_eq!(named, REASONS.into_iter().collect());
    }

    #[test]
    fn a_refusal_says_what_why_and_when() {
        let full = lane::Refusal::QueueFull { waiting: 1000, retry_after: 3 };
        let detail = "queue full: 1000 requests wait already (waiting_max)";
        check(Refusal::Lane(full), 503, "proxy_internal_response", Some("3"), detail);
        let long = lane::Refusal::WaitTooLong {
            predicted: Duration::from_millis(95_040),
            allowed: Duration::from_secs(30),
            cause: Cause::Hold,
            retry_after: 66,
        };
        let detail =
            "the request would wait 95.0 s for the pause that the upstream asked for (hold), and may wait 30.0 s";
        check(Refusal::Lane(long), 503, "proxy_internal_response", Some("66"), detail);
        let open = lane::Refusal::BreakerOpen { retry_after: 7 };
        let detail = "the upstream has failed too often; it is asked again in 7 s (breaker open)";
        check(Refusal::Lane(open), 503, "destination_unavailable", Some("7"), detail);
        let last_status = Some(StatusCode::TOO_MANY_REQUESTS);
        let failed = Refusal::Failed { failure: Failure::Terminated, outcome_unknown: true, last_status };
        let detail = "the upstream closed the connection before it answered; whether it acted on the request is not \
                      known; the last answer of the upstream had status 429";
        check(failed, 502, "connection_terminated", None, detail);
        let timeout = Refusal::Failed { failure: Failure::ResponseTimeout, outcome_unknown: false, last_status: None };
        check(timeout, 504, "http_response_timeout", None, "the upstream did not answer in time");
    }

    #[test]
    fn who_has_no_key_or_a_wrong_one_is_told_what_to_do() {
        let denied = "http_request_denied";
        let of = |barred| Refusal::Barred(barred);
        let fields = KeyFields { proxy_authorization: false, ..KeyFields::ALL };
        let detail = "the request has no key of this proxy, which every request needs; send one as Authorization: Bearer KEY or \
                      X-Api-Key: KEY";
        check(of(Barred::NoKey(fields)), 401, denied, None, detail);
        let detail = "10 wrong keys have come from this address, and for 51 s none is looked at; try again then, with the right \
                      one";
        check(of(Barred::TooManyGuesses { retry_after: 51 }), 429, denied, Some("51"), detail);
        let detail = "the key of the request is not for this method; ask whoever runs the proxy if it should be";
        check(of(Barred::NotAllowed(NotAllowed::Method)), 403, denied, None, detail);
        let invalid = "Bearer realm=\"sopan\", error=\"invalid_token\"";
        for (barred, status, challenge) in [
            (Barred::NoKey(fields), 401, Some("Bearer realm=\"sopan\"")),
            (Barred::UnknownKey, 401, Some(invalid)),
            (Barred::Expired, 401, Some(invalid)),
            (Barred::SeveralKeys, 400, None),
            (Barred::KeyInTarget, 400, None),
            (Barred::NotAllowed(NotAllowed::UnclearPath), 403, None),
        ] {
            let response = of(barred).response();
            let told = response.headers().get(WWW_AUTHENTICATE).map(|value| value.to_str().unwrap());
            assert_eq!((response.status().as_u16(), told), (status, challenge), "{barred:?}");
        }
    }
}
