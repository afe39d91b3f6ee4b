//! The programs of one side: they ask at the same instants on both, each request on a connection of its own, and do not try
//! again.
//!
//! They are as plain as can be, and know nothing of limits. What they asked and got is kept for [`Facts`](super::story).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sopan_core::time::Instant;
use sopan_engine::clock::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::story::{Asked, EVERY, Ended, PROGRAMS, REQUESTS};

/// The longest that a program waits for an answer, so that the demo ends in any case.
const PATIENCE: Duration = Duration::from_secs(60);
/// More than any answer here has.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// All programs of one side.
#[derive(Debug)]
pub(super) struct Programs {
    /// Whom they ask.
    address: SocketAddr,
    clock: Clock,
    /// When they begin.
    zero: Instant,
    asked: Mutex<Vec<Asked>>,
}

impl Programs {
    pub(super) fn new(address: SocketAddr, clock: Clock, zero: Instant) -> Arc<Self> {
        Arc::new(Self { address, clock, zero, asked: Mutex::default() })
    }

    /// What was asked so far.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }

    /// Asks everything, and ends when the last answer has come.
    pub(super) async fn run(self: Arc<Self>) {
        let mut under_way = JoinSet::new();
        for number in 0..PROGRAMS * REQUESTS {
            // The programs take turns, evenly spaced.
            let at = self.zero.after(EVERY * number / PROGRAMS);
            tokio::time::sleep_until(self.clock.tokio(at)).await;
            under_way.spawn(Arc::clone(&self).ask(number));
        }
        while under_way.join_next().await.is_some() {}
    }

    async fn ask(self: Arc<Self>, number: u32) {
        let place = {
            let mut asked = self.asked.lock();
            asked.push(Asked { at: self.now(), ended: None });
            asked.len() - 1
        };
        // Each asks for something else, so that no stored or shared answer makes sopan's side look better than its pace does.
        let path = format!("/api/v1/orders?page={}&size=1", number + 1);
        let answer = tokio::time::timeout(PATIENCE, get(self.address, &path)).await;
        let status = answer.ok().and_then(Result::ok).flatten();
        let ended = Ended { at: self.now(), status };
        self.asked.lock()[place].ended = Some(ended);
    }

    fn now(&self) -> Duration {
        self.clock.now().since(self.zero)
    }
}

/// The status of an answer that came to its end; none where it is no answer.
async fn get(address: SocketAddr, path: &str) -> io::Result<Option<u16>> {
    let mut socket = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    socket.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    let status = answer.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3));
    Ok(status.and_then(|digits| str::from_utf8(digits).ok()?.parse().ok()))
}
