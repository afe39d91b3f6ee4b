//! A redis-server of a test's own, on a port of its own. It is ended with it, by its id.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::{Running, skipped, until};

pub(crate) struct Redis {
    process: Running,
    port: u16,
    directory: TempDir,
}

impl Redis {
    /// None where there is no redis-server; a test ends then, unless nothing may be skipped.
    pub(crate) fn start() -> Option<Self> {
        if Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_err() {
            skipped("redis-server is missing");
            return None;
        }
        // Somebody else may be quicker to take the port.
        let port = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let started = (0..5).find_map(|_| Self::start_at(port(), tempfile::tempdir().unwrap()));
        Some(started.expect("no port is free for long enough"))
    }

    /// None if the port is taken.
    fn start_at(port: u16, directory: TempDir) -> Option<Self> {
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"]);
        let process = Running(command.arg(directory.path()).stdout(Stdio::null()).spawn().unwrap());
        let mut redis = Self { process, port, directory };
        let is_up = until(|| match redis.process.0.try_wait().unwrap() {
            Some(_) => Some(false),
            None => TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok().then_some(true),
        });
        is_up.then_some(redis)
    }

    /// Ends it as by a crash, and starts another in its place, with nothing in it.
    pub(crate) fn restart(self, meanwhile: impl FnOnce()) -> Self {
        let Self { process, port, directory } = self;
        drop(process);
        meanwhile();
        Self::start_at(port, directory).expect("nobody takes a port that was taken just now")
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}
