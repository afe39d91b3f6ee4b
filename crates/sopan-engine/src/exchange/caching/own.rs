//! The head as the client sent it, and as the upstream gets it.
//!
//! Both are needed, one after the other: the second to be sent, the first to be held against what is answered. A hundred
//! thousand requests may wait, so there is one head, and beside it only what the client had in the fields that differ.

use http::header::{HOST, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, RANGE, VIA};
use sopan_core::headers::tells_who_asked;

use crate::exchange::Exchange;

/// What a client has sent in the fields that are changed on the way.
pub(super) struct Own {
    host: Option<HeaderValue>,
    /// The lines of all others, of which most requests have none.
    others: Vec<(HeaderName, HeaderValue)>,
    /// Whether the conditions are among these fields, since something else is asked.
    asks: bool,
}

impl Exchange<'_> {
    /// Makes the head what the upstream gets: for its own host, told through whose hands the request went, and asked about what
    /// is stored.
    pub(in crate::exchange) fn dress(&mut self) {
        let headers = self.head.headers_mut();
        let asks = self.caching.as_ref().is_some_and(|caching| caching.ask().is_some());
        let mut others = Vec::new();
        if self.caching.is_some() {
            let lines = headers.iter().filter(|(name, _)| is_changed(name, asks));
            others.extend(lines.map(|(name, line)| (name.clone(), line.clone())));
        }
        let host = headers.insert(HOST, self.upstream.target().authority().clone());
        if let Some(caching) = &mut self.caching {
            caching.own = Some(Own { host, others, asks });
        }
        self.sign();
        self.ask_about_stored();
    }

    /// Makes it what the client sent again. The next attempt, if there is one, has to [`dress`](Self::dress) it once more.
    pub(super) fn undress(&mut self) {
        let own = self.caching.as_mut().and_then(|caching| caching.own.take());
        let Some(Own { host, others, asks }) = own else { return };
        let headers = self.head.headers_mut();
        while let Some(name) = headers.keys().find(|name| is_changed(name, asks)).cloned() {
            headers.remove(name);
        }
        match host {
            Some(host) => drop(headers.insert(HOST, host)),
            None => drop(headers.remove(HOST)),
        }
        for (name, line) in others {
            headers.append(name, line);
        }
    }
}

/// Whether a field is changed on the way, beside `Host`.
fn is_changed(name: &HeaderName, asks: bool) -> bool {
    match *name {
        VIA => true,
        IF_NONE_MATCH | IF_MODIFIED_SINCE | IF_RANGE | RANGE => asks,
        ref other => tells_who_asked(other),
    }
}
