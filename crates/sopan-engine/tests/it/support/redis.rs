//! A redis-server of a test's own, on a port and a socket of its own.

mod wire;

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;

use tempfile::TempDir;
pub(crate) use wire::{Connection, Reply};

use super::{ms, s};

const SOCKET: &str = "redis.sock";

pub(crate) struct Server {
    process: Child,
    port: u16,
    directory: TempDir,
}

impl Server {
    /// None where there is no redis-server; a test ends then, unless nothing may be skipped.
    pub(crate) fn start() -> Option<Self> {
        if Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_err() {
            skipped();
            return None;
        }
        // Somebody else may be quicker to take the port.
        let started = (0..5).find_map(|_| Self::start_at(free_port()));
        Some(started.expect("no port is free for long enough"))
    }

    /// None if the port is taken.
    #[allow(clippy::disallowed_methods, reason = "nothing else goes on yet")]
    fn start_at(port: u16) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"]);
        let socket = directory.path().join(SOCKET);
        command.arg(directory.path()).arg("--unixsocket").arg(&socket);
        let process = command.stdout(Stdio::null()).spawn().unwrap();
        let mut server = Self { process, port, directory };
        for _ in 0..s(20).as_millis() / ms(5).as_millis() {
            if server.process.try_wait().unwrap().is_some() {
                return None;
            }
            // It opens that last, and nobody else has it.
            if UnixStream::connect(&socket).is_ok() {
                return Some(server);
            }
            sleep(ms(5));
        }
        panic!("redis-server does not come up");
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A connection for what a test itself asks it.
    pub(crate) fn connect(&self) -> Connection {
        Connection::open(&self.directory.path().join(SOCKET))
    }
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

#[allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a test says why it is none")]
fn skipped() {
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "SKIPPED: redis-server is missing");
    println!("SKIPPED: redis-server is missing");
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
