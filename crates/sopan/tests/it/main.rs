//! The real program over real sockets, as people and scripts run it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

mod check;
mod collections;
mod corpus;
#[path = "../../../../fuzz/properties/corpus.rs"]
mod corpus_files;
mod demo;
mod docs;
mod explain;
mod fake;
mod fetch;
mod fetch_examples;
mod links;
mod man;
mod packages;
#[path = "../../../../fuzz/properties/request_path.rs"]
mod request_path;
mod serve;
mod settings;
#[path = "../../../../fuzz/properties/strict.rs"]
mod strict;
mod support;
mod timed;
