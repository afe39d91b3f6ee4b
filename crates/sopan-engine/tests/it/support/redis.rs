//! A redis-server of a test's own, on a port of its own.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;

use tempfile::TempDir;

use super::{ms, s};

pub(crate) struct Server {
    process: Child,
    port: u16,
    _directory: TempDir,
}

impl Server {
    /// None where there is no redis-server; a test ends then, unless nothing may be skipped.
    pub(crate) fn start() -> Option<Self> {
        // Somebody else may be quicker to take the port.
        (0..5).find_map(|_| Self::try_start())?
    }

    /// Nothing where its port was taken, and no server where there can be none.
    fn try_start() -> Option<Option<Self>> {
        let directory = tempfile::tempdir().unwrap();
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"]);
        let Ok(process) = command.arg(directory.path()).stdout(Stdio::null()).spawn() else {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "SKIPPED: redis-server is missing");
            println!("SKIPPED: redis-server is missing");
            return Some(None);
        };
        let mut server = Self { process, port, _directory: directory };
        for _ in 0..s(20).as_millis() / ms(5).as_millis() {
            if server.process.try_wait().unwrap().is_some() {
                return None;
            }
            if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return Some(Some(server));
            }
            sleep(ms(5));
        }
        panic!("redis-server does not come up");
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
