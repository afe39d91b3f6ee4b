//! How a connection to Redis is made: to the one server, to the master that Sentinels name, or to all nodes of a Cluster.
//!
//! Every step has its time. What a redirected command does, since it was not run, is to go where it was sent. When to connect,
//! and again, is [`super::Redis`]' business.
//!
//! Below each connection lies [`Bounded`], but for those of a Cluster over TLS: the `redis` crate makes them itself, and what it
//! is told about TLS it shows nobody. What such a Cluster answers has no bound but its time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::{ClusterConnection, Connect};
use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, FromRedisValue as _,
    IntoConnectionInfo, Pipeline, ProtocolVersion, PushInfo, RedisConnectionInfo, RedisError, RedisFuture, RedisResult,
    ServerErrorKind, TlsCertificates, Value,
};
use rustls_pki_types::ServerName;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;

use super::replies::{Bounded, CLUSTER_MAX};
use super::url::{Kind, Login, Node};
use super::{RedisSettings, RedisSetupError};
use crate::transport::{Roots, Stream, connect_tcp};

/// A connection that many use at once; for a Cluster one to each of its nodes.
#[derive(Clone)]
pub(super) enum Line {
    One(Wire),
    Cluster(ClusterConnection<Wire>),
}

/// A connection to one server; it ends with the last who has a hand on it.
#[derive(Clone)]
pub(super) struct Wire {
    pub(super) line: MultiplexedConnection,
    _driver: Option<Arc<Driver>>,
}

/// What reads and writes.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How connections are made.
pub(super) struct Way {
    settings: RedisSettings,
    /// No reply is longer.
    reply_max: usize,
    tls: Option<TlsConnector>,
    certificates: Option<TlsCertificates>,
    cluster: Option<ClusterClient>,
    /// The Sentinel, or the node of a Cluster, that answered last.
    last: AtomicUsize,
}

/// To one of several hosts; the next one is tried then.
const EACH: Duration = Duration::from_millis(500);
/// Commands that wait for their answers on one connection: a few for each lane, and those of the cache.
const UNDER_WAY_MAX: usize = 4096;

impl Way {
    pub(super) fn new(settings: RedisSettings, reply_max: usize) -> Result<Self, RedisSetupError> {
        let roots = Roots { ca_file: settings.ca_file.clone() };
        roots.check()?;
        let is_tls = settings.url.is_tls;
        let certificates = TlsCertificates { client_tls: None, root_cert: roots.pem()? };
        let tls = if is_tls { Some(TlsConnector::from(Arc::new(roots.alone()?))) } else { None };
        let certificates = is_tls.then_some(certificates);
        let mut way = Self { settings, reply_max, tls, certificates, cluster: None, last: AtomicUsize::new(0) };
        let url = way.settings.url.to_string();
        way.check().map_err(|error| RedisSetupError::Settings { url, why: error.to_string() })?;
        Ok(way)
    }

    /// Whether all of it can be used is known before anybody connects.
    fn check(&mut self) -> RedisResult<()> {
        if self.settings.url.kind == Kind::Cluster {
            self.cluster = Some(self.cluster_client()?);
            return Ok(());
        }
        let RedisSettings { url, .. } = &self.settings;
        url.nodes.iter().try_for_each(|node| self.info(node, &url.login, 0, ProtocolVersion::RESP2).map(drop))
    }

    fn cluster_client(&self) -> RedisResult<ClusterClient> {
        let RedisSettings { url, timeout, .. } = &self.settings;
        let nodes = url.nodes.iter().map(|node| self.info(node, &url.login, 0, ProtocolVersion::RESP2));
        let mut builder = ClusterClientBuilder::new(nodes.collect::<RedisResult<Vec<_>>>()?)
            // What was cut off may have been run; whoever asked knows whether it may be run again.
            .retries(0)
            .connection_timeout(EACH)
            .response_timeout(*timeout)
            .overall_response_timeout(Some(*timeout))
            .connection_concurrency_limit(UNDER_WAY_MAX)
            .tcp_settings(tcp());
        if let Some(certificates) = &self.certificates {
            builder = builder.certs(certificates.clone());
        }
        builder.build()
    }

    /// A connection to where writing is possible. As long as it takes: bounded by whoever asks.
    pub(super) async fn connect(&self) -> RedisResult<Line> {
        let url = &self.settings.url;
        match (&url.kind, &self.cluster) {
            (_, Some(cluster)) => cluster.get_async_generic_connection().await.map(Line::Cluster),
            (Kind::Sentinel { master, login }, _) => {
                let node = self.master(master, login).await?;
                let mut line = self.one(&node, ProtocolVersion::RESP2, self.config()).await?;
                is_master(&mut line, &node).await?;
                Ok(Line::One(line))
            }
            _ => self.one(&url.nodes[0], ProtocolVersion::RESP2, self.config()).await.map(Line::One),
        }
    }

    /// A connection that is only listened on: `hear` is told what comes, and must not wait.
    pub(super) async fn listen(
        &self,
        hear: impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static,
    ) -> RedisResult<Wire> {
        let url = &self.settings.url;
        let config = self.config().set_push_sender(hear);
        match &url.kind {
            Kind::Standalone => self.one(&url.nodes[0], ProtocolVersion::RESP3, config).await,
            Kind::Sentinel { master, login } => {
                let node = self.master(master, login).await?;
                self.one(&node, ProtocolVersion::RESP3, config).await
            }
            // What is published in a Cluster comes by every node of it.
            Kind::Cluster => {
                let mut refused = None;
                for node in self.beginning_with_the_last() {
                    match self.one(&url.nodes[node], ProtocolVersion::RESP3, config.clone()).await {
                        Ok(line) => return Ok(line),
                        Err(error) => refused = Some(error),
                    }
                    self.last.store(node + 1, Relaxed);
                }
                Err(refused.unwrap_or_else(|| nobody("no node is named")))
            }
        }
    }

    async fn one(&self, node: &Node, protocol: ProtocolVersion, config: AsyncConnectionConfig) -> RedisResult<Wire> {
        let url = &self.settings.url;
        self.wire(node, &self.info(node, &url.login, url.database, protocol)?, config).await
    }

    async fn wire(&self, node: &Node, info: &ConnectionInfo, config: AsyncConnectionConfig) -> RedisResult<Wire> {
        let Node { host, port } = node;
        within(EACH, Wire::connect((host, *port), self.tls.as_ref(), info.redis_settings(), config, self.reply_max))
            .await
    }

    /// Where the Sentinels say that the master is.
    async fn master(&self, name: &str, login: &Login) -> RedisResult<Node> {
        let mut refused = None;
        for at in self.beginning_with_the_last() {
            let sentinel = &self.settings.url.nodes[at];
            match self.ask_sentinel(sentinel, login, name).await {
                Ok(Some(node)) => {
                    self.last.store(at, Relaxed);
                    return Ok(node);
                }
                Ok(None) => refused = Some(nobody(format!("the Sentinel {sentinel} knows no master {name}"))),
                Err(error) => {
                    let error = (error.kind(), "a Sentinel did not answer", format!("{sentinel}: {error}"));
                    refused = Some(error.into());
                }
            }
        }
        Err(refused.unwrap_or_else(|| nobody("no Sentinel is named")))
    }

    async fn ask_sentinel(&self, sentinel: &Node, login: &Login, name: &str) -> RedisResult<Option<Node>> {
        let info = self.info(sentinel, login, 0, ProtocolVersion::RESP2)?;
        let mut line = self.wire(sentinel, &info, self.config()).await?;
        let mut ask = Cmd::new();
        ask.arg("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name);
        let found: Option<(String, u16)> = ask.query_async(&mut line).await?;
        Ok(found.map(|(host, port)| Node { host, port }))
    }

    /// All of them, beginning with the one that answered last.
    fn beginning_with_the_last(&self) -> impl Iterator<Item = usize> + use<> {
        let (count, last) = (self.settings.url.nodes.len(), self.last.load(Relaxed));
        (0..count).map(move |at| (last + at) % count)
    }

    fn config(&self) -> AsyncConnectionConfig {
        AsyncConnectionConfig::new()
            .set_connection_timeout(Some(EACH))
            .set_response_timeout(Some(self.settings.timeout))
            .set_concurrency_limit(UNDER_WAY_MAX)
    }

    fn info(
        &self,
        node: &Node,
        login: &Login,
        database: i64,
        protocol: ProtocolVersion,
    ) -> RedisResult<ConnectionInfo> {
        let (host, port) = (node.host.clone(), node.port);
        let address = match self.certificates {
            Some(_) => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            None => ConnectionAddr::Tcp(host, port),
        };
        let mut who = RedisConnectionInfo::default()
            .set_db(database)
            .set_protocol(protocol)
            .set_lib_name("sopan", env!("CARGO_PKG_VERSION"));
        if let Some(user) = &login.user {
            who = who.set_username(user);
        }
        if let Some(password) = &login.password {
            who = who.set_password(password);
        }
        Ok(address.into_connection_info()?.set_redis_settings(who).set_tcp_settings(tcp()))
    }
}

impl Wire {
    async fn connect(
        (host, port): (&str, u16),
        tls: Option<&TlsConnector>,
        who: &RedisConnectionInfo,
        config: AsyncConnectionConfig,
        reply_max: usize,
    ) -> RedisResult<Self> {
        let tcp = connect_tcp(host, port).await?;
        // What is small must leave at once.
        tcp.set_nodelay(true)?;
        let stream = match tls {
            None => Stream::Tcp(tcp),
            Some(tls) => {
                let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
                Stream::Tls(Box::new(tls.connect(name, tcp).await?))
            }
        };
        let bounded = Bounded::new(stream, reply_max);
        let (line, driver) = MultiplexedConnection::new_with_config(who, bounded, config).await?;
        let driver = Driver(tokio::spawn(driver).abort_handle());
        Ok(Self { line, _driver: Some(Arc::new(driver)) })
    }
}

/// How a Cluster makes its connections.
impl Connect for Wire {
    fn connect_with_config<'a, T: IntoConnectionInfo + Send + 'a>(
        info: T,
        config: AsyncConnectionConfig,
    ) -> RedisFuture<'a, Self> {
        Box::pin(async move {
            let info = info.into_connection_info()?;
            let ConnectionAddr::Tcp(host, port) = info.addr() else {
                let line = Client::open(info)?.get_multiplexed_async_connection_with_config(&config).await?;
                return Ok(Self { line, _driver: None });
            };
            within(EACH, Self::connect((host, *port), None, info.redis_settings(), config, CLUSTER_MAX)).await
        })
    }
}

impl ConnectionLike for Wire {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        self.line.req_packed_command(command)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.line.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.line.get_db()
    }
}

async fn within<T>(time: Duration, made: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    tokio::time::timeout(time, made).await.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
}

/// What is small must leave at once.
fn tcp() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

/// After a failover a Sentinel may name for a moment who is master no longer.
async fn is_master(line: &mut Wire, node: &Node) -> RedisResult<()> {
    let mut ask = Cmd::new();
    ask.arg("ROLE");
    let role: Value = ask.query_async(line).await?;
    let first = match &role {
        Value::Array(parts) => parts.first().cloned(),
        _ => None,
    };
    match first.map(String::from_redis_value) {
        Some(Ok(role)) if role == "master" => Ok(()),
        _ => Err(nobody(format!("{node}, which the Sentinels name, is no master"))),
    }
}

fn nobody(what: impl Into<String>) -> RedisError {
    (ErrorKind::MasterNameNotFoundBySentinel, "there is no server to ask", what.into()).into()
}

impl Line {
    /// Sends a command; where a Cluster says that another node has the key, to that.
    pub(super) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        let cluster = match self {
            Self::One(line) => return command.query_async(line).await,
            Self::Cluster(cluster) => cluster,
        };
        let error = match command.query_async(cluster).await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let is_asked = error.kind() == ErrorKind::Server(ServerErrorKind::Ask);
        let Some(node) = error.redirect_node().and_then(|(address, _)| by_address(address)) else { return Err(error) };
        if !is_asked {
            let value = cluster.route_command(command.clone(), RoutingInfo::SingleNode(node)).await?;
            return value.extract_error();
        }
        let mut both = redis::pipe();
        both.cmd("ASKING").ignore().add_command(command.clone());
        let answers = cluster.route_pipeline(both, 1, 1, node).await?;
        let answer = answers.into_iter().next().ok_or(error)?;
        answer.extract_error()
    }
}

fn by_address(address: &str) -> Option<SingleNodeRoutingInfo> {
    let (host, port) = address.rsplit_once(':')?;
    Some(SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port: port.parse().ok()? })
}
