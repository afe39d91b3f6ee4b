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
}

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
}
