//! What does a sopan that runs say of itself? Asks its admin port, as plainly as can be.
//!
//! One request on a connection of its own, with HTTP/1.0 so that the answer comes as it is, and bounds on time and size. What is
//! made of the answer is the business of `sopan status` and `sopan top`.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use crate::admin::state::State;
use crate::config::AdminPort;

/// Whoever answers does so at once; further away there is a network between.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// A hundred exchanges and as many upstreams take a tenth of it.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// Why nothing is known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unknown {
    /// It may be there later.
    #[error("{at}: no sopan answers there ({error}); start one, or say with --admin where it is")]
    Away { at: String, error: io::Error },
    /// Something must be mended first.
    #[error("{at}: {why}")]
    Refused { at: String, why: String },
}

/// What goes on there, as it was told and as it is understood.
pub(crate) fn state(admin: &AdminPort) -> Result<(String, State), Unknown> {
    let answer = get(admin, "/state").map_err(|error| Unknown::Away { at: admin.to_string(), error })?;
    let refused = |why: String| Unknown::Refused { at: admin.to_string(), why };
    let (status, body) = parts(&answer).ok_or_else(|| refused("what answers there is no sopan".to_owned()))?;
    match status {
        200 => {}
        401 => {
            let why = match admin.secret {
                Some(_) => "it does not know the secret; SOPAN_ADMIN_TOKEN holds another one",
                None => "it wants a secret; set SOPAN_ADMIN_TOKEN to what its admin_token_file holds",
            };
            return Err(refused(why.to_owned()));
        }
        status => return Err(refused(format!("it answers {status}, so it is no sopan, or one that is too old"))),
    }
    let state = serde_json::from_str(body)
        .map_err(|error| refused(format!("what it says is not understood ({error}); is it another version?")))?;
    Ok((body.to_owned(), state))
}

fn get(admin: &AdminPort, path: &str) -> io::Result<Vec<u8>> {
    let addresses = (&*admin.host, admin.port).to_socket_addrs()?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name leads nowhere");
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_TIME_MAX).and_then(|socket| exchange(socket, admin, path)) {
            Err(error) => last = error,
            answered => return answered,
        }
    }
    Err(last)
}

fn exchange(mut socket: TcpStream, admin: &AdminPort, path: &str) -> io::Result<Vec<u8>> {
    socket.set_read_timeout(Some(SILENCE_MAX))?;
    socket.set_write_timeout(Some(SILENCE_MAX))?;
    let secret = admin.secret.as_ref().map_or_else(String::new, |secret| format!("Authorization: Bearer {secret}\r\n"));
    write!(socket, "GET {path} HTTP/1.0\r\nHost: {admin}\r\n{secret}\r\n")?;
    let mut answer = Vec::new();
    socket.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(answer)
}

/// The status and the body of an answer.
fn parts(answer: &[u8]) -> Option<(u16, &str)> {
    let (head, body) = std::str::from_utf8(answer).ok()?.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some((status, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_a_status_and_a_body() {
        for (answer, expected) in [
            (&b"HTTP/1.0 200 OK\r\nA: b\r\n\r\n{}"[..], Some((200, "{}"))),
            (b"HTTP/1.1 401 Unauthorized\r\n\r\n", Some((401, ""))),
            (b"HTTP/1.1 200 OK\r\n", None),
            (b"SSH-2.0-x\r\n\r\n", None),
            (b"HTTP/1.1 ok\r\n\r\n", None),
            (b"\xff\r\n\r\n", None),
            (b"", None),
        ] {
            assert_eq!(parts(answer), expected);
        }
    }
}
