//! Log lines on standard error: for people, or as JSON for programs.
//!
//! A line for people is its time, its level and its message, which says all there is to say; the fields are for programs.
//! A proxy must never stand still because nobody reads its log: [`start`] writes in the background, through a queue with a
//! bound, and beyond that lines are lost and counted. A command that runs once writes directly.

use std::fmt::{self, Write as _};
use std::io;
use std::sync::OnceLock;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

use crate::config::{self, LogFormat};

/// Lines that wait to be written; about 4 MB if nobody reads them.
const LINES_WAITING_MAX: usize = 16_384;

static LOST: OnceLock<ErrorCounter> = OnceLock::new();

/// Writes what still waits when it is dropped, for about a second at most.
#[must_use = "lines that wait are lost unless this is kept to the end"]
pub(crate) struct Background(#[allow(dead_code, reason = "it acts when it is dropped")] WorkerGuard);

/// Logs from now on, without ever waiting for whoever reads it.
pub(crate) fn start(format: LogFormat) -> Background {
    let (writer, guard) = in_background(io::stderr());
    // Whoever starts a second log, which no command does, counts what the first one loses.
    let _ = LOST.set(writer.error_counter());
    install(format, Level::INFO, writer);
    Background(guard)
}

fn in_background(to: impl io::Write + Send + 'static) -> (NonBlocking, WorkerGuard) {
    let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(LINES_WAITING_MAX);
    builder.thread_name("sopan-log").finish(to)
}

/// Logs warnings from now on, each before the program goes on. The rest is told by what the program ends with.
pub(crate) fn start_direct(format: LogFormat) {
    install(format, Level::WARN, io::stderr);
}

/// Lines that were lost because nobody read them fast enough.
pub(crate) fn lines_lost() -> u64 {
    LOST.get().map_or(0, |lost| lost.dropped_lines() as u64)
}

fn install(format: LogFormat, level: Level, writer: impl for<'w> MakeWriter<'w> + Send + Sync + 'static) {
    let subscriber = subscriber(format, level, config::wants_colours(&io::stderr()), writer);
    // It fails where there is a subscriber already, which no command sets up before.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

type Boxed = Box<dyn Subscriber + Send + Sync>;

fn subscriber(
    format: LogFormat,
    level: Level,
    ansi: bool,
    writer: impl for<'w> MakeWriter<'w> + Send + Sync + 'static,
) -> Boxed {
    let builder = tracing_subscriber::fmt().with_max_level(level).with_ansi(ansi).with_writer(writer);
    match format {
        LogFormat::Text => Box::new(builder.event_format(Text).finish()),
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_timer(Millis).with_target(false);
            Box::new(builder.with_current_span(false).with_span_list(false).finish())
        }
    }
}

/// `2026-11-29T22:33:05.123Z`
struct Millis;

impl FormatTime for Millis {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let mut micros = String::new();
        SystemTime.format_time(&mut Writer::new(&mut micros))?;
        write!(writer, "{}Z", micros.get(..23).unwrap_or(&micros))
    }
}

/// `2026-11-29T22:33:05.123Z WARN attempt 1 failed (HTTP 429); waiting 1.00 s before retrying`
struct Text;

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut said = Said::default();
        event.record(&mut said);
        Millis.format_time(&mut writer)?;
        let level = *event.metadata().level();
        match colour(level).filter(|_| writer.has_ansi_escapes()) {
            Some(colour) => write!(writer, " \x1b[{colour}m{level}\x1b[0m")?,
            None => write!(writer, " {level}")?,
        }
        writeln!(writer, " {}", Printable(said.message.as_deref().unwrap_or(&said.fields)))
    }
}

fn colour(level: Level) -> Option<u8> {
    match level {
        Level::ERROR => Some(31),
        Level::WARN => Some(33),
        Level::INFO => Some(32),
        _ => None,
    }
}

/// What an event says: its message, or else its fields.
#[derive(Default)]
struct Said {
    message: Option<String>,
    fields: String,
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = Some(format!("{value:?}"));
        } else {
            let space = if self.fields.is_empty() { "" } else { " " };
            let _ = write!(self.fields, "{space}{}={value:?}", field.name());
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

/// Text on one line, in which nothing that came over a wire can move the cursor or begin a line of its own.
pub(crate) struct Printable<'a>(pub(crate) &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .chars()
            .try_for_each(|c| if c.is_control() { write!(f, "{}", c.escape_default()) } else { f.write_char(c) })
    }
}

/// A number of things, each of which is called so: `1 byte`, `5 bytes`.
pub(crate) struct Counted<'a>(pub(crate) u64, pub(crate) &'a str);

impl fmt::Display for Counted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number, thing) = self;
        write!(f, "{number} {thing}{}", if *number == 1 { "" } else { "s" })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is written while `log` runs.
    #[track_caller]
    pub(crate) fn written(format: LogFormat, ansi: bool, log: impl FnOnce()) -> String {
        let paper = Paper::default();
        let writer = paper.clone();
        tracing::subscriber::with_default(subscriber(format, Level::INFO, ansi, move || writer.clone()), log);
        let written = paper.0.lock().unwrap().clone();
        String::from_utf8(written).unwrap()
    }

    /// The line after its time, which must be one: `2026-11-29T22:33:05.123Z`.
    #[track_caller]
    pub(crate) fn after_time(line: &str) -> &str {
        let (time, rest) = line.split_once(' ').unwrap();
        let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "0000-00-00T00:00:00.000Z");
        rest
    }

    fn retry() {
        let (attempt, reason, wait_s) = (1, "HTTP 429", 1.0);
        tracing::warn!(
            attempt,
            reason,
            wait_s,
            "attempt {attempt} failed ({reason}); waiting {wait_s:.2} s before retrying"
        );
    }

    #[test]
    fn a_line_for_people_is_time_level_and_message() {
        let line = written(LogFormat::Text, false, retry);
        assert_eq!(after_time(&line), "WARN attempt 1 failed (HTTP 429); waiting 1.00 s before retrying\n");
    }

    #[test]
    fn fields_stand_in_for_a_message_that_is_not_there() {
        let line = written(LogFormat::Text, false, || tracing::info!(a = 1, b = "x y", c = 0.5));
        assert_eq!(after_time(&line), "INFO a=1 b=x y c=0.5\n");
    }

    #[test]
    fn a_line_for_programs_has_every_field_at_the_top() {
        let line = written(LogFormat::Json, false, retry);
        let mut object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&line).unwrap();
        let timestamp = object.remove("timestamp").unwrap();
        after_time(&format!("{} ", timestamp.as_str().unwrap()));
        let expected = serde_json::json!({
            "level": "WARN",
            "message": "attempt 1 failed (HTTP 429); waiting 1.00 s before retrying",
            "attempt": 1,
            "reason": "HTTP 429",
            "wait_s": 1.0,
        });
        assert_eq!(serde_json::Value::from(object), expected);
        assert!(line.ends_with("}\n") && line.lines().count() == 1);
    }

    #[test]
    fn colours_are_for_terminals() {
        let line = written(LogFormat::Text, true, || tracing::error!("x"));
        assert_eq!(after_time(&line), "\x1b[31mERROR\x1b[0m x\n");
        assert!(!written(LogFormat::Json, true, retry).contains('\x1b'));
    }

    #[test]
    fn nothing_from_outside_can_forge_a_line() {
        let line = written(LogFormat::Text, false, || tracing::warn!("a\n2026 WARN b\x1b[2J\u{9b}c\ttab é"));
        assert_eq!(after_time(&line), "WARN a\\n2026 WARN b\\u{1b}[2J\\u{9b}c\\ttab é\n");
    }

    #[test]
    fn debug_is_not_logged() {
        assert_eq!(written(LogFormat::Text, false, || tracing::debug!("x")), "");
    }

    #[test]
    fn one_thing_is_not_several() {
        assert_eq!([0, 1, 2].map(|n| Counted(n, "byte").to_string()), ["0 bytes", "1 byte", "2 bytes"]);
    }

    #[test]
    fn nobody_waits_for_a_log_that_is_not_read() {
        struct Unread(std::sync::mpsc::Receiver<()>);
        impl io::Write for Unread {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                // Until the other end is dropped.
                let _ = self.0.recv();
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (read, unread) = std::sync::mpsc::channel();
        let (writer, guard) = in_background(Unread(unread));
        let lost = writer.error_counter();
        let log = || (0..LINES_WAITING_MAX + 10).for_each(|n| tracing::info!("{n}"));
        tracing::subscriber::with_default(subscriber(LogFormat::Text, Level::INFO, false, writer), log);
        assert!((5..=10).contains(&lost.dropped_lines()), "{}", lost.dropped_lines());
        drop(read);
        drop(guard);
    }
}
