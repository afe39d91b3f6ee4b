//! Both doubles, asked over the wire by a client that knows no more HTTP than it needs.

#![allow(clippy::unwrap_used, reason = "in a test, what is not there is a failure; this includes its helpers")]

mod api;
mod client;
mod conformance;
mod pages;
mod script;
mod timed;
