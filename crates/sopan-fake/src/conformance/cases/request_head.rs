//! Request lines and fields that are no HTTP.

use super::super::case::{Case, Group};

fn case(id: &'static str, section: &'static str, claim: &'static str) -> Case {
    Case::new(id, Group::RequestHead, section, claim)
}

/// A whole request that is refused.
fn bad(id: &'static str, section: &'static str, request: &[u8], claim: &'static str) -> Case {
    case(id, section, claim).send(request).refused(&[400]).arrive(0)
}

/// A field line, without its end, for which the request is refused.
fn bad_field(id: &'static str, section: &'static str, line: &[u8], claim: &'static str) -> Case {
    let request = [b"GET {path} HTTP/1.1\r\nHost: {host}\r\n", line, b"\r\nX-Last: 1\r\n\r\n"].concat();
    bad(id, section, &request, claim)
}

pub(super) fn cases() -> Vec<Case> {
    [lines(), names(), values(), hosts(), request_lines(), versions(), beginnings()].concat()
}

fn lines() -> Vec<Case> {
    vec![
        bad("lf-head", "9112 §2.2", b"GET {path} HTTP/1.1\nHost: {host}\n\n", "a head whose lines end in bare LF")
            .choice(),
        bad("lf-request-line", "9112 §2.2", b"GET {path} HTTP/1.1\nHost: {host}\r\n\r\n", "a request line that does")
            .choice(),
        bad_field("lf-field", "9112 §2.2", b"X-A: 1\nX-B: 2", "a field line that does").choice(),
        bad("lf-end", "9112 §2.2", b"GET {path} HTTP/1.1\r\nHost: {host}\r\n\n", "an empty line that does").choice(),
        bad(
            "cr-request-line",
            "9112 §2.2",
            b"GET {path}\rx HTTP/1.1\r\nHost: {host}\r\n\r\n",
            "a bare CR in a request line",
        ),
        bad_field("cr-value", "9112 §2.2", b"X-A: 1\r2", "a bare CR in a value"),
        bad_field("cr-name", "9112 §2.2", b"X-\rA: 1", "a bare CR in a name"),
        bad_field("cr-cr-lf", "9112 §2.2", b"X-A: 1\r", "a CR before the end of a line"),
        bad_field("fold-space", "9112 §5.2", b"X-A: 1\r\n 2", "a line folded by a space").choice(),
        bad_field("fold-tab", "9112 §5.2", b"X-A: 1\r\n\t2", "a line folded by a tab").choice(),
        bad_field("fold-length", "9112 §5.2", b"X-A: 1\r\n Content-Length: 5", "a framing field in a folded line")
            .choice(),
        bad(
            "fold-first",
            "9112 §2.2",
            b"GET {path} HTTP/1.1\r\n X-A: 1\r\nHost: {host}\r\n\r\n",
            "white space before the first field",
        )
        .choice(),
        bad_field("no-colon", "9112 §5", b"X-A", "a field line without a colon"),
        bad_field("blank-line-end", "9112 §2.2", b" ", "a line of white space").choice(),
    ]
}

fn names() -> Vec<Case> {
    vec![
        bad_field("name-space-colon", "9112 §5.1", b"X-A : 1", "white space between name and colon"),
        bad_field("name-tab-colon", "9112 §5.1", b"X-A\t: 1", "a tab there"),
        bad_field(
            "name-length-space",
            "9112 §5.1",
            b"Content-Length : 0",
            "white space after the name of a framing field",
        ),
        bad_field("name-empty", "9110 §5.1", b": 1", "an empty name"),
        bad_field("name-space", "9110 §5.6.2", b"X A: 1", "a space in a name"),
        bad_field("name-parenthesis", "9110 §5.6.2", b"X(A): 1", "a parenthesis in a name"),
        bad_field("name-quote", "9110 §5.6.2", b"\"X-A\": 1", "a quotation mark in a name"),
        bad_field("name-nul", "9110 §5.6.2", b"X-\0A: 1", "a NUL in a name"),
        bad_field("name-control", "9110 §5.6.2", b"X-\x0bA: 1", "a control character in a name"),
        bad_field("name-obs-text", "9110 §5.6.2", b"X-\xe9: 1", "a byte above 0x7F in a name"),
        bad_field(
            "name-length-vt",
            "9110 §5.6.2",
            b"\x0bContent-Length: 5",
            "a control character before a framing field",
        ),
        bad_field(
            "underscore-length",
            "9112 §6.2",
            b"Content_Length: 5",
            "Content_Length, which some read as a length",
        )
        .policy(),
        bad_field(
            "underscore-coding",
            "9112 §6.1",
            b"Transfer_Encoding: chunked",
            "Transfer_Encoding, which some read as a coding",
        )
        .policy(),
    ]
}

fn values() -> Vec<Case> {
    vec![
        bad_field("value-nul", "9110 §5.5", b"X-A: 1\x002", "a NUL in a value"),
        bad_field("value-control", "9110 §5.5", b"X-A: 1\x012", "a control character in a value").choice(),
        bad_field("value-vt", "9110 §5.5", b"X-A: \x0b1", "a vertical tab in a value").choice(),
        bad_field("value-delete", "9110 §5.5", b"X-A: 1\x7f2", "DEL in a value").choice(),
    ]
}

fn hosts() -> Vec<Case> {
    let hosts = |id, lines: &str, claim| {
        let request = format!("GET {{path}} HTTP/1.1\r\n{lines}\r\n");
        bad(id, "9112 §3.2", request.as_bytes(), claim)
    };
    vec![
        hosts("host-missing", "X-A: 1\r\n", "no Host in HTTP/1.1"),
        hosts("host-twice", "Host: {host}\r\nHost: {host}\r\n", "two of them, though equal"),
        hosts("host-two", "Host: {host}\r\nX-A: 1\r\nHost: other.example\r\n", "two that differ"),
        hosts("host-list", "Host: {host}, other.example\r\n", "a list of them"),
        hosts("host-space", "Host: a b\r\n", "one with a space"),
        hosts("host-path", "Host: {host}/x\r\n", "one with a path"),
        hosts("host-userinfo", "Host: user@{host}\r\n", "one with a user's name"),
        hosts("host-port-large", "Host: 127.0.0.1:99999\r\n", "one with an impossible port"),
        hosts("host-port-word", "Host: 127.0.0.1:http\r\n", "one with a port that is no number"),
        hosts("host-only-port", "Host: :80\r\n", "one without a name"),
        hosts("host-bracket", "Host: [::1\r\n", "one with half an address"),
        case("host-empty", "9110 §7.2", "an empty one, which names nobody here")
            .choice()
            .send("GET {path} HTTP/1.1\r\nHost:\r\n\r\n")
            .refused_openly(&[400, 421])
            .arrive(0),
        case("host-missing-old", "9112 §3.2", "HTTP/1.0 needs no Host")
            .send("GET {path} HTTP/1.0\r\n\r\n")
            .answer(&[200])
            .arrive(1)
            .target("{path}"),
    ]
}

fn request_lines() -> Vec<Case> {
    let line = |id, line: &[u8], claim| bad(id, "9112 §3", &[line, b"\r\nHost: {host}\r\n\r\n"].concat(), claim);
    vec![
        line("line-trailing-blank", b"GET {path} HTTP/1.1 ", "white space after the version").choice(),
        line("line-two-spaces", b"GET  {path} HTTP/1.1", "two spaces before the target").choice(),
        line("line-two-spaces-late", b"GET {path}  HTTP/1.1", "two spaces before the version").choice(),
        line("line-tabs", b"GET\t{path}\tHTTP/1.1", "tabs between the parts").choice(),
        line("line-leading-space", b" GET {path} HTTP/1.1", "a space before the method").choice(),
        line("line-words", b"GET {path} x HTTP/1.1", "a word too much"),
        line("method-parenthesis", b"G(T {path} HTTP/1.1", "a method that is no token"),
        line("method-obs-text", b"G\xc9T {path} HTTP/1.1", "a byte above 0x7F in a method"),
        line("method-colon", b"GET: {path} HTTP/1.1", "a colon in a method"),
        line("method-empty", b" {path} HTTP/1.1", "no method"),
        line("line-garbage", b"hello", "a line that is no request at all"),
    ]
}

fn versions() -> Vec<Case> {
    let version = |id, version: &str, statuses, claim| {
        case(id, "9110 §15.6.6", claim)
            .send(format!("GET {{path}} {version}\r\nHost: {{host}}\r\n\r\n"))
            .refused(statuses)
            .arrive(0)
    };
    vec![
        version("version-2", "HTTP/2.0", &[505], "HTTP/2.0 in the form of HTTP/1"),
        version("version-3", "HTTP/3.1", &[505], "a major version that nobody speaks so"),
        version("version-09", "HTTP/0.9", &[400, 505], "HTTP/0.9 with a version"),
        version("version-lower", "http/1.1", &[400, 505], "a version in lower case"),
        version("version-digits", "HTTP/1.10", &[400, 505], "a minor version of two digits"),
        version("version-no-dot", "HTTP/11", &[400, 505], "a version without its dot"),
        version("version-name", "HTTPS/1.1", &[400, 505], "another protocol's name"),
        case("version-none", "9112 §2.3", "a request of HTTP/0.9")
            .choice()
            .send("GET {path}\r\n\r\n")
            .refused(&[400, 505])
            .arrive(0),
        case("preface", "9113 §3.4", "the preface of HTTP/2, which is not spoken here")
            .choice()
            .send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .refused(&[400, 505])
            .arrive(0),
    ]
}

fn beginnings() -> Vec<Case> {
    vec![
        case("leading-crlf", "9112 §2.2", "an empty line before the request is skipped")
            .send("\r\nGET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
            .answer(&[200])
            .arrive(1)
            .target("{path}"),
        case("crlf-between", "9112 §2.2", "so is one that an old client sends after a body")
            .send("POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 4\r\n\r\nbody\r\nGET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
            .answer(&[200])
            .answer(&[200])
            .arrive(2)
            .request(0)
            .sent_body("body"),
        bad("tls-on-plain", "9112 §3", b"\x16\x03\x01\x00\x05hello\r\n\r\n", "TLS where plain HTTP is spoken"),
    ]
}
