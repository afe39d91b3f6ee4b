//! A sopan with all that has secrets in front of an API that says again what it has heard.

use std::fs;
use std::process::Command;

use sopan_fake::script::{Answer, Request};

use super::search::Secret;
use crate::serve::door::{Port, Scripted};
use crate::serve::wire::base64;
use crate::support::command;
use crate::support::redis::{self, Redis};

/// The key that sopan puts into the field of an API, those that take its place, and one that can be none.
pub(super) const SHOP: [&str; 3] = ["shop/Vq81+zTr0==&kkWd", "shop/2nd+Pb73&ueYgXh9", "shop/3rd\u{1}Wc55+tRm2LqX"];
/// That which it puts into a query.
pub(super) const MAPS: &str = "maps/H%5+hN2&=wE7rTzJk0";
/// User and password of a third one.
pub(super) const LEGACY: &str = "me:legacy/J+x9~vB4nM6qPs";
pub(super) const ADMIN: &str = "admin-4kPz7TtWq2VxLmB9-of-8001";
/// What whoever takes traces wants to hear.
pub(super) const TRACES: &str = "traces-2Vb6NmQw8ErTy4UiOpLk";
/// What the Redis that instances share wants to hear.
pub(super) const REDIS: &str = "redis-8Zn4KwQv1TyLc6BsRj";
/// What a client has for an API to which sopan adds nothing.
pub(super) const OWN: &str = "own-sk-9Xh3LwQz8RtVb5NcYd";
pub(super) const OWN_COOKIE: &str = "own-sid-7Gj2KfWm4PxZs6TrQe";
pub(super) const OWN_QUERY: &str = "own-q-5Bv8HnMc3DzXw1LkJr";
pub(super) const GUESS: &str = "guess-6Yt4ReWq2UiOp9AsDfGh";
pub(super) const OLD: &str = "sopan_old-3Zx5CvBn7MqWe9RtYuIo";
pub(super) const WEB: &str = "sopan_web-8Lk6JhGf4DsAp2OiUyTr";
pub(super) const ETL: &str = "sopan_etl-1Qa3WsEd5RfTg7YhUjIk";

/// All of them, and what they look like when they are encoded.
pub(super) fn secrets() -> Vec<Secret> {
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
        Secret::new("the password of Redis", REDIS),
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
pub(super) struct Said(pub(super) String, pub(super) String);

impl Said {
    pub(super) fn new(place: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self(place.into(), String::from_utf8_lossy(bytes.as_ref()).into_owned())
    }
}

#[track_caller]
pub(super) fn check_all(said: &[Said]) {
    for secret in secrets() {
        for Said(place, text) in said {
            secret.check_absent(place, text);
        }
    }
}

/// The SHA-256 of a key, as settings want it.
pub(super) fn digest(key: &str) -> String {
    let script = format!("printf %s '{key}' | sha256sum | cut -d' ' -f1");
    String::from_utf8(Command::new("sh").args(["-c", &script]).output().unwrap().stdout).unwrap().trim().to_owned()
}

/// An API that says again what it has heard, wherever it can, and fails in the way that the path names.
pub(super) fn echoing(request: &Request) -> Answer {
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

pub(super) const PATHS: [&str; 20] = [
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
pub(super) struct Scene {
    pub(super) folder: tempfile::TempDir,
    pub(super) upstream: Scripted,
    /// Where traces go; the first ones are refused.
    pub(super) collector: Scripted,
    pub(super) closed: Port,
    /// What instances share, where there is a redis-server.
    pub(super) redis: Option<Redis>,
}

impl Scene {
    pub(super) fn new() -> Self {
        let collector = Scripted::start(|request| Answer::status(if request.number < 3 { 401 } else { 200 }));
        let (folder, upstream) = (tempfile::tempdir().unwrap(), Scripted::start(echoing));
        let redis = redis::is_there().then(|| Redis::start_with_password(REDIS));
        let scene = Self { folder, upstream, collector, closed: Port::closed(), redis };
        scene.write("shop", SHOP[0]);
        scene.write("legacy", LEGACY);
        scene.write("admin", ADMIN);
        scene
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// In the place of what is there, at once.
    pub(super) fn write(&self, name: &str, text: &str) {
        fs::write(self.path("new"), text).unwrap();
        fs::rename(self.path("new"), self.path(name)).unwrap();
    }

    /// Everything is tried twice at most, and soon.
    pub(super) fn settings(&self, log: &str) -> String {
        let (url, closed) = (self.upstream.url(), self.closed.url());
        let tls = url.replace("http:", "https:");
        let traces = self.collector.url();
        let path = |name| self.path(name);
        let (shop, legacy) = (path("shop"), path("legacy"));
        let redis = self.redis.as_ref().map_or_else(String::new, |redis| {
            format!("redis: {{ url: 'redis://:${{SECRETS_OF_REDIS}}@{}', prefix: secrets }}\n", redis.address)
        });
        redis
            + &format!(
                "access_log: on\nlog: {log}\nadmin_token_file: {}\nstate: {}\ncache_dir: {}\nheader_timeout: 500ms\nidle_timeout: 500ms\n\
             traces:\n  otlp: '{traces}'\n  headers: {{ Authorization: 'Bearer ${{SECRETS_OF_TRACES}}' }}\n\
             defaults:\n  limits: unlimited\n  breaker: off\n  attempt_timeout: 200ms\n  connect_timeout: 200ms\n  max_hold: 1ms\n  \
             retry: {{ max_retries: 1, backoff_base: 1ms, min_wait: 1ms }}\n\
             upstreams:\n  \
             shop: {{ url: '{url}', route: /shop, credential: {{ file: '{shop}' }} }}\n  \
             maps: {{ url: '{url}/v2', route: /maps, credential: {{ env: SECRETS_OF_MAPS, query: key }} }}\n  \
             legacy: {{ url: '{url}', route: /legacy, limits: 1000/s, credential: {{ file: '{legacy}', scheme: Basic }} }}\n  \
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

    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        // Whoever asks for more of the log than there is gets no more.
        command
            .env("SECRETS_OF_MAPS", MAPS)
            .env("SECRETS_OF_TRACES", TRACES)
            .env("SECRETS_OF_REDIS", REDIS)
            .env("RUST_LOG", "trace")
            .env("RUST_BACKTRACE", "1");
        command
    }

    /// Runs one that ends by itself.
    pub(super) fn run(&self, args: &[&str], token: &str) -> Said {
        let done = self.command(args).env("SOPAN_ADMIN_TOKEN", token).output().unwrap();
        Said::new(format!("what {args:?} said"), [done.stdout, done.stderr].concat())
    }

    /// What is in all files that sopan has written; of those in the cache without what is the API's, which is none here.
    pub(super) fn written(&self) -> Vec<Said> {
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

    /// All keys and values that are in Redis.
    pub(super) fn shared(&self) -> Vec<Said> {
        let Some(redis) = &self.redis else { return Vec::new() };
        let keys = redis.keys();
        let holds = |part: &str| keys.iter().any(|key| key.contains(part));
        assert!([":ledger", ":answer:"].iter().all(|part| holds(part)), "too little is there: {keys:?}");
        let mut said = vec![Said::new("the keys in Redis", keys.join("\n"))];
        for key in keys {
            let ask = match &*redis.ask(&["TYPE", &key]).text() {
                "string" => &["GET", &key][..],
                "hash" => &["HGETALL", &key],
                "zset" => &["ZRANGE", &key, "0", "-1", "WITHSCORES"],
                other => panic!("{key} is a {other}"),
            };
            said.push(Said::new(format!("{key} in Redis"), format!("{:?}", redis.ask(ask))));
        }
        said
    }
}
