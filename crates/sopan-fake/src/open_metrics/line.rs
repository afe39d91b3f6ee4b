//! What does one line say? Its letters only; what it may say where it stands is the family's business.

use std::collections::BTreeSet;

use super::{Labels, Sample};

/// A line.
pub(super) enum Line<'t> {
    /// Something is said of a family.
    Said { piece: Piece, name: &'t str, rest: &'t str },
    /// A value is told.
    Sample(Sample),
}

/// What is said of a family.
pub(super) enum Piece {
    Type,
    Help,
    Unit,
}

pub(super) fn read(text: &str) -> Result<Line<'_>, String> {
    match text.strip_prefix("# ") {
        Some(said) => read_said(said),
        None => read_sample(text).map(Line::Sample),
    }
}

fn read_said(said: &str) -> Result<Line<'_>, String> {
    let (piece, after) = said.split_once(' ').ok_or("it says nothing")?;
    let piece = match piece {
        "TYPE" => Piece::Type,
        "HELP" => Piece::Help,
        "UNIT" => Piece::Unit,
        _ => return Err(format!("`{piece}` is none of TYPE, HELP and UNIT")),
    };
    let (name, rest) = after.split_once(' ').ok_or("there is a name and nothing else")?;
    if !is_metric_name(name) {
        return Err(format!("`{name}` is no name"));
    }
    Ok(Line::Said { piece, name, rest })
}

fn read_sample(text: &str) -> Result<Sample, String> {
    let end = text.find(['{', ' ']).ok_or("there is no value")?;
    let (name, rest) = text.split_at(end);
    if !is_metric_name(name) {
        return Err(format!("`{name}` is no name"));
    }
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(labels) => read_labels(labels)?,
        None => (Vec::new(), rest),
    };
    let value = rest.strip_prefix(' ').ok_or("there is no blank before the value")?;
    Ok(Sample { name: name.to_owned(), labels, value: read_number(value)? })
}

/// From after the brace that opens to after the one that closes.
fn read_labels(mut rest: &str) -> Result<(Labels, &str), String> {
    let (mut labels, mut names) = (Vec::new(), BTreeSet::new());
    if let Some(rest) = rest.strip_prefix('}') {
        return Ok((labels, rest));
    }
    loop {
        let (name, after) = rest.split_once("=\"").ok_or("a label has no value in quotes")?;
        if !is_label_name(name) {
            return Err(format!("`{name}` is no name of a label"));
        }
        if !names.insert(name) {
            return Err(format!("the label {name} stands there twice"));
        }
        let end = end_of_quoted(after).ok_or("a value of a label does not end")?;
        labels.push((name.to_owned(), unescaped(&after[..end])?));
        rest = &after[end + 1..];
        match (rest.strip_prefix(','), rest.strip_prefix('}')) {
            (Some(next), _) => rest = next,
            (_, Some(rest)) => return Ok((labels, rest)),
            (None, None) => return Err("after a label stands neither a comma nor a brace".to_owned()),
        }
    }
}

/// Where the quote stands that is not escaped.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, letter)| {
        let is_end = letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        is_end.then_some(at)
    })
}

/// A text in which a backslash stands before a quote, an n, or another one, and nowhere else; the same for what is said.
pub(super) fn unescaped(text: &str) -> Result<String, String> {
    let (mut plain, mut letters) = (String::new(), text.chars());
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next() {
                Some('n') => '\n',
                Some(escaped @ ('\\' | '"')) => escaped,
                _ => return Err("a backslash escapes nothing that can be escaped".to_owned()),
            },
            // Of the separators of lines only this one is left out by who split the text.
            '\r' => return Err("there is a carriage return".to_owned()),
            letter => letter,
        });
    }
    Ok(plain)
}

/// `1`, `-0.5`, `1e-3`, `+Inf`, `NaN`, and none of the other ways in which Rust writes numbers.
pub(super) fn read_number(text: &str) -> Result<f64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_word =
        ["inf", "infinity"].iter().any(|word| digits.eq_ignore_ascii_case(word)) || text.eq_ignore_ascii_case("nan");
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'));
    let value = (is_word || is_number).then(|| text.parse().ok()).flatten();
    value.ok_or_else(|| format!("`{text}` is no number"))
}

fn is_metric_name(name: &str) -> bool {
    is_name(name, |c| c == '_' || c == ':')
}

fn is_label_name(name: &str) -> bool {
    // Two underscores are for scrapers themselves.
    is_name(name, |c| c == '_') && !name.starts_with("__")
}

fn is_name(name: &str, also: fn(char) -> bool) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || also(c))
        && name.chars().all(|c| c.is_ascii_alphanumeric() || also(c))
}
