//! A message's body, taken out of what was read (RFC 9112 §6 and §7).

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;

use super::fields;
use crate::headers::Shown;

/// The longest line that gives a chunk's size, extensions included.
const SIZE_LINE_MAX: usize = 1024;
/// The most bytes of trailers.
const TRAILERS_MAX: usize = 16 * 1024;

/// What is still to come of a body.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoder {
    /// Nothing.
    Done,
    /// So many bytes.
    Length(u64),
    /// Chunks.
    Chunked(Chunk),
    /// Whatever comes until the connection closes.
    Close,
}

/// Where in a chunk the decoder is.
#[derive(Debug, PartialEq, Eq)]
pub enum Chunk {
    /// Before the line with its size.
    Size,
    /// So many bytes before its end.
    Data(u64),
    /// Before the line end that ends it.
    DataEnd,
    /// After the last one.
    Trailers,
}

/// What could be taken.
pub enum Step {
    /// A piece of it.
    Data(Bytes),
    /// The fields after it, and so its end.
    Trailers(HeaderMap),
    /// More must be read first.
    More,
    /// It has ended.
    End,
}

// Without what a log may not show.
impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(data) => write!(f, "Data({} bytes)", data.len()),
            Self::Trailers(fields) => f.debug_tuple("Trailers").field(&Shown(fields)).finish(),
            Self::More => f.write_str("More"),
            Self::End => f.write_str("End"),
        }
    }
}

impl Decoder {
    /// A chunked body.
    pub fn chunked() -> Self {
        Self::Chunked(Chunk::Size)
    }

    /// Whether nothing more comes.
    pub fn is_done(&self) -> bool {
        *self == Self::Done
    }

    /// Whether the end of the connection is its end.
    pub fn ends_with_connection(&self) -> bool {
        *self == Self::Close
    }

    /// How many bytes come, where the head told.
    pub fn left(&self) -> Option<u64> {
        match self {
            Self::Done => Some(0),
            Self::Length(left) => Some(*left),
            Self::Chunked(_) | Self::Close => None,
        }
    }

    /// Takes the next piece out of `read`.
    ///
    /// # Errors
    /// Why the bytes are no body; nothing that follows them can be relied on.
    pub fn decode(&mut self, read: &mut BytesMut) -> Result<Step, &'static str> {
        match self {
            Self::Done => Ok(Step::End),
            Self::Close if read.is_empty() => Ok(Step::More),
            Self::Close => Ok(Step::Data(read.split().freeze())),
            Self::Length(left) => {
                let Some(data) = take(read, left) else { return Ok(Step::More) };
                if *left == 0 {
                    *self = Self::Done;
                }
                Ok(Step::Data(data))
            }
            Self::Chunked(chunk) => {
                let step = chunk.decode(read)?;
                if matches!(step, Step::End | Step::Trailers(_)) {
                    *self = Self::Done;
                }
                Ok(step)
            }
        }
    }
}

impl Chunk {
    fn decode(&mut self, read: &mut BytesMut) -> Result<Step, &'static str> {
        loop {
            match self {
                Self::Size => {
                    let Some(line) = take_line(read, SIZE_LINE_MAX, "a chunk's size line is too long")? else {
                        return Ok(Step::More);
                    };
                    *self = match size(&line)? {
                        0 => Self::Trailers,
                        size => Self::Data(size),
                    };
                }
                Self::Data(left) => {
                    let Some(data) = take(read, left) else { return Ok(Step::More) };
                    if *left == 0 {
                        *self = Self::DataEnd;
                    }
                    return Ok(Step::Data(data));
                }
                Self::DataEnd => {
                    if read.len() < 2 {
                        return Ok(Step::More);
                    }
                    if !read.starts_with(b"\r\n") {
                        return Err("a chunk does not end where it should");
                    }
                    read.advance(2);
                    *self = Self::Size;
                }
                Self::Trailers => return trailers(read),
            }
        }
    }
}

/// Takes up to `left` bytes, and counts them off.
fn take(read: &mut BytesMut, left: &mut u64) -> Option<Bytes> {
    if read.is_empty() {
        return None;
    }
    let len = usize::try_from(*left).map_or(read.len(), |left| left.min(read.len()));
    *left -= len as u64;
    Some(read.split_to(len).freeze())
}

/// Takes a line without its end.
fn take_line(read: &mut BytesMut, max: usize, too_long: &'static str) -> Result<Option<Bytes>, &'static str> {
    let Some(end) = memchr::memchr(b'\n', read) else {
        return if read.len() > max { Err(too_long) } else { Ok(None) };
    };
    if end > max {
        return Err(too_long);
    }
    if end == 0 || read[end - 1] != b'\r' {
        return Err("a line of a chunked body does not end in CRLF");
    }
    let line = read.split_to(end - 1).freeze();
    read.advance(2);
    Ok(Some(line))
}

/// The size that a chunk begins with; extensions after it are passed over (RFC 9112 §7.1.1).
fn size(line: &[u8]) -> Result<u64, &'static str> {
    let digits = line.iter().position(|b| !b.is_ascii_hexdigit()).unwrap_or(line.len());
    // Blanks after the number, which old servers pad it with, cut nothing off.
    let rest = fields::trim(&line[digits..]);
    if digits == 0 || digits > 16 || !(rest.is_empty() || rest.starts_with(b";")) {
        return Err("a chunk's size is no number");
    }
    if rest.iter().any(|b| (*b < b' ' && *b != b'\t') || *b == 0x7f) {
        return Err("a chunk's extension holds control characters");
    }
    let text = std::str::from_utf8(&line[..digits]).unwrap_or_default();
    u64::from_str_radix(text, 16).map_err(|_| "a chunk's size is no number")
}

/// The fields after the last chunk, which end the body.
fn trailers(read: &mut BytesMut) -> Result<Step, &'static str> {
    if read.starts_with(b"\r\n") {
        read.advance(2);
        return Ok(Step::End);
    }
    let end = fields::find_end(&read[..read.len().min(TRAILERS_MAX)], 0)
        .map_err(|_| "a trailer's line does not end in CRLF")?;
    let Some(end) = end else {
        return if read.len() >= TRAILERS_MAX { Err("the trailers are too long") } else { Ok(Step::More) };
    };
    let bytes = read.split_to(end).freeze();
    fields::read(&bytes, 0).map(|section| Step::Trailers(section.fields)).map_err(|_| "the trailers cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes bytes that come `step` at a time; answers the data, the trailers, and what was left over.
    fn decode(mut decoder: Decoder, bytes: &[u8], step: usize) -> Result<(Vec<u8>, Vec<String>, usize), &'static str> {
        let (mut read, mut rest) = (BytesMut::new(), bytes);
        let (mut data, mut trailers) = (Vec::new(), Vec::new());
        while !decoder.is_done() {
            match decoder.decode(&mut read)? {
                Step::End => break,
                Step::Data(piece) => data.extend_from_slice(&piece),
                Step::Trailers(fields) => {
                    trailers.extend(fields.iter().map(|(n, v)| format!("{n}: {}", v.to_str().unwrap())));
                }
                Step::More if rest.is_empty() => return Err("more"),
                Step::More => {
                    let (piece, later) = rest.split_at(step.min(rest.len()));
                    read.extend_from_slice(piece);
                    rest = later;
                }
            }
        }
        Ok((data, trailers, read.len() + rest.len()))
    }

    #[track_caller]
    fn check(decoder: fn() -> Decoder, bytes: &str, expected: Result<(&str, &[&str], usize), &'static str>) {
        for step in [1, 2, 3, 7, 1000] {
            let decoded = decode(decoder(), bytes.as_bytes(), step);
            let shown = decoded.as_ref().map(|(data, trailers, left)| {
                (std::str::from_utf8(data).unwrap(), trailers.iter().map(String::as_str).collect::<Vec<_>>(), *left)
            });
            let expected = expected.map(|(data, trailers, left)| (data, trailers.to_vec(), left));
            assert_eq!(shown.map_err(|e| *e), expected, "{bytes:?} by {step}");
        }
    }

    #[test]
    fn a_body_ends_where_it_says_and_what_follows_is_left() {
        check(|| Decoder::Length(5), "hello", Ok(("hello", &[], 0)));
        check(|| Decoder::Length(5), "hello, HTTP", Ok(("hello", &[], 6)));
        check(|| Decoder::Length(6), "hello", Err("more"));
        check(Decoder::chunked, "5\r\nhello\r\n0\r\n\r\n", Ok(("hello", &[], 0)));
        check(Decoder::chunked, "005;a=b;c=\"d\"\r\nhello\r\n1 \r\n!\r\n0\r\n\r\nHTTP", Ok(("hello!", &[], 4)));
        check(Decoder::chunked, "1\r\na\r\n0\r\nX: 1\r\nY: 2\r\n\r\nZ", Ok(("a", &["x: 1", "y: 2"], 1)));
        check(Decoder::chunked, "0\r\n\r\n", Ok(("", &[], 0)));
        check(Decoder::chunked, "5\r\nhello\r\n", Err("more"));
    }

    #[test]
    fn bad_chunks_are_refused() {
        let size = "a chunk's size is no number";
        for (bytes, error) in [
            ("x\r\n", size),
            ("\r\n", size),
            ("-1\r\n", size),
            ("0x5\r\n", size),
            ("5 5\r\n", size),
            ("11111111111111111\r\n", size),
            ("5\nhello\r\n", "a line of a chunked body does not end in CRLF"),
            ("5\r\nhelloX\r\n", "a chunk does not end where it should"),
            ("5;\u{1}\r\n", "a chunk's extension holds control characters"),
            ("0\r\nbad trailer\r\n\r\n", "the trailers cannot be read"),
        ] {
            check(Decoder::chunked, bytes, Err(error));
        }
        let long = format!("5;{}", "x".repeat(2000));
        check(Decoder::chunked, &long, Err("a chunk's size line is too long"));
        let long = format!("0\r\nA: {}", "x".repeat(20_000));
        check(Decoder::chunked, &long, Err("the trailers are too long"));
    }
}
