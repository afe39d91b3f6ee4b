//! Which bytes are asked for, and which are there (RFC 9110 §14)?

use http::HeaderMap;

/// Bytes of a body, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first one, from 0.
    pub first: u64,
    /// The last one, not before the first.
    pub last: u64,
}

/// A part of a body, and how long the whole is, where that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it is.
    pub span: Span,
    /// The length of the whole body.
    pub complete: Option<u64>,
}

/// What a request with `Range` asks for of a body of a known length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of it: there is no `Range`, or one that is not looked at (another unit, malformed, too many).
    Whole,
    /// One part of it.
    One(Span),
    /// Several, in the order asked, which do not overlap.
    Several(Vec<Span>),
    /// Nothing that is there: 416.
    Nothing,
}

/// What is asked for of a body this long.
pub fn wanted(_request: &HeaderMap, _length: u64) -> Wanted {
    Wanted::Whole
}

/// Which part of a body is asked for if its length is not known or only a part of it is held: none unless it is one single
/// range with both ends, an open or a suffix range being known only with `complete`.
pub fn wanted_of_part(_request: &HeaderMap, _complete: Option<u64>) -> Option<Span> {
    None
}

/// Whether a request has a `Range` that may be looked at, going by its `If-Range` and the answer that would be used
/// (RFC 9110 §13.1.5). Without `If-Range` it may.
pub fn if_range_holds(_request: &HeaderMap, _stored: &HeaderMap) -> bool {
    false
}

/// Which part a 206 has, going by its one `Content-Range` (RFC 9110 §14.4), if that makes sense, and with its
/// `Content-Length` if it has one. None for a multipart one.
pub fn part_of_answer(_answer: &HeaderMap) -> Option<Part> {
    None
}

/// The part that two make together, if they touch or overlap and agree on the length of the whole.
pub fn joined(_a: Part, _b: Part) -> Option<Part> {
    None
}
