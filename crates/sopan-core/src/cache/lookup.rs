//! Is there an answer for a request in store?

use std::time::SystemTime;

use super::conditional::Conditions;
use super::range::Span;
use super::status::{Detail, Forward};
use super::{Asked, Stored};
use crate::policy::CachePolicy;

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// It is answered from store.
    Reuse(Reuse),
    /// It goes to the upstream.
    Send(Send),
    /// It wants an answer from store or none (`only-if-cached`), and there is none: 504.
    Unsatisfied,
}

/// How a request is answered from store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// Which of the stored answers is used.
    pub index: usize,
    /// What of it is sent.
    pub shape: Shape,
    /// How old it is, in whole seconds, for `Age`.
    pub age: u64,
    /// For how long it is fresh still, in seconds, below 0 where it is stale.
    pub ttl: i64,
    /// Why it is used though it is stale.
    pub stale: Option<Detail>,
    /// With what the upstream is to be asked in the background, where it is used meanwhile.
    pub revalidate: Option<Conditions>,
}

/// What of a stored answer is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Its status, fields and body.
    Whole,
    /// The same without the body, for a HEAD.
    Head,
    /// 304, without a body: the client has it already.
    NotModified,
    /// 206 with these bytes of the body; a `Content-Range` is made of them and the length of the whole.
    Part(Span),
    /// 206 in several parts (`multipart/byteranges`), each with a `Content-Range`.
    Parts(Vec<Span>),
    /// 416, with the length of the whole in `Content-Range: bytes */LENGTH`.
    Unsatisfiable,
}

/// How a request goes to the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    /// Why it goes.
    pub forward: Forward,
    /// What the upstream is asked with in place of the client's own conditions and `Range`; none if they go as they are.
    pub ask: Option<Ask>,
    /// Which stored answer may be given if the upstream fails, as [`after_failure`](super::after_failure) has it.
    pub fallback: Option<usize>,
    /// Whether others that ask the same may wait for its answer.
    pub is_sharable: bool,
    /// Whether its answer may be stored.
    pub may_store: bool,
}

/// What the upstream is asked about a stored answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Which one it is about.
    pub index: usize,
    /// Whether it is still good.
    pub conditions: Conditions,
    /// The bytes that are missing of it, instead (`Range`, with its strong entity tag in `If-Range`).
    pub missing: Option<Span>,
}

/// Looks for an answer among those `stored` for the same target.
pub fn lookup(_policy: &CachePolicy, _asked: &Asked<'_>, _stored: &[&Stored], _now: SystemTime) -> Lookup {
    Lookup::Send(Send { forward: Forward::Bypass, ask: None, fallback: None, is_sharable: false, may_store: false })
}
