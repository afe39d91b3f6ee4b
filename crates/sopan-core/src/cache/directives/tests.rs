use http::HeaderValue;
use proptest::prelude::*;

use super::*;

/// The fields of a message; a line without a name is one of `Cache-Control`.
fn fields(lines: &[&str]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap_or(("cache-control", line));
        let name = HeaderName::try_from(name).unwrap();
        fields.append(name, HeaderValue::from_str(value).unwrap());
    }
    fields
}

fn targeted() -> [HeaderName; 2] {
    ["sopan-cache-control", "cdn-cache-control"].map(HeaderName::from_static)
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "what is expected is written where it is expected")]
fn check(lines: &[&str], expected: ResponseDirectives) {
    assert_eq!(ResponseDirectives::read(&fields(lines), &targeted()), expected, "{lines:?}");
}

#[track_caller]
fn check_request(lines: &[&str], expected: RequestDirectives) {
    assert_eq!(RequestDirectives::read(&fields(lines)), expected, "{lines:?}");
}

fn only(names: &[&'static str]) -> Scope {
    Scope::Fields(names.iter().map(|name| HeaderName::from_static(name)).collect())
}

fn none() -> ResponseDirectives {
    ResponseDirectives::default()
}

fn no_store() -> ResponseDirectives {
    ResponseDirectives { no_store: true, ..none() }
}

fn max_age(seconds: u32) -> ResponseDirectives {
    ResponseDirectives { max_age: Some(seconds), ..none() }
}

#[test]
fn every_directive_of_an_answer_is_known_in_any_case() {
    for line in [
        "no-store, no-cache, private, public, must-revalidate, proxy-revalidate, must-understand, immutable, max-age=1, \
         s-maxage=2, stale-while-revalidate=3, stale-if-error=4",
        "NO-STORE, No-Cache, PRIVATE, PubliC, MUST-REVALIDATE, PROXY-REVALIDATE, MUST-UNDERSTAND, IMMUTABLE, MaX-aGe=1, \
         S-MAXAGE=2, STALE-WHILE-REVALIDATE=3, STALE-IF-ERROR=4",
    ] {
        let all = ResponseDirectives {
            is_targeted: false,
            no_store: true,
            no_cache: Scope::All,
            private: Scope::All,
            public: true,
            must_revalidate: true,
            proxy_revalidate: true,
            must_understand: true,
            immutable: true,
            max_age: Some(1),
            s_maxage: Some(2),
            stale_while_revalidate: Some(3),
            stale_if_error: Some(4),
        };
        check(&[line], all.clone());
        let members: Vec<_> = line.split(", ").collect();
        check(&members, all);
    }
}

#[test]
fn members_are_told_apart_whatever_stands_between_them() {
    check(&[], none());
    check(&["", ",", " , "], none());
    check(&["no-transform, x, y=\"1\", a-name-longer-than-any-that-is-known=1"], none());
    for line in [
        "no-store",
        ",, no-store ,",
        "x,no-store,y",
        "x=\"a, b\", no-store",
        "x=\"a\\\", b\", no-store",
        "x=\"never closed, no-store",
        "=?, no-store",
        "?\u{e9}, no-store",
        "x y=\"a, b\", no-store",
        "no-store x",
        "no-store=0",
        "no-store=\"a, b\"",
        "no-store;x",
    ] {
        check(&[line], no_store());
    }
    for line in [
        "no-stores",
        "x-no-store",
        "x=no-store",
        "x=\"a, no-store\"",
        "x=\"a\\\", no-store\"",
        "? no-store",
        "=no-store",
    ] {
        check(&[line], none());
    }
    check(&["x=\"never closed", "no-store"], no_store());
}

#[test]
fn a_lifetime_is_a_number_once_or_it_is_over() {
    for (argument, expected) in [
        ("3600", 3600),
        ("003600", 3600),
        ("\"3600\"", 3600),
        ("\"36\\00\"", 3600),
        ("2147483647", 2_147_483_647),
        ("2147483648", 2_147_483_648),
        ("2147483649", 2_147_483_648),
        ("99999999999999999999", 2_147_483_648),
        ("0", 0),
        ("-3600", 0),
        ("+3600", 0),
        ("3600.0", 0),
        ("1e3", 0),
        ("3600a", 0),
        ("a3600", 0),
        ("'3600'", 0),
        ("\"3600", 0),
        ("\"3600\"x", 0),
        ("\" 3600\"", 0),
        ("\"\"", 0),
        ("", 0),
        (" 3600", 0),
        ("\u{b2}", 0),
        ("60, max-age=60", 60),
        ("60, max-age=060", 60),
        ("1, max-age=60", 0),
        ("60, max-age=1", 0),
        ("60, max-age", 0),
        ("60, max-age=a", 0),
    ] {
        check(&[&format!("max-age={argument}")], max_age(expected));
        let s_maxage = argument.replace("max-age", "s-maxage");
        check(&[&format!("s-maxage={s_maxage}")], ResponseDirectives { s_maxage: Some(expected), ..none() });
    }
    check(&["max-age"], max_age(0));
    check(&["max-age =60"], max_age(0));
    check(&["max-age=60", "max-age=60"], max_age(60));
    check(&["max-age=60", "max-age=1"], max_age(0));
    check(&["x=\"max-age=60\", max-age=1, y=\"max-age=60\""], max_age(1));
}

#[test]
fn a_window_is_a_number_or_there_is_none() {
    for (argument, expected) in
        [("=60", Some(60)), ("", None), ("=", None), ("=a", None), ("=-1", None), ("=1.5", None)]
    {
        check(
            &[&format!("stale-while-revalidate{argument}, stale-if-error{argument}")],
            ResponseDirectives { stale_while_revalidate: expected, stale_if_error: expected, ..none() },
        );
    }
    check(
        &["stale-if-error=9, stale-if-error=3, stale-if-error=x, stale-if-error=6"],
        ResponseDirectives { stale_if_error: Some(3), ..none() },
    );
}

#[test]
fn only_public_is_nothing_with_an_argument() {
    check(&["public=yes"], none());
    check(&["public=\"\""], none());
    check(&["public x"], none());
    check(&["public=no, public"], ResponseDirectives { public: true, ..none() });
    check(&["immutable=0"], ResponseDirectives { immutable: true, ..none() });
}

#[test]
fn no_cache_and_private_are_about_the_fields_they_name_or_all() {
    let many: Vec<_> = (0..=SCOPE_FIELDS_MAX).map(|number| format!("x-{number}")).collect();
    for (argument, expected) in [
        ("", Scope::All),
        ("=", Scope::All),
        ("=\"\"", Scope::All),
        ("=\" , \"", Scope::All),
        ("=set-cookie", only(&["set-cookie"])),
        ("=\"Set-Cookie\"", only(&["set-cookie"])),
        ("=\"x-b, , X-A,x-b\"", only(&["x-a", "x-b"])),
        ("=\"x-a, x y\"", Scope::All),
        ("=\"x-a\" x", Scope::All),
        ("=\"x-a", Scope::All),
        ("=\"x-b\", %=\"x-a\"", only(&["x-a", "x-b"])),
        ("=\"x-b\", %", Scope::All),
        (", %=\"x-b\"", Scope::All),
        (
            &format!("=\"{}\"", many[1..].join(",")),
            Scope::Fields({
                let mut names: Vec<_> = many[1..].iter().map(|name| HeaderName::try_from(name).unwrap()).collect();
                names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
                names.into()
            }),
        ),
        (&format!("=\"{}\"", many.join(",")), Scope::All),
        (&format!("=\"{}x-b\"", "x-b,".repeat(SCOPE_FIELDS_MAX)), only(&["x-b"])),
    ] {
        let line = |name: &str| format!("{name}{}", argument.replace('%', name));
        check(&[&line("no-cache")], ResponseDirectives { no_cache: expected.clone(), ..none() });
        check(&[&line("private")], ResponseDirectives { private: expected, ..none() });
    }
}

#[test]
fn the_first_field_that_speaks_to_this_cache_takes_the_place_of_cache_control() {
    let aimed = |directives| ResponseDirectives { is_targeted: true, ..directives };
    for (lines, expected) in [
        (&["no-store", "cdn-cache-control: max-age=60"][..], aimed(max_age(60))),
        (&["max-age=60", "cdn-cache-control: no-store"], aimed(no_store())),
        (&["sopan-cache-control: max-age=1", "cdn-cache-control: no-store"], aimed(max_age(1))),
        (&["sopan-cache-control: &", "cdn-cache-control: no-store"], aimed(no_store())),
        (&["sopan-cache-control: ", "cdn-cache-control: no-store"], aimed(no_store())),
        (&["max-age=60", "sopan-cache-control: ", "cdn-cache-control: &"], max_age(60)),
        (&["max-age=60", "cdn-cache-control: unknown"], aimed(none())),
        (&["max-age=60", "other-cache-control: no-store"], max_age(60)),
        (
            &["cdn-cache-control: max-age=60", "cdn-cache-control: no-store"],
            aimed(ResponseDirectives { no_store: true, ..max_age(60) }),
        ),
        (&["max-age=60", "cdn-cache-control: no-store", "cdn-cache-control: &"], max_age(60)),
    ] {
        check(lines, expected);
    }
}

#[test]
fn a_targeted_field_is_a_dictionary_of_the_right_types_or_absent() {
    let aimed = |directives| ResponseDirectives { is_targeted: true, ..directives };
    for (value, expected) in [
        ("no-store", Some(no_store())),
        ("no-store=?1;x=1", Some(no_store())),
        ("no-store=?0", Some(none())),
        ("no-store, no-store=?0", Some(none())),
        ("no-store=1", None),
        ("no-store=yes", None),
        ("No-Store", None),
        ("no-store,", None),
        ("no-store, &&&&&", None),
        ("max-age=60", Some(max_age(60))),
        ("max-age=2147483648", Some(max_age(2_147_483_648))),
        ("max-age=99999999999", Some(max_age(2_147_483_648))),
        ("max-age=-1", Some(max_age(0))),
        ("max-age=60, unknown=(1 2);x, other=:YQ==:", Some(max_age(60))),
        ("max-age", None),
        ("max-age=\"60\"", None),
        ("max-age=1.5", None),
        ("max-age=(60)", None),
        ("max-age=@60", None),
        ("max-age =60", None),
        ("max-age= 60", None),
        ("max-age=9999999999999999", None),
        ("max-age=1, max-age=60", Some(max_age(60))),
        ("max-age=\"1\", max-age=60", Some(max_age(60))),
        ("max-age=60, max-age=(1)", None),
        ("stale-if-error=60", Some(ResponseDirectives { stale_if_error: Some(60), ..none() })),
        ("stale-if-error=-60", Some(none())),
        ("private", Some(ResponseDirectives { private: Scope::All, ..none() })),
        ("private=?0", Some(none())),
        ("private=\"x-a, x-b\"", Some(ResponseDirectives { private: only(&["x-a", "x-b"]), ..none() })),
        ("private=x-a", Some(ResponseDirectives { private: only(&["x-a"]), ..none() })),
        ("private=\"x y\"", Some(ResponseDirectives { private: Scope::All, ..none() })),
        ("private=\"x-a\", private=\"x-b\"", Some(ResponseDirectives { private: only(&["x-b"]), ..none() })),
        ("private=1", None),
        ("public", Some(ResponseDirectives { public: true, ..none() })),
    ] {
        let without = ResponseDirectives { s_maxage: Some(5), ..none() };
        check(&["s-maxage=5", &format!("cdn-cache-control: {value}")], expected.map_or(without, aimed));
    }
}

#[test]
fn the_directives_of_a_request_are_read_for_the_strictest() {
    let none = RequestDirectives::default();
    check_request(&[], none);
    check_request(
        &["No-Store, no-cache=x, only-if-cached, max-age=1, min-fresh=2, max-stale=3, stale-if-error=4"],
        RequestDirectives {
            no_store: true,
            no_cache: true,
            only_if_cached: true,
            max_age: Some(1),
            min_fresh: Some(2),
            max_stale: Some(3),
            stale_if_error: Some(4),
        },
    );
    check_request(&["max-age=a"], RequestDirectives { max_age: Some(0), ..none });
    check_request(&["max-age=60, max-age=5", "max-age=9"], RequestDirectives { max_age: Some(5), ..none });
    check_request(&["min-fresh=a, min-fresh, max-stale=a, max-stale=, stale-if-error"], none);
    check_request(&["min-fresh=5, min-fresh=60"], RequestDirectives { min_fresh: Some(60), ..none });
    check_request(&["max-stale"], RequestDirectives { max_stale: Some(u32::MAX), ..none });
    check_request(&["max-stale, max-stale=5"], RequestDirectives { max_stale: Some(5), ..none });
    check_request(&["max-stale=99999999999"], RequestDirectives { max_stale: Some(1 << 31), ..none });
}

#[test]
fn pragma_says_no_cache_where_nothing_else_speaks() {
    let none = RequestDirectives::default();
    let no_cache = RequestDirectives { no_cache: true, ..none };
    check_request(&["pragma: no-cache"], no_cache);
    check_request(&["pragma: x", "pragma: y, No-Cache=1"], no_cache);
    check_request(&["pragma: no-store, max-age=5, x=\"no-cache\""], none);
    check_request(&["max-age=60", "pragma: no-cache"], RequestDirectives { max_age: Some(60), ..none });
    check_request(&["", "pragma: no-cache"], none);
    check(&["pragma: no-cache"], ResponseDirectives::default());
}

proptest! {
    /// What one line says, two say, however they are divided between members.
    #[test]
    fn lines_are_one_list(members in proptest::collection::vec("[a-z=\" -]{0,3}(no-store|private=\"[a-c, ]{0,4}\"|max-age=[0-9]{0,2})", 0..6), at in 0..6_usize) {
        let (one, two) = members.split_at(at.min(members.len()));
        let (one, two) = (one.join(","), two.join(","));
        // A quote that is left open ends with its line.
        prop_assume!(one.matches('"').count() % 2 == 0);
        let joined = ResponseDirectives::read(&fields(&[&format!("{one},{two}")]), &[]);
        prop_assert_eq!(ResponseDirectives::read(&fields(&[&one, &two]), &[]), joined);
    }
}
