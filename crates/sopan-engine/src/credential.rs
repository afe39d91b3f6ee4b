//! By what does an upstream know sopan, where its clients hold no key of their own?
//!
//! A [`Credential`] is a secret and where in a request it stands. It is put into a head when that is sent, and taken out
//! when the answer is there ([`Credential::put_in`]), so that nothing which looks at a request meanwhile, the log, the cache, an
//! event, ever sees it; and what a client has sent in its place is taken off before anything is decided by it. One that is in a
//! file is read again every second, so that it can be changed while requests run ([`keep_up`]).
//!
//! Where the secret comes from is for whoever makes one to say; what it opens, for the upstream.

mod read;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Weak;
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, HeaderValue, TRAILER, VIA};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Uri};
use parking_lot::RwLock;
use sopan_core::headers::{Origin, Parameter, is_hop_by_hop};

use read::{Unreadable, read};

/// How often a file is looked at. Whoever changes a key lets the old one live on for longer.
const LOOKS_APART: Duration = Duration::from_secs(1);

/// No key is longer, and a head has to have room for it.
const BYTES_MAX: usize = 8 * 1024;

/// A secret that is put into the requests for an upstream, in place of whatever a client has sent there.
///
/// ```
/// use sopan_engine::{Credential, CredentialPlace};
///
/// let place = CredentialPlace::field("x-api-key".parse()?, None)?;
/// let credential = Credential::new(place, b"s3cret")?;
/// assert_eq!(format!("{credential:?}"), "Credential(x-api-key)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Credential(Arc<Inner>);

struct Inner {
    place: CredentialPlace,
    /// Where it is read again; none where it never changes.
    file: Option<PathBuf>,
    secrets: RwLock<Secrets>,
}

struct Secrets {
    now: Secret,
    /// The one before, which answers that are under way may echo.
    before: Option<Box<[u8]>>,
}

/// As it was given, and as it stands in a request.
struct Secret {
    given: Box<[u8]>,
    written: Written,
}

enum Written {
    Field(HeaderValue),
    Parameter(String),
}

/// Where in a request a credential stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialPlace(Place);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Field { name: HeaderName, scheme: Option<String> },
    Parameter { name: String, parameter: Parameter },
}

/// Something that can be no credential. It is never shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// The field says how a request is sent.
    #[error("`{0}` cannot hold a credential, since it tells how a request is sent")]
    Field(HeaderName),
    /// A scheme is one word.
    #[error("the scheme must be one word, such as Bearer")]
    Scheme,
    /// There is none.
    #[error("it is empty")]
    Empty,
    /// It is longer than any key.
    #[error("it is longer than {BYTES_MAX} bytes, which no key is")]
    TooLong,
    /// It could not be told from what follows it.
    #[error("it holds a line break or another control character, which no key does")]
    Control,
    /// The file that should hold it cannot be read.
    #[error("the file cannot be read: {0}")]
    Unreadable(String),
}

impl CredentialPlace {
    /// In this field, perhaps behind a scheme, such as `Bearer`. What follows `Basic` is encoded where it is
    /// `user:password`.
    ///
    /// # Errors
    /// A field that tells how a request is sent, or a scheme that is none.
    pub fn field(name: HeaderName, scheme: Option<&str>) -> Result<Self, CredentialError> {
        if [CONTENT_LENGTH, EXPECT, HOST, TRAILER, VIA].contains(&name) || is_hop_by_hop(&name) {
            return Err(CredentialError::Field(name));
        }
        // As any token (RFC 9110 §11.1), which the names of fields are too.
        if scheme.is_some_and(|scheme| scheme.parse::<HeaderName>().is_err()) {
            return Err(CredentialError::Scheme);
        }
        Ok(Self(Place::Field { name, scheme: scheme.map(str::to_owned) }))
    }

    /// In `Authorization`, behind `Bearer`, as most APIs want it.
    pub fn bearer() -> Self {
        Self(Place::Field { name: AUTHORIZATION, scheme: Some("Bearer".to_owned()) })
    }

    /// In this parameter of the query.
    pub fn query(name: &str) -> Self {
        Self(Place::Parameter { name: name.to_owned(), parameter: Parameter::new(name) })
    }

    /// What a request says there.
    fn write(&self, given: &[u8]) -> Result<Written, CredentialError> {
        match &self.0 {
            Place::Parameter { parameter, .. } => Ok(Written::Parameter(parameter.written(given))),
            Place::Field { scheme, .. } => {
                let text = scheme.as_deref().map_or_else(|| given.to_vec(), |scheme| behind(scheme, given));
                let mut value = HeaderValue::from_bytes(&text).map_err(|_| CredentialError::Control)?;
                // Neither shown nor kept in the table that all requests of an HTTP/2 connection share.
                value.set_sensitive(true);
                Ok(Written::Field(value))
            }
        }
    }
}

/// `Bearer key`; a secret that has its scheme already gets no second one.
fn behind(scheme: &str, given: &[u8]) -> Vec<u8> {
    let has_it = given.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme.as_bytes()));
    if has_it && given.get(scheme.len()) == Some(&b' ') {
        return given.to_vec();
    }
    // What is encoded has no colon.
    let is_plain = scheme.eq_ignore_ascii_case("basic") && given.contains(&b':');
    let credential = if is_plain { base64(given).into_bytes() } else { given.to_vec() };
    [scheme.as_bytes(), b" ", &credential].concat()
}

impl fmt::Display for CredentialPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Field { name, .. } => write!(f, "{name}"),
            Place::Parameter { name, .. } => write!(f, "?{name}"),
        }
    }
}

impl Credential {
    /// One that never changes. Line breaks at its end are no part of it.
    ///
    /// # Errors
    /// What can be no credential.
    pub fn new(place: CredentialPlace, secret: &[u8]) -> Result<Self, CredentialError> {
        Self::made(place, secret, None)
    }

    /// What is in a file, read again when that changes.
    ///
    /// # Errors
    /// A file that cannot be read, and what can be no credential.
    pub fn from_file(place: CredentialPlace, path: &Path) -> Result<Self, CredentialError> {
        let found = read(path).map_err(|Unreadable(why)| CredentialError::Unreadable(why))?;
        Self::made(place, &found, Some(path.to_owned()))
    }

    fn made(place: CredentialPlace, secret: &[u8], file: Option<PathBuf>) -> Result<Self, CredentialError> {
        let secrets = RwLock::new(Secrets { now: Secret::of(&place, secret)?, before: None });
        Ok(Self(Arc::new(Inner { place, file, secrets })))
    }

    /// Where in a request it stands.
    pub fn place(&self) -> &CredentialPlace {
        &self.0.place
    }

    /// The field that it stands in, if it stands in one.
    pub(crate) fn field(&self) -> Option<&HeaderName> {
        match &self.0.place.0 {
            Place::Field { name, .. } => Some(name),
            Place::Parameter { .. } => None,
        }
    }

    /// The parameter of the query that it stands in, if it stands in one.
    fn parameter(&self) -> Option<&Parameter> {
        match &self.0.place.0 {
            Place::Field { .. } => None,
            Place::Parameter { parameter, .. } => Some(parameter),
        }
    }

    /// About what it adds to a head.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.0.secrets.read().now.written {
            Written::Field(value) => value.len() as u64,
            Written::Parameter(written) => written.len() as u64,
        }
    }

    /// Takes off what a client has sent in its place, also under a name that some servers take for the same.
    pub(crate) fn take_off_own(&self, headers: &mut HeaderMap) {
        let Some(field) = self.field() else { return };
        while let Some(name) = headers.keys().find(|name| is_same(name, field)).cloned() {
            headers.remove(name);
        }
    }

    /// The target without what a client has sent in its place, where it stands in the target.
    pub(crate) fn target_without_own(&self, target: &Uri) -> Option<Uri> {
        let parameter = self.parameter()?;
        let text = target.path_and_query().map_or("/", PathAndQuery::as_str);
        let bare = parameter.without(text).and_then(|bare| Uri::builder().path_and_query(bare).build().ok());
        Some(bare.unwrap_or_else(|| target.clone()))
    }

    /// Puts it into a head that is about to be sent. Not where the upstream would show what it was sent (TRACE, RFC 9110
    /// §9.3.8), or in a target that has no query.
    pub(crate) fn put_in(&self, head: &mut Request<()>) {
        if *head.method() == Method::TRACE {
            return;
        }
        let secrets = self.0.secrets.read();
        match (&self.0.place.0, &secrets.now.written) {
            (Place::Field { name, .. }, Written::Field(value)) => {
                head.headers_mut().insert(name, value.clone());
            }
            (Place::Parameter { .. }, Written::Parameter(written)) => {
                let target = head.uri().path_and_query().map_or("/", PathAndQuery::as_str);
                if target.starts_with('/')
                    && let Ok(uri) = Uri::builder().path_and_query(Parameter::with(target, written)).build()
                {
                    *head.uri_mut() = uri;
                }
            }
            // It is written for its place.
            (Place::Field { .. }, Written::Parameter(_)) | (Place::Parameter { .. }, Written::Field(_)) => {}
        }
    }

    /// Takes it out again, whichever it was: of the client's own none was left.
    pub(crate) fn take_out(&self, head: &mut Request<()>) {
        match &self.0.place.0 {
            Place::Field { name, .. } => drop(head.headers_mut().remove(name)),
            Place::Parameter { .. } => {
                if let Some(bare) = self.target_without_own(head.uri()) {
                    *head.uri_mut() = bare;
                }
            }
        }
    }

    /// Takes it off the links of an answer, where an upstream echoes it.
    pub(crate) fn hide(&self, headers: &mut HeaderMap, origin: &Origin<'_>) {
        let Some(parameter) = self.parameter() else { return };
        let secrets = self.0.secrets.read();
        let known: Vec<_> =
            [Some(&secrets.now.given), secrets.before.as_ref()].into_iter().flatten().map(|s| &**s).collect();
        parameter.hide(headers, origin, &known);
    }

    /// Takes another secret in place of the one so far; whether it is another.
    fn change(&self, secret: &[u8]) -> Result<bool, CredentialError> {
        let new = Secret::of(&self.0.place, secret)?;
        let mut secrets = self.0.secrets.write();
        if new.given == secrets.now.given {
            return Ok(false);
        }
        let before = std::mem::replace(&mut secrets.now, new);
        secrets.before = Some(before.given);
        Ok(true)
    }
}

impl Secret {
    fn of(place: &CredentialPlace, secret: &[u8]) -> Result<Self, CredentialError> {
        // Editors and `echo` end a file so.
        let end = secret.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
        let given = &secret[..end];
        if given.trim_ascii().is_empty() {
            return Err(CredentialError::Empty);
        }
        if given.len() > BYTES_MAX {
            return Err(CredentialError::TooLong);
        }
        if given.iter().any(u8::is_ascii_control) {
            return Err(CredentialError::Control);
        }
        Ok(Self { given: given.into(), written: place.write(given)? })
    }
}

// Where it stands is no secret.
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({})", self.0.place)
    }
}

/// Reads the file of a credential again and again, until nobody needs that any more. One that has gone, or is empty, changes
/// nothing, and is told of once.
pub(crate) async fn keep_up<T>(credential: Option<Credential>, upstream: Arc<str>, needed: Weak<T>) {
    let Some((credential, path)) = credential.and_then(|c| c.0.file.clone().map(|path| (c, path))) else { return };
    let (upstream, shown) = (&*upstream, path.display().to_string());
    let mut is_lost = false;
    loop {
        tokio::time::sleep(LOOKS_APART).await;
        if needed.strong_count() == 0 {
            return;
        }
        // A disk may take its time, and nobody has to wait for it.
        let reading = path.clone();
        let Ok(found) = tokio::task::spawn_blocking(move || read(&reading)).await else { return };
        let changed = found
            .map_err(|Unreadable(why)| CredentialError::Unreadable(why))
            .and_then(|found| credential.change(&found));
        match changed {
            Ok(true) => {
                tracing::info!(upstream, file = shown, "the credential for {upstream} is a new one, from {shown}")
            }
            Ok(false) => {}
            Err(ref error) if !is_lost => tracing::warn!(
                upstream,
                file = shown,
                "the credential for {upstream} stays the one that was read before, since {shown} holds none: {error}"
            ),
            Err(_) => {}
        }
        is_lost = changed.is_err();
    }
}

/// Whether some servers take one name for the other: who hands fields on as variables makes `_` of `-`.
fn is_same(name: &HeaderName, field: &HeaderName) -> bool {
    let (name, field) = (name.as_str().as_bytes(), field.as_str().as_bytes());
    let plain = |byte: &u8| if *byte == b'_' { b'-' } else { *byte };
    name.len() == field.len() && name.iter().map(plain).eq(field.iter().map(plain))
}

/// RFC 4648 §4, with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |index: usize| u32::from(three.get(index).copied().unwrap_or_default());
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 63;
            text.push(if digit <= three.len() { char::from(DIGITS[value as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests;
