//! Which metrics, labels and values of labels does a query of Prometheus ask for? No more of its language than that.

use std::collections::BTreeSet;

use sopan_fake::open_metrics::Family;

/// Labels that Prometheus adds to what it scrapes.
const ADDED: [&str; 2] = ["instance", "job"];
/// Labels whose values are in lists of the program; those of others are the settings' business.
const LISTED: [&str; 6] = ["outcome", "status", "reason", "result", "state", "tier"];
const GROUPS: [&str; 4] = ["by", "without", "on", "ignoring"];

/// A metric that is asked for, and with which labels: name, operator, value.
#[derive(Debug, PartialEq, Eq)]
struct Selected<'q> {
    metric: &'q str,
    labels: Vec<(&'q str, &'q str, &'q str)>,
}

/// What a query asks for that is not there.
pub(super) fn missing(query: &str, families: &[Family]) -> Vec<String> {
    let (selected, groups) = read(query);
    let mut missing = Vec::new();
    let mut known: BTreeSet<_> = ADDED.into();
    for Selected { metric, labels } in &selected {
        let Some(family) = families.iter().find(|family| is_of(family, metric)) else {
            missing.push(format!("{metric} in {query}"));
            continue;
        };
        let mut names = family.labels();
        names.extend(ADDED);
        names.extend(Some("le").filter(|_| metric.ends_with("_bucket")));
        for (name, operator, value) in labels {
            let alternatives = value.split('|').filter(|_| LISTED.contains(name));
            let unknown = alternatives.filter(|value| !has_value(family, name, value));
            missing.extend(unknown.map(|value| format!("{metric}{{{name}{operator}\"{value}\"}} in {query}")));
            if !names.contains(name) {
                missing.push(format!("{metric}{{{name}}} in {query}"));
            }
        }
        known.extend(names);
    }
    missing.extend(groups.into_iter().filter(|label| !known.contains(label)).map(|l| format!("({l}) in {query}")));
    if selected.is_empty() && !query.starts_with("up{") {
        missing.push(format!("any metric in {query}"));
    }
    missing
}

/// Whether samples of the family are called so.
fn is_of(family: &Family, metric: &str) -> bool {
    match (family.kind, metric.strip_prefix(&*family.name)) {
        ("histogram", Some(suffix)) => ["_bucket", "_count", "_sum"].contains(&suffix),
        _ => family.query() == metric,
    }
}

fn has_value(family: &Family, label: &str, value: &str) -> bool {
    family.samples.iter().flat_map(|sample| &sample.labels).any(|(name, is)| name == label && is == value)
}

/// The metrics of a query with their labels, and the labels by which it groups.
fn read(query: &str) -> (Vec<Selected<'_>>, Vec<&str>) {
    let (mut selected, mut groups, mut rest) = (Vec::new(), Vec::new(), query);
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '"') {
        rest = &rest[start..];
        if let Some(quoted) = rest.strip_prefix('"') {
            rest = quoted.split_once('"').expect("a quote ends").1;
            continue;
        }
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        if ["sopan_", "process_"].iter().any(|prefix| word.starts_with(prefix)) {
            let labels = rest.strip_prefix('{').map(|labels| labels.split_once('}').expect("a brace ends"));
            let (labels, after) = labels.unwrap_or(("", rest));
            selected.push(Selected { metric: word, labels: matchers(labels) });
            rest = after;
        } else if let Some(list) = rest.trim_start().strip_prefix('(').filter(|_| GROUPS.contains(&word)) {
            let (list, after) = list.split_once(')').expect("a list ends");
            groups.extend(list.split(',').map(str::trim));
            rest = after;
        }
    }
    (selected, groups)
}

/// `a="b"`, `c=~"d|e"`: no value has a comma or a quote in it.
fn matchers(labels: &str) -> Vec<(&str, &str, &str)> {
    let matcher = |text: &'_ str| {
        let end = text.find(['=', '!']).expect("an operator");
        let quote = text.find('"').expect("a value");
        (text[..end].trim().len(), end, quote)
    };
    let all = labels.split(',').map(str::trim).filter(|text| !text.is_empty());
    all.map(|text| {
        let (name, end, quote) = matcher(text);
        (&text[..name], &text[end..quote], text[quote..].trim_matches('"'))
    })
    .collect()
}

#[test]
fn queries_are_read() {
    let query =
        r#"sum by (le, job) (rate(sopan_a_total{x="1", y=~"b|c"}[5m])) / on(x) sopan_b > 0.5 or "sopan_no" $__sopan"#;
    let (selected, groups) = read(query);
    let first = Selected { metric: "sopan_a_total", labels: vec![("x", "=", "1"), ("y", "=~", "b|c")] };
    assert_eq!(selected, [first, Selected { metric: "sopan_b", labels: vec![] }]);
    assert_eq!(groups, ["le", "job", "x"]);
}

#[test]
fn what_is_not_there_is_seen() {
    let text = "# TYPE sopan_a counter\nsopan_a_total{outcome=\"2xx\"} 1\n# TYPE sopan_h_seconds histogram\n# EOF\n";
    let families = sopan_fake::open_metrics::parse(text).unwrap();
    for (query, expected) in [
        (r#"sum by (outcome, job) (rate(sopan_a_total{outcome=~"2xx", instance="x"}[1m]))"#, None),
        ("sum by (le) (sopan_h_seconds_bucket) / ignoring (le) sopan_h_seconds_count", None),
        ("up{job=\"sopan\"}", None),
        ("sopan_a", Some("sopan_a in")),
        ("sopan_h_seconds", Some("sopan_h_seconds in")),
        (r#"sopan_a_total{outcome=~"2xx|3xx"}"#, Some("sopan_a_total{outcome=~\"3xx\"} in")),
        (r#"sopan_a_total{upstream!="x"}"#, Some("sopan_a_total{upstream} in")),
        ("sum by (upstream) (sopan_a_total)", Some("(upstream) in")),
        ("sum by (le) (sopan_a_total)", Some("(le) in")),
        ("vector(1)", Some("any metric in")),
    ] {
        let seen = missing(query, &families);
        assert_eq!(seen.len(), usize::from(expected.is_some()), "{query}: {seen:?}");
        assert!(expected.is_none_or(|expected| seen[0].starts_with(expected)), "{seen:?}");
    }
}
