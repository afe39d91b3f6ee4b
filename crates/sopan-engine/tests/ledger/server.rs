//! A redis-server of a test's own, and as much of a client as it takes: commands out, replies in.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A server on a socket in a directory of its own, and a connection to it; both end with it.
pub(crate) struct Server {
    process: Child,
    dir: TempDir,
    connection: Connection,
}

pub(crate) struct Connection(BufReader<UnixStream>);

#[derive(Debug, PartialEq)]
pub(crate) enum Reply {
    Text(String),
    Number(i64),
    List(Vec<Self>),
    Nothing,
}

impl Server {
    /// None where there is no redis-server; a test ends then, unless nothing may be skipped.
    pub(crate) fn start() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("redis.sock");
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(&socket);
        command.arg("--dir").arg(dir.path()).stdout(Stdio::null());
        let Ok(process) = command.spawn() else {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "SKIPPED: redis-server is missing");
            println!("SKIPPED: redis-server is missing");
            return None;
        };
        let begun = Instant::now();
        let stream = loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => break stream,
                Err(e) => assert!(begun.elapsed() < Duration::from_secs(20), "redis-server does not come up: {e}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        Some(Self { process, dir, connection: Connection(BufReader::new(stream)) })
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection(BufReader::new(UnixStream::connect(self.dir.path().join("redis.sock")).unwrap()))
    }

    /// Loads a script; answers what it is called.
    pub(crate) fn load(&mut self, script: &str) -> String {
        match self.call(&["SCRIPT", "LOAD", script]) {
            Reply::Text(sha) => sha,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn run(&mut self, sha: &str, keys: &[String], args: &[String]) -> Reply {
        let mut command = vec!["EVALSHA".to_owned(), sha.to_owned(), keys.len().to_string()];
        command.extend(keys.iter().chain(args).cloned());
        self.send(&command);
        self.reply()
    }

    pub(crate) fn call(&mut self, command: &[&str]) -> Reply {
        self.connection.call(command)
    }

    pub(crate) fn send(&mut self, command: &[String]) {
        self.connection.send(&command.iter().map(String::as_str).collect::<Vec<_>>());
    }

    pub(crate) fn reply(&mut self) -> Reply {
        self.connection.reply()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

impl Connection {
    pub(crate) fn call(&mut self, command: &[&str]) -> Reply {
        self.send(command);
        self.reply()
    }

    fn send(&mut self, command: &[&str]) {
        let mut out = format!("*{}\r\n", command.len());
        command.iter().for_each(|arg| out += &format!("${}\r\n{arg}\r\n", arg.len()));
        self.0.get_mut().write_all(out.as_bytes()).unwrap();
    }

    pub(crate) fn reply(&mut self) -> Reply {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let (kind, rest) = line.trim_end().split_at(1);
        match kind {
            "+" => Reply::Text(rest.to_owned()),
            ":" => Reply::Number(rest.parse().unwrap()),
            "$" if rest == "-1" => Reply::Nothing,
            "$" => {
                let mut text = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut text).unwrap();
                text.truncate(text.len() - 2);
                Reply::Text(String::from_utf8(text).unwrap())
            }
            "*" => Reply::List((0..rest.parse::<usize>().unwrap()).map(|_| self.reply()).collect()),
            _ => panic!("redis-server answers {}", line.trim_end()),
        }
    }
}
