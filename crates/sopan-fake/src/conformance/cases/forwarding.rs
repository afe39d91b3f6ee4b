//! What is passed on and what is not.

use super::super::case::{Case, Group};
use crate::script::Answer;

fn case(id: &'static str, section: &'static str, claim: &'static str) -> Case {
    Case::new(id, Group::Forwarding, section, claim)
}

pub(super) fn cases() -> Vec<Case> {
    [hop_by_hop(), identity(), fields(), links(), methods(), bodies(), versions()].concat()
}

fn hop_by_hop() -> Vec<Case> {
    let hop = "Connection: keep-alive, X-Hop\r\nConnection: x-other\r\nX-Hop: secret\r\nX-OTHER: secret2\r\n\
        X-End: keep\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nTE: gzip\r\n";
    let back = "HTTP/1.1 200 OK\r\nConnection: X-Back\r\nX-Back: 1\r\nX-End: keep\r\nContent-Length: 0\r\n\r\n";
    vec![
        // px-1
        case("hop-request", "9110 §7.6.1", "what belongs to the hop, or is named by any Connection line, stays behind")
            .get(hop)
            .answer(&[200])
            .arrive(1)
            .lacks(&["X-Hop", "X-Other", "Keep-Alive", "Proxy-Connection", "TE"])
            .has("X-End", &["keep"]),
        case("hop-answer", "9110 §7.6.1", "a field of the answer that Connection names stays behind")
            .upstream(Answer::raw(back))
            .get("")
            .answer(&[200])
            .gives("X-Back", &[])
            .gives("X-End", &[b"keep"]),
        case("hop-answer-fields", "9110 §7.6.1", "Keep-Alive and Proxy-Connection of the upstream stay behind")
            .choice()
            .upstream(Answer::status(200).header("Keep-Alive", "timeout=9").header("Proxy-Connection", "keep-alive"))
            .get("")
            .answer(&[200])
            .gives("Keep-Alive", &[])
            .gives("Proxy-Connection", &[]),
        case(
            "hop-credentials",
            "9110 §11.7",
            "what a client and its proxy know each other by is not told to the vendor",
        )
        .policy()
        .upstream(Answer::status(200).header("Proxy-Authenticate", "Basic"))
        .get("Proxy-Authorization: Basic Zm9vOmJhcg==\r\n")
        .answer(&[200])
        .gives("Proxy-Authenticate", &[])
        .arrive(1)
        .lacks(&["Proxy-Authorization"]),
        case("hop-names-host", "9110 §7.6.1", "Connection cannot take Host away")
            .get("Connection: host\r\n")
            .answer(&[200])
            .arrive(1)
            .has_some("Host"),
        case("hop-names-length", "9110 §7.6.1", "Connection cannot take the framing away")
            .send("POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: content-length\r\nContent-Length: 4\r\n\r\nbody")
            .answer(&[200])
            .arrive(1)
            .sent_body("body"),
        case("hop-names-cache-control", "9110 §7.6.1", "Connection cannot take Cache-Control away")
            .choice()
            .get("Connection: cache-control\r\nCache-Control: no-store\r\n")
            .answer(&[200])
            .arrive(1)
            .has("Cache-Control", &["no-store"]),
    ]
}

/// Who sends, for whom, and by way of whom.
fn identity() -> Vec<Case> {
    let told = "Forwarded: for=10.0.0.1\r\nX-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Host: inner\r\n\
        X-Forwarded-Proto: https\r\nX-Real-IP: 10.0.0.1\r\n";
    let seen: String = "Via: 1.1 sopan, 1.1 sopan, 1.1 sopan\r\n".repeat(3);
    vec![
        case("host-is-the-upstreams", "9110 §7.2", "the upstream is asked by its own name")
            .policy()
            .get("")
            .answer(&[200])
            .arrive(1)
            .has("Host", &["{upstream}"]),
        case("via-request", "9110 §7.6.3", "a request passed on has a Via")
            .get("")
            .answer(&[200])
            .arrive(1)
            .has_some("Via"),
        case("via-appended", "9110 §7.6.3", "sopan appends itself to the Via of a request")
            .policy()
            .get("Via: 1.0 fred, 1.1 p.example\r\n")
            .answer(&[200])
            .arrive(1)
            .has("Via", &["1.0 fred, 1.1 p.example", "1.1 sopan"]),
        case("via-old-client", "9110 §7.6.3", "Via names the version in which the request was received")
            .policy()
            .send("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n")
            .answer(&[200])
            .arrive(1)
            .has("Via", &["1.0 sopan"]),
        case("via-answer", "9110 §7.6.3", "sopan appends itself to the Via of an answer")
            .policy()
            .upstream(Answer::status(200).header("Via", "1.1 cdn"))
            .get("")
            .answer(&[200])
            .gives("Via", &[b"1.1 cdn", b"1.1 sopan"]),
        case("via-loop", "9110 §7.6.3", "a request that went through sopan again and again is ended")
            .policy()
            .get(&seen)
            .refused_openly(&[502])
            .arrive(0),
        case("forwarded-off", "7239 §8", "nothing tells the vendor of the client, not even what the client sent")
            .policy()
            .get(told)
            .answer(&[200])
            .arrive(1)
            .lacks(&["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP"]),
    ]
}

fn fields() -> Vec<Case> {
    let cookies = [&b"a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT; Path=/"[..], b"b=2; HttpOnly"];
    let two = "HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT; Path=/\r\n\
        Content-Length: 0\r\nSet-Cookie: b=2; HttpOnly\r\n\r\n";
    vec![
        case("set-cookie", "9110 §5.3", "two Set-Cookie lines stay two, in order")
            .upstream(Answer::raw(two))
            .get("")
            .answer(&[200])
            .gives("Set-Cookie", &cookies),
        case("repeated-request", "9110 §5.3", "repeated fields keep their lines and their order")
            .choice()
            .get("X-A: 1\r\nX-B: 2\r\nx-a: 3\r\nX-A: 2, 1\r\n")
            .answer(&[200])
            .arrive(1)
            .has("X-A", &["1", "3", "2, 1"]),
        case("repeated-answer", "9110 §5.3", "so do those of an answer")
            .choice()
            .upstream(Answer::status(200).header("Warning", "1").header("X-B", "2").header("warning", "3"))
            .get("")
            .answer(&[200])
            .gives("Warning", &[b"1", b"3"]),
        case("obs-text-request", "9110 §5.5", "bytes above 0x7F in a value arrive as they are")
            .send(&b"GET {path} HTTP/1.1\r\nHost: {host}\r\nX-Name: J\xf6rg \xff\r\n\r\n"[..])
            .answer(&[200])
            .arrive(1)
            .head_holds(b": J\xf6rg \xff\r\n"),
        case("obs-text-answer", "9110 §5.5", "so do those of an answer")
            .upstream(Answer::raw(&b"HTTP/1.1 200 OK\r\nX-Name: J\xf6rg \xff\r\nContent-Length: 0\r\n\r\n"[..]))
            .get("")
            .answer(&[200])
            .gives("X-Name", &[b"J\xf6rg \xff"]),
        case("empty-value", "9110 §5.5", "an empty value is a value")
            .get("X-Empty:\r\n")
            .answer(&[200])
            .arrive(1)
            .has("X-Empty", &[""]),
        case("inner-space", "9110 §5.5", "white space around a value is not part of it, within it is")
            .get("X-A: \t a \t b \t \r\n")
            .answer(&[200])
            .arrive(1)
            .has("X-A", &["a \t b"]),
        case("underscore-kept", "9110 §5.1", "an underscore in a name means nothing and is passed on")
            .choice()
            .get("my_field: 1\r\n")
            .answer(&[200])
            .arrive(1)
            .has("my_field", &["1"]),
        case("credentials-kept", "9110 §11.6.2", "Authorization and Cookie are the upstream's and arrive")
            .get("Authorization: Bearer a.b\r\nCookie: a=1; b=2\r\n")
            .answer(&[200])
            .arrive(1)
            .has("Authorization", &["Bearer a.b"])
            .has("Cookie", &["a=1; b=2"]),
        case("no-coding-added", "9110 §12.5.3", "no Accept-Encoding is added")
            .choice()
            .get("")
            .answer(&[200])
            .arrive(1)
            .lacks(&["Accept-Encoding"]),
        case("coded-body", "9110 §8.4", "a coded body, its length and its ETag pass unchanged")
            .upstream(
                Answer::status(200)
                    .header("Content-Encoding", "gzip")
                    .header("ETag", "\"g\"")
                    .body(&b"\x1f\x8b\x08\x00not really"[..]),
            )
            .get("Accept-Encoding: gzip\r\n")
            .answer(&[200])
            .body(&b"\x1f\x8b\x08\x00not really"[..])
            .gives("Content-Encoding", &[b"gzip"])
            .gives("ETag", &[b"\"g\""])
            .gives("Content-Length", &[b"14"])
            .arrive(1)
            .has("Accept-Encoding", &["gzip"]),
        case("redirect", "9110 §15.4", "a redirect is passed on and not followed")
            .upstream(Answer::status(302).header("Location", "https://other.example/x?y#z"))
            .get("")
            .answer(&[302])
            .gives("Location", &[b"https://other.example/x?y#z"])
            .arrive(1),
        case("unknown-status", "9110 §15", "a status that nobody knows is passed on")
            .upstream(Answer::status(299).body("x"))
            .get("")
            .answer(&[299])
            .body("x"),
    ]
}

fn links() -> Vec<Case> {
    let link = "<http://{upstream}/o?page=2>; rel=\"next\", <https://other.example/>; rel=\"help\"";
    vec![
        case("links-location", "9110 §10.2.2", "a Location at the upstream is where the client finds it")
            .policy()
            .upstream(Answer::status(302).header("Location", "http://{upstream}/orders?page=2#a"))
            .get("")
            .answer(&[302])
            .gives("Location", &[b"http://{host}/orders?page=2#a"]),
        case("links-content-location", "9110 §8.7", "so is a Content-Location")
            .policy()
            .upstream(Answer::status(200).header("Content-Location", "http://{upstream}/orders/7"))
            .get("")
            .answer(&[200])
            .gives("Content-Location", &[b"http://{host}/orders/7"]),
        case("links-link", "8288 §3", "so is every Link, and links elsewhere stay")
            .policy()
            .upstream(Answer::status(200).header("Link", link))
            .get("")
            .answer(&[200])
            .gives("Link", &[b"<http://{host}/o?page=2>; rel=\"next\", <https://other.example/>; rel=\"help\""]),
        case("links-relative", "9110 §10.2.2", "a relative reference stays as it is")
            .upstream(Answer::status(302).header("Location", "../x?y=/z"))
            .get("")
            .answer(&[302])
            .gives("Location", &[b"../x?y=/z"]),
    ]
}

fn methods() -> Vec<Case> {
    let method = |id, method: &'static str, claim| {
        case(id, "9110 §9.1", claim)
            .choice()
            .send(format!("{method} {{path}} HTTP/1.1\r\nHost: {{host}}\r\n\r\n"))
            .answer(&[200])
            .arrive(1)
            .method(method)
    };
    let max_forwards = |id, line: &str, claim| {
        case(id, "9110 §7.6.2", claim).send(format!("{line} {{path}} HTTP/1.1\r\nHost: {{host}}\r\nMax-Forwards: "))
    };
    vec![
        method("method-webdav", "PROPFIND", "a registered method is passed on"),
        method("method-unknown", "PURGE-ALL", "a method that nobody knows is passed on"),
        method("method-lower-case", "get", "a method is a name with case, and get is not GET"),
        method("method-any-token", "!#$%&'*+-.^_`|~0aZ", "every token is a method"),
        case("options-star", "9110 §9.3.7", "OPTIONS * asks for the server and not for a path")
            .choice()
            .send("OPTIONS * HTTP/1.1\r\nHost: {host}\r\n\r\n")
            .answer(&[200])
            .arrive(1)
            .target("*"),
        max_forwards("max-forwards-0", "OPTIONS", "OPTIONS that may not be passed on is answered here")
            .send("0\r\n\r\n")
            .answer(&[200, 204])
            .arrive(0),
        max_forwards("max-forwards-1", "OPTIONS", "OPTIONS that may be passed on once more says so")
            .send("1\r\n\r\n")
            .answer(&[200])
            .arrive(1)
            .has("Max-Forwards", &["0"]),
        max_forwards("max-forwards-get", "GET", "other methods take no notice of Max-Forwards")
            .choice()
            .send("0\r\n\r\n")
            .answer(&[200])
            .arrive(1)
            .has("Max-Forwards", &["0"]),
        max_forwards("max-forwards-trace", "TRACE", "TRACE that may not be passed on ends here")
            .policy()
            .send("0\r\n\r\n")
            .answer(&[200])
            .gives("Content-Type", &[b"message/http"])
            .arrive(0),
    ]
}

fn bodies() -> Vec<Case> {
    let with_body = |id, line: &str, fields: &str, claim| {
        case(id, "9110 §9.3.1", claim)
            .send(format!("{line} {{path}} HTTP/1.1\r\nHost: {{host}}\r\n{fields}"))
            .answer(&[200])
            .arrive(1)
            .sent_body("body")
    };
    let length = "Content-Length: 4\r\n\r\nbody";
    let large: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    let mut upload = b"POST {path} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for piece in large.chunks(7000) {
        upload.extend_from_slice(format!("{:X}\r\n", piece.len()).as_bytes());
        upload.extend_from_slice(piece);
        upload.extend_from_slice(b"\r\n");
    }
    upload.extend_from_slice(b"0\r\n\r\n");
    vec![
        with_body("get-with-body", "GET", length, "the body of a GET is passed on with its framing"),
        with_body("delete-with-body", "DELETE", length, "so is that of a DELETE"),
        with_body(
            "get-with-chunks",
            "GET",
            "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
            "so is one in chunks",
        ),
        case("large-upload", "9112 §7.1", "an upload of 300,000 bytes in chunks arrives byte for byte")
            .send(upload)
            .answer(&[200])
            .arrive(1)
            .sent_body(large.clone()),
        case("large-answer", "9112 §6.2", "an answer of 300,000 bytes comes back byte for byte")
            .upstream(Answer::status(200).body(large.clone()))
            .get("")
            .answer(&[200])
            .body(large),
        case("head", "9110 §9.3.2", "HEAD has its length and no body, and the next answer is the next")
            .upstream(Answer::status(200).header("Content-Length", "1234"))
            .upstream(Answer::status(200).body("next"))
            .send("HEAD {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
            .head_answer(&[200])
            .gives("Content-Length", &[b"1234"])
            .get("")
            .answer(&[200])
            .body("next"),
        case("not-modified", "9110 §15.4.5", "304 has no body, whatever length it tells")
            .upstream(Answer::raw("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 7\r\n\r\n"))
            .upstream(Answer::status(200).body("next"))
            .get("If-None-Match: \"a\"\r\n")
            .answer(&[304])
            .gives("ETag", &[b"\"a\""])
            .get("")
            .answer(&[200])
            .body("next"),
        case("no-content", "9110 §15.3.5", "204 has no body and no length")
            .upstream(Answer::status(204))
            .upstream(Answer::status(200).body("next"))
            .get("")
            .answer(&[204])
            .gives("Content-Length", &[])
            .get("")
            .answer(&[200])
            .body("next"),
    ]
}

fn versions() -> Vec<Case> {
    vec![
        case("pipelined", "9112 §9.3.2", "requests sent one after the other are answered in their order")
            .upstream(Answer::status(200).body("first").after(std::time::Duration::from_millis(50)))
            .upstream(Answer::status(200).body("second"))
            .send("GET {path}?1 HTTP/1.1\r\nHost: {host}\r\n\r\nGET {path}?2 HTTP/1.1\r\nHost: {host}\r\n\r\n")
            .answer(&[200])
            .body("first")
            .answer(&[200])
            .body("second")
            .arrive(2)
            .request(0)
            .target("{path}?1")
            .request(1)
            .target("{path}?2"),
        case("old-client-chunks", "9112 §6.1", "a client of HTTP/1.0 never gets chunks")
            .upstream(Answer::chunked(200).chunk("one").chunk("two").end())
            .send("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n")
            .answer(&[200])
            .gives("Transfer-Encoding", &[])
            .body("onetwo")
            .ends(),
        case("old-upstream", "9112 §6.3", "an answer of HTTP/1.0 that ends with its connection is whole")
            .upstream(Answer::raw("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nbody").close())
            .get("")
            .answer(&[200])
            .body("body"),
        case("close-asked", "9112 §9.6", "a client that asks for the end gets its answer and the end")
            .get("Connection: close\r\n")
            .answer(&[200])
            .body("ok")
            .ends(),
        case(
            "closed-connection-not-reused",
            "9112 §9.6",
            "an upstream that announces the end is not asked again there",
        )
        .upstream(Answer::raw("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"))
        .upstream(Answer::status(200).body("next"))
        .get("")
        .answer(&[200])
        .until_done(1)
        .get("")
        .answer(&[200])
        .body("next")
        .apart(),
    ]
}
