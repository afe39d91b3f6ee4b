//! Which request comes after this page, and what does a page hold?
//!
//! A collection is read page by page. Where the next page is says a link in the answer, a cursor in it, or nobody: then pages are
//! numbered or counted by records ([`Paging`]). [`Walk`] knows where a traversal stands and what was asked already; it is told
//! what came ([`Reply`]) and answers what to ask next, or why this was all ([`Step`]). It never asks for the same twice, and
//! never leaves the API that it began with.
//!
//! Records and pointers are taken out of the text of an answer as they stand ([`raw`]): every digit of every number stays.
//! Who sends, waits, repeats and keeps records is somebody else's business.

pub mod detect;
pub mod link;
pub mod plan;
pub mod raw;
mod said;
pub mod select;
pub mod shape;
pub mod since;
pub mod total;
mod walk;

pub use raw::{Pointer, PointerError};
pub use said::PagingError;
pub use select::{Select, SelectError};
pub use walk::{Paging, Place, Reply, Rules, Step, Walk, WalkError};
