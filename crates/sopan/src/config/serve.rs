//! Settings of the proxy: flags and a file as what `sopan serve` does, or everything that is wrong with them.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use sopan_core::safety::Hosts;
use sopan_engine::{Settings, Target};

use super::Format;
use super::draft::{Program, Treatment};
use super::file::File;
use super::flags::Typed;
use super::layer::Layer;
use super::problem::{Place, Problem, Wrong};
use super::read::show_size;
use super::resolve::{Resolved, is_of_upstream};
use super::route::Route;
use super::traces::Traces;

/// What `sopan serve` does.
#[derive(Debug, Clone)]
pub(crate) struct Serve {
    /// Where clients connect.
    pub(crate) listen: SocketAddr,
    /// Where metrics are, if anywhere.
    pub(crate) admin: Option<SocketAddr>,
    /// At least one.
    pub(crate) upstreams: Vec<Served>,
    /// For whom requests may be.
    pub(crate) hosts: Hosts,
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
    /// Where state is kept, if anywhere.
    pub(crate) state: Option<PathBuf>,
    /// Where answers are stored.
    pub(crate) store: Store,
    /// Which exchanges are told of in traces, if any are.
    pub(crate) traces: Option<Traces>,
    /// Whether every exchange is logged.
    pub(crate) access_log: bool,
    pub(crate) log: Format,
}

/// Where answers are stored, those of all upstreams together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Store {
    /// What they take in memory.
    pub(crate) memory_bytes: u64,
    /// A directory in which they outlive the program, and what they take there; none if they do not.
    pub(crate) disk: Option<(PathBuf, u64)>,
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of memory", show_size(self.memory_bytes))?;
        match &self.disk {
            Some((directory, bytes)) => write!(f, ", {} in {}", show_size(*bytes), directory.display()),
            None => Ok(()),
        }
    }
}

/// One upstream, and which requests it takes.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    /// As the log and the metrics call it; never `none`, which stands for no upstream.
    pub(crate) name: String,
    pub(crate) route: Route,
    pub(crate) settings: Settings,
    pub(crate) client_by: ClientBy,
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

/// The name of the upstream that flags make.
const ALONE: &str = "default";
/// As many threads by themselves at most; more can be asked for.
const WORKERS_MAX: usize = 1024;

/// Settings as far as they could be read, and what is wrong with them.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) wrong: Wrong,
    pub(crate) program: Resolved,
    pub(crate) upstreams: Vec<(String, Resolved)>,
    /// None where anything is wrong.
    pub(crate) serve: Option<Serve>,
}

/// What was typed, and what stands in the file that was named.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn serve(config: Option<&str>, typed: &Typed) -> Result<Serve, Wrong> {
    let Loaded { mut wrong, serve, .. } = load(config, typed);
    // What may not be meant so is told by `check`.
    wrong.problems.retain(|problem| problem.severity == super::problem::Severity::Error);
    serve.ok_or(wrong)
}

/// Reads, resolves and checks everything.
pub(crate) fn load(config: Option<&str>, typed: &Typed) -> Loaded {
    loaded(config.map(File::read), typed)
}

/// The same of a file that was read.
pub(super) fn loaded(mut file: Option<File>, typed: &Typed) -> Loaded {
    let mut wrong = Wrong::default();
    let mut flags = typed.layer(&mut wrong.problems);
    flags.sift(&mut wrong.problems);
    let mut parts = Vec::new();
    let (mut top, mut defaults) = (None, None);
    if let Some(file) = &mut file {
        wrong.source = std::mem::take(&mut file.source);
        wrong.problems.append(&mut file.problems);
        file.program.sift(&mut wrong.problems);
        file.defaults.sift(&mut wrong.problems);
        for named in &mut file.upstreams {
            named.layer.sift(&mut wrong.problems);
        }
        top = Some(&file.program);
        defaults = Some(&file.defaults);
        parts.extend(file.upstreams.iter().map(|named| (named.name.clone(), named.place.clone(), Some(&named.layer))));
    } else {
        parts.push((ALONE.to_owned(), Place::Flag("--upstream".to_owned()), None));
    }
    let table = Layer::table();
    let layers = |own| [Some(&flags), own, defaults, Some(&table)].into_iter().flatten().collect::<Vec<_>>();
    let program = Resolved::of(&layers(top), |setting| !is_of_upstream(setting));
    let mut served = Vec::new();
    let mut upstreams = Vec::new();
    let mut found = Vec::new();
    for (name, place, own) in parts {
        let resolved = Resolved::of(&layers(own), is_of_upstream);
        let treatment = resolved.upstream(None, &mut found);
        upstreams.push((name.clone(), resolved));
        served.push((name, place, treatment));
    }
    let settled = program.program();
    listener(&program, &settled, &served, &upstreams, &mut found);
    routes(&served, &upstreams, &mut found);
    program.store(&settled, &mut found);
    let rooms = served.iter().zip(&upstreams);
    found.extend(rooms.filter_map(|((_, _, treatment), (_, own))| own.room_for_entries(treatment, &program, &settled)));
    wrong.problems.append(&mut found);
    once(&mut wrong.problems);
    in_order(&mut wrong.problems);
    let serve = (!wrong.has_errors()).then(|| made(settled, served));
    Loaded { wrong, program, upstreams, serve }
}

/// What stands in one place and counts for many upstreams, as a default does, is wrong once.
fn once(problems: &mut Vec<Problem>) {
    let mut told = HashSet::new();
    problems.retain(|problem| {
        let (from, to) = match &problem.place {
            Place::File(span) => (span.start, span.end),
            // Flags are told by their name, which is the key.
            Place::Flag(_) | Place::Default => (usize::MAX, usize::MAX),
        };
        let key = if from == usize::MAX { problem.key.clone() } else { String::new() };
        let flag = if let Place::Flag(flag) = &problem.place { flag.clone() } else { String::new() };
        told.insert((from, to, key, flag, problem.what.clone()))
    });
}

/// As they stand in the file, those of flags first.
fn in_order(problems: &mut [Problem]) {
    problems.sort_by_key(|problem| match &problem.place {
        Place::Default | Place::Flag(_) => 0,
        Place::File(span) => span.start + 1,
    });
}

fn made(program: Program, served: Vec<(String, Place, Treatment)>) -> Serve {
    let upstreams = served
        .into_iter()
        .map(|(name, _, Treatment { route, settings, client_by, .. })| Served { name, route, settings, client_by })
        .collect();
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(WORKERS_MAX);
    Serve {
        listen: program.listen,
        admin: program.admin,
        upstreams,
        hosts: Hosts { names: program.hosts, is_open: program.is_open },
        header_timeout: program.header_timeout,
        idle_timeout: program.idle_timeout,
        drain: program.drain,
        max_connections: program.max_connections,
        workers: program.workers.unwrap_or_else(cores),
        state: program.state,
        store: Store {
            memory_bytes: program.cache_size,
            disk: program.cache_dir.map(|directory| (directory, program.cache_disk_size)),
        },
        traces: program.traces.made(),
        access_log: program.access_log,
        log: program.log,
    }
}

/// What of the listener does not go together, with itself and with where upstreams are.
fn listener(
    resolved: &Resolved,
    program: &Program,
    served: &[(String, Place, Treatment)],
    upstreams: &[(String, Resolved)],
    problems: &mut Vec<Problem>,
) {
    let Program { listen, admin, is_open, .. } = program;
    let (at, name) = resolved.at_top("listen");
    if !is_open && !listen.ip().to_canonical().is_loopback() {
        let add = if matches!(at, Place::File(_)) { "open: on" } else { "--open" };
        let why = format!(
            "`{listen}` can be reached from other machines, and whoever reaches it uses the API as you do; \
             add {add} if that is meant, or listen on 127.0.0.1:{}",
            listen.port()
        );
        problems.push(Problem::error(at.clone(), name.clone(), why));
    }
    let (admin_at, admin_name) = resolved.at_top("admin");
    if *admin == Some(*listen) && listen.port() != 0 {
        problems.push(match (&at, &admin_at) {
            (Place::File(_) | Place::Flag(_), Place::Default) => {
                let why =
                    format!("`{listen}` is the address of {admin_name} by default; take another, or move {admin_name}");
                Problem::error(at.clone(), name.clone(), why)
            }
            _ => {
                let why = format!("`{listen}` is the address of {name}; it needs a port of its own, or off");
                Problem::error(admin_at.clone(), admin_name.clone(), why).also(&at, "it listens here too")
            }
        });
    }
    for ((_, place, treatment), (_, resolved)) in served.iter().zip(upstreams) {
        let Some(target) = &treatment.target else { continue };
        for (name, place_of, address) in [(&name, &at, Some(*listen)), (&admin_name, &admin_at, *admin)] {
            if address.is_some_and(|address| leads_to(target, address)) {
                let why = format!(
                    "`{target}` is the address of {name}, so sopan would ask itself; write the address of the API, or \
                     change {name}"
                );
                let at = resolved.said("url").unwrap_or_else(|| place.clone());
                problems.push(Problem::error(at, resolved.title("url"), why).also(place_of, "sopan listens here"));
            }
        }
    }
}

/// Every request must know where it goes.
fn routes(served: &[(String, Place, Treatment)], upstreams: &[(String, Resolved)], problems: &mut Vec<Problem>) {
    let mut taken = HashMap::new();
    for ((name, place, treatment), (_, resolved)) in served.iter().zip(upstreams) {
        if !resolved.is_read("route") {
            continue;
        }
        let at = resolved.said("route").unwrap_or_else(|| place.clone());
        let (other, other_at) = match taken.entry(&treatment.route) {
            Entry::Vacant(free) => {
                free.insert((name, at));
                continue;
            }
            Entry::Occupied(taken) => taken.into_mut(),
        };
        let key = format!("upstreams.{name}");
        let (key, why) = match &treatment.route {
            Route::Any => {
                let why = format!(
                    "it has no route and takes what no other upstream takes, as `{other}` does; give all but one of them \
                     a route, such as /{name}"
                );
                (key, why)
            }
            Route::Path(_) | Route::Host(_) => {
                let why = format!("`{other}` has the same route; give each upstream a route of its own");
                (format!("{key}.route"), why)
            }
        };
        problems.push(Problem::error(at, key, why).also(other_at, "the other one"));
    }
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
