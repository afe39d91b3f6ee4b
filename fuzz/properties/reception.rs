//! When did a field come in?

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Wed, 21 Oct 2026 12:00:00 GMT.
pub(crate) const NOON: i64 = 1_792_584_000;

/// The time of reception, if the first line is a number, and the rest.
pub(crate) fn received(input: &[u8]) -> (i64, &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n');
    let number = end.and_then(|end| std::str::from_utf8(&input[..end]).ok()?.parse::<i32>().ok());
    match (number, end) {
        (Some(number), Some(end)) => (number.into(), &input[end + 1..]),
        _ => (NOON, input),
    }
}

pub(crate) fn at(seconds: i64) -> SystemTime {
    let span = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { UNIX_EPOCH - span } else { UNIX_EPOCH + span }
}
