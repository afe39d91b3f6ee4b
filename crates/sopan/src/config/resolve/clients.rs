//! Whether clients fit each other and the upstreams that are there.

use std::collections::HashMap;
use std::time::SystemTime;

use sopan_core::access::{Access, KeyDigest};
use sopan_core::policy::LIMITS_MAX;

use super::super::file::nearest;
use super::super::layer::Item;
use super::super::problem::{Place, Problem};
use super::super::route::Route;
use super::super::serve::Client;
use super::Resolved;

/// While one takes the place of the other there are two.
const KEYS_MAX: usize = 2;

/// Keys that clients have, each with where it stands.
#[derive(Debug, Default)]
pub(crate) struct Taken(HashMap<KeyDigest, Place>);

impl Resolved {
    /// What all of it comes to, for a client of this name. `upstreams` are the names of those that are there; `now` tells what
    /// is over already.
    pub(crate) fn caller(
        &self,
        name: &str,
        upstreams: &[&str],
        taken: &mut Taken,
        now: SystemTime,
        problems: &mut Vec<Problem>,
    ) -> Client {
        let draft = self.drafts().client;
        self.keys(&draft.keys, taken, problems);
        if draft.limits.len() > LIMITS_MAX {
            let why = format!("there are {} of them, and a client has {LIMITS_MAX} at most", draft.limits.len());
            problems.push(Problem::error(self.place_of("limits", LIMITS_MAX), self.title_of("limits"), why));
        }
        let numbers = draft.upstreams.as_ref().map(|named| self.numbers(named, upstreams, problems));
        if draft.expires.is_some_and(|end| end <= now) {
            let why = "that is over, and the keys of this client are good for nothing; write another, or take the client away";
            problems.push(Problem::warning(self.place_of("expires", 0), self.title_of("expires"), why));
        }
        let access = Access { upstreams: numbers, methods: draft.methods, paths: draft.paths, expires: draft.expires };
        Client { name: name.to_owned(), keys: draft.keys, weight: draft.weight, limits: draft.limits, access }
    }

    /// Paths that lead to nothing which the client may ask, such as those of the API without the route to it. `routes` are
    /// those of all upstreams.
    pub(crate) fn paths(&self, access: &Access, routes: &[&Route], problems: &mut Vec<Problem>) {
        let is_open = |number: usize| access.upstreams.as_ref().is_none_or(|open| open.contains(&number));
        let open: Vec<_> =
            routes.iter().enumerate().filter(|(number, _)| is_open(*number)).map(|(_, route)| route.mount()).collect();
        let leads_there = |path: &str| open.iter().any(|mount| is_below(path, mount) || is_below(mount, path));
        for (at, _) in access.paths.iter().flatten().enumerate().filter(|(_, path)| !leads_there(path)) {
            let why = "no API that this client may ask takes requests for it; write it as the client sends it, with the route in \
                       front";
            problems.push(Problem::warning(self.place_of("paths", at), self.title_of("paths"), why));
        }
    }

    /// Each key is somebody's alone.
    fn keys(&self, keys: &[KeyDigest], taken: &mut Taken, problems: &mut Vec<Problem>) {
        let key = "key_sha256";
        if keys.len() > KEYS_MAX {
            let why = format!(
                "there are {} of them, and a client has {KEYS_MAX} at most, while one takes the place of the other; take the \
                 oldest away",
                keys.len()
            );
            problems.push(Problem::error(self.place_of(key, KEYS_MAX), self.title_of(key), why));
        }
        for (at, digest) in keys.iter().enumerate() {
            let place = self.place_of(key, at);
            if let Some(other) = taken.0.insert(*digest, place.clone()) {
                let why = "the same key is there twice, and nobody could tell whose it is; make another with `sopan keys new`";
                problems.push(Problem::error(place, self.title_of(key), why).also(&other, "the other one"));
            }
        }
    }

    /// The numbers of upstreams by their names.
    fn numbers(&self, named: &[String], upstreams: &[&str], problems: &mut Vec<Problem>) -> Vec<usize> {
        let mut numbers = Vec::new();
        for (at, name) in named.iter().enumerate() {
            if let Some(number) = upstreams.iter().position(|known| known == name) {
                numbers.push(number);
                continue;
            }
            let help = match nearest(name, upstreams) {
                Some(near) => format!("did you mean `{near}`?"),
                None if upstreams.len() <= NAMED_MAX => format!("there are {}", upstreams.join(", ")),
                None => "write the name of one below upstreams".to_owned(),
            };
            let why = match self.item_of("upstreams", at).filter(|item| item.written.is_some()) {
                Some(item) => format!("what `{}` stands for is no upstream of this file; {help}", item.shown()),
                None => format!("there is no upstream `{name}` in this file; {help}"),
            };
            problems.push(Problem::error(self.place_of("upstreams", at), self.title_of("upstreams"), why));
        }
        numbers
    }

    fn item_of(&self, key: &str, at: usize) -> Option<&Item> {
        let value = self.values.iter().map(|(_, value)| value).find(|value| value.setting.key == key)?;
        value.items.get(at)
    }

    fn place_of(&self, key: &str, at: usize) -> Place {
        self.item_of(key, at).map_or(Place::Default, |item| item.place.clone())
    }

    fn title_of(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }
}

/// Whether a path is that one or below it, by whole segments.
fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// So many upstreams are named to who has mistyped one.
const NAMED_MAX: usize = 10;
