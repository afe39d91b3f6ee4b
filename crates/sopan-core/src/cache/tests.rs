//! How the tables of the cache are written: requests, answers and what becomes of them, each as one line.
//!
//! A request is `GET | range: bytes=0-1`, with the name of its owner after the method (`GET ann`) if it has one, and `+body`
//! if it has a body. An answer is `200 | etag: "a" | age: 5`; `{-60}` stands for the date a minute before noon. Seconds
//! count from noon. The target is always `/it`, and the host `a.test` if `host` does not say so.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

use super::conditional::Conditions;
use super::*;
use crate::policy::CachePolicy;

const NOON: u64 = 1_792_584_000;

/// Seconds after noon; before it, if negative.
pub(super) fn at(seconds: f64) -> SystemTime {
    let noon = UNIX_EPOCH + Duration::from_secs(NOON);
    let span = Duration::from_secs_f64(seconds.abs());
    if seconds < 0.0 { noon - span } else { noon + span }
}

/// One that was read from a line.
#[derive(Clone, Debug)]
pub(super) struct Request {
    method: Method,
    host: Vec<u8>,
    headers: HeaderMap,
    owner: Option<Owner>,
    has_body: bool,
}

pub(super) fn request(line: &str) -> Request {
    let (head, fields) = line.split_once('|').unwrap_or((line, ""));
    let mut words = head.split_whitespace();
    let method = words.next().and_then(|word| Method::from_bytes(word.as_bytes()).ok()).expect("a method");
    let mut headers = fields_of(fields);
    let host = headers.remove("host").map_or(b"a.test".to_vec(), |host| host.as_bytes().to_vec());
    let mut request = Request { method, host, headers, owner: None, has_body: false };
    for word in words {
        match word {
            "+body" => request.has_body = true,
            name => request.owner = Some(Owner([name.as_bytes()[0]; 16])),
        }
    }
    request
}

impl Request {
    pub(super) fn asked<'a>(&'a self, policy: &CachePolicy) -> Asked<'a> {
        let asked = Asked::new(policy, &self.method, "/it", &self.host, &self.headers);
        Asked { owner: self.owner, has_body: self.has_body, ..asked }
    }
}

/// Likewise.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
}

pub(super) fn answer(line: &str) -> Answer {
    let (status, fields) = line.split_once('|').unwrap_or((line, ""));
    Answer { status: status.trim().parse().expect("a status"), headers: fields_of(fields) }
}

impl Answer {
    pub(super) fn received(&self, seconds: f64) -> Received<'_> {
        let times = Times { requested: at(seconds), received: at(seconds) };
        Received { status: self.status, headers: &self.headers, times }
    }
}

fn fields_of(text: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in text.split('|').filter(|line| !line.trim().is_empty()) {
        let (name, value) = line.split_once(':').expect("a name and a value");
        let name: HeaderName = name.trim().parse().expect("a name");
        headers.append(name, HeaderValue::from_bytes(dated(value.trim()).as_bytes()).expect("a value"));
    }
    headers
}

/// With dates for `{seconds}`.
fn dated(value: &str) -> String {
    let Some((before, rest)) = value.split_once('{') else { return value.to_owned() };
    let (seconds, after) = rest.split_once('}').expect("an end");
    format!("{before}{}{after}", date(seconds.parse().expect("seconds")))
}

pub(super) fn date(seconds: i64) -> String {
    let time = Timestamp::from_second(i64::try_from(NOON).expect("soon") + seconds).expect("a time");
    DateTimePrinter::new().timestamp_to_rfc9110_string(&time).expect("a year of four digits")
}

/// What an answer is stored as that came at noon and some seconds.
#[track_caller]
pub(super) fn stored(policy: &CachePolicy, seconds: f64, asked: &str, line: &str) -> Stored {
    let (request, answer) = (request(asked), answer(line));
    Stored::of(policy, &request.asked(policy), answer.received(seconds)).unwrap_or_else(|why| panic!("{line}: {why:?}"))
}

/// `#0 whole, age 10, ttl 50`
pub(super) fn tell_reuse(reuse: &Reuse) -> String {
    let shape = match &reuse.shape {
        Shape::Whole => "whole".to_owned(),
        Shape::Head => "head".to_owned(),
        Shape::NotModified => "304".to_owned(),
        Shape::Part(span) => format!("bytes {}-{}", span.first, span.last),
        Shape::Parts(spans) => {
            let spans: Vec<_> = spans.iter().map(|span| format!("{}-{}", span.first, span.last)).collect();
            format!("parts {}", spans.join("+"))
        }
        Shape::Unsatisfiable => "416".to_owned(),
    };
    let stale = reuse.stale.map_or(String::new(), |detail| format!(", {detail:?}"));
    let asks = reuse.revalidate.as_ref().map_or(String::new(), |with| format!(", asks{}", tell_conditions(with)));
    format!("#{} {shape}, age {}, ttl {}{stale}{asks}", reuse.index, reuse.age, reuse.ttl)
}

fn tell_conditions(conditions: &Conditions) -> String {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let tags = conditions.none_match.as_ref().map_or(String::new(), |tags| format!(" {}", text(tags)));
    let date = conditions.modified_since.as_ref().map_or(String::new(), |_| " date".to_owned());
    format!("{tags}{date}")
}

/// `send UriMiss`, `send Stale, asks #0 "a" date, or #0, alone, unstored`
pub(super) fn tell_lookup(found: &Lookup) -> String {
    let sent = match found {
        Lookup::Reuse(reuse) => return tell_reuse(reuse),
        Lookup::Unsatisfied => return "504".to_owned(),
        Lookup::Send(sent) => sent,
    };
    let mut told = format!("send {:?}", sent.forward);
    if let Some(Ask { index, conditions, missing }) = sent.ask.as_deref() {
        let missing = missing.map_or(String::new(), |span| format!(" bytes {}-{}", span.first, span.last));
        told += &format!(", asks #{index}{}{missing}", tell_conditions(conditions));
    }
    told += &sent.fallback.map_or(String::new(), |index| format!(", or #{index}"));
    told += if sent.is_sharable { "" } else { ", alone" };
    told += if sent.may_store { "" } else { ", unstored" };
    told
}

/// `store`, `store for #0`, `freshen #0: #0 whole, age 0, ttl 60`, `freshen #0, pass on`, `forget #0`, `pass on, NoStore`
pub(super) fn tell_after(after: &After) -> String {
    let places = |places: &[usize]| places.iter().map(|at| format!(" #{at}")).collect::<String>();
    match after {
        After::PassOn(why) => format!("pass on, {why:?}"),
        After::Store { replaces, .. } if replaces.is_empty() => "store".to_owned(),
        After::Store { replaces, .. } => format!("store for{}", places(replaces)),
        After::Freshen { index, reuse: Some(reuse), .. } => format!("freshen #{index}: {}", tell_reuse(reuse)),
        After::Freshen { index, reuse: None, .. } => format!("freshen #{index}, pass on"),
        After::Join { index, stored, reuse } => {
            let extent = match stored.extent {
                Extent::Whole(length) => format!("whole of {length:?}"),
                Extent::Part(part) => format!("{}-{}", part.span.first, part.span.last),
            };
            format!("join #{index} to {extent}: {}", tell_reuse(reuse))
        }
        After::AskAgain { forget: Some(index) } => format!("ask again, forget #{index}"),
        After::AskAgain { forget: None } => "ask again".to_owned(),
        After::Stale(reuse) => tell_reuse(reuse),
        After::Forget(obsolete) => format!("forget{}", places(obsolete)),
    }
}

/// One client after another, an upstream that answers each, and a store that does what it is told.
#[derive(Debug, Default)]
pub(super) struct Story {
    policy: CachePolicy,
    store: Vec<Stored>,
}

impl Story {
    pub(super) fn of(policy: CachePolicy) -> Self {
        Self { policy, store: Vec::new() }
    }

    /// What becomes of a request at some seconds after noon, and of what the upstream answers if it is asked; `none` if it
    /// does not answer.
    #[track_caller]
    pub(super) fn tell(&mut self, seconds: f64, asked: &str, answered: &str, expected: &str) -> &mut Self {
        let request = request(asked);
        let told = self.step(seconds, &request, answered);
        assert_eq!(told, expected, "{asked} at {seconds}");
        self
    }

    fn step(&mut self, seconds: f64, request: &Request, answered: &str) -> String {
        let asked = request.asked(&self.policy);
        let stored: Vec<_> = self.store.iter().collect();
        let found = lookup(&self.policy, &asked, &stored, at(seconds));
        let Lookup::Send(sent) = &found else { return tell_lookup(&found) };
        if answered == "none" {
            let reuse = after_failure(&self.policy, &asked, sent, &stored, Failure::Disconnected, at(seconds));
            return reuse.as_ref().map_or("nothing".to_owned(), tell_reuse);
        }
        let answer = answer(answered);
        let after = after_response(&self.policy, &asked, sent, &stored, answer.received(seconds));
        let told = format!("{} → {}", tell_lookup(&found), tell_after(&after));
        self.obey(after);
        told
    }

    fn obey(&mut self, after: After) {
        let mut gone = Vec::new();
        match after {
            After::PassOn(_) | After::Stale(_) => {}
            After::Store { stored, replaces } => {
                self.store.push(*stored);
                gone = replaces;
            }
            After::Freshen { index, stored, .. } | After::Join { index, stored, .. } => self.store[index] = *stored,
            After::AskAgain { forget } => gone.extend(forget),
            After::Forget(obsolete) => gone = obsolete,
        }
        let mut at = 0..;
        self.store.retain(|_| !gone.contains(&at.next().expect("as many as there are")));
    }
}

#[test]
fn an_answer_is_used_while_it_is_fresh_and_asked_about_when_it_is_not() {
    Story::of(CachePolicy::default())
        .tell(0.0, "GET", r#"200 | cache-control: max-age=10 | etag: "a""#, "send UriMiss → store")
        .tell(9.0, "GET", "", "#0 whole, age 9, ttl 1")
        .tell(
            12.0,
            "GET",
            r#"304 | cache-control: max-age=30 | etag: "a""#,
            r#"send Stale, asks #0 "a", or #0 → freshen #0: #0 whole, age 0, ttl 30"#,
        )
        .tell(22.0, "GET", "", "#0 whole, age 10, ttl 20")
        .tell(50.0, "GET", r#"200 | etag: "b""#, r#"send Stale, asks #0 "a", or #0 → store for #0"#);
}

#[test]
fn each_variant_has_a_place_of_its_own() {
    let fresh = "200 | cache-control: max-age=60 | vary: accept-language";
    Story::of(CachePolicy::default())
        .tell(0.0, "GET | accept-language: en", fresh, "send UriMiss → store")
        .tell(1.0, "GET | accept-language: de", fresh, "send VaryMiss → store")
        .tell(2.0, "GET | accept-language: en", "", "#0 whole, age 2, ttl 58")
        .tell(3.0, "GET | accept-language: de", "", "#1 whole, age 2, ttl 58")
        .tell(4.0, "GET", fresh, "send VaryMiss → store");
}

#[test]
fn a_failure_does_not_replace_what_was_good() {
    Story::of(CachePolicy::default())
        .tell(0.0, "GET", "500", "send UriMiss → pass on, NoLifetime")
        .tell(1.0, "GET", r#"200 | cache-control: max-age=1 | etag: "a""#, "send UriMiss → store")
        .tell(4.0, "GET", "503 | cache-control: max-age=60", r#"send Stale, asks #0 "a", or #0 → pass on, Status"#)
        .tell(5.0, "GET", "429", r#"send Stale, asks #0 "a", or #0 → pass on, Status"#)
        .tell(6.0, "GET", "none", "#0 whole, age 5, ttl -4, StaleDisconnected")
        .tell(7.0, "GET", "304", r#"send Stale, asks #0 "a", or #0 → freshen #0: #0 whole, age 0, ttl 1"#);
}

#[test]
fn ranges_in_a_row_become_one_answer() {
    let part =
        |range: &str| format!(r#"206 | content-range: bytes {range}/10 | etag: "a" | cache-control: max-age=60"#);
    Story::of(CachePolicy::default())
        .tell(0.0, "GET | range: bytes=0-3", &part("0-3"), "send UriMiss, alone → store")
        .tell(1.0, "GET | range: bytes=1-2", "", "#0 bytes 1-2, age 1, ttl 59")
        .tell(
            2.0,
            "GET | range: bytes=2-5",
            &part("4-5"),
            "send Partial, asks #0 bytes 4-5, alone → join #0 to 0-5: #0 bytes 2-5, age 0, ttl 60",
        )
        .tell(
            3.0,
            "GET",
            &part("6-9"),
            "send Partial, asks #0 bytes 6-9 → join #0 to whole of Some(10): #0 whole, age 0, ttl 60",
        )
        .tell(4.0, "GET | range: bytes=-4", "", "#0 bytes 6-9, age 1, ttl 59")
        .tell(5.0, "HEAD", "", "#0 head, age 2, ttl 58");
}

#[test]
fn what_says_nothing_of_itself_is_for_who_wants_the_same_form() {
    let policy = CachePolicy { default_ttl: Some(Duration::from_secs(60)), ..CachePolicy::default() };
    Story::of(policy.clone())
        .tell(0.0, "GET | accept: text/csv", "200", "send UriMiss → store")
        .tell(1.0, "GET | accept: application/json", "200", "send VaryMiss → store")
        .tell(2.0, "GET | accept: text/csv", "", "#0 whole, age 2, ttl 58")
        .tell(3.0, "GET | accept: text/csv | accept-language: de", "200", "send VaryMiss → store");
    let said = "200 | cache-control: max-age=60";
    Story::of(policy).tell(0.0, "GET | accept: text/csv", said, "send UriMiss → store").tell(
        1.0,
        "GET | accept: application/json",
        "",
        "#0 whole, age 1, ttl 59",
    );
}

#[test]
fn what_is_for_one_client_is_for_nobody_else() {
    let fresh = "200 | cache-control: max-age=60";
    Story::of(CachePolicy::default())
        .tell(0.0, "GET ann | authorization: a", fresh, "send UriMiss → store")
        .tell(1.0, "GET ann | authorization: a", "", "#0 whole, age 1, ttl 59")
        .tell(2.0, "GET bob | authorization: b", fresh, "send UriMiss → store")
        .tell(3.0, "GET", fresh, "send UriMiss → store")
        .tell(4.0, "GET", "", "#2 whole, age 1, ttl 59")
        .tell(5.0, "GET ann | authorization: a", "", "#0 whole, age 5, ttl 55")
        .tell(6.0, "GET cat | authorization: c", "", "#2 whole, age 3, ttl 57");
}

#[test]
fn no_secret_of_a_request_is_kept_and_none_is_shown() {
    let policy = CachePolicy { store_set_cookie: true, ..CachePolicy::default() };
    let asked = "GET ann | authorization: Bearer HERS | cookie: id=HERS | x-api-key: HERS | accept: text/html";
    let line =
        "200 | cache-control: public, max-age=60 | vary: accept, authorization, cookie, x-api-key | set-cookie: THEIRS";
    let kept = stored(&policy, 0.0, asked, line);
    let others = asked.replace("GET ann", "GET bob").replace("Bearer HERS", "Bearer HIS");
    for (asked, expected) in [(asked, true), (&others, false)] {
        let request = request(asked);
        let looked = lookup(&policy, &request.asked(&policy), &[&kept], at(1.0));
        assert_eq!(matches!(looked, Lookup::Reuse(_)), expected, "{asked}");
    }
    let record = kept.encode();
    assert!(!String::from_utf8_lossy(&record).contains("HERS"), "{record:?}");
    let (request, answer) = (request(asked), answer(line));
    for shown in [
        format!("{:?}", request.asked(&policy)),
        format!("{:?}", answer.received(0.0)),
        format!("{:?}", after_response(&policy, &request.asked(&policy), &sent(), &[], answer.received(0.0))),
        format!("{kept:?}"),
    ] {
        assert!(!["HERS", "THEIRS"].iter().any(|secret| shown.contains(secret)) && shown.contains('…'), "{shown}");
    }
}

fn sent() -> Send {
    Send { forward: status::Forward::UriMiss, ask: None, fallback: None, is_sharable: true, may_store: true }
}

#[test]
fn what_a_304_no_longer_says_to_be_for_all_is_for_whom_it_told_that() {
    let fresh = "200 | cache-control: max-age=60";
    for (first, said, second, says) in [
        ("GET ann | authorization: a", "public, max-age=1", "GET bob | authorization: b", "max-age=60"),
        ("GET ann | cookie: a", "s-maxage=1", "GET bob | cookie: b", "max-age=60, must-revalidate"),
        ("GET", "max-age=1", "GET bob | cookie: b", "max-age=60"),
    ] {
        let answered = format!(r#"200 | cache-control: {said} | etag: "a""#);
        let mut story = Story::of(CachePolicy::default());
        story.tell(0.0, first, &answered, "send UriMiss → store");
        let told = story.step(2.0, &request(second), &format!("304 | cache-control: {says} | x-account: bob"));
        assert!(told.ends_with("→ freshen #0: #0 whole, age 0, ttl 60"), "{told}");
        story
            .tell(3.0, second, "", "#0 whole, age 1, ttl 59")
            .tell(4.0, "GET cat | cookie: c", fresh, "send UriMiss → store")
            .tell(5.0, "GET", fresh, "send UriMiss → store");
    }
    Story::of(CachePolicy::default())
        .tell(0.0, "GET ann", r#"200 | cache-control: public, max-age=1 | etag: "a""#, "send UriMiss → store")
        .tell(2.0, "GET bob", "304", r#"send Stale, asks #0 "a", or #0 → freshen #0: #0 whole, age 0, ttl 1"#)
        .tell(2.0, "GET", "", "#0 whole, age 0, ttl 1");
}
