//! Settings of the proxy.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use sopan_core::headers::ForwardedPolicy;
use sopan_core::policy::{Limit, parse_duration, show_duration};
use sopan_core::safety::{HostName, Hosts};
use sopan_engine::{Settings, Target};

use super::read::{Check, address, count, one_of, or_word, positive, size, switch, whole};
use super::{LogFormat, Wrong, upstream};
use crate::cli;

/// What `sopan serve` does.
#[derive(Debug, Clone)]
pub(crate) struct Serve {
    /// Where clients connect.
    pub(crate) listen: SocketAddr,
    /// Where metrics are, if anywhere.
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) upstream: Settings,
    /// For whom requests may be.
    pub(crate) hosts: Hosts,
    pub(crate) client_by: ClientBy,
    /// The longest that a client may take for the head of a request.
    pub(crate) header_timeout: Duration,
    /// How long a client's connection is kept without a request, and may be silent in a body.
    pub(crate) idle_timeout: Duration,
    /// How long what has begun may go on after the signal to stop.
    pub(crate) drain: Duration,
    /// Connections of clients that are open at once.
    pub(crate) max_connections: usize,
    /// Threads that pass requests on.
    pub(crate) workers: usize,
    /// Whether every exchange is logged.
    pub(crate) access_log: bool,
    /// Where state is kept, if anywhere.
    pub(crate) state: Option<PathBuf>,
    pub(crate) log: LogFormat,
}

/// By what clients are told apart, for fairness between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClientBy {
    /// Their address.
    Ip,
    /// Their connection.
    Connection,
    /// The value of a field; requests without it are told apart by address.
    Header(HeaderName),
}

/// A file descriptor each, and some memory; nobody who means it wants more.
const MAX_CONNECTIONS: u64 = 1_000_000;
/// More threads than any machine has cores.
const WORKERS_MAX: u64 = 1024;

/// What was typed, checked.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn serve(typed: &cli::Serve) -> Result<Serve, Wrong> {
    let mut check = Check::default();
    let target = check.read("--upstream", &typed.upstream, Target::parse);
    let settings = upstream_of(&mut check, typed, target.clone());
    let listen = check.read("--listen", &typed.listen, |text| listening(text, typed.open));
    let admin = check.read("--admin", &typed.admin, or_word("off", address));
    if let (Some(listen), Some(Some(admin))) = (listen, admin)
        && listen == admin
        && listen.port() != 0
    {
        check.note("--admin", format_args!("`{admin}` is the address of --listen; it needs a port of its own, or off"));
    }
    for (flag, address) in [("--listen", listen), ("--admin", admin.flatten())] {
        if let (Some(target), Some(address)) = (&target, address)
            && leads_to(target, address)
        {
            check.note(
                "--upstream",
                format_args!("`{target}` is the address of {flag}; sopan would ask itself, and not the API"),
            );
        }
    }
    let names = typed.host.iter().filter_map(|name| check.read("--host", name, host_name)).collect();
    check.read("--cache", &typed.cache, cache);
    let client_by = check.read("--client-by", &typed.waiting.client_by, client_by);
    let header_timeout = check.read("--header-timeout", &typed.header_timeout, positive);
    let drain = check.read("--drain", &typed.drain, parse_duration);
    let max_connections = check.read("--max-connections", &typed.max_connections, whole(1..=MAX_CONNECTIONS));
    let workers = match &typed.workers {
        Some(workers) => check.read("--workers", workers, whole(1..=WORKERS_MAX)),
        None => Some(std::thread::available_parallelism().map_or(1, |n| n.get() as u64).min(WORKERS_MAX)),
    };
    let access_log = check.read("--access-log", &typed.access_log, switch);
    let state = match &typed.state {
        Some(state) => check.read("--state", state, file).map(Some),
        None => Some(None),
    };
    let log = check.read("--log", &typed.log.log, one_of(LogFormat::ALL));
    let serve = || {
        Some(Serve {
            listen: listen?,
            admin: admin?,
            idle_timeout: settings.idle_timeout,
            upstream: settings,
            hosts: Hosts { names, is_open: typed.open },
            client_by: client_by?,
            header_timeout: header_timeout?,
            drain: drain?,
            max_connections: usize::try_from(max_connections?).ok()?,
            workers: usize::try_from(workers?).ok()?,
            access_log: access_log?,
            state: state?,
            log: log?,
        })
    };
    check.finish(serve())
}

fn upstream_of(check: &mut Check, typed: &cli::Serve, target: Option<Target>) -> Settings {
    let mut settings = upstream::defaults(target);
    let mark = check.mark();
    upstream::limits(check, &typed.limits, &mut settings);
    waiting(check, &typed.waiting, &mut settings);
    check.fit(mark, upstream::flag_of, settings.lane.validate());
    upstream::retry(check, &typed.retry, Some(&typed.replay), &mut settings.retry);
    upstream::connections(check, &typed.connections, &mut settings);
    check.set(&mut settings.forwarded, "--forwarded", &typed.passing.forwarded, one_of(FORWARDED));
    check.set(&mut settings.rewrite_links, "--rewrite-links", &typed.passing.rewrite_links, switch);
    settings
}

/// Whether this upstream is surely what listens at this address. A name other than `localhost` is not looked up.
fn leads_to(upstream: &Target, listen: SocketAddr) -> bool {
    const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    let leads = match upstream.host().parse().map(|host: IpAddr| host.to_canonical()) {
        // Whoever connects to no address in particular connects to its own machine.
        Ok(host) if host.is_unspecified() => LOOPBACK.into_iter().filter(|ip| ip.is_ipv4() == host.is_ipv4()).collect(),
        Ok(host) => vec![host],
        Err(_) if upstream.host().eq_ignore_ascii_case("localhost") => LOOPBACK.to_vec(),
        Err(_) => Vec::new(),
    };
    let listens = listen.ip().to_canonical();
    // `[::]` takes IPv4 too.
    let takes = |ip: &IpAddr| {
        listens == *ip || listens.is_unspecified() && ip.is_loopback() && (listens.is_ipv6() || ip.is_ipv4())
    };
    upstream.port() == listen.port() && leads.iter().any(takes)
}

fn waiting(check: &mut Check, typed: &cli::Waiting, settings: &mut Settings) {
    let lane = &mut settings.lane;
    check.set(&mut lane.max_in_flight, "--max-in-flight", &typed.max_in_flight, or_word("unlimited", count));
    check.set(&mut lane.waiting_max, "--waiting-max", &typed.waiting_max, count);
    check.set(&mut lane.queue_bytes_max, "--queue-bytes-max", &typed.queue_bytes_max, size);
    check.set(&mut lane.wait_max, "--wait-max", &typed.wait_max, or_word("unlimited", parse_duration));
}

const FORWARDED: [(&str, ForwardedPolicy); 4] = [
    ("off", ForwardedPolicy::Off),
    ("pass", ForwardedPolicy::Pass),
    ("rfc7239", ForwardedPolicy::Rfc7239),
    ("x-forwarded", ForwardedPolicy::XForwarded),
];

/// Where clients connect. Other machines get in only where somebody says so: there are no keys by which they could be
/// told apart.
fn listening(text: &str, is_open: bool) -> Result<SocketAddr, String> {
    let listen = address(text)?;
    if !is_open && !listen.ip().to_canonical().is_loopback() {
        return Err(format!(
            "`{listen}` can be reached from other machines, and whoever reaches it uses the API as you do; \
             add --open if that is meant, or listen on 127.0.0.1:{}",
            listen.port()
        ));
    }
    Ok(listen)
}

fn host_name(text: &str) -> Result<HostName, String> {
    HostName::parse(text).ok_or_else(|| {
        format!("`{text}` is not a host; write a name or an address without a port or a wildcard, for example proxy.example.com")
    })
}

fn cache(text: &str) -> Result<(), String> {
    match text {
        "off" => Ok(()),
        "on" => Err("`on` is not allowed: the cache is not there yet; write off, or leave it away".to_owned()),
        _ => Err(format!("`{text}` is not allowed; write off")),
    }
}

fn client_by(text: &str) -> Result<ClientBy, String> {
    match (text, text.strip_prefix("header:")) {
        ("ip", _) => Ok(ClientBy::Ip),
        ("connection", _) => Ok(ClientBy::Connection),
        (_, Some(name)) => match name.parse() {
            Ok(name) => Ok(ClientBy::Header(name)),
            Err(_) => Err(format!("`{name}` is not the name of a field; write for example header:X-Team")),
        },
        _ => Err(format!("`{text}` is not allowed; write ip, connection, or header:NAME")),
    }
}

fn file(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err(format!("`{text}` is not a file; write its name")) } else { Ok(text.into()) }
}

impl Serve {
    /// Its limits as they are written, rates before quotas: the order in which a lane tells how full they are.
    pub(crate) fn limits(&self) -> Vec<String> {
        self.in_order().map(ToString::to_string).collect()
    }

    fn in_order(&self) -> impl Iterator<Item = &Limit> {
        let (rates, quotas): (Vec<_>, Vec<_>) =
            self.upstream.lane.limits.iter().partition(|limit| matches!(limit, Limit::Rate(_)));
        rates.into_iter().chain(quotas)
    }

    /// What is in force. `listening` is the address that was really taken; `at_once` says for each of the limits how many it
    /// lets go after a quiet time.
    pub(crate) fn in_force(&self, listening: SocketAddr, at_once: &[u64]) -> InForce<'_> {
        let lane = &self.upstream.lane;
        let shown: Vec<_> = self.in_order().zip(at_once).map(|(limit, n)| left_of(limit, *n)).collect();
        InForce {
            listen: format!("http://{listening}"),
            upstream: &self.upstream.target,
            limits: if shown.is_empty() { "unlimited".to_owned() } else { shown.join(", ") },
            max_in_flight: lane.max_in_flight,
            waiting_max: lane.waiting_max,
            wait_max: lane.wait_max.map_or_else(|| "unlimited".to_owned(), show_duration),
            max_retries: self.upstream.retry.max_retries,
            breaker: if self.upstream.breaker.on { "on" } else { "off" },
            admin: self.admin.map_or_else(|| "off".to_owned(), |admin| format!("http://{admin}")),
        }
    }
}

/// A limit with what the headroom leaves of its burst: `10/s burst 20 (19 at once)`.
fn left_of(limit: &Limit, at_once: u64) -> String {
    match limit {
        Limit::Rate(rate) if rate.burst() > 1 => format!("{limit} ({at_once} at once)"),
        Limit::Rate(_) | Limit::Quota(_) | Limit::Calendar(_) => limit.to_string(),
    }
}

/// What `sopan serve` keeps to, for its first line in the log.
#[derive(Debug)]
pub(crate) struct InForce<'a> {
    pub(crate) listen: String,
    pub(crate) upstream: &'a Target,
    pub(crate) limits: String,
    pub(crate) max_in_flight: Option<u32>,
    pub(crate) waiting_max: u32,
    pub(crate) wait_max: String,
    pub(crate) max_retries: u32,
    pub(crate) breaker: &'static str,
    pub(crate) admin: String,
}

impl fmt::Display for InForce<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listen, upstream, limits, waiting_max, wait_max, max_retries, breaker, admin, .. } = self;
        write!(f, "listening on {listen} for {upstream}; limits {limits}")?;
        if let Some(max) = self.max_in_flight {
            write!(f, "; max_in_flight {max}")?;
        }
        write!(f, "; waiting_max {waiting_max}; wait_max {wait_max}; max_retries {max_retries}; breaker {breaker}")?;
        write!(f, "; admin {admin}")
    }
}
