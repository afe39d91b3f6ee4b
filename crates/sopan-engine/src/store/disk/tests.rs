mod crash;
mod place;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use sopan_core::cache::range::{Part, Span};
use sopan_core::cache::{Extent, Owner};
use sopan_core::policy::CachePolicy;
use tempfile::TempDir;

use super::queue::REMOVALS_MAX;
use super::spill::SPILLING_MAX;
use super::*;
use crate::exchange::flow::Spill as _;
use crate::store::tests::{body, stored, version, wait};
use crate::store::{Body, Cache, CacheSettings, Entry, Place, Purge};

fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cache");
    (dir, path)
}

fn settings(directory: &Path) -> CacheSettings {
    let disk = DiskSettings { directory: directory.to_owned(), bytes_max: 64 << 20 };
    CacheSettings { memory_bytes: 1 << 20, disk: Some(disk) }
}

fn open(directory: &Path) -> Arc<Cache> {
    Cache::open(&settings(directory)).unwrap()
}

fn key(target: &str) -> Key {
    Key::new("shop", Place::default(), target)
}

fn put(cache: &Cache, key: &Key, host: &str, version: u64, length: usize) -> bool {
    cache.put(key, stored(host, version, length), Body::Memory(body(key, version, length)), &[], cache.epoch())
}

fn load(cache: &Cache, key: &Key) -> Arc<Entry> {
    wait(cache.load(key, &CachePolicy::default(), None)).unwrap_or_default()
}

fn versions(cache: &Cache, key: &Key) -> Vec<u64> {
    load(cache, key).variants.iter().map(|variant| version(variant)).collect()
}

/// All bytes of a body in a range, or why not.
fn read(cache: &Arc<Cache>, key: &Key, variant: &Variant, range: std::ops::Range<u64>) -> Result<Vec<u8>, BodyLost> {
    wait(async {
        let mut reader = cache.read(key, variant, range).await?;
        let mut bytes = Vec::new();
        while let Some(piece) = std::future::poll_fn(|cx| reader.poll_next(cx)).await {
            bytes.extend_from_slice(&piece?);
            assert!(bytes.len() as u64 + reader.len() <= variant.body.len());
        }
        assert_eq!(reader.len(), 0);
        Ok(bytes)
    })
}

/// Whether the body of an answer is the one of its version.
#[track_caller]
fn check_body(cache: &Arc<Cache>, key: &Key, variant: &Variant) {
    let length = variant.body.len();
    let expected = body(key, version(variant), length as usize);
    assert!(read(cache, key, variant, 0..length).unwrap() == expected, "{key:?} {length}");
}

/// What a directory takes on the disk.
fn bytes(directory: &Path) -> u64 {
    let mut sum = 0;
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        // What is there may go at any time.
        let Ok(found) = entry.metadata() else { continue };
        sum += if found.is_dir() { bytes(&entry.path()) } else { found.blocks() * 512 };
    }
    sum
}

const LENGTHS: [usize; 7] = [0, 1, 5_000, BLOCK, BLOCK + 1, 5 * BLOCK, 1_000_000];

#[test]
fn what_is_stored_is_there_after_a_restart() {
    let (_dir, path) = place();
    let cache = open(&path);
    for (i, length) in LENGTHS.into_iter().enumerate() {
        let key = key(&format!("/{i}"));
        for host in ["a", "b"] {
            let mut stored = stored(host, i as u64, length);
            stored.owner = (host == "b").then_some(Owner([7; 16]));
            let body = Body::Memory(body(&key, i as u64, length));
            assert!(cache.put(&key, stored, body, &[], cache.epoch()));
        }
    }
    let before: Vec<_> = (0..LENGTHS.len()).map(|i| load(&cache, &key(&format!("/{i}")))).collect();
    drop(cache);
    for _ in 0..2 {
        let cache = open(&path);
        assert_eq!(cache.usage().disk.unwrap().answers, 2 * LENGTHS.len() as u64);
        for (i, length) in LENGTHS.into_iter().enumerate() {
            let key = key(&format!("/{i}"));
            assert!(cache.get(&key).is_none());
            let entry = load(&cache, &key);
            let heads = |entry: &Entry| {
                let head = |variant: &Arc<Variant>| {
                    let Stored { headers, host, owner, times, .. } = variant.stored.clone();
                    (variant.id, headers, host, owner, times)
                };
                entry.variants.iter().map(head).collect::<Vec<_>>()
            };
            assert_eq!(heads(&entry), heads(&before[i]));
            let is_file = matches!(entry.variants[0].body, Body::File(_));
            assert_eq!((cache.get(&key).is_some(), is_file), (length != BLOCK, length > BLOCK), "{length}");
            for variant in &entry.variants {
                check_body(&cache, &key, variant);
            }
        }
        assert!(load(&cache, &key("/none")).variants.is_empty());
    }
}

#[test]
fn what_an_unsafe_request_brings_is_not_stored_once_a_later_one_has_made_it_untrue() {
    let (_dir, path) = place();
    let (cache, key) = (open(&path), key("/a"));
    let store =
        |version, since| cache.put(&key, stored("a", version, 10), Body::Memory(body(&key, version, 10)), &[], since);
    put(&cache, &key, "a", 1, 10);
    let before = cache.epoch();
    let (first, second) = wait(async {
        let mut first = std::pin::pin!(cache.invalidate(&key, before));
        // It waits for the disk, and another is quicker.
        let is_done = std::future::poll_fn(|cx| std::task::Poll::Ready(first.as_mut().poll(cx).is_ready())).await;
        assert!(!is_done);
        let since = cache.epoch();
        let second = cache.invalidate(&key, since).await;
        (first.await, second)
    });
    assert!(!store(2, before) && !store(3, first) && store(4, second));
    assert_eq!(versions(&cache, &key), [4]);
}

#[test]
fn an_answer_whose_url_may_hold_a_secret_lies_in_memory_alone() {
    let (_dir, path) = place();
    let cache = open(&path);
    let (plain, secret) = (key("/v1?page=2"), key("/v1?page=2&api_key=s3cret"));
    for key in [&plain, &secret] {
        assert!(put(&cache, key, "a", 1, 10));
        assert_eq!(versions(&cache, key), [1]);
    }
    assert!(cache.spill(&plain, stored("a", 2, 0), &[], cache.epoch()).is_some());
    assert!(cache.spill(&secret, stored("a", 2, 0), &[], cache.epoch()).is_none());
    cache.close();
    drop(cache);
    let cache = open(&path);
    assert_eq!((versions(&cache, &plain), versions(&cache, &secret)), (vec![1], vec![]));
    cache.close();
    for entry in fs::read_dir(&path).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
        let bytes = fs::read(entry.path()).unwrap();
        assert!(!bytes.windows(6).any(|window| window == b"s3cret"), "{:?}", entry.path());
    }
}

#[test]
fn any_range_of_a_large_body_is_read_from_its_file() {
    let (_dir, path) = place();
    let (cache, key) = (open(&path), key("/a"));
    let length = 9 * BLOCK + 1234;
    put(&cache, &key, "a", 1, length);
    // It is too large for this memory, so it comes from the disk.
    let entry = load(&cache, &key);
    assert!(matches!(entry.variants[0].body, Body::File(_)));
    let whole = body(&key, 1, length);
    let edges = [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 4 * BLOCK, 5 * BLOCK + 7, 9 * BLOCK, length - 1, length];
    for (at, first) in edges.into_iter().enumerate() {
        for end in &edges[at..] {
            let found = read(&cache, &key, &entry.variants[0], first as u64..*end as u64).unwrap();
            assert!(found == whole[first..*end], "{first}..{end}");
        }
    }
}

#[test]
fn what_was_made_untrue_or_replaced_does_not_come_back() {
    let (_dir, path) = place();
    let cache = open(&path);
    for target in ["/left", "/invalidated", "/v1/purged", "/v10/left", "/url", "/forgotten", "/replaced", "/fresh"] {
        for host in ["a", "b"] {
            put(&cache, &key(target), host, 1, 10);
            put(&cache, &key(target), &format!("{host}-large"), 1, 100_000);
        }
    }
    let ids = |target| load(&cache, &key(target)).variants.iter().map(|variant| variant.id).collect::<Vec<_>>();
    wait(cache.invalidate(&key("/invalidated"), cache.epoch()));
    let prefix = wait(cache.purge(Purge::Prefix { upstream: "shop", path: "/v1" }));
    assert_eq!((prefix.disk, wait(cache.purge(Purge::Url { upstream: "shop", target: "/url" })).disk), (4, 4));
    let forgotten = ids("/forgotten");
    cache.forget(&key("/forgotten"), &forgotten[..2]);
    put(&cache, &key("/replaced"), "a", 2, 10);
    let replaced = ids("/replaced");
    let last = body(&key("/replaced"), 3, 70_000);
    cache.put(&key("/replaced"), stored("c", 3, 70_000), Body::Memory(last), &replaced[..3], cache.epoch());
    for (at, id) in ids("/fresh").into_iter().enumerate() {
        let mut head = stored("a", 1, 10);
        head.headers.insert("x-fresh", at.into());
        assert!(cache.freshen(&key("/fresh"), id, head, cache.epoch()));
    }
    drop(cache);
    let cache = open(&path);
    for (target, expected) in [
        ("/left", &[1, 1, 1, 1][..]),
        ("/invalidated", &[]),
        ("/v1/purged", &[]),
        ("/v10/left", &[1, 1, 1, 1]),
        ("/url", &[]),
        ("/forgotten", &[1, 1]),
        ("/replaced", &[2, 3]),
    ] {
        assert_eq!(versions(&cache, &key(target)), expected, "{target}");
        load(&cache, &key(target)).variants.iter().for_each(|variant| check_body(&cache, &key(target), variant));
    }
    // All four say now that they are for the same requests, so one is left.
    let fresh = load(&cache, &key("/fresh"));
    assert_eq!(fresh.variants.len(), 1);
    assert_eq!(fresh.variants[0].stored.headers["x-fresh"], "3");
    check_body(&cache, &key("/fresh"), &fresh.variants[0]);
    assert!(wait(cache.purge(Purge::All)).disk >= 10);
    assert!(versions(&cache, &key("/left")).is_empty() && bytes(&path) < 4 << 20);
    put(&cache, &key("/left"), "a", 4, 100_000);
    drop(cache);
    assert_eq!(versions(&open(&path), &key("/left")), [4]);
}

#[test]
fn a_body_that_was_changed_or_lost_is_dropped_and_never_given() {
    let (_dir, path) = place();
    let cache = open(&path);
    let length = 20 * BLOCK;
    for i in 0..5 {
        put(&cache, &key(&format!("/{i}")), "a", 1, length);
    }
    drop(cache);
    let cache = open(&path);
    for i in 0..5_u64 {
        let key = key(&format!("/{i}"));
        let entry = load(&cache, &key);
        let Body::File(file) = &entry.variants[0].body else { panic!("{entry:?}") };
        let mut bytes = fs::read(&file.path).unwrap();
        match i {
            0 => fs::remove_file(&file.path).unwrap(),
            1 => fs::write(&file.path, &bytes[..length - 1]).unwrap(),
            2 => fs::write(&file.path, [&bytes[..], b"x"].concat()).unwrap(),
            // The body of another answer, as whole as this one.
            3 => fs::write(&file.path, body(&key, 2, length)).unwrap(),
            _ => {
                bytes[12 * BLOCK + 5] ^= 1;
                fs::write(&file.path, bytes).unwrap();
            }
        }
        let is_gone = matches!(read(&cache, &key, &entry.variants[0], 0..length as u64), Err(BodyLost::Gone));
        assert_eq!(is_gone, i == 0);
        assert!(versions(&cache, &key).is_empty());
    }
    drop(cache);
    assert_eq!(open(&path).usage().disk.unwrap().answers, 0);
}

#[test]
fn whatever_byte_a_disk_breaks_what_is_given_is_what_was_stored() {
    let (dir, path) = place();
    let cache = open(&path);
    let keys: Vec<_> = (0..40).map(|i| key(&format!("/{i}"))).collect();
    for (i, key) in keys.iter().enumerate() {
        put(&cache, key, "a", i as u64, i * 997);
        put(&cache, key, "b", i as u64, i % 5 * 30_000);
    }
    drop(cache);
    let files = |path: &Path| {
        let bodies = fs::read_dir(path.join("sopan-cache.bodies")).unwrap();
        let bodies = bodies.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
        bodies.map(|file| file.unwrap().path()).chain([path.join("sopan-cache.index")]).collect::<Vec<_>>()
    };
    let (mut seed, mut whole, mut aside) = (1_u64, 0, 0);
    let mut dice = |max: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % max
    };
    let mut flip = |file: &Path, flips: u64| {
        let mut bytes = fs::read(file).unwrap();
        for _ in 0..flips {
            let at = dice(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << dice(8);
        }
        // In place, as a disk does it, also below a process that has the file open.
        fs::OpenOptions::new().write(true).open(file).unwrap().write_all(&bytes).unwrap();
    };
    for round in 0..24 {
        let copy = dir.path().join(format!("copy-{round}"));
        copy_all(&path, &copy);
        let index = copy.join("sopan-cache.index");
        files(&copy).iter().filter(|file| **file != index).enumerate().for_each(|(i, file)| flip(file, i as u64 % 2));
        let before = round % 4;
        flip(&index, before);
        let cache = open(&copy);
        if before == 0 {
            flip(&index, round * 10);
        }
        for (i, key) in keys.iter().enumerate() {
            for variant in &load(&cache, key).variants {
                assert_eq!(version(variant), i as u64);
                let length = variant.body.len();
                if let Ok(found) = read(&cache, key, variant, 0..length) {
                    let expected = if *variant.stored.host == *b"a" { i * 997 } else { i % 5 * 30_000 };
                    assert!(found == body(key, i as u64, expected), "{key:?}");
                    whole += 1;
                }
            }
        }
        // It works on, whatever was found.
        assert!(put(&cache, &keys[0], "c", 100, 10) && versions(&cache, &keys[0]).contains(&100));
        wait(cache.invalidate(&keys[0], cache.epoch()));
        drop(cache);
        let cache = open(&copy);
        assert!(versions(&cache, &keys[0]).is_empty());
        aside += u32::from(copy.join("sopan-cache.index.broken").exists());
        drop(cache);
        fs::remove_dir_all(&copy).unwrap();
    }
    // Otherwise this has shown nothing.
    assert!(whole > 100 && aside > 3, "{whole} {aside}");
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() { copy_all(&from, &to) } else { _ = fs::copy(from, to).unwrap() }
    }
}

#[test]
fn a_body_that_is_written_while_it_comes_is_stored_when_it_has_come_whole() {
    let (_dir, path) = place();
    let cache = open(&path);
    let spill = |key: &Key, host: &str, version: u64, length: usize, replaces: &[u64]| {
        let mut stored = stored(host, version, length);
        stored.extent = Extent::Whole(None);
        let mut spilled = Box::new(cache.spill(key, stored, replaces, cache.epoch()).unwrap());
        let all = body(key, version, length);
        for piece in all.chunks(50_001) {
            assert!(spilled.write(&all.slice_ref(piece)));
        }
        spilled
    };
    for (i, length) in [1, BLOCK, BLOCK + 1, 10 * BLOCK, 3_000_000].into_iter().enumerate() {
        let key = key(&format!("/{i}"));
        put(&cache, &key, "a", 1, 10);
        put(&cache, &key, "b", 2, 10);
        put(&cache, &key, "c", 3, 10);
        let first = load(&cache, &key).variants[0].id;
        spill(&key, "b", 4, length, &[first]).finish();
        assert_eq!(versions(&cache, &key), [3, 4]);
        let entry = load(&cache, &key);
        assert_eq!(entry.variants[1].stored.extent, Extent::Whole(Some(length as u64)));
        check_body(&cache, &key, &entry.variants[1]);
        drop(spill(&key, "c", 5, length, &[]));
        let late = spill(&key, "c", 6, length, &[]);
        wait(cache.invalidate(&key, cache.epoch()));
        late.finish();
        assert!(versions(&cache, &key).is_empty());
        spill(&key, "a", 7, length, &[]).finish();
    }
    // A part that is another one than its head says is none.
    for (last, is_stored) in [(49_999, true), (49_998, false), (50_000, false)] {
        let key = key(&format!("/part/{last}"));
        let mut stored = stored("a", 8, 0);
        stored.extent = Extent::Part(Part { span: Span { first: 0, last }, complete: None });
        let mut spilled = Box::new(cache.spill(&key, stored, &[], cache.epoch()).unwrap());
        assert!(spilled.write(&body(&key, 8, 50_000)));
        spilled.finish();
        assert_eq!(versions(&cache, &key), [8][..usize::from(is_stored)], "{last}");
    }
    // Too much for what may be under way at once, and for the file of one.
    let begin = |i| Box::new(cache.spill(&key("/large"), stored("x", i, 0), &[], cache.epoch()).unwrap());
    let mut all: Vec<_> = (0..100).map(begin).collect();
    let taken = all.iter_mut().filter_map(|spill| spill.write(&Bytes::from_static(b"x")).then_some(())).count();
    assert_eq!(taken, SPILLING_MAX);
    drop(all);
    let mut large = begin(1);
    for _ in 0..20 {
        while !large.write(&Bytes::from(vec![0; 1 << 20])) {
            thread::yield_now();
        }
    }
    large.finish();
    assert!(versions(&cache, &key("/large")).is_empty());
    drop(cache);
    let cache = open(&path);
    for i in 0..5 {
        let key = key(&format!("/{i}"));
        let entry = load(&cache, &key);
        assert_eq!(entry.variants.len(), 1);
        check_body(&cache, &key, &entry.variants[0]);
    }
    assert!(bytes(&path) < 10 << 20);
}

#[test]
fn it_keeps_within_its_bound_and_the_latest_stay() {
    let (_dir, path) = place();
    let bytes_max = BYTES_MIN;
    let disk = DiskSettings { directory: path.clone(), bytes_max };
    let cache = Cache::open(&CacheSettings { memory_bytes: 1 << 20, disk: Some(disk) }).unwrap();
    let lengths = [100, 3_000, 20_000, 65_000, 200_000, 700];
    let mut largest = 0;
    for i in 0..2_000_u64 {
        let key = key(&format!("/{i}"));
        while !put(&cache, &key, "a", i, lengths[i as usize % lengths.len()]) {
            thread::yield_now();
        }
        if i % 10 == 0 {
            load(&cache, &key);
            largest = largest.max(bytes(&path));
        }
    }
    assert!(largest <= bytes_max, "{largest}");
    let is_there = |i: u64| !versions(&cache, &key(&format!("/{i}"))).is_empty();
    assert!((1_950..2_000).all(is_there) && !(0..500).any(is_there));
    let usage = cache.usage().disk.unwrap();
    assert!(usage.bytes > bytes_max / 2 && usage.bytes <= usage.bytes_max && usage.bytes_max < bytes_max, "{usage:?}");
    assert_eq!((usage.skipped, usage.answers + usage.evictions, usage.targets), (0, 2_000, usage.answers));
    drop(cache);
    let again = open(&path).usage().disk.unwrap();
    assert_eq!((again.answers, again.targets, again.evictions), (usage.answers, usage.answers, 0));
}

#[test]
fn a_bound_that_was_lowered_is_kept_to_from_the_start() {
    let (_dir, path) = place();
    let open = |bytes_max| {
        let disk = Some(DiskSettings { directory: path.clone(), bytes_max });
        Cache::open(&CacheSettings { memory_bytes: 0, disk }).unwrap()
    };
    // In the one case it is the index that is too large, in the other the files.
    for length in [50_000, 2_000_000] {
        let cache = open(64 << 20);
        for i in 0..60_000_000 / length as u64 {
            while !put(&cache, &key(&format!("/{i}")), "a", i, length) {
                thread::yield_now();
            }
        }
        cache.close();
        assert!(bytes(&path) > 2 * BYTES_MIN, "{length}");
        drop(cache);
        let cache = open(BYTES_MIN);
        assert!(put(&cache, &key("/new"), "a", 1, 10));
        cache.close();
        assert!(bytes(&path) <= BYTES_MIN, "{length} {}", bytes(&path));
        assert_eq!(versions(&cache, &key("/new")), [1]);
    }
}

#[test]
fn nothing_is_lost_or_brought_back_between_readers_of_the_disk_and_changes() {
    // Without memory each reading is one of the disk; with it what was read is kept.
    for memory_bytes in [0, 1 << 20] {
        let (_dir, path) = place();
        let cache = Cache::open(&CacheSettings { memory_bytes, ..settings(&path) }).unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let owners: Vec<_> = (0..2)
                .map(|t| {
                    let (cache, is_over) = (&cache, &is_over);
                    scope.spawn(move || {
                        while !is_over.load(Relaxed) {
                            load(cache, &key(&format!("/{t}")));
                        }
                    });
                    scope.spawn(move || change_and_look(cache, &key(&format!("/{t}"))))
                })
                .collect();
            let done: Vec<_> = owners.into_iter().map(|owner| owner.join()).collect();
            is_over.store(true, Relaxed);
            done.into_iter().for_each(|done| done.unwrap());
        });
    }
}

/// Changes what is stored for a key, again and again, and looks whether it is what it was changed to.
fn change_and_look(cache: &Cache, key: &Key) {
    let mut expected: Vec<(u64, u64)> = Vec::new();
    for version in 0..150 {
        match version % 7 {
            6 => {
                wait(cache.invalidate(key, cache.epoch()));
                expected.clear();
            }
            3 => {
                let first = load(cache, key).variants[0].id;
                cache.forget(key, &[first]);
                expected.remove(0);
            }
            _ => {
                let host = version % 3;
                assert!(put(cache, key, &host.to_string(), version, 100));
                expected.retain(|(known, _)| *known != host);
                expected.push((host, version));
            }
        }
        let expected: Vec<_> = expected.iter().map(|(_, version)| *version).collect();
        assert_eq!(versions(cache, key), expected, "{version}");
    }
}

#[test]
fn what_changes_while_it_is_read_is_read_again() {
    let (_dir, path) = place();
    let cache = Cache::open(&CacheSettings { memory_bytes: 0, ..settings(&path) }).unwrap();
    let key = key("/a");
    for round in 0..30 {
        put(&cache, &key, "a", round, 10);
        put(&cache, &key, "b", round, 10);
        let first = load(&cache, &key).variants[0].id;
        // Neither the one who reads nor the one who writes gets on until both are to be seen.
        let index = cache.disk.as_ref().unwrap().shared.index.write();
        thread::scope(|scope| {
            let loading = scope.spawn(|| load(&cache, &key));
            (0..2_000).for_each(|_| thread::yield_now());
            cache.forget(&key, &[first]);
            drop(index);
            let loaded = loading.join().unwrap();
            assert!(loaded.variants.iter().all(|variant| variant.id != first), "{round}");
        });
    }
}

#[test]
fn many_who_miss_one_key_read_it_once_and_all_get_it() {
    let (_dir, path) = place();
    let cache = open(&path);
    put(&cache, &key("/a"), "a", 1, 100);
    drop(cache);
    let cache = open(&path);
    let entries: Vec<_> = wait(async {
        let tasks = (0..100).map(|_| {
            let cache = Arc::clone(&cache);
            tokio::task::spawn(async move { cache.load(&key("/a"), &CachePolicy::default(), None).await.unwrap() })
        });
        let mut entries = Vec::new();
        for task in tasks.collect::<Vec<_>>() {
            entries.push(task.await.unwrap());
        }
        entries
    });
    assert!(entries.iter().all(|entry| Arc::ptr_eq(&entry.variants[0], &entries[0].variants[0])));
}

#[test]
fn a_line_that_is_full_refuses_what_is_to_be_stored_and_never_what_is_to_go() {
    let queue = Queue::default();
    let put = |i: u64| What::Put {
        key: key(&format!("/{i}")),
        variant: Variant::new(i, stored("a", i, 0), Body::Memory(Bytes::from(vec![0; 1 << 20]))),
        replaces: Vec::new(),
    };
    let taken = (0..100).take_while(|i| queue.store(put(*i))).count();
    assert!((20..40).contains(&taken), "{taken}");
    let waiter = Arc::new(Waiter::default());
    queue.remove(What::Forget { key: key("/0") }, Some(Arc::clone(&waiter)));
    for i in 0..300_000 {
        queue.remove(What::Forget { key: key(&format!("/{i}")) }, None);
    }
    // All that were too many became one, for which those who waited wait still.
    let batch = queue.take(Duration::ZERO);
    assert!(batch.changes[..2].iter().all(|change| matches!(change.what, What::Purge(Scope::All))));
    assert!(batch.changes[0].waiter.as_ref().is_some_and(|known| Arc::ptr_eq(known, &waiter)));
    assert!(queue.is_pending(&key("/none")) && queue.store(put(0)));
    // Nobody waits for what nobody will do.
    queue.abandon();
    assert!(!queue.is_pending(&key("/0")) && queue.wait_settled(&key("/0")) && !queue.store(put(0)));
    queue.remove(What::Forget { key: key("/0") }, Some(Arc::clone(&waiter)));
    assert_eq!(waiter.wait(), Some(0));
}

#[test]
fn what_is_to_go_is_read_by_nobody_while_what_was_before_it_is_still_being_written() {
    let queue = Queue::default();
    let forget = |target: &str| What::Forget { key: key(target) };
    queue.remove(What::Purge(Scope::Below { upstream: "mail".to_owned(), path: String::new() }), None);
    queue.remove(forget("/a"), None);
    let under_way = queue.take(Duration::ZERO);
    // Too many come meanwhile, and become one that is about every key.
    (0..REMOVALS_MAX + 1).for_each(|i| queue.remove(forget(&format!("/{i}")), None));
    queue.remove(forget("/a"), None);
    queue.settle(&under_way.changes);
    assert!(queue.is_pending(&key("/a")) && queue.is_pending(&key("/none")));
    loop {
        let batch = queue.take(Duration::ZERO);
        if batch.changes.is_empty() {
            break;
        }
        queue.settle(&batch.changes);
    }
    assert!(!queue.is_pending(&key("/a")) && !queue.is_pending(&key("/none")));
}
