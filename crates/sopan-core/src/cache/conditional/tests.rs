use std::time::UNIX_EPOCH;

use http::StatusCode;

use super::*;
use crate::cache::directives::ResponseDirectives;
use crate::cache::freshness::Freshness;
use crate::cache::vary::Selecting;
use crate::cache::{Extent, Times};

fn fields(lines: &[(&str, &str)]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        fields.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    fields
}

fn stored(lines: &[(&str, &str)]) -> Stored {
    let (headers, directives) = (fields(lines), ResponseDirectives::default());
    let times = Times { requested: UNIX_EPOCH, received: UNIX_EPOCH };
    let freshness = Freshness::of(StatusCode::OK, &headers, &directives, times, None);
    Stored {
        status: StatusCode::OK,
        headers,
        host: b"a.test"[..].into(),
        owner: None,
        selecting: Selecting::default(),
        times,
        directives,
        freshness,
        extent: Extent::Whole(None),
    }
}

#[track_caller]
fn check(request: &[(&str, &str)], answer: &[(&str, &str)], expected: bool) {
    assert_eq!(is_not_modified(&fields(request), &fields(answer)), expected, "{request:?} of {answer:?}");
}

#[test]
fn an_entity_tag_is_compared_weakly_and_byte_for_byte() {
    for (none_match, etag, expected) in [
        (r#""a""#, r#""a""#, true),
        (r#"W/"a""#, r#""a""#, true),
        (r#""a""#, r#"W/"a""#, true),
        (r#"W/"a""#, r#"W/"a""#, true),
        (r#""b""#, r#""a""#, false),
        (r#""A""#, r#""a""#, false),
        (r#""""#, r#""""#, true),
        (r#""aü""#, r#""aü""#, true),
        (r#""x", "y","a" , "z""#, r#""a""#, true),
        (r#",, "a",,"#, r#""a""#, true),
        (r#""x, "a"""#, r#""a""#, false),
        (r#""a,b""#, r#""a,b""#, true),
        (r#""a,b""#, r#""a""#, false),
        (r#""a\", "b""#, r#""b""#, true),
        ("*", r#""a""#, true),
        (r#"*, "b""#, r#""a""#, false),
        (r#""*""#, r#""a""#, false),
        ("", r#""a""#, false),
        // What is none is equal to the same text alone.
        ("a", "a", true),
        ("a", r#""a""#, false),
        (r#""a""#, "a", false),
        (r#"w/"a""#, r#"w/"a""#, true),
        (r#"w/"a""#, r#"W/"a""#, false),
        (r#"W\"a""#, r#"W\"a""#, true),
        (r#"W"a""#, r#"W"a""#, true),
        ("x, a", "a", true),
        (r#"""#, r#"""#, true),
    ] {
        check(&[("if-none-match", none_match)], &[("etag", etag)], expected);
    }
    check(&[("if-none-match", r#""a""#), ("if-none-match", r#""b""#)], &[("etag", r#""b""#)], true);
    check(&[("if-none-match", r#""a""#)], &[("etag", r#""a""#), ("etag", r#""b""#)], false);
    check(&[("if-none-match", r#""a""#)], &[], false);
    check(&[("if-none-match", "*")], &[], true);
    check(&[], &[("etag", r#""a""#)], false);
}

const EARLY: &str = "Wed, 21 Oct 2026 11:00:00 GMT";
const NOON: &str = "Wed, 21 Oct 2026 12:00:00 GMT";
const LATE: &str = "Wed, 21 Oct 2026 13:00:00 GMT";

#[test]
fn a_date_is_held_against_the_last_change_else_against_the_making() {
    for (since, modified, made, expected) in [
        (NOON, Some(NOON), LATE, true),
        (LATE, Some(NOON), LATE, true),
        (EARLY, Some(NOON), LATE, false),
        ("Wednesday, 21-Oct-26 12:00:00 GMT", Some(NOON), LATE, true),
        ("Wednesday, 21-Oct-26 11:59:59 GMT", Some(NOON), LATE, false),
        ("Wed Oct 21 12:00:00 2026", Some(NOON), LATE, true),
        (NOON, Some("Wednesday, 21-Oct-26 12:00:00 GMT"), LATE, true),
        // Nobody knows which century that is.
        ("Wednesday, 21-Oct-26 12:00:00 GMT", Some(NOON), "now", false),
        (NOON, Some("yesterday"), EARLY, false),
        ("yesterday", Some("yesterday"), EARLY, false),
        (NOON, None, NOON, true),
        (EARLY, None, NOON, false),
        (NOON, None, "now", false),
    ] {
        let answer: Vec<_> = modified.map(|date| ("last-modified", date)).into_iter().chain([("date", made)]).collect();
        check(&[("if-modified-since", since)], &answer, expected);
    }
    check(&[("if-modified-since", NOON), ("if-modified-since", NOON)], &[("last-modified", NOON)], false);
}

#[test]
fn where_there_is_a_tag_the_date_is_not_looked_at() {
    let answer = [("etag", r#""a""#), ("last-modified", NOON)];
    check(&[("if-none-match", r#""a""#), ("if-modified-since", EARLY)], &answer, true);
    check(&[("if-none-match", r#""b""#), ("if-modified-since", NOON)], &answer, false);
    check(&[("if-none-match", ""), ("if-modified-since", NOON)], &answer, false);
}

#[track_caller]
fn check_asked(used: &[(&str, &str)], others: &[&[(&str, &str)]], expected: [Option<&str>; 2]) {
    let others: Vec<_> = others.iter().map(|lines| stored(lines)).collect();
    let conditions = Conditions::of(&stored(used), &others.iter().collect::<Vec<_>>());
    let text = |value: &Option<HeaderValue>| {
        value.as_ref().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let got = [text(&conditions.none_match), text(&conditions.modified_since)];
    assert_eq!(got.each_ref().map(Option::as_deref), expected, "{used:?}");
    assert_eq!(conditions.is_empty(), expected == [None, None]);
}

#[test]
fn the_upstream_is_asked_with_what_it_said() {
    let (a, b, weak, odd) = (("etag", r#""a""#), ("etag", r#""b""#), ("etag", r#"W/"c""#), ("etag", "d"));
    let (modified, other_modified) = (("last-modified", NOON), ("last-modified", EARLY));
    check_asked(&[a], &[], [Some(r#""a""#), None]);
    check_asked(&[a, modified], &[&[b, other_modified]], [Some(r#""a", "b""#), Some(NOON)]);
    check_asked(&[weak], &[&[a], &[weak], &[a], &[]], [Some(r#"W/"c", "a""#), None]);
    check_asked(&[modified], &[&[a]], [None, Some(NOON)]);
    check_asked(&[], &[&[a], &[other_modified]], [Some(r#""a""#), None]);
    check_asked(&[("last-modified", "yesterday")], &[], [None, None]);
    check_asked(&[("last-modified", "Wednesday, 21-Oct-26 12:00:00 GMT")], &[], [None, None]);
    check_asked(&[], &[&[other_modified]], [None, None]);
    // As it came, alone, and only if it can mean nothing else.
    check_asked(&[odd], &[&[a]], [Some("d"), None]);
    check_asked(&[a], &[&[odd]], [Some(r#""a""#), None]);
    check_asked(&[("etag", "*")], &[], [None, None]);
    check_asked(&[("etag", r#"d, "e""#)], &[], [None, None]);
    check_asked(&[a, b], &[], [None, None]);
}

#[test]
fn what_is_asked_with_is_bounded() {
    let long = format!("\"{}\"", "a".repeat(TAG_BYTES_MAX));
    check_asked(&[("etag", &long)], &[], [None, None]);
    let tags: Vec<_> = (0..100).map(|number| format!("\"{number}\"")).collect();
    let others: Vec<_> = tags.iter().map(|tag| stored(&[("etag", tag)])).collect();
    let conditions = Conditions::of(&others[0], &others.iter().collect::<Vec<_>>());
    let none_match = conditions.none_match.unwrap();
    assert_eq!(none_match.to_str().unwrap().split(", ").collect::<Vec<_>>(), tags[..TAGS_MAX]);
}

#[test]
fn a_clients_own_conditions_go() {
    let own = [("if-none-match", "\"x\""), ("if-none-match", "\"y\""), ("if-modified-since", EARLY)];
    let also = [("range", "bytes=0-1"), ("if-range", "\"x\""), ("accept", "a/b")];
    let mut request = fields(&[&own[..], &also].concat());
    Conditions::of(&stored(&[("etag", "\"a\"")]), &[]).apply(&mut request);
    assert_eq!(request, fields(&[("accept", "a/b"), ("if-none-match", "\"a\"")]));
}

#[test]
fn a_304_is_about_what_has_its_validator() {
    let (strong, weak, other) = (("etag", r#""a""#), ("etag", r#"W/"a""#), ("etag", r#""b""#));
    let (noon, late) = (("last-modified", NOON), ("last-modified", LATE));
    for (answer, ours, expected) in [
        (&[strong][..], &[strong][..], true),
        (&[weak], &[strong], true),
        (&[weak], &[weak], true),
        // It would make strong what never was.
        (&[strong], &[weak], false),
        (&[other], &[strong], false),
        (&[strong], &[noon], false),
        (&[strong, noon], &[noon], false),
        (&[strong, late], &[strong, noon], true),
        (&[strong, other], &[strong], false),
        (&[("etag", "a")], &[("etag", "a")], true),
        (&[("etag", "a")], &[strong], false),
        (&[noon], &[noon], true),
        (&[noon], &[strong, noon], true),
        (&[noon], &[late], false),
        (&[noon], &[strong], false),
        (&[("last-modified", "yesterday")], &[("last-modified", "yesterday")], true),
        (&[("last-modified", "yesterday")], &[("last-modified", "today")], false),
    ] {
        for is_only_one in [true, false] {
            assert_eq!(is_about(&fields(answer), &fields(ours), is_only_one), expected, "{answer:?} of {ours:?}");
        }
    }
    for ours in [&[strong][..], &[noon], &[]] {
        assert!(is_about(&fields(&[("date", NOON)]), &fields(ours), true));
        assert!(!is_about(&fields(&[("date", NOON)]), &fields(ours), false));
    }
}

#[test]
fn an_update_replaces_all_but_what_describes_the_body() {
    let before = [
        ("date", EARLY),
        ("age", "7"),
        ("x-old", "1"),
        ("link", "<a>"),
        ("link", "<b>"),
        ("content-type", "text/plain"),
        ("content-length", "500"),
        ("content-encoding", "gzip"),
        ("content-digest", "sha-256=:AA==:"),
    ];
    let update = [
        ("date", NOON),
        ("age", "1"),
        ("x-new", "2"),
        ("link", "<c>"),
        ("link", "<d>"),
        ("content-type", "text/html"),
        ("content-length", "0"),
        ("content-encoding", "br"),
        ("content-range", "bytes 0-1/2"),
        ("content-digest", "sha-256=:BB==:"),
        ("transfer-encoding", "chunked"),
        ("connection", "x"),
    ];
    let expected = [
        ("date", NOON),
        ("x-old", "1"),
        ("link", "<c>"),
        ("link", "<d>"),
        ("content-type", "text/html"),
        ("content-length", "500"),
        ("content-encoding", "gzip"),
        ("content-digest", "sha-256=:AA==:"),
        ("x-new", "2"),
    ];
    assert_eq!(updated(&fields(&before), &fields(&update)), Some(fields(&expected)));
}

#[test]
fn an_update_that_makes_a_head_too_large_makes_none_rather_than_one_that_lacks_a_field() {
    let long = "x".repeat(HEAD_BYTES_MAX / 10);
    let by_lines = |update: usize| -> Vec<_> { (0..10).map(|number| (format!("x-{update}-{number}"), "1")).collect() };
    let by_bytes = |update: usize| vec![(format!("y-{update}"), &*long)];
    let grow = |news: &dyn Fn(usize) -> HeaderMap| {
        let mut head = fields(&[("etag", "\"a\""), ("x-both", "1")]);
        for count in 0..30 {
            let Some(updated) = updated(&head, &news(count)) else { return (count, head) };
            head = updated;
        }
        panic!("it grows without bound");
    };
    let named = |lines: &[(String, &str)]| {
        fields(&lines.iter().map(|(name, line)| (&**name, *line)).chain([("x-both", "2")]).collect::<Vec<_>>())
    };
    for (count, head) in [grow(&|update| named(&by_lines(update))), grow(&|update| named(&by_bytes(update)))] {
        assert_eq!((count, &head["etag"], &head["x-both"]), (9, &"\"a\"".parse().unwrap(), &"2".parse().unwrap()));
        // What does not make it larger is taken.
        assert!(updated(&head, &fields(&[("x-both", "3"), ("age", "1")])).is_some());
    }
    // Also where it was larger from the beginning, by a line of our own.
    let most = named(&(0..FIELDS_MAX).map(|number| (format!("x-{number}"), "1")).collect::<Vec<_>>());
    assert_eq!((most.len(), updated(&most, &most)), (FIELDS_MAX + 1, Some(most.clone())));
}

#[test]
fn parts_are_of_one_body_only_by_a_strong_tag() {
    let (strong, weak) = (("etag", r#""a""#), ("etag", r#"W/"a""#));
    for (a, b, expected) in [
        (&[strong][..], &[strong][..], true),
        (&[strong], &[("etag", r#""b""#)], false),
        (&[strong], &[weak], false),
        (&[weak], &[weak], false),
        (&[("etag", "a")], &[("etag", "a")], false),
        (&[("last-modified", NOON)], &[("last-modified", NOON)], false),
        (&[], &[], false),
    ] {
        assert_eq!(is_same_body(&fields(a), &fields(b)), expected, "{a:?}, {b:?}");
    }
}
