//! How does what an API has come to where it is wanted, whole, and once?
//!
//! A single answer goes to standard output ([`single`]). A collection goes page by page into a part file beside its output
//! ([`kept`]), which remembers after each page where the traversal stands ([`stand`]), so that a run that was killed goes on
//! there. When the last page is there, the output is made of the part file ([`sinks`]) and moved into its place.
//!
//! Who is asked, and when, is the engine's business.

#[allow(dead_code, reason = "the traversal is the only one to use it")]
mod kept;
mod single;
#[allow(dead_code, reason = "the traversal is the only one to use it")]
mod sinks;
#[allow(dead_code, reason = "the traversal is the only one to use it")]
mod stand;

pub(crate) use single::{Failure, run};
