//! Both doubles over real sockets, in real time: what only a kernel can show.

use tokio::net::TcpListener;

mod api;
mod script;

const GET: &str = "GET /api/v1/health HTTP/1.1\r\nHost: u\r\n\r\n";

async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}
