//! Who gets in where clients have keys, what they may do, and that no key is seen behind the door.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use sopan_fake::script::Answer;

use super::door::{Scripted, Serve};
use super::wire::{Client, Reply, base64, request};
use crate::support::{get, sopan, until};

/// A key, and what is known of it.
struct Key {
    key: String,
    sha256: String,
}

impl Key {
    fn new() -> Self {
        let run = sopan(&["keys", "new", "etl", "--format", "json"]);
        let told: serde_json::Value = serde_json::from_slice(&run.out).unwrap();
        let of = |name: &str| told[name].as_str().unwrap().to_owned();
        Self { key: of("key"), sha256: of("key_sha256") }
    }
}

/// A proxy in front of an upstream that says yes, with clients `etl` and `web`.
struct Keyed {
    upstream: Scripted,
    proxy: Serve,
    etl: Key,
    web: Key,
}

impl Keyed {
    /// What else is said at the top, of the upstream, and of `etl`.
    fn start(top: &str, of_upstream: &str, of_etl: &str) -> Self {
        let upstream = Scripted::start(|_| Answer::json(200, "{}"));
        let (etl, web) = (Key::new(), Key::new());
        let settings = format!(
            "{top}\nupstreams:\n  shop: {{ url: '{url}', route: /shop, limits: unlimited }}\n  \
             mail: {{ url: '{url}', route: /mail, {of_upstream} }}\nclients:\n  \
             etl: {{ key_sha256: {}, {of_etl} }}\n  web: {{ key_sha256: [{}, {}] }}\n",
            etl.sha256,
            Key::new().sha256,
            web.sha256,
            url = upstream.url(),
        );
        let proxy = Serve::start_with(&settings);
        Self { upstream, proxy, etl, web }
    }

    /// With `ETL` and `WEB` for the keys, also in base64 with a user in front, or percent-encoded.
    fn filled(&self, text: &str) -> String {
        let basic = |key: &Key| base64(format!("me:{}", key.key).as_bytes());
        let text = text.replace("BASIC_ETL", &basic(&self.etl)).replace("PERCENT_ETL", &percent(&self.etl.key));
        text.replace("ETL", &self.etl.key).replace("WEB", &self.web.key)
    }

    fn ask(&self, method: &str, target: &str, fields: &str) -> Reply {
        let mut client = self.proxy.connect();
        client.send(self.filled(&request(method, target, fields)));
        client.reply()
    }

    /// Nothing of either key, in any form, is in this.
    #[track_caller]
    fn check_has_no_key(&self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        for key in [&self.etl.key, &self.web.key] {
            let (pure, basic) = (base64(key.as_bytes()), base64(format!("me:{key}").as_bytes()));
            for form in [key, &percent(key), &pure, &basic] {
                assert!(!text.contains(&form[..20]), "{text}");
            }
        }
    }
}

fn percent(key: &str) -> String {
    key.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[test]
fn only_who_has_a_key_is_let_in_and_no_key_goes_on() {
    let keyed = Keyed::start("", "limits: unlimited", "");
    for (fields, kept) in [
        ("Authorization: Bearer ETL\r\n", ""),
        ("authorization: bearer   ETL \r\n", ""),
        ("Proxy-Authorization: Bearer WEB\r\n", ""),
        ("X-Api-Key: ETL\r\n", ""),
        // In two places, and in others beside them.
        ("X-Api-Key: ETL\r\nAuthorization: Bearer ETL\r\n", ""),
        ("X-Api-Key: ETL\r\nX-Api-Key: ETL\r\n", ""),
        ("X-Api-Key: ETL\r\nAuthorization: Basic BASIC_ETL\r\n", ""),
        ("X-Api-Key: ETL\r\nCookie: a=1; k=ETL\r\nCookie: b=2\r\n", "cookie: b=2"),
        ("X-Api-Key: ETL\r\nReferer: http://a.test/?k=PERCENT_ETL\r\nForwarded: for=\"ETL\"\r\nX_Api_Key: ETL\r\n", ""),
        // What is the client's own goes on.
        ("X-Api-Key: ETL\r\nAuthorization: Bearer vendor-secret\r\n", "authorization: Bearer vendor-secret"),
        ("Authorization: Bearer WEB\r\nX-Api-Key: vendor-secret\r\n", "x-api-key: vendor-secret"),
        ("X-Api-Key: WEB\r\nAuthorization: Basic bWU6cHc=\r\n", "authorization: Basic bWU6cHc="),
    ] {
        let reply = keyed.ask("GET", "/shop/x?page=2", fields);
        assert_eq!(reply.status(), 200, "{fields}: {reply:?}");
        let requests = keyed.upstream.requests();
        let head = String::from_utf8(requests.last().unwrap().head.to_vec()).unwrap();
        keyed.check_has_no_key(head.as_bytes());
        let lines: Vec<_> = head.lines().skip(1).filter(|line| !line.is_empty()).collect();
        let others: Vec<_> =
            lines.into_iter().filter(|line| !line.starts_with("host: ") && !line.starts_with("via: ")).collect();
        assert_eq!(others.join("\n"), kept, "{fields}");
    }
    let arrivals = keyed.upstream.arrivals();
    let bearer = "Bearer realm=\"sopan\"";
    let invalid = "Bearer realm=\"sopan\", error=\"invalid_token\"";
    for (target, fields, status, kind, challenge) in [
        ("/shop/x", "", 401, "key-missing", Some(bearer)),
        ("/nowhere", "", 401, "key-missing", Some(bearer)),
        ("/shop/x", "Authorization: Basic BASIC_ETL\r\n", 401, "key-missing", Some(bearer)),
        ("/shop/x", "Cookie: ETL\r\n", 401, "key-missing", Some(bearer)),
        ("/shop/x?api_key=ETL", "", 401, "key-missing", Some(bearer)),
        ("/shop/x", "X-Api-Key: ETLx\r\n", 401, "key-unknown", Some(invalid)),
        ("/shop/ETLx", "X-Api-Key: ETLx\r\n", 401, "key-unknown", Some(invalid)),
        ("/shop/x", "Authorization: Bearer\r\n", 401, "key-unknown", Some(invalid)),
        ("/shop/x", "X-Api-Key: ETL\r\nAuthorization: Bearer WEB\r\n", 400, "keys-of-several", None),
        (
            "/shop/x",
            "X-Api-Key: ETL\r\nX-Api-Key: a\r\nX-Api-Key: b\r\nX-Api-Key: c\r\nX-Api-Key: d\r\n",
            400,
            "keys-of-several",
            None,
        ),
        ("/shop/x?api_key=ETL", "X-Api-Key: ETL\r\n", 400, "key-in-address", None),
        ("/shop/x?api_key=WEB", "X-Api-Key: ETL\r\n", 400, "key-in-address", None),
        ("/shop/x?token=PERCENT_ETL", "X-Api-Key: ETL\r\n", 400, "key-in-address", None),
        ("/shop/ETL/x", "X-Api-Key: ETL\r\n", 400, "key-in-address", None),
        ("/nowhere", "X-Api-Key: ETL\r\n", 404, "no-route", None),
    ] {
        let reply = keyed.ask("GET", target, fields);
        assert_eq!((reply.status(), reply.problem().0), (status, format!("urn:sopan:{kind}")), "{target} {fields}");
        assert_eq!(reply.field("www-authenticate"), challenge, "{target} {fields}");
        keyed.check_has_no_key(format!("{reply:?}").as_bytes());
        keyed.check_has_no_key(&reply.body);
    }
    assert_eq!(keyed.upstream.arrivals(), arrivals);
}

#[test]
fn a_key_in_a_trailer_or_a_reflection_goes_no_further() {
    let keyed = Keyed::start("", "limits: unlimited", "");
    let mut client = keyed.proxy.connect();
    let head = request("POST", "/shop/x", "X-Api-Key: ETL\r\nTransfer-Encoding: chunked\r\nTE: trailers\r\n");
    client.send(keyed.filled(&format!("{head}2\r\nhi\r\n0\r\nX-Api-Key: ETL\r\nX-Sum: 7\r\n\r\n")));
    assert_eq!(client.reply().status(), 200);
    let request = until(|| Some(keyed.upstream.request(1)).filter(|request| request.body_at.is_some()));
    assert_eq!((&*request.body, request.trailers.len()), (&b"hi"[..], 1));
    keyed.check_has_no_key(&request.raw_body);
    for target in ["/shop/x", "/nowhere"] {
        let reply = keyed.ask("TRACE", target, "Max-Forwards: 0\r\nX-Api-Key: ETL\r\nX-Seen: yes\r\n");
        assert!(reply.status() == 200 && reply.text().contains("x-seen: yes"), "{reply:?}");
        keyed.check_has_no_key(&reply.body);
    }
}

#[test]
fn a_client_may_do_what_its_settings_say_and_is_not_told_what_that_is() {
    let bounds = "upstreams: shop, methods: [GET, POST], paths: [/shop/orders, /mail]";
    let keyed = Keyed::start("key_fields: [x-api-key]", "limits: unlimited", bounds);
    for (method, target, fields, expected) in [
        ("GET", "/shop/orders", "", 200),
        ("POST", "/shop/orders/7?x=/../y", "", 200),
        ("GET", "/mail", "", 403),
        ("DELETE", "/shop/orders", "", 403),
        ("POST", "/shop/orders", "X-HTTP-Method-Override: DELETE\r\n", 403),
        ("GET", "/shop/orders2", "", 403),
        ("GET", "/shop/orders/../stock", "", 403),
        ("GET", "/shop/orders%2f..%2fstock", "", 403),
        ("GET", "/shop/orders", "X-Original-URL: /shop/stock\r\n", 403),
    ] {
        let arrivals = keyed.upstream.arrivals();
        let reply = keyed.ask(method, target, &format!("{fields}X-Api-Key: ETL\r\n"));
        assert_eq!(
            (reply.status(), keyed.upstream.arrivals() - arrivals),
            (expected, usize::from(expected == 200)),
            "{target}"
        );
        if expected == 403 {
            let (kind, detail) = reply.problem();
            assert_eq!(kind, "urn:sopan:not-allowed");
            assert!(!["etl", "orders", "GET", "shop"].iter().any(|word| detail.contains(word)), "{detail}");
        }
        // It holds for nobody else.
        assert_eq!(keyed.ask(method, target, &format!("{fields}X-Api-Key: WEB\r\n")).status(), 200, "{target}");
    }
    // Of the fields only that one is looked at.
    let reply = keyed.ask("GET", "/shop/orders", "Authorization: Bearer ETL\r\n");
    assert_eq!(reply.status(), 401);
    assert!(reply.problem().1.ends_with("; send one as X-Api-Key: KEY"), "{reply:?}");
    let over = Keyed::start("", "limits: unlimited", "expires: 2020-01-01");
    let reply = over.ask("GET", "/shop/orders", "X-Api-Key: ETL\r\n");
    assert_eq!((reply.status(), reply.problem().0), (401, "urn:sopan:key-expired".to_owned()));
}

#[test]
fn who_guesses_is_shut_out_and_who_was_in_is_not() {
    let keyed = Keyed::start("", "limits: unlimited", "");
    let ask = |client: &mut Client, fields: &str| {
        client.send(keyed.filled(&request("GET", "/shop/x", fields)));
        client.reply()
    };
    let mut inside = keyed.proxy.connect();
    assert_eq!(ask(&mut inside, "X-Api-Key: ETL\r\n").status(), 200);
    // The same wrong key is one guess, however often it comes.
    (0..30).for_each(|_| assert_eq!(keyed.ask("GET", "/shop/x", "X-Api-Key: of-yesterday\r\n").status(), 401));
    for number in 0..9 {
        let fields = format!("Authorization: Bearer guess-{number}\r\n");
        assert_eq!(ask(&mut inside, &fields).status(), 401);
    }
    for fields in ["X-Api-Key: guess-10\r\n", "X-Api-Key: ETL\r\n", "X-Api-Key: WEB\r\n"] {
        let reply = keyed.ask("GET", "/shop/x", fields);
        assert_eq!((reply.status(), reply.problem().0), (429, "urn:sopan:too-many-guesses".to_owned()));
        let seconds: u64 = reply.field("retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&seconds), "{seconds}");
    }
    // Not with another client's key.
    assert_eq!(ask(&mut inside, "X-Api-Key: ETL\r\n").status(), 200);
    assert_eq!(ask(&mut inside, "X-Api-Key: WEB\r\n").status(), 429);
    assert_eq!(ask(&mut inside, "X-Api-Key: ETL\r\n").status(), 200);
    assert_eq!(ask(&mut Client::connect_from(2, keyed.proxy.address), "X-Api-Key: WEB\r\n").status(), 200);
    let lines = keyed.proxy.await_logged("WARN", 2);
    let told: Vec<_> =
        lines.iter().filter(|line| line.starts_with("10 wrong keys have come from 127.0.0.1: for ")).collect();
    assert_eq!(told.len(), 1, "{lines:?}");
}

#[test]
fn logs_and_metrics_call_a_client_by_its_name_and_show_no_key() {
    let keyed = Keyed::start("access_log: on\nlog: json", "limits: unlimited", "methods: GET, limits: 5/s burst 10");
    for (method, target, fields) in [
        ("GET", "/shop/x", "X-Api-Key: ETL\r\n"),
        ("GET", "/mail", "Authorization: Bearer ETL\r\n"),
        ("POST", "/shop/x", "X-Api-Key: ETL\r\n"),
        ("GET", "/shop/x?key=ETL", "X-Api-Key: ETL\r\n"),
        ("GET", "/shop/ETL", ""),
        ("GET", "/shop/WEB?x", "X-Api-Key: nobody-has-this-one\r\n"),
        ("GET", "/shop/nobody-has-this-one", "X-Api-Key: nobody-has-this-one\r\n"),
        ("GET", "/shop/x", "X-Api-Key: WEB\r\n"),
    ] {
        keyed.ask(method, target, fields);
    }
    let lines = until(|| {
        let lines = keyed.proxy.lines();
        Some(lines).filter(|lines| lines.iter().filter(|line| line.contains("\"whole\"")).count() == 8)
    });
    keyed.check_has_no_key(lines.join("\n").as_bytes());
    assert!(!lines.concat().contains("nobody-has-this-one"), "{lines:?}");
    let access: Vec<serde_json::Value> = lines
        .iter()
        .filter(|line| line.contains("\"whole\""))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let told: Vec<_> =
        access.iter().map(|line| (line["client"].as_str(), line["refused"].as_str(), &line["path"])).collect();
    for (line, expected) in told.iter().zip([
        (Some("etl"), None, "/shop/x"),
        (Some("etl"), None, "/mail"),
        (Some("etl"), Some("not-allowed"), "/shop/x"),
        (None, Some("key-in-address"), "*"),
        (None, Some("key-missing"), "*"),
        (None, Some("key-unknown"), "*"),
        (None, Some("key-unknown"), "*"),
        (Some("web"), None, "/shop/x"),
    ]) {
        assert_eq!((line.0, line.1, line.2.as_str().unwrap()), expected);
    }
    let start: Vec<_> = lines.iter().filter(|line| line.contains("client etl:")).collect();
    assert!(start.len() == 1 && start[0].contains("client etl: weight 1; limits 5/s burst 10"), "{start:?}");
    let metrics = get(keyed.proxy.admin, "/metrics").body;
    keyed.check_has_no_key(metrics.as_bytes());
    for (labels, count) in [
        ("client=\"etl\",result=\"answered\"", 2.0),
        ("client=\"etl\",result=\"refused\"", 1.0),
        ("client=\"web\",result=\"answered\"", 1.0),
    ] {
        assert_eq!(keyed.proxy.metric(&format!("sopan_client_requests_total{{{labels}}}")), count, "{labels}");
    }
}

#[test]
fn who_is_turned_away_before_its_key_is_looked_at_has_it_shown_nowhere_either() {
    let keyed = Keyed::start("access_log: on\nlog: json", "limits: unlimited", "");
    let (host, page) = ("Host: evil.test\r\n", "Host: localhost\r\nOrigin: http://evil.test\r\n");
    for (target, fields, status) in [
        ("/shop/ETL/x", host, 421),
        ("/shop/PERCENT_ETL", host, 421),
        ("/shop/WEB", page, 403),
        ("/shop/nobody-has-this-one", "Host: evil.test\r\nX-Api-Key: nobody-has-this-one\r\n", 421),
        ("/shop/x", "Host: evil.test\r\nX-Api-Key: ETL\r\n", 421),
    ] {
        let mut client = keyed.proxy.connect();
        client.send(keyed.filled(&format!("GET {target} HTTP/1.1\r\n{fields}\r\n")));
        let reply = client.reply();
        assert_eq!(reply.status(), status, "{target}");
        keyed.check_has_no_key(format!("{reply:?}").as_bytes());
        keyed.check_has_no_key(&reply.body);
    }
    let lines = until(|| {
        let lines = keyed.proxy.lines();
        Some(lines).filter(|lines| lines.iter().filter(|line| line.contains("\"whole\"")).count() == 5)
    });
    let told = lines.concat() + &get(keyed.proxy.admin, "/state").body;
    keyed.check_has_no_key(told.as_bytes());
    assert!(!told.contains("nobody-has-this-one"), "{told}");
    // What has none is told of as it is.
    assert!(told.contains("\"path\":\"/shop/x\""), "{told}");
}

#[test]
fn a_client_is_kept_to_its_own_limits_at_each_upstream_and_nobody_else_is() {
    let keyed = Keyed::start("", "limits: 10000/s burst 100", "limits: [2 per 1h, 100/s burst 2]");
    let ask = |target, key| keyed.ask("GET", target, &format!("X-Api-Key: {key}\r\n"));
    for target in ["/shop/x", "/mail"] {
        let statuses = [(); 4].map(|()| ask(target, "ETL"));
        assert_eq!(statuses.each_ref().map(Reply::status), [200, 200, 503, 503], "{target}");
        let (kind, detail) = statuses[3].problem();
        assert_eq!(kind, "urn:sopan:wait-too-long");
        assert!(detail.contains("for its turn within the limits of this client"), "{detail}");
        let seconds: u64 = statuses[3].field("retry-after").unwrap().parse().unwrap();
        assert!((3_000..=3_571).contains(&seconds), "an hour, of which it may wait 30 s: {seconds}");
        assert!((0..4).all(|_| ask(target, "WEB").status() == 200), "{target}");
    }
}

#[test]
fn turns_are_shared_by_key_and_weight_and_not_by_address() {
    let keyed = Keyed::start("", "limits: 40/s burst 1", "weight: 3");
    let over = Arc::new(AtomicBool::new(false));
    let mut asking = Vec::new();
    for (target, fields) in [("/mail/etl", "X-Api-Key: ETL\r\n"), ("/mail/web", "X-Api-Key: WEB\r\n")] {
        for _ in 0..6 {
            let (over, text) = (Arc::clone(&over), keyed.filled(&request("GET", target, fields)));
            let mut client = keyed.proxy.connect();
            asking.push(thread::spawn(move || {
                while !over.load(Relaxed) {
                    client.send(&text);
                    assert_eq!(client.reply().status(), 200);
                }
            }));
        }
    }
    // From when all of them wait; 36 of 48 are due.
    let from = 12;
    until(|| (keyed.upstream.arrivals() >= from + 48).then_some(()));
    over.store(true, Relaxed);
    asking.into_iter().for_each(|asking| asking.join().unwrap());
    let requests = keyed.upstream.requests();
    let turns = requests[from..from + 48].iter().filter(|request| request.target == "/etl").count();
    assert!((30..=42).contains(&turns), "{turns} of 48 turns");
}
