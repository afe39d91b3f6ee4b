//! The router as it is asked, its file held against it, and who keeps whom out.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};
use sopan_engine::{CacheSettings, Settings, Surroundings, Target};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::oneshot;

use super::*;

/// Two upstreams, `shop` below a path and with a cache, `mail` for the rest, without a breaker and only observed.
fn scene(token: Option<&str>) -> Arc<Scene> {
    let clock = Clock::system();
    let cache = Cache::open(&CacheSettings { memory_bytes: 1 << 20, disk: None }).unwrap();
    let metrics = Metrics::new(["shop", "mail"].map(str::to_owned), None);
    let recent = Arc::<Recent>::default();
    let routes = [Route::Path("/shop".to_owned()), Route::Any];
    let upstreams = ["shop", "mail"].iter().zip(&routes).enumerate().map(|(number, (name, route))| {
        let is_shop = *name == "shop";
        let mut settings = Settings::new(Target::parse("http://127.0.0.1:1/v2").unwrap());
        settings.name = (*name).to_owned();
        settings.lane.limits = vec!["10/s burst 20".parse().unwrap(), "5000 per 1h".parse().unwrap()];
        settings.observe = !is_shop;
        settings.cache = is_shop.then(Default::default);
        let limits = settings.lane.limits.clone();
        let observer = recent.beside(metrics.observer(number), Some(number));
        let around = Surroundings { clock, observer, cache: Some(Arc::clone(&cache)), ..Surroundings::default() };
        let (upstream, _) = Upstream::start(settings, around).unwrap();
        Behind { upstream, route: route.clone(), limits, has_cache: is_shop }
    });
    Arc::new(Scene {
        gate: Gate::new(&[], token.map(|token| Token::of(token.as_bytes()).unwrap())),
        upstreams: upstreams.collect(),
        metrics,
        recent,
        clients: Arc::default(),
        routes: Routes::new(&routes),
        cache: Some(cache),
        shared: None,
        places: Arc::new(Semaphore::new(7)),
        max_connections: 10,
        drain: Arc::default(),
        settings: json!({"file": null, "settings": {}, "upstreams": {}, "clients": {}}),
        clock,
        began: clock.now(),
        started: SystemTime::UNIX_EPOCH,
    })
}

/// Serves until the test ends.
async fn serving(scene: Arc<Scene>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, scene, std::future::pending()));
    address
}

/// Everything that comes for one request.
async fn ask(address: SocketAddr, request: &str, lines: &[&str], body: &str) -> (String, String) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let host = if lines.to_ascii_lowercase().contains("host: ") { "" } else { "Host: localhost\r\n" };
    let text = format!("{request} HTTP/1.1\r\n{host}{lines}Content-Length: {}\r\n\r\n{body}", body.len());
    socket.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_ascii_lowercase(), body.to_owned())
}

async fn get(address: SocketAddr, path: &str) -> (String, String) {
    ask(address, &format!("GET {path}"), &[], "").await
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn every_request_is_answered_as_it_should_be() {
    let address = serving(scene(None)).await;
    let json = &["Content-Type: application/json"][..];
    let long = format!("{{\"url\": \"/{}\"}}", "x".repeat(20_000));
    for (request, lines, body, expected, says) in [
        ("GET /healthz", &[][..], "", 200, "ok\n"),
        ("GET /readyz", &[], "", 200, "ready\n"),
        ("GET /settings", &[], "", 200, "\"settings\""),
        ("GET /openapi.json", &[], "", 200, "\"openapi\""),
        ("GET /state", &[], "", 200, "\"upstreams\""),
        ("GET /", &[], "", 200, "<!doctype html>"),
        ("GET /dashboard/main.js", &[], "", 200, "import "),
        ("GET /dashboard/vendor/README.md", &[], "", 404, "urn:sopan:not-found"),
        ("POST /", json, "", 405, ""),
        ("GET /events/", &[], "", 404, "urn:sopan:not-found"),
        ("GET /statE", &[], "", 404, "/openapi.json"),
        ("POST /state", json, "", 405, "urn:sopan:method-not-allowed"),
        ("GET /drain", &[], "", 405, "Allow"),
        ("DELETE /cache/purge", json, "", 405, ""),
        // Who may ask is the gate's business; that it is asked is shown here.
        ("GET /state", &["Host: evil.test"], "", 421, "urn:sopan:misdirected"),
        ("GET /metrics", &["Origin: http://evil.test"], "", 403, "urn:sopan:cross-site"),
        ("POST /upstreams/shop/release", &[], "", 403, "urn:sopan:formlike"),
        ("POST /upstreams/shop/release", &["Content-Type: text/plain"], "{}", 403, "X-Sopan"),
        ("POST /nowhere", json, "", 404, ""),
        ("POST /upstreams/shop/release", &["X-Sopan: 1"], "", 200, "{\"released\":false}"),
        ("POST /upstreams/none/release", json, "", 404, "there is shop, mail"),
        ("POST /upstreams/mail/release", json, "", 409, "urn:sopan:only-observed"),
        ("POST /upstreams/shop/hold", json, "{\"for\": \"20ms\"}", 200, "{\"held_s\":0.0"),
        ("POST /upstreams/shop/hold", json, "{\"for\": 0.01}", 200, "{\"held_s\":0.0"),
        ("POST /upstreams/shop/hold", json, "{\"for\": \"0s\"}", 400, "is zero"),
        ("POST /upstreams/shop/hold", json, "{\"for\": -1}", 400, "`for`: "),
        ("POST /upstreams/shop/hold", json, "{\"for\": 1e300}", 400, "`for`: "),
        ("POST /upstreams/shop/hold", json, "{\"for\": \"soon\"}", 400, "`for`: "),
        ("POST /upstreams/shop/hold", json, "{\"fro\": \"1s\"}", 400, "unknown field `fro`"),
        ("POST /upstreams/shop/hold", json, "{}", 400, "missing field `for`"),
        ("POST /upstreams/shop/hold", json, "", 400, "is not what is expected"),
        ("POST /upstreams/mail/hold", json, "{\"for\": 1}", 409, "`mail`: it is only observed"),
        (
            "POST /upstreams/shop/breaker",
            json,
            "{\"state\": \"open\", \"for\": \"1m\"}",
            200,
            "\"half_open_in_s\":60.0",
        ),
        ("POST /upstreams/shop/breaker", json, "{\"state\": \"open\"}", 200, "\"half_open_in_s\":10.0"),
        ("POST /upstreams/shop/breaker", json, "{\"state\": \"closed\", \"for\": 1}", 400, "take `for` away"),
        (
            "POST /upstreams/shop/breaker",
            json,
            "{\"state\": \"closed\"}",
            200,
            "{\"half_open_in_s\":null,\"state\":\"closed\"}",
        ),
        ("POST /upstreams/shop/breaker", json, "{\"state\": \"ajar\"}", 400, "`ajar`"),
        ("POST /cache/purge", json, "{\"all\": true}", 200, "{\"purged\":{\"disk\":0,\"memory\":0}}"),
        ("POST /cache/purge", json, "{\"all\": true, \"upstream\": \"shop\"}", 200, "\"memory\":0"),
        ("POST /cache/purge", json, "{\"all\": false}", 400, "say one of"),
        ("POST /cache/purge", json, "{}", 400, "say one of"),
        ("POST /cache/purge", json, "{\"url\": \"/shop\", \"all\": true}", 400, "say one of"),
        ("POST /cache/purge", json, "{\"url\": \"/shop/orders?page=1\"}", 200, "\"memory\":0"),
        ("POST /cache/purge", json, "{\"url\": \"http://localhost:8000/shop\"}", 200, "\"memory\":0"),
        ("POST /cache/purge", json, "{\"url\": \"shop orders\"}", 400, "no URL and no path"),
        ("POST /cache/purge", json, "{\"url\": \"localhost\"}", 400, "it has no path"),
        ("POST /cache/purge", json, "{\"url\": \"/x\", \"upstream\": \"none\"}", 404, "urn:sopan:no-such-upstream"),
        ("POST /cache/purge", json, "{\"prefix\": \"/shop\"}", 200, "\"memory\":0"),
        ("POST /cache/purge", json, "{\"prefix\": \"/shop?x\"}", 400, "has no query"),
        ("POST /cache/purge", json, &long, 413, "longer than 16384 bytes"),
        ("POST /drain", json, "", 202, "{\"draining\":true}"),
    ] {
        let (head, answer) = ask(address, request, lines, body).await;
        assert_eq!(status(&head), expected, "{request} {lines:?} {body}: {answer}");
        assert!(answer.contains(says), "{request} {lines:?} {body}: {answer}");
        // Whatever it is: not to be kept, not to be guessed at, not to be framed, and not shared.
        for field in
            ["cache-control: no-store", "x-content-type-options: nosniff", "content-security-policy: default-src"]
        {
            assert!(head.contains(field), "{request}: {field} is missing in {head}");
        }
        assert!(!head.contains("access-control-"), "{request}: {head}");
        if expected >= 400 {
            assert!(head.contains("content-type: application/problem+json"), "{request}: {head}");
            let problem: Json = serde_json::from_str(&answer).unwrap();
            assert_eq!(problem["status"], expected, "{request}");
        }
    }
}

#[tokio::test]
async fn a_secret_is_asked_for_where_there_is_one() {
    let address = serving(scene(Some("correct-horse-battery"))).await;
    let said = ["Host: sopan.svc:8001", "Authorization: Bearer correct-horse-battery"];
    assert_eq!(status(&ask(address, "GET /state", &said, "").await.0), 200);
    assert_eq!(status(&get(address, "/readyz").await.0), 200);
    let (head, body) = get(address, "/state").await;
    assert_eq!(status(&head), 401);
    assert!(
        head.contains("www-authenticate: bearer realm=") && head.contains("www-authenticate: basic realm="),
        "{head}"
    );
    assert!(body.contains("SOPAN_ADMIN_TOKEN") && !body.contains("correct"), "{body}");
    // The page asks for it by itself, and the browser is not to ask before.
    let (head, _) = ask(address, "GET /events", &["Sec-Fetch-Dest: empty"], "").await;
    assert!(head.contains("www-authenticate: bearer") && !head.contains("basic"), "{head}");
    let (head, _) = get(address, "/").await;
    assert_eq!(status(&head), 200);
    let policy = head.lines().filter(|line| line.starts_with("content-security-policy: ")).collect::<Vec<_>>();
    let expected = "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                    img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'none'";
    assert_eq!(policy, [expected]);
}

/// What a schema describes of a value; nothing if all of it.
fn undescribed(api: &Json, schema: &Json, value: &Json, path: &str, missing: &mut Vec<String>) {
    let schema = match schema["$ref"].as_str() {
        Some(reference) => &api["components"]["schemas"][reference.rsplit('/').next().unwrap()],
        None => schema,
    };
    let kind = match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(number) if number.is_f64() => "number",
        Json::Number(_) => "integer",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    };
    let allows = |kinds: &Json| {
        let is = |word: &Json| word == kind || word == "number" && kind == "integer";
        kinds.as_array().map_or_else(|| is(kinds), |kinds| kinds.iter().any(is))
    };
    if !allows(&schema["type"]) {
        missing.push(format!("{path}: {kind}"));
    }
    if let Json::Object(fields) = value {
        let known = schema["properties"].as_object();
        for (name, value) in fields {
            match known.and_then(|known| known.get(name)) {
                Some(described) => undescribed(api, described, value, &format!("{path}.{name}"), missing),
                None if schema["additionalProperties"].is_object() => {
                    undescribed(api, &schema["additionalProperties"], value, &format!("{path}.{name}"), missing);
                }
                None => missing.push(format!("{path}.{name}")),
            }
        }
        let names: BTreeSet<_> = fields.keys().map(String::as_str).collect();
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str);
        missing.extend(required.filter(|name| !names.contains(name)).map(|name| format!("{path}.{name} is not there")));
    }
    for value in value.as_array().into_iter().flatten() {
        undescribed(api, &schema["items"], value, &format!("{path}[]"), missing);
    }
}

#[tokio::test]
async fn the_file_describes_all_that_there_is() {
    let scene = scene(None);
    let address = serving(Arc::clone(&scene)).await;
    let api: Json = serde_json::from_str(api::OPENAPI).unwrap();
    let paths = api["paths"].as_object().unwrap();
    let routes: BTreeSet<_> = api::routes().into_iter().map(|(path, _)| path.to_owned()).collect();
    assert_eq!(paths.keys().cloned().collect::<BTreeSet<_>>(), routes);
    for (path, methods) in paths {
        // Asked in a way that nobody asks, each says how it is asked.
        let (head, _) = ask(address, &format!("PATCH {}", path.replace("{name}", "shop")), &["X-Sopan: 1"], "").await;
        let allow =
            head.lines().find_map(|line| line.strip_prefix("allow: ")).unwrap_or_else(|| panic!("{path}: {head}"));
        let allowed: BTreeSet<_> = allow.split(',').filter(|method| *method != "head").collect();
        assert_eq!(allowed, methods.as_object().unwrap().keys().map(String::as_str).collect(), "{path}");
    }
    // A reader gets what was, and then what is.
    let mut events = Events::read(address).await;
    let (name, _, history) = events.next().await;
    let mut missing = Vec::new();
    undescribed(&api, &api["components"]["schemas"]["History"], &history, "history", &mut missing);
    assert_eq!((&*name, missing), ("history", Vec::new()));
    // The sample has everything in it, and what is told has nothing else.
    let sample = serde_json::from_str(include_str!("state/sample.json")).unwrap();
    let (_, told) = get(address, "/state").await;
    for state in [sample, serde_json::from_str(&told).unwrap()] {
        let mut missing = Vec::new();
        undescribed(&api, &api["components"]["schemas"]["State"], &state, "state", &mut missing);
        assert_eq!(missing, [""; 0]);
    }
}

#[tokio::test]
async fn the_state_is_what_lanes_and_counters_say() {
    let scene = scene(None);
    let shop = &scene.upstreams[0].upstream;
    shop.hold(Duration::from_secs(60)).unwrap();
    shop.open_breaker(None).unwrap();
    let state = scene.state();
    assert_eq!((state.connections.open, state.connections.max, state.draining), (3, 10, false));
    let [shop, mail] = &state.upstreams[..] else { panic!("{state:?}") };
    assert_eq!((&*shop.name, &*shop.url, &*shop.route), ("shop", "http://127.0.0.1:1/v2", "/shop"));
    let hold = shop.hold.unwrap();
    assert!(hold.by == state::HeldBy::Operator && (59.0..=60.0).contains(&hold.ends_in_s), "{hold:?}");
    assert!(shop.queue.wait_s >= 59.0, "{:?}", shop.queue);
    assert_eq!(shop.breaker.state, state::BreakerState::Open);
    assert!((9.0..=10.0).contains(&shop.breaker.half_open_in_s.unwrap()));
    // The slower of 10/s and 5000 per 1h, and nothing in a hold.
    assert!((shop.sustained_per_s.unwrap() - 5000.0 / 3600.0).abs() < 1e-9);
    assert_eq!((shop.allowed_per_s, mail.allowed_per_s), (Some(0.0), Some(10.0)));
    let kinds: Vec<_> = shop.limits.iter().map(|limit| (&*limit.limit, limit.window_s, limit.capacity)).collect();
    assert_eq!(kinds, [("10/s burst 20", None, 19.0), ("5000 per 1h", Some(3600.0), 5000.0)]);
    assert!(shop.cache.is_some() && mail.cache.is_none() && mail.observe && mail.hold.is_none());
    assert_eq!((shop.retry_budget.left, shop.exchanges["2xx"], shop.refusals.len()), (Some(100), 0, 0));
}

#[tokio::test]
async fn it_says_that_it_runs_and_what_it_does_until_it_is_stopped() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(serve(listener, scene(None), async { drop(stopped.await) }));
    let (head, metrics) = get(address, "/metrics").await;
    assert!(head.contains(&format!("\r\ncontent-type: {}\r\n", api::OPEN_METRICS)), "{head}");
    assert!(metrics.ends_with("# EOF\n"));
    // Those that are open meanwhile are closed with the rest.
    let mut idle = TcpStream::connect(address).await.unwrap();
    let mut events = Events::read(address).await;
    events.next().await;
    stop.send(()).unwrap();
    serving.await.unwrap();
    assert_eq!(idle.read(&mut [0]).await.unwrap_or(0), 0);
    events.ends().await;
    TcpStream::connect(address).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn nobody_keeps_others_out() {
    let address = serving(scene(None)).await;
    let mut silent = Vec::new();
    for _ in 0..CONNECTIONS_MAX + READERS_MAX {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    assert!(get(address, "/healthz").await.1.ends_with("ok\n"));
}

/// What one reader is told.
struct Events {
    socket: BufReader<TcpStream>,
}

impl Events {
    async fn read(address: SocketAddr) -> Self {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(b"GET /events HTTP/1.0\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut events = Self { socket: BufReader::new(socket) };
        let head = events.paragraph().await;
        assert!(head.starts_with("HTTP/1.0 200 ") && head.contains("\ncontent-type: text/event-stream\n"), "{head}");
        events
    }

    /// Up to an empty line.
    async fn paragraph(&mut self) -> String {
        let mut text = String::new();
        while !text.ends_with("\n\n") && self.socket.read_line(&mut text).await.unwrap() > 0 {
            text = text.replace("\r\n", "\n");
        }
        text
    }

    /// Its name, its number and what it says.
    async fn next(&mut self) -> (String, Option<u64>, Json) {
        let event = self.paragraph().await;
        let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        let data = serde_json::from_str(&field("data: ").unwrap_or_else(|| panic!("{event:?}"))).unwrap();
        (field("event: ").unwrap(), field("id: ").map(|id| id.parse().unwrap()), data)
    }

    /// Waits for its end.
    async fn ends(&mut self) {
        while self.socket.read(&mut [0; 65536]).await.is_ok_and(|count| count > 0) {}
    }
}

#[tokio::test]
async fn all_readers_are_told_the_same_twice_a_second_and_only_so_many_may_read() {
    let scene = scene(None);
    let address = serving(Arc::clone(&scene)).await;
    let mut all = Vec::new();
    for _ in 0..READERS_MAX {
        all.push(Events::read(address).await);
    }
    let (head, problem) = get(address, "/events").await;
    assert!(status(&head) == 503 && problem.contains("urn:sopan:too-many-readers"), "{head} {problem}");
    assert_eq!(status(&get(address, "/state").await.0), 200);
    let begun = tokio::time::Instant::now();
    let mut told = BTreeMap::<u64, (Json, usize)>::new();
    for events in &mut all {
        assert_eq!(events.next().await.0, "history");
        for _ in 0..3 {
            let (name, number, state) = events.next().await;
            assert_eq!((&*name, &state["upstreams"][0]["name"]), ("state", &json!("shop")));
            let (same, readers) = told.entry(number.unwrap()).or_insert_with(|| (state.clone(), 0));
            assert_eq!(*same, state);
            *readers += 1;
        }
    }
    // The third is a second after the first, and who came a little later got the next ones.
    assert!(begun.elapsed() >= Duration::from_millis(900), "{:?}", begun.elapsed());
    assert!(told.values().any(|(_, readers)| *readers == READERS_MAX), "{told:?}");
    assert!(told.keys().zip(told.keys().skip(1)).all(|(one, next)| one + 1 == *next), "{told:?}");
    // Who goes makes room.
    drop(all);
    while status(&ask(address, "HEAD /events", &[], "").await.0) != 200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut next = Events::read(address).await;
    let (_, _, history) = next.next().await;
    assert!(history["at"].as_array().unwrap().len() >= 2, "{history}");
    assert_eq!(
        history["upstreams"][1]["used_per_s"].as_array().unwrap().len(),
        history["at"].as_array().unwrap().len()
    );
}

/// With a clock that waits for nobody: what is told fills the room on the way in no time.
#[tokio::test(start_paused = true)]
async fn who_reads_slowly_gets_the_newest_and_who_reads_nothing_is_cut_off() {
    let scene = scene(None);
    for number in 0..100 {
        recent::tests::tell(&scene.recent, &format!("/{}/{number}", "x".repeat(900)), 200, Instant::ORIGIN);
    }
    let address = serving(Arc::clone(&scene)).await;
    let (mut quick, mut slow) = (Events::read(address).await, Events::read(address).await);
    let mut silent = Events::read(address).await;
    assert_eq!((quick.next().await.0, slow.next().await.0), ("history".to_owned(), "history".to_owned()));
    let reads_up_to = async |events: &mut Events, last: u64| {
        let mut numbers = Vec::new();
        while numbers.last().is_none_or(|number| *number < last) {
            numbers.push(events.next().await.1.unwrap());
        }
        numbers
    };
    let quickly = reads_up_to(&mut quick, 15).await;
    let slowly = reads_up_to(&mut slow, 15).await;
    assert!(slowly.is_sorted() && slowly.len() < quickly.len(), "{slowly:?} {quickly:?}");
    // Twice as long as anybody may be silent.
    reads_up_to(&mut quick, 55).await;
    let (mut bytes, mut piece) = (0, [0; 65536]);
    while let Ok(count @ 1..) = silent.socket.read(&mut piece).await {
        bytes += count;
        assert!(bytes < 10 << 20, "it goes on");
    }
}
