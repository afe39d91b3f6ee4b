//! The head of an answer: where it ends, what it says, and what it says of the length of its body (RFC 9112 §6.3).

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use super::body::Decoder;
use super::fields::{self, FIELDS_MAX};

/// A head that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadError {
    /// It is not HTTP, or does not tell where its body ends.
    Garbage(&'static str),
    /// It has too many fields.
    TooLarge,
}

/// A head, and what follows from it for the connection.
pub(super) struct Incoming {
    pub(super) response: Response<()>,
    pub(super) decoder: Decoder,
    pub(super) keeps: bool,
}

/// Reads a complete head. `is_head`: it answers a HEAD request, which has no body whatever the fields say.
pub(super) fn parse(bytes: &Bytes, is_head: bool) -> Result<Incoming, HeadError> {
    let mut places = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut parsed = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    match config.parse_response_with_uninit_headers(&mut parsed, bytes, &mut places) {
        Ok(httparse::Status::Complete(len)) if len == bytes.len() => {}
        Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooLarge),
        Ok(_) => return Err(HeadError::Garbage("its lines do not end in CRLF")),
        Err(_) => return Err(HeadError::Garbage("its head cannot be read")),
    }
    let mut headers = fields::keep(bytes, parsed.headers).ok_or(HeadError::Garbage("a field cannot be read"))?;
    let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or(HeadError::Garbage("its status is no status"))?;
    let is_http_10 = parsed.version == Some(0);
    let (length, is_chunked) = (content_length(&headers)?, is_chunked(&headers, is_http_10)?);
    let (decoder, delimits) = framing(length, is_chunked, status, is_head);
    if let Some(length) = length {
        leave_one_length(&mut headers, length, is_chunked);
    }
    let keeps = delimits && keeps_alive(&headers, is_http_10);
    let mut response = Response::new(());
    *response.status_mut() = status;
    // Its version stays what ours is: it speaks of this hop, and an intermediary sends its own (RFC 9110 §2.5).
    *response.headers_mut() = headers;
    Ok(Incoming { response, decoder, keeps })
}

/// How the body is delimited, and whether that can be relied on for the next answer.
fn framing(content_length: Option<u64>, is_chunked: bool, status: StatusCode, is_head: bool) -> (Decoder, bool) {
    if is_head || status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        return (Decoder::Done, true);
    }
    match (is_chunked, content_length) {
        // Two lengths are one too many to believe in the next message.
        (true, length) => (Decoder::chunked(), length.is_none()),
        (false, Some(0)) => (Decoder::Done, true),
        (false, Some(length)) => (Decoder::Length(length), true),
        (false, None) => (Decoder::Close, false),
    }
}

/// Leaves one length for whoever the answer is passed on to: none beside the coding that overrides it, a single one where
/// several agree (RFC 9112 §6.3, RFC 9110 §8.6).
fn leave_one_length(headers: &mut HeaderMap, length: u64, is_chunked: bool) {
    let mut lines = headers.get_all(CONTENT_LENGTH).iter();
    let first = lines.next().filter(|first| first.as_bytes().iter().all(u8::is_ascii_digit));
    let is_one = first.is_some() && lines.next().is_none();
    if is_chunked {
        headers.remove(CONTENT_LENGTH);
    } else if !is_one {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
}

/// The length, if one is given; several that agree are one (RFC 9110 §8.6).
fn content_length(headers: &HeaderMap) -> Result<Option<u64>, HeadError> {
    let mut length = None;
    for value in headers.get_all(CONTENT_LENGTH) {
        for item in value.as_bytes().split(|b| *b == b',') {
            let item = item.trim_ascii();
            let digits = !item.is_empty() && item.iter().all(u8::is_ascii_digit);
            let number = std::str::from_utf8(item).ok().filter(|_| digits).and_then(|s| s.parse::<u64>().ok());
            match (number, length) {
                (None, _) => return Err(HeadError::Garbage("its Content-Length is no number")),
                (Some(number), Some(other)) if number != other => {
                    return Err(HeadError::Garbage("its Content-Length has two values"));
                }
                (number, _) => length = number,
            }
        }
    }
    Ok(length)
}

/// Whether the body is chunked. Other transfer codings are not known here, and not asked for.
fn is_chunked(headers: &HeaderMap, is_http_10: bool) -> Result<bool, HeadError> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(false),
        (Some(coding), None) if !is_http_10 && coding.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(true),
        _ => Err(HeadError::Garbage("its Transfer-Encoding is not chunked")),
    }
}

fn keeps_alive(headers: &HeaderMap, is_http_10: bool) -> bool {
    let names = |option: &[u8]| {
        let lines = headers.get_all(CONNECTION).iter();
        lines
            .flat_map(|line| line.as_bytes().split(|b| *b == b','))
            .any(|o| o.trim_ascii().eq_ignore_ascii_case(option))
    };
    if is_http_10 { names(b"keep-alive") && !names(b"close") } else { !names(b"close") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(head: &str, is_head: bool) -> Result<Incoming, HeadError> {
        parse(&Bytes::copy_from_slice(head.as_bytes()), is_head)
    }

    #[track_caller]
    fn check(head: &str, decoder: Decoder, keeps: bool) {
        let head = head.replace('\n', "\r\n") + "\r\n\r\n";
        let incoming = read(&head, false).unwrap();
        assert_eq!((incoming.decoder, incoming.keeps), (decoder, keeps), "{head:?}");
    }

    #[test]
    fn the_fields_tell_where_the_body_ends_and_whether_another_answer_may_follow() {
        check("HTTP/1.1 200 OK\nContent-Length: 5", Decoder::Length(5), true);
        check("HTTP/1.1 200 OK\nContent-Length: 5, 5\nContent-Length: 5", Decoder::Length(5), true);
        check("HTTP/1.1 200 OK\nContent-Length: 0", Decoder::Done, true);
        check("HTTP/1.1 200 OK\nTransfer-Encoding: Chunked", Decoder::chunked(), true);
        check("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nContent-Length: 5", Decoder::chunked(), false);
        check("HTTP/1.1 200 OK", Decoder::Close, false);
        check("HTTP/1.1 204 No Content", Decoder::Done, true);
        check("HTTP/1.1 304 Not Modified\nContent-Length: 5", Decoder::Done, true);
        check("HTTP/1.1 200 OK\nContent-Length: 5\nConnection: x, Close", Decoder::Length(5), false);
        check("HTTP/1.0 200 OK\nContent-Length: 5", Decoder::Length(5), false);
        check("HTTP/1.0 200 OK\nContent-Length: 5\nConnection: Keep-Alive", Decoder::Length(5), true);
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(read(head, true).unwrap().decoder, Decoder::Done, "an answer to HEAD has no body");
    }

    #[test]
    fn one_length_is_left_to_pass_on() {
        for (fields, expected) in [
            ("Content-Length: 5", &["5"][..]),
            ("Content-Length: 5, 5", &["5"]),
            ("Content-Length: 5\r\nContent-Length: 5", &["5"]),
            ("Transfer-Encoding: chunked\r\nContent-Length: 5", &[]),
            ("X: 1", &[]),
        ] {
            let incoming = read(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n"), false).unwrap();
            let lengths: Vec<_> = incoming.response.headers().get_all(CONTENT_LENGTH).iter().collect();
            assert_eq!(lengths, expected, "{fields}");
        }
    }

    #[test]
    fn what_is_in_doubt_is_refused() {
        for head in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 99 Low\r\n\r\n",
            "HTTP/1.1 20 Short\r\n\r\n",
            "HTP/1.1 200 OK\r\n\r\n",
            "HTTP/2.0 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nNo colon\r\n\r\n",
            "HTTP/1.1 200 OK\r\nName : value\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: 1\r\n folded\r\n\r\n",
            "SSH-2.0-OpenSSH_9.2\r\n\r\n",
            "\r\n\r\n",
        ] {
            assert!(matches!(read(head, false), Err(HeadError::Garbage(_))), "{head:?}");
        }
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: 1\r\n".repeat(FIELDS_MAX + 1));
        assert_eq!(read(&many, false).err(), Some(HeadError::TooLarge));
    }
}
