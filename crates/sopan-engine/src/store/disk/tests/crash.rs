//! What is left when the process ends at any instant, or the disk takes no more.
//!
//! This test binary starts itself as another process, which works on a cache until it is killed.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use super::*;

/// Names the directory to the process that works on it.
const DIRECTORY: &str = "SOPAN_TEST_CACHE";

fn child(directory: &Path, test: &str, before: &str) -> Child {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("sh");
    let test = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
    command.args(["-c", &format!("{before} exec \"$@\""), "sh"]).arg(program);
    command.args(["--exact", &test, "--ignored", "--nocapture"]).env(DIRECTORY, directory);
    command.stdout(Stdio::piped()).spawn().unwrap()
}

#[allow(clippy::disallowed_methods, reason = "it is how the test tells its other process")]
fn directory() -> PathBuf {
    std::env::var(DIRECTORY).unwrap().into()
}

fn say(line: &str) {
    writeln!(std::io::stdout(), "{line}").unwrap();
}

const KEYS: u64 = 12;

fn length(version: u64) -> usize {
    [10, 3_000, 70_000, 200, 40_000, 300_000][version as usize % 6]
}

#[test]
#[ignore = "it is the process that is killed by the test below"]
fn works_until_it_is_killed() {
    let cache = open(&directory());
    // No version is used twice, also not after a restart.
    let first = cache.last_id.load(std::sync::atomic::Ordering::SeqCst) + 1;
    let mut dice = first;
    for version in first * 1_000_000.. {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = key(&format!("/{}", (dice >> 40) % KEYS));
        match (dice >> 33) % 8 {
            0 => {
                wait(cache.invalidate(&key, cache.epoch()));
                say(&format!("untrue {} {version}", String::from_utf8_lossy(key.as_bytes())));
            }
            1 => {
                // A new head, which says which version the body has.
                for variant in &load(&cache, &key).variants {
                    let mut head = variant.stored.clone();
                    head.headers.append("x-fresh", version.into());
                    cache.freshen(&key, variant.id, head, cache.epoch());
                }
            }
            host => _ = put(&cache, &key, &format!("h{host}"), version, length(version)),
        }
        if version % 50 == 0 {
            for variant in &load(&cache, &key).variants {
                check_body(&cache, &key, variant);
            }
        }
    }
}

#[test]
fn a_process_that_is_killed_leaves_nothing_wrong_and_nothing_untrue() {
    let (_dir, path) = place();
    let mut untrue: HashMap<String, u64> = HashMap::new();
    let (mut found, mut removed) = (0, 0);
    for round in 0..8_u64 {
        let mut process = child(&path, "works_until_it_is_killed", "");
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let after = 5 + round * 7 % 40;
        let mut seen = 0;
        for line in lines.map_while(Result::ok) {
            let mut words = line.split(' ');
            if let (Some("untrue"), Some(key), Some(version)) = (words.next(), words.next(), words.next()) {
                untrue.insert(key.to_owned(), version.parse().unwrap());
                seen += 1;
            }
            if seen == after {
                process.kill().unwrap();
            }
        }
        assert!(seen >= after, "it ended by itself");
        process.wait().unwrap();
        removed += seen;
        let cache = open(&path);
        assert!(!path.join("sopan-cache.index.broken").exists());
        for i in 0..KEYS {
            let key = key(&format!("/{i}"));
            let since = untrue.get(String::from_utf8_lossy(key.as_bytes()).as_ref()).copied().unwrap_or(0);
            for variant in &load(&cache, &key).variants {
                assert!(version(variant) > since, "{key:?} {} {since}", version(variant));
                assert_eq!(variant.body.len() as usize, length(version(variant)));
                check_body(&cache, &key, variant);
                found += 1;
            }
        }
    }
    assert!(found > 50 && removed > 100, "{found} {removed}");
}

/// How many bodies lie in files of their own.
fn files(directory: &Path) -> usize {
    let folders = fs::read_dir(directory.join("sopan-cache.bodies")).unwrap();
    folders.map(|folder| fs::read_dir(folder.unwrap().path()).unwrap().count()).sum()
}

#[test]
#[ignore = "it is the process that the test below gives no room"]
fn works_where_files_may_not_grow() {
    let cache = open(&directory());
    let mut stored = 0;
    while cache.usage().disk.unwrap().skipped == 0 && stored < 10_000 {
        let length = if stored % 4 == 0 { 80_000 } else { 20_000 };
        put(&cache, &key(&format!("/{stored}")), "a", stored, length);
        load(&cache, &key(&format!("/{stored}")));
        stored += 1;
    }
    assert!(stored > 20 && stored < 10_000, "{stored}");
    // What is there is given still, but for what the index had to forget, whose files are gone; and what is untrue goes.
    let is_there = |key: &Key| {
        let Some(variant) = load(&cache, key).variants.first().cloned() else { return false };
        let is_lost = matches!(read(&cache, key, &variant, 0..1), Err(BodyLost::Gone));
        if !is_lost {
            check_body(&cache, key, &variant);
        }
        !is_lost
    };
    let there: Vec<_> = (0..stored).map(|i| key(&format!("/{i}"))).filter(is_there).collect();
    let known = (0..stored).flat_map(|i| cache.disk.as_ref().unwrap().reading(&key(&format!("/{i}"))).read().unwrap());
    assert_eq!(files(&directory()), known.filter(|known| matches!(known.body, ReadBody::File(_))).count());
    for key in there.iter().step_by(2) {
        wait(cache.invalidate(key, cache.epoch()));
        assert!(versions(&cache, key).is_empty());
        say(&format!("untrue {}", String::from_utf8_lossy(key.as_bytes())));
    }
    say(&format!("there {}", there.len()));
}

#[test]
fn a_disk_that_takes_no_more_stops_nobody_and_brings_nothing_back() {
    let (_dir, path) = place();
    // In units of 512 or 1024 bytes, as the shell has it.
    let mut process = child(&path, "works_where_files_may_not_grow", "trap '' XFSZ; ulimit -f 8000;");
    let lines: Vec<_> = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok).collect();
    assert!(process.wait().unwrap().success(), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("there ")));
    let cache = open(&path);
    for line in &lines {
        if let Some(key) = line.strip_prefix("untrue ") {
            assert!(versions(&cache, &Key::from_bytes(key.as_bytes().into())).is_empty(), "{key}");
        }
    }
}
