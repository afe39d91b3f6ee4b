//! What follows for the store, and for the client, from what the upstream has answered?

use std::time::SystemTime;

use http::{HeaderMap, StatusCode};

use super::lookup::{Reuse, Send};
use super::{Asked, NotStored, Stored, Times};
use crate::policy::CachePolicy;

/// The head of an answer, without the fields of its hop.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Its status.
    pub status: StatusCode,
    /// Its fields, as the upstream sent them.
    pub headers: &'a HeaderMap,
    /// When it was asked for and came.
    pub times: Times,
}

/// What follows from an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum After {
    /// It goes to the client, and is not stored.
    PassOn(NotStored),
    /// It goes to the client, and is stored in place of the stored answers at these places, which are for the same requests.
    Store {
        /// What is to be known of it.
        stored: Box<Stored>,
        /// Which others go.
        replaces: Vec<usize>,
    },
    /// It was about a stored answer, which is good again: that gets a new head, its body stays. The client gets it as
    /// [`lookup`](super::lookup) with `stored` in its place says.
    Freshen {
        /// Which one.
        index: usize,
        /// Its new head.
        stored: Box<Stored>,
        /// Whether the client gets what the upstream answered, because that is what it asked for (a HEAD, or a condition of
        /// its own).
        pass_on: bool,
    },
    /// It is a part of the body of which the stored answer has another: both are one from now on. The client gets what
    /// [`lookup`](super::lookup) says with `stored` in its place, as soon as the part has come whole.
    Join {
        /// Which one.
        index: usize,
        /// The head of both.
        stored: Box<Stored>,
    },
    /// It says nothing about the answer in store, and the client did not ask for it: the request has to be sent once more, as
    /// the client made it.
    AskAgain {
        /// The stored answer that it turned out to be useless to ask about, and goes.
        forget: Option<usize>,
    },
    /// It is a failure, and a stale answer is given in its place.
    Stale(Reuse),
    /// It goes to the client, and the stored answers at these places are no longer true.
    Forget(Vec<usize>),
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The upstream could not be reached, broke off, did not answer in time, or is held to be down.
    Disconnected,
    /// There is no token for the request before its deadline.
    NoToken,
}

/// What follows from an answer to a request that went to the upstream as `sent`; `stored` is what lookup was given.
pub fn after_response(
    _policy: &CachePolicy,
    _asked: &Asked<'_>,
    _sent: &Send,
    _stored: &[&Stored],
    _received: Received<'_>,
) -> After {
    After::PassOn(NotStored::Bypass)
}

/// Which stale answer is given where there is none from the upstream, if any may be.
pub fn after_failure(
    _policy: &CachePolicy,
    _asked: &Asked<'_>,
    _sent: &Send,
    _stored: &[&Stored],
    _failure: Failure,
    _now: SystemTime,
) -> Option<Reuse> {
    None
}
