//! A key that is no setting where it stands: what was meant by it, and where does that belong?
//!
//! It may be the name of a flag, stand in the wrong part of the file, or be typed wrong, alone or all together. Whether a word is
//! near another one is for [`super::nearest`].

use super::super::layer::{Layer, Origin};
use super::super::setting::{Section, Setting};
use super::super::table;
use super::nearest::{has_same_parts, nearest, plain};
use super::{OWN, UPSTREAMS};

/// A part of the file that holds settings.
pub(super) struct Part<'p> {
    pub(super) section: Section,
    pub(super) layer: &'p mut Layer,
    /// Its keys that are no settings.
    pub(super) inner: &'p [&'static str],
}

/// What other programs call it.
const SYNONYMS: [(&str, &str); 28] = [
    ("address", "listen"),
    ("backends", "upstreams"),
    ("base_url", "url"),
    ("bind", "listen"),
    ("concurrency", "max_in_flight"),
    ("consumers", "clients"),
    ("expires_at", "expires"),
    ("expiry", "expires"),
    ("host", "route"),
    ("key", "key_sha256"),
    ("key_hash", "key_sha256"),
    ("log_format", "log"),
    ("max_age", "default_ttl"),
    ("path", "paths"),
    ("path", "route"),
    ("port", "listen"),
    ("prefix", "route"),
    ("quota", "limits"),
    ("rate_limit", "limits"),
    ("rate_limits", "limits"),
    ("retries", "max_retries"),
    ("server", "url"),
    ("target", "url"),
    ("timeout", "total_timeout"),
    ("ttl", "default_ttl"),
    ("upstream", "upstreams"),
    ("uri", "url"),
    ("users", "clients"),
];

/// What some proxies add to requests; here the key of the API alone, by another name.
const OF_CLIENTS: [&str; 16] = [
    "api_key",
    "api_keys",
    "api_token",
    "apikey",
    "auth",
    "authorization",
    "bearer",
    "header",
    "headers",
    "key",
    "password",
    "secret",
    "token",
    "user_agent",
    "username",
    "value",
];

/// The key of what goes by another name: elsewhere, on the command line, or with its parts in another order.
fn called(word: &str, known: &[&'static str]) -> Option<&'static str> {
    let synonyms = || SYNONYMS.iter().filter(|(other, _)| *other == word).map(|(_, key)| *key);
    let here = synonyms().find(|key| known.contains(key));
    let in_file = || {
        let is_near = |setting: &&Setting| setting.section != Section::Job || known.contains(&setting.key);
        table::settings().filter(|setting| setting.in_file).filter(is_near)
    };
    let flags = || in_file().filter(|setting| setting.flag.is_some_and(|flag| plain(flag) == word));
    let flag = || flags().map(|setting| setting.key).max_by_key(|key| known.contains(key));
    let turned = || in_file().map(|setting| setting.key).find(|key| has_same_parts(word, key));
    here.or_else(flag).or_else(|| synonyms().next()).or_else(turned)
}

/// What a key that is no setting here may have been meant to be, and what to do about it.
pub(super) fn meant(part: &Part<'_>, typed: &str, known: &[&'static str]) -> (Option<&'static str>, String) {
    let word = plain(typed);
    let of_program = part.section == Section::Program;
    if word == "burst" && !of_program {
        return (None, "write it into the rate, as in limits: [10/s burst 20]".to_owned());
    }
    if OF_CLIENTS.contains(&&*word) && part.section != Section::Client {
        let how = match part.section {
            Section::Credential => {
                "write the name of a variable that holds the key as `env`, or a file that does as `file`"
            }
            _ => {
                "a key that sopan is to add goes below an upstream, as in credential: { env: API_KEY }; what else your \
                 programs send goes to the API as it is"
            }
        };
        return (None, how.to_owned());
    }
    if let Some(key) = called(&word, known) {
        if known.contains(&key) && key != word {
            return (Some(key), format!("it is called `{key}` here"));
        }
        if let Some(place) = misplaced(part, key).filter(|_| key != word) {
            return (None, format!("it is called `{key}`, and belongs {place}"));
        }
    }
    let begun =
        known.iter().find(|known| known.strip_prefix(&*word).is_some_and(|rest| rest.starts_with('_'))).copied();
    if let Some(place) = misplaced(part, &word) {
        let name = if word == typed { String::new() } else { format!("is called `{word}`, and ") };
        let or = begun.map_or_else(String::new, |begun| format!(", or did you mean `{begun}`?"));
        // Who writes one as if it were the only one has an upstream in mind.
        let meant = (word == "url" && of_program).then_some(UPSTREAMS);
        return (meant, format!("it {name}belongs {place}{or}"));
    }
    if let Some(near) = nearest(&word, known).or(begun) {
        return (Some(near), format!("did you mean `{near}`?"));
    }
    let others = table::settings().filter(|setting| setting.in_file && setting.section != Section::Job);
    let others: Vec<_> = others.map(|setting| setting.key).collect();
    match nearest(&word, &others).and_then(|near| Some((near, misplaced(part, near)?))) {
        Some((near, place)) => (None, format!("did you mean `{near}`, which belongs {place}?")),
        None => (None, format!("here may be {}", known.join(", "))),
    }
}

/// Where a key belongs that does not stand there.
fn misplaced(part: &Part<'_>, key: &str) -> Option<String> {
    let of_program = part.section == Section::Program;
    if !of_program && table::find(Section::Program, key).is_some() {
        return Some("at the top of the file".to_owned());
    }
    if part.section != Section::Traces && table::find(Section::Traces, key).is_some() {
        return Some("in the `traces` at the top of the file".to_owned());
    }
    let setting = table::of_upstream(key).filter(|setting| setting.in_file);
    if part.section != Section::Redis && setting.is_none() && table::find(Section::Redis, key).is_some() {
        return Some("in the `redis` at the top of the file".to_owned());
    }
    if part.section == Section::Client && (setting.is_some() || key == "queue") {
        return Some("to an upstream, or to `defaults`".to_owned());
    }
    if setting.is_none() && table::find(Section::Client, key).is_some() {
        return Some("to a client; write clients:, below it a name, and this below that".to_owned());
    }
    let section = match (setting, key) {
        (Some(setting), _) => setting.section,
        (None, "queue" | "credential") => Section::Upstream,
        (None, _) => return None,
    };
    if section == part.section {
        let is_own = OWN.contains(&key) && part.layer.origin == Origin::Defaults;
        return is_own.then(|| "to a single upstream".to_owned());
    }
    Some(match (section.key(), !part.section.is_of_upstream()) {
        (Some(inner), true) => format!("in the `{inner}` of an upstream, or of `defaults`"),
        (Some(inner), false) => format!("in `{inner}`"),
        (None, true) if OWN.contains(&key) => {
            "to an upstream; write upstreams:, below it a name of yours, and below that the url".to_owned()
        }
        (None, true) => "to an upstream, or to `defaults`".to_owned(),
        (None, false) if part.layer.origin == Origin::Defaults => "directly below `defaults`".to_owned(),
        (None, false) => "to the upstream itself, one step to the left".to_owned(),
    })
}
