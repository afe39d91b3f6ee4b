//! YAML as a tree, by serde-saphyr.
//!
//! It is read into a type that takes anything and asks for the place of everything. A scalar that is no string to YAML, as
//! `1.50` or `true`, is taken from the text where it stands.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Error, Location, Spanned};

use super::super::problem::Source;
use super::{Fault, Key, Node, Value, words};

/// Values in a file; an anchor that is used a hundred times counts a hundred times. More than this is no settings file.
const NODES_MAX: usize = 50_000;
/// A settings file is five deep. Each level takes some of the stack.
const DEPTH_MAX: usize = 16;

pub(super) fn read(source: &Source) -> Result<Node, Fault> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        budget: serde_saphyr::budget! { max_nodes: NODES_MAX, max_depth: DEPTH_MAX },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: NODES_MAX },
    };
    let tree: Spanned<Any> =
        serde_saphyr::from_str_with_options(&source.text, options).map_err(|error| fault(&error, source))?;
    Ok(node(&tree, &source.text))
}

fn fault(error: &Error, source: &Source) -> Fault {
    let span = error.location().map_or(0..0, |location| {
        span(location).unwrap_or_else(|| {
            let at = source.offset(location.line() as usize, location.column() as usize);
            at..at
        })
    });
    let what = match error {
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("`{key}` is there twice; keep one of them"),
        // Within brackets YAML sees one more bracket.
        _ if source.text[..span.start].ends_with('$') && source.text[span.start..].starts_with('{') => {
            "${…} must stand in quotes within [ ] or { }; write \"${NAME}\"".to_owned()
        }
        Error::MultipleDocuments { .. } => {
            "there is more than one document in the file; take away the line ---, or what is below it".to_owned()
        }
        _ => {
            let told = error.to_string();
            words::yaml(told.split_once(" at line ").map_or(&told, |(what, _)| what))
        }
    };
    Fault { what, span }
}

/// What YAML can hold.
enum Any {
    Nothing,
    Text(String),
    /// A number or a boolean, whose text is where it was defined.
    Plain,
    List(Vec<Spanned<Self>>),
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
}

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyVisitor)
    }
}

struct AnyVisitor;

impl<'de> Visitor<'de> for AnyVisitor {
    type Value = Any;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Any, E> {
        Ok(Any::Text(text.to_owned()))
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<Any, E> {
        Ok(Any::Plain)
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<Any, E> {
        Ok(Any::Plain)
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<Any, E> {
        Ok(Any::Plain)
    }

    fn visit_i128<E: serde::de::Error>(self, _: i128) -> Result<Any, E> {
        Ok(Any::Plain)
    }

    fn visit_u128<E: serde::de::Error>(self, _: u128) -> Result<Any, E> {
        Ok(Any::Plain)
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<Any, E> {
        Ok(Any::Plain)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Any, E> {
        Ok(Any::Nothing)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Any, E> {
        Ok(Any::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Any, D::Error> {
        Any::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Any, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Any::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Any, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Any::Map(map))
    }
}

/// What came by an anchor stands where it was defined, so that a mistake in it is one mistake.
fn node(any: &Spanned<Any>, text: &str) -> Node {
    let at = |location: Location| span(location).filter(|span| text.get(span.clone()).is_some()).unwrap_or_default();
    let span = at(any.defined);
    let value = match &any.value {
        Any::Nothing => Value::Nothing,
        Any::Text(text) => Value::Text(text.clone()),
        Any::Plain => Value::Text(text[span.clone()].to_owned()),
        Any::List(items) => Value::List(items.iter().map(|item| node(item, text)).collect()),
        Any::Map(entries) => Value::Map(
            entries
                .iter()
                .map(|(key, value)| (Key { text: key.value.clone(), span: at(key.defined) }, node(value, text)))
                .collect(),
        ),
    };
    Node { span: shown(span, &value, text), value }
}

/// What is underlined: of a text over several lines not the break at its end, of a list in brackets all of it where that is
/// on one line.
fn shown(span: Range<usize>, value: &Value, text: &str) -> Range<usize> {
    let end = span.start + text[span.clone()].trim_end().len();
    let last = match value {
        Value::List(items) => items.last(),
        Value::Map(entries) => entries.last().map(|(_, node)| node),
        Value::Nothing | Value::Text(_) => None,
    };
    let close = match &text[span.clone()] {
        "[" => ']',
        "{" => '}',
        _ => return span.start..end,
    };
    let inner = last.map_or(span.end, |node| node.span.end).max(span.end);
    match text[inner..].find(close).map(|at| inner + at + 1) {
        Some(end) if !text[span.start..end].contains('\n') => span.start..end,
        _ => span,
    }
}

/// The bytes of a place, where they are known.
fn span(location: Location) -> Option<Range<usize>> {
    let span = location.span();
    let begin = usize::try_from(span.byte_offset()?).ok()?;
    Some(begin..begin + usize::try_from(span.byte_len()?).ok()?)
}
