use super::*;

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;
use sopan_core::cache::directives::ResponseDirectives;
use sopan_core::cache::freshness::{Freshness, Source};
use sopan_core::cache::range::{Part, Span};
use sopan_core::cache::vary::Selecting;
use sopan_core::cache::{Extent, Times};

fn shop(target: &str) -> Key {
    Key::new("shop", Place::default(), target)
}

/// An answer for requests to this host, which says `x-version`.
pub(super) fn stored(host: &str, version: u64, length: usize) -> Stored {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_792_584_000);
    let mut headers = HeaderMap::new();
    headers.insert("x-version", HeaderValue::from(version));
    headers.insert("cache-control", HeaderValue::from_static("max-age=60"));
    Stored {
        status: StatusCode::OK,
        headers,
        host: host.as_bytes().into(),
        owner: None,
        selecting: Selecting::default(),
        times: Times { requested: now, received: now },
        directives: ResponseDirectives { max_age: Some(60), ..ResponseDirectives::default() },
        freshness: Freshness {
            lifetime: Duration::from_secs(60),
            source: Source::Directive,
            initial_age: Duration::ZERO,
        },
        extent: Extent::Whole(Some(length as u64)),
    }
}

/// The body of this version of what is stored for a key, so that none can be taken for another.
pub(super) fn body(key: &Key, version: u64, length: usize) -> Bytes {
    let seed = key.as_bytes().iter().fold(version, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    let mut word = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        bytes.extend(word.to_le_bytes());
    }
    bytes.truncate(length);
    bytes.into()
}

pub(super) fn version(variant: &Variant) -> u64 {
    variant.stored.headers["x-version"].to_str().unwrap().parse().unwrap()
}

fn memory(bytes: u64) -> Arc<Cache> {
    Cache::open(&CacheSettings { memory_bytes: bytes, disk: None }).unwrap()
}

fn put(cache: &Cache, key: &Key, host: &str, version: u64, length: usize) -> bool {
    let body = Body::Memory(Bytes::from(vec![b'x'; length]));
    cache.put(key, stored(host, version, length), body, &[], cache.epoch())
}

fn versions(cache: &Cache, key: &Key) -> Vec<u64> {
    cache.get(key).map_or_else(Vec::new, |entry| entry.variants.iter().map(|variant| version(variant)).collect())
}

pub(super) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

#[test]
fn what_is_asked_for_often_outlives_what_is_asked_for_once_and_all_of_it_is_bounded() {
    let cache = memory(1 << 20);
    let often: Vec<_> = (0..50).map(|i| shop(&format!("/often/{i}"))).collect();
    for key in &often {
        assert!(put(&cache, key, "a", 1, 4000));
    }
    for i in 0..20_000 {
        assert!(put(&cache, &shop(&format!("/once/{i}")), "a", 1, i % 20_000));
        assert!(cache.get(&often[i % often.len()]).is_some() || i > often.len());
        let usage = cache.usage();
        assert!(usage.memory_bytes <= usage.memory_bytes_max, "{usage:?}");
    }
    let left = often.iter().filter(|key| cache.get(key).is_some()).count();
    assert!(left >= 45, "{left} of 50");
    let usage = cache.usage();
    assert_eq!(usage.memory_targets + usage.memory_evictions, 20_050, "{usage:?}");
}

#[test]
fn an_entry_beyond_its_share_is_not_taken_and_drives_out_nobody() {
    let cache = memory(1 << 20);
    let key = shop("/a");
    assert!(put(&cache, &key, "a", 1, 10_000) && put(&cache, &key, "b", 2, 10_000));
    assert!(!put(&cache, &key, "c", 3, 70_000));
    assert_eq!(versions(&cache, &key), [1, 2]);
    // What it would have replaced is no longer the latest, and goes.
    assert!(!put(&cache, &key, "a", 4, 70_000));
    assert_eq!(versions(&cache, &key), [2]);
    // Of many that are too much together the latest stay.
    for i in 5..15 {
        assert!(put(&cache, &key, &format!("h{i}"), i, 10_000));
    }
    assert_eq!(versions(&cache, &key), [10, 11, 12, 13, 14]);
    assert!(!put(&memory(0), &key, "a", 1, 0));
}

#[test]
fn a_target_has_a_bounded_number_of_variants_and_one_for_the_same_requests() {
    let cache = memory(64 << 20);
    let key = shop("/a");
    for i in 0..200 {
        assert!(put(&cache, &key, &format!("h{i}"), i, 10));
    }
    assert_eq!(versions(&cache, &key), (72..200).collect::<Vec<_>>());
    assert!(put(&cache, &key, "h100", 1000, 10));
    let found = versions(&cache, &key);
    assert!(found.len() == 128 && !found.contains(&100) && found.ends_with(&[199, 1000]), "{found:?}");
}

#[test]
fn parts_of_one_body_lie_beside_each_other_and_beside_the_whole() {
    let cache = memory(1 << 20);
    let key = shop("/a");
    let part = |version: u64, first: u64, last: u64| {
        let span = Span { first, last };
        let mut stored = stored("a", version, 0);
        stored.extent = Extent::Part(Part { span, complete: Some(100) });
        let body = Body::Memory(Bytes::from(vec![b'x'; span.length() as usize]));
        assert!(cache.put(&key, stored, body, &[], cache.epoch()));
    };
    part(1, 0, 9);
    part(2, 20, 29);
    assert_eq!(versions(&cache, &key), [1, 2]);
    // One that has all of another takes its place.
    part(3, 15, 29);
    assert_eq!(versions(&cache, &key), [1, 3]);
    assert!(put(&cache, &key, "a", 4, 100));
    assert_eq!(versions(&cache, &key), [4]);
    part(5, 0, 9);
    assert_eq!(versions(&cache, &key), [4, 5]);
}

#[test]
fn single_answers_are_freshened_replaced_and_forgotten() {
    let cache = memory(1 << 20);
    let key = shop("/a");
    for (i, host) in ["a", "b", "c"].into_iter().enumerate() {
        put(&cache, &key, host, i as u64, 10);
    }
    let ids: Vec<_> = cache.get(&key).unwrap().variants.iter().map(|variant| variant.id).collect();
    assert!(cache.freshen(&key, ids[1], stored("b", 10, 10), cache.epoch()));
    assert_eq!(versions(&cache, &key), [0, 10, 2]);
    cache.forget(&key, &ids[..1]);
    assert!(!cache.freshen(&key, ids[0], stored("a", 11, 10), cache.epoch()));
    let body = Body::Memory(Bytes::from_static(b"new"));
    assert!(cache.put(&key, stored("d", 12, 3), body, &ids[1..], cache.epoch()));
    assert_eq!(versions(&cache, &key), [12]);
    let before = cache.epoch();
    wait(cache.invalidate(&key, before));
    assert!(!cache.freshen(&key, ids[2], stored("c", 13, 10), before));
    assert_eq!((versions(&cache, &key), cache.usage().memory_bytes), (vec![], 0));
}

#[test]
fn a_purge_takes_what_it_names_and_what_is_on_its_way() {
    let cache = memory(1 << 20);
    let targets = ["/v1", "/v1/a?x=1", "/v1?x=1", "/v10", "/v2"];
    let fill = || targets.iter().for_each(|target| assert!(put(&cache, &shop(target), "a", 1, 10)));
    let left = || {
        let is_there = |target: &&&str| cache.get(&shop(target)).is_some();
        targets.iter().filter(is_there).copied().collect::<Vec<_>>()
    };
    for (what, expected) in [
        (Purge::Url { upstream: "shop", target: "/v1/a?x=1" }, &["/v1", "/v1?x=1", "/v10", "/v2"][..]),
        (Purge::Prefix { upstream: "shop", path: "/v1" }, &["/v10", "/v2"]),
        (Purge::Prefix { upstream: "other", path: "/" }, &targets),
        (Purge::All, &[]),
    ] {
        fill();
        let before = cache.epoch();
        let purged = wait(cache.purge(what));
        assert_eq!(left(), expected, "{what:?}");
        assert_eq!(purged, Purged { memory: (targets.len() - expected.len()) as u64, disk: 0, is_told: None });
        for target in targets {
            let body = Body::Memory(Bytes::new());
            let is_stored = cache.put(&shop(target), stored("a", 2, 0), body, &[], before);
            assert_eq!(is_stored, expected.contains(&target), "{what:?} {target}");
        }
    }
}

#[test]
fn a_stored_head_keeps_no_buffer_alive_that_it_came_in() {
    let cache = memory(1 << 20);
    let key = shop("/a");
    let buffer = Bytes::from(b"one".repeat(1000));
    let mut came = stored("a", 1, 0);
    let mut secret = HeaderValue::from_maybe_shared(buffer.slice(3..6)).unwrap();
    secret.set_sensitive(true);
    came.headers.append("x-a", secret);
    came.headers.append("x-a", HeaderValue::from_maybe_shared(buffer.slice(0..3)).unwrap());
    came.headers.append(HeaderName::from_static("x-b"), HeaderValue::from_static(""));
    let expected = came.clone();
    cache.put(&key, came, Body::Memory(Bytes::new()), &[], cache.epoch());
    let kept = cache.get(&key).unwrap();
    assert_eq!(kept.variants[0].stored, expected);
    assert!(kept.variants[0].stored.headers["x-a"].is_sensitive());
    drop(expected);
    assert!(buffer.is_unique());
}

#[test]
fn no_change_of_an_entry_is_lost_between_threads() {
    let cache = memory(16 << 20);
    let key = shop("/a");
    thread::scope(|scope| {
        for t in 0..8_u64 {
            let (cache, key) = (&cache, &key);
            scope.spawn(move || {
                for i in 0..15 {
                    let other = shop(&format!("/{t}/{i}"));
                    assert!(put(cache, key, &format!("{t}.{i}"), t * 100 + i, 10));
                    assert!(put(cache, &other, "a", t * 100 + i, 10));
                }
            });
        }
    });
    let mut found = versions(&cache, &key);
    found.sort_unstable();
    assert_eq!(found, (0..8).flat_map(|t| t * 100..t * 100 + 15).collect::<Vec<_>>());
}

#[test]
fn nothing_from_before_an_invalidation_is_there_after_it() {
    let cache = memory(16 << 20);
    let keys: Vec<_> = (0..4).map(|i| shop(&format!("/v1/{i}"))).collect();
    // What the upstream has, and what it has at least by all that is known to be made untrue.
    let (now, known, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for t in 0..3 {
            let (cache, keys, now, known, is_over) = (&cache, &keys, &now, &known, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    for key in keys {
                        let since = cache.epoch();
                        let version = now.load(Ordering::SeqCst);
                        if t == 0 {
                            thread::yield_now();
                        }
                        let body = Body::Memory(Bytes::new());
                        cache.put(key, stored(&format!("h{t}"), version, 0), body, &[], since);
                        let at_least = known.load(Ordering::SeqCst);
                        let found = versions(cache, key);
                        assert!(found.iter().all(|version| *version >= at_least), "{found:?} {at_least}");
                    }
                }
            });
        }
        for round in 0..3_000 {
            let version = now.fetch_add(1, Ordering::SeqCst) + 1;
            match round % 3 {
                0 => keys.iter().for_each(|key| _ = wait(cache.invalidate(key, cache.epoch()))),
                1 => _ = wait(cache.purge(Purge::Prefix { upstream: "shop", path: "/v1" })),
                _ => _ = wait(cache.purge(Purge::All)),
            }
            known.store(version, Ordering::SeqCst);
        }
        is_over.store(true, Ordering::SeqCst);
    });
}

proptest! {
    /// The store against the obvious: a list of answers for each key.
    #[test]
    fn an_entry_is_what_its_changes_make_it(steps in proptest::collection::vec((0..5_u8, 0..3_usize, 0..5_u8), 1..60)) {
        let cache = memory(64 << 20);
        let keys = [0, 1, 2].map(|i| shop(&format!("/{i}")));
        let mut model: [Vec<(u8, u64)>; 3] = Default::default();
        let mut since = cache.epoch();
        let mut is_untrue = [false; 3];
        for (version, (step, at, host)) in steps.into_iter().enumerate() {
            let (key, list, version) = (&keys[at], &mut model[at], version as u64);
            match step {
                0 | 1 => {
                    let body = Body::Memory(Bytes::new());
                    let is_stored = cache.put(key, stored(&host.to_string(), version, 0), body, &[], since);
                    prop_assert_eq!(is_stored, !is_untrue[at]);
                    if is_stored {
                        list.retain(|(known, _)| *known != host);
                        list.push((host, version));
                    }
                }
                2 => {
                    wait(cache.invalidate(key, since));
                    list.clear();
                    is_untrue[at] = true;
                }
                3 => (since, is_untrue) = (cache.epoch(), [false; 3]),
                _ => {
                    let name = host.to_string();
                    let found = cache.get(key).and_then(|entry| {
                        entry.variants.iter().find(|variant| *variant.stored.host == *name.as_bytes()).cloned()
                    });
                    let at = list.iter().position(|(known, _)| *known == host);
                    prop_assert_eq!(found.is_some(), at.is_some());
                    if let (Some(found), Some(at)) = (found, at) {
                        cache.forget(key, &[found.id]);
                        list.remove(at);
                    }
                }
            }
            let expected: Vec<_> = list.iter().map(|(_, version)| *version).collect();
            prop_assert_eq!(versions(&cache, key), expected);
        }
    }
}
