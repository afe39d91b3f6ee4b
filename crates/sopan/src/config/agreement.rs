//! Help, example, schema, reference and code are made from one table; here they are held against what is in the repository,
//! and against each other.
//!
//! With SOPAN_WRITE=1 the files are written anew.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::file::File;
use super::flags::Typed;
use super::layer::{Layer, Origin};
use super::problem::Source;
use super::setting::{Section, Setting};
use super::{GROUPS, example, load, schema, settings, table};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[track_caller]
fn current(name: &str, expected: &str) {
    let path = root().join(name);
    if std::env::var_os("SOPAN_WRITE").is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{name} is not what the table says; write it anew with SOPAN_WRITE=1");
}

#[test]
fn the_files_of_the_repository_are_what_the_table_says() {
    current("sopan.example.yaml", &example());
    current("sopan.schema.json", &schema());
    let reference = std::fs::read_to_string(root().join("docs/settings.md")).unwrap();
    let (before, _) = reference.split_once(REFERENCE_BEGINS).unwrap();
    current("docs/settings.md", &format!("{before}{REFERENCE_BEGINS}\n\n{}", reference_of()));
}

const REFERENCE_BEGINS: &str = "<!-- made from the table of settings; what is below is written by a test -->";

/// Every setting, as a page of the documentation shows it.
fn reference_of() -> String {
    let titles = [
        (Section::Program, "At the top"),
        (Section::Traces, "`traces`"),
        (Section::Redis, "`redis`"),
        (Section::Upstream, "Of an upstream, or in `defaults`"),
        (Section::Queue, "`queue` of either"),
        (Section::Retry, "`retry` of either"),
        (Section::Breaker, "`breaker` of either"),
        (Section::Cache, "`cache` of either"),
        (Section::Credential, "`credential` of an upstream"),
        (Section::Client, "Of a client, below `clients`"),
        (Section::Job, "Of a job, below `jobs`, for `sopan fetch`"),
    ];
    let cell = |text: &str| text.replace('|', "\\|");
    let mut page = String::new();
    for (section, title) in titles {
        page += &format!("## {title}\n\n| key | flag | takes | default | what it does |\n|---|---|---|---|---|\n");
        for setting in table::settings().filter(|setting| setting.section == section) {
            let key = if setting.in_file { format!("`{}`", setting.key) } else { "–".to_owned() };
            let flag = setting.typed().map_or_else(|| "–".to_owned(), |flag| format!("`{flag}`"));
            let default = setting.default.map_or_else(|| "–".to_owned(), |default| format!("`{default}`"));
            let why = if setting.why.is_empty() { String::new() } else { format!(" *{}.*", cell(setting.why)) };
            let takes = cell(&setting.kind.allowed());
            page += &format!("| {key} | {flag} | {takes} | {default} | {}.{why} |\n", cell(&setting.paragraph()));
        }
        page += "\n";
    }
    page.trim_end().to_owned() + "\n"
}

#[test]
fn every_row_of_the_table_is_whole() {
    let mut seen = BTreeMap::new();
    for Setting { key, section, flag, in_file, default, help, why, .. } in settings() {
        assert!(seen.insert((section, key), ()).is_none(), "{key} is there twice");
        assert!(!help.is_empty() && !help.ends_with('.') || help.contains("\n\n"), "{key}: {help}");
        assert_eq!(default.is_some(), !why.is_empty(), "{key}: a default has a reason, and nothing else has");
        assert!(flag.is_some() || *in_file, "{key} cannot be said");
        for named in help.split('`').skip(1).step_by(2) {
            let is_word = !named.chars().all(|c| c.is_ascii_lowercase() || c == '_')
                || settings().any(|s| s.key == named)
                || matches!(named, "off" | "on" | "none" | "unlimited");
            assert!(is_word, "{key} speaks of `{named}`");
        }
    }
    assert_eq!(GROUPS.iter().map(|group| group.settings.len()).sum::<usize>(), seen.len());
}

#[test]
fn the_example_says_every_key_and_changes_nothing() {
    let source = Source { path: "sopan.example.yaml".to_owned(), text: example() };
    let file = File::of(source);
    assert_eq!((&file.problems[..], file.clients.is_none()), (&[][..], true));
    let layers = [&file.program, &file.upstreams[0].layer];
    let of_all =
        || settings().filter(|setting| setting.in_file && !matches!(setting.section, Section::Client | Section::Job));
    for setting in of_all().filter(|setting| setting.default.is_some()) {
        let said = layers.iter().find_map(|layer| layer.get(setting)).unwrap_or_else(|| panic!("{}", setting.key));
        assert_eq!(said.shown(), setting.default.unwrap(), "{}", setting.key);
    }
    for setting in settings().filter(|setting| setting.in_file && setting.default.is_none()) {
        assert!(example().contains(&format!("{}: {}\n", setting.key, setting.example())), "{}", setting.key);
    }
    // Those behind a # are right too, and so are the clients and jobs, of which all is behind one.
    let example = example();
    let (before, rest) = example.split_once("# clients:\n").unwrap();
    let (clients, jobs) = rest.split_once("# jobs:\n").unwrap();
    let bare = |line: &'_ str| line.strip_prefix("# ").or(line.strip_prefix('#')).unwrap().to_owned();
    // A line of prose stands before the jobs.
    let clients = clients.lines().take_while(|line| line.starts_with('#')).map(bare);
    let said =
        ["clients:".to_owned()].into_iter().chain(clients).chain(["jobs:".to_owned()]).chain(jobs.lines().map(bare));
    let all: Vec<_> = before.lines().map(str::to_owned).chain(said).map(|line| uncommented(&line)).collect();
    let file = File::of(Source { path: "all.yaml".to_owned(), text: all.join("\n") });
    assert_eq!(file.problems, []);
    let mut client = file.clients.unwrap().remove(0);
    for setting in settings().filter(|setting| setting.section == Section::Client) {
        assert!(client.layer.get(setting).is_some(), "{}", setting.key);
    }
    let mut job = file.jobs.into_iter().next().unwrap();
    for setting in settings().filter(|setting| setting.section == Section::Job && setting.in_file) {
        assert!(job.layer.get(setting).is_some(), "{}", setting.key);
    }
    let mut problems = Vec::new();
    client.layer.sift(&mut problems);
    job.layer.sift(&mut problems);
    assert_eq!(problems, []);
}

/// A line whose setting stands behind a #, without that.
fn uncommented(line: &str) -> String {
    let rest = line.trim_start();
    let is_setting = rest.strip_prefix("# ").is_some_and(|rest| {
        // A section all of whose settings stand behind one.
        rest == "credential:"
            || rest.split_once(": ").is_some_and(|(key, value)| {
                settings().any(|s| s.key == key && s.default.is_none() && value == s.example())
            })
    });
    if is_setting { line.replacen("# ", "", 1) } else { line.to_owned() }
}

#[test]
fn defaults_of_the_table_are_those_of_the_policies_and_of_the_engine() {
    use sopan_core::policy::{BreakerPolicy, CachePolicy, LanePolicy, RetryPolicy};
    use sopan_engine::Settings;

    let table = Layer::table();
    assert!(table.values.iter().all(|value| value.setting.default.is_some()) && table.origin == Origin::Table);
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(&file, "upstreams: { a: { url: http://u } }\n").unwrap();
    let serve = load(file.path().to_str(), &Typed::default()).serve.unwrap();
    let settings = &serve.upstreams[0].settings;
    assert_eq!(settings.lane, LanePolicy::default());
    assert_eq!((&settings.retry, &settings.breaker), (&RetryPolicy::default(), &BreakerPolicy::default()));
    assert_eq!(settings.cache, Some(CachePolicy::default()));
    // And those of the engine, which a library has without a table.
    let of = |settings: &Settings| {
        let Settings { connect_timeout, idle_timeout, forwarded, rewrite_links, http2, observe, .. } = settings;
        (*connect_timeout, *idle_timeout, *forwarded, *rewrite_links, *http2, *observe)
    };
    assert_eq!(of(settings), of(&Settings::new(settings.target.clone())));
}

#[test]
fn the_schema_takes_what_the_table_takes() {
    let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
    let of = |section: Section| match section {
        Section::Program => &schema["properties"],
        Section::Client => &schema["$defs"]["client"]["properties"],
        Section::Job => &schema["$defs"]["job"]["properties"],
        Section::Traces | Section::Redis => &schema["properties"][section.key().unwrap()]["properties"],
        Section::Upstream => &schema["$defs"]["upstream"]["properties"],
        inner => {
            let value = &schema["$defs"]["upstream"]["properties"][inner.key().unwrap()];
            let object = if value["properties"].is_object() { value } else { &value["anyOf"][0] };
            &object["properties"]
        }
    };
    for setting in settings().filter(|setting| setting.in_file) {
        let found = &of(setting.section)[setting.key];
        let description = found["description"].as_str().unwrap();
        // A summary has no full stop of its own, and what follows it must not go on in the same sentence.
        let ends = |rest: &str| rest.is_empty() || rest.starts_with(". ");
        let rest = description.strip_prefix(setting.summary());
        assert!(rest.is_some_and(ends) && !description.contains(".."), "{}: {description}", setting.key);
        if let Some(default) = setting.default.filter(|_| !setting.kind.is_section()) {
            assert_eq!(found["default"], default, "{}", setting.key);
        }
    }
}
