//! TOML as a tree, by the crate `toml`, which knows where everything stands.

use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue};

use super::super::problem::Source;
use super::{Fault, Key, Node, Value, words};

pub(super) fn read(source: &Source) -> Result<Node, Vec<Fault>> {
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    if !errors.is_empty() {
        let fault = |error: &::toml::de::Error| {
            let span = error.span().unwrap_or_default();
            let word = source.text.get(span.clone()).unwrap_or_default();
            Fault { what: words::toml(error.message(), word, words::line_of(source, &span)), span }
        };
        return Err(words::first_of_lines(errors.iter().map(fault).collect(), source));
    }
    Ok(Node { value: map(table.get_ref(), &source.text), span: table.span() })
}

fn map(table: &DeTable<'_>, text: &str) -> Value {
    let mut entries: Vec<_> = table
        .iter()
        .map(|(key, value)| (Key { text: key.get_ref().to_string(), span: key.span() }, node(value, text)))
        .collect();
    // A table is in the order of its keys; people read in that of the file.
    entries.sort_by_key(|(key, _)| key.span.start);
    Value::Map(entries)
}

fn node(value: &Spanned<DeValue<'_>>, text: &str) -> Node {
    let span = value.span();
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Array(items) => Value::List(items.iter().map(|item| node(item, text)).collect()),
        DeValue::Table(table) => map(table, text),
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {
            Value::Text(text.get(span.clone()).unwrap_or_default().to_owned())
        }
    };
    Node { value, span }
}
