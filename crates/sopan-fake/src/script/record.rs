//! What a scripted upstream saw and did: requests, connections, and who waits to be told.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::wire::{self, Head};

/// One request whose head was received completely. The script sees it at that moment, without a body; what
/// [`Upstream::request`](super::Upstream::request) gives has all that has come since.
#[derive(Debug, Clone)]
pub struct Request {
    /// Counted from 1 over all connections, in the order in which heads were complete.
    pub number: usize,
    /// Which connection it came on, counted from 1.
    pub connection: usize,
    /// The method, as sent.
    pub method: String,
    /// The target, byte for byte as sent.
    pub target: String,
    /// `HTTP/1.1` or `HTTP/1.0`, or whatever stood there.
    pub version: String,
    /// The fields in their order, names as sent, values without the white space around them.
    pub fields: Vec<(String, String)>,
    /// The head as received, its empty line included.
    pub head: Bytes,
    /// When the first byte of the head was read.
    pub first_byte_at: Instant,
    /// When the last byte of the head was read.
    pub head_at: Instant,
    /// The body as received so far, chunk sizes and all.
    pub raw_body: Vec<u8>,
    /// The body's content so far.
    pub body: Vec<u8>,
    /// The fields after a chunked body.
    pub trailers: Vec<(String, String)>,
    /// What came after the protocol was changed, by the step `Echo`.
    pub tunnel: Vec<u8>,
    /// When the last byte of the body was read; for a request without a body, of the head.
    pub body_at: Option<Instant>,
    /// What was sent in answer, write by write.
    pub sent: Vec<Sent>,
    /// When all that the script says had been done.
    pub answered_at: Option<Instant>,
    /// Every way in which the request departs from RFC 9112, in words; empty for a clean one.
    pub unclean: Vec<String>,
}

/// One completed write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// When the last of its bytes was handed over.
    pub at: Instant,
    /// How many bytes it had.
    pub bytes: usize,
}

impl Request {
    pub(crate) fn new(number: usize, connection: usize, head: Head, raw: Bytes, times: (Instant, Instant)) -> Self {
        Self {
            number,
            connection,
            method: head.method,
            target: head.target,
            version: head.version,
            fields: head.fields,
            head: raw,
            first_byte_at: times.0,
            head_at: times.1,
            raw_body: Vec::new(),
            body: Vec::new(),
            trailers: Vec::new(),
            tunnel: Vec::new(),
            body_at: None,
            sent: Vec::new(),
            answered_at: None,
            unclean: head.unclean,
        }
    }

    /// The value of the first field of that name, in any case.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields_named(name).into_iter().next()
    }

    /// The values of all fields of that name, in their order.
    pub fn fields_named(&self, name: &str) -> Vec<&str> {
        self.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str()).collect()
    }

    /// When its answer's last byte was sent; where none was, when the script was done with it.
    pub fn finished_at(&self) -> Option<Instant> {
        self.answered_at.map(|done| self.sent.last().map_or(done, |sent| sent.at))
    }

    /// The sender asked for the connection to end with this request.
    pub(crate) fn asks_to_close(&self) -> bool {
        let mut options = wire::values(&self.fields, "connection").flat_map(|value| value.split(',')).map(str::trim);
        if self.version == "HTTP/1.0" {
            !options.any(|option| option.eq_ignore_ascii_case("keep-alive"))
        } else {
            options.any(|option| option.eq_ignore_ascii_case("close"))
        }
    }
}

/// One connection.
#[derive(Debug, Clone)]
pub struct Connection {
    /// Counted from 1, in the order in which they were accepted.
    pub number: usize,
    /// When it was accepted.
    pub opened_at: Instant,
    /// How and when the peer went, as far as the upstream came to know.
    pub peer_gone: Option<Gone>,
    /// When the upstream was done with it, for whatever reason.
    pub ended_at: Option<Instant>,
    /// The bytes of a head that never ended.
    pub leftover: Bytes,
    /// What was wrong with the connection and belongs to no request.
    pub unclean: Vec<String>,
}

/// The end of a connection by its peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone {
    /// When it was noticed.
    pub at: Instant,
    /// How it was done.
    pub how: Farewell,
}

/// How a peer goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Farewell {
    /// It closed at least its sending half.
    Closed,
    /// Its connection broke: RST, or a write that nobody takes.
    Reset,
}

/// All records, shared between the connections that write and the test that reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Records(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    book: Mutex<Book>,
    changed: Notify,
}

/// What is written down. Numbers are indices plus one.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) requests: Vec<Request>,
    pub(crate) connections: Vec<Connection>,
}

impl Records {
    /// Looks something up.
    pub(crate) fn read<R>(&self, look: impl FnOnce(&Book) -> R) -> R {
        look(&self.0.book.lock())
    }

    /// Writes something down and wakes whoever waits for it.
    pub(crate) fn write<R>(&self, note: impl FnOnce(&mut Book) -> R) -> R {
        let noted = note(&mut self.0.book.lock());
        self.0.changed.notify_waiters();
        noted
    }

    /// Writes to one request.
    pub(crate) fn request(&self, number: usize, note: impl FnOnce(&mut Request)) {
        self.write(|book| note(&mut book.requests[number - 1]));
    }

    /// Writes to one connection.
    pub(crate) fn connection(&self, number: usize, note: impl FnOnce(&mut Connection)) {
        self.write(|book| note(&mut book.connections[number - 1]));
    }

    /// A new connection; gives its number.
    pub(crate) fn open(&self) -> usize {
        self.write(|book| {
            let number = book.connections.len() + 1;
            book.connections.push(Connection {
                number,
                opened_at: Instant::now(),
                peer_gone: None,
                ended_at: None,
                leftover: Bytes::new(),
                unclean: Vec::new(),
            });
            number
        })
    }

    /// Waits until `look` finds something.
    pub(crate) async fn until<R>(&self, look: impl Fn(&Book) -> Option<R>) -> R {
        loop {
            // Registered before looking, so that a change in between is not missed.
            let mut changed = std::pin::pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = self.read(&look) {
                return found;
            }
            changed.await;
        }
    }
}
