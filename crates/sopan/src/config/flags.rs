//! Flags as a layer of settings.

use std::fmt;
use std::net::SocketAddr;

use super::layer::{Item, Layer, Origin, Value};
use super::problem::{Place, Problem};
use super::setting::{Kind, Section, Setting};
use super::table;
use crate::sockets::Role;

/// What was typed for each flag, in the order of the table.
#[derive(Clone, Default)]
pub(crate) struct Typed {
    flags: Vec<(&'static Setting, Vec<String>)>,
    /// Where it is listened already, whatever was typed.
    handed: Vec<(Role, SocketAddr)>,
    /// The only job that flags are for; none if they are for all.
    job: Option<String>,
}

/// Only which, since a URL may hold a password.
impl fmt::Debug for Typed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.flags.iter().map(|(setting, _)| setting.path())).finish()
    }
}

impl Typed {
    pub(crate) fn of(flags: Vec<(&'static Setting, Vec<String>)>) -> Self {
        Self { flags, handed: Vec::new(), job: None }
    }

    /// The same where it is listened already.
    pub(crate) fn listening(&self, handed: &[(Role, SocketAddr)]) -> Self {
        Self { handed: handed.to_vec(), ..self.clone() }
    }

    /// The same for one job of a file.
    pub(crate) fn for_job(&self, job: Option<&str>) -> Self {
        Self { job: job.map(str::to_owned), ..self.clone() }
    }

    /// Whether they are for a job of that name, too.
    pub(super) fn is_for(&self, job: &str) -> bool {
        self.job.as_deref().is_none_or(|only| only == job)
    }

    /// What they say, and what of it cannot be taken apart.
    pub(crate) fn layer(&self, problems: &mut Vec<Problem>) -> Layer {
        let mut layer = Layer::new(Origin::Flags, "");
        for (setting, texts) in &self.flags {
            let place = Place::Flag(setting.typed().unwrap_or_default());
            if setting.kind == Kind::InlineSection {
                section(setting, texts, &mut layer, problems);
                continue;
            }
            let items: Vec<_> = texts.iter().map(|text| Item::new(text.as_str(), place.clone())).collect();
            // --idle-timeout is meant for both sides.
            for also in table::settings().filter(|s| s.flag.is_none() && s.section == Section::Program) {
                if also.key == setting.key {
                    layer.values.push(Value { setting: also, items: items.clone(), place: place.clone() });
                }
            }
            layer.values.push(Value { setting, items, place });
        }
        for (role, address) in &self.handed {
            let Some(setting) = table::find(Section::Program, role.key()) else { continue };
            layer.values.retain(|value| !std::ptr::eq(value.setting, setting));
            layer.values.push(Value::one(setting, Item::new(address.to_string(), Place::Flag(role.to_string()))));
        }
        layer
    }
}

/// `on`, `off`, or settings such as `failures=3,open_for=2s`.
fn section(setting: &'static Setting, texts: &[String], layer: &mut Layer, problems: &mut Vec<Problem>) {
    let flag = setting.typed().unwrap_or_default();
    let place = Place::Flag(flag.clone());
    let typed = texts.concat();
    let typed = typed.trim();
    if matches!(typed, "on" | "off") {
        return layer.values.push(Value::one(setting, Item::new(typed, place)));
    }
    let inner = Section::INNER.into_iter().find(|section| section.key() == Some(setting.key));
    let known = || table::settings().filter(move |setting| Some(setting.section) == inner);
    for item in typed.split(',').map(str::trim) {
        let Some((key, text)) = item.split_once('=') else {
            let why = format!("`{item}` is not allowed; write on, off, or settings such as failures=3,open_for=2s");
            problems.push(Problem::error(place.clone(), "", why));
            continue;
        };
        match known().find(|setting| setting.key == key) {
            None => {
                let keys: Vec<_> = known().map(|setting| setting.key).collect();
                let why = format!("`{key}` is no setting of the {}; there are {}", setting.key, keys.join(", "));
                problems.push(Problem::error(place.clone(), "", why));
            }
            Some(setting) if layer.get(setting).is_some() => {
                problems.push(Problem::error(place.clone(), "", format!("`{key}` is given twice")));
            }
            Some(setting) => {
                let place = Place::Flag(format!("{flag} {key}"));
                layer.values.push(Value::one(setting, Item::new(text, place)));
            }
        }
    }
    layer.values.push(Value::one(setting, Item::new("on", place)));
}
