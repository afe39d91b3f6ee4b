//! How is a number written?
//!
//! In digits, by hand: every answer carries a few of them, and the machinery of formatting would cost more than reading
//! its request line.

/// The digits of a number.
#[derive(Debug, Clone, Copy)]
pub struct Decimal {
    digits: [u8; DIGITS_MAX],
    from: usize,
}

/// Those of the largest number.
const DIGITS_MAX: usize = 20;

impl Decimal {
    /// Those of this one.
    ///
    /// ```
    /// use sopan_core::decimal::Decimal;
    ///
    /// assert_eq!(Decimal::of(1024).as_bytes(), b"1024");
    /// ```
    pub fn of(mut number: u64) -> Self {
        let (mut digits, mut from) = ([b'0'; DIGITS_MAX], DIGITS_MAX - 1);
        while number >= 10 {
            digits[from] += (number % 10) as u8;
            number /= 10;
            from -= 1;
        }
        digits[from] += number as u8;
        Self { digits, from }
    }

    /// As text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.digits[self.from..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_formatting_does() {
        for number in [0, 1, 9, 10, 99, 100, 1024, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            assert_eq!(Decimal::of(number).as_bytes(), number.to_string().as_bytes());
        }
    }
}
