//! The engine in process, over pipes in memory and on a paused clock.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod backoff;
mod body;
mod breaker;
mod cache;
mod cancel;
mod client;
mod commons;
mod credential;
mod doubt;
mod fairness;
mod hold;
mod hop;
mod http2;
mod ledger;
mod observe;
mod operator;
mod pacing;
mod pages;
mod pool;
mod queue;
mod refusal;
mod rest;
mod retry;
mod retry_after;
mod secrets;
mod service;
mod shared;
mod state;
mod story;
mod support;
mod trace;
mod wire;
