//! How far has an instance heard of what was made untrue?
//!
//! Of each upstream the number of the last that it knows of, and has removed. Noted beside what is on a disk, it lets the next
//! process tell whether something was missed while there was none.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::Tag;

/// What is written in another way says nothing.
const FIRST_LINE: &str = "sopan heard 1";

/// The number of each upstream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Heard(HashMap<Tag, u64>);

impl Heard {
    /// What was written; nothing if it is not that.
    pub(in crate::store) fn read(text: &str) -> Self {
        let mut lines = text.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Self::default();
        }
        let read = |line: &str| {
            let (tag, number) = line.split_once(' ')?;
            Some((Tag::parse(tag)?, number.parse().ok()?))
        };
        lines.map(read).collect::<Option<_>>().map(Self).unwrap_or_default()
    }

    pub(in crate::store) fn written(&self) -> String {
        let mut text = format!("{FIRST_LINE}\n");
        for (tag, number) in &self.0 {
            // A string takes what it is given.
            let _ = writeln!(text, "{tag} {number}");
        }
        text
    }

    /// Of one upstream; 0 if nothing was heard.
    pub(super) fn of(&self, tag: Tag) -> u64 {
        self.0.get(&tag).copied().unwrap_or_default()
    }
}

impl FromIterator<(Tag, u64)> for Heard {
    fn from_iter<T: IntoIterator<Item = (Tag, u64)>>(all: T) -> Self {
        Self(all.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_read_and_nothing_else_counts() {
        let heard: Heard = [(Tag([1; 8]), 7), (Tag([2; 8]), u64::MAX)].into_iter().collect();
        assert_eq!(Heard::read(&heard.written()), heard);
        assert_eq!((heard.of(Tag([1; 8])), heard.of(Tag([3; 8]))), (7, 0));
        let line = format!("{} 7\n", Tag([1; 8]));
        for text in
            ["", "sopan heard 2\n", &line, &format!("{FIRST_LINE}\n{line}x"), &format!("{FIRST_LINE}\n{line}{line}-")]
        {
            assert_eq!(Heard::read(text), Heard::default(), "{text}");
        }
    }
}
