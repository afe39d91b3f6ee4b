//! The access log: one line an exchange, in the order in which they end.
//!
//! Whoever serves an exchange only copies what there is to tell; the line is made of it by the thread that writes. For people
//! it is in columns, with colours on a terminal; for programs an object with a field for each fact, and the same in a
//! message. When a line is written, and what becomes of one that finds no room, is the queue's business.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{Method, StatusCode, Uri};
use sopan_core::cache::status::Detail;
use sopan_core::headers::redact_url;
use sopan_engine::event::{Cached, Event, NO_UPSTREAM, Observed};

use super::queue::{Entry, Queue};
use super::stamp::Stamp;
use super::{Counted, Form, Printable};
use crate::config::Format;

/// Takes what ends, and never waits.
#[derive(Debug, Clone)]
pub(crate) struct AccessLog(pub(super) Queue);

impl AccessLog {
    /// An exchange with this upstream has ended; of this client, where a key says so.
    pub(crate) fn tell(&self, upstream: &Arc<str>, client: Option<&Arc<str>>, event: &Event<'_>) {
        self.0.put(Entry::Access(Box::new(Access::new(upstream, client, event, SystemTime::now()))));
    }
}

/// An exchange that has ended, with nothing that hangs on its connection.
#[derive(Clone)]
pub(super) struct Access {
    at: SystemTime,
    upstream: Arc<str>,
    client: Option<Arc<str>>,
    method: Method,
    /// With its secrets; it is redacted when it is written.
    target: String,
    status: Option<StatusCode>,
    refused: Option<&'static str>,
    observed: Option<Observed>,
    cache: Option<Cached>,
    cache_detail: Option<Detail>,
    wait: Duration,
    attempts: u32,
    answered_in: Duration,
    total: Duration,
    bytes: u64,
    whole: bool,
}

/// Shows no secret of the target.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, upstream, method, target, status, .. } = self;
        f.debug_struct("Access")
            .field("at", at)
            .field("upstream", upstream)
            .field("method", method)
            .field("target", &redact_url(target))
            .field("status", status)
            .finish_non_exhaustive()
    }
}

impl Access {
    fn new(upstream: &Arc<str>, client: Option<&Arc<str>>, event: &Event<'_>, at: SystemTime) -> Self {
        let Event {
            method,
            uri,
            status,
            refused,
            observed,
            cache,
            cache_detail,
            wait,
            attempts,
            upstream: answered_in,
            total,
            bytes,
            whole,
            ..
        } = *event;
        Self {
            at,
            upstream: Arc::clone(upstream),
            client: client.map(Arc::clone),
            method: method.clone(),
            target: text(uri),
            status,
            refused,
            observed: observed.copied(),
            cache,
            cache_detail,
            wait,
            attempts,
            answered_in,
            total,
            bytes,
            whole,
        }
    }

    /// About what it holds of memory.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.target.len() + self.method.as_str().len()
    }

    /// Appends its line.
    pub(super) fn write(&self, line: &mut String, form: Form) {
        let path = redact_url(&self.target);
        let written = match form.format {
            Format::Text => self.write_text(line, form, &path),
            Format::Json => self.write_json(line, &path),
        };
        debug_assert!(written.is_ok(), "a string takes everything");
    }

    /// `2026-11-29T22:33:05.123Z INFO 200     312.4 ms GET  /orders?page=… 5120 bytes; waited 300.1 ms, 2 attempts, …`
    fn write_text(&self, line: &mut String, form: Form, path: &str) -> fmt::Result {
        form.begin(line, self.at, tracing::Level::INFO)?;
        if form.name_width > 0 {
            let name = if *self.upstream == *NO_UPSTREAM { String::new() } else { format!("{}:", self.upstream) };
            write!(line, " {:<width$}", Printable(&name).to_string(), width = form.name_width + 1)?;
        }
        let code = self.status.map_or_else(|| "---".to_owned(), |status| status.as_u16().to_string());
        match form.ansi {
            true => write!(line, " \x1b[{}m{code}\x1b[0m", colour(self.status))?,
            false => write!(line, " {code}")?,
        }
        let total = format!("{:.1}", millis(self.total));
        write!(line, " {total:>8} ms {:<4} {} ", self.method.as_str(), Printable(path))?;
        self.tell_rest(line)?;
        line.write_char('\n')
    }

    fn write_json(&self, line: &mut String, path: &str) -> fmt::Result {
        let mut message = format!("{} {path} ", self.method);
        match self.status {
            Some(status) => write!(message, "{} in {:.1} ms, ", status.as_u16(), millis(self.total))?,
            None => write!(message, "in {:.1} ms, ", millis(self.total))?,
        }
        self.tell_rest(&mut message)?;
        let (message, method, path) = (json(&message), json(self.method.as_str()), json(path));
        write!(line, "{{\"timestamp\":\"{}\",\"level\":\"INFO\",\"message\":{message}", Stamp(self.at))?;
        write!(line, ",\"upstream\":{},\"method\":{method},\"path\":{path}", json(&self.upstream))?;
        if let Some(client) = &self.client {
            write!(line, ",\"client\":{}", json(client))?;
        }
        if let Some(status) = self.status {
            write!(line, ",\"status\":{}", status.as_u16())?;
        }
        let (total, wait, answered_in) = (millis(self.total), millis(self.wait), millis(self.answered_in));
        write!(line, ",\"bytes\":{},\"total_ms\":{total},\"wait_ms\":{wait}", self.bytes)?;
        write!(line, ",\"attempts\":{},\"upstream_ms\":{answered_in}", self.attempts)?;
        if let Some(refused) = self.refused {
            write!(line, ",\"refused\":{}", json(refused))?;
        }
        if let Some(cache) = self.cache {
            write!(line, ",\"cache\":\"{}\"", cache.word())?;
        }
        if let Some(detail) = self.cache_detail {
            write!(line, ",\"cache_detail\":\"{}\"", detail.word())?;
        }
        if let Some(observed) = &self.observed {
            match observed.refused {
                _ if observed.from_store => line.push_str(",\"would_hit\":true"),
                Some(refusal) => write!(line, ",\"would_refuse\":{}", json(refusal.reason()))?,
                None => write!(line, ",\"would_wait_ms\":{}", millis(observed.wait))?,
            }
            if let Some(wait) = observed.would_retry() {
                write!(line, ",\"would_retry_s\":{}", wait.as_secs_f64())?;
            }
        }
        writeln!(line, ",\"whole\":{}}}", self.whole)
    }

    /// `5120 bytes; waited 300.1 ms, 2 attempts, upstream 12.3 ms`
    fn tell_rest(&self, line: &mut String) -> fmt::Result {
        match self.status {
            Some(_) => write!(line, "{}", Counted(self.bytes, "byte"))?,
            None => line.write_str("ended before an answer")?,
        }
        let tried = Counted(self.attempts.into(), "attempt");
        let (wait, answered_in) = (millis(self.wait), millis(self.answered_in));
        write!(line, "; waited {wait:.1} ms, {tried}, upstream {answered_in:.1} ms")?;
        if let Some(client) = &self.client {
            write!(line, "; client: {client}")?;
        }
        if let Some(cache) = self.cache {
            write!(line, "; cache: {}", cache.word())?;
        }
        if let Some(detail) = self.cache_detail {
            write!(line, " ({})", detail.word())?;
        }
        if let Some(reason) = self.refused {
            write!(line, "; refused: {reason}")?;
        }
        if !self.whole && self.status.is_some() {
            line.write_str("; cut off")?;
        }
        let Some(observed) = &self.observed else { return Ok(()) };
        if observed.from_store {
            return line.write_str("; would have come from the cache");
        }
        match observed.refused {
            Some(refusal) => write!(line, "; would have been refused: {}", refusal.reason())?,
            None => write!(line, "; would have waited {:.1} ms", millis(observed.wait))?,
        }
        match observed.would_retry() {
            Some(wait) => write!(line, "; would have been retried after {:.2} s", wait.as_secs_f64()),
            None => Ok(()),
        }
    }
}

/// A target as it was sent.
fn text(uri: &Uri) -> String {
    match (uri.authority(), uri.path_and_query()) {
        (None, Some(path)) => path.as_str().to_owned(),
        _ => uri.to_string(),
    }
}

/// By its class: fine, elsewhere, the client's fault, the server's.
fn colour(status: Option<StatusCode>) -> u8 {
    match status.map_or(0, |status| status.as_u16()) {
        ..100 => 35,
        100..300 => 32,
        300..400 => 36,
        400..500 => 33,
        500.. => 31,
    }
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Milliseconds to a tenth.
fn millis(span: Duration) -> f64 {
    (span.as_secs_f64() * 10_000.0).round() / 10.0
}

#[cfg(test)]
pub(super) mod tests {
    use sopan_core::cache::NotStored;
    use sopan_core::lane;
    use sopan_core::retry::{Again, Backoff, Verdict};
    use sopan_engine::refusal::Refusal;

    use super::*;

    const TEXT: Form = Form { format: Format::Text, ansi: false, name_width: 0 };
    const JSON: Form = Form { format: Format::Json, ..TEXT };

    fn access() -> Access {
        Access {
            at: SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_991_585_123),
            upstream: "shop".into(),
            client: None,
            method: Method::GET,
            target: "/api/v1/orders?page=2&key=SECRET".to_owned(),
            status: Some(StatusCode::OK),
            refused: None,
            observed: None,
            cache: None,
            cache_detail: None,
            wait: Duration::from_micros(300_140),
            attempts: 2,
            answered_in: Duration::from_micros(12_260),
            total: Duration::from_micros(312_400),
            bytes: 5120,
            whole: true,
        }
    }

    /// One that is told apart by its number.
    pub(crate) fn numbered(number: u64) -> Access {
        Access { bytes: number, ..access() }
    }

    fn written(access: &Access, form: Form) -> String {
        let mut line = String::new();
        access.write(&mut line, form);
        line
    }

    #[track_caller]
    fn check(access: &Access, form: Form, expected: &str) {
        let line = written(access, form);
        assert_eq!(line.strip_prefix("2026-11-29T22:33:05.123Z INFO ").unwrap(), format!("{expected}\n"));
    }

    #[test]
    fn an_exchange_is_a_line_in_columns_without_its_secrets() {
        check(
            &access(),
            TEXT,
            "200    312.4 ms GET  /api/v1/orders?page=…&key=… 5120 bytes; waited 300.1 ms, 2 attempts, upstream 12.3 ms",
        );
        let (status, refused, whole) = (StatusCode::SERVICE_UNAVAILABLE, Some("queue-full"), true);
        let refused = Access { status: Some(status), refused, whole, attempts: 0, ..access() };
        check(
            &refused,
            TEXT,
            "503    312.4 ms GET  /api/v1/orders?page=…&key=… 5120 bytes; waited 300.1 ms, 0 attempts, upstream 12.3 ms; \
             refused: queue-full",
        );
        let cut = Access { method: Method::POST, whole: false, attempts: 1, bytes: 1, ..access() };
        check(
            &cut,
            TEXT,
            "200    312.4 ms POST /api/v1/orders?page=…&key=… 1 byte; waited 300.1 ms, 1 attempt, upstream 12.3 ms; cut off",
        );
        let left = Access { status: None, answered_in: Duration::ZERO, ..cut };
        check(
            &left,
            TEXT,
            "---    312.4 ms POST /api/v1/orders?page=…&key=… ended before an answer; waited 300.1 ms, 1 attempt, \
             upstream 0.0 ms",
        );
    }

    #[test]
    fn columns_hold_with_several_upstreams_and_on_a_terminal() {
        let rest = "0 bytes; waited 0.0 ms, 1 attempt, upstream 0.0 ms";
        let short = Access {
            target: "/x".to_owned(),
            bytes: 0,
            attempts: 1,
            wait: Duration::ZERO,
            answered_in: Duration::ZERO,
            total: Duration::from_secs(120),
            ..access()
        };
        let none = Access { upstream: NO_UPSTREAM.into(), status: Some(StatusCode::NOT_FOUND), ..short.clone() };
        let named = Form { name_width: 7, ..TEXT };
        check(&short, named, &format!("shop:    200 120000.0 ms GET  /x {rest}"));
        check(&none, named, &format!("         404 120000.0 ms GET  /x {rest}"));
        let line = written(&none, Form { ansi: true, ..TEXT });
        let begin =
            "\x1b[2m2026-11-29T22:33:05.123Z\x1b[0m \x1b[32mINFO\x1b[0m \x1b[33m404\x1b[0m 120000.0 ms GET  /x ";
        assert_eq!(line, format!("{begin}{rest}\n"));
    }

    #[test]
    fn it_has_fields_for_programs() {
        let status = Some(StatusCode::SERVICE_UNAVAILABLE);
        let line = written(&Access { status, refused: Some("queue-full"), ..access() }, JSON);
        assert!(line.ends_with("}\n") && line.lines().count() == 1, "{line}");
        let expected = serde_json::json!({
            "timestamp": "2026-11-29T22:33:05.123Z",
            "level": "INFO",
            "message": "GET /api/v1/orders?page=…&key=… 503 in 312.4 ms, 5120 bytes; waited 300.1 ms, 2 attempts, \
                        upstream 12.3 ms; refused: queue-full",
            "upstream": "shop",
            "method": "GET",
            "path": "/api/v1/orders?page=…&key=…",
            "status": 503,
            "bytes": 5120,
            "total_ms": 312.4,
            "wait_ms": 300.1,
            "attempts": 2,
            "upstream_ms": 12.3,
            "refused": "queue-full",
            "whole": true,
        });
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap(), expected);
        let line = written(&Access { status: None, ..access() }, JSON);
        assert!(!line.contains("refused") && !line.contains("status"), "{line}");
        assert!(line.contains("GET /api/v1/orders?page=…&key=… in 312.4 ms, ended before an answer; "), "{line}");
    }

    #[test]
    fn it_says_what_the_cache_did_and_why() {
        let hit = Access { cache: Some(Cached::Hit), ..access() };
        let detail = Some(Detail::NotStored(NotStored::VaryStar));
        let miss = Access { cache: Some(Cached::Miss), cache_detail: detail, ..access() };
        for (access, words, fields) in [
            (hit, "cache: hit", serde_json::json!({"cache": "hit"})),
            (miss, "cache: miss (vary-star)", serde_json::json!({"cache": "miss", "cache_detail": "vary-star"})),
        ] {
            let line = written(&access, TEXT);
            assert!(line.ends_with(&format!("upstream 12.3 ms; {words}\n")), "{line}");
            let mut object: serde_json::Map<_, _> = serde_json::from_str(&written(&access, JSON)).unwrap();
            object.retain(|name, _| name.starts_with("cache"));
            assert_eq!(serde_json::Value::Object(object), fields);
        }
    }

    #[test]
    fn what_would_have_been_ends_the_line() {
        let again = Again { wait: Duration::from_secs(1), spends_budget: false, backoff: Backoff::default() };
        let waits = Observed { wait: Duration::from_millis(120), refused: None, failed: None, from_store: false };
        let full = lane::Refusal::QueueFull { waiting: 1000, retry_after: 1 };
        for (observed, words, fields) in [
            (waits, "would have waited 120.0 ms", serde_json::json!({"would_wait_ms": 120})),
            (
                Observed { from_store: true, ..waits },
                "would have come from the cache",
                serde_json::json!({"would_hit": true}),
            ),
            (
                Observed { refused: Some(Refusal::Lane(full)), ..waits },
                "would have been refused: queue-full",
                serde_json::json!({"would_refuse": "queue-full"}),
            ),
            (
                Observed { failed: Some(Verdict::Again(again)), ..waits },
                "would have waited 120.0 ms; would have been retried after 1.00 s",
                serde_json::json!({"would_wait_ms": 120, "would_retry_s": 1}),
            ),
        ] {
            let access = Access { observed: Some(observed), ..access() };
            let line = written(&access, TEXT);
            assert!(line.ends_with(&format!("upstream 12.3 ms; {words}\n")), "{line}");
            let mut object: serde_json::Map<_, _> = serde_json::from_str(&written(&access, JSON)).unwrap();
            object.retain(|name, _| name.starts_with("would"));
            assert_eq!(serde_json::Value::Object(object), fields);
        }
    }

    #[test]
    fn a_target_is_told_as_it_was_sent() {
        for target in ["/x?y=1", "*", "http://h/x?y", "/"] {
            assert_eq!(text(&target.parse().unwrap()), target);
        }
    }
}
