//! A section of fields, a head's or a trailer's: where it ends, and what its lines say (RFC 9110 §5, RFC 9112 §5).

use std::fmt;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::headers::Shown;

/// The most fields of a section.
pub const FIELDS_MAX: usize = 100;

/// A line of a head is about so long, or longer. By that it is judged how many fields there will be: a map that grows is made
/// anew, and one with much more room than it needs is a large piece of memory for each request that waits.
const LINE_USUAL: usize = 32;

/// A section that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A line that ends in LF alone: some take it for an end, others for a part of the line.
    #[error("a line does not end in CRLF")]
    BareLf,
    /// A line without a colon, an empty name, one with a character that no name has (white space before the colon too), or
    /// a line folded onto the next.
    #[error("a line is no field")]
    Name,
    /// A control character in a value: NUL, a bare CR, and the like.
    #[error("a field's value holds a control character")]
    Value,
    /// More than [`FIELDS_MAX`].
    #[error("it has more than {FIELDS_MAX} fields")]
    TooMany,
}

/// The length of the section at the start of `bytes`, with its empty line, if it is complete. Nothing ends within the first
/// `scanned` bytes, where it has been looked for before.
///
/// # Errors
/// [`Fault::BareLf`], as soon as it is there: a head whose lines end so would never end.
pub fn find_end(bytes: &[u8], scanned: usize) -> Result<Option<usize>, Fault> {
    // An end can lie across the border of what was looked at before.
    let from = scanned.saturating_sub(3);
    for at in memchr::memchr_iter(b'\n', &bytes[from..]) {
        let end = from + at + 1;
        match bytes[..end] {
            [.., b'\r', b'\n', b'\r', b'\n'] => return Ok(Some(end)),
            [.., b'\r', b'\n'] => {}
            // Looked at before: what precedes it was seen then.
            _ if end <= scanned => {}
            _ => return Err(Fault::BareLf),
        }
    }
    Ok(None)
}

/// The fields of a section, and which of those that matter for the message are among them: most messages have few, and
/// looking for each would cost as much as reading all.
#[derive(Default)]
pub struct Section {
    /// All of them; the lines of a field in their order.
    pub fields: HeaderMap,
    /// Whether there is a `Content-Length` or a `Transfer-Encoding`.
    pub(super) has_framing: bool,
    pub(super) has_connection: bool,
    pub(super) has_expect: bool,
    /// Whether a name has an underscore.
    pub(super) has_underscore: bool,
}

/// Reads a complete section, which is shared, not copied. `bytes` ends with the section's empty line, and begins with its
/// first field's. There is room for `added` fields more, which the caller will add.
///
/// # Errors
/// What is wrong with it.
pub fn read(bytes: &Bytes, added: usize) -> Result<Section, Fault> {
    let usual = (bytes.len() / LINE_USUAL).min(FIELDS_MAX) + added;
    let mut section = Section { fields: HeaderMap::with_capacity(usual), ..Section::default() };
    let (mut from, mut count) = (0, 0);
    while let Some(length) = memchr::memchr(b'\n', &bytes[from..]) {
        let line = bytes[from..from + length].strip_suffix(b"\r").ok_or(Fault::BareLf)?;
        if line.is_empty() {
            break;
        }
        // Names are short.
        let colon = line.iter().position(|byte| *byte == b':').ok_or(Fault::Name)?;
        let name = HeaderName::from_bytes(&line[..colon]).map_err(|_| Fault::Name)?;
        let value = trim(&line[colon + 1..]);
        let begin = from + (value.as_ptr().addr() - line.as_ptr().addr());
        // All but HTAB is refused among the control characters, and obs-text stays as it is.
        let value =
            HeaderValue::from_maybe_shared(bytes.slice(begin..begin + value.len())).map_err(|_| Fault::Value)?;
        section.note(&name);
        section.fields.try_append(name, value).map_err(|_| Fault::TooMany)?;
        (from, count) = (from + length + 1, count + 1);
        if count > FIELDS_MAX {
            return Err(Fault::TooMany);
        }
    }
    Ok(section)
}

// Without what a log may not show.
impl fmt::Debug for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Shown(&self.fields).fmt(f)
    }
}

impl Section {
    fn note(&mut self, name: &HeaderName) {
        self.has_framing |= *name == CONTENT_LENGTH || *name == TRANSFER_ENCODING;
        self.has_connection |= *name == CONNECTION;
        self.has_expect |= *name == EXPECT;
        self.has_underscore |= name.as_str().contains('_');
    }

    /// Whether `Connection` has this option, in any case, on any of its lines.
    pub(super) fn has_option(&self, option: &[u8]) -> bool {
        if !self.has_connection {
            return false;
        }
        let lines = self.fields.get_all(CONNECTION).iter();
        let mut options = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
        options.any(|found| trim(found).eq_ignore_ascii_case(option))
    }
}

/// Without the white space around it that RFC 9110 §5.6.3 allows: blanks and tabs, no other.
pub(crate) fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_head_is_found_wherever_the_reads_cut_it() {
        let bytes = b"HTTP/1.1 200 OK\r\nA: 1\r\n\r\nbody";
        for cut in 0..bytes.len() {
            let first = find_end(&bytes[..cut], 0).unwrap();
            assert_eq!(first, (cut >= 25).then_some(25));
            if first.is_none() {
                assert_eq!(find_end(bytes, cut), Ok(Some(25)), "cut at {cut}");
            }
        }
    }

    #[test]
    fn a_bare_lf_is_found_wherever_the_reads_cut_it() {
        for bytes in
            [&b"GET / HTTP/1.1\nA: 1\r\n\r\n"[..], b"GET / HTTP/1.1\r\n\nA: 1\r\n\r\n", b"\n\r\n", b"A\r\n\r\r\n\n"]
        {
            for cut in 0..bytes.len() {
                let first = find_end(&bytes[..cut], 0);
                assert_eq!(first.and_then(|_| find_end(bytes, cut)), Err(Fault::BareLf), "{bytes:?} cut at {cut}");
            }
        }
    }

    #[track_caller]
    fn check(section: &[u8], expected: Result<&[(&str, &[u8])], Fault>) {
        let read = read(&Bytes::copy_from_slice(section), 0);
        let shown = read.as_ref().map(|section| {
            section.fields.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect::<Vec<_>>()
        });
        assert_eq!(shown.map_err(|fault| *fault), expected.map(<[_]>::to_vec), "{section:?}");
    }

    #[test]
    fn a_section_is_read_strictly() {
        check(b"\r\n", Ok(&[]));
        check(b"A: 1\r\nb:2\r\nA:\t3 \r\n\r\n", Ok(&[("a", b"1"), ("a", b"3"), ("b", b"2")]));
        check(b"A:\r\nB: \r\n\r\n", Ok(&[("a", b""), ("b", b"")]));
        check(b"A: \xe9\xff \t x\r\n\r\n", Ok(&[("a", b"\xe9\xff \t x")]));
        check(b"a_b!#$%&'*+-.^`|~0: x:y\r\n\r\n", Ok(&[("a_b!#$%&'*+-.^`|~0", b"x:y")]));
        let bad_names = [&b"A\r\n\r\n"[..], b": 1\r\n\r\n", b"A : 1\r\n\r\n", b"A\t: 1\r\n\r\n", b" A: 1\r\n\r\n"];
        let more = [&b"A: 1\r\n b\r\n\r\n"[..], b"A: 1\r\n\tb: 2\r\n\r\n", b"A(: 1\r\n\r\n", b"A\0: 1\r\n\r\n"];
        let obs = [&b"\xe9: 1\r\n\r\n"[..], b"A\x7f: 1\r\n\r\n", b"A\r: 1\r\n\r\n", b"\xef\xbb\xbfA: 1\r\n\r\n"];
        for bad in bad_names.into_iter().chain(more).chain(obs) {
            check(bad, Err(Fault::Name));
        }
        for value in [&b"a\0b"[..], b"a\rb", b"\x01", b"a\x7f", b"a\x0bb", b"\x0c", b"a\r"] {
            check(&[b"A: ", value, b"\r\n\r\n"].concat(), Err(Fault::Value));
        }
        check(b"A: 1\nB: 2\r\n\r\n", Err(Fault::BareLf));
        check(&[&b"A: 1\r\n".repeat(FIELDS_MAX)[..], b"\r\n"].concat(), Ok(&[("a", b"1" as &[u8]); FIELDS_MAX]));
        check(&[&b"A: 1\r\n".repeat(FIELDS_MAX + 1)[..], b"\r\n"].concat(), Err(Fault::TooMany));
    }
}
