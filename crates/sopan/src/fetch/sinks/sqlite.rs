//! A table of a SQLite database, changed in one transaction.
//!
//! With a key a record takes the place of the one that has the same key, and all others stay; columns that are new are added.
//! Without one the table is made anew, as a file would be. Either way it is the same however often it is done, so nothing needs
//! to be known of whether a transaction that was cut off had come to its end.
//!
//! SQLite makes a number of a text that looks like one, where the column is one of numbers. No text goes into such a column.

use std::collections::HashSet;
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Error, ErrorCode, OpenFlags, ToSql, Transaction, TransactionBehavior, params_from_iter};
use sopan_core::pages::Pointer;

use super::columns::{Cell, Column, Columns, Type};
use super::{Lines, SinkError};

/// So long another program may have the database.
const BUSY_MAX: Duration = if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(10) };

pub(super) fn write(lines: &Lines<'_>, table: &str, key: &[Pointer]) -> Result<(), SinkError> {
    let mut columns = Columns::of(lines)?;
    let keys: Vec<_> = key.iter().filter_map(|key| key.names().first()).map(|name| columns.with(name)).collect();
    let columns = &mut columns.at_least_one();
    let failed = |error: Error| match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => SinkError::Busy(lines.out.to_owned()),
        _ => SinkError::Table { out: lines.out.to_owned(), why: error.to_string() },
    };
    // A name is a name here, also one that begins with `file:`.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut database = Connection::open_with_flags(lines.out, flags).map_err(failed)?;
    database.busy_timeout(BUSY_MAX).map_err(failed)?;
    let begun = database.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let names = Table { begun: &begun, name: table }.fit(&mut columns.all, &keys).map_err(|misfit| match misfit {
        Misfit::Sqlite(error) => failed(error),
        Misfit::Numbers(column) => SinkError::Table {
            out: lines.out.to_owned(),
            why: format!(
                "column `{column}` of table `{table}` is one of numbers, and records have other values there, which it would \
                 change; name another table, or have that column hold text"
            ),
        },
    })?;
    {
        let mut insert = begun.prepare(&insertion(table, &names, &keys)).map_err(failed)?;
        lines.each(|number, line| {
            let mut cells = Vec::new();
            let read = columns.cells(line, &mut cells);
            read.map_err(|e| lines.misfit(number, format!("it cannot be read: {e}")))?;
            if let Some(missing) = keys.iter().find(|key| cells[**key] == Cell::None) {
                let why = format!("it has nothing at `/{}`, which is a key (--key)", columns.all[*missing].name);
                return Err(lines.misfit(number, why));
            }
            insert.execute(params_from_iter(cells)).map(drop).map_err(failed)
        })?;
    }
    begun.commit().map_err(failed)
}

/// Why records do not go into a table.
enum Misfit {
    Sqlite(Error),
    Numbers(String),
}

impl From<Error> for Misfit {
    fn from(error: Error) -> Self {
        Self::Sqlite(error)
    }
}

struct Table<'a> {
    begun: &'a Transaction<'a>,
    name: &'a str,
}

impl Table<'_> {
    /// Sees that there is a table for these columns, and tells what they are called there.
    fn fit(&self, columns: &mut [Column], keys: &[usize]) -> Result<Vec<String>, Misfit> {
        let table = quoted(self.name);
        if keys.is_empty() {
            self.begun.execute_batch(&format!("DROP TABLE IF EXISTS {table}"))?;
        }
        let existing = self.columns()?;
        let names = names(columns, &existing);
        let declared = |(column, name): (&Column, &String)| format!("{} {}", quoted(name), declaration(column.kind));
        if existing.is_empty() {
            let mut parts: Vec<_> = columns.iter().zip(&names).map(declared).collect();
            for key in keys {
                parts[*key].push_str(" NOT NULL");
            }
            if !keys.is_empty() {
                let keys: Vec<_> = keys.iter().map(|key| quoted(&names[*key])).collect();
                parts.push(format!("PRIMARY KEY ({})", keys.join(", ")));
            }
            self.begun.execute_batch(&format!("CREATE TABLE {table} ({})", parts.join(", ")))?;
            return Ok(names);
        }
        for (column, name) in columns.iter_mut().zip(&names) {
            let is_number = matches!(column.kind, Type::Boolean | Type::Integer | Type::Double);
            match existing.iter().find(|(known, _)| known == name).map(|(_, declared)| Affinity::of(declared)) {
                None => {
                    let added = declared((column, name));
                    self.begun.execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {added}"))?;
                }
                Some(Affinity::Text) if is_number => column.kind = Type::Json,
                Some(Affinity::Number | Affinity::Double) if !is_number && column.kind != Type::Nothing => {
                    return Err(Misfit::Numbers(name.clone()));
                }
                Some(Affinity::Double) if column.is_long => return Err(Misfit::Numbers(name.clone())),
                Some(_) => {}
            }
        }
        Ok(names)
    }

    /// The columns that are there, and as what they were declared.
    fn columns(&self) -> Result<Vec<(String, String)>, Error> {
        let mut asked = self.begun.prepare("SELECT name, type FROM pragma_table_info(?1)")?;
        asked.query_map([self.name], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }
}

/// What a field is called, if this can say it.
type Rule<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// What fields are called as columns, of which two may not differ only in case: the second of such is `note_2`.
///
/// The order in which fields come says nothing of what they were called before. So what the table has goes first: the column of
/// just that name, then the numbered one that was made beside one in another case.
fn names(columns: &[Column], existing: &[(String, String)]) -> Vec<String> {
    let known = || existing.iter().map(|(known, _)| known);
    let alike = |name: &str| known().find(|known| known.eq_ignore_ascii_case(name)).cloned();
    let number = |name: &str, known: &str| known.strip_prefix(name)?.strip_prefix('_')?.parse::<u64>().ok();
    let just_that = |name: &str| known().find(|known| *known == name).cloned();
    let numbered = |name: &str| {
        let numbered = known().filter_map(|known| number(name, known).map(|number| (number, known)));
        alike(name).and(numbered.min()).map(|(_, known)| known.clone())
    };
    let as_it_is = |name: &str| Some(alike(name).unwrap_or_else(|| name.to_owned()));
    let rules: [&Rule<'_>; 3] = [&just_that, &numbered, &as_it_is];
    let (mut taken, mut names) = (HashSet::new(), vec![None; columns.len()]);
    let mut free = |name: &String| taken.insert(name.to_ascii_lowercase());
    for rule in rules {
        for (column, name) in columns.iter().zip(&mut names).filter(|(_, name)| name.is_none()) {
            *name = rule(&column.name).filter(&mut free);
        }
    }
    let name = |(column, name): (&Column, Option<String>)| {
        let mut others = (2_u64..).map(|number| as_it_is(&format!("{}_{number}", column.name)).unwrap_or_default());
        name.or_else(|| others.find(&mut free)).unwrap_or_default()
    };
    columns.iter().zip(names).map(name).collect()
}

fn insertion(table: &str, names: &[String], keys: &[usize]) -> String {
    let quote = |name: &String| quoted(name);
    let list = names.iter().map(quote).collect::<Vec<_>>().join(", ");
    let places = vec!["?"; names.len()].join(", ");
    let mut insertion = format!("INSERT INTO {} ({list}) VALUES ({places})", quoted(table));
    if !keys.is_empty() {
        let by: Vec<_> = keys.iter().map(|key| quoted(&names[*key])).collect();
        let others = names.iter().enumerate().filter(|(place, _)| !keys.contains(place));
        let set: Vec<_> = others.map(|(_, name)| format!("{0} = excluded.{0}", quoted(name))).collect();
        let act = if set.is_empty() { "NOTHING".to_owned() } else { format!("UPDATE SET {}", set.join(", ")) };
        insertion.push_str(&format!(" ON CONFLICT ({}) DO {act}", by.join(", ")));
    }
    insertion
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// As what a column is declared. One of which nothing is known takes anything as it is.
fn declaration(kind: Type) -> &'static str {
    match kind {
        Type::Boolean => "BOOLEAN",
        Type::Integer => "INTEGER",
        Type::Double => "REAL",
        Type::Digits | Type::Text | Type::Json => "TEXT",
        Type::Nothing => "",
    }
}

/// What SQLite makes of a value by the column's declaration (its datatypes, section 3.1).
#[derive(Debug, PartialEq, Eq)]
enum Affinity {
    Text,
    Number,
    /// Whole numbers become doubles too.
    Double,
    None,
}

impl Affinity {
    fn of(declared: &str) -> Self {
        let declared = declared.to_ascii_uppercase();
        let has = |parts: &[&str]| parts.iter().any(|part| declared.contains(part));
        if has(&["INT"]) {
            Self::Number
        } else if has(&["CHAR", "CLOB", "TEXT"]) {
            Self::Text
        } else if declared.is_empty() || has(&["BLOB"]) {
            Self::None
        } else if has(&["REAL", "FLOA", "DOUB"]) {
            Self::Double
        } else {
            Self::Number
        }
    }
}

impl ToSql for Cell<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::None => ToSqlOutput::Borrowed(ValueRef::Null),
            Self::Boolean(is) => ToSqlOutput::from(*is),
            Self::Integer(integer) => ToSqlOutput::from(*integer),
            Self::Double(double) => ToSqlOutput::from(*double),
            Self::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        })
    }
}
