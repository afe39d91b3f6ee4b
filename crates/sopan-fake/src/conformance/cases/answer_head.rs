//! Heads of answers that are no HTTP: the client gets 502, and the connection is not used again.

use super::super::case::{Case, Group};
use crate::script::Answer;

fn case(id: &'static str, section: &'static str, claim: &'static str) -> Case {
    Case::new(id, Group::AnswerHead, section, claim)
}

/// These bytes for an answer, of which the client learns only that it was bad; the next request has its own answer.
fn bad(id: &'static str, section: &'static str, answer: &[u8], claim: &'static str) -> Case {
    case(id, section, claim)
        .upstream(Answer::raw(answer.to_vec()))
        .upstream(Answer::status(200).body("next"))
        .get("")
        .bad_gateway()
        .reconnect()
        .get("")
        .answer(&[200])
        .body("next")
        .apart()
}

pub(super) fn cases() -> Vec<Case> {
    [status_lines(), fields(), good()].concat()
}

fn status_lines() -> Vec<Case> {
    let line = |id, line: &str, claim| {
        let answer = format!("{line}\r\nContent-Length: 2\r\n\r\nok");
        bad(id, "9112 §4", answer.as_bytes(), claim)
    };
    // A GET might be sent again, since its connection may just have been closed as it was used once more.
    let lost = |id, answer, claim| {
        let request = "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n";
        case(id, "9112 §8", claim).upstream(answer).send(request).bad_gateway().arrive(1)
    };
    vec![
        line("status-garbage", "hello", "a line that is no status line"),
        line("status-other-protocol", "ICY 200 OK", "another protocol's name"),
        line("status-http-2", "HTTP/2 200", "a version that is not spoken here"),
        line("status-http-2-0", "HTTP/2.0 200 OK", "nor is this"),
        line("status-glued", "HTTP/1.1200 OK", "no space before the status"),
        line("status-two-spaces", "HTTP/1.1  200 OK", "two spaces there").choice(),
        line("status-99", "HTTP/1.1 99 Low", "a status of two digits"),
        line("status-099", "HTTP/1.1 099 Low", "a status below 100"),
        line("status-1000", "HTTP/1.1 1000 High", "a status of four digits"),
        line("status-letters", "HTTP/1.1 abc OK", "a status of letters"),
        line("status-signed", "HTTP/1.1 +20 OK", "a status with a sign"),
        line("status-none", "HTTP/1.1", "no status"),
        line("status-nul", "HTTP/1.1 200 O\0K", "a NUL in the reason").choice(),
        line("status-cr", "HTTP/1.1 200 O\rK", "a bare CR in the reason").choice(),
        lost("status-empty", Answer::nothing().close(), "nothing at all"),
        lost("status-cut", Answer::raw("HTTP/1.1 200 OK\r\nContent-Le").close(), "a head that breaks off"),
        lost("status-reset", Answer::raw("HTTP/1.1 200 OK\r\n").reset(), "a connection that is reset in the head"),
    ]
}

fn fields() -> Vec<Case> {
    let field = |id, section, line: &[u8], claim| {
        bad(
            id,
            section,
            &[b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", line, b"\r\nX-Last: 1\r\n\r\nok"].concat(),
            claim,
        )
    };
    let large = format!("X-Large: {}", "a".repeat(70_000));
    let many: String = (0..120).map(|at| format!("X-{at}: 1\r\n")).collect();
    vec![
        field("answer-nul", "9110 §5.5", b"X-A: 1\x002", "a NUL in a value").choice(),
        field("answer-cr", "9112 §2.2", b"X-A: 1\r2", "a bare CR in a value").choice(),
        field("answer-control", "9110 §5.5", b"X-A: 1\x012", "a control character in a value").choice(),
        field("answer-lf", "9112 §2.2", b"X-A: 1\nX-B: 2", "a bare LF at the end of a line").choice(),
        field("answer-fold", "9112 §5.2", b"X-A: 1\r\n 2", "a folded line").choice(),
        field("answer-space-colon", "9112 §5.1", b"X-A : 1", "white space between name and colon").choice(),
        field("answer-name-empty", "9110 §5.1", b": 1", "an empty name").choice(),
        field("answer-no-colon", "9112 §5", b"X-A", "a line without a colon").choice(),
        field("answer-name-space", "9110 §5.6.2", b"X A: 1", "a space in a name").choice(),
        field("answer-name-obs-text", "9110 §5.6.2", b"X-\xe9: 1", "a byte above 0x7F in a name").choice(),
        field("answer-large", "9110 §5.4", large.as_bytes(), "a head of more than 64 KiB").policy(),
        field("answer-many-fields", "9110 §5.4", many.trim_end().as_bytes(), "more than 100 fields").policy(),
        bad("answer-lf-head", "9112 §2.2", b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "lines that end in bare LF")
            .choice(),
        bad(
            "answer-unasked-101",
            "9110 §15.2.2",
            b"HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            "101 unasked",
        ),
    ]
}

fn good() -> Vec<Case> {
    vec![
        case("reason-empty", "9112 §4", "a reason may be empty")
            .upstream(Answer::raw("HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok"))
            .get("")
            .answer(&[200])
            .body("ok"),
        case("reason-obs-text", "9112 §4", "a reason may hold bytes above 0x7F")
            .upstream(Answer::raw(&b"HTTP/1.1 200 \xc3\xa9t\xc3\xa9\r\nContent-Length: 2\r\n\r\nok"[..]))
            .get("")
            .answer(&[200])
            .body("ok"),
    ]
}
