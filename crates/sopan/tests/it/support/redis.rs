//! Real redis-servers, each in a directory of its own: alone, with a replica that sentinels watch, or three that make a Cluster.
//!
//! They are ended by their process ids when they are dropped. What a test does to one is what happens to it in earnest: it is
//! killed and started anew on its port, stands still, loses its connections or what it knows.

mod cluster;
mod guarded;
mod way;
mod wire;

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio, id};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{PATIENCE, Running, skipped};

pub(crate) use cluster::Cluster;
pub(crate) use guarded::Guarded;
pub(crate) use way::Way;
pub(crate) use wire::{Asker, Reply};

const PROGRAM: &str = "redis-server";
/// A sentinel writes into it what it learns.
const SETTINGS: &str = "redis.conf";

/// Whether there is such a program here; says so if there is none.
pub(crate) fn is_there() -> bool {
    let found = Command::new(PROGRAM).arg("--version").output().is_ok_and(|run| run.status.success());
    if !found {
        skipped("redis-server is not installed; ./test.sh installs it");
    }
    found
}

/// A redis-server that keeps nothing on a disk.
pub(crate) struct Redis {
    program: Running,
    pub(crate) address: SocketAddr,
    kind: Kind,
    directory: TempDir,
    password: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Server,
    Sentinel,
}

impl Redis {
    /// One that stands alone.
    pub(crate) fn start() -> Self {
        Self::start_as(Kind::Server, String::new)
    }

    /// The same for whoever knows this password.
    pub(crate) fn start_with_password(password: &str) -> Self {
        let mut redis = Self::start();
        redis.ask(&["CONFIG", "SET", "requirepass", password]);
        redis.password = Some(password.to_owned());
        redis
    }

    /// One with these settings besides.
    fn start_as(kind: Kind, settings: impl Fn() -> String) -> Self {
        /// Somebody else may take a port between the look at it and its use.
        const TRIES: usize = 10;
        for _ in 0..TRIES {
            let directory = tempfile::tempdir().unwrap();
            let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
            let common = format!("port {}\nbind 127.0.0.1\ndir {}\n", address.port(), directory.path().display());
            let kept = if kind == Kind::Server { "save \"\"\nappendonly no\n" } else { "" };
            fs::write(directory.path().join(SETTINGS), common + kept + &settings()).unwrap();
            if let Some(program) = run(address, kind, &directory) {
                return Self { program, address, kind, directory, password: None };
            }
        }
        panic!("no redis-server came up on {TRIES} ports");
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Asks it something, on a connection of its own; an error that it tells is a mistake of the test.
    #[track_caller]
    pub(crate) fn ask(&self, words: &[&str]) -> Reply {
        let mut asker = Asker::connect(self.address).unwrap();
        if let Some(password) = &self.password {
            assert_eq!(asker.ask(&["AUTH", password]).unwrap(), Reply::Text("OK".to_owned()));
        }
        let reply = asker.ask(words).unwrap();
        assert!(!matches!(reply, Reply::Error(_)), "{words:?}: {reply:?}");
        reply
    }

    /// Ends it as a crash would: it loses all that it knew.
    pub(crate) fn kill(&mut self) {
        self.program.0.kill().unwrap();
        self.program.wait();
    }

    /// Starts it again on its port, after [`Redis::kill`].
    pub(crate) fn restart(&mut self) {
        let begun = Instant::now();
        self.program = loop {
            if let Some(program) = run(self.address, self.kind, &self.directory) {
                break program;
            }
            assert!(begun.elapsed() < PATIENCE, "{} is not free again", self.address);
        };
    }

    /// From now on it stands still: its sockets are open, and nobody answers.
    pub(crate) fn stop(&self) {
        self.program.signal("STOP");
    }

    /// It goes on.
    pub(crate) fn go_on(&self) {
        self.program.signal("CONT");
    }

    /// Cuts all connections but that on which this is asked; answers how many.
    pub(crate) fn cut(&self) -> i64 {
        self.ask(&["CLIENT", "KILL", "SKIPME", "yes"]).number()
    }

    /// Commands that it has run, by their names in small letters, a script as one.
    pub(crate) fn commands(&self, names: &[&str]) -> u64 {
        let stats = self.ask(&["INFO", "commandstats"]).text();
        let calls = |name: &&str| {
            let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")))?;
            line.split(',').next()?.parse::<u64>().ok()
        };
        names.iter().filter_map(calls).sum()
    }

    /// All its keys.
    pub(crate) fn keys(&self) -> Vec<String> {
        let mut keys = self.ask(&["KEYS", "*"]).texts();
        keys.sort();
        keys
    }
}

/// Runs one and waits until it answers; none if it ends before, as it does when its port is taken.
fn run(address: SocketAddr, kind: Kind, directory: &TempDir) -> Option<Running> {
    let log = File::options().create(true).append(true).open(directory.path().join("log")).unwrap();
    let mut command = Command::new(PROGRAM);
    command.arg(directory.path().join(SETTINGS)).args((kind == Kind::Sentinel).then_some("--sentinel"));
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    let mut program = Running(command.spawn().unwrap());
    let begun = Instant::now();
    while !is_answering(address, program.0.id()) {
        if program.0.try_wait().unwrap().is_some() {
            return None;
        }
        assert!(begun.elapsed() < PATIENCE, "{address} does not answer");
        thread::sleep(Duration::from_millis(5));
    }
    Some(program)
}

/// Whether this process is who answers there, and not another that was before it on the port.
fn is_answering(address: SocketAddr, process: u32) -> bool {
    let asked = Asker::connect(address).and_then(|mut asker| asker.ask(&["INFO", "server"]));
    let Ok(Reply::Text(text)) = asked else { return false };
    text.lines().any(|line| line == format!("process_id:{process}"))
}

/// One that nobody has now, of those that the system gives to nobody by itself: a server that is started anew must find its port
/// free, also if somebody has opened connections meanwhile.
fn free_port() -> u16 {
    const FIRST: u16 = 10_000;
    const COUNT: u16 = 20_000;
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    loop {
        // Tests are processes that run at the same time, mostly with ids that follow each other.
        let number = (id() as u16).wrapping_mul(67).wrapping_add(GIVEN.fetch_add(1, Relaxed));
        let port = FIRST + number % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
