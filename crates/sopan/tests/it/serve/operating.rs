//! What is changed at the admin port while it runs, what it says of what goes on, and who is told.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};
use sopan_fake::script::Answer;

use super::door::{START_LINES, Scripted, Serve, UNLIMITED};
use super::wire::request;
use crate::support::{self, PATIENCE, nobody, skipped, sopan, until};

/// A change, as a program asks for it.
pub(super) fn change(admin: SocketAddr, path: &str, body: &Json) -> (u16, Json) {
    let body = body.to_string();
    let head = format!("POST {path} HTTP/1.1\r\nHost: {admin}\r\nContent-Type: application/json");
    asked(admin, &format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
}

fn asked(admin: SocketAddr, request: &str) -> (u16, Json) {
    let mut socket = TcpStream::connect(admin).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap())
}

fn state(admin: SocketAddr) -> Json {
    serde_json::from_str(&support::get(admin, "/state").body).unwrap()
}

#[test]
fn a_hold_by_hand_is_told_is_waited_for_and_is_ended() {
    let upstream = Scripted::start(|request| match request.number {
        1 => Answer::status(429).header("Retry-After", "0"),
        _ => Answer::json(200, "{}"),
    });
    let proxy = Serve::start(&upstream.url(), &["--rate 100/s", "--min-wait 10ms"]);
    assert_eq!(proxy.get("/orders?key=SECRET").status(), 200);
    let hold = change(proxy.admin, "/upstreams/default/hold", &json!({"for": "20s"}));
    assert_eq!(hold, (200, json!({"held_s": 20.0})));
    let mut waiting = proxy.connect();
    waiting.send(request("GET", "/orders?page=2", ""));
    proxy.await_waiting(1);
    let told = state(proxy.admin);
    let default = &told["upstreams"][0];
    assert_eq!((&default["hold"]["by"], &default["queue"]["waiting"]), (&json!("operator"), &json!(1)));
    assert!((10.0..20.0).contains(&default["hold"]["ends_in_s"].as_f64().unwrap()), "{default:#}");
    let client = &default["queue"]["clients"][0];
    assert_eq!((&client["name"], &client["waiting"]), (&json!("127.0.0.1"), &json!(1)));
    assert!(client["wait_s"].as_f64().unwrap() > 10.0, "{client}");
    assert_eq!(change(proxy.admin, "/upstreams/default/release", &json!({})), (200, json!({"released": true})));
    assert_eq!(waiting.reply().status(), 200);
    proxy.await_rest();
    let told = state(proxy.admin);
    assert_eq!(told["upstreams"][0]["hold"], Json::Null);
    assert_eq!(told["upstreams"][0]["exchanges"]["2xx"], 2);
    assert_eq!(told["upstreams"][0]["attempts"]["429"], 1);
    // The newest is first, and each tells its story.
    let [second, first] = &told["exchanges"].as_array().unwrap()[..] else { panic!("{told:#}") };
    assert_eq!((&first["target"], &first["attempts"]), (&json!("/orders?key=…"), &json!(2)));
    let story = |exchange: &Json| exchange["story"].to_string();
    assert!(story(first).contains("\"attempt 1\",\"429 with Retry-After 0\",\"waited"), "{first:#}");
    assert!(story(second).contains("for the end of a hold\""), "{second:#}");
    assert!(second["wait_s"].as_f64().unwrap() > 0.0 && second["client"] == "127.0.0.1", "{second:#}");
    // Whoever reads the log learns what was done, and by whom.
    let logged = proxy.await_logged("INFO", START_LINES + 2).split_off(START_LINES);
    assert!(logged.contains(&"by hand: nothing is sent for 20.00 s".to_owned()), "{logged:?}");
    assert!(logged.contains(&"by hand: the pause is over, requests go again".to_owned()), "{logged:?}");
}

#[test]
fn what_is_purged_is_asked_for_again() {
    let upstream = Scripted::start(|_| Answer::json(200, "{}").header("Cache-Control", "max-age=60"));
    let proxy = Serve::start(&upstream.url(), UNLIMITED);
    let purge = |body: Json| change(proxy.admin, "/cache/purge", &body);
    let whole = json!("http://".to_owned() + &proxy.address.to_string() + "/orders?page=1");
    let ask_all = || {
        for target in ["/orders?page=1", "/orders?page=2", "/items"] {
            assert_eq!(proxy.get(target).status(), 200);
        }
        ["/orders?page=1", "/orders?page=2", "/items"].map(|target| upstream.deliveries(target))
    };
    assert_eq!((ask_all(), ask_all()), ([1, 1, 1], [1, 1, 1]));
    for (body, purged, expected) in [
        (json!({"url": "/orders?page=1"}), 1, [2, 1, 1]),
        (json!({"url": whole}), 1, [3, 1, 1]),
        (json!({"url": "/orders?page=1", "upstream": "default"}), 1, [4, 1, 1]),
        (json!({"url": "/orders"}), 0, [4, 1, 1]),
        (json!({"prefix": "/orders"}), 2, [5, 2, 1]),
        (json!({"all": true, "upstream": "default"}), 3, [6, 3, 2]),
        (json!({"all": true}), 3, [7, 4, 3]),
    ] {
        assert_eq!(purge(body.clone()), (200, json!({"purged": {"memory": purged, "disk": 0}})), "{body}");
        assert_eq!(ask_all(), expected, "{body}");
    }
    let without = Serve::start(&upstream.url(), &["--cache off"]);
    let (status, problem) = change(without.admin, "/cache/purge", &json!({"all": true}));
    assert_eq!((status, &problem["type"]), (409, &json!("urn:sopan:no-cache")));
}

#[test]
fn it_drains_when_it_is_asked_to_and_says_that_it_is_not_ready() {
    let upstream = Scripted::start(|_| Answer::events().event("1").hang());
    let mut proxy = Serve::start(&upstream.url(), UNLIMITED);
    let mut open = proxy.connect();
    open.send(request("GET", "/open", ""));
    open.sees("data: 1\n");
    assert_eq!(support::get(proxy.admin, "/readyz").body, "ready\n");
    assert_eq!(change(proxy.admin, "/drain", &json!({})), (202, json!({"draining": true})));
    until(|| (support::get(proxy.admin, "/readyz").status() == 503).then_some(()));
    assert_eq!(state(proxy.admin)["draining"], true);
    assert_eq!(support::get(proxy.admin, "/healthz").body, "ok\n");
    // Whoever stops the service then cuts nothing off.
    proxy.program.signal("TERM");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(support::get(proxy.admin, "/readyz").status(), 503);
    drop(open);
    let (status, lines) = proxy.wait();
    assert!(status.success(), "{status:?}");
    assert!(!lines.iter().any(|line| line.contains("cut off")), "{lines:?}");
    assert!(lines.iter().any(|line| line.ends_with("INFO by hand: it is to drain")), "{lines:?}");
}

#[test]
fn the_settings_in_force_are_told_and_no_secret_is() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "SECRET-correct-horse-battery\n").unwrap();
    let path = file.path().to_str().unwrap();
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let proxy = Serve::start(
        &upstream.url(),
        &["--rate 7/s", &format!("--admin-token-file {path}"), "--client-by header:x-team", "--log json"],
    );
    let mut client = proxy.connect();
    client.send(request("GET", "/orders?key=SECRET", "X-Team: SECRET\r\nAuthorization: Bearer SECRET\r\n"));
    assert_eq!(client.reply().status(), 200);
    let get = |path: &str, said: &str| {
        let mut socket = TcpStream::connect(proxy.admin).unwrap();
        write!(socket, "GET {path} HTTP/1.0\r\nHost: sopan.svc\r\nAuthorization: Bearer {said}\r\n\r\n").unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(get("/state", "SECRET-correct-horse-batterx").starts_with("HTTP/1.0 401 "));
    assert!(get("/readyz", "").starts_with("HTTP/1.0 200 "));
    let all =
        ["/state", "/settings", "/metrics", "/openapi.json"].map(|path| get(path, "SECRET-correct-horse-battery"));
    assert!(all.iter().all(|answer| answer.starts_with("HTTP/1.0 200 ") && !answer.contains("SECRET")), "{all:#?}");
    let settings: Json = serde_json::from_str(all[1].split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(settings["upstreams"]["default"]["limits"], json!({"value": ["7/s"], "from": "--rate"}));
    assert_eq!(settings["settings"]["admin_token_file"]["value"], path);
    assert!(all[0].contains("\"client\":\"header x-team #"), "{}", all[0]);
    assert!(proxy.lines().iter().all(|line| !line.contains("SECRET")));

    // The same secret opens it for `sopan status`.
    let admin = proxy.admin.to_string();
    let status = |secret: Option<&str>| {
        let mut command = support::command(&["status", "--admin", &admin]);
        secret.map(|secret| command.env("SOPAN_ADMIN_TOKEN", secret));
        let done = command.output().unwrap();
        (done.status.code(), String::from_utf8([done.stdout, done.stderr].concat()).unwrap())
    };
    let (code, said) = status(Some("SECRET-correct-horse-battery"));
    assert!(code == Some(0) && said.contains("default"), "{said}");
    for (secret, says) in [(None, "set SOPAN_ADMIN_TOKEN"), (Some("SECRET-another-one"), "holds another one")] {
        let (code, said) = status(secret);
        assert!(code == Some(76) && said.contains(says) && !said.contains("SECRET"), "{said}");
    }
}

#[test]
fn status_is_a_table_for_people_and_an_object_for_programs() {
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let proxy = Serve::start(&upstream.url(), &["--rate 10/s burst 5", "--rate 5000 per 1h"]);
    assert_eq!(proxy.get("/").status(), 200);
    let admin = format!("http://{}/", proxy.admin);
    let run = sopan(&["status", "--admin", &admin]);
    let out = String::from_utf8(run.out).unwrap();
    assert_eq!((run.code, &*run.err), (Some(0), ""), "{out}");
    let lines: Vec<_> = out.lines().collect();
    assert!(lines[0].starts_with("sopan ") && lines[0].contains(&format!("at {}, up ", proxy.admin)), "{out}");
    assert_eq!(lines[2], "upstream  allowed  used   waiting  wait  hold  breaker  cache");
    assert_eq!(lines[3], "default   10/s     0.1/s  0        -     -     closed   0 %");
    let run = sopan(&["status", "--json", "--admin", &admin]);
    let told: Json = serde_json::from_slice(&run.out).unwrap();
    assert_eq!(told["upstreams"][0]["limits"][1]["limit"], "5000 per 1h");

    let nobody = nobody().to_string();
    for (args, code, says) in [
        (&["status", "--admin", &nobody][..], 75, "no sopan answers there"),
        (&["status", "--admin", &upstream.url()], 76, "it is another version"),
        (&["status", "--admin", "https://x"], 2, "--admin: `https://x` is not where an admin port is"),
        (&["top", "--admin", &admin], 2, "`sopan status` prints the same once"),
    ] {
        let run = sopan(args);
        let says = says.replace("it is another version", "is it another version?");
        assert!(
            run.code == Some(code) && run.err.contains(&says) && run.err.lines().count() == 1,
            "{args:?}: {}",
            run.err
        );
    }
}

#[test]
fn top_draws_on_a_terminal_until_it_is_told_to_quit() {
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let proxy = Serve::start(&upstream.url(), &["--rate 10/s burst 5"]);
    assert_eq!(proxy.get("/orders?key=SECRET").status(), 200);
    let program = env!("CARGO_BIN_EXE_sopan");
    let command = format!("stty cols 80 rows 24; {program} top --admin {}", proxy.admin);
    // It makes a terminal of its own.
    let mut script = Command::new("script");
    let script = script.args(["-q", "-e", "-c", &command, "/dev/null"]).env("TERM", "xterm").env_remove("NO_COLOR");
    let Ok(mut running) = script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn() else {
        return skipped("there is no script(1)");
    };
    let mut out = running.stdout.take().unwrap();
    let mut seen = Vec::new();
    until(|| {
        let mut piece = [0; 4096];
        let count = out.read(&mut piece).unwrap();
        seen.extend(&piece[..count]);
        String::from_utf8_lossy(&seen).contains("q quits").then_some(())
    });
    running.stdin.take().unwrap().write_all(b"q").unwrap();
    out.read_to_end(&mut seen).unwrap();
    assert!(running.wait().unwrap().success());
    let seen = String::from_utf8_lossy(&seen);
    for part in ["\x1b[?1049h", "10/s burst 5", "GET  /orders?key=…", "\x1b[?1049l"] {
        assert!(seen.contains(part), "{part:?} is missing in {seen:?}");
    }
    assert!(!seen.contains("SECRET"));
}
