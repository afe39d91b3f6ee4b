//! The credential of an upstream: one source, one place, and a secret in it.

use http::header::AUTHORIZATION;
use sopan_engine::{Credential, CredentialError, CredentialPlace};

use super::super::draft::{CredentialDraft, Scheme, Treatment};
use super::super::problem::{Place, Problem};
use super::Resolved;

/// All that is said of it, the sources first.
const KEYS: [&str; 5] = ["env", "file", "header", "scheme", "query"];

impl Resolved {
    pub(super) fn credential(&self, upstream: &mut Treatment, problems: &mut Vec<Problem>) {
        let said = || KEYS.into_iter().filter(|key| self.said(key).is_some());
        let (before, is_read) = (problems.len(), KEYS.into_iter().all(|key| self.is_read(key)));
        let CredentialDraft { env, file, header, query, scheme } = &upstream.credential;
        let both = |one, other| self.error(&[one], format!("it stands beside {}; keep one of them", self.name(other)));
        if env.is_some() && file.is_some() {
            problems.push(self.beside(both("env", "file"), "file"));
        }
        if header.is_some() && query.is_some() {
            problems.push(self.beside(both("header", "query"), "query"));
        }
        if *scheme != Scheme::Usual && query.is_some() {
            let why = "a parameter of the query has none; take it away";
            problems.push(self.beside(self.error(&["scheme"], why), "query"));
        }
        if let Some(first) = said().next().filter(|_| env.is_none() && file.is_none() && is_read) {
            let why = format!(
                "there is no credential to put there; add {} NAME, or {} FILE",
                self.set("env"),
                self.set("file")
            );
            problems.push(self.error(&[first], why));
        }
        if problems.len() > before || !is_read || env.is_none() && file.is_none() {
            return;
        }
        let key = if env.is_some() { "env" } else { "file" };
        match made(&upstream.credential) {
            Ok(credential) => upstream.settings.credential = Some(credential),
            Err(why) => {
                let problem = self.error(&[key], self.as_written(&["file"], why));
                let is_key = env.as_deref().is_some_and(may_be_key);
                let place = self.said(key).unwrap_or(Place::Default);
                problems.push(if is_key { problem.hiding(&place) } else { problem });
            }
        }
        if upstream.target.as_ref().is_some_and(|target| !target.is_confidential()) {
            let why = "it goes to the API over plain http, and whoever is on the way can read it; write https:// in the URL, \
                       if the API has that";
            problems.push(self.warning(&[key], why));
        }
    }

    /// The problem, with the place of another setting that has to do with it.
    fn beside(&self, problem: Problem, key: &str) -> Problem {
        problem.also(&self.said(key).unwrap_or(Place::Default), "it is here")
    }
}

/// Whether that may be a key which somebody wrote in place of the name of a variable that holds it: `sk_live_…` could be one.
fn may_be_key(name: &str) -> bool {
    std::env::var_os(name).is_none() && name.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// The credential, or why there is none; what it is, is not said.
fn made(draft: &CredentialDraft) -> Result<Credential, String> {
    let CredentialDraft { env, file, header, query, scheme } = draft;
    let place = match query {
        Some(name) => CredentialPlace::query(name),
        None => {
            let field = header.clone().unwrap_or(AUTHORIZATION);
            let scheme = match scheme {
                Scheme::Usual if field == AUTHORIZATION => Some("Bearer"),
                Scheme::Usual | Scheme::Nothing => None,
                Scheme::Named(scheme) => Some(&**scheme),
            };
            CredentialPlace::field(field, scheme).map_err(|error| error.to_string())?
        }
    };
    match (env, file) {
        (Some(name), _) => {
            use std::os::unix::ffi::OsStrExt as _;
            let Some(value) = std::env::var_os(name).filter(|value| !value.is_empty()) else {
                let why = "set it to the API's key";
                return Err(match may_be_key(name) {
                    false => format!("the variable {name} is not set, or empty; {why}"),
                    true => {
                        format!(
                            "there is no such variable, or it is empty; {why}, and write its name here, not what it holds"
                        )
                    }
                });
            };
            Credential::new(place, value.as_bytes())
                .map_err(|error| format!("the variable {name}: {error}; set it anew"))
        }
        (None, Some(path)) => Credential::from_file(place, path).map_err(|error| {
            let (path, write) = (path.display(), "write the API's key into it, and nothing else");
            match error {
                CredentialError::Unreadable(why) => format!("{path} cannot be read: {why}; {write}"),
                other => format!("{path}: {other}; {write}"),
            }
        }),
        (None, None) => Err("there is none".to_owned()),
    }
}
