//! What may happen to a cache: who asks for what and when, and what the upstream does about it.
//!
//! A history prints as a story, two lines for a step. How they are made is for `draw` to say.

mod draw;

use std::fmt;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue};
use sopan_core::cache::Failure;
use sopan_core::policy::{CachePolicy, PathTreatment};

pub(crate) use draw::histories;

/// When the histories begin.
const BEGIN: u64 = 1_800_000_000;

/// An instant, in milliseconds since the beginning.
pub(crate) type Moment = i64;

/// It by the calendar.
pub(crate) fn calendar(moment: Moment) -> SystemTime {
    let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(BEGIN);
    let by = Duration::from_millis(moment.unsigned_abs());
    if moment < 0 { begin - by } else { begin + by }
}

#[derive(Clone)]
pub(crate) struct History {
    pub(crate) policy: CachePolicy,
    pub(crate) steps: Vec<Step>,
}

/// A request, some time after the one before, and what the upstream would do with it.
#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) wait: Moment,
    pub(crate) request: Request,
    pub(crate) upstream: Upstream,
}

#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) target: &'static str,
    pub(crate) host: &'static str,
    pub(crate) fields: Vec<Field>,
    pub(crate) has_body: bool,
    pub(crate) rule: Option<PathTreatment>,
}

#[derive(Clone, Debug)]
pub(crate) enum Upstream {
    Answers(Answer),
    Fails(Failure),
}

#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Which of the bodies that a target has in the course of time.
    pub(crate) version: u8,
    pub(crate) tag: Tag,
    pub(crate) fields: Vec<Field>,
    /// Whether it looks at conditions and at `Range`.
    pub(crate) looks_at_conditions: bool,
    pub(crate) looks_at_ranges: bool,
    pub(crate) quirk: Quirk,
    /// From the request to the head.
    pub(crate) delay: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tag {
    None,
    Strong,
    Weak,
}

/// What an upstream does that it should not, or need not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Quirk {
    None,
    /// It does not say how long the body is.
    NoLength,
    /// Its 304 names no validator.
    BareNotModified,
    /// Its 304 has a `Content-Length: 0`.
    EmptyNotModified,
    /// Its 304 has the tag of another version.
    OtherNotModified,
    /// It says 304 whatever it is asked.
    UnaskedNotModified,
    /// Its 206 has a byte less than it says.
    ShortPart,
    /// It does not look at `If-Range`.
    NoIfRange,
    /// It sends a part whatever it is asked.
    UnaskedPart,
    /// It sends several parts whatever it is asked.
    UnaskedParts,
    /// It does not say how long the whole of a part is.
    UnknownWhole,
}

/// A line of a head, whose value may be a date relative to its making.
#[derive(Clone, Copy)]
pub(crate) struct Field(&'static str, Text);

#[derive(Clone, Copy)]
enum Text {
    Is(&'static str),
    /// So many seconds from now.
    In(i64),
}

/// The fields as they are sent at `now`.
pub(crate) fn written(fields: &[Field], now: Moment) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for Field(name, text) in fields {
        headers.append(HeaderName::from_static(name), text.at(now));
    }
    headers
}

/// A date, as it is written.
pub(crate) fn date(moment: Moment) -> HeaderValue {
    let date = httpdate::fmt_http_date(calendar(moment));
    HeaderValue::from_str(&date).expect("a date is a value")
}

impl Text {
    fn at(self, now: Moment) -> HeaderValue {
        match self {
            Self::Is(text) => HeaderValue::from_static(text),
            Self::In(seconds) => date(now + seconds * 1000),
        }
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (policy, plain) = (&self.policy, CachePolicy::default());
        write!(f, "a cache")?;
        if policy.default_ttl != plain.default_ttl {
            write!(f, ", default_ttl {:?}", policy.default_ttl)?;
        }
        if policy.store_set_cookie {
            write!(f, ", store_set_cookie")?;
        }
        if policy.revalidate != plain.revalidate {
            write!(f, ", revalidate {:?}", policy.revalidate)?;
        }
        if policy.stale_if_error != plain.stale_if_error {
            write!(f, ", stale_if_error {:?}", policy.stale_if_error)?;
        }
        if policy.stale_max != plain.stale_max {
            write!(f, ", stale_max {:?}", policy.stale_max)?;
        }
        if policy.entry_bytes_max != plain.entry_bytes_max {
            write!(f, ", entry_bytes_max {}", policy.entry_bytes_max)?;
        }
        for (number, step) in self.steps.iter().enumerate() {
            write!(f, "\n  {number}: {step:?}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:+} s  {:?}\n       -> {:?}", self.wait as f64 / 1000.0, self.request, self.upstream)
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{} {:?}", self.method, self.host, self.target, self.fields)?;
        if self.has_body && !matches!(self.method, "POST" | "PUT") {
            write!(f, " with a body")?;
        }
        if let Some(rule) = self.rule {
            write!(f, " under {rule:?}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} version {} (tag {:?}) {:?}", self.status, self.version, self.tag, self.fields)?;
        if !self.looks_at_conditions {
            write!(f, ", takes no conditions")?;
        }
        if !self.looks_at_ranges {
            write!(f, ", takes no ranges")?;
        }
        if self.quirk != Quirk::None {
            write!(f, ", quirk {:?}", self.quirk)?;
        }
        if self.delay != 0 {
            write!(f, ", after {} s", self.delay as f64 / 1000.0)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Text::Is(text) => write!(f, "{}: {text}", self.0),
            Text::In(seconds) => write!(f, "{}: now{seconds:+}", self.0),
        }
    }
}
