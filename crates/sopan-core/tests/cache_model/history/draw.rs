//! Random histories.
//!
//! Everything is drawn from short lists, the plain first, so that histories meet themselves again (the same target, tag and
//! language), and shrink to the plain. Most are about one thing, of which they have more than others.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use sopan_core::cache::Failure;
use sopan_core::policy::{CachePolicy, PathTreatment, Revalidate};

use super::{Answer, Field, History, Quirk, Request, Step, Tag, Text, Upstream};

/// A strategy for the lines of a field: `plain` times none, else one of these.
fn lines(name: &'static str, plain: u32, else_: &'static [&'static [&'static str]]) -> BoxedStrategy<Vec<Field>> {
    prop_oneof![
        plain => Just(Vec::new()),
        1 => select(else_).prop_map(move |lines| lines.iter().map(|line| Field(name, Text::Is(line))).collect()),
    ]
    .boxed()
}

/// One for a field that is a date: `plain` times none, else one of these, in seconds from now.
fn dates(name: &'static str, plain: u32, else_: &'static [i64]) -> BoxedStrategy<Vec<Field>> {
    prop_oneof![
        plain => Just(Vec::new()),
        1 => select(else_).prop_map(move |seconds| vec![Field(name, Text::In(seconds))]),
    ]
    .boxed()
}

/// What a history is about, so that what has to come together for it does.
#[derive(Clone, Copy, PartialEq)]
enum Theme {
    Anything,
    Clients,
    Variants,
    Conditions,
    Ranges,
    Staleness,
}

impl Theme {
    /// A weight for what belongs to a theme: it is rare in all others.
    fn weight(self, theme: Self, weight: u32) -> u32 {
        if self == theme { weight * 8 } else { weight }
    }
}

fn secret(theme: Theme) -> BoxedStrategy<Vec<Field>> {
    let weight = |weight| theme.weight(Theme::Clients, weight);
    prop_oneof![
        20 => Just(Vec::new()),
        weight(2) => select(&["Bearer alice", "Bearer bob"][..]).prop_map(|who| vec![Field("authorization", Text::Is(who))]),
        weight(1) => select(&["id=carol", "id=dave"][..]).prop_map(|who| vec![Field("cookie", Text::Is(who))]),
    ].boxed()
}

fn condition(theme: Theme) -> BoxedStrategy<Vec<Field>> {
    let weight = |weight| theme.weight(Theme::Conditions, weight);
    let tags: &[&[&str]] = &[&[r#""v1""#], &[r#"W/"v1""#], &[r#""v2", "v1""#], &[r#""no""#, r#""v2""#], &["*"]];
    prop_oneof![
        40 => Just(Vec::new()),
        weight(3) => lines("if-none-match", 0, tags),
        weight(2) => dates("if-modified-since", 0, &[0, -5, -100, -1000]),
        weight(1) => (lines("if-none-match", 0, tags), dates("if-modified-since", 0, &[0, -1000])).prop_map(|(a, b)| [a, b].concat()),
        1 => lines("if-modified-since", 0, &[&["yesterday"]]),
        1 => lines("if-match", 0, &[&[r#""v1""#], &["*"]]),
        1 => dates("if-unmodified-since", 0, &[0, -100]),
    ].boxed()
}

fn range(theme: Theme) -> BoxedStrategy<Vec<Field>> {
    let ranges = prop_oneof![
        3 => lines("range", 0, &[&["bytes=0-3"], &["bytes=4-7"], &["bytes=2-5"], &["bytes=4-"], &["bytes=8-9"]]),
        1 => lines("range", 0, &[&["bytes=0-1,4-5"], &["bytes=6-7, 0-0,-1"]]),
        2 => lines("range", 0, &[
            &["bytes=-3"], &["bytes=0-"], &["bytes=6-20"], &["bytes=50-"], &["bytes=0-3, 2-5"],
            &["bytes=5-2"], &["items=0-3"], &["bytes=0-0"], &["bytes=-0"], &["bytes=-50"],
        ]),
    ];
    let if_range = prop_oneof![
        8 => Just(Vec::new()),
        2 => lines("if-range", 0, &[&[r#""v1""#], &[r#""v2""#], &[r#"W/"v1""#]]),
        1 => dates("if-range", 0, &[-100, -5]),
    ];
    prop_oneof![
        20 => Just(Vec::new()),
        theme.weight(Theme::Ranges, 3) => (ranges, if_range).prop_map(|(range, if_range)| [range, if_range].concat()),
    ]
    .boxed()
}

fn request(theme: Theme) -> BoxedStrategy<Request> {
    let method = prop_oneof![
        60 => Just("GET"),
        4 => Just("HEAD"),
        2 => Just("POST"),
        1 => select(&["PUT", "DELETE", "OPTIONS", "FROB"][..]),
    ];
    let target = prop_oneof![7 => Just("/a"), 1 => Just("/b")];
    let host = prop_oneof![12 => Just("one.example"), 1 => Just("two.example")];
    let variants = |weight| theme.weight(Theme::Variants, weight);
    let languages: &[&[&str]] = &[&["en"], &["de"], &["EN"], &["en, de"], &["en,DE"], &["en", "de"], &["de, en"]];
    let language = prop_oneof![12 => Just(Vec::new()), variants(2) => lines("accept-language", 0, languages)];
    let regions: &[&[&str]] = &[&["k"], &["K"], &[" k"], &["k, l"], &["k", "l"]];
    let region = prop_oneof![20 => Just(Vec::new()), variants(1) => lines("x-region", 0, regions)];
    let directives = prop_oneof![
        24 => Just(Vec::new()),
        theme.weight(Theme::Staleness, 3) => lines("cache-control", 0, &[
            &["max-stale"], &["max-stale=10"], &["stale-if-error=20"], &["max-age=5"], &["Max-Stale=10, max-age=5"],
            &["max-age=5", "max-stale=5"], &["min-fresh=4"], &["only-if-cached, max-stale=20"], &["no-cache, max-stale"],
        ]),
        3 => lines("cache-control", 0, &[
            &["no-cache"], &["no-store"], &["only-if-cached"], &["max-age=0"], &["max-stale=x"], &["max-age=3, min-fresh=3"],
        ]),
        1 => lines("pragma", 0, &[&["no-cache"], &["x"]]),
    ];
    let rule = prop_oneof![
        30 => Just(None),
        1 => Just(Some(PathTreatment::Bypass)),
        1 => Just(Some(PathTreatment::DefaultTtl(Duration::from_secs(7)))),
        1 => Just(Some(PathTreatment::Revalidate(Revalidate::Always))),
    ];
    let fields = (secret(theme), language, region, directives, condition(theme), range(theme))
        .prop_map(|(a, b, c, d, e, f)| [a, b, c, d, e, f].concat());
    (method, target, host, fields, prop::bool::weighted(0.02), rule)
        .prop_map(|(method, target, host, fields, has_body, rule)| Request {
            method,
            target,
            host,
            fields,
            has_body: has_body || method == "POST" || method == "PUT",
            rule,
        })
        .boxed()
}

fn answer(theme: Theme) -> BoxedStrategy<Answer> {
    let status = prop_oneof![
        24 => Just(200),
        1 => select(&[202, 204, 404, 301, 302, 410, 599][..]),
        theme.weight(Theme::Staleness, 1) => select(&[500, 503][..]),
        1 => select(&[429, 401, 416][..]),
    ];
    // Parts are joined by a strong tag only.
    let tag = prop_oneof![
        theme.weight(Theme::Ranges, 3) => Just(Tag::Strong),
        2 => Just(Tag::None),
        theme.weight(Theme::Ranges, 1) => Just(Tag::Weak),
    ];
    let quirk = prop_oneof![
        16 => Just(Quirk::None),
        4 => select(&[
            Quirk::NoLength, Quirk::BareNotModified, Quirk::EmptyNotModified, Quirk::OtherNotModified,
            Quirk::UnaskedNotModified,
        ][..]),
        theme.weight(Theme::Ranges, 1) => select(&[
            Quirk::ShortPart, Quirk::NoIfRange, Quirk::UnaskedPart, Quirk::UnaskedParts, Quirk::UnknownWhole,
            Quirk::NoLength,
        ][..]),
    ];
    let version = prop_oneof![3 => Just(1), 1 => Just(2)];
    let delay = prop_oneof![4 => Just(0), 1 => Just(2000), 1 => Just(700)];
    (
        (status, version, tag, prop::bool::weighted(0.8), prop::bool::weighted(0.8), quirk, delay),
        (lifetime(theme), moments(), about(theme)).prop_map(|(a, b, c)| [a, b, c].concat()),
    )
        .prop_map(|((status, version, tag, looks_at_conditions, looks_at_ranges, quirk, delay), fields)| Answer {
            status,
            version,
            tag,
            fields,
            looks_at_conditions,
            looks_at_ranges,
            quirk,
            delay,
        })
        .boxed()
}

/// What an answer says of caches.
fn lifetime(theme: Theme) -> BoxedStrategy<Vec<Field>> {
    let directives = prop_oneof![
        30 => lines("cache-control", 0, &[&["max-age=10"], &["max-age=60"], &["max-age=5"]]),
        6 => Just(Vec::new()),
        theme.weight(Theme::Clients, 3) => lines("cache-control", 0, &[
            &["no-store"], &["no-cache"], &["private"], &["public"], &["max-age=0"], &["max-age=10, no-store"],
            &["private, max-age=60"], &["public, max-age=60"], &["max-age=10, no-cache"], &["max-age=60, public", "private"],
        ]),
        theme.weight(Theme::Staleness, 2) => lines("cache-control", 0, &[
            &["max-age=10, must-revalidate"], &["max-age=10, proxy-revalidate"], &["s-maxage=10"],
            &["max-age=5, s-maxage=60"], &["max-age=60, s-maxage=5"], &["s-maxage=0, max-age=60"],
        ]),
        theme.weight(Theme::Staleness, 3) => lines("cache-control", 0, &[
            &["max-age=10, stale-while-revalidate=20"], &["max-age=10, stale-if-error=20"],
            &["max-age=5, stale-if-error=20, must-revalidate"], &["max-age=5, stale-if-error=0"],
            &["max-age=5, stale-if-error=300"],
            &["max-age=5, stale-while-revalidate=60, must-revalidate"], &["max-age=5, stale-while-revalidate=60, proxy-revalidate"],
            &["max-age=0, stale-while-revalidate=30, stale-if-error=60"], &["max-age=60, immutable"],
            &["s-maxage=5, stale-while-revalidate=60"],
        ]),
        2 => lines("cache-control", 0, &[
            &["Max-Age=10"], &["max-age=10,max-age=10"], &["max-age=10, max-age=60"], &[r#"max-age="10""#], &["max-age=-1"],
            &["max-age=1.5"], &["max-age=99999999999"], &["max-age"], &["max-age=10", "No-Store"], &[",, max-age=10 ,"],
            &[r#"x="a, no-store", max-age=10"#], &[r#"x="\", max-age=60, y=\"""#], &["max-age=10", "public"],
            &["max-age=60, x-max-age=5"], &["must-understand, no-store, max-age=60"], &["max-age=10x"],
            &["max-age=60, stale-if-error=x, stale-while-revalidate=-1"],
        ]),
        2 => lines("cache-control", 0, &[
            &[r#"max-age=60, no-cache="x-extra""#], &[r#"max-age=60, private="x-extra""#], &[r#"max-age=60, no-cache="X-Extra, x-other""#],
            &[r#"max-age=60, private="set-cookie""#], &["max-age=60, private=x-extra"], &[r#"max-age=60, no-cache="""#],
        ]),
    ];
    let targeted = prop_oneof![
        20 => Just(Vec::new()),
        1 => lines("sopan-cache-control", 0, &[
            &["max-age=60"], &["no-store"], &["max-age=5, must-revalidate"], &["private"], &[""],
        ]),
        1 => lines("cdn-cache-control", 0, &[
            &["max-age=60"], &["max-age=0"], &["no-store"], &["no-cache"], &[r#"max-age="60""#], &["max-age=60, &&&"],
            &["MAX-AGE=60"], &["max-age=60;x=1"], &["max-age=5", "public"], &["max-age=60,"], &["max-age=1.5"], &["max-age=-5"],
            &["stale-while-revalidate=30, max-age=5"], &["stale-if-error=30, max-age=5"],
        ]),
    ];
    let expires = prop_oneof![
        5 => Just(Vec::new()),
        2 => dates("expires", 0, &[10, 60, 0, -5]),
        1 => lines("expires", 0, &[&["0"], &["soon"], &[""]]),
        1 => Just(vec![Field("expires", Text::In(20)), Field("expires", Text::In(60))]),
    ];
    (directives, targeted, expires).prop_map(|(a, b, c)| [a, b, c].concat()).boxed()
}

/// When it was made, and what it is about.
fn moments() -> BoxedStrategy<Vec<Field>> {
    let date = prop_oneof![
        9 => Just(vec![Field("date", Text::In(0))]),
        1 => dates("date", 0, &[-8, -20, 20]),
        1 => lines("date", 1, &[&["now"]]),
    ];
    let age = lines(
        "age",
        6,
        &[&["0"], &["3"], &["30"], &["3, 7"], &["3", "7"], &["1.5"], &["-3"], &["x"], &["99999999999"], &["x, 3"]],
    );
    let modified = prop_oneof![
        3 => Just(Vec::new()),
        2 => dates("last-modified", 0, &[-100, -1000, -5, 0, 50]),
        1 => lines("last-modified", 0, &[&["Thu, 01 Jan 2026 00:00:00 GMT"], &["once"]]),
    ];
    (date, age, modified).prop_map(|(a, b, c)| [a, b, c].concat()).boxed()
}

fn about(theme: Theme) -> BoxedStrategy<Vec<Field>> {
    let vary = prop_oneof![
        12 => Just(Vec::new()),
        theme.weight(Theme::Variants, 3) => lines("vary", 0, &[
            &["accept-language"], &["Accept-Language"], &["accept-language, x-region"], &["x-region", "Accept-Language"],
            &["x-region"], &["accept-language,,"],
        ]),
        1 => lines("vary", 0, &[&["*"], &["x-region, *"], &["x-region", "*"], &[""]]),
        theme.weight(Theme::Clients, 1) => lines("vary", 0, &[&["authorization"], &["cookie"]]),
    ];
    let cookie = lines("set-cookie", 14, &[&["s=1"], &["s=1", "t=2"]]);
    let location = lines(
        "location",
        14,
        &[
            &["/b"],
            &["http://one.example/b"],
            &["http://other.example/b"],
            &["//one.example/b"],
            &["b"],
            &["/a"],
            &["http://two.example/a"],
        ],
    );
    let content_location = lines(
        "content-location",
        9,
        &[&["/a"], &["/b"], &["http://one.example/a"], &["http://other.example/a"], &["a"]],
    );
    let retry_after = lines("retry-after", 14, &[&["3"]]);
    let extra = lines("x-extra", 2, &[&["1"], &["1", "2"]]);
    (vary, cookie, location, content_location, retry_after, extra)
        .prop_map(|(a, b, c, d, e, f)| [a, b, c, d, e, f].concat())
        .boxed()
}

fn step(theme: Theme) -> BoxedStrategy<Step> {
    let wait = prop_oneof![
        10 => select(&[0, 1000, 4000, 5000, 6000][..]),
        2 => select(&[500, 9900, 10_000, 11_000, 30_000][..]),
        1 => select(&[60_000, 100_000, 5_000_000][..]),
        1 => Just(-8000),
    ];
    let upstream = prop_oneof![
        16 => answer(theme).prop_map(Upstream::Answers),
        theme.weight(Theme::Staleness, 1) =>
            select(&[Failure::Disconnected, Failure::Error, Failure::NoToken][..]).prop_map(Upstream::Fails),
    ];
    (wait, request(theme), upstream).prop_map(|(wait, request, upstream)| Step { wait, request, upstream }).boxed()
}

fn policy(theme: Theme) -> BoxedStrategy<CachePolicy> {
    let seconds = Duration::from_secs;
    (
        prop_oneof![3 => Just(None), 1 => Just(Some(seconds(10)))],
        prop_oneof![3 => Just(false), 1 => Just(true)],
        prop_oneof![8 => Just(Revalidate::Stale), 1 => Just(Revalidate::Always)],
        prop_oneof![3 => Just(seconds(0)), theme.weight(Theme::Staleness, 1) => select(vec![seconds(15), seconds(300)])],
        prop_oneof![
            6 => Just(seconds(86_400)),
            theme.weight(Theme::Staleness, 1) => select(vec![seconds(15), seconds(40)]),
        ],
        prop_oneof![6 => Just(8 << 20), 1 => Just(9)],
    )
        .prop_map(|(default_ttl, store_set_cookie, revalidate, stale_if_error, stale_max, entry_bytes_max)| {
            CachePolicy {
                default_ttl,
                store_set_cookie,
                revalidate,
                stale_if_error,
                stale_max,
                entry_bytes_max,
                ..CachePolicy::default()
            }
        })
        .boxed()
}

fn histories_about(theme: Theme) -> BoxedStrategy<History> {
    (policy(theme), prop::collection::vec(step(theme), 1..12))
        .prop_map(|(policy, steps)| History { policy, steps })
        .boxed()
}

pub(crate) fn histories() -> BoxedStrategy<History> {
    prop_oneof![
        histories_about(Theme::Anything),
        histories_about(Theme::Clients),
        histories_about(Theme::Variants),
        histories_about(Theme::Conditions),
        histories_about(Theme::Ranges),
        histories_about(Theme::Staleness),
    ]
    .boxed()
}
