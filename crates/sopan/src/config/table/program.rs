//! Which API, and where clients find it.

use sopan_core::policy::parse_duration;
use sopan_engine::Target;

use super::{ROW, set};
use crate::config::Format;
use crate::config::read::{address, file, host_name, one_of, or_word, positive, switch, whole};
use crate::config::route::Route;
use crate::config::setting::{Group, Kind, Put, Rank, Section, Setting};

/// A file descriptor each, and some memory; nobody who means it wants more.
const MAX_CONNECTIONS: u64 = 1_000_000;
/// More threads than any machine has cores.
const WORKERS_MAX: u64 = 1024;

const TOP: Setting = Setting { section: Section::Program, ..ROW };

pub(super) const GROUP: Group = Group {
    heading: None,
    settings: &[
        Setting {
            key: "url",
            flag: Some("upstream"),
            kind: Kind::Url,
            help: "The API that requests go to\n\n\
                   Perhaps with a path that is put in front of theirs: https://api.example.com/v2",
            rank: Rank::Common,
            put: Put::Upstream(|u, text| {
                u.target = Some(Target::parse(text).map_err(|error| error.to_string())?);
                Ok(())
            }),
            ..ROW
        },
        Setting {
            key: "route",
            kind: Kind::Route,
            help: "Which requests go there: those below a path, or those for a host\n\n\
                   `/shop` takes /shop and all below it, and is taken off before they are passed on; `shop.example.com` \
                   takes those for that host. An upstream without a route takes all that no other does.",
            put: Put::Upstream(|u, text| set(&mut u.route, Route::parse(text))),
            ..ROW
        },
        Setting {
            key: "listen",
            flag: Some("listen"),
            kind: Kind::Address,
            default: Some("127.0.0.1:8000"),
            help: "Where clients connect; port 0 is a free one",
            why: "only the programs of this machine reach it",
            rank: Rank::Common,
            put: Put::Program(|p, text| set(&mut p.listen, address(text))),
            ..TOP
        },
        Setting {
            key: "admin",
            flag: Some("admin"),
            kind: Kind::AddressOr("off"),
            default: Some("127.0.0.1:8001"),
            help: "Where it is watched and operated, or `off`\n\n\
                   /state, /metrics and what can be changed while it runs: see docs/admin.md. Where other machines reach it, \
                   it needs a secret: see `admin_token_file`. /healthz says that the program runs, not that the API does.",
            why: "a port of its own, so that no client of the API finds it",
            rank: Rank::Common,
            put: Put::Program(|p, text| set(&mut p.admin, or_word("off", address)(text))),
            ..TOP
        },
        Setting {
            key: "admin_token_file",
            flag: Some("admin-token-file"),
            kind: Kind::File,
            help: "A file with the secret that whoever asks the admin port must say, as a Bearer token or a password\n\n\
                   Without it the environment variable SOPAN_ADMIN_TOKEN may hold one. Of the secret only its digest is \
                   kept. /healthz and /readyz need none.",
            put: Put::Program(|p, text| {
                p.admin_token_file = Some(file(text)?);
                Ok(())
            }),
            ..TOP
        },
        Setting {
            key: "open",
            flag: Some("open"),
            kind: Kind::Flag,
            default: Some("off"),
            help: "Let in requests from other machines, which use the API as you do\n\n\
                   Needed to listen on an address that other machines reach. Any Host will do then, unless `hosts` says \
                   which.",
            why: "whoever reaches sopan spends your quota",
            put: Put::Program(|p, text| set(&mut p.is_open, switch(text))),
            ..TOP
        },
        Setting {
            key: "hosts",
            flag: Some("host"),
            kind: Kind::Names,
            help: "A name by which sopan may be asked beside localhost, without a port; may be given several times\n\n\
                   Else a page on the web could let its own name lead to this machine, and read through its visitors' \
                   browsers what the API answers. Pages of this host may ask too.",
            put: Put::Program(|p, text| host_name(text).map(|name| p.hosts.push(name))),
            ..TOP
        },
        Setting {
            key: "workers",
            flag: Some("workers"),
            kind: Kind::Count,
            help: "Threads that pass requests on; without it one for each core",
            put: Put::Program(|p, text| {
                let workers = whole(1..=WORKERS_MAX)(text)?;
                p.workers = usize::try_from(workers).ok();
                Ok(())
            }),
            ..TOP
        },
        Setting {
            key: "max_connections",
            flag: Some("max-connections"),
            kind: Kind::Count,
            default: Some("10000"),
            help: "Connections of clients that are open at once; more wait to be accepted",
            why: "about 100 MB of memory at most, while they are idle",
            put: Put::Program(|p, text| {
                let max = whole(1..=MAX_CONNECTIONS)(text)?;
                set(&mut p.max_connections, usize::try_from(max))
            }),
            ..TOP
        },
        Setting {
            key: "header_timeout",
            flag: Some("header-timeout"),
            kind: Kind::Duration,
            default: Some("10s"),
            help: "The longest that a client may take for the head of a request",
            why: "a head is one packet or two; whoever takes longer keeps a connection from others",
            put: Put::Program(|p, text| set(&mut p.header_timeout, positive(text))),
            ..TOP
        },
        Setting {
            key: "idle_timeout",
            flag: None,
            kind: Kind::Duration,
            default: Some("60s"),
            help: "How long a client's connection is kept without a request, and how long its body may be silent\n\n\
                   On the command line --idle-timeout says both this and what upstreams are granted.",
            why: "as long as most clients keep theirs",
            put: Put::Program(|p, text| set(&mut p.idle_timeout, positive(text))),
            ..TOP
        },
        Setting {
            key: "drain",
            flag: Some("drain"),
            kind: Kind::Duration,
            default: Some("10s"),
            help: "How long requests may go on after SIGTERM or SIGINT",
            why: "service managers kill after 30 s, on most machines",
            put: Put::Program(|p, text| set(&mut p.drain, parse_duration(text))),
            ..TOP
        },
        Setting {
            key: "state",
            flag: Some("state"),
            kind: Kind::File,
            help: "Where quotas of a minute and longer, holds and the breaker are kept, so that they outlive the program\n\n\
                   Also where it is killed. Without it what was used of a quota is forgotten when the program ends. The \
                   file is replaced now and then, so sopan must be able to write in its directory.",
            put: Put::Program(|p, text| {
                p.state = Some(file(text)?);
                Ok(())
            }),
            ..TOP
        },
        Setting {
            key: "access_log",
            flag: Some("access-log"),
            kind: Kind::Switch,
            default: Some("off"),
            help: "A line for every request, at INFO",
            why: "at a thousand requests a second few people read them",
            rank: Rank::Common,
            put: Put::Program(|p, text| set(&mut p.access_log, switch(text))),
            ..TOP
        },
        Setting {
            key: "log",
            flag: Some("log"),
            fetch: true,
            kind: Kind::OneOf(&["text", "json"]),
            default: Some("text"),
            help: "The form of the log on standard error\n\n\
                   Lines for people, or one JSON object a line. What is wrong with flags and settings is told as text in \
                   any case.",
            why: "people read it first",
            rank: Rank::Common,
            put: Put::Program(|p, text| set(&mut p.log, one_of(Format::ALL)(text))),
            ..TOP
        },
    ],
};
