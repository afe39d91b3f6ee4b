//! What do the directives of a message say (RFC 9111 §5.2, RFC 5861, RFC 8246, RFC 9213)?
//!
//! A member of `Cache-Control` is a name in any case and perhaps an argument, a token or a quoted string, one as good as the
//! other. What follows a name and is neither makes an argument that cannot be read, and a member without a name says
//! nothing. Where that leaves a choice, the answer is stored less or used for a shorter time: a directive that forbids is
//! obeyed whatever its argument, one that permits (`public`) only without one.
//!
//! A field that speaks to this cache alone is read by `targeted`, with rules of its own. How long an answer is fresh is
//! for [`freshness`](super::freshness) to say, what is stored and used for those who asked.

mod targeted;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use http::header::{CACHE_CONTROL, GetAll, HeaderMap, HeaderName, HeaderValue, PRAGMA};

use super::list::{is_token, is_token_byte, members, quoted_length};

/// As long as it takes: RFC 9111 §1.2.2 has 2^31 seconds for whatever is more, and one end for all numbers keeps an age
/// that went beyond it from being less than a lifetime that did.
const SECONDS_MAX: u32 = 1 << 31;
/// Who names more fields than this in `no-cache` or `private` means the whole answer.
const SCOPE_FIELDS_MAX: usize = 64;
/// The longest name of a directive that is known, `stale-while-revalidate`.
const NAME_LENGTH_MAX: usize = 22;

/// The directives of a request, its `Pragma` included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// `no-store`
    pub no_store: bool,
    /// `no-cache`, or `Pragma: no-cache` where there is no `Cache-Control`.
    pub no_cache: bool,
    /// `only-if-cached`
    pub only_if_cached: bool,
    /// `max-age`, in seconds; one that cannot be read is 0. Of several the smallest.
    pub max_age: Option<u32>,
    /// `min-fresh`, in seconds; one that cannot be read is not there. Of several the largest.
    pub min_fresh: Option<u32>,
    /// `max-stale`, in seconds; `u32::MAX` where it stands alone. One that cannot be read is not there. Of several the
    /// smallest.
    pub max_stale: Option<u32>,
    /// `stale-if-error` (RFC 5861), in seconds; one that cannot be read is not there. Of several the smallest.
    pub stale_if_error: Option<u32>,
}

impl RequestDirectives {
    /// Reads them.
    ///
    /// ```
    /// use http::{HeaderMap, HeaderValue};
    /// use sopan_core::cache::directives::RequestDirectives;
    ///
    /// let mut headers = HeaderMap::new();
    /// headers.insert("cache-control", HeaderValue::from_static("max-age=60, Only-If-Cached"));
    /// let read = RequestDirectives::read(&headers);
    /// assert_eq!((read.max_age, read.only_if_cached), (Some(60), true));
    /// ```
    pub fn read(headers: &HeaderMap) -> Self {
        let mut read = Self::default();
        if headers.contains_key(CACHE_CONTROL) {
            each_member(&headers.get_all(CACHE_CONTROL), |name, argument| read.take(name, &argument));
        } else if headers.contains_key(PRAGMA) {
            each_member(&headers.get_all(PRAGMA), |name, _| read.no_cache |= name == b"no-cache");
        }
        read
    }

    fn take(&mut self, name: &[u8], argument: &Argument<'_>) {
        match name {
            b"no-store" => self.no_store = true,
            b"no-cache" => self.no_cache = true,
            b"only-if-cached" => self.only_if_cached = true,
            b"max-age" => lower(&mut self.max_age, argument.seconds().or(Some(0))),
            b"min-fresh" => self.min_fresh = self.min_fresh.max(argument.seconds()),
            b"max-stale" if *argument == Argument::None => lower(&mut self.max_stale, Some(u32::MAX)),
            b"max-stale" => lower(&mut self.max_stale, argument.seconds()),
            b"stale-if-error" => lower(&mut self.stale_if_error, argument.seconds()),
            _ => {}
        }
    }
}

/// The directives of an answer: those of the field that speaks to this cache, or of `Cache-Control`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseDirectives {
    /// Whether they come from a targeted field (RFC 9213), beside which neither `Cache-Control` nor `Expires` nor `Pragma`
    /// is looked at.
    pub is_targeted: bool,
    /// `no-store`
    pub no_store: bool,
    /// `no-cache`: must be asked about before each use.
    pub no_cache: Scope,
    /// `private`
    pub private: Scope,
    /// `public`
    pub public: bool,
    /// `must-revalidate`
    pub must_revalidate: bool,
    /// `proxy-revalidate`
    pub proxy_revalidate: bool,
    /// `must-understand`
    pub must_understand: bool,
    /// `immutable` (RFC 8246)
    pub immutable: bool,
    /// `max-age`, in seconds. One that cannot be read, or is there twice with two values, is 0 (RFC 9111 §4.2.1).
    pub max_age: Option<u32>,
    /// `s-maxage`, likewise.
    pub s_maxage: Option<u32>,
    /// `stale-while-revalidate` (RFC 5861), in seconds; one that cannot be read is not there. Of several the smallest.
    pub stale_while_revalidate: Option<u32>,
    /// `stale-if-error` (RFC 5861), likewise.
    pub stale_if_error: Option<u32>,
}

/// How much of an answer a directive is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Nothing: it is not there.
    #[default]
    None,
    /// These fields only (`no-cache="set-cookie"`), in the order of names.
    Fields(Box<[HeaderName]>),
    /// All of it.
    All,
}

impl ResponseDirectives {
    /// Reads them; `targeted` names the fields that speak to this cache, the most important first.
    ///
    /// ```
    /// use http::{HeaderMap, HeaderName, HeaderValue};
    /// use sopan_core::cache::directives::ResponseDirectives;
    ///
    /// let mut headers = HeaderMap::new();
    /// headers.insert("cache-control", HeaderValue::from_static("no-store"));
    /// headers.insert("cdn-cache-control", HeaderValue::from_static("max-age=60"));
    /// let read = ResponseDirectives::read(&headers, &[HeaderName::from_static("cdn-cache-control")]);
    /// assert_eq!((read.max_age, read.no_store), (Some(60), false));
    /// ```
    pub fn read(headers: &HeaderMap, targeted: &[HeaderName]) -> Self {
        let aimed = targeted.iter().find_map(|name| targeted::read(&headers.get_all(name)));
        aimed.unwrap_or_else(|| {
            let mut read = Self::default();
            each_member(&headers.get_all(CACHE_CONTROL), |name, argument| read.take(name, &argument));
            read
        })
    }

    fn take(&mut self, name: &[u8], argument: &Argument<'_>) {
        match self.place(name) {
            Some(Place::Restriction(is_there)) => *is_there = true,
            Some(Place::Permission(is_there)) => *is_there |= *argument == Argument::None,
            Some(Place::Lifetime(lifetime)) => {
                let seconds = argument.seconds().unwrap_or(0);
                *lifetime = Some(if lifetime.is_none_or(|known| known == seconds) { seconds } else { 0 });
            }
            Some(Place::Window(window)) => lower(window, argument.seconds()),
            Some(Place::Scope(scope)) => scope.widen(argument.text()),
            None => {}
        }
    }

    /// Where a directive is kept, by its name in lower case; none if nobody here knows it.
    fn place(&mut self, name: &[u8]) -> Option<Place<'_>> {
        Some(match name {
            b"no-store" => Place::Restriction(&mut self.no_store),
            b"no-cache" => Place::Scope(&mut self.no_cache),
            b"private" => Place::Scope(&mut self.private),
            b"public" => Place::Permission(&mut self.public),
            b"must-revalidate" => Place::Restriction(&mut self.must_revalidate),
            b"proxy-revalidate" => Place::Restriction(&mut self.proxy_revalidate),
            b"must-understand" => Place::Restriction(&mut self.must_understand),
            // RFC 8246 §2 has any argument of it ignored.
            b"immutable" => Place::Restriction(&mut self.immutable),
            b"max-age" => Place::Lifetime(&mut self.max_age),
            b"s-maxage" => Place::Lifetime(&mut self.s_maxage),
            b"stale-while-revalidate" => Place::Window(&mut self.stale_while_revalidate),
            b"stale-if-error" => Place::Window(&mut self.stale_if_error),
            _ => return None,
        })
    }
}

/// Where a directive of an answer is kept, and so what its argument has to be.
enum Place<'a> {
    /// It has none; whatever is there in its stead is not looked at.
    Restriction(&'a mut bool),
    /// It has none, and does not count with one.
    Permission(&'a mut bool),
    /// Seconds, without which nothing is fresh.
    Lifetime(&'a mut Option<u32>),
    /// Seconds, without which it says nothing.
    Window(&'a mut Option<u32>),
    /// Names of fields, or none.
    Scope(&'a mut Scope),
}

impl Scope {
    /// Makes it about the fields in this list too; about the whole answer where there is none or it cannot be read.
    fn widen(&mut self, list: Option<&[u8]>) {
        let mut names = match std::mem::take(self) {
            Self::None => Vec::new(),
            Self::Fields(names) => names.into_vec(),
            Self::All => return *self = Self::All,
        };
        let known = names.len();
        for name in members(list.unwrap_or_default(), b',') {
            let Ok(name) = HeaderName::from_bytes(name) else { return *self = Self::All };
            names.push(name);
        }
        let is_empty = names.len() == known;
        names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        *self = if is_empty || names.len() > SCOPE_FIELDS_MAX { Self::All } else { Self::Fields(names.into()) };
    }
}

/// The argument of a directive.
#[derive(Debug, PartialEq, Eq)]
enum Argument<'a> {
    None,
    Text(Cow<'a, [u8]>),
    /// There is something, but neither a token nor a quoted string.
    Unreadable,
}

impl Argument<'_> {
    fn text(&self) -> Option<&[u8]> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    fn seconds(&self) -> Option<u32> {
        self.text().and_then(delta_seconds)
    }
}

/// Digits alone as a number of seconds (RFC 9111 §1.2.2), at most 2^31; anything else is none.
pub(super) fn delta_seconds(text: &[u8]) -> Option<u32> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let add = |number: u32, digit: &u8| number.saturating_mul(10).saturating_add(u32::from(digit - b'0'));
    is_number.then(|| text.iter().fold(0, add).min(SECONDS_MAX))
}

/// Keeps the smaller one of two values, if there are two.
fn lower(known: &mut Option<u32>, new: Option<u32>) {
    *known = match (*known, new) {
        (Some(known), Some(new)) => Some(known.min(new)),
        (known, new) => known.or(new),
    };
}

/// Reads the members of all lines in turn, each name in lower case.
fn each_member<'a>(lines: &GetAll<'a, HeaderValue>, mut take: impl FnMut(&[u8], Argument<'a>)) {
    for member in lines.iter().flat_map(|line| members(line.as_bytes(), b',')) {
        let end = member.iter().position(|&byte| !is_token_byte(byte)).unwrap_or(member.len());
        let (name, rest) = member.split_at(end);
        let mut lower_case = [0; NAME_LENGTH_MAX];
        let Some(lower_case) = lower_case.get_mut(..name.len()) else { continue };
        lower_case.copy_from_slice(name);
        lower_case.make_ascii_lowercase();
        take(lower_case, argument(rest));
    }
}

/// What follows a name.
fn argument(text: &[u8]) -> Argument<'_> {
    match text {
        [] => Argument::None,
        [b'=', token @ ..] if is_token(token) => Argument::Text(token.into()),
        [b'=', quoted @ ..] if quoted.first() == Some(&b'"') && quoted_length(quoted) == Some(quoted.len()) => {
            Argument::Text(unquoted(quoted))
        }
        _ => Argument::Unreadable,
    }
}

/// What a quoted string holds.
fn unquoted(quoted: &[u8]) -> Cow<'_, [u8]> {
    let inner = &quoted[1..quoted.len() - 1];
    if !inner.contains(&b'\\') {
        return inner.into();
    }
    let mut bytes = inner.iter();
    std::iter::from_fn(|| match bytes.next()? {
        b'\\' => bytes.next().copied(),
        byte => Some(*byte),
    })
    .collect::<Vec<_>>()
    .into()
}
