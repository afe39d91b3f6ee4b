//! Everything that can be asked for, with secrets wherever a client may put them, and what sopan says to that.

use std::thread;
use std::time::Duration;

use super::scene::{ADMIN, ETL, GUESS, OLD, OWN, OWN_COOKIE, OWN_QUERY, PATHS, Said, WEB};
use crate::serve::door::Serve;
use crate::serve::wire::{Client, End, Reply, base64, request};

/// What sopan has said in an answer: not what the API has, which is passed on.
pub(super) fn own_words(what: &str, reply: &Reply) -> Said {
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

pub(super) fn try_to_ask(mut client: Client, bytes: &str) -> Option<Reply> {
    if !client.try_send(bytes) {
        return None;
    }
    client.try_reply()
}

/// Everything that can go wrong with an API, each with all that a client may bring.
pub(super) fn ask_everything(proxy: &Serve) -> Vec<Said> {
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

pub(super) fn ask_of(proxy: &Serve, upstream: &str, brought: &str) -> Vec<Said> {
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
pub(super) fn ask_wrongly(proxy: &Serve) -> Vec<Said> {
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
pub(super) fn ask_admin(proxy: &Serve) -> Vec<Said> {
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
