//! An answer on its way to a client: how it is framed, and whether another may follow it.

use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use http::header::{CONNECTION, CONTENT_LENGTH, DATE};
use http::{HeaderValue, Method, Response, StatusCode, Version};
use http_body::Body;
use sopan_core::h1::framer::{Framer, Framing};
use sopan_core::h1::request::BadRequest;

/// What of a request decides how its answer is written.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) is_head: bool,
    pub(super) is_http_10: bool,
    /// Whether the connection may carry another request.
    pub(super) keeps: bool,
}

impl Asked {
    pub(super) fn new(method: &Method, version: Version, keeps: bool) -> Self {
        Self { is_head: *method == Method::HEAD, is_http_10: version == Version::HTTP_10, keeps }
    }

    /// What is known of a request that could not be read.
    pub(super) fn unreadable(bad: &BadRequest) -> Self {
        Self { is_head: bad.is_head, is_http_10: false, keeps: false }
    }
}

/// Begins an answer: completes its head, and tells the length of its body as well as can be. Answers whether another may
/// follow. `lines` of its head are written already, a date among them.
pub(super) fn begin<B: Body>(
    framer: &mut Framer,
    response: Response<B>,
    lines: Option<&[u8]>,
    asked: &Asked,
    now: impl FnOnce() -> SystemTime,
) -> (B, Framing, bool) {
    let (parts, body) = response.into_parts();
    let mut head = Response::from_parts(parts, ());
    let status = head.status();
    let length = body.size_hint().exact();
    let has_none = asked.is_head
        || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
        || status.is_informational();
    let framing = match length {
        _ if has_none => Framing::Done,
        Some(length) => Framing::Length(length),
        None if asked.is_http_10 => Framing::Close,
        None => Framing::Chunked,
    };
    // What a body would be long that is not sent (RFC 9110 §8.6): as the upstream told, or as sopan's own is.
    let told = || head.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok();
    let tells = match status {
        StatusCode::NO_CONTENT | StatusCode::SWITCHING_PROTOCOLS => None,
        _ if has_none => told().or(length.filter(|length| *length > 0)),
        _ => None,
    };
    let keeps = asked.keeps && framing != Framing::Close;
    if status != StatusCode::SWITCHING_PROTOCOLS {
        match (keeps, asked.is_http_10) {
            (true, false) => {}
            (true, true) => drop(head.headers_mut().insert(CONNECTION, HeaderValue::from_static("keep-alive"))),
            (false, _) => drop(head.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"))),
        }
    }
    if lines.is_none() && !head.headers().contains_key(DATE) {
        head.headers_mut().insert(DATE, date(now()));
    }
    framer.response_with(&head, lines.unwrap_or_default(), framing, tells);
    (body, framing, keeps)
}

/// The time, for an answer that does not tell it (RFC 9110 §6.6.1). Made once a second and thread.
fn date(now: SystemTime) -> HeaderValue {
    thread_local! {
        static LAST: RefCell<Option<(u64, HeaderValue)>> = const { RefCell::new(None) };
    }
    let second = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    LAST.with_borrow_mut(|last| match last {
        Some((at, value)) if *at == second => value.clone(),
        _ => {
            let text = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(second));
            let value = HeaderValue::from_str(&text).expect("a date is text");
            last.insert((second, value)).1.clone()
        }
    })
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use http_body_util::Full;
    use sopan_core::h1::framer::SLICES_MAX;

    use super::*;

    const ASKED: Asked = Asked { is_head: false, is_http_10: false, keeps: true };

    /// A body whose length nobody knows.
    struct Unknown;

    impl Body for Unknown {
        type Data = bytes::Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, Self::Error>>> {
            std::task::Poll::Ready(None)
        }
    }

    #[track_caller]
    fn check<B: Body>(response: http::response::Builder, body: B, asked: &Asked, expected: &str, keeps: bool) {
        let mut framer = Framer::default();
        let (_, _, kept) = begin(&mut framer, response.body(body).unwrap(), None, asked, || SystemTime::UNIX_EPOCH);
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = framer.slices(&mut slices);
        let head: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
        let date = "date: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
        assert_eq!((String::from_utf8(head).unwrap().replace(date, ""), kept), (expected.replace('\n', "\r\n"), keeps));
    }

    #[test]
    fn an_answer_is_framed_as_its_client_can_read_it() {
        let ok = Response::builder;
        let full = |text: &'static str| Full::new(bytes::Bytes::from_static(text.as_bytes()));
        let (head, old) = (Asked { is_head: true, ..ASKED }, Asked { is_http_10: true, ..ASKED });
        let last = Asked { keeps: false, ..ASKED };
        check(ok(), full("abc"), &ASKED, "HTTP/1.1 200 OK\ncontent-length: 3\n\n", true);
        check(ok(), full(""), &ASKED, "HTTP/1.1 200 OK\ncontent-length: 0\n\n", true);
        check(ok(), Unknown, &ASKED, "HTTP/1.1 200 OK\ntransfer-encoding: chunked\n\n", true);
        check(ok(), Unknown, &old, "HTTP/1.1 200 OK\nconnection: close\n\n", false);
        check(ok(), full("abc"), &old, "HTTP/1.1 200 OK\nconnection: keep-alive\ncontent-length: 3\n\n", true);
        check(ok(), full("abc"), &last, "HTTP/1.1 200 OK\nconnection: close\ncontent-length: 3\n\n", false);
        check(ok().header("Content-Length", "9"), full(""), &head, "HTTP/1.1 200 OK\ncontent-length: 9\n\n", true);
        check(ok(), full("abc"), &head, "HTTP/1.1 200 OK\ncontent-length: 3\n\n", true);
        check(ok(), full(""), &head, "HTTP/1.1 200 OK\n\n", true);
        check(
            ok().status(304).header("Content-Length", "9"),
            full(""),
            &ASKED,
            "HTTP/1.1 304 Not Modified\ncontent-length: 9\n\n",
            true,
        );
        check(ok().status(204), full(""), &ASKED, "HTTP/1.1 204 No Content\n\n", true);
        check(ok().status(299), full(""), &ASKED, "HTTP/1.1 299 \ncontent-length: 0\n\n", true);
        let switching = ok().status(101).header("Connection", "upgrade");
        check(switching, full(""), &ASKED, "HTTP/1.1 101 Switching Protocols\nconnection: upgrade\n\n", true);
    }
}
