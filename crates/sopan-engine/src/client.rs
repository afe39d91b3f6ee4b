//! The comfortable door for a program: ask for JSON, politely, and get it or a clear error.

mod body;
mod excerpt;
mod service;

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, EXPECT, HOST, TRAILER};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri};
use serde::de::DeserializeOwned;
use sopan_core::headers::{is_hop_by_hop, redact_url};
use sopan_core::policy::{Limit, RetryPolicy};
use sopan_core::queue::ClientId;
use tokio::task::AbortHandle;
use url::Url;

use crate::body::Source;
use crate::credential::Credential;
use crate::error::Error;
use crate::exchange::{self, Answer, Inbound};
use crate::pages::{Pages, PagesSettings};
use crate::transport::Target;
use crate::upstream::{Settings, SetupError, Surroundings, Upstream};
pub(crate) use body::Kind;
use body::{Body, Whole};
use excerpt::excerpt;

/// A client of one API that keeps to its limits and repeats what failed where that is right.
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use sopan_engine::ApiClient;
///
/// let api = ApiClient::builder("https://api.example.com")?
///     .limit("10/s burst 20".parse()?)
///     .header("Authorization", &format!("Bearer {}", std::env::var("API_KEY")?))?
///     .build()?;
/// let orders: serde_json::Value = api.get_json("/api/v1/orders?page=1").await?;
/// # Ok(())
/// # }
/// ```
///
/// It waits for its turn as long as it takes, and that time does not count in `total_timeout`; requests are spaced over all
/// clones. It may be cloned and shared freely.
#[derive(Clone)]
pub struct ApiClient {
    upstream: Arc<Upstream>,
    /// What every request says beside what it asks for.
    fields: Arc<HeaderMap>,
    body_bytes_max: u64,
    _background: Arc<AbortOnDrop>,
}

/// A good answer, whole.
#[derive(Clone)]
pub struct Fetched {
    /// Its status, a success.
    pub status: StatusCode,
    /// Its fields.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fetched({}, {} bytes)", self.status.as_u16(), self.body.len())
    }
}

/// Settings of an [`ApiClient`] to be.
#[derive(Debug)]
pub struct Builder {
    settings: Settings,
    around: Surroundings,
    limits: Vec<Limit>,
    fields: HeaderMap,
    body_bytes_max: u64,
}

/// The longest body that `get_json` reads, unless told otherwise.
const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;

impl ApiClient {
    /// Settings for the API at this URL, such as `https://api.example.com/v2`. Without a limit it sends `10/s burst 20`.
    ///
    /// # Errors
    /// A URL that is none of an API.
    pub fn builder(url: &str) -> Result<Builder, Error> {
        let target = Target::parse(url).map_err(|e| Error::permanent(e.to_string()))?;
        let mut settings = Settings::new(target);
        settings.lane.wait_max = None;
        settings.waits_count = false;
        let (around, limits) = (Surroundings::default(), Vec::new());
        let fields = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        Ok(Builder { settings, around, limits, fields, body_bytes_max: BODY_BYTES_MAX })
    }

    /// The same client for requests that carry these fields, in place of all that it was built with. It keeps to the limits
    /// together with the others.
    #[must_use]
    pub fn with_headers(&self, fields: HeaderMap) -> Self {
        Self { fields: Arc::new(fields), ..self.clone() }
    }

    /// Gets a resource as JSON. `path` begins with a slash and may hold a query.
    ///
    /// # Errors
    /// [`Error::Transient`] if it may succeed later, [`Error::Permanent`] if something must be mended first: a status
    /// from 400 to 499, a body that is no such JSON or is too long, a path that is none.
    pub async fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let Fetched { body, .. } = self.fetch(path, Kind::Json).await?;
        serde_json::from_slice(&body).map_err(|e| {
            let url = self.shown(path);
            Error::permanent(format!("the answer from {url} is not the JSON that was expected: {e}"))
        })
    }

    /// Gets a resource as it comes, whole. `path` begins with a slash and may hold a query.
    ///
    /// # Errors
    /// The same as for [`get_json`](Self::get_json), whatever the body is.
    pub async fn get(&self, path: &str) -> Result<Fetched, Error> {
        self.fetch(path, Kind::Any).await
    }

    /// The pages of a collection, one after the other, that begins at `path`.
    pub fn pages(&self, path: &str, settings: PagesSettings) -> Pages {
        Pages::new(self.clone(), path, settings)
    }

    /// Gets a resource whole.
    pub(crate) async fn fetch(&self, path: &str, kind: Kind) -> Result<Fetched, Error> {
        let url = self.shown(path);
        let mut body = Body::new(kind, self.body_bytes_max);
        let answer = self.collect(path, &mut body).await?;
        let answer = answer.map_err(|e| Error::permanent(format!("the answer from {url} cannot be used: {e}")))?;
        match Error::of(&answer, &url) {
            None => {}
            Some(Error::Permanent { message, status: status @ Some(_) }) => {
                let says = excerpt(answer).await.map_or_else(String::new, |text| format!("; it says: {text}"));
                return Err(Error::Permanent { message: message + &says, status });
            }
            Some(error) => return Err(error),
        }
        let (head, _) = answer.response.into_parts();
        Ok(Fetched { status: head.status, headers: head.headers, body: body.into_bytes() })
    }

    async fn collect(&self, path: &str, body: &mut Body) -> Result<io::Result<Answer>, Error> {
        if self.upstream.cache.is_some() {
            let mut answer = exchange::call(&self.upstream, self.inbound(path)?).await;
            if !answer.response.status().is_success() {
                return Ok(Ok(answer));
            }
            match body.read(answer.response.body_mut()).await {
                Ok(Whole::Yes) => return Ok(Ok(answer)),
                Err(error) => return Ok(Err(error)),
                // Asked for once more it goes past the store, where a body that breaks off is repeated.
                Ok(Whole::No) => {}
            }
        }
        let inbound = self.inbound(path)?;
        Ok(exchange::collect(&self.upstream, inbound, body).await)
    }

    /// Where a path is, as that may be shown.
    fn shown(&self, path: &str) -> String {
        redact_url(&format!("{}{path}", self.upstream.target()))
    }

    /// The URL of a path.
    pub(crate) fn url(&self, path: &str) -> Result<Url, Error> {
        self.uri(path)?;
        let url = format!("{}{path}", self.upstream.target());
        Url::parse(&url).map_err(|e| Error::permanent(format!("{} is not a URL: {e}", redact_url(&url))))
    }

    /// The path of a URL; our own address if it is not beneath that.
    pub(crate) fn path(&self, url: &Url) -> Result<String, String> {
        let base = self.upstream.target().to_string();
        let Some(ours) = Url::parse(&base).ok().filter(|ours| ours.origin() == url.origin()) else { return Err(base) };
        let rest = url.path().strip_prefix(ours.path().trim_end_matches('/'));
        let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) else { return Err(base) };
        let path = if rest.is_empty() { "/" } else { rest };
        Ok(url.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}")))
    }

    fn uri(&self, path: &str) -> Result<Uri, Error> {
        match path.parse() {
            Ok(uri) if path.starts_with('/') => Ok(uri),
            _ => {
                let shown = redact_url(path);
                Err(Error::permanent(format!("`{shown}` is not a path; write for example /orders?page=1")))
            }
        }
    }

    fn inbound(&self, path: &str) -> Result<Inbound, Error> {
        let mut request = Request::new(Source::Empty);
        *request.uri_mut() = self.uri(path)?;
        *request.headers_mut() = (*self.fields).clone();
        Ok(Inbound { request, client: ClientId(0), weight: 1, interims: None, hop: None })
    }
}

impl Builder {
    /// Keeps to this limit too; the first one replaces the default.
    #[must_use]
    pub fn limit(mut self, limit: Limit) -> Self {
        self.limits.push(limit);
        self
    }

    /// Repeats failed requests by this policy.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.settings.retry = policy;
        self
    }

    /// Sends this field with every request, as for `Authorization`; its value is shown nowhere. `Accept` replaces the
    /// `application/json` that is asked for otherwise; any other name may be given several times.
    ///
    /// # Errors
    /// A name or a value that no field can have, and names that say how a request is sent, which is not the caller's.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, Error> {
        let Ok(name) = name.parse::<HeaderName>() else {
            // Not shown, since it may be the value, given in the wrong place.
            let why = "the name of a field holds a character that no name can hold; write for example X-Api-Key";
            return Err(Error::permanent(why.to_owned()));
        };
        if [HOST, CONTENT_LENGTH, TRAILER, EXPECT].contains(&name) || is_hop_by_hop(&name) {
            return Err(Error::permanent(format!("`{name}` cannot be set: it is told by how a request is sent")));
        }
        let Ok(mut value) = HeaderValue::from_bytes(value.as_bytes()) else {
            return Err(Error::permanent(format!(
                "the value for `{name}` holds a line break or another control character"
            )));
        };
        value.set_sensitive(true);
        if name == ACCEPT {
            self.fields.insert(name, value);
        } else {
            self.fields.append(name, value);
        }
        Ok(self)
    }

    /// Puts this into every request, as a key that is read again when its file changes; its value is shown nowhere. A field
    /// of the same name that is set by [`header`](Self::header) gives way.
    #[must_use]
    pub fn credential(mut self, credential: Credential) -> Self {
        self.settings.credential = Some(credential);
        self
    }

    /// Reads bodies of at most so many bytes; 64 MiB unless told otherwise.
    #[must_use]
    pub fn body_bytes_max(mut self, bytes: u64) -> Self {
        self.body_bytes_max = bytes;
        self
    }

    /// Changes any other setting.
    #[must_use]
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Lives in other surroundings than the machine's: for tests.
    #[must_use]
    pub fn surroundings(mut self, around: Surroundings) -> Self {
        self.around = around;
        self
    }

    /// The client. Must be called inside of a tokio runtime, in which its turns are kept.
    ///
    /// # Errors
    /// Settings outside of what is allowed, or TLS that cannot be set up.
    pub fn build(mut self) -> Result<ApiClient, SetupError> {
        if !self.limits.is_empty() {
            self.settings.lane.limits = self.limits;
        }
        // Nobody stands in between, so there is no address of ours that a link could lead to.
        self.settings.rewrite_links = false;
        let (upstream, background) = Upstream::start(self.settings, self.around)?;
        let background = Arc::new(AbortOnDrop(tokio::spawn(background).abort_handle()));
        let (fields, body_bytes_max) = (Arc::new(self.fields), self.body_bytes_max);
        Ok(ApiClient { upstream, fields, body_bytes_max, _background: background })
    }
}

impl fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiClient({})", self.upstream.target())
    }
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
