//! What a file that cannot be read is told in, where the words of a parser help nobody.
//!
//! Each row has a part of what the parser says, and what is said for it, with what to do behind a semicolon. What is in no row
//! is told as the parser says it.

use std::ops::Range;

use super::super::problem::Source;
use super::Fault;

const YAML: &[(&str, &str)] = &[
    (
        "mapping values are not allowed",
        "a key cannot stand here; begin the line in the column of the keys beside it, and leave a blank behind the colon of \
         the one above, as in url: https://api.example.com",
    ),
    ("tabs disallowed", "the line begins with a tab; indent it with blanks"),
    (
        "did not find expected key",
        "the line begins in a column of its own; begin it in that of the lines which it belongs with",
    ),
    ("did not find expected '-'", "the line begins in a column of its own; begin it in that of the items above"),
    (
        "did not find expected ','",
        "a list or map is not closed; write a comma between any two, and ] or } behind the last",
    ),
    ("illegal placement of ':'", "a list or map above is not closed; write ] or } behind its last item"),
    ("unclosed quote", "a quote is opened and never closed; write the same quote behind the text"),
    ("unclosed bracket", "a list or map is not closed; write ] or } behind its last item"),
    (
        "unknown anchor",
        "there is no anchor of this name; write it above as &name, or put a text that begins with * in quotes",
    ),
    (
        "unknown escape character",
        "a text in double quotes has a \\ that stands for nothing; write \\\\ for a backslash, or put the text in single \
         quotes",
    ),
    ("alias replay limit", "its anchors make more than 50000 values of it; write out what it needs"),
    ("Depth {", "it is nested more than 16 deep, where settings are five at most; take some of it away"),
    ("budget breached", "it holds more than 50000 values; no settings need as many"),
    ("expected string scalar", "a key must be a word; put it in quotes if it is meant as one"),
    ("null into string", "a key must be a word; put it in quotes if it is meant as one"),
];

const TOML: &[(&str, &str)] = &[
    (
        "string values must be quoted",
        "a text must stand in quotes; write for example url = \"https://api.example.com\"",
    ),
    ("unclosed table", "a table is not closed; write ] behind its name"),
    ("unclosed array", "a list is not closed; write ] behind its last item"),
    ("unclosed inline table", "a table is not closed; write } behind its last value"),
    ("missing comma", "a comma is missing; write one between any two values"),
    (
        "missing escaped value",
        "a text in double quotes has a \\ that stands for nothing; write \\\\ for a backslash, or put the text in single \
         quotes",
    ),
    ("recursion limit", "it is nested too deep, where settings are five at most; take some of it away"),
];

const JSON: &[(&str, &str)] = &[
    ("EOF while parsing", "the file ends before all is closed; write the quotes, ] and } that are missing"),
    ("trailing comma", "there is a comma behind the last value; take it away"),
    ("trailing characters", "there is more behind the end of the settings; write all of them within one { }"),
    ("expected `,` or", "a comma is missing; write one between any two values"),
    ("expected `:`", "a colon is missing; write one between key and value"),
    ("invalid escape", "a \\ stands for nothing here; write \\\\ for a backslash"),
    ("recursion limit", "it is nested more than 16 deep, where settings are five at most; take some of it away"),
    ("expected value", "there is no value here; write a number, or a text in double quotes"),
    ("expected ident", "there is no value here; write a number, or a text in double quotes"),
];

fn of(rows: &[(&str, &str)], told: &str) -> String {
    rows.iter().find(|(said, _)| told.contains(said)).map_or(told, |(_, ours)| ours).to_owned()
}

pub(super) fn yaml(told: &str) -> String {
    if let Some(found) = told.strip_prefix("unexpected character: `").and_then(|rest| rest.strip_suffix('\'')) {
        return match found.chars().count() {
            1 if found == "`" => "a text cannot begin with a backtick; put it in quotes".to_owned(),
            1 => format!("a text cannot begin with {found}; put it in quotes"),
            _ => format!("there is the character {found}, which settings cannot hold; take it away"),
        };
    }
    of(YAML, told)
}

/// `line` is the text of the line in which it stands.
pub(super) fn toml(told: &str, word: &str, line: &str) -> String {
    if told.contains("duplicate key") {
        return format!("`{}` is there twice; keep one of them", word.trim_matches(['"', '\'']));
    }
    let has_no_value = told.contains("unquoted key") || told.contains("key with no value");
    if has_no_value && line.contains(':') && !line.contains('=') {
        return "it is written as YAML is, and not as TOML; write key = value, or end the name of the file in .yaml"
            .to_owned();
    }
    of(TOML, told)
}

/// `found` is the character at the place.
pub(super) fn json(told: &str, found: Option<char>) -> String {
    let at_key = told.contains("key must be a string") || told.contains("expected value");
    let ours = match found {
        Some('/' | '#') if at_key => "JSON has no comments; take this one away, or write the settings as YAML",
        Some('}' | ']') if at_key => "there is a comma behind the last value; take it away",
        _ if told.contains("key must be a string") => "a key must stand in double quotes; write for example \"listen\"",
        Some('\n' | '\r') if told.contains("control character") => {
            "a text goes on in the next line; write it on one line, and the quote behind it"
        }
        _ if told.contains("control character") => "a text holds a control character; write it as \\t or \\u001b",
        _ => return of(JSON, told),
    };
    ours.to_owned()
}

/// The first fault of each line, since a parser that has lost its way sees others behind it.
pub(super) fn first_of_lines(mut faults: Vec<Fault>, source: &Source) -> Vec<Fault> {
    faults.sort_by_key(|fault| fault.span.start);
    let mut kept: Vec<Fault> = Vec::new();
    for fault in faults {
        let is_new = kept.last().is_none_or(|last: &Fault| {
            let between = last.span.start..fault.span.start;
            last.what != fault.what && source.text.get(between).is_none_or(|text| text.contains('\n'))
        });
        if is_new {
            kept.push(fault);
        }
    }
    kept
}

/// The line in which a place is.
pub(super) fn line_of<'s>(source: &'s Source, span: &Range<usize>) -> &'s str {
    let (before, after) = source.text.split_at_checked(span.start).unwrap_or((&source.text, ""));
    let begin = before.rfind('\n').map_or(0, |at| at + 1);
    let end = span.start.min(before.len()) + after.find('\n').unwrap_or(after.len());
    &source.text[begin..end]
}
