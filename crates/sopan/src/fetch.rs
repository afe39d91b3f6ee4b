//! How does what an API has come to where it is wanted, whole, and once?
//!
//! A single answer goes to standard output ([`single`]). A collection is a job ([`run`], [`traversal`]): it goes page by page
//! ([`records`], [`schema`]) into a part file beside its output ([`kept`]), which remembers after each page where the traversal
//! stands ([`stand`]), so that a run that was killed goes on there. When the last page is there, the output is made of the part
//! file ([`sinks`]) and moved into its place. What a run has to do with the one before is for [`between`]. What was waited for is
//! counted ([`tally`]) and told ([`telling`]); how long it would be is told before ([`plan`]).
//!
//! Who is asked, and when, is the engine's business.

mod between;
mod kept;
mod plan;
mod records;
mod run;
mod schema;
mod single;
mod sinks;
mod stand;
mod tally;
mod telling;
mod traversal;

use sopan_engine::SetupError;

pub(crate) use plan::plan;
pub(crate) use run::run;
pub(crate) use single::run as get;
pub(crate) use sinks::Sink;
pub(crate) use telling::Line;

/// Why it is not there.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The upstream cannot be set up.
    Setup(SetupError),
    /// What was asked for cannot be done here, and nothing was sent.
    Settings(String),
    /// It is not what it was meant to be.
    Data(String),
    /// It may succeed later.
    Transient(String),
    /// Something must be mended first.
    Permanent(String),
    /// SIGINT came; what there is to say of that.
    Interrupted(Option<String>),
}

impl Failure {
    /// The same, with the name of the job where it has one.
    fn of(self, job: &str) -> Self {
        let named = |message: String| if job.is_empty() { message } else { format!("{job}: {message}") };
        match self {
            Self::Setup(error) => Self::Setup(error),
            Self::Settings(message) => Self::Settings(named(message)),
            Self::Data(message) => Self::Data(named(message)),
            Self::Transient(message) => Self::Transient(named(message)),
            Self::Permanent(message) => Self::Permanent(named(message)),
            Self::Interrupted(message) => Self::Interrupted(message.map(named)),
        }
    }
}
