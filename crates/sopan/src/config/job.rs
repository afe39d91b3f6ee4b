//! A collection that is to be got, as it is asked for.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use http::HeaderMap;
use http::uri::PathAndQuery;
use sopan_core::headers::Shown;
use sopan_core::pages::since::Overlap;
use sopan_core::pages::{Paging, Pointer, Select};
use sopan_core::policy::parse_duration;

use crate::fetch::Sink;

/// A collection, and where it goes.
#[derive(Clone)]
pub(crate) struct Job {
    /// What it is called in a settings file; empty where it was typed.
    pub(crate) name: String,
    /// The number of its upstream.
    pub(crate) upstream: usize,
    pub(crate) path: String,
    /// All of its URL, as that may be shown.
    pub(crate) shown: String,
    pub(crate) headers: HeaderMap,
    /// A file, and what it is to be; none is standard output.
    pub(crate) out: Option<(PathBuf, Sink)>,
    pub(crate) select: Option<Select>,
    pub(crate) paging: Option<Paging>,
    pub(crate) more: Option<Pointer>,
    pub(crate) link_hosts: Vec<String>,
    pub(crate) short_page_ends: bool,
    pub(crate) pages_max: Option<u64>,
    pub(crate) records_max: Option<u64>,
    pub(crate) concurrency: NonZeroUsize,
    pub(crate) schema: Option<PathBuf>,
    pub(crate) on_mismatch: OnMismatch,
    pub(crate) since: Option<Since>,
    /// What makes it this job and no other, by the names that people know, without secrets.
    pub(crate) said: BTreeMap<String, String>,
}

/// Shows no secret of its path and its fields.
impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, shown, headers, out, said, .. } = self;
        let mut told = f.debug_struct("Job");
        told.field("name", name).field("shown", shown).field("headers", &Shown(headers));
        told.field("out", out).field("said", said).finish_non_exhaustive()
    }
}

/// What becomes of a record that does not follow the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum OnMismatch {
    #[default]
    Stop,
    Skip,
    Keep,
}

pub(super) const ON_MISMATCH: [(&str, OnMismatch); 3] =
    [("stop", OnMismatch::Stop), ("skip", OnMismatch::Skip), ("keep", OnMismatch::Keep)];

/// How only what is new is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Since {
    /// What of a record grows with time.
    pub(crate) field: Pointer,
    /// The parameter that takes it.
    pub(crate) param: String,
    /// Where the first run begins.
    pub(crate) from: Option<String>,
    pub(crate) overlap: Option<Overlap>,
}

/// What is asked for beneath the URL of an upstream.
pub(super) fn path(text: &str) -> Result<String, String> {
    match text.parse::<PathAndQuery>() {
        Ok(_) if text.starts_with('/') => Ok(text.to_owned()),
        _ => {
            Err("it is no path; write for example /orders?per_page=100, with what is odd in it percent-encoded"
                .to_owned())
        }
    }
}

/// How much is got again.
pub(super) fn overlap(text: &str) -> Result<Overlap, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map(Overlap::Count).map_err(|_| format!("`{text}` is too large; write a smaller number"));
    }
    let why = |_| format!("`{text}` is not allowed; write a duration such as 1h for times, or a number for numbers");
    parse_duration(text).map(Overlap::Time).map_err(why)
}

/// The name of a table, which goes between quotes.
pub(super) fn table_name(text: &str) -> Result<String, String> {
    const CHARS_MAX: usize = 128;
    let is_odd = |c: char| c.is_control() || c == '"';
    if text.is_empty() || text.chars().count() > CHARS_MAX || text.contains(is_odd) || text.starts_with("sqlite_") {
        return Err(format!(
            "`{text}` cannot be the name of a table; write up to {CHARS_MAX} letters without quotes, such as orders"
        ));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_overlap_is_a_span_or_a_number() {
        assert_eq!(overlap("1h"), Ok(Overlap::Time(Duration::from_secs(3600))));
        assert_eq!(overlap("5"), Ok(Overlap::Count(5)));
        for wrong in ["", "-1", "soon", "99999999999999999999"] {
            assert!(overlap(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn paths_and_names_of_tables_are_held_to_what_they_can_be() {
        for (text, is_right) in [("/a?b=c", true), ("/", true), ("a", false), ("/a b", false), ("http://a/b", false)] {
            assert_eq!(path(text).is_ok(), is_right, "{text}");
        }
        for (text, is_right) in
            [("orders", true), ("my orders", true), ("", false), ("a\"b", false), ("sqlite_x", false)]
        {
            assert_eq!(table_name(text).is_ok(), is_right, "{text}");
        }
    }
}
