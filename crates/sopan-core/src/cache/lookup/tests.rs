use std::time::Duration;

use crate::cache::range::{Part, Span};
use crate::cache::tests::{at, request, stored, tell_lookup, tell_reuse};
use crate::cache::{Extent, Stored, lookup, reuse_just_come};
use crate::policy::{CachePolicy, PathRule, PathTreatment, Revalidate};

/// What came, when, and for which request.
type Came<'a> = (f64, &'a str, &'a str);

#[track_caller]
fn check_with(policy: &CachePolicy, came: &[Came<'_>], now: f64, asked: &str, expected: &str) {
    let stored: Vec<Stored> = came.iter().map(|(time, asked, answer)| stored(policy, *time, asked, answer)).collect();
    let stored: Vec<_> = stored.iter().collect();
    let request = request(asked);
    let found = lookup(policy, &request.asked(policy), &stored, at(now));
    assert_eq!(tell_lookup(&found), expected, "{asked} at {now} of {came:?}");
}

/// One answer to a plain GET that came at noon.
#[track_caller]
fn check(answer: &str, now: f64, asked: &str, expected: &str) {
    check_with(&CachePolicy::default(), &[(0.0, "GET", answer)], now, asked, expected);
}

const FRESH: &str = r#"200 | cache-control: max-age=60 | etag: "a" | content-length: 10"#;

#[test]
fn only_a_get_or_a_head_that_anybody_could_answer_is_answered() {
    for (asked, expected) in [
        ("GET", "#0 whole, age 1, ttl 59"),
        ("HEAD", "#0 head, age 1, ttl 59"),
        ("POST", "send Method, alone"),
        ("POST | cache-control: no-store", "send Method, alone, unstored"),
        ("PUT", "send Method, alone, unstored"),
        ("OPTIONS", "send Method, alone, unstored"),
        ("PURGE", "send Method, alone, unstored"),
        ("GET +body", "send Bypass, alone, unstored"),
        (r#"GET | if-match: "a""#, "send Bypass, alone, unstored"),
        ("GET | if-unmodified-since: {0}", "send Bypass, alone, unstored"),
    ] {
        check(FRESH, 1.0, asked, expected);
    }
}

#[test]
fn settings_can_take_the_cache_out_of_the_way() {
    let came = [(0.0, "GET", FRESH)];
    let off = CachePolicy { on: false, ..CachePolicy::default() };
    let rule = |treatment| {
        let paths = vec![PathRule { path: "/it".to_owned(), treatment }];
        CachePolicy { paths, ..CachePolicy::default() }
    };
    let on = CachePolicy::default();
    let kept = stored(&on, 0.0, "GET", FRESH);
    for policy in [off, rule(PathTreatment::Bypass)] {
        let request = request("GET");
        let found = lookup(&policy, &request.asked(&policy), &[&kept], at(1.0));
        assert_eq!(tell_lookup(&found), "send Bypass, alone, unstored");
    }
    let always = rule(PathTreatment::Revalidate(Revalidate::Always));
    check_with(&always, &came, 1.0, "GET", r#"send Stale, asks #0 "a", or #0"#);
    let ttl = rule(PathTreatment::DefaultTtl(Duration::from_secs(5)));
    check_with(&ttl, &[(0.0, "GET", "200")], 1.0, "GET", "#0 whole, age 1, ttl 4");
}

#[test]
fn an_answer_is_for_its_host_its_owner_and_the_fields_it_was_chosen_by() {
    let policy = CachePolicy::default();
    let came = |asked, answer| [(0.0, asked, answer)];
    let plain = "200 | cache-control: max-age=60";
    let public = "200 | cache-control: max-age=60, public";
    let varied = "200 | cache-control: max-age=60 | vary: accept";
    let hit = "#0 whole, age 1, ttl 59";
    for (first, answer, second, expected) in [
        ("GET", plain, "GET | host: b.test", "send UriMiss"),
        ("GET", plain, "GET ann", hit),
        ("GET ann", plain, "GET ann", hit),
        ("GET ann", plain, "GET bob", "send UriMiss"),
        ("GET ann", plain, "GET", "send UriMiss"),
        ("GET ann", public, "GET bob", hit),
        ("GET ann", public, "GET", hit),
        ("GET | accept: a/b", varied, "GET | accept: a/b", hit),
        ("GET | accept: a/b", varied, "GET | accept: a/c", "send VaryMiss"),
        ("GET | accept: a/b", varied, "GET", "send VaryMiss"),
        ("GET", varied, "GET", hit),
        // Nobody learns from us that there is an answer for somebody else.
        ("GET ann | accept: a/b", varied, "GET bob | accept: a/c", "send UriMiss"),
    ] {
        check_with(&policy, &came(first, answer), 1.0, second, expected);
    }
}

#[test]
fn what_only_our_settings_call_fresh_is_not_for_those_with_a_secret() {
    let policy = CachePolicy { default_ttl: Some(Duration::from_secs(60)), ..CachePolicy::default() };
    let hit = "#0 whole, age 1, ttl 59";
    for (first, answer, second, expected) in [
        ("GET", "200", "GET", hit),
        ("GET", "200", "GET ann", "send UriMiss"),
        ("GET", "200 | cache-control: public", "GET ann", hit),
        ("GET", "200 | cache-control: max-age=60", "GET ann", hit),
        ("GET ann", "200", "GET ann", hit),
        ("GET ann", "200", "GET", "send UriMiss"),
    ] {
        check_with(&policy, &[(0.0, first, answer)], 1.0, second, expected);
    }
    // Nor is what is fresh by a guess.
    let guessed = "200 | last-modified: Wed, 21 Oct 2015 07:28:00 GMT";
    let by_guess = CachePolicy::default();
    check_with(&by_guess, &[(0.0, "GET", guessed)], 1.0, "GET ann", "send UriMiss");
}

#[test]
fn of_several_the_most_recent_counts() {
    let policy = CachePolicy::default();
    let made = |seconds: i64| format!("200 | cache-control: max-age=60 | date: {{{seconds}}}");
    let check =
        |first: &Came<'_>, second: &Came<'_>, expected| check_with(&policy, &[*first, *second], 5.0, "GET", expected);
    let (old, new) = (made(0), made(2));
    check(&(2.0, "GET", &old), &(2.0, "GET", &new), "#1 whole, age 3, ttl 57");
    check(&(2.0, "GET", &new), &(4.0, "GET", &old), "#0 whole, age 3, ttl 57");
    check(&(0.0, "GET", &old), &(0.5, "GET", &old), "#1 whole, age 4, ttl 55");
    // One that is for other requests, too, is no worse.
    let varied = "200 | cache-control: max-age=60 | vary: accept | date: {2}";
    check(&(2.0, "GET", &old), &(2.0, "GET", varied), "#1 whole, age 3, ttl 57");
    // What one was told by name counts before what everybody was told.
    check_with(&policy, &[(0.0, "GET ann", &old), (2.0, "GET", &new)], 5.0, "GET ann", "#0 whole, age 5, ttl 55");
    let public = "200 | cache-control: max-age=60, public | date: {2}";
    check_with(&policy, &[(0.0, "GET ann", &old), (2.0, "GET", public)], 5.0, "GET ann", "#1 whole, age 3, ttl 57");
    let public = "200 | cache-control: max-age=60, public | date: {0}";
    check(&(0.0, "GET", public), &(2.0, "GET", &new), "#1 whole, age 3, ttl 57");
    // The most recent one counts also where it must be asked about and the other need not be.
    let stale = "200 | cache-control: no-cache | etag: \"b\" | date: {2}";
    check(&(0.0, "GET", &old), &(2.0, "GET", stale), "send Stale, asks #1 \"b\"");
}

#[test]
fn it_is_fresh_until_its_age_is_its_lifetime() {
    for (now, expected) in [
        (0.0, "#0 whole, age 0, ttl 60"),
        (59.9, "#0 whole, age 59, ttl 0"),
        (60.0, r#"send Stale, asks #0 "a", or #0"#),
        (1e9, r#"send Stale, asks #0 "a", or #0"#),
        // Clocks are read one after the other; one that was set back makes all ages unknown.
        (-0.9, "#0 whole, age 0, ttl 60"),
        (-1.1, r#"send Stale, asks #0 "a", or #0"#),
    ] {
        check(FRESH, now, "GET", expected);
    }
    check("200 | cache-control: max-age=60 | age: 58", 1.0, "GET", "#0 whole, age 59, ttl 1");
    check("200 | cache-control: max-age=60 | age: 58", 2.0, "GET", "send Stale, or #0");
}

#[test]
fn a_client_says_how_old_an_answer_may_be() {
    let hit = "#0 whole, age 10, ttl 50";
    let asks = r#"send Request, asks #0 "a", or #0, alone"#;
    for (directives, expected) in [
        ("max-age=10", hit),
        ("max-age=9", asks),
        ("max-age=0", asks),
        ("max-age=1, max-stale=9", hit),
        ("max-age=1, max-stale=8", asks),
        ("max-age=0, max-stale", hit),
        ("min-fresh=50", hit),
        ("min-fresh=51", asks),
        ("min-fresh=51, max-stale", asks),
        ("no-cache", r#"send Request, asks #0 "a", alone"#),
        ("no-cache, max-stale", r#"send Request, asks #0 "a", alone"#),
        ("only-if-cached", hit),
        ("only-if-cached, max-age=5", "504"),
        ("only-if-cached, no-cache", "504"),
        // What is in store already may be used; nothing of a new answer may be kept, not even that this one is still good.
        ("no-store", hit),
        ("no-store, no-cache", "send Request, alone, unstored"),
        ("no-store, max-age=5", "send Request, or #0, alone, unstored"),
    ] {
        check(FRESH, 10.0, &format!("GET | cache-control: {directives}"), expected);
    }
    check(FRESH, 10.0, "GET | pragma: no-cache", r#"send Request, asks #0 "a", alone"#);
    check(FRESH, 0.0, "GET | cache-control: max-age=0", r#"send Request, asks #0 "a", or #0, alone"#);
    check_with(&CachePolicy::default(), &[], 0.0, "GET | cache-control: only-if-cached", "504");
    check_with(&CachePolicy::default(), &[], 0.0, "GET | cache-control: no-store", "send UriMiss, alone, unstored");
}

#[test]
fn what_does_not_change_is_not_asked_about_for_a_reload() {
    let immutable = r#"200 | cache-control: max-age=60, immutable | etag: "a""#;
    for (now, asked, expected) in [
        (10.0, "GET | cache-control: max-age=0", "#0 whole, age 10, ttl 50"),
        (10.0, "GET | cache-control: no-cache", r#"send Request, asks #0 "a", alone"#),
        (10.0, "GET | cache-control: max-age=5", r#"send Request, asks #0 "a", or #0, alone"#),
        (60.0, "GET | cache-control: max-age=0", r#"send Stale, asks #0 "a", or #0, alone"#),
    ] {
        check(immutable, now, asked, expected);
    }
    let always = CachePolicy { revalidate: Revalidate::Always, ..CachePolicy::default() };
    check_with(&always, &[(0.0, "GET", immutable)], 10.0, "GET", "#0 whole, age 10, ttl 50");
}

#[test]
fn settings_can_want_it_asked_about_each_time() {
    let always = CachePolicy { revalidate: Revalidate::Always, ..CachePolicy::default() };
    let swr = r#"200 | cache-control: max-age=1, stale-while-revalidate=60 | etag: "a""#;
    for (answer, asked, expected) in [
        (FRESH, "GET", r#"send Stale, asks #0 "a", or #0"#),
        // There is nothing to ask about it with, so a request would cost as much as the first.
        ("200 | cache-control: max-age=60", "GET", "#0 whole, age 10, ttl 50"),
        (FRESH, "GET | cache-control: only-if-cached", "#0 whole, age 10, ttl 50"),
        (swr, "GET", r#"send Stale, asks #0 "a", or #0"#),
    ] {
        check_with(&always, &[(0.0, "GET", answer)], 10.0, asked, expected);
    }
}

/// Those who were there when it was asked for are given it, if it is for them at all.
#[test]
fn what_has_just_come_is_for_all_on_whose_behalf_it_was_asked_for() {
    let policy = CachePolicy::default();
    let varied = r#"200 | cache-control: no-cache | etag: "a" | vary: accept"#;
    for (answer, first, second, expected) in [
        (r#"200 | cache-control: no-cache | etag: "a""#, "GET", "GET", "#0 whole, age 1, ttl -1"),
        (r#"200 | cache-control: max-age=0 | etag: "a""#, "GET", "HEAD", "#0 head, age 1, ttl -1"),
        (varied, "GET | accept: a/b", "GET | accept: a/b", "#0 whole, age 1, ttl -1"),
        (varied, "GET | accept: a/b", "GET | accept: a/c", "none"),
        (varied, "GET ann", "GET bob", "none"),
        (varied, "GET", "GET | host: b.test", "none"),
    ] {
        let (kept, request) = (stored(&policy, 0.0, first, answer), request(second));
        let reuse = reuse_just_come(&request.asked(&policy), &kept, at(1.0));
        assert_eq!(
            reuse.map_or("none".to_owned(), |reuse| tell_reuse(&reuse)),
            expected,
            "{answer} to {first}, {second}"
        );
    }
}

#[test]
fn its_sender_can_want_it_asked_about_each_time() {
    for (directives, expected) in [
        ("no-cache", r#"send Stale, asks #0 "a""#),
        (r#"no-cache="set-cookie""#, "#0 whole, age 10, ttl 50"),
        // Without the field it would be read wrongly.
        (r#"no-cache="x, vary""#, r#"send Stale, asks #0 "a""#),
    ] {
        let answer = format!(r#"200 | cache-control: max-age=60, {directives} | etag: "a""#);
        check(&answer, 10.0, "GET", expected);
    }
}

#[test]
fn a_stale_one_is_used_where_its_sender_or_the_client_lets_it_be() {
    let asks = r#"send Stale, asks #0 "a", or #0"#;
    let meanwhile = r#"#0 whole, age 15, ttl -5, StaleWhileRevalidate, asks "a""#;
    for (directives, asked, expected) in [
        ("stale-while-revalidate=5", "", meanwhile),
        ("stale-while-revalidate=4", "", asks),
        ("stale-while-revalidate=0", "", asks),
        // Who says how old it may be wants none that is stale.
        ("stale-while-revalidate=5", "max-age=15", r#"send Stale, asks #0 "a", or #0, alone"#),
        ("stale-while-revalidate=5", "min-fresh=1", r#"send Stale, asks #0 "a", or #0, alone"#),
        ("stale-while-revalidate=5", "no-cache", r#"send Request, asks #0 "a", alone"#),
        ("stale-while-revalidate=5", "only-if-cached", meanwhile),
        ("stale-while-revalidate=5, must-revalidate", "", r#"send Stale, asks #0 "a""#),
        ("stale-while-revalidate=5, proxy-revalidate", "", r#"send Stale, asks #0 "a""#),
        ("stale-while-revalidate=5, s-maxage=10", "", r#"send Stale, asks #0 "a""#),
        ("stale-while-revalidate=5, no-cache", "", r#"send Stale, asks #0 "a""#),
        ("x", "max-stale=5", "#0 whole, age 15, ttl -5, StaleAccepted"),
        ("x", "max-stale=4", asks),
        ("x", "max-stale", "#0 whole, age 15, ttl -5, StaleAccepted"),
        ("x", "max-stale, only-if-cached", "#0 whole, age 15, ttl -5, StaleAccepted"),
        ("x", "max-stale=4, only-if-cached", "504"),
        ("must-revalidate", "max-stale", r#"send Stale, asks #0 "a""#),
        ("proxy-revalidate", "max-stale", r#"send Stale, asks #0 "a""#),
        ("s-maxage=10", "max-stale", r#"send Stale, asks #0 "a""#),
        ("no-cache", "max-stale", r#"send Stale, asks #0 "a""#),
    ] {
        let answer = format!(r#"200 | cache-control: max-age=10, {directives} | etag: "a""#);
        let asked = if asked.is_empty() { "GET".to_owned() } else { format!("GET | cache-control: {asked}") };
        check(&answer, 15.0, &asked, expected);
    }
}

#[test]
fn settings_bound_how_long_anything_stale_is_used() {
    let came = [(0.0, "GET", "200 | cache-control: max-age=10, stale-while-revalidate=1000")];
    let max_stale = "GET | cache-control: max-stale";
    let limit = |seconds| CachePolicy { stale_max: Duration::from_secs(seconds), ..CachePolicy::default() };
    for (seconds, now, asked, expected) in [
        (20, 30.0, "GET", "#0 whole, age 30, ttl -20, StaleWhileRevalidate, asks"),
        (20, 31.0, "GET", "send Stale, or #0"),
        (20, 31.0, max_stale, "send Stale, or #0"),
        (0, 11.0, max_stale, "send Stale, or #0"),
    ] {
        check_with(&limit(seconds), &came, now, asked, expected);
    }
    // Where the clock was set back, nobody knows for how long.
    check_with(&limit(20), &came, -10.0, max_stale, "send Stale, or #0");
}

#[test]
fn a_client_gets_what_it_does_not_have_of_what_it_asks_for() {
    let dated = r#"200 | cache-control: max-age=60 | etag: "a" | last-modified: {-60} | content-length: 10"#;
    let tail = ", age 1, ttl 59";
    for (asked, expected) in [
        (r#"GET | if-none-match: "a""#, "304"),
        (r#"HEAD | if-none-match: W/"a""#, "304"),
        (r#"GET | if-none-match: "b""#, "whole"),
        (r#"GET | if-none-match: "b" | if-modified-since: {0}"#, "whole"),
        ("GET | if-modified-since: {-60}", "304"),
        ("GET | if-modified-since: {-61}", "whole"),
        ("GET | range: bytes=2-4", "bytes 2-4"),
        ("GET | range: bytes=7-", "bytes 7-9"),
        ("GET | range: bytes=-3", "bytes 7-9"),
        ("GET | range: bytes=8-99", "bytes 8-9"),
        ("GET | range: bytes=0-1, 4-5", "parts 0-1+4-5"),
        ("GET | range: bytes=10-", "416"),
        ("GET | range: lines=1-2", "whole"),
        ("GET | range: bytes=x", "whole"),
        ("HEAD | range: bytes=2-4", "head"),
        (r#"GET | range: bytes=2-4 | if-range: "a""#, "bytes 2-4"),
        (r#"GET | range: bytes=2-4 | if-range: "b""#, "whole"),
        (r#"GET | range: bytes=2-4 | if-range: W/"a""#, "whole"),
        ("GET | range: bytes=2-4 | if-range: {-60}", "bytes 2-4"),
        (r#"GET | range: bytes=2-4 | if-none-match: "a""#, "304"),
        (r#"GET | range: bytes=2-4 | if-none-match: "b""#, "bytes 2-4"),
    ] {
        check(dated, 1.0, asked, &format!("#0 {expected}{tail}"));
    }
    let of = |status: &str, asked: &str, expected: &str| {
        check(&dated.replacen("200", status, 1), 1.0, asked, &format!("#0 {expected}{tail}"));
    };
    // Conditions and ranges are about what has succeeded.
    of("404", r#"GET | if-none-match: "a""#, "whole");
    of("404", "GET | range: bytes=2-4", "whole");
    of("203", r#"GET | if-none-match: "a""#, "304");
    of("203", "GET | range: bytes=2-4", "whole");
    // Nobody knows how long it is: it still comes.
    check("200 | cache-control: max-age=60", 1.0, "GET | range: bytes=2-4", "#0 whole, age 1, ttl 59");
}

const PART: &str = r#"206 | cache-control: max-age=60 | etag: "a" | content-range: bytes 4-7/20"#;

#[test]
fn a_part_answers_what_is_in_it_and_is_completed_for_what_is_not() {
    let hit = |span: &str| format!("#0 bytes {span}, age 1, ttl 59");
    let asks = |span: &str| format!("send Partial, asks #0 bytes {span}, alone");
    let alone = "send Partial, alone".to_owned();
    for (range, expected) in [
        ("4-7", hit("4-7")),
        ("5-6", hit("5-6")),
        ("4-8", asks("8-8")),
        ("8-9", asks("8-9")),
        ("6-", asks("8-19")),
        ("2-5", asks("2-3")),
        ("0-3", asks("0-3")),
        // Not in one piece, or without anything between.
        ("2-9", alone.clone()),
        ("9-9", alone.clone()),
        ("0-2", alone.clone()),
        ("-13", asks("8-19")),
        ("-11", alone.clone()),
        ("4-5, 6-7", alone.clone()),
        ("20-", alone.clone()),
    ] {
        let asked = format!("GET | range: bytes={range}");
        check_with(&CachePolicy::default(), &[(0.0, "GET | range: bytes=4-7", PART)], 1.0, &asked, &expected);
    }
}

#[test]
fn a_part_is_completed_only_by_a_strong_tag_and_within_bounds() {
    let first = r#"206 | cache-control: max-age=60 | etag: "a" | content-range: bytes 0-4/10"#;
    let weak = r#"206 | cache-control: max-age=60 | etag: W/"a" | content-range: bytes 0-4/10"#;
    let bare = "206 | cache-control: max-age=60 | content-range: bytes 0-4/10";
    let open = r#"206 | cache-control: max-age=60 | etag: "a" | content-range: bytes 0-4/*"#;
    let roomy = CachePolicy::default();
    let tight = CachePolicy { entry_bytes_max: 9, ..CachePolicy::default() };
    for (policy, answer, asked, expected) in [
        (&roomy, first, "GET", "send Partial, asks #0 bytes 5-9"),
        (&roomy, first, "HEAD", "send Partial, alone, unstored"),
        (&roomy, first, r#"GET | if-none-match: "a""#, "send Partial, asks #0 bytes 5-9, alone"),
        (&roomy, first, "GET | cache-control: no-cache", "send Partial, asks #0 bytes 5-9, alone"),
        (&roomy, first, "GET | cache-control: no-store", "send Partial, alone, unstored"),
        (&roomy, first, "GET | cache-control: only-if-cached", "504"),
        (&roomy, first, r#"GET | range: bytes=0-1 | if-range: "a""#, "#0 bytes 0-1, age 1, ttl 59"),
        (&roomy, first, r#"GET | range: bytes=0-1 | if-range: "b""#, "send Partial, alone"),
        (&roomy, first, r#"GET | range: bytes=0-1 | if-none-match: "a""#, "#0 304, age 1, ttl 59"),
        (&roomy, weak, "GET", "send Partial"),
        (&roomy, bare, "GET", "send Partial"),
        (&roomy, open, "GET", "send Partial"),
        (&roomy, open, "GET | range: bytes=3-5", "send Partial, asks #0 bytes 5-5, alone"),
        (&roomy, open, "GET | range: bytes=3-", "send Partial, alone"),
        (&tight, first, "GET", "send Partial"),
    ] {
        check_with(policy, &[(0.0, "GET | range: bytes=0-4", answer)], 1.0, asked, expected);
    }
    // One that has all that is asked for is asked about like any other when it is stale.
    let came = [(0.0, "GET | range: bytes=0-4", first)];
    let asked = "GET | range: bytes=0-1";
    check_with(&roomy, &came, 60.0, asked, r#"send Stale, asks #0 "a", or #0, alone"#);
    check_with(&roomy, &came, 60.0, "GET", "send Partial, asks #0 bytes 5-9");
}

#[test]
fn all_in_one_part_is_no_part_for_who_asks_for_all() {
    let policy = CachePolicy::default();
    let part = Part { span: Span { first: 0, last: 9 }, complete: Some(10) };
    let kept = Stored { extent: Extent::Part(part), ..stored(&policy, 0.0, "GET", FRESH) };
    for (asked, expected) in [
        ("GET", "send Partial"),
        ("GET | range: bytes=0-", "#0 bytes 0-9, age 1, ttl 59"),
        ("HEAD", "send Partial, alone, unstored"),
    ] {
        let request = request(asked);
        assert_eq!(tell_lookup(&lookup(&policy, &request.asked(&policy), &[&kept], at(1.0))), expected);
    }
}

#[test]
fn a_whole_answer_counts_before_a_part_unless_only_the_part_is_fresh() {
    let policy = CachePolicy::default();
    let whole = (0.0, "GET", FRESH);
    let part = (50.0, "GET | range: bytes=4-7", PART);
    let asked = "GET | range: bytes=5-6";
    check_with(&policy, &[part, whole], 55.0, asked, "#1 bytes 5-6, age 55, ttl 5");
    check_with(&policy, &[part, whole], 70.0, asked, "#0 bytes 5-6, age 20, ttl 40");
    check_with(&policy, &[part, whole], 70.0, "GET", r#"send Stale, asks #1 "a", or #1"#);
}

#[test]
fn the_upstream_is_asked_with_all_that_it_may_choose_from() {
    let policy = CachePolicy::default();
    let tag = |tag: &str, vary: &str| format!(r#"200 | cache-control: max-age=1 | etag: "{tag}" | vary: {vary}"#);
    let (a, b) = (tag("a", "accept"), tag("b", "x"));
    let dated = "200 | cache-control: max-age=1 | last-modified: {-60} | vary: y";
    let came = [(0.0, "GET | accept: a/b", a.as_str()), (1.0, "GET | x: 1", b.as_str()), (0.0, "GET | y: 1", dated)];
    for (asked, expected) in [
        ("GET | accept: a/b", r#"send Stale, asks #0 "a", or #0"#),
        ("GET | accept: a/b | x: 1", r#"send Stale, asks #1 "b", "a", or #1"#),
        ("GET | y: 1 | z: 1", "send Stale, asks #2 date, or #2"),
        // What is for other requests is not asked about: whether it is for this one, too, could not be kept.
        ("GET | accept: a/c", "send VaryMiss"),
    ] {
        check_with(&policy, &came, 5.0, asked, expected);
    }
    check("200 | cache-control: max-age=1", 5.0, r#"GET | if-none-match: "x""#, "send Stale, or #0, alone");
}

#[test]
fn who_asks_for_anything_of_its_own_is_not_answered_along_with_others() {
    for (asked, expected) in [
        ("GET", "send UriMiss"),
        ("GET ann", "send UriMiss"),
        ("GET | accept: a/b", "send UriMiss"),
        ("GET | cache-control: max-stale=5", "send UriMiss"),
        ("GET | cache-control: max-age=5", "send UriMiss, alone"),
        ("GET | cache-control: min-fresh=5", "send UriMiss, alone"),
        ("GET | cache-control: no-cache", "send UriMiss, alone"),
        ("GET | range: bytes=0-1", "send UriMiss, alone"),
        (r#"GET | if-none-match: "a""#, "send UriMiss, alone"),
        ("GET | if-modified-since: {0}", "send UriMiss, alone"),
        ("HEAD", "send UriMiss, alone, unstored"),
    ] {
        check_with(&CachePolicy::default(), &[], 0.0, asked, expected);
    }
}
