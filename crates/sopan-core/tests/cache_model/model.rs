//! A cache that forgets nothing and knows no haste: what may a request be answered with (RFC 9111, 5861, 8246, 9213)?
//!
//! It remembers every exchange with the upstream, and of each answer all the *versions* that may come of it: as it came, as
//! it is after a 304 or a HEAD, joined with parts. A request may be answered from store if one of them explains each byte
//! and each field of what the client gets. It is written after the RFCs, with a loop for each sentence.
//!
//! Here is what happens; what `may` be, whether what is `given` is that, and what `should` have been given, stand below.

mod given;
mod may;
mod should;

use http::header::{
    AGE, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_RANGE, DATE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED,
};
use http::{HeaderMap, HeaderName};
use sopan_core::cache::Failure;
use sopan_core::policy::{CachePolicy, PathTreatment};

use crate::fields;
use crate::history::{Moment, date};
use crate::reading::{self, Reading, Says};
use crate::upstream::{Byte, Message, NUMBER, Sent};

/// A request, as its client made it.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) host: String,
    pub(crate) headers: HeaderMap,
    pub(crate) has_body: bool,
    /// The lines of its fields that are secrets.
    pub(crate) secrets: Vec<String>,
    pub(crate) rule: Option<PathTreatment>,
}

/// A request that went to the upstream, and what came back.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) client: Client,
    pub(crate) sent: Sent,
    pub(crate) message: Message,
    pub(crate) requested: Moment,
    pub(crate) received: Moment,
}

/// What a client gets from store.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// The bytes, and where each run of them begins, for 206.
    pub(crate) runs: Vec<(usize, Vec<Byte>)>,
    /// What is said of the length of the whole, for 206 and 416.
    pub(crate) complete: Option<usize>,
    /// For how long it is said to be fresh still, in seconds.
    pub(crate) ttl: i64,
    /// Whether it is said to be stale.
    pub(crate) is_called_stale: bool,
    /// Whether the upstream is asked about it in the background.
    pub(crate) is_asked_about: bool,
}

/// An answer in store, by the exchange that it came with and the one that had the last word on it.
pub(crate) type Place = (usize, usize);

/// Why a client gets an answer from store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cause {
    /// It is good enough.
    Itself,
    Failed(Failure),
    Answered(u16),
}

/// What may be in store.
#[derive(Clone, Debug)]
struct Version {
    /// The exchange that had the last word on it.
    number: usize,
    /// That which it came with.
    origin: usize,
    /// Those whose requests it was chosen for.
    chosen_for: Vec<usize>,
    status: u16,
    headers: HeaderMap,
    age: i64,
    requested: Moment,
    received: Moment,
    first: usize,
    body: Vec<Byte>,
    complete: Option<usize>,
    /// The fields that need not have been stored, so that they may be lacking from now on.
    unkept: Vec<String>,
    /// It is no longer, or was never, to be stored: good for the exchange that brought it, if at all.
    is_fleeting: bool,
    is_gone: bool,
}

impl Version {
    fn is_whole(&self) -> bool {
        self.first == 0 && self.complete == Some(self.body.len())
    }

    fn last(&self) -> usize {
        self.first + self.body.len()
    }

    fn place(&self) -> Place {
        (self.origin, self.number)
    }

    /// What its `Date` says.
    fn made(&self) -> Option<i64> {
        fields::text(&self.headers, &DATE).and_then(|text| fields::date(&text))
    }

    fn describe(&self) -> String {
        format!("exchange {} as of {}", self.origin, self.number)
    }
}

pub(crate) struct Model {
    policy: CachePolicy,
    past: Vec<Exchange>,
    versions: Vec<Version>,
    /// The first exchange of the step that runs.
    current: usize,
}

type Verdict = Result<(), String>;

fn require(is_so: bool, else_: &str) -> Verdict {
    if is_so { Ok(()) } else { Err(else_.to_owned()) }
}

impl Model {
    pub(crate) fn new(policy: &CachePolicy) -> Self {
        Self { policy: policy.clone(), past: Vec::new(), versions: Vec::new(), current: 0 }
    }

    pub(crate) fn begin_step(&mut self) {
        self.current = self.past.len();
    }

    /// An answer has come.
    pub(crate) fn saw(&mut self, exchange: Exchange) {
        let number = self.past.len();
        assert_eq!(exchange.message.headers[NUMBER], number.to_string().as_str(), "answers are numbered in order");
        let Exchange { client, message, .. } = &exchange.clone();
        self.past.push(exchange);
        let is_safe = ["GET", "HEAD", "OPTIONS", "TRACE"].contains(&client.method.as_str());
        if !is_safe && (200..400).contains(&message.status) {
            for version in &mut self.versions {
                let of = &self.past[version.origin].client;
                version.is_gone |= of.target == client.target && of.host == client.host;
            }
        }
        if client.rule == Some(PathTreatment::Bypass) || (client.has_body && is_safe) {
            return; // Nobody knows what a body asks for.
        }
        let Some(new) = self.as_it_came(number) else { return };
        match (client.method.as_str(), message.status) {
            ("GET" | "HEAD", 304) => self.update_by_not_modified(&new),
            ("HEAD", _) => self.update_by_head(&new),
            ("GET", 206) => self.add_part(new),
            ("GET", _) => self.versions.push(new),
            ("POST", _) if self.is_about_itself(&new) => self.versions.push(new),
            _ => {}
        }
    }

    /// The answer as such; none if it is about no client's request.
    fn as_it_came(&self, number: usize) -> Option<Version> {
        let exchange = &self.past[number];
        let message = &exchange.message;
        let mut headers = message.headers.clone();
        headers.remove(AGE);
        if !headers.contains_key(DATE) {
            headers.insert(DATE, date(exchange.received));
        }
        let mut version = Version {
            number,
            origin: number,
            chosen_for: vec![number],
            status: message.status,
            headers,
            age: reading::age(&message.headers),
            requested: exchange.requested,
            received: exchange.received,
            first: 0,
            complete: Some(message.body.len()),
            body: message.body.clone(),
            unkept: self.listed(&message.headers),
            is_fleeting: false,
            is_gone: false,
        };
        if message.status == 206 {
            let range = fields::text(&message.headers, &CONTENT_RANGE)?;
            let (first, last, complete) = fields::content_range(&range)?;
            if last - first + 1 != message.body.len() {
                return None;
            }
            (version.first, version.complete, version.status) = (first, complete, 200);
        }
        version.is_fleeting = self.may_store(&version).is_err();
        Some(version)
    }

    /// RFC 9110 §9.3.3: a POST whose answer says how long it is fresh, and that it is what a GET would have got.
    fn is_about_itself(&self, new: &Version) -> bool {
        let client = &self.past[new.origin].client;
        let reading = Reading::of(&new.headers, &self.policy);
        let (says, _) = reading::lifetime(new.status, &new.headers, &reading, new.received, None);
        let location = fields::text(&new.headers, &CONTENT_LOCATION);
        says == Says::Explicitly && location.and_then(|text| target(&text, client)).as_ref() == Some(&client.target)
    }

    /// RFC 9111 §4.3.4.
    fn update_by_not_modified(&mut self, new: &Version) {
        let exchange = self.past[new.number].clone();
        let set = self.initial_set(&exchange.client);
        let may_learn = !reading::asked(&exchange.client.headers).has("no-store");
        let asked = |name| fields::text(&exchange.sent.headers, name);
        // A 304 may tell of others too. By the letter they are updated as well, which nobody has to be able to do.
        let is_asked_about = |own: &HeaderMap| match asked(&IF_NONE_MATCH) {
            Some(tags) => fields::text(own, &ETAG).is_some_and(|tag| fields::is_weakly_in(&tag, &tags)),
            None => asked(&IF_MODIFIED_SINCE).is_some_and(|since| fields::text(own, &LAST_MODIFIED) == Some(since)),
        };
        // A client's question may be about what it has from elsewhere, so that a 304 that names nothing says nothing of ours.
        let is_clear = exchange.sent.headers != exchange.client.headers
            || [ETAG, LAST_MODIFIED].iter().any(|name| new.headers.contains_key(name));
        let about: Vec<usize> = set.into_iter().filter(|&one| self.is_about(new, &self.versions[one])).collect();
        for &one in &about {
            let own = &self.versions[one];
            // What one client is told need not be taken for an update of what others are given.
            let is_of_same = self.past[own.number].client.secrets == self.past[new.number].client.secrets;
            // By the letter, all with the same strong tag are updated. The others of them are not used before this one.
            let key = |one: usize| (self.versions[one].made(), self.versions[one].received);
            let is_newest = about.iter().all(|&other| other == one || key(other) < key(one));
            let is_surely_meant = own.chosen_for.iter().all(|&number| self.agrees(own, number, &exchange.client));
            let is_meant = is_of_same && is_newest && is_surely_meant && own.is_whole();
            let is_gone = is_meant && may_learn && is_clear && is_asked_about(&own.headers);
            let updated = self.updated(own, new);
            self.versions.push(updated);
            self.versions[one].is_gone = is_gone;
        }
    }

    /// Whether a 304 is about a version: it names its strongest validator, or none and answers a question about this one.
    fn is_about(&self, new: &Version, own: &Version) -> bool {
        let tag = |headers| fields::text(headers, &ETAG);
        let modified = |headers| fields::text(headers, &LAST_MODIFIED);
        if let Some(strong) = reading::strong_tag(&new.headers) {
            return reading::strong_tag(&own.headers) == Some(strong);
        }
        if let Some(weak) = tag(&new.headers) {
            return tag(&own.headers).is_some_and(|own| fields::is_weakly_in(&own, &weak));
        }
        if let Some(date) = modified(&new.headers) {
            return modified(&own.headers) == Some(date);
        }
        let asked = &self.past[new.number].sent.headers;
        let has_none = tag(&own.headers).is_none() && modified(&own.headers).is_none();
        match (fields::text(asked, &IF_NONE_MATCH), fields::text(asked, &IF_MODIFIED_SINCE)) {
            (Some(named), _) => tag(&own.headers) == Some(named),
            (None, Some(since)) => modified(&own.headers) == Some(since) || has_none,
            (None, None) => has_none,
        }
    }

    /// RFC 9111 §4.3.5: what a HEAD tells may be said of the answer to a GET, if nothing speaks against it.
    fn update_by_head(&mut self, new: &Version) {
        let client = &self.past[new.number].client;
        for one in self.initial_set(client) {
            let own = &self.versions[one];
            let fits =
                |name: &HeaderName| new.headers.get(name).is_none_or(|value| own.headers.get(name) == Some(value));
            let length = fields::text(&new.headers, &CONTENT_LENGTH);
            let is_as_long = length.is_none_or(|length| Some(length) == own.complete.map(|whole| whole.to_string()));
            if fits(&ETAG) && fits(&LAST_MODIFIED) && is_as_long && own.status == new.status {
                let updated = self.updated(own, new);
                self.versions.push(updated);
            }
        }
    }

    /// RFC 9111 §3.4.
    fn add_part(&mut self, new: Version) {
        let client = &self.past[new.number].client;
        for one in self.initial_set(client) {
            let own = &self.versions[one];
            let tag = reading::strong_tag(&own.headers);
            let is_same = tag.is_some() && tag == reading::strong_tag(&new.headers);
            let touches = new.first <= own.last() && own.first <= new.last();
            let agrees = own.complete.is_none() || new.complete.is_none() || own.complete == new.complete;
            if !(is_same && touches && agrees && own.status == 200) {
                continue;
            }
            let mut joined = self.updated(own, &new);
            joined.first = own.first.min(new.first);
            joined.complete = own.complete.or(new.complete);
            joined.body = (joined.first..own.last().max(new.last()))
                .map(|at| {
                    if (new.first..new.last()).contains(&at) {
                        new.body[at - new.first]
                    } else {
                        own.body[at - own.first]
                    }
                })
                .collect();
            self.versions.push(joined);
        }
        self.versions.push(new);
    }

    /// One with the fields of a newer answer about it (RFC 9111 §3.2).
    fn updated(&self, own: &Version, new: &Version) -> Version {
        let mut updated = Version {
            number: new.number,
            age: new.age,
            requested: new.requested,
            received: new.received,
            is_fleeting: false,
            is_gone: false,
            ..own.clone()
        };
        updated.chosen_for.push(new.number);
        updated.unkept.extend(new.unkept.clone());
        for name in new.headers.keys() {
            if [CONTENT_LENGTH, CONTENT_RANGE].contains(name) {
                continue;
            }
            updated.headers.remove(name);
            for value in new.headers.get_all(name) {
                updated.headers.append(name, value.clone());
            }
        }
        updated.is_fleeting = own.is_fleeting || self.may_store(&updated).is_err();
        updated
    }

    /// Fields that are not for everybody, or not without asking.
    fn listed(&self, headers: &HeaderMap) -> Vec<String> {
        let reading = Reading::of(headers, &self.policy);
        [reading.listed("private"), reading.listed("no-cache")].concat()
    }

    /// Those that a request may be about (RFC 9111 §4.3.3).
    fn initial_set(&self, client: &Client) -> Vec<usize> {
        (0..self.versions.len()).filter(|&one| self.is_selected(&self.versions[one], client).is_ok()).collect()
    }
}

/// Where a reference leads, if it is to the same origin.
fn target(reference: &str, client: &Client) -> Option<String> {
    let rest = reference.strip_prefix("http:").unwrap_or(reference);
    match rest.strip_prefix("//") {
        Some(rest) => rest.strip_prefix(client.host.as_str()).map(str::to_owned),
        None if rest.starts_with('/') => Some(rest.to_owned()),
        None => Some(format!("/{rest}")),
    }
}
