//! What an unsafe request makes untrue of what is stored (RFC 9111 §4.4).

use http::header::{CONTENT_LOCATION, LOCATION};
use http::{HeaderMap, HeaderValue, Response};
use sopan_core::cache::invalidate::others;

use super::Caching;
use crate::exchange::Exchange;
use crate::store::Key;

/// By what a client that is not known to know sopan by a name would.
pub(super) static NOBODY: HeaderValue = HeaderValue::from_static("localhost");

impl Exchange<'_> {
    /// Throws away what the answer to an unsafe request has made untrue, also on the disk, before its client learns of it and
    /// asks again.
    pub(super) async fn make_untrue(&self, caching: &mut Caching, answer: &Response<()>) {
        let Some(cache) = &self.upstream.cache else { return };
        // Its own answer may be stored, unless another has made that untrue since it was asked for.
        let is_current = cache.store.is_current(&caching.key, caching.epoch);
        cache.flights.doom(&caching.key);
        cache.store.invalidate(&caching.key).await;
        if is_current {
            caching.epoch = cache.store.epoch();
        }
        // Where the client would look for what has changed.
        let mut links = HeaderMap::new();
        for name in [LOCATION, CONTENT_LOCATION] {
            for value in answer.headers().get_all(&name) {
                links.append(&name, value.clone());
            }
        }
        if links.is_empty() {
            return;
        }
        let base = self.base().unwrap_or(&NOBODY);
        self.upstream.as_clients_see(&mut links, base);
        for target in others(&links, self.target(), base.as_bytes()) {
            let key = Key::new(self.upstream.name(), &target);
            cache.flights.doom(&key);
            cache.store.invalidate(&key).await;
        }
    }
}
