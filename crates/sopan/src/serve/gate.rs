//! Who gets in, and what is told of whoever does?
//!
//! The decision is the core's ([`Hosts::admit`]). A request that it denies goes down the same line as all others, to be
//! answered, counted and logged there, and no further than to its beginning.

use std::net::IpAddr;

use http::header::HOST;
use http::request::Parts;
use sopan_core::safety::Hosts;
use sopan_engine::exchange::Hop;

/// What the line is told of the hop that a request came over.
pub(super) fn hop(hosts: &Hosts, peer: IpAddr, request: &Parts) -> Hop {
    let authority = request.uri.authority().map(|authority| authority.as_str());
    let denied = hosts.admit(authority, &request.headers).err();
    Hop { peer: Some(peer), base: request.headers.get(HOST).cloned(), denied }
}
