//! A raw HTTP/1.1 client: bytes out, one answer at a time in.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// One end of a connection, and what was read beyond the last answer.
pub(crate) struct Client<T> {
    pub(crate) io: T,
    read: Vec<u8>,
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The value of the first field of that name.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Client<T> {
    pub(crate) fn new(io: T) -> Self {
        Self { io, read: Vec::new() }
    }

    pub(crate) async fn get(&mut self, target: &str) -> Answer {
        self.ask(&format!("GET {target} HTTP/1.1\r\nHost: u\r\n\r\n")).await
    }

    pub(crate) async fn post(&mut self, target: &str, body: &str) -> Answer {
        let length = body.len();
        self.ask(&format!("POST {target} HTTP/1.1\r\nHost: u\r\nContent-Length: {length}\r\n\r\n{body}")).await
    }

    pub(crate) async fn ask(&mut self, request: &str) -> Answer {
        self.send(request).await;
        self.answer(!request.starts_with("HEAD ")).await.expect("the connection ended before the answer did")
    }

    pub(crate) async fn send(&mut self, bytes: &str) {
        self.io.write_all(bytes.as_bytes()).await.unwrap();
    }

    /// The next answer; none if the connection ends within it. Knows bodies with a length only.
    pub(crate) async fn answer(&mut self, has_body: bool) -> Option<Answer> {
        let head_length = loop {
            if let Some(at) = self.read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
            self.read_more().await?;
        };
        let head = String::from_utf8(self.read.drain(..head_length).collect()).unwrap();
        let mut answer = Answer { status: head[9..12].parse().unwrap(), head, body: String::new() };
        let length = answer.field("content-length").map_or(0, |length| length.parse().unwrap());
        let length = if has_body { length } else { 0 };
        while self.read.len() < length {
            self.read_more().await?;
        }
        answer.body = String::from_utf8(self.read.drain(..length).collect()).unwrap();
        Some(answer)
    }

    /// Everything until the connection ends, and how it ended.
    pub(crate) async fn rest(&mut self) -> (String, io::Result<()>) {
        let mut bytes = std::mem::take(&mut self.read);
        let end = self.io.read_to_end(&mut bytes).await;
        (String::from_utf8(bytes).unwrap(), end.map(|_| ()))
    }

    async fn read_more(&mut self) -> Option<()> {
        let read = self.io.read_buf(&mut self.read).await.ok()?;
        (read > 0).then_some(())
    }
}
