use super::*;

fn span(first: u64, last: u64) -> Span {
    Span { first, last }
}

fn part(first: u64, last: u64, complete: impl Into<Option<u64>>) -> Part {
    Part { span: span(first, last), complete: complete.into() }
}

fn fields(lines: &[(&'static str, &str)]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for (name, value) in lines {
        fields.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    fields
}

#[track_caller]
fn check(range: &str, length: u64, expected: &Wanted) {
    assert_eq!(wanted(&fields(&[("range", range)]), length), *expected, "{range} of {length}");
}

#[test]
fn one_range_is_the_part_that_is_there() {
    for (range, length, first, last) in [
        ("bytes=0-1", 10, 0, 1),
        ("bytes=9-9", 10, 9, 9),
        ("bytes=1-", 10, 1, 9),
        ("bytes=-1", 10, 9, 9),
        ("bytes=-10", 10, 0, 9),
        ("bytes=-99", 10, 0, 9),
        ("bytes=5-99", 10, 5, 9),
        ("BYTES=0-0", 10, 0, 0),
        ("bytes=  0-1 ,", 10, 0, 1),
        ("bytes=00-01", 10, 0, 1),
        ("bytes=5-99999999999999999999999", 10, 5, 9),
        ("bytes=-99999999999999999999999", 10, 0, 9),
        ("bytes=0-", u64::MAX, 0, u64::MAX - 1),
        // Of several that are asked for, one is there.
        ("bytes=0-1, 10-11", 10, 0, 1),
        ("bytes=-0, 5-5", 10, 5, 5),
    ] {
        check(range, length, &Wanted::One(span(first, last)));
    }
}

#[test]
fn nothing_that_is_there_is_told_so() {
    for (range, length) in [
        ("bytes=10-", 10),
        ("bytes=10-11", 10),
        ("bytes=-0", 10),
        ("bytes=99999999999999999999999-", u64::MAX),
        ("bytes=10-11, 20-21", 10),
        ("bytes=0-", 0),
        ("bytes=0-0", 0),
        ("bytes=-0", 0),
    ] {
        check(range, length, &Wanted::Nothing);
    }
    assert_eq!(unsatisfied(10), "bytes */10");
}

#[test]
fn what_cannot_be_read_or_asks_too_much_is_not_looked_at() {
    for range in [
        "",
        "bytes",
        "bytes=",
        "bytes=,",
        "bytes=-",
        "bytes=a-b",
        "bytes=1",
        "bytes=2-1",
        "bytes=0-1, 2-1",
        "bytes=0-1, x",
        "bytes=1.0-2",
        "bytes=+1-2",
        "bytes= 1 - 2",
        "bytes=--1",
        "bytes=1--2",
        "bytes =0-1",
        "items=0-1",
        "bytes 0-1",
        "bytes:0-1",
        "0-1",
        // More than once.
        "bytes=0-1, 1-2",
        "bytes=0-, -1",
        "bytes=0-0, 0-0",
    ] {
        check(range, 10, &Wanted::Whole);
    }
    check("bytes=-1", 0, &Wanted::Whole);
    assert_eq!(wanted(&fields(&[]), 10), Wanted::Whole);
    assert_eq!(wanted(&fields(&[("range", "bytes=0-1"), ("range", "bytes=0-1")]), 10), Wanted::Whole);
}

#[test]
fn several_are_given_in_the_order_asked() {
    check("bytes=0-1, 8-9", 10, &Wanted::Several(vec![span(0, 1), span(8, 9)]));
    check("bytes=-2,0-1, 50-, 4-5", 10, &Wanted::Several(vec![span(8, 9), span(0, 1), span(4, 5)]));
    check("bytes=0-1, 2-3", 10, &Wanted::Several(vec![span(0, 1), span(2, 3)]));
    let ranges = |count: u64| {
        let ranges: Vec<_> = (0..count).map(|number| format!("{0}-{0}", number * 2)).collect();
        format!("bytes={}", ranges.join(","))
    };
    let all = (0..RANGES_MAX as u64).map(|number| span(number * 2, number * 2)).collect();
    check(&ranges(RANGES_MAX as u64), 100, &Wanted::Several(all));
    check(&ranges(RANGES_MAX as u64 + 1), 100, &Wanted::Whole);
}

#[test]
fn of_a_part_only_what_is_clear_is_known() {
    for (range, complete, expected) in [
        ("bytes=2-4", None, Some(span(2, 4))),
        ("bytes=2-", None, None),
        ("bytes=-2", None, None),
        ("bytes=2-4", Some(4), Some(span(2, 3))),
        ("bytes=2-", Some(4), Some(span(2, 3))),
        ("bytes=-2", Some(10), Some(span(8, 9))),
        ("bytes=10-", Some(10), None),
        ("bytes=0-1, 3-4", Some(10), None),
        ("bytes=0-1, 3-4", None, None),
        ("items=0-1", Some(10), None),
    ] {
        assert_eq!(wanted_of_part(&fields(&[("range", range)]), complete), expected, "{range} of {complete:?}");
    }
    assert_eq!(wanted_of_part(&fields(&[]), Some(10)), None);
}

#[test]
fn a_range_counts_only_for_the_same_body() {
    let noon = ("last-modified", "Wed, 21 Oct 2026 12:00:00 GMT");
    let (at_once, later) = (("date", "Wed, 21 Oct 2026 12:00:00 GMT"), ("date", "Wed, 21 Oct 2026 12:00:01 GMT"));
    let (strong, weak) = (("etag", "\"a\""), ("etag", "W/\"a\""));
    for (condition, answer, expected) in [
        ("\"a\"", &[strong][..], true),
        ("\"b\"", &[strong], false),
        ("W/\"a\"", &[strong], false),
        ("\"a\"", &[weak], false),
        ("W/\"a\"", &[weak], false),
        ("a", &[("etag", "a")], false),
        ("\"a\"", &[noon, later], false),
        ("*", &[strong], false),
        ("Wed, 21 Oct 2026 12:00:00 GMT", &[noon, later], true),
        ("Wednesday, 21-Oct-26 12:00:00 GMT", &[noon, later], true),
        ("Wed, 21 Oct 2026 12:00:00 GMT", &[noon, strong, later], true),
        ("Wed, 21 Oct 2026 12:00:01 GMT", &[noon, later], false),
        ("Wed, 21 Oct 2026 11:59:59 GMT", &[noon, later], false),
        // It may have changed again.
        ("Wed, 21 Oct 2026 12:00:00 GMT", &[noon, at_once], false),
        ("Wed, 21 Oct 2026 12:00:00 GMT", &[noon], false),
        ("Wed, 21 Oct 2026 12:00:01 GMT", &[later], false),
        ("yesterday", &[("last-modified", "yesterday"), later], false),
    ] {
        assert_eq!(if_range_holds(&fields(&[("if-range", condition)]), &fields(answer)), expected, "{condition}");
    }
    assert!(if_range_holds(&fields(&[]), &fields(&[])));
    assert!(!if_range_holds(&fields(&[("if-range", "\"a\""), ("if-range", "\"a\"")]), &fields(&[strong])));
}

#[test]
fn a_part_says_where_it_belongs() {
    let check = |lines: &[(&'static str, &str)], expected: Option<Part>| {
        assert_eq!(part_of_answer(&fields(lines)), expected, "{lines:?}");
    };
    for (value, expected) in [
        ("bytes 4-8/10", Some(part(4, 8, 10))),
        ("Bytes 0-0/1", Some(part(0, 0, 1))),
        ("bytes 4-8/*", Some(part(4, 8, None))),
        ("bytes */10", None),
        ("bytes 4-3/10", None),
        ("bytes 4-10/10", None),
        ("bytes 4-/10", None),
        ("bytes -4/10", None),
        ("bytes 4-8", None),
        ("bytes 4-8/", None),
        ("bytes 4-8/10, 1", None),
        ("bytes  4-8/10", None),
        ("bytes=4-8/10", None),
        ("bytes 4 - 8/10", None),
        ("items 4-8/10", None),
        ("bytes 4-99999999999999999999999/*", None),
        ("bytes 4-8/99999999999999999999999", None),
        ("", None),
    ] {
        check(&[("content-range", value)], expected);
    }
    let range = ("content-range", "bytes 4-8/10");
    check(&[range, ("content-length", "5")], Some(part(4, 8, 10)));
    check(&[range, ("content-length", "6")], None);
    check(&[range, ("content-length", "five")], None);
    check(&[range, range], None);
    check(&[range, ("content-type", "text/plain")], Some(part(4, 8, 10)));
    check(&[range, ("content-type", "Multipart/byteranges; boundary=a")], None);
    check(&[("content-type", "multipart/byteranges; boundary=a")], None);
    assert_eq!(part(4, 8, 10).content_range(), "bytes 4-8/10");
    assert_eq!(part(4, 8, None).content_range(), "bytes 4-8/*");
    assert_eq!(span(4, 8).range(), "bytes=4-8");
}

#[test]
fn parts_that_touch_make_one() {
    for (a, b, expected) in [
        (part(0, 4, 10), part(5, 9, 10), Some(part(0, 9, 10))),
        (part(0, 4, 10), part(3, 6, 10), Some(part(0, 6, 10))),
        (part(0, 9, 10), part(3, 6, 10), Some(part(0, 9, 10))),
        (part(0, 4, 10), part(6, 9, 10), None),
        (part(0, 4, 10), part(5, 9, 11), None),
        (part(0, 4, None), part(5, 9, 10), Some(part(0, 9, 10))),
        (part(0, 4, None), part(5, 9, None), Some(part(0, 9, None))),
        (part(5, 12, None), part(0, 4, 10), None),
    ] {
        assert_eq!(joined(a, b), expected, "{a:?}, {b:?}");
        assert_eq!(joined(b, a), expected, "{b:?}, {a:?}");
    }
}
