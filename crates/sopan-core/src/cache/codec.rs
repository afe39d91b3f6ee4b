//! How is an answer in store written, so that it outlives the process?
//!
//! [`Stored::encode`] writes what was received and for whom: lengths before bytes, numbers with the lowest byte first. What
//! follows from that by the settings, its directives and its lifetime, [`Stored::decode`] reads anew, since they may have
//! changed. What was decided by them and cannot be decided anew without the request, for whom it is and by what it was chosen,
//! has to be as it would be now, or nothing is read. Its body, and a sum over both, are the store's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::directives::ResponseDirectives;
use super::freshness::Freshness;
use super::keep::{is_chosen_by_what_is_unsaid, is_for_every_owner, is_left_out};
use super::range::{Part, Span};
use super::vary::Selecting;
use super::{Extent, Owner, Stored, Times};
use crate::policy::{CachePolicy, PathTreatment};

/// What is written in another way is not read.
const VERSION: u8 = 2;

/// Which of the parts that may be missing are there.
mod flag {
    pub(super) const OWNER: u8 = 1;
    pub(super) const BEYOND_FIELDS: u8 = 2;
    /// Its directives let everybody have it.
    pub(super) const FOR_ALL: u8 = 4;
    pub(super) const PART: u8 = 8;
    /// The length of the whole body is known.
    pub(super) const LENGTH: u8 = 16;
    /// Its directives let everybody have it, if who asked was known by an `Authorization`.
    pub(super) const FOR_AUTHORIZED: u8 = 32;
    pub(super) const ALL: u8 = OWNER | BEYOND_FIELDS | FOR_ALL | PART | LENGTH | FOR_AUTHORIZED;
}

impl Stored {
    /// All that [`Stored::decode`] needs. Times are kept to the millisecond.
    pub fn encode(&self) -> Vec<u8> {
        let (part, length) = match self.extent {
            Extent::Whole(length) => (None, length),
            Extent::Part(part) => (Some(part.span), part.complete),
        };
        let mut writer = Writer::default();
        let flags = [
            (flag::OWNER, self.owner.is_some()),
            (flag::BEYOND_FIELDS, self.selecting.is_beyond_fields),
            (flag::FOR_ALL, is_for_every_owner(&self.directives)),
            (flag::FOR_AUTHORIZED, self.directives.must_revalidate),
            (flag::PART, part.is_some()),
            (flag::LENGTH, length.is_some()),
        ];
        writer.byte(flags.iter().filter(|(_, is_set)| *is_set).fold(0, |all, (flag, _)| all | flag));
        writer.bytes(&self.status.as_u16().to_le_bytes());
        writer.time(self.times.requested);
        writer.time(self.times.received);
        writer.number(millis(self.freshness.initial_age));
        self.owner.iter().for_each(|owner| writer.bytes(&owner.0));
        let ends = part.map(|span| [span.first, span.last]);
        ends.into_iter().flatten().chain(length).for_each(|number| writer.number(number));
        writer.text(&self.host);
        writer.count(self.headers.len());
        for (name, value) in &self.headers {
            writer.text(name.as_str().as_bytes());
            writer.text(value.as_bytes());
        }
        writer.count(self.selecting.fields.len());
        for (name, value) in &self.selecting.fields {
            writer.text(name.as_str().as_bytes());
            writer.byte(u8::from(value.is_some()));
            value.iter().for_each(|value| writer.text(value));
        }
        writer.end()
    }

    /// What was written, as it is to be used by these settings. None if it is nothing that [`Stored::encode`] has written, or
    /// would not have been stored with these settings.
    pub fn decode(bytes: &[u8], policy: &CachePolicy, rule: Option<PathTreatment>) -> Option<Self> {
        let mut reader = Reader::new(bytes)?;
        let flags = reader.byte().filter(|flags| flags & !flag::ALL == 0)?;
        let has = |flag| flags & flag != 0;
        let status = StatusCode::from_u16(reader.u16()?).ok().filter(|status| !status.is_informational())?;
        let times = Times { requested: reader.time()?, received: reader.time()? };
        let initial_age = Duration::from_millis(reader.number()?);
        let owner = if has(flag::OWNER) { Some(Owner(reader.array()?)) } else { None };
        let extent = reader.extent(has(flag::PART), has(flag::LENGTH))?;
        let host = reader.text()?.into();
        let headers = reader.headers()?;
        let selecting = reader.selecting(has(flag::BEYOND_FIELDS))?;
        reader.is_at_end().then_some(())?;
        let directives = ResponseDirectives::read(&headers, &policy.targeted);
        let default_ttl = match rule {
            Some(PathTreatment::DefaultTtl(ttl)) => Some(ttl),
            _ => policy.default_ttl,
        };
        // The upstream's own `Age` is not among the fields any more.
        let freshness = Freshness { initial_age, ..Freshness::of(status, &headers, &directives, times, default_ttl) };
        let stored = Self { status, headers, host, owner, selecting, times, directives, freshness, extent };
        let is_as_it_was = stored.is_for_whom_it_was(has(flag::FOR_ALL), has(flag::FOR_AUTHORIZED));
        (is_as_it_was && stored.is_allowed(policy)).then_some(stored)
    }

    /// Whether it might be stored with these settings, and so.
    fn is_allowed(&self, policy: &CachePolicy) -> bool {
        let has_what_is_left_out = || self.headers.keys().any(|name| is_left_out(name, &self.directives, self.owner));
        !self.is_given_once()
            && (policy.store_set_cookie || !self.headers.contains_key(SET_COOKIE))
            && is_chosen_by_what_is_unsaid(self.freshness, &self.selecting)
            && !has_what_is_left_out()
    }

    /// Whether it is for everybody by what counts now as well, if it is: it may have been asked for with a credential, and what
    /// let it be shared may have stood in a field that speaks to this cache no more.
    fn is_for_whom_it_was(&self, was_for_all: bool, was_for_authorized: bool) -> bool {
        let is_for_all = is_for_every_owner(&self.directives);
        let is_for_authorized = is_for_all || self.directives.must_revalidate;
        self.owner.is_some() || (!was_for_all || is_for_all) && (!was_for_authorized || is_for_authorized)
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Writes a record: its version, the length of what follows, and that.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    /// A count that nobody has room for makes a record that is not read.
    fn count(&mut self, count: usize) {
        self.bytes(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
    }

    fn text(&mut self, text: &[u8]) {
        self.count(text.len());
        self.bytes(text);
    }

    /// Milliseconds since the Unix epoch, rounded down.
    fn time(&mut self, time: SystemTime) {
        let since = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
            Err(before) => {
                let whole = before.duration().as_nanos().div_ceil(1_000_000);
                i64::try_from(whole).map_or(i64::MIN, |millis| -millis)
            }
        };
        self.bytes(&since.to_le_bytes());
    }

    fn end(self) -> Vec<u8> {
        let mut record = Self(Vec::with_capacity(self.0.len() + 5));
        record.byte(VERSION);
        record.text(&self.0);
        record.0
    }
}

/// What of a record has not been read yet. Each method takes its part off the front, or nothing, and sets no room apart
/// before the bytes for it are there.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn new(record: &'a [u8]) -> Option<Self> {
        let mut reader = Self(record);
        reader.byte().filter(|version| *version == VERSION)?;
        let rest = reader.text()?;
        reader.is_at_end().then_some(Self(rest))
    }

    fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn count(&mut self) -> Option<usize> {
        self.array().and_then(|count| usize::try_from(u32::from_le_bytes(count)).ok())
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.count()?;
        self.take(length)
    }

    fn time(&mut self) -> Option<SystemTime> {
        let millis = i64::from_le_bytes(self.array()?);
        let span = Duration::from_millis(millis.unsigned_abs());
        if millis < 0 { UNIX_EPOCH.checked_sub(span) } else { UNIX_EPOCH.checked_add(span) }
    }

    fn extent(&mut self, is_part: bool, is_length_known: bool) -> Option<Extent> {
        let span = if is_part { Some(Span { first: self.number()?, last: self.number()? }) } else { None };
        let length = if is_length_known { Some(self.number()?) } else { None };
        let Some(span) = span else { return Some(Extent::Whole(length)) };
        let is_within = length.is_none_or(|length| span.last < length);
        (span.first <= span.last && is_within).then_some(Extent::Part(Part { span, complete: length }))
    }

    fn name(&mut self) -> Option<HeaderName> {
        let text = self.text()?;
        HeaderName::from_bytes(text).ok().filter(|name| name.as_str().as_bytes() == text)
    }

    fn headers(&mut self) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        for _ in 0..self.count()? {
            let (name, value) = (self.name()?, HeaderValue::from_bytes(self.text()?).ok()?);
            headers.try_append(name, value).ok()?;
        }
        Some(headers)
    }

    fn selecting(&mut self, is_beyond_fields: bool) -> Option<Selecting> {
        let count = self.count()?;
        let field = |_| {
            let name = self.name()?;
            let value = match self.byte()? {
                0 => None,
                1 => Some(self.text()?.into()),
                _ => return None,
            };
            Some((name, value))
        };
        let fields = (0..count).map(field).collect::<Option<_>>()?;
        Some(Selecting { is_beyond_fields, fields })
    }
}

#[cfg(test)]
mod tests;
