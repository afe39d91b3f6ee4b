//! What the fuzz targets ask of the core, asked of the inputs that are kept: those written by hand, and those that fuzzing
//! found worth keeping.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

#[path = "../../../fuzz/properties/answer.rs"]
mod answer;
#[path = "../../../fuzz/properties/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/properties/directives.rs"]
mod directives;
#[path = "../../../fuzz/properties/entity_tags.rs"]
mod entity_tags;
#[path = "../../../fuzz/properties/head.rs"]
mod head;
#[path = "../../../fuzz/properties/http_date.rs"]
mod http_date;
#[path = "../../../fuzz/properties/ranges.rs"]
mod ranges;
#[path = "../../../fuzz/properties/reception.rs"]
mod reception;
#[path = "../../../fuzz/properties/retry_after.rs"]
mod retry_after;
#[path = "../../../fuzz/properties/stored.rs"]
mod stored;
#[path = "../../../fuzz/properties/strict.rs"]
mod strict;
#[path = "../../../fuzz/properties/vary.rs"]
mod vary;

#[test]
fn a_date_that_is_read_is_what_was_written() {
    corpus::check("http_date", http_date::check);
}

#[test]
fn a_retry_after_is_read_alike_by_both_readers() {
    corpus::check("retry_after", retry_after::check);
}

#[test]
fn what_is_accepted_is_passed_on_as_one_message() {
    corpus::check("head", head::check);
}

#[test]
fn what_is_asked_for_of_a_body_is_what_is_given() {
    corpus::check("ranges", ranges::check);
}

#[test]
fn what_has_the_tag_that_it_is_asked_about_is_not_modified() {
    corpus::check("entity_tags", entity_tags::check);
}

#[test]
fn what_is_read_from_a_store_is_what_was_written() {
    corpus::check("stored", stored::check);
}

#[test]
fn directives_for_caches_mean_what_a_slow_reader_says() {
    corpus::check("directives", directives::check);
}

#[test]
fn an_answer_is_for_those_who_ask_the_same() {
    corpus::check("vary", vary::check);
}

/// The second parser judges the first one, so it must be able to find fault.
#[test]
fn the_second_parser_refuses_what_could_be_read_in_two_ways() {
    let request = |text: &str| strict::request(text.replace('\n', "\r\n").as_bytes());
    let two = "POST http://u/a?b HTTP/1.1\nHost: u\nA: 1 \nTransfer-Encoding: chunked\n\n2\nok\n0\nB: 2\n\nGET";
    let well = request(two).unwrap().unwrap();
    assert_eq!((&*well.path(), &*well.body, well.is_whole), (&b"/a?b"[..], &b"ok"[..], true));
    assert_eq!(two.replace('\n', "\r\n")[well.length..], *"GET");
    assert_eq!((well.fields.len(), &*well.fields[1].1, &*well.trailers[0].1), (3, &b"1"[..], &b"2"[..]));
    for text in [
        "GET  / HTTP/1.1\nHost: u\n\n",
        "G(T / HTTP/1.1\nHost: u\n\n",
        "GET a HTTP/1.1\nHost: u\n\n",
        "GET /#a HTTP/1.1\nHost: u\n\n",
        "GET http://a@u/ HTTP/1.1\nHost: u\n\n",
        "GET / HTTP/2.0\nHost: u\n\n",
        "GET / HTTP/1.1\n\n",
        "GET / HTTP/1.1\nHost: u\nHost: u\n\n",
        "GET / HTTP/1.1\nHost: u\nA : 1\n\n",
        "GET / HTTP/1.1\nHost: u\nA: 1\n 2\n\n",
        "GET / HTTP/1.1\nHost: u\nA: \u{1}\n\n",
        "GET / HTTP/1.1\nHost: u\nContent-Length: +1\n\n",
        "GET / HTTP/1.1\nHost: u\nContent-Length: 1\nContent-Length: 1\n\n",
        "GET / HTTP/1.1\nHost: u\nContent-Length: 1\nTransfer-Encoding: chunked\n\n",
        "GET / HTTP/1.1\nHost: u\nTransfer-Encoding: gzip, chunked\n\n",
        "GET / HTTP/1.0\nTransfer-Encoding: chunked\n\n",
        "GET / HTTP/1.1\nHost: u\nTransfer-Encoding: chunked\n\n0x1\n",
        "GET / HTTP/1.1\nHost: u\nTransfer-Encoding: chunked\n\n1\nab\n",
    ] {
        assert!(request(text).is_err(), "{text:?}");
    }
    assert!(strict::request(b"GET / HTTP/1.1\nHost: u\r\n\r\n").is_err(), "LF alone");
    let response = |text: &str| strict::response(text.replace('\n', "\r\n").as_bytes(), false, true);
    let well = response("HTTP/1.1 200 OK\n\nbody").unwrap().unwrap();
    assert_eq!((well.status(), &*well.body, well.is_whole), (200, &b"body"[..], true));
    for text in [
        "HTTP/1.1 99 OK\n\n",
        "HTTP/1.1 2000 OK\n\n",
        "HTTP/2.0 200 OK\n\n",
        "HTTP/1.1 204 No Content\nContent-Length: 0\n\n",
        "HTTP/1.1 200 OK\nContent-Length: 1, 1\n\na",
        "HTTP/1.1 200 OK\nContent-Length: 1\nTransfer-Encoding: chunked\n\n",
    ] {
        assert!(response(text).is_err(), "{text:?}");
    }
}
