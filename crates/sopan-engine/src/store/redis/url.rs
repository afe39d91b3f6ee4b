//! Where Redis is, as people write it: one server, several Sentinels that know it, or nodes of a Cluster.
//!
//! ```text
//! redis://[USER:PASSWORD@]HOST[:6379][/DATABASE]
//! redis-sentinel://[USER:PASSWORD@]HOST[:26379],HOST…/MASTER[/DATABASE][?sentinel_user=…&sentinel_password=…]
//! redis-cluster://[USER:PASSWORD@]HOST[:6379],HOST…
//! ```
//!
//! With `rediss` in place of `redis` it is spoken to over TLS, and `valkey` may stand for either word. What is secret in it is
//! shown nowhere: not by `Display`, not by `Debug`, not in what is said of a wrong one.

use std::fmt;
use std::str::FromStr;

/// Where Redis is, and how it is spoken to.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    pub(super) kind: Kind,
    pub(super) is_tls: bool,
    pub(super) nodes: Vec<Node>,
    pub(super) login: Login,
    pub(super) database: i64,
}

/// What the hosts of a URL are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// The one server.
    Standalone,
    /// Sentinels that know where the master of this name is; they may want another login than it does.
    Sentinel { master: String, login: Login },
    /// Some nodes of a Cluster, which tell of the others.
    Cluster,
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) host: String,
    pub(super) port: u16,
}

/// What is said to a server that wants to know who asks.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
}

/// A text that does not say where Redis is. What is said of it holds nothing of the text that may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what}; write for example redis://127.0.0.1:6379, redis-sentinel://a:26379,b:26379/MASTER or redis-cluster://a:6379,b:6379"
)]
pub struct RedisUrlError {
    what: String,
}

/// As many hosts as anybody names; the others are found by asking these.
const NODES_MAX: usize = 64;
const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26_379;

impl RedisUrl {
    /// Whether TLS is spoken.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// `standalone`, `sentinel` or `cluster`.
    pub fn kind(&self) -> &'static str {
        match self.kind {
            Kind::Standalone => "standalone",
            Kind::Sentinel { .. } => "sentinel",
            Kind::Cluster => "cluster",
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.kind == Kind::Cluster
    }

    /// Whether a password goes over a network on which others can read it.
    pub fn shows_password(&self) -> bool {
        let is_elsewhere = |node: &Node| {
            let address = node.host.parse::<std::net::IpAddr>().map(|ip| ip.to_canonical());
            address.map_or(!node.host.eq_ignore_ascii_case("localhost"), |ip| !ip.is_loopback())
        };
        self.login.password.is_some() && !self.is_tls && self.nodes.iter().any(is_elsewhere)
    }
}

impl FromStr for RedisUrl {
    type Err = RedisUrlError;

    fn from_str(text: &str) -> Result<Self, RedisUrlError> {
        let (scheme, rest) = text.trim().split_once("://").ok_or_else(|| wrong("it does not begin with redis://"))?;
        let (is_tls, kind) = scheme_of(scheme).ok_or_else(|| wrong("its scheme is not known here"))?;
        let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, query)| (rest, query));
        // A password may hold anything but a slash that is not escaped.
        let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
        let (userinfo, hosts) =
            authority.rsplit_once('@').map_or((None, authority), |(userinfo, hosts)| (Some(userinfo), hosts));
        let login = userinfo.map_or(Ok(Login::default()), Login::parse)?;
        let port = if kind == Scheme::Sentinel { SENTINEL_PORT } else { PORT };
        let nodes: Vec<_> = hosts.split(',').map(|host| Node::parse(host, port)).collect::<Result<_, _>>()?;
        if nodes.len() > NODES_MAX {
            return Err(wrong(format!("it names {} hosts, and may name {NODES_MAX}", nodes.len())));
        }
        if kind == Scheme::Standalone && nodes.len() > 1 {
            return Err(wrong("it names several hosts, which only Sentinels and the nodes of a Cluster can be"));
        }
        let segments: Vec<_> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let (kind, database) = match (kind, &segments[..]) {
            (Scheme::Standalone, []) => (Kind::Standalone, 0),
            (Scheme::Standalone, [database]) => (Kind::Standalone, number(database)?),
            (Scheme::Standalone, _) => return Err(wrong("its path is not the number of a database")),
            (Scheme::Sentinel, []) => return Err(wrong("it does not name the master that the Sentinels watch")),
            (Scheme::Sentinel, [master]) => (sentinel(master, query)?, 0),
            (Scheme::Sentinel, [master, database]) => (sentinel(master, query)?, number(database)?),
            (Scheme::Sentinel, _) => return Err(wrong("its path is not the name of a master and a database")),
            (Scheme::Cluster, [] | ["0"]) => (Kind::Cluster, 0),
            (Scheme::Cluster, _) => return Err(wrong("a Cluster has only database 0")),
        };
        if !query.is_empty() && !matches!(kind, Kind::Sentinel { .. }) {
            return Err(wrong("what follows the question mark is not known here"));
        }
        Ok(Self { kind, is_tls, nodes, login, database })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Standalone,
    Sentinel,
    Cluster,
}

/// Whether it means TLS, and what the hosts are.
fn scheme_of(scheme: &str) -> Option<(bool, Scheme)> {
    let scheme = scheme.to_ascii_lowercase();
    let (word, rest) = scheme.split_once('-').map_or((&*scheme, ""), |(word, rest)| (word, rest));
    let is_tls = match word {
        "redis" | "valkey" => false,
        "rediss" | "valkeys" => true,
        _ => return None,
    };
    let kind = match rest {
        "" => Scheme::Standalone,
        "sentinel" => Scheme::Sentinel,
        "cluster" => Scheme::Cluster,
        _ => return None,
    };
    Some((is_tls, kind))
}

fn sentinel(master: &str, query: &str) -> Result<Kind, RedisUrlError> {
    let mut login = Login::default();
    for item in query.split('&').filter(|item| !item.is_empty()) {
        match item.split_once('=') {
            Some(("sentinel_user", user)) => login.user = Some(decoded(user)?),
            Some(("sentinel_password", password)) => login.password = Some(decoded(password)?),
            _ => return Err(wrong("after the question mark may be sentinel_user=… and sentinel_password=…")),
        }
    }
    Ok(Kind::Sentinel { master: decoded(master)?, login })
}

fn number(database: &str) -> Result<i64, RedisUrlError> {
    let number = database.parse::<u32>().map_err(|_| wrong("its path is not the number of a database"))?;
    Ok(number.into())
}

impl Login {
    /// `user:password`, `:password`, or, as Redis itself takes it, `user`.
    fn parse(userinfo: &str) -> Result<Self, RedisUrlError> {
        let (user, password) =
            userinfo.split_once(':').map_or((userinfo, None), |(user, password)| (user, Some(password)));
        let user = Some(user).filter(|user| !user.is_empty()).map(decoded).transpose()?;
        let password = password.filter(|password| !password.is_empty()).map(decoded).transpose()?;
        if user.is_some() && password.is_none() {
            return Err(wrong("it has a user and no password (a password alone is written :PASSWORD@)"));
        }
        Ok(Self { user, password })
    }
}

impl Node {
    fn parse(text: &str, default: u16) -> Result<Self, RedisUrlError> {
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or_else(|| wrong("a host is no host"))?)),
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let is_host =
            !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte));
        if !is_host {
            return Err(wrong("a host is missing or no host"));
        }
        let port = port.map_or(Ok(default), |port| {
            port.parse().ok().filter(|port| *port > 0).ok_or_else(|| wrong("a port is no number from 1 to 65535"))
        })?;
        Ok(Self { host: host.to_owned(), port })
    }
}

/// `%40` is `@`.
fn decoded(text: &str) -> Result<String, RedisUrlError> {
    let broken = || wrong("a % in it does not begin an escape such as %40");
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok()).ok_or_else(broken)?;
        if digits.starts_with('+') {
            return Err(broken());
        }
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| broken())?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| wrong("what is escaped in it is not UTF-8"))
}

fn wrong(what: impl Into<String>) -> RedisUrlError {
    RedisUrlError { what: what.into() }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Without what is secret, and with all ports.
impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_tls { "rediss" } else { "redis" })?;
        f.write_str(match self.kind {
            Kind::Standalone => "://",
            Kind::Sentinel { .. } => "-sentinel://",
            Kind::Cluster => "-cluster://",
        })?;
        for (at, node) in self.nodes.iter().enumerate() {
            write!(f, "{}{node}", if at == 0 { "" } else { "," })?;
        }
        if let Kind::Sentinel { master, .. } = &self.kind {
            write!(f, "/{master}")?;
        }
        if self.database == 0 { Ok(()) } else { write!(f, "/{}", self.database) }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({self})")
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.password.is_some() { "Login(…)" } else { "Login(none)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_redis_is_and_shows_no_secret() {
        for (text, shown, kind) in [
            ("redis://127.0.0.1", "redis://127.0.0.1:6379", "standalone"),
            ("REDIS://h:7000/3", "redis://h:7000/3", "standalone"),
            ("rediss://:p%40ss@[::1]:7000/", "rediss://[::1]:7000", "standalone"),
            ("valkey://etl:s3cret@h", "redis://h:6379", "standalone"),
            ("redis-sentinel://a,b:5,c/main", "redis-sentinel://a:26379,b:5,c:26379/main", "sentinel"),
            (
                "rediss-sentinel://:s3cret@a/main/2?sentinel_password=s3cret",
                "rediss-sentinel://a:26379/main/2",
                "sentinel",
            ),
            ("redis-cluster://a,b:7001", "redis-cluster://a:6379,b:7001", "cluster"),
        ] {
            let url: RedisUrl = text.parse().unwrap();
            assert_eq!((&*url.to_string(), url.kind()), (shown, kind), "{text}");
            assert!(!format!("{url:?}").contains("s3cret"), "{text}");
        }
        let url: RedisUrl = "redis://e%3Atl:p%2Fa%40s%3Bs@h/1".parse().unwrap();
        let login = Login { user: Some("e:tl".to_owned()), password: Some("p/a@s;s".to_owned()) };
        assert_eq!((url.login, url.database), (login, 1));
    }

    #[test]
    fn what_is_wrong_with_one_is_said_without_its_secrets() {
        for (text, what) in [
            ("s3cret", "it does not begin with redis://"),
            ("http://s3cret@h", "its scheme is not known here"),
            ("redis-ring://h", "its scheme is not known here"),
            ("redis://", "a host is missing or no host"),
            ("redis://s3cret@h", "it has a user and no password (a password alone is written :PASSWORD@)"),
            ("redis://:%zz@h", "a % in it does not begin an escape such as %40"),
            ("redis://h:s3cret", "a port is no number from 1 to 65535"),
            ("redis://h:99999", "a port is no number from 1 to 65535"),
            ("redis://h:0", "a port is no number from 1 to 65535"),
            ("redis://a,b", "it names several hosts, which only Sentinels and the nodes of a Cluster can be"),
            ("redis://h/s3cret", "its path is not the number of a database"),
            ("redis://h?s3cret", "what follows the question mark is not known here"),
            ("redis-sentinel://h", "it does not name the master that the Sentinels watch"),
            ("redis-sentinel://h/m?s3cret", "after the question mark may be sentinel_user=… and sentinel_password=…"),
            ("redis-cluster://h/1", "a Cluster has only database 0"),
        ] {
            let error = text.parse::<RedisUrl>().unwrap_err();
            assert_eq!(error.what, what, "{text}");
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn a_password_is_shown_to_whoever_is_on_the_way() {
        for (text, is_shown) in [
            ("redis://:p@h", true),
            ("redis://:p@127.0.0.1", false),
            ("redis://:p@localhost", false),
            ("redis://:p@[::1]", false),
            ("rediss://:p@h", false),
            ("redis://h", false),
        ] {
            assert_eq!(text.parse::<RedisUrl>().unwrap().shows_password(), is_shown, "{text}");
        }
    }
}
