//! What the command line means: values that are read, checked and typed, or everything that is wrong with them at once.
//!
//! The only place that knows the names of flags and asks the machine what it is. Each command has its type here, and a
//! function from what was typed to it; what a value may be is the business of the policies in `sopan-core`, which this
//! asks, and what follows from it is the business of the command.

use std::io::IsTerminal as _;

mod draft;
mod fake;
mod fetch;
mod file;
mod flags;
mod layer;
mod problem;
mod read;
mod resolve;
mod schema;
mod serve;
mod setting;
mod table;
mod tree;

pub(crate) use fake::{Fake, fake};
pub(crate) use fetch::{Fetch, fetch};
pub(crate) use flags::Typed;
pub(crate) use layer::{Origin, Value};
pub(crate) use problem::{Place, Problem, Wrong};
pub(crate) use resolve::Resolved;
pub(crate) use schema::schema;
pub(crate) use serve::{ClientBy, InForce, Loaded, Serve, load, serve};
pub(crate) use setting::{Kind, Rank, Section, Setting};
pub(crate) use table::{GROUPS, settings};

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// For programs: one object a line.
    Json,
}

impl LogFormat {
    const ALL: [(&'static str, Self); 2] = [("text", Self::Text), ("json", Self::Json)];
}

/// Whether `--format` asks for JSON, and not for text.
pub(crate) fn is_json(format: &str) -> Result<bool, Wrong> {
    let mut check = read::Check::default();
    let format = check.read("--format", format, read::one_of(LogFormat::ALL));
    check.finish(format.map(|format| format == LogFormat::Json))
}

/// Whether whoever reads standard error wants colours: a terminal, unless its owner says otherwise (no-color.org).
pub(crate) fn wants_colours() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests;
