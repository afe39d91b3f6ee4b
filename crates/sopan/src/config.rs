//! What the command line means: values that are read, checked and typed, or everything that is wrong with them at once.
//!
//! The only place that knows the names of flags and asks the machine what it is. Each command has its type here, and a
//! function from what was typed to it; what a value may be is the business of the policies in `sopan-core`, which this
//! asks, and what follows from it is the business of the command.

mod fake;
mod read;

pub(crate) use fake::{Fake, fake};
pub(crate) use read::Wrong;

#[cfg(test)]
mod tests;
