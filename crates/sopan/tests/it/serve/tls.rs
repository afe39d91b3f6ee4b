//! Upstreams over TLS, vouched for by an authority of the test's own.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls_pki_types::PrivateKeyDer;
use sopan_fake::script::{Answer, Request, Upstream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

use super::door::{Background, Serve};
use super::wire::{End, chunked, post, request};

/// An authority, and its certificate in a file.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: tempfile::NamedTempFile,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), issuer.pem()).unwrap();
        Self { issuer, file }
    }

    fn flag(&self) -> String {
        format!("--ca-file {}", self.file.path().to_str().unwrap())
    }

    /// A server that shows a certificate for these names.
    fn acceptor(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> TlsAcceptor {
        let mut params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let config =
            rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::from(key))
                .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// A scripted upstream behind TLS.
struct Secure {
    upstream: Arc<Upstream>,
    port: u16,
    _background: Background,
}

impl Secure {
    fn start(acceptor: TlsAcceptor, script: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let background = Background::start();
        let upstream = Arc::new(Upstream::in_process(script));
        let listener = background.run(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = Arc::clone(&upstream);
        background.spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                // A client that does not trust us ends here.
                if let Ok(stream) = acceptor.accept(socket).await {
                    serving.serve_io(stream);
                }
            }
        });
        Self { upstream, port, _background: background }
    }
}

fn unchanged(_: &mut CertificateParams) {}

#[test]
fn an_upstream_is_reached_over_tls_by_name_and_by_address() {
    let authority = Authority::new();
    let large = vec![b'x'; 1024 * 1024];
    for host in ["localhost", "127.0.0.1"] {
        let answer = large.clone();
        let secure = Secure::start(authority.acceptor(&["localhost", "127.0.0.1"], unchanged), move |request| {
            if request.method == "GET" { Answer::status(200).body(answer.clone()) } else { Answer::json(200, "{}") }
        });
        let url = format!("https://{host}:{}", secure.port);
        let proxy = Serve::start(&url, &["--rate unlimited", "--workers 2", &authority.flag()]);
        let body = "y".repeat(300_000);
        for _ in 0..3 {
            // Over several connections of clients, on both workers.
            let mut client = proxy.connect();
            assert!(client.get("/large").body == large);
            assert_eq!(client.post("/x", &body).whole(), Some((200, 2)));
            client.send(chunked("PUT", "/x", body.as_bytes(), &[10_000, 77]));
            assert_eq!(client.reply().whole(), Some((200, 2)));
        }
        let requests = secure.upstream.requests();
        assert!(requests.iter().filter(|got| got.method != "GET").all(|got| got.body == body.as_bytes()));
        assert!(requests.iter().all(|got| got.field("host") == Some(&*format!("{host}:{}", secure.port))));
        // A handshake costs more than a request.
        assert_eq!((requests.len(), secure.upstream.connections().len()), (9, 1));
        assert_eq!(secure.upstream.unclean(), [""; 0]);
    }
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused_and_nothing_is_sent() {
    let (authority, other) = (Authority::new(), Authority::new());
    let expired = |params: &mut CertificateParams| params.not_after = date_time_ymd(2020, 1, 1);
    for (what, acceptor, flags) in [
        ("an unknown authority", authority.acceptor(&["localhost"], unchanged), &[][..]),
        ("another authority", other.acceptor(&["localhost"], unchanged), &[authority.flag()]),
        ("another name", authority.acceptor(&["example.test"], unchanged), &[authority.flag()]),
        ("an old certificate", authority.acceptor(&["localhost"], expired), &[authority.flag()]),
    ] {
        let secure = Secure::start(acceptor, |_| Answer::json(200, "{}"));
        let flags: Vec<_> =
            ["--rate unlimited", "--backoff-base 1ms"].into_iter().chain(flags.iter().map(String::as_str)).collect();
        let proxy = Serve::start(&format!("https://localhost:{}", secure.port), &flags);
        for bytes in [request("GET", "/x", "Authorization: Bearer SECRET\r\n"), post("/x", "{}")] {
            let mut client = proxy.connect();
            client.send(bytes);
            let reply = client.reply();
            assert_eq!(
                (reply.status(), reply.field("proxy-status")),
                (502, Some("sopan; error=tls_certificate_error")),
                "{what}"
            );
            assert_eq!(reply.problem().1, "the certificate of the upstream was not accepted", "{what}");
        }
        assert_eq!((secure.upstream.arrivals(), secure.upstream.connections().len()), (0, 0), "{what}");
        // Whoever runs the proxy is told more than its clients.
        assert!(proxy.logged("WARN")[0].contains("invalid peer certificate"), "{:?}", proxy.logged("WARN"));
    }
}

#[test]
fn speaking_past_each_other_is_told_apart_from_silence() {
    let authority = Authority::new();
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let plain_address = plain.local_addr().unwrap();
    // What a plain server says to the first bytes of a handshake.
    thread::spawn(move || {
        let (mut socket, _) = plain.accept().unwrap();
        assert_ne!(socket.read(&mut [0; 4096]).unwrap(), 0);
        socket.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").unwrap();
    });
    let secure = Secure::start(authority.acceptor(&["127.0.0.1"], unchanged), |_| Answer::json(200, "{}"));
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for (url, status, error) in [
        (format!("https://{plain_address}"), 502, "tls_protocol_error"),
        (format!("http://127.0.0.1:{}", secure.port), 502, "connection_terminated"),
        (format!("https://{}", silent.local_addr().unwrap()), 504, "connection_timeout"),
    ] {
        let flags = ["--rate unlimited", "--max-retries 0", "--connect-timeout 500ms", &authority.flag()];
        let reply = Serve::start(&url, &flags).get("/x");
        let expected = format!("sopan; error={error}");
        assert_eq!((reply.status(), reply.field("proxy-status")), (status, Some(&*expected)), "{url}");
    }
    assert_eq!(secure.upstream.arrivals(), 0);
}

/// An answer that ends with its connection is whole only if the upstream said over TLS that it ends; anybody on the way can
/// end a TCP connection.
#[test]
fn an_end_that_is_not_vouched_for_is_a_broken_answer() {
    let authority = Authority::new();
    for says_so in [true, false] {
        let background = Background::start();
        let listener = background.run(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let acceptor = authority.acceptor(&["127.0.0.1"], unchanged);
        background.spawn(async move {
            let (socket, _) = listener.accept().await.unwrap();
            let mut stream = acceptor.accept(socket).await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                stream.read_buf(&mut head).await.unwrap();
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nto the end").await.unwrap();
            stream.flush().await.unwrap();
            if says_so {
                stream.shutdown().await.unwrap();
            }
        });
        let proxy = Serve::start(&url, &["--rate unlimited", &authority.flag()]);
        let mut client = proxy.connect();
        client.send(request("GET", "/x", ""));
        match (client.try_reply(), says_so) {
            (Some(reply), _) => assert_eq!((reply.status(), reply.end == End::Whole), (200, says_so), "{reply:?}"),
            // It may be cut before its head has left.
            (None, says_so) => assert!(!says_so),
        }
    }
}
