//! `sopan fetch` of collections: every record once, in its order, whatever happens on the way.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::{Fake, Once, Run, Running, command, sopan, until};

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

/// An API whose pages are these, at `/x` and then `/x?page=2` and so on; it counts what it is asked.
struct Pages {
    url: String,
    bodies: Arc<Mutex<Vec<String>>>,
    asked: Arc<Mutex<Vec<usize>>>,
}

impl Pages {
    fn start(bodies: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/x", listener.local_addr().unwrap());
        let bodies = Arc::new(Mutex::new(bodies.iter().map(|body| (*body).to_owned()).collect::<Vec<_>>()));
        let asked = Arc::<Mutex<Vec<usize>>>::default();
        let (theirs, count) = (Arc::clone(&bodies), Arc::clone(&asked));
        thread::spawn(move || {
            for socket in listener.incoming() {
                let (mut socket, mut head) = (socket.unwrap(), String::new());
                let mut read = BufReader::new(socket.try_clone().unwrap());
                while !head.ends_with("\r\n\r\n") && read.read_line(&mut head).unwrap() > 0 {}
                let target = head.split(' ').nth(1).unwrap_or_default();
                let page = target.split_once("page=").map_or(1, |(_, page)| page.parse().unwrap());
                count.lock().unwrap().push(page);
                let answer = answer(&theirs.lock().unwrap()[page - 1]).replacen("\r\n", "\r\nConnection: close\r\n", 1);
                let _ = socket.write_all(answer.as_bytes());
            }
        });
        Self { url, bodies, asked }
    }

    fn mend(&self, page: usize, body: &str) {
        body.clone_into(&mut self.bodies.lock().unwrap()[page - 1]);
    }

    /// Which pages were asked for since this was asked last.
    fn asked(&self) -> Vec<usize> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
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
        // In the middle.
        (&["--faults-after", "1", "--rate-limit-first", "1", "--retry-after", "seconds"], 1),
        (&["--slow-first", "1", "--slow", "300ms"], 0),
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
        let what_for = format!(", {repeated} to repeat what failed");
        assert!(run.err.contains(&told) && run.err.contains(&what_for) == (repeated > 0), "{}", run.err);
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

/// pg-5 of the cases: the state stays before the page, and what was mended is gone on with.
#[test]
fn a_page_that_cannot_be_read_costs_none_of_those_before_it() {
    let [first, second, last] = [
        r#"{"items":[{"id":1},{"id":2}],"next":"/x?page=2"}"#,
        r#"{"items":[{"id":3},{"id":4}],"next":"/x?page=3"}"#,
        r#"{"items":[{"id":5}],"next":null}"#,
    ];
    let flags = ["--records", "/items", "--next", "/next", "--schema"];
    for (wrong, why) in [
        (r#"{"items":[{"id":3},{"id":"4a"}],"next":"/x?page=3"}"#, "page 2, record 2, at /id: value is not of type "),
        (
            r#"{"itemz":[{"id":3}],"next":"/x?page=3"}"#,
            "there is nothing at `/items`, where the records are to be; it has ",
        ),
        (r#"{"items":{"id":3}}"#, "at `/items`, where the records are to be, stands an object, not a list"),
        ("<html>hello</html>", "it is not JSON: "),
        (r#"{"error":{"code":7}}"#, "there is nothing at `/items`, where the records are to be; it has `error`"),
        (r#"{"items":[{"id":3}],"next":false}"#, "page 2 has a truth value at `/next`, where "),
    ] {
        let (api, yard) = (Pages::start(&[first, wrong, last]), Yard::new());
        fs::write(yard.path("s.json"), r#"{"properties":{"id":{"type":"integer"}}}"#).unwrap();
        let schema = yard.path("s.json");
        let run = || yard.fetch(&api.url, "x.jsonl", &[&flags[..], &[schema.to_str().unwrap()]].concat());
        let failed = run();
        assert_eq!((failed.code, api.asked()), (Some(65), vec![1, 2]), "{wrong}: {}", failed.err);
        let complained = failed.complained().concat();
        assert!(complained.starts_with("error: page 2") && complained.contains(why), "{wrong}: {complained}");
        assert!(complained.contains("; 2 records of 1 page are kept"), "{wrong}: {complained}");
        assert_eq!(yard.read("x.jsonl.part"), "{\"id\":1}\n{\"id\":2}\n", "{wrong}");
        api.mend(2, second);
        let mended = run();
        assert_eq!((mended.code, api.asked()), (Some(0), vec![2, 3]), "{wrong}: {}", mended.err);
        let ids: Vec<_> = values(&yard.read("x.jsonl")).iter().map(|record| record["id"].as_u64()).collect();
        assert_eq!(ids, (1..=5).map(Some).collect::<Vec<_>>(), "{wrong}");
    }
}

/// Nothing that is kept by then would be other.
#[test]
fn a_run_that_ended_at_a_record_goes_on_with_such_records_set_aside() {
    let pages = [
        r#"{"items":[{"id":1}],"next":"/x?page=2"}"#,
        r#"{"items":[{"id":"2"},{"id":3}],"next":"/x?page=3"}"#,
        r#"{"items":[{"id":"4"}],"next":null}"#,
    ];
    let (api, yard) = (Pages::start(&pages), Yard::new());
    fs::write(yard.path("s.json"), r#"{"properties":{"id":{"type":"integer"}}}"#).unwrap();
    let schema = yard.path("s.json");
    let run =
        |more: &[&str]| yard.fetch(&api.url, "x.jsonl", &[&["--schema", schema.to_str().unwrap()], more].concat());
    assert_eq!((run(&[]).code, api.asked()), (Some(65), vec![1, 2]));
    let skipped = run(&["--on-mismatch", "skip", "--pages-max", "2"]);
    assert_eq!((skipped.code, api.asked()), (Some(0), vec![2]), "{}", skipped.err);
    assert_eq!(yard.read("x.jsonl"), "{\"id\":1}\n{\"id\":3}\n");
    assert_eq!(yard.read("x.jsonl.rejects.jsonl").lines().count(), 1);
}

/// The mark stays when only what records are held to changes.
#[test]
fn a_schema_may_come_later_without_that_all_is_got_again() {
    let yard = Yard::new();
    let api = Pages::start(&[r#"[{"id":7}]"#]);
    fs::write(yard.path("s.json"), r#"{"properties":{"id":{"type":"integer"}}}"#).unwrap();
    let schema = yard.path("s.json");
    let flags = ["--next", "none", "--key", "/id", "--since-field", "/id", "--since-param", "since"];
    assert_eq!(yard.fetch(&api.url, "x.db", &flags).code, Some(0));
    let more = ["--since-overlap", "2", "--schema", schema.to_str().unwrap(), "--on-mismatch", "skip"];
    let run = yard.fetch(&api.url, "x.db", &[&flags[..], &more].concat());
    assert!(run.code == Some(0) && run.err.contains("asking for what is new since 5\n"), "{}", run.err);
    let run = yard.fetch(&api.url, "x.db", &[&flags[..6], &["--since-param", "from"]].concat());
    assert!(run.code == Some(2) && run.err.contains("--since-param is `from`, was `since`"), "{}", run.err);
}

/// (b) and (c) of pg-1 of the cases: with a cursor, and the last time with nothing more.
#[test]
fn a_cursor_that_stays_ends_it_and_writes_nothing_twice() {
    let pages = |last: &str| {
        Pages::start(&[
            r#"{"items":[1,2],"cursor":"2"}"#,
            r#"{"items":[3,4],"cursor":"3"}"#,
            &format!(r#"{{"items":[{last}],"cursor":"3"}}"#),
        ])
    };
    for (last, code, records) in [("5,6", 76, "1\n2\n3\n4\n5\n6\n"), ("", 0, "1\n2\n3\n4\n")] {
        let api = pages(last);
        let flags = ["--records", "/items", "--next", "/cursor", "--next-param", "page", "--rate", "unlimited"];
        let run = sopan(&[&["fetch", &api.url], &flags[..]].concat());
        assert_eq!((run.code, std::str::from_utf8(&run.out), api.asked()), (Some(code), Ok(records), vec![1, 2, 3]));
        assert_eq!(run.err.contains("`page=3` is next, which was asked for already"), code == 76, "{}", run.err);
    }
}

/// As where the name of the next page is misspelt.
#[test]
fn an_end_before_all_that_the_api_tells_of_is_told() {
    let (fake, yard) = (Fake::start(&[]), Yard::new());
    let told = "the API tells of 120 records, and 50 came; ";
    for (flags, is_told) in [
        (&["--next", "/nxt"][..], true),
        (&["--next", "/next"], false),
        (&["--next", "none"], false),
        (&["--next", "/nxt", "--pages-max", "1"], false),
        (&["--next", "/next", "--records-max", "50"], false),
    ] {
        let run = yard.fetch(&fake.url("/api/v1/orders"), "orders.jsonl", flags);
        assert_eq!((run.code, run.err.contains(told)), (Some(0), is_told), "{flags:?}: {}", run.err);
    }
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
    let run = sopan(&["fetch", &fake.url("/api/v1/orders"), "--job", "orders"]);
    assert!(run.code == Some(2) && run.err.contains("cannot be used with '--job <NAME|all>'"), "{}", run.err);
}

/// Pages 3 to 5 of pg-5 of the cases.
#[test]
fn records_are_held_to_a_schema_and_what_becomes_of_others_can_be_said() {
    let yard = Yard::new();
    let schema =
        r#"{"required":["id","name"],"properties":{"id":{"type":"integer"},"name":{"type":["string","null"]}}}"#;
    fs::write(yard.path("s.json"), schema).unwrap();
    let schema = yard.path("s.json");
    let page = answer(r#"[{"id":1,"name":"a"},{"id":"12a","name":"b"},{"id":3},{"id":4,"name":null,"new":1.50}]"#);
    let run = |out: &str, policy: &str| {
        let once = Once::answering(page.clone());
        let flags = ["--schema", schema.to_str().unwrap(), "--on-mismatch", policy];
        yard.fetch(&format!("http://{}/x", once.address), out, &flags)
    };
    let told = "page 1, record 2, at /id: value is not of type \"integer\" (/properties/id/type)";
    let stopped = run("stop.jsonl", "stop");
    assert_eq!((stopped.code, stopped.complained()), (Some(65), vec![&*format!("error: {told}")]), "{}", stopped.err);
    assert!(!yard.path("stop.jsonl").exists());
    let skipped = run("skip.jsonl", "skip");
    assert_eq!(skipped.code, Some(0), "{}", skipped.err);
    assert!(skipped.err.contains(&format!("set aside: {told}\n")), "{}", skipped.err);
    assert!(skipped.err.contains(", 2 records set aside in "), "{}", skipped.err);
    assert_eq!(yard.read("skip.jsonl"), "{\"id\":1,\"name\":\"a\"}\n{\"id\":4,\"name\":null,\"new\":1.50}\n");
    let aside: Vec<_> = values(&yard.read("skip.jsonl.rejects.jsonl"));
    let (first, second) = (&aside[0], &aside[1]);
    assert_eq!((first["page"].as_u64(), first["record"].as_u64(), &first["rule"]), (Some(1), Some(2), &"type".into()));
    assert_eq!((&first["value"]["id"], &second["rule"]), (&"12a".into(), &"required".into()));
    let kept = run("keep.jsonl", "keep");
    assert_eq!((kept.code, yard.read("keep.jsonl").lines().count()), (Some(0), 4), "{}", kept.err);
    assert!(kept.err.contains(", 2 records kept that do not follow the schema"), "{}", kept.err);
    fs::write(yard.path("s.json"), "{").unwrap();
    let wrong = run("wrong.jsonl", "stop");
    assert!(wrong.code == Some(2) && wrong.err.contains("s.json is not JSON: "), "{}", wrong.err);
}

#[test]
fn a_schema_is_proposed_and_what_changed_since_the_last_run_is_told() {
    let yard = Yard::new();
    let proposal = yard.path("p.json");
    let once = Once::answering(answer(r#"[{"id":1,"old":true},{"id":2.5,"old":false}]"#));
    let (address, url) = (once.address, format!("http://{}/x", once.address));
    let run = yard.fetch(&url, "x.jsonl", &["--next", "none", "--infer-schema", proposal.to_str().unwrap()]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let proposed: serde_json::Value = serde_json::from_str(&yard.read("p.json")).unwrap();
    assert_eq!(
        (&proposed["properties"]["id"]["type"], &proposed["required"]),
        (&"number".into(), &serde_json::json!(["id", "old"]))
    );
    let _ = once.request();
    let _once = Once::at(address, answer(r#"[{"id":"1","new":1}]"#));
    let run = yard.fetch(&url, "x.jsonl", &["--next", "none"]);
    let told = "records have changed since the last run: /id was a number and is a string; /new is new: an integer; /old is gone\n";
    assert!(run.code == Some(0) && run.err.contains(told), "{}", run.err);
}

#[test]
fn only_what_is_new_since_the_last_run_is_asked_for() {
    let yard = Yard::new();
    let flags =
        ["--next", "none", "--since-field", "/at", "--since-param", "since", "--since-overlap", "1h", "--key", "/id"];
    let mut address = None;
    for (records, asked) in [
        (r#"[{"id":1,"at":"2026-01-01T10:00:00Z"},{"id":2,"at":"2026-01-01T09:00:00Z"},{"id":3}]"#, "GET /x?a=1 "),
        (
            r#"[{"id":1,"at":"2026-01-01T10:00:00Z"},{"id":4,"at":"2026-01-01T14:00:00+02:00"}]"#,
            "GET /x?a=1&since=2026-01-01T09%3A00%3A00Z ",
        ),
        ("[]", "GET /x?a=1&since=2026-01-01T11%3A00%3A00Z "),
        ("[]", "GET /x?a=1&since=2026-01-01T11%3A00%3A00Z "),
    ] {
        let page = answer(records);
        let once = match address {
            None => Once::answering(page),
            Some(address) => Once::at(address, page),
        };
        address = Some(once.address);
        let run = yard.fetch(&format!("http://{}/x?a=1", once.address), "x.db", &flags);
        assert_eq!(run.code, Some(0), "{}", run.err);
        let request = once.request();
        assert!(request.starts_with(asked), "{request}");
    }
    // A file that would be replaced has to be taken away first.
    let flags = ["--next", "none", "--since-field", "/id", "--since-param", "since", "--since", "5"];
    let once = Once::answering(answer(r#"[{"id":7}]"#));
    let (address, url) = (once.address, format!("http://{}/x", once.address));
    assert_eq!(yard.fetch(&url, "x.jsonl", &flags).code, Some(0));
    assert!(once.request().starts_with("GET /x?since=5 "));
    let run = yard.fetch(&url, "x.jsonl", &flags);
    assert!(run.code == Some(76) && run.err.contains("still holds what the last run got"), "{}", run.err);
    fs::remove_file(yard.path("x.jsonl")).unwrap();
    let once = Once::at(address, answer(r#"[{"id":8}]"#));
    assert_eq!((yard.fetch(&url, "x.jsonl", &flags).code, &*yard.read("x.jsonl")), (Some(0), "{\"id\":8}\n"));
    assert!(once.request().starts_with("GET /x?since=7 "));
}

#[test]
fn a_plan_asks_once_and_says_how_long_it_would_be() {
    let fake = Fake::start(&["--orders-total", "5000"]);
    let url = fake.url("/api/v1/orders");
    let run = sopan(&["plan", &url, "--rate", "100 per 1h"]);
    let told = String::from_utf8(run.out).unwrap();
    assert_eq!((run.code, &*run.err, fake.statuses().len()), (Some(0), "", 1), "{told}");
    assert!(told.starts_with("5000 records on 100 pages, 50 on the first, as that says\n100 requests take "), "{told}");
    // The hundred and first is an hour later, and 00:00 at most a day.
    let run = sopan(&["plan", &fake.url("/api/v1/orders?size=2"), "--rate", "100 per 1h", "--by", "00:00 UTC"]);
    let told = String::from_utf8(run.out).unwrap();
    assert!(told.contains("2500 requests take 24 h 00 m by 100 per 1h, ") && run.code == Some(76), "{told}");
    assert!(told.contains(" too late for 00:00 UTC\n"), "{told}");
    for (flags, code) in [(&[][..], 76), (&["--link-host", "other.test"], 0)] {
        let once = Once::answering(answer(r#"{"data":[1],"next":"https://other.test/2","total":3}"#));
        let run = sopan(&[&["plan", &format!("http://{}/x", once.address)], flags].concat());
        assert_eq!(run.code, Some(code), "{flags:?}: {}", run.err);
    }
    for (by, why) in [("9", "`9` is not a time of day"), ("09:00", "whose 09:00 that is must be said")] {
        let run = sopan(&["plan", &url, "--by", by]);
        assert!(run.code == Some(2) && run.err.contains(why), "{}", run.err);
    }
}

#[test]
fn what_happens_is_told_as_events_too() {
    let (fake, yard) = (Fake::start(&["--fail-first", "1"]), Yard::new());
    let run = yard.fetch(&fake.url("/api/v1/orders?key=SECRET"), "orders.jsonl", &["--json"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(!run.err.contains("SECRET"), "{}", run.err);
    let events = values(&run.err);
    let named: Vec<_> =
        events.iter().map(|event| event["event"].as_str().or(event["level"].as_str()).unwrap()).collect();
    assert_eq!(named, ["begin", "WARN", "note", "page", "page", "page", "done"]);
    let page = &events[4];
    assert_eq!((&page["page"], &page["pages_in_all"], &page["records_in_all"]), (&2.into(), &3.into(), &120.into()));
    let done = &events[6];
    assert_eq!((&done["records"], &done["requests"], &done["repeated"]), (&120.into(), &4.into(), &1.into()));
    assert!(done["waited_s"]["retries"].is_number() && done["timestamp"].is_string(), "{done}");
    let run = yard.fetch(&fake.url("/api/v1/none"), "none.jsonl", &["--json"]);
    let last = values(&run.err).pop().unwrap();
    assert_eq!((run.code, &last["level"], &last["exit_code"]), (Some(76), &"ERROR".into(), &76.into()), "{}", run.err);
}

/// The first kill comes after a page is kept, and the next run asks for what comes after it.
#[test]
fn a_signal_keeps_what_is_there() {
    let fake = Fake::start(&["--orders-total", "400"]);
    let (url, whole, yard) = (fake.url("/api/v1/orders?size=1"), Yard::new(), Yard::new());
    assert_eq!(whole.fetch(&url, "orders.jsonl", &[]).code, Some(0));
    let out = yard.path("orders.jsonl");
    for (signal, code) in [("INT", Some(130)), ("KILL", None)] {
        let args = ["fetch", &url, "--out", out.to_str().unwrap(), "--rate", "100/s"];
        let mut running = Running(command(&args).spawn().unwrap());
        let size = || fs::metadata(yard.path("orders.jsonl.part")).map_or(0, |part| part.len());
        let before = size();
        until(|| (size() > before).then_some(()));
        running.signal(signal);
        assert_eq!(running.wait().code(), code);
    }
    let before = fake.statuses().len();
    let run = yard.fetch(&url, "orders.jsonl", &[]);
    assert_eq!((run.code, yard.read("orders.jsonl") == whole.read("orders.jsonl")), (Some(0), true), "{}", run.err);
    assert!(run.err.starts_with("going on after page ") && fake.statuses().len() - before < 400, "{}", run.err);
}

fn answer(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}
