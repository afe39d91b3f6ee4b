//! Tells the program what it was built from and for: `version.rs` says so.
//!
//! The commit comes from git where the sources lie in a repository of sopan. Elsewhere, as in an unpacked crate or in an image
//! that is built without `.git`, there is none, unless whoever builds sets `SOPAN_COMMIT` and `SOPAN_COMMIT_DATE`. That there
//! are changes which are not committed is not told: nothing would make Cargo ask again when that changes.
#![allow(clippy::print_stdout, reason = "so a build script speaks to Cargo")]

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    tell_commit();
    for (name, from) in [("SOPAN_TARGET", "TARGET"), ("SOPAN_PROFILE", "PROFILE")] {
        println!("cargo::rustc-env={name}={}", env::var(from).unwrap_or_default());
    }
    println!("cargo::rustc-env=SOPAN_FEATURES={}", features().join(", "));
}

/// The features that this crate was built with, by name; `default` alone says nothing.
fn features() -> Vec<String> {
    let names = env::vars().filter_map(|(name, _)| Some(name.strip_prefix("CARGO_FEATURE_")?.to_ascii_lowercase()));
    let mut names: Vec<_> = names.filter(|name| name != "default").map(|name| name.replace('_', "-")).collect();
    names.sort_unstable();
    names
}

fn tell_commit() {
    // In a repository of something else, that commit would say nothing of sopan.
    if git(&["rev-parse", "--show-prefix"]).as_deref() != Some("crates/sopan/") {
        return;
    }
    let Some(shown) = git(&["log", "-1", "--abbrev=7", "--format=%h %cs"]) else { return };
    let Some((commit, date)) = shown.split_once(' ') else { return };
    println!("cargo::rustc-env=SOPAN_COMMIT={commit}");
    println!("cargo::rustc-env=SOPAN_COMMIT_DATE={date}");
    // What changes when another commit is checked out, or one is made. A branch that is packed has no file of its own, but what
    // is done is logged then too. A file that is not there would make Cargo ask every time.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "logs/HEAD"].into_iter().chain(branch.as_deref()) {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// What git says, if there is git and it has something to say. It is run where this file lies.
fn git(args: &[&str]) -> Option<String> {
    // A hook that builds sets these for its own repository.
    let done = Command::new("git").args(args).env_remove("GIT_DIR").env_remove("GIT_WORK_TREE").output().ok()?;
    let said = String::from_utf8(done.stdout).ok()?;
    done.status.success().then(|| said.trim().to_owned())
}
