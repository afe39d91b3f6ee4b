//! Log lines on standard error: for people, or as JSON for programs.
//!
//! A line for people is its time, its level and its message, which says all there is to say; the fields are for programs.
//! Which upstream a line is about is a field too, and where there are several, people are told it before the message.
//! A proxy must never stand still because nobody reads its log: [`start`] writes in the background, through a queue with a
//! bound, and beyond that lines are lost and counted. A command that runs once writes directly.

mod access;
mod queue;
mod stamp;

use std::fmt::{self, Write as _};
use std::io;
use std::sync::OnceLock;
use std::time::SystemTime;

use sopan_engine::event::NO_UPSTREAM;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

pub(crate) use access::AccessLog;
use queue::{Queue, Writing};
pub(crate) use stamp::Stamp;

use crate::config::{self, Format};

static QUEUE: OnceLock<Queue> = OnceLock::new();

/// How lines look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    format: Format,
    ansi: bool,
    /// How long the names of upstreams are at most; 0 where there is only one, whom nobody need be told.
    name_width: usize,
}

impl Form {
    /// Lines about upstreams with these names.
    pub(crate) fn new<'n>(format: Format, names: impl IntoIterator<Item = &'n str>) -> Self {
        let widths: Vec<_> = names.into_iter().map(|name| name.chars().count()).collect();
        let name_width = if widths.len() > 1 { widths.into_iter().max().unwrap_or(0) } else { 0 };
        Self { format, ansi: config::wants_colours(&io::stderr()), name_width }
    }

    /// The same without colours.
    pub(crate) fn plain(self) -> Self {
        Self { ansi: false, ..self }
    }

    /// What every line for people begins with: `2026-11-29T22:33:05.123Z WARN`.
    fn begin(self, line: &mut dyn fmt::Write, at: SystemTime, level: Level) -> fmt::Result {
        match (self.ansi, colour(level)) {
            (true, Some(colour)) => write!(line, "\x1b[2m{}\x1b[0m \x1b[{colour}m{level}\x1b[0m", Stamp(at)),
            _ => write!(line, "{} {level}", Stamp(at)),
        }
    }
}

/// Writes what still waits when it is dropped, for about a second at most.
#[must_use = "lines that wait are lost unless this is kept to the end"]
#[derive(Debug)]
pub(crate) struct Background {
    queue: Queue,
    _writing: Writing,
}

impl Background {
    /// Where exchanges are told of.
    pub(crate) fn access(&self) -> AccessLog {
        AccessLog(self.queue.clone())
    }
}

/// Logs from now on, without ever waiting for whoever reads it.
///
/// # Errors
/// There can be no thread that writes.
pub(crate) fn start(form: Form) -> io::Result<Background> {
    let (queue, writing) = Queue::start(io::stderr(), form)?;
    // Whoever starts a second log, which no command does, counts what the first one loses.
    let _ = QUEUE.set(queue.clone());
    install(form, Level::INFO, queue.clone());
    Ok(Background { queue, _writing: writing })
}

/// Logs warnings from now on, each before the program goes on. The rest is told by what the program ends with.
pub(crate) fn start_direct(format: Format, to: impl for<'w> MakeWriter<'w> + Send + Sync + 'static) {
    install(Form::new(format, []), Level::WARN, to);
}

/// Gives the lines to another command from now on, which shows them in its own way, and without colours.
pub(crate) fn start_into(writer: impl for<'w> MakeWriter<'w> + Send + Sync + 'static) {
    set(subscriber(Form::new(Format::Text, []).plain(), Level::INFO, writer));
}

/// Lines that were lost because nobody read them fast enough.
pub(crate) fn lines_lost() -> u64 {
    QUEUE.get().map_or(0, Queue::lost)
}

fn install(form: Form, level: Level, writer: impl for<'w> MakeWriter<'w> + Send + Sync + 'static) {
    set(subscriber(form, level, writer));
}

fn set(subscriber: Boxed) {
    // It fails where there is a subscriber already, which no command sets up before.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

type Boxed = Box<dyn Subscriber + Send + Sync>;

fn subscriber(form: Form, level: Level, writer: impl for<'w> MakeWriter<'w> + Send + Sync + 'static) -> Boxed {
    let builder = tracing_subscriber::fmt().with_max_level(level).with_ansi(form.ansi).with_writer(writer);
    match form.format {
        Format::Text => Box::new(builder.event_format(Text(form)).finish()),
        Format::Json => {
            let builder = builder.json().flatten_event(true).with_timer(Millis).with_target(false);
            Box::new(builder.with_current_span(false).with_span_list(false).finish())
        }
    }
}

/// `2026-11-29T22:33:05.123Z`
struct Millis;

impl FormatTime for Millis {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{}", Stamp(SystemTime::now()))
    }
}

/// `2026-11-29T22:33:05.123Z WARN attempt 1 failed (HTTP 429); waiting 1.00 s before retrying`, and the name of the upstream
/// with a colon before the message where there are several.
struct Text(Form);

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let Self(form) = self;
        let mut said = Said::default();
        event.record(&mut said);
        form.begin(&mut writer, SystemTime::now(), *event.metadata().level())?;
        if let Some(upstream) = said.upstream.as_deref().filter(|name| form.name_width > 0 && *name != NO_UPSTREAM) {
            write!(writer, " {}:", Printable(upstream))?;
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
    upstream: Option<String>,
    fields: String,
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = Some(format!("{value:?}"));
        } else if field.name() == "upstream" {
            self.upstream = Some(format!("{value:?}"));
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
            .try_for_each(|c| if is_unseen(c) { write!(f, "{}", c.escape_default()) } else { f.write_char(c) })
    }
}

/// Whether a terminal does something else with it than show it: controls, and what turns, joins or hides the text around it.
pub(crate) fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// JSON that means the same, in which such characters are escaped too.
pub(crate) fn printable_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if is_unseen(c) && c != '\n' {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    shown
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
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    const TEXT: Form = Form { format: Format::Text, ansi: false, name_width: 0 };
    const JSON: Form = Form { format: Format::Json, ..TEXT };

    #[test]
    fn nothing_that_turns_or_hides_text_reaches_a_terminal() {
        let text = "a\u{1b}[31m\u{9b}b\u{202e}c\u{200b}\u{e0041}é\n";
        let shown = Printable(text).to_string();
        assert_eq!(shown, r"a\u{1b}[31m\u{9b}b\u{202e}c\u{200b}\u{e0041}é\n");
        let json = serde_json::to_string(text).unwrap();
        let shown = printable_json(&json);
        assert!(!shown.contains(is_unseen), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
    }

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
    fn written(form: Form, log: impl FnOnce()) -> String {
        let paper = Paper::default();
        let writer = paper.clone();
        tracing::subscriber::with_default(subscriber(form, Level::INFO, move || writer.clone()), log);
        let written = paper.0.lock().unwrap().clone();
        String::from_utf8(written).unwrap()
    }

    /// The line after its time, which must be one: `2026-11-29T22:33:05.123Z`.
    #[track_caller]
    fn after_time(line: &str) -> &str {
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
        let line = written(TEXT, retry);
        assert_eq!(after_time(&line), "WARN attempt 1 failed (HTTP 429); waiting 1.00 s before retrying\n");
    }

    #[test]
    fn fields_stand_in_for_a_message_that_is_not_there() {
        let line = written(TEXT, || tracing::info!(a = 1, b = "x y", c = 0.5));
        assert_eq!(after_time(&line), "INFO a=1 b=x y c=0.5\n");
    }

    #[test]
    fn where_there_are_several_upstreams_a_line_says_which_it_is_about() {
        let log = || {
            tracing::warn!(upstream = "shop", "a");
            tracing::warn!(upstream = NO_UPSTREAM, "b");
            tracing::warn!("c");
        };
        for (names, first) in [(&["shop", "mail"][..], "WARN shop: a"), (&["shop"], "WARN a")] {
            let lines = written(Form { ansi: false, ..Form::new(Format::Text, names.iter().copied()) }, log);
            assert_eq!(lines.lines().map(after_time).collect::<Vec<_>>(), [first, "WARN b", "WARN c"]);
        }
    }

    #[test]
    fn a_line_for_programs_has_every_field_at_the_top() {
        let line = written(JSON, retry);
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
        let line = written(Form { ansi: true, ..TEXT }, || tracing::error!("x"));
        let (time, rest) = line.strip_prefix("\x1b[2m").unwrap().split_once("\x1b[0m ").unwrap();
        assert_eq!((after_time(&format!("{time} ")), rest), ("", "\x1b[31mERROR\x1b[0m x\n"));
        assert!(!written(Form { ansi: true, ..JSON }, retry).contains('\x1b'));
    }

    #[test]
    fn nothing_from_outside_can_forge_a_line() {
        let line = written(TEXT, || tracing::warn!("a\n2026 WARN b\x1b[2J\u{9b}c\ttab é"));
        assert_eq!(after_time(&line), "WARN a\\n2026 WARN b\\u{1b}[2J\\u{9b}c\\ttab é\n");
    }

    #[test]
    fn debug_is_not_logged() {
        assert_eq!(written(TEXT, || tracing::debug!("x")), "");
    }

    #[test]
    fn one_thing_is_not_several() {
        assert_eq!([0, 1, 2].map(|n| Counted(n, "byte").to_string()), ["0 bytes", "1 byte", "2 bytes"]);
    }
}
