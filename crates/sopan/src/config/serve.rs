//! Settings of the proxy: flags and a file as what `sopan serve` does, or everything that is wrong with them.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use http::HeaderName;
use sopan_core::access::{Access, KeyDigest, KeyFields};
use sopan_core::policy::Limit;
use sopan_core::safety::Hosts;
use sopan_engine::shared::SharedSettings;
use sopan_engine::{Settings, Target};

use super::Format;
use super::draft::{Program, Treatment};
use super::file::{File, Named};
use super::flags::Typed;
use super::job::Job;
use super::layer::{Layer, Origin, Value};
use super::problem::{Place, Problem, Warned, Wrong};
use super::read::show_size;
use super::resolve::{Resolved, Taken, is_of_upstream};
use super::route::Route;
use super::setting::{Section, Setting};
use super::shared::Commons;
use super::traces::Traces;
use crate::admin::Token;

/// What `sopan serve` does.
#[derive(Debug, Clone)]
pub(crate) struct Serve {
    /// Where clients connect.
    pub(crate) listen: SocketAddr,
    /// Where metrics are, if anywhere.
    pub(crate) admin: Option<SocketAddr>,
    /// What whoever asks there must know, if anything.
    pub(crate) admin_token: Option<Token>,
    /// At least one.
    pub(crate) upstreams: Vec<Served>,
    /// For whom requests may be.
    pub(crate) hosts: Hosts,
    /// Who may ask; none where whoever gets in may.
    pub(crate) clients: Option<Clients>,
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
    /// What is shared with other instances, if anything is.
    pub(crate) shared: Option<SharedSettings>,
    /// How stored answers are shared with them, if they are.
    pub(crate) commons: Option<Commons>,
    /// Which exchanges are told of in traces, if any are.
    pub(crate) traces: Option<Traces>,
    /// Whether every exchange is logged.
    pub(crate) access_log: bool,
    pub(crate) log: Format,
    /// What of all this may not be meant so.
    pub(crate) warnings: Vec<Warned>,
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

/// Who may ask, and how that is known.
#[derive(Debug, Clone)]
pub(crate) struct Clients {
    /// Where keys are looked for.
    pub(crate) fields: KeyFields,
    /// At least one. A client is known by its number here.
    pub(crate) clients: Vec<Client>,
}

/// A client that has a key.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    /// As the log and the metrics call it.
    pub(crate) name: String,
    /// One or two.
    pub(crate) keys: Vec<KeyDigest>,
    /// Its share against others.
    pub(crate) weight: u32,
    /// What it may use of each upstream.
    pub(crate) limits: Vec<Limit>,
    pub(crate) access: Access,
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
    pub(crate) clients: Vec<(String, Resolved)>,
    pub(crate) jobs: Vec<(String, Resolved)>,
    /// What `sopan fetch` gets; those that are right.
    pub(crate) collections: Vec<Job>,
    /// None where anything is wrong.
    pub(crate) serve: Option<Serve>,
}

/// What was typed, and what stands in the file that was named.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn serve(config: Option<&str>, typed: &Typed) -> Result<Serve, Wrong> {
    settled(load(config, typed))
}

/// The same of what was loaded.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn settled(loaded: Loaded) -> Result<Serve, Wrong> {
    let Loaded { mut wrong, serve, .. } = loaded;
    let Some(serve) = serve else {
        // What may not be meant so can be told when it is mended.
        wrong.problems.retain(|problem| problem.severity == super::problem::Severity::Error);
        return Err(wrong);
    };
    Ok(Serve { warnings: wrong.warnings(), ..serve })
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
        for named in file.clients.iter_mut().flatten().chain(&mut file.jobs) {
            named.layer.sift(&mut wrong.problems);
        }
        top = Some(&file.program);
        defaults = Some(&file.defaults);
        parts.extend(file.upstreams.iter().map(|named| (named.name.clone(), named.place.clone(), Some(&named.layer))));
    } else {
        parts.push((ALONE.to_owned(), Place::Flag("--upstream".to_owned()), None));
    }
    let table = Layer::table();
    of_one(&flags, parts.len(), &mut wrong.problems);
    let layers = |own| [Some(&flags), own, defaults, Some(&table)].into_iter().flatten().collect::<Vec<_>>();
    let of_program = |setting: &Setting| matches!(setting.section, Section::Program | Section::Traces | Section::Redis);
    let program = Resolved::of(&layers(top), of_program);
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
    let token = admin_token(&program, &settled, &mut found);
    traces(&program, &settled, &mut found);
    listener(&program, &settled, &served, &upstreams, &mut found);
    routes(&served, &upstreams, &mut found);
    program.store(&settled, &mut found);
    program.shared(&settled, &served, &mut found);
    let rooms = served.iter().zip(&upstreams);
    found.extend(rooms.filter_map(|((_, _, treatment), (_, own))| own.room_for_entries(treatment, &program, &settled)));
    let (clients, callers) = clients(file.as_ref(), &table, &served, &mut found);
    let (jobs, collections) = jobs(file.as_ref(), (typed, &flags), &table, &served, &mut found);
    wrong.problems.append(&mut found);
    once(&mut wrong.problems);
    in_order(&mut wrong.problems);
    let callers = callers.map(|clients| Clients { fields: settled.key_fields, clients });
    let serve = (!wrong.has_errors()).then(|| made(settled, served, token, callers));
    Loaded { wrong, program, upstreams, clients, jobs, collections, serve }
}

/// Clients, as they are settled and as they are treated; none where the file does not speak of any.
fn clients(
    file: Option<&File>,
    table: &Layer,
    served: &[(String, Place, Treatment)],
    problems: &mut Vec<Problem>,
) -> (Vec<(String, Resolved)>, Option<Vec<Client>>) {
    let Some(named) = file.and_then(|file| file.clients.as_ref()) else { return (Vec::new(), None) };
    let upstreams: Vec<_> = served.iter().map(|(name, ..)| name.as_str()).collect();
    let routes: Vec<_> = served.iter().map(|(.., treatment)| &treatment.route).collect();
    let (mut taken, now) = (Taken::default(), SystemTime::now());
    let (mut settled, mut clients) = (Vec::new(), Vec::new());
    for Named { name, layer, .. } in named {
        let resolved = Resolved::of(&[layer, table], |setting| setting.section == Section::Client);
        let client = resolved.caller(name, &upstreams, &mut taken, now, problems);
        resolved.paths(&client.access, &routes, problems);
        clients.push(client);
        settled.push((name.clone(), resolved));
    }
    (settled, Some(clients))
}

/// Jobs, as they are settled and as they are done.
fn jobs(
    file: Option<&File>,
    (typed, flags): (&Typed, &Layer),
    table: &Layer,
    served: &[(String, Place, Treatment)],
    problems: &mut Vec<Problem>,
) -> (Vec<(String, Resolved)>, Vec<Job>) {
    let upstreams: Vec<_> =
        served.iter().map(|(name, _, treatment)| (name.clone(), treatment.settings.target.clone())).collect();
    let (mut settled, mut jobs) = (Vec::new(), Vec::new());
    for Named { name, layer, .. } in file.iter().flat_map(|file| &file.jobs) {
        let flags = Some(flags).filter(|_| typed.is_for(name));
        let layers: Vec<_> = flags.into_iter().chain([layer, table]).collect();
        let resolved = Resolved::of(&layers, |setting| setting.section == Section::Job);
        jobs.extend(resolved.job(name, &upstreams, problems));
        settled.push((name.clone(), resolved));
    }
    (settled, jobs)
}

/// Flags count for all upstreams, and a credential is for one.
fn of_one(flags: &Layer, upstreams: usize, problems: &mut Vec<Problem>) {
    let given = flags.values.iter().find(|value| value.setting.section == Section::Credential);
    if let Some(value) = given.filter(|_| upstreams > 1) {
        let why = format!(
            "it would give the key of one API to all {upstreams} of the settings file; write it there, below the upstream \
             that it is for, as in credential: {{ env: API_KEY }}"
        );
        problems.push(Problem::error(value.place.clone(), "", why));
    }
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

fn made(
    program: Program,
    served: Vec<(String, Place, Treatment)>,
    admin_token: Option<Token>,
    clients: Option<Clients>,
) -> Serve {
    let upstreams = served
        .into_iter()
        .map(|(name, _, Treatment { route, settings, client_by, .. })| Served { name, route, settings, client_by })
        .collect();
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(WORKERS_MAX);
    Serve {
        listen: program.listen,
        admin: program.admin,
        admin_token,
        upstreams,
        hosts: Hosts { names: program.hosts, is_open: program.is_open },
        clients,
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
        commons: program.shared.commons(),
        shared: program.shared.made(),
        traces: program.traces.made(),
        access_log: program.access_log,
        log: program.log,
        warnings: Vec::new(),
    }
}

/// The environment variable that may hold the secret of the admin port.
pub(crate) const ADMIN_TOKEN: &str = "SOPAN_ADMIN_TOKEN";

/// What whoever asks the admin port must know, from a file or the environment. Where other machines reach it, there must be
/// something.
fn admin_token(resolved: &Resolved, program: &Program, problems: &mut Vec<Problem>) -> Option<Token> {
    let admin = program.admin?;
    let read = match &program.admin_token_file {
        Some(file) => std::fs::read(file)
            .map_err(|error| format!("the file is not to be read: {error}; name one that sopan may read"))
            .and_then(|secret| Token::of(&secret).map_err(|why| why.to_string())),
        None => match std::env::var_os(ADMIN_TOKEN) {
            Some(secret) => Token::of(secret.as_encoded_bytes()).map_err(|why| format!("{ADMIN_TOKEN}: {why}")),
            None if admin.ip().to_canonical().is_loopback() => return None,
            None => {
                let (place, name) = resolved.at_top("admin");
                let set = if matches!(place, Place::File(_)) { "admin_token_file:" } else { "--admin-token-file" };
                let why = format!(
                    "`{admin}` can be reached from other machines, and whoever reaches it sees and changes what goes on; \
                     add {set} FILE or set {ADMIN_TOKEN}, or listen on 127.0.0.1:{}",
                    admin.port()
                );
                problems.push(Problem::error(place, name, why));
                return None;
            }
        },
    };
    read.map_err(|why| {
        let (place, name) =
            resolved.at_top(if program.admin_token_file.is_some() { "admin_token_file" } else { "admin" });
        problems.push(Problem::error(place, name, why));
    })
    .ok()
}

/// Traces that go nowhere, and those that go where they are not understood.
fn traces(resolved: &Resolved, program: &Program, problems: &mut Vec<Problem>) {
    let is_said =
        |(origin, value): &&(Origin, Value)| *origin != Origin::Table && value.setting.section == Section::Traces;
    let Some((_, value)) = resolved.values.iter().find(is_said) else { return };
    let is_typed = matches!(value.place, Place::Flag(_));
    let why = match &program.traces.otlp {
        None if resolved.is_read("otlp") => {
            let otlp = if is_typed { "--otlp" } else { "otlp:" };
            format!(
                "nothing is recorded, since it is not said where traces go; add {otlp} http://127.0.0.1:4318/v1/traces"
            )
        }
        Some(collector) if collector.target.port() == OTLP_OVER_GRPC => format!(
            "at port {OTLP_OVER_GRPC} collectors take OTLP over gRPC, and sopan sends it over HTTP; write the port for that, \
             usually 4318"
        ),
        _ => return,
    };
    let name = if is_typed { value.setting.typed().unwrap_or_default() } else { value.setting.path() };
    problems.push(Problem::warning(value.place.clone(), name, why));
}

/// Where collectors take what sopan does not speak.
const OTLP_OVER_GRPC: u16 = 4317;

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
