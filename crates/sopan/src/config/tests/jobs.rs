//! Collections: what each flag does, what a file says of them, and what does not fit together.

use std::path::Path;

use sopan_core::pages::since::Overlap;

use super::*;
use crate::fetch::Sink;

fn try_jobs(url: &str, flags: &[&str]) -> Result<Jobs, Wrong> {
    let cli::Command::Fetch(typed) = read("fetch", &[url], flags) else { unreachable!() };
    of(fetch(&typed))
}

fn of(fetch: Result<Fetch, Wrong>) -> Result<Jobs, Wrong> {
    fetch.map(|fetch| match fetch {
        Fetch::Jobs(jobs) => *jobs,
        Fetch::Single(single) => panic!("it is no job: {single:?}"),
    })
}

/// The flags that stand alone have no value, and those that need others have them behind it.
pub(super) const TYPED: &[Effect<Jobs>] = &[
    ("--out", "a.jsonl", |j| j.jobs[0].out == Some(("a.jsonl".into(), Sink::Lines))),
    ("--out", "-", |j| j.jobs[0].out.is_none()),
    ("--records", "/data", |j| j.jobs[0].select.as_ref().unwrap().to_string() == "/data"),
    ("--next", "link", |j| j.jobs[0].paging.as_ref().unwrap().to_string() == "link"),
    ("--next-param", "after --next /next", |j| j.jobs[0].paging.as_ref().unwrap().param() == Some("after")),
    ("--more", "/has_more", |j| j.jobs[0].more == Some("/has_more".parse().unwrap())),
    ("--link-host", "a.test", |j| j.jobs[0].link_hosts == ["a.test"]),
    ("--short-page-ends", "", |j| j.jobs[0].short_page_ends),
    ("--pages-max", "3", |j| j.jobs[0].pages_max == Some(3)),
    ("--records-max", "5", |j| j.jobs[0].records_max == Some(5)),
    ("--concurrency", "4 --next page", |j| j.jobs[0].concurrency.get() == 4),
    ("--schema", "s.json", |j| j.jobs[0].schema.as_deref() == Some(Path::new("s.json"))),
    ("--on-mismatch", "skip", |j| j.jobs[0].on_mismatch == OnMismatch::Skip),
    ("--table", "t --out a.db", |j| matches!(&j.jobs[0].out, Some((_, Sink::Sqlite { table, .. })) if table == "t")),
    (
        "--key",
        "/id --out a.db",
        |j| matches!(&j.jobs[0].out, Some((_, Sink::Sqlite { table, key })) if table == "a" && key.len() == 1),
    ),
    ("--since-field", "/at --since-param since --out a.jsonl", |j| {
        j.jobs[0].since.as_ref().unwrap().field == "/at".parse().unwrap()
    }),
    ("--since-param", "since --since-field /at --out a.jsonl", |j| j.jobs[0].since.as_ref().unwrap().param == "since"),
    ("--since", "5 --since-param since --since-field /at --out a.jsonl", |j| {
        j.jobs[0].since.as_ref().unwrap().from.as_deref() == Some("5")
    }),
    ("--since-overlap", "1h --since-param since --since-field /at --out a.jsonl", |j| {
        j.jobs[0].since.as_ref().unwrap().overlap == Some(Overlap::Time(s(3600)))
    }),
    ("--infer-schema", "s.json", |j| j.infer_schema.as_deref() == Some(Path::new("s.json"))),
    ("--restart", "", |j| j.restart),
    ("--quiet", "--next none", |j| j.telling == Telling::Quiet),
    ("--json", "--next none", |j| j.telling == Telling::Events && j.log == Format::Json),
    ("--job", ELSEWHERE, |_| false),
];

#[test]
fn what_is_shown_of_a_job_holds_no_secret() {
    let jobs = try_jobs("http://u.test/a?api_key=HIDDEN", &["--next=link", "--header=X-Key: HIDDEN"]).unwrap();
    let shown = format!("{jobs:?}");
    assert!(shown.contains("api_key=…") && !shown.contains("HIDDEN"), "{shown}");
}

#[test]
fn every_flag_of_a_collection_has_its_effect() {
    for (flag, value, effect) in TYPED.iter().filter(|(_, value, _)| *value != ELSEWHERE) {
        let typed: Vec<_> = [*flag].into_iter().chain(value.split_whitespace()).collect();
        let jobs = try_jobs("http://u/x?a=1", &typed).unwrap_or_else(|wrong| panic!("{typed:?}: {wrong}"));
        assert!(effect(&jobs), "{typed:?}: {jobs:?}");
    }
    let jobs = try_jobs("http://u/x?a=1", &["--next", "link"]).unwrap();
    let job = &jobs.jobs[0];
    assert_eq!((&*job.path, &*job.shown), ("/x?a=1", "http://u/x?a=…"));
    assert_eq!(jobs.headers["accept"], "application/json");
    assert!(jobs.upstreams[0].lane.wait_max.is_none() && jobs.upstreams[0].cache.is_none() && jobs.store.is_none());
    let jobs = try_jobs("http://u/x", &["--next", "link", "--cache-dir", "d"]).unwrap();
    assert_eq!(jobs.upstreams[0].cache.as_ref().unwrap().revalidate, Revalidate::Always);
    assert!(jobs.store.unwrap().disk.is_some());
}

#[test]
fn what_does_not_fit_together_is_told() {
    for (flags, why) in [
        ("--next nowhere", "--next: `nowhere` is not known; "),
        ("--next link --next-param page", "--next-param: `link` needs no parameter; "),
        ("--next-param page", "--next-param: nobody says what it takes; add --next "),
        ("--next link --concurrency 2", "--concurrency: only pages that are counted can be asked for at once, "),
        ("--concurrency 65", "--concurrency: `65` is not allowed; write a whole number from 1 to 64"),
        ("--out orders", "--out: `orders` does not say what it is to be; "),
        ("--out a.jsonl --key /id", "--key: it is for a table of a database, which `out` is not; "),
        ("--key /id", "--key: it needs a file, and records go to standard output; add --out FILE"),
        ("--since-field /at", "--since-field: it needs a file"),
        (
            "--since-field /at --out a.jsonl",
            "--since-field: it needs to be known what is asked for by it; add --since-param ",
        ),
        ("--since 5 --out a.jsonl", "--since: it needs to be known what is asked for by it; add --since-field "),
        (
            "--since-field /at --since-param since --out a.jsonl --records-max 5",
            "--records-max: what it leaves out would never be asked for again, since --since-field goes on",
        ),
        ("--records data", "--records: `data` is no JSON pointer"),
        ("--more more", "--more: `more` is no JSON pointer"),
    ] {
        let flags: Vec<_> = flags.split_whitespace().collect();
        let told = try_jobs("http://u/x", &flags).unwrap_err().to_string();
        assert!(told.contains(why), "{flags:?}: {told}");
    }
}

const FILE: &str = "\
upstreams:
  shop: { url: 'http://shop.test/v2', limits: [2/s], route: /shop }
  crm: { url: 'http://crm.test' }
jobs:
  orders: { upstream: shop, path: '/orders?per_page=100', out: orders.jsonl, next: page, concurrency: 2 }
  people: { upstream: crm, path: /people, out: people.db, key: /id, headers: { X-Team: SECRET } }
";

fn of_file(text: &str, flags: &[&str]) -> Result<Jobs, Wrong> {
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(&file, text).unwrap();
    let cli::Command::Fetch(typed) = read("fetch", &["--config", file.path().to_str().unwrap()], flags) else {
        unreachable!()
    };
    of(fetch(&typed))
}

#[test]
fn jobs_of_a_file_are_got_by_their_names() {
    let jobs = of_file(FILE, &["--job", "all", "--rate", "7/s"]).unwrap();
    let told: Vec<_> = jobs.jobs.iter().map(|job| (&*job.name, job.upstream, &*job.shown)).collect();
    let expected = [("orders", 0, "http://shop.test/v2/orders?per_page=…"), ("people", 1, "http://crm.test/people")];
    assert_eq!(told, expected);
    assert_eq!(jobs.upstreams[0].lane.limits, [limit("7/s")]);
    assert!(jobs.upstreams.iter().all(|upstream| !upstream.waits_count && upstream.lane.wait_max.is_none()));
    assert_eq!(jobs.jobs[1].headers["x-team"], "SECRET");
    // What is relative in a file is so to the file.
    assert!(jobs.jobs[0].out.as_ref().unwrap().0.is_absolute());
    assert!(!format!("{:?}", jobs.jobs[1].said).contains("SECRET"));
    let told = of_file(FILE, &["--job", "all", "--infer-schema", "s.json"]).unwrap_err().to_string();
    assert!(told.contains("--infer-schema: each job would write its own over the one before"), "{told}");
    let one = of_file(FILE, &["--job", "people", "--out", "other.jsonl"]).map(|jobs| jobs.jobs.len());
    assert!(one.unwrap_err().to_string().contains("it is for a table of a database"));
    let one = of_file(FILE, &["--job", "orders", "--out", "other.jsonl"]).unwrap();
    assert_eq!((one.jobs.len(), &one.jobs[0].out), (1, &Some(("other.jsonl".into(), Sink::Lines))));
}

#[test]
fn what_is_wrong_with_jobs_is_told_where_it_stands() {
    let change = |from: &str, to: &str| {
        assert!(FILE.contains(from), "{from}");
        FILE.replace(from, to)
    };
    for (text, job, why) in [
        (change("shop, path", "shp, path"), "orders", "there is no upstream `shp` in this file"),
        (change("upstream: crm, ", ""), "people", "it does not say which upstream is asked"),
        (change("path: /people, ", ""), "people", "it has no path"),
        (change("out: people.db, ", ""), "people", "it has no out"),
        (change("next: page", "nxt: page"), "orders", "did you mean `next`?"),
        (change("concurrency: 2", "concurrency: many"), "orders", "`many` is not allowed"),
        (change("orders: {", "all: {"), "people", "no job can be called `all`"),
        (FILE.to_owned(), "order", "there is no job `order` in the file; did you mean `orders`?"),
        (FILE.split("jobs:").next().unwrap().to_owned(), "orders", "the file has no jobs"),
        (change("people.db, key: /id", "orders.jsonl"), "all", "`orders` and `people` have the same output"),
    ] {
        let told = of_file(&text, &["--job", job]).unwrap_err().to_string();
        assert!(told.contains(why), "{why}: {told}");
    }
}
