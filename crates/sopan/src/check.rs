//! `sopan check`: what is wrong with a settings file, or what is in force and who said so.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json, json};
use sopan_core::policy::Limit;

use crate::cli;
use crate::config::{self, Format, Loaded, Origin, Place, Problem, Resolved, Section, Serve, Typed, Value, Wrong};
use crate::log::{Counted, Printable, printable_json};

/// What is told of a file.
pub(crate) struct Told {
    /// For standard output.
    pub(crate) out: String,
    /// For standard error, where anything is wrong or may not be meant so.
    pub(crate) wrong: Option<Wrong>,
    /// Whether `serve` takes it.
    pub(crate) is_right: bool,
}

/// Checks a file.
///
/// # Errors
/// What was typed is wrong; the file is another matter.
pub(crate) fn run(typed: &cli::Check) -> Result<Told, Wrong> {
    let format = config::format(&typed.format)?;
    let loaded = config::load(Some(&typed.file), &Typed::default());
    let is_right = loaded.serve.is_some();
    if format == Format::Json {
        let out = printable_json(&format!("{:#}\n", as_json(&typed.file, &loaded)));
        return Ok(Told { out, wrong: None, is_right });
    }
    let out = if is_right { as_text(&typed.file, &loaded) } else { String::new() };
    let wrong = Some(loaded.wrong).filter(|wrong| !wrong.problems.is_empty());
    Ok(Told { out, wrong, is_right })
}

/// Where things stand in the file.
struct Places<'f> {
    path: String,
    text: &'f str,
    /// Where each line begins.
    lines: Vec<usize>,
}

impl<'f> Places<'f> {
    fn of(loaded: &'f Loaded) -> Self {
        let source = &loaded.wrong.source;
        let breaks = source.text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            path: Printable(&source.path).to_string(),
            text: &source.text,
            lines: std::iter::once(0).chain(breaks).collect(),
        }
    }

    /// Line and column, both from 1; the column counts characters.
    fn position(&self, offset: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|begin| *begin <= offset);
        let begin = self.lines[line - 1];
        (line, self.text.get(begin..offset).unwrap_or_default().chars().count() + 1)
    }

    /// Where a value came from: `sopan.yaml:12`.
    fn origin(&self, origin: Origin, value: &Value) -> String {
        match (&value.place, origin) {
            (Place::File(span), Origin::Defaults) => {
                format!("{}:{} (defaults)", self.path, self.position(span.start).0)
            }
            (Place::File(span), _) => format!("{}:{}", self.path, self.position(span.start).0),
            (Place::Flag(flag), _) => flag.clone(),
            (Place::Default, _) => "default".to_owned(),
        }
    }
}

/// The values of a part, section by section, without those of a section that is off.
fn in_force(resolved: &Resolved) -> Vec<&(Origin, Value)> {
    let section = |value: &Value| {
        let of_switch = Section::INNER.into_iter().find(|section| section.key() == Some(value.setting.key));
        of_switch.unwrap_or(value.setting.section)
    };
    let is_off = |of: Section| {
        let values = resolved.values.iter().map(|(_, value)| value);
        // Nothing else of it matters then.
        let needs = match of {
            Section::Traces => Some("otlp"),
            Section::Redis => Some("url"),
            _ => None,
        };
        let is_there = |key: &str| values.clone().any(|value| (value.setting.section, value.setting.key) == (of, key));
        if needs.is_some_and(|key| !is_there(key)) {
            return true;
        }
        values.clone().any(|value| Some(value.setting.key) == of.key() && value.shown() == "off")
    };
    let mut values: Vec<_> = resolved.values.iter().collect();
    values.retain(|(_, value)| value.setting.kind.is_section() || !is_off(value.setting.section));
    values.sort_by_key(|(_, value)| section(value));
    values
}

fn as_text(file: &str, loaded: &Loaded) -> String {
    let places = Places::of(loaded);
    let mut parts = vec![(String::new(), &loaded.program)];
    parts.extend(loaded.upstreams.iter().map(|(name, resolved)| (format!("upstreams.{name}"), resolved)));
    parts.extend(loaded.clients.iter().map(|(name, resolved)| (format!("clients.{name}"), resolved)));
    parts.extend(loaded.jobs.iter().map(|(name, resolved)| (format!("jobs.{name}"), resolved)));
    let row = |(from, value): &(Origin, Value)| {
        (value.setting.path(), Printable(&value.shown()).to_string(), places.origin(*from, value))
    };
    let rows: Vec<_> = parts
        .iter()
        .map(|(title, resolved)| (title, in_force(resolved).into_iter().map(row).collect::<Vec<_>>()))
        .collect();
    let longest = |of: fn(&(String, String, String)) -> &str, max: usize| {
        rows.iter()
            .flat_map(|(_, rows)| rows)
            .map(|row| of(row).chars().count())
            .filter(|n| *n <= max)
            .max()
            .unwrap_or(0)
    };
    let (keys, values) = (longest(|row| &row.0, 30), longest(|row| &row.1, 40));
    let mut told = format!("{} can be used\n", Printable(file));
    for (title, rows) in &rows {
        let indent = if title.is_empty() { 0 } else { 2 };
        let heading = if title.is_empty() { String::new() } else { format!("{title}\n") };
        let _ = write!(told, "\n{heading}");
        for (key, value, from) in rows {
            let _ = writeln!(told, "{:indent$}{key:width$}  {value:values$}  {from}", "", width = keys + 2 - indent);
        }
    }
    if let Some(serve) = &loaded.serve {
        told += &alone(serve);
    }
    told
}

/// What each instance keeps to while it does not reach Redis.
fn alone(serve: &Serve) -> String {
    let Some(shared) = &serve.shared else { return String::new() };
    let Some(instances) = shared.going_alone.instances else {
        return "\nwithout Redis each instance keeps to its part of every limit, by the number of those that were there last; one \
                that has never reached it to all of it (redis.instances says how many there are)\n"
            .to_owned();
    };
    let mut told = format!("\nwithout Redis each of {} keeps to\n", Counted(instances.into(), "instance"));
    for config::Served { name, settings, .. } in &serve.upstreams {
        let parts: Vec<_> = settings.lane.limits.iter().map(|limit| part_of(limit, instances)).collect();
        let parts = if parts.is_empty() { "unlimited".to_owned() } else { parts.join(", ") };
        let _ = writeln!(told, "  upstreams.{name}  {parts}");
    }
    told
}

/// A limit, divided in so many parts: `2.5/s burst 5`.
fn part_of(limit: &Limit, parts: u32) -> String {
    let Limit::Rate(rate) = limit.share(parts) else { return limit.share(parts).to_string() };
    let (tokens, nanos) = rate.fraction();
    let unit = match rate.unit() {
        1_000_000_000 => "s",
        60_000_000_000 => "min",
        3_600_000_000_000 => "h",
        _ => "d",
    };
    let each = (tokens as f64 * rate.unit() as f64 / nanos as f64 * 1e4).round() / 1e4;
    match rate.burst() {
        1 => format!("{each}/{unit}"),
        burst => format!("{each}/{unit} burst {burst}"),
    }
}

/// What is in force, for whoever asks while it runs; nothing where anything is wrong.
pub(crate) fn in_force_of(file: Option<&str>, loaded: &Loaded) -> Json {
    if loaded.serve.is_none() {
        return Json::Null;
    }
    let mut told = parts(loaded);
    told.insert("file".to_owned(), json!(file));
    // What keys are known by is no key, but of one that somebody thought up it may be enough to guess it.
    for client in told.get_mut("clients").and_then(Json::as_object_mut).into_iter().flat_map(Map::values_mut) {
        for digest in client["key_sha256"]["value"].as_array_mut().into_iter().flatten() {
            *digest = json!(digest.as_str().unwrap_or_default().chars().take(8).chain(['…']).collect::<String>());
        }
    }
    Json::Object(told)
}

/// The values of the program, and those of each upstream and client.
fn parts(loaded: &Loaded) -> Map<String, Json> {
    let places = Places::of(loaded);
    let part = |resolved: &Resolved| {
        let entry = |(from, value): &(Origin, Value)| {
            let items: Vec<_> = value.items_shown().collect();
            let shown = if value.setting.kind.is_list() { json!(items) } else { json!(items.concat()) };
            (value.setting.path(), json!({"value": shown, "from": places.origin(*from, value)}))
        };
        Json::Object(resolved.values.iter().map(entry).collect::<Map<_, _>>())
    };
    let named = |named: &[(String, Resolved)]| {
        Json::Object(named.iter().map(|(name, of)| (name.clone(), part(of))).collect::<Map<_, _>>())
    };
    let parts = [
        ("settings", part(&loaded.program)),
        ("upstreams", named(&loaded.upstreams)),
        ("clients", named(&loaded.clients)),
        ("jobs", named(&loaded.jobs)),
    ];
    parts.into_iter().map(|(key, part)| (key.to_owned(), part)).collect()
}

fn as_json(file: &str, loaded: &Loaded) -> Json {
    let places = Places::of(loaded);
    let problem = |problem: &Problem| {
        let at = match &problem.place {
            Place::File(span) => Some(places.position(span.start)),
            Place::Flag(_) | Place::Default => None,
        };
        json!({
            "severity": problem.severity.name(),
            "key": problem.key,
            "line": at.map(|at| at.0),
            "column": at.map(|at| at.1),
            "message": problem.what,
            "help": problem.help,
        })
    };
    let problems: Vec<_> = loaded.wrong.problems.iter().map(problem).collect();
    let mut told = json!({"file": file, "ok": loaded.serve.is_some(), "problems": problems});
    if loaded.serve.is_some() {
        for (key, part) in parts(loaded) {
            told[key] = part;
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_limit_is_written_as_limits_are() {
        for (limit, parts, expected) in [
            ("10/s burst 20", 4, "2.5/s burst 5"),
            ("10/s", 3, "3.3333/s"),
            ("1/min burst 2", 4, "0.25/min"),
            ("1/d", 2, "0.5/d"),
            ("5000 per 1h", 3, "1666 per 1h"),
            ("2 per 1s", 3, "1 per 1s"),
        ] {
            assert_eq!(part_of(&limit.parse().unwrap(), parts), expected);
        }
    }

    #[test]
    fn while_it_runs_a_digest_is_told_only_as_far_as_it_takes_to_know_it_again() {
        let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
        let digest = "0123456789abcdef".repeat(4);
        let text = format!(
            "upstreams: {{ shop: {{ url: http://a.test }} }}\nclients: {{ etl: {{ key_sha256: {digest} }} }}\n"
        );
        std::fs::write(file.path(), text).unwrap();
        let path = file.path().to_str().unwrap();
        let loaded = config::load(Some(path), &Typed::default());
        let told = in_force_of(Some(path), &loaded);
        assert_eq!(told["clients"]["etl"]["key_sha256"]["value"], json!(["01234567…"]));
        assert_eq!(told["upstreams"]["shop"]["url"]["value"], "http://a.test");
        assert!(!told.to_string().contains(&digest), "{told}");
    }
}
