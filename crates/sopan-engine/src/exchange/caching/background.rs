//! Asking the upstream about what is stored while the client has its answer already (RFC 5861 §3).

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use http::Request;
use http::header::{CACHE_CONTROL, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, PRAGMA, RANGE};
use http_body::Body as _;
use sopan_core::cache::conditional::Conditions;
use sopan_core::cache::directives::RequestDirectives;
use sopan_core::cache::status::Forward;
use sopan_core::cache::{Ask, Marks, Send};

use super::Caching;
use crate::body::Source;
use crate::coalesce::Joined;
use crate::exchange::{Exchange, Inbound};
use crate::store::Entry;
use crate::upstream::Upstream;

/// As many requests are under way in the background at most; beyond that what is stale stays so until a client has to wait.
pub(crate) const BACKGROUND_MAX: usize = 64;

impl Exchange<'_> {
    /// Asks in the background about one of the stored answers that this request is answered with, unless somebody does so
    /// already. It takes a turn like any request, on behalf of this client.
    pub(super) fn ask_in_background(
        &self,
        mut caching: Box<Caching>,
        entry: &Arc<Entry>,
        index: usize,
        conditions: Conditions,
    ) {
        let Some(cache) = &self.upstream.cache else { return };
        let sent = Send {
            forward: Forward::Stale,
            ask: Some(Box::new(Ask { index, conditions, missing: None })),
            fallback: None,
            is_sharable: true,
            may_store: true,
        };
        let Ok(place) = Arc::clone(&cache.background).try_acquire_owned() else { return };
        let joined = self
            .with_asked(&caching, |asked| cache.flights.join(caching.key.clone(), asked, caching.told_apart(), &sent));
        let Joined::Lead(leader) = joined else { return };
        let mut request = Request::new(Source::Empty);
        *request.method_mut() = http::Method::GET;
        *request.uri_mut() = self.head.uri().clone();
        *request.version_mut() = self.head.version();
        *request.headers_mut() = self.head.headers().clone();
        // What the client asks of caches, and says that it has, is its own affair.
        for name in [IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_RANGE, RANGE, CACHE_CONTROL, PRAGMA] {
            request.headers_mut().remove(name);
        }
        caching.marks = Marks::of(request.headers());
        caching.directives = RequestDirectives::default();
        caching.entry = Some(Arc::clone(entry));
        caching.sent = Some(sent);
        caching.leader = Some(leader);
        let hop = self.hop().cloned();
        let inbound = Inbound { request, client: self.client, weight: self.weight, interims: None, hop };
        let upstream = Arc::clone(self.upstream);
        tokio::spawn(async move {
            ask(&upstream, inbound, caching).await;
            drop(place);
        });
    }
}

/// Sends it and reads the answer to its end, for the store alone.
async fn ask(upstream: &Arc<Upstream>, inbound: Inbound, caching: Box<Caching>) {
    let mut exchange = Exchange::new(upstream, inbound, None);
    exchange.caching = Some(caching);
    exchange.story.is_of_nobody();
    if Box::pin(exchange.is_done_in_common()).await {
        if let Some(leader) = exchange.caching.as_mut().and_then(|caching| caching.leader.take()) {
            leader.stored();
        }
        return;
    }
    let mut body = Box::pin(exchange.run()).await.response.into_body();
    while let Some(Ok(_)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {}
}
