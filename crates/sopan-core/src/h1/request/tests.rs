use super::super::fields::FIELDS_MAX;
use super::*;

fn read_lines(head: &str) -> Result<Incoming, BadRequest> {
    read(&Bytes::from(head.replace('\n', "\r\n").into_bytes()))
}

/// The rest of a head that is well.
const WELL: &str = " HTTP/1.1\nHost: u\n\n";

#[test]
fn a_target_keeps_its_bytes() {
    for target in [
        "/",
        "/a//b",
        "//cms/x",
        "/a%2Fb",
        "/a%2fb",
        "/%7Euser",
        "/~user",
        "/a;v=1/b",
        "/a%20b+c",
        "/a%25b",
        "/a/",
        "/a/./b/../c",
        "/%2e%2e/x",
        "/a|b",
        "/[x]",
        "/x?",
        "/?",
        "/x?a=b?c",
        "/x?q=%",
        "/caf\u{e9}?\u{e9}",
        "/\\x^{}'\"",
    ] {
        let incoming = read_lines(&format!("GET {target}{WELL}")).map_err(|bad| format!("{target}: {bad}")).unwrap();
        assert_eq!(incoming.request.uri().path_and_query().unwrap().as_str(), target);
    }
    for (method, target, path) in [
        ("OPTIONS", "*", "*"),
        ("OPTIONS", "http://u", "*"),
        ("GET", "http://u", "/"),
        ("GET", "HTTP://U/a//b?", "/a//b?"),
        ("GET", "https://u?x", "/?x"),
    ] {
        let incoming = read_lines(&format!("{method} {target}{WELL}")).unwrap();
        assert_eq!(incoming.request.uri().path_and_query().unwrap().as_str(), path, "{target}");
    }
}

#[track_caller]
fn check(head: &str, decoder: Decoder, keeps: bool) {
    let incoming = read_lines(head).map_err(|bad| format!("{head:?}: {bad}")).unwrap();
    assert_eq!((incoming.decoder, incoming.keeps), (decoder, keeps), "{head:?}");
}

#[test]
fn the_fields_tell_where_the_body_ends_and_whether_another_request_may_follow() {
    check("GET / HTTP/1.1\nHost: u\n\n", Decoder::Done, true);
    check("GET / HTTP/1.9\nHost: u\n\n", Decoder::Done, true);
    check("GET / HTTP/1.1\nHost: u\nContent-Length: 5\n\n", Decoder::Length(5), true);
    check("GET / HTTP/1.1\nHost: u\nContent-Length: 0\n\n", Decoder::Done, true);
    check("GET / HTTP/1.1\nHost: u\nTransfer-Encoding: Chunked \n\n", Decoder::chunked(), true);
    check("GET / HTTP/1.1\nHost: u\nConnection: x\nConnection: Close\n\n", Decoder::Done, false);
    check("GET / HTTP/1.0\n\n", Decoder::Done, false);
    check("GET / HTTP/1.0\nConnection: Keep-Alive\n\n", Decoder::Done, true);
    check("CONNECT u:443 HTTP/1.1\nHost: u:443\n\n", Decoder::Done, false);
    check("pOsT / HTTP/1.1\nHost: u\napi_key: 1\n\n", Decoder::Done, true);
}

#[test]
fn a_client_that_waits_for_continue_is_told_apart() {
    for (fields, expected, stays) in [
        (" HTTP/1.1\nContent-Length: 5\nExpect: 100-Continue", true, true),
        (" HTTP/1.1\nContent-Length: 5\nExpect: x\nExpect: y, 100-continue", true, true),
        (" HTTP/1.1\nContent-Length: 0\nExpect: 100-continue", false, true),
        (" HTTP/1.1\nContent-Length: 5\nExpect: x", false, true),
        (" HTTP/1.0\nContent-Length: 5\nExpect: 100-continue", false, false),
    ] {
        let incoming = read_lines(&format!("PUT /{fields}\nHost: u\n\n")).unwrap();
        assert_eq!(incoming.expects_continue, expected, "{fields}");
        assert_eq!(incoming.request.headers().contains_key(EXPECT), stays, "{fields}");
    }
}

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    let lines = [
        "",
        " GET /",
        "GET  /",
        "GET\t/",
        "GET / ",
        "GET",
        "GET /a b",
        "GET /\t",
        "GET a",
        "GET *",
        "GET u:80",
        "G(T /",
        "G\u{e9}T /",
        "GET /\u{7f}",
        "GET /\u{1}",
        "GET /#f",
        "GET /<",
        "GET ftp://u/",
        "GET http:/u/",
        "GET http:///",
        "GET http://u@u/",
        "GET http://u:x/",
        "GET http://u:99999/",
        "GET http://v/",
        "GET http://u:80/",
        "CONNECT u",
        "CONNECT u:",
        "CONNECT /",
        "CONNECT *",
        "CONNECT http://u/",
    ];
    let mut heads: Vec<_> = lines.iter().map(|line| format!("{line}{WELL}")).collect();
    for end in
        ["", " ", " HTTP/1.1 ", " HTTP/1", " HTTP/1.", " HTTP/1.11", " http/1.1", " HTTP/ 1.1", " HTTP/1,1", " X"]
    {
        heads.push(format!("GET /{end}\nHost: u\n\n"));
    }
    for fields in [
        "",
        "Host: u\nHost: u",
        "Host:",
        "Host: u@u",
        "Host: u:x",
        "Host: u u",
        "Host: u,v",
        "Host: u/",
        "Host : u",
        "Host: u\nContent-Length: 5\nContent-Length: 5",
        "Host: u\nContent-Length: 5, 5",
        "Host: u\nContent-Length: +5",
        "Host: u\nContent-Length: -5",
        "Host: u\nContent-Length: 5 5",
        "Host: u\nContent-Length: 0x5",
        "Host: u\nContent-Length:",
        "Host: u\nContent-Length: 99999999999999999999",
        "Host: u\nContent-Length: \u{e9}5",
        "Host: u\nContent-Length: 5\nTransfer-Encoding: chunked",
        "Host: u\nTransfer-Encoding: gzip, chunked",
        "Host: u\nTransfer-Encoding: chunked\nTransfer-Encoding: chunked",
        "Host: u\nTransfer-Encoding: identity",
        "Host: u\nTransfer-Encoding:",
        "Host: u\nTransfer-Encoding: chunked,",
        "Host: u\nTransfer-Encoding: xchunked",
        "Host: u\nTransfer-Encoding: \"chunked\"",
        "Host: u\nTransfer-Encoding : chunked",
        "Host: u\nContent_Length: 5",
        "Host: u\nTRANSFER_ENCODING: chunked",
        "Host: u\n folded",
        "Host: u\nA: \u{0}",
        "Host: u\nA: a\rb",
        "Host: u\n: 1",
    ] {
        heads.push(format!("GET / HTTP/1.1\n{fields}\n\n").replace("HTTP/1.1\n\n\n", "HTTP/1.1\n\n"));
    }
    heads.push("GET / HTTP/1.0\nTransfer-Encoding: chunked\n\n".to_owned());
    heads.push("GET / HTTP/1.0\nHost: a b\n\n".to_owned());
    for head in heads {
        let refused = read_lines(&head).map(|incoming| incoming.request);
        assert_eq!(refused.map_err(|bad| bad.status.as_u16()).err(), Some(400), "{head:?}");
    }
}

#[test]
fn what_is_refused_tells_whether_a_head_asks_for_it() {
    for (line, expected) in [("HEAD /a b", true), ("HEAD  /", true), ("head /a b", false), ("HEADS /a b", false)] {
        let bad = read_lines(&format!("{line}{WELL}")).err();
        assert_eq!(bad.map(|bad| bad.is_head), Some(expected), "{line}");
        assert_eq!(BadRequest::too_long(line.as_bytes()).is_head, expected, "{line}");
    }
}

#[test]
fn what_is_too_much_or_too_new_says_so() {
    for (head, status) in [
        ("GET / HTTP/2.0\nHost: u\n\n".to_owned(), 505),
        ("PRI * HTTP/2.0\n\n".to_owned(), 505),
        ("GET / HTTP/0.9\nHost: u\n\n".to_owned(), 505),
        (format!("GET / HTTP/1.1\nHost: u\n{}\n", "A: 1\n".repeat(FIELDS_MAX)), 431),
    ] {
        assert_eq!(read_lines(&head).map_err(|bad| bad.status.as_u16()).err(), Some(status), "{head:?}");
    }
    let long = |line_end: usize| {
        let mut bytes = vec![b'x'; HEAD_BYTES_MAX + 10];
        bytes[line_end] = b'\n';
        BadRequest::too_long(&bytes).status.as_u16()
    };
    assert_eq!((long(100), long(HEAD_BYTES_MAX - 1), long(HEAD_BYTES_MAX)), (431, 431, 414));
}

#[test]
fn what_was_read_shows_no_secret() {
    let head =
        "GET /x?key=SECRET HTTP/1.1\nHost: u\nAuthorization: Bearer SECRET\nReferer: http://me:SECRET@u/?k=SECRET\n\n";
    let shown = format!("{:?}", read_lines(head).unwrap());
    assert!(shown.contains("/x?key=…") && !shown.contains("SECRET"), "{shown}");
    let head = head.replace("GET /x?key=SECRET HTTP/1.1", "HTTP/1.1 200 SECRET").replace("Referer", "Location");
    let head = bytes::Bytes::from(head.replace('\n', "\r\n"));
    let shown = format!("{:?}", crate::h1::response::read(&head, false).unwrap());
    assert!(shown.contains("http://u/?k=…") && !shown.contains("SECRET"), "{shown}");
}
