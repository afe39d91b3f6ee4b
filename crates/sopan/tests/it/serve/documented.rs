//! What docs/metrics.md says of metrics is what the program tells, to the letter, and what dashboard and alerts ask for is there.

mod queries;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use sopan_fake::open_metrics::{self, Family};
use sopan_fake::script::Answer;

use super::door::{Scripted, Serve};
use super::wire::request;
use crate::support::{PATIENCE, get, until};

fn file(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)).unwrap()
}

#[track_caller]
fn scraped(proxy: &Serve) -> Vec<Family> {
    let text = get(proxy.admin, "/metrics").body;
    open_metrics::parse(&text).unwrap_or_else(|why| panic!("{why}\nin\n{text}"))
}

/// What is told where everything is on: clients that have keys, a cache on disk, one API that is only observed, and a Redis,
/// which is not there.
fn everything() -> Vec<Family> {
    let directory = tempfile::tempdir().unwrap();
    let proxy = Serve::start_with(&format!(
        "upstreams:\n  shop: {{ url: 'http://127.0.0.1:1', route: /shop, limits: [10/s burst 20, 5000 per 1h] }}\n  \
           mail: {{ url: 'http://127.0.0.1:1', observe: on }}\n\
         clients: {{ etl: {{ key_sha256: {} }} }}\n\
         redis: {{ url: 'redis://127.0.0.1:1' }}\n\
         cache_dir: {}\n",
        "00".repeat(32),
        directory.path().display()
    ));
    scraped(&proxy)
}

/// A metric as the page has it and as the program tells it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Said {
    name: String,
    kind: String,
    labels: BTreeSet<String>,
    unit: String,
}

/// The cells of those rows of a page's tables that begin with a name in backticks that begins so.
fn rows<'p>(page: &'p str, begins: &'static str) -> impl Iterator<Item = Vec<&'p str>> {
    let rows = page.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
    let rows = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    rows.filter(move |cells| cells[0].strip_prefix('`').is_some_and(|name| name.starts_with(begins)))
}

/// What stands in backticks.
fn quoted(cell: &str) -> impl Iterator<Item = String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned)
}

#[test]
fn every_metric_is_on_the_page_as_it_is_and_none_that_is_not_there() {
    let (page, families) = (file("docs/metrics.md"), everything());
    let metrics = ["sopan_", "process_"].into_iter().flat_map(|begins| rows(&page, begins));
    let said = metrics.map(|cells| Said {
        name: quoted(cells[0]).collect(),
        kind: cells[1].to_owned(),
        labels: quoted(cells[2]).collect(),
        unit: cells[3].to_owned(),
    });
    let mut said: Vec<_> = said.collect();
    let told = families.iter().map(|family| Said {
        name: family.query(),
        kind: family.kind.to_owned(),
        labels: family.labels().into_iter().map(str::to_owned).collect(),
        unit: family.unit.clone(),
    });
    let mut told: Vec<_> = told.collect();
    said.sort();
    told.sort();
    let only = |these: &[Said], those: &[Said]| {
        these.iter().filter(|one| !those.contains(one)).map(|one| format!("{one:?}")).collect::<Vec<_>>()
    };
    assert_eq!((only(&said, &told), only(&told, &said)), (vec![], vec![]), "only on the page, only in the program");
    assert_eq!(said.len(), told.len(), "one is there twice");
}

#[test]
fn every_value_of_a_label_is_on_the_page() {
    let (page, families) = (file("docs/metrics.md"), everything());
    // Classes of statuses speak for themselves, and what the settings name is theirs.
    let speaks = |name: &str, value: &str| match name {
        "le" | "limit" | "client" | "version" | "commit" => true,
        "upstream" => ["shop", "mail"].contains(&value),
        _ => value.ends_with("xx") || value == "worker-1",
    };
    let labels = families.iter().flat_map(|family| &family.samples).flat_map(|sample| &sample.labels);
    let unsaid = labels.filter(|(name, value)| !speaks(name, value) && !page.contains(&format!("`{value}`")));
    assert_eq!(unsaid.collect::<BTreeSet<_>>(), BTreeSet::new());
}

#[test]
fn dashboard_and_alerts_ask_for_what_is_there_and_say_what_to_do() {
    let families = everything();
    let alerts: Json = serde_saphyr::from_str(&file("deploy/prometheus/alerts.yaml")).unwrap();
    let alerts = alerts["groups"][0]["rules"].as_array().unwrap();
    let text = |json: &Json| json.as_str().unwrap_or_else(|| panic!("no text: {json}")).to_owned();
    let (mut queries, mut names) = (Vec::new(), Vec::new());
    for alert in alerts {
        let query = text(&alert["expr"]);
        // What its words are filled with is there too.
        let [summary, description] = ["summary", "description"].map(|key| text(&alert["annotations"][key]));
        let words = format!("{summary} {description}");
        let labels = words.split("$labels.").skip(1).map(|rest| rest.split(' ').next().unwrap());
        labels.for_each(|label| assert!(["instance", "upstream", "limit"].contains(&label), "{alert:#}"));
        assert!(description.len() > 80 && !text(&alert["for"]).is_empty(), "{alert:#}");
        let severity = text(&alert["labels"]["severity"]);
        assert!(["critical", "warning", "info"].contains(&&*severity), "{alert:#}");
        queries.push(query);
        names.push(text(&alert["alert"]));
    }
    let told: Vec<_> = rows(&file("docs/operations.md"), "Sopan").flat_map(|cells| quoted(cells[0]).next()).collect();
    assert_eq!(told, names, "docs/operations.md tells of the alerts");

    let dashboard: Json = serde_json::from_str(&file("deploy/grafana/sopan.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row");
    for panel in panels {
        let (described, targets) = (text(&panel["description"]), panel["targets"].as_array().unwrap());
        assert!(described.ends_with('.') && !targets.is_empty(), "{panel:#}");
        for target in targets {
            let (query, legend) = (text(&target["expr"]), text(&target["legendFormat"]));
            let labels = legend.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap());
            labels.for_each(|label| assert!(query.contains(label), "{legend}: {query}"));
            queries.push(query);
        }
    }
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter().skip(1);
    let variables: Vec<_> = variables.map(|variable| text(&variable["definition"])).collect();
    assert_eq!(variables.len(), 2);
    queries.extend(variables);
    let missing = queries.iter().flat_map(|query| queries::missing(query, &families));
    assert_eq!(missing.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn a_strict_scraper_reads_it_whatever_happened() {
    let upstream = Scripted::start(|request| match &*request.target {
        "/busy" if request.number == 1 => Answer::json(429, "{}").header("Retry-After", "0"),
        "/failing" => Answer::json(500, "{}"),
        "/stored" => Answer::json(200, "{}").header("Cache-Control", "max-age=600"),
        "/cut" => Answer::status(200).header("Content-Length", "10").body("half").close(),
        "/open" => Answer::events().event("1").hang(),
        _ => Answer::json(200, "{}"),
    });
    let key = "correct-horse-battery-staple";
    let digest = Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let directory = tempfile::tempdir().unwrap();
    let proxy = Serve::start_with(&format!(
        "defaults: {{ retry: {{ min_wait: 10ms, backoff_base: 10ms, max_retries: 1 }}, queue: {{ wait_max: 5s }} }}\n\
         upstreams:\n  \
           shop:\n    url: {url}\n    route: /shop\n    \
             limits: [1000/s burst 5, 9 per 1h, 5000 per day at 00:00 America/Los_Angeles]\n  \
           mail: {{ url: '{url}', observe: on }}\n\
         clients: {{ etl: {{ key_sha256: {digest}, limits: [1000 per 1h] }} }}\n\
         cache_dir: {directory}\n",
        url = upstream.url(),
        directory = directory.path().display()
    ));
    let ask = |target: &str, key: &str| {
        let mut client = proxy.connect();
        client.send(request("GET", target, &format!("Authorization: Bearer {key}\r\n")));
        client
    };
    for (target, key, status) in [
        ("/shop/busy", key, 200),
        ("/shop/stored", key, 200),
        ("/shop/stored", key, 200),
        ("/shop/failing", key, 500),
        ("/shop/cut", key, 200),
        ("/fine", key, 200),
        ("/shop/fine", "not-a-key-of-anybody", 401),
        ("/shop/fine", key, 200),
        ("/shop/fine", key, 200),
        // What is left of the quota is not enough.
        ("/shop/fine", key, 200),
        ("/shop/fine", key, 503),
    ] {
        assert_eq!(ask(target, key).reply().status(), status, "{target}");
    }
    let mut open = ask("/open", key);
    open.sees("data: 1\n");
    let families = until(|| {
        let families = scraped(&proxy);
        // Whoever was answered may be counted a moment later.
        (value(&families, "sopan_refusals_total", &["shop", "wait-too-long"]) == 1.0).then_some(families)
    });
    for (metric, labels, expected) in [
        ("sopan_attempts_total", &["shop", "429"][..], 1.0),
        ("sopan_attempts_total", &["shop", "5xx"], 2.0),
        ("sopan_attempts_total", &["mail", "2xx"], 2.0),
        ("sopan_holds_total", &["shop"], 1.0),
        ("sopan_cut_off_total", &["shop"], 1.0),
        ("sopan_cache_requests_total", &["shop", "hit"], 1.0),
        ("sopan_refusals_total", &["none", "key-unknown"], 1.0),
        ("sopan_client_requests_total", &["etl", "refused"], 1.0),
        ("sopan_limit_tokens", &["shop", "9 per 1h"], 0.0),
        ("sopan_limit_capacity", &["shop", "5000 per day at 00:00 America/Los_Angeles"], 5000.0),
        ("sopan_limit_per_second", &["shop", "1000/s burst 5"], 1000.0),
        // 100, a fifth of seven requests, and less one retry.
        ("sopan_retry_budget", &["shop"], 100.0),
        ("sopan_breaker_trips_total", &["shop"], 0.0),
        ("sopan_waiting_max", &["shop"], 1000.0),
        ("sopan_in_flight", &["mail"], 1.0),
        ("sopan_connections_max", &[], 10_000.0),
    ] {
        assert_eq!(value(&families, metric, labels), expected, "{metric} {labels:?}");
    }
    // The one that is open, and those that have not been seen to close.
    assert!(value(&families, "sopan_connections", &[]) >= 1.0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    let age = now - value(&families, "process_start_time_seconds", &[]);
    assert!((0.0..PATIENCE.as_secs_f64()).contains(&age), "{age}");
    let memory = value(&families, "process_resident_memory_bytes", &[]) / proxy.memory() as f64;
    assert!((0.5..2.0).contains(&memory), "{memory}");
    let used = Duration::from_secs_f64(value(&families, "process_cpu_seconds_total", &[]));
    assert!(used > Duration::ZERO && used <= proxy.processor_time() + Duration::from_millis(20), "{used:?}");
    let files = fs::read_dir(format!("/proc/{}/fd", proxy.program.0.id())).unwrap().count() as f64;
    let open = value(&families, "process_open_fds", &[]);
    assert!((files - open).abs() < 20.0 && open < value(&families, "process_max_fds", &[]), "{open} of {files}");
}

/// The value of the sample whose labels have these values, in this order.
#[track_caller]
fn value(families: &[Family], metric: &str, labels: &[&str]) -> f64 {
    let mut samples = families.iter().flat_map(|family| &family.samples);
    let is_it = |sample: &&open_metrics::Sample| {
        sample.name == metric && sample.labels.iter().map(|(_, value)| &**value).eq(labels.iter().copied())
    };
    samples.find(is_it).unwrap_or_else(|| panic!("no {metric} {labels:?}")).value
}

#[test]
fn a_program_that_was_stopped_for_a_while_was_late() {
    let proxy = Serve::start("http://127.0.0.1:1", &["--workers 2"]);
    let lags = || {
        let lags = scraped(&proxy).into_iter().find(|family| family.name == "sopan_runtime_lag_seconds").unwrap();
        let lags = lags.samples.into_iter().map(|sample| (sample.labels[0].1.clone(), sample.value));
        lags.collect::<BTreeMap<_, _>>()
    };
    assert_eq!(lags().into_keys().collect::<Vec<_>>(), ["main", "worker-0", "worker-1"]);
    // Each looks once a second.
    proxy.program.signal("STOP");
    thread::sleep(Duration::from_millis(1_500));
    proxy.program.signal("CONT");
    until(|| lags().values().all(|late| (0.4..30.0).contains(late)).then_some(()));
}
