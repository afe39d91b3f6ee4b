//! Is an answer stored, and what of it (RFC 9111 §3)?
//!
//! [`Stored::of`] says it of a new one, or why not. [`Stored::renewed`] makes the head of one in store anew when the upstream
//! has confirmed it. Where RFC 9111 knows a shared cache and a private one, this is the one as well as the other: what only
//! the client who asked may be given is stored for that client alone, if it has a secret by which it is known again.
//!
//! Left to others: what becomes of answers that are in store already ([`after`](super::after)), and of bodies.

use std::time::{Duration, SystemTime};

use http::header::{
    ACCEPT, ACCEPT_LANGUAGE, AGE, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_RANGE, DATE, ETAG, EXPIRES,
    LAST_MODIFIED, RETRY_AFTER, SET_COOKIE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

use super::after::Received;
use super::conditional::updated;
use super::directives::{ResponseDirectives, Scope};
use super::freshness::{Freshness, Source, is_guessable};
use super::marks::Marks;
use super::range::{Part, part_of_answer};
use super::standing::{asks_each_time, is_about_all};
use super::vary::Selecting;
use super::{Asked, Extent, NotStored, Owner, Stored};
use crate::hints::http_date::unix_seconds;
use crate::policy::{CachePolicy, PathTreatment};

impl Stored {
    /// What is to be known of an answer, if it is stored.
    ///
    /// # Errors
    /// Why it is not.
    pub fn of(policy: &CachePolicy, asked: &Asked<'_>, received: Received<'_>) -> Result<Self, NotStored> {
        if !policy.on || asked.rule == Some(PathTreatment::Bypass) || asked.has_body && asked.method == Method::GET {
            return Err(NotStored::Bypass);
        }
        let says_nothing = says_nothing(policy, received.headers);
        let directives = match says_nothing {
            true => ResponseDirectives::default(),
            false => ResponseDirectives::read(received.headers, &policy.targeted),
        };
        may_be_stored(asked, received, &directives)?;
        let is_part = received.status == StatusCode::PARTIAL_CONTENT;
        if says_nothing && !is_part && default_ttl(policy, asked).is_none() {
            return Err(NotStored::NoLifetime);
        }
        let freshness = freshness(policy, asked, received, received.headers, &directives);
        let selecting = chosen_by(freshness, received.headers, asked);
        let owner = owner(asked, &directives, &selecting)?;
        let extent = extent(asked, received)?;
        is_useful(asked, received, &directives, freshness)?;
        if selecting.is_beyond_fields {
            return Err(NotStored::VaryStar);
        }
        let headers = kept(received, &directives, owner, extent);
        if headers.contains_key(SET_COOKIE) && !policy.store_set_cookie {
            return Err(NotStored::SetCookie);
        }
        if extent.bytes().is_some_and(|bytes| bytes > policy.entry_bytes_max) {
            return Err(NotStored::TooLarge);
        }
        let status = if received.status == StatusCode::PARTIAL_CONTENT { StatusCode::OK } else { received.status };
        let host = asked.host.into();
        Ok(Self { status, headers, host, owner, selecting, times: received.times, directives, freshness, extent })
    }

    /// The same answer after another one has updated it (RFC 9111 §3.2): 304, the rest of its body, or one to a HEAD. What is
    /// said now counts, also where it says less than before, so that it may be one that is
    /// [given once](Stored::is_given_once) and not found again. None where its head would become too large.
    pub(super) fn renewed(
        &self,
        policy: &CachePolicy,
        asked: &Asked<'_>,
        received: Received<'_>,
        extent: Extent,
    ) -> Option<Self> {
        let mut headers = updated(&self.headers, received.headers)?;
        // When it was made, and how old it was, is told by the update alone: what the one before said was long ago.
        for name in [DATE, AGE] {
            headers.remove(&name);
            for line in received.headers.get_all(&name) {
                headers.append(&name, line.clone());
            }
        }
        if !policy.store_set_cookie {
            headers.remove(SET_COOKIE);
        }
        let directives = ResponseDirectives::read(&headers, &policy.targeted);
        let freshness = freshness(policy, asked, Received { status: self.status, ..received }, &headers, &directives);
        let selecting = chosen_by(freshness, &headers, asked);
        // One that does not say that it is for all is for whoever asked, whose fields it may have now.
        let is_for_one = is_about_all(&directives.private) || selecting.is_by_credential();
        let owner = self.owner.or(asked.owner.filter(|_| is_for_one || !may_be_shared(asked, &directives)));
        // A part that becomes a whole has a length from now on.
        let status = if matches!(self.extent, Extent::Part(_)) { StatusCode::PARTIAL_CONTENT } else { self.status };
        let merged = Received { status, headers: &headers, times: received.times };
        let headers = kept(merged, &directives, owner, extent);
        let (status, host, times) = (self.status, self.host.clone(), received.times);
        Some(Self { status, headers, host, owner, selecting, times, directives, freshness, extent })
    }
}

/// What the method, the status and the directives say; RFC 9111 §3, but for the last point.
fn may_be_stored(asked: &Asked<'_>, received: Received<'_>, directives: &ResponseDirectives) -> Result<(), NotStored> {
    let is_for_get = match *asked.method {
        Method::GET => true,
        Method::POST => is_what_a_get_would_get(asked, received),
        _ => false,
    };
    if !is_for_get {
        return Err(NotStored::Method);
    }
    if asked.directives.no_store {
        return Err(NotStored::RequestNoStore);
    }
    is_not_forbidden(received.status, received.headers, directives)
}

/// What an answer says of itself, whoever has asked.
pub(super) fn is_not_forbidden(
    status: StatusCode,
    headers: &HeaderMap,
    directives: &ResponseDirectives,
) -> Result<(), NotStored> {
    let is_understood = !directives.must_understand || is_understood(status);
    if is_never_stored(status, headers) || !is_understood {
        return Err(NotStored::Status);
    }
    // Who knows what the status asks of a cache need not heed what is there for those who do not (RFC 9111 §5.2.2.3).
    if directives.no_store && !directives.must_understand {
        return Err(NotStored::NoStore);
    }
    Ok(())
}

/// Whether the answer to a POST says that it is what a GET of the same target would get (RFC 9110 §9.3.3).
fn is_what_a_get_would_get(asked: &Asked<'_>, received: Received<'_>) -> bool {
    let mut lines = received.headers.get_all(CONTENT_LOCATION).iter();
    let (Some(location), None) = (lines.next(), lines.next()) else { return false };
    received.status == StatusCode::OK && is_own_target(asked, location.as_bytes())
}

/// Whether a location is the request's own, as a path or a URL; in other words it is not looked for.
fn is_own_target(asked: &Asked<'_>, location: &[u8]) -> bool {
    let scheme = ["http://", "https://"]
        .into_iter()
        .find(|scheme| location.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme.as_bytes())));
    let Some(scheme) = scheme else { return location == asked.target.as_bytes() };
    let rest = &location[scheme.len()..];
    let (host, target) = rest.split_at(rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len()));
    host.eq_ignore_ascii_case(asked.host) && target == asked.target.as_bytes()
}

/// Statuses that say of this one request, credential or moment what is not true of the next, so that they are not stored
/// even where the answer would allow it.
///
/// 428, 429, 431 and 511 must not be (RFC 6585), 304 is none of its own. 401 and 407 ask for a secret, and whoever brings one
/// may be given what was stored for those without; 412 and 416 are about conditions and ranges, which nothing distinguishes
/// in store. A 503 with `Retry-After` says itself when it will not be true any more.
fn is_never_stored(status: StatusCode, headers: &HeaderMap) -> bool {
    match status.as_u16() {
        100..=199 | 304 | 401 | 407 | 412 | 416 | 428 | 429 | 431 | 511 => true,
        503 => headers.contains_key(RETRY_AFTER),
        _ => false,
    }
}

/// Whether it is known what a status asks of a cache: those of RFC 9110 §15.
fn is_understood(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200..=206 | 300..=303 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 500..=505)
}

/// Whose an answer is alone. One that was chosen by a credential is for who has that, whatever else it says.
fn owner(
    asked: &Asked<'_>,
    directives: &ResponseDirectives,
    selecting: &Selecting,
) -> Result<Option<Owner>, NotStored> {
    let is_private = is_about_all(&directives.private);
    let is_for_one = is_private || selecting.is_by_credential();
    match asked.owner {
        None if is_private => Err(NotStored::Private),
        Some(_) if !is_for_one && may_be_shared(asked, directives) => Ok(None),
        owner => Ok(owner),
    }
}

/// Whether an answer to a request with a secret says that it may be given to others all the same (RFC 9111 §3.5).
///
/// `must-revalidate` says so where the secret is an `Authorization`; of cookies and keys of any other kind the RFC does not
/// speak.
fn may_be_shared(asked: &Asked<'_>, directives: &ResponseDirectives) -> bool {
    let is_authorization = || asked.marks.has(Marks::AUTHORIZATION) && !asked.marks.has(Marks::OTHER_CREDENTIAL);
    is_for_every_owner(directives) || directives.must_revalidate && is_authorization()
}

/// Whether an answer says that it is for everybody, whatever secret it was asked for with.
pub(super) fn is_for_every_owner(directives: &ResponseDirectives) -> bool {
    directives.public || directives.s_maxage.is_some()
}

/// Whether an answer says that it is for everybody, with or without a secret.
pub(super) fn is_for_all(directives: &ResponseDirectives) -> bool {
    is_for_every_owner(directives) || directives.must_revalidate
}

/// How much of its body comes. A part must be one that was asked for: else it would be taken for one that was not.
fn extent(asked: &Asked<'_>, received: Received<'_>) -> Result<Extent, NotStored> {
    match received.status {
        StatusCode::PARTIAL_CONTENT if !asked.marks.has(Marks::RANGE) => Err(NotStored::Part),
        StatusCode::PARTIAL_CONTENT => part_of_answer(received.headers).map(held).ok_or(NotStored::Part),
        StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT => Ok(Extent::Whole(Some(0))),
        _ => Ok(Extent::Whole(content_length(received.headers))),
    }
}

/// A part that leaves nothing out is the whole.
pub(super) fn held(part: Part) -> Extent {
    match part.complete {
        Some(length) if part.span.first == 0 && part.span.last.saturating_add(1) == length => {
            Extent::Whole(Some(length))
        }
        _ => Extent::Part(part),
    }
}

pub(super) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// By what an answer was chosen. Who does not say how long it lasts does not say by what it was chosen either, most often: of
/// what is stored only because the settings say so, the form and the language count in any case.
fn chosen_by(freshness: Freshness, headers: &HeaderMap, asked: &Asked<'_>) -> Selecting {
    let also: &[_] = if freshness.source == Source::Default { &UNSAID } else { &[] };
    Selecting::also_of(also, headers, asked.headers)
}

/// The form and the language.
const UNSAID: [HeaderName; 2] = [ACCEPT, ACCEPT_LANGUAGE];

/// Whether it is known what was there in these fields, if that counts.
pub(super) fn is_chosen_by_what_is_unsaid(freshness: Freshness, selecting: &Selecting) -> bool {
    let is_known = |unsaid: &HeaderName| selecting.fields.iter().any(|(name, _)| name == unsaid);
    freshness.source != Source::Default || UNSAID.iter().all(is_known)
}

/// How long it may be used; `headers` are those of `received`, or what an update made of them.
fn freshness(
    policy: &CachePolicy,
    asked: &Asked<'_>,
    received: Received<'_>,
    headers: &HeaderMap,
    directives: &ResponseDirectives,
) -> Freshness {
    Freshness::of(received.status, headers, directives, received.times, default_ttl(policy, asked))
}

fn default_ttl(policy: &CachePolicy, asked: &Asked<'_>) -> Option<Duration> {
    match asked.rule {
        Some(PathTreatment::DefaultTtl(ttl)) => Some(ttl),
        _ => policy.default_ttl,
    }
}

/// Whether an answer has no field that says how long it may be used, or by which it could be asked about: so are most of an
/// API that does not think of caches, and one look at each name tells.
fn says_nothing(policy: &CachePolicy, headers: &HeaderMap) -> bool {
    let says_something = |name: &HeaderName| {
        matches!(*name, CACHE_CONTROL | EXPIRES | ETAG | LAST_MODIFIED) || policy.targeted.contains(name)
    };
    !headers.keys().any(says_something)
}

/// Whether an answer can ever be used: unasked, or after it was asked about. And whether it may be, which is the last point
/// of RFC 9111 §3.
fn is_useful(
    asked: &Asked<'_>,
    received: Received<'_>,
    directives: &ResponseDirectives,
    freshness: Freshness,
) -> Result<(), NotStored> {
    let is_explicit = [Source::Directive, Source::Expires].contains(&freshness.source);
    let is_allowed = match *asked.method {
        Method::POST => is_explicit,
        _ => {
            let is_private = is_about_all(&directives.private);
            freshness.source != Source::None || directives.public || is_private || is_guessable(received.status)
        }
    };
    let has_validator = [ETAG, LAST_MODIFIED].iter().any(|name| received.headers.contains_key(name));
    let is_usable_stale = directives.stale_while_revalidate.or(directives.stale_if_error).is_some();
    let is_usable_unasked = !asks_each_time(directives) && (!freshness.lifetime.is_zero() || is_usable_stale);
    if is_allowed && (has_validator || is_usable_unasked) { Ok(()) } else { Err(NotStored::NoLifetime) }
}

/// The fields that are stored of `received`, which may have been a part, in the order in which they came, with all their lines.
fn kept(received: Received<'_>, directives: &ResponseDirectives, owner: Option<Owner>, extent: Extent) -> HeaderMap {
    let is_of_part = received.status == StatusCode::PARTIAL_CONTENT;
    let is_of_the_part = |name: &HeaderName| is_of_part && [CONTENT_RANGE, CONTENT_LENGTH].contains(name);
    let is_kept = |name: &HeaderName| !is_of_the_part(name) && !is_left_out(name, directives, owner);
    let mut fields = HeaderMap::with_capacity(received.headers.len() + 2);
    for (name, line) in received.headers.iter().filter(|(name, _)| is_kept(name)) {
        fields.append(name, line.clone());
    }
    if let Some(date) = date(received.times.received).filter(|_| !fields.contains_key(DATE)) {
        fields.insert(DATE, date);
    }
    // The length of the whole takes the place of that of the part, or of none.
    if let (Extent::Whole(Some(length)), true) = (extent, is_of_part) {
        fields.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    fields
}

/// Whether a field is not stored with the others.
pub(super) fn is_left_out(name: &HeaderName, directives: &ResponseDirectives, owner: Option<Owner>) -> bool {
    let is_named = |scope: &Scope| match scope {
        Scope::Fields(names) if !is_about_all(scope) => names.contains(name),
        _ => false,
    };
    // Whoever has a store alone may keep what others may not be given.
    *name == AGE || is_named(&directives.no_cache) || owner.is_none() && is_named(&directives.private)
}

/// As `Date` has it, which a recipient with a clock adds where it is missing (RFC 9110 §6.6.1).
fn date(time: SystemTime) -> Option<HeaderValue> {
    let time = Timestamp::from_second(unix_seconds(time)).ok()?;
    let text = DateTimePrinter::new().timestamp_to_rfc9110_string(&time).ok()?;
    HeaderValue::try_from(text).ok()
}

#[cfg(test)]
mod tests;
