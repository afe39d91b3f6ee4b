//! What must hold of every head and body that is read and written anew (RFC 9112).
//!
//! The input is a message, or a body alone. Whatever is accepted must say the same to a second parser, and what is passed on
//! must be one message, without what belongs to the hop, and with the same method, target, fields and body.

use std::io::IoSlice;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HOST};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use sopan_core::h1::body::{Decoder, Step};
use sopan_core::h1::fields::{self, Fault};
use sopan_core::h1::framer::{Framer, Framing, SLICES_MAX};
use sopan_core::h1::{request, response};
use sopan_core::headers::{strip_hop_by_hop, strip_trailers};

use crate::strict::{self, Field, Message};

/// Fields of one hop; the length is told anew.
const NOT_PASSED_ON: [&str; 11] = [
    "connection",
    "content-length",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];
/// Fields that no `Connection` can take away.
const FOR_ALL: [&str; 6] = ["cache-control", "content-encoding", "content-range", "content-type", "host", "via"];
/// Fields that say, or look as if they said, where a message ends.
const NEVER_TRAILERS: [&str; 3] = ["content-length", "transfer-encoding", "host"];

pub(crate) fn check(input: &[u8]) {
    let bytes = Bytes::copy_from_slice(input);
    // Whoever calls gives whole heads; no others may make it panic either.
    drop((request::read(&bytes), response::read(&bytes, false)));
    let steps = [1, 2, 5, 1 + usize::from(input.first().copied().unwrap_or(0)) % 64];
    check_decoders(input, &steps);
    check_end(input, &steps);
    if let Ok(Some(end)) = fields::find_end(input, 0) {
        let (head, rest) = (bytes.slice(..end), &input[end..]);
        check_request(&head, rest, steps[3]);
        check_response(&head, rest, false, steps[3]);
        check_response(&head, rest, true, steps[3]);
    }
}

/// The end of a head is where it is, however it comes.
fn check_end(input: &[u8], steps: &[usize]) {
    let at_once = fields::find_end(input, 0);
    for step in steps {
        let (mut scanned, mut found) = (0, Ok::<_, Fault>(None));
        while scanned < input.len() && found == Ok(None) {
            let end = (scanned + step).min(input.len());
            found = fields::find_end(&input[..end], scanned);
            scanned = end;
        }
        assert_eq!(found, at_once, "by {step}");
    }
}

/// A body is the same, however it comes, and the second parser agrees on it.
fn check_decoders(input: &[u8], steps: &[usize]) {
    let length = input.first().map_or(1, |byte| 1 + u64::from(*byte));
    for (decoder, told) in [
        (Decoder::chunked as fn() -> Decoder, "transfer-encoding: chunked".to_owned()),
        (|| Decoder::Close, String::new()),
    ] {
        let at_once = decode(decoder(), input, input.len());
        for step in steps {
            let split = decode(decoder(), input, *step);
            assert_eq!(split.all(), at_once.all(), "by {step}");
        }
        if !told.is_empty() {
            check_agreement(&at_once, &told, input);
        }
    }
    let at_once = decode(Decoder::Length(length), input, input.len());
    assert_eq!(decode(Decoder::Length(length), input, steps[3]).all(), at_once.all());
    check_agreement(&at_once, &format!("content-length: {length}"), input);
}

fn check_agreement(decoded: &Decoded, told: &str, input: &[u8]) {
    let head = format!("POST / HTTP/1.1\r\nhost: u\r\n{told}\r\n\r\n");
    let Ok(is_whole) = decoded.end else { return };
    let read = strict::request(&[head.as_bytes(), input].concat()).expect("a body that is accepted is well formed");
    let read = read.expect("its head is whole");
    let (body, trailers) = (decoded.body(), decoded.trailers());
    assert_eq!((read.is_whole, &read.body), (is_whole, &body));
    if is_whole {
        assert_eq!(read.trailers.len(), trailers.len());
        assert_eq!(sorted(read.trailers), trailers);
        assert_eq!(read.length, head.len() + input.len() - decoded.left);
    }
}

fn check_request(head: &Bytes, rest: &[u8], step: usize) {
    let Ok(incoming) = request::read(head) else { return };
    let whole = [&head[..], rest].concat();
    let read = match strict::request(&whole) {
        Ok(read) => read.expect("an accepted head is whole"),
        // The head is well, and what follows it is no such body: the decoder has to say so too.
        Err(why) => {
            let decoded = decode(incoming.decoder, rest, step);
            assert!(decoded.end.is_err(), "accepted, though {why}");
            let so_far = strict::request_so_far(&whole).expect("its head is well formed");
            assert!(so_far.body.starts_with(&decoded.body()), "nothing of a body comes from after its fault");
            return;
        }
    };
    let mut request = incoming.request;
    assert_eq!(request.method().as_str().as_bytes(), read.start[0]);
    let is_old = read.start[2] == b"HTTP/1.0";
    assert_eq!(request.version() == Version::HTTP_10, is_old);
    let expected = match read.framing {
        strict::Framing::None | strict::Framing::Length(0) => Decoder::Done,
        strict::Framing::Length(length) => Decoder::Length(length),
        strict::Framing::Chunked => Decoder::chunked(),
        strict::Framing::Close => unreachable!("no request ends with its connection"),
    };
    assert_eq!(incoming.decoder, expected);
    if *request.method() == Method::CONNECT {
        return;
    }
    let named = strip_hop_by_hop(request.headers_mut());
    request.headers_mut().insert(HOST, HeaderValue::from_static("upstream.test"));
    let framing = match incoming.decoder.left() {
        Some(0) => Framing::Done,
        Some(length) => Framing::Length(length),
        None => Framing::Chunked,
    };
    let mut framer = Framer::default();
    framer.request(&request, framing);
    let decoded = decode(incoming.decoder, rest, step);
    let written = write(framer, &decoded, &named, step);
    let again = strict::request(&written).expect("what is sent is well formed").expect("its head is whole");
    assert_eq!(again.start, [read.start[0].clone(), read.path(), b"HTTP/1.1".to_vec()]);
    let mut expected = passed_on(&read.fields);
    if is_old && read.values("expect").flat_map(|value| value.split(|byte| *byte == b',')).any(is_continue) {
        // Nobody waits for a 100 that HTTP/1.0 does not know.
        expected.retain(|(name, _)| name != b"expect");
    }
    expected.retain(|(name, _)| name != b"host");
    expected.push((b"host".to_vec(), b"upstream.test".to_vec()));
    check_passed_on(&again, &read, expected, &decoded, written.len());
    assert_eq!(again.framing, read.framing);
}

fn check_response(head: &Bytes, rest: &[u8], to_head: bool, step: usize) {
    let Ok(incoming) = response::read(head, to_head) else { return };
    let read = strict::response_head(head).expect("an accepted head is well formed").expect("and whole");
    let mut response = incoming.response;
    let status = response.status();
    assert_eq!(status.as_str().as_bytes(), read.start[1]);
    let (has_none, told) = check_framing(&read, &incoming.decoder, to_head);
    let named = strip_hop_by_hop(response.headers_mut());
    let framing = match incoming.decoder.left() {
        Some(0) if has_none => Framing::Done,
        Some(length) => Framing::Length(length),
        None => Framing::Chunked,
    };
    let is_told = has_none && (to_head || status == StatusCode::NOT_MODIFIED);
    let is_told = is_told && !status.is_informational() && status != StatusCode::NO_CONTENT;
    let tells = response.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    assert!(tells.is_none() || tells == told, "the length that is passed on is the one that was told");
    let mut framer = Framer::default();
    framer.response(&response, framing, tells.filter(|_| is_told));
    let decoded = decode(incoming.decoder, rest, step);
    let written = write(framer, &decoded, &named, step);
    let again =
        strict::response(&written, to_head, false).expect("what is sent is well formed").expect("and its head whole");
    assert_eq!(again.start[..2], [b"HTTP/1.1".to_vec(), read.start[1].clone()]);
    check_passed_on(&again, &read, passed_on(&read.fields), &decoded, written.len());
}

/// The body is delimited as the rules say that the product has chosen among those of RFC 9112 §6.3; answers whether there is
/// none whatever the fields say, and the length that was told.
fn check_framing(read: &Message, decoder: &Decoder, to_head: bool) -> (bool, Option<u64>) {
    let [version, status, _] = &read.start;
    let lengths: Vec<u64> = read
        .values("content-length")
        .flat_map(|line| line.split(|byte| *byte == b','))
        .map(|member| {
            let text = String::from_utf8_lossy(member).trim_matches([' ', '\t']).to_owned();
            assert!(text.bytes().all(|byte| byte.is_ascii_digit()), "an accepted length is a number");
            text.parse().expect("an accepted length can be counted")
        })
        .collect();
    assert!(lengths.windows(2).all(|two| two[0] == two[1]), "accepted lengths agree: {lengths:?}");
    let codings: Vec<_> = read.values("transfer-encoding").collect();
    assert!(codings.iter().all(|coding| coding.eq_ignore_ascii_case(b"chunked")) && codings.len() < 2);
    assert!(codings.is_empty() || version != b"HTTP/1.0");
    let has_none = to_head || status.starts_with(b"1") || status == b"204" || status == b"304";
    let expected = match (lengths.first(), codings.len()) {
        _ if has_none => Decoder::Done,
        (_, 1) => Decoder::chunked(),
        (Some(0), _) => Decoder::Done,
        (Some(length), _) => Decoder::Length(*length),
        (None, _) => Decoder::Close,
    };
    assert_eq!(*decoder, expected);
    (has_none, lengths.first().copied())
}

fn check_passed_on(again: &Message, read: &Message, expected: Vec<Field>, decoded: &Decoded, written: usize) {
    let is_own = |name: &[u8]| name == b"content-length" || name == b"transfer-encoding";
    let fields: Vec<_> = again.fields.iter().filter(|(name, _)| !is_own(name)).cloned().collect();
    assert_eq!(sorted(fields), sorted(expected), "of {:?}", read.start);
    assert!(!again.has_extensions);
    assert_eq!(again.length, written, "one message, and nothing after it");
    assert_eq!(again.body, decoded.body());
    // A body that ends with its connection is passed on in chunks, and this one's end has not come.
    let is_whole = decoded.end == Ok(true);
    assert_eq!(again.is_whole, is_whole);
    for (name, _) in &again.trailers {
        assert!(!NEVER_TRAILERS.contains(&&*String::from_utf8_lossy(name)));
    }
}

/// Whether a member of a list of expectations is the one that HTTP/1.0 does not know.
fn is_continue(member: &[u8]) -> bool {
    member.trim_ascii().eq_ignore_ascii_case(b"100-continue")
}

/// What of a message's fields is passed on.
fn passed_on(fields: &[Field]) -> Vec<Field> {
    let lines = fields.iter().filter(|(name, _)| name == b"connection").map(|(_, value)| value.to_ascii_lowercase());
    let named: Vec<String> = lines
        .flat_map(|line| line.split(|byte| *byte == b',').map(<[u8]>::to_vec).collect::<Vec<_>>())
        .map(|option| String::from_utf8_lossy(&option).trim_matches([' ', '\t']).to_owned())
        .collect();
    let goes = |name: &str| {
        NOT_PASSED_ON.contains(&name) || (named.iter().any(|option| option == name) && !FOR_ALL.contains(&name))
    };
    fields.iter().filter(|(name, _)| !goes(&String::from_utf8_lossy(name))).cloned().collect()
}

/// The lines of one field stay in their order; between different fields it says nothing.
fn sorted(mut fields: Vec<Field>) -> Vec<Field> {
    fields.sort_by(|(a, _), (b, _)| a.cmp(b));
    fields
}

/// What came of a body.
struct Decoded {
    pieces: Vec<Bytes>,
    trailers: Option<HeaderMap>,
    /// Whether it has come whole, or what is wrong with it.
    end: Result<bool, &'static str>,
    /// Bytes that do not belong to it.
    left: usize,
}

impl Decoded {
    fn body(&self) -> Vec<u8> {
        self.pieces.concat()
    }

    fn trailers(&self) -> Vec<Field> {
        let fields = self.trailers.iter().flatten();
        let lines = fields.map(|(name, value)| (name.as_str().as_bytes().to_vec(), value.as_bytes().to_vec()));
        sorted(lines.collect())
    }

    /// All that must not depend on how it came.
    fn all(&self) -> (Vec<u8>, Vec<Field>, Result<bool, &'static str>, usize) {
        let left = if self.end.is_ok() { self.left } else { 0 };
        (self.body(), self.trailers(), self.end, left)
    }
}

fn decode(mut decoder: Decoder, bytes: &[u8], step: usize) -> Decoded {
    let (mut read, mut rest) = (BytesMut::new(), bytes);
    let (mut pieces, mut trailers) = (Vec::new(), None);
    let end = loop {
        match decoder.decode(&mut read) {
            Ok(Step::Data(data)) => pieces.push(data),
            Ok(Step::Trailers(fields)) => trailers = Some(fields),
            Ok(Step::End) => break Ok(true),
            Ok(Step::More) if rest.is_empty() => break Ok(false),
            Ok(Step::More) => {
                let (piece, later) = rest.split_at(step.clamp(1, rest.len()));
                read.extend_from_slice(piece);
                rest = later;
            }
            Err(why) => break Err(why),
        }
    };
    Decoded { pieces, trailers, end, left: read.len() + rest.len() }
}

/// All that is sent, taken out so many bytes at a time.
fn write(mut framer: Framer, decoded: &Decoded, named: &[http::HeaderName], step: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in &decoded.pieces {
        framer.data(piece.clone()).expect("the body is as long as its head says");
        take(&mut framer, step, &mut out);
    }
    if decoded.end == Ok(true) {
        let trailers = decoded.trailers.clone().map(|mut trailers| {
            strip_trailers(&mut trailers, named);
            trailers
        });
        framer.end(trailers.as_ref()).expect("the body is as long as its head says");
    }
    take(&mut framer, step, &mut out);
    assert_eq!(framer.is_done(), decoded.end == Ok(true), "it is done when its body is");
    out
}

fn take(framer: &mut Framer, step: usize, out: &mut Vec<u8>) {
    while framer.has_bytes() {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = framer.slices(&mut slices);
        let ready: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
        let taken = step.min(ready.len());
        out.extend_from_slice(&ready[..taken]);
        framer.advance(taken);
    }
}
