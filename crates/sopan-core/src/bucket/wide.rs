//! One multiplication that does not fit 128 bits: carrying a debt from one rate's units to another's.

/// ⌈a · b / c⌉, exact, or `u128::MAX` where that does not fit. `c` must not be zero.
pub(super) fn mul_div_up(a: u128, b: u128, c: u128) -> u128 {
    debug_assert!(c != 0, "a rate's period is never zero");
    if let Some(product) = a.checked_mul(b) {
        return product.div_ceil(c);
    }
    let (high, low) = mul(a, b);
    if high >= c {
        return u128::MAX;
    }
    // Schoolbook division, one bit at a time; changing a limit is rare, and the operands are at the extremes here.
    let (mut rest, mut quotient) = (high, 0u128);
    for bit in (0..128).rev() {
        let overflows = rest >> 127 == 1;
        rest = (rest << 1) | ((low >> bit) & 1);
        quotient <<= 1;
        if overflows || rest >= c {
            rest = rest.wrapping_sub(c);
            quotient |= 1;
        }
    }
    if rest > 0 { quotient.saturating_add(1) } else { quotient }
}

fn mul(a: u128, b: u128) -> (u128, u128) {
    const HALF: u128 = u64::MAX as u128;
    let (a1, a0, b1, b0) = (a >> 64, a & HALF, b >> 64, b & HALF);
    let low = a0 * b0;
    let middle = a1 * b0 + (low >> 64);
    let middle_low = a0 * b1 + (middle & HALF);
    (a1 * b1 + (middle >> 64) + (middle_low >> 64), (middle_low << 64) | (low & HALF))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_huge_products_are_exact() {
        for (a, b, c, expected) in [
            (0, 5, 7, 0),
            (10, 10, 3, 34),
            (u128::MAX, u128::MAX, u128::MAX, u128::MAX),
            (u128::MAX, 2, 4, 1 << 127),
            (1 << 100, 1 << 100, 1 << 120, 1 << 80),
            ((1 << 100) + 1, 1 << 100, 1 << 120, (1 << 80) + 1),
            (u128::MAX, 3, 1, u128::MAX),
            (u128::MAX - 1, u128::MAX, u128::MAX, u128::MAX - 1),
        ] {
            assert_eq!(mul_div_up(a, b, c), expected, "{a} · {b} / {c}");
        }
    }
}
