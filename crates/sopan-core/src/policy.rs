//! Settings as the core trusts them: checked once, when they are made, and never again.
//!
//! Text forms that people type (`10/s burst 20`, `500ms`) are read here too, since the settings file, the command line
//! and the documentation must all mean the same by them. Keys, files and flags are not known here.

mod duration;

mod limit;

pub use duration::{DurationError, parse_duration, show_duration};

pub(crate) use limit::reduce;
pub use limit::{BURST_MAX, Limit, LimitError, Margin, Quota, Rate};
