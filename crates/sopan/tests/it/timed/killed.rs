//! However often a run is killed, what comes of it in the end is what an unbroken one gives, and it asks for little twice.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::collected::rows;
use crate::support::{Fake, Running, command, until};

struct Collection {
    path: &'static str,
    flags: &'static [&'static str],
    out: &'static str,
    /// How many pages may be under way.
    in_flight: usize,
    pages: usize,
    /// How many pages beyond the last may be asked for, to see that it was the last.
    beyond: usize,
    /// How long a run lives, at most.
    life: Duration,
}

impl Collection {
    fn command(&self, fake: &Fake, here: &Path) -> std::process::Command {
        let url = fake.url(self.path);
        let args = ["fetch", &url, "--out", self.out, "--rate", "unlimited", "--quiet"];
        let args: Vec<_> = args.into_iter().chain(self.flags.iter().copied()).collect();
        let mut command = command(&args);
        command.current_dir(here).stderr(std::process::Stdio::inherit());
        command
    }

    /// How often it was killed until it was whole. Lives differ, so that it is met in all it does.
    fn run_and_kill(&self, fake: &Fake, here: &Path) -> usize {
        for kills in 0.. {
            let mut run = Running(self.command(fake, here).spawn().unwrap());
            let life = self.life.mul_f64(0.5 + 0.5 * f64::from(kills as u32 * 7 % 10) / 10.0);
            let born = Instant::now();
            let ended = loop {
                match run.0.try_wait().unwrap() {
                    None if born.elapsed() < life => thread::sleep(Duration::from_millis(1)),
                    ended => break ended,
                }
            };
            match ended {
                Some(ended) => {
                    assert_eq!(ended.code(), Some(0));
                    return kills;
                }
                None => {
                    run.0.kill().unwrap();
                    run.0.wait().unwrap();
                    let (out, part) = (here.join(self.out), here.join(format!("{}.part", self.out)));
                    // It had done all and was about to say so; a run after that would begin anew.
                    if out.exists() && !part.exists() {
                        return kills + 1;
                    }
                }
            }
            assert!(kills < 1000, "it does not get on");
        }
        unreachable!("kills are counted without end")
    }
}

fn check(fake: &[&str], collection: &Collection, kills_min: usize) {
    let fake = Fake::start(fake);
    let [whole, killed] = [0; 2].map(|_| tempfile::tempdir().unwrap());
    let mut run = Running(collection.command(&fake, whole.path()).spawn().unwrap());
    assert_eq!(until(|| run.0.try_wait().unwrap()).code(), Some(0));
    let unbroken = fake.paths();
    let is_right = |requests: usize| (collection.pages..=collection.pages + collection.beyond).contains(&requests);
    assert!(is_right(unbroken.len()), "{} requests at {}", unbroken.len(), collection.path);

    let kills = collection.run_and_kill(&fake, killed.path());
    let asked = fake.paths().split_off(unbroken.len());
    let (whole, killed) = (whole.path().join(collection.out), killed.path().join(collection.out));
    assert_eq!(rows(&whole), rows(&killed), "{}", collection.out);
    if collection.out.contains(".jsonl") || collection.out.ends_with(".parquet") {
        assert!(std::fs::read(&whole).unwrap() == std::fs::read(&killed).unwrap(), "{}", collection.out);
    }
    let again = asked.len() - collection.pages;
    println!("{}: killed {kills} times, {again} of {} requests repeated", collection.out, asked.len());
    assert!(
        again <= kills * collection.in_flight + collection.beyond,
        "{again} requests were repeated after {kills} kills"
    );
    assert!(kills >= kills_min, "it was killed {kills} times only");
    // Nothing was left out, and nothing asked for beside it.
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    asked.into_iter().for_each(|path| *counts.entry(path).or_default() += 1);
    assert!(unbroken[..collection.pages].iter().all(|path| counts.contains_key(path)), "a page was not asked for");
    assert!(is_right(counts.len()), "{} pages were asked for", counts.len());
}

#[test]
fn a_thousand_pages_of_a_hundred_come_whole_though_it_is_killed_every_second() {
    let fake = ["--orders-total", "100000", "--delay", "6ms"];
    check(
        &fake,
        &Collection {
            path: "/api/v1/collection/cursor?size=100",
            flags: &[],
            out: "orders.jsonl",
            in_flight: 1,
            pages: 1000,
            beyond: 0,
            life: Duration::from_secs(1),
        },
        4,
    );
}

#[test]
fn several_pages_at_once_change_nothing_of_that() {
    let fake = ["--orders-total", "100000", "--delay", "20ms"];
    check(
        &fake,
        &Collection {
            path: "/api/v1/collection/numbered?size=100&page=1",
            flags: &["--next", "page", "--concurrency", "4"],
            out: "orders.jsonl",
            in_flight: 4,
            pages: 1000,
            beyond: 4,
            life: Duration::from_secs(1),
        },
        3,
    );
}

#[test]
fn every_kind_of_output_is_the_same_wherever_a_run_was_killed() {
    for (out, flags) in [
        ("orders.jsonl.gz", &[][..]),
        ("orders.jsonl.zst", &[]),
        ("orders.parquet", &[]),
        ("orders.db", &[]),
        ("orders.db", &["--key", "/id", "--table", "pesanan"]),
    ] {
        let collection = Collection {
            path: "/api/v1/collection/next?size=50",
            flags,
            out,
            in_flight: 1,
            pages: 100,
            beyond: 0,
            // Longer than any output takes that is made of so little, also without optimization.
            life: Duration::from_millis(600),
        };
        check(&["--orders-total", "5000", "--delay", "10ms"], &collection, 3);
    }
}
