//! The decisions of sopan, a polite HTTP proxy, as pure functions and state machines: data and `now` in, a value out.
//!
//! Nothing here performs I/O, reads a clock, rolls dice, waits, logs or counts; whoever calls brings the time
//! ([`time::Instant`], [`std::time::SystemTime`]) and the random samples, and acts on the answer. That is what lets a
//! year of pacing be checked in a second.
//!
//! | module | question it answers |
//! |---|---|
//! | [`time`] | what an instant is |
//! | [`hints`] | what does an answer say of the limits of its sender? |
//! | [`retry`] | what follows an attempt: done, again after a while, or give up, and why? |
//! | [`breaker`] | is the upstream well enough to be asked? |
//! | [`headers`] | which fields belong to one hop, and which may not be shown? |

pub mod breaker;
pub mod headers;
pub mod hints;
pub mod policy;
pub mod retry;
pub mod time;
