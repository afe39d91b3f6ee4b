use std::time::Duration;

use super::*;
use crate::cache::range::Span;
use crate::cache::tests::{answer, at, request, stored};
use crate::policy::PathRule;

/// Whose it is stored as, or why it is not.
fn told(policy: &CachePolicy, asked: &str, answered: &str) -> String {
    let (request, answer) = (request(asked), answer(answered));
    match Stored::of(policy, &request.asked(policy), answer.received(0.0)) {
        Ok(stored) if stored.owner.is_some() => "for its owner".to_owned(),
        Ok(_) => "for all".to_owned(),
        Err(why) => format!("{why:?}"),
    }
}

#[track_caller]
fn check(asked: &str, answered: &str, expected: &str) {
    assert_eq!(told(&CachePolicy::default(), asked, answered), expected, "{answered} to {asked}");
}

#[test]
fn an_answer_is_stored_if_it_can_be_used_once_more() {
    for (answered, expected) in [
        ("200", "NoLifetime"),
        ("200 | cache-control: max-age=1", "for all"),
        ("200 | expires: {60}", "for all"),
        ("200 | cache-control: public", "NoLifetime"),
        // It is stale, but it can be asked about.
        (r#"200 | etag: "a""#, "for all"),
        (r#"200 | cache-control: max-age=0 | etag: "a""#, "for all"),
        (r#"200 | cache-control: no-cache | etag: "a""#, "for all"),
        ("200 | expires: 0 | last-modified: {-60}", "for all"),
        // It is and cannot.
        ("200 | cache-control: max-age=0", "NoLifetime"),
        ("200 | cache-control: no-cache, max-age=60", "NoLifetime"),
        ("200 | cache-control: max-age=0, stale-while-revalidate=60", "for all"),
        ("200 | cache-control: max-age=0, stale-if-error=60", "for all"),
        // It is, and may be taken all the same.
        ("200 | cache-control: max-age=60 | age: 61", "for all"),
        // A validator is not a permission.
        (r#"201 | etag: "a""#, "NoLifetime"),
        (r#"201 | cache-control: public | etag: "a""#, "for all"),
        ("201 | cache-control: max-age=1", "for all"),
        (r#"404 | etag: "a""#, "for all"),
        (r#"500 | etag: "a""#, "NoLifetime"),
    ] {
        check("GET", answered, expected);
    }
}

#[test]
fn its_sender_or_the_client_can_forbid_it() {
    for (asked, answered, expected) in [
        ("GET", "200 | cache-control: max-age=60, no-store", "NoStore"),
        ("GET", "200 | cache-control: max-age=60 | cache-control: No-Store", "NoStore"),
        ("GET", "200 | cdn-cache-control: no-store | cache-control: max-age=60", "NoStore"),
        ("GET", "200 | cdn-cache-control: max-age=60 | cache-control: no-store", "for all"),
        ("GET | cache-control: no-store", "200 | cache-control: max-age=60", "RequestNoStore"),
        ("GET", "200 | cache-control: max-age=60 | vary: *", "VaryStar"),
        ("GET", "200 | cache-control: max-age=60 | vary: a, *", "VaryStar"),
        ("GET", "200 | cache-control: max-age=60 | content-length: 9999999999", "TooLarge"),
        ("GET", "200 | cache-control: max-age=60, no-store, must-understand", "for all"),
        ("GET", "299 | cache-control: max-age=60, no-store, must-understand", "Status"),
        ("GET", "299 | cache-control: max-age=60, must-understand", "Status"),
        ("GET", "299 | cache-control: max-age=60", "for all"),
        ("GET +body", "200 | cache-control: max-age=60", "Bypass"),
        ("HEAD", "200 | cache-control: max-age=60", "Method"),
        ("PUT", "200 | cache-control: max-age=60", "Method"),
    ] {
        check(asked, answered, expected);
    }
}

#[test]
fn a_status_that_is_of_this_request_or_moment_is_never_stored() {
    for status in [401, 407, 412, 416, 428, 429, 431, 511] {
        check("GET", &format!("{status} | cache-control: max-age=60, public"), "Status");
    }
    check("GET", "304 | cache-control: max-age=60", "Status");
    check("GET", "503 | cache-control: max-age=60 | retry-after: 1", "Status");
    for status in [200, 203, 204, 299, 301, 302, 303, 307, 308, 400, 403, 404, 410, 451, 499, 500, 502, 503, 504, 599] {
        check("GET", &format!("{status} | cache-control: max-age=60"), "for all");
    }
}

#[test]
fn an_answer_to_a_secret_is_for_its_owner_unless_it_says_otherwise() {
    let (token, cookie) = ("GET ann | authorization: x", "GET ann | cookie: x");
    let both = "GET ann | authorization: x | cookie: x";
    for (asked, directives, expected) in [
        ("GET", "max-age=60", "for all"),
        ("GET", "max-age=60, private", "Private"),
        ("GET", r#"max-age=60, private="x""#, "for all"),
        ("GET", r#"max-age=60, private="content-type""#, "Private"),
        (token, "max-age=60", "for its owner"),
        (token, "max-age=60, private", "for its owner"),
        (token, "max-age=60, private, public", "for its owner"),
        (token, "max-age=60, public", "for all"),
        (token, "s-maxage=60", "for all"),
        (token, "max-age=60, must-revalidate", "for all"),
        (token, "max-age=60, proxy-revalidate", "for its owner"),
        (cookie, "max-age=60", "for its owner"),
        (cookie, "max-age=60, public", "for all"),
        (cookie, "max-age=60, must-revalidate", "for its owner"),
        (both, "max-age=60, must-revalidate", "for its owner"),
        (both, "s-maxage=60", "for all"),
        ("GET ann | authorization: x | idempotency-key: 1", "max-age=60, must-revalidate", "for all"),
    ] {
        check(asked, &format!("200 | cache-control: {directives}"), expected);
    }
}

#[test]
fn what_is_chosen_by_a_secret_is_for_its_owner_and_keeps_none() {
    for (asked, vary, expected) in [
        ("GET ann | authorization: x", "authorization", "for its owner"),
        ("GET ann | cookie: x", "accept, cookie", "for its owner"),
        ("GET ann | cookie: x", "authorization", "for all"),
        ("GET ann | cookie: x", "accept", "for all"),
        ("GET", "cookie", "for all"),
    ] {
        check(asked, &format!("200 | cache-control: max-age=60, public | vary: {vary}"), expected);
    }
    let policy = CachePolicy::default();
    let (asked, answered) =
        ("GET ann | authorization: secret-a | cookie: secret-b", "200 | vary: cookie, authorization");
    let kept = stored(&policy, 0.0, asked, &format!("{answered} | cache-control: max-age=60, public"));
    let written = kept.encode();
    assert!(!written.windows(6).any(|window| window == b"secret"), "{}", String::from_utf8_lossy(&written));
    // Also where only an update tells that it was.
    let before = stored(&policy, 0.0, asked, r#"200 | cache-control: max-age=60, public | etag: "a""#);
    let (request, update) = (request(asked), answer("304 | vary: cookie"));
    let after = before.renewed(&policy, &request.asked(&policy), update.received(1.0), before.extent).unwrap();
    assert_eq!((before.owner, after.owner), (None, request.asked(&policy).owner));
}

#[test]
fn a_cookie_is_stored_where_that_is_set() {
    let cookies = CachePolicy { store_set_cookie: true, ..CachePolicy::default() };
    let fresh = "200 | cache-control: max-age=60 | set-cookie: a=1";
    assert_eq!(told(&CachePolicy::default(), "GET", fresh), "SetCookie");
    assert_eq!(told(&cookies, "GET", fresh), "for all");
    // The rest may be stored without it.
    check("GET", r#"200 | cache-control: max-age=60, no-cache="Set-Cookie" | set-cookie: a=1"#, "for all");
    check("GET", r#"200 | cache-control: max-age=60, private="set-cookie" | set-cookie: a=1"#, "for all");
    check("GET ann", r#"200 | cache-control: max-age=60, private="set-cookie" | set-cookie: a=1"#, "SetCookie");
}

#[test]
fn settings_give_a_lifetime_to_what_has_none() {
    let ttl = CachePolicy { default_ttl: Some(Duration::from_secs(5)), ..CachePolicy::default() };
    for (asked, answered, expected) in [
        ("GET", "200", "for all"),
        // A job that is not done yet says so with 202, and must be asked again.
        ("GET", "201", "NoLifetime"),
        ("GET", "202", "NoLifetime"),
        ("GET", "204", "for all"),
        ("GET", "202 | cache-control: max-age=1", "for all"),
        ("GET ann", "200", "for its owner"),
        ("GET", "404", "NoLifetime"),
        ("GET", "200 | cache-control: no-cache", "NoLifetime"),
        ("GET", "200 | cache-control: no-store", "NoStore"),
        ("GET", "200 | cache-control: private", "Private"),
        ("GET", "200 | set-cookie: a=1", "SetCookie"),
        ("POST", "200 | content-location: /it", "NoLifetime"),
    ] {
        assert_eq!(told(&ttl, asked, answered), expected, "{answered} to {asked}");
    }
    let rule = PathRule { path: "/it".to_owned(), treatment: PathTreatment::DefaultTtl(Duration::from_secs(7)) };
    let ruled = CachePolicy { paths: vec![rule], ..ttl };
    assert_eq!(stored(&ruled, 0.0, "GET", "200").freshness.lifetime, Duration::from_secs(7));
    let rule = PathRule { path: "/it".to_owned(), treatment: PathTreatment::Bypass };
    let bypassed = CachePolicy { paths: vec![rule], ..CachePolicy::default() };
    assert_eq!(told(&bypassed, "GET", "200 | cache-control: max-age=60"), "Bypass");
}

#[test]
fn a_post_is_stored_for_a_get_where_it_says_that_it_is_one() {
    let fresh = "cache-control: max-age=60 | content-location";
    for (answered, expected) in [
        (format!("200 | {fresh}: /it"), "for all"),
        (format!("200 | {fresh}: http://a.test/it"), "for all"),
        (format!("200 | {fresh}: HTTPS://A.TEST/it"), "for all"),
        (format!("200 | {fresh}: http://b.test/it"), "Method"),
        (format!("200 | {fresh}: http://a.test"), "Method"),
        (format!("200 | {fresh}: /it?x"), "Method"),
        (format!("200 | {fresh}: /other"), "Method"),
        (format!("201 | {fresh}: /it"), "Method"),
        (format!("200 | {fresh}: /it | content-location: /it"), "Method"),
        (r#"200 | etag: "a" | content-location: /it"#.to_owned(), "NoLifetime"),
        ("200 | last-modified: {-6000} | content-location: /it".to_owned(), "NoLifetime"),
        ("200 | cache-control: max-age=60".to_owned(), "Method"),
    ] {
        check("POST", &answered, expected);
        check("POST +body", &answered, expected);
    }
}

#[test]
fn a_part_is_stored_where_it_was_asked_for_and_says_what_it_is() {
    let policy = CachePolicy::default();
    let extent = |asked: &str, answered: &str| {
        let (request, answer) = (request(asked), answer(answered));
        Stored::of(&policy, &request.asked(&policy), answer.received(0.0)).map(|stored| stored.extent)
    };
    let part = |first, last, complete| Ok(Extent::Part(Part { span: Span { first, last }, complete }));
    let ranged = "GET | range: bytes=0-";
    for (asked, fields, expected) in [
        (ranged, "content-range: bytes 0-4/10", part(0, 4, Some(10))),
        (ranged, "content-range: bytes 0-4/*", part(0, 4, None)),
        (ranged, "content-range: bytes 0-4/10 | content-length: 5", part(0, 4, Some(10))),
        (ranged, "content-range: bytes 0-9/10", Ok(Extent::Whole(Some(10)))),
        (ranged, "content-range: bytes 0-4/10 | content-length: 6", Err(NotStored::Part)),
        (ranged, "content-range: bytes */10", Err(NotStored::Part)),
        (ranged, "content-type: multipart/byteranges; boundary=x", Err(NotStored::Part)),
        (ranged, "content-range: bytes 0-9999999998/9999999999", Err(NotStored::TooLarge)),
        ("GET", "content-range: bytes 0-4/10", Err(NotStored::Part)),
    ] {
        let answered = format!("206 | cache-control: max-age=60 | {fields}");
        assert_eq!(extent(asked, &answered), expected, "{fields}");
    }
    assert_eq!(extent("GET", "200 | cache-control: max-age=60"), Ok(Extent::Whole(None)));
    assert_eq!(extent("GET", "200 | cache-control: max-age=60 | content-length: 5"), Ok(Extent::Whole(Some(5))));
    assert_eq!(extent("GET", "204 | cache-control: max-age=60"), Ok(Extent::Whole(Some(0))));
}

#[test]
fn fields_are_stored_in_order_with_all_their_lines_but_for_some() {
    let names = |asked: &str, answered: &str| {
        let stored = stored(&CachePolicy::default(), 0.0, asked, answered);
        let lines = stored.headers.iter().map(|(name, value)| format!("{name}={}", value.to_str().unwrap()));
        lines.collect::<Vec<_>>().join(" ")
    };
    let directives = |directives: &str| {
        format!("200 | date: Z | cache-control: max-age=60, {directives} | b: 1 | a: 1 | age: 3 | b: 2 | age: 4")
    };
    let all = r"date=Z cache-control=max-age=60, x b=1 b=2 a=1";
    assert_eq!(names("GET", &directives("x")), all);
    assert_eq!(names("GET", &directives(r#"no-cache="b""#)), r#"date=Z cache-control=max-age=60, no-cache="b" a=1"#);
    assert_eq!(names("GET", &directives(r#"private="a, b""#)), r#"date=Z cache-control=max-age=60, private="a, b""#);
    let own = names("GET ann", &directives(r#"private="a, b""#));
    assert_eq!(own, r#"date=Z cache-control=max-age=60, private="a, b" b=1 b=2 a=1"#);

    let part = "206 | date: Z | cache-control: max-age=60 | content-length: 5 | content-range: bytes 0-4/10";
    assert_eq!(names("GET | range: bytes=0-4", part), "date=Z cache-control=max-age=60");
    let whole = "206 | date: Z | cache-control: max-age=60 | content-length: 5 | content-range: bytes 0-4/5";
    assert_eq!(names("GET | range: bytes=0-4", whole), "date=Z cache-control=max-age=60 content-length=5");
}

#[test]
fn an_answer_without_a_date_was_made_when_it_came() {
    let kept = stored(&CachePolicy::default(), 90.0, "GET", "200 | cache-control: max-age=60");
    assert_eq!(kept.headers.get(DATE).unwrap(), "Wed, 21 Oct 2026 12:01:30 GMT");
    assert_eq!(kept.status, StatusCode::OK);
    assert_eq!(kept.times.received, at(90.0));
}
