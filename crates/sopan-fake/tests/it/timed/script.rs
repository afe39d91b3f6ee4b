use std::io::ErrorKind;
use std::time::Duration;

use sopan_fake::script::{Answer, Farewell, Upstream};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::{GET, listener};
use crate::client::Client;

#[tokio::test]
async fn a_scripted_upstream_sends_fin_and_rst() {
    for (answer, ends_with_reset) in [
        (Answer::nothing().close(), false),
        (Answer::nothing().reset(), true),
        (Answer::chunked(200).chunk("abc").sleep(Duration::from_millis(50)).reset(), true),
    ] {
        let upstream = Upstream::listen(move |_| answer.clone()).await;
        let mut client = Client::new(TcpStream::connect(upstream.address()).await.unwrap());
        client.send(GET).await;
        let end = client.rest().await.1;
        assert_eq!(end.err().map(|error| error.kind()), ends_with_reset.then_some(ErrorKind::ConnectionReset));
        assert_eq!(upstream.answered(1).await.number, 1);
    }
}

#[tokio::test]
async fn a_close_is_fin_even_with_a_body_unread() {
    let refused = Answer::status(413).early().after(Duration::from_millis(50)).close();
    let upstream = Upstream::listen(move |_| refused.clone()).await;
    let mut client = Client::new(TcpStream::connect(upstream.address()).await.unwrap());
    client.send("PUT / HTTP/1.1\r\nHost: u\r\nContent-Length: 9\r\n\r\n").await;
    upstream.arrived(1).await;
    client.send("unread").await;
    upstream.answered(1).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (text, end) = client.rest().await;
    assert!(text.starts_with("HTTP/1.1 413 ") && end.is_ok(), "{text:?} {end:?}");
}

#[tokio::test]
async fn a_scripted_upstream_tells_fin_from_rst() {
    for (is_reset, how) in [(false, Farewell::Closed), (true, Farewell::Reset)] {
        let upstream = Upstream::listen(|_| Answer::nothing().hang()).await;
        let mut client = Client::new(TcpStream::connect(upstream.address()).await.unwrap());
        client.send(GET).await;
        upstream.arrived(1).await;
        if is_reset {
            client.io.set_zero_linger().unwrap();
        }
        drop(client);
        assert_eq!(timeout(Duration::from_secs(5), upstream.peer_gone(1)).await.unwrap().how, how);
    }
}

#[tokio::test]
async fn an_upstream_can_come_and_go_on_one_port() {
    let port = listener().await;
    let address = port.local_addr().unwrap();
    drop(port);
    assert_eq!(TcpStream::connect(address).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    let upstream = Upstream::listen_on(TcpListener::bind(address).await.unwrap(), |_| Answer::json(200, "{}"));
    let mut client = Client::new(TcpStream::connect(address).await.unwrap());
    assert_eq!(client.ask(GET).await.status, 200);
    assert_eq!(upstream.url(), format!("http://{address}"));
    upstream.stop().await;
    assert_eq!(timeout(Duration::from_secs(5), client.rest()).await.unwrap().0, "");
    assert_eq!(TcpStream::connect(address).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(upstream.arrivals(), 1);
}
