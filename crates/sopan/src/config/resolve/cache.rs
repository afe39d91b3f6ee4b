//! Whether the settings of the cache fit each other, those of an upstream and those of the store that all share.

use std::collections::HashMap;

use super::super::draft::{Program, Treatment};
use super::super::layer::Origin;
use super::super::problem::{Place, Problem};
use super::super::read::show_size;
use super::super::route::Route;
use super::{Resolved, stands_for};

/// An answer above this part of the memory is kept on disk only, since it would drive out too many others.
const SHARE: u64 = 16;

impl Resolved {
    /// Rules for paths: one for each, and within the route.
    pub(super) fn rules_for_paths(&self, upstream: &Treatment, problems: &mut Vec<Problem>) {
        let mut seen = HashMap::new();
        for (at, rule) in upstream.cache.paths.iter().enumerate() {
            let path = rule.path.trim_end_matches('/');
            if let Some(other) = seen.insert(path, at) {
                let why = format!("{} has two rules, and only one can count; keep one", self.told_path(at, &rule.path));
                let problem = self.at_path(at, self.error(&["paths"], why));
                problems.push(match self.item("paths", other) {
                    Some(item) => problem.also(&item.place, "the other one"),
                    None => problem,
                });
            }
            if path.contains('*') {
                let why = format!(
                    "the `*` of {} stands for itself, and hardly a request is for it; write the path without it, since a rule \
                     is for all below its path",
                    self.told_path(at, &rule.path)
                );
                problems.push(self.at_path(at, self.warning(&["paths"], why)));
            }
            let Route::Path(route) = &upstream.route else { continue };
            let is_own = self.value("paths").is_some_and(|(origin, _)| *origin == Origin::File);
            let meet =
                |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            if is_own && !meet(path, route) && !meet(route, path) {
                let why = format!(
                    "no request here is for {}, since the route of this upstream is {route}; write the path as clients ask \
                     for it, with the route in front",
                    self.told_path(at, &rule.path)
                );
                problems.push(self.at_path(at, self.warning(&["paths"], why)));
            }
        }
    }

    fn told_path(&self, at: usize, path: &str) -> String {
        let path = format!("`{path}`");
        self.item("paths", at).map_or_else(|| path.clone(), |item| stands_for(item, &path))
    }

    fn at_path(&self, at: usize, problem: Problem) -> Problem {
        match self.item("paths", at).map(|item| &item.place) {
            Some(place @ Place::File(_)) => Problem { place: place.clone(), ..problem },
            _ => problem,
        }
    }

    /// Settings of the store that make no sense by themselves.
    pub(crate) fn store(&self, program: &Program, problems: &mut Vec<Problem>) {
        let (at, name) = self.at_top("cache_disk_size");
        if at == Place::Default || program.cache_dir.is_some() || !self.is_read("cache_dir") {
            return;
        }
        let set = if name.starts_with("--") { "--cache-dir DIR" } else { "cache_dir: DIR" };
        let why = format!("it bounds what is stored on disk, and nothing is; add {set}, or leave this away");
        problems.push(Problem::error(at, name, why));
    }

    /// Whether answers as large as an upstream wants them stored find room; `top` is what the program says.
    pub(crate) fn room_for_entries(&self, upstream: &Treatment, top: &Self, program: &Program) -> Option<Problem> {
        let (share, wanted) = (program.cache_size / SHARE, upstream.cache.entry_bytes_max);
        let is_said = self.said("entry_bytes_max").is_some() && upstream.cache.on;
        if !is_said || wanted <= share || program.cache_dir.is_some() || !top.is_read("cache_dir") {
            return None;
        }
        let (at, name) = top.at_top("cache_size");
        let default = if at == Place::Default { ", the default" } else { "" };
        let why = format!(
            "bodies above {} are not stored in spite of it, since in memory one takes a sixteenth of {name} ({}{default}) at \
             most; raise that, or set {}, where large ones find room",
            show_size(share),
            show_size(program.cache_size),
            if name.starts_with("--") { "--cache-dir" } else { "cache_dir" }
        );
        Some(self.warning(&["entry_bytes_max"], why).also(&at, "the memory is here"))
    }
}
