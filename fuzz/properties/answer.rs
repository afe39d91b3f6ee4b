//! An answer in store, made of what an input says.

use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use sopan_core::cache::directives::ResponseDirectives;
use sopan_core::cache::freshness::Freshness;
use sopan_core::cache::vary::Selecting;
use sopan_core::cache::{Extent, Owner, Stored, Times};
use sopan_core::policy::CachePolicy;

/// One with these fields, for one client alone, as these settings read it.
pub(crate) fn stored(headers: HeaderMap, policy: &CachePolicy) -> Stored {
    let at = |millis| UNIX_EPOCH + Duration::from_millis(millis);
    let times = Times { requested: at(1_792_584_000_123), received: at(1_792_584_000_456) };
    let directives = ResponseDirectives::read(&headers, &policy.targeted);
    let status = StatusCode::OK;
    let freshness = Freshness::of(status, &headers, &directives, times, policy.default_ttl);
    let selecting = Selecting::of(&headers, &HeaderMap::new());
    let extent = Extent::Whole(Some(headers.len() as u64));
    let host = b"api.test"[..].into();
    let owner = Some(Owner([7; 16]));
    Stored { status, headers, host, owner, selecting, times, directives, freshness, extent }
}

/// The fields of a head without its first line; lines that are none are left out.
pub(crate) fn fields(head: &[u8]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for line in head.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (HeaderName::from_bytes(&line[..colon]), &line[colon + 1..]);
        let value = HeaderValue::from_bytes(value.strip_prefix(b" ").unwrap_or(value));
        if let (Ok(name), Ok(value)) = (name, value) {
            fields.append(name, value);
        }
    }
    fields
}
