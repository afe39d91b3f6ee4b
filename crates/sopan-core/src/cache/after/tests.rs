use std::time::Duration;

use super::*;
use crate::cache::tests::{answer, at, request, stored, tell_after, tell_reuse};
use crate::cache::{Lookup, lookup};
use crate::policy::Revalidate;

/// What came at noon, and for which request.
type Came<'a> = (&'a str, &'a str);

#[track_caller]
fn after(policy: &CachePolicy, came: &[Came<'_>], now: f64, asked: &str, answered: &str) -> After {
    let stored: Vec<Stored> = came.iter().map(|(asked, answer)| stored(policy, 0.0, asked, answer)).collect();
    let stored: Vec<_> = stored.iter().collect();
    let (request, answer) = (request(asked), answer(answered));
    let asked = request.asked(policy);
    let Lookup::Send(sent) = lookup(policy, &asked, &stored, at(now)) else { panic!("{asked:?} is not sent") };
    after_response(policy, &asked, &sent, &stored, answer.received(now))
}

#[track_caller]
fn check_with(policy: &CachePolicy, came: &[Came<'_>], now: f64, asked: &str, answered: &str, expected: &str) {
    let after = after(policy, came, now, asked, answered);
    assert_eq!(tell_after(&after), expected, "{answered} to {asked} after {came:?}");
}

/// With one answer in store, a minute after it was stale.
#[track_caller]
fn check(kept: &str, asked: &str, answered: &str, expected: &str) {
    check_with(&CachePolicy::default(), &[("GET", kept)], 70.0, asked, answered, expected);
}

const KEPT: &str = r#"200 | cache-control: max-age=10 | etag: "a" | content-length: 10"#;

#[test]
fn a_304_is_word_on_what_was_asked_about_or_of_no_use() {
    let good = "freshen #0: #0 whole, age 0, ttl 10";
    for (answered, expected) in [
        ("304", good),
        (r#"304 | etag: "a""#, good),
        (r#"304 | etag: W/"a""#, good),
        (r#"304 | etag: "b""#, "ask again, forget #0"),
        ("304 | last-modified: {-60}", "ask again, forget #0"),
        ("304 | cache-control: max-age=5 | age: 3", "freshen #0: #0 whole, age 3, ttl 2"),
        ("304 | cache-control: no-cache, max-age=9", "freshen #0: #0 whole, age 0, ttl 9"),
        ("304 | cache-control: max-age=0", "freshen #0: #0 whole, age 0, ttl -1"),
    ] {
        check(KEPT, "GET", answered, expected);
    }
    for (asked, expected) in [
        ("HEAD", "freshen #0: #0 head, age 0, ttl 10"),
        (r#"GET | if-none-match: "a""#, "freshen #0: #0 304, age 0, ttl 10"),
        (r#"GET | if-none-match: "c""#, "freshen #0: #0 whole, age 0, ttl 10"),
        ("GET | range: bytes=2-3", "freshen #0: #0 bytes 2-3, age 0, ttl 10"),
        ("GET | range: bytes=99-", "freshen #0: #0 416, age 0, ttl 10"),
    ] {
        check(KEPT, asked, "304", expected);
    }
}

/// A head without one of its fields may be that of another answer.
#[test]
fn a_304_that_would_make_a_head_too_large_ends_the_answer_that_it_is_about() {
    let many = |from: usize| (from..from + 60).map(|number| format!(" | x-{number}: 1")).collect::<String>();
    let (kept, news) = (format!("{KEPT}{}", many(0)), many(100));
    check(&kept, "GET", &format!("304{news}"), "ask again, forget #0");
    check(
        &kept,
        r#"GET | if-none-match: "a" | cache-control: no-cache"#,
        &format!("304{news}"),
        "ask again, forget #0",
    );
    check(&kept, "HEAD", &format!(r#"200 | etag: "a"{news}"#), "forget #0");
}

#[test]
fn a_304_to_several_says_which_one() {
    let a = r#"200 | cache-control: max-age=10 | etag: "a" | date: {-1}"#;
    let b = r#"200 | cache-control: max-age=10 | etag: "b" | vary: x"#;
    let policy = CachePolicy::default();
    for (answered, expected) in [
        (r#"304 | etag: "a""#, "freshen #0: #0 whole, age 0, ttl 10"),
        (r#"304 | etag: "b""#, "freshen #1: #1 whole, age 0, ttl 10"),
        ("304", "ask again, forget #1"),
    ] {
        check_with(&policy, &[("GET", a), ("GET", b)], 70.0, "GET", answered, expected);
    }
}

#[test]
fn a_304_that_nobody_asked_for_says_nothing() {
    let policy = CachePolicy::default();
    let kept = stored(&policy, 0.0, "GET", "200 | cache-control: max-age=10, stale-while-revalidate=90");
    let (request, answer) = (request("GET"), answer("304"));
    let asked = request.asked(&policy);
    let Lookup::Reuse(reuse) = lookup(&policy, &asked, &[&kept], at(70.0)) else { panic!("it may be stale") };
    // There is nothing to ask about it with, so that it is asked for anew in the background.
    let ask = Some(Box::new(Ask { index: 0, conditions: reuse.revalidate.unwrap(), missing: None }));
    let sent = Send { forward: Forward::Stale, ask, fallback: None, is_sharable: true, may_store: true };
    let after = after_response(&policy, &asked, &sent, &[&kept], answer.received(70.0));
    assert_eq!(tell_after(&after), "ask again, forget #0");
}

#[test]
fn a_304_that_the_client_asked_for_is_passed_on() {
    let bare = "200 | cache-control: max-age=10";
    let policy = CachePolicy::default();
    let asked = r#"GET | if-none-match: "x""#;
    check_with(&policy, &[], 0.0, asked, r#"304 | etag: "x""#, "pass on, Status");
    check(bare, asked, r#"304 | etag: "x""#, "pass on, Status");
    check(bare, "GET", "304", "pass on, Status");
    // Two odd tags are not asked about, but the client may ask with one.
    let odd = r#"200 | cache-control: max-age=10 | etag: "a", "b""#;
    check(odd, asked, r#"304 | etag: "a", "b""#, "freshen #0, pass on");
    check(odd, asked, r#"304 | etag: "x""#, "pass on, Status");
    check(odd, asked, "304", "pass on, Status");
    check(odd, asked, r#"304 | etag: "a", "b" | cache-control: no-store"#, "forget #0");
}

#[test]
fn what_a_304_says_takes_the_place_of_what_was_said() {
    let kept = r#"200 | cache-control: max-age=10 | etag: "a" | date: {0} | x-old: 1 | x-both: 1 | set-cookie: a=1"#;
    let news = r#"304 | cache-control: max-age=30 | date: {70} | age: 5 | x-both: 2 | x-new: 3 | content-length: 0 | set-cookie: a=2"#;
    let cookies = CachePolicy { store_set_cookie: true, ..CachePolicy::default() };
    let freshened = |after| match after {
        After::Freshen { stored, .. } => stored,
        other => panic!("{other:?}"),
    };
    let now = freshened(after(&cookies, &[("GET", kept)], 70.0, "GET", news));
    let line = |name: &str| now.headers.get(name).map(|value| value.to_str().unwrap());
    let shown = ["x-old", "x-both", "x-new", "set-cookie", "content-length", "age"].map(line);
    assert_eq!(shown, [Some("1"), Some("2"), Some("3"), Some("a=2"), None, None]);
    assert_eq!(now.freshness.lifetime, Duration::from_secs(30));
    assert_eq!(now.freshness.initial_age, Duration::from_secs(5));
    assert_eq!(now.times.received, at(70.0));

    let plain = CachePolicy::default();
    let now = freshened(after(&plain, &[("GET", KEPT)], 70.0, "GET", "304 | set-cookie: a=2 | x-new: 3"));
    assert_eq!(now.headers.get("set-cookie"), None, "a cookie does not come into store by way of a 304");
    // One without a date was made when it came, and not when the one before it was.
    assert_eq!(now.headers.get("date").unwrap().to_str().unwrap(), crate::cache::tests::date(70));
    assert_eq!(now.headers.get("content-length").unwrap(), "10");
}

#[test]
fn what_may_not_be_stored_any_more_is_given_once() {
    let policy = CachePolicy::default();
    let failure = r#"503 | cache-control: max-age=10 | etag: "a""#;
    let odd = r#"299 | cache-control: max-age=10 | etag: "a""#;
    for (kept, news, then) in [
        (KEPT, "cache-control: no-store", "send UriMiss"),
        (KEPT, "cache-control: private", "send UriMiss"),
        (KEPT, r#"cache-control: max-age=9, private="vary""#, "send UriMiss"),
        (failure, "retry-after: 5", "send UriMiss"),
        (odd, "cache-control: max-age=9, must-understand", "send UriMiss"),
        (KEPT, r#"cache-control: max-age=9, private="x""#, "#0 whole, age 1, ttl 8"),
        (KEPT, "cache-control: max-age=9", "#0 whole, age 1, ttl 8"),
    ] {
        let answered = format!("304 | {news}");
        let After::Freshen { stored, reuse, .. } = after(&policy, &[("GET", kept)], 70.0, "GET", &answered) else {
            panic!("{news}")
        };
        assert!(reuse.is_some());
        assert_eq!(stored.is_given_once(), then == "send UriMiss", "{news}");
        let request = request("GET");
        let found = lookup(&policy, &request.asked(&policy), &[&*stored], at(71.0));
        assert_eq!(crate::cache::tests::tell_lookup(&found), then, "{news}");
    }
    // One that was for all and is private now is for the one who asked.
    let answered = "304 | cache-control: private";
    let After::Freshen { stored, .. } = after(&policy, &[("GET", KEPT)], 70.0, "GET ann", answered) else { panic!() };
    assert_eq!(stored.owner, request("GET ann").asked(&policy).owner);
}

#[test]
fn what_no_longer_says_that_it_is_for_all_is_for_the_one_who_asked() {
    let policy = CachePolicy::default();
    let public = r#"200 | cache-control: max-age=10, public | etag: "a""#;
    let ann = request("GET ann").asked(&policy).owner;
    for (first, kept, news, expected) in [
        ("GET bob", public, "max-age=10", ann),
        ("GET bob", public, "max-age=10, public", None),
        // It was for those without a credential, and its new fields may be hers.
        ("GET", KEPT, "max-age=10", ann),
    ] {
        let answered = format!("304 | cache-control: {news}");
        let After::Freshen { stored, .. } = after(&policy, &[(first, kept)], 70.0, "GET ann", &answered) else {
            panic!("{news}")
        };
        assert_eq!(stored.owner, expected, "{news} after {kept} to {first}");
    }
}

#[test]
fn an_answer_takes_the_place_of_those_to_the_same_requests() {
    let policy = CachePolicy::default();
    let fresh = "200 | cache-control: max-age=10";
    let public = "200 | cache-control: max-age=10, public";
    let varied = "200 | cache-control: max-age=10 | vary: x";
    for (first, kept, second, answered, expected) in [
        ("GET", fresh, "GET", fresh, "store for #0"),
        ("GET", fresh, "GET | host: b.test", fresh, "store"),
        ("GET", varied, "GET | x: 1", varied, "store"),
        ("GET | x: 1", varied, "GET | x: 1", varied, "store for #0"),
        ("GET", fresh, "GET | x: 1", varied, "store for #0"),
        ("GET | x: 1", varied, "GET | x: 1", fresh, "store for #0"),
        ("GET", fresh, "GET ann", fresh, "store"),
        ("GET ann", fresh, "GET", fresh, "store"),
        ("GET ann", fresh, "GET bob", fresh, "store"),
        ("GET ann", fresh, "GET ann", fresh, "store for #0"),
        ("GET ann", fresh, "GET ann", public, "store for #0"),
        ("GET ann", fresh, "GET bob", public, "store"),
    ] {
        check_with(&policy, &[(first, kept)], 70.0, second, answered, expected);
    }
}

#[test]
fn what_is_no_longer_true_goes_also_where_the_new_one_is_not_stored() {
    for (asked, answered, expected) in [
        ("GET", "200 | cache-control: no-store", "forget #0"),
        ("GET", "404", "forget #0"),
        ("GET", "410", "forget #0"),
        ("GET", "302", "forget #0"),
        ("GET", "404 | cache-control: max-age=5", "store for #0"),
        ("GET | cache-control: no-store", "200", "pass on, RequestNoStore"),
        // These say nothing of it.
        ("GET", "401", "pass on, Status"),
        ("GET", "403", "pass on, NoLifetime"),
        ("GET", "429 | cache-control: max-age=5", "pass on, Status"),
        ("GET", "400", "pass on, NoLifetime"),
    ] {
        check(KEPT, asked, answered, expected);
    }
    check_with(&CachePolicy::default(), &[], 0.0, "GET", "200 | cache-control: no-store", "pass on, NoStore");
}

#[test]
fn a_failure_of_the_upstream_keeps_what_was_good() {
    let tolerant = r#"200 | cache-control: max-age=10, stale-if-error=60 | etag: "a""#;
    let stale = "#0 whole, age 70, ttl -60, StaleOnError";
    for (kept, answered, expected) in [
        (tolerant, "500", stale),
        (tolerant, "502", stale),
        (tolerant, "503 | retry-after: 5", stale),
        (tolerant, "504 | cache-control: max-age=5", stale),
        (tolerant, "501 | cache-control: max-age=5", "pass on, Status"),
        (tolerant, "429", "pass on, Status"),
        (KEPT, "500", "pass on, Status"),
        (KEPT, "503 | cache-control: max-age=5", "pass on, Status"),
        ("404 | cache-control: max-age=10", "503 | cache-control: max-age=5", "pass on, Status"),
        ("500 | cache-control: max-age=10", "500 | cache-control: max-age=10", "store for #0"),
    ] {
        check(kept, "GET", answered, expected);
    }
    check(tolerant, "HEAD", "500", "#0 head, age 70, ttl -60, StaleOnError");
    check_with(&CachePolicy::default(), &[], 0.0, "GET", "500 | cache-control: max-age=5", "store");
    check_with(
        &CachePolicy::default(),
        &[],
        0.0,
        "GET",
        "503 | cache-control: max-age=5 | retry-after: 5",
        "pass on, Status",
    );
}

const FIRST: &str = r#"206 | cache-control: max-age=10 | etag: "a" | content-range: bytes 0-4/10"#;

#[test]
fn the_rest_makes_a_whole_or_all_is_asked_for() {
    let came = [("GET | range: bytes=0-4", FIRST)];
    let useless = "ask again, forget #0";
    for (answered, expected) in [
        (r#"206 | etag: "a" | content-range: bytes 5-9/10"#, "join #0 to whole of Some(10): #0 whole, age 0, ttl 10"),
        (r#"206 | etag: "a" | content-range: bytes 3-9/10"#, "join #0 to whole of Some(10): #0 whole, age 0, ttl 10"),
        // Less than was asked for, elsewhere, of another length or version, or of one that nobody knows.
        (r#"206 | etag: "a" | content-range: bytes 5-8/10"#, useless),
        (r#"206 | etag: "a" | content-range: bytes 6-9/10"#, useless),
        (r#"206 | etag: "a" | content-range: bytes 5-9/11"#, useless),
        (r#"206 | etag: "b" | content-range: bytes 5-9/10"#, useless),
        ("206 | content-range: bytes 5-9/10", useless),
        (r#"206 | etag: "a""#, useless),
        (r#"206 | etag: "a" | content-range: bytes 5-9/10 | cache-control: no-store"#, useless),
        ("304", useless),
        ("416", useless),
        (r#"200 | etag: "b""#, "store for #0"),
        ("404", "forget #0"),
        ("500", "pass on, Status"),
    ] {
        check_with(&CachePolicy::default(), &came, 70.0, "GET", answered, expected);
    }
    let whole = r#"206 | etag: "a" | content-range: bytes 5-9/10 | content-length: 5 | x-new: 1"#;
    let After::Join { stored, .. } = after(&CachePolicy::default(), &came, 70.0, "GET", whole) else { panic!() };
    let line = |name: &str| stored.headers.get(name).map(|value| value.to_str().unwrap());
    let shown = ["content-length", "content-range", "x-new", "etag"].map(line);
    assert_eq!(shown, [Some("10"), None, Some("1"), Some(r#""a""#)]);
    assert_eq!(stored.status, StatusCode::OK);
}

#[test]
fn a_part_takes_the_place_of_what_it_has_or_contradicts() {
    let part = |tag: &str, range: &str| {
        let tag = if tag.is_empty() { String::new() } else { format!("| etag: {tag} ") };
        format!("206 | cache-control: max-age=10 {tag}| content-range: bytes {range}/99")
    };
    let policy = CachePolicy::default();
    for (kept, range, answered, expected) in [
        (part(r#""a""#, "20-29"), "40-49", part(r#""a""#, "40-49"), "store"),
        (part(r#""a""#, "20-29"), "10-39", part(r#""a""#, "10-39"), "store for #0"),
        (part(r#""a""#, "20-29"), "40-49", part(r#""b""#, "40-49"), "store for #0"),
        (part(r#""a""#, "20-29"), "40-49", part("", "40-49"), "store"),
        (part("", "20-29"), "25-39", part("", "25-39"), "store for #0"),
        (part("", "20-29"), "0-98", part("", "0-98"), "store for #0"),
        // It was not asked for, and is none.
        (part("", "20-29"), "40-49", "206 | cache-control: max-age=10".to_owned(), "pass on, Part"),
    ] {
        let asked = format!("GET | range: bytes={range}");
        check_with(&policy, &[("GET | range: bytes=20-29", &kept)], 70.0, &asked, &answered, expected);
    }
    let bare = "200 | cache-control: max-age=10 | content-length: 99";
    check(bare, "GET | range: bytes=0-1", &part(r#""a""#, "0-1"), "store");
    check(
        bare,
        "GET | range: bytes=0-1",
        "206 | cache-control: max-age=10 | content-range: bytes 0-1/98",
        "store for #0",
    );
    let dated = "200 | cache-control: max-age=10 | last-modified: {-60}";
    let news = "206 | cache-control: max-age=10 | last-modified: {-30} | content-range: bytes 0-1/99";
    check(bare, "GET", &part("", "0-1"), "pass on, Part");
    check(dated, "GET | range: bytes=0-1", news, "store for #0");
}

#[test]
fn a_part_of_what_is_there_confirms_it() {
    for (answered, expected) in [
        (r#"206 | etag: "a" | content-range: bytes 0-4/10"#, "freshen #0, pass on"),
        (r#"206 | etag: "a" | content-range: bytes 0-4/*"#, "freshen #0, pass on"),
        (r#"206 | etag: "b" | content-range: bytes 0-4/10"#, "store for #0"),
        // A body of the same tag that is longer is another one all the same.
        (r#"206 | etag: "a" | content-range: bytes 0-4/11"#, "store for #0"),
        (r#"206 | etag: "a" | content-range: bytes 5-10/*"#, "store for #0"),
        // What has several parts is of another type than the body, which would have it from now on.
        (r#"206 | etag: "a" | content-type: multipart/byteranges; boundary=x"#, "pass on, Part"),
    ] {
        check(KEPT, "GET | range: bytes=0-4", answered, expected);
    }
}

#[test]
fn a_head_confirms_or_contradicts_what_a_get_was_answered() {
    let bare = "200 | cache-control: max-age=10 | content-length: 10 | last-modified: {-60}";
    for (kept, answered, expected) in [
        (KEPT, r#"200 | etag: "a" | content-length: 10"#, "freshen #0, pass on"),
        (KEPT, "200", "freshen #0, pass on"),
        (KEPT, r#"200 | etag: "b""#, "forget #0"),
        (KEPT, "200 | content-length: 11", "forget #0"),
        (KEPT, "200 | last-modified: {-60}", "forget #0"),
        (bare, "200 | last-modified: {-60}", "freshen #0, pass on"),
        (bare, "200 | last-modified: {-50}", "forget #0"),
        (KEPT, "200 | cache-control: no-store", "forget #0"),
        (KEPT, "404", "forget #0"),
        (KEPT, "204", "forget #0"),
        (KEPT, "403", "pass on, Method"),
        (KEPT, "500", "pass on, Status"),
        ("404 | cache-control: max-age=10", "404", "freshen #0, pass on"),
    ] {
        check(kept, "HEAD", answered, expected);
    }
    check(KEPT, "HEAD | cache-control: no-store", "200", "pass on, RequestNoStore");
    check_with(&CachePolicy::default(), &[], 0.0, "HEAD", "200 | cache-control: max-age=10", "pass on, Method");
}

#[test]
fn what_the_cache_has_no_say_in_is_passed_on() {
    let fresh = "200 | cache-control: max-age=10";
    for (asked, answered, expected) in [
        ("GET +body", fresh, "pass on, Bypass"),
        (r#"GET | if-match: "a""#, fresh, "pass on, Bypass"),
        ("PUT", fresh, "pass on, Method"),
        ("POST", fresh, "pass on, Method"),
        ("POST", "200 | cache-control: max-age=10 | content-location: /it", "store for #0"),
        ("POST", "500", "pass on, Method"),
        ("POST", "304", "pass on, Method"),
    ] {
        check(KEPT, asked, answered, expected);
    }
}

#[test]
fn a_stale_answer_is_better_than_none_within_limits() {
    let policy = |stale_if_error, stale_max| CachePolicy {
        stale_if_error: Duration::from_secs(stale_if_error),
        stale_max: Duration::from_secs(stale_max),
        ..CachePolicy::default()
    };
    let (disconnected, no_token) = (Failure::Disconnected, Failure::NoToken);
    let none = "none";
    let lost = "#0 whole, age 70, ttl -60, StaleDisconnected";
    let late = "#0 whole, age 70, ttl -60, StaleNoToken";
    for (policy, directives, wishes, failure, expected) in [
        (policy(0, 60), "", "", disconnected, lost),
        (policy(0, 59), "", "", disconnected, none),
        (policy(0, 0), "", "", disconnected, none),
        (policy(0, 60), "", "", no_token, none),
        (policy(60, 60), "", "", no_token, late),
        (policy(59, 60), "", "", no_token, none),
        (policy(0, 60), "stale-if-error=60", "", no_token, late),
        (policy(0, 59), "stale-if-error=60", "", no_token, none),
        (policy(60, 60), "stale-if-error=59", "", no_token, none),
        (policy(0, 60), "", "stale-if-error=60", no_token, late),
        (policy(0, 60), "", "stale-if-error=59", no_token, none),
        (policy(60, 60), "", "stale-if-error=59", no_token, none),
        (policy(0, 60), "stale-if-error=60", "stale-if-error=59", no_token, none),
        (policy(0, 60), "stale-if-error=59", "stale-if-error=60", no_token, late),
        (policy(0, 60), "", "no-cache", disconnected, none),
        (policy(0, 60), "", "max-age=69", disconnected, none),
        (policy(0, 60), "", "max-age=70", disconnected, lost),
        (policy(0, 60), "", "max-age=0, stale-if-error=60", disconnected, lost),
        (policy(0, 60), "", "no-store", disconnected, lost),
        (policy(60, 60), "must-revalidate", "", disconnected, none),
        (policy(60, 60), "proxy-revalidate", "", disconnected, none),
        (policy(60, 60), "s-maxage=10", "", disconnected, none),
        (policy(60, 60), "no-cache", "stale-if-error=60", disconnected, none),
        (policy(60, 60), "must-revalidate, stale-if-error=60", "", no_token, none),
    ] {
        let kept = format!(r#"200 | cache-control: max-age=10, {directives} | etag: "a""#);
        let asked = if wishes.is_empty() { "GET".to_owned() } else { format!("GET | cache-control: {wishes}") };
        let told = failed(&policy, &kept, 70.0, &asked, failure);
        assert_eq!(told, expected, "{directives:?} {wishes:?} {failure:?} with {policy:?}");
    }
}

#[test]
fn where_nothing_stale_is_to_be_used_nothing_is_at_the_very_end_of_its_lifetime() {
    let never = CachePolicy { stale_max: Duration::ZERO, ..CachePolicy::default() };
    assert_eq!(failed(&never, KEPT, 10.0, "GET", Failure::Disconnected), "none");
    assert_eq!(failed(&CachePolicy::default(), KEPT, 10.0, "GET", Failure::NoToken), "none");
}

fn failed(policy: &CachePolicy, kept: &str, now: f64, asked: &str, failure: Failure) -> String {
    let (kept, request) = (stored(policy, 0.0, "GET", kept), request(asked));
    let asked = request.asked(policy);
    let Lookup::Send(sent) = lookup(policy, &asked, &[&kept], at(now)) else { panic!("{asked:?} is not sent") };
    let reuse = after_failure(policy, &asked, &sent, &[&kept], failure, at(now));
    let lasts = |now| stands_by(policy, &asked, &sent, &[&kept], failure, at(now));
    assert_eq!(lasts(now).is_some(), reuse.is_some());
    if let (Some(left), Some(Reuse { stale: Some(_), .. })) = (lasts(now), &reuse) {
        let end = now + left.as_secs_f64();
        assert!(lasts(end).is_some() && lasts(end + 1.0).is_none());
    }
    reuse.map_or("none".to_owned(), |reuse| tell_reuse(&reuse))
}

#[test]
fn what_is_fresh_but_was_to_be_asked_about_is_given_where_that_fails() {
    let always = CachePolicy { revalidate: Revalidate::Always, ..CachePolicy::default() };
    for failure in [Failure::Disconnected, Failure::NoToken] {
        assert_eq!(failed(&always, KEPT, 5.0, "GET", failure), "#0 whole, age 5, ttl 5");
        assert_eq!(failed(&always, KEPT, 5.0, "GET | range: bytes=1-2", failure), "#0 bytes 1-2, age 5, ttl 5");
    }
}
