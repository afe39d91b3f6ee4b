//! What is whoever runs sopan as a service told?
//!
//! That it serves, that it ends, and now and then that it still moves: datagrams to the socket that `NOTIFY_SOCKET` names
//! (`sd_notify(3)`). That it moves is told only once every thread that serves has done something, so that a single one that is
//! stuck has the program restarted. Where nobody wants to be told, nothing is done; where telling fails, a line of the log says
//! so, and serving goes on.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use super::workers::Pulse;

/// A manager that takes longer to make room for a datagram is not waited for.
const TELL_TIME_MAX: Duration = Duration::from_secs(1);
/// What comes behind draining takes no longer: traces that still wait are delivered for 5 s at most, and what is stored and
/// counted goes to the disk.
const AFTER_DRAINING_MAX: Duration = Duration::from_secs(15);
/// It is asked for signs of life in seconds; more of them than this would only cost.
const BEAT_MIN: Duration = Duration::from_millis(10);

const SIGN_OF_LIFE: &str = "WATCHDOG=1";

/// Who is told, if anybody.
#[derive(Debug, Clone, Default)]
pub(super) struct Manager {
    socket: Option<Arc<OsStr>>,
    /// How often it wants a sign of life.
    beat: Option<Duration>,
}

impl Manager {
    /// The one that the environment names.
    pub(super) fn of_process() -> Self {
        let of = |name| std::env::var_os(name).filter(|value: &OsString| !value.is_empty());
        let number = |name| of(name)?.to_str()?.parse::<u64>().ok();
        let is_for_this = of("WATCHDOG_PID").is_none() || number("WATCHDOG_PID") == Some(std::process::id().into());
        let most = number("WATCHDOG_USEC").filter(|most| is_for_this && *most > 0);
        // A sign may be late by as much again.
        let beat = most.map(|most| (Duration::from_micros(most) / 2).max(BEAT_MIN));
        Self { socket: of("NOTIFY_SOCKET").map(Arc::from), beat }
    }

    /// That requests are taken there.
    pub(super) async fn serves(&self, listen: &str) {
        self.tell(&format!("READY=1\nSTATUS=listening on {listen}")).await;
    }

    /// That it ends, and within which time: more may be needed than its manager was told to allow.
    pub(super) async fn ends(&self, drain: Duration) {
        let within = drain.saturating_add(AFTER_DRAINING_MAX).as_micros();
        let status = "STATUS=draining: what has begun is finished, nothing new is taken";
        self.tell(&format!("STOPPING=1\n{status}\nEXTEND_TIMEOUT_USEC={within}")).await;
    }

    /// Tells that it moves, as long as it does.
    pub(super) async fn watch(self, pulse: Pulse) {
        let (Some(beat), Some(_)) = (self.beat, &self.socket) else { return };
        let (mut ticks, mut works) = (tokio::time::interval(beat), true);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if !pulse.felt().await {
                return;
            }
            // Once is enough, until it works again.
            let told = self.try_tell(SIGN_OF_LIFE).await;
            match &told {
                Err(error) if works => warn(SIGN_OF_LIFE, error),
                _ => {}
            }
            works = told.is_ok();
        }
    }

    async fn tell(&self, message: &str) {
        if let Err(error) = self.try_tell(message).await {
            warn(message.lines().next().unwrap_or_default(), &error);
        }
    }

    async fn try_tell(&self, message: &str) -> io::Result<()> {
        let Some(name) = &self.socket else { return Ok(()) };
        // Each time anew, since a manager may make its socket anew.
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address(name)?)?;
        socket.set_nonblocking(true)?;
        let socket = tokio::net::UnixDatagram::from_std(socket)?;
        tokio::time::timeout(TELL_TIME_MAX, socket.send(message.as_bytes())).await??;
        Ok(())
    }
}

fn warn(told: &str, error: &io::Error) {
    tracing::warn!(told, %error, "the service manager cannot be told {told}: {error}; it may take sopan for one that hangs");
}

/// A path, or `@` and a name that is in no file system.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes() {
        [b'@', name @ ..] => abstract_address(name),
        [b'/', ..] => SocketAddr::from_pathname(name),
        _ => Err(io::Error::other("NOTIFY_SOCKET begins neither with / nor with @")),
    }
}

#[cfg(target_os = "linux")]
fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt as _;
    SocketAddr::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn abstract_address(_: &[u8]) -> io::Result<SocketAddr> {
    Err(io::Error::other("NOTIFY_SOCKET begins with @, and such names are Linux's"))
}
