//! The files in examples/fetch do what they say, against each vendor as `sopan fake-api` plays it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::collected::rows;
use crate::support::{Fake, command};

/// A file, where its collection is asked for, what it needs of the environment, and how many requests 250 records take.
struct Example {
    vendor: &'static str,
    set: &'static [(&'static str, &'static str)],
    /// The variable with the address of the API, and what stands there beneath it.
    url: (&'static str, &'static str),
    job: &'static str,
    out: &'static str,
    requests: usize,
    /// What asks for what is new, where that is asked for.
    since: Option<&'static str>,
}

const EXAMPLES: [Example; 7] = [
    Example {
        vendor: "github",
        set: &[("GITHUB_TOKEN", "k")],
        url: ("GITHUB_URL", ""),
        job: "issues",
        out: "github.db",
        requests: 3,
        since: Some("since="),
    },
    Example {
        vendor: "gitlab",
        set: &[("GITLAB_TOKEN", "k")],
        url: ("GITLAB_URL", ""),
        job: "issues",
        out: "gitlab.db",
        requests: 3,
        since: Some("updated_after="),
    },
    Example {
        vendor: "stripe",
        set: &[("STRIPE_KEY", "k")],
        url: ("STRIPE_URL", ""),
        job: "charges",
        out: "stripe.db",
        requests: 3,
        since: Some("created%5Bgte%5D="),
    },
    Example {
        vendor: "shopify",
        set: &[("SHOPIFY_TOKEN", "k")],
        url: ("SHOPIFY_URL", ""),
        job: "orders",
        out: "shopify.db",
        requests: 1,
        since: Some("updated_at_min="),
    },
    Example {
        vendor: "slack",
        set: &[("SLACK_TOKEN", "k"), ("SLACK_CHANNEL", "C1")],
        url: ("SLACK_URL", ""),
        job: "messages",
        out: "slack.jsonl.zst",
        requests: 2,
        since: None,
    },
    Example {
        vendor: "notion",
        set: &[("NOTION_TOKEN", "k")],
        url: ("NOTION_URL", ""),
        job: "users",
        out: "notion.parquet",
        requests: 3,
        since: None,
    },
    Example {
        vendor: "odata",
        set: &[("ODATA_TOKEN", "k")],
        url: ("ODATA_URL", "/odata/v4"),
        job: "orders",
        out: "odata.parquet",
        requests: 3,
        since: None,
    },
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fetch")
}

impl Example {
    /// Runs a copy of it in that folder, where its output goes; what it told.
    fn run(&self, fake: &Fake, here: &Path) -> String {
        let name = format!("{}.yaml", self.vendor);
        let (file, url) = (here.join(&name), fake.url(self.url.1));
        fs::copy(folder().join(&name), &file).unwrap();
        let done = command(&["fetch", "--config", file.to_str().unwrap(), "--job", self.job])
            .envs(self.set.iter().copied())
            .env(self.url.0, &url)
            .output()
            .unwrap();
        let told = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(0), "{}: {told}", self.vendor);
        told
    }
}

#[test]
fn every_example_gets_its_collection_whole_in_as_few_pages_as_there_are() {
    for example in EXAMPLES {
        let fake = Fake::start(&["--profile", example.vendor, "--orders-total", "250"]);
        let here = tempfile::tempdir().unwrap();
        let told = example.run(&fake, here.path());
        let rows = rows(&here.path().join(example.out));
        assert_eq!(rows.len(), 250, "{}: {told}", example.vendor);
        assert_eq!(fake.statuses(), vec![200; example.requests], "{}: {told}", example.vendor);
    }
}

#[test]
fn a_second_run_asks_for_what_is_new_where_the_example_says_so() {
    for example in EXAMPLES.iter().filter(|example| example.since.is_some()) {
        let fake = Fake::start(&["--profile", example.vendor, "--orders-total", "250"]);
        let here = tempfile::tempdir().unwrap();
        example.run(&fake, here.path());
        let first = fake.statuses().len();
        let created = fake.post("/api/v1/orders", r#"{"client_id": "new"}"#);
        assert_eq!(created.status(), 201);
        let told = example.run(&fake, here.path());
        let rows = rows(&here.path().join(example.out));
        assert_eq!(rows.len(), 251, "{}: {told}", example.vendor);
        let asked = &fake.paths()[first + 1..];
        assert_eq!(asked.len(), 1, "{}: {told}", example.vendor);
        assert!(asked[0].contains(example.since.unwrap()), "{}: {}", example.vendor, asked[0]);
    }
}

/// None is forgotten.
#[test]
fn every_file_is_run() {
    let names = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<_> = names.collect();
    files.sort();
    let mut run: Vec<_> = EXAMPLES.iter().map(|example| format!("{}.yaml", example.vendor)).collect();
    run.sort();
    assert_eq!(files, run);
}
