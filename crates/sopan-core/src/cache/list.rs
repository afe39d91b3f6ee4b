//! Where does a member of a list end (RFC 9110 §5.6.1)?
//!
//! At the next separator outside of a quoted string, in which a backslash takes the next byte along. A quote that is never
//! closed is a byte like any other, and so are those after it: what stands behind it in the line is seen, be it `no-store`.
//! Each line is read for itself, since no sender may divide a quoted string between two (RFC 9110 §5.2).
//!
//! What a member means is for those to say who ask for it.

/// The members of a list, without white space around them, the empty ones left out.
pub(super) fn members(list: &[u8], separator: u8) -> Members<'_> {
    Members { rest: list, separator, may_quote: true }
}

/// See [`members`].
#[derive(Debug)]
pub(super) struct Members<'a> {
    rest: &'a [u8],
    separator: u8,
    /// Whether a quote may still be closed. Once one is not, looking again at each further one would take the square of the
    /// line's length.
    may_quote: bool,
}

impl<'a> Iterator for Members<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.rest.is_empty() {
            let (member, rest) = self.rest.split_at(self.end());
            self.rest = rest.get(1..).unwrap_or_default();
            let member = member.trim_ascii();
            if !member.is_empty() {
                return Some(member);
            }
        }
        None
    }
}

impl Members<'_> {
    /// Where the next separator is that ends a member, or the end of the list.
    fn end(&mut self) -> usize {
        let mut at = 0;
        while let Some(&byte) = self.rest.get(at) {
            if byte == self.separator {
                break;
            }
            let quoted = if byte == b'"' && self.may_quote { quoted_length(&self.rest[at..]) } else { Some(1) };
            self.may_quote &= quoted.is_some();
            at += quoted.unwrap_or(1);
        }
        at
    }
}

/// How long the quoted string is that begins here, both quotes included; none if it is not closed.
pub(super) fn quoted_length(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Whether this is a token (RFC 9110 §5.6.2).
pub(super) fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&byte| is_token_byte(byte))
}

/// Whether a token may have this byte.
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(list: &str, expected: &[&str]) {
        let read: Vec<_> = members(list.as_bytes(), b',').map(String::from_utf8_lossy).collect();
        assert_eq!(read, expected, "{list:?}");
    }

    #[test]
    fn a_separator_within_quotes_is_none_unless_they_are_not_closed() {
        check("", &[]);
        check(" ,\t, ", &[]);
        check(",a , b=\"c, d\" ,, e", &["a", "b=\"c, d\"", "e"]);
        check("a=\"b\\\", c\", d", &["a=\"b\\\", c\"", "d"]);
        check("a b=\"c, d\" e, f", &["a b=\"c, d\" e", "f"]);
        check("a=\"b, c, d", &["a=\"b", "c", "d"]);
        check("a=\"b\\\", c", &["a=\"b\\\"", "c"]);
        check("a=\"b\\", &["a=\"b\\"]);
        check("a=\"b\\\", c=\"d, e\\\"", &["a=\"b\\\", c=\"d", "e\\\""]);
    }

    #[test]
    fn quotes_that_are_never_closed_are_looked_for_once() {
        let list = "\"\\\",\\".repeat(20_000);
        assert_eq!(members(list.as_bytes(), b',').count(), 20_001);
    }
}
