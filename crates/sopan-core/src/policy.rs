//! Settings as the core trusts them: checked once, when they are made, and never again.
//!
//! Text forms that people type (`10/s burst 20`, `500ms`) are read here too, since the settings file, the command line
//! and the documentation must all mean the same by them. Files, flags and environments are not known here.

mod breaker;
mod cache;
mod duration;
mod error;
mod lane;
mod limit;
mod retry;

pub use breaker::BreakerPolicy;
pub use cache::{CachePolicy, PATHS_MAX, PathRule, PathRuleError, PathTreatment, Revalidate};
pub use duration::{DurationError, parse_duration, show_duration};
pub use error::{Allowed, PolicyError};
pub use lane::{CLIENT_LIMITS_MAX, ClientLimits, LIMITS_MAX, LanePolicy};
pub(crate) use limit::reduce;
pub use limit::{BURST_MAX, CalendarQuota, Limit, LimitError, Margin, MarginError, Quota, Rate};
pub use retry::{JitterKind, OnLongRetryAfter, RetryPolicy};
