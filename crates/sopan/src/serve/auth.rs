//! Whose is a request, where clients have keys?
//!
//! Asked between the gate, which every request goes through, and its route. What is decided, by a key's client, its bounds and
//! the wrong keys of an address, is the core's ([`sopan_core::access`]); here keys are looked up, by a digest with a hash of
//! this process in front of it, so that no time that an answer takes tells of the digests that are there. Whatever comes of it,
//! no key goes on from here: it is taken off the request, or the request is not passed on.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::SystemTime;

use http::Uri;
use http::request::Parts;
use http::uri::PathAndQuery;
use parking_lot::Mutex;
use sopan_core::access::{
    Access, Barred, Guesses, KEY_BYTES_MIN, KEYS_MAX, KeyDigest, KeyFields, holds, pieces, strip, who,
};
use sopan_core::queue::ClientId;
use sopan_core::time::Instant;

use super::client::of_key;
use crate::config;
use crate::keys::digest;

/// The keys of all clients.
#[derive(Debug)]
pub(super) struct Auth {
    fields: KeyFields,
    keys: HashMap<KeyDigest, usize>,
    clients: Vec<Bounds>,
    guesses: Mutex<Guesses>,
}

/// What a client may do, and its share against others.
#[derive(Debug)]
struct Bounds {
    access: Access,
    weight: u32,
}

/// Where and when a request came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Came {
    pub(super) from: IpAddr,
    /// The client whose key was right before on its connection.
    pub(super) after: Option<usize>,
    pub(super) now: Instant,
    pub(super) wall: SystemTime,
}

/// Why a request is not let in, and what follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turned {
    pub(super) why: Barred,
    /// In how many seconds keys from its address are looked at again, if this was the one wrong key too many.
    pub(super) shut_for: Option<u64>,
}

impl From<Barred> for Turned {
    fn from(why: Barred) -> Self {
        Self { why, shut_for: None }
    }
}

impl Auth {
    pub(super) fn new(clients: &config::Clients) -> Self {
        let keys = clients.clients.iter().enumerate();
        let keys = keys.flat_map(|(number, client)| client.keys.iter().map(move |key| (*key, number))).collect();
        let bounds = |client: &config::Client| Bounds { access: client.access.clone(), weight: client.weight };
        Self {
            fields: clients.fields,
            keys,
            clients: clients.clients.iter().map(bounds).collect(),
            guesses: Mutex::default(),
        }
    }

    /// The number of the client whose request it is, which has no key any more then. One that is turned away has none in its
    /// target, so that it can be told of.
    pub(super) fn identify(&self, request: &mut Parts, came: Came) -> Result<usize, Turned> {
        // One more than may be tells that there are too many.
        let texts: Vec<_> = self.fields.texts(&request.headers).take(KEYS_MAX + 1).collect();
        let digests: Vec<_> = texts.iter().map(|text| digest(text)).collect();
        let owners: Vec<_> = texts.iter().zip(&digests).map(|(text, digest)| self.owner(text, digest)).collect();
        let client = match texts.len() {
            ..=KEYS_MAX => self.client(&owners, &digests, came),
            _ => Err(Barred::SeveralKeys.into()),
        };
        let has_known =
            texts.iter().zip(&owners).any(|(text, owner)| owner.is_some() && is_in_target(text, &request.uri))
                || self.has_piece(&request.uri);
        let has_any = has_known || client.is_err() && texts.iter().any(|text| is_in_target(text, &request.uri));
        let known = texts.iter().zip(&owners).filter(|(_, owner)| owner.is_some());
        let known: Vec<_> = known.map(|(text, _)| text.to_vec()).collect();
        strip(&mut request.headers, &known);
        if has_any {
            request.uri = Uri::from_static("*");
        }
        match client {
            Ok(_) if has_known => Err(Barred::KeyInTarget.into()),
            client => client,
        }
    }

    /// Takes the target off a request that is turned away before it is asked whose it is, if a key stands there.
    pub(super) fn hide_key(&self, request: &mut Parts) {
        let mut texts = self.fields.texts(&request.headers).take(KEYS_MAX + 1);
        if texts.any(|text| is_in_target(text, &request.uri)) || self.has_piece(&request.uri) {
            request.uri = Uri::from_static("*");
        }
    }

    /// Whether somebody's key is a part of this target.
    fn has_piece(&self, target: &Uri) -> bool {
        pieces(text_of(target)).any(|piece| self.owner(&piece, &digest(&piece)).is_some())
    }

    /// The client that has a key.
    fn owner(&self, text: &[u8], digest: &KeyDigest) -> Option<usize> {
        self.keys.get(digest).copied().filter(|_| text.len() >= KEY_BYTES_MIN)
    }

    fn client(&self, owners: &[Option<usize>], digests: &[KeyDigest], came: Came) -> Result<usize, Turned> {
        let client = who(owners, self.fields);
        match client {
            // So whoever guesses beside it shuts nobody out who was in.
            Ok(client) if came.after == Some(client) => {}
            Err(Barred::UnknownKey) => {
                let mut guesses = self.guesses.lock();
                if let Some(retry_after) = guesses.shut(came.from, came.now) {
                    return Err(Barred::TooManyGuesses { retry_after }.into());
                }
                let shut_for = guesses.wrong(came.from, digests, came.now);
                return Err(Turned { why: Barred::UnknownKey, shut_for });
            }
            // A right key must not be told from a wrong one where too many were wrong.
            Ok(_) => {
                if let Some(retry_after) = self.guesses.lock().shut(came.from, came.now) {
                    return Err(Barred::TooManyGuesses { retry_after }.into());
                }
            }
            Err(why) => return Err(why.into()),
        }
        let client = client?;
        match self.clients[client].access.has_expired(came.wall) {
            true => Err(Barred::Expired.into()),
            false => Ok(client),
        }
    }

    /// Whether a client may ask this upstream for this.
    pub(super) fn may(&self, client: usize, upstream: usize, request: &Parts) -> Result<(), Barred> {
        let Bounds { access, .. } = &self.clients[client];
        access.may(upstream, &request.method, request.uri.path(), &request.headers).map_err(Barred::NotAllowed)
    }

    /// A client as fairness knows it, and its share.
    pub(super) fn share(&self, client: usize) -> (ClientId, u32) {
        (of_key(client), self.clients[client].weight)
    }
}

/// Whether a text that may be a key stands in this target.
fn is_in_target(text: &[u8], target: &Uri) -> bool {
    text.len() >= KEY_BYTES_MIN && holds(text_of(target).as_bytes(), text)
}

fn text_of(target: &Uri) -> &str {
    target.path_and_query().map_or("", PathAndQuery::as_str)
}
