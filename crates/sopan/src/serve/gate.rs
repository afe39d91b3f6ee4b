//! Who gets in, and where does it go?
//!
//! The first decision is the core's ([`Hosts::admit`]), the second the routes'. What does not get in, and what no upstream
//! takes, is answered, counted and logged by [`Nowhere`](sopan_engine::exchange::Nowhere).

use std::net::IpAddr;

use http::header::{HOST, HeaderValue};
use http::request::Parts;
use sopan_core::safety::{Denied, Hosts};
use sopan_engine::exchange::Hop;

/// The hop that a request came over.
pub(super) fn hop(peer: IpAddr, request: &Parts) -> Hop {
    Hop { peer: Some(peer), base: request.headers.get(HOST).cloned(), takes_lines: true }
}

/// Whether it gets in, having come over this hop. `known`: the host of the connection's last request, if that was let in.
pub(super) fn admit(hosts: &Hosts, known: Option<&HeaderValue>, hop: &Hop, request: &Parts) -> Result<(), Denied> {
    let authority = request.uri.authority().map(|authority| authority.as_str());
    if authority.is_none() && known.is_some() && hop.base.as_ref() == known {
        hosts.admit_page(None, &request.headers)
    } else {
        hosts.admit(authority, &request.headers)
    }
}
