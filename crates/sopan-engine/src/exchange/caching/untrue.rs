//! What an unsafe request makes untrue of what is stored (RFC 9111 §4.4).
//!
//! One that was sent, and whose answer was lost or not waited for, may have been acted on. What is asked for again in vain
//! costs a token; what was written and is read as it was before costs more.

use http::header::{CONTENT_LOCATION, LOCATION};
use http::{HeaderMap, HeaderValue};
use sopan_core::cache::invalidate::others;

use super::Caching;
use crate::exchange::Exchange;
use crate::store::Key;

/// By what a client that is not known to know sopan by a name would.
pub(super) static NOBODY: HeaderValue = HeaderValue::from_static("localhost");

impl Exchange<'_> {
    /// Throws away what a request may have made untrue whose answer nobody has seen.
    pub(in crate::exchange) fn make_untrue_in_doubt(&self) {
        if let (Some(cache), Some(caching)) = (&self.upstream.cache, &self.caching)
            && self.may_have_written(caching)
        {
            cache.flights.doom(&caching.key);
            cache.store.invalidate_soon(&caching.key);
        }
    }

    /// Throws away what the answer to an unsafe request has made untrue, also on the disk, before its client learns of it and
    /// asks again.
    pub(super) async fn make_untrue(&self, caching: &mut Caching, answer: &HeaderMap) {
        let Some(cache) = &self.upstream.cache else { return };
        cache.flights.doom(&caching.key);
        caching.epoch = cache.store.invalidate(&caching.key, caching.epoch).await;
        // Where the client would look for what has changed.
        let mut links = HeaderMap::new();
        for name in [LOCATION, CONTENT_LOCATION] {
            for value in answer.get_all(&name) {
                links.append(&name, value.clone());
            }
        }
        if links.is_empty() {
            return;
        }
        let base = self.base().unwrap_or(&NOBODY);
        self.upstream.as_clients_see(&mut links, base);
        for target in others(&links, self.target(), base.as_bytes()) {
            let key = Key::new(self.upstream.name(), cache.place, &target);
            cache.flights.doom(&key);
            cache.store.invalidate(&key, caching.epoch).await;
        }
    }
}
