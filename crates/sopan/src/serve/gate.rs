//! Who gets in, and what is told of whoever does?
//!
//! The decision is the core's ([`Hosts::admit`]). A request that it denies goes down the same line as all others, to be
//! answered, counted and logged there, and no further than to its beginning.

use std::net::IpAddr;

use http::header::{HOST, HeaderValue};
use http::request::Parts;
use sopan_core::safety::Hosts;
use sopan_engine::exchange::Hop;

/// What the line is told of the hop that a request came over. `known`: the host of the connection's last request, if that
/// was let in.
pub(super) fn hop(hosts: &Hosts, peer: IpAddr, known: Option<&HeaderValue>, request: &Parts) -> Hop {
    let authority = request.uri.authority().map(|authority| authority.as_str());
    let base = request.headers.get(HOST);
    let admitted = if authority.is_none() && base.is_some() && base == known {
        hosts.admit_page(None, &request.headers)
    } else {
        hosts.admit(authority, &request.headers)
    };
    Hop { peer: Some(peer), base: base.cloned(), denied: admitted.err() }
}
