//! Where pages point to is there: files, headings in them, and what the map of the code names.
//!
//! Only links within the repository are asked; of those to elsewhere nobody can promise anything.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const PAGES: [&str; 4] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "bench/README.md"];
/// Folders whose pages are asked too.
const FOLDERS: [&str; 2] = ["docs", "docs/decisions"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn pages() -> BTreeSet<PathBuf> {
    let root = root();
    let within = FOLDERS.iter().flat_map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let within = within.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "md"));
    within.chain(PAGES.map(|page| root.join(page))).collect()
}

/// The lines of a page outside its blocks.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut in_block = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        !in_block && !is_fence
    })
}

/// `orders.md#all` of `[the orders](orders.md#all)`.
fn links(page: &str) -> Vec<&str> {
    prose(page).flat_map(|line| line.split("](").skip(1)).filter_map(|rest| Some(rest.split_once(')')?.0)).collect()
}

/// How a heading is called in links: small letters, no punctuation, hyphens for blanks.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn has_heading(page: &str, name: &str) -> bool {
    prose(page).filter(|line| line.starts_with('#')).any(|line| anchor(line.trim_start_matches('#').trim()) == name)
}

/// Why a link of a page leads nowhere, if it does.
fn broken(page: &Path, text: &str, link: &str) -> Option<&'static str> {
    if link.contains("://") {
        return None;
    }
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() { page.to_owned() } else { page.parent().unwrap().join(file) };
    let is_there = if target.is_dir() { heading.is_empty() } else { target.is_file() };
    if !is_there {
        return Some("no such file");
    }
    let read = |path: &Path| if file.is_empty() { text.to_owned() } else { fs::read_to_string(path).unwrap() };
    (!heading.is_empty() && !has_heading(&read(&target), heading)).then_some("no such heading")
}

#[test]
fn every_link_leads_somewhere() {
    let mut nowhere = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let name = page.strip_prefix(root()).unwrap().display();
        let wrong = |link| broken(&page, &text, link).map(|why| format!("{name}: {link}: {why}"));
        nowhere.extend(links(&text).into_iter().filter_map(wrong));
    }
    assert_eq!(nowhere, [""; 0]);
}

#[test]
fn a_link_that_leads_nowhere_is_seen() {
    let page = root().join("README.md");
    let text = "# A `b`, c-d?\n[a](#a-b-c-d) [b](#b)\n```\n[c](nothing)\n```\n[d](docs) [e](nothing.md) [f](docs/settings.md#no)\n";
    let seen: Vec<_> = links(text).into_iter().map(|link| (link, broken(&page, text, link))).collect();
    let expected = [
        ("#a-b-c-d", None),
        ("#b", Some("no such heading")),
        ("docs", None),
        ("nothing.md", Some("no such file")),
        ("docs/settings.md#no", Some("no such heading")),
    ];
    assert_eq!(seen, expected);
}

/// A page that nothing points to is not read.
#[test]
fn every_page_is_found_from_the_first() {
    let root = root();
    let (mut found, mut next) = (BTreeSet::new(), vec![root.join("README.md")]);
    while let Some(page) = next.pop() {
        let text = fs::read_to_string(&page).unwrap();
        if found.insert(page.clone()) {
            let targets = links(&text).into_iter().filter(|link| !link.contains("://"));
            let targets = targets.map(|link| page.parent().unwrap().join(link.split('#').next().unwrap()));
            let targets = targets.map(|path| if path.is_dir() { path.join("README.md") } else { path });
            let targets = targets.filter_map(|path| path.canonicalize().ok());
            next.extend(targets.filter(|path| path.extension().is_some_and(|ending| ending == "md")));
        }
    }
    let lost: Vec<_> = pages().into_iter().filter(|page| !found.contains(page)).collect();
    assert!(lost.is_empty(), "nothing leads to {lost:?}");
}

/// What `core/lane.rs` is called in the repository, and what stands behind it in the same cell and leaves out what is the
/// same: `h2.rs` after `engine/transport/h1.rs`, `retry/backoff.rs` after `core/retry.rs`.
fn named(path: &str, before: Option<&Path>) -> Option<PathBuf> {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let crates = [("core", "sopan-core"), ("engine", "sopan-engine"), ("sopan", "sopan"), ("sopan-fake", "sopan-fake")];
    let whole = crates.iter().find(|(short, _)| *short == first).map(|(_, name)| root().join("crates").join(name));
    let whole = whole.map(|root| root.join("src").join(rest));
    let beside =
        || before.into_iter().flat_map(Path::ancestors).map(|folder| folder.join(path)).find(|path| path.exists());
    whole.filter(|path| path.exists()).or_else(beside)
}

#[test]
fn the_map_of_the_code_is_short_and_what_it_names_is_there() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    assert!(text.lines().count() < 150, "{} lines: a map is read in a few minutes", text.lines().count());
    let mut missing = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        let mut before = None;
        let cell = line.rsplit(" | ").next().unwrap();
        for path in cell.split('`').skip(1).step_by(2).filter(|name| name.contains(['/', '.'])) {
            match named(path, before.as_deref()) {
                Some(found) => before = Some(found),
                None => missing.push(format!("{path} in {line}")),
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
