//! An HTTP server in front of the engine, and a raw client at it: for bodies that a client sends bit by bit, for what it
//! sees byte by byte, and for what happens when it hangs up.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use http::Request;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sopan_core::queue::ClientId;
use sopan_engine::body::{BodyError, Source};
use sopan_engine::exchange::{self, Inbound};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::{Bench, within_patience};

/// What a connection holds in each direction before its writer must wait; about a socket's buffer.
const DUPLEX_BYTES: usize = 64 * 1024;

impl Bench {
    /// A client of its own connection to a server that hands every request to the engine. It hangs up when it is dropped.
    pub(crate) fn door(&self) -> Client {
        let (ours, theirs) = tokio::io::duplex(DUPLEX_BYTES);
        let engine = Arc::clone(&self.engine);
        let service = service_fn(move |request: Request<Incoming>| {
            let engine = Arc::clone(&engine);
            async move {
                let source = |incoming: Incoming| Source::Stream(Box::pin(incoming.map_err(|_| BodyError::Broken)));
                let request = request.map(source);
                let inbound = Inbound { request, client: ClientId(1), weight: 1, interims: None, hop: None };
                Ok::<_, Infallible>(exchange::call(&engine, inbound).await.response)
            }
        });
        // A client that breaks off is no news to a server.
        tokio::spawn(async move { drop(http1::Builder::new().serve_connection(TokioIo::new(ours), service).await) });
        Client { io: theirs, read: Vec::new() }
    }
}

/// Bytes out, bytes in.
pub(crate) struct Client {
    pub(crate) io: DuplexStream,
    read: Vec<u8>,
}

/// A response head.
#[derive(Debug)]
pub(crate) struct Head(pub(crate) String);

impl Head {
    pub(crate) fn status(&self) -> u16 {
        self.0[9..12].parse().unwrap()
    }

    /// The value of the first field of that name.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.0.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Client {
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.io.write_all(bytes.as_ref()).await.unwrap();
    }

    /// One chunk of a chunked body.
    pub(crate) async fn send_chunk(&mut self, content: &[u8]) {
        self.send(format!("{:x}\r\n", content.len())).await;
        self.send(content).await;
        self.send("\r\n").await;
    }

    /// The next response head.
    pub(crate) async fn head(&mut self) -> Head {
        Head(String::from_utf8(self.through(b"\r\n\r\n").await).unwrap())
    }

    /// All that comes up to these bytes, and they themselves.
    pub(crate) async fn through(&mut self, end: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = self.read.windows(end.len()).position(|bytes| bytes == end) {
                return self.read.drain(..at + end.len()).collect();
            }
            self.more().await;
        }
    }

    /// The next so many bytes.
    pub(crate) async fn bytes(&mut self, count: usize) -> Vec<u8> {
        while self.read.len() < count {
            self.more().await;
        }
        self.read.drain(..count).collect()
    }

    /// All that is here already.
    pub(crate) fn here(&mut self) -> Vec<u8> {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let mut space = [0; 4096];
        loop {
            let mut buffer = tokio::io::ReadBuf::new(&mut space);
            let poll = tokio::io::AsyncRead::poll_read(std::pin::Pin::new(&mut self.io), &mut cx, &mut buffer);
            if poll.is_pending() || buffer.filled().is_empty() {
                return std::mem::take(&mut self.read);
            }
            self.read.extend_from_slice(buffer.filled());
        }
    }

    /// Everything until the connection ends.
    pub(crate) async fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = std::mem::take(&mut self.read);
        within_patience(self.io.read_to_end(&mut bytes)).await.map(|_| bytes)
    }

    async fn more(&mut self) {
        let read = within_patience(self.io.read_buf(&mut self.read)).await.unwrap();
        let so_far = String::from_utf8_lossy(&self.read);
        assert!(read > 0, "the connection ended after {so_far:?}");
    }
}
