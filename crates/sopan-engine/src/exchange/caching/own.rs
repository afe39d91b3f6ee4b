//! The head as the client sent it, and as the upstream gets it.
//!
//! Both are needed, one after the other: the second to be sent, the first to be held against what is answered. A hundred
//! thousand requests may wait, so there is one head, and beside it only what the client had in the fields that differ.

use http::header::{HOST, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, RANGE, VIA};
use sopan_core::headers::tells_who_asked;

use crate::exchange::Exchange;

/// The lines that a client has sent of the fields that are changed on the way, but for a `Host` that is the name by which it
/// knows sopan: most requests have no other.
pub(super) struct Own(Box<[(HeaderName, HeaderValue)]>);

impl Exchange<'_> {
    /// Makes the head what the upstream gets: for its own host, told through whose hands the request went, and asked about what
    /// is stored.
    pub(in crate::exchange) fn dress(&mut self) {
        let headers = self.head.headers_mut();
        let asks = self.caching.as_ref().is_some_and(|caching| caching.ask().is_some());
        let mut lines = Vec::new();
        if self.caching.is_some() {
            let changed = headers.iter().filter(|(name, _)| is_changed(name, asks));
            lines.extend(changed.map(|(name, line)| (name.clone(), line.clone())));
        }
        let host = headers.insert(HOST, self.upstream.target().authority().clone());
        let base = self.crossing.as_deref().and_then(|crossing| crossing.base());
        if let Some(caching) = &mut self.caching {
            lines.extend(host.filter(|host| Some(host) != base).map(|host| (HOST, host)));
            caching.own = Some(Own(lines.into()));
        }
        self.sign();
        self.ask_about_stored();
    }

    /// Makes it what the client sent again. The next attempt, if there is one, has to [`dress`](Self::dress) it once more.
    pub(super) fn undress(&mut self) {
        let Some(caching) = &mut self.caching else { return };
        let Some(Own(lines)) = caching.own.take() else { return };
        let asks = caching.ask().is_some();
        let headers = self.head.headers_mut();
        while let Some(name) = headers.keys().find(|name| is_changed(name, asks)).cloned() {
            headers.remove(name);
        }
        match self.crossing.as_deref().and_then(|crossing| crossing.base()) {
            Some(base) => drop(headers.insert(HOST, base.clone())),
            None => drop(headers.remove(HOST)),
        }
        for (name, line) in lines {
            // Of which there is one, and it is there; of the others there is none.
            if name == HOST {
                headers.insert(name, line);
            } else {
                headers.append(name, line);
            }
        }
    }
}

/// Whether a field is changed on the way, beside `Host`: conditions, where something else is asked.
fn is_changed(name: &HeaderName, asks: bool) -> bool {
    match *name {
        VIA => true,
        IF_NONE_MATCH | IF_MODIFIED_SINCE | IF_RANGE | RANGE => asks,
        ref other => tells_who_asked(other),
    }
}
