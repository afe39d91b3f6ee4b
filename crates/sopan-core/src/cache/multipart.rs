//! How are several parts of a body written into one (`multipart/byteranges`, RFC 9110 §14.6)?
//!
//! [`Multipart`] has the bytes that go before each part and after the last one, and the length of all of it, so that whoever
//! has the body sends it piece by piece.

use bytes::Bytes;
use http::HeaderValue;

use super::range::{Part, Span};

/// What is around the parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multipart {
    /// The `Content-Type` of the answer.
    pub content_type: HeaderValue,
    /// What goes before each of the parts, in their order.
    pub heads: Vec<Bytes>,
    /// What goes after the last one.
    pub tail: Bytes,
    /// The length of the answer's body: of all this and the parts.
    pub length: u64,
}

impl Multipart {
    /// Around these parts of a body of `complete` bytes, which has this type. The boundary must be one that nobody can guess
    /// who wrote the body, so it is a random number.
    pub fn new(spans: &[Span], complete: u64, content_type: Option<&HeaderValue>, boundary: u128) -> Self {
        let boundary = format!("{boundary:032x}");
        let heads: Vec<Bytes> =
            spans.iter().enumerate().map(|(at, span)| head(*span, complete, content_type, &boundary, at > 0)).collect();
        let tail = Bytes::from(format!("\r\n--{boundary}--\r\n"));
        let around = heads.iter().map(Bytes::len).sum::<usize>() + tail.len();
        let length = spans.iter().fold(around as u64, |sum, span| sum.saturating_add(span.length()));
        let content_type = HeaderValue::try_from(format!("multipart/byteranges; boundary={boundary}"));
        let content_type = content_type.expect("a number in hexadecimal is of ASCII");
        Self { content_type, heads, tail, length }
    }
}

fn head(span: Span, complete: u64, content_type: Option<&HeaderValue>, boundary: &str, is_later: bool) -> Bytes {
    let before = if is_later { "\r\n--" } else { "--" };
    let mut head = [before, boundary, "\r\n"].concat().into_bytes();
    let range = Part { span, complete: Some(complete) }.content_range();
    let fields = [("Content-Type: ", content_type), ("Content-Range: ", Some(&range))];
    for (name, value) in fields {
        let Some(value) = value else { continue };
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_says_what_it_is_and_the_length_is_of_all() {
        let spans = [Span { first: 0, last: 1 }, Span { first: 8, last: 9 }];
        let body = b"0123456789";
        let typed = HeaderValue::from_static("text/plain");
        let around = Multipart::new(&spans, 10, Some(&typed), 0xabc);
        assert_eq!(around.content_type, "multipart/byteranges; boundary=00000000000000000000000000000abc");
        let mut written = Vec::new();
        for (head, span) in around.heads.iter().zip(&spans) {
            written.extend_from_slice(head);
            written.extend_from_slice(&body[span.first as usize..=span.last as usize]);
        }
        written.extend_from_slice(&around.tail);
        assert_eq!(around.length, written.len() as u64);
        let expected = "\
            --00000000000000000000000000000abc\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/10\r\n\r\n01\r\n\
            --00000000000000000000000000000abc\r\nContent-Type: text/plain\r\nContent-Range: bytes 8-9/10\r\n\r\n89\r\n\
            --00000000000000000000000000000abc--\r\n";
        assert_eq!(String::from_utf8(written).unwrap(), expected);
        let untyped = Multipart::new(&spans[..1], 10, None, 0);
        assert!(untyped.heads[0].ends_with(b"0\r\nContent-Range: bytes 0-1/10\r\n\r\n"));
    }
}
