//! Protocols other than HTTP after a 101.

use super::super::case::{Case, Group};
use crate::script::Answer;

fn case(id: &'static str, section: &'static str, claim: &'static str) -> Case {
    Case::new(id, Group::Upgrade, section, claim)
}

const ASKED: &str = "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Accept: s3pPLBMiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

pub(super) fn cases() -> Vec<Case> {
    [tunnels(), refusals()].concat()
}

fn tunnels() -> Vec<Case> {
    vec![
        case("upgrade-both-ways", "9110 §7.8", "after 101 bytes go both ways as they are")
            .upstream(Answer::raw(SWITCHED).echo())
            .send(ASKED)
            .answer(&[101])
            .gives_among("Upgrade", "websocket")
            .send("ping\0\r\n\r\nGET / HTTP/1.1\r\n\r\n")
            .sees("ping\0\r\n\r\nGET / HTTP/1.1\r\n\r\n")
            .arrive(1)
            .has("Upgrade", &["websocket"])
            .has("Sec-WebSocket-Key", &["dGhlIHNhbXBsZSBub25jZQ=="]),
        case("upgrade-early-bytes", "9110 §7.8", "what is sent before 101 arrives after it")
            .upstream(Answer::nothing().sleep(std::time::Duration::from_millis(100)).send(SWITCHED).echo())
            .send(format!("{ASKED}early"))
            .answer(&[101])
            .sees("early")
            .arrive(1)
            .tunnelled("early"),
        case("upgrade-first-word", "9110 §7.8", "what the upstream says right behind 101 is not lost")
            .upstream(Answer::raw(format!("{SWITCHED}hello")).echo())
            .send(ASKED)
            .answer(&[101])
            .sees("hello"),
        case("upgrade-client-half-closes", "9110 §7.8", "a client that has said all still hears the rest")
            .upstream(Answer::raw(SWITCHED).echo().send("bye").close())
            .send(ASKED)
            .answer(&[101])
            .send("ping")
            .sees("ping")
            .finish()
            .sees("bye")
            .ends(),
        case("upgrade-upstream-half-closes", "9110 §7.8", "an upstream that has said all still hears the rest")
            .upstream(Answer::raw(SWITCHED).send("bye").fin().echo())
            .send(ASKED)
            .answer(&[101])
            .sees("bye")
            .pause()
            .send("more")
            .pause()
            .finish()
            .ends()
            .until_done(1)
            .arrive(1)
            .tunnelled("more"),
        case("upgrade-ends", "9110 §7.8", "an upstream that closes ends the tunnel")
            .upstream(Answer::raw(SWITCHED).send("bye").close())
            .send(ASKED)
            .answer(&[101])
            .sees("bye")
            .finish()
            .ends(),
    ]
}

fn refusals() -> Vec<Case> {
    let h2c = "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
        HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n";
    let other = SWITCHED.replace("websocket", "other");
    let unnamed = SWITCHED.replace("Upgrade: websocket\r\n", "");
    vec![
        case("upgrade-declined", "9110 §7.8", "an upstream that answers as usual is heard, and HTTP goes on")
            .upstream(Answer::status(200).body("no"))
            .upstream(Answer::status(200).body("next"))
            .send(ASKED)
            .answer(&[200])
            .body("no")
            .get("")
            .answer(&[200])
            .body("next"),
        case("upgrade-other-protocol", "9110 §7.8", "101 to a protocol that nobody asked for")
            .choice()
            .upstream(Answer::raw(other).echo())
            .send(ASKED)
            .bad_gateway(),
        case("upgrade-no-protocol", "9110 §15.2.2", "101 that names no protocol")
            .choice()
            .upstream(Answer::raw(unnamed).echo())
            .send(ASKED)
            .bad_gateway(),
        case("upgrade-h2c", "9113 §3.1", "an upgrade to HTTP/2, which is no more, is not passed on")
            .choice()
            .send(h2c)
            .answer(&[200])
            .arrive(1)
            .lacks(&["Upgrade", "HTTP2-Settings"]),
        case("upgrade-not-nominated", "9110 §7.8", "Upgrade that Connection does not name is not passed on")
            .get("Upgrade: websocket\r\n")
            .answer(&[200])
            .arrive(1)
            .lacks(&["Upgrade"]),
        case("upgrade-old-client", "9110 §7.8", "Upgrade in HTTP/1.0 is ignored")
            .send("GET {path} HTTP/1.0\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            .answer_or_refused(&[200])
            .lacks(&["Upgrade"]),
        case("connect", "9110 §9.3.6", "CONNECT is refused: there is one upstream")
            .choice()
            .send("CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n")
            .refused_openly(&[501])
            .arrive(0),
    ]
}
