//! `sopan fetch` of collections: every record once, in its order, whatever happens on the way.

use std::fs;
use std::path::PathBuf;

use crate::support::{Fake, Once, Run, sopan};

/// So that retries after failures take no time.
const QUICK: [&str; 4] = ["--backoff-base", "1ms", "--backoff-cap", "1ms"];

/// A directory of its own for each test, and what runs into it.
struct Yard(tempfile::TempDir);

impl Yard {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn fetch(&self, url: &str, out: &str, flags: &[&str]) -> Run {
        let out = self.path(out);
        let args = ["fetch", url, "--out", out.to_str().unwrap(), "--rate", "unlimited"];
        sopan(&args.into_iter().chain(QUICK).chain(flags.iter().copied()).collect::<Vec<_>>())
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// What is there beside what is asked for.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// All orders of a fake, a line each, as its pages write them.
fn orders(fake: &Fake) -> String {
    let mut lines = String::new();
    for page in 1.. {
        let body: serde_json::Value =
            serde_json::from_str(&fake.get(&format!("/api/v1/orders?page={page}&size=50")).body).unwrap();
        for order in body["data"].as_array().unwrap() {
            lines += &format!("{order}\n");
        }
        if body["next"].is_null() {
            return lines;
        }
    }
    unreachable!()
}

/// The same whatever order fields have.
fn values(lines: &str) -> Vec<serde_json::Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn all_pages_come_once_and_it_is_told_how_they_were_found() {
    let (fake, yard) = (Fake::start(&[]), Yard::new());
    let expected = orders(&Fake::start(&[]));
    let run = yard.fetch(&fake.url("/api/v1/orders"), "orders.jsonl", &[]);
    assert_eq!((run.code, run.out.len()), (Some(0), 0), "{}", run.err);
    let got = yard.read("orders.jsonl");
    assert_eq!((values(&got), got.lines().count()), (values(&expected), 120));
    let told: Vec<_> = run.err.lines().collect();
    let found = "page 1 tells: records are at /data (--records '/data'); `/next` holds the URL of the next page (--next '/next')";
    assert_eq!(told[0], found);
    assert!(told[1].starts_with("120 records of 3 pages in ") && told[1].contains("; 3 requests in "), "{}", told[1]);
    assert_eq!(fake.statuses(), [200; 3]);
    assert_eq!(yard.names(), ["orders.jsonl", "orders.jsonl.state"]);
}

#[test]
fn the_way_can_be_said_and_records_go_to_standard_output() {
    let fake = Fake::start(&[]);
    let expected = values(&orders(&Fake::start(&[])));
    for (path, flags) in [
        ("/api/v1/orders?size=50", &["--records", "/data", "--next", "/next"][..]),
        ("/api/v1/orders?size=50", &["--records", "$.data[*]", "--next", "page"]),
        ("/api/v1/orders?size=50", &["--records", "/data", "--next", "page", "--concurrency", "4", "--quiet"]),
    ] {
        let url = fake.url(path);
        let args = ["fetch", &url, "--rate", "unlimited"].into_iter().chain(flags.iter().copied());
        let run = sopan(&args.collect::<Vec<_>>());
        let out = String::from_utf8(run.out).unwrap();
        assert_eq!((run.code, values(&out) == expected), (Some(0), true), "{flags:?}: {}", run.err);
        assert_eq!(run.err.is_empty(), flags.contains(&"--quiet"), "{}", run.err);
    }
}

#[test]
fn failures_cost_requests_and_no_record() {
    let whole = Yard::new();
    assert_eq!(whole.fetch(&Fake::start(&[]).url("/api/v1/orders"), "orders.jsonl", &[]).code, Some(0));
    for (faults, repeated) in [
        (&["--rate-limit-first", "1", "--retry-after", "none"][..], 1),
        (&["--fail-first", "2"], 2),
        (&["--truncate-first", "1"], 1),
        (&["--drop-before-head-first", "1"], 1),
        (&["--drop-in-head-first", "1"], 1),
        (&["--drop-after-head-first", "1", "--cut", "reset"], 1),
    ] {
        let (fake, yard) = (Fake::start(faults), Yard::new());
        let run = yard.fetch(&fake.url("/api/v1/orders"), "orders.jsonl", &["--jitter", "0"]);
        assert_eq!((run.code, run.logged("WARN").len()), (Some(0), repeated), "{faults:?}: {}", run.err);
        assert_eq!(yard.read("orders.jsonl"), whole.read("orders.jsonl"), "{faults:?}");
        let told = format!("; {} requests in ", 3 + repeated);
        assert!(
            run.err.contains(&told) && run.err.contains(&format!(", {repeated} to repeat what failed")),
            "{}",
            run.err
        );
    }
    let (fake, yard) = (Fake::start(&["--fail-first", "9"]), Yard::new());
    let run = yard.fetch(&fake.url("/api/v1/orders"), "orders.jsonl", &[]);
    assert_eq!((run.code, run.logged("WARN").len(), fake.statuses()), (Some(75), 3, vec![500; 4]));
    let complained = run.complained().concat();
    assert!(complained.starts_with("error: page 1: HTTP 500 from http://"), "{complained}");
    assert!(complained.ends_with("; limit of 3 retries reached"), "{complained}");
    assert!(!yard.path("orders.jsonl").exists());
}

#[test]
fn what_is_kept_of_a_run_that_failed_is_where_the_next_one_goes_on() {
    let (fake, yard) = (Fake::start(&[]), Yard::new());
    let (address, url) = (fake.address, fake.url("/api/v1/orders?size=50"));
    let whole = Yard::new();
    assert_eq!(whole.fetch(&url, "orders.jsonl", &[]).code, Some(0));
    drop(fake);
    // It gives two pages, the next one is forbidden to it, and then it is mended.
    let fake = Fake::start_with(address, &["--limit", "2 per 1h"]);
    let run = yard.fetch(&url, "orders.jsonl", &["--max-retries", "0"]);
    assert_eq!((run.code, fake.statuses()), (Some(75), vec![200, 200, 429]), "{}", run.err);
    let kept = "; 100 records of 2 pages are kept, and the next run goes on there";
    assert!(run.complained()[0].starts_with("error: page 3: ") && run.complained()[0].ends_with(kept), "{}", run.err);
    assert_eq!(yard.names(), ["orders.jsonl.part", "orders.jsonl.state", "orders.jsonl.trail"]);
    drop(fake);
    let fake = Fake::start_at(address);
    let another = yard.fetch(&fake.url("/api/v1/orders?size=40"), "orders.jsonl", &[]);
    assert_eq!((another.code, fake.statuses().len()), (Some(2), 0), "{}", another.err);
    assert!(
        another.err.contains("is the state of another job: ") && another.err.contains("--restart"),
        "{}",
        another.err
    );
    let run = yard.fetch(&url, "orders.jsonl", &[]);
    assert_eq!((run.code, fake.statuses()), (Some(0), vec![200]), "{}", run.err);
    assert!(run.err.starts_with("going on after page 2, with 100 records\n"), "{}", run.err);
    assert_eq!(yard.read("orders.jsonl"), whole.read("orders.jsonl"));
    let anew = yard.fetch(&fake.url("/api/v1/orders?size=40"), "orders.jsonl", &["--restart", "--pages-max", "2"]);
    assert_eq!((anew.code, yard.read("orders.jsonl").lines().count()), (Some(0), 80), "{}", anew.err);
}

#[test]
fn bounds_end_it_where_they_say() {
    let (fake, yard) = (Fake::start(&[]), Yard::new());
    for (flags, records, requests) in [
        (&["--pages-max", "2"][..], 100, 2),
        (&["--records-max", "70"], 70, 2),
        (&["--records-max", "50"], 50, 1),
        (&["--next", "page", "--short-page-ends"], 120, 3),
        (&["--next", "none"], 50, 1),
    ] {
        let before = fake.statuses().len();
        let run = yard.fetch(&fake.url("/api/v1/orders?size=50"), "orders.jsonl", &[flags, &["--restart"]].concat());
        assert_eq!((run.code, yard.read("orders.jsonl").lines().count()), (Some(0), records), "{flags:?}: {}", run.err);
        assert_eq!(fake.statuses().len() - before, requests, "{flags:?}");
    }
}

#[test]
fn what_is_no_page_of_a_collection_is_an_error_of_the_data() {
    for (body, why) in [
        (r#"{"itemz":[{"id":1}]}"#, "there is nothing at `/items`, where the records are to be; it has `itemz`"),
        (r#"{"items":{"id":1}}"#, "at `/items`, where the records are to be, stands an object, not a list"),
        ("<html>hello</html>", "it is not JSON: "),
        (r#"{"error":{"code":7}}"#, "there is nothing at `/items`, where the records are to be; it has `error`"),
        (r#"{"items":[1],"next":7}"#, "page 1 has a number at `/next`"),
    ] {
        let (once, yard) = (Once::answering(answer(body)), Yard::new());
        let url = format!("http://{}/x", once.address);
        let run = yard.fetch(&url, "x.jsonl", &["--records", "/items", "--next", "/next"]);
        assert_eq!(run.code, Some(65), "{body}: {}", run.err);
        assert!(run.err.contains(why) && !yard.path("x.jsonl").exists(), "{body}: {}", run.err);
    }
    let once = Once::answering(answer(r#"{"items":[1],"next":"https://evil.test/2"}"#));
    let run = Yard::new().fetch(&format!("http://{}/x", once.address), "x.jsonl", &[]);
    assert!(run.code == Some(76) && run.err.contains("is at `evil.test`, not at "), "{}", run.err);
}

/// (a) of pg-1 of the cases.
#[test]
fn a_page_that_leads_to_itself_ends_it_and_can_be_said_to_be_the_last() {
    let page = answer(r#"{"items":[1,2],"next":"/x"}"#);
    let once = Once::answering(page.clone());
    let run = sopan(&["fetch", &format!("http://{}/x", once.address), "--records", "/items"]);
    assert_eq!((run.code, &*run.out), (Some(76), &b"1\n2\n"[..]), "{}", run.err);
    assert!(run.err.contains("the API leads in a circle") && run.err.contains("--pages-max 1"), "{}", run.err);
    let once = Once::answering(page);
    let run = sopan(&["fetch", &format!("http://{}/x", once.address), "--records", "/items", "--pages-max", "1"]);
    assert_eq!((run.code, &*run.out), (Some(0), &b"1\n2\n"[..]), "{}", run.err);
}

#[test]
fn jobs_of_a_file_share_a_quota_and_one_that_fails_keeps_no_other_from_being_done() {
    let (fake, yard) = (Fake::start(&[]), Yard::new());
    let settings = format!(
        "upstreams:\n  shop: {{ url: 'http://{}/api/v1', limits: [unlimited] }}\njobs:\n  \
         none: {{ path: /nothing, out: none.jsonl }}\n  orders: {{ path: /orders, out: orders.jsonl, records: /data }}\n",
        fake.address
    );
    fs::write(yard.path("sopan.yaml"), settings).unwrap();
    let config = yard.path("sopan.yaml");
    let run = sopan(&["fetch", "--config", config.to_str().unwrap(), "--job", "all"]);
    assert_eq!(run.code, Some(76), "{}", run.err);
    assert!(
        run.err.contains("\norders: 120 records of 3 pages in ") || run.err.contains("orders: 120 records"),
        "{}",
        run.err
    );
    assert!(run.complained()[0].starts_with("error: none: page 1: HTTP 404 from "), "{}", run.err);
    assert_eq!(yard.read("orders.jsonl").lines().count(), 120);
    let run = sopan(&["fetch", "--config", config.to_str().unwrap(), "--job", "orders", "--quiet"]);
    assert_eq!((run.code, &*run.err), (Some(0), ""));
}

fn answer(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}
