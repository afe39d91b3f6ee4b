//! What is wrong with settings, and how that is told: what, where, why, and what is allowed.
//!
//! Everything is gathered before anything is said, so that whoever wrote the settings mends them once. What stands in a file
//! is shown with its line and underlined; what was typed is named by its flag.

mod hidden;

use std::fmt::{self, Display};
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::log::{Counted, Printable};
use hidden::{shown, starred, without_secrets};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nobody said it.
    Default,
    /// It was typed behind this flag, or as this argument.
    Flag(String),
    /// It stands in these bytes of the settings file.
    File(Range<usize>),
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Nothing is started.
    Error,
    /// It can be kept to, but may not be what was meant.
    Warning,
}

impl Severity {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) severity: Severity,
    pub(crate) place: Place,
    /// What it is of: a key with all that is above it, `upstreams.shop.queue.wait_max`; empty where that says nothing.
    pub(crate) key: String,
    pub(crate) what: String,
    /// What is allowed, or what to do.
    pub(crate) help: Option<String>,
    /// Another place that has to do with it, and what.
    pub(crate) also: Option<(Range<usize>, String)>,
    /// What may be a secret, and is not shown.
    pub(crate) hidden: Option<Range<usize>>,
}

impl Problem {
    /// An error; what stands behind the first semicolon of `why` is what to do.
    pub(crate) fn error(place: Place, key: impl Into<String>, why: impl Display) -> Self {
        let why = shortened(&why.to_string());
        // One in a value that is quoted is none of ours.
        let quotes = |text: &str| text.matches('`').count();
        let mut semicolons = why.match_indices("; ");
        let first = match quotes(&why).is_multiple_of(2) {
            true => semicolons.find(|(at, _)| quotes(&why[..*at]).is_multiple_of(2)),
            // A value has a quote in it, and nobody knows where it ends.
            false => semicolons.last(),
        };
        let (what, help) = match first {
            Some((at, _)) => (why[..at].to_owned(), Some(why[at + 2..].to_owned())),
            None => (why, None),
        };
        Self {
            severity: Severity::Error,
            place,
            key: cut(&without_secrets(&key.into())),
            what,
            help,
            also: None,
            hidden: None,
        }
    }

    pub(crate) fn warning(place: Place, key: impl Into<String>, why: impl Display) -> Self {
        Self { severity: Severity::Warning, ..Self::error(place, key, why) }
    }

    /// The same where there may be a secret.
    pub(crate) fn hiding(self, place: &Place) -> Self {
        let Place::File(span) = place else { return self };
        Self { hidden: Some(span.clone()), ..self }
    }

    /// The same with another place that has to do with it.
    pub(crate) fn also(self, place: &Place, label: &str) -> Self {
        let Place::File(span) = place else { return self };
        Self { also: Some((span.clone(), label.to_owned())), ..self }
    }
}

/// The longest value and key that are told in full.
const CHARS_MAX: usize = 120;
/// The longest sentence that is told, where it has a value that is not quoted.
const WHY_MAX: usize = 1000;

/// With all that is quoted without its secrets, and cut to a length that people read.
fn shortened(why: &str) -> String {
    let quoted = |part: &str| cut(&without_secrets(part));
    let parts: Vec<_> =
        why.split('`').enumerate().map(|(n, part)| if n % 2 == 1 { quoted(part) } else { part.to_owned() }).collect();
    let why = parts.join("`");
    match why.char_indices().nth(WHY_MAX) {
        Some((end, _)) => format!("{}…", &why[..end]),
        None => why,
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(CHARS_MAX) {
        Some(_) => text.chars().take(CHARS_MAX / 2).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// The text of a settings file, and where it is.
#[derive(Clone, Default)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Not the text, in which there may be secrets.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({}, {} bytes)", self.path, self.text.len())
    }
}

impl Source {
    /// Line and column, both from 1; the column counts characters.
    pub(crate) fn position(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        (before.matches('\n').count() + 1, line.chars().count() + 1)
    }

    /// Where a line and column are, both from 1.
    pub(crate) fn offset(&self, line: usize, column: usize) -> usize {
        let begin: usize = self.text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
        let rest = self.text.get(begin..).unwrap_or_default().lines().next().unwrap_or_default();
        begin + rest.chars().take(column.saturating_sub(1)).map(char::len_utf8).sum::<usize>()
    }

    /// The lines of `text` from one place to another, the offset at which they begin, and the number of the first.
    fn lines<'t>(&self, text: &'t str, from: usize, to: usize) -> (&'t str, usize, usize) {
        let begin = text.get(..from).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
        let end = text.get(to..).and_then(|after| after.find('\n')).map_or(text.len(), |at| to + at + 1);
        (&text[begin..end], begin, self.position(begin).0)
    }
}

/// So many problems are told; whoever has mended them asks again.
const SHOWN_MAX: usize = 100;

/// Everything that is wrong, and the file that it is wrong in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wrong {
    pub(crate) source: Source,
    pub(crate) problems: Vec<Problem>,
}

impl Wrong {
    pub(crate) fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// As people read it, with colours for a terminal.
    pub(crate) fn told(&self, colours: bool) -> String {
        let renderer = if colours { Renderer::styled() } else { Renderer::plain() };
        let mut shown = shown(&self.source.text);
        for span in self.problems.iter().filter_map(|problem| problem.hidden.as_ref()) {
            shown = starred(&shown, span);
        }
        let told = |problem: &Problem| self.one(problem, &shown, &renderer);
        let mut shown_first: Vec<_> = self.problems.iter().collect();
        if self.problems.len() > SHOWN_MAX {
            // None that must be mended may be left out for one that need not.
            shown_first.sort_by_key(|problem| problem.severity == Severity::Warning);
        }
        let mut told: Vec<_> = shown_first.into_iter().take(SHOWN_MAX).map(told).collect();
        if self.problems.iter().any(|problem| matches!(problem.place, Place::File(_))) {
            told.push(self.sum());
        }
        told.join("\n")
    }

    /// What may not be meant so, for the log.
    pub(crate) fn warnings(&self) -> Vec<Warned> {
        let warnings = self.problems.iter().filter(|problem| problem.severity == Severity::Warning);
        warnings.take(SHOWN_MAX).map(|problem| self.in_a_line(problem)).collect()
    }

    fn in_a_line(&self, Problem { place, key, what, help, .. }: &Problem) -> Warned {
        let help = help.as_ref().map_or_else(String::new, |help| format!("; {help}"));
        let (setting, place) = match place {
            Place::File(span) => (key, format!("{}:{}", self.source.path, self.source.position(span.start).0)),
            Place::Flag(flag) => (flag, String::new()),
            Place::Default => (key, String::new()),
        };
        let named = [&*place, &**setting].into_iter().filter(|name| !name.is_empty());
        let line = named.chain([&*format!("{what}{help}")]).collect::<Vec<_>>().join(": ");
        Warned { setting: setting.clone(), place: Some(place).filter(|place| !place.is_empty()), line }
    }

    fn one(&self, problem: &Problem, shown: &str, renderer: &Renderer) -> String {
        let Problem { severity, place, key, what, help, also, .. } = problem;
        let what = &Printable(what).to_string();
        let help = &help.as_ref().map(|help| Printable(help).to_string());
        let named = |name: &str| if name.is_empty() { what.clone() } else { format!("{}: {what}", Printable(name)) };
        let Place::File(span) = place else {
            let name = if let Place::Flag(flag) = place { flag } else { key };
            let help = help.as_ref().map_or_else(String::new, |help| format!("; {help}"));
            return format!("{}: {}{help}", severity.name(), named(name));
        };
        let level = match severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let spans = || std::iter::once(span).chain(also.iter().map(|(span, _)| span));
        let from = spans().map(|span| span.start).min().unwrap_or(0);
        let to = spans().map(|span| span.end).max().unwrap_or(0);
        let (lines, begin, number) = self.source.lines(shown, from, to);
        let within = |span: &Range<usize>| span.start - begin..span.end - begin;
        let also = also.as_ref().map(|(span, label)| AnnotationKind::Context.span(within(span)).label(label.as_str()));
        let snippet = Snippet::source(lines)
            .line_start(number)
            .path(Printable(&self.source.path).to_string())
            .annotation(AnnotationKind::Primary.span(within(span)))
            .annotations(also);
        let mut group = Group::with_title(level.primary_title(named(key))).element(snippet);
        if let Some(help) = help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        // A blank line after each, since each has several.
        format!("{}\n", renderer.render(&[group]))
    }

    fn sum(&self) -> String {
        let path = Printable(&self.source.path);
        if self.problems.len() > SHOWN_MAX {
            return format!("{path}: more than {SHOWN_MAX} mistakes, of which these are the first");
        }
        let in_file = || self.problems.iter().filter(|problem| matches!(problem.place, Place::File(_)));
        let count = |severity| in_file().filter(|problem| problem.severity == severity).count() as u64;
        let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
        let counted = [(errors, "error"), (warnings, "warning")].into_iter().filter(|(n, _)| *n > 0);
        let counted: Vec<_> = counted.map(|(n, thing)| Counted(n, thing).to_string()).collect();
        format!("{path}: {}", counted.join(", "))
    }
}

/// A warning as a line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Warned {
    /// The key with all that is above it, or the flag.
    pub(crate) setting: String,
    /// The file and the line, where it stands in one.
    pub(crate) place: Option<String>,
    /// All of it.
    pub(crate) line: String,
}

impl Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told(false))
    }
}

impl std::error::Error for Wrong {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_are_counted_in_characters_from_one() {
        let source = Source { path: String::new(), text: "añ: 1\nb: 2\n".to_owned() };
        for (offset, line, column) in [(0, 1, 1), (3, 1, 3), (7, 2, 1), (10, 2, 4)] {
            assert_eq!((source.position(offset), source.offset(line, column)), ((line, column), offset));
        }
        assert_eq!(source.offset(9, 9), source.text.len());
    }

    #[test]
    fn what_to_do_is_behind_the_first_semicolon_that_is_no_value() {
        let long = "x".repeat(200);
        for (why, what, help) in [
            ("`a; b` is wrong; write c; or d", "`a; b` is wrong", Some("write c; or d")),
            ("it is wrong", "it is wrong", None),
            ("`a`b; c` is wrong; write d", "`a`b; c` is wrong", Some("write d")),
            (&format!("`{long}` is wrong"), &format!("`{}…` is wrong", "x".repeat(60)), None),
        ] {
            let problem = Problem::error(Place::Default, "", why);
            assert_eq!((&*problem.what, problem.help.as_deref()), (what, help));
        }
    }
}
