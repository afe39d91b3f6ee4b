//! An answer of the fake API before hyper writes it: status, fields, and a body that is there at once or comes in events.
//!
//! One place knows the fields that every answer has and the form of every error. What is answered, and when, is the API's.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, DATE, ETAG, SERVER};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use hyper::body::{Frame, SizeHint};
use serde::Serialize;
use tokio::time::Sleep;

use crate::{etag, http_date, json};

/// Between two events, about as fast as a language model writes. Far enough apart that they do not arrive as one.
const EVENT_EVERY: Duration = Duration::from_millis(10);

/// An answer before it is dressed for the wire.
#[derive(Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    fields: Vec<(http::HeaderName, String)>,
    body: Body,
}

impl Reply {
    pub(crate) fn empty(status: u16) -> Self {
        let status = StatusCode::from_u16(status).expect("our own status codes are valid");
        Self { status, fields: Vec::new(), body: Body::Whole(Bytes::new()) }
    }

    pub(crate) fn json<T: Serialize>(status: u16, body: &T) -> Self {
        Self { body: Body::Whole(json::line(body)), ..Self::empty(status) }
    }

    /// Server-sent events, each whole with its empty line.
    pub(crate) fn events(events: VecDeque<Bytes>) -> Self {
        Self { body: Body::Events { events, pause: None }, ..Self::empty(200) }
    }

    pub(crate) fn error(status: u16, error: &str, message: &str) -> Self {
        /// A struct and not a map, because the order of its keys is promised.
        #[derive(Serialize)]
        struct Problem<'a> {
            error: &'a str,
            message: &'a str,
        }
        Self::json(status, &Problem { error, message })
    }

    pub(crate) fn bad_request(message: &str) -> Self {
        Self::error(400, "bad_request", message)
    }

    pub(crate) fn not_found() -> Self {
        Self::error(404, "not_found", "Alamat tidak ditemukan.")
    }

    pub(crate) fn method_not_allowed(allowed: &str) -> Self {
        Self::error(405, "method_not_allowed", "Metode tidak diizinkan.").with(ALLOW, allowed)
    }

    pub(crate) fn with(mut self, name: http::HeaderName, value: &str) -> Self {
        self.fields.push((name, value.to_owned()));
        self
    }

    /// With its `ETag`, if it is what was asked for and there at once; as a 304 for who has it already.
    pub(crate) fn tagged(self, request: &HeaderMap) -> Self {
        let tag = match &self.body {
            Body::Whole(body) if self.status == StatusCode::OK => etag::of(body),
            Body::Whole(_) | Body::Halves { .. } | Body::Events { .. } => return self,
        };
        let answer = if etag::is_known(request, &tag) { Self::empty(304) } else { self };
        answer.with(ETAG, &tag)
    }

    /// The same body in two halves, so long apart.
    pub(crate) fn in_halves(self, apart: Duration) -> Self {
        let body = match self.body {
            Body::Whole(bytes) => {
                let mut second = bytes;
                let first = second.split_to(second.len() / 2);
                Body::Halves { halves: [first, second].into(), apart, pause: None }
            }
            other => other,
        };
        Self { body, ..self }
    }

    pub(crate) fn status(&self) -> u16 {
        self.status.as_u16()
    }

    pub(crate) fn body_bytes(&self) -> u64 {
        match &self.body {
            Body::Whole(bytes) => bytes.len() as u64,
            Body::Halves { halves: parts, .. } | Body::Events { events: parts, .. } => total(parts),
        }
    }

    pub(crate) fn into_response(self, now: SystemTime) -> Response<Body> {
        let content_type = self.body.content_type();
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        let fields = response.headers_mut();
        fields.insert(SERVER, HeaderValue::from_static("TokoKitaAPI/1.0"));
        fields.insert(DATE, field_value(&http_date::imf(now)));
        if let Some(content_type) = content_type {
            fields.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        for (name, value) in self.fields {
            fields.append(name, field_value(&value));
        }
        response
    }
}

fn field_value(value: &str) -> HeaderValue {
    HeaderValue::from_str(value).expect("our own field values are printable ASCII")
}

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Body {
    /// There from the start, with a length.
    Whole(Bytes),
    /// There from the start, with a length, but the second half is held back.
    Halves { halves: VecDeque<Bytes>, apart: Duration, pause: Option<Pin<Box<Sleep>>> },
    /// One after the other, with no length told.
    Events { events: VecDeque<Bytes>, pause: Option<Pin<Box<Sleep>>> },
}

impl Body {
    fn content_type(&self) -> Option<&'static str> {
        match self {
            Self::Whole(bytes) if bytes.is_empty() => None,
            Self::Whole(_) | Self::Halves { .. } => Some("application/json; charset=utf-8"),
            Self::Events { .. } => Some("text/event-stream; charset=utf-8"),
        }
    }
}

fn total(parts: &VecDeque<Bytes>) -> u64 {
    parts.iter().map(|part| part.len() as u64).sum()
}

/// The next part, `apart` after the one before it.
fn next_after(
    pause: &mut Option<Pin<Box<Sleep>>>,
    apart: Duration,
    parts: &mut VecDeque<Bytes>,
    cx: &mut Context<'_>,
) -> Poll<Option<Bytes>> {
    if let Some(pause) = pause {
        ready!(pause.as_mut().poll(cx));
    }
    *pause = Some(Box::pin(tokio::time::sleep(apart)));
    Poll::Ready(parts.pop_front())
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut *self {
            Self::Whole(bytes) => Some(std::mem::take(bytes)).filter(|bytes| !bytes.is_empty()),
            Self::Halves { halves, apart, pause } => ready!(next_after(pause, *apart, halves, cx)),
            Self::Events { events, pause } => ready!(next_after(pause, EVENT_EVERY, events, cx)),
        };
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Halves { halves: parts, .. } | Self::Events { events: parts, .. } => parts.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Halves { halves, .. } => SizeHint::with_exact(total(halves)),
            Self::Events { .. } => SizeHint::default(),
        }
    }
}
