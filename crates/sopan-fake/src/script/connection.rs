//! The life of one connection of a scripted upstream: read a head, ask the script, do its steps, again.
//!
//! Everything is written down as it happens. Reading goes no further than the script wants: as long as it has not read
//! a request's body, the body stays on the wire and its sender feels the back-pressure.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use super::answer::Step;
use super::record::{Farewell, Gone, Records, Request, Sent};
use super::wire::{BodyReader, Framing, HEAD_BYTES_MAX, head_length, parse_head};
use super::{Answer, Script};

/// Between requests so much is read ahead while the upstream watches for a peer that goes.
const READ_AHEAD_BYTES_MAX: usize = 64 * 1024;

/// One connection, and what of it is not consumed yet.
pub(crate) struct Live<T> {
    io: T,
    prepare_reset: fn(&T),
    records: Records,
    number: usize,
    inbox: Inbox,
    body: BodyReader,
    peer_is_gone: bool,
}

/// Bytes that were read and belong to what comes next.
struct Inbox {
    bytes: BytesMut,
    /// When the first of them was read.
    since: Instant,
    /// When the last of them was read.
    last: Instant,
}

/// Whether a connection goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    GoesOn,
    Ends,
    EndsByReset,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Live<T> {
    pub(crate) fn new(io: T, prepare_reset: fn(&T), records: Records) -> Self {
        let (number, now) = (records.open(), Instant::now());
        let inbox = Inbox { bytes: BytesMut::new(), since: now, last: now };
        let body = BodyReader::new(Framing::Empty);
        Self { io, prepare_reset, records, number, inbox, body, peer_is_gone: false }
    }

    /// Serves requests until one side has had enough.
    pub(crate) async fn run(mut self, script: Arc<Script>) {
        let mut fate = Fate::GoesOn;
        while fate == Fate::GoesOn {
            fate = match self.read_head().await {
                Some(request) => self.answer(&request, script(&request)).await,
                None => Fate::Ends,
            };
        }
        match fate {
            Fate::EndsByReset => (self.prepare_reset)(&self.io),
            // FIN goes out by itself first: closing a socket that holds unread bytes would send RST instead.
            Fate::GoesOn | Fate::Ends => drop(self.io.shutdown().await),
        }
        drop(self.io);
        self.records.connection(self.number, |connection| connection.ended_at = Some(Instant::now()));
    }

    /// The next request, as soon as its head is in; none if the peer goes before that.
    async fn read_head(&mut self) -> Option<Request> {
        loop {
            if let Some(length) = head_length(&self.inbox.bytes) {
                let (raw, times) = (self.inbox.bytes.split_to(length).freeze(), (self.inbox.since, self.inbox.last));
                self.inbox.since = self.inbox.last;
                return Some(self.record(raw, times));
            }
            let is_too_long = self.inbox.bytes.len() > HEAD_BYTES_MAX;
            if is_too_long || !self.read_more().await {
                let leftover = self.inbox.bytes.split().freeze();
                self.records.connection(self.number, |connection| {
                    if !leftover.is_empty() {
                        connection.unclean.push(format!("a head that did not end in {} bytes", leftover.len()));
                    }
                    connection.leftover = leftover;
                });
                return None;
            }
        }
    }

    fn record(&mut self, raw: Bytes, times: (Instant, Instant)) -> Request {
        let head = parse_head(&raw);
        self.body = BodyReader::new(head.framing);
        let body_at = self.body.is_done().then_some(times.1);
        self.records.write(|book| {
            let number = book.requests.len() + 1;
            let mut request = Request::new(number, self.number, head, raw, times);
            request.body_at = body_at;
            book.requests.push(request.clone());
            request
        })
    }

    /// Does what the script says, and says whether another request may follow.
    async fn answer(&mut self, request: &Request, answer: Answer) -> Fate {
        let mut fate = Fate::GoesOn;
        for step in answer.into_steps(request) {
            fate = self.take(request.number, step).await;
            if fate != Fate::GoesOn {
                break;
            }
        }
        self.records.request(request.number, |request| request.answered_at = Some(Instant::now()));
        if fate != Fate::GoesOn {
            return fate;
        }
        self.read_body(request.number, usize::MAX).await;
        if self.body.is_done() && !request.asks_to_close() { Fate::GoesOn } else { Fate::Ends }
    }

    async fn take(&mut self, request: usize, step: Step) -> Fate {
        match step {
            Step::Send(bytes) => return self.send(request, &bytes).await,
            Step::Sleep(time) => self.sleep(time).await,
            Step::ReadBody => self.read_body(request, usize::MAX).await,
            Step::ReadBytes(bytes) => self.read_body(request, bytes).await,
            Step::Close => return Fate::Ends,
            Step::Reset => return Fate::EndsByReset,
            Step::Echo => return self.echo(request).await,
            Step::Fin => drop(self.io.shutdown().await),
            Step::Hang => {
                self.read_body(request, usize::MAX).await;
                while self.read_more().await {}
                return Fate::Ends;
            }
        }
        Fate::GoesOn
    }

    async fn send(&mut self, request: usize, bytes: &Bytes) -> Fate {
        let written = async {
            self.io.write_all(bytes).await?;
            self.io.flush().await
        };
        if written.await.is_err() {
            self.peer_went(Farewell::Reset);
            return Fate::Ends;
        }
        let sent = Sent { at: Instant::now(), bytes: bytes.len() };
        self.records.request(request, |request| request.sent.push(sent));
        Fate::GoesOn
    }

    /// Sends back what comes, from what was read with the head on.
    async fn echo(&mut self, request: usize) -> Fate {
        loop {
            let bytes = self.inbox.bytes.split().freeze();
            self.records.request(request, |request| request.tunnel.extend_from_slice(&bytes));
            if !bytes.is_empty() && self.send(request, &bytes).await != Fate::GoesOn {
                return Fate::Ends;
            }
            if !self.read_more().await {
                return Fate::GoesOn;
            }
        }
    }

    /// Sleeps, and meanwhile watches for a peer that goes; not while a body is unread, because watching is reading.
    async fn sleep(&mut self, time: Duration) {
        let mut over = std::pin::pin!(tokio::time::sleep(time));
        while self.body.is_done() && !self.peer_is_gone && self.inbox.bytes.len() < READ_AHEAD_BYTES_MAX {
            tokio::select! {
                biased;
                () = &mut over => return,
                _ = self.read_more() => {}
            }
        }
        over.await;
    }

    /// Reads the body until so many raw bytes are here, or its end, or the peer's.
    async fn read_body(&mut self, request: usize, raw_bytes: usize) {
        loop {
            let mut raw_here = self.records.read(|book| book.requests[request - 1].raw_body.len());
            while raw_here < raw_bytes && !self.body.is_done() {
                let taken = self.step_body(request);
                raw_here += taken;
                if taken == 0 {
                    break;
                }
            }
            let is_enough = raw_here >= raw_bytes || self.body.is_done() || self.body.is_broken();
            if is_enough || !self.read_more().await {
                return;
            }
        }
    }

    /// Moves what it can from the inbox to the request's record; gives how many bytes that were.
    fn step_body(&mut self, request: usize) -> usize {
        let piece = self.body.step(&self.inbox.bytes);
        let taken = self.inbox.bytes.split_to(piece.taken);
        let done_at = self.body.is_done().then_some(self.inbox.last);
        self.inbox.since = self.inbox.last;
        self.records.request(request, |request| {
            request.raw_body.extend_from_slice(&taken);
            if piece.is_content {
                request.body.extend_from_slice(&taken);
            }
            request.trailers.extend(piece.trailer);
            request.unclean.extend(piece.unclean);
            request.body_at = done_at;
        });
        taken.len()
    }

    /// Reads once. False when nothing more will come, which is noted the first time.
    async fn read_more(&mut self) -> bool {
        if self.peer_is_gone {
            return false;
        }
        let was_empty = self.inbox.bytes.is_empty();
        let read = self.io.read_buf(&mut self.inbox.bytes).await;
        if let Ok(1..) = read {
            self.inbox.last = Instant::now();
            if was_empty {
                self.inbox.since = self.inbox.last;
            }
            return true;
        }
        self.peer_went(farewell(&read));
        false
    }

    fn peer_went(&mut self, how: Farewell) {
        self.peer_is_gone = true;
        let gone = Gone { at: Instant::now(), how };
        self.records.connection(self.number, |connection| {
            connection.peer_gone.get_or_insert(gone);
        });
    }
}

fn farewell(read: &io::Result<usize>) -> Farewell {
    if read.is_ok() { Farewell::Closed } else { Farewell::Reset }
}
