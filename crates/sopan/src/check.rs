//! `sopan check`: what is wrong with a settings file, or what is in force and who said so.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json, json};

use crate::cli;
use crate::config::{self, Loaded, Origin, Place, Problem, Resolved, Typed, Value, Wrong};

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
    let is_json = config::is_json(&typed.format)?;
    let loaded = config::load(Some(&typed.file), &Typed::default());
    let is_right = loaded.serve.is_some();
    if is_json {
        let out = format!("{:#}\n", as_json(&typed.file, &loaded));
        return Ok(Told { out, wrong: None, is_right });
    }
    let out = if is_right { as_text(&typed.file, &loaded) } else { String::new() };
    let wrong = Some(loaded.wrong).filter(|wrong| !wrong.problems.is_empty());
    Ok(Told { out, wrong, is_right })
}

/// Where a value came from: `sopan.yaml:12`.
fn origin(origin: Origin, value: &Value, loaded: &Loaded) -> String {
    let line = |span: &std::ops::Range<usize>| loaded.wrong.source.position(span.start).0;
    match (&value.place, origin) {
        (Place::File(span), Origin::Defaults) => format!("{}:{} (defaults)", loaded.wrong.source.path, line(span)),
        (Place::File(span), _) => format!("{}:{}", loaded.wrong.source.path, line(span)),
        (Place::Flag(flag), _) => flag.clone(),
        (Place::Default, _) => "default".to_owned(),
    }
}

fn as_text(file: &str, loaded: &Loaded) -> String {
    let mut parts = vec![(String::new(), &loaded.program)];
    parts.extend(loaded.upstreams.iter().map(|(name, resolved)| (format!("upstreams.{name}"), resolved)));
    let rows: Vec<_> = parts
        .iter()
        .map(|(title, resolved)| {
            let row =
                |(from, value): &(Origin, Value)| (value.setting.path(), value.shown(), origin(*from, value, loaded));
            (title, resolved.values.iter().map(row).collect::<Vec<_>>())
        })
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
    let mut told = format!("{file} can be used\n");
    for (title, rows) in &rows {
        let indent = if title.is_empty() { 0 } else { 2 };
        let heading = if title.is_empty() { String::new() } else { format!("{title}\n") };
        let _ = write!(told, "\n{heading}");
        for (key, value, from) in rows {
            let _ = writeln!(told, "{:indent$}{key:width$}  {value:values$}  {from}", "", width = keys + 2 - indent);
        }
    }
    told
}

fn as_json(file: &str, loaded: &Loaded) -> Json {
    let part = |resolved: &Resolved| {
        let entry = |(from, value): &(Origin, Value)| {
            let items: Vec<_> = value.items.iter().map(|item| item.shown()).collect();
            let shown = if value.setting.kind.is_list() { json!(items) } else { json!(items.concat()) };
            (value.setting.path(), json!({"value": shown, "from": origin(*from, value, loaded)}))
        };
        Json::Object(resolved.values.iter().map(entry).collect::<Map<_, _>>())
    };
    let upstreams: Map<_, _> = loaded.upstreams.iter().map(|(name, of)| (name.clone(), part(of))).collect();
    let problem = |problem: &Problem| {
        let at = match &problem.place {
            Place::File(span) => Some(loaded.wrong.source.position(span.start)),
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
        told["settings"] = part(&loaded.program);
        told["upstreams"] = Json::Object(upstreams);
    }
    told
}
