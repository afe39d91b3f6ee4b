//! Settings on their way: values that were read one by one, before it is known whether they fit each other.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, Method, StatusCode};
use sopan_core::access::{KeyDigest, KeyFields};
use sopan_core::headers::{ForwardedPolicy, Shown, redact_url};
use sopan_core::hints::Reader;
use sopan_core::pages::since::Overlap;
use sopan_core::pages::{Pointer, Select};
use sopan_core::policy::{CachePolicy, JitterKind, Limit, OnLongRetryAfter, PathRuleError, Revalidate};
use sopan_core::safety::HostName;
use sopan_engine::{Settings, Target};

use super::Format;
use super::job::OnMismatch;
use super::read::field_name;
use super::route::Route;
use super::serve::ClientBy;
use super::shared::SharedDraft;
use super::traces::TracesDraft;

/// What concerns the whole program.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) listen: SocketAddr,
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) admin_token_file: Option<PathBuf>,
    pub(crate) is_open: bool,
    pub(crate) hosts: Vec<HostName>,
    pub(crate) workers: Option<usize>,
    pub(crate) max_connections: usize,
    pub(crate) header_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) drain: Duration,
    pub(crate) access_log: bool,
    pub(crate) log: Format,
    pub(crate) state: Option<PathBuf>,
    pub(crate) cache_size: u64,
    pub(crate) cache_dir: Option<PathBuf>,
    pub(crate) cache_disk_size: u64,
    pub(crate) key_fields: KeyFields,
    pub(crate) traces: TracesDraft,
    pub(crate) shared: SharedDraft,
}

impl Program {
    /// Before anything is put: what the table says as default takes the place of all of it.
    pub(crate) fn new() -> Self {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            listen: nowhere,
            admin: None,
            admin_token_file: None,
            is_open: false,
            hosts: Vec::new(),
            workers: None,
            max_connections: 1,
            header_timeout: Duration::ZERO,
            idle_timeout: Duration::ZERO,
            drain: Duration::ZERO,
            access_log: false,
            log: Format::Text,
            state: None,
            cache_size: 0,
            cache_dir: None,
            cache_disk_size: 0,
            key_fields: KeyFields::NONE,
            traces: TracesDraft::new(),
            shared: SharedDraft::new(),
        }
    }
}

/// What values are put into: one of these is wanted, and the others are thrown away.
#[derive(Debug, Clone)]
pub(crate) struct Drafts {
    pub(crate) program: Program,
    pub(crate) upstream: Treatment,
    pub(crate) client: Caller,
    pub(crate) job: JobDraft,
}

impl Default for Drafts {
    fn default() -> Self {
        Self {
            program: Program::new(),
            upstream: Treatment::new(),
            client: Caller::default(),
            job: JobDraft::default(),
        }
    }
}

/// Who may ask, and for what.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller {
    pub(crate) keys: Vec<KeyDigest>,
    pub(crate) weight: u32,
    pub(crate) limits: Vec<Limit>,
    /// None for all of them, as of methods and paths.
    pub(crate) upstreams: Option<Vec<String>>,
    pub(crate) methods: Option<Vec<Method>>,
    pub(crate) paths: Option<Vec<String>>,
    pub(crate) expires: Option<SystemTime>,
}

/// What a collection is like, and where it goes.
#[derive(Clone, Default)]
pub(crate) struct JobDraft {
    pub(crate) upstream: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) headers: HeaderMap,
    pub(crate) out: Option<String>,
    pub(crate) is_streamed: bool,
    pub(crate) select: Option<Select>,
    pub(crate) next: Option<String>,
    pub(crate) next_param: Option<String>,
    pub(crate) more: Option<Pointer>,
    pub(crate) link_hosts: Vec<String>,
    pub(crate) short_page_ends: bool,
    pub(crate) pages_max: Option<u64>,
    pub(crate) records_max: Option<u64>,
    pub(crate) concurrency: Option<NonZeroUsize>,
    pub(crate) schema: Option<PathBuf>,
    pub(crate) on_mismatch: OnMismatch,
    pub(crate) table: Option<String>,
    pub(crate) key: Vec<Pointer>,
    pub(crate) since_field: Option<Pointer>,
    pub(crate) since_param: Option<String>,
    pub(crate) since: Option<String>,
    pub(crate) since_overlap: Option<Overlap>,
}

/// Shows no secret of its path and its fields.
impl fmt::Debug for JobDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { upstream, path, headers, out, .. } = self;
        let mut told = f.debug_struct("JobDraft");
        told.field("upstream", upstream).field("path", &path.as_deref().map(redact_url));
        told.field("headers", &Shown(headers)).field("out", out).finish_non_exhaustive()
    }
}

/// How an upstream is reached and treated.
#[derive(Debug, Clone)]
pub(crate) struct Treatment {
    /// None until its URL is put.
    pub(crate) target: Option<Target>,
    pub(crate) route: Route,
    /// With a stand-in for the target.
    pub(crate) settings: Settings,
    pub(crate) client_by: ClientBy,
    pub(crate) limits: Vec<Limit>,
    pub(crate) is_unlimited: bool,
    pub(crate) burst: Option<u64>,
    pub(crate) retries: bool,
    /// Also where it is off.
    pub(crate) cache: CachePolicy,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) client_cert: Option<PathBuf>,
    pub(crate) client_key: Option<PathBuf>,
    pub(crate) credential: CredentialDraft,
}

/// Where the credential of an upstream is, and where it goes.
#[derive(Debug, Clone, Default)]
pub(crate) struct CredentialDraft {
    pub(crate) env: Option<String>,
    pub(crate) file: Option<PathBuf>,
    pub(crate) header: Option<HeaderName>,
    pub(crate) scheme: Scheme,
    pub(crate) query: Option<String>,
}

/// What stands before a credential in its field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// Nobody said it.
    #[default]
    Usual,
    Nothing,
    Named(String),
}

impl Treatment {
    /// Before anything is put.
    pub(crate) fn new() -> Self {
        let stand_in = Target::parse("http://localhost").expect("a URL of our own");
        Self {
            target: None,
            route: Route::Any,
            settings: Settings::new(stand_in),
            client_by: ClientBy::Ip,
            limits: Vec::new(),
            is_unlimited: false,
            burst: None,
            retries: true,
            cache: CachePolicy { targeted: Vec::new(), ..CachePolicy::default() },
            ca_file: None,
            client_cert: None,
            client_key: None,
            credential: CredentialDraft::default(),
        }
    }

    pub(crate) fn put_limit(&mut self, text: &str) -> Result<(), String> {
        if text == "unlimited" {
            self.is_unlimited = true;
            return Ok(());
        }
        self.limits.push(text.parse().map_err(|e: sopan_core::policy::LimitError| e.to_string())?);
        Ok(())
    }

    pub(crate) fn put_status(&mut self, text: &str) -> Result<(), String> {
        let code = text.parse().ok().and_then(|code| StatusCode::from_u16(code).ok());
        let code = code.ok_or_else(|| format!("`{text}` is not a status; write for example 425 or 520"))?;
        self.settings.retry.retry_on.push(code);
        Ok(())
    }

    pub(crate) fn put_targeted(&mut self, text: &str) -> Result<(), String> {
        if text != "none" {
            self.cache.targeted.push(field_name(text)?);
        }
        Ok(())
    }

    pub(crate) fn put_path(&mut self, text: &str) -> Result<(), String> {
        self.cache.paths.push(text.parse().map_err(|error: PathRuleError| error.to_string())?);
        Ok(())
    }
}

pub(crate) const JITTER_KINDS: [(&str, JitterKind); 3] =
    [("fraction", JitterKind::Fraction), ("full", JitterKind::Full), ("decorrelated", JitterKind::Decorrelated)];

pub(crate) const ON_LONG: [(&str, OnLongRetryAfter); 2] =
    [("give-up", OnLongRetryAfter::GiveUp), ("cap", OnLongRetryAfter::Cap)];

pub(crate) const REVALIDATE: [(&str, Revalidate); 2] = [("stale", Revalidate::Stale), ("always", Revalidate::Always)];

pub(crate) const READERS: [(&str, Reader); 2] = [("lenient", Reader::Lenient), ("strict", Reader::Strict)];

pub(crate) const FORWARDED: [(&str, ForwardedPolicy); 4] = [
    ("off", ForwardedPolicy::Off),
    ("pass", ForwardedPolicy::Pass),
    ("rfc7239", ForwardedPolicy::Rfc7239),
    ("x-forwarded", ForwardedPolicy::XForwarded),
];
