//! Targets go on byte for byte, or are refused.

use super::super::case::{Case, Group};

// px-2
/// Name, target, claim; each arrives as it was sent.
const KEPT: [(&str, &str, &str); 15] = [
    ("target-double-slash", "/a//b", "an empty segment is a segment"),
    ("target-leading-slashes", "//cms/x", "a path that begins with two slashes is a path and no host"),
    ("target-coded-slash", "/a%2Fb", "a coded slash stays coded"),
    ("target-coded-lower", "/a%2fb", "the case of a code is kept"),
    ("target-coded-tilde", "/%7Euser", "what need not be coded stays coded"),
    ("target-tilde", "/~user", "and what is not coded stays so"),
    ("target-coded-utf8", "/caf%C3%A9", "coded UTF-8 stays coded"),
    ("target-semicolon", "/a;v=1/b", "a semicolon stays"),
    ("target-plus", "/a%20b+c", "a plus is no space"),
    ("target-coded-percent", "/a%25b", "a coded percent is decoded by nobody"),
    ("target-well-known", "/.well-known/x", "a dot at the beginning is no dot segment"),
    ("target-slash-at-end", "/a/", "a slash at the end stays"),
    ("target-empty-query", "/a?", "an empty query is a query"),
    ("target-question", "/a?b?c=/d//../e", "a query may hold anything that a path may"),
    ("target-root", "/", "the root is a path"),
];

/// The same for what others refuse for safety's sake, and for what no URI may hold, though some do: it is not sopan's to
/// mend.
const KEPT_ODD: [(&str, &[u8], &str); 7] = [
    ("target-dots", b"/a/./b/../c", "dot segments stay"),
    ("target-coded-dots", b"/%2e%2e/x", "and so do coded ones"),
    ("target-coded-null", b"/a%00b", "a coded NUL is three characters"),
    ("target-bar", b"/a|b", "a bar goes on"),
    ("target-brackets", b"/[x]", "brackets go on"),
    ("target-raw-utf8", b"/caf\xc3\xa9?q=\xc3\xa9", "raw UTF-8 goes on byte for byte"),
    ("target-bad-code", b"/100%/x%zz", "a percent that codes nothing goes on"),
];

fn case(id: &'static str, section: &'static str, claim: &'static str) -> Case {
    Case::new(id, Group::Forwarding, section, claim)
}

pub(super) fn cases() -> Vec<Case> {
    let asked = |case: Case, target: &[u8]| {
        let request = [b"GET ", target, b" HTTP/1.1\r\nHost: {host}\r\n\r\n"].concat();
        case.send(request).answer(&[200]).arrive(1).target(target)
    };
    let kept = KEPT.iter().map(|(id, target, claim)| asked(case(id, "9110 §7.7", claim), target.as_bytes()));
    let odd = KEPT_ODD.iter().map(|(id, target, claim)| asked(case(id, "9112 §3.2", claim).choice(), target));
    kept.chain(odd).chain(absolute()).chain(refused()).collect()
}

fn absolute() -> Vec<Case> {
    let line = |id, target: &str, claim| {
        case(id, "9112 §3.2.2", claim).send(format!("GET {target} HTTP/1.1\r\nHost: {{host}}\r\n\r\n"))
    };
    vec![
        line("absolute-form", "http://{host}{path}?q", "an absolute target with the same host is accepted")
            .answer(&[200])
            .arrive(1)
            .target("{path}?q"),
        line("absolute-upper-scheme", "HTTP://{host}{path}", "a scheme has no case")
            .answer(&[200])
            .arrive(1)
            .target("{path}"),
        line("absolute-no-path", "http://{host}", "one without a path asks for the root")
            .answer(&[200])
            .arrive(1)
            .target("/"),
        line("absolute-mismatch", "http://other.example{path}", "one that Host contradicts is refused")
            .choice()
            .refused(&[400])
            .arrive(0),
        line("absolute-userinfo", "http://user:pass@{host}{path}", "one with a user's name and password is refused")
            .choice()
            .refused(&[400])
            .arrive(0),
        line("absolute-no-host", "http://{path}", "one without a host is refused").refused(&[400]).arrive(0),
        line("absolute-other-scheme", "ftp://{host}{path}", "one of another scheme is refused")
            .choice()
            .refused(&[400])
            .arrive(0),
    ]
}

fn refused() -> Vec<Case> {
    let bad = |id, line: &[u8], claim| {
        let request = [line, b"\r\nHost: {host}\r\n\r\n"].concat();
        case(id, "9112 §3.2", claim).send(request).refused(&[400]).arrive(0)
    };
    vec![
        case(
            "target-quotes",
            "9112 §3.2",
            "what else is printed and belongs into no URI goes on as it is, or is refused",
        )
        .choice()
        .send("GET /a\"b<c>^`{d}\\e HTTP/1.1\r\nHost: {host}\r\n\r\n")
        .answer(&[200, 400])
        .target("/a\"b<c>^`{d}\\e"),
        bad("target-fragment", b"GET {path}#a HTTP/1.1", "a fragment is never sent, so it is refused").choice(),
        bad("target-space", b"GET {path} b HTTP/1.1", "a space in a target is refused"),
        bad("target-tab", b"GET {path}\tb HTTP/1.1", "a tab in a target is refused"),
        bad("target-nul", b"GET {path}\0b HTTP/1.1", "a NUL in a target is refused"),
        bad("target-control", b"GET {path}\x01b HTTP/1.1", "a control character in a target is refused"),
        bad("target-delete", b"GET {path}\x7fb HTTP/1.1", "so is DEL"),
        bad("target-authority", b"GET {host} HTTP/1.1", "an authority is a target for CONNECT only"),
        bad("target-star", b"GET * HTTP/1.1", "an asterisk is a target for OPTIONS only").choice(),
        bad("target-no-slash", b"GET path HTTP/1.1", "a path begins with a slash"),
        bad("target-empty", b"GET  HTTP/1.1", "a target is not empty"),
    ]
}
