//! Which spans does an exchange make, and what is said of each?
//!
//! One for the exchange, as its client sees it, and within it one after the other: each wait, each connection that was made,
//! each attempt, what the cache did. Names are by the semantic conventions of OpenTelemetry where they have one, and begin
//! with `sopan.` where not. Pure: how spans are written down is for [`super::otlp`].

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{Method, StatusCode};
use sopan_core::trace::SpanId;
use sopan_engine::event::{Step, What};

use super::record::Record;

/// What happened from one instant to another.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Span {
    pub(super) id: SpanId,
    pub(super) parent: Option<SpanId>,
    /// Whether the parent is another program's.
    pub(super) is_parent_elsewhere: bool,
    pub(super) kind: Kind,
    pub(super) name: Cow<'static, str>,
    /// Nanoseconds since 1970.
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) attributes: Vec<(&'static str, Value)>,
    /// What went wrong, where something did; perhaps in words.
    pub(super) error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Within the program.
    Internal,
    /// Somebody was answered.
    Server,
    /// Somebody was asked.
    Client,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(Cow<'static, str>),
    Whole(i64),
    Number(f64),
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Whole(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<StatusCode> for Value {
    fn from(status: StatusCode) -> Self {
        Self::Whole(status.as_u16().into())
    }
}

impl From<Duration> for Value {
    /// In seconds.
    fn from(span: Duration) -> Self {
        Self::Number(span.as_secs_f64())
    }
}

/// Where an upstream is, as far as spans tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) address: String,
    pub(super) port: u16,
}

/// All spans of an exchange, its own first.
pub(super) fn spans(record: &Record, server: Option<&Server>) -> Vec<Span> {
    let began = record.ended.checked_sub(record.total).unwrap_or(UNIX_EPOCH);
    let mut story = Story { record, server, began, spans: vec![], before: Duration::ZERO, open: None, tried: 0 };
    story.spans.push(exchange(record, began));
    for (number, step) in record.steps.iter().enumerate() {
        story.step(number as u32, step);
    }
    if story.open.is_some() {
        story.close(record.total, &Outcome::Unknown);
    }
    story.spans
}

/// A story on its way to becoming spans.
struct Story<'r> {
    record: &'r Record,
    server: Option<&'r Server>,
    began: SystemTime,
    spans: Vec<Span>,
    /// When the step before was.
    before: Duration,
    /// The attempt under way, and since when.
    open: Option<(u32, Duration)>,
    tried: u32,
}

/// What came of an attempt.
enum Outcome<'s> {
    Answered(StatusCode, Option<Duration>),
    Failed(&'static str, &'s str),
    Stale(u32),
    Unknown,
}

impl Story<'_> {
    fn step(&mut self, number: u32, step: &Step) {
        let at = step.at;
        match &step.what {
            What::Waited { on, how_long } => {
                let reason = vec![("sopan.wait.for", on.word().into())];
                self.within(number, format!("wait {}", on.word()), at.saturating_sub(*how_long), at, reason);
            }
            What::Connected { how_long } => {
                self.within(number, "connect", at.saturating_sub(*how_long), at, vec![]);
            }
            What::Sent { attempt } => (self.open, self.tried) = (Some((*attempt, at)), *attempt),
            What::Answered { status, retry_after } => self.close(at, &Outcome::Answered(*status, *retry_after)),
            What::Failed { failure, reason } => {
                if self.open.is_none() {
                    // It did not come so far as to be sent.
                    self.tried += 1;
                    self.open = Some((self.tried, self.before));
                }
                self.close(at, &Outcome::Failed(failure.error_type(), reason));
            }
            What::Stale => self.close(at, &Outcome::Stale(number)),
            What::FromStore { how } => self.within(number, format!("cache {}", how.word()), self.before, at, vec![]),
            What::Stored => self.within(number, "cache store", self.before, at, vec![]),
            What::Refused { .. } | What::CutOff | What::Left => {}
        }
        self.before = at;
    }

    fn within(
        &mut self,
        number: u32,
        name: impl Into<Cow<'static, str>>,
        from: Duration,
        to: Duration,
        attributes: Vec<(&'static str, Value)>,
    ) {
        let id = self.record.trace.other(number);
        self.add(Span { attributes, ..self.child(id, Kind::Internal, name.into(), from, to) });
    }

    /// The attempt under way has ended.
    fn close(&mut self, at: Duration, outcome: &Outcome<'_>) {
        let Some((attempt, since)) = self.open.take() else { return };
        let trace = self.record.trace;
        // One that goes out again under the same number is told to the upstream as the same.
        let id = if let Outcome::Stale(number) = outcome { trace.other(*number) } else { trace.attempt(attempt) };
        let mut span = self.child(id, Kind::Client, format!("attempt {attempt}").into(), since, at);
        let said = &mut span.attributes;
        said.extend(method(&self.record.method));
        if let Some(Server { address, port }) = self.server {
            said.push(("server.address", address.clone().into()));
            said.push(("server.port", u64::from(*port).into()));
        }
        if attempt > 1 {
            said.push(("http.request.resend_count", u64::from(attempt - 1).into()));
        }
        match outcome {
            Outcome::Answered(status, retry_after) => {
                said.push(("http.response.status_code", (*status).into()));
                said.extend(retry_after.map(|wait| ("sopan.retry_after", wait.into())));
                if status.as_u16() >= 400 {
                    said.push(("error.type", status.as_u16().to_string().into()));
                    span.error = Some(String::new());
                }
            }
            Outcome::Failed(kind, reason) => {
                said.push(("error.type", (*kind).into()));
                span.error = Some((*reason).to_owned());
            }
            Outcome::Stale(_) => {
                said.push(("error.type", "connection_terminated".into()));
                span.error = Some("the idle connection was closed already; it goes out once more".to_owned());
            }
            Outcome::Unknown => {
                said.push(("error.type", "_OTHER".into()));
                span.error = Some("nobody waited for the answer any more".to_owned());
            }
        }
        self.add(span);
    }

    fn child(&self, id: SpanId, kind: Kind, name: Cow<'static, str>, from: Duration, to: Duration) -> Span {
        Span {
            id,
            parent: Some(self.record.trace.span),
            is_parent_elsewhere: false,
            kind,
            name,
            from: nanos(self.began, from),
            to: nanos(self.began, to),
            attributes: Vec::new(),
            error: None,
        }
    }

    fn add(&mut self, span: Span) {
        self.spans.push(span);
    }
}

/// The exchange as a whole.
fn exchange(record: &Record, began: SystemTime) -> Span {
    let (path, query) = match record.target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (&*record.target, None),
    };
    let mut said = method(&record.method);
    said.push(("url.scheme", "http".into()));
    said.push(("url.path", path.to_owned().into()));
    said.extend(query.map(|query| ("url.query", query.to_owned().into())));
    said.extend(record.status.map(|status| ("http.response.status_code", status.into())));
    said.push(("http.response.body.size", record.bytes.into()));
    said.push(("sopan.upstream", record.upstream.to_string().into()));
    said.push(("sopan.attempts", u64::from(record.attempts).into()));
    said.push(("sopan.wait", record.wait.into()));
    said.extend(record.cache.map(|cache| ("sopan.cache", cache.word().into())));
    said.extend(record.refused.map(|reason| ("sopan.refused", reason.into())));
    if record.steps_left_out > 0 {
        said.push(("sopan.steps_left_out", u64::from(record.steps_left_out).into()));
    }
    let error = match (record.status, record.whole) {
        (Some(status), true) if status.is_server_error() => Some((status.as_u16().to_string(), record.refused)),
        (Some(_), false) => Some(("cut_off".to_owned(), Some("the answer was not passed on to its end"))),
        // A client that leaves is no failure of whom it asked.
        (None, _) => {
            said.push(("sopan.left", "the client left before there was an answer".into()));
            None
        }
        (Some(_), true) => None,
    };
    if let Some((kind, _)) = &error {
        said.push(("error.type", kind.clone().into()));
    }
    Span {
        id: record.trace.span,
        parent: record.trace.parent,
        is_parent_elsewhere: record.trace.parent.is_some(),
        kind: Kind::Server,
        name: format!("{} {}", known(&record.method).unwrap_or("HTTP"), record.upstream).into(),
        from: nanos(began, Duration::ZERO),
        to: nanos(began, record.total),
        attributes: said,
        error: error.map(|(_, why)| why.unwrap_or_default().to_owned()),
    }
}

/// Of methods that nobody knows there may be any number, and spans are sorted by theirs.
fn method(method: &Method) -> Vec<(&'static str, Value)> {
    match known(method) {
        Some(known) => vec![("http.request.method", known.into())],
        None => vec![
            ("http.request.method", "_OTHER".into()),
            ("http.request.method_original", method.as_str().chars().take(64).collect::<String>().into()),
        ],
    }
}

fn known(method: &Method) -> Option<&'static str> {
    const KNOWN: [&str; 10] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"];
    KNOWN.into_iter().find(|known| method == known)
}

fn nanos(began: SystemTime, after: Duration) -> u64 {
    let since = began.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_add(after);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
