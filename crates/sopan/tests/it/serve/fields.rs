//! What an intermediary says, changes and refuses: each rule once by the whole program, its cases in the core's tables.

use std::net::TcpListener;

use sopan_fake::script::{Answer, Request};

use super::door::{Scripted, Serve};
use super::wire::Reply;

const UNLIMITED: &str = "--rate unlimited";

/// A proxy with these flags in front of an upstream that says yes, and gives the links of an answer.
fn start(flags: &[&str]) -> (Scripted, Serve) {
    let upstream = Scripted::start(|request| {
        let own = request.field("host").unwrap_or_default();
        let answer =
            Answer::status(201).header("Via", "1.1 cdn").header("Location", format!("http://{own}/v2/orders/1"));
        let links = format!("<http://{own}/v2/orders?page=2>; rel=\"next\", </docs>; rel=\"help\"");
        answer.header("Link", links).header("Content-Location", "/v2/orders/1")
    });
    let proxy = Serve::start(&format!("{}/v2", upstream.url()), &[&[UNLIMITED], flags].concat());
    (upstream, proxy)
}

/// Sends a request of these lines, in which `PROXY` stands for the address of the proxy.
fn ask(proxy: &Serve, lines: &[&str]) -> Reply {
    let request = lines.join("\r\n").replace("PROXY", &proxy.address.to_string());
    let mut client = proxy.connect();
    client.send(request + "\r\n\r\n");
    client.reply()
}

/// The values of a field's lines at the upstream.
fn values<'r>(request: &'r Request, name: &str) -> Vec<&'r str> {
    request.fields.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
}

#[test]
fn via_is_added_both_ways_and_a_circle_is_refused() {
    let (upstream, proxy) = start(&[]);
    let reply = ask(&proxy, &["GET /x HTTP/1.1", "Host: PROXY", "Via: 1.0 a", "Via: 1.1 b"]);
    assert_eq!(reply.fields("via"), ["1.1 cdn", "1.1 sopan"]);
    assert_eq!(ask(&proxy, &["GET /x HTTP/1.0"]).status(), 201);
    assert_eq!(values(&upstream.request(1), "via"), ["1.0 a", "1.1 b", "1.1 sopan"]);
    assert_eq!(values(&upstream.request(2), "via"), ["1.0 sopan"]);
    let circle = format!("Via: {}1.1 sopan", "1.1 sopan, ".repeat(8));
    let reply = ask(&proxy, &["GET /x HTTP/1.1", "Host: PROXY", &circle]);
    assert_eq!((reply.status(), reply.problem().0), (502, "urn:sopan:proxy-loop".to_owned()));
    assert_eq!(reply.field("proxy-status"), Some("sopan; error=proxy_loop_detected"));
    assert_eq!((reply.field("via"), upstream.arrivals()), (None, 2));
}

#[test]
fn two_proxies_that_point_at_each_other_end_it_soon() {
    // The address of the second one must be known before it listens. Nobody else takes a port of this one meanwhile.
    let free = TcpListener::bind("127.0.0.77:0").unwrap();
    let address = free.local_addr().unwrap();
    let first = Serve::start(&format!("http://{address}"), &[UNLIMITED]);
    drop(free);
    let second = Serve::start_at(&address.to_string(), &format!("http://{}", first.address), &[UNLIMITED]);
    let reply = first.get("/x");
    assert_eq!((reply.status(), reply.problem().0), (502, "urn:sopan:proxy-loop".to_owned()));
    // Whoever passed it on got that answer, and none of them sent it again.
    let passed = |proxy: &Serve| proxy.metric("sopan_attempts_total{upstream=\"default\",outcome=\"5xx\"}");
    assert_eq!(passed(&first) + passed(&second), 9.0);
}

#[test]
fn the_upstream_learns_of_the_client_only_what_is_wished() {
    let sent =
        ["GET /x HTTP/1.1", "Host: PROXY", "Forwarded: for=10.0.0.1", "X-Forwarded-For: 10.0.0.1", "X-Real-IP: a"];
    let mine = |proxy: &Serve| format!("for=127.0.0.1;host=\"{}\";proto=http", proxy.address);
    for (policy, lines, list, real_ip) in [
        ("off", 0, vec![], vec![]),
        ("pass", 1, vec!["10.0.0.1"], vec!["a"]),
        ("rfc7239", 2, vec!["10.0.0.1"], vec!["a"]),
        ("x-forwarded", 1, vec!["10.0.0.1, 127.0.0.1"], vec!["a"]),
    ] {
        let (upstream, proxy) = start(&[&format!("--forwarded {policy}")]);
        assert_eq!(ask(&proxy, &sent).status(), 201);
        let (request, mine) = (upstream.request(1), mine(&proxy));
        assert_eq!(values(&request, "forwarded"), ["for=10.0.0.1", &mine][..lines], "{policy}");
        assert_eq!((values(&request, "x-forwarded-for"), values(&request, "x-real-ip")), (list, real_ip), "{policy}");
    }
}

#[test]
fn max_forwards_ends_at_the_proxy_or_is_counted_down() {
    let (upstream, proxy) = start(&[]);
    let reply = ask(&proxy, &["TRACE /x HTTP/1.1", "Host: PROXY", "Max-Forwards: 0", "Cookie: SECRET", "X-A: 1"]);
    let came = format!("TRACE /x HTTP/1.1\r\nhost: {}\r\nmax-forwards: 0\r\nx-a: 1\r\n\r\n", proxy.address);
    assert_eq!((reply.status(), reply.field("content-type"), reply.text()), (200, Some("message/http"), &*came));
    let reply = ask(&proxy, &["OPTIONS * HTTP/1.1", "Host: PROXY", "Max-Forwards: 0"]);
    assert_eq!((reply.status(), reply.field("content-length"), reply.field("allow")), (200, Some("0"), None));
    assert_eq!(
        (upstream.arrivals(), proxy.metric("sopan_refusals_total{upstream=\"default\",reason=\"max-forwards\"}")),
        (0, 2.0)
    );
    ask(&proxy, &["OPTIONS /x HTTP/1.1", "Host: PROXY", "Max-Forwards: 10"]);
    ask(&proxy, &["GET /x HTTP/1.1", "Host: PROXY", "Max-Forwards: 0"]);
    assert_eq!(values(&upstream.request(1), "max-forwards"), ["9"]);
    assert_eq!(values(&upstream.request(2), "max-forwards"), ["0"]);
}

#[test]
fn links_to_the_upstream_lead_to_where_the_client_asked() {
    for (flags, is_on) in [(&[][..], true), (&["--rewrite-links off"], false)] {
        let (upstream, proxy) = start(flags);
        for host in ["PROXY", "api.localhost:99"] {
            let reply = ask(&proxy, &["POST /orders HTTP/1.1", &format!("Host: {host}"), "Content-Length: 0"]);
            let (theirs, ours) =
                (upstream.url(), format!("http://{}", host.replace("PROXY", &proxy.address.to_string())));
            let (base, local) = if is_on { (ours, "") } else { (format!("{theirs}/v2"), "/v2") };
            let docs = if is_on { format!("{theirs}/docs") } else { "/docs".to_owned() };
            assert_eq!(reply.field("location"), Some(&*format!("{base}/orders/1")));
            assert_eq!(reply.field("content-location"), Some(&*format!("{local}/orders/1")));
            let links = format!("<{base}/orders?page=2>; rel=\"next\", <{docs}>; rel=\"help\"");
            assert_eq!(reply.fields("link"), [links]);
        }
        // Where nobody knows what the client calls it, they stay as they are.
        let reply = ask(&proxy, &["GET /x HTTP/1.0"]);
        assert_eq!(reply.field("content-location"), Some("/v2/orders/1"));
    }
}

#[test]
fn so_do_those_of_an_interim_answer() {
    let upstream = Scripted::start(|_| {
        let hints = "HTTP/1.1 103 Early Hints\r\nLink: </v2/a>, </b>\r\n\r\n";
        Answer::raw(hints).then(Answer::json(200, "{}"))
    });
    let proxy = Serve::start(&format!("{}/v2", upstream.url()), &[UNLIMITED]);
    let mut client = proxy.connect();
    client.send(format!("GET /x HTTP/1.1\r\nHost: {}\r\n\r\n", proxy.address));
    client.sees(&format!("HTTP/1.1 103 Early Hints\r\nlink: </a>, <{}/b>\r\n\r\n", upstream.url()));
    assert_eq!(client.reply().status(), 200);
}

#[test]
fn no_page_of_the_web_gets_through_to_the_upstream() {
    const CLOSED: &[&str] = &[];
    const NAMED: &[&str] = &["--host proxy.test", "--host 10.0.0.1"];
    const OPEN: &[&str] = &["--open"];
    const OPEN_NAMED: &[&str] = &["--open", "--host proxy.test"];
    for (flags, lines, status) in [
        (CLOSED, &["Host: PROXY"][..], 201),
        (CLOSED, &["Host: localhost"], 201),
        (CLOSED, &["Host: evil.test"], 421),
        (CLOSED, &["Host: proxy.test"], 421),
        (CLOSED, &["Host: PROXY", "Origin: http://localhost:3000"], 201),
        (CLOSED, &["Host: PROXY", "Origin: https://evil.test"], 403),
        (CLOSED, &["Host: PROXY", "Origin: null"], 403),
        (CLOSED, &["Host: PROXY", "Sec-Fetch-Site: cross-site"], 403),
        (CLOSED, &["Host: PROXY", "Sec-Fetch-Site: none"], 201),
        (NAMED, &["Host: PROXY"], 201),
        (NAMED, &["Host: Proxy.test:80", "Origin: https://proxy.test"], 201),
        (NAMED, &["Host: 10.0.0.1"], 201),
        (NAMED, &["Host: evil.test"], 421),
        (OPEN, &["Host: any.test", "Origin: http://any.test"], 201),
        (OPEN, &["Host: any.test", "Origin: http://evil.test"], 403),
        (OPEN_NAMED, &["Host: proxy.test"], 201),
        (OPEN_NAMED, &["Host: any.test"], 421),
    ] {
        let (upstream, proxy) = start(flags);
        let reply = ask(&proxy, &[&["GET /x HTTP/1.1"], lines].concat());
        assert_eq!(reply.status(), status, "{lines:?} with {flags:?}");
        assert_eq!(upstream.arrivals(), usize::from(status == 201));
        let reason = match status {
            201 => continue,
            421 => "misdirected",
            _ => "cross-site",
        };
        let (kind, detail) = reply.problem();
        assert!(kind == format!("urn:sopan:{reason}") && detail.contains("--host NAME"), "{kind} {detail}");
        assert_eq!(reply.field("proxy-status"), Some("sopan; error=http_request_denied"));
        assert_eq!(proxy.metric(&format!("sopan_refusals_total{{upstream=\"none\",reason=\"{reason}\"}}")), 1.0);
    }
}

#[test]
fn a_target_that_is_a_whole_url_is_for_its_host_and_connect_is_not_passed_on() {
    let (upstream, proxy) = start(&[]);
    for (line, host, status) in [
        ("GET http://PROXY/x HTTP/1.1", "PROXY", 201),
        ("GET http://evil.test/x HTTP/1.1", "evil.test", 421),
        ("CONNECT evil.test:443 HTTP/1.1", "evil.test:443", 501),
    ] {
        assert_eq!(ask(&proxy, &[line, &format!("Host: {host}")]).status(), status, "{line}");
    }
    assert_eq!(upstream.arrivals(), 1);
}

#[test]
fn it_listens_for_other_machines_where_that_is_said() {
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let proxy = Serve::start_at("0.0.0.0:0", &upstream.url(), &[UNLIMITED, "--open"]);
    assert_eq!(ask(&proxy, &["GET /x HTTP/1.1", "Host: 192.0.2.1:8000"]).status(), 200);
}
