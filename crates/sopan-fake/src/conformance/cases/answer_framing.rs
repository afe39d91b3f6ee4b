//! Where an answer ends. One that nobody can tell the end of is 502; one that breaks later is seen to break.

use std::time::Duration;

use super::super::case::{Case, Group};
use crate::script::Answer;

fn case(id: &'static str, section: &'static str, claim: &'static str) -> Case {
    Case::new(id, Group::AnswerFraming, section, claim)
}

/// Answers with these bytes, and then as it should.
fn answering(id: &'static str, section: &'static str, answer: Answer, claim: &'static str) -> Case {
    case(id, section, claim).upstream(answer).upstream(Answer::status(200).body("next")).get("")
}

/// Another request gets its own answer, on another connection.
fn then_apart(case: Case) -> Case {
    case.until_done(1).reconnect().get("").answer(&[200]).body("next").apart()
}

pub(super) fn cases() -> Vec<Case> {
    [lengths(), codings(), chunks(), ends(), strays(), good()].concat()
}

fn bad(id: &'static str, fields: &str, claim: &'static str) -> Case {
    let answer = Answer::raw(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\nok"));
    then_apart(answering(id, "9112 §6.3", answer, claim).bad_gateway())
}

fn lengths() -> Vec<Case> {
    vec![
        bad("answer-length-word", "Content-Length: two", "a length that is a word"),
        bad("answer-length-plus", "Content-Length: +2", "a plus before it"),
        bad("answer-length-minus", "Content-Length: -2", "a minus before it"),
        bad("answer-length-hex", "Content-Length: 0x2", "a length in hexadecimal"),
        bad("answer-length-space", "Content-Length: 2 2", "a space within it"),
        bad("answer-length-empty", "Content-Length:", "an empty one"),
        bad("answer-length-overflow", "Content-Length: 18446744073709551618", "one of 2^64 + 2"),
        bad("answer-length-conflict", "Content-Length: 2\r\nContent-Length: 3", "two that differ"),
        bad("answer-length-list", "Content-Length: 2, 3", "a list that differs"),
        bad("answer-length-conflict-zero", "Content-Length: 0\r\nContent-Length: 2", "two of which the first is zero"),
        // One number may be made of two equal ones (RFC 9112 §6.3); both may not be passed on.
        answering(
            "answer-length-twice",
            "9112 §6.3",
            Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok"),
            "two equal lengths are one or none, never two",
        )
        .answer(&[200, 502]),
    ]
}

fn codings() -> Vec<Case> {
    let chunked = "0\r\n\r\n";
    let both = |id, fields: &str, claim| {
        let answer = Answer::raw(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n2\r\nok\r\n{chunked}"));
        then_apart(answering(id, "9112 §6.3", answer, claim).answer(&[200, 502]).gives("Content-Length", &[]))
    };
    let coding = |id, fields: &str, claim| {
        let answer = Answer::raw(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n2\r\nok\r\n{chunked}")).close();
        then_apart(answering(id, "9112 §6.1", answer, claim).choice().bad_gateway())
    };
    vec![
        both(
            "answer-te-cl",
            "Transfer-Encoding: chunked\r\nContent-Length: 2",
            "chunks and a length are not both passed on",
        ),
        both("answer-cl-te", "Content-Length: 9\r\nTransfer-Encoding: chunked", "in neither order"),
        coding("answer-coding-gzip", "Transfer-Encoding: gzip", "a coding that nobody asked for"),
        coding("answer-coding-gzip-chunked", "Transfer-Encoding: gzip, chunked", "the same before chunked"),
        coding("answer-coding-chunked-gzip", "Transfer-Encoding: chunked, gzip", "chunked that is not the last"),
        coding("answer-coding-twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "chunked twice"),
        coding("answer-coding-identity", "Transfer-Encoding: identity", "identity, which is no coding any more"),
        coding("answer-coding-prefix", "Transfer-Encoding: xchunked", "a name that ends like chunked"),
        then_apart(
            answering(
                "answer-coding-old",
                "9112 §6.1",
                Answer::raw("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n").close(),
                "chunks in HTTP/1.0",
            )
            .choice()
            .bad_gateway(),
        ),
    ]
}

fn chunks() -> Vec<Case> {
    let chunk = |id, body: &[u8], claim| {
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n";
        let answer = Answer::raw([&head[..], body].concat());
        then_apart(answering(id, "9112 §7.1", answer, claim).broken())
    };
    let long = format!("2;{}\r\nok\r\n0\r\n\r\n", "a".repeat(70_000));
    vec![
        chunk("answer-chunk-word", b"zz\r\nok\r\n0\r\n\r\n", "a size that is no number"),
        chunk("answer-chunk-plus", b"+2\r\nok\r\n0\r\n\r\n", "a plus before a size"),
        chunk("answer-chunk-minus", b"-2\r\nok\r\n0\r\n\r\n", "a minus before a size"),
        chunk("answer-chunk-hex-prefix", b"0x2\r\nok\r\n0\r\n\r\n", "0x before a size"),
        chunk("answer-chunk-empty", b"\r\nok\r\n0\r\n\r\n", "no size"),
        chunk("answer-chunk-overflow", b"10000000000000002\r\nok\r\n0\r\n\r\n", "a size beyond 2^64"),
        chunk("answer-chunk-no-end", b"2\r\nok0\r\n\r\n", "no line end behind a chunk"),
        chunk("answer-chunk-too-long", b"2\r\nokay\r\n0\r\n\r\n", "more than the size says"),
        chunk("answer-chunk-lf-size", b"2\nok\r\n0\r\n\r\n", "a bare LF behind a size"),
        chunk("answer-chunk-lf-end", b"2\r\nok\n0\r\n\r\n", "a bare LF behind a chunk"),
        chunk("answer-chunk-nul", b"2;a\0\r\nok\r\n0\r\n\r\n", "a NUL in an extension"),
        chunk("answer-chunk-long-extension", long.as_bytes(), "an extension of 70,000 bytes").choice(),
        chunk("answer-trailer-no-colon", b"0\r\nX-Sum\r\n\r\n", "a trailer without a colon").choice(),
        chunk("answer-trailer-fold", b"0\r\nX-Sum: 7\r\n 8\r\n\r\n", "a folded trailer").choice(),
    ]
}

/// Answers that stop before their end.
fn ends() -> Vec<Case> {
    let cut = |id, answer: Answer, claim| then_apart(answering(id, "9112 §8", answer, claim).broken());
    vec![
        cut(
            "answer-short",
            Answer::status(200).header("Content-Length", "10").body("ok").close(),
            "less than the length says",
        ),
        cut(
            "answer-short-reset",
            Answer::status(200).header("Content-Length", "10").body("ok").reset(),
            "a reset before the length is full",
        ),
        cut("answer-chunks-short", Answer::chunked(200).chunk("ok").close(), "chunks without the last one"),
        cut("answer-chunk-cut", Answer::chunked(200).send("5\r\nok").close(), "a chunk that breaks off"),
        cut(
            "answer-trailers-cut",
            Answer::chunked(200).chunk("ok").send("0\r\nX-Sum: 7\r\n").close(),
            "trailers that do",
        ),
        cut(
            "answer-reset-to-the-end",
            Answer::raw("HTTP/1.1 200 OK\r\n\r\nok").reset(),
            "a reset where the end was to tell",
        ),
    ]
}

/// Bytes that belong to no answer never become the next one.
fn strays() -> Vec<Case> {
    const EVIL: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    let stray = |id, head: &str, statuses, claim| {
        let case = answering(id, "9112 §6.3", Answer::raw(format!("{head}{EVIL}")), claim).answer(statuses);
        case.until_done(1).pause().get("").answer(&[200]).body("next").apart_to_be_sure()
    };
    vec![
        stray("stray-after-length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", &[200], "bytes behind a body"),
        stray(
            "stray-after-chunks",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            &[200],
            "bytes behind the last chunk",
        ),
        stray("stray-after-204", "HTTP/1.1 204 No Content\r\n\r\n", &[204], "bytes behind a 204"),
        stray(
            "stray-after-304",
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n",
            &[304],
            "bytes behind a 304",
        ),
        stray(
            "stray-after-empty",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            &[200],
            "bytes behind an empty body",
        ),
        case("stray-after-head", "9112 §6.3", "a body after HEAD")
            .upstream(Answer::raw(format!("HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{EVIL}")))
            .upstream(Answer::status(200).body("next"))
            .send("HEAD {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
            .head_answer(&[200])
            .until_done(1)
            .pause()
            .get("")
            .answer(&[200])
            .body("next")
            .apart_to_be_sure(),
        case("stray-while-idle", "9112 §9.2", "bytes that come unasked while a connection rests")
            .upstream(Answer::status(200).body("ok").sleep(Duration::from_millis(50)).send(EVIL))
            .upstream(Answer::status(200).body("next"))
            .get("")
            .answer(&[200])
            .until_done(1)
            .pause()
            .get("")
            .answer(&[200])
            .body("next")
            .apart_to_be_sure(),
    ]
}

fn good() -> Vec<Case> {
    vec![
        answering(
            "answer-to-the-end",
            "9112 §6.3",
            Answer::raw("HTTP/1.1 200 OK\r\n\r\nbody").close(),
            "a body that ends with its connection is whole",
        )
        .answer(&[200])
        .body("body"),
        answering(
            "answer-trailers",
            "9112 §7.1.2",
            Answer::chunked(200).chunk("ok").send("0\r\nX-Sum: 7\r\n\r\n"),
            "trailers of an answer are passed on",
        )
        .choice()
        .answer(&[200])
        .body("ok")
        .trailers(&[("x-sum", "7")]),
        answering(
            "answer-trailers-forbidden",
            "9110 §6.5.1",
            Answer::chunked(200).chunk("ok").send("0\r\nContent-Length: 99\r\nSet-Cookie: a=1\r\n\r\n"),
            "what belongs into a head does not come after a body",
        )
        .answer(&[200])
        .body("ok")
        .trailers(&[]),
        case("early-answer", "9112 §9.3", "an answer that comes before the upload is over reaches the client")
            .choice()
            .upstream(Answer::status(413).header("Connection", "close").body("no").early())
            .send("POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9000000\r\n\r\nbeginning")
            .answer(&[413])
            .body("no"),
    ]
}
