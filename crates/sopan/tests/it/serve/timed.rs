//! What takes a time that matters; these run one at a time. Lower bounds are strict, upper ones leave room for a machine
//! that is busy with something else.

mod cache;
mod hold;
mod instances;
mod keys;
mod leaving;
mod outage;
mod pacing;
mod restart;
mod retry;
mod signals;
mod start;
mod state;
mod streaming;
mod timeouts;

use std::time::Duration;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
