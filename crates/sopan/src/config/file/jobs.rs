//! The jobs of a settings file, by their names.

use std::ops::Range;

use super::super::layer::{Layer, Origin};
use super::super::problem::Place;
use super::super::read::job_name;
use super::super::setting::Section;
use super::super::tree::{self, Key, Node};
use super::meant::Part;
use super::{JOBS, Named, Reader};

/// The most jobs of a file.
const JOBS_MAX: usize = 1000;
/// What each must say.
const NEEDED: [(&str, &str); 2] = [
    ("path", "what is asked for first, for example path: /orders?per_page=100"),
    ("out", "where its records go, for example out: orders.jsonl"),
];

impl Reader {
    pub(super) fn jobs(&mut self, node: &Node, span: &Range<usize>) {
        let entries = self.entries(node, JOBS, span, "a name for each, and its path and out");
        if matches!(&node.value, tree::Value::Map(entries) if entries.is_empty()) {
            self.tell(span, JOBS, "there is none; write at least one, with its path and out, or leave `jobs` away");
        }
        if entries.len() > JOBS_MAX {
            let why =
                format!("there are {} of them, and one file has up to {JOBS_MAX}; make several files", entries.len());
            return self.tell(span, JOBS, why);
        }
        for (key, node) in entries {
            let job = self.job(key, node);
            self.file.jobs.push(job);
        }
    }

    fn job(&mut self, key: &Key, node: &Node) -> Named {
        let path = format!("{JOBS}.{}", key.text);
        if let Err(why) = job_name(&key.text) {
            self.tell(&key.span, JOBS, why);
        }
        let mut layer = Layer::new(Origin::File, path.clone());
        let mut said = Vec::new();
        for (key, node) in self.entries(node, &path, &key.span, "path: /orders?per_page=100 and out: orders.jsonl") {
            let part = &mut Part { section: Section::Job, layer: &mut layer, inner: &[] };
            said.extend(self.entry(part, key, node));
        }
        if matches!(node.value, tree::Value::Map(_)) {
            for (name, what) in NEEDED.iter().filter(|(name, _)| !said.contains(name)) {
                self.tell(&key.span, path.clone(), format!("it has no {name}; write {what}"));
            }
        }
        Named { name: key.text.clone(), place: Place::File(key.span.clone()), layer }
    }
}
