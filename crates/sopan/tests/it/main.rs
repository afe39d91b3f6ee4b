//! The real program over real sockets, as people and scripts run it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

mod fake;
mod fetch;
mod serve;
mod settings;
mod support;
mod timed;
