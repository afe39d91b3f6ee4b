//! After a run that fails in every way, no key, password or token is in anything that sopan writes or says: neither those of
//! its settings, nor those that clients bring.
//!
//! What an API answers goes to who asked, as it came: bodies, and fields that are the API's own. So of such an answer only
//! what sopan makes of it is looked at, and what is stored of it (the bodies) is the API's too.

mod ask;
mod scene;
mod search;

use std::fs;
use std::process::Stdio;
use std::thread;

use super::door::Serve;
use super::wire::{base64, request};
use crate::support::{sopan, until};
use ask::{ask_admin, ask_everything, ask_wrongly, own_words, try_to_ask};
use scene::{
    ADMIN, ETL, GUESS, LEGACY, MAPS, OWN, OWN_COOKIE, OWN_QUERY, REDIS, SHOP, Said, Scene, TRACES, check_all, digest,
    secrets,
};
use search::Secret;

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
    said.extend(scene.shared());
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
        ("access_log: on", format!("redis: {{ url: 'redis://:{REDIS}@' }}")),
        ("access_log: on", format!("redis: {{ url: 'redis://:{REDIS}@h:port' }}")),
        ("access_log: on", format!("redis: 'redis://:{REDIS}@h', url: x")),
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
