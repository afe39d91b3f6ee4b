//! Who said what: values as they were written, from the command line or a part of a settings file.

use std::borrow::Cow;
use std::fmt;

use sopan_engine::shared::RedisUrl;

use super::draft::Drafts;
use super::file::PROBLEMS_MAX;
use super::problem::{Place, Problem};
use super::setting::{Kind, Put, Section, Setting};

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
    /// The keys of what it says and nobody understands, which has been told.
    pub(crate) unread: Vec<&'static str>,
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
#[derive(Clone)]
pub(crate) struct Item {
    /// As it counts.
    pub(crate) text: String,
    /// As it was written, where that is something else: it stands for a variable or a file, and the text is not shown.
    pub(crate) written: Option<String>,
    pub(crate) place: Place,
}

/// Not its text, which may be a secret, or hold one.
impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item").field("written", &self.written).field("place", &self.place).finish_non_exhaustive()
    }
}

impl Item {
    pub(crate) fn new(text: impl Into<String>, place: Place) -> Self {
        Self { text: text.into(), written: None, place }
    }

    /// As it may be shown.
    pub(crate) fn shown(&self) -> &str {
        self.written.as_deref().unwrap_or(&self.text)
    }

    /// What is wrong with it, without what must not be shown: what it stands for may be a secret.
    fn told(&self, setting: &Setting, why: String) -> String {
        match &self.written {
            None => why,
            Some(written) => {
                format!("what `{written}` stands for is not allowed; it must be {}", setting.kind.allowed())
            }
        }
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
        let items: Vec<_> = self.items_shown().collect();
        if self.setting.kind.is_list() { items.join(", ") } else { items.concat() }
    }

    /// The same item by item.
    pub(crate) fn items_shown(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.items.iter().map(|item| match self.setting.kind {
            // It may hold a password.
            Kind::RedisUrl if item.written.is_none() => {
                item.text.parse().map_or("…".into(), |url: RedisUrl| url.to_string().into())
            }
            _ => item.shown().into(),
        })
    }

    /// Puts it, item by item, each with what is wrong with it.
    fn put(&self, drafts: &mut Drafts) -> Vec<Result<(), String>> {
        let mut put = |item: &Item| match self.setting.put {
            Put::Program(put) => put(&mut drafts.program, item.text.trim()),
            Put::Upstream(put) => put(&mut drafts.upstream, item.text.trim()),
            Put::Client(put) => put(&mut drafts.client, item.text.trim()),
            Put::Job(put) => put(&mut drafts.job, item.text.trim()),
        };
        self.items.iter().map(|item| put(item).map_err(|why| item.told(self.setting, why))).collect()
    }
}

impl Layer {
    pub(crate) fn new(origin: Origin, path: impl Into<String>) -> Self {
        Self { origin, path: path.into(), values: Vec::new(), unread: Vec::new() }
    }

    /// All defaults of the table.
    pub(crate) fn table() -> Self {
        let mut layer = Self::new(Origin::Table, "");
        for setting in super::table::settings() {
            let Some(default) = setting.default else { continue };
            let item = |text| Item::new(text, Place::Default);
            let items = match setting.kind.is_list() {
                true => default.split(", ").map(item).collect(),
                false => vec![item(default)],
            };
            layer.values.push(Value { setting, items, place: Place::Default });
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

    /// Takes out what cannot be read, and tells of it. Of a list the rest stays.
    pub(crate) fn sift(&mut self, problems: &mut Vec<Problem>) {
        let mut drafts = Drafts::default();
        let mut wrong = Vec::new();
        for mut value in std::mem::take(&mut self.values) {
            // To say what may have been meant takes time, and nobody reads so many.
            if problems.len() + wrong.len() >= PROBLEMS_MAX {
                self.unread.push(value.setting.key);
                continue;
            }
            let name = self.name(value.setting);
            let put = value.put(&mut drafts);
            let (mut right, before) = (Vec::new(), wrong.len());
            for (item, put) in value.items.into_iter().zip(put) {
                match put {
                    Ok(()) => right.push(item),
                    Err(why) => {
                        let place = item.place.clone();
                        let problem = Problem::error(item.place, name.clone(), why);
                        wrong.push(if value.setting.kind.may_be_secret() { problem.hiding(&place) } else { problem });
                    }
                }
            }
            // A list that was empty is right.
            if right.is_empty() && wrong.len() > before {
                self.unread.push(value.setting.key);
                continue;
            }
            value.items = right;
            self.values.push(value);
        }
        // A flag that settles two things is wrong once.
        wrong.dedup();
        problems.extend(wrong);
    }

    /// Puts a value that was found to be right.
    pub(crate) fn put(value: &Value, drafts: &mut Drafts) {
        let put = value.put(drafts);
        debug_assert!(put.iter().all(Result::is_ok), "{put:?}");
    }
}
