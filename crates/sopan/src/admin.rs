//! The admin side, on a port of its own: `/healthz` says that the program runs, `/metrics` what it does.

mod metrics;
pub(crate) mod state;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

pub(crate) use metrics::Metrics;

/// As the specification of OpenMetrics 1.0 wants it.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A scraper or two, and somebody who looks.
const CONNECTIONS_MAX: usize = 64;
/// How long a connection may take in all.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(10);
/// When no connection can be accepted (out of file descriptors, say), the next attempt comes after this.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Serves until `stop` is ready, and then ends at once: whoever scrapes comes again.
pub(crate) async fn serve(listener: TcpListener, metrics: Arc<Metrics>, stop: impl Future<Output = ()>) {
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/metrics", get(show))
        .fallback(|| async { (StatusCode::NOT_FOUND, "there are /healthz and /metrics\n") })
        .with_state(metrics);
    let mut stop = pin!(stop);
    // Not `axum::serve`, which bounds neither connections nor how long they take, and leaves them behind.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = &mut stop => return,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((socket, _)) => drop(connections.spawn(serve_socket(socket, router.clone()))),
                Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
            },
        }
    }
}

async fn serve_socket(socket: TcpStream, router: Router) {
    let mut http = http1::Builder::new();
    http.keep_alive(false);
    // A connection that breaks is the scraper's business; one that does not read its answer would keep others out.
    let served = http.serve_connection(TokioIo::new(socket), TowerToHyperService::new(router));
    let _ = tokio::time::timeout(CONNECTION_TIME_MAX, served).await;
}

async fn show(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, OPEN_METRICS)], metrics.text())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::oneshot;

    use super::*;

    async fn get(address: std::net::SocketAddr, path: &str) -> String {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn it_says_that_it_runs_and_what_it_does_until_it_is_stopped() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(serve(listener, Metrics::new([], None), async { drop(stopped.await) }));
        let health = get(address, "/healthz").await;
        assert!(health.starts_with("HTTP/1.1 200 OK\r\n") && health.ends_with("\r\n\r\nok\n"), "{health}");
        let metrics = get(address, "/metrics").await;
        assert!(metrics.contains(&format!("\r\ncontent-type: {OPEN_METRICS}\r\n")), "{metrics}");
        assert!(metrics.ends_with("# EOF\n"));
        assert!(get(address, "/").await.starts_with("HTTP/1.1 404 Not Found\r\n"));
        // One that is open meanwhile is closed with the rest.
        let mut idle = TcpStream::connect(address).await.unwrap();
        stop.send(()).unwrap();
        serving.await.unwrap();
        assert_eq!(idle.read(&mut [0]).await.unwrap_or(0), 0);
        TcpStream::connect(address).await.unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_keeps_others_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(serve(listener, Metrics::new([], None), std::future::pending()));
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        assert!(get(address, "/healthz").await.ends_with("ok\n"));
        serving.abort();
    }
}
