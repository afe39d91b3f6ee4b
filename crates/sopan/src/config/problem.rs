//! What is wrong with settings, and how that is told: what, where, why, and what is allowed.
//!
//! Everything is gathered before anything is said, so that whoever wrote the settings mends them once. What stands in a file
//! is shown with its line and underlined; what was typed is named by its flag.

use std::fmt::{self, Display};
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use sopan_core::access::KEY_BYTES_MIN;

use super::KEY_BEGINS;
use crate::log::{Counted, Printable, is_unseen};

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
#[derive(Debug, Clone, Default)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
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

    /// The text as it may be shown: secrets are stars, and what a terminal would not show is; byte by byte.
    fn shown(&self) -> String {
        let shown = without_keys(without_secrets(&self.text));
        if !shown.contains(is_replaced) {
            return shown;
        }
        let seen = |c: char| match c.len_utf8() {
            2 if is_replaced(c) => '\u{b7}',
            3 if is_replaced(c) => '\u{fffd}',
            _ => c,
        };
        shown.chars().map(seen).collect()
    }

    /// The lines of `text` from one place to another, the offset at which they begin, and the number of the first.
    fn lines<'t>(&self, text: &'t str, from: usize, to: usize) -> (&'t str, usize, usize) {
        let begin = text.get(..from).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
        let end = text.get(to..).and_then(|after| after.find('\n')).map_or(text.len(), |at| to + at + 1);
        (&text[begin..end], begin, self.position(begin).0)
    }
}

/// With stars for what stands in these bytes, byte by byte.
fn with_stars(text: &str, span: &Range<usize>) -> String {
    let star = |(at, c): (usize, char)| {
        let is_in = span.contains(&at) && !"\r\n".contains(c);
        std::iter::repeat_n(if is_in { '*' } else { c }, if is_in { c.len_utf8() } else { 1 })
    };
    text.char_indices().flat_map(star).collect()
}

/// Of what cannot be seen that which is not a byte long: who draws the lines sees to the rest.
fn is_replaced(c: char) -> bool {
    is_unseen(c) && !c.is_ascii()
}

/// With stars for user names and passwords of URLs, for the values of their queries, and for the values of what is called
/// like a secret, byte by byte. It looks at every byte a few times at most, whatever the text is.
fn without_secrets(text: &str) -> String {
    let mut is_hidden = vec![false; text.len()];
    let mut hide = |range: Range<usize>| is_hidden[range].fill(true);
    let mut begin = 0;
    for line in text.split_inclusive('\n') {
        passwords(line, |range| hide(begin + range.start..begin + range.end));
        queries(line, |range| hide(begin + range.start..begin + range.end));
        values_of_secrets(line, |range| hide(begin + range.start..begin + range.end));
        keys(line, |range| hide(begin + range.start..begin + range.end));
        begin += line.len();
    }
    let star = |(at, c): (usize, char)| {
        let (shown, count) = if is_hidden[at] && !"\r\n".contains(c) { ('*', c.len_utf8()) } else { (c, 1) };
        std::iter::repeat_n(shown, count)
    };
    text.char_indices().flat_map(star).collect()
}

/// The words of a line, each with where it begins.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut begin = 0;
    line.split(|c: char| c.is_whitespace() || "\"'`".contains(c)).map(move |word| {
        let at = begin;
        begin += word.len() + line[at + word.len()..].chars().next().map_or(0, char::len_utf8);
        (at, word)
    })
}

fn passwords(line: &str, mut hide: impl FnMut(Range<usize>)) {
    let Some(last_of_line) = line.rfind('@') else { return };
    for (begin, word) in words(line) {
        let last = word.rfind('@');
        let mut from = 0;
        while let Some(at) = word[from..].find("://") {
            from += at + 3;
            if !has_secret(&word[from..]) {
                continue;
            }
            match last.filter(|last| *last >= from) {
                Some(last) => {
                    hide(begin + from..begin + last);
                    from = last;
                }
                // A password may hold what ends a URL.
                None if last_of_line > begin + from => return hide(begin + from..last_of_line),
                None => {}
            }
        }
        // The beginning of the URL is mistyped, or escaped.
        if let Some(last) = last.filter(|last| from == 0 && word[..*last].contains(':')) {
            hide(begin..begin + last);
        }
    }
}

fn queries(line: &str, mut hide: impl FnMut(Range<usize>)) {
    for (begin, word) in words(line) {
        let Some((before, query)) = word.split_once('?') else { continue };
        let mut at = begin + before.len() + 1;
        for item in query.split(['&', '#']) {
            // `…` is hidden already.
            if let Some((name, _)) = item.split_once('=').filter(|(_, value)| *value != "…") {
                hide(at + name.len() + 1..at + item.len());
            }
            at += item.len() + 1;
        }
    }
}

/// Keys of our own, wherever somebody puts one.
fn keys(line: &str, mut hide: impl FnMut(Range<usize>)) {
    for (at, _) in line.match_indices(KEY_BEGINS) {
        let rest = &line[at + KEY_BEGINS.len()..];
        let length = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte)).count();
        if length >= KEY_BYTES_MIN {
            hide(at + KEY_BEGINS.len()..at + KEY_BEGINS.len() + length);
        }
    }
}

/// What the names of secrets contain, where somebody puts them into settings.
const SECRETS: [&str; 10] = [
    "authorization",
    "api_key",
    "api-key",
    "apikey",
    "token",
    "secret",
    "passw",
    "cookie",
    "credential",
    "private_key",
];
/// No name of a secret goes on for longer.
const NAME_MAX: usize = 64;

/// Values of such names, each to the end of the line or of what is quoted.
fn values_of_secrets(line: &str, mut hide: impl FnMut(Range<usize>)) {
    let lower = line.to_ascii_lowercase();
    let mut begin = 0;
    for part in lower.trim_end_matches('\n').split('`') {
        let value = |at: usize| {
            let rest = &part[at..];
            let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
            let rest = &rest[rest.bytes().take(NAME_MAX).take_while(is_name).count()..];
            let rest = rest.strip_prefix(['"', '\'']).unwrap_or(rest).trim_start_matches(' ');
            let rest = rest.strip_prefix([':', '='])?.trim_start_matches(' ');
            Some(part.len() - rest.len())
        };
        let first = |word: &str| part.match_indices(word).find_map(|(at, _)| value(at));
        if let Some(first) = SECRETS.into_iter().filter_map(first).min() {
            hide(begin + first..begin + part.len());
        }
        begin += part.len() + 1;
    }
}

/// With stars for what is in PEM, which has its place in a file of its own.
fn without_keys(text: String) -> String {
    const BEGIN: &str = "-----BEGIN ";
    if !text.contains(BEGIN) {
        return text;
    }
    let mut shown = String::with_capacity(text.len());
    let mut parts = text.split(BEGIN);
    shown.push_str(parts.next().unwrap_or_default());
    for part in parts {
        shown.push_str(BEGIN);
        let end = part.find("-----END").unwrap_or(part.len());
        let star = |c: char| std::iter::repeat_n(if c == '\n' { c } else { '*' }, c.len_utf8());
        shown.extend(part[..end].chars().flat_map(star));
        shown.push_str(&part[end..]);
    }
    shown
}

/// Whether a URL, or what follows its `://`, may hold a password: before its host, or where a password has a / and what is
/// before that is no port.
fn has_secret(url: &str) -> bool {
    let authority = url.split(['/', '?', '#']).next().unwrap_or_default();
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit() || byte == b']');
    authority.contains('@') || authority.rsplit_once(':').is_some_and(|(_, port)| !is_port(port))
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
        let mut shown = self.source.shown();
        for span in self.problems.iter().filter_map(|problem| problem.hidden.as_ref()) {
            shown = with_stars(&shown, span);
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
    fn passwords_of_urls_are_not_shown() {
        for (text, shown) in [
            ("a: https://me:secret@host/x", "a: https://*********@host/x"),
            ("a: 'http://h:80/x@y' http://[::1]/x@y", "a: 'http://h:80/x@y' http://[::1]/x@y"),
            ("redis://:s@cret@h\nhttp://h\n", "redis://*******@h\nhttp://h\n"),
            // Whatever may be a password is taken for one.
            ("http://me:sec/r#t@h/é", "http://**********@h/é"),
            ("http://me:\"sec\" ret@h", "http://************@h"),
            ("http://mé@h/x@y", "http://*******@y"),
            ("k: -----BEGIN X-----\né\n-----END X-----", "k: -----BEGIN ******\n**\n-----END X-----"),
            ("k: -----BEGIN X", "k: -----BEGIN *"),
            // Without a beginning that is known.
            ("me:secret@host/x 'https:/me:s@h'", "*********@host/x '***********@h'"),
            (r#""https:\/\/me:secret@h""#, r#""*******************@h""#),
            ("https://h/x?page=2&key=secret#top", "https://h/x?page=*&key=******#top"),
            ("{api_key: hunter2}\n'X-Token' = \"a b\"\n", "{api_key: ********\n'X-Token' = *****\n"),
            ("headers: {Authorization: Bearer é}", "headers: {Authorization: **********"),
            ("k: [sopan_0123456789abcdef-_é, sopan_short]", "k: [sopan_******************é, sopan_short]"),
            ("client_by: header:X-Api-Key\nurl: http://h/?a", "client_by: header:X-Api-Key\nurl: http://h/?a"),
            // What a terminal would obey, or not show.
            ("a\u{9b}31m \u{202e}b\u{200b}", "a\u{b7}31m \u{fffd}b\u{fffd}"),
        ] {
            let source = Source { path: String::new(), text: text.to_owned() };
            assert_eq!((source.shown().len(), &*source.shown()), (text.len(), shown));
        }
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
