//! What must hold of everything that a client sends to a running proxy, and that an upstream answers.
//!
//! The input is what the client sends; after `|=|`, what the upstream answers to each request, else a plain 200. `|~|` in
//! either cuts it into writes. An answer that begins with `|!|` does not wait for the request's body. Then:
//!
//! - whatever reaches the upstream is well formed, and one of the requests that a second parser finds in what the client
//!   has sent: the same method, target and body;
//! - whatever reaches the client is well formed, and no more answers than requests; only the last may be cut off;
//! - when the client has gone, its connection ends.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::strict::{self, Message};

/// Longer than a proxy with short time-outs takes for anything, on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(20);
/// A connection on which nothing has come for so long has said all that it will say.
const QUIET: Duration = Duration::from_millis(10);
/// Between two writes, so that they are read one by one.
const PAUSE: Duration = Duration::from_micros(300);
const PLAIN: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Flags of `sopan serve` with which an input takes milliseconds: no pacing, no retries, no pauses.
pub(crate) const FLAGS: [&str; 24] = [
    "--admin",
    "off",
    "--workers",
    "1",
    "--rate",
    "unlimited",
    "--breaker",
    "off",
    "--max-retries",
    "0",
    "--max-hold",
    "1ms",
    "--header-timeout",
    "2s",
    "--idle-timeout",
    "2s",
    "--connect-timeout",
    "2s",
    "--attempt-timeout",
    "2s",
    "--total-timeout",
    "3s",
    "--drain",
    "0",
];

/// An upstream on a free port of 127.0.0.1, which judges what it is asked.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    answer: Script,
    /// What the client asks.
    asked: Arc<Vec<Message>>,
    /// All connections of this input, by who has made them.
    open: Vec<(SocketAddr, TcpStream)>,
    /// Requests whose heads have arrived.
    arrived: usize,
    /// What was wrong with them.
    wrong: Vec<String>,
    /// Connections on which something is under way.
    busy: usize,
}

#[derive(Clone, Default)]
struct Script {
    is_early: bool,
    pieces: Vec<Vec<u8>>,
}

impl Upstream {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of 127.0.0.1 is free");
        let address = listener.local_addr().expect("it is bound");
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            while let Ok((socket, peer)) = listener.accept() {
                let Ok(other) = socket.try_clone() else { continue };
                let state = Arc::clone(&shared);
                let asked = {
                    let mut state = lock(&state);
                    state.open.push((peer, other));
                    Arc::clone(&state.asked)
                };
                thread::spawn(move || serve(socket, &asked, &state));
            }
        });
        Self { address, state }
    }

    /// Requests that have arrived since it was started.
    pub(crate) fn arrived(&self) -> usize {
        lock(&self.state).arrived
    }

    /// Ends all connections, so that what is read from one is of the input during which it was made, however late that is.
    fn end_connections(&self) {
        let last = TcpStream::connect(self.address).and_then(|last| last.local_addr()).expect("the upstream listens");
        let begun = Instant::now();
        // Connections are accepted in their order: with this one, all are there.
        while !lock(&self.state).open.iter().any(|(peer, _)| *peer == last) {
            assert!(begun.elapsed() < PATIENCE, "the upstream accepts no more");
            thread::sleep(Duration::from_micros(20));
        }
        for (_, socket) in lock(&self.state).open.drain(..) {
            // One that has ended already need not be ended.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// Puts one input through a proxy in front of the upstream.
pub(crate) fn check(proxy: SocketAddr, upstream: &Upstream, input: &[u8]) {
    let (sent, answer) = split(input, b"|=|");
    let pieces = pieces(sent);
    let asked = asked(&pieces.concat());
    {
        let mut state = lock(&upstream.state);
        state.answer = script(answer);
        state.asked = Arc::new(asked.clone());
    }
    let (got, is_reset) = talk(proxy, upstream, &pieces, &asked);
    upstream.end_connections();
    let wrong = std::mem::take(&mut lock(&upstream.state).wrong);
    assert!(wrong.is_empty(), "the upstream got what no client has sent, perhaps by the input before: {wrong:#?}");
    if let Err(why) = judge_answers(&got, &asked, is_reset) {
        panic!("the client got: {why}\n{}", got.escape_ascii());
    }
}

/// Sends the pieces and reads until all is answered or nothing more comes; answers what came, and whether the connection
/// was reset at the end.
fn talk(proxy: SocketAddr, upstream: &Upstream, pieces: &[Vec<u8>], asked: &[Message]) -> (Vec<u8>, bool) {
    let mut socket = TcpStream::connect(proxy).expect("the proxy listens");
    socket.set_nodelay(true).expect("a socket");
    socket.set_write_timeout(Some(PATIENCE)).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(1))).expect("a socket");
    for (number, piece) in pieces.iter().enumerate() {
        if number > 0 {
            thread::sleep(PAUSE);
        }
        // The proxy may have had enough.
        if socket.write_all(piece).is_err() {
            break;
        }
    }
    // Else the upstream waits for what never comes.
    let all_sent = asked.iter().all(|request| request.is_whole);
    let (begun, mut heard, mut leaves) = (Instant::now(), Instant::now(), false);
    let (mut got, mut buf) = (Vec::new(), [0; 16 * 1024]);
    loop {
        match socket.read(&mut buf) {
            Ok(0) => return (got, false),
            Ok(length) => {
                got.extend_from_slice(&buf[..length]);
                heard = Instant::now();
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return (got, true),
        }
        assert!(begun.elapsed() < PATIENCE, "the proxy keeps a connection whose client has gone");
        let is_under_way = all_sent && lock(&upstream.state).busy > 0;
        let is_quiet = heard.elapsed() > if is_under_way { 10 * QUIET } else { QUIET };
        if !leaves && (is_quiet || has_all(&got, asked)) {
            leaves = true;
            // It fails where the proxy has left already.
            let _ = socket.shutdown(Shutdown::Write);
        }
    }
}

/// The requests that are in what a client sends, as far as they are well formed.
fn asked(mut sent: &[u8]) -> Vec<Message> {
    let mut asked = Vec::new();
    loop {
        // One line end before a head is forgiven (RFC 9112 §2.2).
        sent = sent.strip_prefix(b"\r\n").unwrap_or(sent);
        // A body can be passed on up to its fault.
        let Some(message) = strict::request_so_far(sent) else { return asked };
        let (is_whole, length) = (message.is_whole, message.length);
        asked.push(message);
        if !is_whole {
            return asked;
        }
        sent = &sent[length..];
    }
}

/// Whether each request has its answer.
fn has_all(got: &[u8], asked: &[Message]) -> bool {
    let (mut at, mut answers) = (0, 0);
    while let Ok(Some(answer)) = strict::response(&got[at..], is_head(asked, answers), false)
        && answer.is_whole
    {
        at += answer.length;
        answers += usize::from(answer.status() >= 200);
    }
    // What is malformed after the last of them is answered too, and the connection closed.
    answers >= asked.len() && asked.last().is_some_and(|last| last.is_whole)
}

/// Whether what a client got is one answer after the other.
fn judge_answers(got: &[u8], asked: &[Message], is_reset: bool) -> Result<(), String> {
    let (mut at, mut answers) = (0, 0);
    while at < got.len() {
        let request = asked.get(answers);
        let answer = match strict::response(&got[at..], is_head(asked, answers), !is_reset)? {
            Some(answer) => answer,
            None if is_reset => return Ok(()),
            None => return Err(format!("a head that breaks off after {answers} answers")),
        };
        at += answer.length;
        match (answer.status(), request) {
            (101, Some(request)) if request.values("upgrade").next().is_some() => return Ok(()),
            (101, _) => return Err("another protocol that was not asked for".to_owned()),
            (100..200, Some(request)) if request.start[2] != b"HTTP/1.0" => continue,
            (100..200, _) => return Err("an interim answer to who cannot know it".to_owned()),
            _ => answers += 1,
        }
        if answer.has_extensions {
            return Err("chunk extensions of the upstream".to_owned());
        }
        if answers > asked.len() + 1 {
            return Err(format!("{answers} answers to {} requests", asked.len()));
        }
        if !answer.is_whole && at < got.len() {
            return Err("something after an answer that is not whole".to_owned());
        }
    }
    Ok(())
}

fn is_head(asked: &[Message], number: usize) -> bool {
    asked.get(number).is_some_and(|request| request.start[0] == b"HEAD")
}

/// One connection of the proxy to the upstream.
fn serve(mut socket: TcpStream, asked: &[Message], state: &Mutex<State>) {
    let _ = socket.set_nodelay(true);
    let mut read = Vec::new();
    while let Some((request, script)) = next(&mut socket, &mut read, asked, state) {
        let is_answered = answer(&mut socket, &request, &script).is_ok() && request.is_whole;
        lock(state).busy -= 1;
        if !is_answered || !is_one_answer(&script.pieces.concat(), request.start[0] == b"HEAD") {
            break;
        }
    }
    // The other end hears of it though the socket is also held elsewhere.
    let _ = socket.shutdown(Shutdown::Both);
}

/// The next request, as far as the answer waits for it; from then on the connection is busy.
fn next(
    socket: &mut TcpStream,
    read: &mut Vec<u8>,
    asked: &[Message],
    state: &Mutex<State>,
) -> Option<(Message, Script)> {
    let mut buf = [0; 16 * 1024];
    let mut has_head = false;
    let taken = loop {
        let script = lock(state).answer.clone();
        match strict::request(read) {
            Ok(Some(request)) => {
                if !has_head {
                    has_head = true;
                    let mut state = lock(state);
                    state.arrived += 1;
                    state.busy += 1;
                }
                if request.is_whole || script.is_early {
                    break Some((request, script));
                }
            }
            Ok(None) => {}
            Err(why) => {
                lock(state).wrong.push(format!("{why}: {}", read.escape_ascii()));
                break None;
            }
        }
        match socket.read(&mut buf) {
            Ok(0) | Err(_) => break strict::request(read).ok().flatten().map(|request| (request, Script::default())),
            Ok(length) => read.extend_from_slice(&buf[..length]),
        }
    };
    let Some((request, script)) = taken else {
        if has_head {
            lock(state).busy -= 1;
        }
        return None;
    };
    judge_request(&request, asked, &mut lock(state).wrong);
    read.drain(..request.length);
    Some((request, script))
}

/// Whether the client has asked that.
fn judge_request(got: &Message, asked: &[Message], wrong: &mut Vec<String>) {
    let is_same = |asked: &&Message| asked.start[0] == got.start[0] && asked.path() == got.path();
    let has_sent = |asked: &Message| match (got.is_whole, asked.is_whole) {
        (true, is_whole) => {
            is_whole && asked.body == got.body && got.trailers.iter().all(|trailer| asked.trailers.contains(trailer))
        }
        (false, _) => asked.body.starts_with(&got.body),
    };
    if got.has_extensions {
        wrong.push("chunk extensions were passed on".to_owned());
    }
    if !asked.iter().filter(is_same).any(has_sent) {
        wrong.push(format!("{got:?} is none of {asked:?}"));
    }
}

fn answer(socket: &mut TcpStream, request: &Message, script: &Script) -> std::io::Result<()> {
    for (number, piece) in script.pieces.iter().enumerate() {
        if number > 0 {
            thread::sleep(PAUSE);
        }
        socket.write_all(piece)?;
    }
    let is_tunnel = strict::response(&script.pieces.concat(), false, false)
        .is_ok_and(|answer| answer.is_some_and(|a| a.status() == 101));
    if is_tunnel && request.values("upgrade").next().is_some() {
        let mut back = socket.try_clone()?;
        std::io::copy(socket, &mut back)?;
    }
    Ok(())
}

/// Whether another answer can follow this one.
fn is_one_answer(answer: &[u8], to_head: bool) -> bool {
    match strict::response(answer, to_head, false) {
        Ok(Some(first)) if first.status() < 200 => {
            first.status() != 101 && is_one_answer(&answer[first.length..], to_head)
        }
        Ok(Some(first)) => {
            let closes = first.values("connection").any(|value| value.eq_ignore_ascii_case(b"close"));
            first.is_whole && first.length == answer.len() && !closes
        }
        _ => false,
    }
}

fn script(answer: Option<&[u8]>) -> Script {
    let Some(answer) = answer else { return Script { is_early: false, pieces: vec![PLAIN.to_vec()] } };
    let rest = answer.strip_prefix(b"|!|");
    Script { is_early: rest.is_some(), pieces: pieces(rest.unwrap_or(answer)) }
}

fn pieces(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    while let (piece, Some(rest)) = split(bytes, b"|~|") {
        pieces.push(piece.to_vec());
        bytes = rest;
    }
    pieces.push(bytes.to_vec());
    pieces
}

/// What comes before the first `mark`, and what comes after it.
fn split<'a>(bytes: &'a [u8], mark: &[u8]) -> (&'a [u8], Option<&'a [u8]>) {
    match bytes.windows(mark.len()).position(|window| window == mark) {
        Some(at) => (&bytes[..at], Some(&bytes[at + mark.len()..])),
        None => (bytes, None),
    }
}

/// A judge that has panicked elsewhere has said so.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
