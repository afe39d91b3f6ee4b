//! One GET through the same line as every request of the proxy, its body to standard output only when all of it is here.
//!
//! The body goes to a [`Spool`] first: into memory, and beyond 1 MiB into a temporary file that has no name. So an answer
//! that breaks off costs a retry and leaves nothing behind, neither on standard output nor on the disk. When the reader of
//! standard output closes it early, as `head` does, that is no failure: it had enough.

use std::io::{self, Seek, Write};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, Uri};
use http_body_util::BodyExt;
use sopan_core::queue::ClientId;
use sopan_engine::body::Source;
use sopan_engine::exchange::{self, Answer, Inbound, Sink};
use sopan_engine::{Error, Surroundings, Upstream};
use tempfile::SpooledTempFile;
use tokio::{runtime, task};

use super::Failure;
use crate::config;
use crate::log::{Counted, Printable};

/// Gets the URL.
///
/// # Errors
/// Nothing was written to standard output then, unless that is what failed.
pub(crate) fn run(settings: config::Single) -> Result<(), Failure> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Failure::Transient(format!("no runtime: {e}")))?;
    let result = runtime.block_on(async {
        tokio::select! {
            () = interrupted() => Err(Failure::Interrupted(None)),
            result = fetch(settings) => result,
        }
    });
    // A name that is being looked up, or a pipe that nobody reads, must not keep the program.
    runtime.shutdown_background();
    result
}

pub(super) async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without a handler the signal ends the program by itself.
        std::future::pending().await
    }
}

async fn fetch(settings: config::Single) -> Result<(), Failure> {
    let config::Single { upstream, path, headers, shown, body_bytes_max, log: _ } = settings;
    let (upstream, background) = Upstream::start(upstream, Surroundings::default()).map_err(Failure::Setup)?;
    task::spawn(background);
    let mut spool = Spool { file: SpooledTempFile::new(IN_MEMORY_MAX), bytes: 0, bytes_max: body_bytes_max };
    let answer = exchange::collect(&upstream, inbound(path, headers), &mut spool).await;
    let answer = answer.map_err(|e| Failure::Permanent(format!("the answer from {shown} cannot be kept: {e}")))?;
    match Error::of(&answer, &shown) {
        None => {}
        Some(Error::Transient { message, .. }) => return Err(Failure::Transient(message)),
        Some(Error::Permanent { message, status: None }) => return Err(Failure::Permanent(message)),
        Some(Error::Permanent { message, status: Some(_) }) => {
            let says = excerpt(answer).await.map_or_else(String::new, |text| format!("; it says: {text}"));
            return Err(Failure::Permanent(message + &says));
        }
    }
    // Not on this thread, which listens for SIGINT.
    let poured = task::spawn_blocking(move || spool.pour(&mut io::stdout().lock())).await;
    let poured = poured.unwrap_or_else(|panic| Err(io::Error::other(panic)));
    poured.map_err(|e| Failure::Permanent(format!("standard output cannot be written to: {e}")))
}

fn inbound(path: Uri, headers: HeaderMap) -> Inbound {
    let mut request = Request::new(Source::Empty);
    *request.uri_mut() = path;
    *request.headers_mut() = headers;
    Inbound { request, client: ClientId(0), weight: 1, interims: None, hop: None }
}

/// The beginning of what an upstream says of a request that it refuses, on one line: most say there what to mend.
async fn excerpt(answer: Answer) -> Option<String> {
    /// Enough for a sentence, too little for a page.
    const CHARS_MAX: usize = 300;
    const TIME_MAX: Duration = Duration::from_secs(1);
    let (head, mut body) = answer.response.into_parts();
    let kind = head.headers.get(CONTENT_TYPE)?.to_str().ok()?;
    if !kind.contains("json") && !kind.starts_with("text/plain") {
        return None;
    }
    let mut bytes = Vec::new();
    let read = async {
        while bytes.len() < CHARS_MAX * 4 {
            let Some(Ok(frame)) = body.frame().await else { return };
            bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        }
    };
    // What has come by then will do.
    let _ = tokio::time::timeout(TIME_MAX, read).await;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut chars = text.chars();
    let begin: String = chars.by_ref().take(CHARS_MAX).collect();
    let rest = if chars.next().is_some() { "…" } else { "" };
    (!begin.is_empty()).then(|| format!("{}{rest}", Printable(&begin)))
}

/// What is kept of a body in memory.
const IN_MEMORY_MAX: usize = 1024 * 1024;

/// Where a body waits until it is whole.
#[derive(Debug)]
struct Spool {
    file: SpooledTempFile,
    bytes: u64,
    bytes_max: u64,
}

impl Spool {
    /// Writes all of it.
    fn pour(mut self, out: &mut impl Write) -> io::Result<()> {
        self.file.rewind()?;
        match io::copy(&mut self.file, out).and_then(|_| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            done => done,
        }
    }
}

impl Sink for Spool {
    fn restart(&mut self) -> io::Result<()> {
        self.bytes = 0;
        self.file.rewind()?;
        self.file.set_len(0)
    }

    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.bytes += piece.len() as u64;
        if self.bytes > self.bytes_max {
            return Err(io::Error::other(format!(
                "it is longer than {} (--body-bytes-max)",
                Counted(self.bytes_max, "byte")
            )));
        }
        self.file.write_all(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spool(bytes_max: u64) -> Spool {
        Spool { file: SpooledTempFile::new(8), bytes: 0, bytes_max }
    }

    #[test]
    fn a_restart_forgets_what_was_written_in_memory_and_on_disk() {
        for pieces in [&["abc"][..], &["abc", "defghijkl", "mn"]] {
            let mut spool = spool(100);
            for piece in pieces {
                spool.write(piece.as_bytes()).unwrap();
            }
            spool.restart().unwrap();
            spool.write(b"whole").unwrap();
            let mut out = Vec::new();
            spool.pour(&mut out).unwrap();
            assert_eq!(out, b"whole");
        }
    }

    #[test]
    fn a_body_has_a_bound_and_a_restart_counts_anew() {
        let mut spool = spool(5);
        spool.write(b"12345").unwrap();
        let error = spool.write(b"6").unwrap_err().to_string();
        assert_eq!(error, "it is longer than 5 bytes (--body-bytes-max)");
        spool.restart().unwrap();
        spool.write(b"12345").unwrap();
    }

    #[test]
    fn a_reader_that_had_enough_is_no_failure() {
        struct Closed(io::ErrorKind);
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        for (kind, fails) in [(io::ErrorKind::BrokenPipe, false), (io::ErrorKind::StorageFull, true)] {
            let mut spool = spool(5);
            spool.write(b"12345").unwrap();
            assert_eq!(spool.pour(&mut Closed(kind)).is_err(), fails);
        }
    }
}
