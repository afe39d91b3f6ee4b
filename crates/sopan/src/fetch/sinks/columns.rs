//! Which columns do these records have, and what is in them?
//!
//! A column is what all records have at one name. It has the narrowest type that keeps everything in it: whole numbers, numbers
//! that a double keeps, booleans, texts. Numbers that a double would not keep are texts of their digits. What is nested, and what
//! is of different types, is written as JSON.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;

use super::record::{self, Kind};
use super::{Lines, SinkError};

/// SQLite takes no more.
const COLUMNS_MAX: usize = 2000;

/// What a column holds; nothing may be missing in any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Boolean,
    Integer,
    Double,
    /// Numbers, as their digits.
    Digits,
    Text,
    /// Values of any type, as JSON.
    Json,
    /// Nothing but null.
    Nothing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Type,
    /// Whether it has whole numbers that a double does not keep.
    pub(super) is_long: bool,
}

/// A value as its column holds it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell<'a> {
    None,
    Boolean(bool),
    Integer(i64),
    Double(f64),
    Text(Cow<'a, str>),
}

impl Type {
    pub(super) fn cell<'a>(self, value: &'a RawValue) -> Cell<'a> {
        let as_written = || Cell::Text(Cow::Borrowed(value.get()));
        match (self, record::kind(value)) {
            (_, Kind::Null) => Cell::None,
            (Self::Boolean, Kind::Boolean(is)) => Cell::Boolean(is),
            (Self::Integer, Kind::Integer(integer, _)) => Cell::Integer(integer),
            // Only where a double keeps it.
            (Self::Double, Kind::Integer(integer, _)) => Cell::Double(integer as f64),
            (Self::Double, Kind::Double(double)) => Cell::Double(double),
            (Self::Text, Kind::String) => record::string(value).map_or_else(as_written, Cell::Text),
            _ => as_written(),
        }
    }
}

/// The columns of records.
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) all: Vec<Column>,
    places: HashMap<String, usize>,
}

impl Columns {
    /// Reads all records for them.
    pub(super) fn of(lines: &Lines<'_>) -> Result<Self, SinkError> {
        let mut places = HashMap::new();
        let mut seen: Vec<(String, Seen)> = Vec::new();
        lines.each(|number, line| {
            let mut beyond = None;
            let read = record::fields(line, &mut |name, value| {
                let place = match places.get(name.as_ref()) {
                    Some(place) => *place,
                    None if seen.len() == COLUMNS_MAX => {
                        beyond.get_or_insert(name.into_owned());
                        return;
                    }
                    None => {
                        places.insert(name.clone().into_owned(), seen.len());
                        seen.push((name.into_owned(), Seen::default()));
                        seen.len() - 1
                    }
                };
                seen[place].1.add(record::kind(value));
            });
            read.map_err(|e| lines.misfit(number, format!("it cannot be read: {e}")))?;
            beyond.map_or(Ok(()), |name| {
                let why = format!(
                    "`{name}` would be a column too many, of at most {COLUMNS_MAX}; such records fit into JSON Lines"
                );
                Err(lines.misfit(number, why))
            })
        })?;
        let all = seen.into_iter().map(|(name, seen)| Column { name, kind: seen.kind(), is_long: seen.long }).collect();
        Ok(Self { all, places })
    }

    /// Of no record nobody knows what it would have, and files and tables without a column cannot be read by many.
    pub(super) fn at_least_one(mut self) -> Self {
        if self.all.is_empty() {
            self.with(record::VALUE);
        }
        self
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// The place of the column of this name, which is there from then on.
    pub(super) fn with(&mut self, name: &str) -> usize {
        *self.places.entry(name.to_owned()).or_insert_with(|| {
            self.all.push(Column { name: name.to_owned(), kind: Type::Nothing, is_long: false });
            self.all.len() - 1
        })
    }

    /// Takes a record apart: of each column what it has there. Of a name that is there twice the last one counts.
    pub(super) fn cells<'a>(&self, line: &'a str, cells: &mut Vec<Cell<'a>>) -> Result<(), serde_json::Error> {
        cells.clear();
        cells.resize(self.all.len(), Cell::None);
        record::fields(line, &mut |name, value| {
            if let Some(place) = self.place(&name) {
                cells[place] = self.all[place].kind.cell(value);
            }
        })
    }
}

/// What was seen in a column.
#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    booleans: bool,
    integers: bool,
    doubles: bool,
    /// Whole numbers that a double does not keep.
    long: bool,
    digits: bool,
    strings: bool,
    nested: bool,
}

impl Seen {
    fn add(&mut self, kind: Kind) {
        match kind {
            Kind::Null => {}
            Kind::Boolean(_) => self.booleans = true,
            Kind::Integer(_, is_kept) => {
                self.integers = true;
                self.long |= !is_kept;
            }
            Kind::Double(_) => self.doubles = true,
            Kind::Digits => self.digits = true,
            Kind::String => self.strings = true,
            Kind::Nested => self.nested = true,
        }
    }

    fn kind(self) -> Type {
        let numbers = self.integers || self.doubles || self.digits;
        match (numbers, self.booleans, self.strings, self.nested) {
            (false, true, false, false) => Type::Boolean,
            (false, false, true, false) => Type::Text,
            (false, false, false, false) => Type::Nothing,
            (true, false, false, false) if self.digits || self.long && self.doubles => Type::Digits,
            (true, false, false, false) if self.doubles => Type::Double,
            (true, false, false, false) => Type::Integer,
            _ => Type::Json,
        }
    }
}
