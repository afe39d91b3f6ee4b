//! Upstreams over TLS, vouched for by an authority of the test's own.

mod faults;
mod http2;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::crypto::CryptoProvider;
use rustls::server::{WantsServerCert, WebPkiClientVerifier};
use rustls::{ConfigBuilder, ServerConfig, WantsVerifier};
use rustls_pki_types::PrivateKeyDer;
use sopan_fake::script::{Answer, Request, Upstream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

use super::door::{Background, Serve};
use super::wire::{End, chunked, request};

/// An authority, and its certificate in a file.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: tempfile::NamedTempFile,
}

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // By its name it is known whose signature is looked for.
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        params.distinguished_name.push(DnType::CommonName, format!("authority {}", NUMBER.fetch_add(1, Relaxed)));
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), issuer.pem()).unwrap();
        Self { issuer, file }
    }

    pub(super) fn flag(&self) -> String {
        format!("--ca-file {}", self.file.path().to_str().unwrap())
    }

    /// A server that shows a certificate for these names.
    pub(super) fn acceptor(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> TlsAcceptor {
        let (certificate, key) = self.certify(names, change);
        self.accept(rustls::ALL_VERSIONS, |builder| builder.with_no_client_auth(), &[], &certificate, key)
    }

    /// A server that agrees to the first of these protocols that is offered, and takes nobody else.
    pub(super) fn agreeing(&self, protocols: &[&[u8]]) -> TlsAcceptor {
        let (certificate, key) = self.certify(&["localhost"], unchanged);
        self.accept(rustls::ALL_VERSIONS, |builder| builder.with_no_client_auth(), protocols, &certificate, key)
    }

    /// A server that wants to see certificates of clients that this authority signed.
    fn wary(&self, version: &'static rustls::SupportedProtocolVersion, protocols: &[&[u8]]) -> TlsAcceptor {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build().unwrap();
        let (certificate, key) = self.certify(&["localhost"], unchanged);
        self.accept(&[version], |builder| builder.with_client_cert_verifier(verifier), protocols, &certificate, key)
    }

    fn certify(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> (Certificate, KeyPair) {
        let mut params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    fn accept(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
        clients: impl FnOnce(ConfigBuilder<ServerConfig, WantsVerifier>) -> ConfigBuilder<ServerConfig, WantsServerCert>,
        protocols: &[&[u8]],
        certificate: &Certificate,
        key: KeyPair,
    ) -> TlsAcceptor {
        let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(versions).unwrap();
        let chain = vec![certificate.der().clone()];
        let mut config = clients(builder).with_single_cert(chain, PrivateKeyDer::from(key)).unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }

    /// The flags of a client that this authority has signed, and the files that they name.
    fn client(&self) -> (Vec<String>, [tempfile::NamedTempFile; 2]) {
        let (certificate, key) = self.certify(&["client"], unchanged);
        let files = [certificate.pem(), key.serialize_pem()].map(|pem| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), pem).unwrap();
            file
        });
        let flags = ["--client-cert", "--client-key"].iter().zip(&files);
        (flags.map(|(flag, file)| format!("{flag} {}", file.path().to_str().unwrap())).collect(), files)
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// A scripted upstream behind TLS.
pub(super) struct Secure {
    pub(super) upstream: Arc<Upstream>,
    pub(super) port: u16,
    _background: Background,
}

impl Secure {
    pub(super) fn start(acceptor: TlsAcceptor, script: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
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

pub(super) fn unchanged(_: &mut CertificateParams) {}

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
