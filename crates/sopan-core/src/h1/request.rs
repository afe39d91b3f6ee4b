//! The head of a client's request: what it asks for, and where its body ends (RFC 9112 §3 and §6).
//!
//! Whatever a lenient server behind us could read in another way is refused: who sends it means harm, or is broken, and in
//! both cases the kindest answer is a clear one.

use std::fmt;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, Version};

use super::body::Decoder;
use super::fields::{self, Fault};
use super::{HEAD_BYTES_MAX, authority};
use crate::headers::{Shown, redact_url};

/// A head, and what follows from it for the connection.
pub struct Incoming {
    /// What it asks for: its method, its target as it was sent, its fields, and the version it speaks.
    pub request: Request<()>,
    /// What comes after it.
    pub decoder: Decoder,
    /// Whether the connection may carry another request after this one.
    pub keeps: bool,
    /// Whether the client waits for `100 Continue` before it sends its body (RFC 9110 §10.1.1).
    pub expects_continue: bool,
}

// Without what a log may not show.
impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request, decoder, keeps, expects_continue } = self;
        f.debug_struct("Incoming")
            .field("method", request.method())
            .field("target", &redact_url(&request.uri().to_string()))
            .field("fields", &Shown(request.headers()))
            .field("decoder", decoder)
            .field("keeps", keeps)
            .field("expects_continue", expects_continue)
            .finish()
    }
}

/// A request that is answered at once, and is the last of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct BadRequest {
    /// The status to answer with.
    pub status: StatusCode,
    /// What is wrong, in words.
    pub why: &'static str,
    /// Whether it begins as a HEAD does. Whoever sent it takes what follows the answer's head for another answer.
    pub is_head: bool,
}

impl BadRequest {
    const fn new(why: &'static str) -> Self {
        Self::with(StatusCode::BAD_REQUEST, why)
    }

    const fn with(status: StatusCode, why: &'static str) -> Self {
        Self { status, why, is_head: false }
    }

    /// What so many bytes are that have no end of a head among them.
    pub fn too_long(bytes: &[u8]) -> Self {
        let has_line = memchr::memchr(b'\n', &bytes[..bytes.len().min(HEAD_BYTES_MAX)]).is_some();
        let bad = if has_line {
            Self::with(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of the request is larger than 64 KiB")
        } else {
            Self::with(StatusCode::URI_TOO_LONG, "the request target is too long")
        };
        bad.of(bytes)
    }

    /// The same, of a request that begins with these bytes.
    #[must_use]
    pub fn of(self, bytes: &[u8]) -> Self {
        Self { is_head: bytes.starts_with(b"HEAD "), ..self }
    }
}

impl From<Fault> for BadRequest {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::BareLf => Self::new("a line of the head does not end in CRLF"),
            Fault::Name => Self::new("a line of the head is no field: a name, a colon and a value"),
            Fault::Value => Self::new("a field holds a control character"),
            Fault::TooMany => {
                Self::with(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the request has more than 100 fields")
            }
        }
    }
}

/// What a request gets on its way: who has passed it on, and with `Forwarded` or its like for whom.
const FIELDS_ADDED: usize = 3;

/// Reads a complete head, from its first byte to its empty line.
///
/// # Errors
/// What is wrong with it; nothing that follows it can be relied on then.
pub fn read(bytes: &Bytes) -> Result<Incoming, BadRequest> {
    read_head(bytes).map_err(|bad| bad.of(bytes))
}

fn read_head(bytes: &Bytes) -> Result<Incoming, BadRequest> {
    let line_end = memchr::memchr(b'\n', bytes).ok_or(BadRequest::new("it has no request line"))?;
    let line = bytes[..line_end].strip_suffix(b"\r").ok_or(Fault::BareLf)?;
    let (method, target, version) = request_line(bytes, line)?;
    let section = fields::read(&bytes.slice(line_end + 1..), FIELDS_ADDED)?;
    if section.has_underscore {
        refuse_look_alikes(&section.fields)?;
    }
    let uri = uri(&method, target)?;
    check_host(&section.fields, &uri, version)?;
    let decoder = if section.has_framing { decoder(&section.fields, version)? } else { Decoder::Done };
    let is_http_10 = version == Version::HTTP_10;
    let keeps = !section.has_option(b"close")
        && (!is_http_10 || section.has_option(b"keep-alive"))
        && method != Method::CONNECT;
    let has_expect = section.has_expect;
    let mut fields = section.fields;
    let mut expects_continue = has_expect && fields.get_all(EXPECT).iter().any(is_continue);
    if expects_continue && is_http_10 {
        // A client of that age did not mean it, and will not wait (RFC 9110 §10.1.1).
        fields.remove(EXPECT);
        expects_continue = false;
    }
    expects_continue &= !decoder.is_done();
    let mut request = Request::new(());
    (*request.method_mut(), *request.uri_mut(), *request.version_mut()) = (method, uri, version);
    *request.headers_mut() = fields;
    Ok(Incoming { request, decoder, keeps, expects_continue })
}

/// One blank between its three parts, and none elsewhere.
fn request_line(bytes: &Bytes, line: &[u8]) -> Result<(Method, Bytes, Version), BadRequest> {
    let mut parts = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(BadRequest::new(
            "the request line is not: a method, a target and a version, one blank between them",
        ));
    };
    let version = match version {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0'] => Version::HTTP_10,
        // A later 1.x is answered as far as we know it (RFC 9110 §2.5).
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1'..=b'9'] => Version::HTTP_11,
        [b'H', b'T', b'T', b'P', b'/', b'0' | b'2'..=b'9', b'.', b'0'..=b'9'] => {
            let status = StatusCode::HTTP_VERSION_NOT_SUPPORTED;
            return Err(BadRequest::with(status, "this version of HTTP is not spoken here; use HTTP/1.1"));
        }
        _ => return Err(BadRequest::new("the request line does not end in a version of HTTP")),
    };
    let method = Method::from_bytes(method).map_err(|_| BadRequest::new("the method is no token"))?;
    Ok((method, bytes.slice_ref(target), version))
}

/// The target, whose bytes stay what they are.
fn uri(method: &Method, target: Bytes) -> Result<Uri, BadRequest> {
    let bad = |_| BadRequest::new("the request target holds a character that no target can hold");
    let mut parts = http::uri::Parts::default();
    // A fragment is not sent (RFC 9110 §4.2.5), and the library would drop it without a word.
    if memchr::memchr(b'#', &target).is_some() {
        return Err(BadRequest::new("the request target has a fragment, which stays with the client"));
    }
    match &target[..] {
        [b'/', ..] if method != Method::CONNECT => {
            parts.path_and_query = Some(PathAndQuery::from_maybe_shared(target).map_err(bad)?);
        }
        _ if method == Method::CONNECT => {
            let is_named = authority::is_valid(&target) && authority::split(&target).1.is_some_and(|p| !p.is_empty());
            if !is_named {
                return Err(BadRequest::new("the target of a CONNECT is a host and a port"));
            }
            parts.authority = Some(Authority::from_maybe_shared(target).map_err(bad)?);
        }
        b"*" if method == Method::OPTIONS => parts.path_and_query = Some(PathAndQuery::from_static("*")),
        _ => absolute(method, &target, &mut parts)?,
    }
    Uri::from_parts(parts).map_err(|_| BadRequest::new("the request target cannot be read"))
}

/// `http://host:port/path?query`.
fn absolute(method: &Method, target: &Bytes, parts: &mut http::uri::Parts) -> Result<(), BadRequest> {
    let no_target = BadRequest::new("the request target is neither a path nor an http or https URL");
    let colon = memchr::memchr(b':', target).ok_or(no_target)?;
    let rest = target[colon..].strip_prefix(b"://").ok_or(no_target)?;
    parts.scheme = Some(match &target[..colon] {
        scheme if scheme.eq_ignore_ascii_case(b"http") => Scheme::HTTP,
        scheme if scheme.eq_ignore_ascii_case(b"https") => Scheme::HTTPS,
        _ => return Err(no_target),
    });
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let (named, path) = rest.split_at(end);
    if !authority::is_valid(named) {
        return Err(BadRequest::new("the host of the request target is no host, perhaps with a port"));
    }
    let bad = |_| BadRequest::new("the request target holds a character that no target can hold");
    parts.authority = Some(Authority::from_maybe_shared(target.slice_ref(named)).map_err(|_| no_target)?);
    parts.path_and_query = Some(match path {
        // The asterisk itself comes as a URL without a path (RFC 9112 §3.2.4).
        [] if method == Method::OPTIONS => PathAndQuery::from_static("*"),
        [] => PathAndQuery::from_static("/"),
        [b'?', ..] => PathAndQuery::from_maybe_shared(Bytes::from([b"/", path].concat())).map_err(bad)?,
        _ => PathAndQuery::from_maybe_shared(target.slice_ref(path)).map_err(bad)?,
    });
    Ok(())
}

/// One `Host`, and none that says other than the target (RFC 9112 §3.2).
fn check_host(fields: &HeaderMap, uri: &Uri, version: Version) -> Result<(), BadRequest> {
    let mut hosts = fields.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.as_bytes(),
        (None, _) if version == Version::HTTP_10 => return Ok(()),
        (None, _) => return Err(BadRequest::new("the request has no Host")),
        (Some(_), Some(_)) => return Err(BadRequest::new("the request has more than one Host")),
    };
    if !authority::is_valid(host) {
        return Err(BadRequest::new("Host is no host, perhaps with a port"));
    }
    let names_another = |authority: &Authority| !authority.as_str().as_bytes().eq_ignore_ascii_case(host);
    if uri.authority().is_some_and(names_another) {
        return Err(BadRequest::new("Host and the request target name different servers"));
    }
    Ok(())
}

/// How the body is delimited (RFC 9112 §6.3). One way only, and told once.
fn decoder(fields: &HeaderMap, version: Version) -> Result<Decoder, BadRequest> {
    let mut codings = fields.get_all(TRANSFER_ENCODING).iter();
    let mut lengths = fields.get_all(CONTENT_LENGTH).iter();
    match (codings.next(), lengths.next()) {
        (None, None) => Ok(Decoder::Done),
        (Some(_), Some(_)) => Err(BadRequest::new("the request has both Content-Length and Transfer-Encoding")),
        (Some(_), None) if version == Version::HTTP_10 => {
            Err(BadRequest::new("the request has a Transfer-Encoding, which HTTP/1.0 does not know"))
        }
        (Some(coding), None) => {
            let is_chunked = coding.as_bytes().eq_ignore_ascii_case(b"chunked") && codings.next().is_none();
            is_chunked.then(Decoder::chunked).ok_or(BadRequest::new("Transfer-Encoding is not chunked, and that once"))
        }
        (None, Some(length)) => {
            if lengths.next().is_some() {
                return Err(BadRequest::new("the request has more than one Content-Length"));
            }
            let length = number(length).ok_or(BadRequest::new("Content-Length is no number of bytes"))?;
            Ok(if length == 0 { Decoder::Done } else { Decoder::Length(length) })
        }
    }
}

fn number(value: &HeaderValue) -> Option<u64> {
    let digits = !value.is_empty() && value.as_bytes().iter().all(u8::is_ascii_digit);
    value.to_str().ok().filter(|_| digits)?.parse().ok()
}

/// Whether `100-continue` is among the expectations of a line.
fn is_continue(line: &HeaderValue) -> bool {
    let mut members = line.as_bytes().split(|byte| *byte == b',');
    members.any(|member| fields::trim(member).eq_ignore_ascii_case(b"100-continue"))
}

/// Servers that hand fields on as variables take `_` and `-` for the same, and so would take these for what they look like:
/// where the message ends, for whom it is, and what belongs to the hop. Others, `api_key` for one, are nobody's double.
fn refuse_look_alikes(fields: &HeaderMap) -> Result<(), BadRequest> {
    let is_look_alike = |name: &HeaderName| {
        name.as_str().contains('_')
            && matches!(
                &*name.as_str().replace('_', "-"),
                "content-length" | "transfer-encoding" | "keep-alive" | "proxy-connection" | "proxy-authorization"
            )
    };
    if fields.keys().any(is_look_alike) {
        return Err(BadRequest::new("a field looks like one that says where the message ends, with _ for -"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
