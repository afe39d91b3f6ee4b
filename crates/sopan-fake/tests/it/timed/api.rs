use std::future::pending;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use sopan_fake::{Cut, FakeApi, Settings};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{GET, listener};
use crate::client::Client;

#[tokio::test]
async fn cuts_are_fin_or_rst_as_the_settings_say() {
    for (settings, sent, ends_with_reset) in [
        (Settings { drop_before_head_first: 1, ..Settings::default() }, "", false),
        (Settings { drop_before_head_first: 1, cut: Cut::Reset, ..Settings::default() }, "", true),
        (Settings { drop_in_head_first: 1, ..Settings::default() }, "HTTP/1.1 200 OK\r\n", false),
        (Settings { truncate_first: 1, ..Settings::default() }, r#"{"status"#, false),
        (Settings { truncate_first: 1, cut: Cut::Reset, ..Settings::default() }, r#"{"status"#, true),
    ] {
        let (listener, what) = (listener().await, format!("{settings:?}"));
        let mut client = Client::new(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap());
        tokio::spawn(FakeApi::new(settings).serve(listener, pending()));
        client.send(GET).await;
        let mut got = Vec::new();
        let end = loop {
            match client.io.read_buf(&mut got).await {
                Ok(0) => break None,
                Ok(_) => {}
                Err(error) => break Some(error.kind()),
            }
        };
        assert!(String::from_utf8_lossy(&got).contains(sent), "{what}: {got:?}");
        assert_eq!(end, ends_with_reset.then_some(ErrorKind::ConnectionReset), "{what}");
    }
}

#[tokio::test]
async fn a_stopped_server_closes_its_port_and_its_connections() {
    let listener = listener().await;
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let api = FakeApi::new(Settings::default());
    let serving = tokio::spawn(Arc::clone(&api).serve(listener, async { drop(stopped.await) }));
    let mut client = Client::new(TcpStream::connect(address).await.unwrap());
    assert_eq!(client.ask(GET).await.status, 200);
    stop.send(()).unwrap();
    timeout(Duration::from_secs(5), serving).await.unwrap().unwrap();
    assert_eq!(timeout(Duration::from_secs(5), client.rest()).await.unwrap().0, "");
    assert_eq!(TcpStream::connect(address).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(api.log().len(), 1);
}
