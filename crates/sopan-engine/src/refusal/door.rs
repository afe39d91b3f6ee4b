//! What a door says to whom it does not let in: a request for another host, of a page of another site, or of nobody who may
//! ask this.
//!
//! Who is kept out is told what to do, and no more than that. Whether somebody gets in is for `sopan_core::safety` and
//! `sopan_core::access` to say.

use http::StatusCode;
use sopan_core::access::{Barred, GUESSES_MAX, NotAllowed};
use sopan_core::safety::Denied;

use super::Problem;

pub(super) fn of_door(denied: Denied) -> Problem {
    let (status, detail) = match denied {
        Denied::Host => (
            StatusCode::MISDIRECTED_REQUEST,
            "the request is for a host (Host) that does not stand for this machine, and a page of the web could have made a \
             browser send it; ask localhost or the address of sopan, or start it with --host NAME for that host",
        ),
        Denied::CrossSite => (
            StatusCode::FORBIDDEN,
            "the request was caused by a page of another site (Origin, Sec-Fetch-Site), which must not use this proxy through \
             somebody's browser; if that page is yours, start sopan with --host NAME for its host",
        ),
    };
    Problem { status, error: "http_request_denied".into(), detail: detail.to_owned(), retry_after: None }
}

/// What a 401 asks for (RFC 9110 §11.6.1, RFC 6750 §3).
pub(super) fn challenge(barred: Barred) -> Option<&'static str> {
    match barred {
        Barred::NoKey(_) => Some("Bearer realm=\"sopan\""),
        Barred::UnknownKey | Barred::Expired => Some("Bearer realm=\"sopan\", error=\"invalid_token\""),
        Barred::SeveralKeys | Barred::KeyInTarget | Barred::TooManyGuesses { .. } | Barred::NotAllowed(_) => None,
    }
}

/// What is allowed is not told: who has a key that was stolen would learn what it is good for.
pub(super) fn of_key(barred: Barred) -> Problem {
    let mut retry_in = None;
    let (status, detail) = match barred {
        Barred::NoKey(fields) => {
            let detail = format!("the request has no key of this proxy, which every request needs; send one as {fields}");
            (StatusCode::UNAUTHORIZED, detail)
        }
        Barred::UnknownKey => (
            StatusCode::UNAUTHORIZED,
            "the key of the request is none of this proxy, perhaps mistyped, or taken back; ask whoever runs the proxy for one"
                .to_owned(),
        ),
        Barred::Expired => (
            StatusCode::UNAUTHORIZED,
            "the key of the request has expired; ask whoever runs the proxy for another".to_owned(),
        ),
        Barred::SeveralKeys => (
            StatusCode::BAD_REQUEST,
            "the request has keys of several clients, or too many that may be keys; send one key, once".to_owned(),
        ),
        Barred::KeyInTarget => (
            StatusCode::BAD_REQUEST,
            "a key stands in the address of the request, where logs keep it; send it in a field alone, and ask whoever runs the \
             proxy for another"
                .to_owned(),
        ),
        Barred::TooManyGuesses { retry_after } => {
            retry_in = Some(retry_after);
            let detail = format!(
                "{GUESSES_MAX} wrong keys have come from this address, and for {retry_after} s none is looked at; try again then, \
                 with the right one"
            );
            (StatusCode::TOO_MANY_REQUESTS, detail)
        }
        Barred::NotAllowed(what) => (StatusCode::FORBIDDEN, not_allowed(what).to_owned()),
    };
    Problem { status, error: "http_request_denied".into(), detail, retry_after: retry_in }
}

fn not_allowed(what: NotAllowed) -> &'static str {
    match what {
        NotAllowed::Upstream => {
            "the key of the request is not for this API; ask whoever runs the proxy if it should be"
        }
        NotAllowed::Method => {
            "the key of the request is not for this method; ask whoever runs the proxy if it should be"
        }
        NotAllowed::Path => "the key of the request is not for this path; ask whoever runs the proxy if it should be",
        NotAllowed::UnclearPath => {
            "the path can be read in more than one way, by dots, slashes or percent signs in it, and the key of the request is \
             for some paths alone; write it plainly"
        }
        NotAllowed::Override => {
            "a field of the request names another method or path (such as X-HTTP-Method-Override or X-Original-URL), and the \
             key of the request is for some alone; send it without that"
        }
    }
}
