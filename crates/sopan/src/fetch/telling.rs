//! What is told of a run while it goes on, and at its end?
//!
//! All of it goes to standard error, since standard output may be where records go. With `--quiet` only what goes wrong is told,
//! which is somebody else's business.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::time::Duration;

use sopan_core::time::Instant;
use sopan_engine::clock::Clock;

use super::tally::{CAUSES, Counts};
use super::traversal::{Context, Summary};
use crate::config::Telling;
use crate::log::{Counted, Printable};

/// Who tells it.
pub(super) struct Teller {
    telling: Telling,
    clock: Clock,
}

impl Teller {
    pub(super) fn new(telling: Telling, clock: Clock) -> Self {
        Self { telling, clock }
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Something that is good to know.
    pub(super) fn note(&self, context: &Context<'_>, text: &str) {
        if self.telling == Telling::People {
            say(context, text);
        }
    }

    /// That a job is done, and what it took.
    pub(super) fn done(&self, context: &Context<'_>, summary: &Summary) {
        if self.telling == Telling::People {
            say(context, &in_words(summary));
        }
    }
}

/// A line, with the name of the job where it has one.
fn say(context: &Context<'_>, text: &str) {
    let name = &context.job.name;
    let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
    // Where nobody listens, the exit code must do.
    let _ = writeln!(io::stderr(), "{name}{}", Printable(text));
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
