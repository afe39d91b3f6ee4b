//! What is sent: a head made anew from its parts, and a body framed as its head says (RFC 9112 §6 and §7).
//!
//! A [`Framer`] holds what is ready to be written, as few and as large pieces as can be; who owns the connection writes
//! [`Framer::slices`] and tells how much was taken. Its buffer serves one message after the other.

use std::collections::VecDeque;
use std::fmt;
use std::io::{IoSlice, Write as _};

use bytes::{Buf, Bytes};
use http::header::CONTENT_LENGTH;
use http::uri::PathAndQuery;
use http::{HeaderMap, Request, Response, StatusCode};

use crate::decimal::Decimal;

/// How a body's end is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Nothing more comes.
    Done,
    /// So many bytes come.
    Length(u64),
    /// Chunks, the last of them empty.
    Chunked,
    /// By the end of the connection: for HTTP/1.0, which knows no chunks.
    Close,
}

/// A body that is not as long as its head has told; the connection cannot be used further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body is not as long as its head says")]
pub struct NotAsTold;

/// Messages on their way out, framed.
pub struct Framer {
    /// Heads, the lines around chunks, and small pieces of bodies, one after the other.
    text: Vec<u8>,
    /// How much of it has been taken.
    taken: usize,
    parts: VecDeque<Part>,
    /// Bytes in all parts.
    ready: usize,
    framing: Framing,
}

enum Part {
    /// So many bytes of the text.
    Text(usize),
    Data(Bytes),
}

/// The most slices that are written at once.
pub const SLICES_MAX: usize = 16;
/// More than that is not gathered before it is written.
const READY_MAX: usize = 64 * 1024;
/// A piece so small is copied rather than given a slice of its own.
const SMALL: usize = 1024;
/// A text buffer has room for a usual head from the start; one that has grown much larger is not kept for the next message.
const TEXT_ROOM: usize = 1024;
const TEXT_KEPT: usize = 4 * 1024;

// Without the bytes, which a log may not show.
impl fmt::Debug for Framer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Framer({} bytes ready, {:?} to come)", self.ready, self.framing)
    }
}

impl Default for Framer {
    fn default() -> Self {
        Self { text: Vec::new(), taken: 0, parts: VecDeque::new(), ready: 0, framing: Framing::Done }
    }
}

impl Framer {
    /// Begins a request, with its head.
    pub fn request(&mut self, head: &Request<()>, framing: Framing) {
        let from = self.text.len();
        self.text.reserve(TEXT_ROOM);
        self.text.extend_from_slice(head.method().as_str().as_bytes());
        self.text.push(b' ');
        let target = head.uri().path_and_query().map_or("/", PathAndQuery::as_str);
        self.text.extend_from_slice(target.as_bytes());
        self.text.extend_from_slice(b" HTTP/1.1\r\n");
        write_fields(&mut self.text, head.headers());
        // An empty body is told where the client told it: for some methods its absence would mean something else.
        let tells_none = framing == Framing::Done && head.headers().contains_key(CONTENT_LENGTH);
        write_framing(&mut self.text, if tells_none { Framing::Length(0) } else { framing });
        self.begin(from, framing);
    }

    /// Begins an answer, with its head. `tells_length`: a length that is told without such a body, as to a HEAD request.
    pub fn response(&mut self, head: &Response<()>, framing: Framing, tells_length: Option<u64>) {
        self.response_with(head, &[], framing, tells_length);
    }

    /// The same, with `lines` of its head that are written already, as by [`field_lines`], before those of its fields.
    pub fn response_with(&mut self, head: &Response<()>, lines: &[u8], framing: Framing, tells_length: Option<u64>) {
        let from = self.text.len();
        // A small body goes behind it.
        let body = match framing {
            Framing::Length(length) if length <= SMALL as u64 => length as usize,
            _ => 0,
        };
        self.text.reserve(TEXT_ROOM + lines.len() + body);
        write_status(&mut self.text, head.status());
        self.text.extend_from_slice(lines);
        write_fields(&mut self.text, head.headers());
        match tells_length {
            Some(length) => write_framing(&mut self.text, Framing::Length(length)),
            None => write_framing(&mut self.text, framing),
        }
        self.begin(from, framing);
    }

    fn begin(&mut self, from: usize, framing: Framing) {
        self.text.extend_from_slice(b"\r\n");
        self.framing = if framing == Framing::Length(0) { Framing::Done } else { framing };
        self.add_text(self.text.len() - from);
    }

    /// The next piece of the body.
    ///
    /// # Errors
    /// It is longer than was told.
    pub fn data(&mut self, data: Bytes) -> Result<(), NotAsTold> {
        if data.is_empty() {
            return Ok(());
        }
        match self.framing {
            Framing::Done => return Err(NotAsTold),
            Framing::Close => self.add(data),
            Framing::Length(left) => {
                let left = left.checked_sub(data.len() as u64).ok_or(NotAsTold)?;
                self.framing = if left == 0 { Framing::Done } else { Framing::Length(left) };
                self.add(data);
            }
            Framing::Chunked => {
                let from = self.text.len();
                // A Vec takes every write.
                let _ = write!(self.text, "{:x}\r\n", data.len());
                self.add_text(self.text.len() - from);
                self.add(data);
                self.text.extend_from_slice(b"\r\n");
                self.add_text(2);
            }
        }
        Ok(())
    }

    /// The body has ended. Trailers are sent where chunks have room for them.
    ///
    /// # Errors
    /// It is shorter than was told.
    pub fn end(&mut self, trailers: Option<&HeaderMap>) -> Result<(), NotAsTold> {
        match std::mem::replace(&mut self.framing, Framing::Done) {
            Framing::Length(_) => return Err(NotAsTold),
            Framing::Done | Framing::Close => {}
            Framing::Chunked => {
                let from = self.text.len();
                self.text.extend_from_slice(b"0\r\n");
                if let Some(trailers) = trailers {
                    write_fields(&mut self.text, trailers);
                }
                self.text.extend_from_slice(b"\r\n");
                self.add_text(self.text.len() - from);
            }
        }
        Ok(())
    }

    /// Whether the body has ended, and nothing is left to be written.
    pub fn is_done(&self) -> bool {
        self.framing == Framing::Done && self.ready == 0
    }

    /// Whether more of the body is awaited.
    pub fn wants_more(&self) -> bool {
        self.framing != Framing::Done
    }

    /// Whether there is something to be written.
    pub fn has_bytes(&self) -> bool {
        self.ready > 0
    }

    /// Whether enough is ready, and should be written before more is added.
    pub fn is_full(&self) -> bool {
        self.ready >= READY_MAX || self.parts.len() + 3 > SLICES_MAX
    }

    /// What is ready, in order, in the first so many of `slices`.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES_MAX]) -> usize {
        let (mut count, mut from) = (0, self.taken);
        for (part, slice) in self.parts.iter().zip(slices) {
            *slice = match part {
                Part::Text(length) => {
                    from += length;
                    IoSlice::new(&self.text[from - length..from])
                }
                Part::Data(data) => IoSlice::new(data),
            };
            count += 1;
        }
        count
    }

    /// So many bytes of what was ready have been written.
    pub fn advance(&mut self, mut written: usize) {
        self.ready = self.ready.saturating_sub(written);
        while let Some(part) = self.parts.front_mut() {
            let length = match part {
                Part::Text(length) => {
                    let step = written.min(*length);
                    (*length, self.taken) = (*length - step, self.taken + step);
                    written -= step;
                    *length
                }
                Part::Data(data) => {
                    let step = written.min(data.len());
                    data.advance(step);
                    written -= step;
                    data.len()
                }
            };
            if length > 0 {
                // A connection that never takes all that is ready must not keep all that it has ever taken.
                if self.taken >= READY_MAX {
                    self.text.drain(..std::mem::take(&mut self.taken));
                }
                return;
            }
            self.parts.pop_front();
        }
        self.taken = 0;
        self.text.clear();
        self.text.shrink_to(TEXT_KEPT);
    }

    /// Writes nothing more, whatever is left.
    pub fn abandon(&mut self) {
        *self = Self::default();
    }

    fn add(&mut self, data: Bytes) {
        if data.len() <= SMALL {
            self.text.extend_from_slice(&data);
            self.add_text(data.len());
        } else {
            self.ready += data.len();
            self.parts.push_back(Part::Data(data));
        }
    }

    /// So many bytes have been added to the text.
    fn add_text(&mut self, length: usize) {
        self.ready += length;
        match self.parts.back_mut() {
            Some(Part::Text(last)) => *last += length,
            _ => self.parts.push_back(Part::Text(length)),
        }
    }
}

/// Lines of a head with these fields, for [`Framer::response_with`].
pub fn field_lines(fields: &HeaderMap) -> Vec<u8> {
    let mut lines = Vec::new();
    write_fields(&mut lines, fields);
    lines
}

fn write_status(out: &mut Vec<u8>, status: StatusCode) {
    if status == StatusCode::OK {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return;
    }
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn write_framing(out: &mut Vec<u8>, framing: Framing) {
    match framing {
        Framing::Length(length) => {
            out.extend_from_slice(b"content-length: ");
            out.extend_from_slice(Decimal::of(length).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        Framing::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        Framing::Done | Framing::Close => {}
    }
}

/// All fields but the length, which is told anew from the body itself.
fn write_fields(out: &mut Vec<u8>, fields: &HeaderMap) {
    for (name, value) in fields {
        if *name == CONTENT_LENGTH {
            continue;
        }
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    /// All that is ready, taken `step` bytes at a time.
    fn take(framer: &mut Framer, step: usize) -> String {
        let mut out = Vec::new();
        while framer.has_bytes() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = framer.slices(&mut slices);
            let all: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
            let taken = step.min(all.len());
            out.extend_from_slice(&all[..taken]);
            framer.advance(taken);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_request_is_made_anew_from_its_parts() {
        for step in [1, 5, 1000] {
            let mut framer = Framer::default();
            let mut written = |head: http::request::Builder, framing| {
                framer.request(&head.body(()).unwrap(), framing);
                take(&mut framer, step)
            };
            let head = Request::get("/a//b?x=%2f").header("Host", "u").header("X-A", "1").header("X-A", "2");
            let expected = "GET /a//b?x=%2f HTTP/1.1\r\nhost: u\r\nx-a: 1\r\nx-a: 2\r\n\r\n";
            assert_eq!(written(head, Framing::Done), expected);
            let head = Request::builder().method(Method::POST).uri("/").header("Content-Length", "0");
            assert_eq!(written(head, Framing::Done), "POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n");
            assert_eq!(written(Request::builder().method("PURGE").uri("*"), Framing::Done), "PURGE * HTTP/1.1\r\n\r\n");
            assert!(framer.is_done());
        }
    }

    #[test]
    fn a_body_is_framed_as_its_head_says() {
        let long = "x".repeat(5000);
        for step in [1, 7, 100_000] {
            let mut framer = Framer::default();
            let mut written = |framing, pieces: &[&str], trailers: Option<&HeaderMap>| {
                framer.response(&Response::new(()), framing, None);
                for piece in pieces {
                    framer.data(Bytes::copy_from_slice(piece.as_bytes()))?;
                }
                framer.end(trailers)?;
                let written = take(&mut framer, step);
                assert!(framer.is_done());
                Ok::<_, NotAsTold>(written.strip_prefix("HTTP/1.1 200 OK\r\n").unwrap().to_owned())
            };
            let chunked = "transfer-encoding: chunked\r\n\r\n";
            let trailers: HeaderMap = [(http::header::ETAG, "1".parse().unwrap())].into_iter().collect();
            assert_eq!(written(Framing::Length(0), &[], None), Ok("content-length: 0\r\n\r\n".to_owned()));
            assert_eq!(written(Framing::Done, &[""], None), Ok("\r\n".to_owned()));
            assert_eq!(
                written(Framing::Length(3), &["a", "", "bc"], None),
                Ok("content-length: 3\r\n\r\nabc".to_owned())
            );
            assert_eq!(written(Framing::Close, &["a", &long], None), Ok(format!("\r\na{long}")));
            assert_eq!(written(Framing::Chunked, &[], None), Ok(format!("{chunked}0\r\n\r\n")));
            let expected = format!("{chunked}1\r\na\r\n1388\r\n{long}\r\n2\r\nbc\r\n0\r\netag: 1\r\n\r\n");
            assert_eq!(written(Framing::Chunked, &["a", &long, "bc"], Some(&trailers)), Ok(expected));
            for (framing, pieces) in [(Framing::Length(3), &["abcd"][..]), (Framing::Length(3), &["ab"])] {
                let mut framer = Framer::default();
                framer.response(&Response::new(()), framing, None);
                let told: Result<Vec<_>, _> =
                    pieces.iter().map(|p| framer.data(Bytes::from_static(p.as_bytes()))).collect();
                assert_eq!(told.and_then(|_| framer.end(None)), Err(NotAsTold));
            }
        }
    }

    #[test]
    fn what_was_taken_is_forgotten_also_if_something_is_always_left() {
        let mut framer = Framer::default();
        framer.response(&Response::new(()), Framing::Chunked, None);
        for _ in 0..1000 {
            while !framer.is_full() {
                framer.data(Bytes::from(vec![b'x'; 500])).unwrap();
            }
            framer.advance(20_000);
            assert!(framer.has_bytes() && framer.text.len() <= 3 * READY_MAX, "{}", framer.text.len());
        }
    }

    #[test]
    fn enough_is_enough() {
        let mut framer = Framer::default();
        framer.response(&Response::new(()), Framing::Chunked, None);
        let mut pieces = 0;
        while !framer.is_full() {
            framer.data(Bytes::from(vec![b'x'; SMALL + 1])).unwrap();
            pieces += 1;
        }
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        assert_eq!((pieces, framer.slices(&mut slices)), (7, 15));
    }
}
