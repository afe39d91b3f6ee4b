//! HTTP/2 to an upstream that offers it (RFC 9113): one request and its answer on a connection that others use too.
//!
//! A [`Conn`] is a place on a [`Link`]: it sends one request, as `h1::Conn` does, and gives the place back when it is
//! dropped, which also ends the upstream's work if there is an answer still to come. Frames and flow control are the
//! library's; what is decided here is what a request looks like, what is known of its fate, and how much is read ahead:
//! room in a window is given back only as the answer's body is taken.

mod link;
mod upload;
mod watch;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, TRANSFER_ENCODING, UPGRADE};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use http_body::{Body as _, Frame};
use sopan_core::h1::fields::FIELDS_MAX;
use sopan_core::headers::is_secret;
use sopan_core::time::Instant;

use super::h1::{CONTINUE_MAX, INTERIM_MAX, STALE_MAX};
use super::lost::{Lost, WireError};
use crate::body::AttemptBody;
use crate::clock::Watchdog;
use crate::interim::Interims;
pub(super) use link::{Link, Place};
use upload::{Stopped, Upload, Uploading};
use watch::{Watch, Written};

/// A connection on which nothing came for so long after a request was written, whoever's, is not used for others. The
/// library would notice a peer that says so when it leaves; one that has vanished says nothing.
const SILENT_MAX: Duration = Duration::from_secs(5);

/// A place for one request on a connection.
pub(crate) struct Conn {
    place: Place,
    /// Whether the connection had been made before it was asked for.
    reused: bool,
    written: Option<Written>,
    has_answer: bool,
    upload: Upload,
    /// What is left of the request's body after the answer has begun.
    uploading: Option<Uploading>,
    answer: Option<RecvStream>,
    /// How long the rest of the answer's body is, where its head told.
    left: Option<u64>,
    timer: Watchdog,
}

impl Conn {
    pub(super) fn new(place: Place, reused: bool) -> Self {
        Self {
            place,
            reused,
            written: None,
            has_answer: false,
            upload: Upload::default(),
            uploading: None,
            answer: None,
            left: Some(0),
            timer: Watchdog::default(),
        }
    }

    fn watch(&self) -> &Watch {
        &self.place.link.watch
    }

    /// Whether it can carry a request; who asks is woken when the connection ends.
    pub(crate) fn is_alive(&mut self, cx: &mut Context<'_>) -> bool {
        !self.place.poll_ended(cx) && self.place.link.is_usable()
    }

    /// Why it was found not to be alive, where it says more than that it was closed.
    pub(crate) fn take_fault(&mut self) -> Option<io::Error> {
        self.watch().fault()
    }

    pub(crate) fn is_reused(&self) -> bool {
        self.reused
    }

    pub(crate) fn take_timer(&mut self) -> Watchdog {
        std::mem::take(&mut self.timer)
    }

    pub(crate) fn put_timer(&mut self, timer: Watchdog) {
        self.timer = timer;
    }

    /// Sends a request and waits for the answer's head. `written` is told when its HEADERS frame has begun to leave, and
    /// `interims` gets what comes before the answer, if there is a client for it.
    pub(crate) async fn send(
        &mut self,
        head: &Request<()>,
        body: AttemptBody,
        interims: Option<&Interims>,
        written: impl FnMut(Instant) + Send,
    ) -> Result<Response<()>, Lost> {
        let result = self.exchange(head, body, interims, written).await;
        self.has_answer = result.is_ok();
        result.map_err(|failure| {
            if failure.demands_http_1() {
                self.place.link.demands_http_1();
            }
            let (watch, sent) = (self.watch(), self.written.is_some());
            let unprocessed = sent && failure.is_unprocessed();
            let is_early = self.written.is_none_or(|written| watch.clock.now().since(written.at) < STALE_MAX);
            let is_silent = self.written.is_none_or(|written| watch.is_silent_since(written));
            // A refused request was refused on a connection that is well, and another would be refused as well.
            let stale = self.reused && (sent && failure.has_left() || is_silent && is_early);
            Lost { sent, unprocessed, stale, error: failure.told(watch) }
        })
    }

    async fn exchange(
        &mut self,
        head: &Request<()>,
        body: AttemptBody,
        interims: Option<&Interims>,
        written: impl FnMut(Instant) + Send,
    ) -> Result<Response<()>, Fault> {
        let is_empty = body.size_hint().exact() == Some(0);
        let request =
            request(head, &body).ok_or(Fault::Wire(WireError::Garbage("the request has no place in HTTP/2")))?;
        let (mut answer, stream) = self.place.link.sender().send_request(request, is_empty)?;
        let id = stream.stream_id().as_u32();
        self.upload = Upload::new(stream, body, head.headers().contains_key(EXPECT));
        let mut held_until = self.upload.is_held().then(|| Box::pin(tokio::time::sleep(CONTINUE_MAX)));
        let link = Arc::clone(&self.place.link);
        let mut told = Told { watch: &link.watch, id, written, is_over: false };
        let mut count = 0;
        let result = poll_fn(|cx| {
            if !told.is_over
                && let Poll::Ready(written) = told.watch.poll_written(id, cx)
            {
                self.written = Some(written);
                told.tell(written.at);
            }
            if held_until.as_mut().is_some_and(|sleep| sleep.as_mut().poll(cx).is_ready()) {
                held_until = None;
                self.upload.release();
            }
            // All that comes before the answer is taken first: the library skips what nobody has taken.
            let has_come = loop {
                let interim = match answer.poll_informational(cx) {
                    Poll::Ready(Some(interim)) => interim?,
                    Poll::Ready(None) => break true,
                    Poll::Pending => break false,
                };
                count += 1;
                check_interim(&interim, count)?;
                if interim.status() == StatusCode::CONTINUE && head.headers().contains_key(EXPECT) {
                    held_until = None;
                    self.upload.release();
                } else if let Some(interims) = interims {
                    // It cannot be held back without the words to everybody else on the connection.
                    if interims.is_flooded() {
                        return Poll::Ready(Err(Fault::Wire(WireError::Garbage("too many interim answers"))));
                    }
                    interims.add(interim);
                }
            };
            if has_come {
                return Pin::new(&mut answer).poll(cx).map_err(Fault::H2);
            }
            match self.upload.poll(cx) {
                Poll::Ready(Err(Stopped::Broken(error))) => Poll::Ready(Err(Fault::Wire(error))),
                _ => Poll::Pending,
            }
        })
        .await;
        // It may have gone out while the end was on its way here.
        if !told.is_over {
            told.is_over = true;
            self.written = told.watch.forget(id);
            if let Some(written) = self.written {
                told.tell(written.at);
            }
        }
        let (response, answer) = result?.into_parts();
        let response = Response::from_parts(response, ());
        self.left = body_length(&response)?;
        let has_none = *head.method() == Method::HEAD
            || matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        self.answer = (!has_none && !answer.is_end_stream()).then_some(answer);
        // The answer goes on whatever becomes of the request's body, and the body whoever does not take the answer: what the
        // peer lets it send, nobody else can.
        self.uploading = std::mem::take(&mut self.upload).goes_on();
        Ok(response)
    }

    /// The next piece of the answer's body; none at its end.
    pub(crate) fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, WireError>>> {
        let Some(answer) = &mut self.answer else { return Poll::Ready(None) };
        let result = match ready!(answer.poll_data(cx)) {
            Some(Ok(data)) => {
                self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
                // Whoever asks for more has taken what there was.
                answer.flow_control().release_capacity(data.len()).map(|()| Some(Frame::data(data)))
            }
            Some(Err(error)) => Err(error),
            None => ready!(answer.poll_trailers(cx)).map(|trailers| trailers.map(Frame::trailers)),
        };
        if answer.is_end_stream() || !matches!(&result, Ok(Some(frame)) if frame.is_data()) {
            self.answer = None;
        }
        Poll::Ready(result.map_err(|error| Fault::H2(error).told(self.watch())).transpose())
    }

    /// Whether the answer's body has ended.
    pub(crate) fn is_end_of_body(&self) -> bool {
        self.answer.is_none()
    }

    /// How long the rest of the answer's body is, where its head told.
    pub(crate) fn body_left(&self) -> Option<u64> {
        if self.answer.is_none() { Some(0) } else { self.left }
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        if self.written.is_some() && !self.has_answer && self.watch().silent_for() >= SILENT_MAX {
            self.place.link.retire();
        }
    }
}

/// Tells once when a head was written, also where nobody waits for its answer any more: then it may be on its way, and its
/// tokens are spent rather than given back.
struct Told<'a, W: FnMut(Instant)> {
    watch: &'a Watch,
    id: u32,
    written: W,
    is_over: bool,
}

impl<W: FnMut(Instant)> Told<'_, W> {
    fn tell(&mut self, at: Instant) {
        self.is_over = true;
        (self.written)(at);
    }
}

impl<W: FnMut(Instant)> Drop for Told<'_, W> {
    fn drop(&mut self) {
        if !self.is_over {
            let at = self.watch.forget(self.id).map_or_else(|| self.watch.clock.now(), |written| written.at);
            self.tell(at);
        }
    }
}

/// Interim answers say nothing about the request's fate, but that there may be only so many.
fn check_interim(interim: &Response<()>, count: u32) -> Result<(), Fault> {
    let garbage = |why| Err(Fault::Wire(WireError::Garbage(why)));
    if interim.status() == StatusCode::SWITCHING_PROTOCOLS {
        return garbage("it switches protocols, which HTTP/2 does not do");
    }
    if count > INTERIM_MAX { garbage("too many interim answers") } else { Ok(()) }
}

/// How long the answer's head says that its body is; that it is just so long, the library sees to.
fn body_length(response: &Response<()>) -> Result<Option<u64>, Fault> {
    if response.headers().len() > FIELDS_MAX {
        return Err(Fault::Wire(WireError::HeadTooLarge));
    }
    let garbage = |why| Fault::Wire(WireError::Garbage(why));
    let mut lengths = response.headers().get_all(CONTENT_LENGTH).iter();
    let (first, second) = (lengths.next(), lengths.next());
    if second.is_some() {
        return Err(garbage("its Content-Length is given twice"));
    }
    let digits = |value: &&HeaderValue| !value.is_empty() && value.as_bytes().iter().all(u8::is_ascii_digit);
    let Some(value) = first else { return Ok(None) };
    let text = Some(value).filter(digits).and_then(|value| value.to_str().ok());
    let length = text.and_then(|text| text.parse().ok());
    length.map(Some).ok_or_else(|| garbage("its Content-Length is no number"))
}

/// Fields that speak of a connection of HTTP/1.1, and have no place here (RFC 9113 §8.2.2).
const OF_HTTP_1: [HeaderName; 5] = [
    CONNECTION,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// The head as HTTP/2 has it (RFC 9113 §8.3.1): the host in the target, the length told by the body itself.
fn request(head: &Request<()>, body: &AttemptBody) -> Option<Request<()>> {
    let mut fields = head.headers().clone();
    let authority = fields.remove(HOST)?;
    let mut uri = Uri::builder().scheme(Scheme::HTTPS).authority(authority.as_bytes());
    uri = uri.path_and_query(head.uri().path_and_query().map_or("/", PathAndQuery::as_str));
    OF_HTTP_1.iter().for_each(|name| drop(fields.remove(name)));
    let told = fields.remove(CONTENT_LENGTH).is_some();
    match body.size_hint().exact() {
        Some(0) if !told => {}
        Some(length) => drop(fields.insert(CONTENT_LENGTH, HeaderValue::from(length))),
        None => {}
    }
    never_indexed(&mut fields);
    let mut request = Request::new(());
    *request.method_mut() = head.method().clone();
    *request.uri_mut() = uri.build().ok()?;
    *request.version_mut() = Version::HTTP_2;
    *request.headers_mut() = fields;
    Some(request)
}

/// Secrets are kept out of the table that all requests of a connection share: whoever sees how well a field is packed could
/// guess at another's (RFC 7541 §7.1).
fn never_indexed(fields: &mut HeaderMap) {
    for (name, value) in fields.iter_mut() {
        if is_secret(name) {
            value.set_sensitive(true);
        }
    }
}

/// The name of an error code (RFC 9113 §7).
fn name_of(reason: Option<Reason>) -> &'static str {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    let code = reason.map(u32::from).and_then(|code| usize::try_from(code).ok());
    code.and_then(|code| NAMES.get(code)).unwrap_or(&"an unknown error")
}

/// What went wrong, before it is told.
enum Fault {
    H2(h2::Error),
    Wire(WireError),
}

impl From<h2::Error> for Fault {
    fn from(error: h2::Error) -> Self {
        Self::H2(error)
    }
}

impl Fault {
    /// Whether the upstream has said that it did not look at the request: it refused it, or left the connection and named
    /// an earlier one as the last (RFC 9113 §8.7). The library tells of the latter only those that came after.
    fn is_unprocessed(&self) -> bool {
        let Self::H2(error) = self else { return false };
        let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        error.is_remote() && (is_refused || error.is_go_away())
    }

    /// Whether the upstream has left the connection, and not looked at the request.
    fn has_left(&self) -> bool {
        matches!(self, Self::H2(error) if error.is_remote() && error.is_go_away())
    }

    fn demands_http_1(&self) -> bool {
        let Self::H2(error) = self else { return false };
        error.is_remote() && error.reason() == Some(Reason::HTTP_1_1_REQUIRED)
    }

    fn told(self, watch: &Watch) -> WireError {
        let error = match self {
            Self::Wire(error) => return error,
            Self::H2(error) => error,
        };
        let reason = error.reason();
        match (error.is_remote(), error.is_io()) {
            (true, _) if error.is_go_away() => WireError::Left(name_of(reason)),
            (true, _) => WireError::Reset(name_of(reason)),
            (false, true) => watch.fault().map_or(WireError::Closed, WireError::Io),
            (false, false) => WireError::Garbage("it broke the rules of HTTP/2, or its head is too large"),
        }
    }
}
