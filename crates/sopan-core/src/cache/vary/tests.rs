use super::*;

fn fields(lines: &[&str]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap();
        fields.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    fields
}

/// Whether an answer with these lines of `Vary` to the first request is for the second one too, and the other way round.
#[track_caller]
fn check(vary: &[&str], first: &[&str], second: &[&str], expected: bool) {
    let answer: Vec<_> = vary.iter().map(|line| format!("vary: {line}")).collect();
    let answer = fields(&answer.iter().map(String::as_str).collect::<Vec<_>>());
    let (first_fields, second_fields) = (fields(first), fields(second));
    let (of_first, of_second) = (Selecting::of(&answer, &first_fields), Selecting::of(&answer, &second_fields));
    assert_eq!(of_first.is_for(&second_fields), expected, "Vary: {vary:?}, {first:?}, {second:?}");
    assert_eq!(of_second.is_for(&first_fields), expected, "Vary: {vary:?}, {second:?}, {first:?}");
    assert_eq!(of_first == of_second, expected || of_first.is_beyond_fields, "the forms: {of_first:?}, {of_second:?}");
}

#[test]
fn an_answer_is_for_those_who_have_the_same_in_all_fields_that_it_names() {
    let (one, two) = (&["foo: 1", "bar: abc"][..], &["bar: abc", "other: 3", "foo: 1"][..]);
    check(&[], &["foo: 1"], &["foo: 2"], true);
    check(&["", ", ,"], &["foo: 1"], &["foo: 2"], true);
    check(&["Foo"], &["foo: 1"], &["foo: 1", "other: 3"], true);
    check(&["Foo"], &["foo: 1"], &["foo: 2"], false);
    check(&["Foo"], &["foo: 1"], &[], false);
    check(&["Foo"], &["foo: "], &[], false);
    check(&["Foo"], &[], &[], true);
    check(&["Foo, bar"], one, two, true);
    check(&["foo,,BAR , foo"], one, two, true);
    check(&["foo", "bar"], one, two, true);
    check(&["foo, bar"], one, &["foo: 1"], false);
    check(&["foo", "bar"], one, &["foo: 1", "bar: abcd"], false);
    check(&["foo, bar, baz"], one, two, true);
    check(&["foo, bar, baz"], one, &["foo: 1", "bar: abc", "baz: 1"], false);
}

#[test]
fn a_star_anywhere_is_for_nobody_else() {
    let one = &["foo: 1"];
    for vary in [
        &["*"][..],
        &["*, *"],
        &["*", "*"],
        &[", *"],
        &["", "*"],
        &["*, Foo"],
        &["Foo, *"],
        &["Foo", "Bar ,* "],
        &["foo,*,"],
    ] {
        check(vary, one, one, false);
    }
    // Nor is what cannot be read as the name of a field.
    for vary in ["foo bar", "foo;q=1", "\"foo\"", "foo, b\u{e4}r"] {
        check(&[vary], one, one, false);
    }
}

#[test]
fn more_fields_than_are_kept_are_as_good_as_a_star() {
    let names = |count: usize| (0..count).map(|number| format!("x-{number}")).collect::<Vec<_>>().join(", ");
    check(&[&names(FIELDS_MAX), &names(5)], &["x-1: a"], &["x-1: a"], true);
    check(&[&names(FIELDS_MAX + 1)], &["x-1: a"], &["x-1: a"], false);
}

#[test]
fn what_means_nothing_in_negotiation_makes_no_difference() {
    for (first, second, expected) in [
        ("en, de", &["en,de"][..], true),
        ("en, de", &[" en ,\tde "], true),
        ("en, de", &[",en,, de,"], true),
        ("en, de", &["eN, De"], true),
        ("en, de", &["en", "de"], true),
        ("en, de", &["en", "", "de"], true),
        ("en, de;q=0.5", &["EN,de ; Q=0.5"], true),
        ("en", &["en;"], true),
        ("en, de", &["de, en"], false),
        ("en, de", &["en de"], false),
        ("en, de", &["en"], false),
        ("en", &["en, de"], false),
        ("en;q=0.5", &["en;q=0.6"], false),
        ("en;a;b", &["en;ab"], false),
        ("", &[","], true),
    ] {
        for name in ["accept", "accept-charset", "accept-encoding", "accept-language"] {
            let second: Vec<_> = second.iter().map(|line| format!("{name}: {line}")).collect();
            let second: Vec<_> = second.iter().map(String::as_str).collect();
            check(&[name], &[&format!("{name}: {first}")], &second, expected);
        }
    }
    for (first, second, expected) in [
        ("text/html;level=1", "Text/HTML; LEVEL=1", true),
        ("text/html;level=a", "text/html;level=A", false),
        // Within quotes everything may mean something, and where they are, all is left as it is.
        ("text/html;x=\"a, b\"", "text/html;x=\"a, b\"", true),
        ("text/html;x=\"a, b\"", "text/html;x=\"a,b\"", false),
        ("text/html;x=\"a, b\"", "text/html; x=\"a, b\"", false),
    ] {
        check(&["accept"], &[&format!("accept: {first}")], &[&format!("accept: {second}")], expected);
    }
}

#[test]
fn of_other_fields_only_white_space_between_tokens_makes_no_difference() {
    for (first, second, expected) in [
        (&["1, 2"][..], &["1", "2"][..], true),
        (&["1,2"], &[" 1, 2 "], true),
        (&["1 ,2"], &["1", "2"], true),
        (&["a, b"], &["A, b"], false),
        (&["a, b"], &["b, a"], false),
        (&["a, b"], &["a,, b"], false),
        (&["a,,b"], &["a, , b"], true),
        (&["a, b"], &["ab"], false),
        (&["like 'a, b'"], &["like 'a,b'"], false),
        (&["{\"a\": 1, \"b\": 2}"], &["{\"a\": 1,\"b\": 2}"], false),
        (&["/a, /b"], &["/a,/b"], false),
        (&["/a, /b"], &["/a", "/b"], true),
        (&["/a"], &[" /a\t"], true),
        (&["a b"], &["a  b"], false),
        (&["\u{e4}, \u{f6}"], &["\u{e4}", "\u{f6}"], true),
    ] {
        let lines = |values: &[&str]| values.iter().map(|value| format!("x: {value}")).collect::<Vec<_>>();
        let (first, second) = (lines(first), lines(second));
        let (first, second): (Vec<_>, Vec<_>) =
            (first.iter().map(String::as_str).collect(), second.iter().map(String::as_str).collect());
        check(&["x"], &first, &second, expected);
    }
}

#[test]
fn no_secret_is_shown() {
    let request = fields(&["authorization: Bearer abc", "x-api-key: abc", "accept: text/html"]);
    let selecting = Selecting::of(&fields(&["vary: x-api-key, accept, authorization, cookie"]), &request);
    let shown = format!("{selecting:?}");
    assert_eq!(
        shown,
        r#"{"accept": Some("text/html"), "authorization": Some("…"), "cookie": None, "x-api-key": Some("…")}"#
    );
    assert_eq!(format!("{:?}", Selecting::of(&fields(&["vary: *"]), &request)), r#"{"*": "*"}"#);
}

#[test]
fn a_value_that_is_too_long_to_be_compared_is_for_nobody_else() {
    let line = |length: usize| format!("foo: {}", "a".repeat(length));
    let (fits, long) = (line(FIELD_BYTES_MAX), line(FIELD_BYTES_MAX + 1));
    check(&["foo"], &[&fits], &[&fits], true);
    check(&["foo"], &[&long], &[&long], false);
    check(&["foo"], &[&fits, "foo: b"], &[&fits, "foo: b"], false);
    check(&["bar"], &[&long], &[&long], true);
    // White space would be left out, but there is an end to what is looked at.
    let kept = Selecting::of(&fields(&["vary: accept"]), &fields(&["accept: a, b"]));
    assert!(kept.is_for(&fields(&["accept: a,  b"])));
    assert!(!kept.is_for(&fields(&[&format!("accept: a,{}b", " ".repeat(FIELD_BYTES_MAX))])));
}

#[test]
fn what_is_coded_is_for_those_who_take_that_alike() {
    for (answer, first, second, expected) in [
        (&["content-encoding: gzip"][..], &["accept-encoding: gzip"][..], &[][..], false),
        (&["content-encoding: gzip"], &["accept-encoding: gzip, br"], &["accept-encoding: GZIP,br"], true),
        (&["content-encoding: gzip", "vary: foo"], &["accept-encoding: gzip"], &["accept-encoding: br"], false),
        (&[], &["accept-encoding: gzip"], &[], true),
    ] {
        let selecting = Selecting::of(&fields(answer), &fields(first));
        assert_eq!(selecting.is_for(&fields(second)), expected, "{answer:?} {first:?} {second:?}");
        assert!(selecting.is_for(&fields(first)));
    }
}
