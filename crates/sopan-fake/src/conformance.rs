//! Whether a proxy does what HTTP asks of an intermediary (RFC 9110, RFC 9112): cases as data, and who runs them.
//!
//! A case says what a client sends byte by byte, what the upstream does, and what must hold on both sides. [`Suite`] needs
//! no more than the address of a proxy whose upstream it is, so the same cases judge sopan and any other proxy. In every
//! case nothing malformed may reach either side, whatever the case itself is about.
//!
//! ```ignore
//! let suite = Suite::listen_on(listener, Duration::from_secs(5), Judge::Strict);
//! // … a proxy in front of suite.upstream() …
//! for case in cases() {
//!     let outcome = suite.run(&case, proxy).await?;
//!     assert_eq!(outcome.faults, [""; 0], "{}: {}\n{}", case.id, case.claim, outcome.seen);
//! }
//! ```
//!
//! [`mutate`] makes bad messages out of good ones, many thousands and always the same. What is right there is left to
//! whoever sends them: that nothing malformed goes through, and that every request is answered or its connection closed.

mod case;
mod cases;
mod line;
pub mod mutate;
mod reply;
mod run;
mod want;

pub use case::{Case, Group, Kind};
pub use cases::cases;
pub use line::{Heard, Line, hear};
pub use reply::{Asked, Ended, Fields, Reply};
pub use run::{Outcome, Suite};

/// How exactly a case is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judge {
    /// As sopan promises: the status to the digit, and the connection closed after what could be read in two ways.
    Strict,
    /// As any proxy may: another status of refusal, or just the end of the connection.
    Loose,
}

/// What is malformed in a request that arrived, in words.
pub fn unclean(request: &crate::script::Request) -> Vec<String> {
    run::judged(request)
}
