//! A settings file: which of its keys are settings, where each stands, and all that has no place there.
//!
//! The tree of the file is walked once, and every key held against the table. What cannot stand where it stands is told and
//! passed over, so that the rest is looked at too. Whether a value is right is for [`super::layer`], and whether values fit
//! each other for [`super::resolve`].

mod clients;
mod fields;
mod jobs;
mod meant;
mod nearest;
mod stand_in;

use std::fs;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

pub(in crate::config) use nearest::nearest;

use super::layer::{Item, Layer, Origin, Value};
use super::problem::{Place, Problem, Source};
use super::read::{is_secret_for_file, upstream_name};
use super::setting::{Kind, Section, Setting};
use super::table;
use super::tree::{self, Form, Key, Node};
use meant::{Part, meant};
use nearest::plain;
use stand_in::resolve;

/// The largest file; one with a thousand upstreams is smaller.
const BYTES_MAX: u64 = 1 << 20;
/// The most upstreams of a program.
const UPSTREAMS_MAX: usize = 1000;
/// The most values of one list.
const ITEMS_MAX: usize = 1000;
/// What all that stands for something else may come to, together.
const STOOD_MAX: usize = BYTES_MAX as usize;
/// So many problems are gathered; a file with more of them is something else.
pub(super) const PROBLEMS_MAX: usize = 1000;

/// What a file says.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) source: Source,
    pub(crate) program: Layer,
    pub(crate) defaults: Layer,
    pub(crate) upstreams: Vec<Named>,
    /// None if it does not speak of clients.
    pub(crate) clients: Option<Vec<Named>>,
    pub(crate) jobs: Vec<Named>,
    pub(crate) problems: Vec<Problem>,
}

/// An upstream of a file, a client or a job.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) layer: Layer,
}

impl File {
    /// Reads a file, and tells all that is wrong with its form.
    pub(crate) fn read(path: &str) -> Self {
        match text_of(path) {
            Ok(text) => Self::of(Source { path: path.to_owned(), text }),
            Err(why) => {
                let mut file = Self::empty(Source { path: path.to_owned(), text: String::new() });
                file.problems.push(Problem::error(Place::Flag(path.to_owned()), "", why));
                file
            }
        }
    }

    fn empty(source: Source) -> Self {
        Self {
            source,
            program: Layer::new(Origin::File, ""),
            defaults: Layer::new(Origin::Defaults, "defaults"),
            upstreams: Vec::new(),
            clients: None,
            jobs: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// The same of a text that is there already.
    pub(crate) fn of(source: Source) -> Self {
        let Some(form) = Form::of(&source.path) else {
            let why = "its name does not say how to read it; let it end in .yaml, .yml, .toml or .json";
            let place = Place::Flag(source.path.clone());
            let mut file = Self::empty(source);
            file.problems.push(Problem::error(place, "", why));
            return file;
        };
        let tree = tree::read(&source, form);
        let directory = Path::new(&source.path).parent().map(Path::to_owned).unwrap_or_default();
        let mut reader = Reader { file: Self::empty(source), directory, stood: 0, hidden: Vec::new() };
        match tree {
            Ok(root) => reader.top(&root),
            Err(faults) => {
                let problem = |fault: tree::Fault| Problem::error(Place::File(fault.span), "", fault.what);
                reader.file.problems.extend(faults.into_iter().map(problem));
            }
        }
        if !reader.hidden.is_empty() {
            reader.file.source.text = fields::without(&reader.file.source.text, &reader.hidden);
        }
        reader.file
    }
}

fn text_of(path: &str) -> Result<String, String> {
    let bytes = read_up_to(Path::new(path), BYTES_MAX).map_err(|why| format!("it {why}"))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let line = error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
            Err(format!("it is no UTF-8 text: line {line} has bytes that mean nothing; save it as UTF-8"))
        }
    }
}

/// A whole file, if it has up to `max` bytes; the message goes on from "it" or "the file".
fn read_up_to(path: &Path, max: u64) -> Result<Vec<u8>, String> {
    // Nobody may ever write into a pipe. A directory says itself what it is.
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return Err("is a pipe or a device, which may never end; save what it holds in a file".to_owned());
    }
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(max + 1).read_to_end(&mut bytes));
    match read {
        Ok(_) if bytes.len() as u64 > max => Err(format!("is longer than {max} bytes, which is the most that is read")),
        Ok(_) => Ok(bytes),
        Err(error) => Err(format!("cannot be read: {error}")),
    }
}

/// The keys of a file that lead to others.
const UPSTREAMS: &str = "upstreams";
const DEFAULTS: &str = "defaults";
const CLIENTS: &str = "clients";
const JOBS: &str = "jobs";
const TRACES: &str = "traces";
const REDIS: &str = "redis";
/// What each upstream has of its own.
const OWN: [&str; 3] = ["url", "route", "credential"];

struct Reader {
    file: File,
    /// What paths in the file are relative to.
    directory: PathBuf,
    /// Bytes of what something stood for.
    stood: usize,
    /// What must not be shown, whatever is wrong near it.
    hidden: Vec<Range<usize>>,
}

impl Reader {
    fn tell(&mut self, span: &Range<usize>, key: impl Into<String>, why: impl std::fmt::Display) {
        if self.file.problems.len() < PROBLEMS_MAX {
            self.file.problems.push(Problem::error(Place::File(span.clone()), key, why));
        }
    }

    /// The entries of a map, of which `example` is one; where something else stands, that is told.
    fn entries<'n>(&mut self, node: &'n Node, key: &str, span: &Range<usize>, example: &str) -> &'n [(Key, Node)] {
        let at = if node.span.is_empty() { span } else { &node.span };
        match &node.value {
            tree::Value::Map(entries) => return entries,
            tree::Value::Nothing => self.tell(at, key, format!("there is nothing in it; write {example} below it")),
            tree::Value::Text(_) => {
                self.tell(at, key, format!("it takes no value, but settings of its own; write {example} below it"));
            }
            tree::Value::List(_) => {
                // `[[upstreams.shop]]` is the name of a list in TOML.
                let brackets = if Form::of(&self.file.source.path) == Some(Form::Toml) && !key.is_empty() {
                    format!("[{key}] in single brackets, and ")
                } else {
                    String::new()
                };
                let why = format!("it takes no list, but settings by their names; write {brackets}{example} below it");
                self.tell(span, key, why);
            }
        }
        &[]
    }

    /// Whoever writes `credential: {}` believes that a key is sent.
    fn not_idle(&mut self, node: &Node, key: &str, example: &str) {
        if matches!(&node.value, tree::Value::Map(entries) if entries.is_empty()) {
            self.tell(&node.span, key, format!("there is nothing in it; write {example} below it"));
        }
    }

    fn top(&mut self, root: &Node) {
        const EXAMPLE: &str = "upstreams:, below it a name of yours for an API, and below that its url: https://…";
        if root.value == tree::Value::Nothing {
            return self.tell(&(0..0), "", format!("the file is empty; write {EXAMPLE}"));
        }
        let tree::Value::Map(entries) = &root.value else {
            return self.tell(&root.span, "", format!("the file must hold settings by their names; write {EXAMPLE}"));
        };
        let mut has_upstreams = false;
        let mut program = Layer::new(Origin::File, "");
        for (key, node) in entries {
            match key.text.as_str() {
                UPSTREAMS => {
                    has_upstreams = true;
                    self.upstreams(node, &key.span);
                }
                DEFAULTS => self.defaults(node, &key.span),
                CLIENTS => self.clients(node, &key.span),
                JOBS => self.jobs(node, &key.span),
                TRACES => self.traces(node, &key.span, &mut program),
                REDIS => self.redis(node, &key.span, &mut program),
                _ => {
                    let inner = &[UPSTREAMS, DEFAULTS, CLIENTS, TRACES, REDIS, JOBS];
                    let meant =
                        self.entry(&mut Part { section: Section::Program, layer: &mut program, inner }, key, node);
                    has_upstreams |= meant == Some(UPSTREAMS);
                }
            }
        }
        self.file.program = program;
        if !has_upstreams {
            self.tell(&(0..0), "", format!("there are no upstreams; write {EXAMPLE}"));
        }
    }

    fn defaults(&mut self, node: &Node, span: &Range<usize>) {
        let mut layer = Layer::new(Origin::Defaults, DEFAULTS);
        for entry in self.entries(node, DEFAULTS, span, "for example total_timeout: 60s") {
            // It is no value, as those below are that are taken out again.
            if Some(&*entry.0.text) == Section::Credential.key() {
                let why = "it cannot be a default, since it would give the key of one API to all; write it below the upstream \
                           that it is for";
                self.tell(&entry.0.span, format!("{DEFAULTS}.credential"), why);
                continue;
            }
            self.of_upstream(entry, &mut layer);
        }
        for own in OWN {
            let Some(at) = layer.values.iter().position(|value| value.setting.key == own) else { continue };
            let value = layer.values.remove(at);
            let why = format!("`{own}` cannot be a default, since each upstream has its own; write it below upstreams");
            let name = layer.name(value.setting);
            self.file.problems.push(Problem::error(value.place, name, why));
        }
        self.file.defaults = layer;
    }

    fn traces(&mut self, node: &Node, span: &Range<usize>, layer: &mut Layer) {
        const EXAMPLE: &str = "for example otlp: http://127.0.0.1:4318/v1/traces";
        self.not_idle(node, TRACES, EXAMPLE);
        for (key, node) in self.entries(node, TRACES, span, EXAMPLE) {
            self.entry(&mut Part { section: Section::Traces, layer, inner: &[] }, key, node);
        }
    }

    fn redis(&mut self, node: &Node, span: &Range<usize>, layer: &mut Layer) {
        // Its URL may hold a password, also where it stands in the place of settings.
        let before = self.file.problems.len();
        for (key, node) in self.entries(node, REDIS, span, "for example url: redis://127.0.0.1:6379") {
            self.entry(&mut Part { section: Section::Redis, layer, inner: &[] }, key, node);
        }
        if let tree::Value::Text(_) | tree::Value::List(_) = &node.value {
            let place = Place::File(node.span.clone());
            let told = self.file.problems.split_off(before);
            self.file.problems.extend(told.into_iter().map(|problem| problem.hiding(&place)));
        }
    }

    fn upstreams(&mut self, node: &Node, span: &Range<usize>) {
        let entries = self.entries(node, UPSTREAMS, span, "a name for each, and its url");
        if matches!(&node.value, tree::Value::Map(entries) if entries.is_empty()) {
            self.tell(span, UPSTREAMS, "there is none; write at least one, with its url");
        }
        if entries.len() > UPSTREAMS_MAX {
            let why = format!(
                "there are {} of them, and one program takes up to {UPSTREAMS_MAX}; start several programs",
                entries.len()
            );
            return self.tell(span, UPSTREAMS, why);
        }
        for (key, node) in entries {
            self.upstream(key, node);
        }
    }

    fn upstream(&mut self, key: &Key, node: &Node) {
        let path = format!("{UPSTREAMS}.{}", key.text);
        if let Err(why) = upstream_name(&key.text) {
            self.tell(&key.span, UPSTREAMS, why);
        }
        let mut layer = Layer::new(Origin::File, path.clone());
        let mut has_url = false;
        for entry in self.entries(node, &path, &key.span, "url: https://api.example.com or the like") {
            has_url |= self.of_upstream(entry, &mut layer) == Some("url");
        }
        match &node.value {
            tree::Value::Map(_) if has_url => {}
            tree::Value::Map(_) => {
                let why = "it has no url; write where the API is, for example url: https://api.example.com";
                self.tell(&key.span, path, why);
            }
            _ => layer.unread.extend(OWN),
        }
        let place = Place::File(key.span.clone());
        self.file.upstreams.push(Named { name: key.text.clone(), place, layer });
    }

    /// An entry of an upstream, or of the defaults of all. Answers with the key that was meant, if one was.
    fn of_upstream(&mut self, (key, node): &(Key, Node), layer: &mut Layer) -> Option<&'static str> {
        const INNER: [&str; 2] = ["queue", "credential"];
        let Some(section) = Section::INNER.into_iter().find(|section| section.key() == Some(&*key.text)) else {
            return self.entry(&mut Part { section: Section::Upstream, layer, inner: &INNER }, key, node);
        };
        let switch = table::find(Section::Upstream, &key.text);
        let mut inside = table::settings().filter(|setting| setting.section == section);
        let written = |setting: &Setting| {
            format!("for example {}: {}", setting.key, setting.default.unwrap_or(setting.example()))
        };
        let example = inside.find(|setting| setting.default.is_some() || section == Section::Credential).map(written);
        let example = example.unwrap_or_default();
        match (&node.value, switch) {
            // `breaker: off`
            (tree::Value::Text(text), Some(_)) if is_switch(text) => {
                return self.entry(&mut Part { section: Section::Upstream, layer, inner: &INNER }, key, node);
            }
            (tree::Value::Text(text), Some(_)) => {
                let name = format!("{}.{}", layer.path, key.text);
                self.tell(&node.span, name, format!("`{text}` is not allowed; write on or off, or {example} below it"));
                return section.key();
            }
            _ => {}
        }
        let path = format!("{}.{}", layer.path, key.text);
        if section == Section::Credential {
            self.not_idle(node, &path, &example);
        }
        for (key, node) in self.entries(node, &path, &key.span, &example) {
            self.entry(&mut Part { section, layer, inner: &[] }, key, node);
        }
        // Whoever settles how it is means that it is.
        if let Some(switch) = switch
            && layer.has(section)
        {
            layer.values.push(Value::one(switch, Item::new("on", Place::File(key.span.clone()))));
        }
        section.key()
    }

    /// A key that must be a setting. Answers with the key that was meant, if one was.
    fn entry(&mut self, part: &mut Part<'_>, key: &Key, node: &Node) -> Option<&'static str> {
        let Some(setting) = table::find(part.section, &key.text) else { return self.unknown(part, key, node) };
        let name = part.layer.name(setting);
        match self.value(setting, &name, key, node) {
            Some(value) => part.layer.values.push(value),
            None => part.layer.unread.push(setting.key),
        }
        Some(setting.key)
    }

    fn unknown(&mut self, part: &Part<'_>, key: &Key, node: &Node) -> Option<&'static str> {
        if self.file.problems.len() >= PROBLEMS_MAX {
            return None;
        }
        let path = match (part.layer.path.is_empty(), part.section.key()) {
            (true, section) => section.unwrap_or_default().to_owned(),
            (false, None) => part.layer.path.clone(),
            (false, Some(section)) => format!("{}.{section}", part.layer.path),
        };
        let of_defaults = part.layer.origin == Origin::Defaults;
        let known: Vec<_> = table::settings()
            .filter(|setting| setting.section == part.section && setting.in_file)
            .map(|setting| setting.key)
            .chain(part.inner.iter().copied())
            .filter(|key| !of_defaults || !OWN.contains(key))
            .collect();
        let (meant, help) = meant(part, &key.text, &known);
        let why = format!("there is no setting `{}` here; {help}", key.text);
        let problem = Problem::error(Place::File(key.span.clone()), path, why);
        // Some write the key itself, and not what it is known by, or where it is.
        let is_key = match part.section {
            Section::Client => plain(&key.text).contains("key"),
            Section::Traces => ["key", "header", "auth", "token"].iter().any(|word| plain(&key.text).contains(word)),
            section => section == Section::Credential,
        };
        self.file.problems.push(if is_key { problem.hiding(&Place::File(node.span.clone())) } else { problem });
        meant
    }

    fn value(&mut self, setting: &'static Setting, name: &str, key: &Key, node: &Node) -> Option<Value> {
        if setting.kind == Kind::SecretFields {
            return self.fields(setting, name, key, node);
        }
        let at = if node.span.is_empty() { &key.span } else { &node.span };
        let place = Place::File(at.clone());
        let allowed = || format!("write {}", setting.kind.allowed());
        let nodes = match &node.value {
            tree::Value::Nothing => {
                self.tell(at, name, format!("it has no value; {}, or leave it away", allowed()));
                return None;
            }
            tree::Value::Map(_) if setting.kind.is_list() => {
                self.tell(
                    &key.span,
                    name,
                    format!("it takes a value or a list, and no settings of its own; {}", allowed()),
                );
                return None;
            }
            tree::Value::Map(_) => {
                self.tell(&key.span, name, format!("it takes one value, and no settings of its own; {}", allowed()));
                return None;
            }
            tree::Value::List(_) if !setting.kind.is_list() => {
                self.tell(&key.span, name, format!("it takes one value, and no list; {}", allowed()));
                return None;
            }
            tree::Value::List(items) if items.is_empty() && setting.kind == Kind::Limits => {
                self.tell(&key.span, name, "there is none; write unlimited if that is meant, or leave it away");
                return None;
            }
            // Where nothing said means everything, nothing listed must not.
            tree::Value::List(items)
                if items.is_empty() && (setting.section == Section::Client || setting.kind == Kind::KeyFields) =>
            {
                let or = if setting.kind == Kind::Digests { "" } else { ", or leave it away, which means all of them" };
                self.tell(&key.span, name, format!("there is none; {}{or}", allowed()));
                return None;
            }
            tree::Value::List(items) if items.len() > ITEMS_MAX => {
                let count = items.len();
                self.tell(&key.span, name, format!("there are {count} of them; write {ITEMS_MAX} at most"));
                return None;
            }
            tree::Value::List(items) => items.as_slice(),
            tree::Value::Text(_) => std::slice::from_ref(node),
        };
        let mut items = Vec::new();
        for node in nodes {
            if let tree::Value::Text(text) = &node.value {
                items.extend(self.item(setting, name, text, &node.span));
            } else {
                let at = if node.span.is_empty() { &key.span } else { &node.span };
                self.tell(at, name, format!("every item must be a single value; {}", allowed()));
            }
        }
        (items.len() == nodes.len() || !items.is_empty()).then_some(Value { setting, items, place })
    }

    fn item(&mut self, setting: &Setting, name: &str, text: &str, span: &Range<usize>) -> Option<Item> {
        let place = Place::File(span.clone());
        if self.stood > STOOD_MAX {
            return None;
        }
        let mut item = match resolve(text, &self.directory) {
            Ok(None) => Item::new(text, place),
            Ok(Some(resolved)) => {
                self.stood += resolved.len();
                if self.stood > STOOD_MAX {
                    let why = format!(
                        "what stands for variables and files is longer than {STOOD_MAX} bytes in all; shorten it"
                    );
                    self.tell(span, name, why);
                    return None;
                }
                Item { text: resolved, written: Some(text.to_owned()), place }
            }
            Err(why) => {
                self.tell(span, name, why);
                return None;
            }
        };
        match setting.kind {
            // What YAML and JSON call so.
            Kind::Switch | Kind::Flag | Kind::Section | Kind::InlineSection if item.text == "true" => {
                item.text = "on".to_owned();
            }
            Kind::Switch | Kind::Flag | Kind::Section | Kind::InlineSection if item.text == "false" => {
                item.text = "off".to_owned();
            }
            Kind::File if item.text.contains("-----BEGIN") => {
                self.tell(
                    span,
                    name,
                    "it takes the path of a file, and not what is in it; save that, and write its path",
                );
                return None;
            }
            Kind::File | Kind::Directory => {
                let path = self.directory.join(&item.text);
                let holds_secret = setting.section == Section::Credential || setting.key == "admin_token_file";
                if holds_secret && is_secret_for_file(&item.text, &path) {
                    let why = "there is no such file; write one with the secret, and its name here, not the secret";
                    let problem = Problem::error(item.place.clone(), name, why);
                    self.file.problems.push(problem.hiding(&item.place));
                    return None;
                }
                item.text = path.to_string_lossy().into_owned();
            }
            _ => {}
        }
        Some(item)
    }
}

/// Whether a text says whether.
fn is_switch(text: &str) -> bool {
    matches!(text, "on" | "off" | "true" | "false") || text.contains('$')
}
