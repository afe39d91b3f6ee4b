//! Who said what: values as they were written, from the command line or a part of a settings file.

use super::draft::{Program, Treatment};
use super::problem::{Place, Problem};
use super::setting::{Put, Section, Setting};

/// Where a layer comes from, the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    Flags,
    /// The file, at the place that is meant for it.
    File,
    /// The file's `defaults` of all upstreams.
    Defaults,
    /// The table.
    Table,
}

/// What one source says.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub(crate) origin: Origin,
    /// What is above its keys in the file: `upstreams.shop`; empty at the top, and for flags.
    pub(crate) path: String,
    pub(crate) values: Vec<Value>,
}

/// A setting as it was written.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    pub(crate) setting: &'static Setting,
    /// One, but for lists.
    pub(crate) items: Vec<Item>,
    /// The value as a whole.
    pub(crate) place: Place,
}

/// A single text.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    /// As it counts.
    pub(crate) text: String,
    /// As it was written, where that is something else: it stands for a variable or a file, and the text is not shown.
    pub(crate) written: Option<String>,
    pub(crate) place: Place,
}

impl Item {
    pub(crate) fn new(text: impl Into<String>, place: Place) -> Self {
        Self { text: text.into(), written: None, place }
    }

    /// As it may be shown.
    pub(crate) fn shown(&self) -> &str {
        self.written.as_deref().unwrap_or(&self.text)
    }
}

impl Value {
    /// A value that is one text.
    pub(crate) fn one(setting: &'static Setting, item: Item) -> Self {
        let place = item.place.clone();
        Self { setting, items: vec![item], place }
    }

    /// As it may be shown.
    pub(crate) fn shown(&self) -> String {
        let items: Vec<_> = self.items.iter().map(Item::shown).collect();
        if self.setting.kind.is_list() { items.join(", ") } else { items.concat() }
    }

    /// Puts it; what is wrong with any of it.
    fn put(&self, program: &mut Program, upstream: &mut Treatment) -> Vec<(Place, String)> {
        let mut wrong = Vec::new();
        for item in &self.items {
            let put = match self.setting.put {
                Put::Program(put) => put(program, item.text.trim()),
                Put::Upstream(put) => put(upstream, item.text.trim()),
            };
            if let Err(why) = put {
                let why = match &item.written {
                    None => why,
                    // What it stands for may be a secret.
                    Some(written) => format!(
                        "what `{written}` stands for is not allowed; it must be {}",
                        self.setting.kind.allowed()
                    ),
                };
                wrong.push((item.place.clone(), why));
            }
        }
        wrong
    }
}

impl Layer {
    pub(crate) fn new(origin: Origin, path: impl Into<String>) -> Self {
        Self { origin, path: path.into(), values: Vec::new() }
    }

    /// All defaults of the table.
    pub(crate) fn table() -> Self {
        let mut layer = Self::new(Origin::Table, "");
        for setting in super::table::settings() {
            if let Some(default) = setting.default {
                layer.values.push(Value::one(setting, Item::new(default, Place::Default)));
            }
        }
        layer
    }

    /// What it says of a setting.
    pub(crate) fn get(&self, setting: &Setting) -> Option<&Value> {
        self.values.iter().find(|value| std::ptr::eq(value.setting, setting))
    }

    /// Whether it says anything of a section.
    pub(crate) fn has(&self, section: Section) -> bool {
        self.values.iter().any(|value| value.setting.section == section)
    }

    /// The name of a setting in it, as it is told to people.
    pub(crate) fn name(&self, setting: &Setting) -> String {
        if self.path.is_empty() { setting.path() } else { format!("{}.{}", self.path, setting.path()) }
    }

    /// Takes out what cannot be read, and tells of it.
    pub(crate) fn sift(&mut self, problems: &mut Vec<Problem>) {
        let (mut program, mut upstream) = (Program::new(), Treatment::new());
        let mut wrong = Vec::new();
        let names: Vec<_> = self.values.iter().map(|value| self.name(value.setting)).collect();
        let mut names = names.into_iter();
        self.values.retain(|value| {
            let name = names.next().unwrap_or_default();
            let told = value.put(&mut program, &mut upstream);
            let is_right = told.is_empty();
            wrong.extend(told.into_iter().map(|(place, why)| Problem::error(place, name.clone(), why)));
            is_right
        });
        // A flag that settles two things is wrong once.
        wrong.dedup();
        problems.extend(wrong);
    }

    /// Puts a value that was found to be right.
    pub(crate) fn put(value: &Value, program: &mut Program, upstream: &mut Treatment) {
        let wrong = value.put(program, upstream);
        debug_assert!(wrong.is_empty(), "{wrong:?}");
    }
}
