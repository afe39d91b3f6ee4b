//! The clients of a settings file, by their names.

use std::ops::Range;

use super::super::layer::{Layer, Origin};
use super::super::problem::Place;
use super::super::read::client_name;
use super::super::setting::Section;
use super::super::tree::{self, Key, Node};
use super::meant::Part;
use super::{CLIENTS, Named, Reader};

/// The most clients of a program.
const CLIENTS_MAX: usize = 1000;

impl Reader {
    pub(super) fn clients(&mut self, node: &Node, span: &Range<usize>) {
        let entries = self.entries(node, CLIENTS, span, "a name for each, and its key_sha256");
        if matches!(&node.value, tree::Value::Map(entries) if entries.is_empty()) {
            let why = "there is none, and then nobody is let in; write at least one, or leave `clients` away";
            self.tell(span, CLIENTS, why);
        }
        if entries.len() > CLIENTS_MAX {
            let why = format!("there are {} of them, and one program takes up to {CLIENTS_MAX}", entries.len());
            return self.tell(span, CLIENTS, why);
        }
        let clients = entries.iter().map(|(key, node)| self.client(key, node)).collect();
        self.file.clients = Some(clients);
    }

    fn client(&mut self, key: &Key, node: &Node) -> Named {
        let path = format!("{CLIENTS}.{}", key.text);
        if let Err(why) = client_name(&key.text) {
            self.tell(&key.span, CLIENTS, why);
        }
        let mut layer = Layer::new(Origin::File, path.clone());
        let mut has_key = false;
        let example = "key_sha256: and what `sopan keys new` prints";
        for (key, node) in self.entries(node, &path, &key.span, example) {
            let part = &mut Part { section: Section::Client, layer: &mut layer, inner: &[] };
            has_key |= self.entry(part, key, node) == Some("key_sha256");
        }
        if !has_key && matches!(node.value, tree::Value::Map(_)) {
            let why =
                "it has no key_sha256, by which its key is known; write what `sopan keys new` prints for the file";
            self.tell(&key.span, path, why);
        }
        Named { name: key.text.clone(), place: Place::File(key.span.clone()), layer }
    }
}
