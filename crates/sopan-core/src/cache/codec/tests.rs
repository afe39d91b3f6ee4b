use super::*;
use crate::cache::freshness::Source;

const NOON: u64 = 1_792_584_000_000;

/// An answer with these fields, as it would be stored.
fn stored(lines: &[(&'static str, &str)]) -> Stored {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    let at = |millis| UNIX_EPOCH + Duration::from_millis(millis);
    let nothing = Freshness { lifetime: Duration::ZERO, source: Source::None, initial_age: Duration::ZERO };
    settled(Stored {
        status: StatusCode::OK,
        headers,
        host: b"api.test:8000"[..].into(),
        owner: None,
        selecting: Selecting::default(),
        times: Times { requested: at(NOON - 20), received: at(NOON + 7) },
        directives: ResponseDirectives::default(),
        freshness: nothing,
        extent: Extent::Whole(Some(500)),
    })
}

/// With what follows from its fields and times, but for an age that no field shows any more.
fn settled(stored: Stored) -> Stored {
    let Stored { status, ref headers, times, .. } = stored;
    let directives = ResponseDirectives::read(headers, &CachePolicy::default().targeted);
    let initial_age = Duration::from_millis(6027);
    let freshness = Freshness { initial_age, ..Freshness::of(status, headers, &directives, times, None) };
    Stored { directives, freshness, ..stored }
}

fn read(record: &[u8]) -> Option<Stored> {
    Stored::decode(record, &CachePolicy::default(), None)
}

fn samples() -> Vec<Stored> {
    let plain = stored(&[
        ("date", "Wed, 21 Oct 2026 12:00:00 GMT"),
        ("link", "<a>"),
        ("cache-control", "max-age=60"),
        ("link", "<b>"),
        ("x-latin", "\u{e9}"),
        ("x-empty", ""),
    ]);
    let names = [("accept", Some(&b"a/b"[..])), ("accept-language", None), ("x-empty", Some(b""))];
    let fields = names.map(|(name, value)| (HeaderName::from_static(name), value.map(Box::from)));
    let selecting = Selecting { is_beyond_fields: true, fields: fields.into() };
    let part = |complete| Extent::Part(Part { span: Span { first: 4, last: 8 }, complete });
    let before = UNIX_EPOCH - Duration::from_millis(1500);
    let samples = vec![
        Stored { owner: Some(Owner([7; 16])), ..plain.clone() },
        Stored { selecting, status: StatusCode::NOT_FOUND, ..plain.clone() },
        Stored { extent: Extent::Whole(None), host: Box::default(), ..plain.clone() },
        Stored { extent: part(None), ..plain.clone() },
        Stored { extent: part(Some(10)), ..plain.clone() },
        Stored { times: Times { requested: before, received: before }, ..plain.clone() },
        Stored { headers: HeaderMap::new(), ..plain.clone() },
        plain,
    ];
    samples.into_iter().map(settled).collect()
}

#[test]
fn what_is_written_is_read() {
    for stored in samples() {
        let again = read(&stored.encode()).unwrap();
        assert_eq!(again, stored);
        let lines = |stored: &Stored| stored.headers.get_all("link").iter().cloned().collect::<Vec<_>>();
        assert_eq!(lines(&again), lines(&stored), "in their order");
    }
}

#[test]
fn what_was_not_written_so_is_none() {
    for stored in samples() {
        let record = stored.encode();
        for length in 0..record.len() {
            assert_eq!(read(&record[..length]), None, "cut at {length}");
        }
        assert_eq!(read(&[&record[..], b"\0"].concat()), None);
        // A byte that is another one may make another answer, but never a panic.
        for at in 0..record.len() {
            for change in [1, 0x80, 0xff] {
                let mut record = record.clone();
                record[at] ^= change;
                drop(read(&record));
            }
        }
    }
    let wrong_part = Part { span: Span { first: 8, last: 4 }, complete: None };
    let beyond = Part { span: Span { first: 4, last: 10 }, complete: Some(10) };
    for part in [wrong_part, beyond] {
        assert_eq!(read(&Stored { extent: Extent::Part(part), ..stored(&[]) }.encode()), None);
    }
    assert_eq!(read(&Stored { status: StatusCode::EARLY_HINTS, ..stored(&[]) }.encode()), None);
    assert_eq!(read(&[VERSION, 0xff, 0xff, 0xff, 0xff]), None);
}

#[test]
fn times_are_kept_to_the_millisecond_and_never_later_than_they_were() {
    for nanos in [1_000_000_u64, 1_500_000, 1_999_999] {
        for time in [UNIX_EPOCH + Duration::from_nanos(nanos), UNIX_EPOCH - Duration::from_nanos(nanos)] {
            let stored = Stored { times: Times { requested: time, received: time }, ..stored(&[]) };
            let again = read(&stored.encode()).unwrap().times.received;
            assert!(again <= time && time.duration_since(again).unwrap() < Duration::from_millis(1));
        }
    }
}

#[test]
fn a_cookie_that_may_not_be_stored_any_more_is_not_given_out() {
    let record = stored(&[("set-cookie", "id=1"), ("cache-control", "max-age=60")]).encode();
    assert_eq!(read(&record), None);
    let policy = CachePolicy { store_set_cookie: true, ..CachePolicy::default() };
    assert_eq!(Stored::decode(&record, &policy, None).unwrap().headers["set-cookie"], "id=1");
}

/// What was decided by directives that do not count any more is not given to whom they would not give it.
#[test]
fn other_settings_give_nothing_to_more_than_it_would_be_stored_for() {
    let reading = |names: &str, default_ttl: u64| CachePolicy {
        targeted: names.split_whitespace().map(|name| name.parse().unwrap()).collect(),
        default_ttl: (default_ttl > 0).then(|| Duration::from_secs(default_ttl)),
        ..CachePolicy::default()
    };
    let owned = Some(Owner([7; 16]));
    for (fields, owner, then, now, is_read) in [
        // Where they are decided by the same, or give as much.
        ([("a", "public, max-age=60"), ("b", "no-store")], None, reading("a", 0), reading("a", 0), true),
        ([("a", "public, max-age=60"), ("b", "public")], None, reading("a", 0), reading("b", 0), true),
        ([("a", "must-revalidate"), ("b", "s-maxage=9")], None, reading("a", 0), reading("b", 0), true),
        ([("a", "max-age=60"), ("b", "max-age=9")], None, reading("a", 0), reading("b", 0), true),
        // It may have been asked for with a credential.
        ([("a", "public, max-age=60"), ("b", "max-age=60")], None, reading("a", 0), reading("b", 0), false),
        ([("a", "public, max-age=60"), ("cache-control", "max-age=60")], None, reading("a", 0), reading("b", 0), false),
        ([("a", "s-maxage=60"), ("b", "must-revalidate")], None, reading("a", 0), reading("b", 0), false),
        ([("a", "must-revalidate"), ("b", "max-age=60")], None, reading("a", 0), reading("b", 0), false),
        ([("a", "public, max-age=60"), ("b", "max-age=60")], owned, reading("a", 0), reading("b", 0), true),
        // It is private, or must not be stored, in part or at all.
        ([("a", "max-age=60"), ("b", "private")], None, reading("a", 0), reading("b", 0), false),
        ([("a", "max-age=60"), ("b", "private")], owned, reading("a", 0), reading("b", 0), true),
        ([("a", "max-age=60"), ("b", "no-store")], owned, reading("a", 0), reading("b", 0), false),
        ([("a", "max-age=60"), ("cache-control", "private=\"a\"")], None, reading("a", 0), reading("", 0), false),
        ([("a", "max-age=60"), ("cache-control", "private=\"a\"")], owned, reading("a", 0), reading("", 0), true),
        ([("a", "max-age=60"), ("cache-control", "no-cache=\"a\"")], owned, reading("a", 0), reading("", 0), false),
        // Nobody noted what form was asked for.
        ([("etag", "\"a\""), ("x", "1")], None, reading("a", 0), reading("a", 60), false),
    ] {
        let stored = stored(&fields);
        let directives = ResponseDirectives::read(&stored.headers, &then.targeted);
        let record = Stored { directives, owner, ..stored }.encode();
        let read = Stored::decode(&record, &now, None);
        assert_eq!(read.is_some(), is_read, "{fields:?} for {owner:?}, by {:?}, now {now:?}", then.targeted);
    }
    let names = [("accept", None), ("accept-language", None)];
    let fields = names.map(|(name, value)| (HeaderName::from_static(name), value)).into();
    let selecting = Selecting { is_beyond_fields: false, fields };
    let record = Stored { selecting, ..stored(&[("etag", "\"a\"")]) }.encode();
    assert!(Stored::decode(&record, &reading("a", 60), None).is_some());
}
