//! A door with several upstreams behind it, over real sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use sopan_core::safety::{HostName, Hosts};
use sopan_engine::{Settings, Target};
use sopan_fake::script::{self, Answer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::admin::Metrics;
use crate::config::{ClientBy, Format, Route, Served};

#[test]
fn trouble_is_told_at_first_then_every_ten_seconds_and_when_it_is_over() {
    let mut trouble = Trouble::default();
    let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
    assert_eq!(trouble.over(), None);
    for (ms, told) in [(0, Some(1)), (50, None), (9_999, None), (10_000, Some(4)), (10_050, None)] {
        assert_eq!(trouble.again(at(ms)), told, "{ms} ms");
    }
    assert_eq!((trouble.over(), trouble.over()), (Some(5), None));
    // Another failure soon after is the same trouble.
    assert_eq!((trouble.again(at(10_100)), trouble.over()), (None, None));
    assert_eq!((trouble.again(at(20_000)), trouble.over()), (Some(2), Some(2)));
}

/// A port that was free a moment ago.
fn free() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn served(name: &str, route: Route, url: &str, change: impl FnOnce(&mut Settings)) -> Served {
    let mut settings = Settings::new(Target::parse(url).unwrap());
    settings.lane.limits = Vec::new();
    change(&mut settings);
    Served { name: name.to_owned(), route, settings, client_by: ClientBy::Ip }
}

/// Serves until the test ends; answers with the address, and with what is counted.
fn serve_all(upstreams: Vec<Served>) -> (SocketAddr, Arc<Metrics>) {
    let listen = free();
    let metrics = Metrics::new(upstreams.iter().map(|served| served.name.clone()), None);
    let settings = config::Serve {
        listen,
        admin: None,
        admin_token: None,
        upstreams,
        hosts: Hosts::default(),
        clients: None,
        header_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_secs(60),
        drain: Duration::ZERO,
        max_connections: 100,
        workers: 2,
        state: None,
        store: config::Store { memory_bytes: 1 << 20, disk: None },
        traces: None,
        shared: None,
        access_log: false,
        log: Format::Text,
        warnings: Vec::new(),
    };
    let counted = Arc::clone(&metrics);
    thread::spawn(move || run(settings, Json::Null, counted, Sockets::default()).unwrap());
    (listen, metrics)
}

/// Everything that comes for one request on a connection of its own.
async fn ask(address: SocketAddr, method: &str, target: &str, host: &str) -> String {
    let patience = async {
        let mut socket = loop {
            // It may not listen yet.
            match TcpStream::connect(address).await {
                Ok(socket) => break socket,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        let head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        socket.write_all(head.as_bytes()).await.unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).await.unwrap();
        text
    };
    tokio::time::timeout(Duration::from_secs(30), patience).await.expect("it does not come")
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}

#[tokio::test]
async fn each_upstream_has_its_route_its_limits_and_its_links() {
    let shop = script::Upstream::listen(|_| {
        let (hint, answer) = ("Link: </v2/style>; rel=preload", "Location: /v2/orders/7\r\nLink: </v1>");
        Answer::raw(format!(
            "HTTP/1.1 103 Early Hints\r\n{hint}\r\n\r\nHTTP/1.1 201 Created\r\n{answer}\r\nContent-Length: 4\r\n\r\nshop"
        ))
    })
    .await;
    let mail = script::Upstream::listen(|_| Answer::json(200, "\"mail\"").header("Location", "/x")).await;
    let path = |path: &str| Route::Path(path.to_owned());
    let host = Route::Host(HostName::parse("mail.test").unwrap());
    let (address, metrics) = serve_all(vec![
        served("shop", path("/shop"), &format!("{}/v2", shop.url()), |settings| {
            settings.lane.limits = vec!["1 per 1h".parse().unwrap()];
            settings.lane.wait_max = Some(Duration::ZERO);
        }),
        served("mail", host, &mail.url(), |_| {}),
    ]);
    let here = address.to_string();

    let got = ask(address, "GET", "/shop/orders?page=1", &here).await;
    has(&got, &["HTTP/1.1 103 Early Hints\r\nlink: </shop/style>; rel=preload\r\n", "HTTP/1.1 201 Created", "shop"]);
    has(&got, &["location: /shop/orders/7\r\n", &format!("link: <{}/v1>\r\n", shop.url())]);
    assert_eq!(shop.request(1).target, "/v2/orders?page=1");

    // The limit of one holds up nobody else, and who is for a host of ours is let in by that.
    let got = ask(address, "GET", "/shop", &here).await;
    has(&got, &["HTTP/1.1 503 ", "\"type\":\"urn:sopan:wait-too-long\""]);
    for (target, host) in
        [("/shop?x", "Mail.Test:8000"), ("http://mail.test:81/shop?x", "mail.test:81"), ("/shop/../x", "mail.test.")]
    {
        let got = ask(address, "GET", target, host).await;
        has(&got, &["HTTP/1.1 200 OK\r\n", "location: /x\r\n", "\"mail\""]);
    }
    assert_eq!(
        mail.requests().iter().map(|request| &*request.target).collect::<Vec<_>>(),
        ["/shop?x", "/shop?x", "/shop/../x"]
    );
    assert_eq!(ask(address, "OPTIONS", "*", "mail.test").await.get(..12), Some("HTTP/1.1 200"));

    // The rest goes nowhere, whatever it asks for.
    for (method, target) in [("GET", "/"), ("POST", "/x/../shop"), ("GET", "/%73hop"), ("OPTIONS", "*")] {
        let got = ask(address, method, target, &here).await;
        has(&got, &["HTTP/1.1 404 Not Found\r\n", "proxy-status: sopan; error=destination_not_found\r\n"]);
        has(&got, &["\"type\":\"urn:sopan:no-route\"", "server-timing: wait;dur=0.0, attempts;desc=\"0\""]);
    }
    assert_eq!(ask(address, "GET", "/shop", "evil.test").await.get(..12), Some("HTTP/1.1 421"));
    assert_eq!(ask(address, "G\u{1}T", "/shop", &here).await.get(..12), Some("HTTP/1.1 400"));
    assert_eq!((shop.arrivals(), mail.arrivals()), (1, 4));
    let text = metrics.text();
    for line in [
        "sopan_exchanges_total{upstream=\"shop\",status=\"2xx\"} 1",
        "sopan_refusals_total{upstream=\"shop\",reason=\"wait-too-long\"} 1",
        "sopan_exchanges_total{upstream=\"mail\",status=\"2xx\"} 4",
        "sopan_refusals_total{upstream=\"none\",reason=\"no-route\"} 4",
        "sopan_refusals_total{upstream=\"none\",reason=\"misdirected\"} 1",
        "sopan_refusals_total{upstream=\"none\",reason=\"bad-request\"} 1",
        "sopan_limit_capacity{upstream=\"shop\",limit=\"1 per 1h\"} 1.0",
        "sopan_waiting{upstream=\"mail\"} 0.0",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is missing in\n{text}");
    }
}
