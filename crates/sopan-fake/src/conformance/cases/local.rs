//! Web pages that reach for a proxy on the same machine: a browser runs them, and says so in fields they cannot change.

use super::super::case::{Case, Group};

fn case(id: &'static str, section: &'static str, claim: &'static str) -> Case {
    Case::new(id, Group::Local, section, claim).policy()
}

pub(super) fn cases() -> Vec<Case> {
    let named = |id, host: &str, claim| {
        case(id, "9110 §7.4", claim).send(format!("GET {{path}} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
    };
    let browsed = |id, fields: &str, claim| case(id, "6454 §7", claim).get(fields);
    vec![
        named("local-foreign-host", "evil.example", "a name that somebody pointed here is refused")
            .refused_openly(&[421])
            .arrive(0),
        named("local-lookalike", "127.0.0.1.evil.example", "so is one that only looks like an address")
            .refused_openly(&[421])
            .arrive(0),
        named("local-other-address", "10.0.0.1", "so is another machine's address").refused_openly(&[421]).arrive(0),
        named("local-name", "localhost:1", "localhost is this machine").answer(&[200]).arrive(1),
        named("local-name-case", "LocalHost.", "in any case and with its dot").answer(&[200]).arrive(1),
        named("local-address-6", "[::1]:8000", "and so is [::1]").answer(&[200]).arrive(1),
        browsed("local-origin-foreign", "Origin: https://evil.example\r\n", "a page from elsewhere may not ask")
            .refused_openly(&[403])
            .arrive(0),
        browsed("local-origin-null", "Origin: null\r\n", "nor one from nowhere").refused_openly(&[403]).arrive(0),
        browsed("local-origin-own", "Origin: http://{host}\r\n", "one from here may").answer(&[200]).arrive(1),
        browsed(
            "local-origin-two",
            "Origin: http://{host}\r\nOrigin: https://evil.example\r\n",
            "two Origins are judged both",
        )
        .refused_openly(&[400, 403])
        .arrive(0),
        browsed("local-cross-site", "Sec-Fetch-Site: cross-site\r\n", "a request across sites is refused")
            .refused_openly(&[403])
            .arrive(0),
        browsed("local-same-origin", "Sec-Fetch-Site: same-origin\r\n", "one from the same origin is not")
            .answer(&[200])
            .arrive(1),
        browsed("local-typed", "Sec-Fetch-Site: none\r\n", "nor is one that somebody typed").answer(&[200]).arrive(1),
    ]
}
