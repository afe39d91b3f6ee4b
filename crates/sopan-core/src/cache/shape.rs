//! What of an answer in store does a request get?
//!
//! In the order of RFC 9110 §13.2.2: nothing, if the client has it already; no body for a HEAD; the parts that it asks for,
//! if what it has already is of the same; else all.
//!
//! Left to others: whether the answer is used at all.

use http::{Method, StatusCode};

use super::choose::part_wanted;
use super::conditional::is_not_modified;
use super::marks::Marks;
use super::range::{Wanted, if_range_holds, wanted};
use super::{Asked, Extent, Shape, Stored};

/// What of it is sent; none if only a part is held and that is not enough.
pub(super) fn shape(asked: &Asked<'_>, stored: &Stored) -> Option<Shape> {
    let part = match stored.extent {
        Extent::Whole(_) => None,
        Extent::Part(_) => Some(part_wanted(asked, stored)?),
    };
    // Conditions are for what would have succeeded without them (RFC 9110 §13.2.1).
    if asked.marks.has(Marks::CONDITIONS)
        && stored.status.is_success()
        && is_not_modified(asked.headers, &stored.headers)
    {
        return Some(Shape::NotModified);
    }
    if asked.method == Method::HEAD {
        return Some(Shape::Head);
    }
    match (part, stored.extent) {
        (Some(span), _) => Some(Shape::Part(span)),
        (None, Extent::Whole(Some(length))) if is_ranged(asked, stored) => Some(match wanted(asked.headers, length) {
            Wanted::Whole => Shape::Whole,
            Wanted::One(span) => Shape::Part(span),
            Wanted::Several(spans) => Shape::Parts(spans),
            Wanted::Nothing => Shape::Unsatisfiable,
        }),
        // Where nobody knows yet how long it is, it is sent from its beginning, as RFC 9110 §14.2 allows.
        (None, _) => Some(Shape::Whole),
    }
}

fn is_ranged(asked: &Asked<'_>, stored: &Stored) -> bool {
    asked.marks.has(Marks::RANGE) && stored.status == StatusCode::OK && if_range_holds(asked.headers, &stored.headers)
}
