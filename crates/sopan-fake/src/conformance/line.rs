//! A client's connection, byte by byte: what was sent, what came back, how it ended.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::reply::{Asked, Ended, Reply, find};

/// So much is read of what comes back; what says more is not waited for.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// Between two pieces, so that the first is read before the second comes.
const APART: Duration = Duration::from_millis(2);

/// A connection to the proxy.
#[derive(Debug)]
pub struct Line {
    socket: TcpStream,
    /// What has come and is not used yet.
    read: Vec<u8>,
    /// What has come and is used.
    used: Vec<u8>,
    ended: Option<Ended>,
}

impl Line {
    /// Connects.
    ///
    /// # Errors
    /// Whatever the system says where nobody listens.
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        // What is sent in two pieces shall arrive in two.
        socket.set_nodelay(true)?;
        Ok(Self { socket, read: Vec::new(), used: Vec::new(), ended: None })
    }

    /// Sends, and reads meanwhile: whoever is refused in the middle must still hear it. False where the proxy takes no
    /// more.
    pub async fn send(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() && self.ended.is_none() {
            let (mut from, mut to) = self.socket.split();
            tokio::select! {
                biased;
                wrote = to.write(bytes) => match wrote {
                    Ok(wrote) => bytes = &bytes[wrote..],
                    // What was answered before is still to be read.
                    Err(_) => return false,
                },
                got = from.read_buf(&mut self.read) => self.note(&got),
            }
        }
        bytes.is_empty()
    }

    /// Closes the sending half.
    pub async fn finish(&mut self) {
        // Where it fails the connection is gone, which the next read tells.
        let _ = self.socket.shutdown().await;
    }

    /// The next answer, if one comes by then or one that is cut has come.
    pub async fn answer(&mut self, asked: Asked, by: Instant) -> Option<Reply> {
        loop {
            if let Some((reply, used)) = Reply::read(&self.read, asked, self.ended) {
                self.use_up(used);
                return Some(reply);
            }
            if !self.more(by).await {
                // What was cut is readable now that no more comes.
                let (mut reply, used) = Reply::read(&self.read, asked, self.ended.or(Some(Ended::Reset)))?;
                reply.hangs = self.ended.is_none();
                self.use_up(used);
                return Some(reply);
            }
        }
    }

    /// Whether the head of an interim answer with that status is the next that comes. It stays to be read with the
    /// answer that follows.
    pub async fn interim(&mut self, status: u16, by: Instant) -> bool {
        let begins = format!("HTTP/1.1 {status} ");
        loop {
            if find(&self.read, b"\r\n\r\n").is_some() {
                return self.read.starts_with(begins.as_bytes());
            }
            if !self.more(by).await {
                return false;
            }
        }
    }

    /// So many bytes as they come, or those that there are when the time is over or the connection ended.
    pub async fn take(&mut self, count: usize, by: Instant) -> Vec<u8> {
        while self.read.len() < count && self.more(by).await {}
        let count = count.min(self.read.len());
        self.use_up(count)
    }

    /// Reads until the connection has ended; none if it does not by then.
    pub async fn end(&mut self, by: Instant) -> Option<Ended> {
        while self.more(by).await {}
        self.ended
    }

    /// All answers to plain requests, until the connection has ended; what is left in [`rest`](Line::rest) then is none.
    pub async fn answers(&mut self, by: Instant) -> (Vec<Reply>, Option<Ended>) {
        let mut replies = Vec::new();
        let ended = self.end(by).await;
        while let Some((reply, used)) = Reply::read(&self.read, Asked::Plain, ended) {
            self.use_up(used);
            replies.push(reply);
        }
        (replies, ended)
    }

    /// All that has come, used or not.
    pub fn heard(&self) -> Vec<u8> {
        [&self.used[..], &self.read].concat()
    }

    /// What has come and was not used.
    pub fn rest(&self) -> &[u8] {
        &self.read
    }

    fn use_up(&mut self, count: usize) -> Vec<u8> {
        let piece: Vec<_> = self.read.drain(..count).collect();
        self.used.extend_from_slice(&piece);
        piece
    }

    /// Reads once; false when nothing more comes by then, or ever.
    async fn more(&mut self, by: Instant) -> bool {
        if self.ended.is_some() || self.read.len() > BYTES_MAX {
            return false;
        }
        match timeout_at(by, self.socket.read_buf(&mut self.read)).await {
            Ok(got) => {
                self.note(&got);
                self.ended.is_none()
            }
            Err(_) => false,
        }
    }

    fn note(&mut self, got: &io::Result<usize>) {
        match got {
            Ok(0) => self.ended = Some(Ended::Closed),
            Ok(_) => {}
            Err(_) => self.ended = Some(Ended::Reset),
        }
    }
}

/// What came back to one message.
#[derive(Debug)]
pub struct Heard {
    /// The answers, as to plain requests.
    pub replies: Vec<Reply>,
    /// How the connection ended; none where it did not in time.
    pub ended: Option<Ended>,
    /// What came and is no answer.
    pub rest: Vec<u8>,
}

/// Sends a message on a connection of its own, perhaps in two pieces that are read apart, and hears until its end.
///
/// # Errors
/// Where nobody listens.
pub async fn hear(proxy: SocketAddr, bytes: &[u8], cut: Option<usize>, patience: Duration) -> io::Result<Heard> {
    let mut line = Line::connect(proxy).await?;
    let (first, second) = bytes.split_at(cut.unwrap_or(bytes.len()));
    // Who stops to listen has answered before, which is what counts.
    line.send(first).await;
    if !second.is_empty() {
        tokio::time::sleep(APART).await;
        line.send(second).await;
    }
    let (replies, ended) = line.answers(Instant::now() + patience).await;
    Ok(Heard { replies, ended, rest: line.rest().to_vec() })
}
