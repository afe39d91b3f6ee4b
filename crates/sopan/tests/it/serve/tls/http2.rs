//! An upstream that offers HTTP/2 over TLS, and many clients of HTTP/1.1 in front.

use std::sync::{Arc, Mutex};
use std::thread;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, server};
use http::{Request, Response, Version};
use sopan_fake::script::{Answer, Upstream};
use tokio_rustls::TlsAcceptor;

use super::super::door::{Background, Serve};
use super::super::wire::{chunked, request};
use super::Authority;

/// An upstream that says what it was asked, and counts its connections by what was agreed on.
struct Offering {
    port: u16,
    agreed: Arc<Mutex<Vec<Version>>>,
    _background: Background,
}

impl Offering {
    fn start(acceptor: TlsAcceptor) -> Self {
        let background = Background::start();
        let listener = background.run(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let agreed = Arc::<Mutex<Vec<_>>>::default();
        let plain = Arc::new(Upstream::in_process(|_| Answer::json(200, "{}")));
        let seen = Arc::clone(&agreed);
        background.spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let Ok(stream) = acceptor.accept(socket).await else { continue };
                if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
                    seen.lock().unwrap().push(Version::HTTP_11);
                    plain.serve_io(stream);
                    continue;
                }
                seen.lock().unwrap().push(Version::HTTP_2);
                tokio::spawn(async move {
                    let mut served = server::handshake(stream).await.unwrap();
                    while let Some(Ok((request, respond))) = served.accept().await {
                        tokio::spawn(echo(request, respond));
                    }
                });
            }
        });
        Self { port, agreed, _background: background }
    }

    fn agreed(&self) -> Vec<Version> {
        self.agreed.lock().unwrap().clone()
    }
}

/// Sends back the body that came.
async fn echo(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let response = Response::builder().header("x-asked", format!("{} {}", request.method(), request.uri()));
    let (mut body, mut bytes) = (request.into_body(), Vec::new());
    while let Some(Ok(piece)) = body.data().await {
        body.flow_control().release_capacity(piece.len()).unwrap();
        bytes.extend_from_slice(&piece);
    }
    let mut sending = respond.send_response(response.body(()).unwrap(), false).unwrap();
    let mut bytes = Bytes::from(bytes);
    while !bytes.is_empty() {
        sending.reserve_capacity(bytes.len());
        let Some(Ok(room)) = std::future::poll_fn(|cx| sending.poll_capacity(cx)).await else { return };
        sending.send_data(bytes.split_to(room), false).unwrap();
    }
    let _ = sending.send_data(bytes, true);
}

#[test]
fn clients_share_one_connection_to_an_upstream_that_offers_http_2() {
    let authority = Authority::new();
    let offering = Offering::start(authority.agreeing(&[b"h2", b"http/1.1"]));
    let url = format!("https://localhost:{}", offering.port);
    let proxy = Serve::start(&url, &["--rate unlimited", "--workers 2", &authority.flag()]);
    // The first connection tells which version is spoken.
    assert_eq!(proxy.get("/first").whole(), Some((200, 0)));
    let body = "y".repeat(300_000);
    thread::scope(|threads| {
        for number in 0..8 {
            let (proxy, body) = (&proxy, &body);
            threads.spawn(move || {
                // Their connections are dealt to both workers.
                let mut client = proxy.connect();
                for _ in 0..3 {
                    client.send(chunked("PUT", &format!("/{number}"), body.as_bytes(), &[10_000, 77]));
                    let reply = client.reply();
                    assert!(reply.status() == 200 && reply.body == body.as_bytes());
                    assert_eq!(client.get("/x?y").whole(), Some((200, 0)));
                }
            });
        }
    });
    let mut client = proxy.connect();
    client.send(request("DELETE", "/a//b?c=%2f", "Connection: x-hop\r\nX-Hop: 1\r\n"));
    let asked = format!("DELETE {url}/a//b?c=%2f");
    let reply = client.reply();
    assert_eq!((reply.field("x-asked"), reply.field("via")), (Some(&*asked), Some("2 sopan")));
    assert_eq!(offering.agreed(), [Version::HTTP_2]);
    proxy.await_rest();
}

#[test]
fn http_2_can_be_switched_off_and_is_not_insisted_on() {
    let authority = Authority::new();
    for (protocols, flag) in [(&[&b"h2"[..], b"http/1.1"][..], "--http2 off"), (&[b"http/1.1"], "--http2 on")] {
        let offering = Offering::start(authority.agreeing(protocols));
        let url = format!("https://localhost:{}", offering.port);
        let proxy = Serve::start(&url, &["--rate unlimited", flag, &authority.flag()]);
        assert_eq!(proxy.get("/x").whole(), Some((200, 2)));
        assert_eq!(offering.agreed(), [Version::HTTP_11]);
    }
    // Where nothing else is spoken, it says so.
    let offering = Offering::start(authority.agreeing(&[b"h2"]));
    let url = format!("https://localhost:{}", offering.port);
    let proxy = Serve::start(&url, &["--rate unlimited", "--http2 off", &authority.flag()]);
    let reply = proxy.get("/x");
    let error = "sopan; error=tls_alert_received; alert-id=120; alert-message=no_application_protocol";
    assert_eq!((reply.status(), reply.field("proxy-status")), (502, Some(error)));
}
