//! What changes in a message because it goes through an intermediary's hands, and what is answered there.

use std::net::IpAddr;

use http::{HeaderValue, Request, Version};
use sopan_core::headers::ForwardedPolicy;
use sopan_engine::body::Source;
use sopan_engine::exchange::Hop;
use sopan_engine::{Settings, Target};
use sopan_fake::script::{self, Answer};

use crate::support::{Bench, Got, get, request, s};

fn fine(_: &script::Request) -> Answer {
    Answer::json(200, "{}")
}

fn hop() -> Hop {
    let base = Some(HeaderValue::from_static("127.0.0.1:8000"));
    Hop { peer: Some(IpAddr::from([127, 0, 0, 9])), base, takes_lines: false }
}

fn with(mut request: Request<Source>, fields: &[(&'static str, &'static str)]) -> Request<Source> {
    for (name, value) in fields {
        request.headers_mut().append(*name, HeaderValue::from_static(value));
    }
    request
}

/// The values of all lines of a field.
fn lines<'g>(got: &'g Got, name: &str) -> Vec<&'g str> {
    got.response.headers().get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
}

fn at_prefix(settings: &mut Settings) {
    settings.target = Target::parse("http://upstream.test/v2").unwrap();
}

#[tokio::test(start_paused = true)]
async fn both_sides_learn_through_whose_hands_it_went() {
    let script = |_: &script::Request| Answer::status(200).header("Via", "1.0 cdn (a, b)").header("Via", "1.1 x");
    for (version, last) in [(Version::HTTP_11, "1.1 sopan"), (Version::HTTP_10, "1.0 sopan")] {
        let bench = Bench::new(script, |_| {});
        let mut request = with(get("/x"), &[("via", "1.1 a, 1.0 b"), ("via", "1.1 sopan"), ("connection", "via")]);
        *request.version_mut() = version;
        let got = bench.send_over(hop(), request).await;
        let sent = bench.upstream.request(1);
        let sent = sent.fields.iter().filter(|(name, _)| name == "via").map(|(_, value)| value.as_str());
        assert_eq!(sent.collect::<Vec<_>>(), ["1.1 a, 1.0 b", "1.1 sopan", last]);
        assert_eq!(lines(&got, "via"), ["1.0 cdn (a, b)", "1.1 x", "1.1 sopan"]);
        bench.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_that_asks_by_itself_is_no_intermediary() {
    let script = |_: &script::Request| Answer::status(201).header("Location", "http://upstream.test/v2/1");
    let bench = Bench::new(script, at_prefix);
    let fields = [("x-forwarded-for", "1"), ("max-forwards", "0")];
    let got = bench.send(with(request("OPTIONS", "/x", ""), &fields)).await;
    let sent = bench.upstream.request(1);
    assert_eq!(
        (sent.field("via"), sent.field("x-forwarded-for"), sent.field("max-forwards")),
        (None, Some("1"), Some("0"))
    );
    assert_eq!((got.field("via"), got.field("location")), (None, Some("http://upstream.test/v2/1")));
}

/// sopan answers by itself, and nothing is charged or sent.
#[track_caller]
fn is_own(bench: &Bench, got: &Got, status: u16, reason: &'static str) {
    assert_eq!((got.status(), bench.lines.dialled()), (status, 0));
    assert_eq!(lines(got, "via"), [""; 0]);
    let ended = bench.seen.ended().pop().unwrap();
    assert_eq!((ended.refused, ended.attempts, ended.whole), (Some(reason), 0, true));
    assert_eq!(bench.snapshot().fills[0].tokens, 1.0);
    bench.is_at_rest();
}

fn one_an_hour(settings: &mut Settings) {
    settings.lane.limits = vec!["1/h".parse().unwrap()];
}

#[tokio::test(start_paused = true)]
async fn a_request_that_goes_in_a_circle_is_refused() {
    for (passes, is_refused) in [(8, false), (9, true)] {
        let bench = Bench::new(fine, one_an_hour);
        let fields = vec![("via", "1.1 sopan"); passes];
        let got = bench.send_over(hop(), with(get("/x"), &fields)).await;
        if is_refused {
            is_own(&bench, &got, 502, "proxy-loop");
            assert_eq!(got.field("proxy-status"), Some("sopan; error=proxy_loop_detected"));
        } else {
            assert_eq!(got.status(), 200);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_gone_in_a_circle_is_not_sent_round_again() {
    for (status, arrivals) in [("sopan; error=proxy_loop_detected", 1), ("sopan; error=connection_refused", 3)] {
        let bench = Bench::new(move |_| Answer::status(502).header("Proxy-Status", status), |_| {});
        assert_eq!(bench.send_over(hop(), get("/x")).await.status(), 502);
        assert_eq!(bench.upstream.arrivals(), arrivals, "{status}");
        bench.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_to_go_no_further_is_answered_here() {
    for (method, body, content_type) in [
        (
            "TRACE",
            "TRACE /x?y=1 HTTP/1.1\r\nmax-forwards: 0\r\nconnection: x-hop\r\nx-hop: 1\r\n\r\n",
            Some("message/http"),
        ),
        ("OPTIONS", "", None),
    ] {
        let bench = Bench::new(fine, one_an_hour);
        let fields =
            [("max-forwards", "0"), ("authorization", "Bearer SECRET"), ("connection", "x-hop"), ("x-hop", "1")];
        let got = bench.send_over(hop(), with(request(method, "/x?y=1", ""), &fields)).await;
        is_own(&bench, &got, 200, "max-forwards");
        assert_eq!((got.text(), got.field("content-type"), got.field("allow")), (body, content_type, None));
    }
    let bench = Bench::new(fine, |_| {});
    let got = bench.send_over(hop(), with(request("OPTIONS", "*", ""), &[("max-forwards", "1")])).await;
    assert_eq!((got.status(), bench.upstream.request(1).field("max-forwards")), (200, Some("0")));
}

#[tokio::test(start_paused = true)]
async fn the_upstream_learns_of_the_client_what_is_wished() {
    let sent = [("forwarded", "for=10.0.0.1"), ("x-forwarded-for", "10.0.0.1"), ("x-real-ip", "10.0.0.1")];
    let element = "for=127.0.0.9;host=\"127.0.0.1:8000\";proto=http";
    for (policy, forwarded, x_forwarded_for) in [
        (ForwardedPolicy::Off, &[][..], None),
        (ForwardedPolicy::Pass, &["for=10.0.0.1"], Some("10.0.0.1")),
        (ForwardedPolicy::Rfc7239, &["for=10.0.0.1", element], Some("10.0.0.1")),
        (ForwardedPolicy::XForwarded, &["for=10.0.0.1"], Some("10.0.0.1, 127.0.0.9")),
    ] {
        let bench = Bench::new(fine, |settings| settings.forwarded = policy);
        bench.send_over(hop(), with(get("/x"), &sent)).await;
        let request = bench.upstream.request(1);
        let lines: Vec<_> =
            request.fields.iter().filter(|(name, _)| name == "forwarded").map(|(_, value)| value.as_str()).collect();
        assert_eq!((&lines[..], request.field("x-forwarded-for")), (forwarded, x_forwarded_for), "{policy:?}");
        assert_eq!(request.field("x-real-ip").is_some(), policy != ForwardedPolicy::Off);
    }
}

/// Where its clients have a prefix of their own, it goes off and comes back.
#[tokio::test(start_paused = true)]
async fn what_clients_have_in_front_of_a_path_is_not_sent_and_comes_back_in_links() {
    let script = |_: &script::Request| {
        let answer = Answer::status(201).header("Location", "/v2/orders/7").header("Content-Location", "/v2/eu/7");
        answer.header("Link", "<http://upstream.test/v2/x>; rel=next")
    };
    let bench = Bench::new(script, |settings| {
        at_prefix(settings);
        settings.mount = "/shop".to_owned();
        settings.elsewhere = vec!["/shop/eu".to_owned()];
    });
    let got = bench.send_over(hop(), get("/shop/orders?page=1")).await;
    assert_eq!(bench.upstream.request(1).target, "/v2/orders?page=1");
    assert_eq!(got.field("location"), Some("/shop/orders/7"));
    // Another upstream would be asked.
    assert_eq!(got.field("content-location"), Some("http://upstream.test/v2/eu/7"));
    assert_eq!(got.field("link"), Some("<http://127.0.0.1:8000/shop/x>; rel=next"));
    drop(got);
    assert_eq!(bench.seen.ended()[0].what, "GET /shop/orders?page=1 201");
}

#[tokio::test(start_paused = true)]
async fn links_to_the_upstream_lead_to_the_proxy_also_in_an_answer_that_was_kept() {
    let script = |request: &script::Request| {
        let status = if request.target == "/v2/kept" { 503 } else { 301 };
        if request.number > 1 {
            return Answer::nothing().close();
        }
        let answer = Answer::status(status)
            .header("Location", "/v2/orders")
            .header("Content-Location", "http://UPSTREAM.test/v2/1");
        answer.header("Link", "<http://upstream.test/v2/orders?page=2>; rel=\"next\"").header("Link", "</other>")
    };
    let ours = ["/orders", "http://127.0.0.1:8000/1", "<http://127.0.0.1:8000/orders?page=2>; rel=\"next\""];
    let theirs = ["/v2/orders", "http://UPSTREAM.test/v2/1", "<http://upstream.test/v2/orders?page=2>; rel=\"next\""];
    let (other, unchanged) = ("<http://upstream.test/other>", "</other>");
    let unknown = Hop { base: None, ..hop() };
    for (path, is_on, hop, expected, other) in [
        ("/passed", true, hop(), ours, other),
        ("/kept", true, hop(), ours, other),
        ("/passed", false, hop(), theirs, unchanged),
        ("/kept", false, hop(), theirs, unchanged),
        ("/passed", true, unknown, theirs, unchanged),
    ] {
        let bench = Bench::new(script, |settings| {
            at_prefix(settings);
            settings.rewrite_links = is_on;
            settings.retry.total_timeout = Some(s(60));
        });
        let got = bench.send_over(hop, get(path)).await;
        assert_eq!(got.status(), if path == "/kept" { 503 } else { 301 });
        assert_eq!((got.field("location"), got.field("content-location")), (Some(expected[0]), Some(expected[1])));
        assert_eq!(lines(&got, "link"), [expected[2], other], "{path}");
        assert_eq!(lines(&got, "via"), ["1.1 sopan"], "{path}");
    }
}
