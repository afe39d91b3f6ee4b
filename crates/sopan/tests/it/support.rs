//! Runs the program, and speaks HTTP to it as plainly as can be.

pub(crate) mod collected;
pub(crate) mod redis;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Longer than anything here takes on a machine that is busy with something else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sopan"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A run of the program that has ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
    pub(crate) took: Duration,
}

impl Run {
    /// The lines of the log with this level, without their times.
    pub(crate) fn logged(&self, level: &str) -> Vec<&str> {
        let lines = self.err.lines().filter_map(|line| line.split_once('Z')?.1.strip_prefix(' '));
        lines.filter_map(|line| line.strip_prefix(level)?.strip_prefix(' ')).collect()
    }

    /// What was said beside the log.
    pub(crate) fn complained(&self) -> Vec<&str> {
        self.err.lines().filter(|line| line.starts_with("error: ")).collect()
    }
}

/// Runs the program to its end.
pub(crate) fn sopan(args: &[&str]) -> Run {
    let begun = Instant::now();
    let done = command(args).output().unwrap();
    let err = String::from_utf8(done.stderr).unwrap();
    Run { code: done.status.code(), out: done.stdout, err, took: begun.elapsed() }
}

/// A program that runs, and is ended when it is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Sends it a signal by name: `INT`, `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.0.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        until(|| self.0.try_wait().unwrap())
    }
}

/// Asks again until there is something.
#[track_caller]
pub(crate) fn until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "it does not come");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A test that cannot be made here says so, and where all must be made it fails.
pub(crate) fn skipped(why: &str) {
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "SKIPPED: {why}");
    println!("SKIPPED: {why}");
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `sopan fake-api` on a port of its own.
pub(crate) struct Fake {
    pub(crate) program: Running,
    pub(crate) address: SocketAddr,
}

impl Fake {
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::listen("127.0.0.1:0", flags)
    }

    /// On the address of one that has ended.
    pub(crate) fn start_at(address: SocketAddr) -> Self {
        Self::listen(&address.to_string(), &[])
    }

    /// The same with flags.
    pub(crate) fn start_with(address: SocketAddr, flags: &[&str]) -> Self {
        Self::listen(&address.to_string(), flags)
    }

    fn listen(address: &str, flags: &[&str]) -> Self {
        let args = ["fake-api", "--listen", address].into_iter().chain(flags.iter().copied());
        let mut child = command(&args.collect::<Vec<_>>()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening on http://").unwrap_or_else(|| panic!("{line:?}"));
        Self { program: Running(child), address: address.parse().unwrap() }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        get(self.address, path)
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        let (address, length) = (self.address, body.len());
        let close = "Connection: close";
        tell(
            address,
            &format!("POST {path} HTTP/1.1\r\nHost: {address}\r\n{close}\r\nContent-Length: {length}\r\n\r\n{body}"),
        )
    }

    /// What was asked for, in order of arrival.
    pub(crate) fn paths(&self) -> Vec<String> {
        let log: serde_json::Value = serde_json::from_str(&self.get("/_fake/log").body).unwrap();
        log.as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap().to_owned()).collect()
    }

    /// The statuses that it answered with, in order of arrival, and when the requests arrived.
    pub(crate) fn log(&self) -> Vec<(u64, Duration)> {
        let log: serde_json::Value = serde_json::from_str(&self.get("/_fake/log").body).unwrap();
        let entry = |entry: &serde_json::Value| {
            (entry["status"].as_u64().unwrap(), Duration::from_micros(entry["at_us"].as_u64().unwrap()))
        };
        log.as_array().unwrap().iter().map(entry).collect()
    }

    pub(crate) fn statuses(&self) -> Vec<u64> {
        self.log().into_iter().map(|(status, _)| status).collect()
    }
}

/// An answer, its head as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.head[9..12].parse().unwrap()
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Answer {
    tell(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"))
}

/// Sends it as it is, to who closes after the answer.
fn tell(address: SocketAddr, request: &str) -> Answer {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    Answer { head: head.to_owned(), body: body.to_owned() }
}

/// An upstream that gives one answer, byte for byte, and tells the request that it got.
pub(crate) struct Once {
    pub(crate) address: SocketAddr,
    request: JoinHandle<String>,
}

impl Once {
    pub(crate) fn answering(answer: impl AsRef<[u8]> + Send + 'static) -> Self {
        Self::at(SocketAddr::from(([127, 0, 0, 1], 0)), answer)
    }

    /// The same on the address of one that has ended.
    pub(crate) fn at(address: SocketAddr, answer: impl AsRef<[u8]> + Send + 'static) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let request = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let (mut read, mut request) = (BufReader::new(socket.try_clone().unwrap()), String::new());
            while !request.ends_with("\r\n\r\n") {
                assert_ne!(read.read_line(&mut request).unwrap(), 0, "it ended within {request:?}");
            }
            // Whoever asked may have had enough.
            let _ = socket.write_all(answer.as_ref());
            request
        });
        Self { address, request }
    }

    pub(crate) fn request(self) -> String {
        self.request.join().unwrap()
    }
}

/// An address on which nobody listens.
pub(crate) fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
