//! A request on its way out: its head, made anew from its parts, and its body, framed.

use std::io::{self, IoSlice, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::header::CONTENT_LENGTH;
use http::uri::PathAndQuery;
use http::{HeaderMap, Request};
use http_body::Body as _;

use super::WireError;
use crate::body::AttemptBody;

/// Writes one request. Its buffer is used again for the next.
pub(super) struct Encoder {
    /// What goes out before `data`: the head, a chunk's size.
    lead: Vec<u8>,
    led: usize,
    data: Bytes,
    /// What goes out after `data`: a chunk's end.
    tail: &'static [u8],
    body: AttemptBody,
    framing: Framing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// Nothing more comes.
    Done,
    /// So many bytes come.
    Length(u64),
    Chunked,
}

impl Default for Encoder {
    fn default() -> Self {
        let (lead, data) = (Vec::new(), Bytes::new());
        Self { lead, led: 0, data, tail: &[], body: AttemptBody::Empty, framing: Framing::Done }
    }
}

impl Encoder {
    pub(super) fn start(&mut self, head: &Request<()>, body: AttemptBody) {
        self.framing = framing(&body);
        self.body = body;
        (self.led, self.data, self.tail) = (0, Bytes::new(), &[]);
        self.lead.clear();
        write_head(&mut self.lead, head, self.framing);
    }

    /// Whether all has been written.
    pub(super) fn is_done(&self) -> bool {
        self.framing == Framing::Done && !self.has_bytes()
    }

    /// Writes nothing more, whatever is left.
    pub(super) fn abandon(&mut self) {
        *self = Self::default();
    }

    /// Writes as much as can be written, through `write`.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&mut Context<'_>, &[IoSlice<'_>]) -> Poll<io::Result<usize>>,
    ) -> Poll<Result<(), WireError>> {
        loop {
            while self.has_bytes() {
                let mut slices = [IoSlice::new(&[]); 3];
                let mut count = 0;
                for part in [&self.lead[self.led..], &self.data, self.tail].into_iter().filter(|part| !part.is_empty())
                {
                    slices[count] = IoSlice::new(part);
                    count += 1;
                }
                match ready!(write(cx, &slices[..count]))? {
                    0 => return Poll::Ready(Err(io::Error::from(io::ErrorKind::WriteZero).into())),
                    written => self.advance(written),
                }
            }
            if self.framing == Framing::Done {
                self.body = AttemptBody::Empty;
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_next(cx))?;
        }
    }

    fn has_bytes(&self) -> bool {
        self.led < self.lead.len() || !self.data.is_empty() || !self.tail.is_empty()
    }

    fn advance(&mut self, mut written: usize) {
        let lead = written.min(self.lead.len() - self.led);
        self.led += lead;
        written -= lead;
        let data = written.min(self.data.len());
        self.data.advance(data);
        self.tail = &self.tail[written - data..];
    }

    /// The next piece of the body.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WireError>> {
        self.lead.clear();
        self.led = 0;
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx)).transpose()?;
        let frame = frame.map(http_body::Frame::into_data);
        match (self.framing, frame) {
            (Framing::Chunked, Some(Ok(data))) if !data.is_empty() => {
                // A Vec takes every write.
                let _ = write!(self.lead, "{:x}\r\n", data.len());
                (self.data, self.tail) = (data, b"\r\n");
            }
            (Framing::Chunked, Some(Err(frame))) => self.end_chunks(frame.into_trailers().ok().as_ref()),
            (Framing::Chunked, None) => self.end_chunks(None),
            (Framing::Length(left), Some(Ok(data))) => {
                // The length has been told; a body that does not keep to it must not run into the next request.
                let Some(left) = left.checked_sub(data.len() as u64) else { return Poll::Ready(Err(not_as_told())) };
                self.data = data;
                self.framing = if left == 0 { Framing::Done } else { Framing::Length(left) };
            }
            (Framing::Length(_), None) => return Poll::Ready(Err(not_as_told())),
            // An empty piece, or trailers that have no place in a body of a given length.
            (_, Some(_)) => {}
            (Framing::Done, None) => {}
        }
        Poll::Ready(Ok(()))
    }

    fn end_chunks(&mut self, trailers: Option<&HeaderMap>) {
        self.lead.extend_from_slice(b"0\r\n");
        if let Some(trailers) = trailers {
            write_fields(&mut self.lead, trailers);
        }
        self.lead.extend_from_slice(b"\r\n");
        self.framing = Framing::Done;
    }
}

fn not_as_told() -> WireError {
    WireError::Request(crate::body::BodyError::Broken)
}

/// As the client framed it, in every attempt: what a body says of its length does not change when it has been read.
fn framing(body: &AttemptBody) -> Framing {
    match body.size_hint().exact() {
        Some(0) => Framing::Done,
        Some(length) => Framing::Length(length),
        None => Framing::Chunked,
    }
}

fn write_head(out: &mut Vec<u8>, head: &Request<()>, framing: Framing) {
    out.extend_from_slice(head.method().as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(head.uri().path_and_query().map_or("/", PathAndQuery::as_str).as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    write_fields(out, head.headers());
    match framing {
        Framing::Length(length) => {
            let _ = write!(out, "content-length: {length}\r\n");
        }
        Framing::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        // An empty body is told where the client told it: for some methods its absence would mean something else.
        Framing::Done if head.headers().contains_key(CONTENT_LENGTH) => out.extend_from_slice(b"content-length: 0\r\n"),
        Framing::Done => {}
    }
    out.extend_from_slice(b"\r\n");
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
    use super::*;
    use http::Method;

    fn written(head: &Request<()>, step: usize) -> String {
        let mut encoder = Encoder::default();
        encoder.start(head, AttemptBody::Empty);
        let mut out = Vec::new();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let poll = encoder.poll(&mut cx, |_, slices| {
            let all: Vec<u8> = slices.iter().flat_map(|s| s.to_vec()).collect();
            let piece = &all[..step.min(all.len())];
            out.extend_from_slice(piece);
            Poll::Ready(Ok(piece.len()))
        });
        assert!(matches!(poll, Poll::Ready(Ok(()))) && encoder.is_done());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_head_is_made_anew_from_its_parts() {
        for step in [1, 5, 1000] {
            let head = Request::get("/a//b?x=%2f").header("Host", "u").header("X-A", "1").header("X-A", "2");
            let expected = "GET /a//b?x=%2f HTTP/1.1\r\nhost: u\r\nx-a: 1\r\nx-a: 2\r\n\r\n";
            assert_eq!(written(&head.body(()).unwrap(), step), expected);
            let head = Request::builder().method(Method::POST).uri("/").header("Content-Length", "0");
            assert_eq!(written(&head.body(()).unwrap(), step), "POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n");
            let head = Request::builder().method("PURGE").uri("*");
            assert_eq!(written(&head.body(()).unwrap(), step), "PURGE * HTTP/1.1\r\n\r\n");
        }
    }
}
