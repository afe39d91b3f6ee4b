//! Collections in pages, as a client reads them that follows what each page says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sopan_fake::{FakeApi, Limit, Profile, Settings};
use tokio::io::DuplexStream;
use tokio::time::Instant;

use crate::client::{Answer, Client};

fn connect(api: &Arc<FakeApi>) -> Client<DuplexStream> {
    let (ours, theirs) = tokio::io::duplex(1024 * 1024);
    tokio::spawn(Arc::clone(api).serve_io(theirs));
    Client::new(ours)
}

/// Where a page says what comes next.
#[derive(Clone, Copy)]
enum Next {
    /// The `next` link of the field `Link`.
    Link,
    /// A URL there.
    Url(&'static str),
    /// A cursor there, which this parameter takes.
    Cursor(&'static str, &'static str),
    /// A cursor in a field, which this parameter takes.
    Field(&'static str, &'static str),
    /// This of the last record, which this parameter takes, while `has_more` is true.
    Last(&'static str, &'static str),
    /// This parameter grows by so much up to an empty page.
    Grows(&'static str, u64),
}

struct Reader {
    target: &'static str,
    fields: &'static str,
    records: &'static str,
    id: &'static str,
    next: Next,
}

impl Reader {
    /// The records' ids and how many requests that took.
    async fn read(&self, client: &mut Client<DuplexStream>) -> (Vec<Value>, usize) {
        let (mut target, mut ids, mut requests) = (self.target.to_owned(), Vec::new(), 0);
        loop {
            let answer = client.ask(&format!("GET {target} HTTP/1.1\r\nHost: u:80\r\n{}\r\n", self.fields)).await;
            assert_eq!(answer.status, 200, "{target}: {}", answer.body);
            requests += 1;
            let page = answer.json();
            let records = page.pointer(self.records).and_then(Value::as_array).expect("records");
            ids.extend(records.iter().map(|record| record.pointer(self.id).expect("an id").clone()));
            match self.follow(&answer, &page, records, requests) {
                Some(next) => target = next,
                None => return (ids, requests),
            }
        }
    }

    fn follow(&self, answer: &Answer, page: &Value, records: &[Value], requests: usize) -> Option<String> {
        let begin = self.target;
        let plus = |name: &str, value: &str| {
            let encoded = value.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
            let joint = if begin.contains('?') { '&' } else { '?' };
            format!("{begin}{joint}{name}={encoded}")
        };
        let here = |url: &str| url.strip_prefix("http://u:80").expect("the address that was asked").to_owned();
        match self.next {
            Next::Link => {
                let links = answer.field("link")?.split(", ").find(|link| link.ends_with("rel=\"next\""))?;
                Some(here(&links[1..links.find('>')?]))
            }
            Next::Url(at) => page.pointer(at)?.as_str().map(here),
            Next::Cursor(at, name) => {
                page.pointer(at)?.as_str().filter(|cursor| !cursor.is_empty()).map(|cursor| plus(name, cursor))
            }
            Next::Field(field, name) => answer.field(field).map(|cursor| plus(name, cursor)),
            Next::Last(at, name) => {
                let last = records.last()?.pointer(at)?;
                let text = last.as_str().map_or_else(|| last.to_string(), str::to_owned);
                page["has_more"].as_bool()?.then(|| plus(name, &text))
            }
            Next::Grows(name, by) => {
                let first = if by == 1 { 1 } else { 0 };
                (!records.is_empty()).then(|| plus(name, &(first + by * requests as u64).to_string()))
            }
        }
    }
}

const fn way(target: &'static str, records: &'static str, next: Next) -> Reader {
    Reader { target, fields: "", records, id: "/id", next }
}

#[tokio::test(start_paused = true)]
async fn every_way_of_paging_gives_every_order_once() {
    for (reader, requests) in [
        (way("/api/v1/collection/numbered?size=50", "/data", Next::Grows("page", 1)), 4),
        (way("/api/v1/collection/offset", "/data", Next::Grows("offset", 50)), 4),
        (way("/api/v1/collection/next", "/data", Next::Url("/next")), 3),
        (way("/api/v1/collection/link", "", Next::Link), 3),
        (way("/api/v1/collection/link?size=60", "", Next::Link), 2),
        (way("/api/v1/collection/cursor", "/data", Next::Cursor("/next_cursor", "cursor")), 3),
        (way("/api/v1/collection/header?size=40", "", Next::Field("x-next-cursor", "cursor")), 3),
        (way("/api/v1/collection/last", "/data", Next::Last("/id", "after")), 3),
    ] {
        let api = FakeApi::new(Settings::default());
        let read = reader.read(&mut connect(&api)).await;
        let ids: Vec<_> = (1..=120).map(Value::from).collect();
        assert_eq!(read, (ids, requests), "{}", reader.target);
    }
}

#[tokio::test(start_paused = true)]
async fn what_came_in_before_is_left_out() {
    // Order 100 came in 100 times 17 minutes after the year began.
    const SINCE: &str = "since=2026-01-02T04:20:00Z";
    let api = FakeApi::new(Settings::default());
    let mut client = connect(&api);
    for (target, first, count, total) in [
        ("/api/v1/orders?size=20&", 100, 20, Some(21)),
        ("/api/v1/orders?size=20&page=2&", 120, 1, Some(21)),
        ("/api/v1/collection/numbered?", 100, 21, Some(21)),
        ("/api/v1/collection/cursor?", 100, 21, None),
    ] {
        let page = client.get(&format!("{target}{SINCE}")).await.json();
        let data = page["data"].as_array().unwrap();
        assert_eq!(
            (data[0]["id"].as_u64(), data.len(), page["total"].as_u64()),
            (Some(first), count, total),
            "{target}"
        );
    }
    let next = client.get(&format!("/api/v1/orders?size=20&{SINCE}")).await.json()["next"].clone();
    assert_eq!(next, format!("/api/v1/orders?page=2&size=20&{SINCE}"));
    for target in ["orders?since=x", "collection/numbered?since=2026-13-01", "collection/cursor?cursor=b3JkZXI+1/A=="] {
        assert_eq!(client.get(&format!("/api/v1/{target}")).await.status, 400, "{target}");
    }
}

#[tokio::test(start_paused = true)]
async fn planned_faults_can_come_in_the_middle_and_bodies_slowly() {
    let slow = Duration::from_secs(3);
    let api = FakeApi::new(Settings { faults_after: 1, fail_first: 1, slow_first: 1, slow, ..Settings::default() });
    let mut client = connect(&api);
    let mut told = Vec::new();
    for _ in 0..4 {
        let began = Instant::now();
        let answer = client.get("/api/v1/orders").await;
        told.push((answer.status, began.elapsed() >= slow));
        assert!(answer.status != 200 || answer.json()["data"].as_array().unwrap().len() == 50);
    }
    assert_eq!(told, [(200, false), (500, false), (200, true), (200, false)]);
}

/// How the collection of each vendor is read.
fn vendors() -> BTreeMap<&'static str, Reader> {
    const KEY: &str = "Authorization: Bearer x\r\n";
    let reader = |target, fields, records, id, next| Reader { target, fields, records, id, next };
    BTreeMap::from([
        ("github", reader("/repos/toko/kita/issues", "", "", "/number", Next::Link)),
        ("gitlab", reader("/api/v4/projects/7/issues", "", "", "/iid", Next::Link)),
        ("stripe", reader("/v1/charges", KEY, "/data", "/id", Next::Last("/id", "starting_after"))),
        ("shopify", {
            let key = "X-Shopify-Access-Token: x\r\n";
            reader("/admin/api/2025-10/orders.json", key, "/orders", "/id", Next::Link)
        }),
        ("slack", {
            let next = Next::Cursor("/response_metadata/next_cursor", "cursor");
            reader("/api/conversations.history?channel=C1", KEY, "/messages", "/ts", next)
        }),
        ("notion", {
            let key = "Authorization: Bearer x\r\nNotion-Version: 2022-06-28\r\n";
            reader("/v1/users", key, "/results", "/id", Next::Cursor("/next_cursor", "start_cursor"))
        }),
        ("odata", reader("/odata/v4/Orders", "", "/value", "/OrderID", Next::Url("/@odata.nextLink"))),
    ])
}

#[tokio::test(start_paused = true)]
async fn each_vendor_gives_every_record_once_in_pages_of_its_size() {
    let vendors = vendors();
    for (name, profile) in Profile::ALL {
        let page_size = profile.defaults().page_size;
        let api =
            FakeApi::new(Settings { profile: Some(profile), page_size, orders_total: 250, ..Settings::default() });
        let (ids, requests) = vendors[name].read(&mut connect(&api)).await;
        assert_eq!((ids.len(), requests as u64), (250, 250_u64.div_ceil(page_size)), "{name}");
        let distinct: std::collections::BTreeSet<_> = ids.iter().map(Value::to_string).collect();
        assert_eq!(distinct.len(), 250, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_vendor_tells_of_its_limit_and_refuses_in_its_own_way() {
    let start = std::time::UNIX_EPOCH + Duration::from_secs(1_792_584_000);
    for (name, told, refused, retry_after) in [
        (
            "github",
            &["x-ratelimit-limit: 1", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 1792584060"][..],
            "/message",
            "60",
        ),
        (
            "gitlab",
            &["ratelimit-observed: 1", "ratelimit-reset: 1792584060", "x-next-page: 2", "x-total: 120"],
            "/message",
            "60",
        ),
        ("stripe", &[], "/error/type", "60"),
        ("shopify", &["x-shopify-shop-api-call-limit: 1/1"], "/errors", "60.0"),
        ("slack", &[], "/error", "60"),
        ("notion", &[], "/code", "60"),
        ("odata", &["ratelimit-limit: 1", "ratelimit-remaining: 0", "ratelimit-reset: 60"], "/error/code", "60"),
    ] {
        let profile = Profile::ALL.iter().find(|(known, _)| *known == name).map(|(_, profile)| *profile);
        let limits = vec![Limit::Quota { count: 1, span: Duration::from_secs(60) }];
        let api = FakeApi::new(Settings { profile, limits, wall_start: Some(start), ..Settings::default() });
        let mut client = connect(&api);
        let reader = &vendors()[name];
        let request = format!("GET {} HTTP/1.1\r\nHost: u\r\n{}\r\n", reader.target, reader.fields);
        let first = client.ask(&request).await;
        let lines: Vec<_> = first.head.lines().map(str::to_ascii_lowercase).collect();
        for field in told {
            assert!(lines.iter().any(|line| line == field), "{name}: {field} is not in {}", first.head);
        }
        let second = client.ask(&request).await;
        assert_eq!((second.status, second.field("retry-after")), (429, Some(retry_after)), "{name}");
        assert!(second.json().pointer(refused).is_some_and(Value::is_string), "{name}: {}", second.body);
    }
}

#[tokio::test(start_paused = true)]
async fn vendors_that_want_a_key_or_more_say_so_without() {
    for (name, fields, status, body) in [
        ("stripe", "", 401, "You did not provide an API key."),
        ("shopify", "", 401, "Invalid API key"),
        ("slack", "", 200, r#""error": "not_authed""#),
        ("notion", "", 401, "unauthorized"),
        ("notion", "Authorization: Bearer x\r\n", 400, "missing_version"),
    ] {
        let profile = Profile::ALL.iter().find(|(known, _)| *known == name).map(|(_, profile)| *profile);
        let api = FakeApi::new(Settings { profile, ..Settings::default() });
        let target = vendors()[name].target;
        let answer = connect(&api).ask(&format!("GET {target} HTTP/1.1\r\nHost: u\r\n{fields}\r\n")).await;
        assert_eq!((answer.status, answer.body.contains(body)), (status, true), "{name}: {}", answer.body);
    }
    // Beside a cursor of Shopify nothing may stand that filters.
    let profile = Some(Profile::Shopify);
    let api = FakeApi::new(Settings { profile, ..Settings::default() });
    let target = "/admin/api/2025-10/orders.json?page_info=x.y&updated_at_min=2026-01-01T00:00:00Z";
    let request = format!("GET {target} HTTP/1.1\r\nHost: u\r\nX-Shopify-Access-Token: x\r\n\r\n");
    assert_eq!(connect(&api).ask(&request).await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn vendors_give_what_came_since() {
    const SINCE: &str = "2026-01-02T04:20:00Z";
    for (name, parameter, value) in [
        ("github", "since", SINCE),
        ("gitlab", "updated_after", SINCE),
        ("stripe", "created[gte]", "1767327600"),
        ("shopify", "updated_at_min", SINCE),
        ("slack", "oldest", "1767327600.000100"),
    ] {
        let profile = Profile::ALL.iter().find(|(known, _)| *known == name).map(|(_, profile)| *profile);
        let api = FakeApi::new(Settings { profile, page_size: 20, ..Settings::default() });
        let reader = vendors().remove(name).unwrap();
        let joint = if reader.target.contains('?') { '&' } else { '?' };
        let target: &'static str = format!("{}{joint}{parameter}={value}", reader.target).leak();
        let (ids, requests) = Reader { target, ..reader }.read(&mut connect(&api)).await;
        assert_eq!((ids.len(), requests), (21, 2), "{name}");
    }
}
