//! Settings of one polite GET.

use std::fmt;

use http::header::{
    ACCEPT, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use sopan_core::headers::{Shown, redact_url};
use sopan_engine::{Settings, Target};

use super::flags::Typed;
use super::layer::Layer;
use super::problem::Severity;
use super::read::{Check, size};
use super::resolve::Resolved;
use super::{Format, Wrong};
use crate::cli;

/// What `sopan fetch` does.
#[derive(Clone)]
pub(crate) struct Fetch {
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
impl fmt::Debug for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { upstream, path: _, headers, shown, body_bytes_max, log } = self;
        f.debug_struct("Fetch")
            .field("upstream", upstream)
            .field("shown", shown)
            .field("headers", &Shown(headers))
            .field("body_bytes_max", body_bytes_max)
            .field("log", log)
            .finish()
    }
}

/// What was typed, checked.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn fetch(typed: &cli::Fetch) -> Result<Fetch, Wrong> {
    let mut check = Check::default();
    let (target, path) = check.read("URL", &typed.url, split).unzip();
    let (mut settings, log) = of_flags(&mut check, &typed.settings, target);
    // Nobody waits for an answer here but a job, which would rather wait than fail.
    settings.lane.wait_max = None;
    settings.waits_count = false;
    // It asks for one thing, once.
    settings.cache = None;
    let headers = headers(&mut check, &typed.header);
    let body_bytes_max = check.read("--body-bytes-max", &typed.body_bytes_max, size);
    let fetch = || {
        Some(Fetch {
            upstream: settings,
            path: path?,
            headers,
            shown: redact_url(without_fragment(typed.url.trim())),
            body_bytes_max: body_bytes_max?,
            log,
        })
    };
    check.finish(fetch())
}

/// What the flags that `fetch` shares with `serve` come to.
pub(super) fn of_flags(check: &mut Check, typed: &Typed, target: Option<Target>) -> (Settings, Format) {
    let mut problems = Vec::new();
    let mut flags = typed.layer(&mut problems);
    flags.sift(&mut problems);
    let resolved = Resolved::of(&[&flags, &Layer::table()], |_| true);
    let settings = resolved.upstream(target, &mut problems).settings;
    problems.retain(|problem| problem.severity == Severity::Error);
    check.extend(problems);
    (settings, resolved.program().log)
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

/// What a request carries unless told otherwise: who asks, and that any answer will do.
fn headers(check: &mut Check, typed: &[String]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (at, field) in typed.iter().enumerate() {
        if let Some((name, value)) = check.take("--header", header(field, at + 1)) {
            headers.append(name, value);
        }
    }
    let agent = HeaderValue::from_static(concat!("sopan/", env!("CARGO_PKG_VERSION")));
    headers.entry(USER_AGENT).or_insert(agent);
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
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
