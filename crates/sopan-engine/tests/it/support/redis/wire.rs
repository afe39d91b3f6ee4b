//! As much of a client of Redis as it takes: commands out, replies in.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

pub(crate) struct Connection(BufReader<UnixStream>);

#[derive(Debug, PartialEq)]
pub(crate) enum Reply {
    Text(String),
    Number(i64),
    List(Vec<Self>),
    Nothing,
}

impl Connection {
    pub(super) fn open(socket: &Path) -> Self {
        Self(BufReader::new(UnixStream::connect(socket).unwrap()))
    }

    /// Loads a script; answers what it is called.
    pub(crate) fn load(&mut self, script: &str) -> String {
        match self.call(&["SCRIPT", "LOAD", script]) {
            Reply::Text(sha) => sha,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn run(&mut self, sha: &str, keys: &[String], args: &[String]) -> Reply {
        self.send_script(sha, keys, args);
        self.reply()
    }

    pub(crate) fn send_script(&mut self, sha: &str, keys: &[String], args: &[String]) {
        let count = keys.len().to_string();
        let mut command = vec!["EVALSHA", sha, &count];
        command.extend(keys.iter().chain(args).map(String::as_str));
        self.send(&command);
    }

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
