//! Whether what is said of a collection fits together.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use sha2::{Digest as _, Sha256};
use sopan_core::headers::redact_url;
use sopan_core::pages::{Paging, PagingError};
use sopan_engine::Target;

use super::super::draft::JobDraft;
use super::super::file::nearest;
use super::super::job::{Job, Since};
use super::super::layer::Origin;
use super::super::problem::{Place, Problem};
use super::super::setting::Section;
use super::{Resolved, told_at};
use crate::fetch::Sink;

impl Resolved {
    /// What all of it comes to, for a job of this name; `upstreams` are those that there are. None where that cannot be told,
    /// which has been.
    pub(crate) fn job(&self, name: &str, upstreams: &[(String, Target)], problems: &mut Vec<Problem>) -> Option<Job> {
        self.job_of(name, self.drafts().job, upstreams, problems)
    }

    /// The same for what was typed: `path` beneath `target`.
    pub(crate) fn typed_job(&self, target: &Target, path: &str, problems: &mut Vec<Problem>) -> Option<Job> {
        let draft = JobDraft { path: Some(path.to_owned()), ..self.drafts().job };
        self.job_of("", draft, &[(String::new(), target.clone())], problems)
    }

    fn job_of(
        &self,
        name: &str,
        mut draft: JobDraft,
        upstreams: &[(String, Target)],
        problems: &mut Vec<Problem>,
    ) -> Option<Job> {
        let before = problems.len();
        let upstream = self.upstream_of_job(&draft, upstreams, problems);
        let paging = self.paging(&draft, problems);
        let since = self.since(&draft, problems);
        let out = self.out(&draft, problems);
        if draft.out.is_none() {
            for key in ["table", "key", "since_field"] {
                self.needs_file(key, problems);
            }
        }
        if problems.len() > before {
            return None;
        }
        let (upstream, path) = (upstream?, draft.path.take()?);
        let url = format!("{}{path}", upstreams.get(upstream)?.1);
        Some(Job {
            name: name.to_owned(),
            upstream,
            path,
            shown: redact_url(&url),
            said: self.identity(&url),
            headers: draft.headers,
            out,
            select: draft.select,
            paging,
            more: draft.more,
            link_hosts: draft.link_hosts,
            short_page_ends: draft.short_page_ends,
            pages_max: draft.pages_max,
            records_max: draft.records_max,
            concurrency: draft.concurrency.unwrap_or(NonZeroUsize::MIN),
            schema: draft.schema,
            on_mismatch: draft.on_mismatch,
            since,
        })
    }

    /// Where a setting of the job was said, and what it is called there.
    fn of_job(&self, key: &str) -> (Place, String) {
        let values = self.values.iter().map(|(_, value)| value);
        let value = values.clone().find(|value| value.setting.section == Section::Job && value.setting.key == key);
        let place = value.map_or(Place::Default, |value| value.place.clone());
        let flag = format!("--{}", key.replace('_', "-"));
        let is_typed = !self.has_file || matches!(place, Place::Flag(_));
        if is_typed { (told_at(place, &flag), flag) } else { (place, format!("{}.{key}", self.path)) }
    }

    fn wrong(&self, key: &str, why: impl std::fmt::Display) -> Problem {
        let (place, name) = self.of_job(key);
        Problem::error(place, name, why)
    }

    /// As it would be written there.
    fn call(&self, key: &str) -> String {
        if self.has_file { format!("{key}:") } else { format!("--{}", key.replace('_', "-")) }
    }

    fn upstream_of_job(
        &self,
        draft: &JobDraft,
        upstreams: &[(String, Target)],
        problems: &mut Vec<Problem>,
    ) -> Option<usize> {
        let names: Vec<_> = upstreams.iter().map(|(name, _)| name.as_str()).collect();
        let Some(name) = &draft.upstream else {
            if upstreams.len() > 1 && self.is_read("upstream") {
                let why = format!("it does not say which upstream is asked; write upstream: {}", names.join(" or "));
                let (place, _) = self.of_job("path");
                problems.push(Problem::error(place, self.path.clone(), why));
            }
            return (upstreams.len() == 1).then_some(0);
        };
        let number = names.iter().position(|known| known == name);
        if number.is_none() {
            let help = match nearest(name, &names) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "write the name of one below upstreams".to_owned(),
            };
            problems.push(self.wrong("upstream", format!("there is no upstream `{name}` in this file; {help}")));
        }
        number
    }

    fn paging(&self, draft: &JobDraft, problems: &mut Vec<Problem>) -> Option<Paging> {
        let param = draft.next_param.as_deref();
        let Some(next) = &draft.next else {
            if param.is_some() && self.is_read("next") {
                let why = format!("nobody says what it takes; add {} /next_cursor or the like", self.call("next"));
                problems.push(self.wrong("next_param", why));
            }
            return None;
        };
        match Paging::said(next, param) {
            Ok(paging) => {
                let is_counted = matches!(paging, Paging::Number { .. } | Paging::Offset { .. });
                if draft.concurrency.is_some_and(|many| many > NonZeroUsize::MIN) && !is_counted {
                    let why = format!(
                        "only pages that are counted can be asked for at once, since others lead to each other one by one; take \
                         it away, or write {} page",
                        self.call("next")
                    );
                    problems.push(self.wrong("concurrency", why));
                }
                Some(paging)
            }
            Err(error) => {
                let key = if matches!(error, PagingError::NoParameter(_)) { "next_param" } else { "next" };
                problems.push(self.wrong(key, error));
                None
            }
        }
    }

    fn since(&self, draft: &JobDraft, problems: &mut Vec<Problem>) -> Option<Since> {
        let JobDraft { since_field, since_param, since, since_overlap, .. } = draft;
        let (Some(field), Some(param)) = (since_field, since_param) else {
            let said = [
                ("since_field", since_field.is_some()),
                ("since_param", since_param.is_some()),
                ("since", since.is_some()),
                ("since_overlap", since_overlap.is_some()),
            ];
            if let Some((key, _)) = said.iter().find(|(_, is_said)| *is_said) {
                let missing = if since_field.is_none() {
                    ("since_field", "/updated_at")
                } else {
                    ("since_param", "updated_since")
                };
                if self.is_read(missing.0) {
                    let why = format!(
                        "it needs to be known what is asked for by it; add {} {}",
                        self.call(missing.0),
                        missing.1
                    );
                    problems.push(self.wrong(key, why));
                }
            }
            return None;
        };
        for key in ["pages_max", "records_max"].into_iter().filter(|key| self.is_said(key)) {
            let why = format!(
                "what it leaves out would never be asked for again, since {} goes on after what has come; take one of them away",
                self.call("since_field")
            );
            problems.push(self.wrong(key, why));
        }
        Some(Since { field: field.clone(), param: param.clone(), from: since.clone(), overlap: *since_overlap })
    }

    fn out(&self, draft: &JobDraft, problems: &mut Vec<Problem>) -> Option<(PathBuf, Sink)> {
        let out = PathBuf::from(draft.out.as_ref()?);
        let stem = out.file_name().unwrap_or_default().to_string_lossy();
        let stem = stem.split('.').next().unwrap_or_default().to_owned();
        let table = draft.table.clone().unwrap_or(stem);
        match Sink::of(&out, &table, &draft.key) {
            Ok(sink) => {
                let is_table = matches!(sink, Sink::Sqlite { .. });
                for key in ["table", "key"] {
                    if !is_table && self.is_said(key) {
                        let why =
                            "it is for a table of a database, which `out` is not; take it away, or let that end in .db";
                        problems.push(self.wrong(key, why));
                    }
                }
                Some((out, sink))
            }
            Err(error) => {
                problems.push(self.wrong("out", error));
                None
            }
        }
    }

    fn needs_file(&self, key: &str, problems: &mut Vec<Problem>) {
        if self.is_said(key) && self.is_read("out") {
            let why = format!("it needs a file, and records go to standard output; add {} FILE", self.call("out"));
            problems.push(self.wrong(key, why));
        }
    }

    /// Whether somebody said it, other than the table.
    pub(crate) fn is_said(&self, key: &str) -> bool {
        let is_it = |(origin, value): &(Origin, super::Value)| {
            *origin != Origin::Table && value.setting.section == Section::Job && value.setting.key == key
        };
        self.values.iter().any(is_it)
    }

    /// What makes it another job if it changes: what is asked for, and what is kept of that.
    fn identity(&self, url: &str) -> BTreeMap<String, String> {
        /// What may change on the way: who asks, how fast, what is made of it.
        const BESIDE: [&str; 9] =
            ["upstream", "path", "headers", "out", "concurrency", "table", "key", "pages_max", "records_max"];
        let rows = self.values.iter().filter(|(origin, value)| {
            *origin != Origin::Table && value.setting.section == Section::Job && !BESIDE.contains(&value.setting.key)
        });
        let mut said: BTreeMap<_, _> =
            rows.map(|(_, value)| (value.setting.typed().unwrap_or_default(), value.shown())).collect();
        // What is shown of a URL hides what its parameters are, and with them secrets.
        let digest = Sha256::digest(url.as_bytes());
        let digest: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        said.insert("URL".to_owned(), redact_url(url));
        said.insert("what its parameters are".to_owned(), digest);
        said
    }
}
