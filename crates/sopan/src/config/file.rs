//! A settings file: which of its keys are settings, where each stands, and all that has no place there.

mod nearest;
mod stand_in;

use std::fs;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::layer::{Item, Layer, Origin, Value};
use super::problem::{Place, Problem, Source};
use super::setting::{Kind, Section, Setting};
use super::table;
use super::tree::{self, Form, Key, Node};
use nearest::nearest;
use stand_in::resolve;

/// The largest file; one with a thousand upstreams is smaller.
const BYTES_MAX: u64 = 1 << 20;
/// The most upstreams of a program.
const UPSTREAMS_MAX: usize = 1000;

/// What a file says.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) source: Source,
    pub(crate) program: Layer,
    pub(crate) defaults: Layer,
    pub(crate) upstreams: Vec<Named>,
    pub(crate) problems: Vec<Problem>,
}

/// An upstream of a file.
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
            problems: Vec::new(),
        }
    }

    /// The same of a text that is there already.
    pub(crate) fn of(source: Source) -> Self {
        let Some(form) = Form::of(&source.path) else {
            let why = "it is not known how to read it; its name must end in .yaml, .yml, .toml or .json";
            let place = Place::Flag(source.path.clone());
            let mut file = Self::empty(source);
            file.problems.push(Problem::error(place, "", why));
            return file;
        };
        let tree = tree::read(&source, form);
        let directory = Path::new(&source.path).parent().map(Path::to_owned).unwrap_or_default();
        let mut reader = Reader { file: Self::empty(source), directory };
        match tree {
            Ok(root) => reader.top(&root),
            Err(faults) => {
                let problem = |fault: tree::Fault| Problem::error(Place::File(fault.span), "", fault.what);
                reader.file.problems.extend(faults.into_iter().map(problem));
            }
        }
        reader.file
    }
}

fn text_of(path: &str) -> Result<String, String> {
    let bytes = read_up_to(Path::new(path), BYTES_MAX).map_err(|why| format!("it {why}"))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)),
        Err(error) => Err(format!("it is no UTF-8 text, from byte {} on", error.utf8_error().valid_up_to())),
    }
}

/// A whole file, if it has up to `max` bytes; the message goes on from "it" or "the file".
fn read_up_to(path: &Path, max: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(max + 1).read_to_end(&mut bytes));
    match read {
        Ok(_) if bytes.len() as u64 > max => Err(format!("is longer than {max} bytes")),
        Ok(_) => Ok(bytes),
        Err(error) => Err(format!("cannot be read: {error}")),
    }
}

/// The keys of a file that lead to others.
const UPSTREAMS: &str = "upstreams";
const DEFAULTS: &str = "defaults";

struct Reader {
    file: File,
    /// What paths in the file are relative to.
    directory: PathBuf,
}

/// A part of the file that holds settings.
struct Part<'p> {
    section: Section,
    layer: &'p mut Layer,
    /// Its keys that are no settings.
    inner: &'p [&'static str],
}

impl Reader {
    fn tell(&mut self, span: &Range<usize>, key: impl Into<String>, why: impl std::fmt::Display) {
        self.file.problems.push(Problem::error(Place::File(span.clone()), key, why));
    }

    /// The entries of a map; where something else stands, that is told.
    fn entries<'n>(&mut self, node: &'n Node, key: &str, span: &Range<usize>) -> &'n [(Key, Node)] {
        match &node.value {
            tree::Value::Map(entries) => entries,
            tree::Value::Nothing => {
                self.tell(span, key, "there is nothing in it; write its settings below it, further to the right");
                &[]
            }
            tree::Value::Text(_) | tree::Value::List(_) => {
                let at = if node.span.is_empty() { span } else { &node.span };
                self.tell(at, key, "it must hold settings, each a key with a value");
                &[]
            }
        }
    }

    fn top(&mut self, root: &Node) {
        if root.value == tree::Value::Nothing {
            return self.tell(
                &(0..0),
                "",
                "the file is empty; write at least one upstream below `upstreams`, with its url",
            );
        }
        let mut has_upstreams = false;
        let mut program = Layer::new(Origin::File, "");
        for (key, node) in self.entries(root, "", &(0..0)) {
            match key.text.as_str() {
                UPSTREAMS => {
                    has_upstreams = true;
                    self.upstreams(node, &key.span);
                }
                DEFAULTS => {
                    let mut layer = Layer::new(Origin::Defaults, DEFAULTS);
                    for entry in self.entries(node, DEFAULTS, &key.span) {
                        self.of_upstream(entry, &mut layer);
                    }
                    for own in ["url", "route"] {
                        let Some(at) = layer.values.iter().position(|value| value.setting.key == own) else { continue };
                        let value = layer.values.remove(at);
                        let why = format!("`{own}` cannot be a default; each upstream has its own");
                        let name = layer.name(value.setting);
                        self.file.problems.push(Problem::error(value.place, name, why));
                    }
                    self.file.defaults = layer;
                }
                _ => {
                    let inner = &[UPSTREAMS, DEFAULTS];
                    self.entry(&mut Part { section: Section::Program, layer: &mut program, inner }, key, node);
                }
            }
        }
        self.file.program = program;
        if !has_upstreams && self.file.problems.is_empty() {
            let why = "there are no upstreams; write at least one below `upstreams`, with its url";
            self.file.problems.push(Problem::error(Place::File(0..0), "", why));
        }
    }

    fn upstreams(&mut self, node: &Node, span: &Range<usize>) {
        let entries = self.entries(node, UPSTREAMS, span);
        if matches!(&node.value, tree::Value::Map(entries) if entries.is_empty()) {
            self.tell(span, UPSTREAMS, "there is none; write at least one, with its url");
        }
        if entries.len() > UPSTREAMS_MAX {
            let why = format!("there are {} of them; one program takes up to {UPSTREAMS_MAX}", entries.len());
            return self.tell(span, UPSTREAMS, why);
        }
        for (key, node) in entries {
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            let path = format!("{UPSTREAMS}.{}", key.text);
            if key.text.is_empty() || key.text.len() > 64 || !key.text.bytes().all(is_name) || key.text == "none" {
                let why = format!(
                    "`{}` cannot be the name of an upstream; write up to 64 letters, digits, - and _ (and not `none`, \
                     which metrics use), since it is shown in logs and metrics",
                    key.text
                );
                self.tell(&key.span, UPSTREAMS, why);
            }
            let mut layer = Layer::new(Origin::File, path.clone());
            for entry in self.entries(node, &path, &key.span) {
                self.of_upstream(entry, &mut layer);
            }
            if matches!(&node.value, tree::Value::Map(entries) if entries.iter().all(|(key, _)| key.text != "url")) {
                let why = "it has no url; write where the API is, for example url: https://api.example.com";
                self.tell(&key.span, path, why);
            }
            let place = Place::File(key.span.clone());
            self.file.upstreams.push(Named { name: key.text.clone(), place, layer });
        }
    }

    /// An entry of an upstream, or of the defaults of all.
    fn of_upstream(&mut self, (key, node): &(Key, Node), layer: &mut Layer) {
        const INNER: [&str; 1] = ["queue"];
        let inner = Section::INNER.into_iter().find(|section| section.key() == Some(&*key.text));
        let is_word = matches!(node.value, tree::Value::Text(_) | tree::Value::Nothing);
        match inner {
            // `breaker: off`
            Some(section) if !(is_word && table::find(Section::Upstream, &key.text).is_some()) => {
                let path = format!("{}.{}", layer.path, key.text);
                for (key, node) in self.entries(node, &path, &key.span) {
                    self.entry(&mut Part { section, layer, inner: &[] }, key, node);
                }
                // Whoever settles how it is means that it is.
                if let (Some(switch), Some(section)) = (table::find(Section::Upstream, &key.text), Some(section))
                    && layer.has(section)
                {
                    layer.values.push(Value::one(switch, Item::new("on", Place::File(key.span.clone()))));
                }
            }
            _ => self.entry(&mut Part { section: Section::Upstream, layer, inner: &INNER }, key, node),
        }
    }

    /// A key that must be a setting.
    fn entry(&mut self, part: &mut Part<'_>, key: &Key, node: &Node) {
        match table::find(part.section, &key.text) {
            Some(setting) => {
                let name = part.layer.name(setting);
                if let Some(value) = self.value(setting, &name, key, node) {
                    part.layer.values.push(value);
                }
            }
            None => self.unknown(part, key),
        }
    }

    fn unknown(&mut self, part: &Part<'_>, key: &Key) {
        let path = match (part.layer.path.is_empty(), part.section.key()) {
            (true, _) => String::new(),
            (false, None) => part.layer.path.clone(),
            (false, Some(section)) => format!("{}.{section}", part.layer.path),
        };
        let known: Vec<_> = table::settings()
            .filter(|setting| setting.section == part.section && setting.in_file)
            .map(|setting| setting.key)
            .chain(part.inner.iter().copied())
            .collect();
        let begun = known.iter().find(|known| known.strip_prefix(&*key.text).is_some_and(|rest| rest.starts_with('_')));
        let help = match (begun, misplaced(part, &key.text)) {
            (Some(begun), _) => format!("did you mean `{begun}`?"),
            (None, Some(place)) => format!("it belongs into {place}"),
            (None, None) if key.text == "burst" => "write it into the rate, as in limits: [10/s burst 20]".to_owned(),
            (None, None) => match nearest(&key.text, &known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", known.join(", ")),
            },
        };
        self.tell(&key.span, path, format!("there is no setting `{}` here; {help}", key.text));
    }

    fn value(&mut self, setting: &'static Setting, name: &str, key: &Key, node: &Node) -> Option<Value> {
        let at = if node.span.is_empty() { &key.span } else { &node.span };
        let place = Place::File(at.clone());
        let allowed = || format!("write {}", setting.kind.allowed());
        let nodes = match &node.value {
            tree::Value::Nothing => {
                self.tell(at, name, format!("it has no value; {}, or leave it away", allowed()));
                return None;
            }
            tree::Value::Map(_) => {
                self.tell(&key.span, name, format!("it takes a value, and no settings of its own; {}", allowed()));
                return None;
            }
            tree::Value::List(_) if !setting.kind.is_list() => {
                self.tell(&key.span, name, format!("it takes one value, and no list; {}", allowed()));
                return None;
            }
            tree::Value::List(items) if items.is_empty() && setting.kind == Kind::Limits => {
                self.tell(&key.span, name, "there is none; write `unlimited` if that is meant");
                return None;
            }
            tree::Value::List(items) => items.as_slice(),
            tree::Value::Text(_) => std::slice::from_ref(node),
        };
        let mut items = Vec::new();
        for node in nodes {
            match &node.value {
                tree::Value::Text(text) => items.push(self.item(setting, name, text, &node.span)?),
                _ => {
                    let at = if node.span.is_empty() { &key.span } else { &node.span };
                    self.tell(at, name, format!("every item must be a single value; {}", allowed()));
                    return None;
                }
            }
        }
        Some(Value { setting, items, place })
    }

    fn item(&mut self, setting: &Setting, name: &str, text: &str, span: &Range<usize>) -> Option<Item> {
        let place = Place::File(span.clone());
        let mut item = match resolve(text, &self.directory) {
            Ok(None) => Item::new(text, place),
            Ok(Some(resolved)) => Item { text: resolved, written: Some(text.to_owned()), place },
            Err(why) => {
                self.tell(span, name, why);
                return None;
            }
        };
        match setting.kind {
            // What YAML and JSON call so.
            Kind::Switch | Kind::Flag | Kind::Section if item.text == "true" => item.text = "on".to_owned(),
            Kind::Switch | Kind::Flag | Kind::Section if item.text == "false" => item.text = "off".to_owned(),
            Kind::File => {
                let path = self.directory.join(&item.text);
                item.text = path.to_string_lossy().into_owned();
            }
            _ => {}
        }
        Some(item)
    }
}

/// Where a key belongs that does not stand there.
fn misplaced(part: &Part<'_>, key: &str) -> Option<String> {
    let is_program = part.section == Section::Program;
    if !is_program && table::find(Section::Program, key).is_some() {
        return Some("the top of the file".to_owned());
    }
    let setting = table::of_upstream(key).filter(|setting| setting.in_file);
    let section = match (setting, key) {
        (Some(setting), _) => setting.section,
        (None, "queue") => Section::Upstream,
        (None, _) => return None,
    };
    Some(match (section.key(), is_program) {
        (Some(inner), true) => format!("`{inner}` of an upstream, or of `defaults`"),
        (Some(inner), false) => format!("`{inner}`"),
        (None, true) => "an upstream, or `defaults`".to_owned(),
        (None, false) => "the upstream itself".to_owned(),
    })
}
