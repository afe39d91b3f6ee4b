//! What an exchange was like, told to its client in a field and to the observer when it has ended.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Response, StatusCode, Uri};
use sopan_core::cache::status::Detail;
use sopan_core::decimal::Decimal;
use sopan_core::queue::ClientId;
use sopan_core::time::{Instant, nanos};

use super::trail::{Ending, Trail};
use crate::clock::Clock;
use crate::event::{Awaited, Cached, Event, Observed, Observer, What};
use crate::upstream::Upstream;

/// What happened in an exchange, as it is told to the client and to the observer.
#[derive(Debug, Clone)]
pub(super) struct Story {
    pub(super) arrived: Instant,
    /// How long it has waited, in nanoseconds, as what comes next: a hundred thousand stories may wait.
    wait: u64,
    pub(super) attempts: u32,
    upstream: u64,
    pub(super) refused: Option<&'static str>,
    pub(super) observed: Option<Box<Observed>>,
    pub(super) cache: Option<Cached>,
    pub(super) cache_detail: Option<Detail>,
    /// When it was sent, or never, as long as nothing is noted.
    pub(super) sent: Instant,
    /// What happened, where it is more than that.
    pub(super) trail: Option<Box<Trail>>,
    now: Now,
    /// What the upstream answered, as long as nothing is noted; and when its head is told, what the client gets.
    pub(super) status: Option<StatusCode>,
    progress: Progress,
}

/// How far the exchange is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    /// Nobody is told anything yet.
    Open,
    /// The client has the head.
    Head,
    /// The observer knows it all, or will hear it from another.
    All,
    /// No client asks, only the store, and it is counted as an attempt alone.
    Nobody,
}

/// What goes on.
#[derive(Debug, Clone, Copy)]
enum Now {
    Between,
    /// It waits for this, since then, when holds had lasted so many milliseconds in all, as far as 32 bits say it.
    Waits {
        on: Awaited,
        since: Instant,
        held: u32,
    },
    /// The request was sent then, and its answer is waited for.
    Asks(Instant),
}

/// Who is told a story, whose it is, and the clock by which it ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Audience<'a> {
    pub(crate) clock: Clock,
    pub(crate) observer: &'a dyn Observer,
    /// Whose the exchange is.
    pub(crate) client: ClientId,
}

/// A story, and whose it is.
pub(super) struct Told {
    pub(super) client: ClientId,
    pub(super) story: Story,
    pub(super) method: Method,
    pub(super) uri: Uri,
}

impl Told {
    pub(super) fn ended(&mut self, upstream: &Upstream, bytes: u64, whole: bool) {
        self.ended_so(upstream, bytes, Ending::of(whole));
    }

    pub(super) fn ended_so(&mut self, upstream: &Upstream, bytes: u64, ending: Ending) {
        self.story.ended(upstream.audience(self.client), &self.method, &self.uri, bytes, ending);
    }
}

/// What is told where nothing was waited for, and nobody asked.
const NOTHING: &str = "wait;dur=0.0, attempts;desc=\"0\", upstream;dur=0.0";

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

impl Story {
    pub(super) fn new(arrived: Instant) -> Self {
        Self {
            arrived,
            wait: 0,
            attempts: 0,
            upstream: 0,
            refused: None,
            observed: None,
            cache: None,
            cache_detail: None,
            sent: Instant::NEVER,
            trail: None,
            now: Now::Between,
            status: None,
            progress: Progress::Open,
        }
    }

    /// A wait begins.
    pub(super) fn waits(&mut self, on: Awaited, since: Instant) {
        self.now = Now::Waits { on, since, held: 0 };
    }

    /// A wait for a turn begins, when the lane has been held for so long in all.
    pub(super) fn waits_for_turn(&mut self, on: Awaited, held: Duration, since: Instant) {
        self.now = Now::Waits { on, since, held: held.as_millis() as u32 };
    }

    /// A wait for a turn is about to end. Whatever it was for at first, holds that came are what it was for if they were the
    /// half of it or more.
    pub(super) fn turn_comes(&mut self, held_now: Duration, now: Instant) {
        if let Now::Waits { on, since, held } = &mut self.now {
            // It is less than before where one that was there already has been ended early.
            let held = (held_now.as_millis() as u32).wrapping_sub(*held).cast_signed();
            let held = Duration::from_millis(held.max(0).unsigned_abs().into());
            if !held.is_zero() && held * 2 >= now.since(*since) {
                *on = Awaited::Hold;
            }
        }
    }

    /// A wait has ended; answers how long it was.
    pub(super) fn waited(&mut self, clock: Clock) -> Duration {
        let Now::Waits { on, since, .. } = self.now else { return Duration::ZERO };
        let now = clock.now();
        let how_long = now.since(since);
        self.wait = self.wait.saturating_add(nanos(how_long));
        self.now = Now::Between;
        if !how_long.is_zero() {
            self.note(What::Waited { on, how_long }, now);
        }
        how_long
    }

    /// The request was sent.
    pub(super) fn asks(&mut self, at: Instant) {
        self.now = Now::Asks(at);
        if self.trail.is_some() || self.status.is_some() {
            self.note(What::Sent { attempt: self.attempts }, at);
        } else {
            self.sent = at;
        }
    }

    /// Whether the answer to it is waited for.
    pub(super) fn is_asking(&self) -> bool {
        matches!(self.now, Now::Asks(_))
    }

    /// An attempt has ended: there is an answer, or none will come.
    pub(super) fn heard(&mut self, clock: Clock) {
        if let Now::Asks(sent) = self.now {
            self.upstream = self.upstream.saturating_add(nanos(clock.now().since(sent)));
            self.now = Now::Between;
        }
    }

    /// How long the upstream took so far.
    pub(super) fn upstream(&self) -> Duration {
        Duration::from_nanos(self.upstream)
    }

    /// No client asks, only the store, and it is counted as an attempt alone.
    pub(super) fn is_of_nobody(&mut self) {
        self.progress = Progress::Nobody;
        // Nor is it in a trace, of which nobody would be told.
        self.trail = None;
    }

    /// Whether no client waits for the answer.
    pub(super) fn is_nobodys(&self) -> bool {
        self.progress == Progress::Nobody
    }

    /// The story for another, who tells the observer when the answer has been passed on.
    pub(super) fn hand_on(&mut self) -> Self {
        let trail = self.trail.take();
        let story = Self { trail, ..self.clone() };
        self.progress = self.progress.max(Progress::All);
        story
    }

    /// The status that the client gets.
    pub(super) fn answered(&mut self, status: StatusCode) {
        if self.is_sent_plainly() && self.status != Some(status) {
            // Else what the upstream answered would be forgotten.
            self.begin_trail();
        }
        self.status = Some(status);
        self.progress = self.progress.max(Progress::Head);
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
        if self.attempts == 0 && self.wait == 0 && self.upstream == 0 {
            line.text(NOTHING);
            return line;
        }
        line.text("wait;dur=").tenths(self.wait / NANOS_A_TENTH);
        line.text(", attempts;desc=\"").number(self.attempts.into());
        line.text("\", upstream;dur=").tenths(self.upstream / NANOS_A_TENTH);
        line
    }

    /// Tells the observer, once.
    pub(super) fn ended(&mut self, to: Audience<'_>, method: &Method, uri: &Uri, bytes: u64, ending: Ending) {
        let progress = self.progress;
        if progress >= Progress::All {
            return;
        }
        self.progress = Progress::All;
        let ending = match ending {
            Ending::Cut if progress == Progress::Open => Ending::Left,
            ending => ending,
        };
        // A client that has left ends what was under way.
        self.waited(to.clock);
        self.heard(to.clock);
        let ended = to.clock.now();
        let total = ended.since(self.arrived);
        let event = Event {
            client: to.client,
            method,
            uri,
            status: self.status.filter(|_| progress == Progress::Head),
            refused: self.refused,
            observed: self.observed.as_deref(),
            cache: self.cache,
            cache_detail: self.cache_detail,
            wait: Duration::from_nanos(self.wait),
            attempts: self.attempts,
            upstream: self.upstream(),
            total,
            ended,
            bytes,
            whole: !matches!(ending, Ending::Cut | Ending::Left),
            steps: &[],
            steps_left_out: 0,
            trace: None,
        };
        match self.trail.take() {
            None => to.observer.ended(&Event { steps: self.plain(ending, total).steps(), ..event }),
            Some(mut trail) => {
                self.end_trail(&mut trail, ending, total);
                let (steps, steps_left_out, trace) = (trail.steps(), trail.left_out(), trail.trace.as_ref());
                to.observer.ended(&Event { steps, steps_left_out, trace, ..event });
            }
        }
    }
}

/// Of a millisecond.
const NANOS_A_TENTH: u64 = 100_000;

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
            (story.wait, story.upstream) = (wait * 1000, upstream * 1000);
            story.attempts = attempts;
            let mut response = Response::new(());
            story.tell(&mut response);
            assert_eq!(response.headers()[SERVER_TIMING], expected);
        }
    }
}
