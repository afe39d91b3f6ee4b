//! What is told of a run while it goes on, and at its end?
//!
//! All of it goes to standard error, since standard output may be where records go. On a terminal a line shows how far it is, and
//! makes room for whatever else is told ([`Line`]). With `--json` each thing is an object on a line of its own. With `--quiet` only
//! what goes wrong is told, which is somebody else's business.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, SystemTime};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use sopan_core::time::Instant;
use sopan_engine::clock::Clock;
use tracing_subscriber::fmt::MakeWriter;

use super::tally::{CAUSES, Counts};
use super::traversal::{Context, Summary};
use crate::config::Telling;
use crate::log::{Counted, Printable, Stamp, printable_json};

/// The line that shows how far it is: hidden where standard error is no terminal, and where nobody wants it.
#[derive(Debug, Clone)]
pub(crate) struct Line(ProgressBar);

impl Line {
    pub(crate) fn new(telling: Telling) -> Self {
        /// More often nobody can read it.
        const PER_SECOND: u8 = 8;
        let is_shown = telling == Telling::People && io::stderr().is_terminal();
        let target =
            if is_shown { ProgressDrawTarget::stderr_with_hz(PER_SECOND) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        // One of our own, which is right.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        if is_shown {
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        Self(bar)
    }

    /// Writes something else, for which the line makes room.
    fn beside(&self, text: &str) {
        // Where nobody listens, the exit code must do.
        self.0.suspend(|| _ = writeln!(io::stderr(), "{text}"));
    }
}

/// Lines of the log, for which it makes room too.
impl<'w> MakeWriter<'w> for Line {
    type Writer = Beside;

    fn make_writer(&'w self) -> Beside {
        Beside(self.clone())
    }
}

/// Writes beside the line.
#[derive(Debug)]
pub(crate) struct Beside(Line);

impl io::Write for Beside {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let Self(Line(bar)) = self;
        bar.suspend(|| io::stderr().write_all(text)).map(|()| text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How far a job is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Far {
    pub(super) pages: u64,
    /// Those that there are, as far as that is known.
    pub(super) pages_in_all: Option<u64>,
    pub(super) records: u64,
    pub(super) records_in_all: Option<u64>,
    /// Since this run began, and what it has added since.
    pub(super) elapsed: Duration,
    pub(super) added: u64,
    pub(super) added_pages: u64,
    pub(super) waited: Duration,
    /// How long the rest takes by the limits alone, reckoned when it began.
    pub(super) by_limits: Option<Duration>,
}

impl Far {
    /// How long it takes still: as long as it went so far, and no faster than the limits let it.
    fn left(&self) -> Option<Duration> {
        let pages = self.pages_in_all?.saturating_sub(self.pages);
        if pages == 0 || self.added_pages == 0 {
            return None;
        }
        let so_far = self.elapsed.as_secs_f64() / self.added_pages as f64 * pages as f64;
        let by_limits = self.by_limits.unwrap_or_default().saturating_sub(self.elapsed);
        Duration::try_from_secs_f64(so_far).ok().map(|so_far| so_far.max(by_limits))
    }

    fn in_words(&self) -> String {
        let of = |all: Option<u64>| all.map_or_else(String::new, |all| format!(" of {all}"));
        let Self { pages, records, elapsed, added, waited, .. } = *self;
        let mut told = format!("{records}{} records, {pages}{} pages", of(self.records_in_all), of(self.pages_in_all));
        if elapsed >= Duration::from_secs(1) {
            let _ = write!(told, ", {:.0} records/s", added as f64 / elapsed.as_secs_f64());
        }
        if waited >= Duration::from_secs(1) {
            let _ = write!(told, ", waited {}", Seconds(waited));
        }
        if let Some(left) = self.left() {
            let _ = write!(told, ", {} left", Seconds(left));
        }
        told
    }
}

/// Who tells it.
pub(super) struct Teller {
    telling: Telling,
    clock: Clock,
    line: Line,
}

impl Teller {
    pub(super) fn new(telling: Telling, clock: Clock, line: Line) -> Self {
        Self { telling, clock, line }
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(super) fn wall(&self) -> SystemTime {
        self.clock.wall()
    }

    /// Something that is good to know.
    pub(super) fn note(&self, context: &Context<'_>, text: &str) {
        match self.telling {
            Telling::Quiet => {}
            Telling::People => self.say(context, text),
            Telling::Events => self.event(context, "note", json!({"message": text})),
        }
    }

    /// That a job begins.
    pub(super) fn begins(&self, context: &Context<'_>) {
        if self.telling == Telling::Events {
            let out = context.job.out.as_ref().map(|(out, _)| out);
            self.event(context, "begin", json!({"url": context.job.shown, "out": out}));
        }
    }

    /// That a page is kept.
    pub(super) fn page(&self, context: &Context<'_>, far: &Far) {
        match self.telling {
            Telling::Quiet => {}
            Telling::People if self.line.0.is_hidden() => {}
            Telling::People => self.line.0.set_message(named(context, &far.in_words())),
            Telling::Events => {
                let facts = json!({
                    "page": far.pages,
                    "pages_in_all": far.pages_in_all,
                    "records": far.records,
                    "records_in_all": far.records_in_all,
                    "elapsed_s": seconds(far.elapsed),
                    "waited_s": seconds(far.waited),
                    "left_s": far.left().map(seconds),
                });
                self.event(context, "page", facts);
            }
        }
    }

    /// That a job is done, and what it took.
    pub(super) fn done(&self, context: &Context<'_>, summary: &Summary) {
        self.line.0.set_message("");
        match self.telling {
            Telling::Quiet => {}
            Telling::People => self.say(context, &in_words(summary)),
            Telling::Events => self.event(context, "done", facts(summary)),
        }
    }

    /// Nothing more is shown.
    pub(super) fn end(&self) {
        self.line.0.finish_and_clear();
    }

    fn say(&self, context: &Context<'_>, text: &str) {
        self.line.beside(&named(context, text));
    }

    fn event(&self, context: &Context<'_>, event: &str, facts: Value) {
        let mut told = json!({"timestamp": Stamp(self.clock.wall()).to_string(), "event": event});
        if !context.job.name.is_empty() {
            told["job"] = json!(context.job.name);
        }
        if let (Value::Object(told), Value::Object(facts)) = (&mut told, facts) {
            told.extend(facts);
        }
        self.line.beside(&printable_json(&told.to_string()));
    }
}

/// A line, with the name of the job where it has one.
fn named(context: &Context<'_>, text: &str) -> String {
    let name = &context.job.name;
    let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
    format!("{name}{}", Printable(text))
}

/// To the millisecond.
fn seconds(span: Duration) -> f64 {
    (span.as_secs_f64() * 1e3).round() / 1e3
}

/// What it took, for programs.
fn facts(summary: &Summary) -> Value {
    let Summary { records, rejects, pages, out, bytes, counts, took, .. } = summary;
    let waits: serde_json::Map<_, _> = CAUSES
        .iter()
        .zip(counts.waits)
        .map(|((_, name, _), wait)| ((*name).to_owned(), json!(seconds(wait))))
        .collect();
    json!({
        "records": records,
        "pages": pages,
        "out": out,
        "bytes": bytes,
        "rejects": rejects.count,
        "rejects_in": rejects.file,
        "requests": counts.sent,
        "repeated": counts.repeated,
        "from_store": counts.from_store,
        "elapsed_s": seconds(*took),
        "waited_s": waits,
    })
}

/// `120 records of 3 pages in orders.jsonl (12.3 KB); 4 requests, 1 of them a repetition; waited 1.0 s ...`
fn in_words(summary: &Summary) -> String {
    let Summary { records, rejects, pages, out, bytes, counts, took, .. } = summary;
    let mut told = format!("{} of {}", Counted(*records, "record"), Counted(*pages, "page"));
    if let Some(out) = out {
        let _ = write!(told, " in {} ({})", out.display(), Bytes(*bytes));
    }
    if let Some(file) = rejects.file.as_ref().filter(|_| rejects.count > 0) {
        let _ = write!(told, ", {} set aside in {}", Counted(rejects.count, "record"), file.display());
    }
    if let Some(mismatches) = &summary.mismatches {
        let _ = write!(told, ", {mismatches}");
    }
    let Counts { sent, repeated, from_store, .. } = *counts;
    let _ = write!(told, "; {} in {}", Counted(sent, "request"), Seconds(*took));
    if repeated > 0 {
        let _ = write!(told, ", {repeated} to repeat what failed");
    }
    if from_store > 0 {
        let _ = write!(told, ", {} from the store", Counted(from_store, "page"));
    }
    let waits: Vec<_> = CAUSES
        .iter()
        .zip(counts.waits)
        .filter(|(_, wait)| *wait >= TOLD_FROM)
        .map(|((_, _, words), wait)| format!("{} {words}", Seconds(wait)))
        .collect();
    if !waits.is_empty() {
        let _ = write!(told, "; waited {}", waits.join(", "));
    }
    told
}

/// Shorter waits are nothing that anybody would mend.
const TOLD_FROM: Duration = Duration::from_millis(10);

/// `0.25 s`, `12 s`, `1 h 02 m`
pub(super) struct Seconds(pub(super) Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(span) = self;
        match span.as_secs() {
            0..10 => write!(f, "{:.2} s", span.as_secs_f64()),
            secs @ 10..60 => write!(f, "{secs} s"),
            secs @ 60..3600 => write!(f, "{} m {:02} s", secs / 60, secs % 60),
            secs => write!(f, "{} h {:02} m", secs / 3600, secs % 3600 / 60),
        }
    }
}

/// `512 bytes`, `12.3 KB`, `1.2 GB`
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bytes) = *self;
        match [("GB", 1e9), ("MB", 1e6), ("KB", 1e3)].into_iter().find(|(_, unit)| bytes as f64 >= *unit) {
            Some((name, unit)) => write!(f, "{:.1} {name}", bytes as f64 / unit),
            None => write!(f, "{}", Counted(bytes, "byte")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_as_slow_as_it_went_and_as_the_limits_are() {
        let s = Duration::from_secs;
        let far = Far {
            pages: 30,
            pages_in_all: Some(100),
            records: 1500,
            records_in_all: Some(5000),
            elapsed: s(10),
            added: 1000,
            added_pages: 20,
            waited: s(7),
            by_limits: None,
        };
        let told = "1500 of 5000 records, 30 of 100 pages, 100 records/s, waited 7.00 s, 35 s left";
        assert_eq!(far.in_words(), told);
        let left = |far: Far| far.left().map(|left| left.as_secs());
        assert_eq!(left(Far { by_limits: Some(s(3610)), ..far }), Some(3600));
        assert_eq!(left(Far { by_limits: Some(s(20)), ..far }), Some(35));
        assert_eq!(left(Far { pages_in_all: None, ..far }), None);
        assert_eq!(left(Far { pages: 100, ..far }), None);
    }

    #[test]
    fn spans_and_sizes_are_told_as_people_say_them() {
        for (millis, told) in
            [(0, "0.00 s"), (250, "0.25 s"), (12_900, "12 s"), (60_000, "1 m 00 s"), (3_720_000, "1 h 02 m")]
        {
            assert_eq!(Seconds(Duration::from_millis(millis)).to_string(), told);
        }
        for (bytes, told) in [(1, "1 byte"), (999, "999 bytes"), (12_345, "12.3 KB"), (1_200_000_000, "1.2 GB")] {
            assert_eq!(Bytes(bytes).to_string(), told);
        }
    }
}
