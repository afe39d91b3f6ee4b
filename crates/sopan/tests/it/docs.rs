//! What the pages for people say is what happens: README.md and the pages in docs/ are run as they stand.
//!
//! `page` reads a page's blocks, `session` runs them with the real program, and `recipes` also asks what programs saw. How
//! a block is written, and which need not be run, stands in CONTRIBUTING.md.

mod page;
mod recipes;
mod session;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use page::{Does, Page};
use session::Session;

/// Blocks that are shown and not run. Each gives its reason; that there are few is asked here.
const NOT_RUN_MAX: usize = 13;

/// Runs section by section, see there.
const RECIPES: &str = "docs/recipes.md";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// README.md, and every page in docs/ and docs/decisions/.
fn pages() -> Vec<Page> {
    let root = root();
    let docs = ["docs", "docs/decisions"].into_iter().flat_map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let docs = docs.map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = docs.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect();
    paths.sort();
    paths.insert(0, root.join("README.md"));
    let name = |path: &Path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
    paths.iter().map(|path| Page::read(&name(path), &fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn every_block_is_run_or_says_why_not() {
    let pages = pages();
    let blocks = || pages.iter().flat_map(|page| page.blocks.iter().map(move |block| (page, block)));
    let unclear: Vec<_> = blocks().filter(|(_, block)| matches!(block.does, Does::Unclear)).collect();
    let of = |(page, block): (&Page, &page::Block)| format!("{}:{} ({})", page.name, block.line, block.language);
    assert_eq!(unclear.into_iter().map(of).collect::<Vec<_>>(), [""; 0], "nobody knows what to do with these blocks");
    let reasons = blocks().filter_map(|(page, block)| match &block.does {
        Does::Shown { why } => Some(format!("{}:{}: {why}", page.name, block.line)),
        _ => None,
    });
    let reasons: Vec<_> = reasons.collect();
    println!("not run:\n{}", reasons.join("\n"));
    assert!(reasons.len() <= NOT_RUN_MAX, "too many blocks are not run: {reasons:#?}");
    assert!(blocks().any(|(page, block)| page.name == "README.md" && block.does == Does::Run));
}

/// In threads, since they mostly wait: pages share nothing, not even ports.
#[test]
fn every_page_does_what_it_says() {
    let pages: Vec<_> = pages().into_iter().filter(|page| page.name != RECIPES && page.is_run()).collect();
    let failures: Vec<_> = thread::scope(|scope| {
        let runs: Vec<_> =
            pages.iter().map(|page| scope.spawn(|| Session::new(&page.name).run(&page.blocks))).collect();
        runs.into_iter().filter_map(|run| run.join().unwrap().err()).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_page_that_is_wrong_is_told_with_its_line() {
    for (text, expected) in [
        ("```sh\necho so\nfalse\necho on\n```\n", "p at line 2 fails:\nso\n"),
        (
            "\n```console\n$ echo 127.0.0.1:8000\n127.0.0.1:8001\n```\n",
            "p at line 3 prints\n127.0.0.1:8000\n\nand not\n",
        ),
    ] {
        let seen = Session::new("p").run(&Page::read("p", text).blocks).unwrap_err();
        assert!(seen.starts_with(expected), "{seen}");
    }
}
