//! What an answer says of caches: RFC 9111 §4.2 and §5.2, RFC 9213, and what the settings leave open, said as plainly as
//! can be.
//!
//! Where a fraction of a second may be counted or not, both ends are kept.

use http::header::{AGE, CACHE_CONTROL, DATE, ETAG, EXPIRES, LAST_MODIFIED, VARY};
use http::{HeaderMap, HeaderName};
use sopan_core::policy::CachePolicy;

use crate::fields::{self, Argument, Directive};
use crate::history::Moment;

/// The lowest and the highest that a span of time may be held to be, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) low: i64,
    pub(crate) high: i64,
}

impl Span {
    pub(crate) fn exactly(at: i64) -> Self {
        Self { low: at, high: at }
    }
}

/// The directives that count.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) is_targeted: bool,
    pub(crate) directives: Vec<Directive>,
}

impl Reading {
    pub(crate) fn of(headers: &HeaderMap, policy: &CachePolicy) -> Self {
        for name in &policy.targeted {
            if let Some(directives) = fields::text(headers, name).and_then(|text| fields::structured(&text)) {
                return Self { is_targeted: true, directives };
            }
        }
        let text = fields::text(headers, &CACHE_CONTROL).unwrap_or_default();
        Self { is_targeted: false, directives: fields::directives(&text) }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.directives.iter().any(|directive| directive.name == name)
    }

    /// Whether it is there without the names of fields, so that it is about all of the answer.
    pub(crate) fn has_bare(&self, name: &str) -> bool {
        self.directives.iter().any(|directive| directive.name == name && directive.argument == Argument::None)
    }

    /// The fields that a directive is about.
    pub(crate) fn listed(&self, name: &str) -> Vec<String> {
        let mut listed = Vec::new();
        for directive in &self.directives {
            if let (true, Argument::Quoted(text) | Argument::Token(text)) =
                (directive.name == name, &directive.argument)
            {
                listed.extend(fields::members(text).iter().map(|field| field.to_lowercase()));
            }
        }
        listed
    }

    fn arguments(&self, name: &str) -> Vec<Argument> {
        let named = self.directives.iter().filter(|directive| directive.name == name);
        named.map(|directive| directive.argument.clone()).collect()
    }

    /// The seconds of a directive that tells a lifetime: what cannot be read, or is said in two ways, is none at all.
    pub(crate) fn lifetime(&self, name: &str) -> Option<i64> {
        let all = self.arguments(name);
        let first = all.first()?;
        let is_clear = all.iter().all(|one| one == first);
        Some(if is_clear { seconds(first).unwrap_or(0) } else { 0 })
    }

    /// Those of one that allows something: what cannot be read allows nothing.
    pub(crate) fn allowance(&self, name: &str) -> Option<i64> {
        self.arguments(name).iter().map(seconds).min().flatten()
    }

    /// Whether it must not be used stale, whatever happens (RFC 9111 §4.2.4).
    pub(crate) fn forbids_stale(&self) -> bool {
        ["must-revalidate", "proxy-revalidate", "s-maxage"].iter().any(|name| self.has(name))
            || self.has_bare("no-cache")
    }
}

fn seconds(argument: &Argument) -> Option<i64> {
    // RFC 9111 §5.2: recipients ought to accept both forms.
    let (Argument::Token(digits) | Argument::Quoted(digits)) = argument else { return None };
    let is_number = !digits.is_empty() && digits.chars().all(|char| char.is_ascii_digit());
    is_number.then(|| digits.parse::<i64>().unwrap_or(i64::MAX).min(1 << 31))
}

/// The directives of a request, and of its `Pragma`.
pub(crate) fn asked(headers: &HeaderMap) -> Reading {
    let mut directives = fields::directives(&fields::text(headers, &CACHE_CONTROL).unwrap_or_default());
    if !headers.contains_key(CACHE_CONTROL)
        && fields::text(headers, &HeaderName::from_static("pragma")).as_deref() == Some("no-cache")
    {
        directives.push(Directive { name: "no-cache".to_owned(), argument: Argument::None });
    }
    Reading { is_targeted: false, directives }
}

/// The names that an answer was chosen by; none if nobody can say (`*`).
pub(crate) fn nominated(headers: &HeaderMap) -> Option<Vec<String>> {
    let names = fields::members(&fields::text(headers, &VARY).unwrap_or_default());
    let is_told = names.iter().all(|name| name != "*");
    is_told.then(|| names.iter().map(|name| name.to_lowercase()).collect())
}

/// What of an answer's lifetime says so itself, or the settings do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Says {
    Explicitly,
    BySettings,
    Vaguely,
    Nothing,
}

/// For how long it is fresh, and what says so (RFC 9111 §4.2.1, §4.2.2).
pub(crate) fn lifetime(
    status: u16,
    headers: &HeaderMap,
    reading: &Reading,
    received: Moment,
    default_ttl: Option<std::time::Duration>,
) -> (Says, Span) {
    for name in ["s-maxage", "max-age"] {
        if let Some(seconds) = reading.lifetime(name) {
            return (Says::Explicitly, Span::exactly(seconds * 1000));
        }
    }
    let made = made(headers, received);
    if !reading.is_targeted && headers.contains_key(EXPIRES) {
        let is_one = headers.get_all(EXPIRES).iter().count() == 1;
        let expires = fields::text(headers, &EXPIRES).filter(|_| is_one).and_then(|text| fields::date(&text));
        let Some(expires) = expires else { return (Says::Explicitly, Span::exactly(0)) };
        let since = |made: i64| (since_begin(expires) - made).max(0);
        return (Says::Explicitly, Span { low: since(made.high), high: since(made.low) });
    }
    let is_silent = !reading.has_bare("no-cache") && !reading.has("no-store");
    let may_be_guessed = is_guessable(status) || reading.has("public");
    if let Some(ttl) = default_ttl.filter(|_| (200..300).contains(&status) && is_silent && may_be_guessed) {
        return (Says::BySettings, Span::exactly(i64::try_from(ttl.as_millis()).expect("short")));
    }
    let modified = fields::text(headers, &LAST_MODIFIED).and_then(|text| fields::date(&text));
    if let Some(modified) = modified.filter(|_| may_be_guessed) {
        let tenth = |made: i64| ((made - since_begin(modified)) / 10).max(0);
        // It may be cut to whole seconds.
        return (Says::Vaguely, Span { low: tenth(made.low) / 1000 * 1000, high: tenth(made.high) });
    }
    (Says::Nothing, Span::exactly(0))
}

/// Statuses whose lifetime may be guessed (RFC 9110 §15.1).
pub(crate) fn is_guessable(status: u16) -> bool {
    [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501].contains(&status)
}

/// When it was made, going by its `Date`, else when it came.
fn made(headers: &HeaderMap, received: Moment) -> Span {
    match fields::text(headers, &DATE).and_then(|text| fields::date(&text)) {
        Some(date) => Span::exactly(since_begin(date)),
        None => Span { low: received.div_euclid(1000) * 1000, high: received },
    }
}

fn since_begin(seconds: i64) -> Moment {
    let begin = crate::history::calendar(0).duration_since(std::time::UNIX_EPOCH).expect("later");
    (seconds - i64::try_from(begin.as_secs()).expect("in this age")) * 1000
}

/// How old an answer was when it came (RFC 9111 §4.2.3); `age` is what its `Age` said.
pub(crate) fn initial_age(headers: &HeaderMap, age: i64, requested: Moment, received: Moment) -> Span {
    let apparent = (received - made(headers, received).low).max(0);
    let corrected = age * 1000 + (received - requested);
    Span { low: (apparent / 1000 * 1000).max(corrected), high: apparent.max(corrected) }
}

/// What `Age` says: the first member, if it is a number (RFC 9111 §5.1).
pub(crate) fn age(headers: &HeaderMap) -> i64 {
    let text = fields::text(headers, &AGE).unwrap_or_default();
    let first = text.split(',').next().unwrap_or_default().trim().to_owned();
    seconds(&Argument::Token(first)).unwrap_or(0)
}

/// The tag by which bodies may be told apart byte for byte.
pub(crate) fn strong_tag(headers: &HeaderMap) -> Option<String> {
    fields::text(headers, &ETAG).filter(|tag| tag.starts_with('"'))
}
