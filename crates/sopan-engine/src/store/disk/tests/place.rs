//! Whose the directory is, what may lie in it, and what becomes of it while it is used.

use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

use super::*;

#[test]
fn the_directory_is_for_one_process_and_no_other_user() {
    let (dir, path) = place();
    let cache = open(&path);
    put(&cache, &key("/a"), "a", 1, 100_000);
    let error = Cache::open(&settings(&path)).unwrap_err().to_string();
    assert!(error.contains("is used by another sopan; stop that one") && error.contains(path.to_str().unwrap()));
    drop(cache);
    let mut all = vec![path.clone()];
    while let Some(place) = all.pop() {
        let found = fs::metadata(&place).unwrap();
        let expected = if found.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(found.permissions().mode() & 0o777, expected, "{}", place.display());
        if found.is_dir() {
            all.extend(fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    for (directory, bytes_max, hint) in [
        (file, 64 << 20, "cannot be used: File exists"),
        (PathBuf::from("/proc/none"), 64 << 20, "name one that sopan may create and write"),
        (path, 1000, "may take 1000 bytes, which is too little to work with; allow 16 MiB or more"),
    ] {
        let settings = CacheSettings { memory_bytes: 0, disk: Some(DiskSettings { directory, bytes_max }) };
        let error = Cache::open(&settings).unwrap_err().to_string();
        assert!(error.contains(hint), "{error}");
    }
}

#[test]
fn an_index_that_cannot_be_read_is_put_aside_and_other_files_are_left_alone() {
    let (_dir, path) = place();
    let cache = open(&path);
    put(&cache, &key("/a"), "a", 1, 100_000);
    drop(cache);
    let index = path.join("sopan-cache.index");
    let whole = fs::read(&index).unwrap();
    let others = [path.join("notes"), path.join("sopan-cache.bodies/aa/notes"), path.join("sopan-cache.bodies/notes")];
    fs::create_dir_all(others[1].parent().unwrap()).unwrap();
    others.iter().for_each(|other| fs::write(other, "mine").unwrap());
    let cut = &whole[..whole.len() / 2];
    for broken in [&b"hello"[..], cut, &vec![b'x'; whole.len()]] {
        fs::write(&index, broken).unwrap();
        let cache = open(&path);
        assert!(versions(&cache, &key("/a")).is_empty());
        assert_eq!(fs::read(path.join("sopan-cache.index.broken")).unwrap(), broken);
        assert!(put(&cache, &key("/a"), "a", 2, 100_000));
        drop(cache);
        assert_eq!(versions(&open(&path), &key("/a")), [2]);
    }
    others.iter().for_each(|other| assert_eq!(fs::read_to_string(other).unwrap(), "mine"));
}

const NAMES: [&str; 3] = ["sopan-cache.lock", "sopan-cache.index", "sopan-cache.bodies"];

#[test]
fn a_link_in_place_of_what_is_ours_is_not_followed() {
    let (dir, path) = place();
    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("file"), "mine").unwrap();
    let is_untouched = || {
        let names: Vec<_> = fs::read_dir(&elsewhere).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names == ["file"] && fs::read_to_string(elsewhere.join("file")).unwrap() == "mine"
    };
    for name in NAMES {
        for to in [elsewhere.clone(), elsewhere.join("file"), elsewhere.join("none")] {
            fs::create_dir(&path).unwrap();
            symlink(&to, path.join(name)).unwrap();
            let error = Cache::open(&settings(&path)).unwrap_err().to_string();
            assert!(error.contains(&format!("{name}` is a symbolic link, which sopan does not follow;")), "{error}");
            assert!(is_untouched(), "{name}");
            fs::remove_dir_all(&path).unwrap();
        }
    }
    let bodies = path.join("sopan-cache.bodies");
    let cache = open(&path);
    let file = |id: u64, ending: &str| bodies.join(format!("{id:02x}/{id:016x}{ending}"));
    let put = |id| {
        let key = key(&format!("/{id}"));
        put(&cache, &key, "a", id, 100_000);
        (load(&cache, &key).variants.first().cloned(), key)
    };
    // Where a file would be written: the link goes.
    fs::create_dir(bodies.join("01")).unwrap();
    symlink(elsewhere.join("file"), file(1, "-new")).unwrap();
    symlink(elsewhere.join("file"), file(1, "")).unwrap();
    let (variant, first) = put(1);
    check_body(&cache, &first, &variant.unwrap());
    // Where one would be read, even if it is as whole.
    let (variant, second) = put(2);
    fs::rename(file(2, ""), dir.path().join("moved")).unwrap();
    symlink(dir.path().join("moved"), file(2, "")).unwrap();
    let lost = read(&cache, &second, &variant.unwrap(), 0..1);
    assert!(matches!(&lost, Err(BodyLost::Broken(why)) if why.contains("is a symbolic link")), "{lost:?}");
    // A folder, into which nothing is written; nor is anything else stored for a while.
    symlink(&elsewhere, bodies.join("03")).unwrap();
    assert!(put(3).0.is_none() && put(4).0.is_none());
    assert_eq!(cache.usage().disk.unwrap().state, DiskState::Paused);
    assert!(is_untouched());
    check_body(&cache, &first, &load(&cache, &first).variants[0]);
}

#[test]
fn a_directory_that_others_may_change_is_refused() {
    let (_dir, path) = place();
    fs::create_dir(&path).unwrap();
    for (mode, refusal) in [
        (0o777, Some("every user may write into it (its mode is 777); name one that")),
        (0o1777, Some("every user may write into it (its mode is 1777)")),
        (0o702, Some("every user may write into it (its mode is 702)")),
        (0o770, None),
        (0o755, None),
    ] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let opened = Cache::open(&settings(&path)).map_err(|error| error.to_string());
        match refusal {
            None => drop(opened.unwrap()),
            Some(why) => assert!(opened.as_ref().is_err_and(|error| error.contains(why)), "{opened:?}"),
        }
    }
    // Whoever may not give files away cannot try that.
    if chown(&path, Some(12_345), None).is_ok() {
        let error = Cache::open(&settings(&path)).unwrap_err().to_string();
        assert!(error.contains("it belongs to another user (12345; sopan runs as 0); name one that"), "{error}");
    }
}

#[test]
fn what_is_removed_while_it_is_used_is_made_anew() {
    // What of it, a small and a large body, is left.
    for (what, left) in [
        ("rm -r cache", [false; 2]),
        ("mv cache moved", [false; 2]),
        ("rm -r cache; mkdir -m 700 cache", [false; 2]),
        ("rm cache/sopan-cache.index", [false; 2]),
        ("rm -r cache/*", [false; 2]),
        ("rm -r cache/sopan-cache.bodies", [true, false]),
        ("rm cache/sopan-cache.lock", [true; 2]),
    ] {
        let (dir, path) = place();
        // Without memory all comes from the disk.
        let without_memory = CacheSettings { memory_bytes: 0, ..settings(&path) };
        let cache = Cache::open(&without_memory).unwrap();
        put(&cache, &key("/small"), "a", 1, 100);
        put(&cache, &key("/large"), "a", 1, 100_000);
        let large = load(&cache, &key("/large")).variants[0].clone();
        let done = std::process::Command::new("sh").args(["-c", what]).current_dir(dir.path()).status();
        assert!(done.unwrap().success());
        // The next change is written to a place that is there.
        for (target, length) in [("/new", 100), ("/new-large", 100_000)] {
            assert!(put(&cache, &key(target), "a", 2, length));
            let entry = load(&cache, &key(target));
            check_body(&cache, &key(target), &entry.variants[0]);
        }
        assert_eq!(cache.usage().disk.unwrap().state, DiskState::InUse, "{what}");
        let [small_left, large_left] = left.map(|is_left| [1][..usize::from(is_left)].to_vec());
        assert_eq!(versions(&cache, &key("/small")), small_left, "{what}");
        let lost = read(&cache, &key("/large"), &large, 0..1);
        assert!(left[1] == lost.is_ok() && !matches!(lost, Err(BodyLost::Broken(_))), "{what}: {lost:?}");
        assert!(Cache::open(&without_memory).is_err(), "{what}: it is locked");
        drop(cache);
        let cache = Cache::open(&without_memory).unwrap();
        let found = ["/new", "/new-large", "/small", "/large"].map(|target| versions(&cache, &key(target)));
        assert_eq!(found, [vec![2], vec![2], small_left, large_left], "{what}");
        // Who finds it again does not find in it what has been changed since.
        let moved = dir.path().join("moved");
        assert!(!moved.exists() || versions(&open(&moved), &key("/small")).is_empty());
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "no runtime is there to be held up")]
fn where_it_cannot_be_made_anew_it_is_given_up_and_memory_goes_on() {
    let (dir, _) = place();
    let [link, other, file] = ["link", "other", "file"].map(|name| dir.path().join(name));
    fs::create_dir(dir.path().join("real")).unwrap();
    fs::write(&file, "mine").unwrap();
    symlink(dir.path().join("real"), &link).unwrap();
    let cache = open(&link.join("cache"));
    put(&cache, &key("/a"), "a", 1, 100);
    // In one step, so that it is never made anew in between.
    symlink(&file, &other).unwrap();
    fs::rename(&other, &link).unwrap();
    put(&cache, &key("/a"), "b", 2, 100);
    assert_eq!(versions(&cache, &key("/a")), [1, 2]);
    let is_lost = |_| {
        thread::sleep(Duration::from_millis(5));
        // It is too large for the memory.
        cache.usage().disk.unwrap().state == DiskState::Lost && !put(&cache, &key("/x"), "a", 3, 100_000)
    };
    assert!((0..2_000).any(is_lost), "{:?}", cache.usage());
    let usage = cache.usage().disk.unwrap();
    assert_eq!((usage.bytes, usage.targets), (0, 0));
    wait(cache.invalidate(&key("/a"), cache.epoch()));
    assert!(versions(&cache, &key("/a")).is_empty());
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}
