//! What an exchange was like, told to its client in a field and to the observer when it has ended.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Response, StatusCode, Uri};
use sopan_core::cache::status::Detail;
use sopan_core::decimal::Decimal;
use sopan_core::queue::ClientId;
use sopan_core::time::Instant;

use crate::clock::Clock;
use crate::event::{Cached, Event, Observed, Observer};
use crate::upstream::Upstream;

/// What happened in an exchange, as it is told to the client and to the observer.
#[derive(Debug, Clone)]
pub(super) struct Story {
    pub(super) arrived: Instant,
    pub(super) wait: Duration,
    pub(super) attempts: u32,
    pub(super) upstream: Duration,
    pub(super) refused: Option<&'static str>,
    pub(super) observed: Option<Box<Observed>>,
    pub(super) cache: Option<Cached>,
    pub(super) cache_detail: Option<Detail>,
    now: Now,
    status: Option<StatusCode>,
    telling: Telling,
}

/// What goes on.
#[derive(Debug, Clone, Copy)]
enum Now {
    Between,
    /// It waits, since then.
    Waits(Instant),
    /// The request was sent then, and its answer is waited for.
    Asks(Instant),
}

/// Whether the observer is to be told of the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Telling {
    Due,
    /// It has been, or another sees to it.
    Done,
    /// No client asks, only the store.
    Never,
}

/// Who is told a story, whose it is, and the clock by which it ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Audience<'a> {
    pub(crate) clock: Clock,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) client: ClientId,
}

/// A story, and whose it is.
pub(super) struct Told {
    pub(super) story: Story,
    pub(super) client: ClientId,
    pub(super) method: Method,
    pub(super) uri: Uri,
}

impl Told {
    pub(super) fn ended(&mut self, upstream: &Upstream, bytes: u64, whole: bool) {
        self.story.ended(upstream.audience(self.client), &self.method, &self.uri, bytes, whole);
    }
}

/// What is told where nothing was waited for, and nobody asked.
const NOTHING: &str = "wait;dur=0.0, attempts;desc=\"0\", upstream;dur=0.0";

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

impl Story {
    pub(super) fn new(arrived: Instant) -> Self {
        Self {
            arrived,
            wait: Duration::ZERO,
            attempts: 0,
            upstream: Duration::ZERO,
            refused: None,
            observed: None,
            cache: None,
            cache_detail: None,
            now: Now::Between,
            status: None,
            telling: Telling::Due,
        }
    }

    /// A wait begins.
    pub(super) fn waits(&mut self, since: Instant) {
        self.now = Now::Waits(since);
    }

    /// A wait has ended; answers how long it was.
    pub(super) fn waited(&mut self, clock: Clock) -> Duration {
        let Now::Waits(since) = self.now else { return Duration::ZERO };
        let waited = clock.now().since(since);
        self.wait += waited;
        self.now = Now::Between;
        waited
    }

    /// The request was sent.
    pub(super) fn asks(&mut self, at: Instant) {
        self.now = Now::Asks(at);
    }

    /// Whether the answer to it is waited for.
    pub(super) fn is_asking(&self) -> bool {
        matches!(self.now, Now::Asks(_))
    }

    /// An attempt has ended: there is an answer, or none will come.
    pub(super) fn heard(&mut self, clock: Clock) {
        if let Now::Asks(sent) = self.now {
            self.upstream += clock.now().since(sent);
            self.now = Now::Between;
        }
    }

    /// The observer is told by another, when the answer has been passed on.
    pub(super) fn is_told_later(&mut self) {
        self.telling = Telling::Done;
    }

    /// No client asks, only the store, and it is counted as an attempt alone.
    pub(super) fn is_of_nobody(&mut self) {
        self.telling = Telling::Never;
    }

    /// Whether no client waits for the answer.
    pub(super) fn is_nobodys(&self) -> bool {
        self.telling == Telling::Never
    }

    /// The status that the client gets.
    pub(super) fn answered(&mut self, status: StatusCode) {
        self.status = Some(status);
    }

    /// Tells the client what happened, beside whatever the upstream tells it (Server Timing, W3C).
    pub(super) fn tell<B>(&mut self, response: &mut Response<B>) {
        self.answered(response.status());
        let line = self.timing();
        if let Ok(value) = HeaderValue::from_bytes(line.bytes()) {
            response.headers_mut().append(SERVER_TIMING, value);
        }
    }

    /// The same, as a line of a head that is written by hand.
    pub(super) fn tell_in_line(&mut self, status: StatusCode, lines: &mut Vec<u8>) {
        self.answered(status);
        for part in [&b"server-timing: "[..], self.timing().bytes(), b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }

    fn timing(&self) -> Line {
        let mut line = Line::default();
        // As of all that comes from store.
        if self.attempts == 0 && self.wait.is_zero() && self.upstream.is_zero() {
            line.text(NOTHING);
            return line;
        }
        line.text("wait;dur=").tenths(millis_tenths(self.wait));
        line.text(", attempts;desc=\"").number(self.attempts.into());
        line.text("\", upstream;dur=").tenths(millis_tenths(self.upstream));
        line
    }

    /// Tells the observer, once.
    pub(super) fn ended(&mut self, to: Audience<'_>, method: &Method, uri: &Uri, bytes: u64, whole: bool) {
        if self.telling != Telling::Due {
            return;
        }
        self.telling = Telling::Done;
        // A client that has left ends what was under way.
        self.waited(to.clock);
        self.heard(to.clock);
        to.observer.ended(&Event {
            method,
            uri,
            client: to.client,
            status: self.status,
            refused: self.refused,
            observed: self.observed.as_deref(),
            cache: self.cache,
            cache_detail: self.cache_detail,
            wait: self.wait,
            attempts: self.attempts,
            upstream: self.upstream,
            total: to.clock.now().since(self.arrived),
            bytes,
            whole,
        });
    }
}

fn millis_tenths(span: Duration) -> u64 {
    span.as_secs() * 10_000 + u64::from(span.subsec_micros() / 100)
}

/// A short line written by hand: every answer carries one, and formatting would cost as much as parsing the answer.
struct Line {
    bytes: [u8; 96],
    len: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { bytes: [0; 96], len: 0 }
    }
}

impl Line {
    fn text(&mut self, text: &str) -> &mut Self {
        self.push(text.as_bytes())
    }

    fn number(&mut self, number: u64) -> &mut Self {
        self.push(Decimal::of(number).as_bytes())
    }

    fn tenths(&mut self, tenths: u64) -> &mut Self {
        self.number(tenths / 10).push(&[b'.', b'0' + (tenths % 10) as u8])
    }

    /// What does not fit is left out; three numbers of twenty digits do.
    fn push(&mut self, text: &[u8]) -> &mut Self {
        if let Some(place) = self.bytes.get_mut(self.len..self.len + text.len()) {
            place.copy_from_slice(text);
            self.len += text.len();
        }
        self
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timing_is_told_in_milliseconds() {
        for (wait, attempts, upstream, expected) in [
            (0, 0, 0, "wait;dur=0.0, attempts;desc=\"0\", upstream;dur=0.0"),
            (0, 1, 0, "wait;dur=0.0, attempts;desc=\"1\", upstream;dur=0.0"),
            (312_450, 2, 41_000, "wait;dur=312.4, attempts;desc=\"2\", upstream;dur=41.0"),
            (3_600_000_000, 1000, 99, "wait;dur=3600000.0, attempts;desc=\"1000\", upstream;dur=0.0"),
        ] {
            let mut story = Story::new(Instant::ORIGIN);
            (story.wait, story.upstream) = (Duration::from_micros(wait), Duration::from_micros(upstream));
            story.attempts = attempts;
            let mut response = Response::new(());
            story.tell(&mut response);
            assert_eq!(response.headers()[SERVER_TIMING], expected);
        }
    }
}
