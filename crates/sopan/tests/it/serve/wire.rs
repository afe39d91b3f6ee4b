//! A client of the proxy that speaks HTTP/1.1 byte by byte, and says how every answer ended.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, connect, socket, sockopt};

use crate::support::PATIENCE;

/// A connection to the proxy.
#[derive(Debug)]
pub(super) struct Client {
    socket: TcpStream,
    /// What was read and is not used yet.
    read: Vec<u8>,
}

/// An answer as it came.
pub(super) struct Reply {
    /// The statuses of interim answers before it.
    pub(super) interim: Vec<u16>,
    /// Status line and fields, without the empty line.
    pub(super) head: String,
    pub(super) body: Vec<u8>,
    /// The pieces of a chunked body, as they were cut.
    pub(super) chunks: Vec<usize>,
    pub(super) trailers: Vec<String>,
    pub(super) end: End,
}

/// How an answer ended, as its own framing tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Whole,
    /// The connection ended before the answer did.
    Cut,
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    Fin,
    Reset,
}

/// How a client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// Closes its socket.
    Close,
    /// Breaks the connection, as a crash or a firewall would.
    Reset,
    /// Closes its sending side only.
    HalfClose,
}

impl Client {
    pub(super) fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }

    /// Connects from `127.0.0.host`.
    pub(super) fn connect_from(host: u8, address: SocketAddr) -> Self {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let from = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, host)), 0);
        bind(&socket, &from).unwrap();
        connect(&socket, &address).unwrap();
        Self::over(socket.into())
    }

    pub(super) fn over(socket: TcpStream) -> Self {
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { socket, read: Vec::new() }
    }

    pub(super) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends as far as it is taken; answers whether all was.
    pub(super) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.socket.write_all(bytes.as_ref()).is_ok()
    }

    /// Sends until no more is taken for a while; answers how much was.
    pub(super) fn fill(&mut self, piece: &[u8]) -> usize {
        self.socket.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut sent = 0;
        while let Ok(written @ 1..) = self.socket.write(piece) {
            sent += written;
        }
        sent
    }

    pub(super) fn get(&mut self, target: &str) -> Reply {
        self.send(request("GET", target, ""));
        self.reply()
    }

    pub(super) fn head(&mut self, target: &str) -> Reply {
        self.send(request("HEAD", target, ""));
        self.reply_without_body()
    }

    pub(super) fn post(&mut self, target: &str, body: &str) -> Reply {
        self.send(post(target, body));
        self.reply()
    }

    /// The next answer; the connection must not end before its head.
    #[track_caller]
    pub(super) fn reply(&mut self) -> Reply {
        self.try_reply().expect("the connection ended without an answer")
    }

    /// The next answer, if its head comes.
    pub(super) fn try_reply(&mut self) -> Option<Reply> {
        self.read_reply(true)
    }

    /// The next answer, to a HEAD.
    #[track_caller]
    pub(super) fn reply_without_body(&mut self) -> Reply {
        self.read_reply(false).expect("the connection ended without an answer")
    }

    /// Reads until the text has come, wherever in the answer; what came up to its end is used up.
    #[track_caller]
    pub(super) fn sees(&mut self, text: &str) -> Instant {
        loop {
            let found = self.read.windows(text.len()).position(|window| window == text.as_bytes());
            if let Some(at) = found {
                self.read.drain(..at + text.len());
                return Instant::now();
            }
            let more = self.more();
            assert!(matches!(more, Ok(1..)), "{text:?} does not come, but {more:?} after {:?}", self.shown());
        }
    }

    /// Waits for the end of the connection; what comes before it is thrown away.
    pub(super) fn closed(&mut self) -> Closed {
        loop {
            match self.more() {
                Ok(0) => return Closed::Fin,
                Ok(_) => self.read.clear(),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Closed::Reset,
                Err(error) => panic!("neither closed nor reset: {error}"),
            }
        }
    }

    /// Whether nothing comes for so long, not even the end.
    pub(super) fn is_silent(&mut self, time: Duration) -> bool {
        self.socket.set_read_timeout(Some(time)).unwrap();
        let more = self.more();
        self.socket.set_read_timeout(Some(PATIENCE)).unwrap();
        matches!(more, Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    }

    /// Leaves; the socket comes back where it must be kept for its other half.
    pub(super) fn leave(self, how: Leave) -> Option<TcpStream> {
        match how {
            Leave::Close => None,
            Leave::Reset => {
                sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO)).unwrap();
                None
            }
            Leave::HalfClose => {
                self.socket.shutdown(Shutdown::Write).unwrap();
                Some(self.socket)
            }
        }
    }

    fn read_reply(&mut self, has_body: bool) -> Option<Reply> {
        let mut interim = Vec::new();
        loop {
            let head = self.read_head()?;
            let mut reply =
                Reply { interim, head, body: Vec::new(), chunks: Vec::new(), trailers: Vec::new(), end: End::Whole };
            if reply.status() < 200 && reply.status() != 101 {
                reply.interim.push(reply.status());
                interim = reply.interim;
                continue;
            }
            if has_body && !matches!(reply.status(), 204 | 304) && self.read_body(&mut reply).is_none() {
                reply.end = End::Cut;
            }
            return Some(reply);
        }
    }

    fn read_head(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.read.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = self.take(end);
                self.take(4);
                return Some(String::from_utf8(head).unwrap());
            }
            self.more().ok().filter(|read| *read > 0)?;
        }
    }

    /// None if it is cut.
    fn read_body(&mut self, reply: &mut Reply) -> Option<()> {
        if reply.field("transfer-encoding") == Some("chunked") {
            loop {
                let line = self.read_line()?;
                let size = usize::from_str_radix(&line, 16).expect("a chunk's size");
                if size == 0 {
                    break;
                }
                reply.chunks.push(size);
                self.read_bytes(size, &mut reply.body)?;
                assert_eq!(self.read_line()?, "");
            }
            loop {
                match self.read_line()? {
                    line if line.is_empty() => return Some(()),
                    line => reply.trailers.push(line),
                }
            }
        }
        if let Some(length) = reply.field("content-length") {
            let length = length.parse().expect("a length");
            return self.read_bytes(length, &mut reply.body);
        }
        loop {
            reply.body.append(&mut self.read);
            match self.more() {
                Ok(0) => return Some(()),
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }

    fn read_line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.read.windows(2).position(|window| window == b"\r\n") {
                let line = self.take(end);
                self.take(2);
                return Some(String::from_utf8(line).unwrap());
            }
            self.more().ok().filter(|read| *read > 0)?;
        }
    }

    /// The next bytes, at most so many; none at the end.
    pub(super) fn some(&mut self, max: usize) -> Vec<u8> {
        if self.read.is_empty() && self.more().unwrap_or(0) == 0 {
            return Vec::new();
        }
        self.take(max.min(self.read.len()))
    }

    fn read_bytes(&mut self, mut left: usize, into: &mut Vec<u8>) -> Option<()> {
        while left > 0 {
            if self.read.is_empty() {
                self.more().ok().filter(|read| *read > 0)?;
            }
            let piece = self.take(left.min(self.read.len()));
            left -= piece.len();
            into.extend_from_slice(&piece);
        }
        Some(())
    }

    fn take(&mut self, len: usize) -> Vec<u8> {
        self.read.drain(..len).collect()
    }

    /// Reads once; 0 at the end.
    fn more(&mut self) -> std::io::Result<usize> {
        let mut piece = [0; 64 * 1024];
        let read = self.socket.read(&mut piece)?;
        self.read.extend_from_slice(&piece[..read]);
        Ok(read)
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.read).into_owned()
    }
}

impl Reply {
    pub(super) fn status(&self) -> u16 {
        self.head[9..12].parse().unwrap()
    }

    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields(name).into_iter().next()
    }

    pub(super) fn fields(&self, name: &str) -> Vec<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
    }

    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// What `Server-Timing` says of the attempts.
    pub(super) fn attempts(&self) -> u32 {
        let timing = self.fields("server-timing").pop().unwrap_or_default();
        timing.split("attempts;desc=\"").nth(1).and_then(|rest| rest.split('"').next()?.parse().ok()).unwrap()
    }

    /// The `type` and `detail` of a problem body.
    pub(super) fn problem(&self) -> (String, String) {
        assert_eq!(self.field("content-type"), Some("application/problem+json"), "{self:?}");
        let body: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        let text = |key: &str| body[key].as_str().unwrap().to_owned();
        (text("type"), text("detail"))
    }

    /// Status and length of the answer if it is whole.
    pub(super) fn whole(&self) -> Option<(u16, usize)> {
        (self.end == End::Whole).then(|| (self.status(), self.body.len()))
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.body[..self.body.len().min(300)];
        write!(f, "{:?} {:?} {} bytes {:?}", self.end, self.head, self.body.len(), String::from_utf8_lossy(shown))
    }
}

/// A request without a body; `fields` are lines that end in CRLF.
pub(super) fn request(method: &str, target: &str, fields: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
}

pub(super) fn post(target: &str, body: &str) -> String {
    request("POST", target, &format!("Content-Length: {}\r\n", body.len())) + body
}

/// A request whose body comes in chunks of these sizes, one after the other over the body.
pub(super) fn chunked(method: &str, target: &str, body: &[u8], sizes: &[usize]) -> Vec<u8> {
    let mut bytes = request(method, target, "Transfer-Encoding: chunked\r\n").into_bytes();
    let (mut rest, mut sizes) = (body, sizes.iter().cycle());
    while !rest.is_empty() {
        let (piece, later) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
        bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        bytes.extend_from_slice(piece);
        bytes.extend_from_slice(b"\r\n");
        rest = later;
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

pub(super) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: Vec<_> =
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| usize::from(byte >> bit & 1))).collect();
    let letter = |six: &[usize]| LETTERS[(0..6).fold(0, |n, at| n << 1 | six.get(at).copied().unwrap_or(0))] as char;
    let text: String = bits.chunks(6).map(letter).collect();
    let padding = "=".repeat((4 - text.len() % 4) % 4);
    text + &padding
}
