//! What an upstream allows, as people write it: a *rate* (`10/s burst 20`) or a *quota*, of a sliding span (`5000 per 1h`)
//! or of the calendar (`10000 per day at 00:00 America/Los_Angeles`).
//!
//! A rate is kept as an exact fraction (N tokens per P nanoseconds), since `0.333333/s` over a year must not drift.
//! How limits are kept to is [`crate::bucket`]'s business.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::calendar::Daybreak;

use super::duration::{Decimal, number, parse_duration, show_duration, unit_nanos};

/// One limit of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Limit {
    /// A token bucket that refills continuously.
    Rate(Rate),
    /// At most so many in any sliding span.
    Quota(Quota),
    /// At most so many in any day of the calendar.
    Calendar(CalendarQuota),
}

/// A text that is not a limit, or a limit outside of what can be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a limit: {why}")]
pub struct LimitError {
    text: String,
    why: String,
}

/// The largest burst and the largest cost; with it no sum of the bucket's arithmetic overflows.
pub const BURST_MAX: u32 = 1_000_000_000;

const DAY: u128 = 86_400_000_000_000;
const GRAMMAR: &str = "write a rate such as 10/s, 10/s burst 20, 500/min, 0.5/s, or a quota such as 5000 per 1h, \
    50 per 1s, 10000 per day at 00:00 UTC";
const NO_COUNT: &str = "the count must be 1 or more";
const TOO_FAST: &str = "more than 1,000,000 a second cannot be kept; write unlimited to keep no limit";

const SEVERAL: &str = "it is more than one; write each by itself: [10/s burst 20, 5000 per 1h] in a file, a --rate for each on \
    the command line";

fn neither() -> String {
    format!("it is neither a rate nor a quota; {GRAMMAR}")
}

/// A rate: `tokens` per `period` nanoseconds, with room for `burst` at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rate {
    tokens: u64,
    period: u128,
    burst: Option<u32>,
    /// The nanoseconds of the `s` in `10/s`.
    unit: u128,
    text: String,
}

impl Rate {
    /// The rate as an exact fraction: so many tokens in so many nanoseconds, in lowest terms.
    pub fn fraction(&self) -> (u64, u128) {
        (self.tokens, self.period)
    }

    /// From one token to the next, rounded up.
    pub fn interval(&self) -> Duration {
        Duration::from_nanos_u128(self.period.div_ceil(self.tokens.into()))
    }

    /// The unit that it was written in, in nanoseconds: those of the `s` in `10/s`.
    pub fn unit(&self) -> u128 {
        self.unit
    }

    /// Requests that may leave at once after a quiet time; 1, which is even spacing, where none was given.
    pub fn burst(&self) -> u32 {
        self.burst.unwrap_or(1)
    }

    /// Whether the text named a burst.
    pub fn has_burst(&self) -> bool {
        self.burst.is_some()
    }

    /// The same rate with another burst.
    ///
    /// # Errors
    /// A burst outside 1 to 1,000,000,000.
    pub fn with_burst(mut self, burst: u64) -> Result<Self, LimitError> {
        self.burst = Some(checked_burst(&format!("{} burst {burst}", self.text), burst)?);
        Ok(self)
    }
}

/// A quota: at most `count` in any `span`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    count: u64,
    span: Duration,
}

impl Quota {
    /// A quota of `count` per `span`.
    ///
    /// # Errors
    /// A count of zero, a span below 1 ms or above 366 days, more than 1,000,000 a second.
    pub fn try_new(count: u64, span: Duration) -> Result<Self, LimitError> {
        let quota = Self { count, span };
        let fail = |why: &str| Err(LimitError { text: quota.to_string(), why: why.to_owned() });
        if count == 0 {
            return fail(NO_COUNT);
        }
        if span < Duration::from_millis(1) || span > Duration::from_secs(366 * 86_400) {
            return fail("the span must be 1ms to 366d");
        }
        if u128::from(count) * 1_000 > span.as_nanos() {
            return fail(TOO_FAST);
        }
        Ok(quota)
    }

    /// How many may leave in a span.
    pub fn count(self) -> u64 {
        self.count
    }

    /// The sliding span.
    pub fn span(self) -> Duration {
        self.span
    }
}

/// A quota of the calendar: at most `count` in any day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalendarQuota {
    count: u64,
    daybreak: Daybreak,
}

impl CalendarQuota {
    /// A quota of `count` a day.
    ///
    /// # Errors
    /// A count of zero, or more than 1,000,000 a second.
    pub fn try_new(count: u64, daybreak: Daybreak) -> Result<Self, LimitError> {
        let quota = Self { count, daybreak };
        if count == 0 {
            return fail(&quota.to_string(), NO_COUNT);
        }
        if u128::from(count) * 1_000 > DAY {
            return fail(&quota.to_string(), TOO_FAST);
        }
        Ok(quota)
    }

    /// How many may leave in a day.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// When a new day begins.
    pub fn daybreak(&self) -> &Daybreak {
        &self.daybreak
    }
}

impl Limit {
    /// How many a quota lets in its span or day; none for a rate.
    pub fn count(&self) -> Option<u64> {
        match self {
            Self::Rate(_) => None,
            Self::Quota(quota) => Some(quota.count()),
            Self::Calendar(quota) => Some(quota.count()),
        }
    }
}

impl Limit {
    /// One of so many parts of it: what each instance keeps to where they do not hear of each other. A burst and a count are
    /// rounded down, but never below 1, so that parts of less than one are more than the whole together.
    #[must_use]
    pub fn share(&self, parts: u32) -> Self {
        let parts = parts.max(1);
        match self {
            Self::Rate(rate) => {
                let (tokens, period) = reduce(rate.tokens.into(), rate.period * u128::from(parts));
                let tokens = u64::try_from(tokens).expect("a fraction in lower terms has no larger numerator");
                let burst = rate.burst.map(|burst| (burst / parts).max(1));
                Self::Rate(Rate { tokens, period, burst, unit: rate.unit, text: rate.text.clone() })
            }
            Self::Quota(quota) => Self::Quota(Quota { count: (quota.count / u64::from(parts)).max(1), ..*quota }),
            Self::Calendar(quota) => {
                let count = (quota.count / u64::from(parts)).max(1);
                Self::Calendar(CalendarQuota { count, daybreak: quota.daybreak.clone() })
            }
        }
    }
}

impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let trimmed = text.trim();
        if is_several(trimmed) {
            return fail(trimmed, SEVERAL);
        }
        if let Some((count, span)) = trimmed.split_once(" per ") {
            let (count, span) = (count.trim(), span.trim());
            return match span.split_once(" at").filter(|(_, at)| at.is_empty() || at.starts_with(char::is_whitespace)) {
                Some((span, at)) => read_calendar(trimmed, count, span.trim(), at.trim()).map(Self::Calendar),
                None => read_quota(trimmed, count, span).map(Self::Quota),
            };
        }
        read_rate(trimmed).map(Self::Rate)
    }
}

/// Whether a text holds several limits: a count stands before each `/` and each `per` of a limit, and not before the `/` of a
/// zone.
fn is_several(text: &str) -> bool {
    let counts =
        |mark| text.match_indices(mark).filter(|(at, _)| text[..*at].ends_with(|c: char| c.is_ascii_digit())).count();
    counts("/") + counts(" per ") > 1
}

fn fail<T>(text: &str, why: impl Into<String>) -> Result<T, LimitError> {
    Err(LimitError { text: text.to_owned(), why: why.into() })
}

fn read_rate(text: &str) -> Result<Rate, LimitError> {
    let (rate, burst) = match text.split_once(" burst ") {
        Some((rate, burst)) => (rate.trim(), Some(burst.trim())),
        None if text.ends_with(" burst") => {
            return fail(text, "a burst needs a number; write for example 10/s burst 20");
        }
        None => (text, None),
    };
    let Some((value, unit)) = rate.split_once('/') else { return fail(text, neither()) };
    let Some((Decimal { billionths }, "")) = number(value) else {
        return fail(text, format!("`{value}` is not a number of digits with at most nine decimals; {GRAMMAR}"));
    };
    let Some(unit) = rate_unit(unit) else {
        return fail(text, format!("`{unit}` is not a unit; allowed are s, min, h and d; {GRAMMAR}"));
    };
    if billionths == 0 {
        return fail(text, "a rate of zero would let nothing through, ever; the lowest rate is 1/d");
    }
    // Billionths of a token per unit, in lowest terms: exact, whatever was typed.
    let (tokens, period) = reduce(billionths, unit * 1_000_000_000);
    if tokens * DAY < period {
        return fail(text, "the lowest rate is one a day; for less write a quota such as 10 per 30d");
    }
    if tokens * 1_000 > period {
        return fail(text, "the highest rate is 1000000/s; write unlimited to keep no limit");
    }
    let tokens = u64::try_from(tokens).map_err(|_| LimitError { text: text.to_owned(), why: neither() })?;
    let burst = burst.map(|b| read_burst(text, b)).transpose()?;
    Ok(Rate { tokens, period, burst, unit, text: rate.to_owned() })
}

fn rate_unit(unit: &str) -> Option<u128> {
    if matches!(unit, "ns" | "us" | "ms") { None } else { unit_nanos(unit).map(u128::from) }
}

fn read_burst(text: &str, burst: &str) -> Result<u32, LimitError> {
    match whole(burst) {
        Some(burst) => checked_burst(text, burst),
        None => fail(text, format!("`{burst}` is not a burst; allowed are whole numbers from 1 to {BURST_MAX}")),
    }
}

fn checked_burst(text: &str, burst: u64) -> Result<u32, LimitError> {
    match u32::try_from(burst) {
        Ok(burst) if (1..=BURST_MAX).contains(&burst) => Ok(burst),
        _ => fail(text, format!("the burst must be 1 to {BURST_MAX}")),
    }
}

fn read_quota(text: &str, count: &str, span: &str) -> Result<Quota, LimitError> {
    let count = read_count(text, count)?;
    let read = match unit_nanos(span) {
        Some(unit) => Some(Duration::from_nanos(unit)),
        // A bare number is seconds elsewhere; a quota is read by people who would wonder which unit was meant.
        None if span.ends_with(|c: char| c.is_ascii_alphabetic()) => parse_duration(span).ok(),
        None => None,
    };
    let Some(span) = read else {
        return fail(text, format!("`{span}` is not a span; write for example 1s, 15min, 1h, 24h, hour, day"));
    };
    Quota::try_new(count, span).map_err(|e| LimitError { text: text.to_owned(), why: e.why })
}

fn read_calendar(text: &str, count: &str, span: &str, at: &str) -> Result<CalendarQuota, LimitError> {
    let count = read_count(text, count)?;
    if span != "day" && span != "d" {
        return fail(
            text,
            format!("`{span}` has no time of day at which it begins; write for example {count} per day at {at}"),
        );
    }
    let with_why = |why: String| LimitError { text: text.to_owned(), why };
    let daybreak = Daybreak::read(at).map_err(|e| with_why(e.to_string()))?;
    CalendarQuota::try_new(count, daybreak).map_err(|e| with_why(e.why))
}

fn read_count(text: &str, count: &str) -> Result<u64, LimitError> {
    match whole(count) {
        Some(count) => Ok(count),
        None => fail(text, format!("`{count}` is not a count; allowed are whole numbers from 1")),
    }
}

fn whole(text: &str) -> Option<u64> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

pub(crate) fn reduce(n: u128, p: u128) -> (u128, u128) {
    let (mut a, mut b) = (n, p);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    (n / a, p / a)
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) => rate.fmt(f),
            Self::Quota(quota) => quota.fmt(f),
            Self::Calendar(quota) => quota.fmt(f),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        if self.burst() > 1 { write!(f, " burst {}", self.burst()) } else { Ok(()) }
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per {}", self.count, show_duration(self.span))
    }
}

impl fmt::Display for CalendarQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per day at {}", self.count, self.daybreak)
    }
}

/// The share of a rate that is left unused so that two clocks that do not run alike cannot add up to a 429
/// (`rate_margin`, 0.1 % unless set), in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Margin(u32);

/// A text that is not a margin, or a margin outside of what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a margin; write a percentage from 0% to 50%, for example 0.1%")]
pub struct MarginError {
    text: String,
}

impl Margin {
    /// Nothing is left unused.
    pub const NONE: Self = Self(0);

    /// A margin of so many millionths.
    ///
    /// # Errors
    /// More than half of the rate.
    pub fn from_millionths(millionths: u32) -> Result<Self, MarginError> {
        if millionths > 500_000 {
            return Err(MarginError { text: format!("{}%", f64::from(millionths) / 10_000.0) });
        }
        Ok(Self(millionths))
    }

    /// Millionths of the rate.
    pub fn millionths(self) -> u32 {
        self.0
    }
}

impl Default for Margin {
    fn default() -> Self {
        Self(1_000)
    }
}

impl FromStr for Margin {
    type Err = MarginError;

    fn from_str(text: &str) -> Result<Self, MarginError> {
        let read = || {
            let (Decimal { billionths }, "") = number(text.trim().strip_suffix('%')?)? else { return None };
            let millionths = billionths / 100_000; // 1 % is 10^9 billionths and 10^4 millionths
            Self::from_millionths(u32::try_from(millionths).ok()?).ok()
        };
        read().ok_or_else(|| MarginError { text: text.to_owned() })
    }
}

impl fmt::Display for Margin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.0) / 10_000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_rate(text: &str, expected: (u64, u128, u32)) {
        match text.parse().unwrap() {
            Limit::Rate(r) => assert_eq!((r.fraction().0, r.fraction().1, r.burst()), expected, "{text}"),
            other => panic!("{text} was read as {other}"),
        }
    }

    #[test]
    fn rates_are_exact_fractions() {
        check_rate("10/s", (1, 100_000_000, 1));
        check_rate("10/s burst 20", (1, 100_000_000, 20));
        check_rate("500/min", (1, 120_000_000, 1));
        check_rate("0.5/s", (1, 2_000_000_000, 1));
        check_rate("0.333333/s", (333_333, 1_000_000_000_000_000, 1));
        check_rate("1/d", (1, 86_400_000_000_000, 1));
        check_rate("6/hour", (1, 600_000_000_000, 1));
        check_rate("1000000/s burst 1000000000", (1, 1_000, 1_000_000_000));
        check_rate("999999.999999999/s", (999_999_999_999_999, 1_000_000_000_000_000_000, 1));
    }

    #[test]
    fn a_part_of_a_limit_is_so_much_slower_and_never_less_than_one() {
        for (text, parts, expected) in [
            ("10/s burst 20", 4, (1, 400_000_000, 5)),
            ("10/s burst 3", 4, (1, 400_000_000, 1)),
            ("0.333333/s", 3, (111_111, 1_000_000_000_000_000, 1)),
            ("10/s", 0, (1, 100_000_000, 1)),
        ] {
            let Limit::Rate(part) = text.parse::<Limit>().unwrap().share(parts) else { panic!("{text} is a rate") };
            assert_eq!((part.fraction().0, part.fraction().1, part.burst()), expected, "{text} / {parts}");
        }
        for (text, parts, expected) in [
            ("5000 per 1h", 3, "1666 per 1h"),
            ("2 per 1s", 3, "1 per 1s"),
            ("10 per day at 00:00 UTC", 4, "2 per day at 00:00 UTC"),
        ] {
            assert_eq!(text.parse::<Limit>().unwrap().share(parts).to_string(), expected);
        }
    }

    #[test]
    fn quotas_are_counts_in_spans() {
        for (text, count, seconds) in [
            ("5000 per 1h", 5000, 3600),
            ("50 per 1s", 50, 1),
            ("10 per 30d", 10, 2_592_000),
            ("100 per minute", 100, 60),
        ] {
            let quota = Quota::try_new(count, Duration::from_secs(seconds)).unwrap();
            assert_eq!(text.parse::<Limit>(), Ok(Limit::Quota(quota)));
        }
    }

    #[test]
    fn quotas_of_the_calendar_are_counts_in_the_days_of_a_zone() {
        for (text, count, at) in [
            ("10000 per day at 00:00 America/Los_Angeles", 10_000, "00:00 America/Los_Angeles"),
            ("1 per d at 23:59 utc", 1, "23:59 UTC"),
            (" 5 per day  at  02:30   asia/kathmandu ", 5, "02:30 Asia/Kathmandu"),
            ("86400000000 per day at 00:00 Etc/UTC", 86_400_000_000, "00:00 Etc/UTC"),
        ] {
            let quota = CalendarQuota::try_new(count, Daybreak::read(at).unwrap()).unwrap();
            let limit = Limit::Calendar(quota);
            assert_eq!(text.parse::<Limit>().as_ref(), Ok(&limit), "{text}");
            assert_eq!(limit.to_string(), format!("{count} per day at {at}"));
            assert_eq!(limit.to_string().parse(), Ok(limit));
        }
    }

    #[test]
    fn a_limit_is_shown_as_it_was_written() {
        for text in
            ["10/s", "10/s burst 20", "0.333333/s", "500/min", "5000 per 1h", "50 per 90s", "7 per day at 00:00 UTC"]
        {
            assert_eq!(text.parse::<Limit>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_is_allowed() {
        for (text, hint) in [
            ("0/s", "zero"),
            ("-1", "write a rate"),
            ("-1/s", "not a number"),
            ("NaN", "write a rate"),
            ("NaN/s", "not a number"),
            ("1e309/s", "not a number"),
            ("10/fortnight", "allowed are s, min, h and d"),
            ("10/ms", "allowed are s, min, h and d"),
            ("2000000000/s", "highest rate is 1000000/s"),
            ("0.5/d", "lowest rate is one a day"),
            ("10/s burst 0", "burst must be 1"),
            ("10/s burst -1", "not a burst"),
            ("10/s burst 1000000001", "burst must be 1"),
            ("10/s burst", "a burst needs a number"),
            ("5000 per", "write a rate"),
            ("5000 per 0s", "span must be"),
            ("0 per 1s", "count must be"),
            ("x per 1s", "not a count"),
            ("10 per 5", "not a span"),
            ("10 per fortnight", "not a span"),
            ("10000 per day at 24:00 UTC", "`24:00` is not a time of day"),
            ("10000 per day at 00:00", "write the zone, for example 00:00 UTC"),
            ("10000 per day at", "not a time of day"),
            ("10000 per day at noon UTC", "not a time of day"),
            ("10000 per day at 00:00 Los_Angeles", "America/Los_Angeles"),
            ("10000 per 24h at 00:00 UTC", "write for example 10000 per day at 00:00 UTC"),
            ("0 per day at 00:00 UTC", "count must be"),
            ("x per day at 00:00 UTC", "not a count"),
            ("86400000001 per day at 00:00 UTC", "1,000,000 a second"),
            ("2000000 per 1s", "1,000,000 a second"),
            ("10/s burst 20, 5000 per 1h", "write each by itself"),
            ("10/s,500/min", "write each by itself"),
            ("10/s burst 20 5000 per 1h", "write each by itself"),
            ("10/s and 7 per day at 00:00 America/Los_Angeles", "write each by itself"),
            ("7 per day at 00:00 America/Los_Angeles, 10/s", "write each by itself"),
            ("1,000/s", "not a number"),
            ("10/s per user", "not a count"),
            ("", "write a rate"),
        ] {
            let error = text.parse::<Limit>().expect_err(text).to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn margins_are_percentages() {
        assert_eq!("0.1%".parse(), Ok(Margin::default()));
        assert_eq!("0%".parse::<Margin>().unwrap().millionths(), 0);
        assert_eq!("50%".parse::<Margin>().unwrap().millionths(), 500_000);
        assert_eq!(Margin::default().to_string(), "0.1%");
        for text in ["51%", "0.1", "-1%", "%", "1e1%"] {
            assert!(text.parse::<Margin>().is_err(), "{text}");
        }
    }
}
