//! The example of the library, run as it stands against `sopan fake-api`.

#[path = "../../../../sopan-engine/examples/polite.rs"]
#[allow(dead_code, reason = "its main reads the command line")]
mod polite;

use crate::support::Fake;

#[test]
fn the_example_of_the_library_takes_a_collection_and_is_refused_once() {
    let fake = Fake::start(&["--limit", "10/s burst 5", "--rate-limit-first", "1"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut out = Vec::new();
    runtime.block_on(polite::run(&fake.url(""), &mut out)).unwrap();
    let out = String::from_utf8(out).unwrap();
    let lines: Vec<_> = out.lines().collect();
    let [health, found, orders, pages @ ..] = &lines[..] else { panic!("{out}") };
    assert_eq!((*health, *found), ("the API says: ok", "how it goes on: `/next` holds the URL of the next page"));
    assert!(orders.starts_with("120 orders of "), "{orders}");
    let expected: Vec<_> = (1..=5).map(|page| format!("page {page} has 10 of 120")).collect();
    assert_eq!(pages, expected);
    let mut statuses = vec![429];
    statuses.extend([200; 1 + 12 + 5]);
    assert_eq!(fake.statuses(), statuses);
}
