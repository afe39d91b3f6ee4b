//! The head of an answer: where it ends, what it says, and what it says of the length of its body (RFC 9112 §6.3).

use std::fmt;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Response, StatusCode, Version};

use super::body::Decoder;
use super::fields::{self, Fault, Section};
use crate::headers::Shown;

/// A head that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// It is not HTTP, or does not tell where its body ends.
    #[error("{0}")]
    Garbage(&'static str),
    /// It has too many fields.
    #[error("it has too many fields")]
    TooLarge,
}

/// A head, and what follows from it for the connection.
pub struct Incoming {
    /// What it says.
    pub response: Response<()>,
    /// What comes after it.
    pub decoder: Decoder,
    /// Whether the connection may carry another answer after this one.
    pub keeps: bool,
}

// Without what a log may not show.
impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("status", &self.response.status())
            .field("fields", &Shown(self.response.headers()))
            .field("decoder", &self.decoder)
            .field("keeps", &self.keeps)
            .finish()
    }
}

impl From<Fault> for HeadError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::BareLf => Self::Garbage("a line of its head does not end in CRLF"),
            Fault::Name => Self::Garbage("a line of its head is no field"),
            Fault::Value => Self::Garbage("a field of its head holds a control character"),
            Fault::TooMany => Self::TooLarge,
        }
    }
}

/// What an answer gets on its way: who has passed it on, what the cache did, how long all took, and perhaps a date.
const FIELDS_ADDED: usize = 5;

/// Reads a complete head, from its first byte to its empty line. `is_head`: it answers a HEAD request, which has no body
/// whatever the fields say.
///
/// # Errors
/// What makes it useless; nothing that follows it can be relied on then.
pub fn read(bytes: &Bytes, is_head: bool) -> Result<Incoming, HeadError> {
    let line_end = memchr::memchr(b'\n', bytes).ok_or(HeadError::Garbage("it has no status line"))?;
    let (status, is_http_10) = status_line(&bytes[..line_end])?;
    let mut section = fields::read(&bytes.slice(line_end + 1..), FIELDS_ADDED)?;
    let headers = &mut section.fields;
    let (length, is_chunked) =
        if section.has_framing { (content_length(headers)?, is_chunked(headers, is_http_10)?) } else { (None, false) };
    let (decoder, delimits) = framing(length, is_chunked, status, is_head);
    if let Some(length) = length {
        leave_one_length(headers, length, is_chunked);
    }
    let keeps = delimits && keeps_alive(&section, is_http_10);
    let mut response = Response::new(());
    *response.status_mut() = status;
    if is_http_10 {
        *response.version_mut() = Version::HTTP_10;
    }
    *response.headers_mut() = section.fields;
    Ok(Incoming { response, decoder, keeps })
}

/// The status, and whether it is HTTP/1.0 that is spoken. The words after the number are for people, and may be missing.
fn status_line(line: &[u8]) -> Result<(StatusCode, bool), HeadError> {
    let line = line.strip_suffix(b"\r").ok_or(Fault::BareLf)?;
    let rest = line.strip_prefix(b"HTTP/1.").ok_or(HeadError::Garbage("it does not begin with HTTP/1"))?;
    let (is_http_10, rest) = match rest {
        [b'0', b' ', rest @ ..] => (true, rest),
        [b'1'..=b'9', b' ', rest @ ..] => (false, rest),
        _ => return Err(HeadError::Garbage("its version is no version of HTTP/1")),
    };
    let (code, reason) = rest.split_at_checked(3).ok_or(HeadError::Garbage("its status is no status"))?;
    let is_text = |byte: &u8| *byte == b'\t' || (b' '..0x7f).contains(byte) || *byte >= 0x80;
    if !(reason.is_empty() || reason[0] == b' ' && reason.iter().all(is_text)) {
        return Err(HeadError::Garbage("its status line cannot be read"));
    }
    let status = StatusCode::from_bytes(code).map_err(|_| HeadError::Garbage("its status is no status"))?;
    Ok((status, is_http_10))
}

/// How the body is delimited, and whether that can be relied on for the next answer.
///
/// Where none follows although the fields tell of one, a careless server sends it all the same, and what comes of it too
/// late to be seen would be read as the next answer. So such a connection is not used again.
fn framing(content_length: Option<u64>, is_chunked: bool, status: StatusCode, is_head: bool) -> (Decoder, bool) {
    let has_none = is_head || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if status.is_informational() {
        return (Decoder::Done, true);
    }
    if has_none {
        return (Decoder::Done, !is_chunked && content_length.is_none_or(|length| length == 0));
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
            let item = fields::trim(item);
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

fn keeps_alive(section: &Section, is_http_10: bool) -> bool {
    !section.has_option(b"close") && (!is_http_10 || section.has_option(b"keep-alive"))
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::fields::FIELDS_MAX;

    fn read(head: &str, is_head: bool) -> Result<Incoming, HeadError> {
        super::read(&Bytes::copy_from_slice(head.as_bytes()), is_head)
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
        check("HTTP/1.1 200\nContent-Length: 0", Decoder::Done, true);
        check("HTTP/1.1 999 \nContent-Length: 0", Decoder::Done, true);
        check("HTTP/1.1 299 caf\u{e9}\nContent-Length: 0", Decoder::Done, true);
        check("HTTP/1.1 200 OK\nTransfer-Encoding: Chunked", Decoder::chunked(), true);
        check("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nContent-Length: 5", Decoder::chunked(), false);
        check("HTTP/1.1 200 OK", Decoder::Close, false);
        check("HTTP/1.1 204 No Content", Decoder::Done, true);
        check("HTTP/1.1 304 Not Modified\nETag: 5", Decoder::Done, true);
        check("HTTP/1.1 304 Not Modified\nContent-Length: 5", Decoder::Done, false);
        check("HTTP/1.1 200 OK\nContent-Length: 5\nConnection: x, Close", Decoder::Length(5), false);
        check("HTTP/1.0 200 OK\nContent-Length: 5", Decoder::Length(5), false);
        check("HTTP/1.0 200 OK\nContent-Length: 5\nConnection: Keep-Alive", Decoder::Length(5), true);
        check("HTTP/1.1 204 No Content\nContent-Length: 0", Decoder::Done, true);
        check("HTTP/1.1 204 No Content\nContent-Length: 5", Decoder::Done, false);
        check("HTTP/1.1 304 Not Modified\nTransfer-Encoding: chunked", Decoder::Done, false);
    }

    #[test]
    fn an_answer_to_head_has_no_body_and_where_it_tells_of_one_nothing_follows() {
        for (fields, keeps) in [
            ("", true),
            ("Content-Length: 0\r\n", true),
            ("Content-Length: 5\r\n", false),
            ("Transfer-Encoding: chunked\r\n", false),
            ("Connection: close\r\n", false),
        ] {
            let incoming = read(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"), true).unwrap();
            assert_eq!((incoming.decoder, incoming.keeps), (Decoder::Done, keeps), "{fields}");
        }
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
            "HTTP/1.1  200 OK\r\n\r\n",
            "HTTP/1.1\t200 OK\r\n\r\n",
            "HTTP/1.1 200\tOK\r\n\r\n",
            "HTTP/1.1 2000 OK\r\n\r\n",
            "HTTP/1.1 +20 OK\r\n\r\n",
            "HTTP/1.1 200 O\u{0}K\r\n\r\n",
            "HTTP/1.1 200 O\rK\r\n\r\n",
            "HTTP/1.1 200 OK\nA: 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: 1\nB: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: 1\rB: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: \u{0}\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: \u{c}\r\n\r\n",
            " HTTP/1.1 200 OK\r\n\r\n",
            "\r\nHTTP/1.1 200 OK\r\n\r\n",
            "http/1.1 200 OK\r\n\r\n",
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
