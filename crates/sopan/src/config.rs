//! What the command line means: values that are read, checked and typed, or everything that is wrong with them at once.
//!
//! The only place that knows the names of flags and asks the machine what it is. Each command has its type here, and a
//! function from what was typed to it; what a value may be is the business of the policies in `sopan-core`, which this
//! asks, and what follows from it is the business of the command.

use std::io::IsTerminal;

mod explain;
mod fake;
mod fetch;
mod read;
mod serve;
mod upstream;

pub(crate) use explain::{Body, Explain, Format, explain};
pub(crate) use fake::{Fake, fake};
pub(crate) use fetch::{Fetch, fetch};
pub(crate) use read::Wrong;
pub(crate) use serve::{ClientBy, InForce, Serve, serve};

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

/// Whether whoever reads there wants colours: a terminal, unless its owner says otherwise (no-color.org).
pub(crate) fn wants_colours(to: &impl IsTerminal) -> bool {
    to.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests;
