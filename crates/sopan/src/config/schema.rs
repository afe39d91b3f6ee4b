//! The JSON Schema of settings files (draft 2020-12), made from the table, for editors that complete and check.
//!
//! It says what a value looks like. What only the program can know, whether values fit each other and files exist, it leaves
//! to `sopan check`.

use serde_json::{Map, Value, json};

use super::setting::{KEY_FIELDS, Kind, Section, Setting};
use super::table;

/// The schema as text.
pub(crate) fn schema() -> String {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:sopan:settings",
        "title": "Settings of sopan, a polite HTTP proxy",
        "type": "object",
        "additionalProperties": false,
        "required": ["upstreams"],
        "properties": top(),
        "$defs": {
            "upstream": upstream(true),
            "defaults": upstream(false),
            "client": client(),
            "job": job(),
            "stand_in": {
                "description": "${NAME} stands for a variable of the environment, ${NAME:-text} for text where there is \
                                none, ${file:PATH} for what is in a file, $$ for a dollar sign.",
                "type": "string",
                "pattern": "\\$",
            },
        },
    });
    format!("{schema:#}\n")
}

fn top() -> Map<String, Value> {
    let mut properties = of(Section::Program);
    properties.insert(
        "traces".to_owned(),
        json!({
            "description": "Which requests are told of in traces, and where those go.",
            "type": "object",
            "additionalProperties": false,
            "properties": of(Section::Traces),
        }),
    );
    properties.insert(
        "redis".to_owned(),
        json!({
            "description": "Where instances of sopan in front of one API share its limits.",
            "type": "object",
            "additionalProperties": false,
            "properties": of(Section::Redis),
        }),
    );
    properties.insert(
        "defaults".to_owned(),
        json!({
            "description": "What counts for every upstream that does not say otherwise.",
            "$ref": "#/$defs/defaults",
        }),
    );
    properties.insert(
        "upstreams".to_owned(),
        json!({
            "description": "The APIs that requests go to, each by a name of yours that logs and metrics use.",
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": "^[A-Za-z0-9_-]{1,64}$", "not": {"const": "none"}},
            "additionalProperties": {"$ref": "#/$defs/upstream"},
        }),
    );
    properties.insert(
        "clients".to_owned(),
        json!({
            "description": "Who may ask, each by a name of yours that logs and metrics use. With it every request needs a key.",
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": "^[A-Za-z0-9_-]{1,64}$", "not": {"enum": ["none", "other"]}},
            "additionalProperties": {"$ref": "#/$defs/client"},
        }),
    );
    properties.insert(
        "jobs".to_owned(),
        json!({
            "description": "Collections that `sopan fetch --job NAME` gets, each by a name of yours.",
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": "^[A-Za-z0-9_-]{1,64}$", "not": {"const": "all"}},
            "additionalProperties": {"$ref": "#/$defs/job"},
        }),
    );
    properties
}

fn job() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["path", "out"],
        "properties": of(Section::Job),
    })
}

fn client() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["key_sha256"],
        "properties": of(Section::Client),
    })
}

fn upstream(is_one: bool) -> Value {
    let mut properties = of(Section::Upstream);
    if !is_one {
        properties.retain(|key, _| !matches!(key.as_str(), "url" | "route"));
    }
    let sections = Section::INNER.into_iter().filter(|section| is_one || *section != Section::Credential);
    for section in sections {
        let Some(key) = section.key() else { continue };
        let inner = json!({"type": "object", "additionalProperties": false, "properties": of(section)});
        let switch = properties.remove(key);
        let value = match switch {
            None => inner,
            Some(switch) => {
                let description = switch["description"].clone();
                json!({"description": description, "anyOf": [inner, {"enum": ["on", "off", true, false]}]})
            }
        };
        properties.insert(key.to_owned(), value);
    }
    let mut schema = json!({"type": "object", "additionalProperties": false, "properties": properties});
    if is_one {
        schema["required"] = json!(["url"]);
    }
    schema
}

fn of(section: Section) -> Map<String, Value> {
    let settings = table::settings().filter(|setting| setting.section == section && setting.in_file);
    settings.map(|setting| (setting.key.to_owned(), one(setting))).collect()
}

fn one(setting: &Setting) -> Value {
    if setting.kind == Kind::SecretFields {
        let value = json!({"type": ["string", "number", "boolean"]});
        return json!({"description": setting.paragraph(), "type": "object", "additionalProperties": value});
    }
    let mut forms = forms(setting.kind);
    forms.push(json!({"$ref": "#/$defs/stand_in"}));
    let item = json!({"anyOf": forms});
    let mut schema =
        if setting.kind.is_list() { json!({"anyOf": [{"type": "array", "items": item.clone()}, item]}) } else { item };
    schema["description"] = json!(setting.paragraph());
    if let Some(default) = setting.default {
        schema["default"] = json!(default);
    }
    schema
}

/// What a single value may look like.
fn forms(kind: Kind) -> Vec<Value> {
    let text = |pattern: &str| json!({"type": "string", "pattern": pattern});
    let words = |words: &[&str]| json!({"enum": words});
    let duration = || {
        vec![
            json!({"type": "number", "minimum": 0}),
            text("^\\s*([0-9]+(\\.[0-9]+)?\\s*(ns|us|ms|s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)?)+\\s*$"),
        ]
    };
    let count = || vec![json!({"type": "integer", "minimum": 0}), text("^[0-9]+$")];
    let with = |mut forms: Vec<Value>, word: &str| {
        forms.push(words(&[word]));
        forms
    };
    match kind {
        Kind::Duration => duration(),
        Kind::DurationOr(word) => with(duration(), word),
        Kind::Count => count(),
        Kind::CountOr(word) => with(count(), word),
        Kind::Number => vec![json!({"type": "number"}), text("^[0-9.]+$")],
        Kind::Size => vec![json!({"type": "integer", "minimum": 0}), text("^[0-9]+ ?([kKMGT]i?B|B)?$")],
        Kind::Percent => vec![text("^[0-9]+(\\.[0-9]+)?%$")],
        Kind::Switch | Kind::Flag | Kind::Section | Kind::InlineSection => {
            vec![json!({"enum": ["on", "off", true, false]})]
        }
        Kind::OneOf(one_of) => vec![words(one_of)],
        Kind::Address => vec![text("^.+:[0-9]+$")],
        Kind::AddressOr(word) => with(vec![text("^.+:[0-9]+$")], word),
        Kind::Url => vec![text("^https?://")],
        Kind::RedisUrl => vec![text("^(redis|valkey)s?(-sentinel|-cluster)?://")],
        Kind::ClientBy => vec![text("^(ip|connection|header:.+)$")],
        Kind::Route
        | Kind::File
        | Kind::Directory
        | Kind::Names
        | Kind::Word
        | Kind::Like { .. }
        | Kind::SecretFields => {
            vec![json!({"type": "string", "minLength": 1})]
        }
        Kind::Limits => {
            vec![text("^(unlimited|[0-9.]+/(s|sec|second|m|min|minute|h|hour|d|day)s?( burst [0-9]+)?|[0-9]+ per .+)$")]
        }
        Kind::Field | Kind::SchemeOr(_) => vec![text("^[A-Za-z0-9!#%&'*+.^_`|~-]+$")],
        Kind::Variable => vec![text("^[A-Za-z_][A-Za-z0-9_]*$")],
        Kind::Parameter => vec![json!({"type": "string", "minLength": 1})],
        Kind::Fields => vec![text("^[A-Za-z0-9!#%&'*+.^_`|~-]+$")],
        Kind::PathRules => vec![text("^\\s*/\\S*\\s+(bypass|default-ttl\\s+\\S+|revalidate\\s+(stale|always))\\s*$")],
        Kind::Digests => vec![text("^\\s*[0-9A-Fa-f]{64}\\s*$")],
        Kind::KeyFields => vec![words(&KEY_FIELDS)],
        Kind::Upstreams => vec![text("^[A-Za-z0-9_-]{1,64}$")],
        Kind::Pointers => vec![text("^(/.*)?$")],
        Kind::Methods => vec![text("^[A-Z-]+$")],
        Kind::Prefixes => vec![text("^/[^?#*]*$")],
        Kind::End => vec![text("^[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt].+)?$")],
        Kind::Statuses => vec![json!({"type": "integer", "minimum": 400, "maximum": 599}), text("^[45][0-9]{2}$")],
    }
}
