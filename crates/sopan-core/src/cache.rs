//! Which answers are stored, and which requests are answered from them (RFC 9111)?
//!
//! Two questions. [`lookup`] is asked when a request has come: is there an answer for it in store, or must the upstream be
//! asked, and how? [`after_response`] is asked when the upstream has answered, or could not: is that stored, does it make
//! something stored good again, may something stale be given instead? What an unsafe request makes untrue is for
//! [`invalidate`] to say. Fields are read by [`directives`], [`freshness`], [`vary`], [`conditional`] and [`range`]; several
//! parts are written as [`multipart`] has it, and what was decided is told to the client by [`status`].
//!
//! Nothing here holds a body or a store: an answer in store is a [`Stored`], known by its place in the list that the caller
//! brings.

pub mod conditional;
pub mod directives;
pub mod freshness;
pub mod invalidate;
pub mod multipart;
pub mod range;
pub mod status;
pub mod vary;

mod after;
mod choose;
mod codec;
mod keep;
mod list;
mod lookup;
mod marks;
mod shape;
mod standing;
mod stored;
mod values;

pub use after::{After, Failure, Received, after_failure, after_response, stands_by};
pub use lookup::{Ask, Lookup, Reuse, Send, Shape, lookup, reuse_just_come};
pub use marks::Marks;
pub use stored::{Asked, Extent, NotStored, Owner, Stored, Times};

#[cfg(test)]
mod tests;
