//! Where a request ends. Whatever could be read in two ways is refused, and its connection with it.

use super::super::case::{Case, Group};
use crate::script::Answer;

fn case(id: &'static str, section: &'static str, claim: &'static str) -> Case {
    Case::new(id, Group::RequestFraming, section, claim)
}

/// These field lines, each with its CRLF, and this body, which are refused.
fn bad(id: &'static str, section: &'static str, fields: &[u8], body: &str, claim: &'static str) -> Case {
    let head = [b"POST {path} HTTP/1.1\r\nHost: {host}\r\n", fields, b"\r\n", body.as_bytes()].concat();
    case(id, section, claim).send(head).refused(&[400]).arrive(0)
}

pub(super) fn cases() -> Vec<Case> {
    [both(), lengths(), codings(), chunks(), good_chunks(), trailers(), ends()].concat()
}

/// What hides in a body for a reader who counts differently.
const SMUGGLED: &str =
    "23\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n\r\n0\r\n\r\nGET /next HTTP/1.1\r\nHost: {host}\r\n\r\n";

fn both() -> Vec<Case> {
    let both = |id, fields: &str, claim| bad(id, "9112 §6.3", fields.as_bytes(), SMUGGLED, claim).choice();
    vec![
        // px-4
        both("cl-te", "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", "a length and then chunks"),
        both("te-cl", "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", "chunks and then a length"),
        both("cl-te-6", "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "a length that is not the chunks'"),
        case("te-old", "9112 §6.1", "chunks in HTTP/1.0")
            .choice()
            .send("POST {path} HTTP/1.0\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
            .refused(&[400])
            .arrive(0),
        case("te-old-keep-alive", "9112 §6.1", "chunks in HTTP/1.0 with a length and something behind")
            .choice()
            .send(format!(
                "POST {{path}} HTTP/1.0\r\nHost: {{host}}\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\
                Transfer-Encoding: chunked\r\n\r\n{SMUGGLED}"
            ))
            .refused(&[400])
            .arrive(0),
    ]
}

fn lengths() -> Vec<Case> {
    let length = |id, value: &[u8], claim| {
        bad(id, "9112 §6.3", &[b"Content-Length: ", value, b"\r\n"].concat(), "01234567890123456789", claim)
    };
    vec![
        length("length-twice", b"5\r\nContent-Length: 5", "two lengths, though equal").choice(),
        length("length-list", b"5, 5", "a list of equal lengths").choice(),
        length("length-conflict", b"5\r\nX-A: 1\r\nContent-Length: 6", "two that differ"),
        length("length-conflict-zero", b"0\r\nContent-Length: 5", "two of which the first is zero"),
        length("length-conflict-list", b"5, 6", "a list that differs"),
        length("length-plus", b"+5", "a plus before it"),
        length("length-minus", b"-5", "a minus before it"),
        length("length-hex", b"0x5", "a length in hexadecimal"),
        length("length-letters", b"5a", "letters behind it"),
        length("length-inner-space", b"1 5", "a space within it"),
        length("length-fraction", b"5.0", "a fraction"),
        length("length-exponent", b"1e1", "an exponent"),
        length("length-empty", b"", "an empty one"),
        length("length-comma", b"5,", "a comma behind it").choice(),
        length("length-semicolon", b"5;", "a semicolon behind it"),
        length("length-overflow", b"18446744073709551621", "one of 2^64 + 5"),
        length("length-overflow-long", b"99999999999999999999999999999999999999", "one of 38 digits"),
        length("length-obs-text", b"5\xa0", "a byte above 0x7F behind it"),
        length("length-control", b"\x0b5", "a vertical tab before it"),
        length("length-underscore", b"1_0", "an underscore within it"),
    ]
}

fn codings() -> Vec<Case> {
    let coding = |id, value: &[u8], claim| {
        let fields = [b"Transfer-Encoding:", value, b"\r\n"].concat();
        let request = [b"POST {path} HTTP/1.1\r\nHost: {host}\r\n", &fields[..], b"\r\n0\r\n\r\n"].concat();
        case(id, "9112 §6.1", claim).send(request).refused(&[400, 501]).arrive(0)
    };
    let good = |id, line: &str, claim| {
        case(id, "9112 §6.1", claim)
            .send(format!("POST {{path}} HTTP/1.1\r\nHost: {{host}}\r\n{line}\r\n\r\n4\r\nbody\r\n0\r\n\r\n"))
            .answer(&[200])
            .arrive(1)
            .sent_body("body")
    };
    vec![
        coding("coding-gzip", b" gzip", "a coding other than chunked, which leaves the end open"),
        coding("coding-gzip-chunked", b" gzip, chunked", "a coding that nobody here undoes").choice(),
        coding("coding-chunked-gzip", b" chunked, gzip", "chunked that is not the last"),
        coding("coding-chunked-twice", b" chunked, chunked", "chunked twice in a line"),
        coding("coding-two-lines", b" chunked\r\nTransfer-Encoding: chunked", "chunked twice in two lines"),
        coding("coding-second-hidden", b" chunked\r\nTransfer-Encoding: identity", "chunked and then something else"),
        coding("coding-identity", b" identity", "identity, which is no coding any more"),
        coding("coding-identity-chunked", b" identity, chunked", "identity before chunked").choice(),
        coding("coding-prefix", b" xchunked", "a name that ends like chunked"),
        coding("coding-suffix", b" chunkedx", "a name that begins like chunked"),
        coding("coding-quoted", b" \"chunked\"", "chunked in quotation marks"),
        coding("coding-parameter", b" chunked;q=1", "chunked with a parameter"),
        coding("coding-empty", b"", "no coding at all"),
        coding("coding-list-start", b" ,chunked", "a list that begins with nothing").choice(),
        coding("coding-list-end", b" chunked,", "a list that ends with nothing").choice(),
        coding("coding-vt", b" \x0bchunked", "a vertical tab before it"),
        coding("coding-inner-tab", b" chun\tked", "a tab within it"),
        coding("coding-obs-text", b" chunked\xa0", "a byte above 0x7F behind it"),
        coding("coding-nul", b" chunked\0", "a NUL behind it"),
        coding("coding-line-feed", b"\n chunked", "a line feed before it").choice(),
        good("coding-upper", "Transfer-Encoding: CHUNKED", "chunked in capitals is chunked"),
        good("coding-no-space", "tRANSFER-eNCODING:chunked", "names have no case, and no space is needed"),
        good("coding-tab", "Transfer-Encoding:\tchunked\t", "tabs around it are white space"),
    ]
}

const CHUNKED: &str = "POST {path} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n";

fn chunks() -> Vec<Case> {
    let chunk = |id, body: &[u8], claim| {
        case(id, "9112 §7.1", claim).send([CHUNKED.as_bytes(), body].concat()).refused(&[400]).none_whole()
    };
    let long = format!("4;{}\r\nbody\r\n0\r\n\r\n", "a".repeat(70_000));
    vec![
        chunk("chunk-overflow", b"10000000000000000\r\nbody\r\n0\r\n\r\n", "a size of 2^64"),
        chunk("chunk-overflow-wrap", b"10000000000000004\r\nbody\r\n0\r\n\r\n", "a size that wraps to the right one"),
        chunk("chunk-hex-prefix", b"0x4\r\nbody\r\n0\r\n\r\n", "0x before a size"),
        chunk("chunk-plus", b"+4\r\nbody\r\n0\r\n\r\n", "a plus before a size"),
        chunk("chunk-minus", b"-4\r\nbody\r\n0\r\n\r\n", "a minus before a size"),
        chunk("chunk-empty-size", b"\r\nbody\r\n0\r\n\r\n", "no size"),
        chunk("chunk-only-extension", b";a=b\r\nbody\r\n0\r\n\r\n", "an extension without a size"),
        chunk("chunk-letter", b"4g\r\nbody\r\n0\r\n\r\n", "a letter that is no digit"),
        chunk("chunk-underscore", b"0_4\r\nbody\r\n0\r\n\r\n", "an underscore in a size"),
        chunk("chunk-leading-space", b" 4\r\nbody\r\n0\r\n\r\n", "a space before a size"),
        chunk("chunk-too-long", b"4\r\nbodyx\r\n0\r\n\r\n", "more than the size says"),
        chunk("chunk-too-short", b"5\r\nbody\r\n0\r\n\r\n", "less than the size says"),
        chunk("chunk-no-end", b"4\r\nbody0\r\n\r\n", "no line end behind a chunk"),
        chunk("chunk-lf-size", b"4\nbody\r\n0\r\n\r\n", "a bare LF behind a size"),
        chunk("chunk-lf-end", b"4\r\nbody\n0\r\n\r\n", "a bare LF behind a chunk"),
        chunk("chunk-lf-last", b"4\r\nbody\r\n0\n\n", "bare LFs at the end"),
        chunk("chunk-cr-extension", b"4;a\rb\r\nbody\r\n0\r\n\r\n", "a bare CR in an extension"),
        chunk("chunk-lf-extension", b"4;a\nb\r\nbody\r\n0\r\n\r\n", "a bare LF in an extension"),
        chunk("chunk-nul-extension", b"4;a\0b\r\nbody\r\n0\r\n\r\n", "a NUL in an extension"),
        chunk("chunk-long-extension", long.as_bytes(), "an extension of 70,000 bytes"),
    ]
}

fn good_chunks() -> Vec<Case> {
    let good = |id, body: &str, claim| {
        case(id, "9112 §7.1", claim).send(format!("{CHUNKED}{body}")).answer(&[200]).arrive(1).sent_body("bodybodybo")
    };
    vec![
        good("chunk-upper", "A\r\nbodybodybo\r\n0\r\n\r\n", "a size in capitals"),
        good("chunk-zeros", "000a\r\nbodybodybo\r\n000\r\n\r\n", "zeros before a size"),
        good("chunk-extension", "a;a=b;c=\"d;e\"\r\nbodybodybo\r\n0;f\r\n\r\n", "extensions, which end here")
            .head_holds(b"\r\n\r\n"),
        // Old programs pad it; nobody reads the number in another way for that.
        case("chunk-padded", "9112 §7.1", "a size with a space behind it is the size, or refused")
            .choice()
            .send(format!("{CHUNKED}4 \r\nbody\r\n0\r\n\r\n"))
            .answer_or_refused(&[200, 400])
            .sent_body("body"),
        good("chunk-several", "4\r\nbody\r\n4\r\nbody\r\n2\r\nbo\r\n0\r\n\r\n", "several chunks"),
    ]
}

fn trailers() -> Vec<Case> {
    let bad_trailer = |id, trailer: &[u8], claim| {
        let body = [CHUNKED.as_bytes(), b"4\r\nbody\r\n0\r\n", trailer, b"\r\n"].concat();
        case(id, "9112 §7.1.2", claim).send(body).refused(&[400]).none_whole()
    };
    vec![
        case("trailers-kept", "9112 §7.1.2", "trailers of a request arrive")
            .choice()
            .send(format!("{CHUNKED}4\r\nbody\r\n0\r\nX-Sum: 7\r\n\r\n"))
            .answer(&[200])
            .arrive(1)
            .sent_body("body")
            .sent_trailers(&[("x-sum", "7")]),
        case("trailers-forbidden", "9110 §6.5.1", "what belongs into a head does not come after a body")
            .send(format!(
                "{CHUNKED}4\r\nbody\r\n0\r\nContent-Length: 99\r\nHost: other.example\r\nAuthorization: b\r\n\
                Transfer-Encoding: gzip\r\n\r\n"
            ))
            .answer_or_refused(&[200])
            .sent_body("body")
            .sent_trailers(&[]),
        bad_trailer("trailer-no-colon", b"X-Sum\r\n", "a trailer without a colon"),
        bad_trailer("trailer-space-colon", b"X-Sum : 7\r\n", "white space between its name and the colon"),
        bad_trailer("trailer-fold", b"X-Sum: 7\r\n 8\r\n", "a folded trailer").choice(),
        bad_trailer("trailer-lf", b"X-Sum: 7\nX-B: 1\r\n", "a bare LF behind a trailer").choice(),
        bad_trailer("trailer-nul", b"X-Sum: \x007\r\n", "a NUL in a trailer"),
        bad_trailer("trailer-cr", b"X-Sum: 7\r8\r\n", "a bare CR in a trailer"),
    ]
}

fn ends() -> Vec<Case> {
    vec![
        case("body-then-request", "9112 §6.3", "what follows a body is the next request")
            .send("POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 4\r\n\r\nbodyGET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
            .answer(&[200])
            .answer(&[200])
            .arrive(2)
            .request(0)
            .sent_body("body")
            .request(1)
            .method("GET"),
        case("request-then-garbage", "9112 §6.3", "garbage behind a request is refused after its answer")
            .send("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\nGARBAGE\r\n\r\n")
            .answer(&[200])
            .refused(&[400])
            .arrive(1),
        case("no-length-no-body", "9112 §6.3", "a POST without framing has no body")
            .send("POST {path} HTTP/1.1\r\nHost: {host}\r\n\r\nGET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
            .answer(&[200])
            .answer(&[200])
            .arrive(2)
            .request(0)
            .sent_body(""),
        case("body-cut", "9112 §8", "a body that breaks off is never taken for whole")
            .upstream(Answer::nothing().hang())
            .send("POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 10\r\n\r\nbody")
            .pause()
            .finish()
            .not_served()
            .none_whole(),
        case("chunks-cut", "9112 §8", "neither are chunks that do")
            .upstream(Answer::nothing().hang())
            .send(format!("{CHUNKED}4\r\nbody\r\n"))
            .pause()
            .finish()
            .not_served()
            .none_whole(),
    ]
}
