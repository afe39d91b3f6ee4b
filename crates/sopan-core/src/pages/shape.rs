//! What are the records of a collection like, and has that changed since the last time?
//!
//! A [`Shape`] is what a number of records have in common: which fields, of which kinds, how often. A JSON Schema is proposed
//! of it ([`Shape::schema`]), and two of them say what is new, gone or other ([`Shape::drift`]). It is bounded whatever comes:
//! names beyond [`NAMES_MAX`] make an object one with any names, and what is deeper than [`DEPTH_MAX`] is not looked at.

mod layouts;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

pub use layouts::Layouts;

/// So many names of one object are told apart; one that has more is taken for a table by its names.
pub const NAMES_MAX: usize = 256;
/// So deep it is looked.
pub const DEPTH_MAX: usize = 16;

/// What a JSON value can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean,
    /// A number without a fraction and an exponent.
    Integer,
    /// Any other number.
    Number,
    /// A string.
    String,
    /// A list.
    Array,
    /// An object.
    Object,
}

/// What values that stand at the same place have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// How often each kind was there.
    kinds: BTreeMap<Kind, u64>,
    /// Of objects: what stands under each name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    fields: BTreeMap<String, Self>,
    /// There were more names than are told apart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_any_names: bool,
    /// Of lists: what is in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    items: Option<Box<Self>>,
}

/// A difference between what records were like and what they are now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// Where, as a pointer into a record; `*` stands for every element of a list.
    pub at: String,
    /// What is different there.
    pub change: Change,
}

/// What is different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It was not there before.
    New(Vec<Kind>),
    /// It is not there any more.
    Gone,
    /// It is now of other kinds.
    Kinds(Vec<Kind>, Vec<Kind>),
    /// It was always there, and is missing now and then.
    Sometimes,
}

impl Shape {
    /// Takes in one more value.
    pub fn add(&mut self, value: &RawValue) {
        self.add_at(value, 0);
    }

    /// How many were taken in.
    pub fn count(&self) -> u64 {
        self.kinds.values().sum()
    }

    fn add_at(&mut self, value: &RawValue, depth: usize) {
        let kind = kind(value.get());
        *self.kinds.entry(kind).or_default() += 1;
        if depth == DEPTH_MAX {
            return;
        }
        match kind {
            Kind::Object if !self.has_any_names => {
                let Ok(fields) = serde_json::from_str::<BTreeMap<String, &RawValue>>(value.get()) else { return };
                for (name, value) in fields {
                    self.fields.entry(name).or_default().add_at(value, depth + 1);
                }
                if self.fields.len() > NAMES_MAX {
                    (self.has_any_names, self.fields) = (true, BTreeMap::new());
                }
            }
            Kind::Array => {
                let Ok(elements) = serde_json::from_str::<Vec<&RawValue>>(value.get()) else { return };
                let items = self.items.get_or_insert_default();
                elements.into_iter().for_each(|element| items.add_at(element, depth + 1));
            }
            _ => {}
        }
    }

    /// A JSON Schema (2020-12) that all that was taken in follows.
    pub fn schema(&self) -> Value {
        let mut schema = self.part();
        if let Value::Object(fields) = &mut schema {
            fields.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
        }
        schema
    }

    fn part(&self) -> Value {
        let mut part = serde_json::Map::new();
        match self.names().as_slice() {
            [] => {}
            [one] => _ = part.insert("type".to_owned(), json!(one)),
            several => _ = part.insert("type".to_owned(), json!(several)),
        }
        if !self.fields.is_empty() {
            let fields: serde_json::Map<_, _> =
                self.fields.iter().map(|(name, field)| (name.clone(), field.part())).collect();
            part.insert("properties".to_owned(), fields.into());
            let required: Vec<_> = self.fields.keys().filter(|name| self.is_always(name)).collect();
            if !required.is_empty() {
                part.insert("required".to_owned(), json!(required));
            }
        }
        if let Some(items) = self.items.as_ref().filter(|items| items.count() > 0) {
            part.insert("items".to_owned(), items.part());
        }
        part.into()
    }

    /// The kinds as a schema names them: an integer is a number, too.
    fn names(&self) -> Vec<Kind> {
        let is_number = self.kinds.contains_key(&Kind::Number);
        self.kinds.keys().copied().filter(|kind| *kind != Kind::Integer || !is_number).collect()
    }

    /// Whether every object had a field of that name.
    fn is_always(&self, name: &str) -> bool {
        let objects = self.kinds.get(&Kind::Object).copied().unwrap_or_default();
        self.fields.get(name).is_some_and(|field| field.count() == objects)
    }

    /// What is different from `before`, in the order of places. Nothing of what was or is empty.
    pub fn drift(&self, before: &Self) -> Vec<Drift> {
        let mut drift = Vec::new();
        self.drift_at("", before, &mut drift);
        drift
    }

    fn drift_at(&self, at: &str, before: &Self, drift: &mut Vec<Drift>) {
        if self.count() == 0 || before.count() == 0 {
            return;
        }
        let (now, was) = (self.names(), before.names());
        // What was only null says nothing of what it is when it is not.
        let known = |kinds: &[Kind]| kinds.iter().any(|kind| *kind != Kind::Null);
        if now != was && known(&was) && known(&now) {
            drift.push(Drift { at: at.to_owned(), change: Change::Kinds(was, now) });
        }
        let names: std::collections::BTreeSet<_> = self.fields.keys().chain(before.fields.keys()).collect();
        for name in names.into_iter().filter(|_| !self.has_any_names && !before.has_any_names) {
            let at = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
            match (self.fields.get(name), before.fields.get(name)) {
                (Some(now), None) => drift.push(Drift { at, change: Change::New(now.names()) }),
                (None, Some(_)) => drift.push(Drift { at, change: Change::Gone }),
                (Some(now), Some(was)) => {
                    if before.is_always(name) && !self.is_always(name) {
                        drift.push(Drift { at: at.clone(), change: Change::Sometimes });
                    }
                    now.drift_at(&at, was, drift);
                }
                (None, None) => {}
            }
        }
        if let (Some(now), Some(was)) = (&self.items, &before.items) {
            now.drift_at(&format!("{at}/*"), was, drift);
        }
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.at.is_empty() { "the record" } else { &self.at };
        match &self.change {
            Change::New(kinds) => write!(f, "{at} is new: {}", words(kinds)),
            Change::Gone => write!(f, "{at} is gone"),
            Change::Kinds(was, now) => write!(f, "{at} was {} and is {}", words(was), words(now)),
            Change::Sometimes => write!(f, "{at} was always there and is missing in some records"),
        }
    }
}

fn words(kinds: &[Kind]) -> String {
    let word = |kind: &Kind| match kind {
        Kind::Null => "null",
        Kind::Boolean => "a truth value",
        Kind::Integer => "an integer",
        Kind::Number => "a number",
        Kind::String => "a string",
        Kind::Array => "a list",
        Kind::Object => "an object",
    };
    kinds.iter().map(word).collect::<Vec<_>>().join(" or ")
}

/// What kind of value a JSON text is.
pub fn kind(text: &str) -> Kind {
    match text.as_bytes().first() {
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::Array,
        Some(b'"') => Kind::String,
        Some(b't' | b'f') => Kind::Boolean,
        Some(b'n') | None => Kind::Null,
        _ if text.contains(['.', 'e', 'E']) => Kind::Number,
        _ => Kind::Integer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(records: &[&str]) -> Shape {
        let mut shape = Shape::default();
        records.iter().for_each(|record| shape.add(serde_json::from_str(record).unwrap()));
        shape
    }

    #[test]
    fn a_schema_is_proposed_that_all_records_follow() {
        let records = [
            r#"{"id":1,"name":"a","tags":["x"],"price":1}"#,
            r#"{"id":2,"name":null,"tags":[],"price":1.50,"at":{"x":true}}"#,
        ];
        let expected = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "at": {"type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"]},
                "id": {"type": "integer"},
                "name": {"type": ["null", "string"]},
                "price": {"type": "number"},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["id", "name", "price", "tags"],
        });
        assert_eq!(shape(&records).schema(), expected);
        assert_eq!(shape(&[r#"{"tags":[]}"#]).schema()["properties"]["tags"], json!({"type": "array"}));
    }

    #[test]
    fn what_is_new_gone_or_other_is_told() {
        let before = shape(&[r#"{"id":1,"name":"a","old":1,"tags":[{"n":1}],"note":null,"a/b":1}"#]);
        for (records, expected) in [
            (&[r#"{"id":2,"name":"b","old":1,"tags":[{"n":9}],"note":"x","a/b":2}"#][..], &[][..]),
            (
                &[r#"{"id":"2","name":"b","tags":[{"n":9,"m":1}],"note":null,"a/b":1}"#],
                &["/id was an integer and is a string", "/old is gone", "/tags/*/m is new: an integer"],
            ),
            (
                &[
                    r#"{"id":1,"old":1,"tags":[],"note":1,"a/b":null}"#,
                    r#"{"id":1.5,"name":"b","old":1,"tags":[],"note":1,"a/b":1}"#,
                ],
                &[
                    "/a~1b was an integer and is null or an integer",
                    "/id was an integer and is a number",
                    "/name was always there and is missing in some records",
                ],
            ),
            (
                &["[]"],
                &[
                    "the record was an object and is a list",
                    "/a~1b is gone",
                    "/id is gone",
                    "/name is gone",
                    "/note is gone",
                    "/old is gone",
                    "/tags is gone",
                ],
            ),
            (&[], &[]),
        ] {
            let drift: Vec<_> = shape(records).drift(&before).iter().map(Drift::to_string).collect();
            assert_eq!(drift, expected, "{records:?}");
        }
    }

    #[test]
    fn it_is_bounded_whatever_comes_and_survives_being_written() {
        let many: Vec<_> = (0..1000).map(|name| format!("\"{name}\":1")).collect();
        let many = format!("{{{}}}", many.join(","));
        let wide = shape(&[&many, &many]);
        assert!(wide.fields.is_empty() && wide.has_any_names);
        assert_eq!(wide.schema()["type"], "object");
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        let deep = shape(&[&deep]);
        let written = serde_json::to_string(&deep).unwrap();
        assert!(written.len() < 1000);
        assert_eq!(serde_json::from_str::<Shape>(&written).unwrap(), deep);
    }
}
