//! What the cache does with an answer, as it is told.

use sopan_core::policy::Revalidate;

use super::*;

/// The fields of a request, then the status and fields of the answer to it, a change, and what is told: a line each.
type Case = (&'static [&'static str], u16, &'static [&'static str], fn(&mut Answer, &mut CachePolicy), &'static str);

const PLAIN: fn(&mut Answer, &mut CachePolicy) = |_, _| {};

#[track_caller]
fn check((request, status, lines, change, expected): &Case) {
    let mut answer = Answer { request: fields(request), ..answer(*status, lines) };
    let mut policy = CachePolicy::default();
    change(&mut answer, &mut policy);
    let rules = Rules { cache: Some(policy), ..Rules::default() };
    let explanation = explain(&answer, &rules);
    let about = ["cache", "variant", "fresh", "age", "then", "when stale", "stale", "untrue"];
    let told = explanation.steps.iter().filter(|step| about.contains(&step.about));
    let told: Vec<_> = told.map(|Step { about, says, because }| format!("{about}: {says} ({because})")).collect();
    assert_eq!(told.join("\n"), *expected, "{request:?} {status} {lines:?}");
}

#[test]
fn why_an_answer_is_not_stored() {
    let not_stored: &[Case] = &[
        (&[], 200, &["Cache-Control: no-store"], PLAIN, "it says no-store, RFC 9111 §5.2.2.5"),
        (&["Cache-Control: no-store"], 200, &[], PLAIN, "the request says no-store, RFC 9111 §5.2.1.5"),
        (
            &[],
            200,
            &["Cache-Control: private, max-age=9"],
            PLAIN,
            "it says private, and the request has no credential by which its client could be known again, RFC 9111 §5.2.2.7",
        ),
        (
            &[],
            200,
            &["Cache-Control: max-age=9", "Set-Cookie: SECRET"],
            PLAIN,
            "it sets a cookie, and store_set_cookie is off",
        ),
        (
            &[],
            200,
            &["Cache-Control: max-age=9", "Vary: *"],
            PLAIN,
            "Vary: * says that no other request would get it, RFC 9111 §4.1",
        ),
        (&[], 429, &["Cache-Control: max-age=9"], PLAIN, "answers with 429 never are, RFC 6585 §4"),
        (
            &[],
            503,
            &["Cache-Control: max-age=9", "Retry-After: 5"],
            PLAIN,
            "a 503 with Retry-After is about now, and not about what was asked for",
        ),
        (&[], 401, &["Cache-Control: max-age=9"], PLAIN, "answers with 401 are not, RFC 9111 §3"),
        (
            &[],
            200,
            &[],
            PLAIN,
            "it does not say how long it may be used, and has neither ETag nor Last-Modified by which it could be asked \
             about, and default_ttl is none",
        ),
        (
            &[],
            202,
            &[],
            |_, policy| policy.default_ttl = Some(Duration::from_secs(9)),
            "it does not say how long it may be used, and has neither ETag nor Last-Modified by which it could be asked \
             about, and default_ttl is for successful answers to GET of a status like 200 or 204, not for streams of events",
        ),
        (
            &[],
            206,
            &["Cache-Control: max-age=9"],
            PLAIN,
            "it cannot be told which bytes of the whole it has, RFC 9110 §14.4",
        ),
        (
            &[],
            200,
            &["Cache-Control: max-age=9"],
            |answer, policy| (answer.body, policy.entry_bytes_max) = (Some(6), 5),
            "its body is longer than entry_bytes_max of 5 bytes",
        ),
        (
            &[],
            200,
            &["Cache-Control: max-age=9"],
            |answer, policy| {
                "/live/now?x=1".clone_into(&mut answer.target);
                policy.paths.push("/live bypass".parse().unwrap());
            },
            "a rule of paths says bypass",
        ),
        (&["If-Match: \"a\""], 200, &["Cache-Control: max-age=9"], PLAIN, "the cache has no part in such requests"),
    ];
    for (request, status, lines, change, because) in not_stored {
        let expected = format!("cache: is not stored ({because})");
        check(&(request, *status, lines, *change, expected.leak()));
    }
}

#[test]
fn how_long_an_answer_is_used_and_by_whom() {
    let cases: &[Case] = &[
        (
            &[],
            200,
            &["Cache-Control: max-age=60", "ETag: \"a\"", "Age: 20", "Vary: Accept, X-Team"],
            PLAIN,
            "cache: is stored, for all (RFC 9111 §3)\n\
             variant: for requests with the same accept, x-team (Vary, RFC 9111 §4.1)\n\
             fresh: for 60 s (max-age of Cache-Control)\n\
             age: 20 s as it comes (Date and Age, RFC 9111 §4.2.3)\n\
             then: for 40 s given without asking the API ()\n\
             when stale: asked about with If-None-Match; after a 304 it is used again (RFC 9111 §4.3)\n\
             stale: given for up to 86400 s (24.0 hours) more when the API cannot be reached, or is held to be down \
             (stale_max, RFC 9111 §4.2.4)",
        ),
        (
            &["Authorization: SECRET"],
            200,
            &["CDN-Cache-Control: max-age=60", "Cache-Control: no-store"],
            |_, policy| policy.stale_max = Duration::ZERO,
            "cache: is stored, for requests with the same credential alone \
             (it does not say that it is for all, RFC 9111 §3.5)\n\
             fresh: for 60 s (max-age of a field that speaks to this cache)\n\
             age: 0 s as it comes (Date and Age, RFC 9111 §4.2.3)\n\
             then: for 60 s given without asking the API ()\n\
             when stale: asked for again (it has neither ETag nor Last-Modified)\n\
             stale: never given (stale_max is zero)",
        ),
        (
            &["X-Api-Key: SECRET"],
            200,
            &["Cache-Control: s-maxage=60"],
            PLAIN,
            "cache: is stored, for all (RFC 9111 §3)\n\
             fresh: for 60 s (s-maxage of Cache-Control)\n\
             age: 0 s as it comes (Date and Age, RFC 9111 §4.2.3)\n\
             then: for 60 s given without asking the API ()\n\
             when stale: asked for again (it has neither ETag nor Last-Modified)\n\
             stale: never given (the answer or the request forbids it, RFC 9111 §4.2.4)",
        ),
        (
            &[],
            200,
            &[],
            |answer, policy| {
                "/list".clone_into(&mut answer.target);
                policy.paths.push("/list default-ttl 1m".parse().unwrap());
                policy.stale_if_error = Duration::from_secs(3600);
            },
            "cache: is stored, for requests without a credential \
             (with one there may be another answer, and it says nothing of that)\n\
             variant: for requests with the same accept, accept-language (Vary, RFC 9111 §4.1)\n\
             fresh: for 60 s (default-ttl of a rule of paths, since it says nothing itself)\n\
             age: 0 s as it comes (Date and Age, RFC 9111 §4.2.3)\n\
             then: for 60 s given without asking the API ()\n\
             when stale: asked for again (it has neither ETag nor Last-Modified)\n\
             stale: given for up to 86400 s (24.0 hours) more when the API cannot be reached, or is held to be down \
             (stale_max, RFC 9111 §4.2.4)\n\
             stale: given for up to 3600 s more when it answers with 500, 502, 503 or 504 (stale_if_error)\n\
             stale: given for up to 3600 s more when no token is there in time (stale_if_error)",
        ),
        (
            &[],
            200,
            &[
                "Last-Modified: Wed, 21 Oct 2026 11:00:00 GMT",
                "Cache-Control: stale-while-revalidate=30, stale-if-error=90",
            ],
            |_, policy| policy.revalidate = Revalidate::Always,
            "cache: is stored, for requests without a credential \
             (with one there may be another answer, and it says nothing of that)\n\
             fresh: for 360 s (a tenth of the time since Last-Modified, RFC 9111 §4.2.2)\n\
             age: 0 s as it comes (Date and Age, RFC 9111 §4.2.3)\n\
             then: for 360 s asked about each time, with If-Modified-Since (revalidate is always)\n\
             when stale: asked about with If-Modified-Since; after a 304 it is used again (RFC 9111 §4.3)\n\
             stale: given for up to 86400 s (24.0 hours) more when the API cannot be reached, or is held to be down \
             (stale_max, RFC 9111 §4.2.4)\n\
             stale: given for up to 90 s more when it answers with 500, 502, 503 or 504 (stale-if-error, RFC 5861 §4)\n\
             stale: given for up to 90 s more when no token is there in time (stale-if-error, RFC 5861 §4)",
        ),
        (
            &[],
            200,
            &["Expires: Wed, 21 Oct 2026 12:01:00 GMT", "Cache-Control: stale-while-revalidate=30"],
            |_, policy| policy.stale_max = Duration::from_secs(20),
            "cache: is stored, for all (RFC 9111 §3)\n\
             fresh: for 60 s (Expires, less Date)\n\
             age: 0 s as it comes (Date and Age, RFC 9111 §4.2.3)\n\
             then: for 60 s given without asking the API ()\n\
             when stale: asked for again (it has neither ETag nor Last-Modified)\n\
             stale: given for up to 20 s more while it is asked about in the background \
             (stale-while-revalidate, RFC 5861 §3)",
        ),
        (
            &[],
            200,
            &["Cache-Control: no-cache", "ETag: \"a\""],
            PLAIN,
            "cache: is stored, for all (RFC 9111 §3)\n\
             fresh: never (it says no-cache, RFC 9111 §5.2.2.4)\n\
             then: asked about with If-None-Match; after a 304 it is used again (RFC 9111 §4.3)\n\
             stale: never given (the answer or the request forbids it, RFC 9111 §4.2.4)",
        ),
        (
            &["Cache-Control: max-stale=50"],
            200,
            &["Cache-Control: max-age=60, stale-while-revalidate=30, stale-if-error=40", "ETag: \"a\""],
            PLAIN,
            "cache: is stored, for all (RFC 9111 §3)\n\
             fresh: for 60 s (max-age of Cache-Control)\n\
             age: 0 s as it comes (Date and Age, RFC 9111 §4.2.3)\n\
             then: for 60 s given without asking the API ()\n\
             when stale: asked about with If-None-Match; after a 304 it is used again (RFC 9111 §4.3)\n\
             stale: given for up to 30 s more while it is asked about in the background \
             (stale-while-revalidate, RFC 5861 §3)\n\
             stale: given for up to 50 s more to this request (max-stale, RFC 9111 §5.2.1.2)\n\
             stale: given for up to 86400 s (24.0 hours) more when the API cannot be reached, or is held to be down \
             (stale_max, RFC 9111 §4.2.4)",
        ),
        (
            &["Cache-Control: only-if-cached"],
            200,
            &["Cache-Control: max-age=60"],
            PLAIN,
            "cache: the request would not get this answer: it wants one from store or none, and gets 504 \
             (only-if-cached, RFC 9111 §5.2.1.7)",
        ),
    ];
    cases.iter().for_each(check);
}

#[test]
fn what_a_request_makes_untrue_is_told() {
    let not_used = "cache: is not stored (answers to POST are not used for other requests, RFC 9110 §9.2.3)";
    for (status, lines, untrue) in [
        (200, &[][..], "what is stored for this path is no longer used"),
        (
            201,
            &["Location: /x"],
            "what is stored for this path, and for where Location and Content-Location lead, is no longer used",
        ),
        (201, &["Location: http://elsewhere.test/x"], "what is stored for this path is no longer used"),
        (404, &[], ""),
    ] {
        let because = "the request may have changed it, RFC 9111 §4.4";
        let untrue = if untrue.is_empty() { String::new() } else { format!("\nuntrue: {untrue} ({because})") };
        check(&(&[], status, lines, |answer, _| answer.method = Method::POST, format!("{not_used}{untrue}").leak()));
    }
}

#[test]
fn without_a_cache_there_is_one_line() {
    let answer = answer(200, &["Cache-Control: max-age=60"]);
    assert_eq!(told(&answer, &Rules::default(), "cache"), "there is none (cache is off)");
    let object = show::json(&explain(&answer, &Rules::default()), &answer, &Rules::default());
    let object: serde_json::Value = serde_json::from_str(&object).unwrap();
    assert!(object["cache"].is_null(), "{object}");
}

#[test]
fn the_conclusion_says_how_long_others_get_it() {
    for (lines, policy, expected) in [
        (&["Cache-Control: max-age=60"][..], CachePolicy::default(), "; for 60 s equal requests get it from the cache"),
        (&["ETag: \"a\""], CachePolicy::default(), ""),
        (
            &["Cache-Control: max-age=60", "ETag: \"a\""],
            CachePolicy { revalidate: Revalidate::Always, ..CachePolicy::default() },
            "",
        ),
        (&["Cache-Control: no-store"], CachePolicy::default(), ""),
    ] {
        let rules = Rules { cache: Some(policy), ..Rules::default() };
        let conclusion = explain(&answer(200, lines), &rules).conclusion();
        assert_eq!(conclusion, format!("sopan passes this answer on at once{expected}"));
    }
}

#[test]
fn programs_are_told_too() {
    let rules = Rules { cache: Some(CachePolicy::default()), ..Rules::default() };
    let json = |answer: &Answer| {
        let object: serde_json::Value =
            serde_json::from_str(&show::json(&explain(answer, &rules), answer, &rules)).unwrap();
        object["cache"].clone()
    };
    let mut of = answer(200, &["Cache-Control: max-age=60, stale-if-error=5", "Age: 20", "Vary: Accept"]);
    of.request = fields(&["Cookie: SECRET"]);
    let expected = serde_json::json!({
        "stored": true,
        "why_not": null,
        "for": "credential",
        "vary": ["accept"],
        "lifetime_s": 60.0,
        "lifetime_by": "directive",
        "age_s": 20.0,
        "given_unasked": true,
        "stale_s": { "while_revalidate": null, "accepted": null, "disconnected": 86_400.0, "on_error": 5.0, "no_token": 5.0 },
        "makes_untrue": false,
    });
    assert_eq!(json(&of), expected);
    let of = answer(200, &["Cache-Control: no-store"]);
    assert_eq!(
        (&json(&of)["stored"], &json(&of)["why_not"]),
        (&serde_json::json!(false), &serde_json::json!("no-store"))
    );
}
