//! docs/operations.md names every metric, and none that is not there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::door::Serve;
use crate::support::get;

/// What of a page tells of one thing: a row of a table, that begins with it in backticks.
fn rows(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
}

/// What a scraper sees, by name and kind: `("sopan_waiting", "gauge")`.
fn shown(metrics: &str) -> BTreeSet<(String, &str)> {
    let named = |(name, kind)| match kind {
        "counter" => (format!("{name}_total"), kind),
        "info" => (format!("{name}_info"), kind),
        _ => (str::to_owned(name), kind),
    };
    metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).map(named).collect()
}

#[test]
fn every_metric_is_on_the_page_and_none_that_is_not_there() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let page = fs::read_to_string(page).unwrap();
    let kind = |rest| str::split_once(rest, " |").map_or("", |(kind, _)| kind);
    let documented: BTreeSet<_> = rows(&page)
        // Those of observing are only there where something is observed.
        .filter(|(name, _)| name.starts_with("sopan_") && !name.starts_with("sopan_observed_"))
        .map(|(name, rest)| (name.to_owned(), kind(rest)))
        .filter(|(_, kind)| ["counter", "gauge", "histogram", "info"].contains(kind))
        .collect();
    // Some are only there where clients have keys, and where answers are kept on disk.
    let directory = tempfile::tempdir().unwrap();
    let proxy = Serve::start_with(&format!(
        "upstreams: {{ shop: {{ url: 'http://127.0.0.1:1' }} }}\nclients: {{ etl: {{ key_sha256: {} }} }}\ncache_dir: {}\n",
        "00".repeat(32),
        directory.path().display()
    ));
    let metrics = get(proxy.admin, "/metrics").body;
    assert_eq!(documented, shown(&metrics));
    let values = metrics.lines().filter(|line| !line.starts_with('#') && !line.contains("_bucket{"));
    let labels = ["outcome=\"", "status=\"", "reason=\"", "state=\"", "result=\"", "tier=\""];
    let values = values.flat_map(|line| labels.iter().filter_map(|label| line.split_once(label)?.1.split_once('"')));
    // Classes of statuses speak for themselves.
    let unsaid: BTreeSet<_> = values.map(|(value, _)| value).filter(|value| !value.ends_with("xx")).collect();
    let unsaid: Vec<_> = unsaid.into_iter().filter(|value| !page.contains(&format!("`{value}`"))).collect();
    assert_eq!(unsaid, [""; 0], "values of labels that the page does not say");
}
