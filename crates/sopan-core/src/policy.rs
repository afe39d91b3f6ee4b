//! Settings as the core trusts them: checked once, when they are made, and never again.

mod breaker;
mod error;
mod retry;

pub use breaker::BreakerPolicy;
pub use error::PolicyError;
pub use retry::{JitterKind, OnLongRetryAfter, RetryPolicy};
