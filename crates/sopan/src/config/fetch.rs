//! Settings of one polite GET, and of collections.

use std::fmt;
use std::path::PathBuf;

use http::header::{
    ACCEPT, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use sopan_core::calendar::Daybreak;
use sopan_core::headers::{Shown, redact_url};
use sopan_core::policy::Revalidate;
use sopan_engine::{Settings, Target};

use super::draft::Program;
use super::file::nearest;
use super::flags::Typed;
use super::job::Job;
use super::layer::Layer;
use super::problem::Severity;
use super::read::{Check, size};
use super::resolve::Resolved;
use super::serve::{self, Loaded, Served, Store};
use super::setting::Section;
use super::{Format, Wrong};
use crate::cli;

/// What `sopan fetch` does.
#[derive(Debug, Clone)]
pub(crate) enum Fetch {
    /// Gets one thing as it is.
    Single(Box<Single>),
    /// Gets collections.
    Jobs(Box<Jobs>),
}

/// One polite GET.
#[derive(Clone)]
pub(crate) struct Single {
    pub(crate) upstream: Settings,
    /// Path and query of the request, byte for byte as they were typed.
    pub(crate) path: Uri,
    pub(crate) headers: HeaderMap,
    /// The whole URL as it may be shown.
    pub(crate) shown: String,
    /// The longest body that is taken.
    pub(crate) body_bytes_max: u64,
    pub(crate) log: Format,
}

/// Shows no secret of the path.
impl fmt::Debug for Single {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { upstream, path: _, headers, shown, body_bytes_max, log } = self;
        f.debug_struct("Single")
            .field("upstream", upstream)
            .field("shown", shown)
            .field("headers", &Shown(headers))
            .field("body_bytes_max", body_bytes_max)
            .field("log", log)
            .finish()
    }
}

/// Collections, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Jobs {
    pub(crate) jobs: Vec<Job>,
    /// Those that they ask, by their numbers.
    pub(crate) upstreams: Vec<Settings>,
    /// What the requests of all of them carry.
    pub(crate) headers: HeaderMap,
    /// Where answers are stored between runs, if anywhere.
    pub(crate) store: Option<Store>,
    /// The longest page that is taken.
    pub(crate) page_bytes_max: u64,
    /// Where a proposal of a schema goes, if it is wanted.
    pub(crate) infer_schema: Option<PathBuf>,
    /// Whether what is kept of a run before is forgotten.
    pub(crate) restart: bool,
    pub(crate) telling: Telling,
    pub(crate) log: Format,
}

/// How much is told while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Telling {
    /// Only what went wrong.
    Quiet,
    /// For people.
    People,
    /// As one object a line.
    Events,
}

/// A page is read as a whole, into memory.
const PAGE_BYTES_MAX: u64 = 64 << 20;
/// One body goes through a file, if it is large.
const BODY_BYTES_MAX: u64 = 1 << 30;

/// What was typed, checked.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn fetch(typed: &cli::Fetch) -> Result<Fetch, Wrong> {
    match &typed.config {
        Some(file) => of_file(typed, file),
        None => of_url(typed),
    }
}

/// What is to be planned, and by when it has to be done.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn plan(typed: &cli::Plan) -> Result<(Jobs, Option<Daybreak>), Wrong> {
    let cli::Plan { url, config, job, by, header, settings } = typed;
    let as_fetch = cli::Fetch {
        url: url.clone(),
        config: config.clone(),
        job: job.clone(),
        header: header.clone(),
        body_bytes_max: None,
        infer_schema: None,
        // It is a collection, whatever else is said of it.
        restart: true,
        quiet: false,
        json: false,
        settings: settings.clone(),
    };
    let mut check = Check::default();
    let by = by.as_ref().map(|by| check.read("--by", by, Daybreak::read));
    let jobs = match fetch(&as_fetch) {
        Ok(Fetch::Jobs(jobs)) => Some(*jobs),
        Ok(Fetch::Single(_)) => None,
        Err(wrong) => {
            check.found(wrong);
            None
        }
    };
    check.finish(jobs.map(|jobs| (jobs, by.flatten())))
}

/// What is to be got from the URL that was typed.
fn of_url(typed: &cli::Fetch) -> Result<Fetch, Wrong> {
    let mut check = Check::default();
    let url = typed.url.as_deref().unwrap_or_default();
    let (target, path) = check.read("URL", url, split).unzip();
    let Resolution { mut settings, job, program, is_collection } =
        of_flags(&mut check, &typed.settings, target.clone());
    as_a_job(&mut settings);
    // Only what outlives the program is of any use to it.
    if program.cache_dir.is_none() {
        settings.cache = None;
    }
    let is_collection = is_collection || typed.infer_schema.is_some() || typed.restart;
    let headers = headers(&mut check, &typed.header, is_collection);
    let body_bytes_max = match &typed.body_bytes_max {
        None if is_collection => Some(PAGE_BYTES_MAX),
        None => Some(BODY_BYTES_MAX),
        Some(text) => check.read("--body-bytes-max", text, size),
    };
    let log = program.log;
    if !is_collection {
        // It asks for one thing, once.
        settings.cache = None;
        let shown = redact_url(without_fragment(url.trim()));
        let single = || {
            let (path, body_bytes_max) = (path?, body_bytes_max?);
            Some(Fetch::Single(Single { upstream: settings, path, headers, shown, body_bytes_max, log }.into()))
        };
        return check.finish(single());
    }
    let mut problems = Vec::new();
    let job = target.zip(path).and_then(|(target, path)| job.typed_job(&target, &path.to_string(), &mut problems));
    check.extend(problems);
    let jobs = || {
        let store = store(&program, &settings);
        let (jobs, upstreams) = (vec![job?], vec![settings]);
        Some(Fetch::Jobs(of_jobs(typed, jobs, upstreams, headers, store, body_bytes_max?, log)?.into()))
    };
    check.finish(jobs())
}

/// What is to be got by the jobs of a settings file.
fn of_file(typed: &cli::Fetch, file: &str) -> Result<Fetch, Wrong> {
    let mut check = Check::default();
    let headers = headers(&mut check, &typed.header, true);
    let page_bytes_max = match &typed.body_bytes_max {
        None => Some(PAGE_BYTES_MAX),
        Some(text) => check.read("--body-bytes-max", text, size),
    };
    let Loaded { mut wrong, program, collections, jobs: known, serve, .. } =
        serve::load(Some(file), &typed.settings.for_job(typed.job.as_deref().filter(|job| *job != "all")));
    wrong.problems.retain(|problem| problem.severity == Severity::Error);
    let is_right = wrong.problems.is_empty();
    check.found(wrong);
    let (program, wanted) = (program.program(), typed.job.as_deref().unwrap_or_default());
    let mut jobs = collections;
    if wanted != "all" {
        jobs.retain(|job| job.name == wanted);
    }
    if is_right {
        check.take("--job", is_there(wanted, &known));
        if jobs.len() > 1 {
            check.take("--job", apart(&jobs));
            if typed.infer_schema.is_some() {
                let why = "each job would write its own over the one before; name a single job";
                check.take("--infer-schema", Err::<(), _>(why));
            }
        }
    }
    let settings = serve.into_iter().flat_map(|serve| serve.upstreams).map(|Served { name, settings, .. }| {
        let mut settings = Settings { name, ..settings };
        as_a_job(&mut settings);
        if program.cache_dir.is_none() {
            settings.cache = None;
        }
        settings
    });
    let upstreams: Vec<_> = settings.collect();
    let store = upstreams.first().and_then(|settings| store(&program, settings));
    let jobs =
        || Some(Fetch::Jobs(of_jobs(typed, jobs, upstreams, headers, store, page_bytes_max?, program.log)?.into()));
    check.finish(jobs())
}

fn of_jobs(
    typed: &cli::Fetch,
    jobs: Vec<Job>,
    upstreams: Vec<Settings>,
    headers: HeaderMap,
    store: Option<Store>,
    page_bytes_max: u64,
    log: Format,
) -> Option<Jobs> {
    let telling = match (typed.quiet, typed.json) {
        (true, _) => Telling::Quiet,
        (false, true) => Telling::Events,
        (false, false) => Telling::People,
    };
    let log = if typed.json { Format::Json } else { log };
    let infer_schema = typed.infer_schema.as_ref().map(PathBuf::from);
    (!jobs.is_empty()).then_some(Jobs {
        jobs,
        upstreams,
        headers,
        store,
        page_bytes_max,
        infer_schema,
        restart: typed.restart,
        telling,
        log,
    })
}

/// Nobody waits for an answer but a job, which would rather wait than fail.
fn as_a_job(settings: &mut Settings) {
    settings.lane.wait_max = None;
    settings.waits_count = false;
    // A run wants what is there now: it asks whether what it has is still that.
    if let Some(cache) = &mut settings.cache {
        cache.revalidate = Revalidate::Always;
    }
}

/// Where answers outlive the program.
fn store(program: &Program, settings: &Settings) -> Option<Store> {
    settings.cache.as_ref()?;
    let disk = program.cache_dir.clone().map(|directory| (directory, program.cache_disk_size));
    disk.map(|disk| Store { memory_bytes: program.cache_size, disk: Some(disk) })
}

/// Whether there is such a job.
fn is_there(wanted: &str, known: &[(String, Resolved)]) -> Result<(), String> {
    let names: Vec<_> = known.iter().map(|(name, _)| name.as_str()).collect();
    if names.is_empty() {
        return Err("the file has no jobs; write jobs:, below it a name, and below that path and out".to_owned());
    }
    if wanted == "all" || names.contains(&wanted) {
        return Ok(());
    }
    let help = match nearest(wanted, &names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("write one of {}, or all", names.join(", ")),
    };
    Err(format!("there is no job `{wanted}` in the file; {help}"))
}

/// Each has an output of its own.
fn apart(jobs: &[Job]) -> Result<(), String> {
    for (at, job) in jobs.iter().enumerate() {
        let same = jobs[..at].iter().find(|other| match (&job.out, &other.out) {
            (Some((one, _)), Some((other, _))) => one == other,
            (one, other) => one.is_none() && other.is_none(),
        });
        if let Some(other) = same {
            return Err(format!(
                "`{}` and `{}` have the same output; give each its own, in the file and not by --out",
                other.name, job.name
            ));
        }
    }
    Ok(())
}

/// What the flags that `fetch` shares with `serve` come to.
pub(super) fn of_flags(check: &mut Check, typed: &Typed, target: Option<Target>) -> Resolution {
    let mut problems = Vec::new();
    let mut flags = typed.layer(&mut problems);
    flags.sift(&mut problems);
    let is_collection = flags.has(Section::Job) || !flags.unread.is_empty();
    let resolved = Resolved::of(&[&flags, &Layer::table()], |_| true);
    let settings = resolved.upstream(target, &mut problems).settings;
    problems.retain(|problem| problem.severity == Severity::Error);
    check.extend(problems);
    Resolution { settings, program: resolved.program(), job: resolved, is_collection }
}

/// What flags come to.
pub(super) struct Resolution {
    pub(super) settings: Settings,
    pub(super) program: Program,
    /// What is said of a collection.
    job: Resolved,
    /// Whether anything is.
    is_collection: bool,
}

/// Where the URL leads, and what is asked for there.
fn split(url: &str) -> Result<(Target, Uri), String> {
    let fail = |why: &str| {
        let shown = redact_url(url);
        Err(format!("`{shown}` cannot be fetched: {why}; write for example https://api.example.com/orders?page=1"))
    };
    let url = without_fragment(url);
    let authority = url.find("://").map_or(0, |at| at + 3);
    let path = url[authority..].find(['/', '?']).map_or(url.len(), |at| authority + at);
    let target = match Target::parse(&url[..path]) {
        Ok(target) => target,
        Err(error) => return fail(error.why()),
    };
    let path = &url[path..];
    let slash = if path.starts_with('/') { "" } else { "/" };
    match format!("{slash}{path}").parse() {
        Ok(uri) => Ok((target, uri)),
        Err(_) => fail("its path or query holds a character that must be percent-encoded"),
    }
}

fn without_fragment(url: &str) -> &str {
    url.split_once('#').map_or(url, |(url, _)| url)
}

/// What a request carries unless told otherwise: who asks, and which answers will do.
fn headers(check: &mut Check, typed: &[String], is_collection: bool) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (at, field) in typed.iter().enumerate() {
        if let Some((name, value)) = check.take("--header", header(field, at + 1)) {
            headers.append(name, value);
        }
    }
    let agent = HeaderValue::from_static(concat!("sopan/", env!("CARGO_PKG_VERSION")));
    headers.entry(USER_AGENT).or_insert(agent);
    let accept = if is_collection { "application/json" } else { "*/*" };
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static(accept));
    headers
}

/// What the engine says by itself, since it knows where the request goes and that it has no body.
const OURS: [HeaderName; 8] = [CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// One field. What is said of a wrong one never shows its value, which may be a secret.
fn header(field: &str, number: usize) -> Result<(HeaderName, HeaderValue), String> {
    let (name, mut value) = self::field(field, number)?;
    if OURS.contains(&name) {
        return Err(format!("`{name}` is set by sopan itself; leave it away"));
    }
    value.set_sensitive(true);
    Ok((name, value))
}

/// One field as it is typed, whoever sends it.
pub(super) fn field(field: &str, number: usize) -> Result<(HeaderName, HeaderValue), String> {
    let Some((name, value)) = field.split_once(':') else {
        return Err(format!("number {number} has no colon; write 'Name: value'"));
    };
    let Ok(name) = name.parse::<HeaderName>() else {
        return Err(format!("number {number} does not begin with the name of a field; write 'Name: value'"));
    };
    let Ok(value) = HeaderValue::from_bytes(value.trim().as_bytes()) else {
        return Err(format!("the value of `{name}` holds a character that no field may hold, such as a line break"));
    };
    Ok((name, value))
}
