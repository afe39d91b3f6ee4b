//! What the command line means: values that are read, checked and typed, or everything that is wrong with them at once.
//!
//! The only place that knows the names of flags and asks the machine what it is. Each command has its type here, and a
//! function from what was typed to it; what a value may be is the business of the policies in `sopan-core`, which this
//! asks, and what follows from it is the business of the command.

use std::io::IsTerminal;

mod demo;
mod draft;
mod example;
mod explain;
mod fake;
mod fetch;
mod file;
mod flags;
mod job;
mod keys;
mod layer;
mod problem;
mod read;
mod resolve;
mod route;
mod schema;
mod serve;
mod setting;
mod shared;
mod table;
mod traces;
mod tree;
mod watch;

pub(crate) use demo::{Demo, demo, demo_api, demo_proxy};
pub(crate) use example::example;
pub(crate) use explain::{Body, Explain, explain};
pub(crate) use fake::{Fake, fake};
pub(crate) use fetch::{Fetch, Jobs, Single, Telling, fetch, plan};
pub(crate) use flags::Typed;
pub(crate) use job::{Job, OnMismatch, Since};
pub(crate) use keys::{KEY_BEGINS, NewKey, new_key};
pub(crate) use layer::{Origin, Value};
pub(crate) use problem::{Place, Problem, Warned, Wrong};
pub(crate) use resolve::Resolved;
pub(crate) use route::Route;
pub(crate) use schema::schema;
pub(crate) use serve::{Client, ClientBy, Clients, Loaded, Serve, Served, Store, load, serve, settled};
pub(crate) use setting::{Kind, Rank, Section, Setting};
pub(crate) use shared::Commons;
pub(crate) use table::{GROUPS, settings};
pub(crate) use traces::Traces;
pub(crate) use watch::{AdminPort, Watch, watch};

/// How lines of the log, and what is told on standard output, are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs: one object a line.
    Json,
}

impl Format {
    const ALL: [(&'static str, Self); 2] = [("text", Self::Text), ("json", Self::Json)];
}

/// What `--format` asks for.
pub(crate) fn format(typed: &str) -> Result<Format, Wrong> {
    let mut check = read::Check::default();
    let format = check.read("--format", typed, read::one_of(Format::ALL));
    check.finish(format)
}

/// Whether whoever reads there wants colours: a terminal, unless its owner says otherwise (no-color.org).
pub(crate) fn wants_colours(to: &impl IsTerminal) -> bool {
    to.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod tests;
