//! Is Redis there, and what does it say? One connection for all that the program asks of it, made again when it is lost.
//!
//! A call never waits longer than `timeout`, whatever the server or the way to it does, and never says the same thing twice: what
//! was cut off may have been run. A connection is made in the background, one at a time, and not again at once after one that
//! failed; calls meanwhile fail like others. What to do about a failure is for whoever called.
//!
//! Where it is, [`RedisUrl`] says; how to get there, `connect`.

mod connect;
mod ledgers;
mod replies;
#[cfg(test)]
mod tests;
mod url;

use std::fmt;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, ToRedisArgs, Value};
use sopan_core::policy::show_duration;
use sopan_core::time::Instant;
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::transport::TlsError;
use connect::{Line, Way};
pub(crate) use ledgers::RedisLedgers;
use replies::Excess;
pub(crate) use replies::NUMBERS_MAX;
pub use url::{RedisUrl, RedisUrlError};

/// Where Redis is, and how long it may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisSettings {
    /// Where it is.
    pub url: RedisUrl,
    /// A PEM file of the authorities that vouch for it over TLS, in place of the system's.
    pub ca_file: Option<PathBuf>,
    /// The longest that an answer may take; default 100 ms.
    pub timeout: Duration,
}

impl RedisSettings {
    /// Those that are usual, for this place.
    pub fn new(url: RedisUrl) -> Self {
        Self { url, ca_file: None, timeout: Duration::from_millis(100) }
    }
}

/// Redis cannot be used as it is set up.
#[derive(Debug, thiserror::Error)]
pub enum RedisSetupError {
    /// The file of authorities cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// What the settings say cannot be.
    #[error("{url} cannot be used: {why}")]
    Settings {
        /// Without what is secret in it.
        url: String,
        /// What the library says.
        why: String,
    },
}

/// Why there is no answer. In words it goes on from "Redis", and shows no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// None came in time; what was asked for may have been done, or may still be.
    #[error("has not answered within {}", show_duration(*.0))]
    Slow(Duration),
    /// There is no connection.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// It says no.
    #[error("refuses: {0}")]
    Refused(String),
    /// It answers what it could not.
    #[error("answers what makes no sense: {0}")]
    Nonsense(String),
}

/// All kinds of [`Fault`], for whoever counts them.
pub const FAULTS: [&str; 4] = ["timeout", "unreachable", "refused", "nonsense"];

impl Fault {
    /// Which of [`FAULTS`] it is.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Slow(_) => "timeout",
            Self::Unreachable(_) => "unreachable",
            Self::Refused(_) => "refused",
            Self::Nonsense(_) => "nonsense",
        }
    }
}

/// A script that runs in Redis.
pub(crate) struct Script {
    code: &'static str,
    hash: String,
}

impl Script {
    pub(crate) fn new(code: &'static str) -> Self {
        Self { code, hash: redis::Script::new(code).get_hash().to_owned() }
    }

    fn command(&self, how: &str, which: &str, keys: &[String], args: &[impl ToRedisArgs]) -> Cmd {
        let mut command = Cmd::new();
        command.arg(how).arg(which).arg(keys.len()).arg(keys).arg(args);
        command
    }
}

/// One connection, which all who clone it share.
#[derive(Clone)]
pub(crate) struct Redis {
    inner: Arc<Inner>,
}

struct Inner {
    way: Way,
    url: RedisUrl,
    timeout: Duration,
    clock: Clock,
    state: Mutex<State>,
    /// Rung when a connection was made, or could not be.
    changed: Notify,
}

enum State {
    /// Nobody needed it yet.
    Idle,
    Connecting,
    Up {
        line: Line,
        /// When it last answered.
        answered: Instant,
        /// Tells this one from those before it.
        number: u64,
    },
    Failed {
        at: Instant,
        why: Fault,
    },
}

/// The longest that a connection may take, with TLS, a Sentinel or two, and the nodes of a Cluster.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// When no connection could be made, the next attempt comes after this.
const AGAIN: Duration = Duration::from_millis(100);
/// A Cluster mends its connections itself; where none of it has answered for so long they are all made anew.
const CLUSTER_MENDS: Duration = Duration::from_secs(5);
/// What is shown of what a server says.
const SAID_MAX: usize = 200;

impl Redis {
    /// Nothing is connected yet. No reply that is longer than this is read.
    ///
    /// # Errors
    /// Settings that cannot be used, whatever the server says.
    pub(crate) fn new(settings: RedisSettings, reply_max: usize, clock: Clock) -> Result<Self, RedisSetupError> {
        let RedisSettings { url, timeout, .. } = settings.clone();
        let way = Way::new(settings, reply_max)?;
        let (state, changed) = (Mutex::new(State::Idle), Notify::new());
        Ok(Self { inner: Arc::new(Inner { way, url, timeout, clock, state, changed }) })
    }

    pub(crate) fn url(&self) -> &RedisUrl {
        &self.inner.url
    }

    /// The longest that an answer may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.inner.timeout
    }

    pub(crate) fn now(&self) -> Instant {
        self.inner.clock.now()
    }

    /// Runs a script; where the server does not know it, it is told.
    pub(crate) async fn run<A: ToRedisArgs + Sync>(
        &self,
        script: &Script,
        keys: &[String],
        args: &[A],
    ) -> Result<Value, Fault> {
        self.within(async |line| match line.send(&script.command("EVALSHA", &script.hash, keys, args)).await {
            // It was started anew, or told to forget. Nothing was run.
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                line.send(&script.command("EVAL", script.code, keys, args)).await
            }
            done => done,
        })
        .await
    }

    /// Sends a command.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, Fault> {
        self.within(async |line| line.send(command).await).await
    }

    /// Listens to a channel until that is lost, and says why. `hear` is told each message, and must not wait.
    pub(crate) async fn listen(&self, channel: &str, hear: impl Fn(&[u8]) + Send + Sync + 'static) -> Fault {
        self.listen_from(channel, || {}, hear).await
    }

    /// The same; `begun` is told when nothing is missed any more.
    pub(crate) async fn listen_from(
        &self,
        channel: &str,
        begun: impl FnOnce() + Send,
        hear: impl Fn(&[u8]) + Send + Sync + 'static,
    ) -> Fault {
        let lost = Arc::new(Notify::new());
        let ring = Arc::clone(&lost);
        let push = move |push: redis::PushInfo| {
            match push.kind {
                redis::PushKind::Disconnection => ring.notify_one(),
                redis::PushKind::Message => {
                    if let Some(Value::BulkString(payload)) = push.data.get(1) {
                        hear(payload);
                    }
                }
                _ => {}
            }
            Ok(())
        };
        let subscribed = async {
            let mut line = self.inner.way.listen(push).await?;
            line.line.subscribe(channel).await?;
            Ok::<_, RedisError>(line)
        };
        let mut line = match tokio::time::timeout(CONNECT_MAX, subscribed).await {
            Ok(Ok(line)) => line,
            Ok(Err(error)) => return self.fault(&error),
            Err(_) => return Fault::Slow(CONNECT_MAX),
        };
        begun();
        loop {
            tokio::select! {
                () = lost.notified() => return Fault::Unreachable("the connection was closed".to_owned()),
                () = tokio::time::sleep(LISTEN_PROBE) => {}
            }
            // A connection on which nothing comes may be one that is no more.
            let mut ping = Cmd::new();
            ping.arg("PING");
            match tokio::time::timeout(CONNECT_MAX, ping.query_async::<Value>(&mut line)).await {
                Ok(Ok(_)) => {}
                // It is only late.
                Ok(Err(error)) if error.is_timeout() => {}
                Ok(Err(error)) => return self.fault(&error),
                Err(_) => return Fault::Slow(CONNECT_MAX),
            }
        }
    }

    async fn within(&self, ask: impl AsyncFnOnce(&mut Line) -> redis::RedisResult<Value>) -> Result<Value, Fault> {
        let mut number = None;
        let asked = async {
            let (mut line, of) = self.line().await?;
            number = Some(of);
            ask(&mut line).await.map_err(|error| self.fault(&error))
        };
        let done = tokio::time::timeout(self.inner.timeout, asked).await;
        let done = done.unwrap_or(Err(Fault::Slow(self.inner.timeout)));
        if let Some(number) = number {
            self.inner.judge(number, done.as_ref().err());
        }
        done
    }

    /// The connection, when there is one.
    async fn line(&self) -> Result<(Line, u64), Fault> {
        loop {
            let mut changed = pin!(self.inner.changed.notified());
            changed.as_mut().enable();
            match self.inner.have() {
                Have::Line(line, number) => return Ok((line, number)),
                Have::Fault(fault) => return Err(fault),
                Have::Wait => {}
                Have::Connect => drop(tokio::spawn(Arc::clone(&self.inner).connect())),
            }
            changed.await;
        }
    }

    fn fault(&self, error: &RedisError) -> Fault {
        self.inner.fault(error)
    }
}

/// How often a connection that is listened on is asked whether it is there.
const LISTEN_PROBE: Duration = Duration::from_secs(1);

/// What is there of a connection.
enum Have {
    Line(Line, u64),
    Fault(Fault),
    /// Somebody makes one.
    Wait,
    /// Whoever asked must see to it.
    Connect,
}

impl Inner {
    fn have(&self) -> Have {
        let now = self.clock.now();
        let mut state = self.state.lock();
        match &*state {
            State::Up { line, number, .. } => return Have::Line(line.clone(), *number),
            State::Connecting => return Have::Wait,
            State::Failed { at, why } if now.since(*at) < AGAIN => return Have::Fault(why.clone()),
            State::Idle | State::Failed { .. } => {}
        }
        *state = State::Connecting;
        Have::Connect
    }

    /// Makes a connection; goes on when whoever asked for it has given up.
    async fn connect(self: Arc<Self>) {
        let made = tokio::time::timeout(CONNECT_MAX, self.way.connect()).await;
        let now = self.clock.now();
        *self.state.lock() = match made {
            Ok(Ok(line)) => State::Up { line, answered: now, number: now.since(Instant::ORIGIN).as_nanos() as u64 },
            Ok(Err(error)) => State::Failed { at: now, why: self.fault(&error) },
            Err(_) => State::Failed { at: now, why: Fault::Slow(CONNECT_MAX) },
        };
        self.changed.notify_waiters();
    }

    /// Whether the connection of this number is still good, after this.
    fn judge(&self, number: u64, fault: Option<&Fault>) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let State::Up { line, answered, number: current } = &mut *state else { return };
        if *current != number {
            return;
        }
        let is_lost = match (fault, &line) {
            (None | Some(Fault::Refused(_)), Line::Cluster(_)) | (None, _) => {
                *answered = now;
                false
            }
            // A Cluster mends itself, and most of it may be well.
            (Some(_), Line::Cluster(_)) => now.since(*answered) > CLUSTER_MENDS,
            // It may have been a master and be none any more; a new connection finds out.
            (Some(_), Line::One(_)) => true,
        };
        if is_lost {
            // Who still waits for an answer on it has a hand on it.
            *state = State::Idle;
        }
    }

    fn fault(&self, error: &RedisError) -> Fault {
        let mut said: String = error.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if let Some((at, _)) = said.char_indices().nth(SAID_MAX) {
            said.truncate(at);
            said.push('…');
        }
        if let Some(meant) = meant(error, &self.url) {
            return Fault::Refused(meant.to_owned());
        }
        if let Some(excess) = Excess::of(error) {
            return Fault::Nonsense(excess.to_string());
        }
        match error.kind() {
            _ if error.is_timeout() => Fault::Slow(self.timeout),
            ErrorKind::AuthenticationFailed => Fault::Refused("it does not accept the user or the password".to_owned()),
            ErrorKind::Server(_) | ErrorKind::Extension | ErrorKind::RESP3NotSupported => Fault::Refused(said),
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType => Fault::Nonsense(said),
            _ => Fault::Unreachable(said),
        }
    }
}

/// What a server means that is another one than the URL says, or wants to know who asks. It says so in words of its own, some of
/// which depend on how long the question is.
fn meant(error: &RedisError, url: &RedisUrl) -> Option<&'static str> {
    let (code, said) = (error.code().unwrap_or_default(), error.to_string());
    match url.kind() {
        // Nothing longer than a login is even read.
        _ if code == "NOAUTH" || said.contains("unauthenticated") => Some("it wants a password, and its URL has none"),
        "standalone" | "sentinel" if matches!(code, "MOVED" | "ASK" | "CLUSTERDOWN") => {
            Some("it is a node of a Cluster; write redis-cluster://HOST as its URL")
        }
        "cluster" if said.contains("cluster support disabled") => {
            Some("it is no Cluster; write redis://HOST as its URL")
        }
        "sentinel" if said.contains("unknown command 'SENTINEL'") => {
            Some("it is no Sentinel; write redis://HOST as its URL, or the port of a Sentinel, mostly 26379")
        }
        _ => None,
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redis({})", self.inner.url)
    }
}
