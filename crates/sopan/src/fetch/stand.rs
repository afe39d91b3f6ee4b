//! Where does a traversal stand, and what does the next run need of one that is whole?
//!
//! Plain values, written as JSON. What is in them that may be a secret, a cursor in a URL, stays in a file that only its owner
//! can read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Where a traversal stands after a page.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Stand {
    /// The last page that is kept, counted from 1.
    pub(crate) page: u64,
    /// The URL of the page after it; none when that was the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
    /// How many records the first page had.
    pub(crate) size: u64,
    /// By what it is known that the next page was asked for. All of them are kept ([`Kept::asked`](super::kept::Kept::asked)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) asked: Option<u64>,
    /// Records that are good, in all pages so far.
    pub(crate) records: u64,
    /// Those that were set aside.
    pub(crate) rejects: u64,
    /// The high-water mark so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mark: Option<String>,
    /// How many records the API says that there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) total: Option<u64>,
    /// How pages follow each other, where that was found and not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) paging: Option<Way>,
    /// The shape of all records so far, as JSON; none where that is as it was a page ago.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shape: Option<String>,
}

/// How pages follow each other, each part as it is written after its flag.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Way {
    /// `--records`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) records: Option<String>,
    /// `--next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
    /// `--next-param`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) param: Option<String>,
    /// `--more`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) more: Option<String>,
}

/// What a run that is whole leaves for the next one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Past {
    /// How many pages it had.
    pub(crate) pages: u64,
    /// How many good records.
    pub(crate) records: u64,
    /// How many that were set aside.
    pub(crate) rejects: u64,
    /// The high-water mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mark: Option<String>,
    /// The shape of its records, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shape: Option<String>,
}

/// What makes two runs the same job: what was asked for, by the names that a reader knows (`--records`), without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct JobDigest(pub(crate) BTreeMap<String, String>);

impl JobDigest {
    /// In what this job is not that `other`, as sentences.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let names: std::collections::BTreeSet<_> = self.0.keys().chain(other.0.keys()).collect();
        let said = |value: Option<&String>| value.map_or_else(|| "not given".to_owned(), |value| format!("`{value}`"));
        let differ = names.into_iter().filter(|name| self.0.get(*name) != other.0.get(*name));
        differ.map(|name| format!("{name} is {}, was {}", said(self.0.get(name)), said(other.0.get(name)))).collect()
    }

    /// Whether what is kept of a run of `other` is what this job would have kept so far. A run that ends at the first record
    /// that does not follow the schema has kept none of those, so it does not matter what is to become of them.
    pub(crate) fn goes_on_from(&self, other: &Self) -> bool {
        let has_stopped = other.0.get(ON_MISMATCH).is_none_or(|policy| policy == "stop");
        self == other || has_stopped && self.is_but_for(&[ON_MISMATCH], other)
    }

    /// Whether the high-water mark that a whole run of `other` left is one of this job: what records are held to and how much is
    /// got again changes nothing of that.
    pub(crate) fn takes_the_mark_of(&self, other: &Self) -> bool {
        self.is_but_for(&[ON_MISMATCH, "--schema", SCHEMA_SAYS, "--since", "--since-overlap"], other)
    }

    fn is_but_for(&self, names: &[&str], other: &Self) -> bool {
        let rest = |job: &Self| -> Vec<_> {
            job.0.clone().into_iter().filter(|(name, _)| !names.contains(&name.as_str())).collect()
        };
        rest(self) == rest(other)
    }
}

/// By these names it is known what records are held to.
pub(crate) const SCHEMA_SAYS: &str = "what the schema says";
const ON_MISMATCH: &str = "--on-mismatch";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_tells_in_what_it_is_another() {
        let job = |parts: &[(&str, &str)]| {
            JobDigest(parts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        let now = job(&[("URL", "http://a.test/x"), ("--records", "/items")]);
        let then = job(&[("URL", "http://a.test/x"), ("--records", "/data"), ("--next", "link")]);
        assert_eq!(now.differences(&now), Vec::<String>::new());
        assert_eq!(now.differences(&then), ["--next is not given, was `link`", "--records is `/items`, was `/data`"]);
    }

    #[test]
    fn a_job_goes_on_where_nothing_that_is_kept_would_be_other() {
        let job = |parts: &[(&str, &str)]| {
            JobDigest(parts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        let (url, schema) = (("URL", "http://a.test/x"), (SCHEMA_SAYS, "1"));
        let [none, stop] = [job(&[url, schema]), job(&[url, schema, (ON_MISMATCH, "stop")])];
        let [skip, keep] = ["skip", "keep"].map(|policy| job(&[url, schema, (ON_MISMATCH, policy)]));
        let mended = job(&[url, (SCHEMA_SAYS, "2"), ("--since-overlap", "1h")]);
        let another = job(&[("URL", "http://a.test/y"), schema]);
        for (now, then, goes_on, takes_the_mark) in [
            (&none, &none, true, true),
            (&skip, &skip, true, true),
            (&skip, &none, true, true),
            (&keep, &stop, true, true),
            (&stop, &none, true, true),
            (&stop, &skip, false, true),
            (&keep, &skip, false, true),
            (&mended, &none, false, true),
            (&another, &none, false, false),
        ] {
            assert_eq!(
                (now.goes_on_from(then), now.takes_the_mark_of(then)),
                (goes_on, takes_the_mark),
                "{now:?}, {then:?}"
            );
        }
    }
}
