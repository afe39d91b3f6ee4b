//! Collections: every page once, in its order, whatever happens on the way; and no page that nobody wants.

use std::future::poll_fn;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream as _;
use sopan_core::policy::CachePolicy;
use sopan_engine::pages::{Paging, Pointer, Resume};
use sopan_engine::{ApiClient, Cache, CacheSettings, Error, Page, PageError, Pages, PagesSettings, Surroundings};
use sopan_fake::script::{Answer, Request};
use sopan_fake::{Etag, FakeApi, Settings};

use crate::client::{ToApi, around, builder, fake, scripted, statuses};
use crate::support::{is_within, ms, now, s, wall};

const ORDERS: &str = "/api/v1/orders?size=10";

/// Takes all pages: those that came, and what ended them.
async fn all(mut pages: Pages) -> (Vec<Page>, Result<(), PageError>) {
    let mut came = Vec::new();
    loop {
        match pages.next().await {
            Some(Ok(page)) => came.push(page),
            Some(Err(error)) => {
                assert!(pages.next().await.is_none(), "it goes on after {error}");
                return (came, Err(error));
            }
            None => return (came, Ok(())),
        }
    }
}

/// The records of all pages, one behind the other.
fn records(pages: &[Page]) -> String {
    let records = pages.iter().flat_map(Page::records).map(|record| String::from_utf8(record.to_vec()).unwrap());
    records.collect::<Vec<_>>().join(" ")
}

/// The ids of the orders that came.
fn ids(pages: &[Page]) -> Vec<u64> {
    let id = |record: &[u8]| serde_json::from_slice::<serde_json::Value>(record).unwrap()["id"].as_u64().unwrap();
    pages.iter().flat_map(Page::records).map(id).collect()
}

fn numbered(concurrency: usize) -> PagesSettings {
    let concurrency = NonZeroUsize::new(concurrency);
    PagesSettings { paging: Some(Paging::Number { param: "page".to_owned() }), concurrency, ..PagesSettings::default() }
}

/// The value of a parameter that is a number.
fn number(request: &Request, param: &str) -> u64 {
    let value = request.target.split(['?', '&']).find_map(|item| item.strip_prefix(param)?.strip_prefix('='));
    value.map_or(1, |value| value.parse().unwrap())
}

/// A page of a collection of so many pages that says how many there are, after 100 ms.
fn page_of(pages: u64) -> impl Fn(&Request) -> Answer {
    move |request| {
        let page = number(request, "page");
        let list = if page <= pages { format!("[{page},{page}]") } else { "[]".to_owned() };
        Answer::json(200, format!(r#"{{"data":{list},"total_pages":{pages}}}"#)).after(ms(100))
    }
}

#[tokio::test(start_paused = true)]
async fn a_collection_is_told_by_its_first_page_and_comes_whole_and_in_order() {
    let (api, client) = fake(|_| {});
    let (pages, end) = all(client.pages(ORDERS, PagesSettings::default())).await;
    assert!(end.is_ok(), "{end:?}");
    assert_eq!(ids(&pages), (1..=120).collect::<Vec<_>>());
    assert_eq!(statuses(&api), [200; 12]);
    let first = &pages[0];
    assert_eq!(first.found.as_ref().unwrap().by, "`/next` holds the URL of the next page");
    assert_eq!((first.select.as_ref().unwrap().to_string(), first.size), ("/data".to_owned(), 10));
    assert_eq!((first.total.records, first.total.pages), (Some(120), Some(12)));
    let next = first.next.as_ref().unwrap().as_str();
    assert_eq!(
        (&*first.url, next),
        ("http://api.test/api/v1/orders?size=…", "http://api.test/api/v1/orders?page=2&size=10")
    );
    assert!(pages[1..].iter().all(|page| page.found.is_none() && page.select.is_none()));
    assert_eq!(pages.iter().map(|page| page.number).collect::<Vec<_>>(), (1..=12).collect::<Vec<_>>());
    assert_eq!(pages.iter().filter(|page| page.next.is_none()).count(), 1);
    assert_eq!(format!("{:?}", pages[11]), "Page(12, http://api.test/api/v1/orders?page=…&size=…, 10 records)");
}

#[tokio::test(start_paused = true)]
async fn every_fault_on_the_way_costs_a_repetition_and_no_record() {
    type Change = fn(&mut Settings);
    for (name, change) in [
        ("429", (|s| s.rate_limit_first = 1) as Change),
        ("500", |s| s.fail_first = 2),
        ("in the head", |s| s.drop_in_head_first = 1),
        ("in the body", |s| s.truncate_first = 3),
    ] {
        for concurrency in [1, 4] {
            let (api, client) = fake(change);
            let path = format!("{ORDERS}&page=1");
            let (pages, end) = all(client.pages(&path, numbered(concurrency))).await;
            assert!(end.is_ok(), "{name}: {end:?}");
            assert_eq!(ids(&pages), (1..=120).collect::<Vec<_>>(), "{name}");
            let asked = statuses(&api);
            // Twelve pages, since they tell how many there are, and what is repeated.
            assert!((13..=15).contains(&asked.len()), "{name}: {asked:?}");
        }
    }
}

/// As servers do that do not say how long their answer is, and those that fail while they write it.
#[tokio::test(start_paused = true)]
async fn json_that_ends_too_soon_is_asked_for_again() {
    let half = r#"{"data":[1,2],"ne"#;
    for cut in [
        Answer::raw(format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{half}")).close(),
        Answer::json(200, half),
        Answer::chunked(200).chunk(half).end(),
    ] {
        let script = move |request: &Request| match request.number {
            1 => cut.clone(),
            _ => Answer::json(200, r#"{"data":[1,2],"next":null}"#),
        };
        let (upstream, client) = scripted(script, |builder| builder);
        let (pages, end) = all(client.pages("/x", PagesSettings::default())).await;
        assert_eq!((records(&pages).as_str(), end.is_ok(), upstream.arrivals()), ("1 2", true, 2));
    }
    let (upstream, client) = scripted(move |_| Answer::json(200, half), |builder| builder);
    let (_, end) = all(client.pages("/x", PagesSettings::default())).await;
    let text = "page 1: answer broken off: its JSON ends after 17 bytes: EOF while parsing a string at line 1 column 17, for \
                http://api.test/x; limit of 3 retries reached";
    let error = end.unwrap_err();
    assert_eq!((error.to_string().as_str(), upstream.arrivals()), (text, 4));
    assert!(matches!(Error::from(error), Error::Transient { status: None, .. }));
}

#[tokio::test(start_paused = true)]
async fn counted_pages_are_asked_for_together_and_never_more_than_allowed() {
    let (upstream, client) = scripted(page_of(8), |builder| builder);
    let begun = now();
    let (pages, end) = all(client.pages("/x?page=1", numbered(3))).await;
    assert!(end.is_ok());
    assert_eq!(records(&pages), (1..=8).map(|page| format!("{page} {page}")).collect::<Vec<_>>().join(" "));
    // The first one alone, then three at a time, and none beyond the last one that it tells of.
    is_within(now() - begun, ms(400), ms(410));
    let sent: Vec<_> = upstream.requests().iter().map(|one| (one.first_byte_at - begun).as_millis() / 100).collect();
    assert_eq!(sent, [0, 1, 1, 1, 2, 2, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_taken_holds_back_what_follows_and_nothing_is_asked_for_unwanted() {
    let (upstream, client) = scripted(page_of(9), |builder| builder);
    let mut pages = client.pages("/x?page=1", numbered(3));
    tokio::time::sleep(s(1)).await;
    assert_eq!(upstream.arrivals(), 0);
    for expected in [1, 4, 5] {
        pages.next().await.unwrap().unwrap();
        tokio::time::sleep(s(1)).await;
        assert_eq!(upstream.arrivals(), expected);
    }
    // It is dropped with two on their way, of which the upstream sees the end.
    drop(pages);
    tokio::time::sleep(s(1)).await;
    assert_eq!(upstream.arrivals(), 5);
    let bounded = PagesSettings { pages_max: Some(2), ..numbered(5) };
    let (pages, end) = all(client.pages("/x?page=1", bounded)).await;
    assert_eq!((pages.len(), end.is_ok(), pages[1].next.is_some(), upstream.arrivals()), (2, true, true, 7));
    // Next links are followed one by one.
    let linked = |request: &Request| {
        let page = number(request, "page");
        Answer::json(200, "[1]").header("Link", format!("</x?page={}>; rel=next", page + 1)).after(ms(100))
    };
    let (upstream, client) = scripted(linked, |builder| builder);
    let four = PagesSettings { concurrency: NonZeroUsize::new(4), ..PagesSettings::default() };
    let mut pages = client.pages("/x", four);
    for expected in 1..=3 {
        pages.next().await.unwrap().unwrap();
        assert_eq!(upstream.arrivals(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_pages_that_are_on_their_way_are_broken_off() {
    let (upstream, client) = scripted(page_of(9), |builder| builder);
    let mut pages = client.pages("/x?page=1", numbered(3));
    pages.next().await.unwrap().unwrap();
    let second = tokio::time::timeout(ms(50), pages.next()).await;
    assert!(second.is_err() && upstream.arrivals() == 4);
    // To have asked in vain loses nothing.
    assert_eq!(pages.next().await.unwrap().unwrap().number, 2);
    assert!(tokio::time::timeout(ms(50), pages.next()).await.is_ok());
    assert!(tokio::time::timeout(ms(50), pages.next()).await.is_ok());
    assert!(tokio::time::timeout(ms(50), pages.next()).await.is_err());
    let unanswered = || upstream.requests().into_iter().filter(|one| one.sent.is_empty()).count();
    assert_eq!(unanswered(), 3);
    drop(pages);
    tokio::time::sleep(s(1)).await;
    assert_eq!(unanswered(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_short_page_in_the_middle_moves_those_that_were_asked_for_behind_it() {
    // Pages of 3 out of 10 records, but the one that begins at 3 has only 2.
    let script = |request: &Request| {
        let from = match number(request, "offset") {
            1 if !request.target.contains("offset") => 0,
            from => from,
        };
        let size = if from == 3 { 2 } else { 3 };
        let rows: Vec<_> = (from..(from + size).min(10)).map(|n| n.to_string()).collect();
        Answer::json(200, format!("[{}]", rows.join(",")))
    };
    let (_, client) = scripted(script, |builder| builder);
    let offset = || Some(Paging::Offset { param: "offset".to_owned() });
    for concurrency in [1, 3] {
        let settings = PagesSettings { paging: offset(), ..numbered(concurrency) };
        let (pages, end) = all(client.pages("/x?offset=0", settings)).await;
        assert!(end.is_ok());
        assert_eq!(records(&pages), "0 1 2 3 4 5 6 7 8 9");
    }
}

#[tokio::test(start_paused = true)]
async fn a_traversal_goes_on_where_another_stood_and_still_sees_a_circle() {
    // Five pages, and then the third again.
    let script = |request: &Request| {
        let page = number(request, "page");
        let next = if page == 5 { 3 } else { page + 1 };
        Answer::json(200, format!(r#"{{"data":[{page}],"next":"/x?page={next}"}}"#))
    };
    let (upstream, client) = scripted(script, |builder| builder);
    let mut pages = client.pages("/x?page=1", PagesSettings::default());
    let mut asked = Vec::new();
    let mut stood = None;
    for _ in 0..3 {
        let page = pages.next().await.unwrap().unwrap();
        asked.extend(page.digest);
        stood = Some(Resume { page: page.number + 1, next: page.next, size: page.size, asked: asked.clone() });
    }
    drop(pages);
    let settings = PagesSettings { resume: stood.clone(), ..PagesSettings::default() };
    let (pages, end) = all(client.pages("/x?page=1", settings)).await;
    assert_eq!((records(&pages).as_str(), pages[0].number, upstream.arrivals()), ("4", 4, 5));
    let circle = "page 5 says that `/x?page=3` is next, which was asked for already: the API leads in a circle, so what comes after \
                  that page is not known";
    let end = end.unwrap_err();
    assert_eq!(end.to_string(), circle);
    // What came with it is not lost.
    let PageError::Astray { page, .. } = end else { panic!("not astray") };
    assert_eq!((records(&[*page]).as_str(), upstream.arrivals()), ("5", 5));
    let over = PagesSettings { resume: stood.map(|stood| Resume { next: None, ..stood }), ..PagesSettings::default() };
    let (pages, end) = all(client.pages("/x?page=1", over)).await;
    assert!(pages.is_empty() && end.is_ok() && upstream.arrivals() == 5);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_no_empty_page_and_what_leads_elsewhere_is_not_followed() {
    let script = |request: &Request| match &*request.target {
        "/v2/renamed" => Answer::json(200, r#"{"itemz":[1]}"#),
        "/v2/html" => Answer::status(200).body("<html>"),
        "/v2/several" => Answer::json(200, r#"{"a":[1],"b":[1]}"#),
        "/v2/gone" => Answer::status(404),
        "/v2/away" => Answer::json(200, r#"{"items":[1],"next":"https://evil.test/?token=secret"}"#),
        "/v2/up" => Answer::json(200, r#"{"items":[1],"next":"/v3/up?token=secret"}"#),
        // As it was written, whatever a proxy would make of it.
        "/v2/linked" => Answer::json(200, "[1]").header("Link", "<http://api.test/v2/last>; rel=next"),
        "/v2/last" => Answer::json(200, "[2]"),
        other => panic!("{other}"),
    };
    let (upstream, _) = scripted(script, |builder| builder);
    let around = around(crate::client::ToScript(Arc::clone(&upstream)));
    let client = ApiClient::builder("http://api.test/v2/").unwrap().surroundings(around).build().unwrap();
    let items: fn() -> PagesSettings =
        || PagesSettings { select: Some("/items".parse().unwrap()), ..PagesSettings::default() };
    for (path, settings, came, error) in [
        (
            "/renamed",
            items(),
            0,
            "page 1, from http://api.test/v2/renamed, cannot be read: there is nothing at `/items`, where the records are \
             to be; it has `itemz`",
        ),
        (
            "/html",
            PagesSettings::default(),
            0,
            "page 1, from http://api.test/v2/html, cannot be read: it is not JSON: expected value at line 1 column 1",
        ),
        (
            "/several",
            PagesSettings::default(),
            0,
            "page 1, from http://api.test/v2/several, has no list, or several that might hold the records: say where \
             they are, such as `/data/items`",
        ),
        ("/gone", PagesSettings::default(), 0, "page 1: HTTP 404 from http://api.test/v2/gone"),
        (
            "/away",
            items(),
            0,
            "page 1 says that the next page is at `evil.test`, not at `api.test`; if that is the same API, say so with \
             `--link-host evil.test`",
        ),
        (
            "/up",
            items(),
            1,
            "page 2 would be at http://api.test/v3/up?token=…, which is not beneath http://api.test/v2: begin with a \
             shorter address of the API",
        ),
        ("up", PagesSettings::default(), 0, "page 1: `up` is not a path; write for example /orders?page=1"),
    ] {
        let (pages, end) = all(client.pages(path, settings)).await;
        let end = end.unwrap_err();
        assert_eq!((pages.len(), end.to_string().as_str()), (came, error), "{path}");
        assert!(matches!(Error::from(end), Error::Permanent { message, .. } if message == error));
    }
    let (pages, end) = all(client.pages("/linked", PagesSettings::default())).await;
    assert_eq!((records(&pages).as_str(), end.is_ok()), ("1 2", true));
}

#[tokio::test(start_paused = true)]
async fn what_is_said_of_a_collection_counts_over_what_its_first_page_looks_like() {
    // It names a cursor, but the caller knows better where there is more, and of another name of the API.
    let script = |request: &Request| match &*request.target {
        "/x" => Answer::json(200, r#"{"data":[{"n":1.10}],"rows":[7],"next":"http://other.test/2","more":true}"#),
        "/2" => Answer::json(200, r#"{"data":[],"rows":[8],"next":"http://other.test/3","more":false}"#),
        other => panic!("{other}"),
    };
    let (_, client) = scripted(script, |builder| builder);
    let settings = PagesSettings {
        more: Some("/more".parse::<Pointer>().unwrap()),
        hosts: vec!["other.test".to_owned()],
        select: Some("$.rows[*]".parse().unwrap()),
        ..PagesSettings::default()
    };
    let mut pages = client.pages("/x", settings);
    let mut came = Vec::new();
    while let Some(page) = poll_fn(|cx| Pin::new(&mut pages).poll_next(cx)).await {
        came.push(page.unwrap());
    }
    assert_eq!(records(&came), "7 8");
}

fn stored(api: &Arc<FakeApi>, cache: &Arc<Cache>) -> ApiClient {
    let around = Surroundings { cache: Some(Arc::clone(cache)), ..around(ToApi(Arc::clone(api))) };
    let client = builder(ToApi(Arc::clone(api))).surroundings(around);
    client.settings(|settings| settings.cache = Some(CachePolicy::default())).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn pages_in_store_are_asked_about_and_one_that_breaks_off_is_asked_for_again() {
    // What comes in the second go is past the store.
    for (truncated, expected, stored_pages) in [(0, vec![200; 3], 3), (2, vec![200; 5], 2)] {
        let cache = Cache::open(&CacheSettings::default()).unwrap();
        let settings =
            Settings { etag: Etag::Free, truncate_first: truncated, wall_start: Some(wall()), ..Settings::default() };
        let api = FakeApi::new(settings);
        let path = "/api/v1/orders?page=1&size=40";
        let (pages, end) = all(stored(&api, &cache).pages(path, PagesSettings::default())).await;
        assert!(end.is_ok(), "{end:?}");
        assert_eq!((ids(&pages), statuses(&api)), ((1..=120).collect::<Vec<_>>(), expected.clone()));
        let (again, end) = all(stored(&api, &cache).pages(path, PagesSettings::default())).await;
        assert!(end.is_ok(), "{end:?}");
        let not_modified = statuses(&api)[expected.len()..].iter().filter(|status| **status == 304).count();
        assert_eq!((ids(&again), not_modified), (ids(&pages), stored_pages));
    }
}
