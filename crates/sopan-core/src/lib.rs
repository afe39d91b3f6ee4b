//! The decisions of sopan, a polite HTTP proxy, as pure functions and state machines: data and `now` in, a value out.
//!
//! Nothing here performs I/O, reads a clock, rolls dice, waits, logs or counts; whoever calls brings the time
//! ([`time::Instant`], [`std::time::SystemTime`]) and the random samples, and acts on the answer. That is what lets a
//! year of pacing be checked in a second.
//!
//! | module | question it answers |
//! |---|---|
//! | [`time`] | what is an instant? |
//! | [`calendar`] | which day is it in a zone? |
//! | [`policy`] | which settings are allowed, and how are they written? |
//! | [`bucket`] | may a request leave now, and if not, when? |
//! | [`queue`] | who is next? |
//! | [`lane`] | who goes, waits or is refused, all things taken together? |
//! | [`share`] | how do many instances keep to one limit together? |
//! | [`journal`] | what must outlive the process? |
//! | [`hints`] | what does an answer say of the limits of its sender? |
//! | [`retry`] | what follows an attempt: done, again after a while, or give up, and why? |
//! | [`breaker`] | is the upstream well enough to be asked? |
//! | [`cache`] | which answers are stored, and which requests are answered from them? |
//! | [`h1`] | what does a message say, where does it end, and how is it written? |
//! | [`headers`] | which fields belong to one hop, which tell of it, where do they lead, and which may not be shown? |
//! | [`safety`] | is this request meant for us, and by somebody who may? |
//! | [`access`] | whose is a request, and may it ask that? |
//! | [`pages`] | which request comes after this page, and what does a page hold? |
//! | [`trace`] | which trace does a request belong to, and what is the next one told of it? |
//! | [`spelling`] | how far is one word from another? |
//! | [`decimal`] | how is a number written? |

pub mod access;
pub mod breaker;
pub mod bucket;
pub mod cache;
pub mod calendar;
pub mod decimal;
pub mod h1;
pub mod headers;
pub mod hints;
pub mod journal;
pub mod lane;
pub mod pages;
pub mod policy;
pub mod queue;
pub mod retry;
pub mod safety;
pub mod share;
pub mod spelling;
pub mod time;
pub mod trace;
