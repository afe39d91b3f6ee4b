//! What an unsafe request makes untrue of what is stored (RFC 9111 §4.4).

use http::header::{CONTENT_LOCATION, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use sopan_core::cache::invalidate::{invalidates, others};

use super::Caching;
use crate::exchange::Exchange;
use crate::store::Key;

/// By what a client that is not known to know sopan by a name would.
pub(super) static NOBODY: HeaderValue = HeaderValue::from_static("localhost");

impl Exchange<'_> {
    /// Throws away what the answer to an unsafe request has made untrue, also on the disk, before its client learns of it and
    /// asks again.
    pub(super) async fn make_untrue(&self, caching: &mut Caching, status: StatusCode, answer: &HeaderMap) {
        let Some(cache) = self.upstream.cache.as_ref().filter(|_| invalidates(&caching.method, status)) else { return };
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
        for target in others(&links, &caching.target, base.as_bytes()) {
            let key = Key::new(self.upstream.name(), cache.place, &target);
            cache.flights.doom(&key);
            cache.store.invalidate(&key, caching.epoch).await;
        }
    }
}
