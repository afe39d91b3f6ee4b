//! Reading single values, and gathering all that is wrong with them.

use std::fmt::{self, Display};
use std::net::SocketAddr;
use std::ops::RangeInclusive;

/// Everything that is wrong with what was typed, one sentence each.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wrong(Vec<String>);

impl Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.0.iter().map(|line| format!("error: {line}")).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Wrong {}

/// Reads one value after the other and goes on when one is wrong, so that whoever typed them mends them all at once.
#[derive(Debug, Default)]
pub(super) struct Check {
    wrong: Vec<String>,
}

impl Check {
    /// Sets `place` to what was typed for `flag`; leaves it as it is when that is wrong.
    pub(super) fn set<T, E: Display>(
        &mut self,
        place: &mut T,
        flag: &str,
        typed: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) {
        if let Some(value) = self.read(flag, typed, read) {
            *place = value;
        }
    }

    /// What was typed for `flag`; none when that is wrong.
    pub(super) fn read<T, E: Display>(
        &mut self,
        flag: &str,
        typed: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        self.take(flag, read(typed.trim()))
    }

    /// The value that came of `flag`; none when that is wrong.
    pub(super) fn take<T, E: Display>(&mut self, flag: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.note(flag, error)).ok()
    }

    /// Notes that the value of `flag` is wrong.
    pub(super) fn note(&mut self, flag: &str, why: impl Display) {
        self.wrong.push(format!("{flag}: {why}"));
    }

    /// The value, if nothing was wrong with any of it.
    pub(super) fn finish<T>(self, value: Option<T>) -> Result<T, Wrong> {
        value.filter(|_| self.wrong.is_empty()).ok_or(Wrong(self.wrong))
    }
}

/// A whole number within a range.
pub(super) fn whole(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, String> {
    move |text| {
        // Digits only: unlike `str::parse`, no plus sign.
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|n| digits && range.contains(n)).ok_or_else(|| {
            format!("`{text}` is not allowed; write a whole number from {} to {}", range.start(), range.end())
        })
    }
}

/// A value, or a word that stands for none.
pub(super) fn or_word<T, E: Display>(
    word: &'static str,
    read: impl Fn(&str) -> Result<T, E>,
) -> impl Fn(&str) -> Result<Option<T>, String> {
    move |text| {
        if text == word {
            return Ok(None);
        }
        read(text).map(Some).map_err(|error| format!("{error}, or {word}"))
    }
}

/// One of a few names.
pub(super) fn one_of<T: Copy, const N: usize>(names: [(&'static str, T); N]) -> impl Fn(&str) -> Result<T, String> {
    move |text| {
        let found = names.iter().find(|(name, _)| *name == text);
        let allowed = || names.map(|(name, _)| name).join(", ");
        found.map(|(_, value)| *value).ok_or_else(|| format!("`{text}` is not allowed; write one of {}", allowed()))
    }
}

/// An address to listen on.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not an address with a port; write for example 127.0.0.1:8000 or [::1]:8000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_digits_within_their_range() {
        let read = whole(1..=10);
        assert_eq!((read("1"), read("10"), read("007")), (Ok(1), Ok(10), Ok(7)));
        for text in ["", "0", "11", "-1", "+1", "1.0", "1e0", "NaN", "ten", "99999999999999999999999"] {
            let expected = format!("`{text}` is not allowed; write a whole number from 1 to 10");
            assert_eq!(read(text), Err(expected));
        }
    }
}
