//! Chance that can be repeated: the splitmix64 generator, started from a seed that the settings name.

use std::time::Duration;

/// A stream of numbers that a seed determines.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `0..bound`; zero where the bound is zero. The product of 128 bits keeps the bias at bound / 2⁶⁴,
    /// far below what any test here could see.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.next()) * u128::from(bound);
        (product >> 64) as u64
    }

    /// A duration from zero up to and including `most`.
    pub(crate) fn up_to(&mut self, most: Duration) -> Duration {
        let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.below(nanos.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        // The first outputs that the generator's reference implementation gives for this seed.
        let mut dice = Dice::new(1_234_567);
        let outputs = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([dice.next(), dice.next(), dice.next()], outputs);
    }

    #[test]
    fn numbers_stay_within_their_bound() {
        let mut dice = Dice::new(7);
        for bound in [0, 1, 2, 3, 1000, u64::MAX] {
            for _ in 0..100 {
                assert!(dice.below(bound) < bound.max(1));
            }
        }
        assert_eq!(dice.up_to(Duration::ZERO), Duration::ZERO);
    }
}
