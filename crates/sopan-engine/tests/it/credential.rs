//! A credential of the program's own: the upstream sees it once, and nobody else ever.

use std::fs;

use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::Frame;
use sopan_engine::body::Source;
use sopan_engine::exchange::{Hop, Inbound};
use sopan_engine::{Credential, CredentialPlace, Interims, Settings, Target};
use sopan_fake::script::{self, Answer};

use crate::http2::streaming;
use crate::support::http2::{Asked, Http2};
use crate::support::log::Log;
use crate::support::{Bench, Got, SECOND, get, leave_after, ms, request, s};

const SECRET: &str = "s3cret-of-the-operator";

fn with(place: CredentialPlace) -> impl FnOnce(&mut Settings) {
    move |settings| settings.credential = Some(Credential::new(place, SECRET.as_bytes()).unwrap())
}

fn api_key() -> CredentialPlace {
    CredentialPlace::field(HeaderName::from_static("x-api-key"), None).unwrap()
}

fn hop() -> Hop {
    Hop { base: Some(HeaderValue::from_static("proxy.test")), ..Hop::default() }
}

/// `GET /x?a=1 | X-Api-Key: mine`
fn asking(what: &str) -> http::Request<Source> {
    let mut parts = what.split(" | ");
    let (method, target) = parts.next().unwrap().split_once(' ').unwrap();
    let mut request = request(method, target, "");
    for part in parts {
        let (name, value) = part.split_once(": ").unwrap();
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        request.headers_mut().append(name, value.parse().unwrap());
    }
    request
}

/// The target and the fields that the upstream saw, but for those which every request has.
fn seen(request: &script::Request) -> String {
    let fields = request.fields.iter().filter(|(name, _)| !["host", "via"].contains(&name.as_str()));
    fields.fold(request.target.clone(), |seen, (name, value)| format!("{seen} | {name}: {value}"))
}

fn shown(got: &Got) -> String {
    format!("{:?} {}", got.response, got.text())
}

// au-1
#[tokio::test(start_paused = true)]
async fn the_upstream_sees_it_once_and_no_other_in_its_place() {
    let bearer = CredentialPlace::bearer;
    let key = || CredentialPlace::query("key");
    for (place, prefix, asked, expected) in [
        (bearer(), "", "GET /x", "/x | authorization: Bearer SECRET"),
        (
            bearer(),
            "",
            "GET /x | Authorization: Basic bWU6bWluZQ== | Authorization: Bearer mine",
            "/x | authorization: Bearer SECRET",
        ),
        (bearer(), "", "GET /x | Connection: authorization", "/x | authorization: Bearer SECRET"),
        (bearer(), "", "GET /x | X-Api-Key: other", "/x | x-api-key: other | authorization: Bearer SECRET"),
        (api_key(), "", "GET /x | X-Api-Key: mine | X_Api_Key: mine", "/x | x-api-key: SECRET"),
        (key(), "", "GET /x", "/x?key=SECRET"),
        (key(), "/v2", "GET /x?a=%2f&key=mine&b&k%65y=mine", "/v2/x?a=%2f&b&key=SECRET"),
        (key(), "/v2", "GET /x | X-Api-Key: other", "/v2/x?key=SECRET | x-api-key: other"),
        // It would come back in the answer.
        (bearer(), "", "TRACE /x | Authorization: Bearer mine", "/x"),
    ] {
        let bench = Bench::new(
            |_| Answer::json(200, "{}"),
            |settings| {
                with(place)(settings);
                settings.target = Target::parse(&format!("http://upstream.test{prefix}")).unwrap();
            },
        );
        let got = bench.send_over(hop(), asking(asked)).await;
        let raw = bench.upstream.request(1);
        assert_eq!(seen(&raw), expected.replace("SECRET", SECRET), "{asked}");
        let head = String::from_utf8_lossy(&raw.head);
        assert!(!head.contains("mine") && !head.contains("bWU6bWluZQ"), "{head}");
        // What is told of it is what the client has sent.
        let told = bench.seen.ended().pop().unwrap().what;
        assert_eq!(told, format!("{} 200", asked.split(" | ").next().unwrap()));
        assert!(!shown(&got).contains(SECRET), "{}", shown(&got));
        bench.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_s_own_does_not_come_behind_the_body_either() {
    let bench = Bench::new(|_| Answer::json(200, "{}").read_body(), with(api_key()));
    let trailers: HeaderMap = ["x-api-key", "x-sum"]
        .into_iter()
        .map(|name| (HeaderName::from_static(name), HeaderValue::from_static("mine")))
        .collect();
    let source = streaming([Ok(Frame::data("four".into())), Ok(Frame::trailers(trailers))]);
    let request = request("POST", "/x", "").map(|_| source);
    bench.send(request).await;
    let sent = bench.upstream.request(1);
    assert_eq!(sent.trailers, [("x-sum".to_owned(), "mine".to_owned())]);
    assert_eq!(sent.fields_named("x-api-key"), [SECRET]);
}

#[tokio::test(start_paused = true)]
async fn what_the_upstream_echoes_in_links_does_not_reach_the_client() {
    let script = |request: &script::Request| {
        let target = &request.target;
        let early = format!("HTTP/1.1 103 Early Hints\r\nLink: <{target}&early>; rel=preload\r\n\r\n");
        let answer = Answer::status(if target.starts_with("/busy") { 503 } else { 201 });
        let answer = answer
            .header("Location", format!("http://upstream.test{target}&page=2"))
            .header("Content-Location", target)
            .header("Link", format!("<{target}&page=3>; rel=next, <https://cdn.test{target}>"));
        Answer::raw(early).then(answer)
    };
    for (hop, at) in [(Some(hop()), "http://proxy.test"), (None, "http://upstream.test")] {
        for path in ["/x", "/busy"] {
            let bench = Bench::new(script, |settings| {
                with(CredentialPlace::query("key"))(settings);
                settings.retry.max_retries = 1;
            });
            let interims = Interims::default();
            let inbound = Inbound {
                request: get(&format!("{path}?key=mine&a=1")),
                client: sopan_core::queue::ClientId(1),
                weight: 1,
                interims: Some(interims.clone()),
                hop: hop.clone(),
            };
            let got = bench.handed(inbound).await;
            assert_eq!(got.field("location"), Some(&*format!("{at}{path}?a=1&page=2")));
            assert_eq!(got.field("content-location"), Some(&*format!("{path}?a=1")));
            let link = format!("<{path}?a=1&page=3>; rel=next, <https://cdn.test{path}?a=1>");
            assert_eq!(got.field("link"), Some(&*link));
            let mut early = interims.take().unwrap();
            bench.engine.tell_in_between(early.headers_mut(), hop.as_ref().and_then(|hop| hop.base.as_ref()));
            assert_eq!(early.headers()["link"], format!("<{path}?a=1&early>; rel=preload"));
            assert!(bench.targets().iter().all(|target| target.ends_with(&format!("?a=1&key={SECRET}"))));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_log_and_nothing_that_is_told_has_it_whatever_goes_wrong() {
    let log = Log::keep();
    for (place, target) in [(CredentialPlace::query("key"), "/x?key=mine&a=1"), (api_key(), "/x?a=1")] {
        let script = |request: &script::Request| match request.number {
            1 => Answer::status(503),
            2 => Answer::nothing().reset(),
            3 => Answer::raw(format!("garbage {}\r\n\r\n", request.target)),
            _ => Answer::nothing().hang(),
        };
        let bench = Bench::new(script, with(place));
        let got = bench.get(target).await;
        assert_eq!(got.status(), 503);
        leave_after(SECOND, bench.get(target)).await;
        let told = format!("{} {:?} {:?} {:?}", shown(&got), got.end, bench.seen, bench.engine);
        assert!(!told.contains(SECRET), "{told}");
        let what: Vec<_> = bench.seen.ended().into_iter().map(|ended| ended.what).collect();
        assert_eq!(what, [format!("GET {target} 503"), format!("GET {target} 0")]);
        assert!(bench.upstream.arrivals() >= 4);
    }
    let told = format!("{:?}", log.entries());
    assert!(told.contains("attempt 1 failed (HTTP 503)") && !told.contains(SECRET), "{told}");
}

#[tokio::test(start_paused = true)]
async fn another_one_is_in_force_a_second_after_it_is_in_the_file_also_for_retries() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    fs::write(&path, "first\n").unwrap();
    let (log, written) = (Log::keep(), path.clone());
    let script = move |request: &script::Request| match request.number {
        // As long as the one before, and perhaps within one tick of the file system's clock.
        1 => {
            fs::write(&written, "other\n").unwrap();
            Answer::status(503).header("Retry-After", "2")
        }
        _ => Answer::json(200, "{}"),
    };
    let file = path.clone();
    let bench = Bench::new(script, |settings| {
        settings.credential = Some(Credential::from_file(CredentialPlace::bearer(), &file).unwrap());
    });
    assert_eq!(bench.get("/x").await.status(), 200);
    for gone in
        [|path: &std::path::Path| fs::write(path, "").unwrap(), |path: &std::path::Path| fs::remove_file(path).unwrap()]
    {
        gone(&path);
        tokio::time::sleep(s(5)).await;
        bench.get("/x").await;
    }
    fs::write(&path, "third").unwrap();
    tokio::time::sleep(ms(1_100)).await;
    bench.get("/x").await;
    let sent: Vec<_> =
        bench.upstream.requests().iter().map(|request| request.field("authorization").unwrap().to_owned()).collect();
    assert_eq!(sent, ["first", "other", "other", "other", "third"].map(|key| format!("Bearer {key}")));
    let of_file = |entry: &crate::support::log::Entry| entry.message.contains("credential");
    let told: Vec<_> = log.entries().into_iter().filter(of_file).map(|entry| entry.message).collect();
    let shown = path.display();
    assert_eq!(
        told,
        [
            format!("the credential for default is a new one, from {shown}"),
            format!(
                "the credential for default stays the one that was read before, since {shown} holds none: it is empty"
            ),
            format!("the credential for default is a new one, from {shown}"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn over_http_2_it_is_the_same() {
    for (place, uri, field) in [
        (CredentialPlace::bearer(), "https://upstream.test/v2/x", Some(format!("Bearer {SECRET}"))),
        (CredentialPlace::query("key"), "https://upstream.test/v2/x?key=s3cret-of-the-operator", None),
    ] {
        let upstream = Http2::new(Asked::fine);
        let bench = Bench::shared(&upstream, with(place));
        for _ in 0..2 {
            assert_eq!(bench.send(asking("GET /x?key=mine | Authorization: mine")).await.status(), 200);
        }
        for arrived in upstream.arrived() {
            let field = field.as_deref().unwrap_or("mine");
            let uri = if field == "mine" { uri.to_owned() } else { format!("{uri}?key=mine") };
            assert_eq!((arrived.uri, arrived.fields["authorization"].to_str().unwrap()), (uri, field));
        }
    }
}
