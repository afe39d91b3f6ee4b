//! The only reader of chance: samples for jitter, from a seed that a test can fix.

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sopan_core::retry::Dice;

/// A source of random samples, shared by all exchanges of an upstream.
#[derive(Debug)]
pub struct Jitter(Mutex<StdRng>);

impl Jitter {
    /// Seeded by the system.
    pub fn new() -> Self {
        Self(Mutex::new(rand::make_rng()))
    }

    /// Seeded, so that a test repeats.
    pub fn seeded(seed: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed)))
    }

    /// The samples that one decision of [`sopan_core::retry::decide`] takes.
    pub(crate) fn dice(&self) -> Dice {
        let mut rng = self.0.lock();
        Dice { backoff: rng.random(), retry_after: rng.random() }
    }

    /// A number that nobody guesses.
    pub(crate) fn number(&self) -> u128 {
        self.0.lock().random()
    }
}

impl Default for Jitter {
    fn default() -> Self {
        Self::new()
    }
}
