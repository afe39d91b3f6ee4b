//! Settings of the demo, and of what it puts on its stage.

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;

use super::{Fake, Serve, Wrong, wants_colours};
use crate::cli;

/// How `sopan demo` is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Demo {
    /// One line after the other.
    Lines,
    /// A picture that is drawn over and over in the same place.
    Picture { colours: bool },
}

/// What was typed, where nothing can be wrong: a picture for terminals that can draw one, unless lines are wished.
pub(crate) fn demo(typed: &cli::Demo) -> Demo {
    let out = io::stdout();
    // What calls itself dumb, or nothing at all, does not move its cursor.
    let draws = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    if typed.plain || !draws || !out.is_terminal() {
        return Demo::Lines;
    }
    Demo::Picture { colours: wants_colours(&out) }
}

/// The API of the demo: `sopan fake-api` with this limit, on a port of its own.
///
/// # Errors
/// The limit cannot be read.
pub(crate) fn demo_api(limit: &str) -> Result<Fake, Wrong> {
    match command(["fake-api", "--listen", NOWHERE, "--limit", limit]) {
        cli::Command::FakeApi(typed) => super::fake(&typed),
        _ => unreachable!("another command was typed"),
    }
}

/// The proxy of the demo: `sopan serve` as it is, in front of this API, told its limit.
///
/// # Errors
/// The limit cannot be read.
pub(crate) fn demo_proxy(api: SocketAddr, limit: &str) -> Result<Serve, Wrong> {
    let upstream = format!("http://{api}");
    let flags = ["--listen", NOWHERE, "--admin", "off", "--workers", "1", "--rate", limit];
    match command(["serve", "--upstream", &upstream].into_iter().chain(flags)) {
        cli::Command::Serve(typed) => super::serve(typed.config.as_deref(), &typed.settings),
        _ => unreachable!("another command was typed"),
    }
}

/// Any free port that only this machine reaches.
const NOWHERE: &str = "127.0.0.1:0";

fn command<'a>(words: impl IntoIterator<Item = &'a str>) -> cli::Command {
    let words = ["sopan"].into_iter().chain(words).map(Into::into);
    cli::read(words).unwrap_or_else(|error| panic!("a command line of our own is wrong: {error}")).command
}
