//! A request that runs, and what goes to the upstream and to the client for it.

use std::hash::{DefaultHasher, Hash, Hasher};

use http::header::{
    AGE, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE, PRAGMA, RANGE,
};
use http::{HeaderMap, HeaderValue, Method};
use sopan_core::cache::directives::RequestDirectives;
use sopan_core::cache::{Asked, Extent, Marks, Owner, Reuse, Send, Shape, Stored, range};
use sopan_core::headers::is_credential;

use super::Entry;
use crate::history::{Moment, Request, written};
use crate::model::{Client, Response};

/// A request that runs.
pub(super) struct Call {
    pub(super) method: Method,
    owner: Option<Owner>,
    pub(super) client: Client,
}

impl Call {
    pub(super) fn new(request: &Request, now: Moment) -> Self {
        let headers = written(&request.fields, now);
        let secret = headers.iter().filter(|(name, _)| is_credential(name));
        let secrets: Vec<String> = secret.map(|(name, value)| format!("{name}: {value:?}")).collect();
        Self {
            method: Method::from_bytes(request.method.as_bytes()).expect("a method"),
            owner: (!secrets.is_empty()).then(|| digest(&secrets)),
            client: Client {
                method: request.method.to_owned(),
                target: request.target.to_owned(),
                host: request.host.to_owned(),
                headers,
                has_body: request.has_body,
                secrets,
                rule: request.rule,
            },
        }
    }

    /// The question that is asked on behalf of a client who has been answered: what it wants of caches is its own affair.
    pub(super) fn behind(&self) -> Self {
        let mut client = self.client.clone();
        client.method = "GET".to_owned();
        for name in [IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_RANGE, RANGE, CACHE_CONTROL, PRAGMA] {
            client.headers.remove(name);
        }
        Self { method: Method::GET, owner: self.owner, client }
    }

    pub(super) fn asked(&self) -> Asked<'_> {
        Asked {
            method: &self.method,
            target: &self.client.target,
            host: self.client.host.as_bytes(),
            headers: &self.client.headers,
            marks: Marks::of(&self.client.headers),
            owner: self.owner,
            has_body: self.client.has_body,
            directives: RequestDirectives::read(&self.client.headers),
            rule: self.client.rule,
        }
    }

    /// The fields that go to the upstream.
    pub(super) fn headers_for(&self, send: &Send, stored: &[Stored]) -> HeaderMap {
        let mut headers = self.client.headers.clone();
        let Some(ask) = &send.ask else { return headers };
        for name in [IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE] {
            headers.remove(name);
        }
        ask.conditions.apply(&mut headers);
        if let Some(missing) = ask.missing {
            let range = format!("bytes={}-{}", missing.first, missing.last);
            headers.insert(RANGE, HeaderValue::from_str(&range).expect("plain text"));
            headers.insert(IF_RANGE, stored[ask.index].headers["etag"].clone());
        }
        headers
    }
}

fn digest(secrets: &[String]) -> Owner {
    let mut owner = [0; 16];
    let mut hasher = DefaultHasher::new();
    secrets.hash(&mut hasher);
    owner[..8].copy_from_slice(&hasher.finish().to_be_bytes());
    Owner(owner)
}

/// What a client gets of an entry.
pub(super) fn response(entry: &Entry, reuse: &Reuse) -> Result<Response, String> {
    let mut headers = entry.stored.headers.clone();
    headers.insert(AGE, HeaderValue::from(reuse.age));
    let (first, complete) = match entry.stored.extent {
        Extent::Whole(length) => (0, length),
        Extent::Part(part) => (part.span.first, part.complete),
    };
    if matches!(entry.stored.extent, Extent::Part(_)) {
        headers.remove(CONTENT_LENGTH);
        headers.remove(CONTENT_RANGE);
    }
    let run = |span: range::Span| {
        let at = |offset: u64| offset.checked_sub(first).and_then(|at| usize::try_from(at).ok());
        let (from, to) = (at(span.first).ok_or("before what is held")?, at(span.last).ok_or("before what is held")?);
        let bytes = entry.body.get(from..=to).ok_or("beyond what is held")?;
        Ok::<_, String>((usize::try_from(span.first).expect("short"), bytes.to_vec()))
    };
    let (status, runs) = match &reuse.shape {
        Shape::Whole if first == 0 && complete == Some(entry.body.len() as u64) => {
            (entry.stored.status.as_u16(), vec![(0, entry.body.clone())])
        }
        Shape::Whole => return Err("a part is given for the whole".to_owned()),
        Shape::Head => (entry.stored.status.as_u16(), Vec::new()),
        Shape::NotModified => (304, Vec::new()),
        Shape::Part(span) => (206, vec![run(*span)?]),
        Shape::Parts(spans) => (206, spans.iter().map(|span| run(*span)).collect::<Result<_, _>>()?),
        Shape::Unsatisfiable => (416, Vec::new()),
    };
    Ok(Response {
        status,
        headers,
        runs,
        complete: complete.map(|complete| usize::try_from(complete).expect("short")),
        ttl: reuse.ttl,
        is_called_stale: reuse.stale.is_some(),
        is_asked_about: reuse.revalidate.is_some(),
    })
}
