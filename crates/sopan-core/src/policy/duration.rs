//! Durations as people type them: `500ms`, `2s`, `5m`, `1h30m`, `1.5s`, and a bare `30`, which is seconds.

use std::time::Duration;

/// A text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a duration; write a number and a unit, for example 500ms, 2s, 5m, 1h30m, 1d (up to 10 years)")]
pub struct DurationError {
    text: String,
}

/// No setting of ours is longer, and anything up to here can be added to an instant without care.
const LONGEST: Duration = Duration::from_secs(3650 * 86_400);

/// Reads a duration: one or more numbers with a unit (`ns`, `us`, `ms`, `s`, `m`, `h`, `d`), at most nine decimals each;
/// a single number without a unit is seconds.
///
/// # Errors
/// Anything else, a negative number, and more than ten years.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    read(text.trim()).filter(|d| *d <= LONGEST).ok_or_else(|| DurationError { text: text.to_owned() })
}

/// A duration in the largest unit that divides it, as [`parse_duration`] reads it: `1h`, `90s`, `500ms`.
pub fn show_duration(span: Duration) -> String {
    let nanos = span.as_nanos();
    let units = [("d", DAY), ("h", DAY / 24), ("m", DAY / 1440), ("s", DAY / 86_400), ("ms", 1_000_000), ("us", 1_000)];
    match units.into_iter().find(|(_, unit)| nanos > 0 && nanos.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", nanos / unit),
        None if nanos == 0 => "0s".to_owned(),
        None => format!("{nanos}ns"),
    }
}

const DAY: u128 = 86_400_000_000_000;

fn read(text: &str) -> Option<Duration> {
    if let Some((value, "")) = number(text) {
        return span(value, 1_000_000_000);
    }
    let (mut rest, mut total) = (text, Duration::ZERO);
    while !rest.is_empty() {
        let (value, after) = number(rest)?;
        let unit_len = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_len);
        total = total.checked_add(span(value, unit_nanos(unit)?)?)?;
        rest = next;
    }
    (!text.is_empty()).then_some(total)
}

/// Nanoseconds in a unit, by its short or long name.
pub(super) fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" | "sec" | "second" | "seconds" => 1_000_000_000,
        "m" | "min" | "minute" | "minutes" => 60_000_000_000,
        "h" | "hour" | "hours" => 3_600_000_000_000,
        "d" | "day" | "days" => 86_400_000_000_000,
        _ => return None,
    })
}

/// A decimal number as billionths, so that nothing is rounded before the unit is known.
#[derive(Clone, Copy)]
pub(super) struct Decimal {
    /// The value times 10^9.
    pub(super) billionths: u128,
}

/// The longest prefix of `text` that is a number of digits with at most nine decimals, and what follows it.
pub(super) fn number(text: &str) -> Option<(Decimal, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    if whole.is_empty() || whole.len() > 18 || fraction.is_empty() || fraction.len() > 9 || fraction.contains('.') {
        return None;
    }
    let scale = 10u128.pow(9 - fraction.len() as u32);
    let billionths = whole.parse::<u128>().ok()? * 1_000_000_000 + fraction.parse::<u128>().ok()? * scale;
    Some((Decimal { billionths }, rest))
}

fn span(value: Decimal, unit: u64) -> Option<Duration> {
    let nanos = value.billionths.checked_mul(u128::from(unit))? / 1_000_000_000;
    Some(Duration::from_nanos(u64::try_from(nanos).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected_ms: Option<u64>) {
        assert_eq!(parse_duration(text).ok(), expected_ms.map(Duration::from_millis), "{text:?}");
    }

    #[test]
    fn what_people_type_is_read() {
        check("500ms", Some(500));
        check("2s", Some(2_000));
        check("5m", Some(300_000));
        check("5min", Some(300_000));
        check("1h30m", Some(5_400_000));
        check("1.5s", Some(1_500));
        check("0.25", Some(250));
        check("30", Some(30_000));
        check("0", Some(0));
        check("0s", Some(0));
        check(" 2s ", Some(2_000));
        check("1d", Some(86_400_000));
    }

    #[test]
    fn a_duration_is_shown_as_it_can_be_read() {
        for text in ["500ms", "2s", "5m", "90s", "1h", "1d", "1500us", "0s", "7ns"] {
            assert_eq!(show_duration(parse_duration(text).unwrap()), text);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in
            ["", "s", "-1s", "+1s", "1e3s", "1.s", ".5s", "1..5s", "NaN", "inf", "1 s", "2 fortnights", "5x", "1s5"]
        {
            check(text, None);
        }
        check("3650d", Some(3650 * 86_400_000));
        check("3651d", None);
        check("99999999999999999999s", None);
        check("1.0123456789s", None);
    }
}
