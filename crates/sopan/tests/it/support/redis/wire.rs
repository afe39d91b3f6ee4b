//! Redis' protocol, as far as tests speak it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::support::PATIENCE;

/// A connection on which it is asked.
pub(crate) struct Asker(BufReader<TcpStream>);

/// What it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Nothing,
    Number(i64),
    Text(String),
    List(Vec<Self>),
    Error(String),
}

impl Asker {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(BufReader::new(socket)))
    }

    pub(crate) fn ask(&mut self, words: &[&str]) -> io::Result<Reply> {
        let mut message = format!("*{}\r\n", words.len());
        for word in words {
            message += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.0.get_mut().write_all(message.as_bytes())?;
        self.read()
    }

    /// What comes next, asked for or not.
    pub(crate) fn read(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (kind, rest) = line.trim_end().split_at(1);
        let number = || rest.parse::<i64>().map_err(io::Error::other);
        Ok(match kind {
            "+" => Reply::Text(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Number(number()?),
            "$" => usize::try_from(number()?).map_or(Ok(Reply::Nothing), |length| self.read_text(length))?,
            "*" => {
                let length = usize::try_from(number()?).unwrap_or(0);
                Reply::List((0..length).map(|_| self.read()).collect::<io::Result<_>>()?)
            }
            _ => return Err(io::Error::other(line)),
        })
    }

    fn read_text(&mut self, length: usize) -> io::Result<Reply> {
        let mut bytes = vec![0; length + 2];
        self.0.read_exact(&mut bytes)?;
        bytes.truncate(length);
        // What is packed is no text, and tests only look for its place.
        Ok(Reply::Text(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

impl Reply {
    #[track_caller]
    pub(crate) fn number(&self) -> i64 {
        match self {
            Self::Number(number) => *number,
            other => panic!("no number: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            other => panic!("no text: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn texts(&self) -> Vec<String> {
        match self {
            Self::List(list) => list.iter().map(Self::text).collect(),
            other => panic!("no list: {other:?}"),
        }
    }
}
