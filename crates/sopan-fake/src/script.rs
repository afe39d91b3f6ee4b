//! An upstream that does what a script says, byte by byte, and records everything that it sees.
//!
//! ```ignore
//! let upstream = Upstream::listen(|request| match request.number {
//!     1 => Answer::status(429).header("Retry-After", "1"),
//!     _ => Answer::json(200, "{}"),
//! })
//! .await;
//! // … a client of upstream.url() …
//! assert_eq!(upstream.arrivals(), 2);
//! assert!(upstream.gap(1) >= Duration::from_secs(1));
//! assert_eq!(upstream.unclean(), [""; 0]);
//! ```
//!
//! Requests are read by a strict parser of its own; whatever is malformed is recorded as unclean and answered all the
//! same. Over sockets time is real; in process ([`Upstream::in_process`], [`Upstream::connect`]) the clock can be
//! paused. What it records is kept until it is dropped: how much a test sends is that test's business.

mod answer;
mod connection;
mod record;
mod wire;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

pub use answer::{Answer, Step};
use connection::Live;
use record::{Book, Records};
pub use record::{Connection, Farewell, Gone, Request, Sent};
pub(crate) use wire::BEYOND_ASCII;

/// Decides, as soon as a request's head is in, what is done with it.
type Script = dyn Fn(&Request) -> Answer + Send + Sync;

/// How much an in-process connection holds in each direction before its writer must wait; about a socket's buffer.
const DUPLEX_BYTES: usize = 64 * 1024;

/// A scripted upstream. It stops when it is dropped.
pub struct Upstream {
    script: Arc<Script>,
    records: Records,
    address: Option<SocketAddr>,
    tasks: Mutex<JoinSet<()>>,
}

impl Upstream {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// Where no port can be had: a test cannot go on without.
    pub async fn listen(script: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await;
        Self::listen_on(listener.expect("a port of 127.0.0.1 is free"), script)
    }

    /// Listens on what was bound before, say on a port that was closed so far.
    pub fn listen_on(listener: TcpListener, script: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let mut upstream = Self::in_process(script);
        upstream.address = listener.local_addr().ok();
        let accepting = accept(listener, Arc::clone(&upstream.script), upstream.records.clone());
        upstream.tasks.lock().spawn(accepting);
        upstream
    }

    /// Listens nowhere; connections come from [`Upstream::connect`] and [`Upstream::serve_io`].
    pub fn in_process(script: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self { script: Arc::new(script), records: Records::default(), address: None, tasks: Mutex::default() }
    }

    /// A new in-process connection: the client's end of it.
    pub fn connect(&self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(DUPLEX_BYTES);
        self.serve_io(ours);
        theirs
    }

    /// Serves one more connection in the background.
    pub fn serve_io(&self, io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let live = Live::new(io, |_| (), self.records.clone());
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(live.run(Arc::clone(&self.script)));
    }

    /// Where it listens.
    ///
    /// # Panics
    /// Where it is in process.
    pub fn address(&self) -> SocketAddr {
        self.address.expect("an upstream in process has no address")
    }

    /// `http://127.0.0.1:PORT`
    ///
    /// # Panics
    /// Where it is in process.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Stops listening and drops all connections; when this returns the port is closed. Records stay.
    pub async fn stop(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.shutdown().await;
    }

    /// How many requests' heads were received completely.
    pub fn arrivals(&self) -> usize {
        self.records.read(|book| book.requests.len())
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.records.read(|book| book.requests.clone())
    }

    /// Request `number`, counted from 1.
    ///
    /// # Panics
    /// Where it has not arrived.
    #[track_caller]
    pub fn request(&self, number: usize) -> Request {
        let (request, arrivals) = self.records.read(|book| (book.request(number).cloned(), book.requests.len()));
        request.unwrap_or_else(|| panic!("there is no request {number}; {arrivals} arrived"))
    }

    /// All connections so far.
    pub fn connections(&self) -> Vec<Connection> {
        self.records.read(|book| book.connections.clone())
    }

    /// The time from the end of answer `number` to the first byte of request `number + 1`; zero where that came first.
    ///
    /// # Panics
    /// Where one of the two has not happened.
    #[track_caller]
    pub fn gap(&self, number: usize) -> Duration {
        let Some(finished) = self.request(number).finished_at() else {
            panic!("request {number} is not answered yet");
        };
        self.request(number + 1).first_byte_at.saturating_duration_since(finished)
    }

    /// Everything malformed that was received, each with where; empty for a clean client.
    pub fn unclean(&self) -> Vec<String> {
        self.records.read(|book| {
            let requests =
                book.requests.iter().map(|request| (format!("request {}", request.number), &request.unclean));
            let connections = book.connections.iter().map(|c| (format!("connection {}", c.number), &c.unclean));
            let all = requests.chain(connections);
            all.flat_map(|(place, reasons)| reasons.iter().map(move |reason| format!("{place}: {reason}"))).collect()
        })
    }

    /// Waits until so many requests have arrived. Wrap it in a time-out where they may not.
    pub async fn arrived(&self, arrivals: usize) {
        self.records.until(|book| (book.requests.len() >= arrivals).then_some(())).await;
    }

    /// Waits until the script is done with request `number`, and gives it.
    pub async fn answered(&self, number: usize) -> Request {
        self.records.until(|book| book.request(number).filter(|request| request.answered_at.is_some()).cloned()).await
    }

    /// Waits until the peer of connection `number` has gone, and says how and when.
    ///
    /// A peer is missed only while the upstream looks away: while it sends to one that reads, or sleeps before an early
    /// answer with the request's body unread.
    pub async fn peer_gone(&self, number: usize) -> Gone {
        self.records.until(|book| book.connections.get(number.checked_sub(1)?)?.peer_gone).await
    }
}

impl Book {
    fn request(&self, number: usize) -> Option<&Request> {
        self.requests.get(number.checked_sub(1)?)
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("address", &self.address)
            .field("records", &self.records)
            .finish_non_exhaustive()
    }
}

/// Accepts until it is aborted; the connections go with it.
async fn accept(listener: TcpListener, script: Arc<Script>, records: Records) {
    let mut connections = JoinSet::new();
    let reset = |socket: &TcpStream| drop(socket.set_zero_linger());
    loop {
        let accepted: io::Result<_> = tokio::select! {
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        // A test that has run out of sockets fails by itself; here it must only not spin.
        let Ok((socket, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        // Each step leaves at once: Nagle's algorithm would join what a script takes apart.
        let _ = socket.set_nodelay(true);
        connections.spawn(Live::new(socket, reset, records.clone()).run(Arc::clone(&script)));
    }
}
