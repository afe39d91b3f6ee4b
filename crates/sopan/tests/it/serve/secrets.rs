//! After a run that fails in every way, no key, password or token is in anything that sopan writes or says: neither those of
//! its settings, nor those that clients bring.
//!
//! What an API answers goes to who asked, as it came: bodies, and fields that are the API's own. So of such an answer only
//! what sopan makes of it is looked at, and what is stored of it (the bodies) is the API's too.

mod search;

use std::fs;

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use sopan_fake::script::{Answer, Request};

use super::door::{Port, Scripted, Serve};
use super::wire::{Client, End, Reply, base64, request};
use crate::support::{command, sopan, until};
use search::Secret;

/// The key that sopan puts into the field of an API, those that take its place, and one that can be none.
const SHOP: [&str; 3] = ["shop/Vq81+zTr0==&kkWd", "shop/2nd+Pb73&ueYgXh9", "shop/3rd\u{1}Wc55+tRm2LqX"];
/// That which it puts into a query.
const MAPS: &str = "maps/H%5+hN2&=wE7rTzJk0";
/// User and password of a third one.
const LEGACY: &str = "me:legacy/J+x9~vB4nM6qPs";
const ADMIN: &str = "admin-4kPz7TtWq2VxLmB9-of-8001";
/// What a client has for an API to which sopan adds nothing.
/// What whoever takes traces wants to hear.
const TRACES: &str = "traces-2Vb6NmQw8ErTy4UiOpLk";
const OWN: &str = "own-sk-9Xh3LwQz8RtVb5NcYd";
const OWN_COOKIE: &str = "own-sid-7Gj2KfWm4PxZs6TrQe";
const OWN_QUERY: &str = "own-q-5Bv8HnMc3DzXw1LkJr";
const GUESS: &str = "guess-6Yt4ReWq2UiOp9AsDfGh";
const OLD: &str = "sopan_old-3Zx5CvBn7MqWe9RtYuIo";
const WEB: &str = "sopan_web-8Lk6JhGf4DsAp2OiUyTr";
const ETL: &str = "sopan_etl-1Qa3WsEd5RfTg7YhUjIk";

/// All of them, and what they look like when they are encoded.
fn secrets() -> Vec<Secret> {
    let pair = base64(LEGACY.as_bytes());
    vec![
        Secret::new("the first key of shop", SHOP[0]),
        Secret::new("the second key of shop", SHOP[1]),
        Secret::new("what can be no key of shop", SHOP[2]),
        Secret::new("the key of maps", MAPS),
        Secret::new("the password of legacy", &LEGACY[3..]),
        Secret::new("the pair of legacy", &pair),
        Secret::new("the admin token", ADMIN),
        Secret::new("the key for traces", TRACES),
        Secret::new("a client's own key", OWN),
        Secret::new("a client's cookie", OWN_COOKIE),
        Secret::new("a client's key in a query", OWN_QUERY),
        Secret::new("a guess", GUESS),
        Secret::new("a key whose time is over", OLD),
        Secret::new("the key of web", WEB),
        Secret::new("the key of etl", ETL),
    ]
}

/// Something that was written or said, by its name.
struct Said(String, String);

impl Said {
    fn new(place: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self(place.into(), String::from_utf8_lossy(bytes.as_ref()).into_owned())
    }
}

#[track_caller]
fn check_all(said: &[Said]) {
    for secret in secrets() {
        for Said(place, text) in said {
            secret.check_absent(place, text);
        }
    }
}

/// The SHA-256 of a key, as settings want it.
fn digest(key: &str) -> String {
    let script = format!("printf %s '{key}' | sha256sum | cut -d' ' -f1");
    String::from_utf8(Command::new("sh").args(["-c", &script]).output().unwrap().stdout).unwrap().trim().to_owned()
}

/// An API that says again what it has heard, wherever it can, and fails in the way that the path names.
fn echoing(request: &Request) -> Answer {
    let heard = match request.field("authorization") {
        Some(field) => field.rsplit(' ').next().unwrap().to_owned(),
        None => request.target.split_once('?').map_or("", |(_, query)| query).to_owned(),
    };
    let raw = |text: String| Answer::raw(text).close();
    let cached = || Answer::json(200, "{}").header("Cache-Control", "public, max-age=60");
    match request.target.split('?').next().unwrap().rsplit('/').next().unwrap() {
        "ok" => cached(),
        "vary" => cached().header("Vary", "X-Auth-Token, Cookie, X-Api-Key"),
        "mine" => Answer::json(200, "{}").header("Cache-Control", "max-age=60"),
        "reason" => raw(format!("HTTP/1.1 200 {heard}\r\nContent-Length: 2\r\n\r\n{{}}")),
        "status" => raw(format!("HTTP/1.1 {heard} no\r\n\r\n")),
        "garbage" => raw(format!("{heard} {heard}\r\n\r\n")),
        "no-field" => raw(format!("HTTP/1.1 200 OK\r\n{heard}\r\n\r\n")),
        "no-value" => raw(format!("HTTP/1.1 200 OK\r\nX: {heard}\x01\r\n\r\n")),
        "length" => raw(format!("HTTP/1.1 200 OK\r\nContent-Length: {heard}\r\n\r\n")),
        "coding" => raw(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {heard}\r\n\r\n")),
        "chunk" => raw(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{heard}\r\n")),
        "upgrade" => raw(format!("HTTP/1.1 101 Switching\r\nUpgrade: {heard}\r\n\r\n")),
        "moved" => Answer::status(302)
            .header("Location", format!("/elsewhere?{}", request.target.split('?').nth(1).unwrap_or_default()))
            .header("Content-Location", &request.target)
            .header("Link", format!("<{}>; rel=next", request.target)),
        "retry" => Answer::json(429, "{}").header("Retry-After", heard),
        "date" => Answer::json(503, "{}").header("Date", &heard).header("Retry-After", "0"),
        "failing" => Answer::json(500, "{}").header("Cache-Control", heard),
        "unauthorized" => Answer::json(401, "{}"),
        "cut" => Answer::status(200).header("Content-Length", "100").body("half").close(),
        "reset" => Answer::nothing().reset(),
        "silent" => Answer::nothing().hang(),
        other => Answer::json(404, format!("{{\"no\": \"{other}\"}}")),
    }
}

const PATHS: [&str; 20] = [
    "ok",
    "vary",
    "mine",
    "reason",
    "status",
    "garbage",
    "no-field",
    "no-value",
    "length",
    "coding",
    "chunk",
    "upgrade",
    "moved",
    "retry",
    "date",
    "failing",
    "unauthorized",
    "cut",
    "reset",
    "silent",
];

/// A folder with settings, and all that they name.
struct Scene {
    folder: tempfile::TempDir,
    upstream: Scripted,
    /// Where traces go; the first ones are refused.
    collector: Scripted,
    closed: Port,
}

impl Scene {
    fn new() -> Self {
        let collector = Scripted::start(|request| Answer::status(if request.number < 3 { 401 } else { 200 }));
        let (folder, upstream) = (tempfile::tempdir().unwrap(), Scripted::start(echoing));
        let scene = Self { folder, upstream, collector, closed: Port::closed() };
        scene.write("shop", SHOP[0]);
        scene.write("legacy", LEGACY);
        scene.write("admin", ADMIN);
        scene
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// In the place of what is there, at once.
    fn write(&self, name: &str, text: &str) {
        fs::write(self.path("new"), text).unwrap();
        fs::rename(self.path("new"), self.path(name)).unwrap();
    }

    /// Everything is tried twice at most, and soon.
    fn settings(&self, log: &str) -> String {
        let (url, closed) = (self.upstream.url(), self.closed.url());
        let tls = url.replace("http:", "https:");
        let traces = self.collector.url();
        let path = |name| self.path(name);
        let (shop, legacy) = (path("shop"), path("legacy"));
        format!(
            "access_log: on\nlog: {log}\nadmin_token_file: {}\nstate: {}\ncache_dir: {}\nheader_timeout: 500ms\nidle_timeout: 500ms\n\
             traces:\n  otlp: '{traces}'\n  headers: {{ Authorization: 'Bearer ${{SECRETS_OF_TRACES}}' }}\n\
             defaults:\n  limits: unlimited\n  breaker: off\n  attempt_timeout: 200ms\n  connect_timeout: 200ms\n  max_hold: 1ms\n  \
             retry: {{ max_retries: 1, backoff_base: 1ms, min_wait: 1ms }}\n\
             upstreams:\n  \
             shop: {{ url: '{url}', route: /shop, credential: {{ file: '{shop}' }} }}\n  \
             maps: {{ url: '{url}/v2', route: /maps, credential: {{ env: SECRETS_OF_MAPS, query: key }} }}\n  \
             legacy: {{ url: '{url}', route: /legacy, credential: {{ file: '{legacy}', scheme: Basic }} }}\n  \
             open: {{ url: '{url}', route: /open, cache: {{ default_ttl: 60s }} }}\n  \
             gone: {{ url: '{closed}', route: /gone, credential: {{ file: '{shop}' }} }}\n  \
             nowhere: {{ url: 'http://nowhere.invalid', route: /nowhere, credential: {{ file: '{shop}' }} }}\n  \
             tls: {{ url: '{tls}', route: /tls, credential: {{ file: '{shop}' }} }}\n  \
             few: {{ url: '{url}', route: /few, limits: 1 per 1h, queue: {{ wait_max: 0s }}, credential: {{ file: '{shop}' }} }}\n  \
             ill: {{ url: '{closed}', route: /ill, retry: off, breaker: {{ failures: 1, min_span: 0s }} }}\n\
             clients:\n  \
             etl: {{ key_sha256: {} }}\n  \
             web: {{ key_sha256: {}, methods: [GET], paths: [/open] }}\n  \
             old: {{ key_sha256: {}, expires: 2020-01-01 }}\n",
            path("admin"),
            path("state"),
            path("cache"),
            digest(ETL),
            digest(WEB),
            digest(OLD),
        )
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        // Whoever asks for more of the log than there is gets no more.
        command
            .env("SECRETS_OF_MAPS", MAPS)
            .env("SECRETS_OF_TRACES", TRACES)
            .env("RUST_LOG", "trace")
            .env("RUST_BACKTRACE", "1");
        command
    }

    /// Runs one that ends by itself.
    fn run(&self, args: &[&str], token: &str) -> Said {
        let done = self.command(args).env("SOPAN_ADMIN_TOKEN", token).output().unwrap();
        Said::new(format!("what {args:?} said"), [done.stdout, done.stderr].concat())
    }

    /// What is in all files that sopan has written; of those in the cache without what is the API's, which is none here.
    fn written(&self) -> Vec<Said> {
        let mut said = Vec::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                match path.is_dir() {
                    true => folders.push(path),
                    false if ["shop", "legacy", "admin"].contains(&&*name) => {}
                    false => said.push(Said::new(path.display().to_string(), fs::read(&path).unwrap())),
                }
            }
        }
        said
    }
}

/// What sopan has said in an answer: not what the API has, which is passed on.
fn own_words(what: &str, reply: &Reply) -> Said {
    let mut lines = reply.head.lines();
    let mut text = lines.next().unwrap_or_default().to_owned();
    const OWN_FIELDS: [&str; 9] = [
        "location",
        "content-location",
        "link",
        "via",
        "server-timing",
        "cache-status",
        "proxy-status",
        "www-authenticate",
        "content-type",
    ];
    let is_refusal = reply.field("content-type") == Some("application/problem+json");
    for line in lines {
        if is_refusal || OWN_FIELDS.contains(&line.split(':').next().unwrap().to_ascii_lowercase().as_str()) {
            // A link of the API's has what this client has asked for.
            let is_link = !is_refusal && line.contains(OWN_QUERY);
            text +=
                &format!("\n{}", if is_link { line.replace(OWN_QUERY, "").replace(OWN, "") } else { line.to_owned() });
        }
    }
    let body = if is_refusal { &reply.body[..] } else { b"" };
    Said::new(format!("the answer to {what}"), [text.as_bytes(), b"\n\n", body].concat())
}

fn try_to_ask(mut client: Client, bytes: &str) -> Option<Reply> {
    if !client.try_send(bytes) {
        return None;
    }
    client.try_reply()
}

/// Everything that can go wrong with an API, each with all that a client may bring.
fn ask_everything(proxy: &Serve) -> Vec<Said> {
    let brought = format!(
        "X-Api-Key: {ETL}\r\nCookie: a=1; sid={OWN_COOKIE}\r\nReferer: http://me:{OWN}@a.test/?key={OWN_QUERY}\r\n\
         X-Auth-Token: {OWN}\r\nForwarded: for={OWN_COOKIE}\r\n"
    );
    thread::scope(|threads| {
        let upstreams = ["shop", "maps", "legacy", "open", "gone", "nowhere", "tls", "few", "ill"];
        let asking = upstreams.map(|upstream| {
            let brought = &brought;
            threads.spawn(move || ask_of(proxy, upstream, brought))
        });
        asking.into_iter().flat_map(|asking| asking.join().unwrap()).collect()
    })
}

fn ask_of(proxy: &Serve, upstream: &str, brought: &str) -> Vec<Said> {
    let mut said = Vec::new();
    let is_api = matches!(upstream, "shop" | "maps" | "legacy" | "open");
    for path in if is_api { &PATHS[..] } else { &PATHS[..1] } {
        let authorization = format!("Authorization: Bearer {OWN}\r\n");
        let (plain, target) = (
            format!("/{upstream}/{path}"),
            format!("/{upstream}/{path}?page=1&api_key={OWN_QUERY}&token={OWN}&{OWN_QUERY}"),
        );
        for (method, target, fields) in [
            ("GET", &target, format!("{brought}{authorization}")),
            ("GET", &target, brought.to_owned()),
            ("GET", &plain, brought.to_owned()),
            ("POST", &target, format!("{brought}{authorization}Content-Length: 0\r\n")),
        ] {
            let what = format!("{method} {plain}");
            let reply = try_to_ask(proxy.connect(), &request(method, target, &fields));
            let reply = reply.unwrap_or_else(|| panic!("{what}: no answer"));
            assert!(matches!(*path, "cut" | "chunk") || reply.end == End::Whole, "{what}: {reply:?}");
            said.push(own_words(&what, &reply));
        }
    }
    said
}

/// Requests that are none, from clients that are not let in, and from those that are.
fn ask_wrongly(proxy: &Serve) -> Vec<Said> {
    let key = format!("X-Api-Key: {ETL}\r\n");
    let get = |target: &str, fields: &str| request("GET", target, fields);
    let plain = format!("/open/ok?key={OWN_QUERY}");
    let mut asked = vec![
        get(&plain, &format!("{key}Authorization Bearer {OWN}\r\n")),
        get(&plain, &format!("{key}X-Auth: {OWN}\x01\r\n")),
        get(&format!("/open/ok ?key={OWN_QUERY}"), &key),
        get(&plain, &key).replace("HTTP/1.1", &format!("HTTP/{OWN}")),
        get(&plain, &key).replace("localhost", &format!("me:{OWN}@localhost")),
        get(&plain, &key).replace("localhost", &format!("{OWN}.test")),
        get(&format!("http://me:{OWN}@localhost{plain}"), &key),
        get(&format!("http://{OWN}.test{plain}"), &key),
        get(&plain, &format!("{key}Content-Length: {OWN}\r\n")),
        get(&plain, &format!("{key}Transfer-Encoding: {OWN}\r\n")),
        get(&plain, &format!("{key}Expect: {OWN}\r\n")),
        get(&plain, &format!("{key}Upgrade: {OWN}\r\nConnection: upgrade\r\n")),
        get(&plain, &format!("{key}Origin: http://{OWN}.test\r\n")),
        get(&plain, &format!("{key}Range: bytes={OWN}\r\nIf-None-Match: {OWN}\r\n")),
        get(&plain, &format!("{key}X-Auth: {}\r\n", OWN.repeat(4_000))),
        get(&format!("/open?key={}", OWN.repeat(4_000)), &key),
        request(
            "TRACE",
            "/open/ok",
            &format!("{key}Max-Forwards: 0\r\nCookie: {OWN_COOKIE}\r\nX-Auth-Token: {OWN}\r\n"),
        ),
        request("CONNECT", &format!("me:{OWN}@u:443"), &key),
        request("OPTIONS", "*", &key),
        get(&format!("/nobody?key={OWN_QUERY}"), &key),
        get(&format!("/open/%zz?key={OWN_QUERY}"), &key),
        get(&plain, ""),
        get(&plain, &format!("X-Api-Key: {OLD}\r\n")),
        get(&format!("/open/ok?key={ETL}"), &key),
        get(&format!("/open/{ETL}/ok"), &key),
        get(&plain, &format!("{key}Authorization: Bearer {WEB}\r\n")),
        get("/shop/ok", &format!("Authorization: Bearer {WEB}\r\n")),
        request("POST", "/open/ok", &format!("Proxy-Authorization: Bearer {WEB}\r\n")),
        get("/open/ok/../secret", &format!("X-Api-Key: {WEB}\r\n")),
        // These come to no end.
        format!("GET {plain} HTTP/1.1\r\nAuthorization: Bearer {OWN}"),
        request("POST", &plain, &format!("{key}Content-Length: 100\r\n")) + OWN,
        request("POST", &plain, &format!("{key}Transfer-Encoding: chunked\r\n")) + OWN + "\r\n",
        request("POST", &plain, &format!("{key}Transfer-Encoding: chunked\r\n")) + "0\r\n" + OWN + "\r\n\r\n",
    ];
    asked.extend((0..12).map(|n| get(&plain, &format!("Authorization: Bearer {GUESS}{n}\r\n"))));
    let ask = |text: &String| {
        // So that no other client is shut out with those who guess.
        let client = Client::connect_from(9, proxy.address);
        let what: String = text.chars().take(40).collect();
        let reply = try_to_ask(client, text)?;
        let is_shown = text.starts_with("TRACE");
        let seen = if is_shown { Said::new(what, &reply.body) } else { own_words(&what, &reply) };
        Some((seen, reply.status()))
    };
    let replies: Vec<_> = asked.iter().filter_map(ask).collect();
    for status in [400, 401, 403, 404, 429, 431] {
        assert!(replies.iter().any(|(_, seen)| *seen == status), "nobody was answered with {status}");
    }
    replies.into_iter().map(|(said, _)| said).collect()
}

/// All that the admin port says, and what it says to who may not ask, or asks for what cannot be.
fn ask_admin(proxy: &Serve) -> Vec<Said> {
    let pair = base64(format!(":{ADMIN}").as_bytes());
    let right = format!("Authorization: Bearer {ADMIN}\r\n");
    let json =
        |body: &str| format!("{right}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let mut said = Vec::new();
    for (path, fields, expected) in [
        ("/metrics", right.clone(), 200),
        ("/state", right.clone(), 200),
        ("/settings", right.clone(), 200),
        ("/openapi.json", right.clone(), 200),
        ("/healthz", right.clone(), 200),
        ("/readyz", right.clone(), 200),
        ("/state", format!("Authorization: Basic {pair}\r\n"), 200),
        ("/state", String::new(), 401),
        ("/state", format!("Authorization: Bearer {GUESS}\r\n"), 401),
        (&format!("/state?token={ADMIN}"), String::new(), 401),
        (&format!("/nothing?token={ADMIN}"), right.clone(), 404),
    ] {
        let reply = try_to_ask(Client::connect(proxy.admin), &request("GET", path, &fields)).unwrap();
        assert_eq!(reply.status(), expected, "{path}: {reply:?}");
        said.push(Said::new(format!("{path} of the admin port"), [reply.head.as_bytes(), &reply.body].concat()));
    }
    for (path, body) in [
        ("/cache/purge", format!("{{\"url\": \"/open/ok?key={OWN_QUERY}\"}}")),
        ("/cache/purge", format!("{{\"url\": \"http://me:{OWN}@localhost/open/ok?key={OWN_QUERY}\"}}")),
        ("/cache/purge", format!("{{\"url\": \"{OWN}\"}}")),
        ("/cache/purge", format!("{{\"key\": \"{OWN}\"}}")),
        ("/cache/purge", OWN.to_owned()),
        (&format!("/upstreams/open/hold?token={ADMIN}"), "{\"for\": \"1ms\"}".to_owned()),
    ] {
        let text = request("POST", path, "").trim_end().to_owned() + "\r\n" + &json(&body);
        let reply = try_to_ask(Client::connect(proxy.admin), &text).unwrap();
        said.push(Said::new(format!("{path} of the admin port"), [reply.head.as_bytes(), &reply.body].concat()));
    }
    // The page, and its events as far as they come at once; where there are none, what is said of that.
    for path in ["/", "/events"] {
        let mut client = Client::connect(proxy.admin);
        client.send(request("GET", path, &right));
        thread::sleep(Duration::from_millis(300));
        said.push(Said::new(format!("{path} of the admin port"), client.some(1 << 20)));
    }
    said
}

/// Waits until another key is in force.
fn await_key(scene: &Scene, proxy: &Serve, key: &str) {
    until(|| {
        try_to_ask(proxy.connect(), &request("GET", "/shop/unauthorized", &format!("X-Api-Key: {ETL}\r\n")))?;
        let field = scene.upstream.requests().last()?.field("authorization")?.to_owned();
        (field == format!("Bearer {key}")).then_some(())
    });
}

// au-2
#[test]
fn no_secret_is_in_anything_that_is_written_or_said() {
    thread::scope(|threads| {
        for log in ["text", "json"] {
            threads.spawn(move || check_run(log));
        }
    });
}

/// A run that fails in every way, with the log in this form.
fn check_run(log: &str) {
    let scene = Scene::new();
    let settings = scene.path("sopan.yaml");
    fs::write(&settings, scene.settings(log)).unwrap();
    let serve = || {
        let out = fs::File::options().create(true).append(true).open(scene.path("out")).unwrap();
        let args = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--config", &settings];
        Serve::begin(scene.command(&args).stdout(Stdio::from(out)).stderr(Stdio::piped()))
    };
    let mut proxy = serve();
    let mut said = ask_everything(&proxy);
    said.extend(ask_wrongly(&proxy));
    scene.write("shop", SHOP[1]);
    await_key(&scene, &proxy, SHOP[1]);
    scene.write("shop", SHOP[2]);
    until(|| proxy.lines().iter().any(|line| line.contains("stays the one that was read before")).then_some(()));
    said.extend(ask_everything(&proxy));
    said.extend(ask_admin(&proxy));
    // Secrets were where they belong: at the API.
    let heads: Vec<_> = scene.upstream.requests().iter().flat_map(|request| request.head.to_vec()).collect();
    let heads = String::from_utf8_lossy(&heads);
    let at_api = secrets().into_iter().filter(|secret| secret.is_in(&heads)).count();
    assert!(at_api >= 5, "{at_api} of them arrived");
    let admin = proxy.admin.to_string();
    let fetched = format!("http://{}/shop/failing?key={OWN_QUERY}", proxy.address);
    let header = format!("X-Api-Key: {ETL}");
    said.extend([
        scene.run(&["status", "--admin", &admin], ADMIN),
        scene.run(&["status", "--json", "--admin", &admin], ADMIN),
        scene.run(&["status", "--admin", &admin], GUESS),
        scene.run(&["status", "--admin", &format!("http://me:{OWN}@{admin}")], ADMIN),
        scene.run(&["status", "--admin", &format!("http://{admin}/?token={OWN}")], ADMIN),
        scene.run(&["fetch", &fetched, "--header", &header, "--backoff-base", "1ms"], ""),
        scene.run(&["check", &settings], ""),
        scene.run(&["check", "--format", "json", &settings], ""),
    ]);
    proxy.program.signal(if log == "text" { "KILL" } else { "TERM" });
    said.push(Said::new("the log", proxy.wait().1.join("\n")));
    // Another one finds what the first has left.
    scene.write("shop", SHOP[0]);
    let mut proxy = serve();
    said.push(own_words("a stored answer", &proxy.connect().get("/open/ok")));
    proxy.program.signal("TERM");
    said.push(Said::new("the log of the second", proxy.wait().1.join("\n")));
    said.extend(scene.written());
    let traces: Vec<_> = scene.collector.requests().iter().flat_map(|request| request.body.clone()).collect();
    said.push(Said::new("what traces tell", traces));
    assert!(said.last().unwrap().1.contains("/shop/garbage"), "they tell nothing");
    check_all(&said);
}

#[test]
fn no_secret_is_in_what_is_said_of_wrong_settings_or_of_an_answer() {
    let scene = Scene::new();
    let right = scene.settings("text");
    let (shop, admin) = (scene.path("shop"), scene.path("admin"));
    let mut said = Vec::new();
    for (from, to) in [
        ("url: 'http://nowhere.invalid'", format!("url: 'http://me:{OWN}@nowhere.invalid'")),
        ("url: 'http://nowhere.invalid'", format!("url: 'http://nowhere.invalid/?key={OWN}'")),
        ("url: 'http://nowhere.invalid'", format!("url: 'ftp://me:{OWN}@nowhere.invalid'")),
        ("url: 'http://nowhere.invalid'", format!("url: '${{SECRETS_OF_MAPS}}', limits: '${{file:{shop}}}'")),
        ("SECRETS_OF_MAPS", OWN.to_owned()),
        ("SECRETS_OF_MAPS", format!("sk_{}", OWN.replace('-', "_"))),
        ("file: '", format!("key: '{OWN}', file: '")),
        (&*shop, OWN.to_owned()),
        ("etl:", format!("{ETL}:")),
        ("scheme: Basic", format!("scheme: 'Basic {OWN}'")),
        ("key_sha256: ", format!("key_sha256: {ETL}, x: ")),
        ("key_sha256: ", format!("key: {ETL}, key_sha256: ")),
        (&*admin, format!("{admin}, admin_token: {ADMIN}")),
        (&*admin, OWN.to_owned()),
        ("otlp: 'http://", format!("otlp: 'http://me:{TRACES}@")),
        ("headers: {", format!("headers: {{ 'X Y': {TRACES}, ")),
        ("headers: {", format!("headers: {{ Host: {TRACES}, ")),
        ("headers: {", format!("header: {{ X: {TRACES}, ")),
        ("headers: {", format!("key: {TRACES}, x: {{")),
        ("access_log: on", format!("admin_token: {ADMIN}")),
        ("access_log: on", format!("access_log: [on\npassword: '{OWN}'")),
    ] {
        assert!(right.contains(from), "{from}");
        let path = scene.path("sopan.yaml");
        fs::write(&path, right.replacen(from, &to, 1)).unwrap();
        for args in [
            &["check", &*path][..],
            &["check", "--format", "json", &*path],
            &["serve", "--listen", "127.0.0.1:0", "--config", &*path],
        ] {
            let run = scene.run(args, "");
            assert!(run.1.contains("error"), "{to}: {}", run.1);
            said.push(run);
        }
    }
    // One that can be read, and is no secret of an admin port; a file that holds no key.
    for (name, text) in [("admin", "short"), ("shop", SHOP[2]), ("shop", "a\nb")] {
        scene.write(name, text);
        fs::write(scene.path("sopan.yaml"), &right).unwrap();
        said.push(scene.run(&["serve", "--listen", "127.0.0.1:0", "--config", &scene.path("sopan.yaml")], ""));
    }
    let authorization = format!("Authorization: Bearer {OWN}");
    let cookie = format!("Set-Cookie: sid={OWN_COOKIE}; HttpOnly");
    let location = format!("Location: https://me:{OWN}@u/?key={OWN_QUERY}");
    let path = format!("/orders?key={OWN_QUERY}");
    for format in ["text", "json"] {
        let args = [
            "explain",
            "--status",
            "401",
            "--header",
            &cookie,
            "--header",
            &location,
            "--request-header",
            &authorization,
            "--path",
            &path,
            "--format",
            format,
        ];
        said.push(scene.run(&args, ""));
    }
    for url in [
        format!("http://me:{OWN}@{}/x?key={OWN_QUERY}", scene.closed.address),
        format!("{}/x?key={OWN_QUERY}#{OWN}", scene.closed.url()),
    ] {
        said.push(
            scene.run(&["fetch", &url, "--header", &authorization, "--max-retries", "1", "--backoff-base", "1ms"], ""),
        );
        said.push(scene.run(&["fetch", &url, "--header", &format!("{OWN}\r\n: x")], ""));
    }
    said.push(scene.run(&["serve", "--upstream", &format!("http://me:{OWN}@u"), "--credential-env", OWN], ""));
    check_all(&said);
}

// au-1
#[test]
fn the_api_sees_its_own_key_once_and_nothing_of_the_client_s() {
    let scene = Scene::new();
    let settings = scene.path("sopan.yaml");
    fs::write(&settings, scene.settings("text")).unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--config", &settings];
    let proxy = Serve::begin(scene.command(&args).stdout(Stdio::null()));
    let key = Secret::new("the client's key", ETL);
    let basic = base64(format!("me:{ETL}").as_bytes());
    let bearer = format!("Authorization: Bearer {ETL}\r\n");
    let own = format!("X-Api-Key: {ETL}\r\n");
    for fields in [
        bearer.clone(),
        own.clone(),
        format!("Proxy-Authorization: Bearer {ETL}\r\n"),
        format!("{own}{bearer}"),
        format!("{own}{own}"),
        format!("{own}Authorization: Basic {basic}\r\n"),
        format!(
            "{own}Cookie: a=1; key={ETL}\r\nReferer: http://a.test/?key={ETL}\r\nForwarded: for={ETL}\r\nX-Other: {ETL}\r\n"
        ),
    ] {
        let legacy = base64(LEGACY.as_bytes());
        let maps: String = MAPS
            .bytes()
            .map(|byte| match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                true => char::from(byte).to_string(),
                false => format!("%{byte:02X}"),
            })
            .collect();
        for (upstream, is_whole, expected) in [
            ("shop", "authorization: ", format!("authorization: Bearer {}\r\n", SHOP[0])),
            ("legacy", "authorization: ", format!("authorization: Basic {legacy}\r\n")),
            ("maps", "key=", format!("GET /v2/unauthorized?page=2&key={maps} HTTP/1.1\r\n")),
        ] {
            let reply =
                try_to_ask(proxy.connect(), &request("GET", &format!("/{upstream}/unauthorized?page=2"), &fields));
            assert_eq!(reply.unwrap().status(), 401, "the API's own answer to {fields}");
            let head = String::from_utf8(scene.upstream.requests().pop().unwrap().head.to_vec()).unwrap();
            key.check_absent(&format!("what {upstream} got of {fields}"), &head);
            assert_eq!((head.matches(&expected).count(), head.matches(is_whole).count()), (1, 1), "{head}");
        }
    }
}

#[test]
fn a_key_is_printed_once_by_who_makes_it_and_known_by_its_digest_alone() {
    let run = sopan(&["keys", "new", "etl"]);
    let text = String::from_utf8(run.out).unwrap();
    let key = text.lines().map(str::trim).find(|line| line.starts_with("sopan_")).unwrap();
    assert_eq!((text.matches(key).count(), run.err.contains(key)), (1, false));
    let rest = text.replacen(key, "", 1);
    Secret::new("the key", key).check_absent("the rest", &rest);
    assert!(rest.contains(&digest(key)));
}
