//! The real program over real sockets, as people and scripts run it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod fake;
mod settings;
mod support;
