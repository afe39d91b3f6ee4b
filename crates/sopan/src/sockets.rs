//! Which sockets did whoever started the program open for it?
//!
//! A service manager can listen in place of a program and hand it the sockets (`sd_listen_fds(3)`), so that nobody is turned
//! away while it restarts, and so that it may use ports that it could not open itself. One that is called `admin` is for the
//! admin port; one that is called `proxy`, or whatever the only one is called, is for clients. Where they listen counts like a
//! flag that was typed, so that what is safe is asked of it too ([`crate::config`]). What was opened for another process is
//! left alone.

use std::fmt;
use std::net::{SocketAddr, TcpListener};

use anyhow::{Context as _, anyhow, bail};
use listenfd::ListenFd;
use rustix::net::sockopt::socket_acceptconn;

/// Sockets that are listened on already.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    pub(crate) proxy: Option<TcpListener>,
    pub(crate) admin: Option<TcpListener>,
}

/// What a socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Proxy,
    Admin,
}

/// What is said of them in the environment.
#[derive(Debug, Default, Clone, Copy)]
struct Said<'a> {
    /// `LISTEN_PID`: the process that they are for.
    process: Option<&'a str>,
    /// `LISTEN_FDS`: how many there are.
    count: Option<&'a str>,
    /// `LISTEN_FDNAMES`: how they are called.
    names: Option<&'a str>,
}

/// Takes those that were handed to this process. To be called before it has opened anything else, or begun a thread.
///
/// # Errors
/// They are not what sopan can listen on.
pub(crate) fn take() -> anyhow::Result<Sockets> {
    let said = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"].map(|name| std::env::var(name).ok());
    let [process, count, names] = said.each_ref().map(Option::as_deref);
    let roles = roles(Said { process, count, names }, std::process::id())?;
    if roles.is_empty() {
        return Ok(Sockets::default());
    }
    let (mut handed, mut sockets) = (ListenFd::from_env(), Sockets::default());
    for (number, role) in roles.into_iter().enumerate() {
        let taken = handed.take_tcp_listener(number).map_err(anyhow::Error::from);
        let listener = taken.and_then(|listener| listener.context("there is none")).and_then(ready).map_err(|why| {
            anyhow!("{role}: {why}; name an address and a port of TCP with ListenStream=, and no Accept=")
        })?;
        match role {
            Role::Proxy => sockets.proxy = Some(listener),
            Role::Admin => sockets.admin = Some(listener),
        }
    }
    Ok(sockets)
}

/// One that connections can be accepted from, without waiting for them.
fn ready(listener: TcpListener) -> anyhow::Result<TcpListener> {
    if !socket_acceptconn(&listener)? {
        bail!("nobody listens on it");
    }
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// What each of them is for, in their order.
fn roles(said: Said<'_>, this: u32) -> anyhow::Result<Vec<Role>> {
    let Said { process: Some(process), count: Some(count), names } = said else { return Ok(Vec::new()) };
    if process.parse() != Ok(this) {
        return Ok(Vec::new());
    }
    let count: usize = count.parse().map_err(|_| anyhow!("LISTEN_FDS: `{count}` is no number of sockets"))?;
    let names: Vec<_> = names.map_or_else(Vec::new, |names| names.split(':').collect());
    let named = |name| match name {
        "proxy" => Some(Role::Proxy),
        "admin" => Some(Role::Admin),
        _ => None,
    };
    match (count, &names[..]) {
        (0, _) => Ok(Vec::new()),
        (1, names) => Ok(vec![names.first().copied().and_then(named).unwrap_or(Role::Proxy)]),
        (2, [first, second]) => match (named(first), named(second)) {
            (Some(first), Some(second)) if first != second => Ok(vec![first, second]),
            (Some(_), Some(_)) => {
                bail!(
                    "LISTEN_FDNAMES: two sockets are called `{first}`, and sopan listens on one; take one of them away"
                )
            }
            (known, _) => {
                let unknown = if known.is_none() { first } else { second };
                bail!(
                    "LISTEN_FDNAMES: of two sockets one is called `{unknown}`, which says nothing to sopan; call one \
                     `proxy` and the other `admin` (FileDescriptorName=)"
                )
            }
        },
        (2, _) => {
            bail!("LISTEN_FDNAMES: of two sockets one must be called `proxy` and the other `admin`; say so there")
        }
        _ => bail!("LISTEN_FDS: there are {count} sockets, and sopan listens on two at most; take the others away"),
    }
}

impl Sockets {
    /// Where they listen.
    ///
    /// # Errors
    /// The system does not say so.
    pub(crate) fn addresses(&self) -> std::io::Result<Vec<(Role, SocketAddr)>> {
        let sockets = [(Role::Proxy, &self.proxy), (Role::Admin, &self.admin)].into_iter();
        let handed = sockets.filter_map(|(role, socket)| Some((role, socket.as_ref()?)));
        handed.map(|(role, socket)| Ok((role, socket.local_addr()?))).collect()
    }
}

impl Role {
    /// The setting that says where it is listened for otherwise.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Proxy => "listen",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Proxy => "proxy",
            Self::Admin => "admin",
        };
        write!(f, "the socket `{name}` of the service manager")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_for_what_its_name_says_or_for_clients_if_it_is_the_only_one() {
        let of_this = Some("7");
        for (process, count, names, expected) in [
            (None, None, None, Ok(&[][..])),
            (of_this, Some("0"), None, Ok(&[])),
            // Opened for whoever started this process.
            (Some("8"), Some("x"), Some("proxy"), Ok(&[])),
            (None, Some("1"), None, Ok(&[])),
            (of_this, Some("1"), None, Ok(&[Role::Proxy])),
            (of_this, Some("1"), Some("sopan.socket"), Ok(&[Role::Proxy])),
            (of_this, Some("1"), Some("admin"), Ok(&[Role::Admin])),
            (of_this, Some("2"), Some("proxy:admin"), Ok(&[Role::Proxy, Role::Admin])),
            (of_this, Some("2"), Some("admin:proxy"), Ok(&[Role::Admin, Role::Proxy])),
            (of_this, Some("2"), Some("proxy:proxy"), Err("two sockets are called `proxy`")),
            (of_this, Some("2"), Some("proxy:sopan.socket"), Err("one is called `sopan.socket`, which says nothing")),
            (of_this, Some("2"), Some(":admin"), Err("one is called ``, which says nothing")),
            (of_this, Some("2"), None, Err("one must be called `proxy` and the other `admin`")),
            (of_this, Some("2"), Some("proxy"), Err("one must be called `proxy` and the other `admin`")),
            (of_this, Some("18446744073709551615"), None, Err("two at most")),
            (of_this, Some("-1"), None, Err("`-1` is no number of sockets")),
        ] {
            let found = roles(Said { process, count, names }, 7).map_err(|why| why.to_string());
            match (&found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{count:?} {names:?}"),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
                _ => panic!("{count:?} {names:?}: {found:?}"),
            }
        }
    }
}
