//! TLS that does not come about: each way has its own words, for whoever asks and for whoever runs the proxy.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, date_time_ymd};
use sopan_fake::script::Answer;

use super::super::door::Serve;
use super::super::wire::{post, request};
use super::{Authority, Secure, unchanged};

const QUICK: [&str; 2] = ["--rate unlimited", "--backoff-base 1ms"];

fn flags(more: &[String]) -> Vec<&str> {
    QUICK.into_iter().chain(more.iter().map(String::as_str)).collect()
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused_and_nothing_is_sent() {
    let (authority, other) = (Authority::new(), Authority::new());
    let expired = |params: &mut CertificateParams| params.not_after = date_time_ymd(2020, 1, 1);
    let not_yet = |params: &mut CertificateParams| params.not_before = date_time_ymd(2200, 1, 1);
    let for_clients =
        |params: &mut CertificateParams| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let of_authority = |params: &mut CertificateParams| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ours = &[authority.flag()];
    for (acceptor, more, body, log) in [
        (
            authority.acceptor(&["localhost"], unchanged),
            &[][..],
            "it is signed by nobody that is trusted (ca_file)",
            "it is signed by nobody that is trusted, perhaps by itself; add its authority",
        ),
        (
            other.acceptor(&["localhost"], unchanged),
            ours,
            "it is signed by nobody that is trusted (ca_file)",
            "it is signed by nobody that is trusted, perhaps by itself; add its authority",
        ),
        (
            authority.acceptor(&["inner.test"], unchanged),
            ours,
            "it is for another name",
            "it is not for localhost, but for inner.test",
        ),
        (authority.acceptor(&["localhost"], expired), ours, "it has expired", "it expired "),
        (authority.acceptor(&["localhost"], not_yet), ours, "it is not valid yet", "it is not valid yet, but in "),
        (authority.acceptor(&["localhost"], for_clients), ours, "it is not for servers", "its extended key usage "),
        (
            authority.acceptor(&["localhost"], of_authority),
            ours,
            "it is a certificate of an authority, which a server must not show",
            "it is a certificate of an authority (CA:TRUE)",
        ),
    ] {
        let secure = Secure::start(acceptor, |_| Answer::json(200, "{}"));
        let proxy = Serve::start(&format!("https://localhost:{}", secure.port), &flags(more));
        for bytes in [request("GET", "/x", "Authorization: Bearer SECRET\r\n"), post("/x", "{}")] {
            let mut client = proxy.connect();
            client.send(bytes);
            let reply = client.reply();
            let error = "sopan; error=tls_certificate_error";
            assert_eq!((reply.status(), reply.field("proxy-status")), (502, Some(error)), "{log}");
            assert_eq!(reply.problem().1, format!("the certificate of the upstream was not accepted: {body}"));
        }
        assert_eq!((secure.upstream.arrivals(), secure.upstream.connections().len()), (0, 0), "{log}");
        // Whoever runs the proxy is told more than its clients.
        let said = proxy.await_logged("WARN", 1);
        assert!(said[0].contains(&format!("invalid peer certificate: {log}")), "{said:?}");
    }
}

/// A server that waits for the first bytes of each connection, says this, and closes it.
fn saying(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            assert_ne!(socket.read(&mut [0; 16_384]).unwrap(), 0);
            // It may have been left meanwhile.
            let _ = socket.write_all(answer);
        }
    });
    format!("https://{address}")
}

/// The greeting of a server that speaks TLS 1.0 and nothing later.
fn old_hello() -> &'static [u8] {
    let body = [&[3, 1][..], &[7; 32], &[0, 0, 0x2f, 0]].concat();
    let message = [&[2, 0, 0, body.len() as u8][..], &body].concat();
    [&[22, 3, 1, 0, message.len() as u8][..], &message].concat().leak()
}

#[test]
fn a_handshake_that_fails_says_in_which_way() {
    let authority = Authority::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let secure = Secure::start(authority.acceptor(&["127.0.0.1"], unchanged), |_| Answer::json(200, "{}"));
    let incompatible = "the upstream knows no version or cipher of TLS that sopan knows";
    let not_tls = "the upstream does not speak TLS on this port; is its URL to begin with http://?";
    for (url, status, error, detail, log) in [
        (
            saying(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"),
            502,
            "tls_protocol_error",
            not_tls,
            "connection failed: what answers there does not speak TLS; is the URL to begin with http://?",
        ),
        (
            saying(b"SSH-2.0-OpenSSH_9.2\r\n"),
            502,
            "tls_protocol_error",
            not_tls,
            "connection failed: what answers there does not speak TLS; is the URL to begin with http://?",
        ),
        (
            saying(&[21, 3, 1, 0, 2, 2, 70]),
            502,
            "tls_alert_received; alert-id=70; alert-message=protocol_version",
            "the upstream ended TLS with the alert `protocol version`: it speaks neither TLS 1.2 nor TLS 1.3",
            "connection failed: TLS was ended with the alert `protocol version`",
        ),
        (
            saying(&[21, 3, 3, 0, 2, 2, 40]),
            502,
            "tls_alert_received; alert-id=40; alert-message=handshake_failure",
            "the upstream ended TLS with the alert `handshake failure`: it knows no cipher that sopan knows, or wants a \
             client certificate (client_cert, client_key)",
            "connection failed: TLS was ended with the alert `handshake failure`",
        ),
        (
            saying(old_hello()),
            502,
            "tls_protocol_error",
            incompatible,
            "connection failed: no version or cipher of TLS is known on both sides: ",
        ),
        (
            saying(b""),
            502,
            "connection_terminated",
            "the upstream closed the connection in the TLS handshake",
            "connection failed: closed in the TLS handshake",
        ),
        (
            format!("https://{}", silent.local_addr().unwrap()),
            504,
            "connection_timeout",
            "no connection to the upstream came about in time",
            "connection failed: no connection in time",
        ),
        (
            format!("http://127.0.0.1:{}", secure.port),
            502,
            "http_protocol_error",
            "the upstream speaks TLS on this port; is its URL to begin with https://?",
            "connection broken: what answers there speaks TLS; is the URL to begin with https://?",
        ),
    ] {
        // Only silence is to last so long.
        let patience = if status == 504 { "--connect-timeout 500ms" } else { "--connect-timeout 20s" };
        let more = ["--max-retries 0".to_owned(), patience.to_owned(), authority.flag()];
        let proxy = Serve::start(&url, &flags(&more));
        let reply = proxy.get("/x");
        let error = format!("sopan; error={error}");
        assert_eq!((reply.status(), reply.field("proxy-status")), (status, Some(&*error)), "{url} {log}");
        assert_eq!(reply.problem().1, detail);
        let said = proxy.await_logged("WARN", 1);
        assert!(said[0].contains(log), "{said:?}");
    }
    assert_eq!(secure.upstream.arrivals(), 0);
}

#[test]
fn an_upstream_that_wants_to_know_its_clients_is_shown_a_certificate() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let ((known, _files), (unknown, _others)) = (authority.client(), stranger.client());
    for version in rustls::ALL_VERSIONS {
        let secure = Secure::start(authority.wary(version, &[]), |_| Answer::json(200, "{}"));
        let url = format!("https://localhost:{}", secure.port);
        let with = |client: &[String]| Serve::start(&url, &flags(&[&[authority.flag()][..], client].concat()));
        let proxy = with(&known);
        assert_eq!(proxy.get("/x").whole(), Some((200, 2)));
        assert_eq!(secure.upstream.arrivals(), 1);

        // TLS 1.2 turns it away in the handshake, TLS 1.3 at the first read: both are told, and neither is asked again.
        for (client, says) in [(&[][..], "certificate"), (&unknown, "it does not accept the client certificate")] {
            let proxy = with(client);
            for bytes in [request("GET", "/x", ""), post("/x", "{}")] {
                let mut client = proxy.connect();
                client.send(bytes);
                let reply = client.reply();
                let detail = reply.problem().1;
                assert!(reply.field("proxy-status").unwrap().starts_with("sopan; error=tls_alert_received; alert-id="));
                assert!(reply.status() == 502 && detail.contains(says) && detail.contains("client_cert"), "{detail}");
                assert!(!detail.contains("not known"), "nothing was done: {detail}");
            }
            let said = proxy.await_logged("WARN", 2);
            assert!(
                said.iter().all(|line| line.contains("attempt 1 failed (connection failed: TLS was ended")),
                "{said:?}"
            );
        }
        assert_eq!(secure.upstream.arrivals(), 1);

        // Over HTTP/2 it is turned away before it has asked at all.
        let secure = Secure::start(authority.wary(version, &[b"h2"]), |_| Answer::json(200, "{}"));
        let proxy = Serve::start(&format!("https://localhost:{}", secure.port), &flags(&[authority.flag()]));
        let detail = proxy.get("/x").problem().1;
        assert!(detail.contains("the upstream ended TLS with the alert `"), "{detail}");
    }
}
