//! 1xx and `Expect`.

use std::time::Duration;

use super::super::case::{Case, Group};
use crate::script::Answer;

fn case(id: &'static str, section: &'static str, claim: &'static str) -> Case {
    Case::new(id, Group::Interim, section, claim)
}

const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";
const EXPECTING: &str = "PUT {path} HTTP/1.1\r\nHost: {host}\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n";

pub(super) fn cases() -> Vec<Case> {
    [hints(), expectations()].concat()
}

fn hints() -> Vec<Case> {
    vec![
        case("interim-103", "9110 §15.2", "an interim answer is passed on")
            .upstream(Answer::raw(HINTS).then(Answer::status(200).body("ok")))
            .get("")
            .answer(&[200])
            .interims(&[103])
            .body("ok"),
        case("interim-several", "9110 §15.2", "so are several, in their order")
            .upstream(
                Answer::raw(format!("{HINTS}HTTP/1.1 102 Processing\r\n\r\n{HINTS}"))
                    .then(Answer::status(200).body("ok")),
            )
            .get("")
            .answer(&[200])
            .interims(&[103, 102, 103])
            .body("ok"),
        case("interim-at-once", "9110 §15.2", "it is passed on when it comes, not with the answer")
            .upstream(Answer::raw(HINTS).sleep(Duration::from_millis(300)).then(Answer::status(200).body("ok")))
            .get("")
            .until_interim(103)
            .answer(&[200]),
        case("interim-old-client", "9110 §15.2", "a client of HTTP/1.0 gets none")
            .upstream(Answer::raw(HINTS).then(Answer::status(200).body("ok")))
            .send("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n")
            .answer(&[200])
            .interims(&[])
            .body("ok"),
        case("interim-flood", "9110 §15.2", "interim answers without end are ended")
            .policy()
            .upstream(Answer::raw(HINTS.repeat(2000)).then(Answer::status(200)))
            .get("")
            .bad_gateway(),
        case("interim-bad", "9112 §4", "a malformed interim answer is passed on by nobody")
            .upstream(Answer::raw("HTTP/1.1 103 Early\r\nLink: a\0b\r\n\r\n").then(Answer::status(200)))
            .choice()
            .get("")
            .bad_gateway(),
    ]
}

fn expectations() -> Vec<Case> {
    let refusing = Answer::status(413).header("Connection", "close").body("no").early();
    vec![
        case("expect-continue", "9110 §10.1.1", "100 comes from the upstream, and then the body goes")
            .upstream(
                Answer::nothing().early().sleep(Duration::from_millis(200)).send(CONTINUE).then(Answer::status(200)),
            )
            .send(EXPECTING)
            .until_interim(100)
            .send("body")
            .answer(&[200])
            .arrive(1)
            .has("Expect", &["100-continue"])
            .sent_body("body"),
        case("expect-refused", "9110 §10.1.1", "an upstream that refuses is heard before a byte of the body is sent")
            .upstream(refusing)
            .send(EXPECTING)
            .answer(&[413])
            .interims(&[])
            .body("no")
            .arrive(1)
            .sent_no_body(),
        case("expect-late", "9110 §10.1.1", "an upstream that takes its time does not stop the upload for good")
            .upstream(
                Answer::nothing().early().sleep(Duration::from_millis(1500)).send(CONTINUE).then(Answer::status(200)),
            )
            .send(EXPECTING)
            .until_interim(100)
            .send("body")
            .answer(&[200])
            .arrive(1)
            .sent_body("body"),
        case("expect-once", "9110 §10.1.1", "100 comes once, though the upstream says it twice")
            .choice()
            .upstream(Answer::raw(CONTINUE.repeat(2)).early().then(Answer::status(200)))
            .send(EXPECTING)
            .until_interim(100)
            .send("body")
            .answer(&[200])
            .interims(&[100]),
        case("expect-impatient", "9110 §10.1.1", "a client that does not wait for 100 loses nothing")
            .upstream(Answer::raw(CONTINUE).early().then(Answer::status(200)))
            .send(format!("{EXPECTING}body"))
            .answer(&[200])
            .arrive(1)
            .sent_body("body"),
        case("expect-silent-upstream", "9110 §10.1.1", "an upstream that knows no 100 gets the body all the same")
            .upstream(Answer::nothing().early().read_body().then(Answer::status(200)))
            .send(format!("{EXPECTING}body"))
            .answer(&[200])
            .arrive(1)
            .sent_body("body"),
        case("expect-other", "9110 §10.1.1", "another expectation is refused, or passed on")
            .get("Expect: the-best\r\n")
            .answer(&[417, 200]),
        case("expect-old-client", "9110 §10.1.1", "a client of HTTP/1.0 is never told 100")
            .send("PUT {path} HTTP/1.0\r\nHost: {host}\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nbody")
            .answer(&[200])
            .interims(&[])
            .arrive(1)
            .sent_body("body"),
    ]
}
