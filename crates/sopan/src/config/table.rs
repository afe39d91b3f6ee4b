//! All settings of the proxy, one row each, in the order of the help.

mod cache;
mod clients;
mod connections;
mod credential;
mod jobs;
mod limits;
mod passing;
mod program;
mod redis;
mod retries;
mod traces;
mod waiting;

use std::fmt::Display;

use super::setting::{Group, Kind, Put, Rank, Section, Setting};

pub(crate) static GROUPS: [Group; 12] = [
    program::GROUP,
    credential::GROUP,
    limits::GROUP,
    waiting::GROUP,
    retries::GROUP,
    cache::GROUP,
    connections::GROUP,
    passing::GROUP,
    clients::GROUP,
    redis::GROUP,
    traces::GROUP,
    jobs::GROUP,
];

/// All of them.
pub(crate) fn settings() -> impl Iterator<Item = &'static Setting> {
    GROUPS.iter().flat_map(|group| group.settings)
}

/// The setting with this key in this part of a settings file.
pub(crate) fn find(section: Section, key: &str) -> Option<&'static Setting> {
    settings().find(|setting| setting.section == section && setting.key == key && setting.in_file)
}

/// The setting of an upstream with this key, wherever it stands there. No two have the same.
pub(crate) fn of_upstream(key: &str) -> Option<&'static Setting> {
    settings().find(|setting| setting.section.is_of_upstream() && setting.key == key)
}

/// What most rows have in common.
const ROW: Setting = Setting {
    key: "",
    section: Section::Upstream,
    flag: None,
    in_file: true,
    fetch: false,
    kind: Kind::Switch,
    default: None,
    help: "",
    why: "",
    rank: Rank::Rare,
    put: Put::Program(|_, _| Ok(())),
};

fn set<T, E: Display>(place: &mut T, read: Result<T, E>) -> Result<(), String> {
    *place = read.map_err(|error| error.to_string())?;
    Ok(())
}
